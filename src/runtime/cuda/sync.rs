//! Names the atomics, locks and reference counts that the bookkeeping of launches uses.
//!
//! `tests/order_model` compiles the same bookkeeping with those of a model checker.

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) mod atomic {
    pub(in super::super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}
