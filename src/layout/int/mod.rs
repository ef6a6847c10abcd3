//! [`Int`] is a 64-bit integer, or an expression over named symbols. All extents, strides and
//! coordinates are made of it.
//!
//! A symbol is a size that is known only at the launch. You can give it a divisor, bounds and a
//! width. Construction simplifies: static values are folded, and everything else becomes a
//! polynomial over symbols and over the results of `/`, `%`, `ceil_div`, `min`, `max` and the bit
//! operations. All arithmetic is checked, and every simplification is right for all values that the
//! assumptions allow.
//!
//! We know at least the divisor that the CuTe DSL knows for the same expression. For example, if 16
//! divides `n`, then `16 * n` is divisible by 256, `ceil_div(n, 16)` is exactly `n/16`, and
//! `S<3,4,3>` of `n` is divisible by 16.

mod arithmetic;
mod env;
mod expr;
mod print;
mod symbolic;

use std::fmt;
use std::sync::Arc;

pub use env::Env;
use expr::Expr;
pub use expr::{Call, Factor, Fun, Symbol, Term, Width};
pub(crate) use print::is_sum;

use super::error::LayoutError;

type Result<T> = std::result::Result<T, LayoutError>;

/// A 64-bit integer: a static value, or an expression over named symbols. Use a
/// [`symbol`](Int::symbol) for an extent or a stride that only the launch knows. For the symbol you
/// can promise a divisor and bounds ([`divisible_by`](Int::divisible_by), [`assume`](Int::assume));
/// an expression derives its own divisor and bounds from those of its symbols.
///
/// An `Int` takes 16 bytes, and a static value never allocates. If you only have static values,
/// write them as Rust integers: every function that takes `Int`s converts them.
///
/// ```
/// use tilewright::layout::{Env, Int};
/// let n = Int::symbol("n").divisible_by(16);
/// let tiles = n.ceil_div(&Int::from(16))?;
/// assert_eq!(tiles.to_string(), "n/16");
/// assert_eq!(tiles.mul(&Int::from(16))?, n);
/// assert_eq!(tiles.eval(&Env::new().with("n", 64))?, 4);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Int(Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Static(i64),
    Symbolic(Arc<Expr>),
}

const _: () = assert!(size_of::<Int>() == 16);

/// Divides and rounds toward negative infinity. `None` if the divisor is zero or the quotient
/// overflows.
pub(crate) fn floor_div_i64(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

/// Divides and rounds toward positive infinity. `None` if the divisor is zero or the quotient
/// overflows.
pub(crate) fn ceil_div_i64(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) == (b < 0) { q + 1 } else { q })
}

/// Returns the greatest common divisor of the absolute values, or `None` if it is 2^63.
fn checked_gcd(a: i64, b: i64) -> Option<i64> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).ok()
}

/// The largest power of two that fits in `i64`. It divides `i64::MIN`.
const TOP_POWER: i64 = 1 << 62;

/// Returns the greatest common divisor, or 2^62 if it is 2^63.
pub(crate) fn gcd_i64(a: i64, b: i64) -> i64 {
    checked_gcd(a, b).unwrap_or(TOP_POWER)
}

impl Int {
    /// The static value 0, for example as the start of a sum.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::ZERO, Int::new(0));
    /// ```
    pub const ZERO: Int = Int(Repr::Static(0));
    /// The static value 1, for example as the start of a product.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::ONE, Int::new(1));
    /// ```
    pub const ONE: Int = Int(Repr::Static(1));

    /// Makes the static value `value`. It is a `const fn`; elsewhere, `4.into()` does the same.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(4), 4);
    /// ```
    #[inline]
    pub const fn new(value: i64) -> Self {
        Int(Repr::Static(value))
    }

    /// Makes the symbol called `name`, for an extent or a stride that only the launch knows. It is
    /// at least 1 unless [`assume`](Int::assume) sets other bounds. Two symbols with the same name
    /// and the same assumptions are equal.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::symbol("n"), Int::symbol("n"));
    /// ```
    pub fn symbol(name: &str) -> Self {
        Self::from_symbol(Symbol::named(name))
    }

    /// Makes a symbol that differs from all others, even from those with the same name. Use it in a
    /// function that introduces symbols of its own, so that they cannot clash with the caller's.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_ne!(Int::fresh("n"), Int::fresh("n"));
    /// ```
    pub fn fresh(name: &str) -> Self {
        Self::from_symbol(Symbol::fresh(name))
    }

    pub(crate) fn from_symbol(symbol: Symbol) -> Self {
        Int(Repr::Symbolic(Arc::new(Expr::symbol(symbol))))
    }

    pub(crate) fn from_expr(expr: Expr) -> Self {
        match expr.as_constant() {
            Some(value) => Int::new(value),
            None => Int(Repr::Symbolic(Arc::new(expr))),
        }
    }

    /// Makes a value that does not fit in 64 bits. Every operation on it returns
    /// [`LayoutError::Overflow`], and so does its evaluation.
    pub(crate) fn overflowed() -> Self {
        Int(Repr::Symbolic(Arc::new(Expr::overflowed())))
    }

