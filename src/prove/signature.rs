//! What a launch already checks: required buffer lengths, and the assumptions about symbols.

use super::numbers;
use super::poly::Poly;
use super::walk::{Known, Walk};
use crate::ir::{Entity, LenExpr, LenFun, Signature};

impl Walk<'_> {
    /// Adds what the signature makes every launch check.
    pub(super) fn add_signature(&mut self, signature: &Signature) {
        for symbol in &signature.symbols {
            let Some(poly) = self.param(symbol.index) else { continue };
            let (lo, hi) = symbol.int.bounds();
            let above = poly.plus_constant(-i128::from(lo));
            let below = poly.scaled(-1).and_then(|poly| poly.plus_constant(hi.into()));
            for fact in [above, below].into_iter().flatten() {
                self.assume_everywhere(fact);
            }
            let divisor = symbol.int.divisibility();
            if divisor > 1 {
                self.assume_multiple(&poly, &Poly::constant(divisor.into()), 0);
            }
        }
        for required in &signature.required {
            let Ok(param) = u32::try_from(required.param) else { continue };
            if let Some(needed) = self.required(&required.len)
                && let Some(left) = self.len(param).minus(&needed)
            {
                self.assume_everywhere(left);
            }
        }
    }

    fn param(&self, index: usize) -> Option<Poly> {
        let param = self.ir.params.get(index)?;
        debug_assert!(param.value.index() < self.ir.values.len());
        match self.known(param.value) {
            Known::Number(number) => Some(number.poly.clone()),
            _ => None,
        }
    }

    /// Returns the expression as a polynomial, if it is followed.
    fn required(&mut self, expr: &LenExpr) -> Option<Poly> {
        let (fun, operands) = match expr {
            LenExpr::Number(number) => return Some(Poly::constant(*number)),
            LenExpr::Param(index, _) => return self.param(*index),
            LenExpr::Call(fun, operands) => (fun, operands),
        };
        let (a, b) = (self.required(&operands.0)?, self.required(&operands.1)?);
        let power = || {
            let amount = u32::try_from(b.as_constant()?).ok().filter(|amount| *amount < 64)?;
            Some(Poly::constant(1 << amount))
        };
        let atoms = &mut self.atoms;
        match fun {
            LenFun::Add => a.plus(&b),
            LenFun::Sub => a.minus(&b),
            LenFun::Mul => a.times(&b),
            LenFun::Min => Some(numbers::min_max(atoms, &a, &b, true)),
            LenFun::Max => Some(numbers::min_max(atoms, &a, &b, false)),
            LenFun::Shl => a.times(&power()?),
            LenFun::Shr => numbers::div(atoms, &a, &power()?),
            LenFun::Div | LenFun::Rem => {
                // Quotients of negative integers are rounded toward zero.
                if atoms.range(&a).lo < 0 || atoms.range(&b).lo < 1 {
                    return None;
                }
                match fun {
                    LenFun::Div => numbers::div(atoms, &a, &b),
                    _ => numbers::rem(atoms, &a, &b),
                }
            }
            LenFun::And => {
                let mask = b.as_constant().filter(|mask| *mask >= 0)?;
                numbers::and_constant(atoms, &a, mask, 64)
            }
        }
    }
}
