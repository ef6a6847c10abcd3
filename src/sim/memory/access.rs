//! Memory of a block, and the loads and stores of a warp.
//!
//! A pointer keeps the allocation that it was made from. Each access is checked against that allocation, so
//! an index that leaves one allocation is a fault even where it lands in another one.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::SeqCst, fence};

use super::block_memory::BlockMemory;
use super::buffer::Buffer;
use super::element::Element;
use super::lanes::{LANE_BIT, LANES, Regs, Word, lanes_of};
use super::proxy::Proxies;
use super::shared::{Shared, SharedRange, of_cluster};
use super::space::{Allocation, MemorySpace};
use crate::arch::TensorMapDesc;
use crate::ir::{LoadAccess, LoadOrder, Scalar, Space, StoreAccess, StoreOrder};
use crate::sim::engine::pending::Pending;
use crate::sim::fault::raw::AccessAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::report::options::Accumulation;

/// The memory that the warps of a cluster see.
#[derive(Debug)]
pub(in crate::sim) struct Memory<'m> {
    /// The buffer of each parameter; an empty one for a parameter that is not a pointer.
    pub(in crate::sim) globals: &'m [&'m Buffer],
    /// The map of each parameter that is one.
    pub(in crate::sim) maps: &'m [Option<&'m TensorMapDesc>],
    /// The constant arrays.
    pub(in crate::sim) arrays: &'m [Buffer],
    /// The memory of each block of the cluster, by rank.
    pub(in crate::sim) blocks: Vec<BlockMemory>,
    /// The rank of the block of the running warp.
    pub(in crate::sim) here: usize,
    /// The running warp, by its number in the block.
    pub(in crate::sim) warp: u32,
    /// In a kernel that reads shared memory through the asynchronous proxy, what that sees.
    pub(in crate::sim) proxies: Option<Proxies>,
    /// The asynchronous operations that have not taken effect.
    pub(in crate::sim) pending: Pending,
    /// Set when the barrier of the cluster may open.
    pub(in crate::sim) cluster_arrival: bool,
    /// Threads of a block.
    pub(in crate::sim) threads: usize,
    /// The operations that the warps of the cluster executed before the present run, without those of the
    /// running warp.
    pub(in crate::sim) operations: u64,
    /// The accumulation of floating point MMAs.
    pub(in crate::sim) accumulation: Accumulation,
}

/// The allocation of a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Alloc {
    /// The same one in all lanes, known when the kernel is compiled.
    Static(u32),
    /// In a slot of the file `w`.
    Slot(u32),
}

impl Alloc {
    /// The allocation in a lane.
    pub(in crate::sim) fn lane(self, regs: &Regs, lane: usize) -> u32 {
        match self {
            Alloc::Static(alloc) => alloc,
            Alloc::Slot(slot) => regs.w[slot as usize][lane],
        }
    }
}

/// A pointer in the register files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct PointerSlots {
    pub(in crate::sim) alloc: Alloc,
    /// The slot of the offset in bytes; `None` for the start of the allocation.
    pub(in crate::sim) offset: Option<u32>,
}

/// An index in the register files.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Index {
    I32(u32),
    U32(u32),
    I64(u32),
    U64(u32),
}

/// The offset of a pointer that has left the range of `i64`. It stays so, whatever is added.
const LOST: i64 = i64::MIN;

impl Index {
    fn lane(self, regs: &Regs, lane: usize) -> i128 {
        match self {
            Index::I32(slot) => (regs.w[slot as usize][lane] as i32).into(),
            Index::U32(slot) => regs.w[slot as usize][lane].into(),
            Index::I64(slot) => (regs.d[slot as usize][lane] as i64).into(),
            Index::U64(slot) => regs.d[slot as usize][lane].into(),
        }
    }

    /// `index * size_bytes` in each lane; the nearest `i64` where it is none.
    fn bytes(self, regs: &Regs, size_bytes: u32) -> [i64; LANES] {
        let size = i64::from(size_bytes);
        match self {
            Index::I32(slot) => regs.w[slot as usize].map(|i| i64::from(i as i32) * size),
            Index::U32(slot) => regs.w[slot as usize].map(|i| i64::from(i) * size),
            Index::I64(slot) => regs.d[slot as usize].map(|i| (i as i64).saturating_mul(size)),
            Index::U64(slot) => regs.d[slot as usize]
                .map(|i| i64::try_from(i).unwrap_or(i64::MAX).saturating_mul(size)),
        }
    }
}

