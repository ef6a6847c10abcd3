//! Parts of a fault in the terms of the compiled program: steps, lanes, numbers of allocations.

use super::terms::Terms;
use crate::ir::types::{Scalar, Space};
use crate::sim::race::Party;

/// Terms of the compiled program, in which the simulator finds a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum RawTerms {}

impl Terms for RawTerms {
    type Access = AccessAt;
    type Barrier = BarrierAt;
    type Allocation = AllocationAt;
    type Thread = ThreadAt;
    type Op = StepAt;
    type Text = InlineText;
    type Racer = RacerAt;
}

/// A lane of the warp that faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct ThreadAt(pub(in crate::sim) u32);

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct StepAt(pub(in crate::sim) u32);

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct RacerAt(pub(in crate::sim) Party);

/// The text of the operation that faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct InlineText;

/// An allocation, by its number in a memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct AllocationAt {
    pub(in crate::sim) space: Space,
    pub(in crate::sim) number: u32,
}

/// A barrier, in the terms of its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct BarrierAt {
    pub(in crate::sim) alloc: u32,
    /// Counted from the start of the allocation, in units of 8 bytes.
    pub(in crate::sim) element: u64,
}

/// Step, warp and block of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Origin {
    /// The rank of the block in its cluster.
    pub(in crate::sim) block: u32,
    /// The warp in its block.
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
}

/// An access to memory by one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct AccessAt {
    /// Set for a write, clear for a read; `None` where the faulting operation says.
    pub(in crate::sim) is_store: Option<bool>,
    pub(in crate::sim) space: Space,
    /// The parameter or the shared allocation that the pointer was made from.
    pub(in crate::sim) alloc: u32,
    pub(in crate::sim) elem: Scalar,
    /// The first byte, counted from the start of the allocation.
    pub(in crate::sim) byte: i128,
    /// The bytes accessed.
    pub(in crate::sim) bytes: u32,
    /// The first byte is at a multiple of it.
    pub(in crate::sim) align: u32,
    pub(in crate::sim) len_bytes: u64,
}

impl AccessAt {
    /// The same access as a read.
    pub(in crate::sim) fn read(self) -> AccessAt {
        AccessAt { is_store: Some(false), ..self }
    }

    /// The same access as a write.
    pub(in crate::sim) fn write(self) -> AccessAt {
        AccessAt { is_store: Some(true), ..self }
    }
}
