//! Recognises ring buffers that a kernel manages itself: iteration `i` of a loop uses slot `i % n`
//! of an allocation. `.prefetch_stages` uses it to fill such a buffer ahead instead of allocating
//! further stages.
//!
//! An access belongs to the slot if its address is `(i % n) * slot + rest` with `0 <= rest < slot`
//! in every thread and iteration. (Thread indices are bounded by the block size.) For example, with
//! slots of 128 elements and `0 <= t < 128`, `i % 3 * 128 + t` is in slot `i % 3`. If all of the
//! loop's accesses to an allocation have this form, with the same `n` and `slot`, an iteration only
//! reads what it stored itself.

use crate::ir::entity::{OpId, RegionId, SharedId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Arith, AsyncCopy, Axis, Control, Convert, Mem, Mma, Op, SpecialReg, Thread};
use crate::ir::types::{Scalar, Type};

/// How many operations deep the analysis follows an address.
const DEPTH: u32 = 16;

/// The maximum block size along an axis.
const THREADS: i64 = 1024;

/// A ring buffer in a shared allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) struct Ring {
    /// The allocation.
    pub(in crate::ir) shared: SharedId,
    /// The operation that computes the slot index.
    pub(in crate::ir) modulo: OpId,
    /// How many consecutive iterations use different slots.
    pub(in crate::ir) slots: u32,
}

/// An address in elements: `coefficient * slot index + rest`, with `min <= rest <= max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Linear {
    coefficient: i64,
    min: i64,
    max: i64,
    /// The operation that computes the slot index, and its divisor.
    modulo: Option<(OpId, i64)>,
    /// Whether the rest is the same in all iterations.
    invariant: bool,
}

impl Linear {
    fn number(value: i64) -> Linear {
        Linear { coefficient: 0, min: value, max: value, modulo: None, invariant: true }
    }

    fn plus(self, other: Linear) -> Option<Linear> {
        let modulo = match (self.modulo, other.modulo) {
            (Some(a), Some(b)) if a.1 != b.1 => return None,
            (a, b) => a.or(b),
        };
        Some(Linear {
            coefficient: self.coefficient.checked_add(other.coefficient)?,
            min: self.min.checked_add(other.min)?,
            max: self.max.checked_add(other.max)?,
            modulo,
            invariant: self.invariant && other.invariant,
        })
    }

    fn times(self, factor: i64) -> Option<Linear> {
        let (a, b) = (self.min.checked_mul(factor)?, self.max.checked_mul(factor)?);
        let coefficient = self.coefficient.checked_mul(factor)?;
        Some(Linear { coefficient, min: a.min(b), max: a.max(b), ..self })
    }
}

/// Context for the accesses of one loop.
pub(super) struct Slots<'k> {
    ir: &'k KernelIr,
    body: RegionId,
    /// Whether a value is the same in all iterations.
    is_invariant: &'k dyn Fn(Value) -> bool,
}

impl<'k> Slots<'k> {
    pub(super) fn new(
        ir: &'k KernelIr,
        body: RegionId,
        is_invariant: &'k dyn Fn(Value) -> bool,
    ) -> Self {
        Slots { ir, body, is_invariant }
    }

    /// Returns the ring buffer of an allocation. `accesses` are all of the loop's accesses to it,
    /// and `store` is one of them.
    ///
    /// # Errors
    /// Returns the first operation that does not fit the form.
    pub(super) fn ring(
        &self,
        shared: SharedId,
        store: OpId,
        accesses: impl IntoIterator<Item = OpId>,
    ) -> Result<Ring, OpId> {
        let ir = self.ir;
        let mut found: Option<(OpId, i64, i64)> = None;
        for access in accesses {
            let (linear, width, is_store) = self.access(access).ok_or(access)?;
            let (modulo, count) = linear.modulo.ok_or(access)?;
            let slot = linear.coefficient;
            let inside = linear.min >= 0 && linear.max.saturating_add(width) <= slot;
            let whole = slot.saturating_mul(count) <= i64::from(ir.shared[shared].len);
            if !inside || !whole || (is_store && !linear.invariant) {
                return Err(modulo);
            }
            match found {
                Some((_, known, other)) if (known, other) != (count, slot) => return Err(modulo),
                _ => found = Some((modulo, count, slot)),
            }
        }
        let (modulo, count, _) = found.ok_or(store)?;
        let step = self.step().ok_or(modulo)?;
        let slots = count / gcd(count, step);
        Ok(Ring { shared, modulo, slots: u32::try_from(slots).unwrap_or(u32::MAX) })
    }