/// The offset in bytes of `pointer + index`, as a pointer keeps it.
pub(in crate::sim) fn offset(
    regs: &Regs,
    pointer: PointerSlots,
    index: Index,
    size_bytes: u32,
) -> [u64; LANES] {
    let base = |lane| match pointer.offset {
        Some(slot) => regs.d[slot as usize][lane] as i64,
        None => 0,
    };
    std::array::from_fn(|lane| {
        let base = base(lane);
        let sum = i128::from(base) + index.lane(regs, lane) * i128::from(size_bytes);
        match i64::try_from(sum) {
            Ok(sum) if base != LOST => sum as u64,
            _ => LOST as u64,
        }
    })
}

/// A load or a store of a warp, but for the register that it loads or stores.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Address {
    pub(in crate::sim) space: Space,
    pub(in crate::sim) elem: Scalar,
    /// Elements that are accessed: more than one for a vector, which is aligned to its size.
    pub(in crate::sim) lanes: u32,
    /// Atomicity and order of the access.
    pub(in crate::sim) strength: Strength,
    pub(in crate::sim) pointer: PointerSlots,
    pub(in crate::sim) index: Index,
}

/// Visibility of an access to other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Strength {
    /// It is in one piece.
    pub(in crate::sim) whole: bool,
    /// Later accesses are ordered after it.
    pub(in crate::sim) acquires: bool,
    /// Earlier accesses are ordered before it.
    pub(in crate::sim) releases: bool,
}

impl Strength {
    pub(in crate::sim) fn of_load(access: &LoadAccess) -> Strength {
        Strength {
            whole: access.order != LoadOrder::Weak,
            acquires: matches!(access.order, LoadOrder::Acquire(_)),
            releases: false,
        }
    }

    pub(in crate::sim) fn of_store(access: &StoreAccess) -> Strength {
        Strength {
            whole: access.order != StoreOrder::Weak,
            acquires: false,
            releases: matches!(access.order, StoreOrder::Release(_)),
        }
    }

    /// Returns whether the access acquires the writes of other threads.
    pub(in crate::sim) fn acquires(self) -> bool {
        self.acquires
    }

    /// To be called before the access.
    pub(in crate::sim) fn before(self) {
        if self.releases {
            fence(SeqCst);
        }
    }

    /// To be called after the access.
    pub(in crate::sim) fn after(self) {
        if self.acquires {
            fence(SeqCst);
        }
    }

    /// Keeps other accesses in one piece away, where an element of `bytes` at `at` takes two words.
    pub(in crate::sim) fn lock(
        self,
        buffer: &Buffer,
        at: usize,
        bytes: usize,
    ) -> Option<MutexGuard<'static, ()>> {
        (self.whole && bytes > 4).then(|| buffer.lock(at / 4))
    }
}

