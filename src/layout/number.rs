//! [`Number`] lets each operation be written once, for both `i64` and [`Int`]. Come here when you
//! write a new operation.
//!
//! With `i64`, an operation works in arrays on the stack and takes only static layouts into the
//! integers. If it cannot go on, it returns [`Unable`] without a reason. With [`Int`], it takes
//! every layout and returns the real error. [`perform`](super::draft::perform) tries `i64` first.

use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

use super::basis::{BasisPath, Scale, ScaledBasis};
use super::error::LayoutError;
use super::int::{Int, ceil_div_i64, floor_div_i64};
use super::profile::{Codes, too_many_modes};
use super::tuple::Leaves;

/// A list that grows at its end.
pub(crate) trait List<T>: Default + DerefMut<Target = [T]> {
    fn tail(&mut self) -> Option<&mut T>;

    /// Appends an item. Returns false if there is no room.
    #[must_use]
    fn add(&mut self, item: T) -> bool;
    fn insert_at(&mut self, at: usize, item: T) -> bool;
}

impl<T, const N: usize> List<T> for SmallVec<[T; N]> {
    #[inline]
    fn tail(&mut self) -> Option<&mut T> {
        self.last_mut()
    }

    #[inline]
    fn add(&mut self, item: T) -> bool {
        self.push(item);
        true
    }

    #[inline]
    fn insert_at(&mut self, at: usize, item: T) -> bool {
        self.insert(at, item);
        true
    }
}

/// Up to `N` items on the stack.
pub(crate) struct Stack<T, const N: usize> {
    len: usize,
    items: [T; N],
}

impl<T: Copy + Default, const N: usize> Default for Stack<T, N> {
    #[inline]
    fn default() -> Self {
        Self { len: 0, items: [T::default(); N] }
    }
}

impl<T, const N: usize> Deref for Stack<T, N> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        self.items.get(..self.len).unwrap_or(&[])
    }
}

impl<T, const N: usize> DerefMut for Stack<T, N> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        self.items.get_mut(..self.len).unwrap_or(&mut [])
    }
}

impl<T: Copy + Default, const N: usize> List<T> for Stack<T, N> {
    #[inline(always)]
    fn tail(&mut self) -> Option<&mut T> {
        self.items.get_mut(self.len.wrapping_sub(1))
    }

