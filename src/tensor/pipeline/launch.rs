//! The wait of a programmatic launch for the launch before it.

use crate::ir::{Body, Val};

/// Waits for the launch before this one, where `programmatic` holds, once the numbers are known that a thread needs next:
/// addresses, for example. They must not all be 0.
///
/// The wait depends on the numbers, because the assembler would otherwise compute them after it. A second wait is over at
/// once.
#[track_caller]
pub(crate) fn wait_for_launch<'b>(
    k: &mut Body<'b, '_>,
    programmatic: bool,
    known: impl IntoIterator<Item = Val<'b, i64>>,
) {
    let known = known.into_iter().reduce(|all, number| all | number);
    if let (true, Some(known)) = (programmatic, known) {
        k.if_(known.ne(0), |k| k.griddepcontrol_wait());
    }
}
