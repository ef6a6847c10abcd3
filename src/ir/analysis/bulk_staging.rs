//! Finds tiles that a loop fills with bulk or tensor copies (TMA) and that can be filled ahead,
//! with an mbarrier per stage. `.prefetch_stages` needs it for loops with TMA; `prefetch.rs` asks
//! it.
//!
//! The loop body must have the form
//!
//! ```text
//! fill    if of an elected thread { mbarrier_arrive_expect_tx<full>; bulk or tensor copies to the tiles, with full }
//! mbarrier_wait_parity<full>, for the parity of the iteration
//! use     loads from the tiles and fence_proxy_async; wgmma of descriptors made here, committed and waited for
//! barrier
//! ```
//!
//! The conditions are
//!
//! * The body has one block barrier and one mbarrier wait, and no other synchronisation except
//!   `fence_proxy_async`, warp-level and tensor core operations.
//! * Each shared allocation that it accesses is accessed nowhere else. The only exception is that
//!   `full` is initialised (`mbarrier_init`) outside the loop, once each time the loop is entered.
//! * The fill is above the wait. Its conditions, addresses and sizes are the same in every
//!   iteration, so that no iteration reads what only an earlier one copied.
//! * Loads and descriptors are between the wait and the barrier. No descriptor leaves the body, and
//!   every `wgmma` that reads through one is waited for above the barrier.
//! * The parity alternates with the iteration: it is `i % 2` or `i & 1`, and the index starts at an
//!   even value with an odd step.

use std::collections::HashSet;

use super::jumps::{any, find};
use super::staging::{Kind, Pointers, Tiles, is_inside};
use crate::ir::entity::{OpId, RegionId, SharedId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Arith, AsyncCopy, Control, Convert, Effect, Mbarrier, Mma, Op, Sync};
use crate::sorting::sort;

/// The mbarrier that counts the bytes of a fill.
#[derive(Clone, Debug)]
pub(in crate::ir) struct Full {
    /// The mbarrier's allocation.
    pub(in crate::ir) shared: SharedId,
    /// The pointer to it, from outside the loop.
    pub(in crate::ir) pointer: Value,
    /// The wait in the loop body.
    pub(in crate::ir) wait: OpId,
    /// The operations outside the loop that initialise it.
    pub(in crate::ir) inits: Vec<OpId>,
}

/// Returns whether the operation is a copy that an mbarrier of the thread's own block counts.
pub(super) fn is_bulk_load(op: &Op) -> bool {
    matches!(
        op,
        Op::AsyncCopy(AsyncCopy::CpAsyncBulkLoad { .. } | AsyncCopy::CpAsyncBulkTensorLoad { .. })
    )
}

/// Returns whether the operation announces bytes to an mbarrier.
fn is_expectation(op: &Op) -> bool {
    matches!(
        op,
        Op::Mbarrier(Mbarrier::MbarrierArriveExpectTx { .. } | Mbarrier::MbarrierExpectTx { .. })
    )
}

