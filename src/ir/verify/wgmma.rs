//! Rejects kernels in which a register operand of a `wgmma` is written while the `wgmma` may still
//! read it: `VerifyError::WgmmaOperandComputed`. To fix it, the kernel's author computes the next A
//! after the `wgmma_wait_group` that waits for the `wgmma`.
//!
//! A `wgmma` reads its A registers until a `wgmma_wait_group` has waited for it. In a loop, `ptxas`
//! allocates the same registers to the next iteration's A. If an instruction writes them between
//! the `wgmma` and the wait, `ptxas` 13.0 serialises all `wgmma` of the kernel, and says so only in
//! a note without a line number (C7513). Outside loops, and in loops that it unrolls, it uses other
//! registers.
//!
//! The rule describes what we observed `ptxas` do. It applies if a loop body contains, outside of
//! inner regions, a `wgmma_rs` and later a `wgmma_wait_group`; if A is carried from one iteration
//! to the next; if two or more of its 32-bit words change; and if one of them gets its next value
//! before the wait. We exclude loops that `ptxas` may unroll: loops with constant bounds, and short
//! bodies without an inner loop.

use std::collections::HashMap;

use super::{Report, VerifyError};
use crate::ir::analysis::trips::Trips;
use crate::ir::entity::{OpId, RegionId, Value, VarId};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Control, Convert, Mbarrier, Mem, Mma, Op};

/// Loop bodies with at least this many operations are not unrolled by `ptxas`. Measured: it unrolls
/// 22 instructions, but not 32.
const LONG_BODY: usize = 64;

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    if ir
        .ops
        .iter()
        .any(|(_, data)| matches!(data.op, Op::Mma(Mma::WgmmaRs { .. } | Mma::WgmmaRsSp { .. })))
    {
        region(report, ir.body);
    }
}

/// Checks the loops in a region. Recursion is safe because nesting depth is limited.
fn region(report: &mut Report<'_>, id: RegionId) {
    let ir = report.ir;
    for &op in &ir.regions[id].ops {
        match ir.ops[op].op.control() {
            Some(Control::For { lo, hi, step, body, .. }) => {
                if Trips::new(ir, [*lo, *hi, *step]).is_err() && is_long(ir, *body) {
                    Loop::new(ir, op, *body).check(report);
                }
            }
            Some(Control::Loop { body, .. }) => {
                if is_long(ir, *body) {
                    Loop::new(ir, op, *body).check(report);
                }
            }
            Some(
                Control::If { .. }
                | Control::Yield { .. }
                | Control::Continue { .. }
                | Control::Break { .. }
                | Control::Return,
            )
            | None => {}
        }
        for inner in ir.ops[op].op.regions() {
            region(report, inner);
        }
    }
}

/// Returns whether `ptxas` keeps a loop with this body rolled.
fn is_long(ir: &KernelIr, body: RegionId) -> bool {
    let stays = |op: &OpId| match ir.ops[*op].op.control() {
        Some(Control::Loop { .. }) => true,
        Some(Control::For { lo, hi, step, .. }) => Trips::new(ir, [*lo, *hi, *step]).is_err(),
        Some(
            Control::If { .. }
            | Control::Yield { .. }
            | Control::Continue { .. }
            | Control::Break { .. }
            | Control::Return,
        )
        | None => matches!(
            ir.ops[*op].op,
            // Compile to retry loops.
            Op::Mbarrier(Mbarrier::MbarrierWait { .. } | Mbarrier::MbarrierWaitParity { .. })
        ),
    };
    let is_instruction = |op: &&OpId| {
        let op = &ir.ops[**op].op;
        !matches!(
            op,
            Op::Const(_)
                | Op::Mem(Mem::GetVar { .. } | Mem::SetVar { .. })
                | Op::Convert(
                    Convert::Bitcast { .. } | Convert::VecPack { .. } | Convert::VecExtract { .. }
                )
        )
    };
    let ops = &ir.regions[body].ops;
    ops.iter().any(stays) || ops.iter().filter(is_instruction).count() >= LONG_BODY
}

/// The operations directly in a loop's body, without those in inner regions.
struct Loop<'k> {
    ir: &'k KernelIr,
    id: OpId,
    ops: &'k [OpId],
    position: HashMap<OpId, usize>,
}

