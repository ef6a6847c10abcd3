//! Software pipelining: prefetches the loads of later iterations in loops that request it with
//! `.prefetch_stages(n)`.
//!
//! `analysis/prefetch.rs` splits the body of such a loop into an ahead part (the loads and the
//! operations that they depend on) and an in-time part (all other operations). That file also lists
//! which loops it rejects. A loop with `t` iterations that prefetches `n` ahead becomes:
//!
//! 1. A prologue that runs the ahead part for iterations `0..n`.
//! 2. A main loop of `t - n` iterations. Iteration `i` runs the ahead part for iteration `i + n`,
//!    then its own in-time part with the values that were prefetched for it.
//! 3. A drain of `n` iterations that runs only the in-time part.
//! 4. Prefetched values are carried in a ring buffer of registers with `n` stages, plus one while
//!    an iteration runs. Each iteration shifts it by one.
//! 5. If the body fills shared-memory tiles and reads them, the tiles are filled ahead too. Each
//!    tile becomes a ring buffer of `n + 1` stages.
//!    * An iteration of the main loop passes a barrier, loads ahead, uses its stage, and then
//!      stores what it loaded into the stage that the previous iteration used. This is the
//!      iteration's only barrier; one more follows the drain.
//!    * If `cp.async` fills the tiles, the copies start right after the barrier, as a group of
//!      their own. Before the barrier, an iteration waits until at most `n - 1` groups are pending.
//!      The drain waits for all.
//!    * If bulk copies fill the tiles, there are `n + 1` mbarriers, initialised where the original
//!      one is. The copies for iteration `i + n` start after the barrier of iteration `i`, which
//!      then waits for its own stage's mbarrier. The parity flips after each round through all
//!      stages.
//! 6. A loop with fewer than `n` iterations is copied unchanged. If `t` is unknown, both versions
//!    are emitted and a branch chooses.
//! 7. The main loop keeps the loop's unroll request. The drain is not unrolled; for `n` = 1 it is a
//!    single iteration without a loop.

use super::counted::{Counted, unsigned};
use super::rewrite::Rewrite;
use crate::ir::analysis::bulk_staging::Full;
use crate::ir::analysis::prefetch::{Split, split};
use crate::ir::analysis::staging::Tiles;
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{
    Arith, AsyncCopy, Compare, Control, Mbarrier, Mem, Op, Sync, Unroll, ValueList,
};
use crate::ir::types::{Scalar, Type};

/// Pipelines the loops that request it. The verifier has checked that each of these loops can be
/// split.
pub(super) fn pipeline(ir: &KernelIr) -> KernelIr {
    let mut rewrite = Rewrite::new(ir);
    let body = rewrite.out.body;
    rewrite.declare_vars(ir.body, body);
    for id in ir.ops.keys() {
        let asks = Counted::new(ir, id).filter(|counted| counted.prefetch > 0);
        let Some(counted) = asks.filter(|counted| !stays(counted)) else { continue };
        let full = split(ir, id, counted.body).ok().and_then(|split| split.tiles?.full);
        let Some(full) = full else { continue };
        let stride = Tiles::stride(ir, full.shared);
        for init in full.inits {
            rewrite.further.insert(init, (counted.prefetch, stride));
        }
    }
    copy_ops(&mut rewrite, &ir.regions[ir.body].ops, body);
    rewrite.out
}

fn copy_ops(rewrite: &mut Rewrite<'_>, ops: &[OpId], region: RegionId) {
    let source = rewrite.source;
    for &id in ops {
        let asks = Counted::new(source, id).filter(|counted| counted.prefetch > 0);
        let plan = asks.and_then(|counted| {
            let split = split(source, id, counted.body).ok()?;
            Some(Pipeline { counted, split, stages: counted.prefetch })
        });
        if let Some(plan) = plan {
            plan.write(rewrite, region);
        } else if source.ops[id].op.regions().is_empty() {
            rewrite.copy_plain(id, region);
            if let Some((further, stride)) = rewrite.further.get(&id).copied() {
                make_further(rewrite, id, region, further, stride);
            }
        } else {
            for (inner, copy) in rewrite.copy_owner(id, region) {
                copy_ops(rewrite, &source.regions[inner].ops, copy);
            }
        }
    }
}

