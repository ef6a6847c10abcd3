//! Compares integers and integer tuples: lexicographically, colexicographically, leaf by leaf.

use super::error::LayoutError;
use super::int::Int;
use super::tuple::{IntTuple, IntTupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

impl IntTuple {
    /// True if the first pair of leaves that differ, in order, is smaller in `self`; a shorter
    /// tuple comes before its extensions.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).lex_less(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotAnInteger`] where an integer meets a tuple, [`LayoutError::Undecided`].
    #[inline]
    pub fn lex_less(&self, other: &IntTuple) -> Result<bool> {
        order(self.as_ref(), other.as_ref(), false)
    }

    /// Not `lex_less(other, self)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).lex_leq(&shape!(2, 0))? && shape!(2, 0).lex_leq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn lex_leq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!other.lex_less(self)?)
    }

    /// `lex_less(other, self)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).lex_gtr(&shape!(1, 9))? && !shape!(2, 0).lex_gtr(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn lex_gtr(&self, other: &IntTuple) -> Result<bool> {
        other.lex_less(self)
    }

    /// Not `lex_less(self, other)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).lex_geq(&shape!(1, 9))? && shape!(2, 0).lex_geq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn lex_geq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!self.lex_less(other)?)
    }

    /// [`lex_less`](IntTuple::lex_less) from the last mode to the first.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).colex_less(&shape!(1, 9))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_less(&self, other: &IntTuple) -> Result<bool> {
        order(self.as_ref(), other.as_ref(), true)
    }

    /// Not `colex_less(other, self)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).colex_leq(&shape!(1, 9))? && shape!(2, 0).colex_leq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_leq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!other.colex_less(self)?)
    }

    /// `colex_less(other, self)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).colex_gtr(&shape!(2, 0))? && !shape!(2, 0).colex_gtr(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_gtr(&self, other: &IntTuple) -> Result<bool> {
        other.colex_less(self)
    }

    /// Not `colex_less(self, other)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).colex_geq(&shape!(2, 0))? && shape!(2, 0).colex_geq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn colex_geq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!self.colex_less(other)?)
    }

    /// True if every leaf of `self` is less than that of `other`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, (2, 3)).elem_less(&shape!(2, (3, 4)))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_less(&self, other: &IntTuple) -> Result<bool> {
        elem_less(self.as_ref(), other.as_ref())
    }

    /// Not `elem_less(other, self)`, as CuTe defines it: some leaf of `self` is not greater.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(1, 9).elem_leq(&shape!(2, 0))?);
    /// assert!(!shape!(3, 9).elem_leq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_leq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!other.elem_less(self)?)
    }

    /// `elem_less(other, self)`.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(3, 9).elem_gtr(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_gtr(&self, other: &IntTuple) -> Result<bool> {
        other.elem_less(self)
    }

    /// Not `elem_less(self, other)`, as CuTe defines it: some leaf of `self` is not less.
    ///
    /// ```
    /// # use tilewright::layout::shape;
    /// assert!(shape!(2, 0).elem_geq(&shape!(2, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`lex_less`](IntTuple::lex_less).
    #[inline]
    pub fn elem_geq(&self, other: &IntTuple) -> Result<bool> {
        Ok(!self.elem_less(other)?)
    }
}

/// Compares two integers for all values of their symbols; an error if symbols leave the answer
/// open.
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

/// Returns whether `f` holds for all pairs; stops at the first error or `false`.
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
        // After the last pair nothing makes `a` smaller.
        if i + 1 == ys.len() || !same(*x, *y)? {
            return Ok(false);
        }
    }
    Ok(false)
}

/// Returns whether the two are equal, leaf by leaf.
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