/// Reads and writes one warp's accesses, on the registers and the memory of a block.
pub(in crate::sim) type Access =
    Box<dyn Fn(&mut Regs, &mut Memory<'_>, u32) -> RawResult + Send + Sync>;

impl Address {
    /// The allocation that a lane points into.
    pub(in crate::sim) fn allocation(&self, regs: &Regs, lane: usize) -> Allocation {
        Allocation::of(self.space, self.pointer.alloc.lane(regs, lane))
    }

    /// Calls `access` for each allocation that lanes of `mask` point into, with those lanes.
    #[inline(always)]
    pub(in crate::sim) fn for_each_alloc(
        &self,
        regs: &mut Regs,
        mask: u32,
        mut access: impl FnMut(&mut Regs, Allocation, u32) -> RawResult,
    ) -> RawResult {
        let slot = match self.pointer.alloc {
            Alloc::Static(alloc) => return access(regs, Allocation::of(self.space, alloc), mask),
            Alloc::Slot(slot) => slot as usize,
        };
        let mut rest = mask;
        while rest != 0 {
            let allocs = &regs.w[slot];
            let alloc = allocs[rest.trailing_zeros() as usize];
            let group = (0..LANES)
                .filter(|lane| allocs[*lane] == alloc)
                .fold(0, |group, lane| group | LANE_BIT[lane])
                & rest;
            rest &= !group;
            access(regs, Allocation::of(self.space, alloc), group)?;
        }
        Ok(())
    }

    pub(in crate::sim) fn bytes_accessed(&self) -> u32 {
        self.elem.size_bytes() * self.lanes
    }

    /// The first byte of each lane's access, counted from its allocation, which has `len` bytes. Bounds and
    /// alignment of the lanes of `mask` are checked; the offsets of others have no meaning.
    #[inline(always)]
    pub(in crate::sim) fn offsets(
        &self,
        regs: &Regs,
        (found, len, mask): (Allocation, usize, u32),
    ) -> RawResult<Offsets> {
        let size = self.bytes_accessed();
        let (offsets, bad) = match (self.pointer.offset, self.index, u32::try_from(len)) {
            // An index of 32 bits from the start of an allocation below 4 GiB: no sum, and the comparison
            // of the index finds negative ones too, because they are large when taken as unsigned.
            (None, Index::I32(slot) | Index::U32(slot), Ok(len))
                if len <= i32::MAX as u32 && self.lanes == 1 =>
            {
                let (index, end) = (regs.w[slot as usize], len / size);
                let wrong = |lane: usize| index[lane] >= end;
                (Offsets::Elements(index), lanes_where(wrong))
            }
            _ => {
                let bytes = self.bytes(regs);
                let (end, size) = (len as u64, u64::from(size));
                // Where an element does not fit at all, every offset is too large.
                let last = end.checked_sub(size);
                let wrong = |lane: usize| {
                    last.is_none_or(|last| bytes[lane] > last) || bytes[lane] & (size - 1) != 0
                };
                (Offsets::Bytes(bytes), lanes_where(wrong))
            }
        };
        match bad & mask {
            0 => Ok(offsets),
            bad => Err(self.bad_address(regs, bad, found, len)),
        }
    }

    /// Offsets are clamped to the range of `i64`, whose ends are outside any allocation.
    fn bytes(&self, regs: &Regs) -> [u64; LANES] {
        let mut bytes = self.index.bytes(regs, self.elem.size_bytes());
        if let Some(slot) = self.pointer.offset {
            let base = &regs.d[slot as usize];
            for lane in 0..LANES {
                bytes[lane] = bytes[lane].saturating_add(base[lane] as i64);
            }
        }
        bytes.map(|byte| byte as u64)
    }

    #[cold]
    fn bad_address(&self, regs: &Regs, bad: u32, found: Allocation, len: usize) -> Box<RawFault> {
        let lane = bad.trailing_zeros() as usize;
        let access = self.at(regs, lane, found, len);
        let size = i128::from(self.bytes_accessed());
        let inside = access.byte >= 0 && access.byte + size <= len as i128;
        let cause = match inside {
            true => RawCause::Misaligned { access },
            false => RawCause::OutOfBounds { access },
        };
        RawFault::new(lane, cause)
    }

    #[cold]
    pub(in crate::sim) fn uninitialised<E: Element>(
        &self,
        regs: &Regs,
        offsets: &Offsets,
        (found, mask): (Allocation, u32),
        shared: &Shared,
    ) -> Box<RawFault> {
        let SharedRange { start, len } = shared.range(found.number);
        let is_missing =
            |byte: usize| <u8 as Element>::load(start + byte, |i| shared.written[i]) == 0;
        let bytes = self.bytes_accessed() as usize;
        let missing = |lane: &usize| {
            let first = offsets.byte(*lane, E::BYTES);
            (first..first + bytes).find(|byte| is_missing(*byte))
        };
        let lane = lanes_of(mask).find(|lane| missing(lane).is_some()).unwrap_or(0);
        if let Some(byte) = missing(&lane)
            && let Some(barrier) = shared.live_barrier(found.number, start + byte)
        {
            return RawFault::new(lane, RawCause::LiveBarrier { barrier });
        }
        let access = self.at(regs, lane, found, len).read();
        let byte = missing(&lane).unwrap_or(0) as u64;
        RawFault::new(lane, RawCause::Uninitialised { access, byte })
    }

    /// Reports an ordered access to memory without ordered accesses.
    #[cold]
    pub(in crate::sim) fn no_order(
        &self,
        regs: &Regs,
        (found, mask): (Allocation, u32),
    ) -> Box<RawFault> {
        let lane = mask.trailing_zeros() as usize;
        RawFault::new(lane, RawCause::OrderSpace { access: self.at(regs, lane, found, 0) })
    }

    pub(in crate::sim) fn at(
        &self,
        regs: &Regs,
        lane: usize,
        found: Allocation,
        len: usize,
    ) -> AccessAt {
        let base = match self.pointer.offset {
            Some(slot) => regs.d[slot as usize][lane] as i64,
            None => 0,
        };
        let byte =
            i128::from(base) + self.index.lane(regs, lane) * i128::from(self.elem.size_bytes());
        let bytes = self.bytes_accessed();
        let Allocation { memory_space, number: alloc } = found;
        let (space, elem, len_bytes) = (memory_space.space(), self.elem, len as u64);
        AccessAt { is_store: None, space, alloc, elem, byte, bytes, align: bytes, len_bytes }
    }

    /// The load into slot `dst`, in the file of the element type.
    pub(in crate::sim) fn load_elem(self, dst: u32) -> Access {
        match self.elem {
            Scalar::Bool => self.load::<bool>(dst),
            Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => self.load::<u8>(dst),
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => self.load::<u16>(dst),
            Scalar::I32 | Scalar::U32 | Scalar::Tf32 | Scalar::F32 => self.load::<u32>(dst),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.load::<u64>(dst),
        }
    }

    /// The store from slot `src`, in the file of the element type. Of lanes that write to the same bytes,
    /// the highest one wins.
    pub(in crate::sim) fn store_elem(self, src: u32) -> Access {
        match self.elem {
            Scalar::Bool => self.store::<bool>(src),
            Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => self.store::<u8>(src),
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => self.store::<u16>(src),
            Scalar::I32 | Scalar::U32 | Scalar::Tf32 | Scalar::F32 => self.store::<u32>(src),
            Scalar::I64 | Scalar::U64 | Scalar::F64 => self.store::<u64>(src),
        }
    }

    fn load<E: Element + 'static>(self, dst: u32) -> Access {
        let dst = dst as usize;
        let each =
            move |regs: &mut Regs, memory: &mut Memory<'_>, found: Allocation, mask| match found
                .memory_space
            {
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = self.offsets(regs, (found, buffer.len_bytes(), mask))?;
                    if found.memory_space == MemorySpace::Const && self.strength.whole {
                        return Err(self.no_order(regs, (found, mask)));
                    }
                    let dst = &mut E::Word::file_mut(regs)[dst];
                    offsets.for_each::<E>(mask, |lane, at| {
                        let _whole = self.strength.lock(buffer, at, E::BYTES);
                        dst[lane] = E::load(at, |i| buffer.word(i));
                    });
                    self.strength.after();
                    Ok(())
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at(found, mask)?;
                    let SharedRange { start, len } = shared.range(found.number);
                    let offsets = self.offsets(regs, (found, len, mask))?;
                    let Shared { words, written, .. } = shared;
                    let dst = &mut E::Word::file_mut(regs)[dst];
                    let mut all_written = true;
                    offsets.for_each::<E>(mask, |lane, at| {
                        dst[lane] = E::load(start + at, |i| words[i]);
                        all_written &= E::is_ones(E::load(start + at, |i| written[i]));
                    });
                    if all_written {
                        return Ok(());
                    }
                    Err(self.uninitialised::<E>(regs, &offsets, (found, mask), shared))
                }
                MemorySpace::Local => self.load_local::<E>(regs, &[dst], (found, mask)),
            };
        Box::new(move |regs, memory, mask| {
            self.for_each_alloc(regs, mask, |regs, found, mask| each(regs, memory, found, mask))
        })
    }

    fn store<E: Element + 'static>(self, src: u32) -> Access {
        let src = src as usize;
        let each = move |regs: &mut Regs, memory: &mut Memory<'_>, found: Allocation, mask| {
            match found.memory_space {
                // The verifier has seen that nothing is stored to a constant array.
                MemorySpace::Global | MemorySpace::Const => {
                    let buffer = memory.buffer(found);
                    let offsets = self.offsets(regs, (found, buffer.len_bytes(), mask))?;
                    let src = &E::Word::file(regs)[src];
                    self.strength.before();
                    offsets.for_each::<E>(mask, |lane, at| {
                        let _whole = self.strength.lock(buffer, at, E::BYTES);
                        E::store(at, src[lane], |i, mask, bits| buffer.update(i, mask, bits));
                    });
                    Ok(())
                }
                MemorySpace::Shared | MemorySpace::Cluster => {
                    let shared = memory.shared_at_mut(found, mask)?;
                    let SharedRange { start, len } = shared.range(found.number);
                    let offsets = self.offsets(regs, (found, len, mask))?;
                    let src = &E::Word::file(regs)[src];
                    let Shared { words, written, .. } = shared;
                    offsets.for_each::<E>(mask, |lane, at| {
                        E::store(start + at, src[lane], |i, mask, bits| {
                            words[i] = words[i] & !mask | bits;
                            written[i] |= mask;
                        });
                    });
                    Ok(())
                }
                MemorySpace::Local => self.store_local::<E>(regs, &[src], (found, mask)),
            }
        };
        Box::new(move |regs, memory, mask| {
            self.for_each_alloc(regs, mask, |regs, found, mask| each(regs, memory, found, mask))
        })
    }
}

