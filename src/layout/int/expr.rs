//! The normal form of a symbolic integer: a sum of products of factors, with what is known about
//! it.
//!
//! A factor is a symbol divided by its known divisor, or the result of an operation that is not a
//! polynomial. We divide the symbol so that divisibility can be read off the coefficients: if 16
//! divides `n`, then `n` is stored as `16 * (n/16)`, and a sum is divisible by the greatest common
//! divisor of its coefficients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Env, Int, Result, ceil_div_i64, floor_div_i64, gcd_i64};
use crate::layout::error::LayoutError;

/// How many bits a symbol has in a kernel. Choose 64 bits for an extent or a stride that may not
/// fit in an `i32`.
///
/// ```
/// use tilewright::layout::{Int, Width};
/// let n = Int::symbol("n");
/// assert_eq!((n.width(), n.with_width(Width::W64).width()), (Width::W32, Width::W64));
/// assert_eq!(format!("{:#}", n.with_width(Width::W64)), "?{i64}");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// 32 bits.
    #[default]
    W32,
    /// 64 bits.
    W64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SymbolKey {
    Named(Arc<str>),
    Fresh(u64),
}

/// A named unknown with its divisor, bounds and width. [`Int::as_symbol`] returns it, for example
/// to name the symbol in a message.
///
/// ```
/// use tilewright::layout::{Int, Symbol};
/// let n = Int::symbol("n").assume(8, 0, 64)?;
/// let symbol: &Symbol = n.as_symbol().expect("it is no sum");
/// assert_eq!((symbol.name(), symbol.divisor(), symbol.bounds()), ("n", 8, (0, 64)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Symbol {
    key: SymbolKey,
    name: Arc<str>,
    divisor: i64,
    min: i64,
    max: i64,
    width: Width,
}

impl Symbol {
    pub(crate) fn named(name: &str) -> Self {
        let name: Arc<str> = Arc::from(name);
        Self::new(SymbolKey::Named(name.clone()), name)
    }

    pub(crate) fn fresh(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::new(SymbolKey::Fresh(NEXT.fetch_add(1, Ordering::Relaxed)), Arc::from(name))
    }

    fn new(key: SymbolKey, name: Arc<str>) -> Self {
        Self { key, name, divisor: 1, min: 1, max: i64::MAX, width: Width::W32 }
    }

    pub(crate) fn with_width(self, width: Width) -> Self {
        Self { width, ..self }
    }

    pub(crate) fn key(&self) -> &SymbolKey {
        &self.key
    }

    /// Returns the id of a symbol from [`Int::fresh`], and `None` for a symbol that is identified
    /// by its name.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Symbol};
    /// assert_eq!(Int::symbol("n").as_symbol().and_then(Symbol::id), None);
    /// assert!(Int::fresh("n").as_symbol().and_then(Symbol::id).is_some());
    /// ```
    pub fn id(&self) -> Option<u64> {
        match self.key {
            SymbolKey::Named(_) => None,
            SymbolKey::Fresh(id) => Some(id),
        }
    }

    /// Returns the name that was passed to [`Int::symbol`] or [`Int::fresh`].
    ///
    /// ```
    /// # use tilewright::layout::{Int, Symbol};
    /// let n = Int::symbol("n").divisible_by(16);
    /// assert_eq!(n.as_symbol().map(Symbol::name), Some("n"));
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the known divisor, which is at least 1. [`Int::divisible_by`] sets it.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Symbol};
    /// let n = Int::symbol("n").divisible_by(16);
    /// assert_eq!(n.as_symbol().map(Symbol::divisor), Some(16));
    /// ```
    pub fn divisor(&self) -> i64 {
        self.divisor
    }

    /// Returns the smallest and the largest possible value. [`Int::assume`] sets them.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Symbol};
    /// let n = Int::symbol("n").assume(1, 0, 9)?;
    /// assert_eq!(n.as_symbol().map(Symbol::bounds), Some((0, 9)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn bounds(&self) -> (i64, i64) {
        (self.min, self.max)
    }

    /// Returns how many bits the symbol has in a kernel. [`Int::with_width`] sets it.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Symbol, Width};
    /// let n = Int::symbol("n").divisible_by(16);
    /// assert_eq!(n.as_symbol().map(Symbol::width), Some(Width::W32));
    /// ```
    pub fn width(&self) -> Width {
        self.width
    }
}

