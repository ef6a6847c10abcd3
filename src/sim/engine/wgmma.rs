//! Compiles and executes `wgmma`: MMAs of a warp group with operands in shared memory.
//!
//! Decodes each operand's 64-bit descriptor as the table of
//! [`MatrixDescriptor`](crate::arch::MatrixDescriptor) describes it. The swizzle permutes the bits
//! of the address in shared memory, whose window starts at 0.

use crate::sim::memory::lanes::Regs;
use crate::sim::memory::warp_group::GroupMma;
use std::ops::Range;
use std::sync::Arc;

use super::matrix::{Fragment, MAX_K, Sparse, bits_of, is_legal, rows};
use super::mma::{
    AccumulatorSlots, AccumulatorType, Columns, Operands, Rows, Summand, float, int, multiply_f32,
    multiply_i32,
};
use super::sparse::kept_columns;
use crate::arch::SwizzleMode;
use crate::ir::Value;
use crate::ir::op::{Mma, MmaShape, WgmmaForm};
use crate::ir::types::{Scalar, Space};
use crate::sim::fault::raw::StepAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::fault::state::WgmmaMatrix;
use crate::sim::memory::address::window_address;
use crate::sim::memory::agent::overlap;
use crate::sim::memory::lanes::Lane;
use crate::sim::memory::mask::{LANES, lanes_of};
use crate::sim::memory::proxy::ProxyView;
use crate::sim::memory::warp_group::{Registers, Wait, WarpGroup, WgmmaOperands};
use crate::sim::options::Accumulation;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::{Act, ExecContext, Next, Park};
use crate::sim::program::refused::Refused;

/// A `wgmma` of a kernel.
#[derive(Debug)]
pub(in crate::sim) struct Wgmma {
    shape: MmaShape,
    types: [Scalar; 2],
    form: WgmmaForm,
    pub(in crate::sim) accumulators: AccumulatorSlots,
    /// If A is in registers, how many elements each slot holds.
    a_per_slot: Option<usize>,
    /// If A is sparse, its selector. A warp's registers then end with the metadata.
    selector: Option<u32>,
}

/// The extents and the elements of an operand in shared memory.
#[derive(Clone, Copy, Debug)]
struct OperandTile {
    /// The rows of A, or the columns of B.
    mn: usize,
    k: usize,
    elem: Scalar,
    /// Set for an MN-major tile.
    transposed: bool,
}

/// A decoded matrix descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Matrix {
    start: usize,
    leading: usize,
    stride: usize,
    swizzle: SwizzleMode,
    /// The row of the swizzle pattern at which the matrix starts.
    base: usize,
}

impl Matrix {
    fn new(bits: u64) -> Matrix {
        let field = |shift: u32| ((bits >> shift & 0x3fff) << 4) as usize;
        let swizzle = match bits >> 62 {
            0 => SwizzleMode::None,
            1 => SwizzleMode::B128,
            2 => SwizzleMode::B64,
            _ => SwizzleMode::B32,
        };
        let base = (bits >> 49 & 7) as usize;
        Matrix { start: field(0), leading: field(16), stride: field(32), swizzle, base }
    }

    /// Returns the address of unit `unit` (16 bytes) along `k` of row or column `mn`, for a K-major
    /// matrix.
    fn k_major(&self, mn: usize, unit: usize) -> usize {
        let Matrix { leading, stride, .. } = *self;
        self.address(match self.swizzle.row_bytes() {
            None => mn % 8 * 16 + mn / 8 * stride + unit * leading,
            Some(row) => mn % 8 * row as usize + mn / 8 * stride + unit * 16,
        })
    }

    /// Returns the address of the eight elements from `mn` on, a multiple of 8, at `k`, for an
    /// MN-major matrix.
    fn mn_major(&self, mn: usize, k: usize) -> usize {
        let Matrix { leading, stride, .. } = *self;
        self.address(match self.swizzle.row_bytes() {
            None => mn / 8 * stride + k % 8 * 16 + k / 8 * leading,
            Some(row) => {
                let row = row as usize;
                mn % (row / 2) * 2 + mn / (row / 2) * leading + k % 8 * row + k / 8 * stride
            }
        })
    }

