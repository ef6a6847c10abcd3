//! Asks the system for the user of this process.

/// Returns the effective user id of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the function has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}
