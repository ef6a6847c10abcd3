//! The causes of faults, generic over how they name things: as steps and lanes while the kernel
//! runs, as names and Rust lines in a report.

use super::raw::{
    AccessAt, AllocationAt, BarrierAt, InlineText, RacerAt, RawTerms, StepAt, ThreadAt,
};
use super::source::{Barrier, MemoryAccess, RacingAccess, SourceAllocation, SourceOp, SourceTerms};
use super::state::{AsyncUse, BarrierState, WgmmaMatrix};
use super::terms::Terms;
use crate::ir::types::{Const, Scalar, Space};
use crate::sim::race::MissingEdge;

/// Translates the raw parts of a cause. Returns `None` if the kernel has no such part.
pub(in crate::sim) trait Names {
    fn access(&self, access: AccessAt) -> Option<MemoryAccess>;
    fn barrier(&self, barrier: BarrierAt) -> Option<Barrier>;
    fn allocation(&self, allocation: AllocationAt) -> Option<SourceAllocation>;
    fn thread(&self, thread: ThreadAt) -> Option<[u32; 3]>;
    fn op(&self, step: StepAt) -> Option<SourceOp>;
    fn text(&self, text: InlineText) -> Option<String>;
    fn racer(&self, racer: RacerAt) -> Option<RacingAccess>;
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
    RacerAt => RacingAccess, racer;
    ; bool, i32, i64, u32, u64, [u32; 2], AsyncUse, BarrierState, Const, MissingEdge, Scalar, Space,
    WgmmaMatrix
}

