//! Finds shared-memory tiles that a loop can fill ahead, in a ring buffer of several stages. This
//! is what makes `.prefetch_stages` work on tiled loops.
//!
//! The loop body must have the form
//!
//! ```text
//! fill    stores to the tiles, of what can be computed ahead
//! barrier
//! use     loads from the tiles
//! barrier
//! ```
//!
//! with any other work in between. Alternatively, all stores may be `cp.async` copies that are
//! committed and waited for before the barrier:
//!
//! ```text
//! fill    cp_async to the tiles, of what can be computed ahead
//! cp_async_commit_group
//! cp_async_wait_group<0>, or cp_async_wait_all
//! barrier
//! ```
//!
//! Bulk and tensor copies have another form (`bulk_staging.rs`). A body has one of these forms if
//!
//! * it has two barriers and no other synchronisation, except warp-level operations such as
//!   `mma.sync`;
//! * each shared allocation that it accesses is accessed nowhere else, and addresses are made only
//!   by `shared_base` outside the loop and by `offset`;
//! * all stores are above the first barrier, and all loads between the barriers;
//! * the stores can run ahead, run in every iteration, and always write the same elements, so that
//!   no iteration reads what only an earlier one stored. Alternatively, iteration `i` uses slot
//!   `i % n` of a ring buffer that the kernel manages itself (`ring.rs`).

use std::collections::{HashMap, HashSet};

