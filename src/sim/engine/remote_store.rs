//! Accesses to other blocks of the cluster: `mapa`, which makes pointers to their shared memory,
//! and the stores `st.async` and `red.async`, which signal an mbarrier in that block.

use super::bulk_reduce::reduced;
use crate::ir::op::BulkReduce;
use crate::ir::types::{Scalar, Space};
use crate::ir::{OpId, Value};
use crate::sim::fault::raw::{AccessAt, Origin};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::address::{Address, Alloc, PointerSlots};
use crate::sim::memory::agent::{BlockBytes, RemoteStore};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::lanes_of;
use crate::sim::memory::races::mbarrier_address;
use crate::sim::memory::shared::{in_cluster, of_cluster};
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::Next;
use crate::sim::program::refused::Refused::{self, Malformed};
use crate::sim::program::slots::Slots;
use crate::sim::race::MbarrierAddress;

impl RemoteStore {
    /// Returns the bytes that are written.
    pub(in crate::sim) fn bytes(&self) -> BlockBytes {
        let at = self.to.at;
        let range = at..at + self.elem.size_bytes() as usize;
        BlockBytes { rank: self.block as usize, range }
    }

    /// Returns whether it combines the value with the one in memory.
    pub(in crate::sim) fn is_reduction(&self) -> bool {
        self.reduce.is_some()
    }

    /// Returns the mbarrier that it signals.
    pub(in crate::sim) fn signals(&self) -> MbarrierAddress {
        mbarrier_address(self.block, self.barrier)
    }

    /// Stores the element, or combines it with the one in memory, then signals the mbarrier.
    pub(in crate::sim) fn store(&self, memory: &mut Memory<'_>, origin: Origin) -> RawResult {
        let trapped = |cause| RawFault::new(self.lane, cause);
        let shared = memory.shared_of_mut(self.block).map_err(trapped)?;
        // The mbarrier must be there before anything is written, because the data may overwrite it.
        shared.barrier(self.barrier).map_err(trapped)?;
        let size = self.elem.size_bytes() as usize;
        let mut new = self.value;
        if let Some(op) = self.reduce {
            let mut old = [0; 8];
            if let Err(byte) = shared.read_bytes(self.to.at, &mut old[..size]) {
                let range = shared.range(self.to.alloc);
                let access = AccessAt {
                    is_store: Some(false),
                    space: Space::SharedCluster,
                    alloc: self.to.alloc,
                    elem: self.elem,
                    byte: self.to.at.saturating_sub(range.start) as i128,
                    bytes: size as u32,
                    align: size as u32,
                    len_bytes: range.len as u64,
                };
                return Err(trapped(shared.missing(access, byte)));
            }
            new = reduced(op, self.elem, u64::from_le_bytes(old), self.value);
        }
        shared.write_bytes(self.to.at, &new.to_le_bytes()[..size]);
        let signalled = shared
            .update_barrier(self.barrier, |barrier, name| barrier.expect(-(size as i64), name));
        let (_, ended) = signalled.map_err(trapped)?;
        memory.note_completion(origin, self.number, self.signals(), ended);
        Ok(())
    }
}

/// The operands of a store.
#[derive(Clone, Copy)]
struct StoreSlots {
    to: Address,
    /// The slot of the value, in the element type's file.
    value: u32,
    barrier: Address,
    reduce: Option<BulkReduce>,
}

impl Compiler<'_> {
    /// Compiles `mapa`: the pointer carries its block's rank together with the allocation index.
    pub(in crate::sim) fn mapa(
        &mut self,
        id: OpId,
        base: Value,
        cta: Value,
        result: Value,
    ) -> Result<(), Refused> {
        let (pointer, space, _) = self.pointer(base)?;
        let cta = self.scalar_of(cta, Scalar::U32)? as usize;
        if space != Space::Shared {
            return Err(Malformed);
        }
        let to = self.allocate_values(&[result])?;
        let [Slots::Pointer(PointerSlots { alloc: Alloc::Slot(alloc), offset: Some(dst) })] =
            to[..]
        else {
            return Err(Malformed);
        };
        let src = self.regs.offset_slot(pointer) as usize;
        let (alloc, dst) = (alloc as usize, dst as usize);
        let run = move |regs: &mut Regs, memory: &mut Memory<'_>, mask: u32| {
            let blocks = memory.blocks.len() as u32;
            for lane in lanes_of(mask) {
                let rank = regs.w[cta][lane];
                if rank >= blocks {
                    return Err(RawFault::new(lane, RawCause::NoClusterBlock { rank, blocks }));
                }
                let number = match pointer.alloc {
                    Alloc::Static(number) => number,
                    Alloc::Slot(slot) => regs.w[slot as usize][lane],
                };
                regs.w[alloc][lane] = in_cluster(rank, number);
                regs.d[dst][lane] = regs.d[src][lane];
            }
            Ok(())
        };
        self.emit(id, Inst::Memory(Box::new(run)));
        Ok(())
    }

    /// Compiles `st_async`, or `red_async` if `reduce` is set.
    pub(in crate::sim) fn remote_store(
        &mut self,
        id: OpId,
        [base, index, value, barrier, barrier_index]: [Value; 5],
        reduce: Option<BulkReduce>,
    ) -> Result<(), Refused> {
        let to = self.address_in(Space::SharedCluster, base, index)?;
        let barrier = self.address_in(Space::SharedCluster, barrier, barrier_index)?;
        let slots = StoreSlots { to, value: self.scalar_of(value, to.elem)?, barrier, reduce };
        self.emit(
            id,
            Inst::Act(Box::new(move |context| {
                let StoreSlots { to, value, barrier, reduce } = slots;
                let (elem, size) = (to.elem, to.elem.size_bytes());
                for lane in lanes_of(context.active) {
                    let byte_address =
                        to.byte_address(context.regs, context.memory, lane, size, size)?;
                    let barrier = barrier.byte_address(context.regs, context.memory, lane, 8, 8)?;
                    let [(rank, _), (barrier_rank, _)] =
                        [byte_address, barrier].map(|byte_address| of_cluster(byte_address.alloc));
                    if rank != barrier_rank {
                        let cause = RawCause::BarrierElsewhere { rank, barrier_rank };
                        return Err(RawFault::new(lane, cause));
                    }
                    let value = match size {
                        8 => context.regs.d[value as usize][lane],
                        _ => context.regs.w[value as usize][lane].into(),
                    };
                    let (block, to) = (rank, byte_address);
                    let number = 0;
                    let store =
                        RemoteStore { lane, block, to, elem, value, reduce, barrier, number };
                    context.memory.begin_remote(context.origin, store)?;
                }
                Ok(Next::Go)
            })),
        );
        Ok(())
    }
}
