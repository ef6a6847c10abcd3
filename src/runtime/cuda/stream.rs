//! Defines the streams of the driver: their work, in order, and their recordings.

use std::convert::Infallible;
use std::mem;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;

use super::capture::Capture;
use super::context::Context;
use super::event::Event;
use super::kernel_name::KernelId;
use super::status;
use super::submission_counter::QueuedLaunches;
use super::thread::{self, NO_THREAD};
use super::timeline::{By, Timeline};
use super::uses::Note;
use crate::runtime::error::RuntimeError;

/// Work in the order of the calls. Work of two streams is not ordered, unless one waits for the other.
pub(in crate::runtime) struct Stream {
    context: &'static Context,
    raw: sys::CUstream,
    number: u64,
    origin: Origin,
    timeline: Timeline,
    /// The recorded work of a stream that records a graph, and whether it records one: few streams do.
    capture: Mutex<Option<Capture>>,
    is_recording: AtomicBool,
}

/// Who made a stream.
enum Origin {
    /// This crate, for all work that names no stream; it stays as long as its context.
    Default,
    /// This crate, for its user.
    Created,
    /// Other code, which keeps it alive as long as this is. The default stream of a thread has the number of the thread.
    Foreign { _owner: Box<dyn Send + Sync>, thread: Option<u64> },
}

/// The handle of the default stream of the calling thread (`CU_STREAM_PER_THREAD`): another stream in each thread.
const PER_THREAD: usize = 2;

