//! Decides at which moment, between its issue and the wait for it, an asynchronous operation is
//! executed (that is, when it copies its bytes and signals its mbarrier).
//!
//! The simulator executes an operation as late as possible: when a thread waits for the operation,
//! or when no warp can continue and one waits at the operation's mbarrier. If several operations
//! signal one mbarrier, the one issued last is executed first. With a random order, a load into
//! bytes that were written before may be executed immediately, so that a thread that still reads
//! these bytes sees wrong data.
//!
//! Each task is executed as one piece, in no order with other tasks; a multicast, for example, is
//! one task for each block. How a thread waits for a task depends on its kind: for `cp.async` and
//! bulk stores by a lane's group, for loads and stores to other blocks by the bytes at an mbarrier,
//! for arrivals by the mbarrier itself. `wgmma` has queues of its own (`warp_group.rs`), because it
//! writes registers.
//!
//! `Copies` access memory through the generic proxy, as threads do; `Load` and `Store` through the
//! asynchronous proxy. A store completes twice, first its reads and then its writes.

use crate::sim::fault::raw::Origin;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::memory::agent::{Task, What};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::races::mbarrier_address;
use crate::sim::race::MbarrierAddress;

impl What {
    /// Returns whether it signals an mbarrier.
    fn is_for_a_barrier(&self) -> bool {
        match self {
            What::Arrivals(_) | What::Load(_) | What::Remote(_) => true,
            What::Copies(_) | What::Store(_) => false,
        }
    }

    /// Returns whether it signals this mbarrier. Block `from` issued it.
    fn signals(&self, from: u32, barrier: MbarrierAddress) -> bool {
        match self {
            What::Arrivals(arrivals) => {
                from as usize == barrier.rank && arrivals.signal(barrier.byte)
            }
            What::Load(load) => mbarrier_address(load.block, load.barrier) == barrier,
            What::Remote(store) => store.signals() == barrier,
            What::Copies(_) | What::Store(_) => false,
        }
    }
}

/// Reports a fault at the operation that was issued, not at the operation at which a warp waits.
fn at(origin: Origin) -> impl FnOnce(Box<RawFault>) -> Box<RawFault> {
    move |trap| Box::new(RawFault { origin: trap.origin.or(Some(origin)), ..*trap })
}

