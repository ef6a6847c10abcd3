//! The size of long tests.

/// Returns whether long tests try all their cases: `TILEWRIGHT_SLOW`. Else they try a sample.
pub(crate) fn slow() -> bool {
    std::env::var_os("TILEWRIGHT_SLOW").is_some()
}

/// Each `every`-th case, or all where long tests try all.
pub(crate) fn sample<T>(
    every: usize,
    cases: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if slow() { 1 } else { every })
}
