//! Compiles the mbarrier instructions: init, arrive, expect_tx, wait and the rest (PTX ISA
//! 9.7.13.15). `memory/mbarrier.rs` does the counting.

use std::sync::atomic::{Ordering::SeqCst, fence};

use crate::ir::op::{Mbarrier as Op, RemoteArrival};
use crate::ir::types::{Scalar, Space};
use crate::ir::{OpId, Value};
use crate::sim::fault::raw::BarrierAt;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::address::Address;
use crate::sim::memory::mask::{LANES, lanes_of};
use crate::sim::memory::mbarrier::{Mbarrier, Phase};
use crate::sim::memory::races::{Arrival, Arrived, mbarrier_address};
use crate::sim::memory::shared::ByteAddress;
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::context::{ExecContext, Next, Park};
use crate::sim::program::refused::Refused;
use crate::sim::program::special::truth;
use crate::sim::race::MbarrierAddress;

/// An mbarrier operand: the address of the mbarrier in each lane.
#[derive(Clone, Copy)]
pub(in crate::sim) struct Operand(Address);

impl Operand {
    pub(in crate::sim) fn byte_address(
        &self,
        context: &ExecContext<'_, '_>,
        lane: usize,
    ) -> RawResult<ByteAddress> {
        self.0.byte_address(context.regs, context.memory, lane, 8, 8)
    }
}

/// The slot of a phase, and whether it is a state or a parity.
#[derive(Clone, Copy)]
struct PhaseSlot {
    slot: u32,
    is_state: bool,
}

impl PhaseSlot {
    fn lane(self, context: &ExecContext<'_, '_>, lane: usize) -> Phase {
        let slot = self.slot as usize;
        match self.is_state {
            true => Phase::State(context.regs.d[slot][lane]),
            false => Phase::Parity(context.regs.w[slot][lane].into()),
        }
    }
}

/// Returns the lanes for which the phase has ended, and the first lane for which it has not, with
/// its mbarrier.
fn ended(
    context: &mut ExecContext<'_, '_>,
    lanes: u32,
    barrier: Operand,
    phase: PhaseSlot,
) -> RawResult<(u32, Option<(usize, ByteAddress)>)> {
    let (mut done, mut first) = (0, None);
    let mut last: Option<(MbarrierAddress, u32)> = None;
    for lane in lanes_of(lanes) {
        let (byte_address, phase) =
            (barrier.byte_address(context, lane)?, phase.lane(context, lane));
        let found = context.memory.shared_mut().barrier(byte_address);
        let found = found.map_err(|cause| RawFault::new(lane, cause))?;
        if found.has_ended(phase) {
            done |= 1 << lane;
            let (origin, at) =
                (context.origin, mbarrier_address(context.origin.block, byte_address));
            context.memory.record(|recorder| recorder.timeline.waited(origin, at));
            if context.memory.races.is_some() {
                let barrier = mbarrier_address(context.origin.block, byte_address);
                let other = last.filter(|(found, _)| *found != barrier);
                wait_detected(context, other);
                let same = last.filter(|(found, _)| *found == barrier).map_or(0, |(_, mask)| mask);
                last = Some((barrier, same | 1 << lane));
            }
        } else {
            first = first.or(Some((lane, byte_address)));
        }
    }
    wait_detected(context, last);
    // What came before the end of the phase must be visible after it.
    fence(SeqCst);
    Ok((done, first))
}

/// Tells the race detector that a lane initialised or invalidated an mbarrier.
fn set_detected(context: &mut ExecContext<'_, '_>, lane: usize, barrier: ByteAddress) {
    let barrier = mbarrier_address(context.origin.block, barrier);
    let at = context.origin.into();
    context
        .memory
        .detect(Scalar::U64, |detector, _| detector.races.mbarrier_set(at, lane as u32, barrier));
}

/// Lets the race detector check that the mbarrier's initialisation happens before the lanes use it.
pub(in crate::sim) fn use_detected(
    context: &mut ExecContext<'_, '_>,
    lanes: u32,
    barrier: MbarrierAddress,
    by_proxy: bool,
) {
    let at = context.origin.into();
    context.memory.detect(Scalar::U64, |detector, _| {
        detector.races.mbarrier_use(at, lanes, barrier, by_proxy)
    });
}

/// Tells the race detector that lanes have waited for a phase, so they know what happened before
/// its end.
fn wait_detected(context: &mut ExecContext<'_, '_>, waited: Option<(MbarrierAddress, u32)>) {
    let Some((barrier, lanes)) = waited else { return };
    use_detected(context, lanes, barrier, false);
    let at = context.origin.into();
    context.memory.note(|races| races.mbarrier_wait(at, lanes, barrier));
}

