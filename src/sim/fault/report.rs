//! Fault reports: cause, operation, source location and thread.

use super::state::AsyncUse;
use super::state::BarrierState;
use super::state::WgmmaOperand;
use crate::ir::{Const, Place, Scalar, Space};

/// A kernel that misbehaves: the cause, the operation with its Rust line, and the thread that executed it.
///
/// Of several faults of a launch, the one of the lowest block or cluster is reported, and of several lanes of a warp
/// that fault at one operation the lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The cause.
    pub cause: FaultCause,
    /// The name of the kernel.
    pub kernel: String,
    /// The name of the operation.
    pub op: &'static str,
    /// The path of the operation from the kernel's body, such as `for[2]/then/3`.
    pub path: String,
    /// The Rust line that made the operation.
    pub place: Place,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
    /// In a deadlock, all warps of the cluster, or of the block of a launch without clusters: the likely cause first,
    /// ended warps last. Empty for every other fault.
    pub stuck: Vec<StuckWarp>,
}

/// A warp when no warp can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckWarp {
    /// The block.
    pub block: [u32; 3],
    /// The warp in its block.
    pub warp: u32,
    /// The wait; `None` for an ended warp.
    pub waits: Option<WarpWait>,
}

/// A wait of a warp that does not end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarpWait {
    /// The name of the operation.
    pub op: &'static str,
    /// The Rust line that made it.
    pub place: Place,
    /// The missing condition.
    pub cause: FaultCause,
}

