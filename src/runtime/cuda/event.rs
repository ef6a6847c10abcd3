//! Defines [`Event`]: a point in a stream's work, with its time. Streams wait for it to follow each
//! other, and two of them measure how long the work between them took.

use std::time::Duration;

use cudarc::driver::sys;

use super::context::Context;
use super::status;
use super::stream::Stream;
use crate::runtime::error::RuntimeError;

/// A point in a stream's work.
pub(in crate::runtime) struct Event {
    context: &'static Context,
    raw: sys::CUevent,
}

// SAFETY: as for streams.
unsafe impl Send for Event {}
// SAFETY: as for streams.
unsafe impl Sync for Event {}

impl Event {
    /// Creates an event that records when it was reached.
    pub(in crate::runtime) fn new(context: &'static Context) -> Result<Event, RuntimeError> {
        Event::with(context, sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    /// Creates an event without a time, which is cheaper and enough for streams to wait for.
    pub(super) fn without_time(context: &'static Context) -> Result<Event, RuntimeError> {
        Event::with(context, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn with(context: &'static Context, flags: sys::CUevent_flags) -> Result<Event, RuntimeError> {
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a local out parameter.
        let code = unsafe { (context.api().cuEventCreate)(&mut raw, flags as u32) };
        context.check("cuEventCreate", code)?;
        Ok(Event { context, raw })
    }

    pub(in crate::runtime) fn context(&self) -> &'static Context {
        self.context
    }

    pub(super) fn raw(&self) -> sys::CUevent {
        self.raw
    }

    /// Records the event after all earlier work of the stream. The context must be current.
    ///
    /// Fails if other code captures the stream. We check after the driver call, because a stream
    /// that waits for a captured event joins the capture. Once the capture has ended, the driver
    /// refuses the event.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), RuntimeError> {
        stream.check_thread()?;
        // SAFETY: event and stream belong to the context.
        let code = unsafe { (self.context.api().cuEventRecord)(self.raw, stream.raw()) };
        self.context.check("cuEventRecord", code)?;
        stream.check_not_capturing()
    }

    /// Like [`Event::record`], but the context need not be current.
    pub(in crate::runtime) fn record_on(&self, stream: &Stream) -> Result<(), RuntimeError> {
        stream.check_runs("Stream::record")?;
        let _current = self.context.enter()?;
        self.record(stream)
    }

    /// Makes the stream's later work wait for the event. The host does not wait.
    pub(in crate::runtime) fn hold(&self, stream: &Stream) -> Result<(), RuntimeError> {
        stream.check_runs("Stream::wait_for")?;
        let _current = self.context.enter()?;
        stream.check_not_capturing()?;
        stream.wait_for_event(self)
    }

    /// Blocks until the GPU reaches the event.
    pub(in crate::runtime) fn wait(&self) -> Result<(), RuntimeError> {
        let _current = self.context.enter()?;
        // SAFETY: the event belongs to the context.
        self.context.poll(|| unsafe { (self.context.api().cuEventQuery)(self.raw) })?;
        // SAFETY: as above.
        let code = unsafe { (self.context.api().cuEventSynchronize)(self.raw) };
        self.context.check("cuEventSynchronize", code)
    }

    /// Returns whether the GPU has reached the event.
    pub(in crate::runtime) fn is_passed(&self) -> Result<bool, RuntimeError> {
        let _current = self.context.enter()?;
        // SAFETY: the event belongs to the context.
        match unsafe { (self.context.api().cuEventQuery)(self.raw) } {
            status::NOT_READY => Ok(false),
            code => self.context.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Returns the time from this event to `end`. Both must have been reached.
    pub(in crate::runtime) fn elapsed_until(&self, end: &Event) -> Result<Duration, RuntimeError> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events belong to the context; `milliseconds` is a local out parameter.
        let code = unsafe {
            (self.context.api().cuEventElapsedTime)(&mut milliseconds, self.raw, end.raw)
        };
        self.context.check("cuEventElapsedTime", code)?;
        let seconds = f64::from(milliseconds.max(0.0)) / 1e3;
        Ok(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Some(_current) = self.context.enter_to_drop() else { return };
        // SAFETY: the event belongs to the context and is not used again; the driver keeps what it
        // still needs if the event has not been reached.
        let code = unsafe { (self.context.api().cuEventDestroy_v2)(self.raw) };
        self.context.keep(self.context.check("cuEventDestroy_v2", code));
    }
}