    #[inline(always)]
    fn add(&mut self, item: T) -> bool {
        match self.items.get_mut(self.len) {
            Some(slot) => {
                *slot = item;
                self.len += 1;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn insert_at(&mut self, at: usize, item: T) -> bool {
        let fits = self.add(item);
        for i in (at..self.len.saturating_sub(1)).rev() {
            self.items.swap(i, i + 1);
        }
        fits
    }
}

/// An extent during an operation, with the matching types for strides and lists.
pub(crate) trait Number: Clone {
    type Stride: Stride<Number = Self>;
    /// Why there is no result.
    type Error;
    type Codes: List<u16>;
    /// Extents and strides.
    type Modes: List<(Self, Self::Stride)>;
    /// The same, after coalescing.
    type Flat: List<(Self, Self::Stride)>;
    /// The same as `Flat`, with one more value for each mode.
    type Placed: List<(Self, Self::Stride, Self)>;
    /// Two counts per mode.
    type Counts: List<(i64, i64)>;

    fn new(value: i64) -> Self;
    fn read(value: &Int) -> Result<Self, Self::Error>;
    fn to_int(&self) -> Int;
    /// Makes the error. Only [`Int`] calls `why`.
    fn fail(why: impl FnOnce() -> LayoutError) -> Self::Error;
    /// Adds a mode of the argument to the error's path.
    fn within(error: Self::Error, mode: usize) -> Self::Error;

    fn number(&self) -> Option<i64>;
    fn bounds(&self) -> (i64, i64);
    /// Returns true if both are provably equal.
    fn same(&self, other: &Self) -> bool;
    /// Returns true if this is provably at least `other`.
    fn at_least(&self, other: &Self) -> bool;
    fn multiple_of(&self, other: &Self) -> bool;
    /// Attaches the condition that `violation` is not above 0.
    fn on_condition(&self, violation: &Self) -> Self;

    fn add(&self, other: &Self) -> Result<Self, Self::Error>;
    fn sub(&self, other: &Self) -> Result<Self, Self::Error>;
    fn mul(&self, other: &Self) -> Result<Self, Self::Error>;
    fn floor_div(&self, other: &Self) -> Result<Self, Self::Error>;
    fn ceil_div(&self, other: &Self) -> Result<Self, Self::Error>;
    fn exact_div(&self, other: &Self) -> Result<Self, Self::Error>;
    fn modulo(&self, other: &Self) -> Result<Self, Self::Error>;
    fn min(&self, other: &Self) -> Result<Self, Self::Error>;
    fn max(&self, other: &Self) -> Result<Self, Self::Error>;

    #[inline]
    fn is(&self, value: i64) -> bool {
        self.number() == Some(value)
    }

    #[inline]
    fn is_number(&self) -> bool {
        self.number().is_some()
    }

    fn negate(&self) -> Result<Self, Self::Error> {
        Self::new(0).sub(self)
    }

    #[inline]
    fn overflow(operation: &'static str) -> Self::Error {
        Self::fail(|| LayoutError::overflow(operation))
    }

    /// Appends an item, or returns the error that there is no room.
    #[inline]
    fn put<T>(list: &mut impl List<T>, item: T) -> Result<(), Self::Error> {
        if list.add(item) { Ok(()) } else { Err(Self::fail(too_many_modes)) }
    }
}

/// A stride during an operation.
pub(crate) trait Stride: Clone {
    type Number: Number<Stride = Self>;

    fn read(value: &ScaledBasis) -> Result<Self, <Self::Number as Number>::Error>;
    fn to_basis(&self) -> ScaledBasis;
    fn from_number(value: Self::Number) -> Self;
    /// Returns the basis element's mode path.
    fn path(&self) -> BasisPath;
    /// Returns the basis element's factor.
    fn factor(&self) -> Result<&Self::Number, <Self::Number as Number>::Error>;
    /// Returns the stride as a plain integer, which it must be.
    fn plain(&self) -> Result<&Self::Number, <Self::Number as Number>::Error>;
    fn scaled(&self, by: &Self::Number) -> Result<Self, <Self::Number as Number>::Error>;
    /// Adds two strides, if the sum is a stride.
    fn plus(&self, other: &Self) -> Option<Self>;
    /// Returns true if the modes `s0:d0` and `s1:d1` merge into one: `d1 == s0 * d0`.
    ///
    /// As in CuTe, a static extent is not merged with a symbolic one after it, because kernels
    /// unroll over the static one.
    fn merges(s0: &Self::Number, d0: &Self, s1: &Self::Number, d1: &Self) -> bool;
}

/// There is no result with `i64`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unable;

macro_rules! checked {
    ($($name:ident: |$a:ident, $b:ident| $value:expr;)*) => {$(
        #[inline]
        fn $name(&self, other: &Self) -> Result<Self, Unable> {
            let ($a, $b) = (*self, *other);
            $value.ok_or(Unable)
        }
    )*};
}

/// Returns `a / b`, rounded down, and the remainder. If both are positive and fit in 32 bits, it
/// uses the 32-bit division, which is several times as fast.
#[inline]
pub(crate) fn split_i64(a: i64, b: i64) -> Option<(i64, i64)> {
    if a >= 0 && b > 0 {
        let (n, d) = (a.unsigned_abs(), b.unsigned_abs());
        let quotient = if (n | d) >> 32 == 0 { u64::from(n as u32 / d as u32) } else { n / d };
        return Some((quotient.cast_signed(), (n - quotient * d).cast_signed()));
    }
    let quotient = floor_div_i64(a, b)?;
    // The remainder fits even if this product wraps.
    Some((quotient, a.wrapping_sub(quotient.wrapping_mul(b))))
}

/// How many leaves and codes a result, and how many coalesced leaves an argument, may have without
/// an allocation. Larger layouts are left to [`Int`].
const LEAVES: usize = 12;
const CODES: usize = 24;
const FLAT: usize = 8;

impl Number for i64 {
    type Stride = i64;
    type Error = Unable;
    type Codes = Stack<u16, CODES>;
    type Modes = Stack<(i64, i64), LEAVES>;
    type Flat = Stack<(i64, i64), FLAT>;
    type Placed = Stack<(i64, i64, i64), FLAT>;
    type Counts = Stack<(i64, i64), FLAT>;

    #[inline]
    fn new(value: i64) -> Self {
        value
    }

    #[inline]
    fn read(value: &Int) -> Result<Self, Unable> {
        value.as_static().ok_or(Unable)
    }

    #[inline]
    fn to_int(&self) -> Int {
        Int::new(*self)
    }

    #[inline]
    fn fail(_: impl FnOnce() -> LayoutError) -> Unable {
        Unable
    }

    #[inline]
    fn within(error: Unable, _: usize) -> Unable {
        error
    }

    #[inline]
    fn number(&self) -> Option<i64> {
        Some(*self)
    }

    #[inline]
    fn bounds(&self) -> (i64, i64) {
        (*self, *self)
    }

    #[inline]
    fn same(&self, other: &Self) -> bool {
        self == other
    }

    #[inline]
    fn at_least(&self, other: &Self) -> bool {
        self >= other
    }

    #[inline]
    fn multiple_of(&self, other: &Self) -> bool {
        *other != 0 && self.checked_rem(*other).unwrap_or(0) == 0
    }

    #[inline]
    fn on_condition(&self, violation: &Self) -> Self {
        debug_assert!(*violation <= 0, "a number that does not hold is refused");
        *self
    }

    checked! {
        add: |a, b| a.checked_add(b);
        sub: |a, b| a.checked_sub(b);
        mul: |a, b| a.checked_mul(b);
        floor_div: |a, b| split_i64(a, b).map(|(quotient, _)| quotient);
        modulo: |a, b| split_i64(a, b).map(|(_, rest)| rest);
        ceil_div: |a, b| match split_i64(a, b) {
            Some((quotient, rest)) if a >= 0 && b > 0 => Some(quotient + i64::from(rest != 0)),
            _ => ceil_div_i64(a, b),
        };
        exact_div: |a, b| split_i64(a, b).filter(|(_, rest)| *rest == 0).map(|(quotient, _)| quotient);
        min: |a, b| Some(if a < b { a } else { b });
        max: |a, b| Some(if a > b { a } else { b });
    }
}

impl Stride for i64 {
    type Number = i64;

    #[inline]
    fn read(value: &ScaledBasis) -> Result<Self, Unable> {
        value.as_static().ok_or(Unable)
    }

    #[inline]
    fn to_basis(&self) -> ScaledBasis {
        ScaledBasis::from(*self)
    }

    #[inline]
    fn from_number(value: i64) -> Self {
        value
    }

    #[inline]
    fn path(&self) -> BasisPath {
        BasisPath::default()
    }

    #[inline]
    fn factor(&self) -> Result<&i64, Unable> {
        Ok(self)
    }

    #[inline]
    fn plain(&self) -> Result<&i64, Unable> {
        Ok(self)
    }

    #[inline]
    fn scaled(&self, by: &i64) -> Result<Self, Unable> {
        self.checked_mul(*by).ok_or(Unable)
    }

    #[inline]
    fn plus(&self, other: &Self) -> Option<Self> {
        self.checked_add(*other)
    }

    #[inline]
    fn merges(s0: &i64, d0: &i64, _: &i64, d1: &i64) -> bool {
        s0.checked_mul(*d0) == Some(*d1)
    }
}

macro_rules! inherent {
    ($($name:ident($($other:ident: &Self)?) -> $t:ty;)*) => {$(
        #[inline]
        fn $name(&self $(, $other: &Self)?) -> $t {
            Int::$name(self $(, $other)?)
        }
    )*};
}

impl Number for Int {
    type Stride = ScaledBasis;
    type Error = LayoutError;
    type Codes = Codes;
    type Modes = Leaves<(Int, ScaledBasis)>;
    type Flat = Leaves<(Int, ScaledBasis)>;
    type Placed = Leaves<(Int, ScaledBasis, Int)>;
    type Counts = Leaves<(i64, i64)>;

    #[inline]
    fn new(value: i64) -> Self {
        Int::new(value)
    }

    #[inline]
    fn read(value: &Int) -> Result<Self, LayoutError> {
        Ok(value.clone())
    }

    #[inline]
    fn to_int(&self) -> Int {
        self.clone()
    }

    #[inline]
    fn fail(why: impl FnOnce() -> LayoutError) -> LayoutError {
        why()
    }

    #[inline]
    fn within(error: LayoutError, mode: usize) -> LayoutError {
        error.at(mode)
    }

    #[inline]
    fn number(&self) -> Option<i64> {
        self.as_static()
    }

    inherent! {
        bounds() -> (i64, i64);
        same(other: &Self) -> bool;
        at_least(other: &Self) -> bool;
        multiple_of(other: &Self) -> bool;
        on_condition(violation: &Self) -> Self;
        add(other: &Self) -> Result<Self, LayoutError>;
        sub(other: &Self) -> Result<Self, LayoutError>;
        mul(other: &Self) -> Result<Self, LayoutError>;
        floor_div(other: &Self) -> Result<Self, LayoutError>;
        ceil_div(other: &Self) -> Result<Self, LayoutError>;
        exact_div(other: &Self) -> Result<Self, LayoutError>;
        modulo(other: &Self) -> Result<Self, LayoutError>;
        min(other: &Self) -> Result<Self, LayoutError>;
        max(other: &Self) -> Result<Self, LayoutError>;
    }
}

impl Stride for ScaledBasis {
    type Number = Int;

    #[inline]
    fn read(value: &ScaledBasis) -> Result<Self, LayoutError> {
        Ok(value.clone())
    }

    #[inline]
    fn to_basis(&self) -> ScaledBasis {
        self.clone()
    }

    #[inline]
    fn from_number(value: Int) -> Self {
        value.into()
    }

    #[inline]
    fn path(&self) -> BasisPath {
        self.path
    }

    #[inline]
    fn factor(&self) -> Result<&Int, LayoutError> {
        self.value().ok_or_else(|| LayoutError::NotAnIntegerStride { stride: self.to_string() })
    }

    #[inline]
    fn plain(&self) -> Result<&Int, LayoutError> {
        self.to_int()
    }

    #[inline(always)]
    fn scaled(&self, by: &Int) -> Result<Self, LayoutError> {
        if let (Some(a), Some(b)) = (self.as_static(), by.as_static())
            && let Some(product) = a.checked_mul(b)
        {
            return Ok(ScaledBasis::from(product));
        }
        ScaledBasis::scaled(self, by)
    }

    #[inline(always)]
    fn plus(&self, other: &Self) -> Option<Self> {
        if let (Some(a), Some(b)) = (self.as_static(), other.as_static()) {
            return a.checked_add(b).map(ScaledBasis::from);
        }
        if self.is_zero() {
            return Some(other.clone());
        }
        if other.is_zero() {
            return Some(self.clone());
        }
        match (self.value(), other.value()) {
            (Some(a), Some(b)) if self.path == other.path => Some(self.with_value(a.add(b).ok()?)),
            _ => None,
        }
    }

    #[inline(always)]
    fn merges(s0: &Int, d0: &Self, s1: &Int, d1: &Self) -> bool {
        if let (Some(s), Some(a), true, Some(b)) =
            (s0.as_static(), d0.as_static(), s1.is_static(), d1.as_static())
        {
            return s.checked_mul(a) == Some(b);
        }
        if d0.path != d1.path || (s0.is_static() && !s1.is_static()) {
            return false;
        }
        match (&d0.value, &d1.value) {
            (Scale::Int(v0), Scale::Int(v1)) => s0.mul(v0).is_ok_and(|end| end.same(v1)),
            (Scale::Ratio(r0), Scale::Ratio(r1)) => {
                s0.as_static().is_some_and(|s| r0.mul(s.into()).is_ok_and(|end| end == **r1))
            }
            (Scale::Ratio(r0), Scale::Int(v1)) => {
                s0.as_static().zip(v1.as_static()).is_some_and(|(s, v)| {
                    r0.mul(s.into()).is_ok_and(|end| end.as_integer() == Some(v))
                })
            }
            (Scale::Int(_), Scale::Ratio(_)) => false,
        }
    }
}