// SAFETY: the driver API may be called from any thread, and handles are names; what changes is behind locks.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// Numbers of streams.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Stream {
    fn with(context: &'static Context, raw: sys::CUstream, origin: Origin) -> Stream {
        Stream {
            context,
            raw,
            number: NUMBERS.fetch_add(1, Relaxed),
            origin,
            timeline: Timeline::default(),
            capture: Mutex::default(),
            is_recording: AtomicBool::new(false),
        }
    }

    /// Returns the stream, which its context knows from now on.
    fn noted(self) -> Arc<Stream> {
        let stream = Arc::new(self);
        stream.context.note_stream(&stream);
        stream
    }

    /// Returns the stream of a context for all work that names none.
    pub(super) fn default_of(context: &'static Context, raw: sys::CUstream) -> Arc<Stream> {
        Stream::with(context, raw, Origin::Default).noted()
    }

    /// Returns a new stream.
    pub(in crate::runtime) fn new(context: &'static Context) -> Result<Arc<Stream>, RuntimeError> {
        let _current = context.enter()?;
        let raw = context.create_stream()?;
        Ok(Stream::with(context, raw, Origin::Created).noted())
    }

    /// Returns a new stream that notes work instead of running it. Its context does not know it yet.
    pub(super) fn recording(context: &'static Context) -> Result<Arc<Stream>, RuntimeError> {
        let raw = context.create_stream()?;
        let stream = Stream::with(context, raw, Origin::Created);
        *stream.capture.lock().unwrap_or_else(PoisonError::into_inner) = Some(Capture::default());
        stream.is_recording.store(true, Release);
        Ok(Arc::new(stream))
    }

    /// Returns the stream of other code, which `owner` keeps alive. A stream that is in use already is shared. The default
    /// stream of a thread is that of the calling thread.
    ///
    /// # Safety
    /// `raw` is a stream of the context as long as `owner` is not dropped.
    pub(super) unsafe fn foreign(
        context: &'static Context,
        raw: sys::CUstream,
        owner: Box<dyn Send + Sync>,
    ) -> Arc<Stream> {
        let is_it = |stream: &Arc<Stream>| {
            stream.raw == raw && stream.is_foreign() && !stream.is_of_other_thread()
        };
        let known = context.streams().into_iter().find(is_it);
        known.unwrap_or_else(|| {
            let own = || thread::register().map_or(NO_THREAD, |(number, _)| number);
            let thread = (raw.addr() == PER_THREAD).then(own);
            Stream::with(context, raw, Origin::Foreign { _owner: owner, thread }).noted()
        })
    }

    /// Returns whether it is the default stream of another thread, which only that thread can name: the handle is that of
    /// another stream here.
    #[inline]
    fn is_of_other_thread(&self) -> bool {
        matches!(self.origin, Origin::Foreign { thread: Some(its), .. } if its != thread::number())
    }

    /// Refuses the default stream of another thread.
    #[inline]
    pub(super) fn check_thread(&self) -> Result<(), RuntimeError> {
        if self.is_of_other_thread() { Err(RuntimeError::OtherThreadStream) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.origin, Origin::Foreign { .. })
    }

    /// Returns the stream for work that must run exactly once, such as copies of host memory: this one, or the default
    /// one where other code could capture the work.
    pub(super) fn uncaptured(self: &Arc<Self>) -> &Arc<Stream> {
        if self.is_foreign() { self.context.default_stream() } else { self }
    }

    /// Returns whether other code captures the stream into a graph. Refuses the default stream of another thread. The
    /// context is current.
    #[inline]
    pub(super) fn is_capturing(&self) -> Result<bool, RuntimeError> {
        self.check_thread()?;
        if self.is_foreign() { self.ask_capturing() } else { Ok(false) }
    }

    /// As [`Stream::is_capturing`], from any thread.
    pub(in crate::runtime) fn is_captured(&self) -> Result<bool, RuntimeError> {
        let _current = self.context.enter()?;
        self.is_capturing()
    }

    /// Refuses a stream that other code captures into a graph: the graph would not keep what the work uses, and the driver
    /// does not let others wait for the stream. Refuses the default stream of another thread, too. The context is current.
    #[inline]
    pub(super) fn check_not_capturing(&self) -> Result<(), RuntimeError> {
        if self.is_capturing()? { Err(RuntimeError::StreamCaptures) } else { Ok(()) }
    }

    #[inline]
    fn ask_capturing(&self) -> Result<bool, RuntimeError> {
        let mut now = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream belongs to the context; `now` is a variable for the result.
        let code = unsafe { (self.context.api().cuStreamIsCapturing)(self.raw, &mut now) };
        self.context.check("cuStreamIsCapturing", code)?;
        match now {
            sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(false),
            _ => Ok(true),
        }
    }

    /// As [`Stream::check_not_capturing`], behind the call that queued work: a capture that began after the check before
    /// the call may have recorded the work. What the work uses is then never freed, because a graph of other code does not
    /// tell when it goes, and must not be touched while another thread captures into it. `used` gives it.
    #[inline]
    pub(super) fn check_not_captured<U>(
        &self,
        used: impl FnOnce() -> U,
    ) -> Result<(), RuntimeError> {
        let result = self.check_not_capturing();
        if matches!(result, Err(RuntimeError::StreamCaptures)) {
            mem::forget(used());
        }
        result
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.context
    }

    /// Stands for it among all streams.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(in crate::runtime) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Ends the recording with `f` and returns what was recorded. No launch of another thread is in flight on the
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

    /// Returns the number of a launch that the calling thread is about to queue, if it owns the timeline of the stream
    /// and nothing is recorded there. [`Stream::end`] comes next.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        if self.is_recording.load(Acquire) { None } else { self.timeline.begin() }
    }

    /// As [`Timeline::end`].
    #[inline]
    pub(super) fn end(&self, work: u64, launches: Option<QueuedLaunches>) {
        self.timeline.end(work, launches, self.context.launches());
    }

    /// Queues work by `call`, which waits for nothing any more. `each` calls its argument with all that the work uses,
    /// and whether it writes that.
    pub(super) fn queue<E>(
        self: &Arc<Self>,
        launches: Option<QueuedLaunches>,
        each: impl Fn(&mut Note<'_>),
        call: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let note = |by: By, work: u64| {
            each(&mut |uses, writes| {
                if by == By::Other || !uses.note_at_once(self, work, writes) {
                    uses.note(self, by, work, writes);
                }
            });
        };
        self.timeline.queue(launches, self.context.launches(), note, call)
    }

    /// Notes work that is queued, or that has ended, as [`Stream::queue`] does.
    pub(super) fn note(self: &Arc<Self>, each: impl Fn(&mut Note<'_>)) {
        let Ok(()) = self.queue(None, each, || Ok::<(), Infallible>(()));
    }

    /// Returns the launches in flight, and the latest of all: its number among those of all streams, its kernel.
    pub(super) fn in_flight(&self) -> (u64, Option<(u64, KernelId)>) {
        self.timeline.in_flight()
    }

    /// Waits on the host for all work before this call. The context is current.
    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        if self.is_of_other_thread() {
            return self.timeline.wait(|| self.context.wait_for_all_code());
        }
        self.check_not_capturing()?;
        self.timeline.wait(|| {
            self.poll()?;
            self.synchronize_driver()
        })
    }

    /// As [`Stream::wait`], of a stream of this crate, however long it takes: for work that uses memory which the caller
    /// may free when this returns.
    pub(super) fn wait_to_the_end(&self) -> Result<(), RuntimeError> {
        self.timeline.wait(|| self.synchronize_driver())
    }

    fn synchronize_driver(&self) -> Result<(), RuntimeError> {
        // SAFETY: the stream belongs to the context, which is current.
        let code = unsafe { (self.context.api().cuStreamSynchronize)(self.raw) };
        self.context.check("cuStreamSynchronize", code)
    }

    /// As [`Context::poll`], for the stream. Returns at once if the stream records or is another thread's. The context is
    /// current.
    pub(super) fn poll(&self) -> Result<(), RuntimeError> {
        if self.is_of_other_thread() || self.is_recording.load(Acquire) {
            return Ok(());
        }
        // SAFETY: the stream belongs to the context.
        self.context.poll(|| unsafe { (self.context.api().cuStreamQuery)(self.raw) })
    }

    /// As [`Stream::wait`], from any thread; fails if assertions did.
    pub(in crate::runtime) fn synchronize(&self) -> Result<(), RuntimeError> {
        self.check_runs("Stream::synchronize")?;
        let _current = self.context.enter()?;
        self.wait()?;
        self.context.check_asserts()
    }

    /// Returns whether the work of this number may still be in flight.
    pub(super) fn may_run(&self, by: By, work: u64) -> bool {
        self.timeline.may_run(by, work)
    }

    /// Returns whether all work of the stream is known to have ended.
    pub(super) fn is_idle(&self) -> bool {
        self.timeline.is_idle()
    }

    /// As [`Stream::may_run`], after a look at the device. The context is current.
    pub(super) fn still_runs(&self, by: By, work: u64) -> bool {
        self.timeline.still_runs(by, work, || {
            let context = self.context;
            if self.captured(|_| ()).is_some() || context.keep(self.check_not_capturing()).is_none()
            {
                return false;
            }
            // SAFETY: the stream belongs to the context.
            let code = unsafe { (self.context.api().cuStreamQuery)(self.raw) };
            // A fault is found by the call that waits.
            code == status::SUCCESS
        })
    }

    /// Lets what is queued from now on wait for the work of this number on another stream. The context is
    /// current.
    pub(super) fn wait_for_work(
        &self,
        other: &Stream,
        by: By,
        work: u64,
    ) -> Result<(), RuntimeError> {
        let is_before = self.number == other.number || !other.may_run(by, work);
        if is_before || self.timeline.has_seen(other.number, by, work) {
            return Ok(());
        }
        // What waits for a collective that hangs would hang, too: this stream, and all that is ordered behind it.
        self.context.check_hung_comms()?;
        // An event marks all that is queued, which is at least the work of this number: what is still being queued uses
        // nothing that this stream is about to use.
        let queued = other.timeline.queued();
        self.follow(other)?;
        self.timeline.note_seen(other.number, queued);
        Ok(())
    }

    /// Lets what is queued from now on wait for all work of another stream, also that of other code. The context is
    /// current. The host waits for all streams if `other` is the default stream of another thread.
    pub(super) fn follow(&self, other: &Stream) -> Result<(), RuntimeError> {
        if other.is_of_other_thread() {
            return self.context.wait_for_all_code();
        }
        let event = Event::without_time(self.context)?;
        event.record(other)?;
        self.wait_for_event(&event)
    }

    /// Lets what is queued from now on wait for the event. The context is current.
    pub(super) fn wait_for_event(&self, event: &Event) -> Result<(), RuntimeError> {
        // SAFETY: stream and event belong to the context; 0 is the only value for the flags.
        let code = unsafe { (self.context.api().cuStreamWaitEvent)(self.raw, event.raw(), 0) };
        if code == status::CAPTURED_EVENT {
            // The capture has ended since the event was recorded.
            return Err(RuntimeError::StreamCaptures);
        }
        self.context.check("cuStreamWaitEvent", code)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !matches!(self.origin, Origin::Created) {
            return;
        }
        let Some(_current) = self.context.enter_to_drop() else { return };
        // SAFETY: the stream was created by this crate and is not used again; work that is queued on it still
        // runs, and only then the driver gives it up.
        let code = unsafe { (self.context.api().cuStreamDestroy_v2)(self.raw) };
        self.context.keep(self.context.check("cuStreamDestroy_v2", code));
    }
}
