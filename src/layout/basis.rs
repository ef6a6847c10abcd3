//! [`ScaledBasis`] is a stride: an integer, or a scaled basis element of a coordinate space. A
//! layout with such strides maps to coordinates instead of memory indices, as TMA needs.

use std::fmt;
use std::ops::Mul;

use super::error::LayoutError;
use super::int::{Env, Int, is_sum};
use super::into_tuple::{Builder, IntoTuple};
use super::ratio::Ratio;
use super::tuple::{IntTuple, IntTupleRef, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// The longest mode path that a basis element can have.
const MAX_PATH: usize = 7;

/// A basis element's mode path, outermost first. Empty for a plain integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BasisPath {
    modes: [u8; MAX_PATH],
    len: u8,
}

impl BasisPath {
    pub(crate) fn new(path: &[usize]) -> Result<Self> {
        let mut out = Self::default();
        for &mode in path {
            out.push(mode)?;
        }
        Ok(out)
    }

    pub(crate) fn push(&mut self, mode: usize) -> Result<()> {
        let slot = self.modes.get_mut(usize::from(self.len));
        match (slot, u8::try_from(mode)) {
            (Some(slot), Ok(mode)) => *slot = mode,
            (None, _) => return Err(LayoutError::TooDeep { limit: MAX_PATH }),
            (_, Err(_)) => {
                return Err(LayoutError::TooLarge {
                    what: "the index of a mode of a basis",
                    limit: 255,
                });
            }
        }
        self.len += 1;
        Ok(())
    }

    pub(crate) fn modes(&self) -> &[u8] {
        self.modes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// The scale of a stride.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scale {
    Int(Int),
    Ratio(Box<Ratio>),
}

/// A stride: the basis element at a mode path, times a scale. With the empty path it is a plain
/// integer. You need basis elements if a layout should map to coordinates, for example for
/// predication or TMA: `(4,8):(1@0,1@1)` is the identity on `(4,8)`.
///
/// The path prints innermost first, as in CuTe: `1@1@0` is `E<0,1>`.
///
/// ```
/// use tilewright::layout::{Layout, ScaledBasis, layout, shape};
/// let e = ScaledBasis::e(&[0, 1])?;
/// assert_eq!(e.scaled(&3.into())?.to_string(), "3@1@0");
/// let l = Layout::new((4, 8), (ScaledBasis::new(2, &[0])?, ScaledBasis::e(&[1])?))?;
/// assert_eq!(l.to_string(), "(4,8):(2@0,1@1)");
/// assert_eq!(l.apply((2, 3))?, shape!(4, 3));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ScaledBasis {
    pub(crate) value: Scale,
    pub(crate) path: BasisPath,
}

const _: () = assert!(size_of::<ScaledBasis>() == 24);

impl ScaledBasis {
    /// Makes `value * E(path)`, the stride of a mode that moves `value` steps along the coordinate
    /// entry at `path`. For example, `ScaledBasis::new(2, &[0, 1])` is `2@1@0`.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::new(2, &[0, 1])?.to_string(), "2@1@0");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] if the path has more than 7 modes, or
    /// [`LayoutError::TooLarge`] if a mode is above 255.
    pub fn new(value: impl Into<Int>, path: &[usize]) -> Result<Self> {
        Ok(Self { value: Scale::Int(value.into()), path: BasisPath::new(path)? })
    }

    /// Makes `ratio * E(path)`. An integral ratio becomes an integer. Such a stride appears if you
    /// recast to an element width that does not divide evenly.
    ///
    /// ```
    /// # use tilewright::layout::{Ratio, ScaledBasis};
    /// assert_eq!(ScaledBasis::with_ratio(Ratio::new(3, 4)?, &[1])?.to_string(), "3/4@1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`ScaledBasis::new`].
    pub fn with_ratio(ratio: Ratio, path: &[usize]) -> Result<Self> {
        Ok(Self { value: Scale::from_ratio(ratio), path: BasisPath::new(path)? })
    }