    /// Returns the loop's step, if it is a constant and the index is never negative.
    fn step(&self) -> Option<i64> {
        let parent = self.ir.regions[self.body].parent?;
        let Op::Control(Control::For { lo, step, .. }) = self.ir.ops[parent].op else {
            return None;
        };
        let step = i64::try_from(self.ir.integer(step)?).ok().filter(|step| *step > 0)?;
        let unsigned = matches!(self.ir.type_of(lo), Type::Scalar(s) if !s.is_signed());
        let from_zero = self.range(lo, DEPTH).is_some_and(|(min, _)| min >= 0);
        (unsigned || from_zero).then_some(step)
    }

    /// Returns an access's address, its width in elements, and whether it is a store.
    fn access(&self, id: OpId) -> Option<(Linear, i64, bool)> {
        let ir = self.ir;
        let size = |base: Value| match ir.type_of(base) {
            Type::Pointer { elem, .. } => i64::from(elem.size_bytes().max(1)),
            _ => 1,
        };
        let (base, index, width, is_store) = if let Op::Mem(Mem::Ld { base, index, .. }) =
            ir.ops[id].op
        {
            (base, index, 1, false)
        } else if let Op::Mem(Mem::LdVec { base, index, lanes, .. }) = ir.ops[id].op {
            (base, index, lanes.into(), false)
        } else if let Op::Mma(Mma::Ldmatrix { base, index, .. }) = ir.ops[id].op {
            // A matrix row has 16 bytes.
            (base, index, 16 / size(base), false)
        } else if let Op::Mem(Mem::St { base, index, .. }) = ir.ops[id].op {
            (base, index, 1, true)
        } else if let Op::AsyncCopy(AsyncCopy::CpAsync { to, to_index, bytes, .. }) = ir.ops[id].op
        {
            (to, to_index, i64::from(bytes) / size(to), true)
        } else {
            return None;
        };
        let mut linear = self.linear(index, DEPTH)?;
        let mut base = base;
        for _ in 0..DEPTH {
            let ValueDef::Result(op, _) = ir.values[base].def else { return None };
            if let Op::Mem(Mem::SharedBase { .. }) = ir.ops[op].op {
                return Some((linear, width, is_store));
            }
            let Op::Mem(Mem::Offset { base: from, index }) = ir.ops[op].op else { return None };
            linear = linear.plus(self.linear(index, DEPTH)?)?;
            base = from;
        }
        None
    }