/// The cause of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultCause {
    /// A load or store outside the allocation that its pointer was made from.
    OutOfBounds {
        /// The access.
        access: MemoryAccess,
    },
    /// An access at an address that is not a multiple of what it must be a multiple of.
    Misaligned {
        /// The access.
        access: MemoryAccess,
    },
    /// A load from shared memory of bytes that were not all written.
    Uninitialised {
        /// The access.
        access: MemoryAccess,
        /// The first byte that was never written, counted from the start of the allocation.
        byte: u64,
    },
    /// An integer division or remainder by zero.
    DivisionByZero {
        /// The dividend.
        dividend: Const,
    },
    /// A `for` whose step is zero or negative.
    StepNotPositive {
        /// The step.
        step: Const,
    },
    /// A barrier that some threads of a warp reach while others, which have not ended, are elsewhere.
    BarrierDivergence {
        /// A thread that is elsewhere.
        other: [u32; 3],
        /// The construct at which the way of that thread parts from the barrier.
        op: &'static str,
        /// The Rust line of that construct.
        place: Place,
    },
    /// PTX text that says nothing about what it does.
    NotSimulated {
        /// The text.
        text: String,
    },
    /// A pointer that is not aligned as `assume_aligned` promised.
    BrokenPromise {
        /// The promised alignment of the address, in bytes.
        bytes: u32,
        /// The offset of the pointer from the start of its allocation, in bytes.
        byte: i64,
    },
    /// A generic pointer that is made one into a space into which it does not point.
    OtherSpace {
        /// The space.
        expected: Space,
        /// The space that it points into.
        found: Space,
        /// The name of the allocation that it points to.
        allocation: String,
        /// The source location of the allocation, if the kernel made it.
        made: Option<Place>,
    },
    /// An access with an order, or an atomic one, through a generic pointer to local or constant memory; or an
    /// atomic one to a vector that is not in global memory.
    OrderSpace {
        /// The access.
        access: MemoryAccess,
    },
    /// A named barrier for which the threads of a warp disagree: number and threads.
    OtherBarrier {
        /// The operands of the first thread of the warp.
        here: [u32; 2],
        /// The operands of this thread.
        there: [u32; 2],
    },
    /// A barrier with a number above 15.
    NoBarrier {
        /// The number.
        id: u32,
    },
    /// A barrier for a number of threads that is not a multiple of 32 from 32 to 1024.
    BarrierThreads {
        /// The number of threads.
        threads: u32,
    },
    /// A barrier for another number of threads than the warps say that have come to it before.
    BarrierMismatch {
        /// The number of the barrier.
        id: u32,
        /// The threads that it is for, as said before.
        expected: u32,
        /// The threads that this warp says.
        found: u32,
    },
    /// A barrier to which too few threads come: no warp of the block can go on.
    BarrierDeadlock {
        /// The number of the barrier.
        id: u32,
        /// The threads that it is for.
        threads: u32,
        /// The threads that have come.
        arrived: u32,
    },
    /// The operation `trap`.
    Trap,
    /// The operation `brkpt`.
    Breakpoint,
    /// An operation of a warp by a thread whose lane is not among the members that it names.
    NotAMember {
        /// The member mask.
        members: u32,
    },
    /// An operation of a warp that a member executes with another member mask.
    OtherMembers {
        /// The member mask of the thread.
        members: u32,
        /// The member that names others.
        other: [u32; 3],
    },
    /// An operation of a warp to which a member that has not ended does not come: a GPU may wait for ever.
    MissingMember {
        /// The member mask.
        members: u32,
        /// A member that is elsewhere.
        other: [u32; 3],
        /// The construct at which the way of that thread parts from the operation.
        op: &'static str,
        /// The Rust line of that construct.
        place: Place,
    },
    /// A shuffle from a lane that does not execute it: what is read is undefined.
    InactiveSource {
        /// The lane that is read.
        source: u32,
        /// The lanes that execute the shuffle together.
        group: u32,
    },
    /// An operation on a barrier in shared memory where there is none.
    NotABarrier {
        /// The expected barrier.
        barrier: Barrier,
        /// The state of the memory.
        state: BarrierState,
    },
    /// A barrier in shared memory that is read as memory, or made again, before it was invalidated.
    LiveBarrier {
        /// The barrier.
        barrier: Barrier,
    },
    /// A number of arrivals that is not from 1 to 2^20 - 1.
    BarrierCount {
        /// The number.
        count: u32,
    },
    /// More arrivals at a barrier in shared memory than its phase waits for, or may wait for.
    ArrivalsBeyond {
        /// The barrier.
        barrier: Barrier,
        /// The arrivals that the phase waits for.
        pending: u32,
        /// The arrivals that come.
        count: u32,
    },
    /// More bytes at a barrier in shared memory than it counts: 2^20 - 1, announced or not.
    BytesBeyond {
        /// The barrier.
        barrier: Barrier,
        /// The bytes that the phase waits for; below 0 for bytes that arrived without being announced.
        pending: i64,
        /// The announced bytes; below 0 for bytes that arrive.
        bytes: i64,
    },
    /// A phase of a barrier in shared memory that does not end: no warp of the cluster can go on.
    PhaseDeadlock {
        /// The barrier.
        barrier: Barrier,
        /// The phase, from 0.
        phase: u64,
        /// The arrivals that it waits for.
        arrivals: u32,
        /// The arrivals of a phase.
        count: u32,
        /// The bytes that it waits for; below 0 for bytes that arrived without being announced.
        bytes: i64,
    },
    /// The barrier of the block, to which some of its threads do not come: no warp can go on. It is the cause of no
    /// fault, but found among [`Fault::stuck`].
    BlockDeadlock {
        /// The threads of the block that have not ended.
        threads: u32,
        /// Those that have come.
        arrived: u32,
    },
    /// A barrier of the cluster to which some threads do not come: no warp can go on.
    ClusterDeadlock {
        /// The threads of the cluster that have not ended.
        threads: u32,
        /// Those that have come.
        arrived: u32,
    },
    /// A thread that comes to the barrier of the cluster twice without waiting, or waits without coming.
    ClusterBarrierOrder {
        /// True for an arrival, false for a wait.
        arrives: bool,
    },
    /// A box of a tensor that does not start at a multiple of 16 bytes.
    BoxStart {
        /// Its coordinate along the fastest dimension.
        coord: i32,
        /// The elements of the tensor.
        elem: Scalar,
    },
    /// A block that the cluster does not have.
    NoClusterBlock {
        /// The number of the block in its cluster.
        rank: u32,
        /// The blocks of the cluster.
        blocks: u32,
    },
    /// An asynchronous store to a block of the cluster that is to tell a barrier of another one.
    BarrierElsewhere {
        /// The number of the block in its cluster.
        rank: u32,
        /// The number of the barrier's block in its cluster.
        barrier_rank: u32,
    },
    /// An access to the shared memory of a block of the cluster all of whose threads have ended.
    BlockEnded {
        /// The number of the block in its cluster.
        rank: u32,
    },
    /// A copy of a number of bytes that is not possible.
    CopyBytes {
        /// The number.
        bytes: u32,
        /// The most that are read; 0 where the number is to be a multiple of 16 above 0.
        limit: u32,
    },
    /// An asynchronous copy that still accesses shared memory when all threads have ended.
    AsyncAtExit,
    /// An operation of all 32 threads of a warp that only some execute, because the others have ended or never
    /// were.
    PartialWarp {
        /// The lanes that execute it.
        lanes: u32,
    },
    /// An operation of a warp group, four warps from a multiple of four on, to which some do not come.
    PartialWarpGroup {
        /// A bit for each warp of the group that has come.
        warps: u32,
    },
    /// An operation of a warp group for which another warp has executed a different operation or other operands.
    OtherWgmma {
        /// The operation of the other warp.
        op: &'static str,
        /// The Rust line of it.
        place: Place,
    },
    /// An operand that must be the same in all threads of a warp.
    NotUniform {
        /// Its value in the first thread.
        here: u64,
        /// Its value in this thread.
        there: u64,
    },
    /// A matrix of `wgmma` that is not inside the shared memory of the block, as its descriptor says.
    MatrixOutOfBounds {
        /// The operand.
        which: WgmmaOperand,
        /// The address in shared memory.
        address: u64,
        /// The shared memory of the block.
        len_bytes: u64,
    },
    /// A matrix of `wgmma` with a byte that was never written.
    MatrixUninitialised {
        /// The operand.
        which: WgmmaOperand,
        /// The address of the first such byte in shared memory.
        address: u64,
    },
    /// A register of sums that is accessed before the warp has waited for the `wgmma` that computes it.
    AccumulatorInFlight {
        /// The operation that computes it.
        op: &'static str,
        /// The Rust line of that operation.
        place: Place,
    },
    /// An access to shared memory that an asynchronous operation in flight reads or writes. A write may
    /// overtake the reads of that operation; a read may return the bytes before or after its writes.
    InFlight {
        /// The access.
        access: MemoryAccess,
        /// The use of the memory by the asynchronous operation.
        how: AsyncUse,
        /// The asynchronous operation.
        op: &'static str,
        /// The Rust line of it.
        place: Place,
    },
    /// A matrix of `wgmma` with a byte that an asynchronous operation still writes.
    MatrixInFlight {
        /// The operand.
        which: WgmmaOperand,
        /// The address of the first such byte in shared memory.
        address: u64,
        /// The asynchronous operation.
        op: &'static str,
        /// The Rust line of it.
        place: Place,
    },
    /// A `wgmma` on registers that were accessed since the last `wgmma_fence`, or without any.
    NotFenced,
    /// Bytes that threads have stored in shared memory, and that a bulk copy or `wgmma` reads without a
    /// `fence_proxy_async` between the two.
    UnfencedStore {
        /// The address of the first such byte in shared memory.
        address: u64,
        /// The block of the warp that stored it, by its rank in the cluster.
        block: u32,
        /// The warp in its block.
        warp: u32,
    },
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
    pub made: Option<Place>,
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
    pub made: Option<Place>,
    /// The number of the barrier, counted in units of 8 bytes from the start of the allocation.
    pub element: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misaligned_access_says_what_it_should_be() {
        let place = Place { file: "x.rs", line: 3, column: 9 };
        let access = MemoryAccess {
            is_store: true,
            space: Space::Shared,
            rank: None,
            allocation: "shared1".to_owned(),
            made: Some(place),
            elem: Scalar::F64,
            element: 1,
            byte: 12,
            bytes: 8,
            align: 8,
            len_bytes: 64,
        };
        let fault = Fault {
            cause: FaultCause::Misaligned { access },
            kernel: "copy".to_owned(),
            op: "st",
            path: "4".to_owned(),
            place,
            block: [0, 1, 0],
            thread: [5, 0, 0],
            stuck: Vec::new(),
        };
        assert_eq!(
            fault.to_string(),
            "`st` at x.rs:3:9 writes f64 element 1 (bytes 12 to 20) of shared memory `shared1`, made at \
             x.rs:3:9, but must start at a multiple of 8 bytes, in thread (5, 0, 0) of block (0, 1, 0) \
             of kernel `copy` [4]"
        );
    }
}
