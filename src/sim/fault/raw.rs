//! Raw faults of a lane, in the terms of the compiled program. [`Fault`](crate::sim::Fault) has the terms of the kernel.

use super::state::AsyncUse;
use super::state::Origin;
use super::state::WgmmaOperand;
use super::state::{BarrierAt, BarrierState};
use crate::ir::{Const, Scalar, Space};

/// A lane that cannot go on.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Trap {
    /// The lowest active lane at fault.
    pub(in crate::sim) lane: u32,
    pub(in crate::sim) cause: TrapCause,
    /// The issue of the operation; `None` for the current operation of the warp.
    pub(in crate::sim) origin: Option<Origin>,
}

/// Boxed: the way without a fault must stay cheap.
pub(in crate::sim) type Trapped<T = ()> = Result<T, Box<Trap>>;

#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum TrapCause {
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
    /// PTX text without a simulation
    NotSimulated,
    /// A pointer that is not at the multiple of `bytes` that was promised, but at `byte` of its allocation.
    BrokenPromise {
        bytes: u32,
        byte: i64,
    },
    /// A generic pointer that is to point into another space.
    OtherSpace {
        expected: Space,
        found: Space,
        alloc: u32,
    },
    /// An access with an order, or an atomic one, to memory that has none.
    OrderSpace(AccessAt),
    /// `trap`
    Trap,
    /// `brkpt`
    Breakpoint,
    /// An operation of the warp by a lane that is not among its own members.
    NotAMember {
        members: u32,
    },
    /// An operation of the warp for which the member `other` names other members.
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
    /// A named barrier for which a lane names another number or another thread count.
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
    /// No barrier in shared memory where one is expected.
    NotABarrier {
        barrier: BarrierAt,
        state: BarrierState,
    },
    /// A barrier in shared memory that is accessed as memory, or made again.
    LiveBarrier {
        barrier: BarrierAt,
    },
    /// A number of arrivals that no barrier in shared memory counts.
    BarrierCount {
        count: u32,
    },
    /// More arrivals than a phase waits for.
    ArrivalsBeyond {
        barrier: BarrierAt,
        pending: u32,
        count: u32,
    },
    /// More bytes than a barrier in shared memory counts.
    BytesBeyond {
        barrier: BarrierAt,
        pending: i64,
        bytes: i64,
    },
    /// A phase that does not end.
    PhaseDeadlock {
        barrier: BarrierAt,
        phase: u64,
        arrivals: u32,
        count: u32,
        bytes: i64,
    },
    /// The barrier of the block, to which some threads do not come.
    BlockDeadlock {
        threads: u32,
        arrived: u32,
    },
    /// A barrier of the cluster to which some threads do not come.
    ClusterDeadlock {
        threads: u32,
        arrived: u32,
    },
    /// Two arrivals at the barrier of the cluster without a wait between, or a wait without an arrival.
    ClusterBarrierOrder {
        arrives: bool,
    },
    /// A box whose fastest coordinate is not at a multiple of 16 bytes.
    BoxStart {
        coord: i32,
        elem: Scalar,
    },
    /// A rank that no block of the cluster has.
    NoClusterBlock {
        rank: u32,
        blocks: u32,
    },
    /// A store to the block `rank` that is to tell a barrier of another one.
    BarrierElsewhere {
        rank: u32,
        barrier_rank: u32,
    },
    /// A block of the cluster whose threads have ended.
    BlockEnded {
        rank: u32,
    },
    /// A copy of more bytes than `limit`; where that is 0, of bytes that are not a multiple of 16.
    CopyBytes {
        bytes: u32,
        limit: u32,
    },
    /// An asynchronous operation on shared memory that is not done when the block ends.
    AsyncAtExit,
    /// An operation of a whole warp by some lanes.
    PartialWarp {
        lanes: u32,
    },
    /// An operation of a whole warp group by some of its warps.
    PartialWarpGroup {
        warps: u32,
    },
    /// An operation of a warp group for which another warp has executed a different operation, at `step`.
    OtherWgmma {
        step: u32,
    },
    /// An operand that is the same in all lanes but this one.
    NotUniform {
        here: u64,
        there: u64,
    },
    /// An operand of `wgmma` outside of shared memory.
    MatrixOutOfBounds {
        which: WgmmaOperand,
        address: u64,
        len_bytes: u64,
    },
    /// An operand of `wgmma` with a byte that was never written.
    MatrixUninitialised {
        which: WgmmaOperand,
        address: u64,
    },
    /// An accumulator of the `wgmma` at `step`, which has not been waited for.
    AccumulatorInFlight {
        step: u32,
    },
    /// A `wgmma` on registers that were accessed since the last `wgmma.fence`.
    NotFenced,
    /// A byte of shared memory that a warp has stored, read through the asynchronous proxy without a fence.
    UnfencedStore {
        address: u64,
        block: u32,
        warp: u32,
    },
    /// An access to shared memory that the asynchronous operation at `step` still uses.
    InFlight {
        access: AccessAt,
        is_store: bool,
        how: AsyncUse,
        step: u32,
    },
    /// An operand of `wgmma` with a byte that the asynchronous operation at `step` still writes.
    MatrixInFlight {
        which: WgmmaOperand,
        address: u64,
        step: u32,
    },
    /// A barrier without the lane `other`, which waits at the operation with the number `step`.
    BarrierDivergence {
        other: u32,
        step: u32,
    },
}

/// An access to memory by one lane.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct AccessAt {
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

impl Trap {
    pub(in crate::sim) fn new(lane: usize, cause: TrapCause) -> Box<Trap> {
        Box::new(Trap { lane: lane as u32, cause, origin: None })
    }
}
