//! Compares the detector with a naive model on random programs (`events.rs`).
//!
//! In the model, a thread knows a set of accesses, a synchronisation edge is a union of two sets,
//! and a new access is compared with all earlier ones.

mod events;
mod model;

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use self::events::{Event, events};
use self::model::{
    BARRIER, Done, Model, SCOPES, Set, THREADS, Verdict, WARPS, absolute, block, lanes,
};
use super::layout::rank;
use super::threads::Fact;
use super::*;

fn barrier(rank: usize) -> MbarrierAddress {
    MbarrierAddress { rank, byte: BARRIER }
}

/// How many bytes an asynchronous access has: a whole chunk of the shadow, or a word.
fn size(at: usize) -> usize {
    if at.is_multiple_of(16) { 16 } else { 4 }
}

/// The detector and the model, side by side.
struct Both {
    races: [Races; 2],
    /// For each pending load, its warp and the detector's number.
    issued: Vec<(usize, u32)>,
    /// Each warp's next `wgmma`.
    next: [u64; WARPS],
    /// The operand address of each `wgmma` of a block, because the warps of a group must agree on
    /// it.
    operands: [Vec<usize>; WARPS / 2],
    model: Model,
}

impl Both {
    fn new() -> Both {
        let grid: Arc<Mutex<Grid>> = Grid::new([256].into_iter(), None);
        let races = [0, 1].map(|cluster| {
            let mut races = Races::new(Arc::clone(&grid), 2, THREADS, 256);
            races.start(cluster);
            for block in 0..2 {
                let at = At { block, warp: 0, step: 0 };
                races.mbarrier_set(at, 0, barrier(block as usize));
            }
            races
        });
        let (next, operands) = ([0; WARPS], Default::default());
        Both { races, issued: Vec::new(), next, operands, model: Model::new() }
    }

    /// Makes one lane's access in the model.
    fn one(
        &mut self,
        warp: usize,
        lane: usize,
        proxy: Option<Fact>,
        new: Done,
    ) -> Result<usize, Verdict> {
        let known = self.model.threads[warp][lane].clone();
        self.model.access(&known, proxy, new)
    }

