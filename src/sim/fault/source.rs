//! Parts of a fault in the terms of the kernel: names and source locations.

use super::terms::Terms;
use crate::ir::SourceLocation;
use crate::ir::types::{Scalar, Space};
use crate::sim::race::Agent;

/// Terms of the kernel, in which a [`FaultCause`](crate::sim::FaultCause) is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceTerms {}

impl Terms for SourceTerms {
    type Access = MemoryAccess;
    type Barrier = Barrier;
    type Allocation = SourceAllocation;
    type Thread = [u32; 3];
    type Op = SourceOp;
    type Text = String;
    type Racer = Racer;
}

/// An operation of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceOp {
    /// The name of the operation.
    pub name: &'static str,
    /// The Rust line that made it.
    pub location: SourceLocation,
}

/// A line at which a kernel spends its time that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLine {
    /// The first of its operations that ran.
    pub location: SourceLocation,
    /// The share of the operations that ran after the fuel was used up, in percent, rounded down.
    pub percent: u32,
}

/// One of the two accesses of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Racer {
    /// Its source: the thread, or an asynchronous operation of it.
    pub agent: Agent,
    /// True for a write, false for a read.
    pub writes: bool,
    /// The operation.
    pub op: SourceOp,
    /// The kernel of an earlier launch, which a programmatic launch overlaps with; `None` for the launch that is reported.
    pub kernel: Option<String>,
    /// The block.
    pub block: [u32; 3],
    /// The rank of the block in its cluster, in a launch with clusters.
    pub rank: Option<u32>,
    /// The warp in its block.
    pub warp: u32,
    /// The thread in its block; of a `wgmma` the first thread of the warp group.
    pub thread: [u32; 3],
}

/// An allocation of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceAllocation {
    /// Its name.
    pub name: String,
    /// Its source location, if the kernel made it.
    pub made: Option<SourceLocation>,
}

/// A load or store by one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryAccess {
    /// True for a store, false for a load.
    pub is_store: bool,
    /// The space of the allocation.
    pub space: Space,
    /// The number of the block in its cluster, in shared memory of the cluster.
    pub rank: Option<u32>,
    /// The name of the allocation: of a parameter in global memory, of the allocation in shared or local memory, of
    /// a constant array.
    pub allocation: String,
    /// The source location of a shared or local allocation or a constant array.
    pub made: Option<SourceLocation>,
    /// The type of the element.
    pub elem: Scalar,
    /// The index of the element, counted from the start of the allocation.
    pub element: i128,
    /// The offset of its first byte from the start of the allocation. A pointer that was moved by more
    /// than 2^63 bytes counts from the smallest `i64`.
    pub byte: i128,
    /// The bytes that are accessed.
    pub bytes: u32,
    /// The first byte must be at a multiple of it, in shared memory counted from the start of the block's.
    pub align: u32,
    /// The bytes of the allocation.
    pub len_bytes: u64,
}

/// A barrier in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Barrier {
    /// The name of the allocation.
    pub allocation: String,
    /// The source location of the allocation.
    pub made: Option<SourceLocation>,
    /// The number of the barrier, counted in units of 8 bytes from the start of the allocation.
    pub element: u64,
}
