//! Streams, and what is under way on them.

use std::convert::Infallible;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cudarc::driver::sys;
use smallvec::SmallVec;

use super::capture::Capture;
use super::context::Context;
use super::event::Event;
use super::kernel_name::KernelId;
use super::lane::{Lane, Point, QueuedLaunches};
use super::status;
use super::thread::{self, NO_THREAD};
use super::uses::{MANY_STREAMS, Note};
use crate::runtime::RuntimeError;

/// Work in the order of the calls. Work of two streams is not ordered, unless one waits for the other.
pub(in crate::runtime) struct Stream {
    context: &'static Context,
    raw: sys::CUstream,
    number: u64,
    origin: Origin,
    /// The number of the thread that queues work of `own`, and nobody else does. It changes behind the lock of `state`.
    owner: AtomicU64,
    own: Lane,
    /// What other threads have queued. It changes behind the lock of `state`.
    others: Lane,
    state: Mutex<State>,
    /// What is recorded instead of run, if it is, and whether it is: nearly no stream ever records.
    capture: Mutex<Option<Capture>>,
    is_recording: AtomicBool,
}

/// Who made a stream.
enum Origin {
    /// This crate, for all work that names no stream; it stays as long as its context.
    Default,
    /// This crate, for its user.
    Created,
    /// Other code, which keeps it alive as long as this is.
    Foreign { _owner: Box<dyn Send + Sync> },
}

// SAFETY: the driver API may be called from any thread, and handles are names; what changes is behind locks.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// What is behind the lock of a stream.
#[derive(Default)]
struct State {
    /// Gone when the owner is.
    owner: Weak<()>,
    /// For other streams, by number: how far they were when this stream waited for them.
    seen: SmallVec<[(u64, Progress); 2]>,
}

/// Who queued work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The thread to which the stream belongs: the first one that queued work on it, or after the end of that one
    /// another.
    Owner,
    /// Another thread.
    Other,
}

/// How far a stream is.
#[derive(Clone, Copy, Default)]
struct Progress {
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

/// Numbers of streams.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Stream {
    fn with(context: &'static Context, raw: sys::CUstream, origin: Origin) -> Stream {
        Stream {
            context,
            raw,
            number: NUMBERS.fetch_add(1, Relaxed),
            origin,
            owner: AtomicU64::new(NO_THREAD),
            own: Lane::default(),
            others: Lane::default(),
            state: Mutex::default(),
            capture: Mutex::default(),
            is_recording: AtomicBool::new(false),
        }
    }

    /// The stream, which its context knows from now on.
    fn noted(self) -> Arc<Stream> {
        let stream = Arc::new(self);
        stream.context.note_stream(&stream);
        stream
    }

    /// The stream of a context for all work that names none.
    pub(super) fn default_of(context: &'static Context, raw: sys::CUstream) -> Arc<Stream> {
        Stream::with(context, raw, Origin::Default).noted()
    }

    /// A new stream.
    pub(in crate::runtime) fn new(context: &'static Context) -> Result<Arc<Stream>, RuntimeError> {
        let _current = context.enter()?;
        let raw = context.create_stream()?;
        Ok(Stream::with(context, raw, Origin::Created).noted())
    }

    /// A new stream that notes work instead of running it, and that its context is still to be told of.
    pub(super) fn recording(context: &'static Context) -> Result<Arc<Stream>, RuntimeError> {
        let raw = context.create_stream()?;
        let stream = Stream::with(context, raw, Origin::Created);
        *stream.capture.lock().unwrap_or_else(PoisonError::into_inner) = Some(Capture::default());
        stream.is_recording.store(true, Release);
        Ok(Arc::new(stream))
    }

    /// The stream of other code, which `owner` keeps alive; the one that is known, where it is in use.
    ///
    /// # Safety
    /// `raw` is a stream of the context as long as `owner` is not dropped.
    pub(super) unsafe fn foreign(
        context: &'static Context,
        raw: sys::CUstream,
        owner: Box<dyn Send + Sync>,
    ) -> Arc<Stream> {
        let is_it = |stream: &Arc<Stream>| {
            stream.raw == raw && matches!(stream.origin, Origin::Foreign { .. })
        };
        let known = context.streams().into_iter().find(is_it);
        known.unwrap_or_else(|| {
            Stream::with(context, raw, Origin::Foreign { _owner: owner }).noted()
        })
    }

