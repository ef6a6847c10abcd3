//! Attributes of asynchronous copies and of the barriers that count them.

use crate::ir::name::named;

/// The cache operator of a `cp.async` (PTX ISA 9.7.9.25.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpAsyncCache {
    /// At all levels.
    Ca,
    /// In L2 only: copies of 16 bytes.
    Cg,
}

/// Says whether the barrier counts the arrival of `cp.async.mbarrier.arrive` as expected. In the text form
/// nothing, or `noinc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PendingCount {
    /// The number of pending arrivals is raised first, so that this one changes nothing in the end.
    #[default]
    Inc,
    /// It is not: the barrier was made for this arrival.
    Noinc,
}

/// The event that a wait for groups of bulk copies waits for (PTX ISA 9.7.9.25.6.3). In the text form nothing,
/// or `read`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BulkWait {
    /// The copies are done, and the thread sees the data that they wrote.
    #[default]
    Done,
    /// The copies have read their source, which may then be written again.
    Read,
}

/// The operation by which a bulk copy combines its data with the destination (PTX ISA 9.7.9.25.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BulkReduce {
    /// The sum; integers wrap.
    Add,
    /// The smaller one.
    Min,
    /// The larger one.
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

/// The L2 eviction policy of the data of a bulk copy (PTX ISA 9.7.9.18 `createpolicy`). In the text form
/// nothing, or PTX's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Policy {
    /// No policy is given.
    #[default]
    Default,
    /// It is given up before others.
    EvictFirst,
    /// It is given up after others.
    EvictLast,
    /// It is given up in its turn.
    EvictNormal,
}

/// The mode in which a tensor map describes boxes (PTX ISA 5.5.2). In the text form nothing, or `im2col`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BoxMode {
    /// Boxes are tiles of the tensor.
    #[default]
    Tile,
    /// Boxes are columns of pixels: `im2col`, and `im2col_no_offs` for stores.
    Im2col,
}

/// The order of an arrival at the barrier of another block (PTX ISA 9.7.13.15.13). In the text form nothing,
/// or `release`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RemoteArrival {
    /// No word about it, which PTX reads as `.release.cta`: what went before is seen by the thread's own
    /// block. It is enough where what is released was read by asynchronous operations that are done, and is
    /// much faster.
    #[default]
    Plain,
    /// Earlier accesses are visible to all threads of the cluster.
    Release,
}

/// The order of an arrival at the barrier of a cluster (PTX ISA 9.7.13.3). In the text form nothing, or
/// `relaxed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClusterArrival {
    /// Earlier accesses are visible to the threads that wait.
    #[default]
    Release,
    /// None.
    Relaxed,
}

named! {
    CpAsyncCache, "a cache operator of cp.async": Ca = "ca", Cg = "cg";
    PendingCount, "a count of arrivals": Inc = "", Noinc = "noinc";
    BulkWait, "what is waited for": Done = "", Read = "read";
    BulkReduce, "a reduction of bulk copies": Add = "add", Min = "min", Max = "max", Inc = "inc",
        Dec = "dec", And = "and", Or = "or", Xor = "xor";
    L2Policy, "a policy of L2": Default = "", EvictFirst = "L2::evict_first",
        EvictLast = "L2::evict_last", EvictNormal = "L2::evict_normal";
    BoxMode, "a mode of tensor maps": Tile = "", Im2col = "im2col";
    RemoteArrival, "an order of arrivals": Plain = "", Release = "release";
    ClusterArrival, "an order of arrivals": Release = "", Relaxed = "relaxed";
}
