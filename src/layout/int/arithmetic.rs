//! [`Int`] arithmetic: static operands are computed here, symbolic ones by `symbolic.rs`. Come here
//! to add an operation on extents and strides.

use super::{Int, Repr, Result, ceil_div_i64, checked_gcd, symbolic};
use crate::layout::number::split_i64;
use crate::layout::error::LayoutError;

macro_rules! binary {
    ($(#[$doc:meta])* $name:ident, $word:literal, |$a:ident, $b:ident| $fold:expr, $symbolic:path) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(&self, other: &Int) -> Result<Int> {
            match (&self.0, &other.0) {
                (&Repr::Static($a), &Repr::Static($b)) => match $fold {
                    Some(value) => Ok(Int::new(value)),
                    None => Err(symbolic::static_error($word, $b)),
                },
                _ => $symbolic(self, other),
            }
        }
    };
}

/// Arithmetic. Every operation returns [`LayoutError::Overflow`] if the result does not fit in 64
/// bits, and [`LayoutError::DivisionByZero`] if the divisor is zero. With symbols, it returns
/// [`LayoutError::ExpressionTooLarge`] if the expression would have more than 2048 terms, symbols
/// and operations, or a product more than 256 terms.
impl Int {
    binary!(
        /// Returns `self + other`.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// assert_eq!(Int::symbol("n").add(&4.into())?.to_string(), "n+4");
        /// assert!(Int::new(i64::MAX).add(&Int::ONE).is_err());
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if the sum does not fit in 64 bits.
        add, "addition", |a, b| a.checked_add(b), symbolic::add
    );
    binary!(
        /// Returns `self - other`.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// let n = Int::symbol("n");
        /// assert_eq!((n.sub(&n)?, Int::new(4).sub(&9.into())?), (Int::ZERO, Int::new(-5)));
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if the difference does not fit in 64 bits.
        sub, "subtraction", |a, b| a.checked_sub(b), symbolic::sub
    );
    binary!(
        /// Returns `self * other`.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// let n = Int::symbol("n").divisible_by(8);
        /// assert_eq!(n.mul(&6.into())?.divisibility(), 48);
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if the product does not fit in 64 bits.
        mul, "multiplication", |a, b| a.checked_mul(b), symbolic::mul
    );
    binary!(
        /// Returns `self / other`, rounded toward negative infinity.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// let n = Int::symbol("n").divisible_by(16);
        /// assert_eq!(n.floor_div(&8.into())?.to_string(), "2*(n/16)");
        /// assert_eq!(Int::new(-7).floor_div(&2.into())?, -4);
        /// assert!(n.floor_div(&Int::ZERO).is_err());
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::DivisionByZero`], or [`LayoutError::Overflow`] for `i64::MIN /
        /// -1`.
        floor_div, "division", |a, b| split_i64(a, b).map(|(q, _)| q), symbolic::floor_div
    );
    binary!(
        /// Returns the remainder of [`floor_div`](Int::floor_div), which has the sign of `other`.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// let n = Int::symbol("n").divisible_by(16);
        /// assert_eq!((n.modulo(&8.into())?, Int::new(-7).modulo(&4.into())?), (Int::ZERO, Int::ONE));
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::DivisionByZero`] if `other` is zero.
        modulo, "remainder",
        |a, b| if b == 0 { None } else { split_i64(a, b).map(|(_, r)| r).or(Some(0)) },
        symbolic::modulo
    );
    binary!(
        /// Returns `self / other`, rounded toward positive infinity: for example, how many tiles of
        /// `other` elements cover `self` elements.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// assert_eq!(Int::new(13).ceil_div(&4.into())?, 4);
        /// assert_eq!(Int::symbol("n").ceil_div(&4.into())?.to_string(), "ceil_div(n,4)");
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::DivisionByZero`], or [`LayoutError::Overflow`] for `i64::MIN /
        /// -1`.
        ceil_div, "ceil_div", |a, b| ceil_div_i64(a, b), symbolic::ceil_div
    );
    binary!(
        /// Returns the smaller of the two.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// let n = Int::symbol("n").assume(1, 1, 64)?;
        /// assert_eq!((n.min(&64.into())?, n.min(&8.into())?.to_string()), (n, "min(8,n)".into()));
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if an operand does not fit in 64 bits.
        min, "min", |a, b| Some(a.min(b)), symbolic::min
    );
    binary!(
        /// Returns the larger of the two.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// let n = Int::symbol("n").assume(1, 1, 64)?;
        /// assert_eq!((n.max(&64.into())?, n.max(&Int::ONE)?), (64.into(), n));
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if an operand does not fit in 64 bits.
        max, "max", |a, b| Some(a.max(b)), symbolic::max
    );
    binary!(
        /// Returns the greatest common divisor, which is never negative. `gcd(0, b)` is `|b|`.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// assert_eq!(Int::new(-12).gcd(&18.into())?, 6);
        /// assert_eq!(Int::symbol("n").divisible_by(16).gcd(&8.into())?, 8);
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if an operand does not fit in 64 bits, or if the
        /// result is 2^63.
        gcd, "gcd", |a, b| checked_gcd(a, b), symbolic::gcd
    );
    binary!(
        /// Returns the bitwise exclusive or. Swizzled indices are built from it.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// assert_eq!(Int::new(0b1100).xor(&0b1010.into())?, 0b0110);
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if an operand does not fit in 64 bits.
        xor, "xor", |a, b| Some(a ^ b), symbolic::xor
    );
    binary!(
        /// Returns the bitwise and. Swizzled indices are built from it.
        ///
        /// ```
        /// # use tilewright::layout::Int;
        /// assert_eq!(Int::new(0b1100).and(&0b1010.into())?, 0b1000);
        /// # Ok::<(), tilewright::layout::LayoutError>(())
        /// ```
        ///
        /// # Errors
        /// Returns [`LayoutError::Overflow`] if an operand does not fit in 64 bits.
        and, "and", |a, b| Some(a & b), symbolic::and
    );

    /// Returns `ceil_div(self, other)`, but refuses static values if neither divides the other:
    /// CuTe's `shape_div`. Use it instead of [`ceil_div`](Int::ceil_div) if a tile that does not
    /// fit would be a mistake.
    ///
    /// ```
    /// # use tilewright::layout::{Int, LayoutError};
    /// assert_eq!(Int::from(12).shape_div(&Int::from(4))?, Int::from(3));
    /// assert_eq!(Int::from(4).shape_div(&Int::from(12))?, Int::from(1));
    /// assert!(Int::from(6).shape_div(&Int::from(4)).is_err());
    /// # Ok::<(), LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotDivisible`] if both are static and neither divides the other, or
    /// [`LayoutError::DivisionByZero`].
    pub fn shape_div(&self, other: &Int) -> Result<Int> {
        if let (Some(a), Some(b)) = (self.as_static(), other.as_static()) {
            let divides = |x: i64, y: i64| y != 0 && x.checked_rem(y).unwrap_or(0) == 0;
            if b != 0 && !divides(a, b) && !divides(b, a) {
                return Err(LayoutError::NotDivisible { value: self.clone(), by: other.clone() });
            }
        }
        self.ceil_div(other)
    }

    /// Returns the smallest multiple of `other` that is at least `self`. For example, it pads 13
    /// rows to 16 for tiles of 4.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(13).round_up(&4.into())?, 16);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::DivisionByZero`] if `other` is zero, or [`LayoutError::Overflow`].
    pub fn round_up(&self, other: &Int) -> Result<Int> {
        self.ceil_div(other)?.mul(other)
    }

    /// Returns `-self`.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(4).negate()?, -4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] for `i64::MIN`.
    pub fn negate(&self) -> Result<Int> {
        Int::ZERO.sub(self)
    }

    /// Returns the absolute value.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(-4).abs()?, 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] for `i64::MIN`.
    pub fn abs(&self) -> Result<Int> {
        let (min, max) = self.bounds();
        if min >= 0 {
            Ok(self.clone())
        } else if max <= 0 {
            self.negate()
        } else {
            self.max(&self.negate()?)
        }
    }

    /// Returns `self / other`, where `other` must divide `self`. Use it instead of
    /// [`floor_div`](Int::floor_div) if a remainder would be a mistake.
    ///
    /// ```
    /// # use tilewright::layout::Int;
    /// assert_eq!(Int::new(12).exact_div(&4.into())?, 3);
    /// assert!(Int::new(13).exact_div(&4.into()).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotDivisible`] if both are static and `other` does not divide `self`,
    /// [`LayoutError::Undecided`] if symbols leave that open, or [`LayoutError::DivisionByZero`].
    pub fn exact_div(&self, other: &Int) -> Result<Int> {
        match (self.as_static(), other.as_static()) {
            (Some(_), Some(0)) => Err(LayoutError::DivisionByZero { operation: "division" }),
            (Some(a), Some(b)) if a.checked_rem(b).unwrap_or(0) == 0 => self.floor_div(other),
            (Some(_), Some(_)) => {
                Err(LayoutError::NotDivisible { value: self.clone(), by: other.clone() })
            }
            _ => symbolic::exact_div(self, other).ok_or_else(|| LayoutError::Undecided {
                operation: "exact division",
                condition: format!("that {other} divides {self}"),
            }),
        }
    }
}
