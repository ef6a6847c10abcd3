//! Waits for the previous launch in a programmatic dependent launch. Kernels call it before
//! their first read of global memory, after they have computed their addresses.

use crate::ir::{Body, Val};

/// If `programmatic`, waits for the previous launch, but only after the values in `known` have been
/// computed, for example the first addresses. They must not all be 0.
///
/// The wait depends on these values, because otherwise `ptxas` computes them after it. A second
/// wait returns at once.
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