use super::bulk_staging::Full;
use super::jumps::find;
use super::ring::{Ring, Slots};
use crate::ir::entity::{OpId, RegionId, SharedId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{AsyncCopy, Effect, Mbarrier, Mem, Mma, Op, Sync};
use crate::sorting::sort;

/// The tiles of a loop, with the operations around them.
#[derive(Clone, Debug, Default)]
pub(in crate::ir) struct Tiles {
    /// The operations that fill the tiles.
    pub(in crate::ir) stores: Vec<OpId>,
    /// The operations in the body that derive pointers to the tiles from other pointers.
    pub(in crate::ir) offsets: Vec<OpId>,
    /// The barriers: two, or one if an mbarrier counts the copied bytes.
    pub(in crate::ir) barriers: Vec<OpId>,
    /// The operations that commit `cp.async` copies and wait for them. Empty for plain stores.
    pub(in crate::ir) waits: Vec<OpId>,
    /// The pointers from outside the loop through which the body accesses the tiles.
    pub(in crate::ir) pointers: Vec<(Value, SharedId)>,
    /// The tiles' allocations.
    pub(in crate::ir) shared: Vec<SharedId>,
    /// The loop's accesses, each with its allocation.
    pub(super) accesses: Vec<(OpId, SharedId)>,
    /// The mbarrier for bulk copies, if there is one. It is one of the allocations.
    pub(in crate::ir) full: Option<Full>,
    /// Allocations that already have a slot for each iteration. They get no further stages.
    pub(in crate::ir) rings: Vec<Ring>,
}

impl Tiles {
    /// Returns the distance between two stages of an allocation, in elements. It is a multiple of
    /// the alignment, so that every stage is aligned like the first.
    pub(in crate::ir) fn stride(ir: &KernelIr, shared: SharedId) -> u64 {
        let data = &ir.shared[shared];
        let align = u64::from(data.align_bytes / data.elem.size_bytes().max(1)).max(1);
        u64::from(data.len).next_multiple_of(align)
    }

    /// Returns the allocation that an operation of the loop accesses.
    pub(super) fn allocation(&self, op: OpId) -> Option<SharedId> {
        self.accesses.iter().find(|(access, _)| *access == op).map(|(_, shared)| *shared)
    }

    /// Treats an allocation as a ring buffer that the kernel manages itself.
    ///
    /// # Errors
    /// Returns the operation that prevents it.
    pub(super) fn as_ring(
        &mut self,
        slots: &Slots<'_>,
        shared: SharedId,
        store: OpId,
    ) -> Result<(), OpId> {
        let accesses = self.accesses.iter().filter(|(_, of)| *of == shared).map(|(op, _)| *op);
        let ring = slots.ring(shared, store, accesses.collect::<Vec<_>>())?;
        self.shared.retain(|other| *other != shared);
        self.pointers.retain(|(_, of)| *of != shared);
        self.rings.push(ring);
        Ok(())
    }

    /// Returns the ring buffer with the fewest slots.
    pub(in crate::ir) fn smallest_ring(&self) -> Option<Ring> {
        self.rings.iter().min_by_key(|ring| ring.slots).copied()
    }

    /// Returns the shared memory that the kernel needs if the tiles get `stages` further stages, in
    /// bytes.
    pub(in crate::ir) fn bytes(&self, ir: &KernelIr, stages: u32) -> u64 {
        let (_, bytes) = ir.shared_layout();
        let more = self.shared.iter().map(|shared| {
            let size = u64::from(ir.shared[*shared].elem.size_bytes());
            Tiles::stride(ir, *shared) * size * u64::from(stages)
        });
        more.fold(bytes, u64::saturating_add)
    }

    /// Returns the tiles of a loop body that has the form above. The caller must still check that
    /// the stores can run ahead.
    ///
    /// # Errors
    /// Returns the operation that breaks the form, if it is a single one.
    pub(super) fn new(ir: &KernelIr, body: RegionId) -> Result<Tiles, Option<OpId>> {
        let ops = &ir.regions[body].ops;
        let is_barrier = |op: &&OpId| matches!(&ir.ops[**op].op, Op::Sync(Sync::Barrier {}));
        let barriers: Vec<OpId> = ops.iter().filter(is_barrier).copied().collect();
        let &[first, second] = barriers.as_slice() else {
            return Err(barriers.get(2).or(barriers.first()).copied());
        };
        let (copies, waits) = asynchronous(ir, ops, first)?;
        let synchronises = |op: &Op| {
            op.info().is_some_and(|info| info.effect == Effect::Sync)
                && !matches!(op, Op::Mma(_) | Op::Warp(_))
        };
        let known = |op: &OpId| [&barriers, &copies, &waits].iter().any(|all| all.contains(op));
        let others = ops.iter().filter(|op| !known(op));
        if let Some(other) = others.clone().find_map(|op| find(ir, *op, &synchronises)) {
            return Err(Some(other));
        }
        let pointers = Pointers::of(ir, body);
        let uses_inside = pointers.uses.iter().filter(|found| found.inside.is_some());
        let shared: HashSet<SharedId> = uses_inside.filter_map(|found| found.shared).collect();
        let (mut stores, mut offsets, mut outer) = (Vec::new(), Vec::new(), HashMap::new());
        let mut accesses = Vec::new();
        let mut part = 0;
        let parts: HashMap<OpId, u32> = ops
            .iter()
            .map(|op| {
                part += u32::from(*op == first || *op == second);
                (*op, part)
            })
            .collect();
        for found in &pointers.uses {
            match (found.inside, found.shared) {
                (Some(op), Some(shared)) => {
                    let part = parts.get(&op).copied().ok_or(Some(op))?;
                    if matches!(found.kind, Kind::Load | Kind::Store) {
                        accesses.push((found.op, shared));
                    }
                    match found.kind {
                        Kind::Base => return Err(Some(found.op)),
                        Kind::Offset => offsets.push(op),
                        Kind::Load if part == 1 => {}
                        Kind::Store if part == 0 => {
                            if stores.last() != Some(&op) {
                                stores.push(op);
                            }
                        }
                        _ => return Err(Some(found.op)),
                    }
                    if let Some(pointer) = found.pointer.filter(|v| !is_inside(ir, *v, body)) {
                        outer.insert(pointer, shared);
                    }
                }
                // A pointer into an unknown allocation.
                (Some(_), None) => return Err(Some(found.op)),
                (None, Some(id)) if shared.contains(&id) => match found.kind {
                    Kind::Base | Kind::Offset => {}
                    _ => return Err(Some(found.op)),
                },
                (None, _) => {}
            }
        }
        if stores.is_empty() || (!copies.is_empty() && stores != copies) {
            let other = stores.iter().find(|op| !copies.contains(op));
            return Err(other.or(copies.first()).copied());
        }
        let mut pointers: Vec<(Value, SharedId)> = outer.into_iter().collect();
        sort(&mut pointers);
        let mut shared: Vec<SharedId> = shared.into_iter().collect();
        sort(&mut shared);
        let (barriers, rings, full) = (vec![first, second], Vec::new(), None);
        Ok(Tiles { stores, offsets, barriers, waits, pointers, shared, accesses, full, rings })
    }
}

/// Returns a body's `cp.async` copies, and the operations that commit them and wait for all of them
/// before `barrier`.
///
/// # Errors
/// Returns the operation that is out of order.
fn asynchronous(
    ir: &KernelIr,
    ops: &[OpId],
    barrier: OpId,
) -> Result<(Vec<OpId>, Vec<OpId>), Option<OpId>> {
    let (mut copies, mut commit, mut wait) = (Vec::new(), None, None);
    for &id in ops {
        if id == barrier {
            break;
        }
        let Op::AsyncCopy(op) = &ir.ops[id].op else { continue };
        if let AsyncCopy::CpAsync { .. } = op {
            if commit.is_some() || wait.is_some() {
                return Err(Some(id));
            }
            copies.push(id);
        } else if let AsyncCopy::CpAsyncCommitGroup {} = op {
            if commit.is_some() || wait.is_some() {
                return Err(Some(id));
            }
            commit = Some(id);
        } else if let AsyncCopy::CpAsyncWaitGroup { pending: 0 } = op {
            // The wait would not cover copies that are in no group.
            if commit.is_none() || wait.is_some() {
                return Err(Some(id));
            }
            wait = Some(id);
        } else if let AsyncCopy::CpAsyncWaitAll {} = op {
            if wait.is_some() {
                return Err(Some(id));
            }
            wait = Some(id);
        }
    }
    if copies.is_empty() {
        return Ok((copies, Vec::new()));
    }
    if wait.is_none() {
        return Err(Some(barrier));
    }
    Ok((copies, commit.into_iter().chain(wait).collect()))
}

/// Returns whether the value is defined in the region or in a region inside it.
pub(super) fn is_inside(ir: &KernelIr, value: Value, region: RegionId) -> bool {
    let mut at = ir.values[value].region;
    while at != region {
        match ir.regions[at].parent {
            Some(parent) => at = ir.ops[parent].region,
            None => return false,
        }
    }
    true
}

/// How a pointer to shared memory is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is the base of an allocation.
    Base,
    /// Another pointer is derived from it.
    Offset,
    Load,
    Store,
    /// A matrix descriptor is made from it.
    Descriptor,
    /// An mbarrier is initialised there.
    Init,
    /// An mbarrier there is used.
    Barrier,
    /// Anything else; the pointer itself may escape.
    Other,
}

