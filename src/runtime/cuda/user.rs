//! The user of this process.

/// Returns the effective user of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the function has no requirements, and it cannot fail.
    unsafe { libc::geteuid() }
}
