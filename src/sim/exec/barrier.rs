//! Named barriers of a block.
//!
//! A warp comes as a whole and counts as 32 threads, as on the device, however many of its lanes there are. A
//! barrier opens when as many threads have come as it is for; it can be used again at once.

use std::sync::atomic::{Ordering::SeqCst, fence};

use super::cluster_barrier;
use super::context::Next;
use super::warp::Warp;
use crate::ir::{BarrierRed, OpId, ProxySpace, Scalar, Sync, Value};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::lanes::{LANES, Lane, lanes_of};
use crate::sim::program::code::Inst;
use crate::sim::program::compiler::Compiler;
use crate::sim::program::refused::Refused;

/// The barriers that a block has.
const COUNT: u32 = 16;

/// Result of an arrival of a warp at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Vote(BarrierRed),
    Popc,
}

/// A step that comes to a barrier: the slots of its operands.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Named {
    id: u32,
    threads: u32,
    waits: bool,
    /// The slot of the predicate, the reduction, and the slot of its result.
    red: Option<(u32, Reduction, u32)>,
}

/// A warp that comes to a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Arrival {
    id: u32,
    threads: u32,
    pub(in crate::sim) waits: bool,
    /// The step of the barrier.
    pub(in crate::sim) step: u32,
    /// Threads in which the predicate holds, and in which it does not.
    votes: [u32; 2],
    result: Option<(Reduction, u32)>,
}

/// A barrier at which warps have come that has not opened.
#[derive(Debug, Default)]
struct Barrier {
    threads: u32,
    arrived: u32,
    votes: [u32; 2],
    /// The warps that wait, each with what it gets.
    waiting: Vec<(usize, Option<(Reduction, u32)>)>,
}

/// The barriers of a block.
#[derive(Debug, Default)]
pub(in crate::sim) struct Barriers {
    all: [Barrier; COUNT as usize],
}

impl Named {
    /// The arrival of a warp whose lanes of `active` execute the step.
    pub(in crate::sim) fn arrive(&self, warp: &Warp, active: u32, step: u32) -> RawResult<Arrival> {
        let first = active.trailing_zeros() as usize;
        let of = |slot: u32| &warp.regs.w[slot as usize];
        let (id, threads) = (of(self.id)[first], of(self.threads)[first]);
        let differs = |lane: &usize| (of(self.id)[*lane], of(self.threads)[*lane]) != (id, threads);
        if let Some(lane) = lanes_of(active).find(differs) {
            let (other_id, other_threads) = (of(self.id)[lane], of(self.threads)[lane]);
            let cause =
                RawCause::OtherBarrier { here: [id, threads], there: [other_id, other_threads] };
            return Err(RawFault::new(lane, cause));
        }
        if id >= COUNT {
            return Err(RawFault::new(first, RawCause::NoBarrier { id }));
        }
        if threads == 0 || threads > 1024 || !threads.is_multiple_of(LANES as u32) {
            return Err(RawFault::new(first, RawCause::BarrierThreads { threads }));
        }
        let truth = self.red.map_or(0, |(pred, ..)| warp.regs.truth(pred)) & active;
        let votes = [truth, active & !truth].map(u32::count_ones);
        let result = self.red.map(|(_, reduction, dst)| (reduction, dst));
        Ok(Arrival { id, threads, waits: self.waits, step, votes, result })
    }
}

impl Barriers {
    pub(in crate::sim) fn reset(&mut self) {
        self.all = Default::default();
    }

