//! Computes the addresses of a warp's lanes, pointer plus index, and checks their bounds and
//! alignment. Every load and store calls it before it accesses memory.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::SeqCst, fence};

use super::buffer::GlobalBuffer;
use super::cluster_memory::Memory;
use super::element::Element;
use super::lanes::Regs;
use super::mask::{LANE_BIT, LANES, lanes_of};
use super::shared::{ByteAddress, Shared, SharedRange};
use super::space::{Allocation, MemorySpace};
use crate::ir::op::{LoadAccess, LoadOrder, StoreAccess, StoreOrder};
use crate::ir::types::{Scalar, Space};
use crate::sim::fault::raw::AccessAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};

/// Which allocation a pointer points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Alloc {
    /// The same one in all lanes, known when the kernel is compiled.
    Static(u32),
    /// In a slot of the file `w`.
    Slot(u32),
}

impl Alloc {
    /// Returns the allocation in a lane.
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
    /// The slot of the byte offset; `None` for the start of the allocation.
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

/// The offset of a pointer that has left the range of `i64`. Adding an index to such a pointer
/// returns [`LOST`] again.
pub(in crate::sim) const LOST: i64 = i64::MIN;

impl Index {
    fn lane(self, regs: &Regs, lane: usize) -> i128 {
        match self {
            Index::I32(slot) => (regs.w[slot as usize][lane] as i32).into(),
            Index::U32(slot) => regs.w[slot as usize][lane].into(),
            Index::I64(slot) => (regs.d[slot as usize][lane] as i64).into(),
            Index::U64(slot) => regs.d[slot as usize][lane].into(),
        }
    }

    /// Returns `index * size_bytes` in each lane, saturated to `i64`.
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

/// Returns the byte offset of `pointer + index`, as a pointer's slot stores it: [`LOST`] if it
/// leaves the range of `i64`.
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

/// The address operands of a warp's load or store, with all that the checks need: space, element
/// type, vector length, and memory order.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Address {
    pub(in crate::sim) space: Space,
    pub(in crate::sim) elem: Scalar,
    /// How many elements are accessed. More than one is a vector, which must be aligned to its
    /// size.
    pub(in crate::sim) lanes: u32,
    /// Whether the access is atomic, acquires or releases.
    pub(in crate::sim) strength: Strength,
    pub(in crate::sim) pointer: PointerSlots,
    pub(in crate::sim) index: Index,
}

/// How an access is visible to other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Strength {
    /// The access is atomic: no other thread sees half of it.
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

    /// Returns whether the access acquires other threads' writes.
    pub(in crate::sim) fn acquires(self) -> bool {
        self.acquires
    }

    /// Call this before the access, so that a release orders earlier accesses.
    pub(in crate::sim) fn before(self) {
        if self.releases {
            fence(SeqCst);
        }
    }

    /// Call this after the access, so that an acquire orders later accesses.
    pub(in crate::sim) fn after(self) {
        if self.acquires {
            fence(SeqCst);
        }
    }

    /// Locks the element's two words against other atomic accesses, if the access is atomic and the
    /// element has more than 4 bytes.
    pub(in crate::sim) fn lock(
        self,
        buffer: &GlobalBuffer,
        at: usize,
        bytes: usize,
    ) -> Option<MutexGuard<'static, ()>> {
        (self.whole && bytes > 4).then(|| buffer.lock(at / 4))
    }
}

/// Each lane's offset from the start of the allocation.
pub(in crate::sim) enum Offsets {
    /// In elements.
    Elements([u32; LANES]),
    /// In bytes.
    Bytes([u64; LANES]),
}

impl Offsets {
    /// Calls `f` with each lane of `mask`, from the lowest, and its offset in bytes.
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
pub(in crate::sim) fn for_each_lane(mask: u32, mut f: impl FnMut(usize)) {
    if mask == u32::MAX {
        for lane in 0..LANES {
            f(lane);
        }
    } else {
        for lane in lanes_of(mask) {
            f(lane);
        }
    }
}

/// Returns the lanes for which `f` is true.
#[inline(always)]
pub(in crate::sim) fn lanes_where(f: impl Fn(usize) -> bool) -> u32 {
    let mut mask = 0;
    for (lane, bit) in LANE_BIT.iter().enumerate() {
        mask |= if f(lane) { *bit } else { 0 };
    }
    mask
}

/// Returns the allocation of the lowest lane of `mask`, and all lanes of `mask` with the same one.
/// `mask` must not be empty.
fn first_alloc(allocs: &[u32; LANES], mask: u32) -> (u32, u32) {
    let alloc = allocs[mask.trailing_zeros() as usize];
    (alloc, lanes_where(|lane| allocs[lane] == alloc) & mask)
}

impl Address {
    /// Returns the allocation that a lane points into.
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
        let mut rest = mask;
        // A single call, because it is inlined.
        while rest != 0 {
            let (alloc, group) = match self.pointer.alloc {
                Alloc::Static(alloc) => (alloc, rest),
                Alloc::Slot(slot) => first_alloc(&regs.w[slot as usize], rest),
            };
            rest &= !group;
            access(regs, Allocation::of(self.space, alloc), group)?;
        }
        Ok(())
    }

