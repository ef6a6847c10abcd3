//! Registers of a warp, memory spaces, and checked accesses to them.

pub(super) mod access;
pub(super) mod address;
pub(super) mod block_memory;
pub(super) mod buffer;
pub(super) mod element;
pub(super) mod lanes;
pub(super) mod local;
pub(super) mod proxy;
pub(super) mod shared;
pub(super) mod space;
pub(super) mod vector_access;
