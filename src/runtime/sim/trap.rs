//! What goes wrong in a lane, in the terms of the compiled program. [`Fault`](super::Fault) is the same in
//! the terms of the kernel.

use crate::ir::{Const, Scalar, Space};

/// A lane that cannot go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trap {
    /// The lowest active lane at fault.
    pub(super) lane: u32,
    pub(super) cause: TrapCause,
}

/// Boxed: the way without a fault must stay cheap.
pub(super) type Trapped<T = ()> = Result<T, Box<Trap>>;

#[derive(Clone, Copy, Debug)]
pub(super) enum TrapCause {
    DivisionByZero {
        dividend: Const,
    },
    StepNotPositive {
        step: Const,
    },
    OutOfBounds(AccessAt),
    Misaligned(AccessAt),
    /// `byte` is the first byte of the access that was never written, counted from the allocation.
    Uninitialised {
        access: AccessAt,
        byte: u64,
    },
    /// A pointer that is not at the multiple of `bytes` that was promised, but at `byte` of its allocation.
    BrokenPromise {
        bytes: u32,
        byte: i64,
    },
    /// PTX text without a simulation
    NotSimulated,
    /// `trap`
    Trap,
    /// `brkpt`
    Breakpoint,
    /// An operation of the warp by a lane that is not among its own members.
    NotAMember {
        members: u32,
    },
    /// An operation of the warp of which the member `other` names other members.
    OtherMembers {
        members: u32,
        other: u32,
    },
    /// An operation of the warp without the member `other`, which waits at the operation with the number
    /// `step`.
    MissingMember {
        members: u32,
        other: u32,
        step: u32,
    },
    /// A shuffle from the lane `source`, which is not in the group that executes it.
    InactiveSource {
        source: u32,
        group: u32,
    },
    /// A numbered barrier of which a lane names another number or another number of threads.
    OtherBarrier {
        here: [u32; 2],
        there: [u32; 2],
    },
    /// A number that no barrier has.
    NoBarrier {
        id: u32,
    },
    /// A barrier for a number of threads that is not possible.
    BarrierThreads {
        threads: u32,
    },
    /// A barrier for another number of threads than the warps before said.
    BarrierMismatch {
        id: u32,
        expected: u32,
        found: u32,
    },
    /// A barrier to which too few threads come.
    BarrierDeadlock {
        id: u32,
        threads: u32,
        arrived: u32,
    },
    /// A barrier without the lane `other`, which waits at the operation with the number `step`.
    BarrierDivergence {
        other: u32,
        step: u32,
    },
}

/// An access to memory by one lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessAt {
    pub(super) space: Space,
    /// The parameter or the shared allocation that the pointer was made from.
    pub(super) alloc: u32,
    pub(super) elem: Scalar,
    /// The first byte, counted from the start of the allocation.
    pub(super) byte: i128,
    /// The bytes accessed; their first is at a multiple of it.
    pub(super) bytes: u32,
    pub(super) len_bytes: u64,
}

impl Trap {
    pub(super) fn new(lane: usize, cause: TrapCause) -> Box<Trap> {
        Box::new(Trap { lane: lane as u32, cause })
    }
}