impl Memory<'_> {
    /// Executes the last issued task that signals one of the mbarriers, or, if `random` is given,
    /// the task that it chooses among these. Returns false if there is no such task.
    pub(in crate::sim) fn complete_awaited(
        &mut self,
        barriers: &[MbarrierAddress],
        random: Option<u64>,
    ) -> RawResult<bool> {
        let is_awaited = |task: &Task| {
            barriers.iter().any(|barrier| task.what.signals(task.origin.block, *barrier))
        };
        self.complete_one(is_awaited, random)
    }

    /// Like [`Memory::complete_awaited`], for tasks that signal any mbarrier.
    pub(in crate::sim) fn complete_any(&mut self, random: Option<u64>) -> RawResult<bool> {
        self.complete_one(|task| task.what.is_for_a_barrier(), random)
    }

    fn complete_one(
        &mut self,
        is_due: impl Fn(&Task) -> bool,
        random: Option<u64>,
    ) -> RawResult<bool> {
        let tasks = &self.pending.tasks;
        let due = || (0..tasks.len()).rev().filter(|task| is_due(&tasks[*task]));
        let chosen = match random {
            None => due().next(),
            Some(random) => match due().count() {
                0 => None,
                count => due().nth((random % count as u64) as usize),
            },
        };
        let Some(chosen) = chosen else { return Ok(false) };
        self.complete(chosen)?;
        Ok(true)
    }

    /// Executes each new task that overwrites bytes written before, if `chooses` returns true for
    /// it. A task is offered only once.
    pub(in crate::sim) fn complete_again(
        &mut self,
        mut chooses: impl FnMut() -> bool,
    ) -> RawResult {
        let mut index = 0;
        while let Some(task) = self.pending.tasks.get_mut(index) {
            if std::mem::take(&mut task.again) && chooses() {
                self.complete(index)?;
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Executes the tasks that are at least `age` rounds old, in issue order, or only the first of
    /// these tasks. Returns false if there is none.
    pub(in crate::sim) fn complete_aged(&mut self, age: u64, only_one: bool) -> RawResult<bool> {
        let mut done = false;
        let now = self.pending.round;
        while self.pending.tasks.first().is_some_and(|task| task.round + age <= now) {
            self.complete(0)?;
            done = true;
            if only_one {
                break;
            }
        }
        Ok(done)
    }

    fn complete(&mut self, index: usize) -> RawResult {
        if let What::Arrivals(arrivals) = &self.pending.tasks[index].what {
            // Earlier copies must complete first.
            let (lanes, origin) = (arrivals.lanes, self.pending.tasks[index].origin);
            let before = self.pending.tasks.len();
            self.complete_copies(origin, lanes, index, |_, _| true)?;
            let index = index - (before - self.pending.tasks.len());
            let task = self.pending.tasks.remove(index);
            return self.take_effect(task);
        }
        let task = self.pending.tasks.remove(index);
        self.take_effect(task)
    }

    fn take_effect(&mut self, task: Task) -> RawResult {
        let Task { origin, what, flight, .. } = task;
        self.record(|recorder| recorder.timeline.land(flight));
        let done = match what {
            What::Copies(copies) => copies.copy(self, origin, copies.lanes),
            What::Arrivals(arrivals) => arrivals.arrive(self, origin),
            What::Load(load) => load.load(self, origin),
            What::Remote(store) => store.store(self, origin),
            What::Store(mut store) => store.read(self, origin).and_then(|()| store.write(self)),
        };
        done.map_err(at(origin))
    }

    /// Executes the `cp.async` of `lanes` of a warp whose group `is_due`, among the first `before`
    /// tasks.
    pub(in crate::sim) fn complete_copies(
        &mut self,
        of: Origin,
        lanes: u32,
        before: usize,
        is_due: impl Fn(usize, u32) -> bool,
    ) -> RawResult {
        let mut tasks = std::mem::take(&mut self.pending.tasks);
        let mut index = 0;
        let mut done = Ok(());
        tasks.retain_mut(|task| {
            index += 1;
            let Task { origin, what: What::Copies(copies), .. } = task else { return true };
            if index > before || done.is_err() || !same_warp(*origin, of) {
                return true;
            }
            let due = copies.due(lanes, &is_due);
            if due != 0 {
                done = copies.copy(self, *origin, due).map_err(at(*origin));
                copies.lanes &= !due;
                if copies.lanes == 0 {
                    let flight = task.flight;
                    self.record(|recorder| recorder.timeline.land(flight));
                }
            }
            copies.lanes != 0
        });
        self.pending.tasks = tasks;
        done
    }

    /// Executes the bulk stores of a warp that are due, or only their reads.
    pub(in crate::sim) fn complete_stores(
        &mut self,
        of: Origin,
        only_read: bool,
        is_due: impl Fn(usize, u32) -> bool,
    ) -> RawResult {
        let mut tasks = std::mem::take(&mut self.pending.tasks);
        let mut done = Ok(());
        tasks.retain_mut(|task| {
            let Task { origin, what: What::Store(store), .. } = task else { return true };
            let due = same_warp(*origin, of) && is_due(store.lane, store.group);
            if !due || done.is_err() {
                return true;
            }
            done = store.read(self, *origin).map_err(at(*origin));
            store.waited = true;
            let flight = task.flight;
            self.record(|recorder| recorder.timeline.has_read(flight));
            if done.is_ok() && !only_read {
                done = store.write(self).map_err(at(*origin));
                self.record(|recorder| recorder.timeline.land(flight));
            }
            only_read
        });
        self.pending.tasks = tasks;
        done
    }

    /// Called when all threads of the cluster have ended: performs the writes of bulk stores that
    /// have been read. A load, a store to another block, or a bulk store that nobody waited for is
    /// a fault, because it may still access shared memory.
    pub(in crate::sim) fn finish(&mut self) -> RawResult {
        for task in std::mem::take(&mut self.pending.tasks) {
            let Task { origin, what, flight, .. } = task;
            self.record(|recorder| recorder.timeline.land(flight));
            let done = match what {
                // On a GPU, threads do not end before these have completed.
                What::Copies(_) | What::Arrivals(_) => Ok(()),
                What::Load(load) => Err(RawFault::new(load.lane, RawCause::AsyncAtExit)),
                What::Remote(store) => Err(RawFault::new(store.lane, RawCause::AsyncAtExit)),
                What::Store(store) if store.is_read() => store.write(self),
                What::Store(store) => Err(RawFault::new(store.lane, RawCause::AsyncAtExit)),
            };
            done.map_err(at(origin))?;
        }
        Ok(())
    }
}

fn same_warp(a: Origin, b: Origin) -> bool {
    (a.block, a.warp) == (b.block, b.warp)
}
