//! [`Call`]: the caller's line for what the crate's own functions make inside of closures.

use super::body::Body;
use super::context::{Context, State};
use crate::ir::kernel::SourceLocation;

/// A call of one of the crate's functions by a user. While it lives, operations and mistakes whose line is in `ir` or
/// `tensor` get the line of the call.
///
/// `#[track_caller]` does not reach through closures: what a function makes in the body of a `k.if_`, or in a
/// `.map(..)`, has the line of the function.
#[derive(Debug)]
#[must_use = "bind it to a name: the call ends where it is dropped"]
pub(crate) struct Call<'b> {
    cx: &'b Context,
}

impl<'b> Call<'b> {
    /// The call at `location`, until the result is dropped.
    pub(super) fn new(cx: &'b Context, location: SourceLocation) -> Call<'b> {
        cx.with(|state| {
            let location = state.of_user(location);
            state.calls.push(location);
        });
        Call { cx }
    }
}

impl<'b> Body<'b, '_> {
    /// The call of the function that calls this, which is `#[track_caller]`, until the result is dropped.
    #[track_caller]
    pub(crate) fn call(&self) -> Call<'b> {
        Call::new(self.context(), SourceLocation::caller())
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.cx.with(|state| state.calls.pop());
    }
}

impl State {
    /// The line of the innermost call for a line of the crate's own functions; every other line as it is.
    pub(super) fn of_user(&self, location: SourceLocation) -> SourceLocation {
        match self.calls.last() {
            Some(call) if is_own(location.file) => *call,
            _ => location,
        }
    }
}

/// Returns whether a file belongs to `ir` or `tensor`.
fn is_own(file: &str) -> bool {
    let here = file!();
    let src = here.get(..here.len() - "ir/builder/call.rs".len());
    let inside = src.and_then(|src| file.strip_prefix(src));
    inside.is_some_and(|inside| {
        ["ir", "tensor"].iter().any(|module| {
            inside.strip_prefix(module).is_some_and(|rest| rest.starts_with(['/', '\\', '.']))
        })
    })
}
