//! Defines [`Relaxed`], which lets a thread query the device while other code captures a stream. A
//! launch that is captured needs it to check what it has to wait for.

use cudarc::driver::sys;

use super::api::Api;
use super::context::Context;
use crate::runtime::error::RuntimeError;

/// While this exists, the thread may query the device during captures. Dropping it restores the
/// thread's previous mode.
pub(super) struct Relaxed {
    api: &'static Api,
    before: sys::CUstreamCaptureMode,
}

impl Context {
    /// Lets the calling thread query the device during a capture of other code, until the result is
    /// dropped. Without this, the driver refuses most calls and ends the capture. The context must
    /// be current.
    pub(super) fn relax_captures(&self) -> Result<Relaxed, RuntimeError> {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` is a local that passes the new mode and receives the previous one.
        let code = unsafe { (self.api().cuThreadExchangeStreamCaptureMode)(&mut mode) };
        self.check("cuThreadExchangeStreamCaptureMode", code)?;
        Ok(Relaxed { api: self.api(), before: mode })
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: `before` holds the thread's previous mode and receives the current one.
        unsafe { (self.api.cuThreadExchangeStreamCaptureMode)(&mut self.before) };
    }
}
