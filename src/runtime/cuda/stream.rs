//! Streams, and what is under way on them.

use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys;
use smallvec::SmallVec;

use super::capture::Capture;
use super::context::Context;
use super::event::Event;
use super::status;
use crate::runtime::RuntimeError;

/// Work in the order of the calls. Work of two streams is not ordered, unless one waits for the other.
pub(in crate::runtime) struct Stream {
    context: &'static Context,
    raw: sys::CUstream,
    number: u64,
    origin: Origin,
    progress: Mutex<Progress>,
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

/// Work of a stream, numbered from 1. Work gets its number when it is queued and not before: who then waits
/// for all work up to a number has waited for this one.
#[derive(Default)]
struct Progress {
    /// The latest work.
    queued: u64,
    /// The latest work that is known to have ended, and with it all before.
    ended: u64,
    /// The launches among the work queued, and among that which has ended.
    launches: u64,
    ended_launches: u64,
    /// The latest launch: its place among those of all streams, its kernel.
    last_launch: Option<(u64, Arc<str>)>,
    /// For other streams, by number: the latest of their work that this stream has waited for.
    seen: SmallVec<[(u64, u64); 2]>,
}

impl Progress {
    /// Notes that all work up to a number, with so many launches, has ended.
    fn note_ended(&mut self, queued: u64, launches: u64) {
        self.ended = self.ended.max(queued);
        self.ended_launches = self.ended_launches.max(launches);
    }
}

/// From how many streams on those whose work has ended are forgotten.
const MANY_STREAMS: usize = 16;

/// Numbers of streams.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Stream {
    fn with(context: &'static Context, raw: sys::CUstream, origin: Origin) -> Stream {
        Stream {
            context,
            raw,
            number: NUMBERS.fetch_add(1, Relaxed),
            origin,
            progress: Mutex::default(),
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

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Notes work that was queued; its number.
    pub(super) fn note(&self) -> u64 {
        let mut progress = self.progress();
        progress.queued += 1;
        progress.queued
    }

    /// Notes launches that were queued together, the last one of `kernel`; the number of the work.
    pub(super) fn note_launch(&self, kernel: &Arc<str>, launches: u64) -> u64 {
        let place = self.context.next_launch();
        let mut progress = self.progress();
        progress.queued += 1;
        progress.launches += launches;
        match &mut progress.last_launch {
            Some((last, known)) if Arc::ptr_eq(known, kernel) => *last = place,
            last => *last = Some((place, Arc::clone(kernel))),
        }
        progress.queued
    }

    /// The launches under way, and the latest of all: its place among those of all streams, its kernel.
    pub(super) fn under_way(&self) -> (u64, Option<(u64, Arc<str>)>) {
        let progress = self.progress();
        (progress.launches - progress.ended_launches, progress.last_launch.clone())
    }

    /// Waits on the host for all work before this call. The context is current.
    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        self.check_not_capturing()?;
        let (queued, launches) = {
            let progress = self.progress();
            (progress.queued, progress.launches)
        };
        // SAFETY: the stream belongs to the context, which is current.
        let code = unsafe { (self.context.api().cuStreamSynchronize)(self.raw) };
        self.context.check("cuStreamSynchronize", code)?;
        self.progress().note_ended(queued, launches);
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
    fn may_run(&self, work: u64) -> bool {
        self.progress().ended < work
    }

    /// Whether all work that was queued here has ended, and that is known.
    pub(super) fn is_idle(&self) -> bool {
        let progress = self.progress();
        progress.ended == progress.queued
    }

    /// As [`Stream::may_run`], after a look at the device. The context is current.
    fn still_runs(&self, work: u64) -> bool {
        if !self.may_run(work) {
            return false;
        }
        let (queued, launches) = {
            let progress = self.progress();
            (progress.queued, progress.launches)
        };
        if self.captured(|_| ()).is_some() || self.check_not_capturing().is_err() {
            return true;
        }
        // SAFETY: the stream belongs to the context.
        let code = unsafe { (self.context.api().cuStreamQuery)(self.raw) };
        if code != status::SUCCESS {
            // A fault is found by the call that waits.
            return true;
        }
        self.progress().note_ended(queued, launches);
        false
    }

    /// Lets what is queued from now on wait for the work of this number on another stream. The context is
    /// current.
    fn wait_for_work(&self, other: &Stream, work: u64) -> Result<(), RuntimeError> {
        if self.number == other.number || !other.may_run(work) {
            return Ok(());
        }
        let number = |seen: &(u64, u64)| seen.0 == other.number;
        if self.progress().seen.iter().any(|seen| number(seen) && seen.1 >= work) {
            return Ok(());
        }
        other.check_not_capturing()?;
        // An event marks all that is queued, which is at least the work of this number.
        let queued = other.progress().queued;
        let event = Event::without_time(self.context)?;
        event.record(other)?;
        self.wait_for_event(&event)?;
        let mut progress = self.progress();
        match progress.seen.iter_mut().find(|seen| number(seen)) {
            Some(seen) => seen.1 = seen.1.max(queued),
            None => {
                // Streams come and go; to wait again costs little.
                if progress.seen.len() >= MANY_STREAMS {
                    progress.seen.clear();
                }
                progress.seen.push((other.number, queued));
            }
        }
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

/// Work that used something, memory or code: the last that changed it, and all after that which read it, at
/// most one for each stream.
pub(super) struct Uses {
    used: Mutex<Used>,
    /// The number of the stream that all of the work is on, [`NO_STREAM`] or [`STREAMS`]: nearly everything is used on one
    /// stream, which then need not wait for anything.
    only: AtomicU64,
}

/// Nothing has been used yet.
const NO_STREAM: u64 = u64::MAX;
/// There may be work on several streams.
const STREAMS: u64 = u64::MAX - 1;

impl Default for Uses {
    fn default() -> Uses {
        Uses { used: Mutex::default(), only: AtomicU64::new(NO_STREAM) }
    }
}

#[derive(Default)]
struct Used {
    write: Option<Use>,
    reads: SmallVec<[Use; 2]>,
}

/// Work of a stream, by its number.
struct Use {
    stream: Arc<Stream>,
    work: u64,
}

impl Uses {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `stream` wait for all uses that must come before its next work. The context is current.
    #[inline]
    pub(super) fn order(&self, stream: &Stream, writes: bool) -> Result<(), RuntimeError> {
        if self.only.load(Acquire) == stream.number {
            return Ok(());
        }
        self.order_streams(stream, writes)
    }

    fn order_streams(&self, stream: &Stream, writes: bool) -> Result<(), RuntimeError> {
        let used = self.lock();
        let reads = if writes { &used.reads[..] } else { &[] };
        used.write.iter().chain(reads).try_for_each(|use_| {
            if use_.stream.number == stream.number {
                return Ok(());
            }
            stream.wait_for_work(&use_.stream, use_.work)
        })
    }

    /// Notes the work that has been queued. The context is current.
    pub(super) fn note(&self, stream: &Arc<Stream>, work: u64, writes: bool) {
        let used = &mut *self.lock();
        let only = self.only.load(Relaxed);
        if writes {
            used.reads.clear();
        }
        // What is read stays beside what was written before on another stream.
        if only != stream.number {
            let now = if writes || only == NO_STREAM { stream.number } else { STREAMS };
            self.only.store(now, Release);
        }
        let known = match &mut used.write {
            Some(write) if writes => Some(write),
            _ => used.reads.iter_mut().find(|read| read.stream.number == stream.number),
        };
        match known {
            Some(known) => {
                if known.stream.number != stream.number {
                    known.stream = Arc::clone(stream);
                }
                known.work = work;
            }
            None => {
                let new = Use { stream: Arc::clone(stream), work };
                if writes {
                    used.write = Some(new);
                } else {
                    // What is only read, code above all, would keep every stream that ever read it.
                    if used.reads.len() >= MANY_STREAMS && used.reads.len().is_power_of_two() {
                        used.reads.retain(|read| read.stream.still_runs(read.work));
                    }
                    used.reads.push(new);
                }
            }
        }
    }

    /// The stream of the last change.
    pub(super) fn writer(&self) -> Option<Arc<Stream>> {
        self.lock().write.as_ref().map(|write| Arc::clone(&write.stream))
    }

    /// Waits on the host until the last change has ended, and where `reads` all reads too. The context is
    /// current.
    pub(super) fn wait(&self, reads: bool) -> Result<(), RuntimeError> {
        // The lock is not held while waiting.
        let uses: SmallVec<[(Arc<Stream>, u64); 3]> = {
            let used = self.lock();
            let reads = if reads { &used.reads[..] } else { &[] };
            used.write.iter().chain(reads).map(|u| (Arc::clone(&u.stream), u.work)).collect()
        };
        let running = uses.iter().filter(|(stream, work)| stream.may_run(*work));
        running.into_iter().try_for_each(|(stream, _)| stream.wait())
    }
}
