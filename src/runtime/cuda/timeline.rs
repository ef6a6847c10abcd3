//! Counts the work of a stream, and tells which of it may still be in flight.
//!
//! Knows nothing of the driver: the callers pass what asks it.

use smallvec::SmallVec;

use super::kernel_name::KernelId;
use super::lane::{Lane, Point, QueuedLaunches};
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
    own: Lane,
    /// What other threads have queued. It changes behind the lock of `state`.
    others: Lane,
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
    /// The thread that owns the timeline: the first one that queued work, or after the end of that one another.
    Owner,
    /// Another thread.
    Other,
}

/// How far a timeline is.
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

/// From how many streams on those whose work has ended are forgotten.
pub(super) const MANY_STREAMS: usize = 16;

impl Default for Timeline {
    fn default() -> Timeline {
        Timeline {
            owner: AtomicU64::new(NO_THREAD),
            own: Lane::default(),
            others: Lane::default(),
            state: Mutex::default(),
        }
    }
}

impl Timeline {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of work that the calling thread is about to queue, if it is the owner. [`Timeline::end`] comes next.
    ///
    /// The driver ends a launch with a store to the GPU, for which the next locked instruction of the thread waits, longer
    /// than all else takes here: so the owner notes its work without one.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        (self.owner.load(Relaxed) == thread::number()).then(|| self.own.begin())
    }

    /// Notes that the work of this number is queued, with its launches, or without any that it was refused. `places`
    /// counts the launches of all streams.
    #[inline]
    pub(super) fn end(&self, work: u64, launches: Option<QueuedLaunches>, places: &AtomicU64) {
        self.own.end(work, launches, places);
    }

    /// Queues work by `call`. `note` is told who queues it, and its number, and stores that with all that the work uses.
    pub(super) fn queue<E>(
        &self,
        launches: Option<QueuedLaunches>,
        places: &AtomicU64,
        note: impl Fn(By, u64),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.owner.load(Relaxed) != thread::number() && !self.take_over() {
            return self.queue_beside_owner(launches, places, &note, call);
        }
        let work = self.own.begin();
        note(By::Owner, work);
        let result = call();
        self.end(work, launches.filter(|_| result.is_ok()), places);
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
        // What the last owner has stored is behind its end.
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
        places: &AtomicU64,
        note: &dyn Fn(By, u64),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // Also where it fails: the driver may have some of the work.
        let result = call();
        let work = {
            let _state = self.state();
            let work = self.others.begin();
            self.others.end(work, launches.filter(|_| result.is_ok()), places);
            work
        };
        note(By::Other, work);
        result
    }

    /// How far it is.
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

    /// The launches in flight, and the latest of all: its place among those of all streams, its kernel.
    pub(super) fn in_flight(&self) -> (u64, Option<(u64, KernelId)>) {
        let (own, others) = (self.own.under_way(), self.others.under_way());
        (own.0 + others.0, own.1.max(others.1))
    }

    /// Whether the work of this number may not have ended yet.
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

    /// Whether all work has ended, and that is known.
    pub(super) fn is_idle(&self) -> bool {
        self.own.is_idle() && self.others.is_idle()
    }

    /// Whether this stream has waited for that work of the stream `number`.
    pub(super) fn has_seen(&self, number: u64, by: By, work: u64) -> bool {
        let seen = &self.state().seen;
        seen.iter().any(|(seen, progress)| *seen == number && progress.of(by).work >= work)
    }

    /// Notes that this stream has waited for all that the stream `number` had when it was so far.
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
