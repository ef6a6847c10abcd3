//! Defines [`Relaxed`], a thread that may ask the device during captures of other code.

use cudarc::driver::sys;

use super::api::Api;
use super::context::Context;
use crate::runtime::error::RuntimeError;

/// A thread that may ask the device during captures. Dropping it brings back the mode before.
pub(super) struct Relaxed {
    api: &'static Api,
    before: sys::CUstreamCaptureMode,
}

impl Context {
    /// Lets the calling thread ask the device during a capture of other code, until the result is dropped. Without it the
    /// driver refuses most calls and ends the capture. The context is current.
    pub(super) fn relax_captures(&self) -> Result<Relaxed, RuntimeError> {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is a variable for the mode before.
        let code = unsafe { (self.api().cuThreadExchangeStreamCaptureMode)(&mut mode) };
        self.check("cuThreadExchangeStreamCaptureMode", code)?;
        Ok(Relaxed { api: self.api(), before: mode })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: the variable holds the mode of the thread before, and takes the current one.
        unsafe { (self.api.cuThreadExchangeStreamCaptureMode)(&mut self.before) };
    }
}
