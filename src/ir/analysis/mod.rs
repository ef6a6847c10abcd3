//! Facts about a verified structure, computed without changing it.

pub(in crate::ir) mod trips;
pub(in crate::ir) mod uniformity;
