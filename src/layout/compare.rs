//! Compares integer tuples: lexicographically, colexicographically, or leaf by leaf, for example to
//! test whether a coordinate is inside a shape.

use super::error::LayoutError;
use super::int::Int;
use super::tuple::{IntTuple, IntTupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

impl IntTuple {
    /// Returns true if `self` is smaller in the first leaf where the two differ. Use it to sort
    /// coordinates with the first mode as the most significant. A shorter tuple comes before its
    /// extensions.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).lex_less(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotAnInteger`] if an integer meets a tuple, or
    /// [`LayoutError::Undecided`] if symbols leave it open.
    #[inline]
    pub fn lex_less(&self, other: &IntTuple) -> Result<bool> {
        order(self.as_ref(), other.as_ref(), false)
    }

    /// Returns `!other.lex_less(self)`: whether `self` comes first in lexicographic order, or is
    /// equal.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).lex_leq(&shape!(2, 0))? && shape!(2, 0).lex_leq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn lex_leq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!other.lex_less(self)?)
    }

    /// Returns `other.lex_less(self)`: whether `self` comes later in lexicographic order.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).lex_gtr(&shape!(1, 9))? && !shape!(2, 0).lex_gtr(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn lex_gtr(&self, other: &IntTuple) -> Result<bool> {
        other.lex_less(self)
    }

    /// Returns `!self.lex_less(other)`: whether `self` comes later in lexicographic order, or is
    /// equal.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).lex_geq(&shape!(1, 9))? && shape!(2, 0).lex_geq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn lex_geq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!self.lex_less(other)?)
    }

    /// Returns true if `self` is smaller in the last leaf where the two differ: colexicographic
    /// order, which compares the last mode first. Use it to sort coordinates in the order in which
    /// a layout enumerates them.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).colex_less(&shape!(1, 9))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_less(&self, other: &IntTuple) -> Result<bool> {
        order(self.as_ref(), other.as_ref(), true)
    }

    /// Returns `!other.colex_less(self)`: whether `self` comes first in colexicographic order
    /// (which compares the last mode first), or is equal.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).colex_leq(&shape!(1, 9))? && shape!(2, 0).colex_leq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_leq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!other.colex_less(self)?)
    }

    /// Returns `other.colex_less(self)`: whether `self` comes later in colexicographic order, which
    /// compares the last mode first. Use it like [`colex_less`](IntTuple::colex_less), with the
    /// arguments swapped.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).colex_gtr(&shape!(2, 0))? && !shape!(2, 0).colex_gtr(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_gtr(&self, other: &IntTuple) -> Result<bool> {
        other.colex_less(self)
    }

    /// Returns `!self.colex_less(other)`: whether `self` comes later in colexicographic order
    /// (which compares the last mode first), or is equal.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).colex_geq(&shape!(2, 0))? && shape!(2, 0).colex_geq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_geq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!self.colex_less(other)?)
    }

    /// Returns true if every leaf of `self` is less than the one of `other`. Use it to test whether
    /// a coordinate is inside a shape.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, (2, 3)).elem_less(&shape!(2, (3, 4)))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_less(&self, other: &IntTuple) -> Result<bool> {
        elem_less(self.as_ref(), other.as_ref())
    }

    /// Returns `!other.elem_less(self)`, as CuTe defines it. This is not "every leaf is less or
    /// equal": it is already true if one leaf of `self` is not greater.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).elem_leq(&shape!(2, 0))?);
    /// assert!(!shape!(3, 9).elem_leq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_leq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!other.elem_less(self)?)
    }

    /// Returns `other.elem_less(self)`: whether every leaf of `self` is greater.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(3, 9).elem_gtr(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_gtr(&self, other: &IntTuple) -> Result<bool> {
        other.elem_less(self)
    }

    /// Returns `!self.elem_less(other)`, as CuTe defines it. It is already true if one leaf of
    /// `self` is not less.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).elem_geq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_geq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!self.elem_less(other)?)
    }
}

/// Returns whether two integers are equal whatever their symbols are, or an error if that is open.
pub(crate) fn equal(a: &Int, b: &Int) -> Result<bool> {
    if let (Some(a), Some(b)) = (a.as_static(), b.as_static()) {
        return Ok(a == b);
    }
    if a.same(b) {
        return Ok(true);
    }
    let (low, high) = a.sub(b)?.bounds();
    if low > 0 || high < 0 {
        return Ok(false);
    }
    Err(LayoutError::Undecided {
        operation: "comparison",
        condition: format!("whether {a} is {b}"),
    })
}

fn less(a: &Int, b: &Int) -> Result<bool> {
    if let (Some(a), Some(b)) = (a.as_static(), b.as_static()) {
        return Ok(a < b);
    }
    if a.add(&Int::ONE).is_ok_and(|next| b.at_least(&next)) {
        return Ok(true);
    }
    if a.at_least(b) {
        return Ok(false);
    }
    Err(LayoutError::Undecided { operation: "comparison", condition: format!("whether {a} < {b}") })
}

/// Returns whether `f` is true for all pairs. Stops at the first `false` or error.
pub(crate) fn all<A, B>(
    pairs: impl Iterator<Item = (A, B)>,
    f: impl Fn(A, B) -> Result<bool>,
) -> Result<bool> {
    for (a, b) in pairs {
        if !f(a, b)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn mixed(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> LayoutError {
    let found = if a.is_leaf() { b } else { a };
    LayoutError::NotAnInteger { found: found.to_string() }
}

#[inline]
fn order(a: IntTupleRef<'_>, b: IntTupleRef<'_>, reverse: bool) -> Result<bool> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(a), Some(b)) => return less(a, b),
        (None, None) => {}
        _ => return Err(mixed(a, b)),
    }
    let (mut xs, mut ys): (Vec<_>, Vec<_>) = (a.children().collect(), b.children().collect());
    if reverse {
        xs.reverse();
        ys.reverse();
    }
    for (i, y) in ys.iter().enumerate() {
        let Some(x) = xs.get(i) else { return Ok(true) };
        if order(*x, *y, reverse)? {
            return Ok(true);
        }
        // After the last pair, nothing can make `a` smaller.
        if i + 1 == ys.len() || !same(*x, *y)? {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Returns whether the two are nested alike and equal leaf by leaf.
fn same(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> Result<bool> {
    if !a.congruent(b) {
        return Ok(false);
    }
    all(a.leaves().iter().zip(b.leaves()), equal)
}

#[inline]
fn elem_less(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> Result<bool> {
    match (a.as_leaf(), b.as_leaf()) {
        (Some(a), Some(b)) => return less(a, b),
        (None, None) => {}
        _ => return Err(mixed(a, b)),
    }
    if a.rank() > b.rank() {
        return Ok(false);
    }
    all(a.children().zip(b.children()), elem_less)
}
