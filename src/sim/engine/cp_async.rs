//! Compiles and executes `cp.async`, with which each thread copies 4, 8 or 16 bytes from global to
//! shared memory. A copy can fill with zeros, is waited for in groups, and can arrive at an
//! mbarrier.

use std::ops::Range;

use super::mbarrier::{Operand, use_detected};
use crate::ir::op::{AsyncCopy, PendingCount};
use crate::ir::types::{Scalar, Space};
use crate::ir::{OpId, Value};
use crate::sim::fault::raw::Origin;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::address::Address;
use crate::sim::memory::agent::{Arrivals, Copies, What};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::mask::{LANES, lanes_of};
use crate::sim::memory::races::mbarrier_address;
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::Next;
use crate::sim::program::refused::Refused;
use crate::sim::race::Target;
use crate::sim::trace::counts::{LaneAccess, TrafficSource};

impl Copies {
    /// Returns the lanes whose copy is still pending and whose group `is_due`.
    pub(in crate::sim) fn due(&self, lanes: u32, is_due: impl Fn(usize, u32) -> bool) -> u32 {
        let due = |lane: &usize| is_due(*lane, self.groups[*lane]);
        lanes_of(self.lanes & lanes).filter(due).fold(0, |due, lane| due | 1 << lane)
    }

    /// Returns a range of shared memory that contains everything that is written.
    pub(in crate::sim) fn hull(&self) -> Range<usize> {
        self.hull[0] as usize..self.hull[1] as usize
    }

    /// Calls `f` with the address and length of each remaining copy.
    pub(in crate::sim) fn each(&self, mut f: impl FnMut(usize, usize)) {
        lanes_of(self.lanes).for_each(|lane| f(self.to[lane] as usize, self.bytes));
    }

    /// Passes the copies to the race detector.
    fn detect(&self, memory: &mut Memory<'_>, origin: Origin, elem: Scalar) {
        memory.detect(elem, |detector, _| {
            let at = origin.into();
            detector.races.copy_issue(at);
            for lane in lanes_of(self.lanes) {
                let (to, bytes) = (self.to[lane] as usize, self.bytes);
                let shared = Target::Shared(origin.block as usize);
                detector.races.copy_access(at, lane as u32, shared, true, &mut |f| f(to, bytes));
                let ((param, from), read) = (self.from[lane], usize::from(self.read[lane]));
                if let (Some(buffer), true) = (detector.buffer(param), read > 0) {
                    let (global, lane) = (Target::Global(buffer), lane as u32);
                    detector.races.copy_access(at, lane, global, false, &mut |f| f(from, read));
                }
            }
        });
    }

    /// Performs the copies of some lanes.
    pub(in crate::sim) fn copy(
        &self,
        memory: &mut Memory<'_>,
        origin: Origin,
        lanes: u32,
    ) -> RawResult {
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

impl Memory<'_> {
    /// Records the accesses of the copies.
    fn record_copies(&mut self, origin: Origin, copies: &Copies) {
        self.record(|recorder| {
            let bytes = copies.bytes as u32;
            let writes = LaneAccess {
                target: Target::Shared(origin.block as usize),
                writes: true,
                bytes,
                mask: copies.lanes,
                at: &|lane| copies.to[lane].into(),
            };
            recorder.access(origin, TrafficSource::Copies, &writes);
            let readers = lanes_of(copies.lanes).filter(|lane| copies.read[*lane] > 0);
            let reads = LaneAccess {
                target: Target::Global(0),
                writes: false,
                bytes,
                mask: readers.fold(0, |mask, lane| mask | 1 << lane),
                at: &|lane| copies.from[lane].1 as u64,
            };
            recorder.access(origin, TrafficSource::Copies, &reads);
        });
    }
}

impl Arrivals {
    /// Returns whether a lane arrives at the mbarrier at this address of the block's shared memory.
    pub(in crate::sim) fn signal(&self, at: usize) -> bool {
        lanes_of(self.lanes)
            .any(|lane| self.barriers[lane].is_some_and(|byte_address| byte_address.at == at))
    }