/// Returns the tiles that bulk copies fill, if the body has the form above. The caller must still
/// check that the fill can run ahead.
///
/// # Errors
/// Returns the operation that breaks the form, if it is a single one.
pub(super) fn tiles(ir: &KernelIr, body: RegionId) -> Result<Tiles, Option<OpId>> {
    let ops = &ir.regions[body].ops;
    let only = |is: &dyn Fn(&Op) -> bool| {
        let mut found = ops.iter().copied().filter(|op| is(&ir.ops[*op].op));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (_, other) => Err(other),
        }
    };
    let barrier = only(&|op| matches!(op, Op::Sync(Sync::Barrier {})))?;
    let wait = only(&|op| matches!(op, Op::Mbarrier(Mbarrier::MbarrierWaitParity { .. })))?;
    let fills = |op: &Op| is_bulk_load(op) || is_expectation(op);
    // 0 is above the wait, 1 between wait and barrier, 2 below the barrier.
    let (mut part, mut parts) = (0, Vec::new());
    for &op in ops {
        part += u32::from(op == wait || op == barrier);
        parts.push((op, part));
    }
    let part_of =
        |op: OpId| parts.iter().find(|(found, _)| *found == op).map_or(0, |found| found.1);
    if part_of(wait) != 1 {
        return Err(Some(barrier));
    }
    let stores: Vec<OpId> = ops.iter().copied().filter(|op| any(ir, *op, &fills)).collect();
    for &store in &stores {
        if part_of(store) != 0 {
            return Err(Some(store));
        }
        check_fill(ir, store)?;
    }
    let synchronises = |op: &Op| {
        op.info().is_some_and(|info| info.effect == Effect::Sync)
            && !matches!(op, Op::Mma(_) | Op::Warp(_) | Op::Sync(Sync::FenceProxyAsync { .. }))
    };
    let others = ops.iter().filter(|op| **op != wait && **op != barrier && !stores.contains(op));
    if let Some(other) = others.clone().find_map(|op| find(ir, *op, &synchronises)) {
        return Err(Some(other));
    }
    let (full, mut tiles) = accesses(ir, body, wait, &stores, &part_of)?;
    check_descriptors(ir, body, barrier, &part_of)?;
    check_parity(ir, body, wait)?;
    tiles.barriers = vec![barrier];
    tiles.full = Some(full);
    Ok(tiles)
}

/// Checks that a fill consists only of copies, byte announcements, pure operations, and `if`s
/// around them.
fn check_fill(ir: &KernelIr, fill: OpId) -> Result<(), Option<OpId>> {
    let op = &ir.ops[fill].op;
    let pure = matches!(op, Op::Const(_)) || op.info().is_some_and(|i| i.effect == Effect::Pure);
    let branch = if let Op::Control(Control::Yield { values }) = op {
        values.is_empty()
    } else {
        matches!(op, Op::Control(Control::If { .. })) && ir.ops[fill].results.is_empty()
    };
    if !pure && !branch && !is_bulk_load(op) && !is_expectation(op) {
        return Err(Some(fill));
    }
    for region in op.regions() {
        for inner in &ir.regions[region].ops {
            check_fill(ir, *inner)?;
        }
    }
    Ok(())
}

/// Returns the mbarrier, and the allocations that the body accesses.
fn accesses(
    ir: &KernelIr,
    body: RegionId,
    wait: OpId,
    stores: &[OpId],
    part_of: &dyn Fn(OpId) -> u32,
) -> Result<(Full, Tiles), Option<OpId>> {
    let pointers = Pointers::of(ir, body);
    let mut barriers: HashSet<(Value, SharedId)> = HashSet::new();
    let (mut shared, mut outer) = (HashSet::new(), HashSet::new());
    let mut offsets = Vec::new();
    for found in pointers.uses.iter() {
        let Some(op) = found.inside else { continue };
        let (Some(id), Some(pointer)) = (found.shared, found.pointer) else {
            return Err(Some(found.op));
        };
        let fits = match found.kind {
            Kind::Offset => {
                offsets.push(op);
                true
            }
            Kind::Load | Kind::Descriptor => part_of(op) == 1,
            Kind::Store => stores.contains(&op),
            Kind::Barrier => stores.contains(&op) || op == wait,
            Kind::Base | Kind::Init | Kind::Other => false,
        };
        if !fits {
            return Err(Some(found.op));
        }
        if found.kind == Kind::Barrier {
            if is_inside(ir, pointer, body) || !is_first(ir, found.op) {
                return Err(Some(found.op));
            }
            barriers.insert((pointer, id));
        } else if found.kind != Kind::Offset {
            shared.insert(id);
        }
        if !is_inside(ir, pointer, body) {
            outer.insert((pointer, id));
        }
    }
    let mut all = barriers.iter();
    let (Some(&(pointer, full)), None) = (all.next(), all.next()) else {
        return Err(Some(wait));
    };
    if shared.contains(&full) || ir.shared[full].len != 1 {
        return Err(Some(wait));
    }
    let mut inits = Vec::new();
    for found in pointers.uses.iter().filter(|found| found.inside.is_none()) {
        let Some(id) = found.shared else { continue };
        match found.kind {
            Kind::Base | Kind::Offset => {}
            Kind::Init if id == full && is_first(ir, found.op) => inits.push(found.op),
            _ if id == full || shared.contains(&id) => return Err(Some(found.op)),
            _ => {}
        }
    }
    let entered = |op: OpId| {
        let mut op = op;
        while let Some(parent) = ir.regions[ir.ops[op].region].parent {
            op = parent;
            if ir.carried_args(op).is_some() {
                return Some(op);
            }
        }
        None
    };
    let round = ir.regions[body].parent.and_then(entered);
    if let Some(init) = inits.iter().find(|init| entered(**init) != round) {
        return Err(Some(*init));
    }
    if inits.is_empty() {
        return Err(Some(wait));
    }
    shared.insert(full);
    let mut shared: Vec<SharedId> = shared.into_iter().collect();
    sort(&mut shared);
    let mut pointers: Vec<(Value, SharedId)> = outer.into_iter().collect();
    sort(&mut pointers);
    let stores = stores.to_vec();
    let full = Full { shared: full, pointer, wait, inits };
    Ok((full, Tiles { stores, offsets, pointers, shared, ..Tiles::default() }))
}

