//! [`Ranges`]: the range of each integer value of a kernel, as a fixed point over loops and
//! register variables.
//!
//! This is the first of two walks. It is coarse, because it relates no two values, but it knows
//! values that loops carry. For example, a ring buffer's stage `next = select(stage + 1 == 4, 0,
//! stage + 1)` is from 0 to 3, because a loop that starts at 0 never leaves this range. If a range
//! keeps growing, it is widened to the next constant that the kernel compares with, and in the end
//! to its type.

use std::collections::HashMap;

use super::poly::gcd;
use super::range::Range;
use super::strided::Strided;
use crate::ir::op::{
    Arith, Axis, Compare, Control, Convert, IntArith, Mem, Op, SpecialReg, Thread, VolatileReg,
    Warp,
};
use crate::ir::types::{Const, Scalar, Type};
use crate::ir::{Entity, KernelIr, LaunchBounds, OpId, RegionId, Value, ValueDef, VarId};

/// How often a range may grow step by step before it is widened.
const PATIENCE: u8 = 3;

/// How often a range is widened to a constant of the kernel before it becomes that of its type.
const WIDENINGS: u8 = 8;

#[derive(Debug)]
pub(super) struct Ranges {
    values: Vec<Option<Strided>>,
    vars: Vec<Option<Strided>>,
}

impl Ranges {
    pub(super) fn new(ir: &KernelIr) -> Ranges {
        let mut flow = Flow {
            ir,
            ranges: Ranges { values: vec![None; ir.values.len()], vars: vec![None; ir.vars.len()] },
            smaller: HashMap::new(),
            grown: vec![0; ir.values.len()],
            vars_grown: vec![0; ir.vars.len()],
            steps: thresholds(ir),
            changed: true,
        };
        for param in &ir.params {
            if let Some(range) = of_type(ir.type_of(param.value)) {
                flow.ranges.values[param.value.index()] = Some(Strided::of(range));
            }
        }
        while std::mem::take(&mut flow.changed) {
            flow.region(ir.body);
        }
        flow.ranges
    }

    /// Returns the range of an integer value.
    pub(super) fn of(&self, ir: &KernelIr, value: Value) -> Range {
        let all = of_type(ir.type_of(value)).unwrap_or(Range::ALL);
        self.values[value.index()].map_or(all, |strided| strided.range)
    }

    /// Returns an integer that divides every value of an integer value.
    pub(super) fn multiple(&self, value: Value) -> u128 {
        self.values[value.index()].map_or(1, Strided::multiple)
    }

    pub(super) fn of_var(&self, ir: &KernelIr, var: VarId) -> Range {
        let all = of_type(ir.vars[var].ty).unwrap_or(Range::ALL);
        self.vars[var.index()].map_or(all, |strided| strided.range)
    }
}

/// Returns the range of an integer type.
pub(super) fn of_type(ty: Type) -> Option<Range> {
    of_scalar(ty.scalar()?)
}

pub(super) fn of_scalar(scalar: Scalar) -> Option<Range> {
    let bits = scalar.bits();
    if !scalar.is_int() {
        return None;
    }
    Some(if scalar.is_signed() {
        Range::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        Range::new(0, (1 << bits) - 1)
    })
}

