//! The data types inside a [`Fault`](crate::sim::Fault), such as the operation, the access, the
//! allocation and the mbarrier. They name things as the kernel's author does, by allocation names
//! and Rust lines. A test can compare them instead of the text.

use super::terms::Terms;
use crate::ir::SourceLocation;
use crate::ir::types::{Scalar, Space};
use crate::sim::race::Agent;

/// Selects how a [`FaultCause`](crate::sim::FaultCause) names things: as the kernel's author does,
/// by names and Rust lines. The causes that you read from a [`Fault`](crate::sim::Fault) use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceTerms {}

impl Terms for SourceTerms {
    type Access = MemoryAccess;
    type Barrier = Barrier;
    type Allocation = SourceAllocation;
    type Thread = [u32; 3];
    type Op = SourceOp;
    type Text = String;
    type RacingAccess = RacingAccess;
}

/// An operation of the kernel that a fault mentions, with the Rust line that built it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceOp {
    /// The operation's name.
    pub name: &'static str,
    /// The Rust line that built it.
    pub location: SourceLocation,
}

/// A source line at which a kernel that does not end spends its time.
/// [`RunError::OutOfFuel`](crate::sim::RunError::OutOfFuel) lists the busiest ones; the loop that
/// never ends is among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLine {
    /// The first of the line's operations that ran.
    pub location: SourceLocation,
    /// The line's share of the operations that ran after the fuel was used up, in percent, rounded
    /// down.
    pub percent: u32,
}

/// One of the two accesses of a data race: who made it, where, and with which operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RacingAccess {
    /// Whether the thread made the access itself, or an asynchronous operation that it started.
    pub agent: Agent,
    /// True for a write, false for a read.
    pub writes: bool,
    /// The operation.
    pub op: SourceOp,
    /// The kernel of an earlier launch that a programmatic launch overlaps with; `None` for the
    /// reported launch itself.
    pub kernel: Option<String>,
    /// The thread's block.
    pub block: [u32; 3],
    /// The block's rank in its cluster, if the launch has clusters.
    pub rank: Option<u32>,
    /// The warp's index in its block.
    pub warp: u32,
    /// The thread, in its block. For a `wgmma`, the warp group's first thread.
    pub thread: [u32; 3],
}

/// An allocation of the kernel that a fault mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceAllocation {
    /// Its name.
    pub name: String,
    /// Where the kernel made it, if it did.
    pub made: Option<SourceLocation>,
}

/// A load or store by one thread that a fault mentions: which elements of which allocation it
/// touches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryAccess {
    /// True for a store, false for a load.
    pub is_store: bool,
    /// The allocation's space.
    pub space: Space,
    /// The block's rank, if the access is to another block's shared memory.
    pub rank: Option<u32>,
    /// The allocation's name: that of a parameter, a shared or local allocation, or a constant or
    /// global array.
    pub allocation: String,
    /// Where the kernel made the allocation, unless it is a parameter.
    pub made: Option<SourceLocation>,
    /// The element type.
    pub elem: Scalar,
    /// The element's index, counted from the start of the allocation.
    pub element: i128,
    /// The offset of its first byte from the start of the allocation. A pointer that was moved by
    /// more than 2^63 bytes counts from the smallest `i64`.
    pub byte: i128,
    /// How many bytes are accessed.
    pub bytes: u32,
    /// The required alignment. In shared memory it applies to the offset from the start of the
    /// block's shared memory.
    pub align: u32,
    /// The allocation's size in bytes.
    pub len_bytes: u64,
}

/// An mbarrier that a fault mentions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Barrier {
    /// The name of its allocation.
    pub allocation: String,
    /// Where the kernel made the allocation.
    pub made: Option<SourceLocation>,
    /// The mbarrier's index in the allocation, in units of 8 bytes.
    pub element: u64,
}
