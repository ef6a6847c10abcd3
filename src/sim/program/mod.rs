//! From the region tree of a kernel to flat steps on register slots.

pub(super) mod arith;
pub(super) mod atomic;
pub(super) mod code;
pub(super) mod collective;
pub(super) mod compiler;
pub(super) mod context;
pub(super) mod diagnostic;
pub(super) mod for_range;
pub(super) mod inline;
pub(super) mod liveness;
pub(super) mod memory;
pub(super) mod named_barrier;
pub(super) mod pointer;
pub(super) mod polls;
pub(super) mod refused;
pub(super) mod slots;
pub(super) mod special;
pub(super) mod sync;
pub(super) mod vector;
pub(super) mod walk;