/// Defines the enum and the translation of its fields.
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
    /// Why a kernel faulted. Match on it in a test to check which mistake was found; to read it,
    /// print the [`Fault`](crate::sim::Fault). In a fault, the fields are names and source
    /// locations ([`SourceTerms`]).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum FaultCause {
        /// A load or store outside the allocation that its pointer was made from.
        OutOfBounds {
            /// The access.
            access: T::Access,
        },
        /// A misaligned access.
        Misaligned {
            /// The access.
            access: T::Access,
        },
        /// A load of shared or local memory that was not completely written before.
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
        /// An integer that is not divisible by what `assume_divisible_by` promised.
        NotDivisible {
            /// The integer.
            value: Const,
            /// The promised divisor.
            divisor: u32,
        },
        /// An integer outside the range that `assume_between` promised.
        OutsideBounds {
            /// The integer.
            value: Const,
            /// The promised lower bound.
            low: Const,
            /// The promised upper bound.
            high: Const,
        },
        /// A `for` loop whose step is zero or negative.
        StepNotPositive {
            /// The step.
            step: Const,
        },
        /// Some threads of a warp reach a barrier while others, which have not ended, are
        /// elsewhere.
        BarrierDivergence {
            /// A thread that is elsewhere.
            other: T::Thread,
            /// The construct at which that thread's path diverges from the barrier's.
            op: T::Op,
        },
        /// Inline PTX without an `InlinePtx::simulated` closure, so the simulator does not know
        /// what it does.
        NotSimulated {
            /// The text.
            text: T::Text,
        },
        /// A pointer that is not as aligned as `assume_aligned` promised.
        BrokenPromise {
            /// The promised alignment of the address, in bytes.
            bytes: u32,
            /// The offset of the pointer from the start of its allocation, in bytes.
            byte: i64,
        },
        /// A generic pointer is converted to a space that it does not point into.
        OtherSpace {
            /// The space that it is converted to.
            expected: Space,
            /// The space that it points into.
            found: Space,
            /// The allocation that it points into.
            allocation: T::Allocation,
        },
        /// An ordered or atomic access through a generic pointer to local or constant memory, or an
        /// atomic vector access outside global memory.
        OrderSpace {
            /// The access.
            access: T::Access,
        },
        /// Threads of a warp name different barriers or thread counts at one barrier operation.
        OtherBarrier {
            /// Barrier id and thread count of the warp's first thread.
            here: [u32; 2],
            /// Barrier id and thread count of this thread.
            there: [u32; 2],
        },
        /// A barrier id above 15.
        NoBarrier {
            /// The id.
            id: u32,
        },
        /// A named barrier whose thread count is not a multiple of 32 from 32 to 1024.
        BarrierThreads {
            /// The thread count.
            threads: u32,
        },
        /// Warps arrive at the same barrier with different thread counts.
        BarrierMismatch {
            /// The barrier's id.
            id: u32,
            /// The thread count of the warps that came before.
            expected: u32,
            /// The thread count of this warp.
            found: u32,
        },
        /// Too few threads come to a named barrier, and no warp of the block can go on.
        BarrierDeadlock {
            /// The barrier's id.
            id: u32,
            /// How many threads it waits for.
            threads: u32,
            /// How many have arrived.
            arrived: u32,
        },
        /// A thread executed `trap`.
        Trap,
        /// A thread executed `brkpt`.
        Breakpoint,
        /// A warp operation whose member mask does not include the executing lane.
        NotAMember {
            /// The member mask.
            members: u32,
        },
        /// A warp operation whose members name different member masks.
        OtherMembers {
            /// This thread's member mask.
            members: u32,
            /// A member with another mask.
            other: T::Thread,
        },
        /// A warp operation that a member, which has not ended, does not reach. A GPU may wait
        /// forever.
        MissingMember {
            /// The member mask.
            members: u32,
            /// The member that is elsewhere.
            other: T::Thread,
            /// The construct at which that thread's path diverges from the operation's.
            op: T::Op,
        },
        /// A shuffle reads from a lane that does not execute it, so the value is undefined.
        InactiveSource {
            /// The lane that is read.
            source: u32,
            /// The lanes that execute the shuffle together.
            group: u32,
        },
        /// An mbarrier operation on memory that holds no mbarrier.
        NotABarrier {
            /// Where the mbarrier was expected.
            barrier: T::Barrier,
            /// What the memory holds instead.
            state: BarrierState,
        },
        /// An mbarrier that is read as memory, or initialised again, before it was invalidated.
        LiveBarrier {
            /// The mbarrier.
            barrier: T::Barrier,
        },
        /// An arrival count outside 1 to 2^20 - 1.
        BarrierCount {
            /// The count.
            count: u32,
        },
        /// More arrivals at an mbarrier than its phase still waits for, or more than it can count.
        ArrivalsBeyond {
            /// The mbarrier.
            barrier: T::Barrier,
            /// How many arrivals the phase still waits for.
            pending: u32,
            /// How many arrive.
            count: u32,
        },
        /// More than 2^20 - 1 bytes at an mbarrier, announced but not arrived, or arrived but not
        /// announced.
        BytesBeyond {
            /// The mbarrier.
            barrier: T::Barrier,
            /// How many bytes the phase waits for; negative if bytes arrived before they were
            /// announced.
            pending: i64,
            /// How many bytes are announced; negative for bytes that arrive.
            bytes: i64,
        },
        /// A phase of an mbarrier never ends: no warp of the cluster can go on.
        PhaseDeadlock {
            /// The mbarrier.
            barrier: T::Barrier,
            /// The phase's index, from 0.
            phase: u64,
            /// How many arrivals it still waits for.
            arrivals: u32,
            /// How many arrivals each phase needs.
            count: u32,
            /// How many bytes it still waits for; negative if bytes arrived before they were
            /// announced.
            bytes: i64,
        },
        /// Some threads do not come to the block's barrier, and no warp can go on. No fault has
        /// this cause itself; you find it in [`Fault::stuck`](crate::sim::Fault::stuck).
        BlockDeadlock {
            /// How many threads of the block have not ended.
            threads: u32,
            /// How many have arrived.
            arrived: u32,
        },
        /// Some threads do not come to the cluster's barrier, and no warp can go on.
        ClusterDeadlock {
            /// How many threads of the cluster have not ended.
            threads: u32,
            /// How many have arrived.
            arrived: u32,
        },
        /// A thread arrives at the cluster's barrier twice without waiting, or waits without having
        /// arrived.
        ClusterBarrierOrder {
            /// True for an arrival, false for a wait.
            arrives: bool,
        },
        /// A tensor copy whose box does not start at a multiple of 16 bytes.
        BoxStart {
            /// The box's coordinate along the fastest dimension.
            coord: i32,
            /// The tensor's element type.
            elem: Scalar,
        },
        /// Sparse metadata that does not name two columns in rising order.
        SparseMetadata {
            /// The lane that holds the metadata.
            lane: u32,
            /// The row, within the matrix's 16.
            row: u32,
            /// The chunk of columns.
            chunk: u32,
            /// Its 4 bits of metadata.
            bits: u32,
        },
        /// A tiled copy with an im2col tensor map, or the other way round.
        BoxMode {
            /// True if the map is the im2col one.
            im2col: bool,
        },
        /// An im2col copy that starts outside the map's box of base pixels.
        PixelStart {
            /// The dimension.
            dim: u32,
            /// The start coordinate.
            coord: i32,
            /// The first base pixel.
            first: i64,
            /// The last base pixel.
            last: i64,
        },
        /// An im2col store through a map whose base pixels are not all inside the tensor.
        PixelBox {
            /// The dimension.
            dim: u32,
            /// The first base pixel.
            first: i64,
            /// The last base pixel.
            last: i64,
            /// How many pixels the tensor has along the dimension.
            extent: u64,
        },
        /// A tensor map in memory gets an extent or a stride that no tensor can have.
        MapSize {
            /// The dimension.
            dim: u32,
            /// The extent, or the stride in bytes.
            size: u64,
            /// True for a stride.
            is_stride: bool,
        },
        /// A tensor map in memory describes a tensor that ends outside the buffer of the original
        /// map.
        MapBounds {
            /// Where the tensor ends, in bytes from the start of the buffer.
            end: u64,
            /// The buffer's size in bytes.
            buffer_bytes: u64,
        },
        /// A tensor map in memory describes a tensor in another buffer than the original map's.
        MapBuffer,
        /// Bytes that are used as a tensor map, but are not one made from this parameter.
        NoMap,
        /// A tensor store whose box starts at a negative coordinate.
        NegativeStart {
            /// The dimension.
            dim: u32,
            /// The coordinate.
            coord: i32,
        },
        /// An im2col copy with an offset that the instruction cannot encode.
        PixelOffset {
            /// The dimension.
            dim: u32,
            /// The offset.
            offset: i32,
            /// Offsets must be below this.
            limit: i32,
        },
        /// A block rank that the cluster does not have.
        NoClusterBlock {
            /// The rank.
            rank: u32,
            /// How many blocks the cluster has.
            blocks: u32,
        },
        /// An asynchronous store to one block of the cluster that names an mbarrier in another.
        BarrierElsewhere {
            /// The rank of the block that is stored to.
            rank: u32,
            /// The rank of the mbarrier's block.
            barrier_rank: u32,
        },
        /// An access to the shared memory of a block whose threads have all ended.
        BlockEnded {
            /// The block's rank in the cluster.
            rank: u32,
        },
        /// An access to the shared memory of another block of the cluster that may not have started
        /// yet, because nothing orders its start before the access. Found with
        /// [`Options::race`](crate::sim::Options::race).
        BlockNotStarted {
            /// The block's rank in the cluster.
            rank: u32,
        },
        /// An asynchronous copy with a byte count that the instruction does not allow.
        CopyBytes {
            /// The byte count.
            bytes: u32,
            /// The most bytes that can be read; 0 if the count must be a positive multiple of 16.
            limit: u32,
        },
        /// An asynchronous copy that still uses shared memory when all threads have ended.
        AsyncAtExit,
        /// An operation that needs all 32 lanes of a warp, but some have ended or never existed.
        PartialWarp {
            /// The lanes that execute it.
            lanes: u32,
        },
        /// Some warps do not reach an operation of their warp group (four warps, aligned to a
        /// multiple of four).
        PartialWarpGroup {
            /// A bit for each warp of the group that has come.
            warps: u32,
        },
        /// Warps of a group execute different warp-group operations, or pass different operands.
        OtherWgmma {
            /// The other warp's operation.
            op: T::Op,
        },
        /// An operand that must be the same in all threads of a warp, and is not.
        NotUniform {
            /// Its value in the warp's first thread.
            here: u64,
            /// Its value in this thread.
            there: u64,
        },
        /// A `wgmma` descriptor describes a matrix outside the block's shared memory.
        MatrixOutOfBounds {
            /// The operand.
            which: WgmmaMatrix,
            /// The address in shared memory.
            address: u64,
            /// The size of the block's shared memory, in bytes.
            len_bytes: u64,
        },
        /// A `wgmma` reads a byte of shared memory that was never written.
        MatrixUninitialised {
            /// The operand.
            which: WgmmaMatrix,
            /// The address of the first such byte.
            address: u64,
        },
        /// An accumulator register is accessed before the warp has waited for the `wgmma` that
        /// computes it.
        AccumulatorInFlight {
            /// That `wgmma`.
            op: T::Op,
        },
        /// An access to shared memory that an asynchronous operation in flight reads or writes. A
        /// write may overtake that operation's reads; a read may return the bytes from before or
        /// after its writes.
        InFlight {
            /// The access.
            access: T::Access,
            /// What the asynchronous operation does with the memory.
            how: AsyncUse,
            /// The asynchronous operation.
            op: T::Op,
        },
        /// A `wgmma` reads a byte that an asynchronous operation may still write.
        MatrixInFlight {
            /// The operand.
            which: WgmmaMatrix,
            /// The address of the first such byte.
            address: u64,
            /// The asynchronous operation.
            op: T::Op,
        },
        /// A data race: two accesses to the same bytes that nothing orders, of which at least one
        /// writes. Found with [`Options::race`](crate::sim::Options::race).
        Race {
            /// The later access, at the first element that both touch.
            access: T::Access,
            /// Who makes the later access: a thread, or an asynchronous operation that it started.
            by: T::RacingAccess,
            /// Who made the earlier access.
            other: T::RacingAccess,
            /// The synchronisation that is missing.
            missing: MissingEdge,
        },
        /// A `wgmma` uses registers that were accessed without a `wgmma_fence` after it.
        NotFenced,
        /// A bulk copy or `wgmma` reads shared memory that threads stored to without a
        /// `fence_proxy_async` in between.
        UnfencedStore {
            /// The address of the first such byte in shared memory.
            address: u64,
            /// The rank of the block whose warp stored it.
            block: u32,
            /// The warp's index in its block.
            warp: u32,
        },
    }
}
