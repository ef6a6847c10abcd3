//! [`Pointer`]: an allocation and an offset into it.

use super::claim::Deps;
use super::poly::Poly;
use crate::ir::{ArrayId, LocalId, SharedId};

/// The allocation that a pointer was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Root {
    /// The buffer of the parameter with this index.
    Param(u32),
    Shared(SharedId),
    /// The same shared allocation in a block of the cluster.
    Remote(SharedId),
    Local(LocalId),
    Array(ArrayId),
    /// An integer.
    Integer,
    Unknown,
}

/// The start of `root` plus `offset` bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) root: Root,
    pub(super) offset: Poly,
    /// The offset from the last pointer whose alignment was promised, in bytes.
    pub(super) since: Poly,
    /// The promised alignment; 1 without a promise.
    pub(super) since_align: u128,
    pub(super) deps: Deps,
    /// The added offsets that may be of any size, in bytes. If the whole offset is inside the
    /// allocation, so is what one of them adds, but two of different signs could wrap and cancel
    /// each other.
    pub(super) loose: Vec<Poly>,
}

impl Pointer {
    pub(super) fn new(root: Root) -> Pointer {
        let zero = Poly::default();
        Pointer {
            root,
            offset: zero.clone(),
            since: zero,
            since_align: 1,
            deps: 0,
            loose: Vec::new(),
        }
    }
}