    fn apply(&mut self, warp: usize, event: &Event) -> (Vec<Race>, Verdict) {
        let at = At { block: (warp / 2 % 2) as u32, warp: (warp % 2) as u32, step: 1 };
        let fix = |mask: u32| if warp % 2 == 1 { mask & 15 } else { mask };
        let (cluster, own) = (warp / 4, warp / 2 % 2);
        let mut verdict = Verdict::Good;
        let done = |target: Target, bytes: std::ops::Range<usize>, writes: bool| Done {
            warp,
            target: absolute(warp, target),
            bytes,
            writes,
            strong: None,
            is_async: false,
            loads: false,
            generic: true,
            by_thread: false,
            observed: Set::new(),
        };
        let races = &mut self.races[cluster];
        match *event {
            Event::Access { mask, target, at: first, len, writes, strong } => {
                let mask = fix(mask);
                let what =
                    Lanes { target, writes, strong: strong.map(|strong| strong.scope), bytes: len };
                // Reads may overlap, writes are side by side.
                let step = if writes { len } else { len / 2 * 2 };
                let offset =
                    |lane: usize| if strong.is_some() { first } else { first + lane % 8 * step };
                let mask = if writes { mask & 0xff } else { mask };
                races.access(at, mask, what, offset, |_| false);
                if let Some(op) = strong {
                    races.operate(at, mask, target, offset, op);
                }
                for lane in lanes(warp, mask) {
                    let mut new = done(target, offset(lane)..offset(lane) + len, writes);
                    (new.strong, new.by_thread) = (what.strong, true);
                    let number = match self.one(warp, lane, None, new) {
                        Ok(number) => number,
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    };
                    self.model.threads[warp][lane].order.insert(number);
                    if let Some(op) = strong {
                        let at = (absolute(warp, target), first);
                        self.model.operate(warp, lane, number, at, op);
                    }
                }
            }
            Event::WarpSync { mask } => {
                races.warp_sync(at, fix(mask));
                let all = self.model.released(warp, mask);
                self.model.learn(warp, mask, &all);
            }
            Event::Arrive { mask, id } => {
                races.barrier_arrive(at, fix(mask), id);
                let all = self.model.released(warp, mask);
                self.model.barriers[block(warp)][id as usize].pending.join(&all);
            }
            Event::Open { id, warps } => {
                let waiting =
                    lanes_of(warps).map(|warp| (warp, if warp == 1 { 15 } else { u32::MAX }));
                races.barrier_open(own as u32, id, waiting);
                let barrier = &mut self.model.barriers[block(warp)][id as usize];
                let all = std::mem::take(&mut barrier.pending);
                for other in lanes_of(warps) {
                    self.model.learn(block(warp) * 2 + other as usize, u32::MAX, &all);
                }
            }
            Event::ClusterArrive { mask, relaxed } => {
                races.cluster_arrive(at, fix(mask), relaxed);
                let mut all = self.model.released(warp, mask);
                if relaxed {
                    let fenced = &all.facts[Fact::FencedCluster as usize];
                    all.order = all.order.intersection(fenced).copied().collect();
                }
                self.model.clusters[cluster].pending.join(&all);
            }
            Event::ClusterOpen => {
                races.cluster_open();
                let barrier = &mut self.model.clusters[cluster];
                barrier.done = std::mem::take(&mut barrier.pending);
            }
            Event::ClusterWait { mask } => {
                races.cluster_wait(at, fix(mask));
                let all = self.model.clusters[cluster].done.clone();
                self.model.learn(warp, mask, &all);
            }
            Event::Fence { mask, scope } => {
                races.fence(at, fix(mask), scope);
                for lane in lanes(warp, mask) {
                    let known = &mut self.model.threads[warp][lane];
                    for scope in &SCOPES[..=rank(scope) as usize] {
                        known.order.extend(&known.facts[Fact::seen(*scope) as usize]);
                    }
                    for scope in &SCOPES[..=rank(scope) as usize] {
                        known.facts[Fact::fenced(*scope) as usize].extend(&known.order);
                    }
                }
            }
            Event::ProxyFence { mask, shared, global } => {
                races.proxy_fence(at, fix(mask), shared, global);
                for lane in lanes(warp, mask) {
                    let known = &mut self.model.threads[warp][lane];
                    for (fact, set) in [(Fact::AsyncShared, shared), (Fact::AsyncGlobal, global)] {
                        if set {
                            known.facts[fact as usize].extend(&known.order);
                        }
                    }
                }
            }
            Event::MbarrierArrive { mask, rank, releases } => {
                races.mbarrier_arrive(at, fix(mask), barrier(rank), releases);
                let mut all = self.model.released(warp, mask);
                if !releases {
                    let fenced = &all.facts[Fact::FencedCluster as usize];
                    let history = &self.model.history;
                    let keep = |number: &usize| !history[*number].generic || history[*number].loads;
                    all.order.retain(|number| fenced.contains(number) || keep(number));
                }
                self.model.mbarriers[cluster * 2 + rank].pending.join(&all);
            }
            Event::MbarrierPhase { rank } => {
                races.mbarrier_phase(barrier(rank));
                let barrier = &mut self.model.mbarriers[cluster * 2 + rank];
                let all = std::mem::take(&mut barrier.pending);
                barrier.done.join(&all);
            }
            Event::MbarrierWait { mask, rank } => {
                races.mbarrier_wait(at, fix(mask), barrier(rank));
                let all = self.model.mbarriers[cluster * 2 + rank].done.clone();
                self.model.learn(warp, mask, &all);
            }
            Event::Copy { mask, at: first } => {
                races.copy_issue(at);
                let target = Target::Shared(own);
                for lane in lanes(warp, mask) {
                    let byte = first + lane % 8 * 4;
                    races.copy_access(at, lane as u32, target, true, &mut |f| f(byte, 4));
                }
                for lane in lanes(warp, mask) {
                    let byte = first + lane % 8 * 4;
                    match self.one(warp, lane, None, done(target, byte..byte + 4, true)) {
                        Ok(number) => self.model.copies[warp][lane].open.push(number),
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                }
            }
            Event::CopyCommit { mask } => {
                races.copy_commit(at, fix(mask));
                for lane in lanes(warp, mask) {
                    let copies = &mut self.model.copies[warp][lane];
                    let open = std::mem::take(&mut copies.open);
                    copies.groups.push(open);
                }
            }
            Event::CopyWait { mask, pending } => {
                races.copy_wait(at, fix(mask), pending);
                for lane in lanes(warp, mask) {
                    let waited = self.model.copies[warp][lane].waited(pending);
                    self.model.threads[warp][lane].order.extend(waited);
                }
            }
            Event::Store { lane, from, to, reduces } => {
                let mut first = |f: &mut dyn FnMut(usize, usize)| f(from, size(from));
                let second_at = to.unwrap_or(0);
                let mut second = |f: &mut dyn FnMut(usize, usize)| f(second_at, size(second_at));
                let target: Option<(usize, super::agents::Pieces<'_>)> = match to {
                    None => None,
                    Some(_) => Some((0, &mut second)),
                };
                races.store_issue(at, lane, &mut first, target, reduces);
                let lane = lane as usize;
                let mut new = done(Target::Shared(own), from..from + size(from), false);
                (new.is_async, new.generic) = (true, false);
                let mut all = vec![(new, Fact::AsyncShared)];
                if let Some(to) = to {
                    let mut new = done(Target::Global(0), to..to + size(to), true);
                    (new.is_async, new.generic) = (true, false);
                    new.strong = reduces.then_some(MemScope::Gpu);
                    all.push((new, Fact::AsyncGlobal));
                }
                for (new, fact) in all {
                    match self.one(warp, lane, Some(fact), new) {
                        Ok(number) => self.model.stores[warp][lane].open.push(number),
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                }
            }
            Event::StoreCommit { mask } => {
                races.store_commit(at, fix(mask));
                for lane in lanes(warp, mask) {
                    let stores = &mut self.model.stores[warp][lane];
                    let open = std::mem::take(&mut stores.open);
                    stores.groups.push(open);
                }
            }
            Event::StoreWait { mask, pending, only_read } => {
                races.store_wait(at, fix(mask), pending, only_read);
                for lane in lanes(warp, mask) {
                    let mut waited = self.model.stores[warp][lane].waited(Some(pending));
                    let history = &self.model.history;
                    waited.retain(|number| !only_read || !history[*number].writes);
                    self.model.threads[warp][lane].order.extend(waited);
                }
            }
            Event::Load { lane, rank, to, from, is_async } => {
                let mut first = |f: &mut dyn FnMut(usize, usize)| f(to, size(to));
                let second_at = from.unwrap_or(0);
                let mut second = |f: &mut dyn FnMut(usize, usize)| f(second_at, size(second_at));
                let source: Option<(usize, super::agents::Pieces<'_>)> = match from {
                    Some(_) if is_async => Some((0, &mut second)),
                    _ => None,
                };
                let write = MbarrierWrite { rank, is_async, reduces: false };
                let issued = races.load_issue(at, lane, write, &mut first, source);
                self.issued.push((warp, issued));
                let lane = lane as usize;
                let mut new = done(Target::Shared(rank), to..to + size(to), true);
                (new.is_async, new.generic, new.loads) = (is_async, false, true);
                let mut all = vec![(new, is_async.then_some(Fact::AsyncShared))];
                if let Some(from) = from.filter(|_| is_async) {
                    let mut new = done(Target::Global(0), from..from + size(from), false);
                    (new.is_async, new.generic, new.loads) = (true, false, true);
                    all.push((new, Some(Fact::AsyncGlobal)));
                }
                let mut numbers = Vec::new();
                for (new, fact) in all {
                    match self.one(warp, lane, fact, new) {
                        Ok(number) => numbers.push(number),
                        Err(found) => {
                            verdict = found;
                            break;
                        }
                    }
                }
                {
                    self.model.loads.push((numbers, cluster * 2 + rank, true));
                }
            }
            Event::Complete { index } => {
                if let Some((numbers, block, pending)) = self.model.loads.get_mut(index)
                    && *pending
                {
                    *pending = false;
                    self.model.mbarriers[*block].pending.order.extend(numbers.iter());
                    let (warp, number) = self.issued[index];
                    let at = At { block: (warp / 2 % 2) as u32, warp: (warp % 2) as u32, step: 1 };
                    self.races[warp / 4].load_complete(at, number, barrier(*block % 2));
                }
            }
            Event::Wgmma { at: first } => {
                let number = self.next[warp];
                self.next[warp] += 1;
                let operands = &mut self.operands[block(warp)];
                if operands.len() <= number as usize {
                    operands.push(first);
                }
                let first = operands[number as usize];
                races.wgmma_issue(at, number, &mut |f| f(first, size(first)));
                let known = self.model.released(warp, u32::MAX);
                let mut new = done(Target::Shared(own), first..first + size(first), false);
                (new.is_async, new.generic) = (true, false);
                match self.model.access(&known, Some(Fact::AsyncShared), new) {
                    Ok(access) => {
                        let all = &mut self.model.tensor[block(warp)];
                        all.resize(all.len().max(number as usize + 1), Vec::new());
                        all[number as usize].push(access);
                    }
                    Err(found) => verdict = found,
                }
            }
            Event::WgmmaWait { pending } => {
                let end = self.next[warp].saturating_sub(pending as u64);
                // A warp waits for what its whole group has reached.
                let end = end.min(self.next[warp ^ 1]);
                races.wgmma_wait(at, end);
                let all: Vec<usize> = self.model.tensor[block(warp)]
                    .iter()
                    .take(end as usize)
                    .flatten()
                    .copied()
                    .collect();
                for lane in 0..32 {
                    self.model.threads[warp][lane].order.extend(&all);
                }
            }
        }
        (self.races[cluster].take_found(), verdict)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Detector and model find the first race at the same access, whatever happened before.
    #[test]
    fn clocks_and_sets_find_the_same_races(program in prop::collection::vec(events(), 1..60)) {
        let mut both = Both::new();
        for (warp, event) in &program {
            let (raced, verdict) = both.apply(*warp, event);
            prop_assert_eq!(!raced.is_empty(), verdict != Verdict::Good, "{:?} {:?}: {:?} {:?}", warp, event, raced, verdict);
            let ends = !raced.is_empty();
            if verdict == Verdict::Invisible {
                let fences = [MissingEdge::ProxyFence, MissingEdge::ProxyFenceAfterRead];
                prop_assert!(raced.iter().any(|race| fences.contains(&race.missing)));
            }
            if ends {
                break;
            }
        }
    }
}
