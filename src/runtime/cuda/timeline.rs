//! Counts the work of a stream, and tells which of it may still be in flight.
//!
//! Knows nothing of the driver: the callers pass what asks it.

use smallvec::SmallVec;

use super::kernel_name::KernelId;
use super::submission_counter::{Point, QueuedLaunches, SubmissionCounter};
use super::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed},
    fence,
};
use super::sync::{Mutex, MutexGuard, PoisonError};
use super::thread::{self, Alive, NO_THREAD};

/// The work of a stream. The first thread that queues work owns the timeline: it counts its work without a locked
/// instruction. All other threads count theirs behind a lock.
pub(super) struct Timeline {
    /// The number of the owner. It changes behind the lock of `state`.
    owner: AtomicU64,
    own: SubmissionCounter,
    /// The work of other threads. It changes behind the lock of `state`.
    others: SubmissionCounter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Gone when the owner is.
    owner: Alive,
    /// For other streams, by number: how far they were when this stream waited for them.
    seen: SmallVec<[(u64, Progress); 2]>,
}

/// Who queued work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The thread that owns the timeline: the first thread that queued work, or its successor after its end.
    Owner,
    /// Another thread.
    Other,
}

/// The states of both counters of a timeline.
#[derive(Clone, Copy, Default)]
pub(super) struct Progress {
    own: Point,
    others: Point,
}

impl Progress {
    fn of(&self, by: By) -> Point {
        match by {
            By::Owner => self.own,
            By::Other => self.others,
        }
    }
}

/// The number of streams from which on finished ones are forgotten.
pub(super) const MANY_STREAMS: usize = 16;

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            owner: AtomicU64::new(NO_THREAD),
            own: SubmissionCounter::default(),
            others: SubmissionCounter::default(),
            state: Mutex::default(),
        }
    }
}

impl Timeline {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of work that the calling thread is about to queue, if it is the owner. [`Timeline::end`]
    /// comes next.
    ///
    /// The driver ends a launch with a store to the GPU, for which the next locked instruction of the thread waits, longer
    /// than all else takes here: so the owner notes its work without one.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        (self.owner.load(Relaxed) == thread::number()).then(|| self.own.begin())
    }

    /// Notes that the work of this number is queued, with its launches, or without any that it was refused.
    /// `launch_numbers` counts the launches of all streams.
    #[inline]
    pub(super) fn end(
        &self,
        work: u64,
        launches: Option<QueuedLaunches>,
        launch_numbers: &AtomicU64,
    ) {
        self.own.end(work, launches, launch_numbers);
    }

    /// Queues work by `call`. `note` gets the kind of thread and the number of the work, and stores both with all that
    /// it uses.
    pub(super) fn queue<E>(
        &self,
        launches: Option<QueuedLaunches>,
        launch_numbers: &AtomicU64,
        note: impl Fn(By, u64),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.owner.load(Relaxed) != thread::number() && !self.take_over() {
            return self.queue_beside_owner(launches, launch_numbers, &note, call);
        }
        let work = self.own.begin();
        note(By::Owner, work);
        let result = call();
        self.end(work, launches.filter(|_| result.is_ok()), launch_numbers);
        result
    }

    /// Makes the calling thread the owner, if there is none.
    #[cold]
    fn take_over(&self) -> bool {
        let Some((number, thread)) = thread::register() else { return false };
        let mut state = self.state();
        if state.owner.strong_count() > 0 {
            return false;
        }
        // Makes all stores of the last owner visible.
        fence(Acquire);
        state.owner = thread;
        self.owner.store(number, Relaxed);
        true
    }

    /// As [`Timeline::queue`], by a thread that is not the owner. The work gets its number when it is queued and not
    /// before: who then waits for all work up to a number has waited for this one.
    #[cold]
    fn queue_beside_owner<E>(
        &self,
        launches: Option<QueuedLaunches>,
        launch_numbers: &AtomicU64,
        note: &dyn Fn(By, u64),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // Also where it fails: the driver may have some of the work.
        let result = call();
        let work = {
            let _state = self.state();
            let work = self.others.begin();
            self.others.end(work, launches.filter(|_| result.is_ok()), launch_numbers);
            work
        };
        note(By::Other, work);
        result
    }

    /// Returns the states of both counters.
    pub(super) fn queued(&self) -> Progress {
        Progress { own: self.own.queued(), others: self.others.queued() }
    }

    /// Notes that all up to this has ended.
    fn note_ended(&self, progress: Progress) {
        self.own.note_ended(progress.own);
        self.others.note_ended(progress.others);
    }

    /// Waits by `wait` for all work that is queued before.
    pub(super) fn wait<E>(&self, wait: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let queued = self.queued();
        wait()?;
        self.note_ended(queued);
        Ok(())
    }

    /// Returns the launches in flight, and the latest of all: its number among those of all streams, its kernel.
    pub(super) fn in_flight(&self) -> (u64, Option<(u64, KernelId)>) {
        let (own, others) = (self.own.in_flight(), self.others.in_flight());
        (own.0 + others.0, own.1.max(others.1))
    }

    /// Returns whether the work of this number may still be in flight.
    pub(super) fn may_run(&self, by: By, work: u64) -> bool {
        match by {
            By::Owner => self.own.may_run(work),
            By::Other => self.others.may_run(work),
        }
    }

    /// As [`Timeline::may_run`], after `is_done` has asked the device whether all that it has is done.
    pub(super) fn still_runs(&self, by: By, work: u64, is_done: impl FnOnce() -> bool) -> bool {
        if !self.may_run(by, work) {
            return false;
        }
        let queued = self.queued();
        if !is_done() {
            return true;
        }
        self.note_ended(queued);
        // The work may have its number and not be queued yet.
        self.may_run(by, work)
    }

    /// Returns whether all work is known to have ended.
    pub(super) fn is_idle(&self) -> bool {
        self.own.is_idle() && self.others.is_idle()
    }

    /// Returns whether this stream has waited for that work of the stream `number`.
    pub(super) fn has_seen(&self, number: u64, by: By, work: u64) -> bool {
        let seen = &self.state().seen;
        seen.iter().any(|(seen, progress)| *seen == number && progress.of(by).work >= work)
    }

    /// Notes that this stream has waited for the work of the stream `number` up to `progress`.
    pub(super) fn note_seen(&self, number: u64, progress: Progress) {
        let seen = &mut self.state().seen;
        // Another thread may have seen more meanwhile; to wait again costs little.
        seen.retain(|(seen, _)| *seen != number);
        if seen.len() >= MANY_STREAMS {
            seen.clear();
        }
        seen.push((number, progress));
    }
}
