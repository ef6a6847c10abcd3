//! Blocks a stream until the host has queued work that belongs together, so that a measurement does
//! not include how fast the host queues launches.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::stream::Stream;
use crate::runtime::error::RuntimeError;

/// Blocks a stream. The stream continues when this is dropped, or by itself after [`LONGEST`], so
/// that a host that waits for the stream meanwhile does not wait forever.
pub(in crate::runtime) struct Hold(Arc<State>);

#[derive(Default)]
struct State {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Now {
    #[default]
    Held,
    Released,
    /// The time was up, so the work has started.
    Expired,
}

/// How long the stream waits at most.
const LONGEST: Duration = Duration::from_secs(1);

impl Hold {
    /// Blocks the work that is queued on the stream from now on.
    pub(in crate::runtime) fn new(stream: &Arc<Stream>) -> Result<Hold, RuntimeError> {
        stream.check_runs("Stream::hold")?;
        let context = stream.context();
        let _current = context.enter()?;
        let runs_on = stream.uncaptured();
        let state = Arc::new(State::default());
        let given = Arc::into_raw(Arc::clone(&state));
        // SAFETY: the stream belongs to the context. The function receives one reference and is
        // called once, because no graph records it.
        let code = unsafe {
            let given = given.cast_mut().cast::<c_void>();
            (context.api().cuLaunchHostFunc)(runs_on.raw(), Some(wait), given)
        };
        if let Err(error) = context.check("cuLaunchHostFunc", code) {
            // SAFETY: the driver refused the function, so the reference is still ours.
            drop(unsafe { Arc::from_raw(given) });
            return Err(error);
        }
        runs_on.note(|_| ());
        let hold = Hold(state);
        if !Arc::ptr_eq(runs_on, stream) {
            stream.follow(runs_on)?;
        }
        Ok(hold)
    }

    /// Unblocks the stream. Returns false if [`LONGEST`] was up before.
    pub(in crate::runtime) fn release(self) -> bool {
        self.0.release()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl State {
    fn release(&self) -> bool {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = *now != Now::Expired;
        *now = Now::Released;
        self.changed.notify_all();
        waited
    }
}

/// Blocks the stream. The driver calls this when the stream reaches it.
unsafe extern "C" fn wait(given: *mut c_void) {
    // SAFETY: `Hold::new` gave one reference away.
    let state = unsafe { Arc::from_raw(given.cast::<State>()) };
    let now = state.now.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = state.changed.wait_timeout_while(now, LONGEST, |now| *now == Now::Held);
    let (mut now, _) = waited.unwrap_or_else(PoisonError::into_inner);
    if *now == Now::Held {
        *now = Now::Expired;
    }
}
