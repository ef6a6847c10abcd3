//! What a block of a cluster has of its own.

use super::diagnostic::Diagnostics;
use super::shared::{Shared, SharedRange};
use super::warp_group::WarpGroup;

/// What a block of a cluster has of its own, beside its warps.
#[derive(Debug)]
pub(super) struct BlockMemory {
    pub(super) shared: Shared,
    pub(super) diagnostics: Diagnostics,
    /// The number of the block in its grid.
    pub(super) number: u64,
    /// The warp groups: each four warps.
    pub(super) groups: Vec<WarpGroup>,
    /// Whether all its threads have ended.
    pub(super) ended: bool,
}

impl BlockMemory {
    pub(super) fn new(shared_bytes: usize, allocs: &[SharedRange], watched: bool) -> BlockMemory {
        BlockMemory {
            shared: Shared::new(shared_bytes, allocs, watched),
            diagnostics: Diagnostics::default(),
            number: 0,
            groups: Vec::new(),
            ended: false,
        }
    }

    /// Forgets all, for block `number` with `warps` warps.
    pub(super) fn start(&mut self, number: u64, warps: usize) {
        self.shared.reset();
        self.number = number;
        self.groups.clear();
        self.groups.resize_with(warps.div_ceil(WarpGroup::WARPS), WarpGroup::default);
        self.ended = false;
    }
}
