//! [`Call`]: reports errors inside the crate's own functions at the line of the user's call.
//! Without it, an error or a fault would point into this crate.

use super::body::Body;
use super::context::{Context, State};
use crate::ir::kernel::SourceLocation;

/// A user's call of one of the crate's functions. While it lives, operations and errors from lines
/// in `ir` or `tensor` get the line of the call.
///
/// It exists because `#[track_caller]` does not reach into closures: what a function makes in the
/// body of `k.if_` or in `.map(..)` would have the function's own line.
#[derive(Debug)]
#[must_use = "bind it to a name: the call ends where it is dropped"]
pub(crate) struct Call<'b> {
    cx: &'b Context,
}

impl<'b> Call<'b> {
    /// Starts a call at `location`; it ends when the result is dropped.
    pub(super) fn new(cx: &'b Context, location: SourceLocation) -> Call<'b> {
        cx.with(|state| {
            let location = state.of_user(location);
            state.calls.push(location);
        });
        Call { cx }
    }
}

impl<'b> Body<'b, '_> {
    /// Starts a call at the line that called the calling function, which must be `#[track_caller]`.
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
    /// Returns the innermost call's line for a line inside the crate, and every other line
    /// unchanged.
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
