//! The state of one block of a cluster, apart from its warps: shared memory, diagnostics and warp
//! groups. `cluster_memory.rs` has one for each block.

use super::shared::{Shared, SharedRange};
use super::warp_group::WarpGroup;
use crate::sim::memory::diagnostics::Diagnostics;

/// The state of one block of a cluster, apart from its warps.
#[derive(Debug)]
pub(in crate::sim) struct BlockMemory {
    pub(in crate::sim) shared: Shared,
    pub(in crate::sim) diagnostics: Diagnostics,
    /// The block's index in its grid.
    pub(in crate::sim) number: u64,
    /// The warp groups of four warps each.
    pub(in crate::sim) groups: Vec<WarpGroup>,
    /// Set when all its threads have ended.
    pub(in crate::sim) ended: bool,
}

impl BlockMemory {
    pub(in crate::sim) fn new(
        shared_bytes: usize,
        allocs: &[SharedRange],
        watched: bool,
    ) -> BlockMemory {
        BlockMemory {
            shared: Shared::new(shared_bytes, allocs, watched),
            diagnostics: Diagnostics::default(),
            number: 0,
            groups: Vec::new(),
            ended: false,
        }
    }

    /// Forgets everything and becomes block `number` with `warps` warps.
    pub(in crate::sim) fn start(&mut self, number: u64, warps: usize) {
        self.shared.reset();
        self.number = number;
        self.groups.clear();
        self.groups.resize_with(warps.div_ceil(WarpGroup::WARPS), WarpGroup::default);
        self.ended = false;
    }
}
