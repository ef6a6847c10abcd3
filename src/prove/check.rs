//! Asks at each operation what has to hold there: bounds, alignment, divisors and promises.

use super::atom::{Atoms, Key};
use super::claim::{Claim, Deps, MAX_DEPS};
use super::entail::Search;
use super::numbers;
use super::pointer::{Pointer, Root};
use super::poly::{AtomId, Poly, Product, Term, gcd};
use super::range::Range;
use super::site::{Open, Requirement, Site, Subject, Verdict};
use super::walk::Walk;
use crate::ir::op::{Arith, Axis, Mem, Mma, Op, SpecialReg};
use crate::ir::types::{Space, Type};
use crate::ir::{Access, AccessBytes, LocalData, OpId, Value, accesses};

impl Walk<'_> {
    /// Adds the sites of an operation.
    pub(super) fn check(&mut self, id: OpId) {
        let ir = self.ir;
        let op = &ir.ops[id].op;
        if let Op::Arith(Arith::Div { rhs, .. } | Arith::Rem { rhs, .. }) = op {
            let rhs = *rhs;
            let is_int = ir.type_of(rhs).scalar().is_some_and(|scalar| scalar.is_int());
            let constant = super::ranges::constant_of(ir, rhs);
            let is_safe = constant.is_some_and(|constant| constant.as_int() != Some(0));
            if is_int && !is_safe {
                let verdict = self.divisor(rhs);
                self.sites.push(Site { op: id, subject: Subject::Division, verdict });
            }
        } else if let Op::Mem(Mem::AssumeAligned { base, bytes }) = op {
            let verdict = self.promised_alignment(*base, *bytes);
            self.sites.push(Site { op: id, subject: Subject::Promise, verdict });
        } else if let Op::Mem(Mem::AssumeDivisibleBy { value, divisor }) = op {
            let verdict = self.promised_multiple(*value, *divisor);
            self.sites.push(Site { op: id, subject: Subject::Promise, verdict });
        } else if let Op::Mem(Mem::AssumeBetween { value, low, high }) = op {
            let verdict = self.promised_range(*value, *low, *high);
            self.sites.push(Site { op: id, subject: Subject::Promise, verdict });
        } else if let Op::Mem(Mem::Mapa { cta, .. }) = op {
            let verdict = self.rank(*cta);
            self.sites.push(Site { op: id, subject: Subject::Rank, verdict });
        } else if let Op::Inline(_) = op {
            let verdict = Verdict::Assumed("inline PTX");
            self.sites.push(Site { op: id, subject: Subject::InlinePtx, verdict });
        } else if let Op::Mma(
            mma @ (Mma::Wgmma { .. }
            | Mma::WgmmaRs { .. }
            | Mma::WgmmaSp { .. }
            | Mma::WgmmaRsSp { .. }),
        ) = op
        {
            self.check_wgmma(id, mma);
        } else {
            for access in accesses(ir, id) {
                self.access(id, &access);
            }
        }
    }

    fn divisor(&mut self, value: Value) -> Verdict {
        let Some(number) = self.exact(value) else { return Verdict::Open(Open::Index) };
        let above = number.poly.plus_constant(-1);
        let below = number.poly.scaled(-1).and_then(|poly| poly.plus_constant(-1));
        let (Some(above), Some(below)) = (above, below) else { return Verdict::Open(Open::Index) };
        for side in [&above, &below] {
            if let Some(deps) = self.is_known(side) {
                return Verdict::Relies(deps | number.deps);
            }
        }
        // A launch may pass a negative divisor.
        let found = if self.atoms.is_launch(&number.poly) {
            self.require_all(Requirement::Any {
                any: vec![vec![above.clone()], vec![below]],
                deps: number.deps,
            })
        } else {
            self.ensure_needed(&above)
        };
        match found {
            Some(deps) => Verdict::Relies(deps | number.deps),
            None => Verdict::Open(Open::Bound(Box::new(above))),
        }
    }

    fn promised_range(&mut self, value: Value, low: Value, high: Value) -> Verdict {
        let numbers = [value, low, high].map(|value| self.exact(value));
        let [Some(value), Some(low), Some(high)] = numbers else {
            return Verdict::Open(Open::Index);
        };
        let mut deps = value.deps | low.deps | high.deps;
        for (a, b) in [(&value, &low), (&high, &value)] {
            let Some(left) = a.poly.minus(&b.poly) else { return Verdict::Open(Open::Index) };
            match self.ensure_needed(&left) {
                Some(more) => deps |= more,
                None => return Verdict::Open(Open::Bound(Box::new(left))),
            }
        }
        Verdict::Relies(deps)
    }

    fn promised_multiple(&mut self, value: Value, divisor: u32) -> Verdict {
        let Some(number) = self.exact(value) else { return Verdict::Open(Open::Index) };
        if let Some(deps) = self.is_multiple(&number.poly, divisor.into()) {
            return Verdict::Relies(deps | number.deps);
        }
        if divisor > 0 && self.atoms.is_launch(&number.poly) {
            let poly = number.poly.clone();
            let wanted = Requirement::Multiple { poly, by: divisor, deps: number.deps };
            if let Some(deps) = self.require_all(wanted) {
                return Verdict::Relies(deps | number.deps);
            }
        }
        Verdict::Open(Open::Alignment { offset: Box::new(number.poly), bytes: divisor })
    }

    fn promised_alignment(&mut self, base: Value, bytes: u32) -> Verdict {
        let pointer = self.pointer(base);
        match self.alignment(&pointer, &pointer.offset, &pointer.since, bytes) {
            Ok(deps) => Verdict::Relies(deps | pointer.deps),
            Err(open) => Verdict::Open(open),
        }
    }

    fn rank(&mut self, cta: Value) -> Verdict {
        let Some(number) = self.exact(cta) else { return Verdict::Open(Open::Index) };
        let reg = SpecialReg::ClusterNctaRank;
        let count = super::ranges::of_register(self.ir, reg);
        let count = self.atoms.of(Key::Register(reg), count, 1);
        let Some(left) = count.minus(&number.poly).and_then(|left| left.plus_constant(-1)) else {
            return Verdict::Open(Open::Index);
        };
        match (self.ensure(&left), self.ensure(&number.poly)) {
            (Some(a), Some(b)) => Verdict::Relies(a | b | number.deps),
            _ => Verdict::Open(Open::Bound(Box::new(left))),
        }
    }

    /// Returns what it relies on that the polynomial is a multiple of `by`.
    pub(super) fn is_multiple(&mut self, poly: &Poly, by: u128) -> Option<Deps> {
        if by == 0 {
            return None;
        }
        let is_multiple = |atoms: &Atoms, poly: &Poly| atoms.multiple(poly).is_multiple_of(by);
        if is_multiple(&self.atoms, poly) {
            return Some(0);
        }
        let (poly, deps) = self.with_equalities(poly, is_multiple);
        if is_multiple(&self.atoms, &poly) {
            return Some(deps);
        }
        let poly = self.without_remainders(poly, by);
        is_multiple(&self.atoms, &poly).then_some(deps)
    }

    /// Replaces atoms by what the equations of the place say, until it is enough.
    pub(super) fn with_equalities(
        &mut self,
        poly: &Poly,
        is_enough: impl Fn(&Atoms, &Poly) -> bool,
    ) -> (Poly, Deps) {
        let (mut poly, mut deps) = (poly.clone(), 0);
        for _ in 0..2 {
            for i in (0..self.facts.equalities.len()).rev() {
                let equality = &self.facts.equalities[i];
                if !poly.contains(equality.atom) {
                    continue;
                }
                let own = equality.deps;
                if let Some(other) = poly.with(equality.atom, &equality.value.clone()) {
                    poly = numbers::tidy(&mut self.atoms, other);
                    deps |= own;
                    if is_enough(&self.atoms, &poly) {
                        return (poly, deps);
                    }
                }
            }
        }
        (poly, deps)
    }

    /// Replaces remainders by their dividends if that adds a multiple of `by`. So `x + (-x)%8`, a
    /// multiple of 8, becomes 0.
    fn without_remainders(&mut self, poly: Poly, by: u128) -> Poly {
        let mut poly = poly;
        for _ in 0..3 {
            let dividend = poly.terms.iter().find_map(|term| {
                let [atom] = term.atoms[..] else { return None };
                let Key::Rem(value, divisor) = &self.atoms.get(atom).key else { return None };
                let multiple = divisor.as_constant()?.checked_mul(term.factor)?;
                let is_equal = multiple.unsigned_abs().is_multiple_of(by);
                is_equal.then(|| (atom, value.clone(), term.factor))
            });
            // Only in this term: in another one, the factors may be too small.
            let Some((atom, value, factor)) = dividend else { break };
            let without = poly.plus_scaled(&Poly::atom(atom), -factor);
            match without.and_then(|without| without.plus_scaled(&value, factor)) {
                Some(other) => poly = numbers::tidy(&mut self.atoms, other),
                None => break,
            }
        }
        poly
    }

    /// As [`is_multiple`](Walk::is_multiple), also if minima and maxima are one of their operands
    /// here.
    fn is_multiple_here(&mut self, poly: &Poly, by: u128) -> Option<Deps> {
        if let Some(deps) = self.is_multiple(poly, by) {
            return Some(deps);
        }
        let (poly, deps) = self.without_extrema(&self.atoms.expanded(poly)?);
        Some(deps | self.is_multiple(&poly, by)?)
    }

    /// Returns what it relies on that the polynomial is a multiple of `by`, perhaps launch
    /// conditions about pitches.
    fn ensure_multiple(&mut self, poly: &Poly, by: u32) -> Option<Deps> {
        if let Some(deps) = self.is_multiple(poly, by.into()) {
            return Some(deps);
        }
        let (poly, mut deps) = self.without_extrema(&self.atoms.expanded(poly)?);
        if let Some(more) = self.is_multiple(&poly, by.into()) {
            return Some(deps | more);
        }
        let poly = self.without_remainders(poly, by.into());
        // What a launch knows is put together for each product of the other atoms.
        let mut parts: Vec<(Product, Poly)> =
            vec![(Product::default(), Poly::constant(poly.constant))];
        for term in &poly.terms {
            let (launch, other): (Product, Product) =
                term.atoms.iter().copied().partition(|atom| self.atoms.get(*atom).is_launch);
            let one = Term { atoms: launch, factor: term.factor };
            let one = if one.atoms.is_empty() {
                Poly::constant(one.factor)
            } else {
                Poly { terms: [one].into_iter().collect(), constant: 0 }
            };
            match parts.iter_mut().find(|(known, _)| *known == other) {
                Some((_, sum)) => *sum = sum.plus(&one)?,
                None => parts.push((other, one)),
            }
        }
        for (other, sum) in parts {
            let own = other.iter().map(|atom| self.atoms.get(*atom).multiple);
            let own = own.fold(1u128, |all, factor| all.saturating_mul(factor));
            let left = u128::from(by) / gcd(by.into(), own);
            if let Some(more) = self.is_multiple(&sum, left) {
                deps |= more;
                continue;
            }
            if sum.as_constant().is_some() {
                return None;
            }
            if let Some(more) = self.follows_from_multiples(&sum, left) {
                deps |= more;
                continue;
            }
            // `2*pitch` is a multiple of 16 if `pitch` is one of 8.
            let content = gcd(sum.content(), sum.constant.unsigned_abs());
            let common = gcd(content, left);
            let small = Poly {
                terms: sum
                    .terms
                    .iter()
                    .map(|term| Term { atoms: term.atoms, factor: term.factor / common as i128 })
                    .collect(),
                constant: sum.constant / common as i128,
            };
            let by = u32::try_from(left / common).ok()?;
            deps |= self.require_all(Requirement::Multiple { poly: small, by, deps: 0 })?;
        }
        Some(deps)
    }

    /// Returns the launch conditions by which each term of the polynomial is a multiple of `by`.
    fn follows_from_multiples(&self, poly: &Poly, by: u128) -> Option<Deps> {
        if !poly.constant.unsigned_abs().is_multiple_of(by) {
            return None;
        }
        poly.terms.iter().try_fold(0, |deps, term| {
            let factor = term.factor.unsigned_abs();
            if factor.is_multiple_of(by) {
                return Some(deps);
            }
            let [atom] = term.atoms[..] else { return None };
            let known = self.requirements.iter().enumerate().take(MAX_DEPS).find(|(_, known)| {
                matches!(known, Requirement::Multiple { poly, by: own, deps: 0 }
                    if poly.as_atom() == Some(atom)
                        && factor.saturating_mul(u128::from(*own)).is_multiple_of(by))
            });
            known.map(|(i, _)| deps | 1 << i)
        })
    }

    /// Replaces minima and maxima by the operand that they are here, if that is known.
    pub(super) fn without_extrema(&mut self, poly: &Poly) -> (Poly, Deps) {
        let (mut poly, mut deps) = (poly.clone(), 0);
        for _ in 0..4 {
            let atoms: Vec<AtomId> = poly.atoms().collect();
            let mut next = None;
            for atom in atoms {
                let (Key::Min(a, b) | Key::Max(a, b)) = self.atoms.get(atom).key.clone() else {
                    continue;
                };
                let is_min = matches!(self.atoms.get(atom).key, Key::Min(..));
                for (this, other) in [(&a, &b), (&b, &a)] {
                    let (less, more) = if is_min { (this, other) } else { (other, this) };
                    if let Some(left) = more.minus(less)
                        && let Some(own) = self.is_refuted(&left, atom, other)
                        && let Some(with) = poly.with(atom, this)
                    {
                        next = Some((with, own));
                        break;
                    }
                }
                if next.is_some() {
                    break;
                }
            }
            let Some((with, own)) = next else { break };
            poly = numbers::tidy(&mut self.atoms, with);
            deps |= own;
        }
        (poly, deps)
    }

    /// Returns what it relies on that `poly >= 0`, by assuming the opposite, in which case `atom`
    /// is `value`, and finding a guard that then cannot hold.
    fn is_refuted(&mut self, poly: &Poly, atom: AtomId, value: &Poly) -> Option<Deps> {
        if let Some(deps) = self.is_known(poly) {
            return Some(deps);
        }
        let guards: Vec<(Poly, Deps)> =
            self.facts.guards().rev().take(3).map(|fact| (fact.poly.clone(), fact.deps)).collect();
        let mark = self.facts.mark();
        let below = poly.scaled(-1)?.plus_constant(-1)?;
        let equal = Poly::atom(atom).minus(value)?;
        self.facts.add(&self.atoms, below, 0);
        self.facts.add_equal(&self.atoms, &equal, 0);
        let found = guards.into_iter().find_map(|(guard, own)| {
            let never = guard.scaled(-1)?.plus_constant(-1)?;
            self.is_known(&never).map(|deps| deps | own)
        });
        self.facts.back_to(mark);
        found
    }

    /// Decides whether an address is a multiple of `bytes`.
    fn alignment(
        &mut self,
        pointer: &Pointer,
        offset: &Poly,
        since: &Poly,
        bytes: u32,
    ) -> Result<Deps, Open> {
        let by = u128::from(bytes.max(1));
        if by == 1 {
            return Ok(0);
        }
        if pointer.since_align.is_multiple_of(by)
            && let Some(deps) = self.ensure_multiple(since, bytes)
        {
            return Ok(deps);
        }
        for (root, known, own, more) in self.facts.aligned.clone() {
            if root == pointer.root
                && own.is_multiple_of(by)
                && let Some(left) = offset.minus(&known)
                && let Some(deps) = self.ensure_multiple(&left, bytes)
            {
                return Ok(deps | more);
            }
        }
        // A kernel may look at the address itself.
        if let Root::Param(param) = pointer.root
            && self.atoms.find(&Key::Address(param)).is_some()
            && let Some(address) = self.address(param).and_then(|start| start.plus(offset))
            && let Some(deps) = self.is_multiple_here(&address, by)
        {
            return Ok(deps);
        }
        let ir = self.ir;
        let own = match pointer.root {
            Root::Param(param) => {
                match ir.params.get(param as usize).map(|p| ir.type_of(p.value)) {
                    Some(Type::Pointer { elem, .. }) => elem.size_bytes(),
                    _ => 1,
                }
            }
            Root::Shared(shared) | Root::Remote(shared) => ir.shared[shared].align_bytes,
            Root::Local(_) => LocalData::ALIGN_BYTES,
            Root::Array(array) => ir.arrays[array].elem.size_bytes(),
            Root::Integer | Root::Unknown => return Err(Open::Origin),
        };
        let Some(deps) = self.ensure_multiple(offset, bytes) else {
            return Err(Open::Alignment { offset: Box::new(offset.clone()), bytes });
        };
        if own.is_multiple_of(bytes) {
            return Ok(deps);
        }
        if let Root::Param(param) = pointer.root
            && let Some(more) = self.require_all(Requirement::Aligned { param, bytes })
        {
            return Ok(deps | more);
        }
        Err(Open::Alignment { offset: Box::new(offset.clone()), bytes })
    }

    fn access(&mut self, id: OpId, access: &Access) {
        let ir = self.ir;
        let Type::Pointer { space, .. } = ir.type_of(access.base) else { return };
        let pointer = self.pointer(access.base);
        let subject = Subject::Access {
            operand: access.operand,
            root: pointer.root,
            space: match pointer.root {
                Root::Param(_) | Root::Integer => Space::Global,
                Root::Shared(_) => Space::Shared,
                Root::Remote(_) => Space::SharedCluster,
                Root::Local(_) => Space::Local,
                Root::Array(_) => Space::Const,
                Root::Unknown => space,
            },
            is_store: access.is_store,
        };
        let verdict = if pointer.root == Root::Integer {
            Verdict::Assumed("a pointer made from an integer")
        } else {
            match self.decide(&pointer, access) {
                Ok(deps) => Verdict::Relies(deps),
                Err(open) => Verdict::Open(open),
            }
        };
        self.sites.push(Site { op: id, subject, verdict });
        self.record(id, access, &pointer);
    }

    fn decide(&mut self, pointer: &Pointer, access: &Access) -> Result<Deps, Open> {
        let ir = self.ir;
        let len = match pointer.root {
            Root::Param(param) => {
                let Some(Type::Pointer { elem, .. }) =
                    ir.params.get(param as usize).map(|param| ir.type_of(param.value))
                else {
                    return Err(Open::Origin);
                };
                let len = self.len(param);
                len.scaled(elem.size_bytes().into()).ok_or(Open::Index)?
            }
            Root::Shared(shared) | Root::Remote(shared) => {
                let data = &ir.shared[shared];
                Poly::constant(i128::from(data.len) * i128::from(data.elem.size_bytes()))
            }
            Root::Local(local) => Poly::constant(ir.locals[local].bytes().into()),
            Root::Array(array) => Poly::constant(ir.arrays[array].bytes().into()),
            Root::Integer | Root::Unknown => return Err(Open::Origin),
        };
        let elem_bytes = self.elem_bytes(access.base);
        let target = self.advanced(pointer, access.index, elem_bytes).ok_or(Open::Index)?;
        let (offset, since) = (target.offset.clone(), target.since.clone());
        let mut deps = target.deps;
        let mark = self.facts.mark();
        if let Some(lanes) = access.lanes {
            self.only_lanes(lanes);
        }
        self.bound_names(&offset);
        let settled = self.settled(&target);
        // Bounds may rely on what the alignment needs.
        let aligned = self.alignment(pointer, &offset, &since, access.align);
        let found = self.by_cases(&offset, 0, &|walk, offset| walk.bounds(access, offset, &len));
        self.facts.back_to(mark);
        deps |= settled.ok_or(Open::Index)?;
        deps |= found?;
        deps |= aligned?;
        Ok(deps)
    }

    /// Assumes that the thread is one of the first lanes of its warp.
    pub(super) fn only_lanes(&mut self, lanes: u32) {
        let thread = Key::Register(SpecialReg::Tid(Axis::X));
        let mut keys = vec![Key::Register(SpecialReg::LaneId)];
        if let (Some(thread), Some([_, 1, 1])) = (self.atoms.find(&thread), self.ir.bounds.block) {
            keys.push(Key::Rem(Poly::atom(thread), Poly::constant(32)));
        }
        for key in keys {
            if let Some(lane) = self.atoms.find(&key)
                && let Some(left) = Poly::constant(i128::from(lanes) - 1).minus(&Poly::atom(lane))
            {
                self.facts.add(&self.atoms, left, 0);
            }
        }
    }

    fn bounds(&mut self, access: &Access, offset: &Poly, len: &Poly) -> Result<Deps, Open> {
        let (bytes, own) = match access.bytes {
            AccessBytes::Known(bytes) => (Poly::constant(bytes.into()), 0),
            AccessBytes::Box(map) => {
                (self.atoms.of(Key::BoxBytes(map), Range::new(1, 1 << 30), 1), 0)
            }
            AccessBytes::Computed(bytes) => {
                let number = self.exact(bytes).ok_or(Open::Index)?;
                let choice =
                    number.poly.as_atom().and_then(|atom| self.atoms.get(atom).choice.clone());
                if let Some(choice) = choice {
                    return self.chosen(&choice, offset, len).map(|deps| deps | number.deps);
                }
                (number.poly, number.deps)
            }
        };
        self.inside(offset, &bytes, len).map(|deps| deps | own)
    }

    /// Decides about an access whose size depends on a condition. An access of no bytes may be
    /// anywhere.
    fn chosen(
        &mut self,
        choice: &super::atom::Choice,
        offset: &Poly,
        len: &Poly,
    ) -> Result<Deps, Open> {
        let mut deps = choice.cond.deps;
        for (claims, bytes) in [(&choice.cond.yes, &choice.yes), (&choice.cond.no, &choice.no)] {
            if bytes.as_constant() == Some(0) {
                continue;
            }
            let mark = self.facts.mark();
            self.assume(claims, choice.cond.deps);
            let some = bytes.plus_constant(-1).ok_or(Open::Index)?;
            Search::new(&mut self.atoms, &mut self.facts).assume(&Claim::Ge(some), 0);
            let found = self.inside(offset, bytes, len);
            self.facts.back_to(mark);
            deps |= found?;
        }
        Ok(deps)
    }

    /// Decides whether `bytes` bytes from `offset` on are within the first `len`.
    pub(super) fn inside(&mut self, offset: &Poly, bytes: &Poly, len: &Poly) -> Result<Deps, Open> {
        let lower = self.ensure_somehow(offset).or_else(|| self.ensure_parts(offset));
        let lower = lower.ok_or_else(|| Open::Bound(Box::new(offset.clone())))?;
        let left = len.minus(offset).and_then(|left| left.minus(bytes)).ok_or(Open::Index)?;
        let upper = self.ensure_somehow(&left).ok_or(Open::Bound(Box::new(left)))?;
        Ok(lower | upper)
    }
}
