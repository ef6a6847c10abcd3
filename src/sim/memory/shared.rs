//! A block's shared memory: its bytes, which of them were written, and its mbarriers. A read of
//! bytes that nobody has written is a fault.

use std::collections::HashMap;
use std::ops::Range;

use super::mbarrier::Mbarrier;
use super::proxy::Stores;
use crate::sim::fault::raw::BarrierAt;
use crate::sim::fault::raw_fault::RawCause;
use crate::sim::fault::state::BarrierState;

/// The byte range of a shared allocation.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct SharedRange {
    pub(in crate::sim) start: usize,
    pub(in crate::sim) len: usize,
}

/// The bits of an allocation index that name the allocation within its block.
const IN_BLOCK: u32 = (1 << 20) - 1;

/// Returns the index of allocation `alloc` of block `rank`, as pointers into the cluster's shared
/// memory keep it. There are at most 16 blocks, each with fewer allocations than the 2^20 bytes
/// that `compile` allows for shared memory.
pub(in crate::sim) fn in_cluster(rank: u32, alloc: u32) -> u32 {
    rank << 20 | alloc & IN_BLOCK
}

/// Splits an index from [`in_cluster`] into the block's rank and the allocation there.
pub(in crate::sim) fn of_cluster(number: u32) -> (u32, u32) {
    (number >> 20, number & IN_BLOCK)
}

/// A byte of a shared allocation. `at` counts from the start of the block's shared memory, which is
/// address 0 of the shared window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct ByteAddress {
    pub(in crate::sim) alloc: u32,
    pub(in crate::sim) at: usize,
}

/// What the eight bytes of an mbarrier hold.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Live(Mbarrier),
    Invalidated,
}

/// One block's shared memory: words, for each bit whether it was written, and the mbarriers.
///
/// The bytes of a live mbarrier count as never written. So the check for uninitialised reads also
/// catches a load of an mbarrier, and a store to it is detected because it marks the bytes as
/// written.
#[derive(Debug)]
pub(in crate::sim) struct Shared {
    pub(in crate::sim) words: Vec<u32>,
    pub(in crate::sim) written: Vec<u32>,
    /// For each 16 bytes, how many pieces of loads in flight will write some of them.
    incoming: Vec<u8>,
    /// The stores that the asynchronous proxy may not see.
    pub(in crate::sim) stores: Stores,
    allocs: Vec<SharedRange>,
    /// By first byte.
    barriers: HashMap<usize, Slot>,
    /// Set when a phase of an mbarrier has ended since this was last taken.
    phase_ended: bool,
}

impl Shared {
    /// Makes shared memory. `watched` says whether stores are tracked for missing proxy fences.
    pub(in crate::sim) fn new(len_bytes: usize, allocs: &[SharedRange], watched: bool) -> Shared {
        let words = vec![0; len_bytes.div_ceil(4)];
        let (written, allocs) = (words.clone(), allocs.to_vec());
        let stores = if watched { Stores::new(words.len() * 4) } else { Stores::default() };
        let incoming = vec![0; words.len().div_ceil(4)];
        let barriers = HashMap::new();
        Shared { written, words, incoming, stores, allocs, barriers, phase_ended: false }
    }

    /// Forgets the content, for the next block.
    pub(in crate::sim) fn reset(&mut self) {
        self.written.fill(0);
        self.incoming.fill(0);
        self.stores.reset();
        self.barriers.clear();
        self.phase_ended = false;
    }

    /// Returns the range of an allocation. Its index may include the block's rank.
    pub(in crate::sim) fn range(&self, alloc: u32) -> SharedRange {
        self.allocs
            .get((alloc & IN_BLOCK) as usize)
            .copied()
            .unwrap_or(SharedRange { start: 0, len: 0 })
    }

    /// Returns the allocation that contains byte `at`, and its range.
    pub(in crate::sim) fn allocation_at(&self, at: usize) -> (u32, SharedRange) {
        let has = |range: &SharedRange| (range.start..range.start + range.len).contains(&at);
        let found = self.allocs.iter().position(has).unwrap_or(0) as u32;
        (found, self.range(found))
    }

    /// Returns the size in bytes.
    pub(in crate::sim) fn len_bytes(&self) -> usize {
        self.words.len() * 4
    }

