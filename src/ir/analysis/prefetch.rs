//! Splits a loop body into what can run ahead, for a later iteration, and what must run in time.
//! Software pipelining (`passes/pipeline.rs`) uses the split, and the verifier reports why a loop
//! cannot be split.
//!
//! * An operation can run ahead if it is pure, a load from global memory, or an `if` with only such
//!   operations inside; and if it depends only on values from outside the loop, the index, and
//!   results of operations that can run ahead.
//! * A *copy* is a load from global memory that is not inside an inner loop, or the `if` around it.
//!   All copies run ahead, together with what they depend on, and their results are kept until they
//!   are used.
//! * Everything else runs in time. Pure operations that both sides need are computed twice.
//!
//! Running a copy some iterations earlier does not change the program if
//!
//! * every iteration of a loop with `t` iterations is actually reached: no jump leaves the body
//!   early;
//! * no operation of the loop writes global memory;
//! * in a loop that synchronises threads, nothing that may run before the loop writes global
//!   memory, because a synchronisation may make another thread's write visible.
//!
//! The analysis assumes that any two pointers may alias.
//!
//! Stores to tiles in shared memory (`staging.rs`) run ahead as well. So do `cp.async` copies to
//! tiles, which count as copies, and bulk copies that an mbarrier counts (`bulk_staging.rs`).

use std::collections::HashSet;

use super::bulk_staging::{self, is_bulk_load, makes_barrier};
use super::jumps::{any, find, leaves};
use super::ring::Slots;
use super::staging::Tiles;
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{AsyncCopy, Control, Effect, LoadOrder, Mem, Op, StoreAccess, Sync};
use crate::ir::types::{Space, Type};

/// The body of a loop in two parts. The terminator belongs to neither.
#[derive(Debug)]
pub(in crate::ir) struct Split {
    /// The operations that run ahead, in order.
    pub(in crate::ir) ahead: Vec<OpId>,
    /// The operations that run in time, in order.
    pub(in crate::ir) in_time: Vec<OpId>,
    /// The results of copies that the in-time part uses.
    pub(in crate::ir) fetched: Vec<Value>,
    /// The tiles that are filled ahead, if the body has any. Their barriers belong to neither part.
    pub(in crate::ir) tiles: Option<Tiles>,
    /// The operations that fill a stage of the tiles, in order: the stores, and the pointers that
    /// they need.
    pub(in crate::ir) fill: Vec<OpId>,
}

/// Why a loop cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) enum CannotSplit {
    /// This operation leaves the body early.
    EarlyExit(OpId),
    /// The body contains no copy.
    NoCopies,
    /// The body has only `cp.async` copies such as the first operation, and the second operation
    /// keeps them from running ahead.
    AsyncForm(OpId, OpId),
    /// The same for bulk and tensor copies.
    BulkForm(OpId, OpId),
    /// The copy depends on the value, which is computed in time.
    DependsOnUse(OpId, Value),
    /// This operation in the loop may write what a copy reads.
    AliasingStore(OpId),
    /// The first operation, before the loop, may write what a copy reads after the second one, a
    /// synchronisation.
    AcrossBarrier(OpId, OpId),
}

