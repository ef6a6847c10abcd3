//! Finds comparisons of the thread index that have the same result in all threads of a warp or
//! block. The uniformity analysis uses it to accept, for example, a warp operation inside `if
//! thread_idx().x < 64`.
//!
//! If both sides depend only on the thread index and constants, the comparison is evaluated for
//! every thread that a block may have. So bounds by `min` and `max`, masks and a fixed block size
//! are taken into account. Comparing `tid.x` with `32 * n` is also uniform across a warp, even if
//! `n` is known only at run time: `tid.x < 32 * n` changes its result only between the threads
//! `32 * n - 1` and `32 * n`, which are in different warps.

use smallvec::SmallVec;

use super::uniformity::Scope;
use crate::ir::entity::Value;
use crate::ir::eval;
use crate::ir::kernel::{KernelIr, OpData, ValueDef};
use crate::ir::op::{Arith, Axis, Compare, Convert, Op, SpecialReg, Thread};
use crate::ir::types::{Const, Scalar, Type};

/// The maximum number of operations to evaluate for a comparison.
const LIMIT: usize = 64;
/// The maximum number of threads in a block.
const THREADS: u32 = 1024;

/// Returns whether all threads of a warp or block agree on `lhs compare rhs`. A block without a
/// fixed size is assumed to extend along x only.
pub(super) fn agree(ir: &KernelIr, scope: Scope, compare: Compare, lhs: Value, rhs: Value) -> bool {
    let steps = |index: Value, bound: Value, at_bound: [Compare; 2]| {
        at_bound.contains(&compare) && is_thread_index(ir, index) && is_multiple(ir, bound, 0)
    };
    // These are `t < 32 n` and `t >= 32 n`, or `32 n > t` and `32 n <= t`.
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
    let comparison = Op::from(Arith::Setp { lhs, rhs, compare });
    let mut first = None;
    for number in 0..threads {
        let thread = [number % x, number / x % y, number / x / y];
        let mut at = Evaluation { ir, thread, lane: number % 32, known: Vec::new() };
        let (Some(a), Some(b)) = (at.value(lhs), at.value(rhs)) else { return false };
        let operand = |value| Some(if value == lhs { a } else { b });
        let Some(holds) = eval::constant(&comparison, Scalar::Bool, operand) else { return false };
        if scope == Scope::Warp && number.is_multiple_of(32) {
            first = None;
        }
        if *first.get_or_insert(holds) != holds {
            return false;
        }
    }
    true
}

fn result_of(ir: &KernelIr, value: Value) -> Option<&OpData> {
    match ir.values[value].def {
        ValueDef::Result(op, _) => Some(&ir.ops[op]),
        _ => None,
    }
}

/// Returns whether the value is `tid.x`, possibly converted to another type.
pub(super) fn is_thread_index(ir: &KernelIr, value: Value) -> bool {
    let mut value = value;
    while let Some(data) = result_of(ir, value) {
        match data.op {
            Op::Convert(Convert::Cvt { value: from, .. }) => value = from,
            ref op => return *op == Op::Thread(Thread::Sreg { reg: SpecialReg::Tid(Axis::X) }),
        }
    }
    false
}

/// Returns whether the value is a multiple of 32 in every launch. Wrapping does not change that,
/// because integer types wrap at a multiple of 32.
fn is_multiple(ir: &KernelIr, value: Value, depth: usize) -> bool {
    if let Some(number) = ir.integer(value) {
        return number % 32 == 0;
    }
    let Some(op) = result_of(ir, value).map(|data| &data.op) else { return false };
    if depth > LIMIT / 4 || !matches!(ir.type_of(value), Type::Scalar(s) if s.is_int()) {
        return false;
    }
    let is = |value: Value| is_multiple(ir, value, depth + 1);
    if let Op::Arith(Arith::Mul { lhs, rhs } | Arith::And { lhs, rhs }) = *op {
        is(lhs) || is(rhs)
    } else if let Op::Arith(
        Arith::Add { lhs, rhs }
        | Arith::Sub { lhs, rhs }
        | Arith::Min { lhs, rhs }
        | Arith::Max { lhs, rhs },
    ) = *op
    {
        is(lhs) && is(rhs)
    } else if let Op::Arith(Arith::Shl { value, amount }) = *op {
        is(value) || ir.integer(amount).is_some_and(|amount| amount >= 5)
    } else if let Op::Convert(Convert::Cvt { value: from, .. }) = *op {
        matches!(ir.type_of(from), Type::Scalar(s) if s.is_int()) && is(from)
    } else if let Op::Thread(Thread::Sreg { reg: SpecialReg::Ntid(axis) }) = *op {
        let block = ir.bounds.block;
        block.is_some_and(|block| block[location(axis)].is_multiple_of(32))
    } else {
        false
    }
}

fn location(axis: Axis) -> usize {
    match axis {
        Axis::X => 0,
        Axis::Y => 1,
        Axis::Z => 2,
    }
}

/// Evaluates values for one thread.
struct Evaluation<'k> {
    ir: &'k KernelIr,
    thread: [u32; 3],
    lane: u32,
    known: Vec<(Value, Const)>,
}

impl Evaluation<'_> {
    /// Returns the value of an integer or `bool`, or `None` if it depends on more than the thread
    /// index.
    fn value(&mut self, value: Value) -> Option<Const> {
        if let Some((_, found)) = self.known.iter().find(|(known, _)| *known == value) {
            return Some(*found);
        }
        let ir = self.ir;
        let Type::Scalar(scalar) = ir.type_of(value) else { return None };
        if !(scalar.is_int() || scalar == Scalar::Bool) {
            return None;
        }
        let op = &result_of(ir, value)?.op;
        let number = if let Op::Const(constant) = op {
            *constant
        } else if self.known.len() >= LIMIT {
            return None;
        } else if let Op::Thread(Thread::Sreg { reg }) = op {
            Const::new(scalar, self.special(*reg)?.into())
        } else if let Op::Arith(Arith::Selp { cond, then_value, else_value }) = op {
            let cond = self.value(*cond)?.bits() != 0;
            self.value(if cond { *then_value } else { *else_value })?
        } else {
            self.computed(op, scalar)?
        };
        self.known.push((value, number));
        Some(number)
    }

    /// Returns the result of a pure operation whose operands are known.
    fn computed(&mut self, op: &Op, scalar: Scalar) -> Option<Const> {
        let mut operands: SmallVec<[(Value, Const); 4]> = SmallVec::new();
        for value in op.operands() {
            operands.push((value, self.value(value)?));
        }
        let known = |value| operands.iter().find(|(operand, _)| *operand == value);
        eval::constant(op, scalar, |value| known(value).map(|(_, constant)| *constant))
    }

    fn special(&self, reg: SpecialReg) -> Option<u32> {
        match reg {
            SpecialReg::Tid(axis) => Some(self.thread[location(axis)]),
            SpecialReg::LaneId => Some(self.lane),
            SpecialReg::Ntid(axis) => self.ir.bounds.block.map(|block| block[location(axis)]),
            _ => None,
        }
    }
}