/// Returns whether the loop is known to have too few iterations to prefetch (rule 6).
fn stays(counted: &Counted<'_>) -> bool {
    counted.trips().is_some_and(|trips| trips.count < counted.prefetch.into())
}

/// Initialises the mbarriers of the additional stages like the first one.
fn make_further(
    rewrite: &mut Rewrite<'_>,
    init: OpId,
    region: RegionId,
    further: u32,
    stride: u64,
) {
    let source = rewrite.source;
    let Op::Mbarrier(Mbarrier::MbarrierInit { barrier, count, .. }) = source.ops[init].op else {
        return;
    };
    let (location, count) = (source.ops[init].location, rewrite.value(count));
    let barrier = rewrite.value(barrier);
    for stage in 1..=further {
        let index = rewrite.constant(region, location, Scalar::I32, u64::from(stage) * stride);
        rewrite.push(region, location, Mbarrier::MbarrierInit { barrier, index, count }, &[]);
    }
}

/// A loop to pipeline.
struct Pipeline<'k> {
    counted: Counted<'k>,
    split: Split,
    stages: u32,
}

/// The state at the start of an iteration: the index, the index to prefetch for (absent in the
/// drain), the tile stages to use and to fill, the parity for the stage to use, the carried values,
/// and the prefetched values of each stage.
struct State {
    index: Value,
    ahead: Option<Value>,
    stage: Option<Value>,
    fill: Option<Value>,
    parity: Option<Value>,
    carried: ValueList,
    fetched: Vec<ValueList>,
}

impl State {
    fn values(&self) -> ValueList {
        let mut values = ValueList::from_slice(&[self.index]);
        values.extend(self.ahead.into_iter().chain(self.stage).chain(self.fill).chain(self.parity));
        values.extend_from_slice(&self.carried);
        self.fetched.iter().for_each(|stage| values.extend_from_slice(stage));
        values
    }

    /// Returns a state of the same shape with other values.
    fn with(&self, values: &[Value]) -> State {
        let mut values = values.iter().copied();
        let mut next = |default: Value| values.next().unwrap_or(default);
        let index = next(self.index);
        let [ahead, stage, fill, parity] =
            [self.ahead, self.stage, self.fill, self.parity].map(|value| value.map(&mut next));
        let carried = self.carried.iter().map(|value| next(*value)).collect();
        let of_stage = |stage: &ValueList| stage.iter().map(|value| next(*value)).collect();
        let fetched = self.fetched.iter().map(of_stage).collect();
        State { index, ahead, stage, fill, parity, carried, fetched }
    }
}

