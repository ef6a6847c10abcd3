//! Lets shared allocations whose live ranges do not overlap use the same memory, so that a block
//! needs less shared memory. `KernelOptions::merge_shared` turns it on.
//!
//! Two allocations may share memory if every access to one is separated from every access to the
//! other:
//!
//! * they are in different arms of an `if` whose condition is uniform across the block; or
//! * they are in two phases: in some region, all accesses to one precede all accesses to the other,
//!   with a block barrier in between.
//!
//! No loop may enclose both, because a later iteration could read what an earlier one stored. The
//! pass understands only loads, stores, `ldmatrix`, `stmatrix` and atomics. If an allocation's
//! address has any other use, the allocation is not merged, because asynchronous operations,
//! mbarriers, descriptors and other blocks may access it at any time.

use std::collections::HashMap;

use crate::ir::analysis::uniformity::{Scope, Uniformity};
use crate::ir::entity::{Arena, Entity, OpId, RegionId, SharedId, Value};
use crate::ir::kernel::{KernelIr, OpData, SharedData, ValueData, ValueDef};
use crate::ir::op::{Control, Mem, Mma, Op, Sync};
use crate::ir::types::{Space, Type};
use crate::sorting::sort_by_key;

/// The maximum number of access pairs to compare. Bounds the run time.
const PAIRS: usize = 1 << 22;

/// The position of an operation: for each enclosing region from the kernel's body inwards, the
/// index of the enclosing operation in it.
type Path = Vec<(RegionId, usize)>;

/// Merges the shared allocations of a verified kernel. Returns `None` if there is nothing to merge.
pub(in crate::ir) fn merge_shared(ir: &KernelIr) -> Option<KernelIr> {
    let mut accesses = Accesses {
        ir,
        origin: HashMap::new(),
        paths: vec![Vec::new(); ir.shared.len()],
        alone: vec![false; ir.shared.len()],
        path: Vec::new(),
    };
    accesses.region(ir.body);
    let Accesses { paths, alone, .. } = accesses;
    let apart = Apart { ir, uniform: Uniformity::new(ir, Scope::Block), left: PAIRS };
    let groups = apart.groups(&paths, &alone);
    let merged = groups.iter().any(|group| group.len() > 1);
    merged.then(|| rewritten(ir, &groups))
}

fn bytes(data: &SharedData) -> u64 {
    u64::from(data.len) * u64::from(data.elem.size_bytes())
}

/// Collects the accesses to each allocation.
struct Accesses<'k> {
    ir: &'k KernelIr,
    origin: HashMap<Value, SharedId>,
    paths: Vec<Vec<Path>>,
    /// Whether the allocation must keep its own memory, because its address has a use that the pass
    /// does not understand.
    alone: Vec<bool>,
    path: Path,
}

impl Accesses<'_> {
    fn region(&mut self, region: RegionId) {
        let ir = self.ir;
        for (number, &op) in ir.regions[region].ops.iter().enumerate() {
            self.path.push((region, number));
            self.op(op);
            for inner in ir.ops[op].op.regions() {
                self.region(inner);
            }
            self.path.pop();
        }
    }

    fn op(&mut self, id: OpId) {
        let ir = self.ir;
        let (op, result) = (&ir.ops[id].op, ir.ops[id].results.first());
        if let (Op::Mem(Mem::SharedBase { shared }), Some(result)) = (op, result) {
            self.origin.insert(*result, *shared);
            return;
        }
        let moves = matches!(
            op,
            Op::Mem(Mem::Offset { .. } | Mem::PtrCast { .. } | Mem::AssumeAligned { .. })
        );
        let reads = matches!(
            op,
            Op::Mem(Mem::Ld { .. } | Mem::LdVec { .. } | Mem::St { .. } | Mem::StVec { .. })
                | Op::Mma(Mma::Ldmatrix { .. } | Mma::Stmatrix { .. })
                | Op::Atomic(_)
        );
        for value in op.operands() {
            // If the origin is unknown, control flow has carried the pointer.
            let Some(&shared) = self.origin.get(&value) else { continue };
            match (moves, reads, result) {
                (true, _, Some(result)) => {
                    self.origin.insert(*result, shared);
                }
                (_, true, _) => self.paths[shared.index()].push(self.path.clone()),
                _ => self.alone[shared.index()] = true,
            }
        }
    }
}

/// Decides which accesses are separated by a barrier or by the arms of an `if`.
struct Apart<'k> {
    ir: &'k KernelIr,
    uniform: Uniformity,
    /// How many more pairs may be compared.
    left: usize,
}

/// The order of two separated accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// They are in different arms, so neither comes first.
    Either,
    First,
    Last,
}