    /// Returns the swizzled address of byte `offset` of the matrix.
    fn address(&self, offset: usize) -> usize {
        let (at, shift) = (self.start + offset, self.base << 7);
        // The pattern is the one of an address at which the matrix starts with its first row.
        let pattern = at.wrapping_sub(shift) as u64;
        let moved = self.swizzle.apply(pattern) ^ pattern;
        at ^ moved as usize
    }

    /// Returns whether the matrix contains one of the bytes of shared memory: exactly, or as a
    /// quick upper bound.
    fn has(&self, tile: OperandTile, bytes: &Range<usize>, exactly: bool) -> bool {
        let OperandTile { mn, k, elem, transposed } = tile;
        // The swizzle moves 16-byte units within 128-byte lines.
        let plain = Matrix { swizzle: SwizzleMode::None, ..*self };
        let row = self.swizzle.row_bytes().map_or(16, |row| row as usize);
        let units = k * elem.bits() as usize / 128;
        let Matrix { start, leading, stride, .. } = plain;
        let last = match (transposed, self.swizzle == SwizzleMode::None) {
            (false, true) => (mn / 8 - 1) * stride + 7 * 16 + (units - 1) * leading,
            (false, false) => (mn / 8 - 1) * stride + 7 * row + (units - 1) * 16,
            (true, true) => (mn / 8 - 1) * stride + 7 * 16 + (k / 8 - 1) * leading,
            (true, false) => {
                (mn - 1) / (row / 2) * leading + row - 16 + 7 * row + (k / 8 - 1) * stride
            }
        };
        let hull = start / 128 * 128..(start + last + 16).next_multiple_of(128);
        if !overlap(&hull, bytes) || !exactly {
            return overlap(&hull, bytes);
        }
        let here = |at: usize| overlap(&(at..at + 16), bytes);
        match transposed {
            true => (0..k).any(|i| (0..mn).step_by(8).any(|first| here(self.mn_major(first, i)))),
            false => (0..mn).any(|row| (0..units).any(|unit| here(self.k_major(row, unit)))),
        }
    }

    /// Calls `f` with the address of each 16 bytes of the matrix.
    fn chunks(&self, tile: OperandTile, f: &mut dyn FnMut(usize)) {
        let OperandTile { mn, k, elem, transposed } = tile;
        let units = k * elem.bits() as usize / 128;
        match transposed {
            true => {
                (0..k).for_each(|i| (0..mn).step_by(8).for_each(|first| f(self.mn_major(first, i))))
            }
            false => {
                (0..mn).for_each(|row| (0..units).for_each(|unit| f(self.k_major(row, unit))));
            }
        }
    }

    /// Calls `f` with each element of 8, 16 or 32 bits of the matrix: with its row or column, its
    /// index along `k`, and its bits.
    #[inline(always)]
    fn read(
        &self,
        memory: ProxyView<'_>,
        tile: OperandTile,
        which: WgmmaMatrix,
        mut f: impl FnMut(usize, usize, u32),
    ) -> Result<(), RawCause> {
        let ProxyView { shared, proxies } = memory;
        let OperandTile { mn, k, elem, transposed } = tile;
        let chunk = |at: usize| {
            if at + 16 > shared.len_bytes() {
                let len_bytes = shared.len_bytes() as u64;
                let cause = RawCause::MatrixOutOfBounds { which, address: at as u64, len_bytes };
                return Err(cause);
            }
            if let Some(proxies) = proxies {
                proxies.check(&shared.stores, at, 16)?;
            }
            let address = |at: usize| RawCause::MatrixUninitialised { which, address: at as u64 };
            shared.chunk(at).map_err(address)
        };
        let per = elem.bits() as usize;
        let (in_word, in_chunk) = (32 / per, 128 / per);
        if transposed {
            for i in 0..k {
                for first in (0..mn).step_by(8) {
                    for (w, word) in chunk(self.mn_major(first, i))?.into_iter().enumerate() {
                        f(first + 2 * w, i, word & 0xffff);
                        f(first + 2 * w + 1, i, word >> 16);
                    }
                }
            }
            return Ok(());
        }
        for row in 0..mn {
            for unit in 0..k / in_chunk {
                for (w, word) in chunk(self.k_major(row, unit))?.into_iter().enumerate() {
                    for v in 0..in_word {
                        f(row, unit * in_chunk + w * in_word + v, bits_of(elem, word, v));
                    }
                }
            }
        }
        Ok(())
    }
}

