//! Analyses of a kernel with verified structure. The verifier's later rules and the passes ask
//! them, for example whether a branch is divergent. They change nothing in the kernel.

pub(in crate::ir) mod accesses;
pub(in crate::ir) mod alignment;
pub(in crate::ir) mod bulk_staging;
pub(in crate::ir) mod butterfly;
pub(in crate::ir) mod jumps;
pub(in crate::ir) mod origin;
pub(in crate::ir) mod prefetch;
pub(in crate::ir) mod ring;
pub(in crate::ir) mod staging;
pub(in crate::ir) mod thread_index;
pub(in crate::ir) mod trips;
pub(in crate::ir) mod uniformity;
pub(in crate::ir) mod vectorize;