impl Apart<'_> {
    /// Returns the groups of allocations that share memory. The largest allocation of each group
    /// comes first.
    fn groups(mut self, paths: &[Vec<Path>], alone: &[bool]) -> Vec<Vec<SharedId>> {
        let ir = self.ir;
        let mut all: Vec<SharedId> = ir.shared.keys().collect();
        sort_by_key(&mut all, |id| (std::cmp::Reverse(bytes(&ir.shared[*id])), id.index()));
        let mut groups: Vec<Vec<SharedId>> = Vec::new();
        for id in all {
            let joins = |apart: &mut Self, group: &[SharedId]| {
                group.iter().all(|other| {
                    !alone[other.index()] && apart.both(&paths[id.index()], &paths[other.index()])
                })
            };
            let found = if alone[id.index()] {
                None
            } else {
                groups.iter().position(|group| joins(&mut self, group))
            };
            match found.and_then(|found| groups.get_mut(found)) {
                Some(group) => group.push(id),
                None => groups.push(vec![id]),
            }
        }
        groups
    }

    /// Returns whether two allocations with these accesses may share memory.
    fn both(&mut self, a: &[Path], b: &[Path]) -> bool {
        let Some(left) = self.left.checked_sub(a.len().saturating_mul(b.len())) else {
            return false;
        };
        self.left = left;
        let mut order = Order::Either;
        for first in a {
            for second in b {
                match self.order(first, second) {
                    None => return false,
                    Some(Order::Either) => {}
                    Some(found) if order == Order::Either || order == found => order = found,
                    Some(_) => return false,
                }
            }
        }
        true
    }

    /// Returns the order of two accesses, or `None` if they are not separated.
    fn order(&self, a: &Path, b: &Path) -> Option<Order> {
        let ir = self.ir;
        let mut around: Option<OpId> = None;
        for (&(region, first), &(other, second)) in a.iter().zip(b) {
            if region != other {
                // Different regions of the same operation: the arms of an `if`.
                let arms = [region, other].map(|arm| ir.regions[arm].ops.first());
                let uniform = |arm: Option<&OpId>| {
                    arm.is_some_and(|op| self.uniform.divergence_of(*op).is_none())
                };
                let is_if = around
                    .is_some_and(|op| matches!(ir.ops[op].op, Op::Control(Control::If { .. })));
                return (is_if && arms.into_iter().all(uniform)).then_some(Order::Either);
            }
            let ops = &ir.regions[region].ops;
            if first != second {
                let (from, to) = (first.min(second), first.max(second));
                let between = ops.get(from + 1..to)?;
                let is_barrier = |op: &OpId| matches!(ir.ops[*op].op, Op::Sync(Sync::Barrier {}));
                let order = if first < second { Order::First } else { Order::Last };
                return between.iter().any(is_barrier).then_some(order);
            }
            let op = *ops.get(first)?;
            if matches!(ir.ops[op].op, Op::Control(Control::For { .. } | Control::Loop { .. })) {
                return None;
            }
            around = Some(op);
        }
        None
    }
}

/// Returns the kernel with one allocation per group.
fn rewritten(ir: &KernelIr, groups: &[Vec<SharedId>]) -> KernelIr {
    let mut out = ir.clone();
    out.shared = Arena::new();
    let mut leaders: HashMap<SharedId, SharedId> = HashMap::new();
    // Keep the order of the allocations.
    let mut first: Vec<&Vec<SharedId>> = groups.iter().collect();
    sort_by_key(&mut first, |group| group.first().map(|id| id.index()));
    for group in first {
        let Some(&leader) = group.first() else { continue };
        let align = group.iter().map(|id| ir.shared[*id].align_bytes).max();
        let data = ir.shared[leader];
        let align_bytes = align.unwrap_or(data.align_bytes);
        let new = out.shared.push(SharedData { align_bytes, ..data });
        leaders.extend(group.iter().map(|id| (*id, new)));
    }
    for region in ir.regions.keys() {
        let mut ops = Vec::with_capacity(ir.regions[region].ops.len());
        for &id in &ir.regions[region].ops {
            if let Op::Mem(Mem::SharedBase { shared }) = ir.ops[id].op
                && let Some(&leader) = leaders.get(&shared)
            {
                let (from, to) = (out.shared[leader].elem, ir.shared[shared].elem);
                let base = Op::Mem(Mem::SharedBase { shared: leader });
                if from == to {
                    out.ops[id].op = base;
                } else {
                    let location = ir.ops[id].location;
                    let made = OpData { op: base, results: Default::default(), region, location };
                    let made = out.ops.push(made);
                    let ty = Type::Pointer { space: Space::Shared, elem: from, mutable: true };
                    let def = ValueDef::Result(made, 0);
                    let base = out.values.push(ValueData { ty, def, region, location });
                    out.ops[made].results.push(base);
                    out.ops[id].op = Op::Mem(Mem::PtrCast { base, to });
                    ops.push(made);
                }
            }
            ops.push(id);
        }
        out.regions[region].ops = ops;
    }
    out
}