impl GroupMma for Wgmma {
    fn accumulators(&self) -> &[u32] {
        &self.accumulators.slots
    }

    fn reads(&self, descriptors: WgmmaOperands, bytes: &Range<usize>, exactly: bool) -> bool {
        let has = |bits, tile| Matrix::new(bits).has(tile, bytes, exactly);
        has(descriptors.b, self.b_tile())
            || self.a_per_slot.is_none() && has(descriptors.a, self.a_tile())
    }

    fn chunks(&self, descriptors: WgmmaOperands, f: &mut dyn FnMut(usize)) {
        Matrix::new(descriptors.b).chunks(self.b_tile(), &mut *f);
        if self.a_per_slot.is_none() {
            Matrix::new(descriptors.a).chunks(self.a_tile(), f);
        }
    }

    fn run(
        &self,
        descriptors: WgmmaOperands,
        accumulation: Accumulation,
        registers: &[Option<Registers>; WarpGroup::WARPS],
        memory: ProxyView<'_>,
        warps: &mut [&mut Regs],
    ) -> Result<(), RawCause> {
        let ((_, k), accumulate) = (self.extents(), descriptors.accumulate);
        let columns = self.kept_columns(registers)?;
        let sign = |negative: bool| if negative { -1.0 } else { 1.0 };
        let (a_sign, b_sign) = (sign(self.form.negate_a), sign(self.form.negate_b));
        if self.accumulators.elem == AccumulatorType::I32 {
            let (a, b) = self.operands(descriptors, registers, memory, int, int)?;
            for ((regs, a), kept) in warps.iter_mut().zip(a.chunks_exact(2 * k)).zip(&columns) {
                let operands = Operands { rows: a, columns: &b, k, kept: kept.as_deref() };
                let satfinite = self.form.satfinite;
                multiply_i32(regs, &self.accumulators, &operands, accumulate, satfinite);
            }
            return Ok(());
        }
        let number = |sign: f32| move |elem: Scalar, bits: u32| sign * float(elem, bits);
        let (a, b) =
            self.operands(descriptors, registers, memory, number(a_sign), number(b_sign))?;
        for ((regs, a), kept) in warps.iter_mut().zip(a.chunks_exact(2 * k)).zip(&columns) {
            let operands = Operands { rows: a, columns: &b, k, kept: kept.as_deref() };
            let bits = accumulation.fraction_bits(self.types[0].bits());
            multiply_f32(regs, &self.accumulators, &operands, accumulate, bits);
        }
        Ok(())
    }
}

impl Wgmma {
    /// Returns M, N and K, and how many elements of a row of A are multiplied.
    fn extents(&self) -> ([usize; 3], usize) {
        let all = [self.shape.m, self.shape.n, self.shape.k].map(|extent| extent as usize);
        (all, if self.selector.is_some() { all[2] / 2 } else { all[2] })
    }

    fn a_tile(&self) -> OperandTile {
        let ([mn, ..], k) = self.extents();
        OperandTile { mn, k, elem: self.types[0], transposed: self.form.transpose_a }
    }

    fn b_tile(&self) -> OperandTile {
        let ([_, mn, k], _) = self.extents();
        OperandTile { mn, k, elem: self.types[1], transposed: self.form.transpose_b }
    }

    /// Returns the columns that a sparse A keeps, for each warp.
    fn kept_columns(
        &self,
        registers: &[Option<Registers>; WarpGroup::WARPS],
    ) -> Result<Vec<Option<Vec<Rows<u8>>>>, RawCause> {
        let of_warp = |registers: &Option<Registers>| match (self.selector, registers) {
            (Some(selector), Some(registers)) => {
                let words = registers.last().copied().unwrap_or([0; LANES]);
                kept_columns(self.types[0], self.shape.k as usize, selector, &words).map(Some)
            }
            (_, _) => Ok(None),
        };
        registers.iter().map(of_warp).collect()
    }

