//! Assigns ids to host threads that queue work, and tells which threads have ended.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Tells whether a thread still runs: the strong count drops to 0 when the thread ends.
pub(super) type Alive = Weak<()>;

/// Sentinel: no thread.
pub(super) const NO_THREAD: u64 = u64::MAX;

/// The next thread id, starting at 1.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The thread's id; 0 before it is registered and while it ends. Readable for the thread's
    /// whole life.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static RUNNING: Running = Running(Arc::default());
}

/// Lives as long as its thread.
struct Running(Arc<()>);

impl Drop for Running {
    fn drop(&mut self) {
        // Clear the id before anyone can see that the thread has ended.
        NUMBER.set(0);
    }
}

/// Returns the calling thread's id, or 0 if it is not registered.
#[inline]
pub(super) fn number() -> u64 {
    NUMBER.get()
}

/// Registers the calling thread if necessary. Returns its id and a reference that expires when the
/// thread ends, or `None` while the thread is ending.
pub(super) fn register() -> Option<(u64, Alive)> {
    let register = |running: &Running| {
        if NUMBER.get() == 0 {
            NUMBER.set(NUMBERS.fetch_add(1, Relaxed));
        }
        (NUMBER.get(), Arc::downgrade(&running.0))
    };
    RUNNING.try_with(register).ok()
}

/// Returns a reference that expires when the calling thread ends. It has already expired if the
/// thread is ending.
pub(super) fn this_thread() -> Alive {
    register().map(|(_, thread)| thread).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each thread has a unique id, released when the thread exits.
    #[test]
    fn threads_have_numbers_and_end() {
        let (mine, me) = register().expect("the thread runs");
        assert_eq!((number(), register().expect("it still runs").0), (mine, mine));
        assert!(mine != NO_THREAD && me.strong_count() > 0 && me.ptr_eq(&this_thread()));
        let (other, gone) = std::thread::spawn(|| {
            assert_eq!(number(), 0);
            register().expect("the thread runs")
        })
        .join()
        .expect("the thread ends well");
        assert!(other != mine && gone.strong_count() == 0);
    }
}
