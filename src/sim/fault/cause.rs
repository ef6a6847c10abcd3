//! The causes of faults, in the terms of the simulator or of the kernel.

use super::raw::{
    AccessAt, AllocationAt, BarrierAt, InlineText, RacerAt, RawTerms, StepAt, ThreadAt,
};
use super::source::{Barrier, MemoryAccess, Racer, SourceAllocation, SourceOp, SourceTerms};
use super::state::{AsyncUse, BarrierState, WgmmaMatrix};
use super::terms::Terms;
use crate::ir::types::{Const, Scalar, Space};
use crate::sim::race::MissingEdge;

/// Translation of the raw parts of a cause; `None` where the kernel has no such part.
pub(in crate::sim) trait Names {
    fn access(&self, access: AccessAt) -> Option<MemoryAccess>;
    fn barrier(&self, barrier: BarrierAt) -> Option<Barrier>;
    fn allocation(&self, allocation: AllocationAt) -> Option<SourceAllocation>;
    fn thread(&self, thread: ThreadAt) -> Option<[u32; 3]>;
    fn op(&self, step: StepAt) -> Option<SourceOp>;
    fn text(&self, text: InlineText) -> Option<String>;
    fn racer(&self, racer: RacerAt) -> Option<Racer>;
}

/// A field of a raw cause, which [`Names`] translates.
trait Part {
    type Named;
    fn named(self, names: &impl Names) -> Option<Self::Named>;
}

macro_rules! parts {
    ($($raw:ident => $named:ty, $method:ident;)*; $($plain:ty),*) => {
        $(impl Part for $raw {
            type Named = $named;
            fn named(self, names: &impl Names) -> Option<$named> {
                names.$method(self)
            }
        })*
        $(impl Part for $plain {
            type Named = $plain;
            fn named(self, _: &impl Names) -> Option<$plain> {
                Some(self)
            }
        })*
    };
}

parts! {
    AccessAt => MemoryAccess, access;
    BarrierAt => Barrier, barrier;
    AllocationAt => SourceAllocation, allocation;
    ThreadAt => [u32; 3], thread;
    StepAt => SourceOp, op;
    InlineText => String, text;
    RacerAt => Racer, racer;
    ; bool, i32, i64, u32, u64, [u32; 2], AsyncUse, BarrierState, Const, MissingEdge, Scalar, Space,
    WgmmaMatrix
}

