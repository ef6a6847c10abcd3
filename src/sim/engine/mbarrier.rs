//! Barriers in shared memory that count arrivals and bytes (PTX ISA 9.7.13.15).

use crate::sim::fault::raw::BarrierAt;
use std::sync::atomic::{Ordering::SeqCst, fence};

use crate::ir::{Mbarrier as Op, OpId, Scalar, Space, Value};
use crate::sim::exec::context::{ExecContext, Next, Park};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::access::Address;
use crate::sim::memory::lanes::{LANES, lanes_of};
use crate::sim::memory::shared::ByteAddress;
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::refused::Refused;
use crate::sim::program::special::truth;

/// The most arrivals and bytes that a barrier counts.
const MAX: u32 = (1 << 20) - 1;

/// A barrier: it is in phase `phase`, which ends when no arrival and no byte is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Mbarrier {
    phase: u64,
    /// The arrivals of each phase.
    count: u32,
    /// The arrivals that this phase waits for.
    arrivals: u32,
    /// The bytes that this phase waits for; below 0 while bytes have come that were not announced.
    bytes: i64,
}

impl Mbarrier {
    /// A barrier whose phases wait for `count` arrivals; `None` where there are too many or none.
    pub(in crate::sim) fn new(count: u32) -> Option<Mbarrier> {
        let legal = (1..=MAX).contains(&count);
        legal.then_some(Mbarrier { phase: 0, count, arrivals: count, bytes: 0 })
    }

    /// Phases that have ended.
    pub(in crate::sim) fn phase(&self) -> u64 {
        self.phase
    }

    pub(in crate::sim) fn arrive(
        &mut self,
        count: u32,
        barrier: BarrierAt,
    ) -> Result<(), RawCause> {
        if count == 0 || count > MAX {
            return Err(RawCause::BarrierCount { count });
        }
        let pending = self.arrivals;
        self.arrivals = pending.checked_sub(count).ok_or(RawCause::ArrivalsBeyond {
            barrier,
            pending,
            count,
        })?;
        Ok(())
    }

    /// Waits for one more arrival in this phase.
    pub(in crate::sim) fn raise(&mut self, barrier: BarrierAt) -> Result<(), RawCause> {
        if self.arrivals >= MAX {
            return Err(RawCause::ArrivalsBeyond { barrier, pending: self.arrivals, count: 1 });
        }
        self.arrivals += 1;
        Ok(())
    }

    /// Waits for `bytes` more bytes in this phase, fewer where it is negative.
    pub(in crate::sim) fn expect(
        &mut self,
        bytes: i64,
        barrier: BarrierAt,
    ) -> Result<(), RawCause> {
        let sum = self.bytes + bytes;
        if sum.unsigned_abs() > MAX.into() {
            return Err(RawCause::BytesBeyond { barrier, pending: self.bytes, bytes });
        }
        self.bytes = sum;
        Ok(())
    }

    /// Ends the phase if it waits for nothing more.
    pub(in crate::sim) fn end_phase(&mut self) -> bool {
        let ends = self.arrivals == 0 && self.bytes == 0;
        if ends {
            self.phase += 1;
            self.arrivals = self.count;
        }
        ends
    }

    pub(in crate::sim) fn lacks_only_bytes(&self) -> bool {
        self.arrivals == 0 && self.bytes != 0
    }

    fn has_ended(&self, phase: Phase) -> bool {
        match phase {
            Phase::State(phase) => self.phase > phase,
            Phase::Parity(parity) => self.phase & 1 != parity & 1,
        }
    }

    pub(in crate::sim) fn deadlock(&self, barrier: BarrierAt) -> RawCause {
        let Mbarrier { phase, count, arrivals, bytes } = *self;
        RawCause::PhaseDeadlock { barrier, phase, arrivals, count, bytes }
    }
}

/// A phase that a thread asks about.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// By the number that an arrival returned.
    State(u64),
    /// By the lowest bit of its number.
    Parity(u64),
}

/// A barrier as an operand.
#[derive(Clone, Copy)]
pub(in crate::sim) struct Operand(Address);

impl Operand {
    pub(in crate::sim) fn byte_address(
        &self,
        context: &ExecContext<'_, '_>,
        lane: usize,
    ) -> RawResult<ByteAddress> {
        self.0.byte_address(context.regs, context.memory, lane, (8, 8))
    }
}

/// The slot of a phase, and whether it is a state.
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