/// The offset of each lane's access from the start of the allocation.
pub(in crate::sim) enum Offsets {
    /// In elements.
    Elements([u32; LANES]),
    /// In bytes.
    Bytes([u64; LANES]),
}

impl Offsets {
    /// Calls `f` with each lane of `mask`, from the lowest, and the offset of its access in bytes.
    #[inline(always)]
    pub(in crate::sim) fn for_each<E: Element>(&self, mask: u32, mut f: impl FnMut(usize, usize)) {
        match self {
            Offsets::Elements(index) => {
                for_each_lane(mask, |lane| f(lane, index[lane] as usize * E::BYTES));
            }
            Offsets::Bytes(bytes) => for_each_lane(mask, |lane| f(lane, bytes[lane] as usize)),
        }
    }

    pub(in crate::sim) fn byte(&self, lane: usize, size: usize) -> usize {
        match self {
            Offsets::Elements(index) => index[lane] as usize * size,
            Offsets::Bytes(bytes) => bytes[lane] as usize,
        }
    }
}

#[inline(always)]
fn for_each_lane(mask: u32, f: impl FnMut(usize)) {
    if mask == u32::MAX { (0..LANES).for_each(f) } else { lanes_of(mask).for_each(f) }
}

/// The lanes for which `f` is true.
#[inline(always)]
fn lanes_where(f: impl Fn(usize) -> bool) -> u32 {
    (0..LANES).fold(0, |mask, lane| mask | if f(lane) { LANE_BIT[lane] } else { 0 })
}

