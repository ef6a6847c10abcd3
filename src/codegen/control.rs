//! Writes structured control flow as labels and branches. An `if`, a `for` with the next index, and
//! a `loop` with break and continue look like this:
//!
//! ```text
//!   @!%p5 bra $if0_else;            setp.ge.s32 %tp0, %r1, %r2;       mov.f32 %f3, %f1;
//!     ..                            @%tp0 bra $for1_end;            $loop2:
//!     bra $if0_end;                 mov.b32 %r4, %r1;                 ..
//! $if0_else:                      $for1:                              bra $loop2_end;    (break)
//!     ..                              ..                              bra $loop2;        (continue)
//! $if0_end:                       $for1_next:                       $loop2_end:
//!                                   add.s32 %r4, %r4, 1;
//!                                   setp.lt.s32 %tp1, %r4, %r2;
//!                                   @%tp1 bra $for1;
//!                                 $for1_end:
//! ```
//!
//! Constructs are numbered in the order of the text. Labels that nothing jumps to are left out, and
//! so is unreachable code. The dollar sign keeps labels apart from the names of kernels and
//! parameters.

use super::copies::sequence;
use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type};
use super::uses::condition;
use crate::ir::op::{Control, Op};
use crate::ir::types::Scalar;
use crate::ir::{OpId, RegionId, Value};

/// A loop whose body is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenLoop {
    op: OpId,
    number: u32,
    is_for: bool,
    /// True if control falls through to the end of an iteration of a `for`.
    next_falls: bool,
    /// True if a jump leads to the end of an iteration of a `for`.
    next_used: bool,
    /// True if a jump leads out of the loop.
    end_used: bool,
}

/// Where a terminator jumps to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// The end of the thread.
    Return,
    /// A label: the kind of construct, its index, and the place in it.
    Label(&'static str, u32, &'static str),
}

