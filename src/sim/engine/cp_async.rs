//! `cp.async`: copies of 4, 8 or 16 bytes from global to shared memory, by each thread.

use std::ops::Range;

use super::mbarrier::Operand;
use super::pending::What;
use crate::ir::{AsyncCopy, OpId, PendingCount, Scalar, Space};
use crate::sim::exec::context::{Next, Origin};
use crate::sim::fault::raw::{Trap, TrapCause, Trapped};
use crate::sim::memory::access::{Address, Memory};
use crate::sim::memory::lanes::{LANES, lanes_of};
use crate::sim::memory::shared::Spot;
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::{Compiler, Refused};

/// The copies of a warp: those of `lanes`.
#[derive(Debug)]
pub(in crate::sim) struct Copies {
    pub(in crate::sim) lanes: u32,
    /// The group of each lane.
    groups: [u32; LANES],
    /// Bytes of each copy.
    bytes: usize,
    to: [u32; LANES],
    /// A range of shared memory around all destinations.
    hull: [u32; 2],
    from: [(u32, usize); LANES],
    /// The bytes that are read; the rest is zero.
    read: [u8; LANES],
}

impl Copies {
    /// Those of the lanes that are left and whose group is due.
    pub(in crate::sim) fn due(&self, lanes: u32, is_due: impl Fn(usize, u32) -> bool) -> u32 {
        let due = |lane: &usize| is_due(*lane, self.groups[*lane]);
        lanes_of(self.lanes & lanes).filter(due).fold(0, |due, lane| due | 1 << lane)
    }

    /// A range of shared memory around all that is written.
    pub(in crate::sim) fn hull(&self) -> Range<usize> {
        self.hull[0] as usize..self.hull[1] as usize
    }

    /// Calls `f` with the address of each copy that is left, and its bytes.
    pub(in crate::sim) fn each(&self, mut f: impl FnMut(usize, usize)) {
        lanes_of(self.lanes).for_each(|lane| f(self.to[lane] as usize, self.bytes));
    }

    /// Makes the copies of some lanes.
    pub(in crate::sim) fn copy(
        &self,
        memory: &mut Memory<'_>,
        origin: Origin,
        lanes: u32,
    ) -> Trapped {
        for lane in lanes_of(lanes) {
            let mut bytes = [0; 16];
            let ((alloc, from), read) = (self.from[lane], usize::from(self.read[lane]));
            memory.global(alloc).read_bytes(from, &mut bytes[..read]);
            let shared = &mut memory.blocks[origin.block as usize].shared;
            shared.write_bytes(self.to[lane] as usize, &bytes[..self.bytes]);
        }
        Ok(())
    }
}

/// Arrivals at barriers when the copies before are done, of `lanes`.
#[derive(Debug)]
pub(in crate::sim) struct Arrivals {
    pub(in crate::sim) lanes: u32,
    barriers: [Option<Spot>; LANES],
}

impl Arrivals {
    /// Whether the barrier at this address is told.
    pub(in crate::sim) fn tell(&self, at: usize) -> bool {
        lanes_of(self.lanes).any(|lane| self.barriers[lane].is_some_and(|spot| spot.at == at))
    }

    pub(in crate::sim) fn arrive(&self, memory: &mut Memory<'_>, origin: Origin) -> Trapped {
        for lane in lanes_of(self.lanes) {
            let Some(spot) = self.barriers[lane] else { continue };
            let shared = &mut memory.blocks[origin.block as usize].shared;
            let arrived = shared.update_barrier(spot, |barrier, name| barrier.arrive(1, name));
            arrived.map_err(|cause| Trap::new(lane, cause))?;
        }
        Ok(())
    }
}

/// A `cp.async`: its operands.
#[derive(Clone, Copy)]
struct CpAsync {
    to: Address,
    from: Address,
    src_bytes: u32,
    bytes: u32,
}

