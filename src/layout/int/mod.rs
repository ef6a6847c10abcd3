//! [`Int`] is a 64-bit integer: a number, or an expression over named symbols.
//!
//! A symbol carries known facts: a divisor, bounds and a width. Construction simplifies: static
//! values fold, and an expression is a polynomial over symbols and over the results of `/`, `%`,
//! `ceil_div`, `min`, `max` and the bit operations. All arithmetic is checked, and each
//! simplification holds for every value that the assumptions allow.
//!
//! The divisor is never weaker than CuTe DSL's for the same expression: `16 * n` is divisible by 16
//! times the divisor of `n`, `ceil_div(n, 16)` with 16 | n is the exact `n/16`, and `S<3,4,3>` of
//! such an `n` is divisible by 16.

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

/// A 64-bit integer: a number, or an expression over named symbols with known divisor and bounds.
///
/// 16 bytes. A static value never allocates.
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

/// Rounds toward negative infinity. `None` for a zero divisor or when the quotient overflows.
pub(crate) fn floor_div_i64(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

/// Rounds toward positive infinity. `None` for a zero divisor or when the quotient overflows.
pub(crate) fn ceil_div_i64(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) == (b < 0) { q + 1 } else { q })
}

/// The greatest common divisor of the absolute values; `None` for 2^63.
fn checked_gcd(a: i64, b: i64) -> Option<i64> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).ok()
}

/// The largest power of two in `i64`, which divides `i64::MIN`.
const TOP_POWER: i64 = 1 << 62;

/// The greatest common divisor, or 2^62 instead of 2^63.
pub(crate) fn gcd_i64(a: i64, b: i64) -> i64 {
    checked_gcd(a, b).unwrap_or(TOP_POWER)
}

impl Int {
    /// Zero.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::ZERO, Int::new(0));
    /// ```
    pub const ZERO: Int = Int(Repr::Static(0));
    /// One.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::ONE, Int::new(1));
    /// ```
    pub const ONE: Int = Int(Repr::Static(1));

    /// The number `value`.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(4), 4);
    /// ```
    #[inline]
    pub const fn new(value: i64) -> Self {
        Int(Repr::Static(value))
    }

    /// The symbol called `name`, an extent or a stride. It is at least 1 unless
    /// [`assume`](Int::assume) gives other bounds. Two symbols with one name and the same
    /// assumptions are equal.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::symbol("n"), Int::symbol("n"));
    /// ```
    pub fn symbol(name: &str) -> Self {
        Self::from_symbol(Symbol::named(name))
    }

    /// A symbol that equals no other one, even with the same name.
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

    /// A number outside of 64 bits: every operation on it, and its evaluation, is
    /// [`LayoutError::Overflow`].
    pub(crate) fn overflowed() -> Self {
        Int(Repr::Symbolic(Arc::new(Expr::overflowed())))
    }

    /// The number, if it has no symbols.
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

    /// True for a number.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert!(Int::new(4).is_static() && !Int::symbol("n").is_static());
    /// ```
    #[inline]
    pub fn is_static(&self) -> bool {
        matches!(self.0, Repr::Static(_))
    }

    /// The number.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(4).to_static()?, 4);
    /// assert!(Int::symbol("n").to_static().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotStatic`] for an expression with symbols.
    #[inline]
    pub fn to_static(&self) -> Result<i64> {
        match &self.0 {
            Repr::Static(value) => Ok(*value),
            Repr::Symbolic(_) => Err(LayoutError::NotStatic { value: self.to_string() }),
        }
    }

    /// True if it is the number `value`.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert!(Int::new(4).is(4) && !Int::symbol("n").is(4));
    /// ```
    #[inline]
    pub fn is(&self, value: i64) -> bool {
        matches!(self.0, Repr::Static(v) if v == value)
    }

    /// The terms of an expression as a sum of products, empty for a number. A back end emits the
    /// arithmetic from them.
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

    /// The number among the terms: the value itself if it is static.
    pub(crate) fn constant_part(&self) -> i64 {
        match &self.0 {
            Repr::Static(value) => *value,
            Repr::Symbolic(e) => {
                let number = e.terms.iter().find(|term| term.factors.is_empty());
                number.map_or(0, |term| term.coefficient)
            }
        }
    }

    /// The symbol, if the expression is one symbol.
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

    /// A number that divides the value for all values of the symbols, at least 1 for a symbol. For
    /// a static value it is the absolute value (2^62 for `i64::MIN`).
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

    /// The smallest and the largest possible value.
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

    /// The width as a property for printing and for kernels; a number has the width that it needs.
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

    /// The same symbol with this width; a compound expression or a number stays as it is.
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

    /// The same value with the additional fact that it is a multiple of `divisor`. A number is
    /// returned unchanged; so is a value for a `divisor` below 2.
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

    /// The same value with the fact that it is a multiple of `divisor` from `min` to `max`. The
    /// divisor adds to the known one; the bounds replace the known ones.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::symbol("n").assume(4, 0, 64)?.bounds(), (0, 64));
    /// assert!(Int::new(3).assume(4, 0, 64).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::AssumptionViolated`] for a number that contradicts it.
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

    /// The value for the numbers that `env` gives the symbols.
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
    /// [`LayoutError::UnboundSymbol`], [`LayoutError::AssumptionViolated`],
    /// [`LayoutError::Overflow`], [`LayoutError::DivisionByZero`].
    pub fn eval(&self, env: &Env) -> Result<i64> {
        match &self.0 {
            Repr::Static(value) => Ok(*value),
            Repr::Symbolic(e) => e.eval(env),
        }
    }

    /// True if the two are provably equal for all values of their symbols.
    #[inline]
    pub(crate) fn same(&self, other: &Int) -> bool {
        match (&self.0, &other.0) {
            (Repr::Static(a), Repr::Static(b)) => a == b,
            (Repr::Symbolic(a), Repr::Symbolic(b)) => Arc::ptr_eq(a, b) || a.terms == b.terms,
            _ => false,
        }
    }

    /// True if it is provably at least `other` for all values of the symbols.
    pub(crate) fn at_least(&self, other: &Int) -> bool {
        match (&self.0, &other.0) {
            (Repr::Static(a), Repr::Static(b)) => a >= b,
            _ => {
                self.bounds().0 >= other.bounds().1
                    || self.sub(other).is_ok_and(|d| symbolic::never_negative(&d))
            }
        }
    }

    /// The nodes of the expression; see [`Expr::nodes`].
    pub(crate) fn nodes(&self) -> u32 {
        match &self.0 {
            Repr::Static(_) => 1,
            Repr::Symbolic(e) => e.nodes,
        }
    }

    /// The value on the condition that `violation` is not above 0, which evaluation checks.
    pub(crate) fn on_condition(&self, violation: &Int) -> Int {
        if violation.bounds().1 <= 0 { self.clone() } else { symbolic::checked(self, violation) }
    }

    /// True if `self` is provably a multiple of `other` for all values of the symbols.
    pub(crate) fn multiple_of(&self, other: &Int) -> bool {
        match (&self.0, &other.0) {
            (Repr::Static(a), Repr::Static(b)) => *b != 0 && a.checked_rem(*b).unwrap_or(0) == 0,
            _ => symbolic::exact_div(self, other).is_some(),
        }
    }
}

/// Names with their facts, `n{div=16}`, in `{:?}` and in `{:#?}`: what a failed assertion prints reads back with `parse`.
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
        /// A value above `i64::MAX` becomes a number outside of 64 bits; every use of it is
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