    /// Makes the basis element `E(path)`: the coordinate with 1 at the mode `path` and 0 elsewhere.
    /// [`Layout::identity`](super::Layout::identity) has such strides.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::e(&[1])?.to_string(), "1@1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`ScaledBasis::new`].
    pub fn e(path: &[usize]) -> Result<Self> {
        Self::new(1, path)
    }

    /// Returns the plain integer, or `None` for a basis element or a fraction. Use it to tell a
    /// memory stride from a coordinate stride.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::from(4).as_int(), Some(&4.into()));
    /// assert_eq!(ScaledBasis::e(&[0])?.as_int(), None);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn as_int(&self) -> Option<&Int> {
        match &self.value {
            Scale::Int(value) if self.path.len == 0 => Some(value),
            _ => None,
        }
    }

    /// Returns the plain integer, or an error for a basis element or a fraction. Use it in code
    /// that handles memory strides only.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::from(4).to_int()?, &4);
    /// assert!(ScaledBasis::e(&[0])?.to_int().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnIntegerStride`] for a basis element or a fraction.
    #[inline]
    pub fn to_int(&self) -> Result<&Int> {
        match self.as_int() {
            Some(value) => Ok(value),
            None => Err(LayoutError::NotAnIntegerStride { stride: self.to_string() }),
        }
    }

    /// Returns the value if this is a plain integer without symbols, and `None` otherwise. Use it
    /// to treat common memory strides, such as 0 and 1, on their own.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::from(4).as_static(), Some(4));
    /// ```
    #[inline]
    pub fn as_static(&self) -> Option<i64> {
        match &self.value {
            Scale::Int(value) if self.path.len == 0 => value.as_static(),
            _ => None,
        }
    }

    /// Returns the scale if it is an integer: 3 for `3@1`. It is `None` for a fraction; use
    /// [`ratio`](ScaledBasis::ratio) there.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::new(3, &[0])?.value(), Some(&3.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn value(&self) -> Option<&Int> {
        match &self.value {
            Scale::Int(value) => Some(value),
            Scale::Ratio(_) => None,
        }
    }

    /// Returns the scale as a fraction, or `None` if it has symbols. Use it if the scale may be
    /// `3/4`.
    ///
    /// ```
    /// # use tilewright::layout::{Ratio, ScaledBasis};
    /// assert_eq!(ScaledBasis::new(3, &[0])?.ratio(), Some(Ratio::from(3)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn ratio(&self) -> Option<Ratio> {
        match &self.value {
            Scale::Int(value) => value.as_static().map(Ratio::from),
            Scale::Ratio(ratio) => Some(**ratio),
        }
    }

    /// Returns the mode path, outermost first, which says along which entry of the coordinate this
    /// stride moves. It is empty for a plain integer.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert!(ScaledBasis::new(2, &[0, 1])?.mode().eq([0, 1]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn mode(&self) -> impl Iterator<Item = usize> + '_ {
        self.path.modes().iter().map(|&m| usize::from(m))
    }

    /// Returns true for a basis element and false for a plain integer. A layout with basis strides
    /// maps to coordinates, not to memory.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert!(ScaledBasis::e(&[0])?.is_basis() && !ScaledBasis::from(4).is_basis());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn is_basis(&self) -> bool {
        self.path.len > 0
    }

    /// Returns true if the scale has no symbol. Only such a stride can be used with plain integers.
    ///
    /// ```
    /// # use tilewright::layout::{Int, ScaledBasis};
    /// assert!(!ScaledBasis::from(Int::symbol("n")).is_static());
    /// ```
    pub fn is_static(&self) -> bool {
        match &self.value {
            Scale::Int(value) => value.is_static(),
            Scale::Ratio(_) => true,
        }
    }

    /// Returns true for 0 and for a basis element scaled by 0. A mode with such a stride repeats
    /// the same element.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert!(ScaledBasis::new(0, &[1])?.is_zero());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_zero(&self) -> bool {
        matches!(&self.value, Scale::Int(value) if value.is(0))
    }

    /// Returns `factor * self`: the stride of every `factor`-th element of a mode.
    ///
    /// ```
    /// # use tilewright::layout::ScaledBasis;
    /// assert_eq!(ScaledBasis::new(2, &[1])?.scaled(&3.into())?.to_string(), "6@1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`], or [`LayoutError::Undecided`] if a fraction is multiplied
    /// by a symbol that its denominator does not provably divide.
    #[inline]
    pub fn scaled(&self, factor: &Int) -> Result<Self> {
        Ok(Self { value: self.value.scaled(factor)?, path: self.path })
    }

    /// Replaces the symbols by their values in `env`. Use it when the sizes are known.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, ScaledBasis};
    /// let stride = ScaledBasis::new(Int::symbol("n"), &[1])?;
    /// assert_eq!(stride.eval(&Env::new().with("n", 5))?.to_string(), "5@1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::eval`].
    pub fn eval(&self, env: &Env) -> Result<Self> {
        Ok(match &self.value {
            Scale::Int(value) => {
                Self { value: Scale::Int(value.eval(env)?.into()), path: self.path }
            }
            Scale::Ratio(_) => self.clone(),
        })
    }

    /// Returns the stride as a coordinate: the scale at the mode of the path and 0 elsewhere, for
    /// example `(0,3)` for `3@1`. A plain integer is returned unchanged. Use it to sum
    /// strides into one coordinate with [`plus`](IntTuple::plus). CuTe's `as_arithmetic_tuple`.
    ///
    /// ```
    /// # use tilewright::layout::{IntTuple, ScaledBasis, shape};
    /// assert_eq!(ScaledBasis::new(3, &[1])?.to_coord()?, shape!(0, 3));
    /// assert_eq!(ScaledBasis::new(3, &[0, 1])?.to_coord()?.to_string(), "((0,3))");
    /// assert_eq!(ScaledBasis::from(7).to_coord()?, IntTuple::from(7));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnIntegerStride`] for a fraction.
    #[inline]
    pub fn to_coord(&self) -> Result<IntTuple> {
        let mut sum = Sum::Zero;
        sum.add(self, &Int::ONE)?;
        sum.finish()
    }

    pub(crate) fn with_value(&self, value: Int) -> Self {
        Self { value: Scale::Int(value), path: self.path }
    }
}