    /// Returns A, warp after warp with two blocks of 8 rows each, and B.
    fn operands<T: Summand>(
        &self,
        descriptors: WgmmaOperands,
        registers: &[Option<Registers>; WarpGroup::WARPS],
        memory: ProxyView<'_>,
        a_number: impl Fn(Scalar, u32) -> T,
        b_number: impl Fn(Scalar, u32) -> T,
    ) -> Result<Parts<T>, RawCause> {
        let ([m, n, k], kept) = self.extents();
        let [a_type, b_type] = self.types;
        let mut a = vec![[T::default(); 8]; m / 8 * kept];
        match self.a_per_slot {
            Some(per) => {
                // A register holds elements of 8 rows.
                let count = 2 * kept / (4 * per);
                for (registers, a) in registers.iter().zip(a.chunks_exact_mut(2 * kept)) {
                    let registers = registers.iter().flatten().copied().take(count);
                    rows(registers, 2, kept, per, a, |word, v| {
                        a_number(a_type, bits_of(a_type, word, v))
                    });
                }
            }
            None => {
                let matrix = Matrix::new(descriptors.a);
                matrix.read(memory, self.a_tile(), WgmmaMatrix::A, |row, i, bits| {
                    a[row / 8 * kept + i][row % 8] = a_number(a_type, bits);
                })?;
            }
        }
        let mut b = vec![[T::default(); 4]; n / 4 * k];
        let matrix = Matrix::new(descriptors.b);
        matrix.read(memory, self.b_tile(), WgmmaMatrix::B, |column, i, bits| {
            let block = 2 * (column / 8) + column % 2;
            b[block * k + i][column % 8 / 2] = b_number(b_type, bits);
        })?;
        Ok((a, b))
    }
}

/// The elements of A and of B.
type Parts<T> = (Vec<Rows<T>>, Vec<Columns<T>>);

/// Where A comes from.
enum Source {
    /// The slot of its descriptor.
    Descriptor(u32),
    Registers(Fragment),
}

/// Returns the warp group of the executing warp, and the warp's index in it.
fn group(context: &mut ExecContext<'_, '_>) -> RawResult<(usize, usize)> {
    let warp = context.origin.warp as usize;
    let (group, position) = (warp / WarpGroup::WARPS, warp % WarpGroup::WARPS);
    let threads = context.memory.threads;
    let whole = (threads / LANES).saturating_sub(group * WarpGroup::WARPS);
    if whole < WarpGroup::WARPS {
        let cause = RawCause::PartialWarpGroup { warps: (1 << whole) - 1 };
        return Err(RawFault::new(0, cause));
    }
    Ok((group, position))
}

impl ExecContext<'_, '_> {
    /// Checks an ordinary access to accumulator registers: a fault if a `wgmma` in flight still
    /// uses them. Otherwise notes that they need a `wgmma.fence` before the next `wgmma`.
    pub(in crate::sim) fn touch(&mut self, slots: &[u32]) -> RawResult {
        let warp = self.origin.warp as usize;
        let groups = &self.memory.blocks[self.memory.here].groups;
        if let Some(group) = groups.get(warp / WarpGroup::WARPS)
            && let Some(step) = group.in_flight(warp % WarpGroup::WARPS, slots, None)
        {
            let lane = self.active.trailing_zeros() as usize;
            return Err(RawFault::new(lane, RawCause::AccumulatorInFlight { op: StepAt(step) }));
        }
        for slot in slots {
            self.flight.unfenced[*slot as usize / 64] |= 1 << (slot % 64);
        }
        Ok(())
    }
}

/// Makes an operation that all 32 lanes of a warp must execute together.
fn act(f: impl Fn(&mut ExecContext<'_, '_>) -> RawResult<Next> + Send + Sync + 'static) -> Act {
    Box::new(move |context| match context.whole_warp()? {
        Some(next) => Ok(next),
        None => f(context),
    })
}