    /// Takes the arrival of warp `number`. Returns the warps that go on because the barrier opens.
    pub(in crate::sim) fn take(
        &mut self,
        number: usize,
        arrival: &Arrival,
        warps: &mut [Warp],
    ) -> RawResult<Vec<usize>> {
        let Arrival { id, threads, waits, votes, result, .. } = *arrival;
        let barrier = &mut self.all[id as usize % COUNT as usize];
        if barrier.arrived > 0 && barrier.threads != threads {
            let lane = warps[number].first_lane() as usize;
            let cause = RawCause::BarrierMismatch { id, expected: barrier.threads, found: threads };
            return Err(RawFault::new(lane, cause));
        }
        barrier.threads = threads;
        barrier.arrived += LANES as u32;
        for (sum, votes) in barrier.votes.iter_mut().zip(votes) {
            *sum += votes;
        }
        if waits {
            barrier.waiting.push((number, result));
        }
        if barrier.arrived < threads {
            return Ok(Vec::new());
        }
        fence(SeqCst);
        let Barrier { votes: [yes, no], waiting, .. } = std::mem::take(barrier);
        for (warp, result) in &waiting {
            if let Some((reduction, dst)) = *result {
                warps[*warp].set_active(
                    dst,
                    match reduction {
                        Reduction::Vote(BarrierRed::And) => (no == 0).word(),
                        Reduction::Vote(BarrierRed::Or) => (yes != 0).word(),
                        Reduction::Popc => yes,
                    },
                );
            }
        }
        Ok(waiting.into_iter().map(|(warp, _)| warp).collect())
    }

    /// Returns the cause of a wait that never ends.
    pub(in crate::sim) fn deadlock(&self, number: usize) -> Option<RawCause> {
        let waits = |barrier: &Barrier| barrier.waiting.iter().any(|(warp, _)| *warp == number);
        let id = self.all.iter().position(waits)?;
        let Barrier { threads, arrived, .. } = self.all[id];
        Some(RawCause::BarrierDeadlock { id: id as u32, threads, arrived })
    }
}

impl Compiler<'_> {
    pub(in crate::sim) fn sync(
        &mut self,
        id: OpId,
        op: &Sync,
        results: &[Value],
    ) -> Result<(), Refused> {
        let inst = match *op {
            Sync::Barrier {} => Inst::Barrier,
            Sync::BarrierSync { id, threads, form: _ } => self.named([id, threads], true, None)?,
            Sync::BarrierArrive { id, threads, form: _ } => {
                self.named([id, threads], false, None)?
            }
            Sync::BarrierRed { pred, id, threads, op, form: _ } => {
                let dst = self.result(results, 0)?.scalar(Scalar::Bool)?;
                let pred = self.scalar_of(pred, Scalar::Bool)?;
                self.named([id, threads], true, Some((pred, Reduction::Vote(op), dst)))?
            }
            Sync::BarrierRedPopc { pred, id, threads, form: _ } => {
                let dst = self.result(results, 0)?.scalar(Scalar::U32)?;
                let pred = self.scalar_of(pred, Scalar::Bool)?;
                self.named([id, threads], true, Some((pred, Reduction::Popc, dst)))?
            }
            Sync::Fence { .. } => Inst::Memory(Box::new(|_, memory, _| {
                fence(SeqCst);
                memory.learn();
                Ok(())
            })),
            Sync::BarrierClusterArrive { form: _, order: _ } => cluster_barrier::arrive(),
            Sync::BarrierClusterWait { form: _ } => cluster_barrier::wait(),
            Sync::FenceProxyAsync {
                space: ProxySpace::All | ProxySpace::SharedCta | ProxySpace::SharedCluster,
            } if self.code.watches_proxies => Inst::Act(Box::new(|context| {
                if let Some(proxies) = &mut context.memory.proxies {
                    proxies.fence(context.origin);
                }
                Ok(Next::Go)
            })),
            // Global memory is the same for all proxies; the grids before this one have ended, and none after it
            // waits.
            Sync::FenceProxyAsync { .. }
            | Sync::FenceProxyAlias {}
            | Sync::GriddepcontrolWait {}
            | Sync::GriddepcontrolLaunchDependents {} => {
                self.weight += 1;
                return Ok(());
            }
        };
        self.emit(id, inst);
        Ok(())
    }

    fn named(
        &self,
        operands: [Value; 2],
        waits: bool,
        red: Option<(u32, Reduction, u32)>,
    ) -> Result<Inst, Refused> {
        let [id, threads] = operands;
        let (id, threads) =
            (self.scalar_of(id, Scalar::U32)?, self.scalar_of(threads, Scalar::U32)?);
        Ok(Inst::Named(Named { id, threads, waits, red }))
    }
}