    // Bytes, for copies.

    /// Reads bytes, or returns the first byte that was never written.
    pub(in crate::sim) fn read_bytes(&self, at: usize, out: &mut [u8]) -> Result<(), usize> {
        let mut done = 0;
        while done < out.len() {
            let (word, from) = ((at + done) / 4, (at + done) % 4);
            let take = (4 - from).min(out.len() - done);
            let mask = byte_mask(from, take);
            let missing = mask & !self.written[word];
            if missing != 0 {
                return Err(word * 4 + missing.trailing_zeros() as usize / 8);
            }
            let bytes = self.words[word].to_le_bytes();
            out[done..done + take].copy_from_slice(&bytes[from..from + take]);
            done += take;
        }
        Ok(())
    }

    /// Marks bytes as unwritten because a load in flight will write them. Returns whether the first
    /// byte was written before.
    pub(in crate::sim) fn begin_write(&mut self, bytes: Range<usize>) -> bool {
        let (first, mut at) = (bytes.start, bytes.start);
        for count in &mut self.incoming[bytes.start / 16..bytes.end.div_ceil(16)] {
            *count = count.saturating_add(1);
        }
        let was = self.written[first / 4] >> (first % 4 * 8) & 1 == 1;
        if (bytes.start | bytes.end).is_multiple_of(4) {
            self.written[bytes.start / 4..bytes.end / 4].fill(0);
            return was;
        }
        while at < bytes.end {
            let (word, from) = (at / 4, at % 4);
            let take = (4 - from).min(bytes.end - at);
            self.written[word] &= !byte_mask(from, take);
            at += take;
        }
        was
    }

    /// Returns whether a load in flight may write one of these bytes.
    pub(in crate::sim) fn has_incoming(&self, bytes: &Range<usize>) -> bool {
        self.incoming[bytes.start / 16..bytes.end.div_ceil(16)].iter().any(|count| *count != 0)
    }

    /// Writes bytes on behalf of an asynchronous operation.
    pub(in crate::sim) fn write_bytes(&mut self, at: usize, from: &[u8]) {
        self.stores.forget(at, from.len());
        for count in &mut self.incoming[at / 16..(at + from.len()).div_ceil(16)] {
            *count = count.saturating_sub(1);
        }
        let mut done = 0;
        while done < from.len() {
            let (word, first) = ((at + done) / 4, (at + done) % 4);
            let take = (4 - first).min(from.len() - done);
            let mut bytes = [0; 4];
            bytes[first..first + take].copy_from_slice(&from[done..done + take]);
            let mask = byte_mask(first, take);
            self.words[word] = self.words[word] & !mask | u32::from_le_bytes(bytes);
            self.written[word] |= mask;
            done += take;
        }
    }

    /// Returns the sixteen bytes at a multiple of 16, or the first of them that was never written.
    #[inline(always)]
    pub(in crate::sim) fn chunk(&self, at: usize) -> Result<[u32; 4], usize> {
        let word = at / 4;
        let (words, written) = (&self.words[word..word + 4], &self.written[word..word + 4]);
        if written.iter().fold(u32::MAX, |all, word| all & word) != u32::MAX {
            let missing = written.iter().position(|word| *word != u32::MAX).unwrap_or(0);
            let bit = (!written[missing]).trailing_zeros() as usize;
            return Err((word + missing) * 4 + bit / 8);
        }
        Ok([words[0], words[1], words[2], words[3]])
    }

    /// Writes sixteen bytes at a multiple of 16.
    #[inline(always)]
    pub(in crate::sim) fn set_chunk(&mut self, at: usize, words: [u32; 4]) {
        let word = at / 4;
        self.words[word..word + 4].copy_from_slice(&words);
        self.written[word..word + 4].copy_from_slice(&[u32::MAX; 4]);
    }

    // mbarriers.

    fn name(&self, byte_address: ByteAddress) -> BarrierAt {
        let first = self.range(byte_address.alloc).start;
        BarrierAt {
            alloc: byte_address.alloc & IN_BLOCK,
            element: (byte_address.at.saturating_sub(first) / 8) as u64,
        }
    }