    fn linear(&self, value: Value, depth: u32) -> Option<Linear> {
        let ir = self.ir;
        let left = depth.checked_sub(1)?;
        let of = |value: Value| self.linear(value, left);
        let number = |value: Value| i64::try_from(ir.integer(value)?).ok();
        if let Some(number) = number(value) {
            return Some(Linear::number(number));
        }
        if let ValueDef::Result(id, _) = ir.values[value].def {
            let modulo = |count: i64| Linear {
                coefficient: 1,
                modulo: Some((id, count)),
                ..Linear::number(0)
            };
            let whole = |found: Option<Linear>| found.filter(|linear| linear.modulo.is_some());
            let found = if let Op::Arith(Arith::Rem { lhs, rhs }) = ir.ops[id].op {
                number(rhs).filter(|count| *count > 0 && self.is_index(lhs)).map(modulo)
            } else if let Op::Arith(Arith::And { lhs, rhs }) = ir.ops[id].op {
                let count = number(rhs).and_then(|mask| mask.checked_add(1));
                let power = count.filter(|count| *count > 0 && count.count_ones() == 1);
                power.filter(|_| self.is_index(lhs)).map(modulo)
            } else if let Op::Arith(Arith::Add { lhs, rhs }) = ir.ops[id].op {
                whole(of(lhs)?.plus(of(rhs)?))
            } else if let Op::Arith(Arith::Sub { lhs, rhs }) = ir.ops[id].op {
                whole(of(lhs)?.plus(of(rhs)?.times(-1)?))
            } else if let Op::Arith(Arith::Mul { lhs, rhs }) = ir.ops[id].op {
                match (number(lhs), number(rhs)) {
                    (_, Some(factor)) => whole(of(lhs)?.times(factor)),
                    (Some(factor), _) => whole(of(rhs)?.times(factor)),
                    (None, None) => None,
                }
            } else if let Op::Arith(Arith::Shl { value, amount }) = ir.ops[id].op {
                match number(amount) {
                    Some(amount @ 0..=30) => whole(of(value)?.times(1 << amount)),
                    _ => None,
                }
            } else if let Op::Convert(Convert::Cvt { value, to }) = ir.ops[id].op
                && to.is_int()
                && is_int(ir, value)
            {
                whole(of(value))
            } else {
                None
            };
            if found.is_some() {
                return found;
            }
        }
        let (min, max) = self.range(value, left)?;
        let invariant = (self.is_invariant)(value);
        Some(Linear { min, max, invariant, ..Linear::number(0) })
    }

    /// Returns whether the value is the loop's index, possibly converted to another integer type.
    fn is_index(&self, value: Value) -> bool {
        let mut value = value;
        for _ in 0..DEPTH {
            match self.ir.values[value].def {
                ValueDef::Arg(region, 0) => return region == self.body,
                ValueDef::Result(op, _) => {
                    let Op::Convert(Convert::Cvt { value: from, to }) = self.ir.ops[op].op else {
                        return false;
                    };
                    if !is_int(self.ir, from) || to.bits() < 32 {
                        return false;
                    }
                    value = from;
                }
                _ => return false,
            }
        }
        false
    }

