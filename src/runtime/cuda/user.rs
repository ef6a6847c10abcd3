//! Asks the system for the user of this process, so that the caches can tell the user's files from
//! those of others.

/// Returns the effective user id of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the function has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}
