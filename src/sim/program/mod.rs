//! Compiles a kernel for the simulator: from its region tree to a flat list of steps on register
//! slots.
//!
//! `walk.rs` drives the compilation, `slots.rs` places values in registers, `code.rs` defines the
//! steps. The other files compile one family of operations each.

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
