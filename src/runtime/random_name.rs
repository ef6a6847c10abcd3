//! Creates unguessable names for temporary files and folders, so that another user cannot create
//! them first.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns 16 hexadecimal digits that differ between calls, and between processes that share a
/// folder.
///
/// The caller must still fail if the name exists (`create_new`, `mkdir`).
pub(super) fn random_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // The hasher's keys come from the system's random number generator.
    let hash = RandomState::new().hash_one((std::process::id(), COUNT.fetch_add(1, Relaxed)));
    format!("{hash:016x}")
}