/// An operation whose result is a [`Factor`], because it is not a polynomial. Match on it if you
/// translate an expression, for example to code.
///
/// ```
/// use tilewright::layout::{Factor, Fun, Int};
/// let tiles = Int::symbol("n").ceil_div(&64.into())?;
/// let Factor::Call(call) = &tiles.terms()[0].factors[0] else { unreachable!() };
/// assert_eq!(call.fun, Fun::CeilDiv);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fun {
    /// `a / b`, rounded down.
    FloorDiv,
    /// `a - b * floor(a / b)`.
    Mod,
    /// `a / b`, rounded up.
    CeilDiv,
    /// The smaller of the two.
    Min,
    /// The larger of the two.
    Max,
    /// The greatest common divisor.
    Gcd,
    /// Bitwise exclusive or.
    Xor,
    /// Bitwise and.
    And,
    /// `a`, with more facts known about it.
    Assume,
    /// `a` on the condition that `b` is not above 0. Evaluation fails if it is.
    Checked,
    /// A value that does not fit in 64 bits.
    Overflow,
}

/// An operation with its operands and what is known about its result. Read it if you translate the
/// terms of an expression, for example to code.
///
/// ```
/// use tilewright::layout::{Factor, Int};
/// let tiles = Int::symbol("n").ceil_div(&64.into())?;
/// let Factor::Call(call) = &tiles.terms()[0].factors[0] else { unreachable!() };
/// assert_eq!((&call.a, &call.b), (&Int::symbol("n"), &Int::new(64)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// The operation, which says what `a` and `b` mean.
    pub fun: Fun,
    /// The first operand.
    pub a: Int,
    /// The second operand.
    pub b: Int,
    pub(crate) facts: Facts,
}

// Only the order of terms in the normal form. `Int` itself is not ordered, because `a < b` would
// not say anything about the symbols' values.
impl PartialOrd for Call {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Call {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.fun, &self.a.0, &self.b.0, self.facts).cmp(&(
            other.fun,
            &other.a.0,
            &other.b.0,
            other.facts,
        ))
    }
}

/// One factor of a [`Term`]: a symbol, or the result of an operation such as `ceil_div`. Match on
/// it if you translate the terms of an expression, for example to code.
///
/// ```
/// use tilewright::layout::{Factor, Int};
/// // With 16 | n the factor is n/16, and n is 16 times that.
/// let n = Int::symbol("n").divisible_by(16);
/// assert_eq!(n.terms()[0].coefficient, 16);
/// assert!(matches!(&n.terms()[0].factors[0], Factor::Symbol(symbol) if symbol.name() == "n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Factor {
    /// The symbol divided by its known divisor.
    Symbol(Arc<Symbol>),
    /// The result of an operation that is not a polynomial.
    Call(Arc<Call>),
}

/// One term of the sum that [`Int::terms`] returns: a coefficient times factors. For example,
/// `6*n*m` has the coefficient 6 and two factors.
///
/// ```
/// use tilewright::layout::{Int, Term};
/// let product = Int::symbol("n").mul(&Int::symbol("m"))?.mul(&6.into())?;
/// let Term { factors, coefficient } = &product.terms()[0];
/// assert_eq!((factors.len(), *coefficient), (2, 6));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// The factors in sorted order. A power repeats its factor.
    pub factors: Vec<Factor>,
    /// The coefficient, which is never zero.
    pub coefficient: i64,
}

/// What holds whatever the symbols are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Facts {
    pub(crate) divisor: i64,
    pub(crate) min: i64,
    pub(crate) max: i64,
}

/// The most terms that multiplying out a product may produce.
const MAX_TERMS: usize = 256;

/// The most nodes that an operand or a result may have. Operands are shared in memory, but
/// comparing, evaluating and printing visit every occurrence.
pub(crate) const MAX_NODES: u32 = 2048;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Expr {
    pub(crate) terms: Vec<Term>,
    pub(crate) facts: Facts,
    pub(crate) width: Width,
    /// How many terms, symbols and operations there are here and in all operands. A shared operand
    /// counts once per occurrence.
    pub(crate) nodes: u32,
}

fn saturate(v: i128) -> i64 {
    i64::try_from(v).unwrap_or(if v < 0 { i64::MIN } else { i64::MAX })
}

impl Factor {
    pub(crate) fn facts(&self) -> Facts {
        match self {
            Factor::Symbol(s) => Facts {
                divisor: 1,
                min: ceil_div_i64(s.min, s.divisor).unwrap_or(i64::MIN),
                max: floor_div_i64(s.max, s.divisor).unwrap_or(i64::MAX),
            },
            Factor::Call(c) => c.facts,
        }
    }

    fn width(&self) -> Width {
        match self {
            Factor::Symbol(s) => s.width,
            Factor::Call(c) => c.a.width().max(c.b.width()),
        }
    }

    fn nodes(&self) -> u32 {
        match self {
            Factor::Symbol(_) => 1,
            Factor::Call(c) => 1u32.saturating_add(c.a.nodes()).saturating_add(c.b.nodes()),
        }
    }