/// Splits the body of the `for` loop `id` of a verified kernel.
///
/// # Errors
/// Returns the first reason why it cannot be split.
pub(in crate::ir) fn split(ir: &KernelIr, id: OpId, body: RegionId) -> Result<Split, CannotSplit> {
    let Some((last, ops)) = ir.regions[body].ops.split_last() else {
        return Err(CannotSplit::NoCopies);
    };
    let continues =
        matches!(&ir.ops[*last].op, Op::Control(Control::Continue { target, .. }) if *target == id);
    if !continues {
        return Err(CannotSplit::EarlyExit(*last));
    }
    if let Some(op) = ops.iter().find(|op| leaves(ir, **op)) {
        return Err(CannotSplit::EarlyExit(*op));
    }
    let (movable, invariant) = (HashSet::new(), HashSet::new());
    let mut body = Body { ir, region: body, movable, invariant };
    let mut copies = HashSet::new();
    for &op in ops {
        body.note_invariant(op);
        match body.dependence(op) {
            Ok(()) => {
                body.movable.insert(op);
                if any(ir, op, &|op| is_global_load(ir, op)) {
                    copies.insert(op);
                }
            }
            Err(Some(value)) if body.is_copy(op) => {
                return Err(CannotSplit::DependsOnUse(op, value));
            }
            Err(_) => {}
        }
    }
    let bulk = ops.iter().find_map(|op| find(ir, *op, &is_bulk_load));
    let tiles = match bulk {
        Some(_) => bulk_staging::tiles(ir, body.region).and_then(|tiles| body.bulk_staged(tiles)),
        None => Tiles::new(ir, body.region).and_then(|tiles| body.staged(tiles).map_err(Some)),
    };
    let obstacle = tiles.as_ref().err().copied().flatten();
    let tiles = tiles.ok();
    if let (Some(copy), None) = (bulk, &tiles) {
        return Err(CannotSplit::BulkForm(copy, obstacle.unwrap_or(copy)));
    }
    let is_staged =
        tiles.as_ref().is_some_and(|tiles| !tiles.waits.is_empty() || tiles.full.is_some());
    if copies.is_empty() && !is_staged {
        let is_copy = |op: &Op| matches!(op, Op::AsyncCopy(AsyncCopy::CpAsync { .. }));
        let copy = ops.iter().find_map(|op| find(ir, *op, &is_copy));
        let form = |copy: OpId| CannotSplit::AsyncForm(copy, obstacle.unwrap_or(copy));
        return Err(copy.map_or(CannotSplit::NoCopies, form));
    }
    let counted = |op: &OpId| {
        let full = tiles.as_ref().and_then(|tiles| Some((tiles, tiles.full.as_ref()?)));
        full.is_some_and(|(tiles, full)| full.wait == *op || tiles.stores.contains(op))
    };
    let mut others = ops.iter().filter(|op| !counted(op));
    if let Some(op) = others.find_map(|op| find(ir, *op, &|op| writes_global(ir, op))) {
        return Err(CannotSplit::AliasingStore(op));
    }
    let synchronises = |op: &Op| op.info().is_some_and(|info| info.effect == Effect::Sync);
    if let Some(barrier) = ops.iter().find_map(|op| find(ir, *op, &synchronises))
        && let Some(store) = write_before(ir, id)
    {
        return Err(CannotSplit::AcrossBarrier(store, barrier));
    }
    // Go backwards, so that we see an operand's users before its definition.
    let (mut for_ahead, mut for_time) = (HashSet::new(), HashSet::new());
    uses(ir, *last, &mut for_time);
    let (mut ahead, mut in_time, mut fetched) = (Vec::new(), Vec::new(), Vec::new());
    let mut fill = Vec::new();
    for &op in ops.iter().rev() {
        let results = &ir.ops[op].results;
        if let Some(tiles) = &tiles {
            if tiles.stores.contains(&op) {
                uses(ir, op, &mut for_ahead);
                fill.push(op);
                continue;
            }
            let is_wait = tiles.full.as_ref().is_some_and(|full| full.wait == op);
            if is_wait || tiles.barriers.contains(&op) || tiles.waits.contains(&op) {
                continue;
            }
        }
        let points = tiles.as_ref().is_some_and(|tiles| tiles.offsets.contains(&op));
        let is_copy = copies.contains(&op);
        if is_copy {
            fetched.extend(results.iter().filter(|value| for_time.contains(*value)));
        }
        if is_copy || results.iter().any(|value| for_ahead.contains(value)) {
            uses(ir, op, &mut for_ahead);
            if points { fill.push(op) } else { ahead.push(op) }
        }
        let needed = !is_pure(&ir.ops[op].op) || results.iter().any(|v| for_time.contains(v));
        if !is_copy && needed {
            uses(ir, op, &mut for_time);
            in_time.push(op);
        }
    }
    ahead.reverse();
    in_time.reverse();
    fill.reverse();
    Ok(Split { ahead, in_time, fetched, tiles, fill })
}

/// Adds the values that the operation and everything nested in it use.
fn uses(ir: &KernelIr, op: OpId, used: &mut HashSet<Value>) {
    used.extend(ir.ops[op].op.operands());
    for region in ir.ops[op].op.regions() {
        for inner in &ir.regions[region].ops {
            uses(ir, *inner, used);
        }
    }
}

fn is_pure(op: &Op) -> bool {
    matches!(op, Op::Const(_)) || op.info().is_some_and(|info| info.effect == Effect::Pure)
}

/// Returns whether the operation is an `if` or ends an arm of one.
fn is_branch(op: &Op) -> bool {
    matches!(op, Op::Control(Control::If { .. } | Control::Yield { .. }))
}