impl Entry<'_> {
    pub(super) fn control(&mut self, id: OpId, control: &Control) {
        match control {
            Control::If { cond, then_region, else_region } => {
                self.if_(*cond, *then_region, *else_region);
            }
            Control::For { lo, hi, step, init, body, unroll: _, prefetch: _ } => {
                self.for_(id, [*lo, *hi, *step], init, *body);
            }
            Control::Loop { init, body } => self.loop_(id, init, *body),
            Control::Yield { .. } => {
                let copies = self.copies_of(id);
                self.copy(&copies);
            }
            Control::Continue { .. } | Control::Break { .. } | Control::Return => {
                let copies = self.copies_of(id);
                self.copy(&copies);
                if let Some(target) = self.target_of(id) {
                    self.jump(target);
                }
                self.reachable = false;
            }
        }
    }

    fn label_name(&mut self, kind: &str, number: u32, part: &str) {
        self.text.push("$");
        self.text.push(kind);
        self.text.number(number.into());
        self.text.push(part);
    }

    pub(super) fn label(&mut self, kind: &str, number: u32, part: &str) {
        self.text.begin();
        self.label_name(kind, number, part);
        self.text.push(":\n");
    }

    /// Jumps in every thread.
    pub(super) fn jump(&mut self, target: Target) {
        self.begin();
        self.finish_jump(target);
    }

    /// Jumps in the threads in which the predicate is true, or false if it is `negated`.
    pub(super) fn jump_if(&mut self, predicate: Reg, negated: bool, target: Target) {
        self.begin();
        self.guard(predicate, negated);
        self.finish_jump(target);
    }

    fn finish_jump(&mut self, target: Target) {
        match target {
            Target::Return => self.text.push("ret"),
            Target::Label(kind, number, part) => {
                self.text.push("bra ");
                self.label_name(kind, number, part);
            }
        }
        self.text.push(";\n");
    }

    pub(super) fn number(&mut self) -> u32 {
        self.labels += 1;
        self.labels - 1
    }

    fn copy(&mut self, copies: &[(Reg, Operand)]) {
        match copies {
            [] => {}
            [(to, from)] => self.mov(*to, *from),
            _ => {
                let ordered = sequence(copies, |reg| self.temp(reg.class()));
                for (to, from) in ordered {
                    self.mov(to, from);
                }
            }
        }
    }

    /// Returns the copies of `values` to the registers of `to`, without those that nothing reads.
    fn copies(&mut self, values: &[Value], to: &[Value], all: bool) -> Vec<(Reg, Operand)> {
        let mut copies = Vec::new();
        for (value, to) in values.iter().zip(to) {
            if all || self.uses.is_live(*to) {
                let (to, from) = (self.def_parts(*to), self.parts(*value));
                let parts = to.into_iter().zip(from);
                copies.extend(parts.filter(|(to, from)| *from != Operand::Reg(*to)));
            }
        }
        copies
    }

    /// Returns the copies that a terminator makes.
    fn copies_of(&mut self, terminator: OpId) -> Vec<(Reg, Operand)> {
        let ir = self.ir;
        let data = &ir.ops[terminator];
        let Op::Control(control) = &data.op else { return Vec::new() };
        match control {
            Control::Yield { values } => match ir.regions[data.region].parent {
                Some(parent) => self.copies(values, &ir.ops[parent].results, false),
                None => Vec::new(),
            },
            Control::Continue { target, values } => {
                self.copies(values, ir.carried_args(*target).unwrap_or(&[]), true)
            }
            Control::Break { target, values } => {
                let results = &ir.ops[*target].results;
                let is_for = matches!(ir.ops[*target].op, Op::Control(Control::For { .. }));
                self.copies(values, results, is_for)
            }
            Control::Return | Control::If { .. } | Control::For { .. } | Control::Loop { .. } => {
                Vec::new()
            }
        }
    }

    /// Returns a terminator's target, or `None` if control falls through to it.
    fn target_of(&mut self, terminator: OpId) -> Option<Target> {
        let ir = self.ir;
        let data = &ir.ops[terminator];
        let Op::Control(control) = &data.op else { return None };
        match control {
            Control::Return => Some(Target::Return),
            Control::Continue { target, .. } | Control::Break { target, .. } => {
                let is_break = matches!(control, Control::Break { .. });
                let is_last = ir.regions[data.region].parent == Some(*target);
                let open = self.loops.iter_mut().rev().find(|open| open.op == *target)?;
                let kind = if open.is_for { "for" } else { "loop" };
                if is_break {
                    open.end_used = true;
                    return Some(Target::Label(kind, open.number, "_end"));
                }
                if !open.is_for {
                    return Some(Target::Label(kind, open.number, ""));
                }
                // The next iteration is prepared after the end of the body.
                if is_last {
                    open.next_falls = true;
                    return None;
                }
                open.next_used = true;
                Some(Target::Label(kind, open.number, "_next"))
            }
            Control::Yield { .. }
            | Control::If { .. }
            | Control::For { .. }
            | Control::Loop { .. } => None,
        }
    }

    /// Returns the terminator of a region that contains nothing else.
    fn only_terminator(&self, region: RegionId) -> Option<OpId> {
        let ir = self.ir;
        let mut written = ir.regions[region]
            .ops
            .iter()
            .filter(|op| !matches!(ir.ops[**op].op, Op::Const(_)) && self.uses.is_written(**op));
        match (written.next(), written.next()) {
            (Some(only), None) => Some(*only),
            _ => None,
        }
    }

    /// Returns whether nothing is written for an arm.
    fn is_empty(&mut self, region: RegionId) -> bool {
        let Some(only) = self.only_terminator(region) else { return false };
        matches!(self.ir.ops[only].op, Op::Control(Control::Yield { .. }))
            && self.copies_of(only).is_empty()
    }

    /// Returns the target of a region that only jumps.
    fn only_jump(&mut self, region: RegionId) -> Option<Target> {
        let only = self.only_terminator(region)?;
        let jumps = matches!(
            self.ir.ops[only].op,
            Op::Control(Control::Break { .. } | Control::Continue { .. } | Control::Return)
        );
        if jumps && self.copies_of(only).is_empty() { self.target_of(only) } else { None }
    }

    fn if_(&mut self, cond: Value, then_region: RegionId, else_region: Option<RegionId>) {
        let (cond, negated) = condition(self.ir, cond);
        let (guard, holds) = match self.operand(cond) {
            Operand::Reg(guard) => (guard, negated),
            // The condition is known, so write only one of the arms.
            Operand::Const(cond) => {
                let arm =
                    if (cond.bits() != 0) != negated { Some(then_region) } else { else_region };
                return arm.map_or((), |arm| self.region(arm));
            }
            Operand::Int(_) => return,
        };
        let else_region = else_region.filter(|region| !self.is_empty(*region));
        if let Some(target) = self.only_jump(then_region) {
            self.jump_if(guard, holds, target);
            return else_region.map_or((), |region| self.region(region));
        }
        if let Some(else_region) = else_region
            && let Some(target) = self.only_jump(else_region)
        {
            self.jump_if(guard, !holds, target);
            return self.region(then_region);
        }
        let (then_region, else_region, holds) = match else_region {
            Some(else_region) if self.is_empty(then_region) => (else_region, None, !holds),
            _ => (then_region, else_region, holds),
        };
        let number = self.number();
        let Some(else_region) = else_region else {
            if !self.is_empty(then_region) {
                self.jump_if(guard, !holds, Target::Label("if", number, "_end"));
                self.indented(then_region);
                self.label("if", number, "_end");
                self.reachable = true;
            }
            return;
        };
        self.jump_if(guard, !holds, Target::Label("if", number, "_else"));
        self.indented(then_region);
        let then_falls = self.reachable;
        if then_falls {
            self.text.indent();
            self.jump(Target::Label("if", number, "_end"));
            self.text.dedent();
        }
        self.label("if", number, "_else");
        self.reachable = true;
        self.indented(else_region);
        if then_falls {
            self.label("if", number, "_end");
            self.reachable = true;
        }
    }

    fn indented(&mut self, region: RegionId) {
        self.text.indent();
        self.region(region);
        self.text.dedent();
    }

    fn open_loop(&mut self, op: OpId, is_for: bool) -> u32 {
        let number = self.number();
        let (next_falls, next_used, end_used) = (false, false, false);
        self.loops.push(OpenLoop { op, number, is_for, next_falls, next_used, end_used });
        number
    }

    fn loop_(&mut self, id: OpId, init: &[Value], body: RegionId) {
        let ir = self.ir;
        let copies = self.copies(init, &ir.regions[body].args, true);
        self.copy(&copies);
        let number = self.open_loop(id, false);
        self.label("loop", number, "");
        self.indented(body);
        let end_used = self.loops.pop().is_some_and(|open| open.end_used);
        if end_used {
            self.label("loop", number, "_end");
        }
        self.reachable = end_used;
    }

    fn for_(&mut self, id: OpId, range: [Value; 3], init: &[Value], body: RegionId) {
        let ir = self.ir;
        let Some((&index, carried)) = ir.regions[body].args.split_first() else { return };
        // The carried registers are the results, even if there is no iteration.
        for (arg, result) in carried.iter().zip(&ir.ops[id].results) {
            let reg = self.def(*arg);
            self.bind(*result, reg.into());
        }
        let copies = self.copies(init, carried, true);
        self.copy(&copies);
        let [lo, hi, step] = range.map(|value| self.operand(value));
        let ty = arith_type(self.scalar(index));
        let (lo_known, hi_known, step_known) = (known(lo), known(hi), known(step));
        if step_known.is_some_and(|step| step <= 0)
            || lo_known.zip(hi_known).is_some_and(|(lo, hi)| lo >= hi)
        {
            return;
        }
        let number = self.open_loop(id, true);
        let end = Target::Label("for", number, "_end");
        let mut skips = false;
        let mut skip_if = |entry: &mut Self, compare: &str, a: Operand, b: Operand| {
            let skip = entry.temp(Class::Pred);
            entry.ins(&["setp.", compare, ".", ty], &[skip.into(), a, b]);
            entry.jump_if(skip, false, end);
            skips = true;
        };
        if lo_known.is_none() || hi_known.is_none() {
            skip_if(self, "ge", lo, hi);
        }
        if step_known.is_none() {
            skip_if(self, "le", step, Operand::Int(0));
        }
        let to = self.def(index);
        self.mov(to, lo);
        self.label("for", number, "");
        self.indented(body);
        let Some(open) = self.loops.pop() else { return };
        if open.next_used {
            self.label("for", number, "_next");
        }
        let repeats = open.next_falls || open.next_used;
        if repeats {
            self.next_index(id, number, index, hi, step);
        }
        if skips || open.end_used {
            self.label("for", number, "_end");
        }
        self.reachable = skips || open.end_used || repeats;
    }

    /// Writes the end of an iteration: the next index and the jump back, if there is a next
    /// iteration.
    fn next_index(&mut self, id: OpId, number: u32, index: Value, hi: Operand, step: Operand) {
        let scalar = self.scalar(index);
        let ty = arith_type(scalar);
        let i = self.def(index);
        self.resume(id);
        self.text.indent();
        let again = self.temp(Class::Pred);
        let add = [Operand::Reg(i), Operand::Reg(i), step];
        if cannot_wrap(scalar, hi, step) {
            self.ins(&["add.", ty], &add);
            self.ins(&["setp.lt.", ty], &[again.into(), i.into(), hi]);
        } else {
            // Since `i < hi`, the distance is not negative and fits into the unsigned type.
            let unsigned = if scalar.bits() == 64 { "u64" } else { "u32" };
            let distance = self.temp(i.class());
            self.ins(&["sub.", ty], &[distance.into(), hi, i.into()]);
            let operands = [again.into(), distance.into(), step];
            self.ins(&["setp.gt.", unsigned], &operands);
            self.ins(&["add.", ty], &add);
        }
        self.jump_if(again, false, Target::Label("for", number, ""));
        self.text.dedent();
    }
}

