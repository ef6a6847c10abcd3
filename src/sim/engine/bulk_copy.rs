//! Compiles and executes bulk and tensor (TMA) copies between global and shared memory, in both
//! directions. The asynchronous proxy performs these copies, so after a thread has written the
//! source in shared memory, a `fence.proxy.async` must come before the copy. `tensor_copy.rs`
//! computes the boxes.

use std::ops::Range;

use super::bulk_reduce::combine;
use super::mbarrier::Operand;
use super::tensor_copy::{Segment, fill, segments};
use crate::arch::{SwizzleMode, TensorMapDesc};
use crate::ir::op::{AsyncCopy, BoxMode, BulkReduce, BulkWait};
use crate::ir::types::{Scalar, Space};
use crate::ir::{OpId, Value};
use crate::sim::fault::raw::{AccessAt, Origin};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::address::{Address, Alloc};
use crate::sim::memory::agent::{Coords, Global, Load, MAX_COORDS, Store, What};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::mask::lanes_of;
use crate::sim::memory::races::{Detector, mbarrier_address};
use crate::sim::memory::shared::ByteAddress;
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::{ExecContext, Next};
use crate::sim::program::refused::Refused;
use crate::sim::race::Pieces;

impl Memory<'_> {
    /// Returns how many bytes of shared memory a box spans, from its first to its last.
    fn footprint(&self, map: u32) -> usize {
        self.map(map).map_or(0, |map| map.shared_bytes() as usize)
    }

    /// Calls `f` with the parts of a box that are inside the tensor, with offsets in its buffer.
    fn segments(&self, number: u32, coords: &Coords, f: &mut dyn FnMut(Segment)) {
        let (start, Some(map)) = (self.start_of_map(number), self.map(number)) else { return };
        segments(map, coords, &mut |part| f(Segment { global: start + part.global, ..part }));
    }
}

/// Returns a range that contains the bytes wherever a swizzle moves them, because it moves them
/// within 128-byte lines.
fn around(start: usize, bytes: usize) -> Range<usize> {
    start / 128 * 128..(start + bytes).next_multiple_of(128)
}

/// How bytes that are adjacent in the copy are laid out in shared memory.
#[derive(Clone, Copy, Debug)]
struct Rows {
    /// Bytes in a row, and bytes from one row to the next.
    bytes: usize,
    pitch: usize,
    swizzle: SwizzleMode,
}

impl Rows {
    /// A single row of any length.
    const ONE: Rows = Rows { bytes: usize::MAX, pitch: 0, swizzle: SwizzleMode::None };

    fn of(map: &TensorMapDesc) -> Rows {
        let inner = map.box_extents().next().unwrap_or(0) as usize;
        let bytes = (inner * map.elem().size_bytes() as usize).max(1);
        Rows { bytes, pitch: map.row_pitch_bytes() as usize, swizzle: map.swizzle() }
    }

    /// Calls `f` with each piece of at most 16 bytes that stays together, for a copy that starts at
    /// `at`: its address, and its place in the data.
    fn chunks(&self, at: usize, range: Range<usize>, mut f: impl FnMut(usize, Range<usize>)) {
        let mut from = range.start;
        while from < range.end {
            let (row, column) = (from / self.bytes, from % self.bytes);
            let byte = at + row * self.pitch + column;
            let to = (from + 16 - byte % 16)
                .min(range.end)
                .min(from.saturating_add(self.bytes - column));
            f(self.swizzle.apply(byte as u64) as usize, from..to);
            from = to;
        }
    }
}

impl Load {
    /// Returns a range that contains the shared memory that is written.
    pub(in crate::sim) fn hull(&self, memory: &Memory<'_>) -> Range<usize> {
        let bytes = match self.from {
            Global::Bytes(_) => self.bytes as usize,
            Global::Box { map, .. } => memory.footprint(map),
        };
        around(self.to.at, bytes)
    }