impl Scale {
    pub(crate) fn from_ratio(ratio: Ratio) -> Self {
        match ratio.as_integer() {
            Some(value) => Scale::Int(value.into()),
            None => Scale::Ratio(Box::new(ratio)),
        }
    }

    #[inline]
    pub(crate) fn scaled(&self, factor: &Int) -> Result<Self> {
        match self {
            Scale::Int(value) => Ok(Scale::Int(value.mul(factor)?)),
            Scale::Ratio(ratio) => match factor.as_static() {
                Some(factor) => Ok(Scale::from_ratio(ratio.mul(Ratio::from(factor))?)),
                None => {
                    let whole = factor.exact_div(&Int::new(ratio.denominator()))?;
                    Ok(Scale::Int(whole.mul(&Int::new(ratio.numerator()))?))
                }
            },
        }
    }
}

impl fmt::Display for ScaledBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Scale::Int(value) if self.is_basis() && is_sum(value) && !f.alternate() => {
                write!(f, "({value})")?;
            }
            Scale::Int(value) => value.fmt(f)?,
            Scale::Ratio(ratio) => write!(f, "{ratio}")?,
        }
        for mode in self.path.modes().iter().rev() {
            write!(f, "@{mode}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for ScaledBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}

/// Returns `factor * stride`, as [`ScaledBasis::scaled`] does, with the factor on the left.
///
/// ```
/// use tilewright::layout::{Int, ScaledBasis};
/// let e = ScaledBasis::e(&[0, 1])?;
/// assert_eq!((3 * &e)?.to_string(), "3@1@0");
/// assert_eq!((&Int::symbol("n") * &e)?.to_string(), "n@1@0");
/// assert_eq!((&e * &Int::symbol("n"))?, (&Int::symbol("n") * &e)?);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
impl Mul<&ScaledBasis> for &Int {
    type Output = Result<ScaledBasis>;

    fn mul(self, stride: &ScaledBasis) -> Result<ScaledBasis> {
        stride.scaled(self)
    }
}

/// Returns `stride * factor`, as [`ScaledBasis::scaled`] does.
impl Mul<&Int> for &ScaledBasis {
    type Output = Result<ScaledBasis>;

    fn mul(self, factor: &Int) -> Result<ScaledBasis> {
        self.scaled(factor)
    }
}

/// The same for Rust integers. Only `i64` has this operator, so that the literal in `3 * &e` has a
/// known type.
macro_rules! times_host_integer {
    ($($stride:ty),*) => {$(
        /// Returns `factor * stride`, as [`ScaledBasis::scaled`] does.
        impl Mul<$stride> for i64 {
            type Output = Result<ScaledBasis>;

            fn mul(self, stride: $stride) -> Result<ScaledBasis> {
                stride.scaled(&Int::new(self))
            }
        }
        /// Returns `stride * factor`, as [`ScaledBasis::scaled`] does.
        impl Mul<i64> for $stride {
            type Output = Result<ScaledBasis>;

            fn mul(self, factor: i64) -> Result<ScaledBasis> {
                self.scaled(&Int::new(factor))
            }
        }
    )*};
}
times_host_integer!(ScaledBasis, &ScaledBasis);

impl From<Int> for ScaledBasis {
    #[inline]
    fn from(value: Int) -> Self {
        Self { value: Scale::Int(value), path: BasisPath::default() }
    }
}
macro_rules! from_integers {
    ($($t:ty),*) => {$(
        impl From<$t> for ScaledBasis {
            #[inline]
            fn from(value: $t) -> Self {
                Int::from(value).into()
            }
        }
    )*};
}
from_integers!(i64, i32, i16, i8, u64, u32, u16, u8, usize, isize, &Int);

impl From<Ratio> for ScaledBasis {
    fn from(value: Ratio) -> Self {
        Self { value: Scale::from_ratio(value), path: BasisPath::default() }
    }
}
impl IntoTuple<ScaledBasis> for ScaledBasis {
    #[inline]
    fn push_into(self, out: &mut Builder<ScaledBasis>) {
        out.push(self);
    }
}
impl IntoTuple<ScaledBasis> for &ScaledBasis {
    #[inline]
    fn push_into(self, out: &mut Builder<ScaledBasis>) {
        out.push(self.clone());
    }
}
impl IntoTuple<ScaledBasis> for &IntTuple {
    #[inline]
    fn push_into(self, out: &mut Builder<ScaledBasis>) {
        out.push_tree(Tuple::<ScaledBasis>::from(self).as_ref());
    }
}
impl IntoTuple<ScaledBasis> for IntTuple {
    #[inline]
    fn push_into(self, out: &mut Builder<ScaledBasis>) {
        (&self).push_into(out);
    }
}
impl From<&IntTuple> for Tuple<ScaledBasis> {
    #[inline]
    fn from(tuple: &IntTuple) -> Self {
        Tuple {
            codes: tuple.codes.clone(),
            leaves: tuple.leaves.iter().cloned().map(ScaledBasis::from).collect(),
        }
    }
}

impl IntTuple {
    /// Adds two coordinates entry by entry. A missing entry or a plain 0 counts as 0. CuTe's sum of
    /// arithmetic tuples.
    ///
    /// ```
    /// # use tilewright::layout::{ScaledBasis, shape};
    /// assert_eq!(shape!(1, (2, 3)).plus(&shape!((4)))?, shape!(5, (2, 3)));
    /// let (x, y) = (ScaledBasis::new(3, &[0])?, ScaledBasis::new(5, &[1])?);
    /// assert_eq!(x.to_coord()?.plus(&y.to_coord()?)?, shape!(3, 5));
    /// assert!(shape!(1, 2).plus(&7.into()).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnInteger`] if a tuple meets an integer other than 0, or
    /// [`LayoutError::Overflow`].
    #[inline]
    pub fn plus(&self, other: &IntTuple) -> Result<IntTuple> {
        let mut out = Builder::new();
        add_entries(self.as_ref(), other.as_ref(), &mut out)?;
        out.finish()
    }
}

#[inline]
fn add_entries(a: IntTupleRef<'_>, b: IntTupleRef<'_>, out: &mut Builder<Int>) -> Result<()> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(a), Some(b)) => out.push(a.add(b)?),
        (Some(zero), None) if zero.is(0) => out.push_tree(b),
        (None, Some(zero)) if zero.is(0) => out.push_tree(a),
        (Some(_), None) => return Err(LayoutError::NotAnInteger { found: b.to_string() }),
        (None, Some(_)) => return Err(LayoutError::NotAnInteger { found: a.to_string() }),
        (None, None) => {
            let zero = Tuple::leaf(Int::ZERO);
            out.open();
            for i in 0..a.rank().max(b.rank()) {
                let part = |t: IntTupleRef<'_>| t.child(i).map(IntTupleRef::to_owned);
                let (x, y) = (part(a), part(b));
                add_entries(
                    x.as_ref().unwrap_or(&zero).as_ref(),
                    y.as_ref().unwrap_or(&zero).as_ref(),
                    out,
                )?;
            }
            out.close();
        }
    }
    Ok(())
}

