//! The public laws in `tilewright::layout::laws`, in the form that the tests, fuzz targets and
//! tools use.

#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

use tilewright::layout::{ComposedLayout, IntTuple, Layout, laws};

pub(crate) use tilewright::layout::laws::*;
// Some right inverses have no shape, and a common layout may be shorter than an inverse, so the
// size is an argument.
pub(crate) use tilewright::layout::laws::check_right_inverse_below as check_right_inverse;

/// The result of a test's own check, with a message.
pub(crate) type Check = Result<(), String>;

pub(crate) fn fail(text: impl Into<String>) -> Check {
    Err(text.into())
}

/// Turns a violation into its message, for a test that collects messages.
pub(crate) fn said(check: Result<(), Violation>) -> Check {
    check.map_err(|violation| violation.to_string())
}

/// Returns the value at an integer coordinate, with the last mode unbounded.
pub(crate) fn value(l: &ComposedLayout, i: i64) -> Result<IntTuple, String> {
    l.apply(i).map_err(|e| e.to_string())
}

/// Checks a complement in a number of elements or in a shape.
pub(crate) fn check_complement(l: &Layout, cotarget: &[i64], r: &Layout) -> Result<(), Violation> {
    let cotarget = match cotarget {
        [n] => IntTuple::from(*n),
        extents => IntTuple::from_items(extents.iter().copied())
            .map_err(|cause| Violation::NotEvaluated { law: Law::Complement, cause })?,
    };
    laws::check_complement(l, &cotarget, r)
}