/// The lanes for which the phase has ended, and the place of the barrier of the first one for which it has
/// not.
fn ended(
    context: &mut ExecContext<'_, '_>,
    lanes: u32,
    barrier: Operand,
    phase: PhaseSlot,
) -> RawResult<(u32, Option<(usize, ByteAddress)>)> {
    let (mut done, mut first) = (0, None);
    for lane in lanes_of(lanes) {
        let (byte_address, phase) =
            (barrier.byte_address(context, lane)?, phase.lane(context, lane));
        let found = context.memory.shared_mut().barrier(byte_address);
        let found = found.map_err(|cause| RawFault::new(lane, cause))?;
        if found.has_ended(phase) {
            done |= 1 << lane;
        } else {
            first = first.or(Some((lane, byte_address)));
        }
    }
    // What came before the end of the phase is seen after it.
    fence(SeqCst);
    Ok((done, first))
}

/// Update of the barrier of a lane with operand `operand`. Returns the phase before.
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
            Op::MbarrierArriveCluster { barrier, index, cta, order: _ } => {
                let barrier = self.barrier_operand(barrier, index)?;
                let cta = self.scalar_of(cta, Scalar::U32)?;
                Inst::Act(Box::new(move |context| {
                    fence(SeqCst);
                    for lane in lanes_of(context.active) {
                        let byte_address = barrier.byte_address(context, lane)?;
                        let block = context.regs.w[cta as usize][lane];
                        let shared = context.memory.shared_of_mut(block);
                        let arrived = shared.and_then(|shared| {
                            shared.update_barrier(byte_address, |barrier, name| {
                                barrier.arrive(1, name)
                            })
                        });
                        arrived.map_err(|cause| RawFault::new(lane, cause))?;
                    }
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
            // What a warp makes of a barrier is seen by all at once.
            Op::FenceMbarrierInit {} => {
                self.weight += 1;
                return Ok(());
            }
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
        Ok(Inst::Act(Box::new(move |context| {
            fence(SeqCst);
            let mut states = [0; LANES];
            for lane in lanes_of(context.active) {
                let byte_address = barrier.byte_address(context, lane)?;
                let operand = context.regs.w[operand as usize][lane];
                let shared = context.memory.shared_mut();
                let phase = shared
                    .update_barrier(byte_address, |barrier, name| update(barrier, operand, name));
                states[lane] = phase.map_err(|cause| RawFault::new(lane, cause))?;
            }
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

    /// Each lane waits for a phase of its own; those for which it has ended are through, whatever becomes of
    /// the barrier while others wait.
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

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: BarrierAt = BarrierAt { alloc: 0, element: 0 };

    #[test]
    fn a_phase_ends_with_its_last_arrival_and_its_last_byte() {
        let mut barrier = Mbarrier::new(2).unwrap();
        barrier.arrive(1, NAME).unwrap();
        barrier.expect(64, NAME).unwrap();
        barrier.arrive(1, NAME).unwrap();
        assert!(!barrier.end_phase() && !barrier.has_ended(Phase::Parity(0)));
        assert!(barrier.has_ended(Phase::Parity(1)) && !barrier.has_ended(Phase::State(0)));
        barrier.expect(-64, NAME).unwrap();
        assert!(barrier.end_phase() && barrier.has_ended(Phase::Parity(0)));
        assert!(barrier.has_ended(Phase::State(0)) && !barrier.has_ended(Phase::State(1)));
        assert_eq!((barrier.phase(), barrier.arrivals), (1, 2));
        // Bytes may come before they are announced.
        barrier.expect(-16, NAME).unwrap();
        barrier.arrive(2, NAME).unwrap();
        assert!(!barrier.end_phase());
        barrier.expect(16, NAME).unwrap();
        assert!(barrier.end_phase() && barrier.has_ended(Phase::Parity(1)));
    }

    #[test]
    fn counts_have_limits() {
        assert!(Mbarrier::new(0).is_none() && Mbarrier::new(MAX + 1).is_none());
        let mut barrier = Mbarrier::new(MAX).unwrap();
        assert!(barrier.raise(NAME).is_err() && barrier.arrive(0, NAME).is_err());
        assert!(barrier.arrive(MAX, NAME).is_ok() && barrier.arrive(1, NAME).is_err());
        assert!(barrier.expect(MAX.into(), NAME).is_ok() && barrier.expect(1, NAME).is_err());
    }
}