/// Returns the values that a special register can have.
pub(super) fn of_register(ir: &KernelIr, reg: SpecialReg) -> Range {
    use SpecialReg as R;
    let bounds = &ir.bounds;
    let most = i128::from(bounds.max_threads.unwrap_or(LaunchBounds::MAX_THREADS));
    let threads = |axis: Axis| match (bounds.block, axis) {
        (Some(block), axis) => Range::point(block[axis.index()].into()),
        (None, Axis::X | Axis::Y) => Range::new(1, most),
        (None, Axis::Z) => Range::new(1, most.min(64)),
    };
    let all_threads = match bounds.block {
        Some([x, y, z]) => i128::from(x) * i128::from(y) * i128::from(z),
        None => most,
    };
    let blocks = |axis: Axis| match axis {
        Axis::X => Range::new(1, i32::MAX.into()),
        Axis::Y | Axis::Z => Range::new(1, 65535),
    };
    let cluster = |axis: Axis| match bounds.cluster_blocks() {
        Some(blocks) => Range::point(blocks[axis.index()].into()),
        None => Range::new(1, LaunchBounds::MAX_CLUSTER.into()),
    };
    let all_cluster = match bounds.cluster_blocks() {
        Some([x, y, z]) => Range::point(i128::from(x) * i128::from(y) * i128::from(z)),
        None => Range::new(1, LaunchBounds::MAX_CLUSTER.into()),
    };
    let below = |count: Range| Range::new(0, count.hi - 1);
    match reg {
        R::Tid(axis) => below(threads(axis)),
        R::Ntid(axis) => threads(axis),
        R::Ctaid(axis) => below(blocks(axis)),
        R::Nctaid(axis) | R::NClusterId(axis) => blocks(axis),
        R::ClusterId(axis) => below(blocks(axis)),
        R::LaneId => Range::new(0, all_threads.min(32) - 1),
        R::ClusterCtaid(axis) => below(cluster(axis)),
        R::ClusterNctaid(axis) => cluster(axis),
        R::ClusterCtaRank => below(all_cluster),
        R::ClusterNctaRank => all_cluster,
        R::LaneMaskEq | R::LaneMaskLe | R::LaneMaskLt | R::LaneMaskGe | R::LaneMaskGt => {
            Range::new(0, u32::MAX.into())
        }
        R::NWarpId | R::NSmId => Range::new(0, i32::MAX.into()),
        R::DynamicSmemSize | R::TotalSmemSize | R::AggrSmemSize => Range::new(0, u32::MAX.into()),
        R::GridId => Range::new(0, u64::MAX.into()),
        R::IsExplicitCluster => Range::new(0, 1),
    }
}