/// A use of a pointer to shared memory.
pub(super) struct Use {
    pub(super) kind: Kind,
    pub(super) op: OpId,
    pub(super) pointer: Option<Value>,
    /// The allocation that it points into, if known.
    pub(super) shared: Option<SharedId>,
    /// The operation of the loop body that contains the use, or `None` outside the loop.
    pub(super) inside: Option<OpId>,
}

/// All uses of shared-memory pointers, in text order.
pub(super) struct Pointers<'k> {
    ir: &'k KernelIr,
    origin: HashMap<Value, SharedId>,
    inside: Option<OpId>,
    pub(super) uses: Vec<Use>,
}

impl<'k> Pointers<'k> {
    /// Collects the uses in the whole kernel. Those in `body` record the operation that contains
    /// them.
    pub(super) fn of(ir: &'k KernelIr, body: RegionId) -> Self {
        let mut all = Pointers { ir, origin: HashMap::new(), inside: None, uses: Vec::new() };
        all.region(ir.body, body);
        all
    }

    fn region(&mut self, region: RegionId, body: RegionId) {
        let ir = self.ir;
        for &op in &ir.regions[region].ops {
            if region == body {
                self.inside = Some(op);
            }
            self.op(op);
            for inner in ir.ops[op].op.regions() {
                self.region(inner, body);
            }
        }
        if region == body {
            self.inside = None;
        }
    }

    fn op(&mut self, id: OpId) {
        let ir = self.ir;
        let (op, result) = (&ir.ops[id].op, ir.ops[id].results.first());
        if let Op::Mem(Mem::SharedBase { shared }) = op {
            if let Some(result) = result {
                self.origin.insert(*result, *shared);
            }
            let (shared, inside) = (Some(*shared), self.inside);
            let (kind, op) = (Kind::Base, id);
            return self.uses.push(Use { kind, op, pointer: None, shared, inside });
        }
        let kind = if let Op::Mem(Mem::Offset { .. }) = op {
            Kind::Offset
        } else if let Op::Mem(Mem::Ld { .. } | Mem::LdVec { .. }) | Op::Mma(Mma::Ldmatrix { .. }) =
            op
        {
            Kind::Load
        } else if let Op::Mem(Mem::St { .. })
        | Op::AsyncCopy(
            AsyncCopy::CpAsync { .. }
            | AsyncCopy::CpAsyncBulkLoad { .. }
            | AsyncCopy::CpAsyncBulkTensorLoad { .. },
        ) = op
        {
            Kind::Store
        } else if let Op::Mma(Mma::MatrixDescriptor { .. }) = op {
            Kind::Descriptor
        } else if let Op::Mbarrier(Mbarrier::MbarrierInit { .. }) = op {
            Kind::Init
        } else if let Op::Mbarrier(
            Mbarrier::MbarrierArriveExpectTx { .. }
            | Mbarrier::MbarrierExpectTx { .. }
            | Mbarrier::MbarrierWaitParity { .. },
        ) = op
        {
            Kind::Barrier
        } else {
            Kind::Other
        };
        let counts = if let Op::AsyncCopy(
            AsyncCopy::CpAsyncBulkLoad { barrier, .. }
            | AsyncCopy::CpAsyncBulkTensorLoad { barrier, .. },
        ) = op
        {
            Some(*barrier)
        } else {
            None
        };
        for value in op.operands() {
            if super::prefetch::is_shared(ir, value) {
                let kind = if counts == Some(value) { Kind::Barrier } else { kind };
                let shared = self.origin.get(&value).copied();
                if let (Kind::Offset, Some(result), Some(shared)) = (kind, result, shared) {
                    self.origin.insert(*result, shared);
                }
                let (pointer, inside) = (Some(value), self.inside);
                self.uses.push(Use { kind, op: id, pointer, shared, inside });
            }
        }
    }
}
