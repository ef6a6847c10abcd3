//! Addresses of one lane, for operations that move more or less than elements.

use super::access::{Address, Memory, PointerSlots, Strength};
use super::buffer::Buffer;
use super::lanes::{LANE_BIT, Regs};
use super::shared::{ByteAddress, Shared};
use super::space::{Allocation, MemorySpace};
use crate::ir::{Space, Value};
use crate::sim::fault::raw::AccessAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::program::compiler::Compiler;
use crate::sim::program::refused::Refused;

impl Compiler<'_> {
    /// The address of what must be in the given space.
    pub(in crate::sim) fn address_in(
        &self,
        space: Space,
        base: Value,
        index: Value,
    ) -> Result<Address, Refused> {
        let address = self.address(base, index, Strength::default())?;
        if address.space == space { Ok(address) } else { Err(Refused::Malformed) }
    }
}

impl Address {
    /// Checks the `bytes` bytes at the address of a lane and returns their offset: in shared memory from the start of the
    /// block's, else from the start of the allocation. They must be inside the allocation, and start at a multiple of
    /// `align`.
    pub(in crate::sim) fn byte_address(
        &self,
        regs: &Regs,
        memory: &Memory<'_>,
        lane: usize,
        (bytes, align): (u32, u32),
    ) -> RawResult<ByteAddress> {
        let found = self.allocation(regs, lane);
        let (start, len) = match found.memory_space {
            MemorySpace::Shared | MemorySpace::Cluster => {
                let shared = memory.shared_at(found, LANE_BIT[lane])?;
                let range = shared.range(found.number);
                (range.start, range.len)
            }
            MemorySpace::Global | MemorySpace::Const => (0, memory.buffer(found).len_bytes()),
            // What moves more than elements takes no pointer there.
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

    /// The access of a lane to `bytes` bytes of shared memory.
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

    /// Reports a byte which the lane reads and nobody has written.
    pub(in crate::sim) fn missing_byte(
        &self,
        regs: &Regs,
        memory: &Memory<'_>,
        lane: usize,
        (bytes, at): (u32, usize),
    ) -> Box<RawFault> {
        let access = AccessAt { align: 1, ..self.access_at(regs, memory, lane, bytes) };
        RawFault::new(lane, memory.shared().missing(access, at))
    }
}

/// The address of a pointer in the shared window.
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
    /// Returns the cause for which the byte `at` of the access cannot be read.
    pub(in crate::sim) fn missing(&self, access: AccessAt, at: usize) -> RawCause {
        if let Some(barrier) = self.live_barrier(access.alloc, at) {
            return RawCause::LiveBarrier { barrier };
        }
        let first = self.range(access.alloc).start;
        RawCause::Uninitialised { access: access.read(), byte: at.saturating_sub(first) as u64 }
    }
}

impl<'m> Memory<'m> {
    /// The shared memory of the block with this rank in the cluster.
    pub(in crate::sim) fn shared_of(&self, rank: u32) -> Result<&Shared, RawCause> {
        let blocks = self.blocks.len() as u32;
        match self.blocks.get(rank as usize) {
            None => Err(RawCause::NoClusterBlock { rank, blocks }),
            Some(block) if block.ended => Err(RawCause::BlockEnded { rank }),
            Some(block) => Ok(&block.shared),
        }
    }

    /// As [`Memory::shared_of`].
    pub(in crate::sim) fn shared_of_mut(&mut self, rank: u32) -> Result<&mut Shared, RawCause> {
        self.shared_of(rank)?;
        Ok(&mut self.blocks[rank as usize].shared)
    }

    /// The buffer of a parameter.
    pub(in crate::sim) fn global(&self, alloc: u32) -> &'m Buffer {
        self.buffer(Allocation { memory_space: MemorySpace::Global, number: alloc })
    }
}