    /// Refuses a stream of other code that this code records a graph on: the driver would record work that is run
    /// without what it uses being kept, and does not let others wait for the stream. The context is current.
    #[inline]
    pub(super) fn check_not_capturing(&self) -> Result<(), RuntimeError> {
        if !matches!(self.origin, Origin::Foreign { .. }) {
            return Ok(());
        }
        let mut now = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream belongs to the context; `now` is a place for the result.
        let code = unsafe { (self.context.api().cuStreamIsCapturing)(self.raw, &mut now) };
        self.context.check("cuStreamIsCapturing", code)?;
        match now {
            sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(()),
            _ => Err(RuntimeError::StreamCaptures),
        }
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.context
    }

    /// Stands for it among all streams.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the recording with `f` and returns what was recorded. No launch of another thread is under way on the
    /// stream meanwhile: the driver would record it, and what it uses would not be kept.
    pub(super) fn end_capture<R>(&self, f: impl FnOnce() -> R) -> (R, Capture) {
        let mut place = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f();
        self.is_recording.store(false, Release);
        (result, place.take().unwrap_or_default())
    }

    /// Lets `f` record work, if work is recorded instead of run; the recording does not end before `f` does.
    #[inline]
    pub(super) fn captured<R>(&self, f: impl FnOnce(&mut Capture) -> R) -> Option<R> {
        if !self.is_recording.load(Acquire) {
            return None;
        }
        let mut place = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_mut().map(f)
    }

    /// Refuses what no graph can have.
    pub(in crate::runtime) fn check_runs(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self.captured(|_| ()) {
            Some(()) => Err(RuntimeError::NotInGraph { call }),
            None => Ok(()),
        }
    }