    /// Returns the value if it has no symbols, and `None` otherwise. To get an error instead, use
    /// [`to_static`](Int::to_static).
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!((Int::new(4).as_static(), Int::symbol("n").as_static()), (Some(4), None));
    /// ```
    #[inline]
    pub fn as_static(&self) -> Option<i64> {
        match self.0 {
            Repr::Static(value) => Some(value),
            Repr::Symbolic(_) => None,
        }
    }

    /// Returns true if the value has no symbols, so that [`as_static`](Int::as_static) returns it.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert!(Int::new(4).is_static() && !Int::symbol("n").is_static());
    /// ```
    #[inline]
    pub fn is_static(&self) -> bool {
        matches!(self.0, Repr::Static(_))
    }

    /// Returns the value, which must have no symbols. Use it where only a plain integer will do; to
    /// replace symbols by values, use [`eval`](Int::eval).
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(4).to_static()?, 4);
    /// assert!(Int::symbol("n").to_static().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotStatic`] if the value has symbols.
    #[inline]
    pub fn to_static(&self) -> Result<i64> {
        match &self.0 {
            Repr::Static(value) => Ok(*value),
            Repr::Symbolic(_) => Err(LayoutError::NotStatic { value: self.to_string() }),
        }
    }

    /// Returns true if this is the static value `value`, and false for any other value and for
    /// every symbolic one. Use it to test for 0 or 1.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert!(Int::new(4).is(4) && !Int::symbol("n").is(4));
    /// ```
    #[inline]
    pub fn is(&self, value: i64) -> bool {
        matches!(self.0, Repr::Static(v) if v == value)
    }

    /// Returns the terms of the expression as a sum of products; none for a static value. Use it to
    /// generate code for the expression.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// let sum = Int::symbol("n").mul(&3.into())?.add(&1.into())?;
    /// assert_eq!(sum.terms().iter().map(|term| term.coefficient).sum::<i64>(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn terms(&self) -> &[Term] {
        match &self.0 {
            Repr::Static(_) => &[],
            Repr::Symbolic(e) => &e.terms,
        }
    }

    /// Returns the constant term; for a static value, the value itself.
    pub(crate) fn constant_part(&self) -> i64 {
        match &self.0 {
            Repr::Static(value) => *value,
            Repr::Symbolic(e) => {
                let number = e.terms.iter().find(|term| term.factors.is_empty());
                number.map_or(0, |term| term.coefficient)
            }
        }
    }

    /// Returns the symbol if the expression is a single symbol, and `None` otherwise. Use it to
    /// read the symbol's name.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert!(Int::symbol("n").as_symbol().is_some() && Int::new(4).as_symbol().is_none());
    /// ```
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match &self.0 {
            Repr::Static(_) => None,
            Repr::Symbolic(e) => e.as_symbol(),
        }
    }

    /// Returns an integer that divides the value whatever the symbols are; at least 1 for a symbol.
    /// For a static value it is the absolute value (2^62 for `i64::MIN`). Use it to decide how wide
    /// a vector access may be.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// let n = Int::symbol("n").divisible_by(16);
    /// assert_eq!(n.mul(&Int::from(6))?.divisibility(), 96);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn divisibility(&self) -> i64 {
        match &self.0 {
            Repr::Static(value) => value.checked_abs().unwrap_or(TOP_POWER),
            Repr::Symbolic(e) => e.facts.divisor,
        }
    }

    /// Returns the smallest and the largest possible value. For a static value, both are the value
    /// itself.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// let n = Int::symbol("n").assume(1, 2, 9)?;
    /// assert_eq!(n.mul(&10.into())?.bounds(), (20, 90));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn bounds(&self) -> (i64, i64) {
        match &self.0 {
            Repr::Static(value) => (*value, *value),
            Repr::Symbolic(e) => (e.facts.min, e.facts.max),
        }
    }

    /// Returns how many bits the value has in a kernel. A static value has as many as it needs, and
    /// a symbol has 32 unless [`with_width`](Int::with_width) says otherwise.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Width};
    /// assert_eq!((Int::new(4).width(), Int::new(1 << 40).width()), (Width::W32, Width::W64));
    /// ```
    pub fn width(&self) -> Width {
        match &self.0 {
            Repr::Static(value) => {
                if i32::try_from(*value).is_ok() {
                    Width::W32
                } else {
                    Width::W64
                }
            }
            Repr::Symbolic(e) => e.width,
        }
    }

    /// Returns the same symbol with this width. A compound expression or a static value stays as it
    /// is. Use it for a size or a stride that may not fit in an `i32`.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Width};
    /// assert_eq!(Int::symbol("n").with_width(Width::W64).width(), Width::W64);
    /// ```
    #[must_use]
    pub fn with_width(&self, width: Width) -> Self {
        match self.as_symbol() {
            Some(s) => Self::from_symbol(s.clone().with_width(width)),
            None => self.clone(),
        }
    }

    /// Adds the fact that the value is a multiple of `divisor`, so that divisions by it are exact
    /// and vector accesses are possible. [`eval`](Int::eval) returns an error for a value that
    /// contradicts it. Does nothing for a static value, or if `divisor` is below 2.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::symbol("n").divisible_by(4).divisible_by(6).divisibility(), 12);
    /// ```
    #[must_use]
    #[inline]
    pub fn divisible_by(&self, divisor: i64) -> Self {
        let (min, max) = self.bounds();
        match &self.0 {
            Repr::Symbolic(e) if divisor > 1 => e.assume(divisor, min, max),
            _ => self.clone(),
        }
    }

    /// Adds the facts that the value is a multiple of `divisor` and lies within `min..=max`.
    /// [`eval`](Int::eval) returns an error for a value that contradicts them. The divisor is
    /// combined with the known one. A symbol's known bounds are replaced; the bounds of a compound
    /// expression are intersected.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::symbol("n").assume(4, 0, 64)?.bounds(), (0, 64));
    /// assert!(Int::new(3).assume(4, 0, 64).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::AssumptionViolated`] if a static value contradicts the facts.
    #[inline]
    pub fn assume(&self, divisor: i64, min: i64, max: i64) -> Result<Self> {
        match &self.0 {
            Repr::Static(v) => {
                let fits = divisor <= 1 || v % divisor == 0;
                if fits && (min..=max).contains(v) {
                    return Ok(self.clone());
                }
                Err(LayoutError::AssumptionViolated {
                    name: v.to_string(),
                    value: *v,
                    divisor,
                    min,
                    max,
                })
            }
            Repr::Symbolic(e) => Ok(e.assume(divisor, min, max)),
        }
    }

    /// Replaces the symbols by their values in `env` and returns the result. Use it when the sizes
    /// are known, for example at the launch.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int};
    /// let n = Int::symbol("n").divisible_by(16);
    /// assert_eq!(n.eval(&Env::new().with("n", 64))?, 64);
    /// assert!(n.eval(&Env::new().with("n", 65)).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::UnboundSymbol`] if `env` has no value for a symbol,
    /// [`LayoutError::AssumptionViolated`] if the value contradicts the symbol's facts,
    /// [`LayoutError::Overflow`], or [`LayoutError::DivisionByZero`].
    pub fn eval(&self, env: &Env) -> Result<i64> {
        match &self.0 {
            Repr::Static(value) => Ok(*value),
            Repr::Symbolic(e) => e.eval(env),
        }
    }

    /// Returns true if both are provably equal whatever the symbols are.
    #[inline]
    pub(crate) fn same(&self, other: &Int) -> bool {
        match (&self.0, &other.0) {
            (Repr::Static(a), Repr::Static(b)) => a == b,
            (Repr::Symbolic(a), Repr::Symbolic(b)) => Arc::ptr_eq(a, b) || a.terms == b.terms,
            _ => false,
        }
    }

    /// Returns true if the value is provably at least `other` whatever the symbols are.
    pub(crate) fn at_least(&self, other: &Int) -> bool {
        match (&self.0, &other.0) {
            (Repr::Static(a), Repr::Static(b)) => a >= b,
            _ => {
                self.bounds().0 >= other.bounds().1
                    || self.sub(other).is_ok_and(|d| symbolic::never_negative(&d))
            }
        }
    }

    /// Returns how many nodes the expression has; see [`Expr::nodes`].
    pub(crate) fn nodes(&self) -> u32 {
        match &self.0 {
            Repr::Static(_) => 1,
            Repr::Symbolic(e) => e.nodes,
        }
    }

    /// Attaches the condition that `violation` is not above 0, which evaluation checks.
    pub(crate) fn on_condition(&self, violation: &Int) -> Int {
        if violation.bounds().1 <= 0 { self.clone() } else { symbolic::checked(self, violation) }
    }

    /// Returns true if `self` is provably a multiple of `other` whatever the symbols are.
    pub(crate) fn multiple_of(&self, other: &Int) -> bool {
        match (&self.0, &other.0) {
            (Repr::Static(a), Repr::Static(b)) => *b != 0 && a.checked_rem(*b).unwrap_or(0) == 0,
            _ => symbolic::exact_div(self, other).is_some(),
        }
    }
}

/// Prints names with their facts, `n{div=16}`, in both `{:?}` and `{:#?}`, so that you can `parse`
/// what a failed assertion prints.
impl fmt::Debug for Int {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}

impl From<&Int> for Int {
    fn from(value: &Int) -> Self {
        value.clone()
    }
}

macro_rules! from_small {
    ($($t:ty),*) => {$(
        impl From<$t> for Int {
            fn from(value: $t) -> Self {
                Int::new(i64::from(value))
            }
        }
    )*};
}
from_small!(i64, i32, i16, i8, u32, u16, u8);

macro_rules! from_large {
    ($($t:ty),*) => {$(
        /// A value above `i64::MAX` does not fit in an `Int`. Every use of it returns
        /// [`LayoutError::Overflow`].
        impl From<$t> for Int {
            fn from(value: $t) -> Self {
                i64::try_from(value).map_or_else(|_| Int::overflowed(), Int::new)
            }
        }
    )*};
}
from_large!(u64, usize, isize);

impl PartialEq<i64> for Int {
    fn eq(&self, other: &i64) -> bool {
        self.is(*other)
    }
}
