//! [`Phases`]: which accesses of two threads of a block may happen without a block barrier in
//! between.
//!
//! If all threads of a block take the same path to each barrier, they all pass the same barriers,
//! one after the other. Two accesses are ordered if one of these barriers comes after the first and
//! before the second. Only barriers count that the divergence analysis shows to be reached by all
//! threads, without looking at data.
//!
//! A loop whose iterations all pass a barrier keeps the threads in step: two accesses without a
//! barrier in between are in the same iteration, or in two that follow one another. Other loops say
//! nothing: one thread may be in any iteration, the other one in any other.

use std::collections::HashMap;

use super::super::ranges::constant_of;
use crate::ir::op::{Control, Op, Sync, Warp};
use crate::ir::{KernelIr, OpId, RegionId, Uniformity, Value};

/// The iteration that the second thread is in, compared with the first thread's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Same,
    Next,
    Previous,
}

/// The loops around both accesses, from the outermost inwards, that keep the threads in step. All
/// other loops are in any iteration.
pub(super) type Relation = Vec<(OpId, Step)>;

/// An operation in a region.
#[derive(Clone, Copy, Debug)]
struct Place {
    region: RegionId,
    index: usize,
    op: OpId,
}

pub(super) struct Phases<'k> {
    ir: &'k KernelIr,
    uniform: Uniformity,
    /// Whether barriers count at all.
    counts: bool,
    /// Whether each execution of the operation passes a barrier.
    passes: HashMap<OpId, bool>,
    places: HashMap<OpId, usize>,
}

/// Where a path goes on after a jump: behind a loop, or nowhere.
type Target = Option<OpId>;

/// A path of operations.
#[derive(Default)]
struct Path {
    /// Jumps that may have left the path, so that what follows may not run.
    left: Vec<Target>,
    /// Loops whose jumps do not matter, because the path goes on as if there were none.
    breaks: Vec<OpId>,
    continues: Vec<OpId>,
}

