//! Counts the work on a stream, and tells which of it may still be in flight. `uses.rs` asks
//! whether a stream has to wait, and a fault message asks how many launches were in flight.
//!
//! It does not know the driver: callers pass closures that call it.

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

/// The work on a stream. The first thread that queues work owns the timeline, and counts its work
/// without an atomic read-modify-write. All other threads count theirs under a lock.
pub(super) struct Timeline {
    /// The owner's thread id. Changes only under the lock of `state`.
    owner: AtomicU64,
    own: SubmissionCounter,
    /// The work of all other threads. Changes only under the lock of `state`.
    others: SubmissionCounter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Expires when the owner thread ends.
    owner: Alive,
    /// For other streams, by id: how far they were when this stream last waited for them.
    seen: SmallVec<[(u64, Progress); 2]>,
}

/// Who queued some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The thread that owns the timeline: the first one that queued work, or, after it has ended,
    /// its successor.
    Owner,
    /// Any other thread.
    Other,
}

/// The states of both counters of a timeline, that is how much work the owner and how much work all
/// other threads have queued.
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

/// A list with this many streams drops the streams whose work has ended.
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

    /// Returns the sequence number of the work that the calling thread is about to queue, if the
    /// thread is the owner. You must call [`Timeline::end`] next.
    ///
    /// The driver ends a launch with a store to the GPU, and the thread's next locked instruction
    /// would wait for that store, longer than everything else takes here. That is why the owner
    /// notes its work without one.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        (self.owner.load(Relaxed) == thread::number()).then(|| self.own.begin())
    }

    /// Notes that the work with this sequence number is queued, with its launches; `None` if the
    /// driver refused it. `launch_numbers` counts the launches of all streams.
    #[inline]
    pub(super) fn end(
        &self,
        work: u64,
        launches: Option<QueuedLaunches>,
        launch_numbers: &AtomicU64,
    ) {
        self.own.end(work, launches, launch_numbers);
    }

    /// Queues work with `call`. `note` receives who queued it and its sequence number, and must
    /// store both with everything that the work uses.
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

    /// Makes the calling thread the owner if there is none. Returns whether it did.
    #[cold]
    fn take_over(&self) -> bool {
        let Some((number, thread)) = thread::register() else { return false };
        let mut state = self.state();
        if state.owner.strong_count() > 0 {
            return false;
        }
        // Makes all stores of the previous owner visible.
        fence(Acquire);
        state.owner = thread;
        self.owner.store(number, Relaxed);
        true
    }

    /// Like [`Timeline::queue`], but for threads other than the owner. The work gets its sequence
    /// number after it is queued, not before, so that whoever waits for all work up to a sequence
    /// number has waited for this one, too.
    #[cold]
    fn queue_beside_owner<E>(
        &self,
        launches: Option<QueuedLaunches>,
        launch_numbers: &AtomicU64,
        note: &dyn Fn(By, u64),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // Counted even if it fails, because the driver may have queued some of the work.
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

    /// Returns the state of both counters.
    pub(super) fn queued(&self) -> Progress {
        Progress { own: self.own.queued(), others: self.others.queued() }
    }

    /// Notes that all work up to this point has ended.
    fn note_ended(&self, progress: Progress) {
        self.own.note_ended(progress.own);
        self.others.note_ended(progress.others);
    }

    /// Waits with `wait` until all work that is queued now has ended.
    pub(super) fn wait<E>(&self, wait: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let queued = self.queued();
        wait()?;
        self.note_ended(queued);
        Ok(())
    }

    /// Returns how many launches are in flight, and the latest launch: its index among the launches
    /// of all streams, and its kernel. A fault message names them.
    pub(super) fn in_flight(&self) -> (u64, Option<(u64, KernelId)>) {
        let (own, others) = (self.own.in_flight(), self.others.in_flight());
        (own.0 + others.0, own.1.max(others.1))
    }

    /// Returns whether the work with this sequence number may still be in flight.
    pub(super) fn may_run(&self, by: By, work: u64) -> bool {
        match by {
            By::Owner => self.own.may_run(work),
            By::Other => self.others.may_run(work),
        }
    }

    /// Like [`Timeline::may_run`], but first asks the device with `is_done` whether it has finished
    /// everything.
    pub(super) fn still_runs(&self, by: By, work: u64, is_done: impl FnOnce() -> bool) -> bool {
        if !self.may_run(by, work) {
            return false;
        }
        let queued = self.queued();
        if !is_done() {
            return true;
        }
        self.note_ended(queued);
        // The work may have a sequence number and not be queued yet.
        self.may_run(by, work)
    }

    /// Returns whether all work is known to have ended.
    pub(super) fn is_idle(&self) -> bool {
        self.own.is_idle() && self.others.is_idle()
    }

    /// Returns whether this stream has waited for that work on the stream with id `number`.
    pub(super) fn has_seen(&self, number: u64, by: By, work: u64) -> bool {
        let seen = &self.state().seen;
        seen.iter().any(|(seen, progress)| *seen == number && progress.of(by).work >= work)
    }

    /// Notes that this stream has waited for the work on the stream with id `number`, up to
    /// `progress`.
    pub(super) fn note_seen(&self, number: u64, progress: Progress) {
        let seen = &mut self.state().seen;
        // Another thread may have seen more meanwhile, but waiting again costs little.
        seen.retain(|(seen, _)| *seen != number);
        if seen.len() >= MANY_STREAMS {
            seen.clear();
        }
        seen.push((number, progress));
    }
}