    fn eval(&self, env: &Env) -> Result<i64> {
        match self {
            Factor::Symbol(s) => {
                let value = env
                    .get(s)
                    .ok_or_else(|| LayoutError::UnboundSymbol { name: s.name.to_string() })?;
                check(&s.name, value, s.divisor, s.min, s.max)?;
                Ok(value / s.divisor)
            }
            Factor::Call(c) => c.eval(env),
        }
    }
}

fn check(name: &str, value: i64, divisor: i64, min: i64, max: i64) -> Result<()> {
    if value % divisor != 0 || value < min || value > max {
        return Err(LayoutError::AssumptionViolated {
            name: name.to_owned(),
            value,
            divisor,
            min,
            max,
        });
    }
    Ok(())
}

impl Call {
    fn eval(&self, env: &Env) -> Result<i64> {
        if self.fun == Fun::Overflow {
            return Err(LayoutError::overflow("an extent or stride"));
        }
        let a = Int::new(self.a.eval(env)?);
        let b = Int::new(self.b.eval(env)?);
        let value = match self.fun {
            Fun::FloorDiv => a.floor_div(&b),
            Fun::Mod => a.modulo(&b),
            Fun::CeilDiv => a.ceil_div(&b),
            Fun::Min => a.min(&b),
            Fun::Max => a.max(&b),
            Fun::Gcd => a.gcd(&b),
            Fun::Xor => a.xor(&b),
            Fun::And => a.and(&b),
            Fun::Checked if b.bounds().0 > 0 => {
                return Err(LayoutError::ConditionViolated {
                    value: self.a.to_string(),
                    condition: format!("{} <= 0", self.b),
                });
            }
            Fun::Assume | Fun::Checked | Fun::Overflow => Ok(a),
        }?;
        let value = value.to_static()?;
        if self.fun == Fun::Assume {
            let Facts { divisor, min, max } = self.facts;
            check(&self.a.to_string(), value, divisor, min, max)?;
        }
        Ok(value)
    }
}

impl Expr {
    pub(crate) fn constant(value: i64) -> Self {
        let terms = match value {
            0 => Vec::new(),
            _ => vec![Term { factors: Vec::new(), coefficient: value }],
        };
        Self::from_terms(terms)
    }

    /// Makes an expression of one term.
    pub(crate) fn single(term: Term) -> Self {
        Self::from_terms(vec![term])
    }

    pub(crate) fn symbol(symbol: Symbol) -> Self {
        let coefficient = symbol.divisor;
        let factors = vec![Factor::Symbol(Arc::new(symbol))];
        Self::from_terms(vec![Term { factors, coefficient }])
    }

    pub(crate) fn call(fun: Fun, a: &Int, b: &Int, facts: Facts) -> Self {
        let call = Call { fun, a: a.clone(), b: b.clone(), facts };
        let factors = vec![Factor::Call(Arc::new(call))];
        Self::from_terms(vec![Term { factors, coefficient: 1 }])
    }

    pub(crate) fn overflowed() -> Self {
        let facts = Facts { divisor: 1, min: i64::MIN, max: i64::MAX };
        Self::call(Fun::Overflow, &Int::ZERO, &Int::ZERO, facts)
    }

    pub(crate) fn is_overflowed(&self) -> bool {
        matches!(&*self.terms, [Term { factors, .. }]
            if matches!(&**factors, [Factor::Call(c)] if c.fun == Fun::Overflow))
    }

    /// Builds an expression and computes its facts. The terms must be sorted and distinct, with
    /// nonzero coefficients.
    fn from_terms(terms: Vec<Term>) -> Self {
        let mut divisor = 0;
        let (mut min, mut max) = (0i128, 0i128);
        let mut width = Width::W32;
        let mut nodes = 0u32;
        for term in &terms {
            nodes = nodes.saturating_add(1);
            let mut d = term.coefficient;
            let (mut lo, mut hi) = (i128::from(term.coefficient), i128::from(term.coefficient));
            for factor in &term.factors {
                let facts = factor.facts();
                d = d.checked_mul(facts.divisor).unwrap_or(d);
                let (a, b) = (i128::from(facts.min), i128::from(facts.max));
                // Evaluation works in 128 bits and fails beyond that, so we clamp the bounds to
                // that range.
                let corners =
                    [(lo, a), (lo, b), (hi, a), (hi, b)].map(|(x, y)| x.saturating_mul(y));
                lo = corners.into_iter().min().unwrap_or(lo);
                hi = corners.into_iter().max().unwrap_or(hi);
                width = width.max(factor.width());
                nodes = nodes.saturating_add(factor.nodes());
            }
            divisor = gcd_i64(divisor, d);
            min = min.saturating_add(lo);
            max = max.saturating_add(hi);
        }
        let facts = Facts { divisor, min: saturate(min), max: saturate(max) };
        Self { terms, facts, width, nodes }
    }

    pub(crate) fn as_constant(&self) -> Option<i64> {
        match &*self.terms {
            [] => Some(0),
            [Term { factors, coefficient }] if factors.is_empty() => Some(*coefficient),
            _ => None,
        }
    }