    /// Calls `f` with each piece of shared memory that is written: its address, and its place in
    /// the data.
    pub(in crate::sim) fn pieces(&self, memory: &Memory<'_>, f: impl FnMut(usize, Range<usize>)) {
        let rows = match self.from {
            Global::Bytes(_) => Rows::ONE,
            Global::Box { map, .. } => memory.map(map).map_or(Rows::ONE, Rows::of),
        };
        rows.chunks(self.to.at, 0..self.bytes as usize, f);
    }

    /// Calls `f` with each piece of global memory that is read: its address, and its length.
    pub(in crate::sim) fn sources(&self, memory: &Memory<'_>, f: &mut dyn FnMut(usize, usize)) {
        match self.from {
            Global::Bytes(from) => f(from.at, self.bytes as usize),
            Global::Box { map, coords } => {
                memory.segments(map, &coords, &mut |part| f(part.global, part.bytes));
            }
        }
    }

    /// Returns the element type.
    pub(in crate::sim) fn elem(&self, memory: &Memory<'_>) -> Scalar {
        match self.from {
            Global::Bytes(_) => Scalar::U8,
            Global::Box { map, .. } => memory.map(map).map_or(Scalar::U8, TensorMapDesc::elem),
        }
    }

    /// Performs the copy, then signals the mbarrier.
    pub(in crate::sim) fn load(&self, memory: &mut Memory<'_>, origin: Origin) -> RawResult {
        let trapped = |cause| RawFault::new(self.lane, cause);
        let mut data = vec![0; self.bytes as usize];
        let mut rows = Rows::ONE;
        match self.from {
            Global::Bytes(from) => match self.source {
                Some(rank) => self.read_shared(memory, rank, from, &mut data)?,
                None => memory.global(from.alloc).read_bytes(from.at, &mut data),
            },
            Global::Box { map: number, coords } => {
                if let Some(map) = memory.map(number) {
                    rows = Rows::of(map);
                    fill(map, &mut data);
                    let buffer = memory.global(memory.param_of_map(number));
                    memory.segments(number, &coords, &mut |part| {
                        let into = &mut data[part.shared..part.shared + part.bytes];
                        buffer.read_bytes(part.global, into);
                    });
                }
            }
        }
        let shared = memory.shared_of_mut(self.block).map_err(trapped)?;
        // The mbarrier must be there before anything is written, because the data may overwrite it.
        shared.barrier(self.barrier).map_err(trapped)?;
        rows.chunks(self.to.at, 0..data.len(), |at, part| {
            shared.write_bytes(at, &data[part]);
        });
        let signalled = shared.update_barrier(self.barrier, |barrier, name| {
            barrier.expect(-i64::from(self.bytes), name)
        });
        let (_, ended) = signalled.map_err(trapped)?;
        memory.note_completion(
            origin,
            self.number,
            mbarrier_address(self.block, self.barrier),
            ended,
        );
        Ok(())
    }
}

impl Store {
    pub(in crate::sim) fn is_read(&self) -> bool {
        self.data.is_some()
    }

    /// Returns a range that contains the shared memory that is read.
    pub(in crate::sim) fn hull(&self, memory: &Memory<'_>) -> Range<usize> {
        let bytes = match self.to {
            Global::Bytes(_) => self.bytes as usize,
            Global::Box { map, .. } => memory.footprint(map),
        };
        around(self.from.at, bytes)
    }

    /// Calls `f` with each piece of shared memory that is stored: its address, and its place in the
    /// data.
    pub(in crate::sim) fn pieces(
        &self,
        memory: &Memory<'_>,
        mut f: impl FnMut(usize, Range<usize>),
    ) {
        let start = self.from.at;
        match self.to {
            Global::Bytes(_) => Rows::ONE.chunks(start, 0..self.bytes as usize, f),
            Global::Box { map: number, coords } => {
                let Some(map) = memory.map(number) else { return };
                let rows = Rows::of(map);
                self.segments(memory, number, &coords, &mut |part| {
                    rows.chunks(start, part.shared..part.shared + part.bytes, &mut f);
                });
            }
        }
    }

