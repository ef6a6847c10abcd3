//! Component ids: which source of accesses, such as a warp's threads or its copies, each id stands
//! for. A new source is a variant of [`Source`], with a place in the range of ids below.
//!
//! A cluster has a contiguous range of ids, so that a clock can hold its own cluster's counts in an
//! array. The range holds, in this order: for each warp its threads, copies, store reads, store
//! writes and loads; then the warp groups; then the mbarriers.

use super::clock::{Component, LAUNCHES, Range};
use crate::ir::op::MemScope;

/// A source of accesses. It has one component for each warp, warp group or mbarrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A warp's threads. Counts are the warp's epochs.
    Threads,
    /// A warp's `cp.async`, counted by warp.
    Copies,
    /// The reads of a warp's bulk stores, counted by warp.
    StoreReads,
    /// The writes of a warp's bulk stores, with the same counts.
    StoreWrites,
    /// A warp's operations that complete at an mbarrier, counted by cluster.
    Loads,
    /// A warp group's `wgmma`, counted by group.
    Tensor,
    /// An mbarrier. Counts are its completed phases.
    Barrier,
    /// The launches before this one.
    Launches,
}

/// The shape of a launch's clusters, which determines the ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) blocks: u32,
    pub(super) warps_of_block: u32,
    /// The most mbarriers that a cluster can have.
    pub(super) barriers: u32,
}

/// Warps in a warp group.
pub(super) const GROUP: u32 = 4;

impl Layout {
    fn warps(&self) -> u32 {
        self.blocks * self.warps_of_block
    }

    fn groups_of_block(&self) -> u32 {
        self.warps_of_block.div_ceil(GROUP)
    }

    fn first_barrier(&self) -> u32 {
        5 * self.warps() + self.blocks * self.groups_of_block()
    }

    /// Returns how many components a cluster has.
    pub(super) fn stride(&self) -> u32 {
        self.first_barrier() + self.barriers
    }

    /// Returns the components of cluster `cluster`, or `None` if its ids would not fit.
    pub(super) fn range(&self, cluster: u64) -> Option<Range> {
        let count = self.stride();
        let first = cluster.checked_mul(u64::from(count))?;
        let fits = first + u64::from(count) <= u64::from(LAUNCHES);
        fits.then_some(Range { first: first as u32, count })
    }

    /// Returns the component of a warp, given by its index in the cluster.
    pub(super) fn of_warp(&self, range: Range, source: Source, warp: u32) -> Component {
        let wing = match source {
            Source::Threads => 0,
            Source::Copies => 1,
            Source::StoreReads => 2,
            Source::StoreWrites => 3,
            Source::Loads | Source::Tensor | Source::Barrier | Source::Launches => 4,
        };
        range.first + wing * self.warps() + warp
    }

    /// Returns the component of the warp group that a warp belongs to.
    pub(super) fn of_group(&self, range: Range, warp: u32) -> Component {
        let (block, warp) = (warp / self.warps_of_block, warp % self.warps_of_block);
        range.first + 5 * self.warps() + block * self.groups_of_block() + warp / GROUP
    }

    /// Returns the component of the cluster's mbarrier `barrier`.
    pub(super) fn of_barrier(&self, range: Range, barrier: u32) -> Component {
        range.first + self.first_barrier() + barrier
    }

    /// Returns a component's cluster, its source, and the index of its warp (a warp group's first)
    /// or mbarrier.
    pub(super) fn source(&self, component: Component) -> (u32, Source, u32) {
        if component == LAUNCHES {
            return (u32::MAX, Source::Launches, 0);
        }
        let (cluster, index) = (component / self.stride(), component % self.stride());
        let warps = self.warps();
        let (source, number) = match index / warps.max(1) {
            0 => (Source::Threads, index),
            1 => (Source::Copies, index - warps),
            2 => (Source::StoreReads, index - 2 * warps),
            3 => (Source::StoreWrites, index - 3 * warps),
            4 => (Source::Loads, index - 4 * warps),
            _ if index < self.first_barrier() => {
                let group = index - 5 * warps;
                let (block, group) =
                    (group / self.groups_of_block(), group % self.groups_of_block());
                (Source::Tensor, block * self.warps_of_block + GROUP * group)
            }
            _ => (Source::Barrier, index - self.first_barrier()),
        };
        (cluster, source, number)
    }

    /// Returns the narrowest scope that includes both the warp and the threads behind a component.
    pub(super) fn distance(&self, range: Range, warp: u32, component: Component) -> MemScope {
        let (cluster, source, other) = self.source(component);
        if cluster != range.first / self.stride() || source == Source::Barrier {
            MemScope::Gpu
        } else if warp / self.warps_of_block == other / self.warps_of_block {
            MemScope::Cta
        } else {
            MemScope::Cluster
        }
    }
}

/// Orders scopes from the narrowest to the widest. `Sys` counts like `Gpu`, because no host threads
/// take part.
pub(super) fn rank(scope: MemScope) -> u32 {
    match scope {
        MemScope::Cta => 0,
        MemScope::Cluster => 1,
        MemScope::Gpu | MemScope::Sys => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_is_one_source() {
        let layout = Layout { blocks: 2, warps_of_block: 6, barriers: 5 };
        let range = layout.range(3).unwrap();
        assert_eq!(range.first, 3 * layout.stride());
        let mut seen = std::collections::BTreeSet::new();
        for warp in 0..12 {
            let sources = [
                Source::Threads,
                Source::Copies,
                Source::StoreReads,
                Source::StoreWrites,
                Source::Loads,
            ];
            for source in sources {
                let component = layout.of_warp(range, source, warp);
                assert!(seen.insert(component));
                assert_eq!(layout.source(component), (3, source, warp));
            }
            let group = layout.of_group(range, warp);
            let first = warp / 6 * 6 + warp % 6 / 4 * 4;
            assert_eq!(layout.source(group), (3, Source::Tensor, first));
            assert_eq!(seen.insert(group), warp == first);
        }
        for barrier in 0..5 {
            let component = layout.of_barrier(range, barrier);
            assert!(seen.insert(component));
            assert_eq!(layout.source(component), (3, Source::Barrier, barrier));
        }
        assert_eq!(seen.len(), layout.stride() as usize);
        assert_eq!(layout.range(1 << 40), None);
        let of = |warp| layout.of_warp(range, Source::Copies, warp);
        assert_eq!(layout.distance(range, 0, of(5)), MemScope::Cta);
        assert_eq!(layout.distance(range, 0, of(6)), MemScope::Cluster);
        let other = layout.range(2).unwrap();
        assert_eq!(layout.distance(other, 0, of(0)), MemScope::Gpu);
    }
}