    pub(in crate::sim) fn bytes_accessed(&self) -> u32 {
        self.elem.size_bytes() * self.lanes
    }

    /// Returns the offset of each lane's access in its allocation, which has `len` bytes. Checks
    /// bounds and alignment of the lanes in `mask`; the offsets of other lanes have no meaning.
    #[inline(always)]
    pub(in crate::sim) fn offsets(
        &self,
        regs: &Regs,
        found: Allocation,
        len: usize,
        mask: u32,
    ) -> RawResult<Offsets> {
        let size = self.bytes_accessed();
        let (offsets, bad) = match (self.pointer.offset, self.index, u32::try_from(len)) {
            // A 32-bit index from the start of an allocation below 2 GiB needs no addition, and one
            // comparison finds negative indices too, because they are large as unsigned integers.
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
                // If an element does not fit at all, every offset is too large.
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

    /// Returns each lane's byte offset in its allocation, without checks. An offset that leaves
    /// `i64` is saturated, which is outside any allocation.
    pub(in crate::sim) fn bytes(&self, regs: &Regs) -> [u64; LANES] {
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
        found: Allocation,
        mask: u32,
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

    /// Makes the fault of an atomic or ordered access to a memory space that does not support it.
    #[cold]
    pub(in crate::sim) fn no_order(
        &self,
        regs: &Regs,
        found: Allocation,
        mask: u32,
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
}

impl Address {
    /// Checks a lane's `bytes` bytes and returns their offset: in shared memory from the start of
    /// the block's, otherwise from the start of the allocation. They must be inside the allocation
    /// and start at a multiple of `align`.
    pub(in crate::sim) fn byte_address(
        &self,
        regs: &Regs,
        memory: &Memory<'_>,
        lane: usize,
        bytes: u32,
        align: u32,
    ) -> RawResult<ByteAddress> {
        let found = self.allocation(regs, lane);
        let (start, len) = match found.memory_space {
            MemorySpace::Shared | MemorySpace::Cluster => {
                let shared = memory.shared_at(found, LANE_BIT[lane])?;
                let range = shared.range(found.number);
                (range.start, range.len)
            }
            MemorySpace::Global | MemorySpace::Const => (0, memory.buffer(found).len_bytes()),
            // Nothing that moves more than elements takes a pointer to local memory.
            MemorySpace::Local => (0, 0),
        };
        let access = AccessAt { bytes, align, ..self.at(regs, lane, found, len) };
        if access.byte < 0 || access.byte + i128::from(bytes) > len as i128 {
            return Err(RawFault::new(lane, RawCause::OutOfBounds { access }));
        }
        let at = start + access.byte as usize;
        if !at.is_multiple_of(align as usize) {
            return Err(RawFault::new(lane, RawCause::Misaligned { access }));
        }
        Ok(ByteAddress { alloc: found.number, at })
    }

    /// Describes a lane's access to `bytes` bytes of shared memory, for a fault.
    pub(in crate::sim) fn access_at(
        &self,
        regs: &Regs,
        memory: &Memory<'_>,
        lane: usize,
        bytes: u32,
    ) -> AccessAt {
        let found = self.allocation(regs, lane);
        let range = memory.shared().range(found.number);
        AccessAt { bytes, ..self.at(regs, lane, found, range.len) }
    }

    /// Makes the fault of a lane that reads byte `at`, which was never written.
    pub(in crate::sim) fn missing_byte(
        &self,
        regs: &Regs,
        memory: &Memory<'_>,
        lane: usize,
        bytes: u32,
        at: usize,
    ) -> Box<RawFault> {
        let access = AccessAt { align: 1, ..self.access_at(regs, memory, lane, bytes) };
        RawFault::new(lane, memory.shared().missing(access, at))
    }
}

/// Returns the shared-memory address of a lane's pointer, counted from the start of the block's
/// shared memory.
pub(in crate::sim) fn window_address(
    pointer: PointerSlots,
    regs: &Regs,
    memory: &Memory<'_>,
    lane: usize,
) -> u64 {
    let alloc = pointer.alloc.lane(regs, lane);
    let offset = pointer.offset.map_or(0, |slot| regs.d[slot as usize][lane]);
    (memory.shared().range(alloc).start as u64).wrapping_add(offset)
}

impl Shared {
    /// Returns why byte `at` of the access cannot be read.
    pub(in crate::sim) fn missing(&self, access: AccessAt, at: usize) -> RawCause {
        if let Some(barrier) = self.live_barrier(access.alloc, at) {
            return RawCause::LiveBarrier { barrier };
        }
        let first = self.range(access.alloc).start;
        RawCause::Uninitialised { access: access.read(), byte: at.saturating_sub(first) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
