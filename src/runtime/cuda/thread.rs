//! Numbers the host threads that queue work, and tells which have ended.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Tells whether a thread runs: its count of strong references is 0 when the thread has ended.
pub(super) type Alive = Weak<()>;

/// The number of no thread.
pub(super) const NO_THREAD: u64 = u64::MAX;

/// Numbers of threads, from 1.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The number of the thread; 0 before it has one, and when it is ending. It is there as long as the thread.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static RUNNING: Running = Running(Arc::default());
}

/// Stands for the thread as long as it runs.
struct Running(Arc<()>);

impl Drop for Running {
    fn drop(&mut self) {
        // Before anyone can see that the thread has ended.
        NUMBER.set(0);
    }
}

/// Returns the number of the calling thread; 0 if it has none.
#[inline]
pub(super) fn number() -> u64 {
    NUMBER.get()
}

/// Returns the calling thread, with a number from now on: the number, and what is gone when the thread is; nothing
/// while it is ending.
pub(super) fn register() -> Option<(u64, Alive)> {
    let register = |running: &Running| {
        if NUMBER.get() == 0 {
            NUMBER.set(NUMBERS.fetch_add(1, Relaxed));
        }
        (NUMBER.get(), Arc::downgrade(&running.0))
    };
    RUNNING.try_with(register).ok()
}

/// Returns a weak reference that expires with the calling thread; an expired one while the thread ends.
pub(super) fn this_thread() -> Alive {
    register().map(|(_, thread)| thread).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread has one number, which no other has; what stands for it goes when it ends.
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