/// Defines the enum, and the translation of each of its fields.
macro_rules! causes {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $({ $($(#[$field_doc:meta])* $field:ident: $ty:ty,)+ })?,
            )+
        }
    ) => {
        $(#[$meta])*
        pub enum $name<T: Terms = SourceTerms> {
            $($(#[$doc])* $variant $({ $($(#[$field_doc])* $field: $ty,)+ })?,)+
        }

        impl $name<RawTerms> {
            /// Translates the cause into the terms of the kernel.
            pub(in crate::sim) fn named(self, names: &impl Names) -> Option<$name> {
                Some(match self {
                    $($name::$variant $({ $($field),+ })? => {
                        $name::$variant $({ $($field: $field.named(names)?),+ })?
                    })+
                })
            }
        }
    };
}

causes! {
    /// The cause of a fault. A kernel sees it in [`SourceTerms`]: names and source locations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum FaultCause {
        /// A load or store outside the allocation that its pointer was made from.
        OutOfBounds {
            /// The access.
            access: T::Access,
        },
        /// An access at an address that is not a multiple of what it must be a multiple of.
        Misaligned {
            /// The access.
            access: T::Access,
        },
        /// A load from shared memory of bytes that were not all written.
        Uninitialised {
            /// The access.
            access: T::Access,
            /// The first byte that was never written, counted from the start of the allocation.
            byte: u64,
        },
        /// An integer division or remainder by zero.
        DivisionByZero {
            /// The dividend.
            dividend: Const,
        },
        /// An integer that is not divisible as `assume_divisible_by` promised.
        NotDivisible {
            /// The integer.
            value: Const,
            /// The promised divisor.
            divisor: u32,
        },
        /// An integer that is not where `assume_between` promised.
        OutsideBounds {
            /// The integer.
            value: Const,
            /// The least promised one.
            low: Const,
            /// The largest promised one.
            high: Const,
        },
        /// A `for` whose step is zero or negative.
        StepNotPositive {
            /// The step.
            step: Const,
        },
        /// A barrier that some threads of a warp reach while others, which have not ended, are elsewhere.
        BarrierDivergence {
            /// A thread that is elsewhere.
            other: T::Thread,
            /// The construct at which the way of that thread parts from the barrier.
            op: T::Op,
        },
        /// PTX text that says nothing about what it does.
        NotSimulated {
            /// The text.
            text: T::Text,
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
            /// The allocation that it points to.
            allocation: T::Allocation,
        },
        /// An access with an order, or an atomic one, through a generic pointer to local or constant memory; or an
        /// atomic one to a vector that is not in global memory.
        OrderSpace {
            /// The access.
            access: T::Access,
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
            other: T::Thread,
        },
        /// An operation of a warp to which a member that has not ended does not come: a GPU may wait for ever.
        MissingMember {
            /// The member mask.
            members: u32,
            /// A member that is elsewhere.
            other: T::Thread,
            /// The construct at which the way of that thread parts from the operation.
            op: T::Op,
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
            barrier: T::Barrier,
            /// The state of the memory.
            state: BarrierState,
        },
        /// A barrier in shared memory that is read as memory, or made again, before it was invalidated.
        LiveBarrier {
            /// The barrier.
            barrier: T::Barrier,
        },
        /// A number of arrivals that is not from 1 to 2^20 - 1.
        BarrierCount {
            /// The number.
            count: u32,
        },
        /// More arrivals at a barrier in shared memory than its phase waits for, or may wait for.
        ArrivalsBeyond {
            /// The barrier.
            barrier: T::Barrier,
            /// The arrivals that the phase waits for.
            pending: u32,
            /// The arrivals that come.
            count: u32,
        },
        /// More bytes at a barrier in shared memory than it counts: 2^20 - 1, announced or not.
        BytesBeyond {
            /// The barrier.
            barrier: T::Barrier,
            /// The bytes that the phase waits for; below 0 for bytes that arrived without being announced.
            pending: i64,
            /// The announced bytes; below 0 for bytes that arrive.
            bytes: i64,
        },
        /// A phase of a barrier in shared memory that does not end: no warp of the cluster can go on.
        PhaseDeadlock {
            /// The barrier.
            barrier: T::Barrier,
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
        /// fault, but found among [`Fault::stuck`](crate::sim::Fault::stuck).
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
        /// Metadata of a sparse matrix that names no two columns in order.
        SparseMetadata {
            /// The lane that has it.
            lane: u32,
            /// The row of the matrix, within its 16.
            row: u32,
            /// The chunk of columns.
            chunk: u32,
            /// Its 4 bits.
            bits: u32,
        },
        /// A copy of one mode by a tensor map of the other.
        BoxMode {
            /// The map is of im2col mode, and the copy of tiled mode.
            im2col: bool,
        },
        /// A copy of im2col mode that starts outside of the box of pixels.
        PixelStart {
            /// The dimension.
            dim: u32,
            /// The coordinate of the base pixel.
            coord: i32,
            /// The first base pixel.
            first: i64,
            /// The last base pixel.
            last: i64,
        },
        /// A store of im2col mode by a map whose base pixels are not all inside of the tensor.
        PixelBox {
            /// The dimension.
            dim: u32,
            /// The first base pixel.
            first: i64,
            /// The last base pixel.
            last: i64,
            /// The pixels of the tensor along the dimension.
            extent: u64,
        },
        /// An extent or a stride that no tensor in memory has.
        MapSize {
            /// The dimension.
            dim: u32,
            /// The extent, or the stride in bytes.
            size: u64,
            /// True for a stride.
            is_stride: bool,
        },
        /// A tensor in memory that is not inside of the buffer of the map that it is made from.
        MapBounds {
            /// The end of the tensor in bytes, from the start of the buffer on.
            end: u64,
            /// The bytes of the buffer.
            buffer_bytes: u64,
        },
        /// A tensor in memory that starts in another buffer than the map that it is made from.
        MapBuffer,
        /// Bytes that are no tensor map of the parameter.
        NoMap,
        /// A store of a box that starts at a negative coordinate.
        NegativeStart {
            /// The dimension.
            dim: u32,
            /// The coordinate.
            coord: i32,
        },
        /// A copy of im2col mode with an offset that the instruction does not hold.
        PixelOffset {
            /// The dimension.
            dim: u32,
            /// The offset.
            offset: i32,
            /// Offsets are below it.
            limit: i32,
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
        /// An access to the shared memory of a block of the cluster that is not known to have started: on a GPU it may not
        /// be there yet. Found with [`Options::race`](crate::sim::Options::race).
        BlockNotStarted {
            /// The rank of the block in its cluster.
            rank: u32,
        },
        /// A copy of a number of bytes that is not possible.
        CopyBytes {
            /// The number.
            bytes: u32,
            /// The maximum that is read; 0 where the number is to be a multiple of 16 above 0.
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
            op: T::Op,
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
            which: WgmmaMatrix,
            /// The address in shared memory.
            address: u64,
            /// The shared memory of the block.
            len_bytes: u64,
        },
        /// A matrix of `wgmma` with a byte that was never written.
        MatrixUninitialised {
            /// The operand.
            which: WgmmaMatrix,
            /// The address of the first such byte in shared memory.
            address: u64,
        },
        /// A register of accumulators that is accessed before the warp has waited for the `wgmma` that computes it.
        AccumulatorInFlight {
            /// The operation that computes it.
            op: T::Op,
        },
        /// An access to shared memory that an asynchronous operation in flight reads or writes. A write may
        /// overtake the reads of that operation; a read may return the bytes before or after its writes.
        InFlight {
            /// The access.
            access: T::Access,
            /// The use of the memory by the asynchronous operation.
            how: AsyncUse,
            /// The asynchronous operation.
            op: T::Op,
        },
        /// A matrix of `wgmma` with a byte that an asynchronous operation still writes.
        MatrixInFlight {
            /// The operand.
            which: WgmmaMatrix,
            /// The address of the first such byte in shared memory.
            address: u64,
            /// The asynchronous operation.
            op: T::Op,
        },
        /// A data race: two accesses to the same bytes without an order, and at least one writes. Found with
        /// [`Options::race`](crate::sim::Options::race).
        Race {
            /// The later access: its first element that both access.
            access: T::Access,
            /// The thread or the asynchronous operation that makes the later access.
            by: T::Racer,
            /// The source of the earlier access.
            other: T::Racer,
            /// The nearest missing synchronisation.
            missing: MissingEdge,
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
}