impl<'k> Phases<'k> {
    pub(super) fn new(ir: &'k KernelIr) -> Phases<'k> {
        let mut places = HashMap::new();
        let mut counts = true;
        for op in ir.reached_ops() {
            // A named barrier may be the block's barrier 0.
            let named = if let Op::Sync(
                Sync::BarrierSync { id, .. }
                | Sync::BarrierArrive { id, .. }
                | Sync::BarrierRed { id, .. }
                | Sync::BarrierRedPopc { id, .. },
            ) = &ir.ops[op].op
            {
                Some(*id)
            } else {
                None
            };
            counts &= named.is_none_or(|id| {
                constant_of(ir, id).and_then(|id| id.as_int()).is_some_and(|id| id != 0)
            });
        }
        for (_, region) in ir.regions.iter() {
            places.extend(region.ops.iter().enumerate().map(|(index, op)| (*op, index)));
        }
        let uniform = Uniformity::without_data(ir);
        let mut phases = Phases { ir, uniform, counts, passes: HashMap::new(), places };
        // Inner operations come before the ones around them.
        for op in ir.reached_ops().into_iter().rev() {
            let passes = phases.always_passes(op);
            phases.passes.insert(op, passes);
        }
        phases
    }

    /// Returns whether all threads of the block see the same value in the same iterations.
    pub(super) fn is_uniform(&self, value: Value) -> bool {
        !self.uniform.is_divergent(value)
    }

    /// Returns the loops around a region, from the innermost outwards.
    pub(super) fn loops(&self, region: RegionId) -> Vec<OpId> {
        let mut loops = Vec::new();
        let mut region = Some(region);
        while let Some(parent) = region.and_then(|region| self.ir.regions[region].parent) {
            if self.is_loop(parent) {
                loops.push(parent);
            }
            region = Some(self.ir.ops[parent].region);
        }
        loops
    }

    fn is_loop(&self, op: OpId) -> bool {
        matches!(self.ir.ops[op].op, Op::Control(Control::For { .. } | Control::Loop { .. }))
    }

    fn always_passes(&self, op: OpId) -> bool {
        let whole = |region: RegionId| self.scan(region, 0, usize::MAX, &mut Path::default());
        let op_data = &self.ir.ops[op].op;
        if let Op::Sync(Sync::Barrier {}) = op_data {
            self.counts && self.uniform.divergence_of(op).is_none()
        } else if let Op::Warp(Warp::BarWarp { members }) = op_data {
            // A block of one warp.
            let all = constant_of(self.ir, *members).map(|members| members.bits());
            let threads = self.ir.bounds.block.map(|block| {
                block.into_iter().fold(1, |all: u64, threads| all.saturating_mul(threads.into()))
            });
            all == Some(u32::MAX.into())
                && threads.is_some_and(|threads| threads <= 32)
                && self.uniform.divergence_of(op).is_none()
        } else if let Op::Control(Control::If {
            then_region, else_region: Some(else_region), ..
        }) = op_data
        {
            whole(*then_region) && whole(*else_region)
        } else if let Op::Control(Control::Loop { body, .. }) = op_data {
            whole(*body)
        } else {
            false
        }
    }

    /// Returns whether each thread that goes from one position of a region to another one passes a
    /// barrier.
    fn scan(&self, region: RegionId, from: usize, to: usize, path: &mut Path) -> bool {
        let ops = &self.ir.regions[region].ops;
        for &op in ops.get(from..to.min(ops.len())).unwrap_or_default() {
            if path.left.is_empty() && self.passes.get(&op).copied().unwrap_or(false) {
                return true;
            }
            self.jumps(op, path, &mut Vec::new());
        }
        false
    }

    /// Notes the jumps out of an operation.
    fn jumps(&self, op: OpId, path: &mut Path, inside: &mut Vec<OpId>) {
        let Op::Control(control) = &self.ir.ops[op].op else { return };
        match control {
            Control::Break { target, .. } => {
                if !path.breaks.contains(target) && !inside.contains(target) {
                    path.left.push(Some(*target));
                }
            }
            Control::Continue { target, .. } => {
                if !path.continues.contains(target) && !inside.contains(target) {
                    path.left.push(Some(*target));
                }
            }
            Control::Return => {
                // If all threads return, none comes to the second access.
                if self.uniform.divergence_of(op).is_some() {
                    path.left.push(None);
                }
            }
            Control::If { .. } | Control::For { .. } | Control::Loop { .. } => {
                inside.push(op);
                for region in control.regions() {
                    for &inner in &self.ir.regions[region].ops {
                        self.jumps(inner, path, inside);
                    }
                }
                inside.pop();
            }
            Control::Yield { .. } => {}
        }
    }

    /// Returns the operations around `op`, from the outermost inwards, with `op` itself.
    fn path(&self, op: OpId) -> Vec<Place> {
        let mut places = Vec::new();
        let mut next = Some(op);
        while let Some(op) = next {
            let region = self.ir.ops[op].region;
            places.push(Place { region, index: self.places.get(&op).copied().unwrap_or(0), op });
            next = self.ir.regions[region].parent;
        }
        places.reverse();
        places
    }

    /// Returns how the iterations of two threads may differ when the first one is at `a` and the
    /// second one at `b`, without a barrier in between. None if a barrier is always in between.
    pub(super) fn relations(&self, a: OpId, b: OpId) -> Vec<Relation> {
        let (first, second) = (self.path(a), self.path(b));
        let (mut found, mut same): (Vec<Relation>, Relation) = (Vec::new(), Vec::new());
        for level in 0..first.len().min(second.len()) {
            let (x, y) = (first[level], second[level]);
            if x.region != y.region {
                // Two arms of the same `if`.
                let parent = self.ir.regions[x.region].parent;
                let is_uniform = parent.is_some_and(|parent| {
                    matches!(&self.ir.ops[parent].op,
                        Op::Control(Control::If { cond, .. }) if self.is_uniform(*cond))
                });
                if !is_uniform {
                    found.push(same);
                }
                return found;
            }
            if x.index != y.index {
                let is_apart = if x.index < y.index {
                    self.between(&first, &second, level, None)
                } else {
                    self.between(&second, &first, level, None)
                };
                if !is_apart {
                    found.push(same);
                }
                return found;
            }
            if !self.is_loop(x.op) {
                continue;
            }
            let mut path = Path { breaks: vec![x.op], ..Path::default() };
            let body = self.ir.ops[x.op].op.regions().first().copied();
            if !body.is_some_and(|body| self.scan(body, 0, usize::MAX, &mut path)) {
                found.push(same);
                return found;
            }
            let with = |step: Step| {
                let mut all = same.clone();
                all.push((x.op, step));
                all
            };
            if !self.between(&first, &second, level, Some(x.op)) {
                found.push(with(Step::Next));
            }
            if !self.between(&second, &first, level, Some(x.op)) {
                found.push(with(Step::Previous));
            }
            same = with(Step::Same);
        }
        found.push(same);
        found
    }

    /// Returns whether a barrier is on each path from one access to another one whose paths part
    /// at `level`: behind it, or in the next iteration of the loop `around` at this level.
    fn between(&self, from: &[Place], to: &[Place], level: usize, around: Option<OpId>) -> bool {
        let enclosing: Vec<OpId> =
            from[..level].iter().map(|place| place.op).filter(|op| self.is_loop(*op)).collect();
        let mut path = Path { left: Vec::new(), breaks: enclosing.clone(), continues: enclosing };
        path.breaks.extend(around);
        for inner in (level + 1..from.len()).rev() {
            let place = from[inner];
            if self.scan(place.region, place.index + 1, usize::MAX, &mut path) {
                return true;
            }
            // Whatever jumped behind or to the end of this loop's body is here now.
            path.left.retain(|target| *target != Some(from[inner - 1].op));
        }
        if around.is_none()
            && self.scan(from[level].region, from[level].index + 1, to[level].index, &mut path)
        {
            return true;
        }
        for inner in level + 1..to.len() {
            let place = to[inner];
            // The path comes to the access, so it takes no jump before it.
            path.breaks.push(to[inner - 1].op);
            path.continues.push(to[inner - 1].op);
            if self.scan(place.region, 0, place.index, &mut path) {
                return true;
            }
        }
        false
    }
}
