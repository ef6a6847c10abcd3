//! State of a cluster: registers, memory spaces, operations in flight; checked accesses to it.

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