    pub(crate) fn as_symbol(&self) -> Option<&Symbol> {
        match &*self.terms {
            [Term { factors, coefficient }] => match &**factors {
                [Factor::Symbol(s)] if s.divisor == *coefficient => Some(s),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn assume(&self, divisor: i64, min: i64, max: i64) -> Int {
        let divisor = divisor.max(1);
        // The least common multiple, or the larger divisor if that does not fit.
        let lcm = |a: i64, b: i64| (a / gcd_i64(a, b)).checked_mul(b).unwrap_or(a.max(b));
        if let Some(s) = self.as_symbol() {
            let divisor = lcm(s.divisor, divisor);
            return Int::from_symbol(Symbol { divisor, min, max, ..s.clone() });
        }
        let known = self.facts;
        let facts = Facts {
            divisor: lcm(known.divisor, divisor),
            min: min.max(known.min),
            max: max.min(known.max),
        };
        let whole = Int::from_expr(self.clone());
        if facts == known {
            return whole;
        }
        Int::from_expr(Expr::call(Fun::Assume, &whole, &Int::ZERO, facts))
    }

    /// Returns `self * a + other * b`.
    pub(crate) fn combine(&self, a: i64, other: &Expr, b: i64) -> Option<Self> {
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut x, mut y) = (self.terms.iter().peekable(), other.terms.iter().peekable());
        loop {
            let order = match (x.peek(), y.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(s), Some(t)) => s.factors.cmp(&t.factors),
            };
            let mut coefficient = 0i64;
            let mut factors = &Vec::new();
            if order.is_le()
                && let Some(s) = x.next()
            {
                coefficient = s.coefficient.checked_mul(a)?;
                factors = &s.factors;
            }
            if order.is_ge()
                && let Some(t) = y.next()
            {
                coefficient = coefficient.checked_add(t.coefficient.checked_mul(b)?)?;
                factors = &t.factors;
            }
            if coefficient != 0 {
                terms.push(Term { factors: factors.clone(), coefficient });
            }
        }
        Some(Self::from_terms(terms))
    }

    pub(crate) fn product(&self, other: &Expr) -> Result<Self> {
        let overflow = || LayoutError::overflow("multiplication");
        if self.terms.len() * other.terms.len() > MAX_TERMS {
            return Err(LayoutError::ExpressionTooLarge { limit: MAX_TERMS as u32 });
        }
        let mut terms: Vec<Term> = Vec::with_capacity(self.terms.len() * other.terms.len());
        for s in &self.terms {
            for t in &other.terms {
                let mut factors: Vec<Factor> =
                    s.factors.iter().chain(&t.factors).cloned().collect();
                factors.sort_unstable();
                let coefficient = s.coefficient.checked_mul(t.coefficient).ok_or_else(overflow)?;
                terms.push(Term { factors, coefficient });
            }
        }
        terms.sort_by(|s, t| s.factors.cmp(&t.factors));
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            match merged.last_mut() {
                Some(last) if last.factors == term.factors => {
                    last.coefficient =
                        last.coefficient.checked_add(term.coefficient).ok_or_else(overflow)?;
                }
                _ => merged.push(term),
            }
        }
        merged.retain(|t| t.coefficient != 0);
        Ok(Self::from_terms(merged))
    }

    /// Returns `(q, r)` with `self == q * by + r`, where `q` takes every term that has `by` as a
    /// factor.
    pub(crate) fn split(&self, by: &Term) -> (Self, Self) {
        let (mut quotient, mut rest) = (Vec::new(), Vec::new());
        for term in &self.terms {
            match term.divided_by(by) {
                Some(q) => quotient.push(q),
                None => rest.push(term.clone()),
            }
        }
        quotient.sort_unstable_by(|s: &Term, t| s.factors.cmp(&t.factors));
        (Self::from_terms(quotient), Self::from_terms(rest))
    }

    pub(crate) fn eval(&self, env: &Env) -> Result<i64> {
        let overflow = || LayoutError::overflow("evaluation");
        let mut sum = 0i128;
        for term in &self.terms {
            let mut product = i128::from(term.coefficient);
            for factor in &term.factors {
                product =
                    product.checked_mul(i128::from(factor.eval(env)?)).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        i64::try_from(sum).map_err(|_| overflow())
    }
}

impl Term {
    pub(crate) fn divided_by(&self, by: &Term) -> Option<Term> {
        if self.coefficient.checked_rem(by.coefficient)? != 0 {
            return None;
        }
        let mut factors = self.factors.clone();
        for factor in &by.factors {
            let at = factors.iter().position(|a| a == factor)?;
            factors.remove(at);
        }
        Some(Term { factors, coefficient: self.coefficient.checked_div(by.coefficient)? })
    }
}
