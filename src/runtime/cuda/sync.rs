//! The atomics, locks and reference counts that the launch bookkeeping uses.
//!
//! `tests/order_model` compiles the same bookkeeping with a model checker's versions of them.

pub(super) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) mod atomic {
    pub(in super::super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}
