//! Executes asynchronous operations and MMAs.
//!
//! `cp_async.rs`, `bulk_copy.rs` and `remote_store.rs` issue operations, `pending.rs` decides when
//! the simulator executes each of them, and `in_flight.rs` protects the shared memory that
//! operations in flight still use. `mbarrier.rs` has the mbarrier instructions, `matrix.rs` and
//! `wgmma.rs` the tensor cores.

pub(super) mod bulk_cluster;
pub(super) mod bulk_copy;
pub(super) mod bulk_reduce;
pub(super) mod cp_async;
pub(super) mod in_flight;
mod map_in_memory;
pub(super) mod matrix;
pub(super) mod mbarrier;
pub(super) mod mma;
pub(super) mod pending;
mod recorded;
pub(super) mod remote_store;
pub(super) mod sparse;
pub(super) mod tensor_copy;
pub(super) mod truncate;
pub(super) mod wgmma;