    /// Calls `f` with the parts of a box that are written. The hardware stores whole 16-byte units,
    /// which includes elements of a row's last unit that are outside the tensor.
    fn segments(
        &self,
        memory: &Memory<'_>,
        number: u32,
        coords: &Coords,
        f: &mut dyn FnMut(Segment),
    ) {
        const UNIT: usize = 16;
        let Some(map) = memory.map(number) else { return };
        let (row, end) =
            (Rows::of(map).bytes, memory.global(memory.param_of_map(number)).len_bytes());
        let whole = self.reduce.is_none() && map.element_strides().iter().all(|step| *step == 1);
        memory.segments(number, coords, &mut |part| {
            let unit = (part.global + part.bytes).next_multiple_of(UNIT).min(end) - part.global;
            let bytes = if whole { unit.min(row - part.shared % row) } else { part.bytes };
            f(Segment { bytes: bytes.max(part.bytes), ..part });
        });
    }

    /// Returns the element type.
    fn elem(&self, memory: &Memory<'_>) -> Scalar {
        match self.to {
            Global::Bytes(_) => Scalar::U8,
            Global::Box { map, .. } => memory.map(map).map_or(Scalar::U8, TensorMapDesc::elem),
        }
    }

    /// Passes the store to the race detector.
    fn detect(&self, memory: &mut Memory<'_>, origin: Origin) {
        let lane = self.lane as u32;
        let elem = self.elem(memory);
        memory.detect(elem, |Detector { races, buffers, .. }, memory| {
            let mut from = |f: &mut dyn FnMut(usize, usize)| {
                self.pieces(memory, |at, part| f(at, part.len()));
            };
            let mut to = |f: &mut dyn FnMut(usize, usize)| match self.to {
                Global::Bytes(to) => f(to.at, self.bytes as usize),
                Global::Box { map, coords } => {
                    self.segments(memory, map, &coords, &mut |part| f(part.global, part.bytes));
                }
            };
            let param = match self.to {
                Global::Bytes(to) => to.alloc,
                Global::Box { map, .. } => memory.param_of_map(map),
            };
            let to: Option<(usize, Pieces<'_>)> =
                match buffers.get(param as usize).copied().flatten() {
                    None => None,
                    Some(buffer) => Some((buffer, &mut to)),
                };
            races.store_issue(origin.into(), lane, &mut from, to, self.reduce.is_some());
        });
    }

    /// Returns a fault if the asynchronous proxy may not see what threads have stored.
    fn check_proxy(&self, memory: &Memory<'_>, origin: Origin) -> RawResult {
        let Some(proxies) = &memory.proxies else { return Ok(()) };
        let shared = &memory.blocks[origin.block as usize].shared;
        let mut seen = Ok(());
        self.pieces(memory, |at, part| {
            if seen.is_ok() {
                seen = proxies.check(&shared.stores, at, part.len());
            }
        });
        seen.map_err(|cause| RawFault::new(self.lane, cause))
    }

    /// Reads the source in shared memory, unless it has been read already.
    pub(in crate::sim) fn read(&mut self, memory: &Memory<'_>, origin: Origin) -> RawResult {
        if self.is_read() {
            return Ok(());
        }
        let shared = &memory.blocks[origin.block as usize].shared;
        let mut data = vec![0; self.bytes as usize];
        let (mut missing, start) = (None, self.from.at);
        self.pieces(memory, |at, part| {
            if let Err(byte) = shared.read_bytes(at, &mut data[part]) {
                missing = missing.or(Some(byte));
            }
        });
        if let Some(byte) = missing {
            let elem = self.elem(memory);
            let range = shared.range(self.from.alloc);
            let access = AccessAt {
                is_store: Some(false),
                space: Space::Shared,
                alloc: self.from.alloc,
                elem,
                byte: start.saturating_sub(range.start) as i128,
                bytes: self.bytes,
                align: 16,
                len_bytes: range.len as u64,
            };
            return Err(RawFault::new(self.lane, shared.missing(access, byte)));
        }
        self.data = Some(data);
        Ok(())
    }

    /// Writes the bytes that [`Store::read`] has read to global memory.
    pub(in crate::sim) fn write(&self, memory: &Memory<'_>) -> RawResult {
        let Some(data) = &self.data else { return Ok(()) };
        match self.to {
            Global::Bytes(ByteAddress { alloc, at }) => memory.global(alloc).write_bytes(at, data),
            Global::Box { map: number, coords } => {
                let Some(map) = memory.map(number) else { return Ok(()) };
                let buffer = memory.global(memory.param_of_map(number));
                let elem = map.elem();
                self.segments(memory, number, &coords, &mut |part| {
                    let from = &data[part.shared..part.shared + part.bytes];
                    match self.reduce {
                        None => buffer.write_bytes(part.global, from),
                        Some(op) => combine(buffer, part.global, from, op, elem),
                    }
                });
            }
        }
        Ok(())
    }
}

/// Returns the address of a box in shared memory, and its size in bytes.
fn box_address(
    address: &Address,
    context: &ExecContext<'_, '_>,
    lane: usize,
    map: u32,
) -> RawResult<(ByteAddress, u32)> {
    let Some(map) = context.memory.map(map) else {
        return Ok((ByteAddress { alloc: 0, at: 0 }, 0));
    };
    let bytes = map.box_bytes() as u32;
    let byte_address =
        address.byte_address(context.regs, context.memory, lane, map.shared_bytes() as u32, 128)?;
    Ok((byte_address, bytes))
}

/// The slots of a tensor map and its coordinates.
#[derive(Clone, Copy)]
struct BoxSlots {
    map: Alloc,
    coords: [u32; MAX_COORDS],
    /// How many coordinates and offsets there are.
    len: usize,
    mode: BoxMode,
}

impl BoxSlots {
    /// Returns a lane's tensor map and coordinates. The box must start at a multiple of 16 bytes,
    /// because the hardware otherwise raises an illegal instruction.
    fn lane(&self, context: &ExecContext<'_, '_>, lane: usize) -> RawResult<(u32, Coords)> {
        let regs = &context.regs;
        let number = self.map.lane(regs, lane);
        let coord = |dim: usize| regs.w[self.coords[dim] as usize][lane] as i32;
        let coords: Coords = std::array::from_fn(|dim| if dim < self.len { coord(dim) } else { 0 });
        if let Some(map) = context.memory.map(number) {
            let (coord, elem) = (coords[0], map.elem());
            if i64::from(coord) * i64::from(elem.size_bytes()) % 16 != 0 {
                return Err(RawFault::new(lane, RawCause::BoxStart { coord, elem }));
            }
            check_pixels(map, self.mode, &coords).map_err(|cause| RawFault::new(lane, cause))?;
        }
        Ok((number, coords))
    }
}

/// Checks that the copy's mode is the map's, and that an im2col copy starts within the box of base
/// pixels.
fn check_pixels(map: &TensorMapDesc, mode: BoxMode, coords: &Coords) -> Result<(), RawCause> {
    let im2col = map.pixel_box().is_some();
    if im2col != (mode == BoxMode::Im2col) {
        return Err(RawCause::BoxMode { im2col });
    }
    // All offsets together take 16 bits.
    let limit = 1 << [16, 8, 5][map.offsets().clamp(1, 3) - 1];
    for (dim, at) in (1..).zip(0..map.offsets()) {
        let (coord, offset) = (coords[dim as usize], coords[map.rank() + at]);
        let (first, last) = map.pixel_range(dim as usize).unwrap_or((0, 0));
        if !(first..=last).contains(&coord.into()) {
            return Err(RawCause::PixelStart { dim, coord, first, last });
        }
        if !(0..limit).contains(&offset) {
            return Err(RawCause::PixelOffset { dim, offset, limit });
        }
    }
    Ok(())
}

/// Checks that a store does not start at a negative coordinate, and that in im2col mode all base
/// pixels are inside the tensor (PTX ISA 9.7.9.25.5, restrictions on tensor copies to global
/// memory). Otherwise a GPU raises an illegal instruction.
fn check_store(map: &TensorMapDesc, coords: &Coords) -> Result<(), RawCause> {
    if let Some((dim, range, extent)) = map.pixels_outside() {
        let (first, last) = range;
        return Err(RawCause::PixelBox { dim, first, last, extent });
    }
    let mut starts = (0..).zip(&coords[..map.rank()]);
    match starts.find(|(_, coord)| **coord < 0) {
        Some((dim, coord)) => Err(RawCause::NegativeStart { dim, coord: *coord }),
        None => Ok(()),
    }
}

/// The operands of a tensor load.
#[derive(Clone, Copy)]
struct LoadSlots {
    from: BoxSlots,
    to: Address,
    barrier: Operand,
    /// The slot of the mask of destination blocks; `None` for the own block.
    ctas: Option<u32>,
}

impl LoadSlots {
    fn issue(&self, context: &mut ExecContext<'_, '_>, lane: usize) -> RawResult {
        let (map, coords) = self.from.lane(context, lane)?;
        let (to, bytes) = box_address(&self.to, context, lane, map)?;
        let barrier = self.barrier.byte_address(context, lane)?;
        let here = context.origin.block;
        let ctas = match self.ctas {
            None => 1 << here,
            Some(slot) => context.regs.w[slot as usize][lane] & 0xffff,
        };
        let from = Global::Box { map, coords };
        for block in lanes_of(ctas) {
            let block = block as u32;
            context.memory.shared_of(block).map_err(|cause| RawFault::new(lane, cause))?;
            let (number, source) = (0, None);
            let load = Load { lane, block, from, source, to, bytes, barrier, number };
            context.memory.begin_load(context.origin, load)?;
        }
        Ok(())
    }
}

/// Makes an instruction that calls `f` with each active lane.
pub(super) fn each_lane(
    f: impl Fn(&mut ExecContext<'_, '_>, usize) -> RawResult + Send + Sync + 'static,
) -> Inst {
    Inst::Act(Box::new(move |context| {
        for lane in lanes_of(context.active) {
            f(context, lane)?;
        }
        Ok(Next::Go)
    }))
}

/// Returns a lane's byte count for a bulk copy.
pub(super) fn bulk_bytes(context: &ExecContext<'_, '_>, slot: u32, lane: usize) -> RawResult<u32> {
    let bytes = context.regs.w[slot as usize][lane];
    if bytes == 0 || !bytes.is_multiple_of(16) {
        return Err(RawFault::new(lane, RawCause::CopyBytes { bytes, limit: 0 }));
    }
    Ok(bytes)
}

impl Compiler<'_> {
    pub(super) fn in_shared(&self, base: Value, index: Value) -> Result<Address, Refused> {
        self.address_in(Space::Shared, base, index)
    }