    /// The number of launches that the calling thread is about to queue, if it is the owner of the stream and nothing is
    /// recorded there. [`Stream::end`] comes next.
    ///
    /// The driver ends a launch with a store to the GPU, for which the next locked instruction of the thread waits, longer
    /// than all else takes here: so the owner of a stream notes its work without one.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        let is_owner = self.owner.load(Relaxed) == thread::number();
        (is_owner && !self.is_recording.load(Acquire)).then(|| self.own.begin())
    }

    /// Notes that the work of this number is queued, with its launches, or without any that it was refused.
    #[inline]
    pub(super) fn end(&self, work: u64, launches: Option<QueuedLaunches>) {
        self.own.end(work, launches, self.context.launches());
    }

    /// Queues work by `call`, which waits for nothing any more. `each` calls its argument with all that the work uses,
    /// and whether it writes that.
    pub(super) fn queue<E>(
        self: &Arc<Self>,
        launches: Option<QueuedLaunches>,
        each: impl Fn(&mut Note<'_>),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if self.owner.load(Relaxed) != thread::number() && !self.take_over() {
            return self.queue_beside_owner(launches, &each, call);
        }
        let work = self.own.begin();
        each(&mut |uses, writes| {
            if !uses.note_at_once(self, work, writes) {
                uses.note(self, By::Owner, work, writes);
            }
        });
        let result = call();
        self.end(work, launches.filter(|_| result.is_ok()));
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

    /// As [`Stream::queue`], by a thread that is not the owner. The work gets its number when it is queued and not before:
    /// who then waits for all work up to a number has waited for this one.
    #[cold]
    fn queue_beside_owner<E>(
        self: &Arc<Self>,
        launches: Option<QueuedLaunches>,
        each: &dyn Fn(&mut Note<'_>),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // Also where it fails: the driver may have some of the work.
        let result = call();
        let work = {
            let _state = self.state();
            let work = self.others.begin();
            let launches = launches.filter(|_| result.is_ok());
            self.others.end(work, launches, self.context.launches());
            work
        };
        each(&mut |uses, writes| uses.note(self, By::Other, work, writes));
        result
    }

    /// Notes work that is queued, or that has ended, as [`Stream::queue`] does.
    pub(super) fn note(self: &Arc<Self>, each: impl Fn(&mut Note<'_>)) {
        let Ok(()) = self.queue(None, each, || Ok::<(), Infallible>(()));
    }

    /// How far it is.
    fn queued(&self) -> Progress {
        Progress { own: self.own.queued(), others: self.others.queued() }
    }

    /// Notes that all up to this has ended.
    fn note_ended(&self, progress: Progress) {
        self.own.note_ended(progress.own);
        self.others.note_ended(progress.others);
    }

    /// The launches under way, and the latest of all: its place among those of all streams, its kernel.
    pub(super) fn under_way(&self) -> (u64, Option<(u64, KernelId)>) {
        let (own, others) = (self.own.under_way(), self.others.under_way());
        (own.0 + others.0, own.1.max(others.1))
    }

    /// Waits on the host for all work before this call. The context is current.
    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        self.check_not_capturing()?;
        let queued = self.queued();
        // SAFETY: the stream belongs to the context, which is current.
        let code = unsafe { (self.context.api().cuStreamSynchronize)(self.raw) };
        self.context.check("cuStreamSynchronize", code)?;
        self.note_ended(queued);
        Ok(())
    }

    /// As [`Stream::wait`], from any thread; fails if assertions did.
    pub(in crate::runtime) fn synchronize(&self) -> Result<(), RuntimeError> {
        self.check_runs("Stream::synchronize")?;
        let _current = self.context.enter()?;
        self.wait()?;
        self.context.check_asserts()
    }

    /// Whether the work of this number may not have ended yet.
    pub(super) fn may_run(&self, by: By, work: u64) -> bool {
        match by {
            By::Owner => self.own.may_run(work),
            By::Other => self.others.may_run(work),
        }
    }

    /// Whether all work that was queued here has ended, and that is known.
    pub(super) fn is_idle(&self) -> bool {
        self.own.is_idle() && self.others.is_idle()
    }

    /// As [`Stream::may_run`], after a look at the device. The context is current.
    pub(super) fn still_runs(&self, by: By, work: u64) -> bool {
        if !self.may_run(by, work) {
            return false;
        }
        let queued = self.queued();
        if self.captured(|_| ()).is_some() || self.check_not_capturing().is_err() {
            return true;
        }
        // SAFETY: the stream belongs to the context.
        let code = unsafe { (self.context.api().cuStreamQuery)(self.raw) };
        if code != status::SUCCESS {
            // A fault is found by the call that waits.
            return true;
        }
        self.note_ended(queued);
        // The work may have its number and not be queued yet.
        self.may_run(by, work)
    }

    /// Lets what is queued from now on wait for the work of this number on another stream. The context is
    /// current.
    pub(super) fn wait_for_work(
        &self,
        other: &Stream,
        by: By,
        work: u64,
    ) -> Result<(), RuntimeError> {
        if self.number == other.number || !other.may_run(by, work) {
            return Ok(());
        }
        let is_seen =
            |(number, seen): &(u64, Progress)| *number == other.number && seen.of(by).work >= work;
        if self.state().seen.iter().any(is_seen) {
            return Ok(());
        }
        other.check_not_capturing()?;
        // An event marks all that is queued, which is at least the work of this number: what is still being queued uses
        // nothing that this stream is about to use.
        let queued = other.queued();
        let event = Event::without_time(self.context)?;
        event.record(other)?;
        self.wait_for_event(&event)?;
        let seen = &mut self.state().seen;
        // Another thread may have seen more meanwhile; to wait again costs little.
        seen.retain(|(number, _)| *number != other.number);
        if seen.len() >= MANY_STREAMS {
            seen.clear();
        }
        seen.push((other.number, queued));
        Ok(())
    }

    /// Lets what is queued from now on wait for the event. The context is current.
    pub(super) fn wait_for_event(&self, event: &Event) -> Result<(), RuntimeError> {
        // SAFETY: stream and event belong to the context; 0 is the only value for the flags.
        let code = unsafe { (self.context.api().cuStreamWaitEvent)(self.raw, event.raw(), 0) };
        self.context.check("cuStreamWaitEvent", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !matches!(self.origin, Origin::Created) {
            return;
        }
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: the stream was created by this crate and is not used again; work that is queued on it still
        // runs, and only then the driver gives it up.
        let code = unsafe { (self.context.api().cuStreamDestroy_v2)(self.raw) };
        let _ = self.context.check("cuStreamDestroy_v2", code);
    }
}
