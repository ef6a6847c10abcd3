//! Finds comparisons of the thread index with the same result in all threads of a warp or block.
//!
//! A comparison of values that are computed from the thread index and constants alone is evaluated for every thread
//! that a block may have, so bounds by `min` and `max`, masks and the size of a fixed block count. A comparison of
//! `tid.x` itself with a multiple of 32 that is known only at run time is uniform in a warp too: `t < n` changes its
//! result between threads `n - 1` and `n`.

use super::uniformity::Scope;
use crate::ir::entity::Value;
use crate::ir::kernel::{KernelIr, OpData, ValueDef};
use crate::ir::op::{Arith, Axis, Compare, Op, SpecialReg};
use crate::ir::types::{Scalar, Type};

/// The most operations that a comparison is evaluated through.
const LIMIT: usize = 64;
/// The most threads of a block.
const THREADS: u32 = 1024;

/// Returns whether all threads of a warp, or of a block, get the same result of `lhs compare rhs`. A block
/// without a fixed size is assumed to extend along x only.
pub(super) fn agree(
    ir: &KernelIr,
    scope: Scope,
    (compare, lhs, rhs): (Compare, Value, Value),
) -> bool {
    let steps = |index: Value, bound: Value, at_bound: [Compare; 2]| {
        at_bound.contains(&compare) && is_thread_index(ir, index) && is_multiple(ir, bound, 0)
    };
    // `t < 32 n`, `t >= 32 n`; `32 n > t`, `32 n <= t`.
    let along_x = match ir.bounds.block {
        Some([x, y, z]) => x.is_multiple_of(32) || (y, z) == (1, 1),
        None => true,
    };
    if scope == Scope::Warp
        && along_x
        && (steps(lhs, rhs, [Compare::Lt, Compare::Ge])
            || steps(rhs, lhs, [Compare::Gt, Compare::Le]))
    {
        return true;
    }
    let [x, y, z] = ir.bounds.block.unwrap_or_else(|| {
        let threads = ir.bounds.max_threads.unwrap_or(THREADS);
        [threads, 1, 1]
    });
    let threads = x.saturating_mul(y).saturating_mul(z).min(THREADS);
    let mut first = None;
    for number in 0..threads {
        let thread = [number % x, number / x % y, number / x / y];
        let mut at = Evaluation { ir, thread, lane: number % 32, known: Vec::new() };
        let (Some(lhs), Some(rhs)) = (at.value(lhs), at.value(rhs)) else { return false };
        let holds = holds(compare, lhs, rhs);
        if scope == Scope::Warp && number.is_multiple_of(32) {
            first = None;
        }
        if *first.get_or_insert(holds) != holds {
            return false;
        }
    }
    true
}

fn holds(compare: Compare, lhs: i128, rhs: i128) -> bool {
    match compare {
        Compare::Eq | Compare::Equ => lhs == rhs,
        Compare::Ne | Compare::Neu => lhs != rhs,
        Compare::Lt | Compare::Ltu => lhs < rhs,
        Compare::Le | Compare::Leu => lhs <= rhs,
        Compare::Gt | Compare::Gtu => lhs > rhs,
        Compare::Ge | Compare::Geu => lhs >= rhs,
        // No integer is NaN.
        Compare::Num => true,
        Compare::Nan => false,
    }
}

fn result_of(ir: &KernelIr, value: Value) -> Option<&OpData> {
    match ir.values[value].def {
        ValueDef::Result(op, _) => Some(&ir.ops[op]),
        _ => None,
    }
}

/// Returns whether the value is `tid.x`, perhaps in another type.
pub(super) fn is_thread_index(ir: &KernelIr, value: Value) -> bool {
    let mut value = value;
    while let Some(data) = result_of(ir, value) {
        match data.op {
            Op::Arith(Arith::Cvt { value: from, .. }) => value = from,
            ref op => return *op == Op::Arith(Arith::Sreg { reg: SpecialReg::Tid(Axis::X) }),
        }
    }
    false
}