    pub(in crate::sim) fn arrive(&self, memory: &mut Memory<'_>, origin: Origin) -> RawResult {
        for lane in lanes_of(self.lanes) {
            let Some(byte_address) = self.barriers[lane] else { continue };
            let shared = &mut memory.blocks[origin.block as usize].shared;
            let arrived =
                shared.update_barrier(byte_address, |barrier, name| barrier.arrive(1, name));
            let (_, ended) = arrived.map_err(|cause| RawFault::new(lane, cause))?;
            let barrier = mbarrier_address(origin.block, byte_address);
            memory.record_phase(barrier, ended);
            memory.note(|races| {
                races.copy_arrive(origin.into(), 1 << lane, barrier, self.copies);
                if ended {
                    races.mbarrier_phase(barrier);
                }
            });
        }
        Ok(())
    }
}

/// The operands of a `cp.async`.
#[derive(Clone, Copy)]
struct CpAsync {
    to: Address,
    from: Address,
    src_bytes: u32,
    bytes: u32,
}

impl Compiler<'_> {
    pub(in crate::sim) fn async_copy(
        &mut self,
        id: OpId,
        op: &AsyncCopy,
        results: &[Value],
    ) -> Result<(), Refused> {
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
            AsyncCopy::CpAsyncCommitGroup {} => Inst::Act(Box::new(|context| {
                for lane in lanes_of(context.active) {
                    context.flight.copy_groups[lane] += 1;
                }
                let (at, lanes) = (context.origin.into(), context.active);
                context.memory.note(|races| races.copy_commit(at, lanes));
                Ok(Next::Go)
            })),
            AsyncCopy::CpAsyncWaitGroup { pending } => Inst::Act(Box::new(move |context| {
                let (groups, all) = (context.flight.copy_groups, context.memory.pending.len());
                context.memory.complete_copies(
                    context.origin,
                    context.active,
                    all,
                    |lane, group| group < groups[lane].saturating_sub(pending),
                )?;
                let (at, lanes) = (context.origin.into(), context.active);
                context.memory.note(|races| races.copy_wait(at, lanes, Some(pending)));
                Ok(Next::Go)
            })),
            AsyncCopy::CpAsyncWaitAll {} => Inst::Act(Box::new(|context| {
                let all = context.memory.pending.len();
                context.memory.complete_copies(context.origin, context.active, all, |_, _| true)?;
                let (at, lanes) = (context.origin.into(), context.active);
                context.memory.note(|races| races.copy_wait(at, lanes, None));
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
            | AsyncCopy::CpAsyncBulkMulticast { .. }
            | AsyncCopy::CpAsyncBulkCluster { .. }
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
            AsyncCopy::TensormapReplace { .. } | AsyncCopy::TensormapAcquire { .. } => {
                return self.map_in_memory(id, op, results);
            }
        };
        self.emit(id, inst);
        Ok(())
    }
}

impl CpAsync {
    fn inst(self) -> Inst {
        let CpAsync { to, from, src_bytes, bytes } = self;
        Inst::Act(Box::new(move |context| {
            let mut copies = Box::new(Copies {
                lanes: context.active,
                groups: context.flight.copy_groups,
                bytes: bytes as usize,
                to: [0; LANES],
                hull: [u32::MAX, 0],
                from: [(0, 0); LANES],
                read: [0; LANES],
            });
            let mut byte_addresses = [(0, 0); LANES];
            for lane in lanes_of(context.active) {
                let read = context.regs.w[src_bytes as usize][lane];
                if read > bytes {
                    let cause = RawCause::CopyBytes { bytes: read, limit: bytes };
                    return Err(RawFault::new(lane, cause));
                }
                let target = to.byte_address(context.regs, context.memory, lane, bytes, bytes)?;
                let at = target.at as u32;
                copies.to[lane] = at;
                copies.hull = [copies.hull[0].min(at), copies.hull[1].max(at + bytes)];
                byte_addresses[lane] = (context.memory.here, target.at);
                // If nothing is read, the source may be anywhere.
                if read > 0 {
                    let source =
                        from.byte_address(context.regs, context.memory, lane, read, bytes)?;
                    copies.from[lane] = (source.alloc, source.at);
                    copies.read[lane] = read as u8;
                }
            }
            context.memory.check_stores(
                context.active,
                &byte_addresses,
                bytes as usize,
                |lane| to.access_at(context.regs, context.memory, lane, bytes),
            )?;
            copies.detect(context.memory, context.origin, to.elem);
            let mut again = false;
            copies.each(|at, len| again |= context.memory.shared_mut().begin_write(at..at + len));
            context.memory.record_copies(context.origin, &copies);
            context.memory.issue(context.origin, What::Copies(copies), again);
            Ok(Next::Go)
        }))
    }
}

fn arrive(barrier: Operand, count: PendingCount) -> Inst {
    Inst::Act(Box::new(move |context| {
        let races = context.memory.races.as_ref();
        let copies = races.map_or(0, |races| races.races.copy_count(context.origin.into()));
        let (lanes, barriers) = (context.active, [None; LANES]);
        let mut arrivals = Box::new(Arrivals { lanes, barriers, copies });
        for lane in lanes_of(context.active) {
            let byte_address = barrier.byte_address(context, lane)?;
            let shared = context.memory.shared_mut();
            let found = match count {
                // With `Inc`, the phase waits for one more arrival until this one comes. With both,
                // the mbarrier must exist now.
                PendingCount::Inc => shared
                    .update_barrier(byte_address, |barrier, name| barrier.raise(name))
                    .map(|_| ()),
                PendingCount::Noinc => shared.barrier(byte_address).map(|_| ()),
            };
            found.map_err(|cause| RawFault::new(lane, cause))?;
            let barrier = mbarrier_address(context.origin.block, byte_address);
            use_detected(context, 1 << lane, barrier, false);
            arrivals.barriers[lane] = Some(byte_address);
        }
        context.memory.issue(context.origin, What::Arrivals(arrivals), false);
        Ok(Next::Go)
    }))
}