    pub(super) fn in_global(&self, base: Value, index: Value) -> Result<Address, Refused> {
        self.address_in(Space::Global, base, index)
    }

    fn box_slots(&self, map: Value, coords: &[Value], mode: BoxMode) -> Result<BoxSlots, Refused> {
        let len = coords.len();
        if len > MAX_COORDS {
            return Err(Refused::Malformed);
        }
        let mut slots = [0; MAX_COORDS];
        for (slot, coord) in slots.iter_mut().zip(coords) {
            *slot = self.scalar_of(*coord, Scalar::I32)?;
        }
        Ok(BoxSlots { map: self.tensor_map(map)?, coords: slots, len, mode })
    }

    pub(in crate::sim) fn bulk_copy(&mut self, id: OpId, op: &AsyncCopy) -> Result<(), Refused> {
        let inst = match op {
            &AsyncCopy::CpAsyncBulkLoad {
                to,
                to_index,
                from,
                from_index,
                bytes,
                barrier,
                barrier_index,
                policy: _,
            } => {
                let (to, from) = (self.in_shared(to, to_index)?, self.in_global(from, from_index)?);
                let barrier = self.barrier_operand(barrier, barrier_index)?;
                let bytes = self.scalar_of(bytes, Scalar::U32)?;
                each_lane(move |context, lane| {
                    let bytes = bulk_bytes(context, bytes, lane)?;
                    let to = to.byte_address(context.regs, context.memory, lane, bytes, 16)?;
                    let from = from.byte_address(context.regs, context.memory, lane, bytes, 16)?;
                    let (barrier, block) =
                        (barrier.byte_address(context, lane)?, context.origin.block);
                    let (from, number, source) = (Global::Bytes(from), 0, None);
                    let load = Load { lane, block, from, source, to, bytes, barrier, number };
                    context.memory.begin_load(context.origin, load)
                })
            }
            &AsyncCopy::CpAsyncBulkMulticast {
                to,
                to_index,
                from,
                from_index,
                bytes,
                barrier,
                barrier_index,
                ctas,
                policy: _,
            } => {
                let sides = [to, to_index, from, from_index];
                self.bulk_multicast(sides, bytes, [barrier, barrier_index], ctas)?
            }
            &AsyncCopy::CpAsyncBulkCluster {
                to,
                to_index,
                from,
                from_index,
                bytes,
                barrier,
                barrier_index,
            } => {
                let sides = [to, to_index, from, from_index];
                self.bulk_cluster(sides, bytes, [barrier, barrier_index])?
            }
            &AsyncCopy::CpAsyncBulkStore { to, to_index, from, from_index, bytes, policy: _ } => {
                let (to, from) = (self.in_global(to, to_index)?, self.in_shared(from, from_index)?);
                let bytes = self.scalar_of(bytes, Scalar::U32)?;
                each_lane(move |context, lane| {
                    let bytes = bulk_bytes(context, bytes, lane)?;
                    let to = to.byte_address(context.regs, context.memory, lane, bytes, 16)?;
                    let from = from.byte_address(context.regs, context.memory, lane, bytes, 16)?;
                    store(context, lane, Global::Bytes(to), from, bytes, None)
                })
            }
            &AsyncCopy::CpAsyncBulkPrefetch { from, from_index, bytes, policy: _ } => {
                let (from, bytes) =
                    (self.in_global(from, from_index)?, self.scalar_of(bytes, Scalar::U32)?);
                each_lane(move |context, lane| {
                    let bytes = bulk_bytes(context, bytes, lane)?;
                    from.byte_address(context.regs, context.memory, lane, bytes, 16).map(|_| ())
                })
            }
            AsyncCopy::CpAsyncBulkTensorLoad {
                map,
                to,
                to_index,
                barrier,
                barrier_index,
                coords,
                policy: _,
                mode,
            } => {
                let operands = [*map, *to, *to_index, *barrier, *barrier_index];
                self.box_load(operands, coords, *mode, None)?
            }
            AsyncCopy::CpAsyncBulkTensorMulticast {
                map,
                to,
                to_index,
                barrier,
                barrier_index,
                ctas,
                coords,
                policy: _,
                mode,
            } => {
                let operands = [*map, *to, *to_index, *barrier, *barrier_index];
                self.box_load(operands, coords, *mode, Some(*ctas))?
            }
            AsyncCopy::CpAsyncBulkTensorStore {
                map,
                from,
                from_index,
                coords,
                policy: _,
                mode,
            } => self.box_store([*map, *from, *from_index], coords, *mode, None)?,
            AsyncCopy::CpReduceAsyncBulkTensor {
                map,
                from,
                from_index,
                op,
                coords,
                policy: _,
                mode,
            } => self.box_store([*map, *from, *from_index], coords, *mode, Some(*op))?,
            AsyncCopy::CpAsyncBulkCommitGroup {} => each_lane(|context, lane| {
                context.flight.bulk_groups[lane] += 1;
                let at = context.origin.into();
                context.memory.note(|races| races.store_commit(at, 1 << lane));
                Ok(())
            }),
            &AsyncCopy::CpAsyncBulkWaitGroup { pending, wait } => {
                Inst::Act(Box::new(move |context| {
                    let (groups, lanes) = (context.flight.bulk_groups, context.active);
                    let is_due = |lane: usize, group: u32| {
                        lanes >> lane & 1 == 1 && group < groups[lane].saturating_sub(pending)
                    };
                    context.memory.complete_stores(
                        context.origin,
                        wait == BulkWait::Read,
                        is_due,
                    )?;
                    let (at, only_read) = (context.origin.into(), wait == BulkWait::Read);
                    context.memory.note(|races| races.store_wait(at, lanes, pending, only_read));
                    Ok(Next::Go)
                }))
            }
            // The simulator has no caches, and a box may be anywhere.
            AsyncCopy::CpAsyncBulkPrefetchTensor { map, coords, policy: _, mode } => {
                self.box_slots(*map, coords, *mode)?;
                self.weight += 1;
                return Ok(());
            }
            AsyncCopy::PrefetchTensormap { map } => {
                self.tensor_map(*map)?;
                self.weight += 1;
                return Ok(());
            }
            AsyncCopy::CpAsync { .. }
            | AsyncCopy::CpAsyncCommitGroup {}
            | AsyncCopy::CpAsyncWaitGroup { .. }
            | AsyncCopy::CpAsyncWaitAll {}
            | AsyncCopy::CpAsyncMbarrierArrive { .. }
            | AsyncCopy::StAsync { .. }
            | AsyncCopy::RedAsync { .. }
            | AsyncCopy::TensormapReplace { .. }
            | AsyncCopy::TensormapAcquire { .. } => return Err(Refused::Malformed),
        };
        self.emit(id, inst);
        Ok(())
    }

