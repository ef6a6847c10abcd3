//! Values that a loop carries round a ring, such as the stage of a ring buffer.
//!
//! If a carried value starts from a constant, and the next one depends on nothing else, running the
//! loop's arithmetic shows all its values. A stage goes through `c`, `c + e`, .. and comes back to 0
//! after `n` values. Then it is `e*((c/e + trip) % n)`.

use super::super::atom::Key;
use super::super::claim::Deps;
use super::super::numbers;
use super::super::poly::{Poly, Term};
use super::super::ranges::of_type;
use super::super::walk::{Known, Number, Walk};
use crate::ir::op::{Control, Op};
use crate::ir::types::{Const, Type};
use crate::ir::{KernelIr, OpId, Value, ValueDef, eval};

/// The maximum count of values in a ring.
const MOST: i128 = 64;

/// How many operations deep the next value is followed.
const DEPTH: u32 = 8;

impl Walk<'_> {
    /// Returns what carried value `index` of a loop is in the iteration that `count` others came
    /// before, if it goes round a ring.
    pub(in crate::prove) fn ring(
        &mut self,
        arg: Value,
        index: usize,
        initial: Option<&Known>,
        continues: &[OpId],
        count: &Poly,
    ) -> Option<Known> {
        self.records.as_ref()?;
        let Some(Known::Number(Number { poly, deps })) = initial else { return None };
        let (start, deps): (i128, Deps) = (poly.as_constant()?, *deps);
        let ir = self.ir;
        let mut nexts = continues.iter().map(|next| {
            let Op::Control(Control::Continue { values, .. }) = &ir.ops[*next].op else {
                return None;
            };
            values.get(index).copied()
        });
        let first = orbit(ir, arg, nexts.next()??, start)?;
        for next in nexts {
            if orbit(ir, arg, next?, start)? != first {
                return None;
            }
        }
        let count_of = i128::try_from(first.len()).ok()?;
        let step = first.iter().copied().filter(|value| *value > 0).min()?;
        let turn = start.div_euclid(step);
        let is_ring = first
            .iter()
            .zip(turn..)
            .all(|(value, turn)| step.checked_mul(turn.rem_euclid(count_of)) == Some(*value));
        if !is_ring {
            return None;
        }
        let turns = count.plus_constant(turn)?;
        let slot = numbers::rem(&mut self.atoms, &turns, &Poly::constant(count_of))?;
        Some(Known::Number(Number { poly: slot.scaled(step)?, deps }))
    }

    /// Returns what the value is, if it is a place of a ring, computed from another one: for
    /// example `select(stage == 3, 0, stage + 1)`.
    pub(in crate::prove) fn turned(&mut self, value: Value) -> Option<Number> {
        self.records.as_ref()?;
        let (from, place) = self.place(value, DEPTH)?;
        let Type::Scalar(scalar) = self.ir.type_of(from) else { return None };
        let Place { step, count, turns, deps } = place;
        let mut turn = None;
        for index in 0..count {
            let at = Const::new(scalar, (step * index) as u64);
            let found = result(self.ir, value, from, at, DEPTH)?.as_int()?;
            let by = (found.div_euclid(step) - index).rem_euclid(count);
            let is_place = found == step * (index + by).rem_euclid(count);
            if !is_place || turn.is_some_and(|turn| turn != by) {
                return None;
            }
            turn = Some(by);
        }
        let turns = turns.plus_constant(turn?)?;
        let slot = numbers::rem(&mut self.atoms, &turns, &Poly::constant(count))?;
        Some(Number { poly: slot.scaled(step)?, deps })
    }

    /// Returns an operand of an operand .. of the value that is a place of a ring.
    fn place(&self, value: Value, depth: u32) -> Option<(Value, Place)> {
        if let Known::Number(Number { poly, deps }) = self.known(value)
            && let ([Term { atoms, factor: step @ 1.. }], 0) = (&poly.terms[..], poly.constant)
            && let [atom] = atoms[..]
            && let Key::Rem(turns, by) = &self.atoms.get(atom).key
            && let Some(count @ 2..=MOST) = by.as_constant()
            && of_type(self.ir.type_of(value))
                .is_some_and(|all| step.saturating_mul(count) <= all.hi)
        {
            let place = Place { step: *step, count, turns: turns.clone(), deps: *deps };
            return Some((value, place));
        }
        let (depth, ValueDef::Result(op, 0)) = (depth.checked_sub(1)?, self.ir.values[value].def)
        else {
            return None;
        };
        let Op::Arith(arith) = &self.ir.ops[op].op else { return None };
        arith.operands().into_iter().find_map(|operand| self.place(operand, depth))
    }
}

/// A place of a ring: `step * (turns % count)`.
struct Place {
    step: i128,
    count: i128,
    turns: Poly,
    deps: Deps,
}

/// Returns the values that follow one another from `start` on, until it comes back.
fn orbit(ir: &KernelIr, arg: Value, next: Value, start: i128) -> Option<Vec<i128>> {
    let Type::Scalar(scalar) = ir.type_of(arg) else { return None };
    if !scalar.is_int() {
        return None;
    }
    let (mut all, mut at) = (Vec::new(), start);
    while (all.len() as i128) < MOST {
        all.push(at);
        // Shorter types take their low bits.
        let number = Const::new(scalar, at as u64);
        at = result(ir, next, arg, number, DEPTH)?.as_int()?;
        if at == start {
            return Some(all);
        }
    }
    None
}

/// Returns the value if it depends on `arg` only, which is `known`.
fn result(ir: &KernelIr, value: Value, arg: Value, known: Const, depth: u32) -> Option<Const> {
    if value == arg {
        return Some(known);
    }
    let (depth, ValueDef::Result(op, 0), Type::Scalar(scalar)) =
        (depth.checked_sub(1)?, ir.values[value].def, ir.type_of(value))
    else {
        return None;
    };
    let op = &ir.ops[op].op;
    if let Op::Const(constant) = op {
        return Some(*constant);
    }
    eval::constant(op, scalar, |operand| result(ir, operand, arg, known, depth))
}