impl Pipeline<'_> {
    fn write(&self, rewrite: &mut Rewrite<'_>, region: RegionId) {
        let Counted { source, id, location, init, .. } = self.counted;
        let results = &source.ops[id].results;
        let stages = u128::from(self.stages);
        let unsigned = unsigned(self.counted.scalar);
        match self.counted.trips() {
            Some(_) if stays(&self.counted) => self.plain(rewrite, region),
            Some(trips) => {
                let main = trips.count - stages;
                let count =
                    (main > 0).then(|| rewrite.constant(region, location, unsigned, main as u64));
                let carried = self.pipelined(rewrite, region, count);
                rewrite.rename(results, &carried);
            }
            None => {
                let trips = self.counted.trip_count(rewrite, region);
                let rhs = rewrite.constant(region, location, unsigned, self.stages.into());
                let enough = Arith::Setp { lhs: trips, rhs, compare: Compare::Ge };
                let cond = rewrite.arith(region, location, Scalar::Bool, enough);
                let (then_region, _) = rewrite.new_region(location, &[]);
                let (else_region, _) = rewrite.new_region(location, &[]);
                let types = rewrite.types(init);
                let control = Control::If { cond, then_region, else_region: Some(else_region) };
                let (_, joined) = rewrite.push(region, location, control, &types);
                let count =
                    rewrite.arith(then_region, location, unsigned, Arith::Sub { lhs: trips, rhs });
                let values = self.pipelined(rewrite, then_region, Some(count));
                rewrite.push(then_region, location, Control::Yield { values }, &[]);
                self.plain(rewrite, else_region);
                let values = rewrite.values(results);
                rewrite.push(else_region, location, Control::Yield { values }, &[]);
                rewrite.rename(results, &joined);
            }
        }
    }

    /// Rule 6: copies the loop without prefetching.
    fn plain(&self, rewrite: &mut Rewrite<'_>, region: RegionId) {
        let source = self.counted.source;
        let copies = rewrite.copy_owner(self.counted.id, region);
        for (inner, copy) in copies {
            if let Some(copied) = rewrite.out.regions[copy].parent
                && let Op::Control(Control::For { prefetch, .. }) = &mut rewrite.out.ops[copied].op
            {
                *prefetch = 0;
            }
            copy_ops(rewrite, &source.regions[inner].ops, copy);
        }
    }

    /// Emits prologue, main loop of `main` iterations, and drain. Returns the last carried values.
    fn pipelined(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        main: Option<Value>,
    ) -> ValueList {
        let location = self.counted.location;
        let first = rewrite.value(self.counted.lo);
        let mut ahead = first;
        let mut fetched = Vec::new();
        let (mut stage, mut fill) = (None, None);
        let pointers = self.pointers();
        let original = rewrite.values(&pointers);
        if let Some(tiles) = &self.split.tiles {
            for &shared in &tiles.shared {
                // The verifier has checked that this fits in the block's shared memory.
                let len = Tiles::stride(rewrite.source, shared) * u64::from(self.stages + 1);
                rewrite.out.shared[shared].len = u32::try_from(len).unwrap_or(u32::MAX);
            }
            stage = Some(rewrite.constant(region, location, Scalar::I32, 0));
            fill = Some(rewrite.constant(region, location, Scalar::I32, self.stages.into()));
        }
        for number in 0..self.stages {
            fetched.push(self.fetch(rewrite, region, ahead));
            if self.split.tiles.is_some() {
                let number = rewrite.constant(region, location, Scalar::I32, number.into());
                self.store(rewrite, region, number, &original);
            }
            ahead = self.next(rewrite, region, ahead);
        }
        let carried = rewrite.values(self.counted.init);
        let full = self.full().is_some();
        let parity = full.then(|| rewrite.constant(region, location, Scalar::U32, 0));
        let (index, ahead) = (first, Some(ahead));
        let mut state = State { index, ahead, stage, fill, parity, carried, fetched };
        if let Some(main) = main {
            let unroll = self.counted.unroll;
            state = self.rounds(rewrite, region, main, unroll, state, &original);
        }
        (state.ahead, state.fill) = (None, None);
        let state = if self.stages == 1 {
            self.iteration(rewrite, region, state, &original)
        } else {
            let unsigned = unsigned(self.counted.scalar);
            let count = rewrite.constant(region, location, unsigned, self.stages.into());
            self.rounds(rewrite, region, count, Unroll::Keep, state, &original)
        };
        if self.split.tiles.is_some() {
            // An outer loop may enter this one again and fill the first stages while other threads
            // still use the last ones.
            rewrite.push(region, location, Sync::Barrier {}, &[]);
            rewrite.rename(&pointers, &original);
        }
        state.carried
    }

    /// Emits a loop of `count` iterations that starts with `state`. Returns the final state.
    fn rounds(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        count: Value,
        unroll: Unroll,
        state: State,
        original: &[Value],
    ) -> State {
        let (location, unsigned) = (self.counted.location, unsigned(self.counted.scalar));
        let init = state.values();
        let types: Vec<Type> = init.iter().map(|value| rewrite.out.type_of(*value)).collect();
        let mut args = vec![Type::Scalar(unsigned)];
        args.extend(&types);
        let (body, args) = rewrite.new_region(location, &args);
        let lo = rewrite.constant(region, location, unsigned, 0);
        let step = rewrite.constant(region, location, unsigned, 1);
        let control = Control::For { lo, hi: count, step, unroll, prefetch: 0, init, body };
        let (target, results) = rewrite.push(region, location, control, &types);
        let next = self.iteration(rewrite, body, state.with(&args[1..]), original);
        let values = next.values();
        rewrite.push(body, location, Control::Continue { target, values }, &[]);
        state.with(&results)
    }

    /// Emits one iteration. Returns the next iteration's state.
    fn iteration(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        mut state: State,
        original: &[Value],
    ) -> State {
        let Counted { source, body, location, .. } = self.counted;
        if self.is_asynchronous() {
            let pending = if state.fill.is_some() { self.stages - 1 } else { 0 };
            rewrite.push(region, location, AsyncCopy::CpAsyncWaitGroup { pending }, &[]);
        }
        if self.split.tiles.is_some() {
            rewrite.push(region, location, Sync::Barrier {}, &[]);
        }
        let fetched = state.ahead.map(|ahead| self.fetch(rewrite, region, ahead));
        let (begins, ends) = if self.is_early() { (state.fill, None) } else { (None, state.fill) };
        if let Some(fill) = begins {
            self.store(rewrite, region, fill, original);
        }
        // Keep the ahead part's results for the stores below, because the in-time part reuses the
        // same source values.
        let early = self.early_values();
        let kept = rewrite.values(&early);
        let args = &source.regions[body].args;
        rewrite.rename(args, &[state.index]);
        rewrite.rename(args.get(1..).unwrap_or(&[]), &state.carried);
        if let Some(now) = state.fetched.first() {
            rewrite.rename(&self.split.fetched, now);
        }
        rewrite.declare_vars(body, region);
        if let Some(stage) = state.stage {
            self.point(rewrite, region, stage, original);
        }
        if let (Some(full), Some(parity)) = (self.full(), state.parity) {
            let (barrier, at) = (rewrite.value(full.pointer), source.ops[full.wait].location);
            let index = rewrite.constant(region, at, Scalar::I32, 0);
            let wait = Mbarrier::MbarrierWaitParity { barrier, index, parity };
            rewrite.push(region, at, wait, &[]);
        }
        copy_ops(rewrite, &self.split.in_time, region);
        if let Some(last) = source.regions[body].ops.last()
            && let Op::Control(Control::Continue { values, .. }) = &source.ops[*last].op
        {
            state.carried = rewrite.values(values);
        }
        if let Some(fill) = ends {
            rewrite.rename(&early, &kept);
            self.store(rewrite, region, fill, original);
        }
        // The drain prefetches nothing, and its last prefetched values are unused.
        state.fetched.extend(fetched.or_else(|| state.fetched.last().cloned()));
        state.fetched.remove(0);
        state.index = self.next(rewrite, region, state.index);
        state.ahead = state.ahead.map(|ahead| self.next(rewrite, region, ahead));
        let mut turn = |stage: Value| self.next_stage(rewrite, region, stage);
        state.stage = state.stage.map(&mut turn);
        state.fill = state.fill.map(&mut turn);
        if let (Some(stage), Some(parity)) = (state.stage, state.parity) {
            state.parity = Some(self.parity(rewrite, region, stage, parity));
        }
        state
    }

    /// Returns the index and the results of the ahead part.
    fn early_values(&self) -> Vec<Value> {
        let Counted { source, body, .. } = self.counted;
        let index = source.regions[body].args.first();
        let results = self.split.ahead.iter().flat_map(|op| &source.ops[*op].results);
        index.into_iter().chain(results).copied().collect()
    }

    /// Returns the pointers to the tiles that come from outside the loop.
    fn pointers(&self) -> Vec<Value> {
        let tiles = self.split.tiles.iter().flat_map(|tiles| &tiles.pointers);
        tiles.map(|(pointer, _)| *pointer).collect()
    }

    /// Redirects the pointers to the tiles to a stage.
    fn point(&self, rewrite: &mut Rewrite<'_>, region: RegionId, stage: Value, original: &[Value]) {
        let (source, location) = (self.counted.source, self.counted.location);
        let tiles = self.split.tiles.iter().flat_map(|tiles| &tiles.pointers);
        for (&(pointer, shared), &base) in tiles.zip(original) {
            let stride = Tiles::stride(source, shared);
            let rhs = rewrite.constant(region, location, Scalar::I32, stride);
            let index =
                rewrite.arith(region, location, Scalar::I32, Arith::Mul { lhs: stage, rhs });
            let ty = source.type_of(pointer);
            let moved = rewrite.push_value(region, location, Mem::Offset { base, index }, ty);
            rewrite.rename(&[pointer], &[moved]);
        }
    }

    /// Fills a stage of the tiles with the values that were loaded last.
    fn store(&self, rewrite: &mut Rewrite<'_>, region: RegionId, stage: Value, original: &[Value]) {
        self.point(rewrite, region, stage, original);
        copy_ops(rewrite, &self.split.fill, region);
        if self.is_asynchronous() {
            rewrite.push(region, self.counted.location, AsyncCopy::CpAsyncCommitGroup {}, &[]);
        }
    }

    /// Returns whether `cp.async` fills the tiles.
    fn is_asynchronous(&self) -> bool {
        self.split.tiles.as_ref().is_some_and(|tiles| !tiles.waits.is_empty())
    }

    /// Returns the mbarrier of bulk copies, if there is one.
    fn full(&self) -> Option<&Full> {
        self.split.tiles.as_ref().and_then(|tiles| tiles.full.as_ref())
    }

    /// Returns whether an iteration starts its copies before it uses its own stage.
    fn is_early(&self) -> bool {
        self.is_asynchronous() || self.full().is_some()
    }

    /// Emits the parity for the next stage, `stage`. It flips when the stages wrap around.
    fn parity(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        stage: Value,
        parity: Value,
    ) -> Value {
        let location = self.counted.location;
        let zero = rewrite.constant(region, location, Scalar::I32, 0);
        let one = rewrite.constant(region, location, Scalar::U32, 1);
        let mut arith = |scalar, op| rewrite.arith(region, location, scalar, op);
        let is_first = Arith::Setp { lhs: stage, rhs: zero, compare: Compare::Eq };
        let cond = arith(Scalar::Bool, is_first);
        let other = arith(Scalar::U32, Arith::Xor { lhs: parity, rhs: one });
        arith(Scalar::U32, Arith::Selp { cond, then_value: other, else_value: parity })
    }

    /// Emits the stage after `stage`; 0 follows the last.
    fn next_stage(&self, rewrite: &mut Rewrite<'_>, region: RegionId, stage: Value) -> Value {
        let location = self.counted.location;
        let one = rewrite.constant(region, location, Scalar::I32, 1);
        let count = rewrite.constant(region, location, Scalar::I32, u64::from(self.stages) + 1);
        let zero = rewrite.constant(region, location, Scalar::I32, 0);
        let mut arith = |scalar, op| rewrite.arith(region, location, scalar, op);
        let next = arith(Scalar::I32, Arith::Add { lhs: stage, rhs: one });
        let compare = Compare::Lt;
        let more = arith(Scalar::Bool, Arith::Setp { lhs: next, rhs: count, compare });
        arith(Scalar::I32, Arith::Selp { cond: more, then_value: next, else_value: zero })
    }

    /// Emits the ahead part for the iteration with this index, and returns the prefetched values.
    fn fetch(&self, rewrite: &mut Rewrite<'_>, region: RegionId, index: Value) -> ValueList {
        let args = &self.counted.source.regions[self.counted.body].args;
        rewrite.rename(args, &[index]);
        copy_ops(rewrite, &self.split.ahead, region);
        rewrite.values(&self.split.fetched)
    }

    fn next(&self, rewrite: &mut Rewrite<'_>, region: RegionId, index: Value) -> Value {
        let Counted { location, scalar, step, .. } = self.counted;
        let rhs = rewrite.value(step);
        rewrite.arith(region, location, scalar, Arith::Add { lhs: index, rhs })
    }
}