/// A coordinate under construction: a sum of scaled basis elements, or an integer.
#[derive(Clone, Debug)]
pub(crate) enum Sum {
    Zero,
    Int(Int),
    Tuple(Vec<Sum>),
}

impl Sum {
    #[inline]
    pub(crate) fn add(&mut self, stride: &ScaledBasis, factor: &Int) -> Result<()> {
        let Scale::Int(value) = stride.value.scaled(factor)? else {
            return Err(LayoutError::NotAnIntegerStride { stride: stride.to_string() });
        };
        self.add_at(stride.path.modes(), value, stride)
    }

    /// Adds an entry for a basis element even if its factor is zero, so that the nesting of the
    /// result does not depend on the coordinate.
    fn add_at(&mut self, path: &[u8], value: Int, stride: &ScaledBasis) -> Result<()> {
        let Some((&mode, rest)) = path.split_first() else {
            let sum = match self {
                Sum::Zero => value,
                Sum::Int(sum) => sum.add(&value)?,
                Sum::Tuple(_) if value.is(0) => return Ok(()),
                Sum::Tuple(_) => {
                    return Err(LayoutError::MixedCodomain { stride: stride.to_string() });
                }
            };
            *self = Sum::Int(sum);
            return Ok(());
        };
        match self {
            Sum::Zero => *self = Sum::Tuple(Vec::new()),
            Sum::Int(sum) if sum.is(0) => *self = Sum::Tuple(Vec::new()),
            _ => {}
        }
        let Sum::Tuple(items) = self else {
            return Err(LayoutError::MixedCodomain { stride: stride.to_string() });
        };
        let mode = usize::from(mode);
        while items.len() <= mode {
            items.push(Sum::Zero);
        }
        items[mode].add_at(rest, value, stride)
    }

    #[inline]
    pub(crate) fn finish(&self) -> Result<IntTuple> {
        let mut out = Builder::new();
        self.push(&mut out);
        out.finish()
    }

    #[inline]
    fn push(&self, out: &mut Builder<Int>) {
        match self {
            Sum::Zero => out.push(Int::ZERO),
            Sum::Int(value) => out.push(value.clone()),
            Sum::Tuple(items) => {
                out.open();
                for item in items {
                    item.push(out);
                }
                out.close();
            }
        }
    }
}
