//! Finds operations that fault in every launch because of a constant, such as a division by zero,
//! so that the build fails instead of the launch.
//!
//! The check covers only operations that every thread executes: those in the kernel's body and in
//! loops with at least one iteration, up to the first possible jump. It skips the arms of an `if`,
//! because an `if` may guard against exactly these constants, for example in an unrolled loop body.

use super::{Report, VerifyError};
use crate::ir::analysis::jumps::leaves;
use crate::ir::analysis::trips::Trips;
use crate::ir::entity::{LocalId, OpId, RegionId, SharedId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Arith, Control, Mem, Op};
use crate::ir::types::Type;

pub(super) fn check(report: &mut Report<'_>) {
    let body = report.ir.body;
    region(report, body);
}

/// Checks a region that every thread enters. Returns whether every thread that enters it also
/// reaches what follows.
fn region(report: &mut Report<'_>, id: RegionId) -> bool {
    let ir = report.ir;
    for &op in &ir.regions[id].ops {
        check_op(report, op);
        let goes_on = match ir.ops[op].op.control() {
            Some(Control::Loop { body, .. }) => region(report, *body) || !leaves(ir, op),
            Some(Control::For { lo, hi, step, body, .. }) => {
                let runs = Trips::new(ir, [*lo, *hi, *step]).is_ok_and(|trips| trips.count > 0);
                if runs {
                    region(report, *body);
                }
                !leaves(ir, op)
            }
            Some(
                Control::If { .. }
                | Control::Yield { .. }
                | Control::Continue { .. }
                | Control::Break { .. }
                | Control::Return,
            )
            | None => !leaves(ir, op),
        };
        if !goes_on {
            return false;
        }
    }
    true
}

fn check_op(report: &mut Report<'_>, op: OpId) {
    let ir = report.ir;
    let data = &ir.ops[op].op;
    if let Op::Arith(Arith::Div { rhs, .. } | Arith::Rem { rhs, .. }) = data
        && ir.integer(*rhs) == Some(0)
    {
        report.at(op, VerifyError::DivisionByZero { op: data.name() });
    }
    if let Op::Mem(Mem::Ld { base, index, .. } | Mem::St { base, index, .. }) = data
        && let Some((allocation, byte)) = allocation_byte(ir, *base, *index)
        && let Type::Pointer { elem, .. } = ir.type_of(*base)
    {
        let size = elem.size_bytes();
        let outside = |len_bytes: u64| byte < 0 || byte + i128::from(size) > i128::from(len_bytes);
        match allocation {
            Allocation::Shared(shared) => {
                let data = &ir.shared[shared];
                let len_bytes = u64::from(data.len) * u64::from(data.elem.size_bytes());
                if outside(len_bytes) {
                    let made = ir.locations[data.location];
                    let error =
                        VerifyError::SharedIndexOutOfBounds { shared, made, byte, size, len_bytes };
                    report.at(op, error);
                }
            }
            Allocation::Local(local) => {
                let data = &ir.locals[local];
                let (len_bytes, made) = (data.bytes(), ir.locations[data.location]);
                if outside(len_bytes) {
                    let error =
                        VerifyError::LocalIndexOutOfBounds { local, made, byte, size, len_bytes };
                    report.at(op, error);
                }
            }
        }
    }
}

/// The allocation that a pointer points into.
enum Allocation {
    Shared(SharedId),
    Local(LocalId),
}

/// Returns the allocation of `base + index` and the byte offset in it, if both are known.
fn allocation_byte(ir: &KernelIr, base: Value, index: Value) -> Option<(Allocation, i128)> {
    let bytes = |base: Value, index: Value| {
        let Type::Pointer { elem, .. } = ir.type_of(base) else { return None };
        Some(ir.integer(index)? * i128::from(elem.size_bytes()))
    };
    let (mut base, mut byte) = (base, bytes(base, index)?);
    loop {
        let ValueDef::Result(def, _) = ir.values[base].def else { return None };
        let op = &ir.ops[def].op;
        if let Op::Mem(Mem::SharedBase { shared }) = op {
            return Some((Allocation::Shared(*shared), byte));
        }
        if let Op::Mem(Mem::LocalBase { local }) = op {
            return Some((Allocation::Local(*local), byte));
        }
        if let Op::Mem(Mem::Offset { base: moved, index }) = op {
            byte += bytes(*moved, *index)?;
            base = *moved;
        } else if let Op::Mem(Mem::PtrCast { base: cast, .. }) = op {
            base = *cast;
        } else {
            return None;
        }
    }
}