/// The trap in the first lane of `mask`.
fn first_of(mask: u32) -> impl FnOnce(RawCause) -> Box<RawFault> {
    move |cause| RawFault::new(mask.trailing_zeros() as usize, cause)
}

impl<'m> Memory<'m> {
    /// The shared memory of the block of the running warp.
    #[inline(always)]
    pub(in crate::sim) fn shared(&self) -> &Shared {
        &self.blocks[self.here].shared
    }

    /// The shared memory of the block of the running warp.
    #[inline(always)]
    pub(in crate::sim) fn shared_mut(&mut self) -> &mut Shared {
        &mut self.blocks[self.here].shared
    }

    /// The shared memory that the allocation is in, to which the lanes of `mask` point: that of the block whose
    /// warp has its turn, or in the space of the cluster that of any.
    #[inline(always)]
    pub(in crate::sim) fn shared_at(&self, found: Allocation, mask: u32) -> RawResult<&Shared> {
        match found.memory_space {
            MemorySpace::Cluster => {
                self.shared_of(of_cluster(found.number).0).map_err(first_of(mask))
            }
            MemorySpace::Shared | MemorySpace::Global | MemorySpace::Const | MemorySpace::Local => {
                Ok(self.shared())
            }
        }
    }

    /// As [`Memory::shared_at`].
    #[inline(always)]
    pub(in crate::sim) fn shared_at_mut(
        &mut self,
        found: Allocation,
        mask: u32,
    ) -> RawResult<&mut Shared> {
        match found.memory_space {
            MemorySpace::Cluster => {
                self.shared_of_mut(of_cluster(found.number).0).map_err(first_of(mask))
            }
            MemorySpace::Shared | MemorySpace::Global | MemorySpace::Const | MemorySpace::Local => {
                Ok(self.shared_mut())
            }
        }
    }

