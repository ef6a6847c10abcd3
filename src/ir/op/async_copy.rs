//! Attributes of asynchronous copies and of the mbarriers that track them. Kernel authors pass them
//! to the builder's copy methods.

use crate::ir::name::named;

/// The cache operator of `cp.async` (PTX ISA 9.7.9.25.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpAsyncCache {
    /// Cache at all levels.
    Ca,
    /// Cache in L2 only. For copies of 16 bytes.
    Cg,
}

/// Whether `cp.async.mbarrier.arrive` first raises the barrier's pending count. The text form
/// writes nothing, or `noinc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PendingCount {
    /// Raises the pending count first, so that the arrival has no net effect on it.
    #[default]
    Inc,
    /// Does not raise it: the barrier's initial count must include this arrival.
    Noinc,
}

/// What a wait for bulk-copy groups waits for (PTX ISA 9.7.9.25.6.3). The text form writes nothing,
/// or `read`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BulkWait {
    /// The copies are complete, and the thread sees the data that they wrote.
    #[default]
    Done,
    /// The copies have read their source, so it may be overwritten.
    Read,
}

/// How a bulk copy combines its data with the destination (PTX ISA 9.7.9.25.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkReduce {
    /// The sum; integers wrap.
    Add,
    /// The smaller value.
    Min,
    /// The larger value.
    Max,
    /// `if old >= value { 0 } else { old + 1 }`
    Inc,
    /// `if old == 0 || old > value { value } else { old - 1 }`
    Dec,
    /// `old & value`
    And,
    /// `old | value`
    Or,
    /// `old ^ value`
    Xor,
}

/// The L2 eviction policy for an access's data (PTX ISA 9.7.9.18 `createpolicy`). The text form
/// writes nothing, or PTX's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Policy {
    /// No policy.
    #[default]
    Default,
    /// Evict before other lines.
    EvictFirst,
    /// Evict after other lines.
    EvictLast,
    /// Evict with normal priority.
    EvictNormal,
}

/// How a tensor map describes boxes (PTX ISA 5.5.2). The text form writes nothing, or `im2col`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BoxMode {
    /// A box is a tile of the tensor.
    #[default]
    Tile,
    /// A box is a column of pixels, for convolutions: `im2col`, and `im2col_no_offs` for stores.
    Im2col,
}

/// The memory order of an arrival at another block's mbarrier (PTX ISA 9.7.13.15.13). The text form
/// writes nothing, or `release`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RemoteArrival {
    /// No suffix, which PTX reads as `.release.cta`: earlier accesses are visible to the thread's
    /// own block only. This is much faster, and enough if the released data was read by
    /// asynchronous operations that have completed.
    #[default]
    Plain,
    /// Earlier accesses are visible to all threads of the cluster.
    Release,
}

/// The memory order of an arrival at the cluster barrier (PTX ISA 9.7.13.3). The text form writes
/// nothing, or `relaxed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClusterArrival {
    /// Earlier accesses are visible to the threads that wait.
    #[default]
    Release,
    /// No ordering.
    Relaxed,
}

named! {
    CpAsyncCache, "a cache operator of cp.async": Ca = "ca", Cg = "cg";
    PendingCount, "a count of arrivals": Inc = "", Noinc = "noinc";
    BulkWait, "a kind of wait": Done = "", Read = "read";
    BulkReduce, "a reduction of bulk copies": Add = "add", Min = "min", Max = "max", Inc = "inc",
        Dec = "dec", And = "and", Or = "or", Xor = "xor";
    L2Policy, "a policy of L2": Default = "", EvictFirst = "L2::evict_first",
        EvictLast = "L2::evict_last", EvictNormal = "L2::evict_normal";
    BoxMode, "a mode of tensor maps": Tile = "", Im2col = "im2col";
    RemoteArrival, "an arrival order": Plain = "", Release = "release";
    ClusterArrival, "an arrival order": Release = "", Relaxed = "relaxed";
}