impl Compiler<'_> {
    pub(in crate::sim) fn wgmma(&mut self, op: &Mma, results: &[Value]) -> Result<Act, Refused> {
        Ok(match *op {
            Mma::MatrixDescriptor { base, bits } => {
                let (pointer, space, _) = self.pointer(base)?;
                if space != Space::Shared {
                    return Err(Refused::Malformed);
                }
                let dst = self.result(results, 0)?.scalar(Scalar::U64)? as usize;
                Box::new(move |context| {
                    let mut words = [0; LANES];
                    for lane in lanes_of(context.active) {
                        // The matrix itself is checked when it is read.
                        let at = window_address(pointer, context.regs, context.memory, lane);
                        words[lane] = bits | (at >> 4 & 0x3fff);
                    }
                    context.regs.d[dst] = words;
                    Ok(Next::Go)
                })
            }
            Mma::Wgmma { a, b, accumulate, shape, a_type, b_type, d, first, form } => {
                let a = Source::Descriptor(self.scalar_of(a, Scalar::U64)?);
                let accumulators = self.accumulators(shape, 128, d, first)?;
                let types = [a_type, b_type];
                let wgmma =
                    Wgmma { shape, types, form, accumulators, a_per_slot: None, selector: None };
                self.issue(wgmma, a, b, accumulate, None)?
            }
            Mma::WgmmaSp {
                a,
                b,
                metadata,
                accumulate,
                shape,
                a_type,
                b_type,
                selector,
                d,
                first,
                form,
            } => {
                let a = Source::Descriptor(self.scalar_of(a, Scalar::U64)?);
                let accumulators = self.accumulators(shape, 128, d, first)?;
                let (types, selector) = ([a_type, b_type], Some(selector));
                let wgmma = Wgmma { shape, types, form, accumulators, a_per_slot: None, selector };
                self.issue(wgmma, a, b, accumulate, Some(metadata))?
            }
            Mma::WgmmaRsSp {
                a,
                b,
                metadata,
                accumulate,
                shape,
                b_type,
                selector,
                d,
                first,
                form,
            } => {
                let a = self.fragment(a)?;
                let accumulators = self.accumulators(shape, 128, d, first)?;
                let (types, a_per_slot) = ([a.elem, b_type], Some(a.per_slot));
                let elements = 2 * a.slots.len() * a.per_slot * 4 * LANES;
                if elements as u64 != u64::from(shape.m) * u64::from(shape.k) {
                    return Err(Refused::Malformed);
                }
                let selector = Some(selector);
                let wgmma = Wgmma { shape, types, form, accumulators, a_per_slot, selector };
                self.issue(wgmma, Source::Registers(a), b, accumulate, Some(metadata))?
            }
            Mma::WgmmaRs { a, b, accumulate, shape, b_type, d, first, form } => {
                let a = self.fragment(a)?;
                let accumulators = self.accumulators(shape, 128, d, first)?;
                let (types, a_per_slot) = ([a.elem, b_type], Some(a.per_slot));
                let elements = a.slots.len() * a.per_slot * 4 * LANES;
                if elements as u64 != u64::from(shape.m) * u64::from(shape.k) {
                    return Err(Refused::Malformed);
                }
                let selector = None;
                let wgmma = Wgmma { shape, types, form, accumulators, a_per_slot, selector };
                self.issue(wgmma, Source::Registers(a), b, accumulate, None)?
            }
            Mma::WgmmaFence {} => act(|context| {
                group(context)?;
                context.flight.unfenced.fill(0);
                Ok(Next::Go)
            }),
            Mma::WgmmaCommitGroup {} => act(|context| {
                let (group, warp) = group(context)?;
                context.memory.block_mut().groups[group].commit(warp);
                Ok(Next::Go)
            }),
            Mma::WgmmaWaitGroup { pending } => act(move |context| {
                let (group, warp) = group(context)?;
                let group = &mut context.memory.block_mut().groups[group];
                let wait = group.wait(warp, pending as usize);
                let (_, waited) = group.numbers(warp);
                Ok(match wait {
                    Wait::Done => {
                        let at = context.origin.into();
                        context.memory.note(|races| races.wgmma_wait(at, waited));
                        Next::Go
                    }
                    Wait::Multiply { end } => Next::Multiply { end },
                    Wait::Warps => Next::Park(Park::WarpGroup),
                })
            }),
            Mma::Setmaxnreg { action: _, count } => act(move |context| {
                let (group, warp) = group(context)?;
                let origin = context.origin;
                let changed = context.memory.block_mut().groups[group].change(warp, origin, count);
                changed.map_err(|cause| RawFault::new(0, cause))?;
                Ok(Next::Go)
            }),
            Mma::MmaSync { .. }
            | Mma::MmaSyncSp { .. }
            | Mma::MmaSyncF64 { .. }
            | Mma::Ldmatrix { .. }
            | Mma::Stmatrix { .. }
            | Mma::Movmatrix { .. } => {
                return Err(Refused::Malformed);
            }
        })
    }

    fn issue(
        &mut self,
        wgmma: Wgmma,
        a: Source,
        b: Value,
        accumulate: Value,
        metadata: Option<Value>,
    ) -> Result<Act, Refused> {
        let metadata = metadata.map(|value| self.scalar_of(value, Scalar::U32)).transpose()?;
        let (b, accumulate) =
            (self.scalar_of(b, Scalar::U64)? as usize, self.scalar_of(accumulate, Scalar::Bool)?);
        let MmaShape { m, n, .. } = wgmma.shape;
        let ([_, _, deep], k) = wgmma.extents();
        let legal = |elem: Scalar| {
            let narrow = matches!(elem.bits(), 8 | 16) || elem == Scalar::Tf32;
            narrow
                && k * elem.bits() as usize == 256
                && elem.is_int() == (wgmma.accumulators.elem == AccumulatorType::I32)
        };
        let whole = m == 64 && n.is_multiple_of(8) && n <= 256 && k <= MAX_K;
        let transposed = wgmma.form.transpose_a || wgmma.form.transpose_b;
        let [a_type, b_type] = wgmma.types;
        let selects = match (wgmma.selector, metadata) {
            (Some(selector), Some(metadata)) => {
                is_legal(a_type, deep, m as usize, Sparse { metadata, selector })
            }
            (None, None) => true,
            (_, _) => false,
        };
        if !(whole && selects && legal(a_type) && legal(b_type))
            || transposed && a_type.bits() != 16
        {
            return Err(Refused::Malformed);
        }
        let elem = b_type;
        let wgmma: Arc<dyn GroupMma> = Arc::new(wgmma);
        Ok(act(move |context| {
            let (group, warp) = group(context)?;
            let (a, registers) = match &a {
                Source::Descriptor(slot) => {
                    (context.uniform(&context.regs.d[*slot as usize])?, &[][..])
                }
                Source::Registers(a) => (0, &a.slots[..]),
            };
            let register = |slot: &u32| context.regs.w[*slot as usize];
            let all: Registers = registers.iter().chain(&metadata).map(register).collect();
            let registers = (!all.is_empty()).then_some(all);
            let b = context.uniform(&context.regs.d[b])?;
            let accumulate = context.uniform(&context.regs.w[accumulate as usize])? == true.word();
            let accumulators = wgmma.accumulators();
            let unfenced = &context.flight.unfenced;
            if accumulators.iter().any(|slot| unfenced[*slot as usize / 64] >> (slot % 64) & 1 == 1)
            {
                return Err(RawFault::new(0, RawCause::NotFenced));
            }
            let origin = context.origin;
            let group = &mut context.memory.block_mut().groups[group];
            if let Some(step) = group.in_flight(warp, accumulators, Some(&*wgmma)) {
                return Err(RawFault::new(0, RawCause::AccumulatorInFlight { op: StepAt(step) }));
            }
            let operands = WgmmaOperands { a, b, accumulate };
            let issued = group.issue(warp, &wgmma, origin, operands, registers);
            issued.map_err(|cause| RawFault::new(0, cause))?;
            let (next, _) = group.numbers(warp);
            let index = origin.warp as usize / WarpGroup::WARPS;
            context.memory.record_wgmma(origin, index, next - 1, |f| wgmma.chunks(operands, f));
            context.memory.detect(elem, |detector, memory| {
                // A matrix outside shared memory is a fault of its own.
                let len = memory.shared().len_bytes();
                detector.races.wgmma_issue(origin.into(), next - 1, &mut |f| {
                    wgmma.chunks(operands, &mut |at| f(at, 16.min(len.saturating_sub(at))));
                });
            });
            Ok(Next::Go)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_offset_turns_the_pattern() {
        let bits = 1 << 62 | 64 << 32 | 1 << 16;
        let plain = Matrix::new(bits);
        assert_eq!((plain.stride, plain.leading, plain.swizzle), (1024, 16, SwizzleMode::B128));
        assert_eq!([plain.k_major(1, 0), plain.k_major(9, 3)], [128 + 16, 1024 + 128 + 32]);
        // The same matrix, two rows of the pattern later.
        let moved = Matrix::new(bits | 2 << 49 | 256 >> 4);
        for mn in 0..64 {
            assert_eq!(moved.k_major(mn, 1), plain.k_major(mn, 1) + 256);
        }
    }
}