/// The constants that comparisons and loops of the kernel name, and their neighbours.
fn thresholds(ir: &KernelIr) -> Vec<i128> {
    let mut all = vec![0];
    for (_, data) in ir.ops.iter() {
        let ends = if let Op::Arith(Arith::Setp { lhs, rhs, .. }) = data.op {
            [lhs, rhs]
        } else if let Op::Control(Control::For { lo, hi, .. }) = data.op {
            [lo, hi]
        } else if let Op::Arith(Arith::Min { lhs, rhs } | Arith::Max { lhs, rhs }) = data.op {
            [lhs, rhs]
        } else {
            continue;
        };
        for end in ends {
            if let Some(constant) = constant_of(ir, end).and_then(Const::as_int) {
                all.extend([constant - 1, constant, constant + 1]);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the constant if `value` is one.
pub(super) fn constant_of(ir: &KernelIr, value: Value) -> Option<Const> {
    let ValueDef::Result(op, _) = ir.values[value].def else { return None };
    if let Op::Const(constant) = ir.ops[op].op { Some(constant) } else { None }
}

/// Returns whether two values are computed by equal operations from the same values.
pub(super) fn is_same(ir: &KernelIr, a: Value, b: Value, depth: u32) -> bool {
    if a == b {
        return true;
    }
    let (ValueDef::Result(a, 0), ValueDef::Result(b, 0)) = (ir.values[a].def, ir.values[b].def)
    else {
        return false;
    };
    if let (Op::Const(a), Op::Const(b)) = (&ir.ops[a].op, &ir.ops[b].op) {
        a == b
    } else if let (Op::Arith(x), Op::Arith(y)) = (&ir.ops[a].op, &ir.ops[b].op)
        && depth > 0
    {
        let (left, right) = (x.operands(), y.operands());
        std::mem::discriminant(x) == std::mem::discriminant(y)
            && x.attributes() == y.attributes()
            && left.len() == right.len()
            && left.iter().zip(&right).all(|(a, b)| is_same(ir, *a, *b, depth - 1))
    } else {
        false
    }
}

struct Flow<'k> {
    ir: &'k KernelIr,
    ranges: Ranges,
    /// The ranges of values that enclosing conditions make smaller.
    smaller: HashMap<Value, Strided>,
    /// For each value, how often its range has grown.
    grown: Vec<u8>,
    vars_grown: Vec<u8>,
    /// The constants that ranges are widened to, sorted.
    steps: Vec<i128>,
    changed: bool,
}

/// Returns `known` grown to hold `new`: in steps if it has grown often.
fn grow(
    known: Option<Strided>,
    new: Strided,
    all: Range,
    grown: &mut u8,
    steps: &[i128],
) -> Strided {
    let Some(known) = known else { return new };
    let both = known.or(new);
    if both == known {
        return known;
    }
    *grown = grown.saturating_add(1);
    if *grown <= PATIENCE {
        return both;
    }
    let is_patient = *grown <= PATIENCE + WIDENINGS;
    let Range { mut lo, mut hi } = both.range;
    if lo < known.range.lo {
        let step = steps.iter().rev().find(|step| **step <= lo);
        lo = step.copied().filter(|_| is_patient).unwrap_or(all.lo).max(all.lo);
        // The end has to be one of the integers.
        if both.step > 1 {
            lo = both.range.lo - (both.range.lo - lo) / both.step * both.step;
        }
    }
    if hi > known.range.hi {
        let step = steps.iter().find(|step| **step >= hi);
        hi = step.copied().filter(|_| is_patient).unwrap_or(all.hi).min(all.hi);
    }
    Strided::new(Range { lo, hi }, both.step)
}

impl Flow<'_> {
    /// Makes the range of a value that several paths lead to larger.
    fn raise(&mut self, value: Value, new: Strided) {
        let Some(all) = of_type(self.ir.type_of(value)) else { return };
        let i = value.index();
        let known = self.ranges.values[i];
        let raised = grow(known, new, all, &mut self.grown[i], &self.steps);
        self.changed |= known != Some(raised);
        self.ranges.values[i] = Some(raised);
    }

    fn raise_all(&mut self, to: &[Value], from: &[Value]) {
        for (to, from) in to.iter().zip(from) {
            if let Some(range) = self.known(*from) {
                self.raise(*to, range);
            }
        }
    }

    /// Returns the value's range; `None` if it is no integer, or no path to it has been seen yet.
    fn known(&self, value: Value) -> Option<Strided> {
        of_type(self.ir.type_of(value))?;
        let known = self.ranges.values[value.index()]?;
        Some(self.smaller.get(&value).copied().unwrap_or(known))
    }

    fn region(&mut self, region: RegionId) {
        let ir = self.ir;
        for &id in &ir.regions[region].ops {
            self.op(id);
        }
    }

    fn op(&mut self, id: OpId) {
        let ir = self.ir;
        let data = &ir.ops[id];
        if let Op::Control(control) = &data.op {
            return self.control(id, control);
        }
        if let Op::Mem(Mem::SetVar { var, value, .. }) = data.op {
            let (Some(all), Some(new)) = (of_type(ir.vars[var].ty), self.known(value)) else {
                return;
            };
            let i = var.index();
            let known = self.ranges.vars[i];
            let raised = grow(known, new, all, &mut self.vars_grown[i], &self.steps);
            self.changed |= known != Some(raised);
            self.ranges.vars[i] = Some(raised);
            return;
        }
        for (number, &result) in data.results.iter().enumerate() {
            let Some(all) = of_type(ir.type_of(result)) else { continue };
            let found = if number == 0 { self.result(id, all) } else { Found::Any };
            let Some(new) = found.within(all) else { continue };
            // A value has one operation, so its range follows its operands, which only grow.
            let known = &mut self.ranges.values[result.index()];
            let new = known.map_or(new, |known| known.or(new));
            self.changed |= *known != Some(new);
            *known = Some(new);
        }
    }

    fn control(&mut self, id: OpId, control: &Control) {
        let ir = self.ir;
        match control {
            Control::If { cond, then_region, else_region } => {
                for (region, holds) in
                    [(Some(*then_region), true), (*else_region, false)].into_iter()
                {
                    let Some(region) = region else { continue };
                    let mut undo = Vec::new();
                    self.refine(*cond, holds, &mut undo, 4);
                    self.region(region);
                    self.restore(undo);
                }
            }
            Control::For { lo, hi, init, body, .. } => {
                if let (Some(&index), Some(lo), Some(hi)) =
                    (ir.regions[*body].args.first(), self.known(*lo), self.known(*hi))
                {
                    let (lo, hi) = (lo.range, hi.range);
                    let last = Strided::of(Range::new(lo.lo, (hi.hi - 1).max(lo.lo)));
                    let known = &mut self.ranges.values[index.index()];
                    let last = known.map_or(last, |known| known.or(last));
                    self.changed |= *known != Some(last);
                    *known = Some(last);
                }
                self.raise_all(ir.carried_args(id).unwrap_or_default(), init);
                self.raise_all(&ir.ops[id].results, init);
                self.region(*body);
            }
            Control::Loop { init, body } => {
                self.raise_all(ir.carried_args(id).unwrap_or_default(), init);
                self.region(*body);
            }
            Control::Continue { target, values } => {
                self.raise_all(ir.carried_args(*target).unwrap_or_default(), values);
                if matches!(ir.ops[*target].op, Op::Control(Control::For { .. })) {
                    self.raise_all(&ir.ops[*target].results, values);
                }
            }
            Control::Break { target, values } => self.raise_all(&ir.ops[*target].results, values),
            Control::Yield { values } => {
                if let Some(owner) = ir.regions[ir.ops[id].region].parent {
                    self.raise_all(&ir.ops[owner].results, values);
                }
            }
            Control::Return => {}
        }
    }

    /// Makes the ranges of the compared values smaller, as the condition says.
    fn refine(
        &mut self,
        cond: Value,
        holds: bool,
        undo: &mut Vec<(Value, Option<Strided>)>,
        depth: u32,
    ) {
        let ir = self.ir;
        let (Some(depth), ValueDef::Result(op, 0)) = (depth.checked_sub(1), ir.values[cond].def)
        else {
            return;
        };
        if let Op::Arith(Arith::And { lhs, rhs }) = ir.ops[op].op {
            if holds {
                self.refine(lhs, true, undo, depth);
                self.refine(rhs, true, undo, depth);
            }
        } else if let Op::Arith(Arith::Or { lhs, rhs }) = ir.ops[op].op {
            if !holds {
                self.refine(lhs, false, undo, depth);
                self.refine(rhs, false, undo, depth);
            }
        } else if let Op::Arith(Arith::Not { value }) = ir.ops[op].op {
            self.refine(value, !holds, undo, depth);
        } else if let Op::Arith(Arith::Setp { lhs, rhs, compare }) = ir.ops[op].op
            && let Some(compare) = if holds { Some(compare) } else { opposite(compare) }
        {
            for (value, other, compare) in [(lhs, rhs, compare), (rhs, lhs, mirrored(compare))] {
                if let (Some(known), Some(bound)) = (self.known(value), self.known(other)) {
                    let smaller = cut(known, compare, bound.range);
                    if smaller != known {
                        undo.push((value, self.smaller.insert(value, smaller)));
                    }
                }
            }
        }
    }

    /// Returns the range that `value` has where `cond` is `holds`.
    fn where_(&mut self, value: Value, cond: Value, holds: bool) -> Option<Strided> {
        let ir = self.ir;
        let mut known = self.known(value)?;
        let (ValueDef::Result(cond_op, 0), def) = (ir.values[cond].def, ir.values[value].def)
        else {
            return Some(known);
        };
        if self.is_impossible(cond_op, holds) {
            return None;
        }
        // The operands of the value may be what is compared: compute it again.
        let mut undo = Vec::new();
        self.refine(cond, holds, &mut undo, 2);
        if let (ValueDef::Result(op, 0), Some(all)) = (def, of_type(ir.type_of(value)))
            && matches!(ir.ops[op].op, Op::Arith(Arith::Add { .. } | Arith::Sub { .. }))
            && let Some(again) = self.result(op, all).within(all)
            && again.range.is_within(known.range)
        {
            known = again;
        }
        self.restore(undo);
        let Op::Arith(Arith::Setp { lhs, rhs, compare }) = ir.ops[cond_op].op else {
            return Some(known);
        };
        let Some(compare) = (if holds { Some(compare) } else { opposite(compare) }) else {
            return Some(known);
        };
        for (compared, other, compare) in [(lhs, rhs, compare), (rhs, lhs, mirrored(compare))] {
            if is_same(ir, compared, value, 3)
                && let Some(bound) = self.known(other)
            {
                return Some(cut(known, compare, bound.range));
            }
        }
        Some(known)
    }

    /// Returns whether a comparison never has this result, as far as the ranges go now.
    fn is_impossible(&self, cond: OpId, holds: bool) -> bool {
        let Op::Arith(Arith::Setp { lhs, rhs, compare }) = self.ir.ops[cond].op else {
            return false;
        };
        let Some(compare) = (if holds { Some(compare) } else { opposite(compare) }) else {
            return false;
        };
        let (Some(a), Some(b)) = (self.known(lhs), self.known(rhs)) else { return false };
        let (a, b) = (a.range, b.range);
        match compare {
            Compare::Eq => a.hi < b.lo || b.hi < a.lo,
            Compare::Ne => a.as_point().is_some() && a == b,
            Compare::Lt => a.lo >= b.hi,
            Compare::Le => a.lo > b.hi,
            Compare::Gt => a.hi <= b.lo,
            Compare::Ge => a.hi < b.lo,
            _ => false,
        }
    }

    fn restore(&mut self, undo: Vec<(Value, Option<Strided>)>) {
        for (value, before) in undo.into_iter().rev() {
            match before {
                Some(before) => self.smaller.insert(value, before),
                None => self.smaller.remove(&value),
            };
        }
    }

    fn result(&mut self, id: OpId, all: Range) -> Found {
        let ir = self.ir;
        let op = &ir.ops[id].op;
        if let Op::Const(constant) = op {
            return constant.as_int().map_or(Found::Any, |value| Found::range(Range::point(value)));
        }
        if let Op::Thread(Thread::Sreg { reg }) = op {
            return Found::range(of_register(ir, *reg));
        }
        if let Op::Thread(Thread::VolatileSreg { reg: VolatileReg::WarpId }) = op {
            return Found::range(Range::new(0, i32::MAX.into()));
        }
        if let Op::Mem(Mem::GetVar { var, .. }) = op {
            return self.ranges.vars[var.index()].map_or(Found::Unseen, Found::Some);
        }
        if let Op::Arith(Arith::Selp { cond, then_value, else_value }) = *op {
            let yes = self.where_(then_value, cond, true);
            let no = self.where_(else_value, cond, false);
            return match (yes, no) {
                (Some(yes), Some(no)) => Found::Some(yes.or(no)),
                (Some(one), None) | (None, Some(one)) => Found::Some(one),
                (None, None) => Found::Unseen,
            };
        }
        let operands = op.operands();
        let mut known = [Strided { range: Range::ALL, step: 1 }; 3];
        for (strided, operand) in known.iter_mut().zip(&operands) {
            if of_type(ir.type_of(*operand)).is_some() {
                match self.known(*operand) {
                    Some(found) => *strided = found,
                    None => return Found::Unseen,
                }
            }
        }
        let bits = ir.ops[id].results.first().map_or(64, |value| ir.type_of(*value).bits());
        let step = step_of(op, known);
        let range = of_operation(op, known.map(|strided| strided.range), bits, all);
        range.map_or(Found::Any, |range| Found::Some(Strided::new(range, step)))
    }
}

/// Returns how far the results of an operation are apart.
fn step_of(op: &Op, [a, b, c]: [Strided; 3]) -> i128 {
    let common =
        |x: i128, y: i128| i128::try_from(gcd(x.unsigned_abs(), y.unsigned_abs())).unwrap_or(1);
    let product = |x: Strided, y: Strided| match (x.range.as_point(), y.range.as_point()) {
        (Some(x), _) => y.step.checked_mul(x).unwrap_or(1),
        (_, Some(y)) => x.step.checked_mul(y).unwrap_or(1),
        (None, None) => 1,
    };
    if let Op::Arith(Arith::Add { .. } | Arith::Sub { .. }) = op {
        common(a.step, b.step)
    } else if let Op::Arith(Arith::Mul { .. } | Arith::MulWide { .. }) = op {
        product(a, b)
    } else if let Op::Arith(Arith::MadWide { .. }) | Op::IntArith(IntArith::Mad { .. }) = op {
        common(product(a, b), c.step)
    } else if let Op::Arith(Arith::Shl { .. }) = op {
        match b.range.as_point() {
            Some(amount @ 0..=62) => a.step.checked_mul(1 << amount).unwrap_or(1),
            _ => 1,
        }
    } else if let Op::Convert(Convert::Cvt { .. } | Convert::Bitcast { .. }) = op {
        a.step
    } else {
        1
    }
}

enum Found {
    /// No path has been seen yet.
    Unseen,
    /// Any value of the type.
    Any,
    Some(Strided),
}

impl Found {
    fn range(range: Range) -> Found {
        Found::Some(Strided::of(range))
    }

    /// The integers, or all of the type if some are outside, because then a value may have wrapped.
    fn within(self, all: Range) -> Option<Strided> {
        match self {
            Found::Unseen => None,
            Found::Some(found) if found.range.is_within(all) => Some(found),
            Found::Any | Found::Some(_) => Some(Strided::of(all)),
        }
    }
}

/// Returns the range of an operation's result from those of its operands, before it wraps.
fn of_operation(op: &Op, [a, b, c]: [Range; 3], bits: u32, all: Range) -> Option<Range> {
    let shift = |amount: Range| {
        amount.as_point().filter(|amount| *amount >= 0 && *amount < i128::from(bits))
    };
    Some(if let Op::Arith(arith) = op {
        if let Arith::Add { .. } = arith {
            a.plus(b)
        } else if let Arith::Sub { .. } = arith {
            a.minus(b)
        } else if let Arith::Mul { .. } | Arith::MulWide { .. } = arith {
            a.times(b)
        } else if let Arith::MadWide { .. } = arith {
            a.times(b).plus(c)
        } else if let Arith::Neg { .. } = arith {
            a.negated()
        } else if let Arith::Div { .. } = arith {
            if a.lo < 0 {
                let most = a.lo.abs().max(a.hi);
                return Some(Range::new(-most, most));
            }
            a.floor_div(Range::new(b.lo.max(1), b.hi.max(1))).filter(|_| b.lo >= 0)?
        } else if let Arith::Rem { .. } = arith {
            let most = b.lo.abs().max(b.hi.abs()) - 1;
            let most = most.min(a.lo.abs().max(a.hi.abs())).max(0);
            Range::new(if a.lo >= 0 { 0 } else { -most }, if a.hi <= 0 { 0 } else { most })
        } else if let Arith::Min { .. } = arith {
            Range { lo: a.lo.min(b.lo), hi: a.hi.min(b.hi) }
        } else if let Arith::Max { .. } = arith {
            Range { lo: a.lo.max(b.lo), hi: a.hi.max(b.hi) }
        } else if let Arith::Abs { .. } = arith {
            let most = a.lo.abs().max(a.hi.abs());
            Range::new(if a.lo > 0 { a.lo } else { 0 }, most)
        } else if let Arith::And { .. } = arith {
            match (a.lo >= 0, b.lo >= 0) {
                (true, true) => Range::new(0, a.hi.min(b.hi)),
                (true, false) => Range::new(0, a.hi),
                (false, true) => Range::new(0, b.hi),
                (false, false) => return None,
            }
        } else if let Arith::Or { .. } | Arith::Xor { .. } = arith {
            let mask = a.mask()? | b.mask()?;
            Range::new(0, i128::try_from(mask).ok()?)
        } else if let Arith::Shl { .. } = arith {
            a.times(Range::point(1i128.checked_shl(shift(b)? as u32)?))
        } else if let Arith::Shr { .. } = arith {
            match shift(b) {
                Some(amount) => Range::new(a.lo >> amount, a.hi >> amount),
                None if a.lo >= 0 => Range::new(0, a.hi),
                None => return None,
            }
        } else if let Arith::Bfe { .. } = arith
            && all.lo >= 0
        {
            let count = c.as_point().filter(|count| (0..=64).contains(count))?;
            Range::new(0, (1i128 << count) - 1)
        } else {
            return None;
        }
    } else if let Op::IntArith(IntArith::Mad { .. }) = op {
        a.times(b).plus(c)
    } else if let Op::IntArith(IntArith::Popc { .. } | IntArith::Clz { .. }) = op {
        Range::new(0, 64)
    } else if let Op::Convert(Convert::Cvt { .. } | Convert::Bitcast { .. }) = op
        && a != Range::ALL
    {
        a
    } else if let Op::Warp(
        Warp::Shfl { .. }
        | Warp::Redux { op: crate::ir::op::ReduxOp::Min | crate::ir::op::ReduxOp::Max, .. },
    ) = op
        && a != Range::ALL
    {
        a
    } else if let Op::Warp(Warp::Elect { .. }) = op {
        Range::new(0, 31)
    } else if let Op::Mem(Mem::AssumeDivisibleBy { .. }) = op {
        a
    } else if let Op::Mem(Mem::AssumeBetween { .. }) = op {
        a.and(Range { lo: b.lo, hi: c.hi })
    } else {
        return None;
    })
}

/// Returns the comparison that holds where `compare` of integers does not.
fn opposite(compare: Compare) -> Option<Compare> {
    Some(match compare {
        Compare::Eq => Compare::Ne,
        Compare::Ne => Compare::Eq,
        Compare::Lt => Compare::Ge,
        Compare::Le => Compare::Gt,
        Compare::Gt => Compare::Le,
        Compare::Ge => Compare::Lt,
        _ => return None,
    })
}

/// Returns the comparison with its operands swapped.
fn mirrored(compare: Compare) -> Compare {
    match compare {
        Compare::Lt => Compare::Gt,
        Compare::Le => Compare::Ge,
        Compare::Gt => Compare::Lt,
        Compare::Ge => Compare::Le,
        other => other,
    }
}

/// Returns the part of `known` for which `value compare bound` can hold.
fn cut(known: Strided, compare: Compare, bound: Range) -> Strided {
    match compare {
        Compare::Eq => known.within(bound),
        Compare::Ne => bound.as_point().map_or(known, |end| known.without(end)),
        Compare::Lt => known.within(Range::new(-Range::LIMIT, bound.hi - 1)),
        Compare::Le => known.within(Range::new(-Range::LIMIT, bound.hi)),
        Compare::Gt => known.within(Range::new(bound.lo + 1, Range::LIMIT)),
        Compare::Ge => known.within(Range::new(bound.lo, Range::LIMIT)),
        _ => known,
    }
}
