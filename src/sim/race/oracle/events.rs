//! Random events (accesses, barriers, fences, ..) that make up the oracle's random programs. A new
//! kind of synchronisation needs an event here, and its effect on the model in `mod.rs`.

use proptest::prelude::*;

use super::super::*;
use super::model::{SCOPES, WARPS};

#[derive(Clone, Debug)]
pub(super) enum Event {
    Access {
        mask: u32,
        target: Target,
        at: usize,
        len: usize,
        writes: bool,
        strong: Option<Strong>,
    },
    WarpSync {
        mask: u32,
    },
    Arrive {
        mask: u32,
        id: u32,
    },
    Open {
        id: u32,
        warps: u32,
    },
    ClusterArrive {
        mask: u32,
        relaxed: bool,
    },
    ClusterOpen,
    ClusterWait {
        mask: u32,
    },
    Fence {
        mask: u32,
        scope: MemScope,
    },
    ProxyFence {
        mask: u32,
        shared: bool,
        global: bool,
    },
    MbarrierArrive {
        mask: u32,
        rank: usize,
        releases: bool,
    },
    MbarrierPhase {
        rank: usize,
    },
    MbarrierWait {
        mask: u32,
        rank: usize,
    },
    Copy {
        mask: u32,
        at: usize,
    },
    CopyCommit {
        mask: u32,
    },
    CopyWait {
        mask: u32,
        pending: Option<u32>,
    },
    Store {
        lane: u32,
        from: usize,
        to: Option<usize>,
        reduces: bool,
    },
    StoreCommit {
        mask: u32,
    },
    StoreWait {
        mask: u32,
        pending: u32,
        only_read: bool,
    },
    Load {
        lane: u32,
        rank: usize,
        to: usize,
        from: Option<usize>,
        is_async: bool,
    },
    Complete {
        index: usize,
    },
    Wgmma {
        at: usize,
    },
    WgmmaWait {
        pending: usize,
    },
}

pub(super) fn events() -> impl Strategy<Value = (usize, Event)> {
    let mask = || prop_oneof![Just(1u32), Just(2), Just(15), Just(3), Just(8), Just(u32::MAX)];
    let scope = || prop::sample::select(SCOPES.to_vec());
    let target = prop_oneof![
        3 => (0usize..2).prop_map(Target::Shared),
        2 => Just(Target::Global(0)),
    ];
    let strong = (scope(), any::<[bool; 2]>(), 0..3).prop_map(|(scope, [a, r], kind)| Strong {
        scope,
        acquires: a && kind != 1,
        releases: r && kind != 0,
        reads: kind != 1,
        writes: kind != 0,
    });
    let small = || (0usize..6).prop_map(|word| word * 4);
    let plain = (
        mask(),
        target.clone(),
        0usize..12,
        prop::sample::select(vec![1, 2, 4, 16]),
        any::<bool>(),
    );
    let plain = plain.prop_map(|(mask, target, at, len, writes)| Event::Access {
        mask,
        target,
        // Whole chunks of the shadow, which end below the mbarrier.
        at: if len == 16 { 0 } else { at * len },
        len,
        writes,
        strong: None,
    });
    let lane = prop_oneof![Just(1u32), Just(2)];
    let strong = (lane, target, small(), strong).prop_map(|(mask, target, at, strong)| {
        Event::Access { mask, target, at, len: 4, writes: strong.writes, strong: Some(strong) }
    });
    let event = prop_oneof![
        8 => plain,
        4 => strong,
        4 => mask().prop_map(|mask| Event::WarpSync { mask }),
        4 => (mask(), 0u32..2).prop_map(|(mask, id)| Event::Arrive { mask, id }),
        4 => (0u32..2, 1u32..4).prop_map(|(id, warps)| Event::Open { id, warps }),
        2 => (mask(), any::<bool>()).prop_map(|(mask, relaxed)| Event::ClusterArrive { mask, relaxed }),
        2 => Just(Event::ClusterOpen),
        2 => mask().prop_map(|mask| Event::ClusterWait { mask }),
        3 => (mask(), scope()).prop_map(|(mask, scope)| Event::Fence { mask, scope }),
        3 => (mask(), any::<bool>(), any::<bool>())
            .prop_map(|(mask, shared, global)| Event::ProxyFence { mask, shared, global }),
        3 => (mask(), 0usize..2, any::<bool>())
            .prop_map(|(mask, rank, releases)| Event::MbarrierArrive { mask, rank, releases }),
        3 => (0usize..2).prop_map(|rank| Event::MbarrierPhase { rank }),
        3 => (mask(), 0usize..2).prop_map(|(mask, rank)| Event::MbarrierWait { mask, rank }),
        2 => (mask(), small()).prop_map(|(mask, at)| Event::Copy { mask, at }),
        2 => mask().prop_map(|mask| Event::CopyCommit { mask }),
        2 => (mask(), prop::option::of(0u32..2))
            .prop_map(|(mask, pending)| Event::CopyWait { mask, pending }),
        2 => (0u32..2, small(), prop::option::of(small()), any::<bool>())
            .prop_map(|(lane, from, to, reduces)| Event::Store { lane, from, to, reduces }),
        2 => mask().prop_map(|mask| Event::StoreCommit { mask }),
        2 => (mask(), 0u32..2, any::<bool>())
            .prop_map(|(mask, pending, only_read)| Event::StoreWait { mask, pending, only_read }),
        2 => (0u32..2, 0usize..2, small(), prop::option::of(small()), any::<bool>())
            .prop_map(|(lane, rank, to, from, is_async)| Event::Load { lane, rank, to, from, is_async }),
        2 => (0usize..4).prop_map(|index| Event::Complete { index }),
        2 => small().prop_map(|at| Event::Wgmma { at }),
        2 => (0usize..2).prop_map(|pending| Event::WgmmaWait { pending }),
    ];
    (0..WARPS, event)
}