impl<'k> Loop<'k> {
    fn new(ir: &'k KernelIr, id: OpId, body: RegionId) -> Loop<'k> {
        let ops = &ir.regions[body].ops;
        let position = ops.iter().enumerate().map(|(at, op)| (*op, at)).collect();
        Loop { ir, id, ops, position }
    }

    fn check(&self, report: &mut Report<'_>) {
        for (at, op) in self.ops.iter().enumerate() {
            let (Op::Mma(Mma::WgmmaRs { a, .. }) | Op::Mma(Mma::WgmmaRsSp { a, .. })) =
                self.ir.ops[*op].op
            else {
                continue;
            };
            let (mut words, mut changed) = (Vec::new(), 0);
            self.words(a, &mut words);
            let mut computed = None;
            for (word, count) in words {
                let Some(next) = self.next(word) else { continue };
                let mut parts = Vec::new();
                self.words(next, &mut parts);
                for (part, of_part) in parts {
                    if let Some(made) = self.computed_by(part) {
                        changed += of_part.min(count);
                        computed = computed.or(Some(made).filter(|made| self.is_read(at, *made)));
                    }
                }
            }
            if let (Some(made), true) = (computed, changed > 1) {
                let made = self.ops[made];
                let (op_name, wgmma) = (self.ir.ops[made].op.name(), self.ir.location_of(*op));
                report.at(made, VerifyError::WgmmaOperandComputed { op: op_name, wgmma });
            }
        }
    }

    /// Appends the values that `value` consists of without any instruction, each with its count of
    /// 32-bit words.
    fn words(&self, value: Value, out: &mut Vec<(Value, u32)>) {
        let of = |value: Value| self.ir.type_of(value).bits();
        if let ValueDef::Result(op, _) = self.ir.values[value].def {
            if let Op::Convert(Convert::Bitcast { value, .. }) = self.ir.ops[op].op {
                return self.words(value, out);
            }
            if let Op::Convert(Convert::VecPack { values }) = &self.ir.ops[op].op
                && values.iter().all(|value| of(*value) == 32)
            {
                return values.iter().for_each(|value| self.words(*value, out));
            }
        }
        out.push((value, of(value) / 32));
    }

    /// Returns the value that takes the place of `value` in the next iteration.
    fn next(&self, value: Value) -> Option<Value> {
        match self.ir.values[value].def {
            ValueDef::Arg(..) => {
                let args = self.ir.carried_args(self.id)?;
                let carried = args.iter().position(|arg| *arg == value)?;
                let Some(Control::Continue { target, values }) =
                    self.ir.ops[*self.ops.last()?].op.control()
                else {
                    return None;
                };
                values.get(carried).copied().filter(|_| *target == self.id)
            }
            ValueDef::Result(op, _) => {
                let Op::Mem(Mem::GetVar { var, index }) = self.ir.ops[op].op else { return None };
                let got = *self.position.get(&op)?;
                let mut set = None;
                for (at, op) in self.ops.iter().enumerate() {
                    if let Op::Mem(Mem::SetVar { value, var: found, index: of }) =
                        self.ir.ops[*op].op
                        && (found, of) == (var, index)
                    {
                        if at < got {
                            return None;
                        }
                        set = Some(value);
                    }
                    for inner in self.ir.ops[*op].op.regions() {
                        if self.sets(inner, var) {
                            return None;
                        }
                    }
                }
                set
            }
            ValueDef::Param(_) => None,
        }
    }

    /// Returns whether the region, or one inside it, sets a register of the variable.
    fn sets(&self, region: RegionId, var: VarId) -> bool {
        self.ir.regions[region].ops.iter().any(|op| {
            let op = &self.ir.ops[*op].op;
            op.var_use(self.ir).is_some_and(|used| used.var == var && used.sets)
                || op.regions().into_iter().any(|inner| self.sets(inner, var))
        })
    }

    /// Returns the position of the instruction that computes the value in every iteration.
    fn computed_by(&self, value: Value) -> Option<usize> {
        let ValueDef::Result(op, _) = self.ir.values[value].def else { return None };
        let at = *self.position.get(&op)?;
        let op = &self.ir.ops[op].op;
        if let Op::Convert(Convert::VecExtract { vector, .. }) = op {
            return self.computed_by(*vector);
        }
        let is_no_instruction =
            matches!(op, Op::Mem(Mem::GetVar { .. }) | Op::Const(_) | Op::Control(_));
        (!is_no_instruction).then_some(at)
    }

    /// Returns whether the `wgmma` at position `wgmma` may still read A at the later position `at`,
    /// and a wait follows in the same iteration.
    fn is_read(&self, wgmma: usize, at: usize) -> bool {
        if at < wgmma {
            return false;
        }
        let mut groups = 0u32;
        for op in &self.ops[wgmma..at] {
            let op = &self.ir.ops[*op].op;
            groups += u32::from(matches!(op, Op::Mma(Mma::WgmmaCommitGroup {})));
            // A wait leaves the latest `pending` groups in flight.
            if matches!(op, Op::Mma(Mma::WgmmaWaitGroup { pending }) if *pending < groups) {
                return false;
            }
        }
        let is_wait =
            |op: &OpId| matches!(self.ir.ops[*op].op, Op::Mma(Mma::WgmmaWaitGroup { .. }));
        self.ops[at..].iter().any(is_wait)
    }
}
