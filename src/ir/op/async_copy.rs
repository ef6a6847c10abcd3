//! Attributes of asynchronous copies and of the mbarriers that track them. Kernel authors pass them
//! to the builder's copy methods.

use crate::ir::name::named;

/// The cache operator of `cp.async` (PTX ISA 9.7.9.25.3.1). Choose `Cg` for data that the SM reads
/// once, because it does not displace other data from L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpAsyncCache {
    /// Cache at all levels.
    Ca,
    /// Cache in L2 only. Only copies of 16 bytes can use it.
    Cg,
}

/// Whether [`cp_async_arrive`](crate::ir::builder::MbarrierRef::cp_async_arrive) first raises the
/// barrier's pending count. Use `Noinc` if the count that you passed to `init` includes these
/// arrivals. A printed kernel shows `noinc`, and nothing for `Inc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PendingCount {
    /// Raises the pending count first, so that the arrival has no net effect on it.
    #[default]
    Inc,
    /// Does not raise it: the barrier's initial count must include this arrival.
    Noinc,
}

/// What a wait for bulk-copy groups waits for (PTX ISA 9.7.9.25.6.3). `Read` is enough, and sooner,
/// if you only want to reuse the source. A printed kernel shows `read`, and nothing for `Done`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BulkWait {
    /// The copies are complete, and the thread sees the data that they wrote.
    #[default]
    Done,
    /// The copies have read their source, so it may be overwritten.
    Read,
}

/// How a bulk copy combines its data with the destination, where `old` is the destination's element
/// and `value` the copied one (PTX ISA 9.7.9.25.5.3). Use it to add a block's partial results to
/// global memory with one copy.
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

/// The L2 eviction policy for an access's data (PTX ISA 9.7.9.18 `createpolicy`). Use it to keep
/// data that many blocks read, and to evict data that streams through. A printed kernel shows PTX's
/// name, and nothing for `Default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Policy {
    /// No policy: L2 decides.
    #[default]
    Default,
    /// Evict before other lines.
    EvictFirst,
    /// Evict after other lines.
    EvictLast,
    /// Evict with normal priority.
    EvictNormal,
}

/// How a tensor map describes boxes (PTX ISA 5.5.2). Convolutions use `Im2col`, everything else
/// `Tile`. A printed kernel shows `im2col`, and nothing for `Tile`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BoxMode {
    /// A box is a tile of the tensor.
    #[default]
    Tile,
    /// A box is a column of pixels, for convolutions: `im2col`, and `im2col_no_offs` for stores.
    Im2col,
}

/// The memory order of an arrival at another block's mbarrier (PTX ISA 9.7.13.15.13). Use `Release`
/// if the waiting threads read what this thread wrote. A printed kernel shows `release`, and
/// nothing for `Plain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RemoteArrival {
    /// No suffix, which PTX reads as `.release.cta`: earlier accesses are visible to the thread's
    /// own block only. This is much faster. It is enough if the arrival only says that a buffer is
    /// free, and the asynchronous operations that read the buffer have completed.
    #[default]
    Plain,
    /// Earlier accesses are visible to all threads of the cluster.
    Release,
}

/// The memory order of an arrival at the cluster barrier (PTX ISA 9.7.13.3). Use `Relaxed` if the
/// barrier only has to make sure that all blocks have come this far. A printed kernel shows
/// `relaxed`, and nothing for `Release`.
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