/// Returns whether the operation uses the mbarrier at index 0.
fn is_first(ir: &KernelIr, op: OpId) -> bool {
    let (Op::Mbarrier(
        Mbarrier::MbarrierInit { index, .. }
        | Mbarrier::MbarrierArriveExpectTx { index, .. }
        | Mbarrier::MbarrierExpectTx { index, .. }
        | Mbarrier::MbarrierWaitParity { index, .. },
    )
    | Op::AsyncCopy(
        AsyncCopy::CpAsyncBulkLoad { barrier_index: index, .. }
        | AsyncCopy::CpAsyncBulkTensorLoad { barrier_index: index, .. },
    )) = ir.ops[op].op
    else {
        return false;
    };
    ir.integer(index) == Some(0)
}

/// Checks that descriptors stay in the body, and that every `wgmma` is waited for above the
/// barrier.
fn check_descriptors(
    ir: &KernelIr,
    body: RegionId,
    barrier: OpId,
    part_of: &dyn Fn(OpId) -> u32,
) -> Result<(), Option<OpId>> {
    let mut made = HashSet::new();
    for &op in &ir.regions[body].ops {
        follow(ir, op, &mut made)?;
    }
    let is_product = |op: &Op| {
        let Op::Mma(op) = op else { return false };
        matches!(
            op,
            Mma::Wgmma { .. } | Mma::WgmmaRs { .. } | Mma::WgmmaSp { .. } | Mma::WgmmaRsSp { .. }
        )
    };
    let is_wait = |op: &Op| matches!(op, Op::Mma(Mma::WgmmaWaitGroup { pending: 0 }));
    let is_commit = |op: &Op| matches!(op, Op::Mma(Mma::WgmmaCommitGroup {}));
    // What must still come before the barrier: 0 nothing, 1 a wait, 2 a commit and a wait.
    let (mut missing, mut last) = (0, barrier);
    for &op in ir.regions[body].ops.iter().take_while(|op| **op != barrier) {
        if any(ir, op, &is_product) {
            (missing, last) = (2, op);
        } else if missing == 2 && is_commit(&ir.ops[op].op) {
            missing = 1;
        } else if missing == 1 && is_wait(&ir.ops[op].op) {
            missing = 0;
        }
    }
    if missing > 0 {
        return Err(Some(last));
    }
    let below = ir.regions[body].ops.iter().filter(|op| part_of(**op) != 1);
    match below.copied().find(|op| any(ir, *op, &is_product)) {
        Some(product) => Err(Some(product)),
        None => Ok(()),
    }
}

/// Follows the values computed from descriptors, and checks that no operation keeps one.
fn follow(ir: &KernelIr, op: OpId, made: &mut HashSet<Value>) -> Result<(), Option<OpId>> {
    let data = &ir.ops[op];
    let is_made = matches!(data.op, Op::Mma(Mma::MatrixDescriptor { .. }));
    let takes = data.op.operands().iter().any(|value| made.contains(value));
    if takes {
        let pure = data.op.info().is_some_and(|info| info.effect == Effect::Pure);
        if !pure && !matches!(data.op, Op::Mma(_) | Op::Warp(_)) {
            return Err(Some(op));
        }
    }
    if takes || is_made {
        made.extend(&data.results);
    }
    for region in data.op.regions() {
        for inner in &ir.regions[region].ops {
            follow(ir, *inner, made)?;
        }
    }
    Ok(())
}

