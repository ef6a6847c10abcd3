//! Points in the work of a GPU, with the time.

use std::time::Duration;

use cudarc::driver::sys;

use super::context::Context;
use crate::runtime::RuntimeError;

/// A point in the stream of a context.
pub(super) struct Event {
    context: &'static Context,
    raw: sys::CUevent,
}

impl Event {
    pub(super) fn new(context: &'static Context) -> Result<Event, RuntimeError> {
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a place for the result; 0 asks for an event with the time.
        let code = unsafe { (context.api().cuEventCreate)(&mut raw, 0) };
        context.check("cuEventCreate", code)?;
        Ok(Event { context, raw })
    }

    /// Puts the point behind all work before this call. The context is current.
    pub(super) fn record(&self) -> Result<(), RuntimeError> {
        // SAFETY: event and stream belong to the context.
        let code = unsafe { (self.context.api().cuEventRecord)(self.raw, self.context.stream()) };
        self.context.check("cuEventRecord", code)
    }

    /// Waits until the GPU has come to the point. The context is current.
    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        // SAFETY: the event belongs to the context.
        let code = unsafe { (self.context.api().cuEventSynchronize)(self.raw) };
        self.context.check("cuEventSynchronize", code)
    }

    /// The time from this point to `end`, both passed.
    pub(super) fn elapsed_until(&self, end: &Event) -> Result<Duration, RuntimeError> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events belong to the context; `milliseconds` is a place for the result.
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
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: the event belongs to the context and is not used again; the driver keeps what it still
        // needs of one that is not passed.
        let code = unsafe { (self.context.api().cuEventDestroy_v2)(self.raw) };
        let _ = self.context.check("cuEventDestroy_v2", code);
    }
}
