//! Finds values that are equal across a warp's lanes after a butterfly exchange, such as the result
//! of a shuffle reduction. The uniformity analysis asks it, so that a branch on such a result does
//! not count as divergent.

use crate::ir::entity::{Entity, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Arith, Compare, Op, ShflMode, SpecialReg, Thread, Warp};

/// The bits of a lane's index.
const LANE_BITS: u32 = 31;

/// For each value, the bits of the lane index that it does not depend on: lanes that differ only in
/// these bits have the same value.
pub(super) struct Butterflies {
    free: Vec<u32>,
}

impl Butterflies {
    pub(super) fn new(ir: &KernelIr) -> Butterflies {
        Butterflies { free: vec![0; ir.values.len()] }
    }

    /// Returns whether the result of `op` is the same in all lanes even though its operands are
    /// not. Call this in execution order. `is_divergent` tells whether lanes may see different
    /// values.
    pub(super) fn is_uniform(
        &mut self,
        ir: &KernelIr,
        op: &Op,
        results: &[Value],
        is_divergent: impl Fn(Value) -> bool,
    ) -> bool {
        let free = |value: Value| {
            if is_divergent(value) { self.free[value.index()] } else { LANE_BITS }
        };
        let operands = op.operands();
        let pair = if let Op::Arith(Arith::Selp { cond, then_value, else_value }) = *op {
            let pair = exchanged(ir, then_value, else_value);
            pair.filter(|(_, bit)| tested_bit(ir, cond) == Some(*bit))
        } else if let (true, [lhs, rhs]) = (op.commutes(), operands.as_slice()) {
            exchanged(ir, *lhs, *rhs)
        } else {
            None
        };
        let found = match pair {
            Some((own, bit)) => free(own) | bit,
            None => operands.into_iter().fold(LANE_BITS, |all, value| all & free(value)),
        };
        if let [result] = results {
            self.free[result.index()] = found;
        }
        found == LANE_BITS
    }
}

/// If one of the two values is the other one shuffled across one bit of the lane index, returns the
/// thread's own value and that bit.
fn exchanged(ir: &KernelIr, a: Value, b: Value) -> Option<(Value, u32)> {
    let of = |own: Value, other: Value| {
        let ValueDef::Result(op, 0) = ir.values[other].def else { return None };
        let Op::Warp(Warp::Shfl { value, lane, segment, members, mode }) = ir.ops[op].op else {
            return None;
        };
        let is = |value: Value, wanted: i128| ir.integer(value) == Some(wanted);
        let whole = ShflMode::Bfly.segment(32).is_some_and(|whole| is(segment, whole.into()));
        let all = is(members, u32::MAX.into());
        if value != own || mode != ShflMode::Bfly || !whole || !all {
            return None;
        }
        let bit = u32::try_from(ir.integer(lane)?).ok()?;
        (bit.is_power_of_two() && bit <= LANE_BITS).then_some((own, bit))
    };
    of(a, b).or_else(|| of(b, a))
}

/// Returns the bit of the lane index that a condition tests.
fn tested_bit(ir: &KernelIr, cond: Value) -> Option<u32> {
    let result = |value: Value| match ir.values[value].def {
        ValueDef::Result(op, _) => Some(&ir.ops[op].op),
        ValueDef::Param(_) | ValueDef::Arg(..) => None,
    };
    let Op::Arith(Arith::Setp { lhs, rhs, compare: Compare::Ne }) = result(cond)? else {
        return None;
    };
    let Op::Arith(Arith::And { lhs: lane, rhs: bit }) = result(*lhs)? else { return None };
    let Op::Thread(Thread::Sreg { reg: SpecialReg::LaneId }) = result(*lane)? else { return None };
    let bit = u32::try_from(ir.integer(*bit)?).ok()?;
    (ir.integer(*rhs) == Some(0) && bit.is_power_of_two() && bit <= LANE_BITS).then_some(bit)
}
