//! Exports the atomics and locks of loom, and defines a reference count made of them.
//!
//! The reference count of loom does not model that a read of the count makes writes of other
//! threads visible.

use std::ops::Deref;

pub(crate) use loom::sync::{Mutex, MutexGuard};
pub(crate) use std::sync::PoisonError;

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

use atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};

/// As [`std::sync::Arc`], with its orders: a look at the count is relaxed, dropping a reference a
/// release.
pub(crate) struct Arc<T> {
    value: std::sync::Arc<T>,
    count: std::sync::Arc<AtomicU64>,
}

impl<T> Arc<T> {
    pub(crate) fn new(value: T) -> Arc<T> {
        Arc { value: value.into(), count: AtomicU64::new(1).into() }
    }

    pub(crate) fn strong_count(this: &Arc<T>) -> u64 {
        this.count.load(Relaxed)
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Arc<T> {
        self.count.fetch_add(1, Relaxed);
        Arc { value: self.value.clone(), count: self.count.clone() }
    }
}

impl<T> Drop for Arc<T> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Release);
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