    /// Returns the range of a value, both ends inclusive, if it is known.
    fn range(&self, value: Value, depth: u32) -> Option<(i64, i64)> {
        let ir = self.ir;
        let left = depth.checked_sub(1)?;
        if let Some(number) = ir.integer(value) {
            let number = i64::try_from(number).ok()?;
            return Some((number, number));
        }
        let of = |value: Value| self.range(value, left);
        let number = |value: Value| i64::try_from(ir.integer(value)?).ok();
        let id = match ir.values[value].def {
            ValueDef::Result(id, _) => id,
            ValueDef::Arg(region, 0) => {
                let Op::Control(Control::For { lo, hi, .. }) =
                    ir.ops[ir.regions[region].parent?].op
                else {
                    return None;
                };
                return Some((of(lo)?.0, of(hi)?.1.checked_sub(1)?.max(of(lo)?.0)));
            }
            _ => return None,
        };
        let found = if let Op::Thread(Thread::Sreg { reg }) = ir.ops[id].op {
            (0, self.register(reg)?.checked_sub(1)?)
        } else if let Op::Arith(Arith::Add { lhs, rhs }) = ir.ops[id].op {
            let (a, b) = (of(lhs)?, of(rhs)?);
            (a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)
        } else if let Op::Arith(Arith::Sub { lhs, rhs }) = ir.ops[id].op {
            let (a, b) = (of(lhs)?, of(rhs)?);
            (a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)
        } else if let Op::Arith(Arith::Mul { lhs, rhs }) = ir.ops[id].op {
            let (a, b) = (of(lhs)?, of(rhs)?);
            let all = [
                a.0.checked_mul(b.0)?,
                a.0.checked_mul(b.1)?,
                a.1.checked_mul(b.0)?,
                a.1.checked_mul(b.1)?,
            ];
            (*all.iter().min()?, *all.iter().max()?)
        } else if let Op::Arith(Arith::Div { lhs, rhs }) = ir.ops[id].op {
            let by = number(rhs).filter(|by| *by > 0)?;
            let (min, max) = of(lhs)?;
            (min / by, max / by)
        } else if let Op::Arith(Arith::Rem { lhs, rhs }) = ir.ops[id].op {
            let by = number(rhs).filter(|by| *by > 0)?;
            match of(lhs) {
                Some((min, max)) if min >= 0 => (0, max.min(by - 1)),
                _ => (1 - by, by - 1),
            }
        } else if let Op::Arith(Arith::And { lhs, rhs }) = ir.ops[id].op {
            let mask = number(rhs).or_else(|| number(lhs)).filter(|mask| *mask >= 0)?;
            (0, mask)
        } else if let Op::Arith(Arith::Or { lhs, rhs } | Arith::Xor { lhs, rhs }) = ir.ops[id].op {
            let (a, b) = (of(lhs)?, of(rhs)?);
            let max = a.1.max(b.1).checked_add(1).filter(|_| a.0 >= 0 && b.0 >= 0)?;
            (0, u64::try_from(max).ok()?.checked_next_power_of_two()? as i64 - 1)
        } else if let Op::Arith(Arith::Shl { value, amount }) = ir.ops[id].op {
            let amount = number(amount).filter(|amount| (0..=30).contains(amount))?;
            let (min, max) = of(value)?;
            (min.checked_mul(1 << amount)?, max.checked_mul(1 << amount)?)
        } else if let Op::Arith(Arith::Shr { value, amount }) = ir.ops[id].op {
            let amount = number(amount).filter(|amount| (0..=62).contains(amount))?;
            let (min, max) = of(value).filter(|(min, _)| *min >= 0)?;
            (min >> amount, max >> amount)
        } else if let Op::Arith(Arith::Min { lhs, rhs }) = ir.ops[id].op {
            let (a, b) = (of(lhs)?, of(rhs)?);
            (a.0.min(b.0), a.1.min(b.1))
        } else if let Op::Arith(Arith::Max { lhs, rhs }) = ir.ops[id].op {
            let (a, b) = (of(lhs)?, of(rhs)?);
            (a.0.max(b.0), a.1.max(b.1))
        } else if let Op::Convert(Convert::Cvt { value, to }) = ir.ops[id].op
            && to.is_int()
            && is_int(ir, value)
        {
            of(value)?
        } else {
            return None;
        };
        // If the range leaves the type, the value may have wrapped.
        let Type::Scalar(scalar) = ir.type_of(value) else { return None };
        let (min, max) = limits(scalar)?;
        (min <= found.0 && found.1 <= max).then_some(found)
    }

    /// Returns how many values a special register can have.
    fn register(&self, reg: SpecialReg) -> Option<i64> {
        let bounds = self.ir.bounds;
        let along = |axis: Axis| match bounds.block {
            Some([x, y, z]) => i64::from(match axis {
                Axis::X => x,
                Axis::Y => y,
                Axis::Z => z,
            }),
            None => bounds.max_threads.map_or(THREADS, i64::from),
        };
        match reg {
            SpecialReg::Tid(axis) => Some(along(axis)),
            SpecialReg::LaneId => Some(32),
            _ => None,
        }
    }
}

fn is_int(ir: &KernelIr, value: Value) -> bool {
    matches!(ir.type_of(value), Type::Scalar(scalar) if scalar.is_int())
}

/// Returns the range of an integer type. 64-bit types are limited to `i64`.
fn limits(scalar: Scalar) -> Option<(i64, i64)> {
    let bits = scalar.is_int().then(|| scalar.bits())?;
    let half = i64::MAX >> (64 - bits);
    match (scalar.is_signed(), bits) {
        (true, _) => Some((-half - 1, half)),
        (false, 64) => Some((0, i64::MAX)),
        (false, _) => Some((0, 2 * half + 1)),
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
