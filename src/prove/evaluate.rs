//! Evaluates operations: from what is known about the operands to what is known about the result.

use std::rc::Rc;

use super::atom::{Key, MAX_POWER};
use super::claim::{Claim, Cond};
use super::numbers;
use super::pointer::{Pointer, Root};
use super::poly::{Poly, Term};
use super::range::Range;
use super::ranges::{constant_of, of_type};
use super::walk::{Known, Number, Walk};
use crate::ir::op::{
    Arith, Axis, Compare, Convert, IntArith, Mem, Mma, Op, ShflMode, SpecialReg, Thread, Warp,
};
use crate::ir::types::{Scalar, Type};
use crate::ir::{Entity, OpId, Value, ValueDef};

impl Walk<'_> {
    pub(super) fn evaluate(&mut self, id: OpId) {
        let ir = self.ir;
        let data = &ir.ops[id];
        if let Op::Mem(Mem::SetVar { value, var, index }) = data.op {
            let ty = ir.vars[var].ty;
            if of_type(ty).is_none() && ty.scalar() != Some(Scalar::Bool) && ty.scalar().is_some() {
                return;
            }
            let known = match self.exact(value) {
                Some(number) => Known::Number(number),
                None => self.known(value).clone(),
            };
            self.vars.insert((var, index), known);
            return;
        }
        let Some(&result) = data.results.first() else { return };
        let ty = ir.type_of(result);
        let known = match ty {
            Type::Pointer { .. } => self.pointer_of(&data.op, result),
            _ if ty.scalar() == Some(Scalar::Bool) => {
                self.cond_of(&data.op).map(|cond| Known::Cond(Rc::new(cond)))
            }
            _ if of_type(ty).is_some() => self.number_of(&data.op, result).map(|number| {
                let poly = self.tidy(number.poly);
                Known::Number(Number { poly, deps: number.deps })
            }),
            _ => None,
        };
        self.values[result.index()] = known.unwrap_or(Known::Nothing);
    }

    pub(super) fn elem_bytes(&self, pointer: Value) -> i128 {
        match self.ir.type_of(pointer) {
            Type::Pointer { elem, .. } => elem.size_bytes().into(),
            _ => 1,
        }
    }

    fn pointer_of(&mut self, op: &Op, result: Value) -> Option<Known> {
        if let Op::Arith(Arith::Selp { cond, then_value, else_value }) = *op {
            let cond = self.cond(cond).unwrap_or_default();
            let (yes, no) = (self.known(then_value).clone(), self.known(else_value).clone());
            return Some(self.either(result, &cond, &yes, &no));
        }
        let Op::Mem(mem) = op else { return None };
        let pointer = if let Mem::SharedBase { shared } = *mem {
            Pointer::new(Root::Shared(shared))
        } else if let Mem::LocalBase { local } = *mem {
            Pointer::new(Root::Local(local))
        } else if let Mem::ArrayBase { array } = *mem {
            Pointer::new(Root::Array(array))
        } else if let Mem::IntToPtr { .. } = *mem {
            Pointer::new(Root::Integer)
        } else if let Mem::Offset { base, index } = *mem {
            self.advanced(&self.pointer(base), index, self.elem_bytes(base))?
        } else if let Mem::AssumeAligned { base, bytes } = *mem {
            let mut pointer = Pointer::clone(&self.pointer(base));
            pointer.since = Poly::default();
            pointer.since_align = bytes.into();
            pointer
        } else if let Mem::Mapa { base, .. } = *mem {
            let mut pointer = Pointer::clone(&self.pointer(base));
            pointer.root = match pointer.root {
                Root::Shared(shared) => Root::Remote(shared),
                _ => Root::Unknown,
            };
            pointer
        } else if let Mem::PtrCast { base, .. } | Mem::Cvta { base } | Mem::CvtaTo { base, .. } =
            *mem
        {
            return Some(self.known(base).clone());
        } else if let Mem::GetVar { var, index } = *mem {
            return self.vars.get(&(var, index)).cloned();
        } else {
            return None;
        };
        Some(Known::Pointer(Rc::new(pointer)))
    }

    fn cond_of(&mut self, op: &Op) -> Option<Cond> {
        let ir = self.ir;
        if let Op::Const(constant) = op {
            return Some(Cond::known(constant.bits() & 1 == 1));
        }
        if let Op::Mem(Mem::GetVar { var, index }) = *op {
            return match self.vars.get(&(var, index)) {
                Some(Known::Cond(cond)) => Some(Cond::clone(cond)),
                _ => None,
            };
        }
        let Op::Arith(arith) = op else { return None };
        let unknown = Rc::new(Cond::default());
        let of =
            |walk: &Self, value: Value| walk.cond(value).unwrap_or_else(|| Rc::clone(&unknown));
        if let Arith::Setp { lhs, rhs, compare } = *arith {
            if ir.type_of(lhs).scalar() == Some(Scalar::Bool) {
                return None;
            }
            if let Some(cond) = self.low_bits(lhs, rhs, compare) {
                return Some(cond);
            }
            if let Some(cond) = self.unsigned_less(lhs, rhs, compare) {
                return Some(cond);
            }
            let (a, b) = (self.exact(lhs)?, self.exact(rhs)?);
            let deps = a.deps | b.deps;
            let less = b.poly.minus(&a.poly)?;
            let more = a.poly.minus(&b.poly)?;
            let (lt, gt) = (less.plus_constant(-1)?, more.plus_constant(-1)?);
            let (yes, no) = match compare {
                Compare::Lt => (Claim::Ge(lt), Claim::Ge(more)),
                Compare::Le => (Claim::Ge(less), Claim::Ge(gt)),
                Compare::Gt => (Claim::Ge(gt), Claim::Ge(less)),
                Compare::Ge => (Claim::Ge(more), Claim::Ge(lt)),
                Compare::Eq => (Claim::Eq(more.clone()), Claim::Ne(more)),
                Compare::Ne => (Claim::Ne(more.clone()), Claim::Eq(more)),
                _ => return None,
            };
            Some(Cond { yes: vec![yes], no: vec![no], deps })
        } else if let Arith::And { lhs, rhs } = *arith {
            Some(of(self, lhs).and(&of(self, rhs)))
        } else if let Arith::Or { lhs, rhs } = *arith {
            Some(of(self, lhs).or(&of(self, rhs)))
        } else if let Arith::Not { value } = *arith {
            Some(of(self, value).not())
        } else if let Arith::Selp { cond, then_value, else_value } = *arith {
            let (cond, yes, no) = (of(self, cond), of(self, then_value), of(self, else_value));
            Some(cond.select(&yes, &no))
        } else {
            None
        }
    }

    /// What `a < b` says about unsigned integers, of which `a` may be a negative one that wrapped. If
    /// `b` has no highest bit, then neither has `a`, so it is not negative.
    fn unsigned_less(&mut self, lhs: Value, rhs: Value, compare: Compare) -> Option<Cond> {
        let all =
            of_type(self.ir.type_of(lhs)).filter(|all| all.lo == 0 && compare == Compare::Lt)?;
        let a = self.number(lhs)?;
        let half = (all.hi + 1) / 2;
        let range = self.atoms.range(&a.poly);
        if range.is_within(all) || !range.is_within(Range::new(-half, half - 1)) {
            return None;
        }
        let b = self.exact(rhs)?;
        let small = Poly::constant(half - 1).minus(&b.poly)?;
        let deps = a.deps | b.deps | self.ensure(&small)?;
        let less = b.poly.minus(&a.poly)?.plus_constant(-1)?;
        Some(Cond { yes: vec![Claim::Ge(less), Claim::Ge(a.poly)], no: Vec::new(), deps })
    }

    /// Returns the address of a parameter's buffer, in bytes.
    pub(super) fn address(&mut self, param: u32) -> Option<Poly> {
        let value = self.ir.params.get(param as usize)?.value;
        let bytes = self.elem_bytes(value).max(1);
        let range = Range::new(0, i128::from(u64::MAX) / bytes);
        self.atoms.of(Key::Address(param), range, 1).scaled(bytes)
    }

    /// Returns the integer that the value is, also if it wraps: then it differs from its polynomial by
    /// a multiple of the type's width. Helps with the low bits only, such as those of an address.
    fn wrapped(&mut self, value: Value) -> Option<Number> {
        let Number { poly, deps } = self.number(value)?;
        let all = of_type(self.ir.type_of(value))?;
        let width = all.hi - all.lo + 1;
        let past = poly.plus_constant(-all.lo)?;
        let wraps = numbers::div(&mut self.atoms, &past, &Poly::constant(width))?;
        Some(Number { poly: poly.plus_scaled(&wraps, -width)?, deps })
    }

    /// Returns the pointer whose address the integer is, modulo the width of its type.
    fn pointer_behind(&self, value: Value) -> Option<Value> {
        let ValueDef::Result(op, 0) = self.ir.values[value].def else { return None };
        let op = &self.ir.ops[op].op;
        if let Op::Convert(Convert::Cvt { value, .. }) = *op {
            self.pointer_behind(value)
        } else if let Op::Mem(Mem::PtrToInt { base }) = *op {
            Some(base)
        } else {
            None
        }
    }

    /// What `(a | b | ..) & (2^n - 1) == 0` says: all of them are multiples of `2^n`.
    fn low_bits(&mut self, lhs: Value, rhs: Value, compare: Compare) -> Option<Cond> {
        let ir = self.ir;
        let constant = |value: Value| constant_of(ir, value)?.as_int();
        let arith = |value: Value| {
            let ValueDef::Result(op, 0) = ir.values[value].def else { return None };
            if let Op::Arith(arith) = &ir.ops[op].op { Some(arith) } else { None }
        };
        let (Some(0), Some(&Arith::And { lhs, rhs })) = (constant(rhs), arith(lhs)) else {
            return None;
        };
        let by = constant(rhs)?.checked_add(1).filter(|by| by.count_ones() == 1 && *by > 1)?;
        let (mut left, mut yes, mut deps) = (vec![lhs], Vec::new(), 0);
        if !matches!(arith(lhs), Some(Arith::Or { .. })) {
            return None;
        }
        while let Some(value) = left.pop() {
            if let Some(&Arith::Or { lhs, rhs }) = arith(value) {
                left.extend([lhs, rhs]);
            } else if let Some(&Arith::Shr { value, amount }) = arith(value)
                && let Some(shift @ 0..=16) = constant(amount)
                && let Some(base) = self.pointer_behind(value)
            {
                // The lowest bits of an address are zero, because elements are aligned.
                let pointer = self.pointer(base);
                let unit = 1u128 << shift;
                if u128::try_from(self.elem_bytes(base)).is_ok_and(|bytes| bytes == unit)
                    && self.atoms.multiple(&pointer.offset).is_multiple_of(unit)
                    && let Ok(by) = u128::try_from(by)
                {
                    let Pointer { root, offset, deps: own, .. } = &*pointer;
                    yes.push(Claim::Aligned(*root, offset.clone(), by * unit, *own));
                }
            } else if let Some(number) = self.number(value) {
                let rest = numbers::rem(&mut self.atoms, &number.poly, &Poly::constant(by))?;
                yes.push(Claim::Eq(rest));
                deps |= number.deps;
            }
        }
        let cond = Cond { yes, no: Vec::new(), deps };
        match compare {
            Compare::Eq => Some(cond),
            Compare::Ne => Some(cond.not()),
            _ => None,
        }
    }

    fn number_of(&mut self, op: &Op, result: Value) -> Option<Number> {
        let ir = self.ir;
        let bits = ir.type_of(result).bits();
        if let Op::Const(constant) = op {
            Some(Number { poly: Poly::constant(constant.as_int()?), deps: 0 })
        } else if let Op::Thread(Thread::Sreg { reg }) = op {
            Some(Number { poly: self.register(*reg), deps: 0 })
        } else if let Op::Arith(arith) = op {
            self.arith(arith, result, bits)
        } else if let Op::IntArith(IntArith::Mad { lhs, rhs, addend }) = op {
            let (a, b, c) = (self.number(*lhs)?, self.number(*rhs)?, self.number(*addend)?);
            let poly = a.poly.times(&b.poly)?.plus(&c.poly)?;
            Some(Number { poly, deps: a.deps | b.deps | c.deps })
        } else if let Op::Convert(Convert::Cvt { value, .. }) = op {
            of_type(ir.type_of(*value))?;
            if ir.type_of(*value).bits() < bits { self.exact(*value) } else { self.number(*value) }
        } else if let Op::Convert(Convert::Bitcast { value, .. }) = op {
            of_type(ir.type_of(*value))?;
            self.number(*value)
        } else if let Op::Mem(Mem::GetVar { var, index }) = op {
            match self.vars.get(&(*var, *index)) {
                Some(Known::Number(number)) => Some(number.clone()),
                _ => {
                    let range = self.ranges.of_var(ir, *var);
                    Some(Number {
                        poly: self.atoms.of(Key::Value(result, self.generation), range, 1),
                        deps: 0,
                    })
                }
            }
        } else if let Op::Mma(Mma::MatrixDescriptor { base, bits }) = op {
            self.descriptor(*base, *bits)
        } else if let Op::Mem(Mem::PtrToInt { base }) = op {
            let pointer = self.pointer(*base);
            let Root::Param(param) = pointer.root else { return None };
            let start = self.address(param)?;
            Some(Number { poly: start.plus(&pointer.offset)?, deps: pointer.deps })
        } else if let Op::Mem(Mem::AssumeDivisibleBy { value, divisor }) = op {
            let number = self.exact(*value)?;
            let first = self.facts.all.len();
            self.assume_multiple(&number.poly, &Poly::constant((*divisor).into()), number.deps);
            self.facts.promised(&self.atoms, first);
            Some(number)
        } else if let Op::Mem(Mem::AssumeBetween { value, low, high }) = op {
            let (value, low, high) = (self.exact(*value)?, self.exact(*low)?, self.exact(*high)?);
            let deps = value.deps | low.deps | high.deps;
            let first = self.facts.all.len();
            for (a, b) in [(&value, &low), (&high, &value)] {
                if let Some(left) = a.poly.minus(&b.poly) {
                    self.facts.add(&self.atoms, left, deps);
                }
            }
            self.facts.promised(&self.atoms, first);
            Some(value)
        } else if let Op::Warp(Warp::Shfl { value, mode: ShflMode::Idx, .. }) = op {
            let number = self.number(*value)?;
            self.is_uniform(&number.poly).then_some(number)
        } else {
            None
        }
    }

    /// Puts quotients and remainders together, also those of sums that have names.
    fn tidy(&mut self, poly: Poly) -> Poly {
        let poly = numbers::tidy(&mut self.atoms, poly);
        let poly = match self.atoms.expanded(&poly) {
            Some(expanded) if expanded != poly => {
                let tidy = numbers::tidy(&mut self.atoms, expanded.clone());
                if tidy.terms.len() < expanded.terms.len() { tidy } else { poly }
            }
            _ => poly,
        };
        self.atoms.folded(poly)
    }

    /// Puts sums in place of their names, because quotients and bits depend on single terms.
    fn expanded(&self, number: Option<Number>) -> Option<Number> {
        let Number { poly, deps } = number?;
        Some(Number { poly: self.atoms.expanded(&poly)?, deps })
    }

    /// Returns whether all threads of a warp have the same value.
    fn is_uniform(&self, poly: &Poly) -> bool {
        let is_flat = matches!(self.ir.bounds.block, Some([_, 1, 1]));
        let thread = Key::Register(SpecialReg::Tid(Axis::X));
        // All threads of a warp have the same `tid.x / 32`.
        let is_warp = |value: &Poly, by: &Poly| {
            is_flat
                && by.as_constant().is_some_and(|by| by % 32 == 0)
                && value.as_atom().is_some_and(|atom| self.atoms.get(atom).key == thread)
        };
        poly.atoms().all(|atom| {
            let atom = self.atoms.get(atom);
            atom.is_launch
                || match &atom.key {
                    Key::Register(SpecialReg::Ctaid(_) | SpecialReg::ClusterCtaRank)
                    | Key::Address(_)
                    | Key::Start(_) => true,
                    Key::Div(value, by) if is_warp(value, by) => true,
                    key => {
                        let mut operands = key.operands().peekable();
                        operands.peek().is_some() && operands.all(|poly| self.is_uniform(poly))
                    }
                }
        })
    }

    /// Returns two to the power of a shift's amount, if the amount is known to be small enough that
    /// the power is positive in a type of `bits` bits.
    fn power(&mut self, amount: Value, bits: u32) -> Option<Number> {
        let amount = self.exact(amount)?;
        if let Some(constant) = amount.poly.as_constant() {
            let bits = u32::try_from(constant).ok().filter(|amount| *amount < bits)?;
            return Some(Number { poly: Poly::constant(1i128.checked_shl(bits)?), deps: 0 });
        }
        let most = MAX_POWER.min(i128::from(bits) - 2);
        let mut deps = amount.deps | self.is_within(&amount.poly, Range::new(0, most))?;
        // A constant part makes the power a multiple.
        let (range, own) = self.facts.range_of(&self.atoms, &amount.poly);
        deps |= own;
        let (least, most) = (range.lo.clamp(0, most), range.hi.clamp(0, most));
        let key = Key::Power(amount.poly.plus_constant(-least)?);
        let power = self.atoms.of(key, Range::new(1, 1 << MAX_POWER), 1);
        let left = Poly::constant(1 << (most - least)).minus(&power)?;
        self.facts.add_definition(&self.atoms, left, deps);
        Some(Number { poly: power.scaled(1 << least)?, deps })
    }

    /// Returns whether the polynomial is a power of two.
    fn is_power(&self, poly: &Poly) -> bool {
        let [Term { atoms, factor }] = poly.terms[..] else { return false };
        let [atom] = atoms[..] else { return false };
        poly.constant == 0
            && factor > 0
            && factor.count_ones() == 1
            && matches!(self.atoms.get(atom).key, Key::Power(_))
    }

    fn arith(&mut self, arith: &Arith, result: Value, bits: u32) -> Option<Number> {
        let ir = self.ir;
        // Modulo the width of the type.
        let pair = |walk: &mut Self, a: Value, b: Value| Some((walk.number(a)?, walk.number(b)?));
        if let Arith::Add { lhs, rhs } = *arith {
            let (a, b) = pair(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.plus(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::Sub { lhs, rhs } = *arith {
            let (a, b) = pair(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.minus(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::Mul { lhs, rhs } = *arith {
            let (a, b) = pair(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.times(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::Neg { value } = *arith {
            let a = self.number(value)?;
            return Some(Number { poly: a.poly.scaled(-1)?, deps: a.deps });
        }
        if let Arith::Shl { value, amount } = *arith {
            let a = self.number(value)?;
            let by = self.power(amount, bits)?;
            return Some(Number { poly: a.poly.times(&by.poly)?, deps: a.deps | by.deps });
        }
        // The lowest bits of a value are those of the integer that it is congruent to.
        if let Arith::And { lhs, rhs } = *arith {
            for (value, mask) in [(lhs, rhs), (rhs, lhs)] {
                let mask = constant_of(ir, mask).and_then(|mask| mask.as_int());
                if let Some(mask) = mask.filter(|mask| (0..1 << (bits - 1)).contains(mask)) {
                    let a = self.number(value);
                    let a = self.expanded(a)?;
                    let poly = numbers::and_constant(&mut self.atoms, &a.poly, mask, bits)?;
                    return Some(Number { poly, deps: a.deps });
                }
            }
        }
        if let Arith::And { lhs, rhs } = *arith {
            for (value, mask) in [(lhs, rhs), (rhs, lhs)] {
                if let Known::Number(mask) = self.known(mask).clone()
                    && let Some(by) = mask.poly.plus_constant(1).filter(|by| self.is_power(by))
                {
                    let a = self.number(value);
                    let a = self.expanded(a)?;
                    let (poly, deps) = self.with_equalities(&a.poly, |_, _| false);
                    let poly = numbers::rem(&mut self.atoms, &poly, &by)?;
                    return Some(Number { poly, deps: a.deps | mask.deps | deps });
                }
            }
        }
        // From here on, of the integers that the operands are.
        let exact = |walk: &mut Self, a: Value, b: Value| Some((walk.exact(a)?, walk.exact(b)?));
        if let Arith::MulWide { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            return Some(Number { poly: a.poly.times(&b.poly)?, deps: a.deps | b.deps });
        }
        if let Arith::MadWide { lhs, rhs, addend } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let c = self.number(addend)?;
            let poly = a.poly.times(&b.poly)?.plus(&c.poly)?;
            return Some(Number { poly, deps: a.deps | b.deps | c.deps });
        }
        if let Arith::Rem { .. } = arith
            && let Some(place) = self.turned(result)
        {
            return Some(place);
        }
        if let Arith::Div { lhs, rhs } | Arith::Rem { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let mut deps = a.deps | b.deps;
            if b.poly.as_constant() == Some(1) {
                let is_div = matches!(arith, Arith::Div { .. });
                return Some(Number { poly: if is_div { a.poly } else { Poly::default() }, deps });
            }
            // Rounding toward zero and rounding down agree if nothing is negative.
            deps |= self.ensure(&a.poly)?;
            let (a, b) = (self.expanded(Some(a))?, self.expanded(Some(b))?);
            let positive = b.poly.plus_constant(-1)?;
            deps |= self.ensure_needed(&positive)?;
            self.facts.add_definition(&self.atoms, positive, deps);
            let poly = if let Arith::Div { .. } = arith {
                let quotient = numbers::div(&mut self.atoms, &a.poly, &b.poly)?;
                self.facts.add_definition(&self.atoms, quotient.clone(), deps);
                self.bound_quotient(&a.poly, &b.poly, &quotient, deps);
                quotient
            } else {
                numbers::rem(&mut self.atoms, &a.poly, &b.poly)?
            };
            return Some(Number { poly, deps });
        }
        if let Arith::Min { lhs, rhs } | Arith::Max { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let is_min = matches!(arith, Arith::Min { .. });
            let poly = numbers::min_max(&mut self.atoms, &a.poly, &b.poly, is_min);
            return Some(Number { poly, deps: a.deps | b.deps });
        }
        if let Arith::Abs { value } = *arith {
            let a = self.exact(value)?;
            return (self.atoms.range(&a.poly).lo >= 0).then_some(a);
        }
        if let Arith::Shr { value, amount } = *arith {
            let is_address = self.number(value).is_some_and(|a| self.atoms.has_address(&a.poly));
            let a = if is_address { self.wrapped(value) } else { self.exact(value) };
            let a = self.expanded(a)?;
            let by = self.power(amount, bits)?;
            let poly = numbers::div(&mut self.atoms, &a.poly, &by.poly)?;
            return Some(Number { poly, deps: a.deps | by.deps });
        }
        if let Arith::Bfe { value, start, count } = *arith {
            let unsigned = of_type(ir.type_of(value))?.lo == 0;
            let a = self.exact(value);
            let a = self.expanded(a)?;
            let start = constant_of(ir, start)?.as_int()?;
            let count = constant_of(ir, count)?.as_int()?;
            if !unsigned || !(0..64).contains(&start) || !(0..=64).contains(&count) {
                return None;
            }
            let poly = numbers::div(&mut self.atoms, &a.poly, &Poly::constant(1 << start))?;
            let poly = numbers::rem(&mut self.atoms, &poly, &Poly::constant(1 << count))?;
            return Some(Number { poly, deps: a.deps });
        }
        if let Arith::And { lhs, rhs } | Arith::Or { lhs, rhs } | Arith::Xor { lhs, rhs } = *arith {
            let (a, b) = exact(self, lhs, rhs)?;
            let (a, b) = (self.expanded(Some(a))?, self.expanded(Some(b))?);
            let deps = a.deps | b.deps;
            if let Arith::And { .. } = arith {
                for (value, mask) in [(&a, &b), (&b, &a)] {
                    if let Some(mask) = mask.poly.as_constant()
                        && let Some(poly) =
                            numbers::and_constant(&mut self.atoms, &value.poly, mask, bits)
                    {
                        return Some(Number { poly, deps });
                    }
                }
            }
            let poly = if let Arith::And { .. } = arith {
                numbers::and(&mut self.atoms, &a.poly, &b.poly)?
            } else if let Arith::Or { .. } = arith {
                numbers::or(&mut self.atoms, &a.poly, &b.poly)?
            } else {
                numbers::xor(&mut self.atoms, &a.poly, &b.poly)?
            };
            return Some(Number { poly, deps });
        }
        if let Arith::Selp { cond, then_value, else_value } = *arith {
            if let Some(place) = self.turned(result) {
                return Some(place);
            }
            let (yes, no) = exact(self, then_value, else_value)?;
            let cond = self.cond(cond).unwrap_or_default();
            let (yes, no) = (Known::Number(yes), Known::Number(no));
            return match self.either(result, &cond, &yes, &no) {
                Known::Number(number) => Some(number),
                _ => None,
            };
        }
        None
    }
}
