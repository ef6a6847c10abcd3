//! Attributes of barriers and fences.

use crate::ir::name::named;

/// The form of a barrier: `aligned` if all threads of a warp execute the same instruction together. In the text
/// form nothing, or `aligned`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BarrierForm {
    /// They may be diverged: PTX's barriers without `.aligned`.
    #[default]
    Unaligned,
    /// They are not: the kernel promises it.
    Aligned,
}

/// The operation by which a barrier combines the predicates of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierRed {
    /// True if the predicate holds in all threads.
    And,
    /// True if the predicate holds in any thread.
    Or,
}

/// The order that a fence makes (PTX ISA 8.4, 9.7.13.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FenceOrder {
    /// Orders earlier accesses before later ones, for threads that synchronise by it.
    AcqRel,
    /// `AcqRel`, and one order of all such fences in the scope. PTX's `membar` is the same.
    Sc,
}

/// The memory that a proxy fence is about (PTX ISA 9.7.13.4). In the text form nothing for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ProxySpace {
    /// Every memory.
    #[default]
    All,
    /// Global memory.
    Global,
    /// Shared memory of the block.
    SharedCta,
    /// Shared memory of the cluster.
    SharedCluster,
}

named! {
    BarrierForm, "a form of barriers": Unaligned = "", Aligned = "aligned";
    BarrierRed, "a reduction of barriers": And = "and", Or = "or";
    FenceOrder, "an order of fences": AcqRel = "acq_rel", Sc = "sc";
    ProxySpace, "memory of a proxy": All = "", Global = "global", SharedCta = "shared::cta",
        SharedCluster = "shared::cluster";
}
