//! Attributes of barriers and fences. Kernel authors pass them to the builder's methods, for
//! example the order of a fence.

use crate::ir::name::named;

/// Whether all threads of a warp execute the barrier instruction together. Use `Aligned` only
/// outside divergent code. A printed kernel shows `aligned`, and nothing for `Unaligned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BarrierForm {
    /// The warp's threads may have diverged. PTX's barrier without `.aligned`.
    #[default]
    Unaligned,
    /// The kernel promises that all threads of the warp execute it together.
    Aligned,
}

/// How a barrier combines its threads' predicates into the one that all threads get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierRed {
    /// True if the predicate is true in all threads.
    And,
    /// True if the predicate is true in any thread.
    Or,
}

/// The memory order of a fence (PTX ISA 8.4, 9.7.13.4). `AcqRel` is cheaper and enough to publish
/// data with a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FenceOrder {
    /// Orders the thread's earlier accesses before its later ones, for threads that synchronise
    /// through the fence.
    AcqRel,
    /// Like `AcqRel`, and all such fences in the scope have one total order. The same as PTX's
    /// `membar`.
    Sc,
}

/// The memory that a [proxy fence](crate::ir::Body::fence_proxy_async) covers (PTX ISA 9.7.13.4).
/// Name the memory that you stored to, because a narrower fence is cheaper. A printed kernel shows
/// nothing for `All`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProxySpace {
    /// All memory.
    #[default]
    All,
    /// Global memory.
    Global,
    /// The block's shared memory.
    SharedCta,
    /// The cluster's shared memory.
    SharedCluster,
}

named! {
    BarrierForm, "a form of a barrier": Unaligned = "", Aligned = "aligned";
    BarrierRed, "a barrier reduction": And = "and", Or = "or";
    FenceOrder, "a fence order": AcqRel = "acq_rel", Sc = "sc";
    ProxySpace, "memory of a proxy": All = "", Global = "global", SharedCta = "shared::cta",
        SharedCluster = "shared::cluster";
}