/// Returns whether the value is a multiple of 32 for all arguments. Integers wrap at a multiple of it.
fn is_multiple(ir: &KernelIr, value: Value, depth: usize) -> bool {
    if let Some(number) = ir.integer(value) {
        return number % 32 == 0;
    }
    let Some(Op::Arith(op)) = result_of(ir, value).map(|data| &data.op) else { return false };
    if depth > LIMIT / 4 || !matches!(ir.type_of(value), Type::Scalar(s) if s.is_int()) {
        return false;
    }
    let is = |value: Value| is_multiple(ir, value, depth + 1);
    if let Arith::Mul { lhs, rhs } | Arith::And { lhs, rhs } = *op {
        is(lhs) || is(rhs)
    } else if let Arith::Add { lhs, rhs }
    | Arith::Sub { lhs, rhs }
    | Arith::Min { lhs, rhs }
    | Arith::Max { lhs, rhs } = *op
    {
        is(lhs) && is(rhs)
    } else if let Arith::Shl { value, amount } = *op {
        is(value) || ir.integer(amount).is_some_and(|amount| amount >= 5)
    } else if let Arith::Cvt { value: from, .. } = *op {
        matches!(ir.type_of(from), Type::Scalar(s) if s.is_int()) && is(from)
    } else if let Arith::Sreg { reg: SpecialReg::Ntid(axis) } = *op {
        let block = ir.bounds.block;
        block.is_some_and(|block| block[place(axis)].is_multiple_of(32))
    } else {
        false
    }
}

fn place(axis: Axis) -> usize {
    match axis {
        Axis::X => 0,
        Axis::Y => 1,
        Axis::Z => 2,
    }
}

/// Values in one thread.
struct Evaluation<'k> {
    ir: &'k KernelIr,
    thread: [u32; 3],
    lane: u32,
    known: Vec<(Value, i128)>,
}

impl Evaluation<'_> {
    /// The value as an integer, `bool` as 0 or 1; `None` where more than the index of the thread counts.
    fn value(&mut self, value: Value) -> Option<i128> {
        if let Some((_, found)) = self.known.iter().find(|(known, _)| *known == value) {
            return Some(*found);
        }
        let ir = self.ir;
        let Type::Scalar(scalar) = ir.type_of(value) else { return None };
        let number = match ir.integer(value) {
            Some(number) => number,
            None => {
                let Op::Arith(op) = &result_of(ir, value)?.op else { return None };
                if self.known.len() >= LIMIT {
                    return None;
                }
                wrapped(scalar, self.arith(op, scalar)?)?
            }
        };
        self.known.push((value, number));
        Some(number)
    }

    fn arith(&mut self, op: &Arith, scalar: Scalar) -> Option<i128> {
        let both =
            |this: &mut Self, lhs: Value, rhs: Value| Some((this.value(lhs)?, this.value(rhs)?));
        Some(if let Arith::Sreg { reg } = *op {
            match reg {
                SpecialReg::Tid(axis) => self.thread[place(axis)].into(),
                SpecialReg::LaneId => self.lane.into(),
                SpecialReg::Ntid(axis) => self.ir.bounds.block?[place(axis)].into(),
                _ => return None,
            }
        } else if let Arith::Add { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs + rhs
        } else if let Arith::Sub { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs - rhs
        } else if let Arith::Mul { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs.checked_mul(rhs)?
        } else if let Arith::Div { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs.checked_div(rhs)?
        } else if let Arith::Rem { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs.checked_rem(rhs)?
        } else if let Arith::Min { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs.min(rhs)
        } else if let Arith::Max { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs.max(rhs)
        } else if let Arith::And { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs & rhs
        } else if let Arith::Or { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs | rhs
        } else if let Arith::Xor { lhs, rhs } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            lhs ^ rhs
        } else if let Arith::Shl { value, amount } = *op {
            let (value, amount) = both(self, value, amount)?;
            if amount < scalar.bits().into() { value << amount } else { 0 }
        } else if let Arith::Shr { value, amount } = *op {
            let (value, amount) = both(self, value, amount)?;
            value >> amount.min(scalar.bits().into())
        } else if let Arith::Setp { lhs, rhs, compare } = *op {
            let (lhs, rhs) = both(self, lhs, rhs)?;
            holds(compare, lhs, rhs).into()
        } else if let Arith::Selp { cond, then_value, else_value } = *op {
            let chosen = if self.value(cond)? != 0 { then_value } else { else_value };
            self.value(chosen)?
        } else if let Arith::Cvt { value, .. } = *op {
            self.value(value)?
        } else {
            return None;
        })
    }
}

/// The low bits of a number, as one of the type; `None` where that is no integer.
fn wrapped(scalar: Scalar, number: i128) -> Option<i128> {
    let shift = 128 - scalar.bits();
    if scalar == Scalar::Bool {
        Some(number & 1)
    } else if scalar.is_signed() {
        Some(number << shift >> shift)
    } else if scalar.is_int() {
        Some((((number as u128) << shift) >> shift) as i128)
    } else {
        None
    }
}