/// Changes an mbarrier by a lane's operand.
type Update = fn(&mut Mbarrier, u32, BarrierAt) -> Result<(), RawCause>;

impl Compiler<'_> {
    pub(in crate::sim) fn barrier_operand(
        &self,
        barrier: Value,
        index: Value,
    ) -> Result<Operand, Refused> {
        Ok(Operand(self.address_in(Space::Shared, barrier, index)?))
    }

    pub(in crate::sim) fn mbarrier(
        &mut self,
        id: OpId,
        op: &Op,
        results: &[Value],
    ) -> Result<(), Refused> {
        let inst = match *op {
            Op::MbarrierInit { barrier, index, count } => {
                let (barrier, count) =
                    (self.barrier_operand(barrier, index)?, self.scalar_of(count, Scalar::U32)?);
                Inst::Act(Box::new(move |context| {
                    for lane in lanes_of(context.active) {
                        let byte_address = barrier.byte_address(context, lane)?;
                        let count = context.regs.w[count as usize][lane];
                        let made = context.memory.shared_mut().init_barrier(byte_address, count);
                        made.map_err(|cause| RawFault::new(lane, cause))?;
                        set_detected(context, lane, byte_address);
                    }
                    Ok(Next::Go)
                }))
            }
            Op::MbarrierInval { barrier, index } => {
                let barrier = self.barrier_operand(barrier, index)?;
                Inst::Act(Box::new(move |context| {
                    for lane in lanes_of(context.active) {
                        let byte_address = barrier.byte_address(context, lane)?;
                        let done = context.memory.shared_mut().invalidate_barrier(byte_address);
                        done.map_err(|cause| RawFault::new(lane, cause))?;
                        set_detected(context, lane, byte_address);
                    }
                    Ok(Next::Go)
                }))
            }
            Op::MbarrierArrive { barrier, index, count } => {
                self.update_barrier([barrier, index, count], results, |barrier, count, name| {
                    barrier.arrive(count, name)
                })?
            }
            Op::MbarrierArriveExpectTx { barrier, index, bytes } => {
                self.update_barrier([barrier, index, bytes], results, |barrier, bytes, name| {
                    barrier.expect(bytes.into(), name)?;
                    barrier.arrive(1, name)
                })?
            }
            Op::MbarrierExpectTx { barrier, index, bytes } => {
                self.update_barrier([barrier, index, bytes], &[], |barrier, bytes, name| {
                    barrier.expect(bytes.into(), name)
                })?
            }
            Op::MbarrierCompleteTx { barrier, index, bytes } => {
                self.update_barrier([barrier, index, bytes], &[], |barrier, bytes, name| {
                    barrier.expect(-i64::from(bytes), name)
                })?
            }
            Op::MbarrierArriveCluster { barrier, index, cta, order } => {
                let barrier = self.barrier_operand(barrier, index)?;
                let cta = self.scalar_of(cta, Scalar::U32)?;
                Inst::Act(Box::new(move |context| {
                    fence(SeqCst);
                    let mut all = Arrived::default();
                    for lane in lanes_of(context.active) {
                        let byte_address = barrier.byte_address(context, lane)?;
                        let block = context.regs.w[cta as usize][lane];
                        context.memory.check_started(context.origin, 1 << lane, block);
                        let shared = context.memory.shared_of_mut(block);
                        let arrived = shared.and_then(|shared| {
                            shared.update_barrier(byte_address, |barrier, name| {
                                barrier.arrive(1, name)
                            })
                        });
                        let (_, ended) = arrived.map_err(|cause| RawFault::new(lane, cause))?;
                        let barrier = mbarrier_address(block, byte_address);
                        use_detected(context, 1 << lane, barrier, false);
                        let releases =
                            order == RemoteArrival::Release || block == context.origin.block;
                        let origin = context.origin;
                        let arrival = Arrival { lane, barrier, releases, ended };
                        context.memory.note_arrival(origin, &mut all, arrival);
                    }
                    context.memory.note_arrivals(context.origin, &mut all);
                    Ok(Next::Go)
                }))
            }
            Op::MbarrierTestWait { barrier, index, state }
            | Op::MbarrierTryWait { barrier, index, state } => {
                let phase = PhaseSlot { slot: self.scalar_of(state, Scalar::U64)?, is_state: true };
                self.test_barrier([barrier, index], phase, results)?
            }
            Op::MbarrierTestWaitParity { barrier, index, parity }
            | Op::MbarrierTryWaitParity { barrier, index, parity } => {
                let slot = self.scalar_of(parity, Scalar::U32)?;
                self.test_barrier([barrier, index], PhaseSlot { slot, is_state: false }, results)?
            }
            Op::MbarrierWait { barrier, index, state } => {
                let phase = PhaseSlot { slot: self.scalar_of(state, Scalar::U64)?, is_state: true };
                self.wait_barrier([barrier, index], phase)?
            }
            Op::MbarrierWaitParity { barrier, index, parity } => {
                let slot = self.scalar_of(parity, Scalar::U32)?;
                self.wait_barrier([barrier, index], PhaseSlot { slot, is_state: false })?
            }
            // The simulator shows an initialisation to everyone at once, so only the race
            // detector needs the fence.
            Op::FenceMbarrierInit {} => Inst::Act(Box::new(|context| {
                let (at, lanes) = (context.origin.into(), context.active);
                context.memory.note(|races| races.init_fence(at, lanes));
                Ok(Next::Go)
            })),
        };
        self.emit(id, inst);
        Ok(())
    }

    fn update_barrier(
        &mut self,
        [barrier, index, operand]: [Value; 3],
        results: &[Value],
        update: Update,
    ) -> Result<Inst, Refused> {
        let (barrier, operand) =
            (self.barrier_operand(barrier, index)?, self.scalar_of(operand, Scalar::U32)?);
        let state = match results {
            [] => None,
            _ => Some(self.result(results, 0)?.scalar(Scalar::U64)?),
        };
        // Changing only the byte count releases nothing.
        let arrives = !results.is_empty();
        Ok(Inst::Act(Box::new(move |context| {
            fence(SeqCst);
            let mut states = [0; LANES];
            let mut all = Arrived::default();
            for lane in lanes_of(context.active) {
                let byte_address = barrier.byte_address(context, lane)?;
                let operand = context.regs.w[operand as usize][lane];
                let shared = context.memory.shared_mut();
                let phase = shared
                    .update_barrier(byte_address, |barrier, name| update(barrier, operand, name));
                let (phase, ended) = phase.map_err(|cause| RawFault::new(lane, cause))?;
                states[lane] = phase;
                let origin = context.origin;
                let address = mbarrier_address(origin.block, byte_address);
                use_detected(context, 1 << lane, address, false);
                if arrives {
                    let arrival = Arrival { lane, barrier: address, releases: true, ended };
                    context.memory.note_arrival(origin, &mut all, arrival);
                } else {
                    context.memory.record_phase(address, ended);
                    if ended {
                        context.memory.note(|races| races.mbarrier_phase(address));
                    }
                }
            }
            context.memory.note_arrivals(context.origin, &mut all);
            if let Some(state) = state {
                context.regs.d[state as usize] = states;
            }
            Ok(Next::Go)
        })))
    }

    fn test_barrier(
        &mut self,
        [barrier, index]: [Value; 2],
        phase: PhaseSlot,
        results: &[Value],
    ) -> Result<Inst, Refused> {
        let barrier = self.barrier_operand(barrier, index)?;
        let dst = self.result(results, 0)?.scalar(Scalar::Bool)?;
        Ok(Inst::Act(Box::new(move |context| {
            let (done, first) = ended(context, context.active, barrier, phase)?;
            context.regs.w[dst as usize] = truth(done);
            Ok(first.map_or(Next::Go, |(_, byte_address)| Next::Idle(Some(byte_address.at))))
        })))
    }

    /// Compiles a wait, in which each lane waits for its own phase. Once a lane's phase has ended,
    /// its wait is over, even if the mbarrier changes while other lanes still wait.
    fn wait_barrier(
        &mut self,
        [barrier, index]: [Value; 2],
        phase: PhaseSlot,
    ) -> Result<Inst, Refused> {
        let barrier = self.barrier_operand(barrier, index)?;
        Ok(Inst::Act(Box::new(move |context| {
            let lanes = context.active & !context.flight.waited;
            let (done, first) = ended(context, lanes, barrier, phase)?;
            match first {
                Some((lane, byte_address)) => {
                    context.flight.waited |= done;
                    Ok(Next::Park(Park::Barrier { lane: lane as u32, byte_address }))
                }
                None => {
                    context.flight.waited = 0;
                    Ok(Next::Go)
                }
            }
        })))
    }
}
