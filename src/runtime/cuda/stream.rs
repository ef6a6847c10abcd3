//! Defines the driver's streams: their work in flight and their recordings. All work on a GPU is
//! queued through [`Stream::queue`] or, for most launches, [`Stream::begin`] and [`Stream::end`].

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

/// A queue of work that runs in call order. Work on two streams is unordered unless one waits for
/// the other.
pub(in crate::runtime) struct Stream {
    context: &'static Context,
    raw: sys::CUstream,
    number: u64,
    origin: Origin,
    timeline: Timeline,
    /// The recorded work of a stream that records a graph, and whether it records one. Few streams
    /// do.
    capture: Mutex<Option<Capture>>,
    is_recording: AtomicBool,
}

/// Who created a stream.
enum Origin {
    /// This crate, for work that names no stream. It lives as long as its context.
    Default,
    /// This crate, for its user.
    Created,
    /// Other code, which keeps it alive as long as this exists. For a thread's default stream,
    /// `thread` is that thread's id.
    Foreign { _owner: Box<dyn Send + Sync>, thread: Option<u64> },
}

/// The handle of the calling thread's default stream (`CU_STREAM_PER_THREAD`): a different stream
/// in each thread.
const PER_THREAD: usize = 2;

// SAFETY: any thread may call the driver API, and handles are names; everything that changes is
// atomic or behind locks.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// The next stream id.
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

    /// Adds the stream to its context's list.
    fn noted(self) -> Arc<Stream> {
        let stream = Arc::new(self);
        stream.context.note_stream(&stream);
        stream
    }

    /// Returns a context's default stream.
    pub(super) fn default_of(context: &'static Context, raw: sys::CUstream) -> Arc<Stream> {
        Stream::with(context, raw, Origin::Default).noted()
    }

    pub(in crate::runtime) fn new(context: &'static Context) -> Result<Arc<Stream>, RuntimeError> {
        let _current = context.enter()?;
        let raw = context.create_stream()?;
        Ok(Stream::with(context, raw, Origin::Created).noted())
    }

    /// Creates a stream that records work instead of running it. It is not in its context's list
    /// yet.
    pub(super) fn recording(context: &'static Context) -> Result<Arc<Stream>, RuntimeError> {
        let raw = context.create_stream()?;
        let stream = Stream::with(context, raw, Origin::Created);
        *stream.capture.lock().unwrap_or_else(PoisonError::into_inner) = Some(Capture::default());
        stream.is_recording.store(true, Release);
        Ok(Arc::new(stream))
    }

    /// Wraps a stream of other code, which `owner` keeps alive. If the stream is already in use,
    /// returns that one. A per-thread default stream means the calling thread's.
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

    /// Returns whether it is the default stream of another thread. Only that thread can name it,
    /// because here the same handle means another stream.
    #[inline]
    fn is_of_other_thread(&self) -> bool {
        matches!(self.origin, Origin::Foreign { thread: Some(its), .. } if its != thread::number())
    }

    /// Returns an error if it is the default stream of another thread.
    #[inline]
    pub(super) fn check_thread(&self) -> Result<(), RuntimeError> {
        if self.is_of_other_thread() { Err(RuntimeError::OtherThreadStream) } else { Ok(()) }
    }

    #[inline]
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.origin, Origin::Foreign { .. })
    }

    /// Returns the stream for work that must run exactly once, such as copies with host memory:
    /// this stream, or the default stream if other code could capture this one.
    pub(super) fn uncaptured(self: &Arc<Self>) -> &Arc<Stream> {
        if self.is_foreign() { self.context.default_stream() } else { self }
    }

    /// Returns whether other code captures the stream into a graph. Returns an error if the stream
    /// is the default stream of another thread. The context must be current.
    #[inline]
    pub(super) fn is_capturing(&self) -> Result<bool, RuntimeError> {
        self.check_thread()?;
        if self.is_foreign() { self.ask_capturing() } else { Ok(false) }
    }

    /// Like [`Stream::is_capturing`], but the context need not be current.
    pub(in crate::runtime) fn is_captured(&self) -> Result<bool, RuntimeError> {
        let _current = self.context.enter()?;
        self.is_capturing()
    }

    /// Returns an error if other code captures the stream into a graph, because the graph would not
    /// keep what the work uses, and the driver does not let others wait for the stream. Also
    /// returns an error if the stream is the default stream of another thread. The context must be
    /// current.
    #[inline]
    pub(super) fn check_not_capturing(&self) -> Result<(), RuntimeError> {
        if self.is_capturing()? { Err(RuntimeError::StreamCaptures) } else { Ok(()) }
    }

    #[inline]
    fn ask_capturing(&self) -> Result<bool, RuntimeError> {
        let mut now = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream belongs to the context; `now` is a local out parameter.
        let code = unsafe { (self.context.api().cuStreamIsCapturing)(self.raw, &mut now) };
        self.context.check("cuStreamIsCapturing", code)?;
        match now {
            sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(false),
            _ => Ok(true),
        }
    }

    /// Like [`Stream::check_not_capturing`], but for after the call that queued work, because a
    /// capture that began after the check before the call may have recorded the work. In that case
    /// we leak what `used` returns: everything that the work uses. A graph of other code does not
    /// tell when it is destroyed, and must not be touched while another thread captures into it.
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

    /// Returns the stream's id, unique among all streams.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(in crate::runtime) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Ends the recording with `f` and returns what was recorded. Blocks launches from other
    /// threads on the stream meanwhile: the driver would record them, but what they use would not
    /// be kept.
    pub(super) fn end_capture<R>(&self, f: impl FnOnce() -> R) -> (R, Capture) {
        let mut place = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f();
        self.is_recording.store(false, Release);
        (result, place.take().unwrap_or_default())
    }

    /// If the stream records, lets `f` add work to the recording. The recording cannot end before
    /// `f` returns.
    #[inline]
    pub(super) fn captured<R>(&self, f: impl FnOnce(&mut Capture) -> R) -> Option<R> {
        if !self.is_recording.load(Acquire) {
            return None;
        }
        let mut place = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        place.as_mut().map(f)
    }

    /// Returns an error if the stream records a graph, for calls that no graph can contain.
    pub(in crate::runtime) fn check_runs(&self, call: &'static str) -> Result<(), RuntimeError> {
        match self.captured(|_| ()) {
            Some(()) => Err(RuntimeError::NotInGraph { call }),
            None => Ok(()),
        }
    }

    /// Returns the sequence number of a launch that the calling thread is about to queue, if the
    /// thread owns the stream's timeline and the stream does not record. You must call
    /// [`Stream::end`] next.
    #[inline]
    pub(super) fn begin(&self) -> Option<u64> {
        if self.is_recording.load(Acquire) { None } else { self.timeline.begin() }
    }

    /// Notes that the work from [`Stream::begin`] is queued: see [`Timeline::end`].
    #[inline]
    pub(super) fn end(&self, work: u64, launches: Option<QueuedLaunches>) {
        self.timeline.end(work, launches, self.context.launches());
    }

    /// Queues work with `call`. Whatever the work has to wait for is already ordered before it.
    /// `each` must call its argument with everything that the work uses, and whether it writes
    /// that.
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

    /// Notes work that is already queued, or that has ended, as [`Stream::queue`] does.
    pub(super) fn note(self: &Arc<Self>, each: impl Fn(&mut Note<'_>)) {
        let Ok(()) = self.queue(None, each, || Ok::<(), Infallible>(()));
    }

    /// Returns how many launches are in flight, and the latest launch: its index among the launches
    /// of all streams, and its kernel.
    pub(super) fn in_flight(&self) -> (u64, Option<(u64, KernelId)>) {
        self.timeline.in_flight()
    }

    /// Blocks until all earlier work has ended. The context must be current.
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

    /// Like [`Stream::wait`], but for streams of this crate, and never gives up, however long it
    /// takes. Use it for work with memory that the caller may free when this returns.
    pub(super) fn wait_to_the_end(&self) -> Result<(), RuntimeError> {
        self.timeline.wait(|| self.synchronize_driver())
    }

    fn synchronize_driver(&self) -> Result<(), RuntimeError> {
        // SAFETY: the stream belongs to the context, which is current.
        let code = unsafe { (self.context.api().cuStreamSynchronize)(self.raw) };
        self.context.check("cuStreamSynchronize", code)
    }

    /// Like [`Context::poll`], but for this stream. Returns at once if the stream records or
    /// belongs to another thread. The context must be current.
    pub(super) fn poll(&self) -> Result<(), RuntimeError> {
        if self.is_of_other_thread() || self.is_recording.load(Acquire) {
            return Ok(());
        }
        // SAFETY: the stream belongs to the context.
        self.context.poll(|| unsafe { (self.context.api().cuStreamQuery)(self.raw) })
    }

    /// Like [`Stream::wait`], but the context need not be current. Returns an error if assertions
    /// have failed.
    pub(in crate::runtime) fn synchronize(&self) -> Result<(), RuntimeError> {
        self.check_runs("Stream::synchronize")?;
        let _current = self.context.enter()?;
        self.wait()?;
        self.context.check_asserts()
    }

    /// Returns whether the work with this sequence number may still be in flight.
    pub(super) fn may_run(&self, by: By, work: u64) -> bool {
        self.timeline.may_run(by, work)
    }

    /// Returns whether all work of the stream is known to have ended.
    pub(super) fn is_idle(&self) -> bool {
        self.timeline.is_idle()
    }

    /// Like [`Stream::may_run`], but asks the device first. The context must be current.
    pub(super) fn still_runs(&self, by: By, work: u64) -> bool {
        self.timeline.still_runs(by, work, || {
            let context = self.context;
            if self.captured(|_| ()).is_some() || context.keep(self.check_not_capturing()).is_none()
            {
                return false;
            }
            // SAFETY: the stream belongs to the context.
            let code = unsafe { (self.context.api().cuStreamQuery)(self.raw) };
            // Ignore a fault here; a call that waits will find it.
            code == status::SUCCESS
        })
    }

    /// Makes later work on this stream wait for the work with this sequence number on another
    /// stream. The context must be current.
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
        // Waiting for a hung collective would hang this stream, too, and everything ordered after
        // it.
        self.context.check_hung_comms()?;
        // The event marks everything that is queued, which includes the work that we wait for. Work
        // that is being queued right now does not matter: it uses nothing that this stream is about
        // to use.
        let queued = other.timeline.queued();
        self.follow(other)?;
        self.timeline.note_seen(other.number, queued);
        Ok(())
    }

    /// Makes later work on this stream wait for all work on another stream, including other code's.
    /// If `other` is another thread's default stream, the host waits for all streams instead. The
    /// context must be current.
    pub(super) fn follow(&self, other: &Stream) -> Result<(), RuntimeError> {
        if other.is_of_other_thread() {
            return self.context.wait_for_all_code();
        }
        let event = Event::without_time(self.context)?;
        event.record(other)?;
        self.wait_for_event(&event)
    }

    /// Makes later work on this stream wait for the event. The context must be current.
    pub(super) fn wait_for_event(&self, event: &Event) -> Result<(), RuntimeError> {
        // SAFETY: stream and event belong to the context; 0 is the only valid value for the flags.
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
        // SAFETY: this crate created the stream and does not use it again. Work that is queued on
        // it still runs; the driver destroys the stream after that.
        let code = unsafe { (self.context.api().cuStreamDestroy_v2)(self.raw) };
        self.context.keep(self.context.check("cuStreamDestroy_v2", code));
    }
}