fn space_of(ir: &KernelIr, pointer: Value) -> Option<Space> {
    match ir.type_of(pointer) {
        Type::Pointer { space, .. } => Some(space),
        _ => None,
    }
}

/// Returns whether the value is a pointer to shared memory.
pub(super) fn is_shared(ir: &KernelIr, value: Value) -> bool {
    space_of(ir, value) == Some(Space::Shared)
}

/// Returns whether the operation is a weak load from global memory.
fn is_global_load(ir: &KernelIr, op: &Op) -> bool {
    let Op::Mem(Mem::Ld { base, access, .. } | Mem::LdVec { base, access, .. }) = op else {
        return false;
    };
    space_of(ir, *base) == Some(Space::Global) && access.order == LoadOrder::Weak
}

/// Returns whether the operation may write global memory, or wait for other threads' writes to it.
fn writes_global(ir: &KernelIr, op: &Op) -> bool {
    match (op, op.info()) {
        (Op::Mem(Mem::SetVar { .. }), _) => false,
        (Op::Mem(Mem::St { base, .. } | Mem::StVec { base, .. }), _) => {
            matches!(space_of(ir, *base), Some(Space::Global | Space::Generic))
        }
        (Op::Mem(Mem::Ld { access, .. } | Mem::LdVec { access, .. }), _) => {
            access.order != LoadOrder::Weak
        }
        // These only read global memory.
        (
            Op::AsyncCopy(
                AsyncCopy::CpAsync { .. }
                | AsyncCopy::CpAsyncCommitGroup {}
                | AsyncCopy::CpAsyncWaitGroup { .. }
                | AsyncCopy::CpAsyncWaitAll {},
            ),
            _,
        ) => false,
        (op, _) if makes_barrier(op) => false,
        (
            Op::Mbarrier(_)
            | Op::AsyncCopy(_)
            | Op::Sync(Sync::GriddepcontrolWait {} | Sync::Fence { .. }),
            _,
        ) => true,
        (Op::Inline(op), _) => !op.ptx.is_pure(),
        (_, Some(info)) => info.effect == Effect::Write,
        // Reports to the host go to separate memory.
        (_, None) => false,
    }
}

/// Returns a write to global memory that may run before an iteration of the loop without being part
/// of it: above the loop, or in an outer loop.
fn write_before(ir: &KernelIr, id: OpId) -> Option<OpId> {
    // Everything in the outermost enclosing loop may run before, even what is below this loop.
    let (mut op, mut outermost) = (id, id);
    while let Some(parent) = ir.regions[ir.ops[op].region].parent {
        op = parent;
        if ir.carried_args(op).is_some() {
            outermost = op;
        }
    }
    let writes = |op: &Op| writes_global(ir, op);
    if outermost != id
        && let Some(found) = find(ir, outermost, &writes)
    {
        return Some(found);
    }
    // Then search each enclosing region, from there out to the kernel's body, above the operation
    // that contains the loop.
    let mut op = outermost;
    loop {
        let region = &ir.regions[ir.ops[op].region];
        let above = region.ops.iter().take_while(|other| **other != op);
        if let Some(found) = above.clone().find_map(|other| find(ir, *other, &writes)) {
            return Some(found);
        }
        op = region.parent?;
    }
}

/// A loop body, and which of its operations can run ahead.
struct Body<'k> {
    ir: &'k KernelIr,
    region: RegionId,
    movable: HashSet<OpId>,
    /// Pure operations with the same results in all iterations.
    invariant: HashSet<OpId>,
}

