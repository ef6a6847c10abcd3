//! A race as the detector reports it: both accesses, and the synchronisation that is missing
//! between the two. `fault/race_sentence.rs` turns it into a message. `Races::missing` chooses the
//! synchronisation.

use super::layout::{Layout, Source};
use super::overlap::{Overlap, Overlapped};
use super::shadow::{Clash, Order};
use super::{At, Grid, Races};
use crate::ir::op::MemScope;

/// The memory that an access goes to: a block's shared memory, or a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Target {
    /// The shared memory of the block with this rank in the cluster.
    Shared(usize),
    /// A buffer, by its index in the launch.
    Global(usize),
}

/// Who made an access of a race: a thread, or an asynchronous operation that the thread started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Agent {
    /// A thread.
    Thread,
    /// A `cp.async` of the thread.
    Copy,
    /// The thread's bulk or tensor load, or its store to another block that signals an mbarrier.
    Load,
    /// The thread's bulk or tensor store.
    Store,
    /// The warp group's `wgmma`.
    Wgmma,
}

/// What is missing between the two accesses of a race. The variant names the nearest
/// synchronisation that would order them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingEdge {
    /// The threads are lanes of one warp. They do not run in lock step, so they need `bar_warp`.
    /// The same two operations race only within warps.
    Warp,
    /// The threads are in one block, and no barrier is between the accesses. If the run ended
    /// because the warp's load read elements that nobody has written yet, the two threads may be
    /// lanes of one warp: another warp may still write the rest, and `bar_warp` would not wait for
    /// it.
    Block,
    /// The threads are in two blocks of one cluster, and neither a barrier of the cluster nor an
    /// mbarrier is between the accesses.
    Cluster,
    /// The threads are in different clusters, and no release and acquire of scope `gpu` is between
    /// the accesses.
    Grid,
    /// Both operations are strong, but one's scope does not include the other's thread.
    Scope {
        /// The narrowest scope that includes both threads.
        needed: MemScope,
    },
    /// The accesses are ordered, but no `fence.proxy.async` makes the write visible to the
    /// asynchronous proxy.
    ProxyFence,
    /// An asynchronous write follows a thread's read of the same bytes. The two are ordered, but
    /// not for the asynchronous proxy. PTX asks for a `fence.proxy.async` here, and CUTLASS omits
    /// it. See [`Options::fence_after_reads`](crate::sim::Options::fence_after_reads).
    ProxyFenceAfterRead,
    /// The mbarrier's initialisation is not followed by a `fence.mbarrier_init`.
    InitFence,
    /// The earlier access belongs to an operation that signals an mbarrier, such as a TMA load, and
    /// the operation has not completed.
    Pending,
    /// The earlier access belongs to a `cp.async`, a bulk store or a `wgmma`, and the thread that
    /// issued the operation (for `wgmma`, every warp of the group) has not waited for it.
    Wait,
    /// The asynchronous operation of the earlier access has completed, but the thread of the later
    /// access neither waited for it nor synchronised with a thread that did.
    Publish,
    /// A programmatic launch does not wait for the previous launch, which may still run.
    Launch,
    /// A programmatic launch has waited, but a launch between did not, so a still earlier
    /// launch may run.
    LaunchBetween,
}

impl MissingEdge {
    /// Returns how far apart two threads without a barrier are, from 1 for lanes of a warp; 0 for
    /// everything but missing barriers.
    pub(in crate::sim) fn distance(self) -> u32 {
        match self {
            MissingEdge::Warp => 1,
            MissingEdge::Block => 2,
            MissingEdge::Cluster => 3,
            MissingEdge::Grid => 4,
            MissingEdge::Scope { .. }
            | MissingEdge::ProxyFence
            | MissingEdge::ProxyFenceAfterRead
            | MissingEdge::InitFence
            | MissingEdge::Pending
            | MissingEdge::Wait
            | MissingEdge::Publish
            | MissingEdge::Launch
            | MissingEdge::LaunchBetween => 0,
        }
    }
}

/// Two unordered accesses to the same bytes, of which at least one writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Race {
    /// The access that the simulator executed later.
    pub(in crate::sim) by: Party,
    /// The access that it executed earlier.
    pub(in crate::sim) other: Party,
    pub(in crate::sim) target: Target,
    /// The first byte that both touch, and how many bytes of its word both touch.
    pub(in crate::sim) byte: usize,
    pub(in crate::sim) bytes: u32,
    pub(in crate::sim) missing: MissingEdge,
}

/// One of the two accesses of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Party {
    pub(in crate::sim) agent: Agent,
    pub(in crate::sim) writes: bool,
    pub(in crate::sim) cluster: u32,
    /// The block's rank in its cluster.
    pub(in crate::sim) rank: u32,
    /// The warp in its block (a warp group's first), and the lane.
    pub(in crate::sim) warp: u32,
    pub(in crate::sim) lane: u32,
    pub(in crate::sim) step: u32,
    /// Which earlier launch, counted from the most recent one; `None` for the current launch.
    pub(in crate::sim) launch: Option<u32>,
}

/// The later access of a race, before its lane's block is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    /// The warp's index in its cluster.
    pub(super) warp: u32,
    pub(super) lane: u32,
    pub(super) agent: Agent,
    pub(super) writes: bool,
    pub(super) strong: bool,
    pub(super) target: Target,
    pub(super) step: u32,
}