/// Returns the value of an operand that is a constant.
fn known(operand: Operand) -> Option<i128> {
    match operand {
        Operand::Const(constant) => constant.as_int(),
        Operand::Int(number) => Some(number.into()),
        Operand::Reg(_) => None,
    }
}

/// Returns whether `i + step` is in the register's range for every index `i < hi`.
fn cannot_wrap(scalar: Scalar, hi: Operand, step: Operand) -> bool {
    if scalar.bits() < 32 || known(step) == Some(1) {
        return true;
    }
    let sign_bits = u32::from(scalar.is_signed());
    let max = (1i128 << (scalar.bits() - sign_bits)) - 1;
    known(hi).zip(known(step)).is_some_and(|(hi, step)| hi - 1 + step <= max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::types::Const;

    #[test]
    fn the_index_wraps_only_near_the_end_of_its_type() {
        let number = |scalar, bits| Operand::Const(Const::new(scalar, bits));
        let reg = Operand::Reg(Reg::Value(Class::B32, 0));
        let max = i32::MAX as u64;
        let i32_case =
            |hi, step| cannot_wrap(Scalar::I32, number(Scalar::I32, hi), number(Scalar::I32, step));
        assert!(i32_case(max, 1) && i32_case(max - 1, 2) && !i32_case(max, 2));
        assert!(cannot_wrap(Scalar::I8, reg, reg) && cannot_wrap(Scalar::U16, reg, reg));
        assert!(cannot_wrap(Scalar::U64, reg, number(Scalar::U64, 1)));
        assert!(!cannot_wrap(Scalar::U64, reg, number(Scalar::U64, 2)));
        assert!(!cannot_wrap(Scalar::U32, number(Scalar::U32, u32::MAX.into()), reg));
    }
}