impl Body<'_> {
    /// Checks that the operation can run ahead. The error is the operand that is computed in time,
    /// or `None` if the operation itself is the reason.
    fn dependence(&self, op: OpId) -> Result<(), Option<Value>> {
        let ir = self.ir;
        let data = &ir.ops[op].op;
        let effectless = is_pure(data) || is_global_load(ir, data) || is_branch(data);
        if let Some(value) = data.operands().into_iter().find(|value| !self.is_early(*value)) {
            return Err(Some(value));
        }
        if !effectless {
            return Err(None);
        }
        for region in data.regions() {
            for inner in &ir.regions[region].ops {
                self.dependence(*inner)?;
            }
        }
        Ok(())
    }

    /// Returns the tiles with their ring buffers, if all stores can run ahead: stored values are
    /// available ahead, and each iteration writes the same elements or its slot of a ring buffer.
    ///
    /// # Errors
    /// Returns the operation that prevents it.
    fn staged(&self, mut tiles: Tiles) -> Result<Tiles, OpId> {
        let is_invariant = |value: Value| self.is_invariant(value);
        let slots = Slots::new(self.ir, self.region, &is_invariant);
        for store in tiles.stores.clone() {
            let (address, values) = self.store(store).ok_or(store)?;
            if let Some(late) =
                values.into_iter().chain(address).find(|value| !self.is_early(*value))
            {
                return Err(self.definition(late).unwrap_or(store));
            }
            if address.iter().all(|value| self.is_invariant(*value)) {
                continue;
            }
            let shared = tiles.allocation(store).ok_or(store)?;
            if tiles.rings.iter().all(|ring| ring.shared != shared) {
                tiles.as_ring(&slots, shared, store)?;
            }
        }
        Ok(tiles)
    }

    /// Returns the tiles, if the bulk copies to them can run ahead: their operands are available
    /// ahead, and each iteration writes the same bytes.
    ///
    /// # Errors
    /// Returns the operation that prevents it.
    fn bulk_staged(&self, tiles: Tiles) -> Result<Tiles, Option<OpId>> {
        let is_invariant = |value: Value| self.is_invariant(value);
        for &fill in &tiles.stores {
            let mut used = HashSet::new();
            uses(self.ir, fill, &mut used);
            if let Some(late) = used.into_iter().find(|value| !self.is_early(*value)) {
                return Err(Some(self.definition(late).unwrap_or(fill)));
            }
            if let Some(op) = bulk_staging::varying(self.ir, self.region, fill, &is_invariant) {
                return Err(Some(op));
            }
        }
        Ok(tiles)
    }

    /// Returns the address and the values of a store or copy to a tile, or `None` if it has a
    /// memory order or cache hints.
    fn store(&self, op: OpId) -> Option<([Value; 2], Vec<Value>)> {
        if let Op::AsyncCopy(AsyncCopy::CpAsync {
            to, to_index, from, from_index, src_bytes, ..
        }) = self.ir.ops[op].op
        {
            return Some(([to, to_index], vec![from, from_index, src_bytes]));
        }
        let Op::Mem(Mem::St { base, index, value, access }) = &self.ir.ops[op].op else {
            return None;
        };
        (*access == StoreAccess::default()).then(|| ([*base, *index], vec![*value]))
    }

    /// Returns the operation that defines the value.
    fn definition(&self, value: Value) -> Option<OpId> {
        match self.ir.values[value].def {
            ValueDef::Result(op, _) => Some(op),
            ValueDef::Arg(..) | ValueDef::Param(_) => None,
        }
    }

    /// Records whether the operation is loop-invariant. Call this in order, because it relies on
    /// the operations above.
    fn note_invariant(&mut self, op: OpId) {
        let data = &self.ir.ops[op].op;
        if is_pure(data) && data.operands().into_iter().all(|value| self.is_invariant(value)) {
            self.invariant.insert(op);
        }
    }

    /// Returns whether the value is loop-invariant.
    fn is_invariant(&self, value: Value) -> bool {
        let data = &self.ir.values[value];
        match data.def {
            _ if data.region != self.region => true,
            ValueDef::Result(op, _) => self.invariant.contains(&op),
            ValueDef::Arg(..) => false,
            ValueDef::Param(_) => true,
        }
    }

    /// Returns whether the value is available ahead.
    fn is_early(&self, value: Value) -> bool {
        let ir = self.ir;
        let data = &ir.values[value];
        if data.region != self.region {
            // From outside the loop, or from inside an operation that runs ahead as a whole.
            return true;
        }
        match data.def {
            ValueDef::Result(op, _) => self.movable.contains(&op),
            // The first argument is the index.
            ValueDef::Arg(_, position) => position == 0,
            ValueDef::Param(_) => true,
        }
    }

    /// Returns whether the operation would be a copy if its operands were available ahead: it loads
    /// from global memory and has no side effect.
    fn is_copy(&self, op: OpId) -> bool {
        let ir = self.ir;
        let effect = |op: &Op| !is_branch(op) && !is_pure(op) && !is_global_load(ir, op);
        any(ir, op, &|op| is_global_load(ir, op)) && !any(ir, op, &effect)
    }
}
