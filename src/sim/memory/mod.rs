//! The state of a cluster, and every checked access to it: registers, memory spaces, mbarriers,
//! operations in flight.
//!
//! Start at `cluster_memory.rs`, which holds the whole state. `access.rs` and `address.rs` check
//! loads and stores, `shared.rs` and `mbarrier.rs` keep a block's shared memory and its mbarriers,
//! `proxy.rs` finds missing proxy fences, and `races.rs` feeds the race detector.

pub(super) mod access;
pub(super) mod address;
pub(super) mod agent;
pub(super) mod block_memory;
pub(super) mod buffer;
pub(super) mod cluster_memory;
pub(super) mod diagnostics;
pub(super) mod element;
pub(super) mod lanes;
pub(super) mod local;
pub(super) mod local_access;
pub(super) mod mask;
pub(super) mod mbarrier;
pub(super) mod proxy;
pub(super) mod races;
pub(super) mod recorded;
pub(super) mod shared;
pub(super) mod space;
pub(super) mod vector_access;
pub(super) mod warp_group;