    fn box_load(
        &self,
        [map, to, to_index, barrier, barrier_index]: [Value; 5],
        coords: &[Value],
        mode: BoxMode,
        ctas: Option<Value>,
    ) -> Result<Inst, Refused> {
        let slots = LoadSlots {
            from: self.box_slots(map, coords, mode)?,
            to: self.in_shared(to, to_index)?,
            barrier: self.barrier_operand(barrier, barrier_index)?,
            ctas: ctas.map(|ctas| self.scalar_of(ctas, Scalar::U32)).transpose()?,
        };
        Ok(each_lane(move |context, lane| slots.issue(context, lane)))
    }

    fn box_store(
        &self,
        [map, from, from_index]: [Value; 3],
        coords: &[Value],
        mode: BoxMode,
        reduce: Option<BulkReduce>,
    ) -> Result<Inst, Refused> {
        let (slots, from) = (self.box_slots(map, coords, mode)?, self.in_shared(from, from_index)?);
        Ok(each_lane(move |context, lane| {
            let (number, coords) = slots.lane(context, lane)?;
            if let Some(map) = context.memory.map(number) {
                check_store(map, &coords).map_err(|cause| RawFault::new(lane, cause))?;
            }
            let (from, bytes) = box_address(&from, context, lane, number)?;
            let to = Global::Box { map: number, coords };
            store(context, lane, to, from, bytes, reduce)
        }))
    }
}

/// Compiles a copy from shared memory.
fn store(
    context: &mut ExecContext<'_, '_>,
    lane: usize,
    to: Global,
    from: ByteAddress,
    bytes: u32,
    reduce: Option<BulkReduce>,
) -> RawResult {
    let group = context.flight.bulk_groups[lane];
    let store = Store { lane, group, to, from, bytes, reduce, data: None, waited: false };
    store.check_proxy(context.memory, context.origin)?;
    store.detect(context.memory, context.origin);
    context.memory.issue(context.origin, What::Store(Box::new(store)), false);
    Ok(())
}