impl Source {
    fn agent(self) -> Agent {
        match self {
            Source::Threads | Source::Barrier | Source::Launches => Agent::Thread,
            Source::Copies => Agent::Copy,
            Source::Loads => Agent::Load,
            Source::StoreReads | Source::StoreWrites => Agent::Store,
            Source::Tensor => Agent::Wgmma,
        }
    }
}

impl Races {
    /// Makes the race between two lanes that store different values to the same bytes in one
    /// operation.
    pub(in crate::sim) fn same_operation(
        &self,
        at: At,
        lane: u32,
        other: u32,
        target: Target,
        byte: usize,
        bytes: usize,
    ) -> Race {
        let party = |lane| Party {
            agent: Agent::Thread,
            writes: true,
            cluster: self.cluster as u32,
            rank: at.block,
            warp: at.warp,
            lane,
            step: at.step,
            launch: None,
        };
        let (by, other) = (party(lane), party(other));
        Race { by, other, target, byte, bytes: bytes as u32, missing: MissingEdge::Warp }
    }

    /// Turns a clash into a race, and finds the synchronisation that is missing.
    pub(super) fn race(&self, grid: Option<&Grid>, clash: &Clash, later: Later) -> Race {
        let record = &clash.record;
        let (cluster, source, number) = self.layout.source(record.component);
        let lanes = record.lanes_at(clash.bytes);
        let own = record.component == self.threads[later.warp as usize].own[0];
        let others = if own { lanes & !(1 << later.lane) } else { lanes };
        let lanes = if others == 0 { lanes } else { others };
        let lane = lanes.trailing_zeros() & 31;
        let other = Party {
            agent: source.agent(),
            writes: record.writes(),
            cluster,
            rank: number / self.layout.warps_of_block,
            warp: number % self.layout.warps_of_block,
            lane,
            step: record.step(),
            launch: None,
        };
        let missing = self.missing(grid, clash, source, number, lane, later);
        Race {
            by: self.by(later),
            other,
            target: later.target,
            byte: clash.word * 4 + clash.bytes.trailing_zeros() as usize,
            bytes: clash.bytes.count_ones(),
            missing,
        }
    }

    fn by(&self, later: Later) -> Party {
        Party {
            agent: later.agent,
            writes: later.writes,
            cluster: self.cluster as u32,
            rank: later.warp / self.layout.warps_of_block,
            warp: later.warp % self.layout.warps_of_block,
            lane: later.lane,
            step: later.step,
            launch: None,
        }
    }

    /// Turns a clash with an access of an earlier launch into a race.
    pub(super) fn overlapped(&self, overlap: &Overlap, found: &Overlapped, later: Later) -> Race {
        let Overlapped { launch, record, byte, bytes, waited } = *found;
        let before = overlap.before.get(launch);
        let layout = before.map_or(Layout::default(), |before| before.footprint.layout);
        let (cluster, source, number) = layout.source(record.component);
        let warps = layout.warps_of_block.max(1);
        let other = Party {
            agent: source.agent(),
            writes: record.writes(),
            cluster,
            rank: number / warps,
            warp: number % warps,
            lane: record.lanes_at(1 << (byte % 4)).trailing_zeros() & 31,
            step: record.step(),
            launch: Some(launch as u32),
        };
        let missing = if waited { MissingEdge::LaunchBetween } else { MissingEdge::Launch };
        let target = later.target;
        Race { by: self.by(later), other, target, byte, bytes: bytes.count_ones(), missing }
    }

    fn missing(
        &self,
        grid: Option<&Grid>,
        clash: &Clash,
        source: Source,
        number: u32,
        lane: u32,
        later: Later,
    ) -> MissingEdge {
        let record = &clash.record;
        if clash.order == Order::Invisible {
            return match record.writes() {
                true => MissingEdge::ProxyFence,
                false => MissingEdge::ProxyFenceAfterRead,
            };
        }
        let distance = self.layout.distance(self.range, later.warp, record.component);
        if later.strong && record.strong().is_some() {
            return MissingEdge::Scope { needed: distance };
        }
        let is_near = self.is_near(record.component);
        // Whether the thread that issued an operation has waited for it.
        let waited = |wing| {
            is_near && self.threads[number as usize].state(lane).waited(wing) >= record.count
        };
        match source {
            Source::Threads | Source::Barrier | Source::Launches => match distance {
                MemScope::Cta if number == later.warp => MissingEdge::Warp,
                MemScope::Cta => MissingEdge::Block,
                MemScope::Cluster => MissingEdge::Cluster,
                MemScope::Gpu | MemScope::Sys => MissingEdge::Grid,
            },
            Source::Copies | Source::StoreReads | Source::StoreWrites => {
                let own = (number, lane) == (later.warp, later.lane);
                let wing = match source {
                    Source::Copies => 1,
                    Source::StoreReads => 2,
                    _ => 3,
                };
                match waited(wing) {
                    true if !own => MissingEdge::Publish,
                    _ => MissingEdge::Wait,
                }
            }
            Source::Loads => {
                let near = self.completions.get(record.count as usize).copied();
                let far = || grid?.completions.get(&(record.component, record.count)).copied();
                let found = if is_near { near } else { far() };
                match found {
                    Some(found) if !found.is_pending() => MissingEdge::Publish,
                    _ => MissingEdge::Pending,
                }
            }
            Source::Tensor => {
                let last = (number + 4).min(self.threads.len() as u32);
                let waited = (number..last).any(|warp| {
                    let order = &self.threads[warp as usize].state(0).known.order;
                    is_near && order.base(record.component) >= record.count
                });
                if waited { MissingEdge::Publish } else { MissingEdge::Wait }
            }
        }
    }
}
