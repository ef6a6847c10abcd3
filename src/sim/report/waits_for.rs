//! Finds who waits for whom in a deadlock, so that the fault can name a cycle of warps.
//!
//! A warp waits for every warp that may still end its wait, which means one that has an operation
//! on the same barrier ahead of it.

use std::collections::VecDeque;

use super::explain::Launch;
use crate::ir::op::{Control, Mbarrier, Mem, Op};
use crate::ir::{Entity, KernelIr, OpId, RegionId, SharedId, Value, ValueDef};
use crate::sim::exec::cluster::Stuck;
use crate::sim::fault::raw_fault::RawCause;
use crate::sim::memory::warp_group::WarpGroup;

/// Returns the shared allocation that a pointer was made from.
fn allocation(ir: &KernelIr, mut value: Value) -> Option<SharedId> {
    loop {
        let ValueDef::Result(op, _) = ir.values.get(value)?.def else { return None };
        let op = &ir.ops.get(op)?.op;
        if let Op::Mem(Mem::SharedBase { shared }) = op {
            return Some(*shared);
        }
        let Op::Mem(
            Mem::Offset { base, .. }
            | Mem::PtrCast { base, .. }
            | Mem::Mapa { base, .. }
            | Mem::AssumeAligned { base, .. },
        ) = op
        else {
            return None;
        };
        value = *base;
    }
}

/// Returns a construct's regions.
fn regions(op: &Op) -> Vec<RegionId> {
    let Op::Control(control) = op else { return Vec::new() };
    if let Control::If { then_region, else_region, .. } = control {
        return [Some(*then_region), *else_region].into_iter().flatten().collect();
    }
    if let Control::For { body, .. } | Control::Loop { body, .. } = control {
        return vec![*body];
    }
    Vec::new()
}

/// Returns whether a warp that waits at operation `at` may later execute an operation for which
/// `holds` is true. Loops around `at` may run again.
fn may_execute(ir: &KernelIr, at: OpId, holds: impl Fn(&Op) -> bool) -> bool {
    let mut inside: Vec<OpId> = Vec::new();
    let mut here = at;
    while let Some(region) = ir.ops.get(here).and_then(|data| ir.regions.get(data.region)) {
        let from = region.ops.iter().position(|op| *op == here).map_or(0, |index| index + 1);
        inside.extend(&region.ops[from..]);
        let Some(parent) = region.parent else { break };
        let looped = !matches!(ir.ops[parent].op, Op::Control(Control::If { .. }));
        if looped {
            inside.extend(&region.ops[..from]);
        }
        here = parent;
    }
    while let Some(op) = inside.pop() {
        let Some(data) = ir.ops.get(op) else { continue };
        if holds(&data.op) {
            return true;
        }
        for region in regions(&data.op) {
            inside.extend(ir.regions.get(region).into_iter().flat_map(|region| &region.ops));
        }
    }
    false
}

/// Returns whether an operation may arrive at an mbarrier in the allocation.
fn may_arrive(ir: &KernelIr, op: &Op, shared: SharedId) -> bool {
    let operands = if let Op::Mbarrier(op) = op {
        op.operands()
    } else if let Op::AsyncCopy(op) = op {
        op.operands()
    } else {
        return false;
    };
    let waits = op.name().contains("wait")
        || matches!(
            op,
            Op::Mbarrier(Mbarrier::MbarrierInit { .. } | Mbarrier::MbarrierInval { .. })
        );
    !waits && operands.iter().any(|value| allocation(ir, *value) == Some(shared))
}

impl Launch<'_> {
    /// Returns whether warp `other` may end the wait of warp `warp`.
    fn may_end(&self, warp: &Stuck, other: &Stuck) -> bool {
        let (Some((_, cause)), Some((step, there))) = (&warp.waits, &other.waits) else {
            return false;
        };
        let Some(at) = self.code.ops.get(*step as usize).copied() else { return false };
        let near = warp.block == other.block;
        match cause {
            RawCause::PhaseDeadlock { barrier, .. } => {
                let waits_too = near
                    && matches!(there, RawCause::PhaseDeadlock { barrier: b, .. } if b == barrier);
                let shared = SharedId::from_index(barrier.alloc as usize);
                !waits_too && may_execute(self.ir, at, |op| may_arrive(self.ir, op, shared))
            }
            RawCause::BarrierDeadlock { id, .. } => {
                let waits_too =
                    matches!(there, RawCause::BarrierDeadlock { id: found, .. } if found == id);
                let names =
                    |op: &Op| matches!(op, Op::Sync(_)) && op.name().starts_with("barrier_");
                near && !waits_too && may_execute(self.ir, at, names)
            }
            RawCause::BlockDeadlock { .. } => {
                near && !matches!(there, RawCause::BlockDeadlock { .. })
            }
            RawCause::ClusterDeadlock { .. } => !matches!(there, RawCause::ClusterDeadlock { .. }),
            RawCause::PartialWarpGroup { .. } => {
                let group = |stuck: &Stuck| stuck.warp as usize / WarpGroup::WARPS;
                let waits_too = matches!(there, RawCause::PartialWarpGroup { .. });
                near && !waits_too && group(warp) == group(other)
            }
            _ => false,
        }
    }

    /// Returns the shortest cycle of warps that wait for each other, through the likely culprit if
    /// it is in one. Each warp waits for the next, and the last for the first. Empty if there is no
    /// cycle.
    pub(super) fn cycle(&self, stuck: &[Stuck]) -> Vec<usize> {
        (0..stuck.len()).find_map(|first| self.cycle_through(stuck, first)).unwrap_or_default()
    }

    fn cycle_through(&self, stuck: &[Stuck], first: usize) -> Option<Vec<usize>> {
        let mut before: Vec<Option<usize>> = vec![None; stuck.len()];
        let mut open = VecDeque::from([first]);
        while let Some(here) = open.pop_front() {
            for next in 0..stuck.len() {
                if next == here || !self.may_end(&stuck[here], &stuck[next]) {
                    continue;
                }
                if next == first {
                    let back = std::iter::successors(Some(here), |at| before[*at]);
                    let mut cycle: Vec<usize> = back.collect();
                    cycle.reverse();
                    return Some(cycle);
                }
                if before[next].is_none() {
                    before[next] = Some(here);
                    open.push_back(next);
                }
            }
        }
        None
    }
}