    /// Returns the live mbarrier that contains byte `at`, if there is one.
    pub(in crate::sim) fn live_barrier(&self, alloc: u32, at: usize) -> Option<BarrierAt> {
        let at = at / 8 * 8;
        let live = matches!(self.barriers.get(&at), Some(Slot::Live(_)));
        live.then(|| self.name(ByteAddress { alloc, at }))
    }

    pub(in crate::sim) fn init_barrier(
        &mut self,
        byte_address: ByteAddress,
        count: u32,
    ) -> Result<(), RawCause> {
        let name = self.name(byte_address);
        let overwritten = self.is_written(byte_address);
        if let Some(Slot::Live(_)) = self.barriers.get(&byte_address.at)
            && !overwritten
        {
            return Err(RawCause::LiveBarrier { barrier: name });
        }
        let barrier = Mbarrier::new(count).ok_or(RawCause::BarrierCount { count })?;
        self.barriers.insert(byte_address.at, Slot::Live(barrier));
        self.forget(byte_address);
        Ok(())
    }

    pub(in crate::sim) fn invalidate_barrier(
        &mut self,
        byte_address: ByteAddress,
    ) -> Result<(), RawCause> {
        self.barrier(byte_address)?;
        self.barriers.insert(byte_address.at, Slot::Invalidated);
        Ok(())
    }

    fn is_written(&self, byte_address: ByteAddress) -> bool {
        self.written[byte_address.at / 4] | self.written[byte_address.at / 4 + 1] != 0
    }

    fn forget(&mut self, byte_address: ByteAddress) {
        self.written[byte_address.at / 4] = 0;
        self.written[byte_address.at / 4 + 1] = 0;
    }

    /// Returns the mbarrier at a multiple of 8 bytes.
    pub(in crate::sim) fn barrier(
        &mut self,
        byte_address: ByteAddress,
    ) -> Result<&mut Mbarrier, RawCause> {
        let barrier = self.name(byte_address);
        let overwritten = self.is_written(byte_address);
        let not = |state| Err(RawCause::NotABarrier { barrier, state });
        match self.barriers.get_mut(&byte_address.at) {
            Some(Slot::Live(_)) if overwritten => not(BarrierState::Overwritten),
            Some(Slot::Live(found)) => Ok(found),
            Some(Slot::Invalidated) => not(BarrierState::Invalidated),
            None => not(BarrierState::NotInitialised),
        }
    }

    /// Changes an mbarrier. Returns its phase before, and whether that phase has ended.
    pub(in crate::sim) fn update_barrier(
        &mut self,
        byte_address: ByteAddress,
        update: impl FnOnce(&mut Mbarrier, BarrierAt) -> Result<(), RawCause>,
    ) -> Result<(u64, bool), RawCause> {
        let name = self.name(byte_address);
        let barrier = self.barrier(byte_address)?;
        let phase = barrier.phase();
        update(barrier, name)?;
        let ended = barrier.end_phase();
        self.phase_ended |= ended;
        Ok((phase, ended))
    }

    /// Returns why a wait at the mbarrier never ends.
    pub(in crate::sim) fn deadlock(&self, byte_address: ByteAddress) -> RawCause {
        let barrier = self.name(byte_address);
        match self.barriers.get(&byte_address.at) {
            Some(Slot::Live(found)) => found.deadlock(barrier),
            Some(Slot::Invalidated) | None => {
                RawCause::NotABarrier { barrier, state: BarrierState::Invalidated }
            }
        }
    }

    /// Returns whether the mbarrier's phase has all its arrivals, but not all its bytes.
    pub(in crate::sim) fn lacks_only_bytes(&self, byte_address: ByteAddress) -> bool {
        matches!(self.barriers.get(&byte_address.at), Some(Slot::Live(barrier)) if barrier.lacks_only_bytes())
    }

    /// Returns whether a phase has ended since the last call.
    pub(in crate::sim) fn take_phase_ended(&mut self) -> bool {
        std::mem::take(&mut self.phase_ended)
    }
}

/// Returns the mask of `count` bytes of a word, from byte `first` on.
pub(in crate::sim) fn byte_mask(first: usize, count: usize) -> u32 {
    (u32::MAX >> (32 - 8 * count)) << (8 * first)
}
