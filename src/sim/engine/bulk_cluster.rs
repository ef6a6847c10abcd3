//! Bulk copies to other blocks of the cluster, from global memory (multicast) or from shared
//! memory. Both signal an mbarrier in the block that receives the bytes.

use super::bulk_copy::{bulk_bytes, each_lane};
use crate::ir::Value;
use crate::ir::types::{Scalar, Space};
use crate::sim::fault::raw::AccessAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::agent::{BlockBytes, Global, Load};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::mask::lanes_of;
use crate::sim::memory::shared::{ByteAddress, of_cluster};
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::refused::Refused;

impl Load {
    /// Returns the shared memory that is read, if the source is shared memory.
    pub(in crate::sim) fn shared_source(&self) -> Option<BlockBytes> {
        match (self.source, self.from) {
            (Some(rank), Global::Bytes(from)) => {
                let range = from.at..from.at + self.bytes as usize;
                Some(BlockBytes { rank: rank as usize, range })
            }
            _ => None,
        }
    }

    pub(super) fn read_shared(
        &self,
        memory: &Memory<'_>,
        rank: u32,
        from: ByteAddress,
        data: &mut [u8],
    ) -> RawResult {
        let shared = &memory.blocks[rank as usize].shared;
        shared.read_bytes(from.at, data).map_err(|byte| {
            let range = shared.range(from.alloc);
            let access = AccessAt {
                is_store: Some(false),
                space: Space::Shared,
                alloc: from.alloc,
                elem: Scalar::U8,
                byte: from.at.saturating_sub(range.start) as i128,
                bytes: self.bytes,
                align: 16,
                len_bytes: range.len as u64,
            };
            RawFault::new(self.lane, shared.missing(access, byte))
        })
    }

    /// Returns a fault if the asynchronous proxy may not see what threads stored to the source.
    pub(in crate::sim) fn check_source(&self, memory: &Memory<'_>) -> RawResult {
        let (Some(proxies), Some(source)) = (&memory.proxies, self.shared_source()) else {
            return Ok(());
        };
        let BlockBytes { rank, range } = source;
        let seen = proxies.check(&memory.blocks[rank].shared.stores, range.start, range.len());
        seen.map_err(|cause| RawFault::new(self.lane, cause))
    }
}

impl Compiler<'_> {
    /// Compiles a copy from global memory to the same location in each block of the mask `ctas`.
    pub(super) fn bulk_multicast(
        &self,
        [to, to_index, from, from_index]: [Value; 4],
        bytes: Value,
        [barrier, barrier_index]: [Value; 2],
        ctas: Value,
    ) -> Result<Inst, Refused> {
        let (to, from) = (self.in_shared(to, to_index)?, self.in_global(from, from_index)?);
        let barrier = self.barrier_operand(barrier, barrier_index)?;
        let [bytes, ctas] =
            [self.scalar_of(bytes, Scalar::U32)?, self.scalar_of(ctas, Scalar::U32)?];
        Ok(each_lane(move |context, lane| {
            let bytes = bulk_bytes(context, bytes, lane)?;
            let to = to.byte_address(context.regs, context.memory, lane, bytes, 16)?;
            let from = from.byte_address(context.regs, context.memory, lane, bytes, 16)?;
            let barrier = barrier.byte_address(context, lane)?;
            let (from, number, source) = (Global::Bytes(from), 0, None);
            for block in lanes_of(context.regs.w[ctas as usize][lane] & 0xffff) {
                let block = block as u32;
                context.memory.shared_of(block).map_err(|cause| RawFault::new(lane, cause))?;
                let load = Load { lane, block, from, source, to, bytes, barrier, number };
                context.memory.begin_load(context.origin, load)?;
            }
            Ok(())
        }))
    }

    /// Compiles a copy from the own block's shared memory to another block's.
    pub(super) fn bulk_cluster(
        &self,
        [to, to_index, from, from_index]: [Value; 4],
        bytes: Value,
        [barrier, barrier_index]: [Value; 2],
    ) -> Result<Inst, Refused> {
        let to = self.address_in(Space::SharedCluster, to, to_index)?;
        let from = self.in_shared(from, from_index)?;
        let barrier = self.address_in(Space::SharedCluster, barrier, barrier_index)?;
        let bytes = self.scalar_of(bytes, Scalar::U32)?;
        Ok(each_lane(move |context, lane| {
            let bytes = bulk_bytes(context, bytes, lane)?;
            let from = from.byte_address(context.regs, context.memory, lane, bytes, 16)?;
            let to = to.byte_address(context.regs, context.memory, lane, bytes, 16)?;
            let barrier = barrier.byte_address(context.regs, context.memory, lane, 8, 8)?;
            let ((rank, to_alloc), (barrier_rank, barrier_alloc)) =
                (of_cluster(to.alloc), of_cluster(barrier.alloc));
            if rank != barrier_rank {
                let cause = RawCause::BarrierElsewhere { rank, barrier_rank };
                return Err(RawFault::new(lane, cause));
            }
            let to = ByteAddress { alloc: to_alloc, ..to };
            let barrier = ByteAddress { alloc: barrier_alloc, ..barrier };
            let (block, source) = (rank, Some(context.origin.block));
            let (from, number) = (Global::Bytes(from), 0);
            let load = Load { lane, block, from, source, to, bytes, barrier, number };
            context.memory.begin_load(context.origin, load)
        }))
    }
}
