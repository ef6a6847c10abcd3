//! The parts of a fault in the compiled program's terms: steps, lanes, allocation indices. A check
//! that fails fills them in, because names are not at hand while a kernel runs.

use super::terms::Terms;
use crate::ir::types::{Scalar, Space};
use crate::sim::race::Party;

/// Names things as the simulator does while a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum RawTerms {}

impl Terms for RawTerms {
    type Access = AccessAt;
    type Barrier = BarrierAt;
    type Allocation = AllocationAt;
    type Thread = ThreadAt;
    type Op = StepAt;
    type Text = InlineText;
    type RacingAccess = RacerAt;
}

/// A lane of the faulting warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct ThreadAt(pub(in crate::sim) u32);

/// A step of the compiled program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct StepAt(pub(in crate::sim) u32);

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct RacerAt(pub(in crate::sim) Party);

/// The text of the faulting operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct InlineText;

/// An allocation, by its index in its memory space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct AllocationAt {
    pub(in crate::sim) space: Space,
    pub(in crate::sim) number: u32,
}

/// An mbarrier, by its place in its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct BarrierAt {
    pub(in crate::sim) alloc: u32,
    /// Its index in the allocation, in units of 8 bytes.
    pub(in crate::sim) element: u64,
}

/// Where an operation was issued: step, warp and block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Origin {
    /// The block's rank in its cluster.
    pub(in crate::sim) block: u32,
    /// The warp's index in its block.
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) step: u32,
}

/// One lane's memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct AccessAt {
    /// True for a write, false for a read, `None` if it follows from the faulting operation.
    pub(in crate::sim) is_store: Option<bool>,
    pub(in crate::sim) space: Space,
    /// The parameter or allocation that the pointer was made from.
    pub(in crate::sim) alloc: u32,
    pub(in crate::sim) elem: Scalar,
    /// Its first byte, counted from the start of the allocation.
    pub(in crate::sim) byte: i128,
    /// How many bytes are accessed.
    pub(in crate::sim) bytes: u32,
    /// The required alignment of the first byte.
    pub(in crate::sim) align: u32,
    pub(in crate::sim) len_bytes: u64,
}

impl AccessAt {
    /// Returns the same access as a read.
    pub(in crate::sim) fn read(self) -> AccessAt {
        AccessAt { is_store: Some(false), ..self }
    }

    /// Returns the same access as a write.
    pub(in crate::sim) fn write(self) -> AccessAt {
        AccessAt { is_store: Some(true), ..self }
    }
}