/// Checks that the wait uses the iteration's parity.
fn check_parity(ir: &KernelIr, body: RegionId, wait: OpId) -> Result<(), Option<OpId>> {
    let Op::Mbarrier(Mbarrier::MbarrierWaitParity { parity, .. }) = ir.ops[wait].op else {
        return Err(Some(wait));
    };
    let start = ir.regions[body].parent.and_then(|parent| {
        let Op::Control(Control::For { lo, step, .. }) = ir.ops[parent].op else { return None };
        Some((ir.integer(lo)?, ir.integer(step)?))
    });
    let alternates = start.is_some_and(|(lo, step)| lo >= 0 && lo % 2 == 0 && step % 2 == 1);
    let (mut value, mut is_cut) = (parity, false);
    loop {
        let made = match ir.values[value].def {
            ValueDef::Arg(region, 0) if region == body && is_cut && alternates => return Ok(()),
            ValueDef::Result(made, _) => made,
            _ => return Err(Some(wait)),
        };
        value = if let Op::Convert(Convert::Cvt { value, to }) = ir.ops[made].op
            && to.is_int()
        {
            value
        } else if let Op::Arith(Arith::Rem { lhs, rhs }) = ir.ops[made].op
            && ir.integer(rhs) == Some(2)
        {
            is_cut = true;
            lhs
        } else if let Op::Arith(Arith::And { lhs, rhs }) = ir.ops[made].op
            && ir.integer(rhs) == Some(1)
        {
            is_cut = true;
            lhs
        } else {
            return Err(Some(made));
        };
    }
}

/// Returns the operation in a fill whose condition, address or size changes between iterations, if
/// there is one. `is_invariant` answers this for values defined directly in the body.
pub(super) fn varying(
    ir: &KernelIr,
    body: RegionId,
    fill: OpId,
    is_invariant: &dyn Fn(Value) -> bool,
) -> Option<OpId> {
    let fixed = |value: Value| is_fixed(ir, body, value, is_invariant);
    let op = &ir.ops[fill].op;
    let is_same = if let Op::Control(Control::If { cond, .. }) = *op {
        fixed(cond)
    } else if let Op::AsyncCopy(AsyncCopy::CpAsyncBulkLoad { to, to_index, bytes, .. }) = *op {
        [to, to_index, bytes].into_iter().all(fixed)
    } else if let Op::AsyncCopy(AsyncCopy::CpAsyncBulkTensorLoad { map, to, to_index, .. }) = *op {
        [map, to, to_index].into_iter().all(fixed)
    } else {
        true
    };
    if !is_same {
        return Some(fill);
    }
    let mut inner = op.regions().into_iter().flat_map(|region| &ir.regions[region].ops);
    inner.find_map(|op| varying(ir, body, *op, is_invariant))
}

fn is_fixed(
    ir: &KernelIr,
    body: RegionId,
    value: Value,
    is_invariant: &dyn Fn(Value) -> bool,
) -> bool {
    if ir.values[value].region == body || !is_inside(ir, value, body) {
        return is_invariant(value);
    }
    let ValueDef::Result(op, _) = ir.values[value].def else { return false };
    let data = &ir.ops[op].op;
    let pure =
        matches!(data, Op::Const(_)) || data.info().is_some_and(|info| info.effect == Effect::Pure);
    pure && data.operands().into_iter().all(|value| is_fixed(ir, body, value, is_invariant))
}

/// Returns whether the operation initialises an mbarrier or fences its initialisation. Such
/// operations do not wait for other threads.
pub(super) fn makes_barrier(op: &Op) -> bool {
    matches!(op, Op::Mbarrier(Mbarrier::MbarrierInit { .. } | Mbarrier::FenceMbarrierInit {}))
}