    /// The block of the running warp.
    pub(in crate::sim) fn block_mut(&mut self) -> &mut BlockMemory {
        &mut self.blocks[self.here]
    }

    /// The buffer of a parameter, or a constant array.
    pub(in crate::sim) fn buffer(&self, found: Allocation) -> &'m Buffer {
        static NONE: std::sync::LazyLock<Buffer> = std::sync::LazyLock::new(|| Buffer::zeros(0));
        let number = found.number as usize;
        let buffer = match found.memory_space {
            MemorySpace::Const => self.arrays.get(number),
            MemorySpace::Global => self.globals.get(number).copied(),
            MemorySpace::Shared | MemorySpace::Cluster | MemorySpace::Local => None,
        };
        buffer.unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A warp whose lane `i` points to byte `byte(i)` of an allocation of 64 bytes, with index 0.
    fn check_load(byte: impl Fn(usize) -> i64, mask: u32) -> RawResult {
        let mut regs = Regs::new(2, 1);
        regs.d[0] = std::array::from_fn(|lane| byte(lane) as u64);
        let buffer = Buffer::zeros(64);
        let globals = [&buffer];
        let mut memory = Memory {
            globals: &globals,
            maps: &[],
            arrays: &[],
            blocks: vec![BlockMemory::new(0, &[], false)],
            here: 0,
            warp: 0,
            proxies: None,
            pending: Pending::default(),
            cluster_arrival: false,
            threads: 32,
            operations: 0,
            accumulation: Accumulation::Nearest,
        };
        let pointer = PointerSlots { alloc: Alloc::Static(0), offset: Some(0) };
        let address = Address {
            space: Space::Global,
            elem: Scalar::F32,
            lanes: 1,
            strength: Strength::default(),
            pointer,
            index: Index::I32(0),
        };
        address.load_elem(1)(&mut regs, &mut memory, mask)
    }

    #[test]
    fn only_active_lanes_are_checked() {
        assert!(check_load(|lane| lane as i64 % 16 * 4, u32::MAX).is_ok());
        assert!(check_load(|lane| if lane == 3 { 0 } else { -4 }, 0b1000).is_ok());
        let trap = check_load(|lane| lane as i64 * 4, u32::MAX).unwrap_err();
        assert_eq!(trap.lane, 16);
        assert!(matches!(trap.cause, RawCause::OutOfBounds { access: AccessAt { byte: 64, .. } }));
    }

    #[test]
    fn misaligned_bytes_inside_are_told_from_bytes_outside() {
        let trap = check_load(|_| 6, 0b10).unwrap_err();
        assert_eq!(trap.lane, 1);
        assert!(matches!(trap.cause, RawCause::Misaligned { access: AccessAt { byte: 6, .. } }));
        let trap = check_load(|_| 62, 1).unwrap_err();
        assert!(matches!(trap.cause, RawCause::OutOfBounds { access: AccessAt { byte: 62, .. } }));
    }

    #[test]
    fn a_pointer_that_overflows_stays_lost() {
        let mut regs = Regs::new(0, 3);
        let start = PointerSlots { alloc: Alloc::Static(0), offset: None };
        regs.d[0] = [1 << 62; LANES];
        regs.d[1] = offset(&regs, start, Index::I64(0), 8);
        regs.d[0] = [u64::MAX << 59; LANES];
        let moved = PointerSlots { alloc: Alloc::Static(0), offset: Some(1) };
        assert_eq!(offset(&regs, moved, Index::I64(0), 8)[0] as i64, LOST);
    }
}
