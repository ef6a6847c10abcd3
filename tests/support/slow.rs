//! Decides how many cases long tests try.

/// Returns whether long tests try all their cases (`TILEWRIGHT_SLOW`). Otherwise they try a sample.
pub(crate) fn slow() -> bool {
    std::env::var_os("TILEWRIGHT_SLOW").is_some()
}

/// Returns every `every`-th case, or all of them if long tests try all cases.
pub(crate) fn sample<T>(
    every: usize,
    cases: impl IntoIterator<Item = T>,
) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if slow() { 1 } else { every })
}