impl Compiler<'_> {
    pub(in crate::sim) fn async_copy(&mut self, id: OpId, op: &AsyncCopy) -> Result<(), Refused> {
        let inst = match *op {
            AsyncCopy::CpAsync { to, to_index, from, from_index, src_bytes, cache: _, bytes } => {
                let copy = CpAsync {
                    to: self.address_in(Space::Shared, to, to_index)?,
                    from: self.address_in(Space::Global, from, from_index)?,
                    src_bytes: self.scalar_of(src_bytes, Scalar::U32)?,
                    bytes,
                };
                if !matches!(bytes, 4 | 8 | 16) {
                    return Err(Refused::Malformed);
                }
                copy.inst()
            }
            AsyncCopy::CpAsyncCommitGroup {} => Inst::Act(Box::new(|turn| {
                for lane in lanes_of(turn.active) {
                    turn.flight.copy_groups[lane] += 1;
                }
                Ok(Next::Go)
            })),
            AsyncCopy::CpAsyncWaitGroup { pending } => Inst::Act(Box::new(move |turn| {
                let (groups, all) = (turn.flight.copy_groups, turn.memory.pending.len());
                turn.memory.complete_copies(turn.origin, turn.active, all, |lane, group| {
                    group < groups[lane].saturating_sub(pending)
                })?;
                Ok(Next::Go)
            })),
            AsyncCopy::CpAsyncWaitAll {} => Inst::Act(Box::new(|turn| {
                let all = turn.memory.pending.len();
                turn.memory.complete_copies(turn.origin, turn.active, all, |_, _| true)?;
                Ok(Next::Go)
            })),
            AsyncCopy::CpAsyncMbarrierArrive { barrier, index, count } => {
                let barrier = self.barrier_operand(barrier, index)?;
                arrive(barrier, count)
            }
            AsyncCopy::StAsync { base, index, value, barrier, barrier_index } => {
                return self.remote_store(id, [base, index, value, barrier, barrier_index], None);
            }
            AsyncCopy::RedAsync { base, index, value, barrier, barrier_index, op } => {
                let operands = [base, index, value, barrier, barrier_index];
                return self.remote_store(id, operands, Some(op));
            }
            AsyncCopy::CpAsyncBulkLoad { .. }
            | AsyncCopy::CpAsyncBulkStore { .. }
            | AsyncCopy::CpAsyncBulkPrefetch { .. }
            | AsyncCopy::CpAsyncBulkTensorLoad { .. }
            | AsyncCopy::CpAsyncBulkTensorMulticast { .. }
            | AsyncCopy::CpAsyncBulkTensorStore { .. }
            | AsyncCopy::CpReduceAsyncBulkTensor { .. }
            | AsyncCopy::CpAsyncBulkPrefetchTensor { .. }
            | AsyncCopy::CpAsyncBulkCommitGroup {}
            | AsyncCopy::CpAsyncBulkWaitGroup { .. }
            | AsyncCopy::PrefetchTensormap { .. } => return self.bulk_copy(id, op),
        };
        self.emit(id, inst);
        Ok(())
    }
}

impl CpAsync {
    fn inst(self) -> Inst {
        let CpAsync { to, from, src_bytes, bytes } = self;
        Inst::Act(Box::new(move |turn| {
            let mut copies = Box::new(Copies {
                lanes: turn.active,
                groups: turn.flight.copy_groups,
                bytes: bytes as usize,
                to: [0; LANES],
                hull: [u32::MAX, 0],
                from: [(0, 0); LANES],
                read: [0; LANES],
            });
            let mut spots = [(0, 0); LANES];
            for lane in lanes_of(turn.active) {
                let read = turn.regs.w[src_bytes as usize][lane];
                if read > bytes {
                    let cause = TrapCause::CopyBytes { bytes: read, limit: bytes };
                    return Err(Trap::new(lane, cause));
                }
                let target = to.spot(turn.regs, turn.memory, lane, (bytes, bytes))?;
                let at = target.at as u32;
                copies.to[lane] = at;
                copies.hull = [copies.hull[0].min(at), copies.hull[1].max(at + bytes)];
                spots[lane] = (turn.memory.here, target.at);
                // What is not read may be anywhere.
                if read > 0 {
                    let source = from.spot(turn.regs, turn.memory, lane, (read, bytes))?;
                    copies.from[lane] = (source.alloc, source.at);
                    copies.read[lane] = read as u8;
                }
            }
            turn.memory.check_stores(turn.active, &spots, bytes as usize, |lane| {
                to.access_at(turn.regs, turn.memory, lane, bytes)
            })?;
            let mut again = false;
            copies.each(|at, len| again |= turn.memory.shared_mut().begin_write(at..at + len));
            turn.memory.pending.push(turn.origin, What::Copies(copies), again);
            Ok(Next::Go)
        }))
    }
}

fn arrive(barrier: Operand, count: PendingCount) -> Inst {
    Inst::Act(Box::new(move |turn| {
        let mut arrivals = Box::new(Arrivals { lanes: turn.active, barriers: [None; LANES] });
        for lane in lanes_of(turn.active) {
            let spot = barrier.spot(turn, lane)?;
            let shared = turn.memory.shared_mut();
            let found = match count {
                // It must be a barrier now, and is one arrival short until this one comes.
                PendingCount::Inc => {
                    shared.update_barrier(spot, |barrier, name| barrier.raise(name))
                }
                PendingCount::Noinc => shared.barrier(spot).map(|barrier| barrier.phase()),
            };
            found.map_err(|cause| Trap::new(lane, cause))?;
            arrivals.barriers[lane] = Some(spot);
        }
        turn.memory.pending.push(turn.origin, What::Arrivals(arrivals), false);
        Ok(Next::Go)
    }))
}
