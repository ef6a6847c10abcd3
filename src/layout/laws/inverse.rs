//! The laws of `right_inverse`, `left_inverse`, `nullspace` and `max_common_layout`: the equations
//! that define them, checked index by index. Property tests call them, the crate's and yours.

use super::{LIMIT, Law, Violation};
use crate::layout::composed::ComposedLayout;
use crate::layout::error::LayoutError;
use crate::layout::layout::Layout;
use crate::layout::tuple::IntTuple;

/// Checks that `result` (`R`) is a right inverse of `layout` (`L`): `L(R(i)) == i` for all `i <
/// size(R)`.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((4, 8):(8, 1));
/// laws::check_right_inverse(&l, &l.right_inverse()?)?;
/// assert!(laws::check_right_inverse(&l, &layout!(32:1)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`]. A swizzled layout's inverse has no shape and so no known size: use
/// [`check_right_inverse_below`] for it.
pub fn check_right_inverse(
    layout: impl Into<ComposedLayout>,
    result: impl Into<ComposedLayout>,
) -> Result<(), Violation> {
    let result = result.into();
    let size = Law::RightInverse.number(result.size())?;
    below(Law::RightInverse, &layout.into(), &result, size)
}

/// Checks that `result` (`R`) is a right inverse of `layout` (`L`) up to `size`: `L(R(i)) == i` for
/// all `i < size`. Use it for swizzled layouts, whose inverses have no size.
///
/// ```
/// use tilewright::layout::{ComposedLayout, laws};
/// let l: ComposedLayout = "S<2,0,2> o 0 o (4,4):(4,1)".parse()?;
/// let inverse = l.right_inverse()?;
/// laws::check_right_inverse_below(&l, &inverse, 16)?;
/// assert!(laws::check_right_inverse_below(&l, &inverse, 17).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_right_inverse_below(
    layout: impl Into<ComposedLayout>,
    result: impl Into<ComposedLayout>,
    size: i64,
) -> Result<(), Violation> {
    below(Law::RightInverse, &layout.into(), &result.into(), size)
}

#[inline]
fn below(
    law: Law,
    layout: &ComposedLayout,
    result: &ComposedLayout,
    size: i64,
) -> Result<(), Violation> {
    for i in 0..size.min(LIMIT) {
        let inside = law.value(result, i)?;
        let found = layout.apply(&inside).map_err(law.stuck())?;
        law.equal(i, &found, &IntTuple::from(i))?;
    }
    Ok(())
}

/// Checks that no right inverse is longer than `result`, among those made of leaves of `layout` in
/// which each stride equals the size that the leaves before it reach. Run it after
/// [`check_right_inverse`], which accepts a short one. `layout` must be static and map to integers.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((2, 2, 2):(1, 1, 2));
/// laws::check_longest_right_inverse(&l, &l.right_inverse()?)?;
/// let error = laws::check_longest_right_inverse(&l, &layout!(2:1)).unwrap_err();
/// assert!(error.to_string().ends_with("2:1 has 2 elements, but 4 are needed"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_longest_right_inverse(layout: &Layout, result: &Layout) -> Result<(), Violation> {
    fn longest(leaves: &[(i64, i64)], reached: i64) -> i64 {
        let further = leaves.iter().filter(|(s, d)| *s > 1 && *d == reached);
        let next = further.map(|(s, _)| longest(leaves, reached.saturating_mul(*s)));
        next.max().unwrap_or(reached)
    }
    let law = Law::RightInverse;
    let (found, needed) = (law.size(result)?, longest(&law.leaves(layout)?, 1));
    if found < needed {
        return Err(Violation::Size { law, result: result.to_string(), found, needed });
    }
    Ok(())
}

/// Checks that `result` (`R`) is a left inverse of `layout` (`L`): `L(R(L(i))) == L(i)` for all `i
/// < size(L)`. If `L` is one-to-one, this means that `R(L(i)) == i`.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((4, 2):(1, 16));
/// laws::check_left_inverse(&l, &l.left_inverse()?)?;
/// let error = laws::check_left_inverse(&l, &layout!(8:1)).unwrap_err();
/// assert!(error.to_string().ends_with("at 4 the left side is 64 and the right side is 16"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
pub fn check_left_inverse(
    layout: impl Into<ComposedLayout>,
    result: impl Into<ComposedLayout>,
) -> Result<(), Violation> {
    left(&layout.into(), &result.into())
}

#[inline]
fn left(layout: &ComposedLayout, result: &ComposedLayout) -> Result<(), Violation> {
    let law = Law::LeftInverse;
    for i in 0..law.size(law.outer(layout)?)?.min(LIMIT) {
        let index = law.value(layout, i)?;
        let back = result.apply(&index).map_err(law.stuck())?;
        law.equal(i, &layout.apply(&back).map_err(law.stuck())?, &index)?;
    }
    Ok(())
}

/// Checks that `result` (`R`) is the nullspace of `layout` (`L`): `L(R(i)) == 0` for all `i <
/// size(R)`, and `R` has as many elements as the stride-0 modes of `L`.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let l = layout!((2, 2, 2):(1, 0, 2));
/// laws::check_nullspace(&l, &l.nullspace()?)?;
/// assert!(laws::check_nullspace(&l, &layout!(1:0)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_nullspace(layout: &Layout, result: &Layout) -> Result<(), Violation> {
    let law = Law::Nullspace;
    let zeros = law.leaves(layout)?.into_iter().filter(|(_, d)| *d == 0);
    let needed = zeros.map(|(s, _)| s).try_fold(1i64, i64::checked_mul);
    let needed = needed.ok_or_else(|| law.stuck()(LayoutError::overflow("check_nullspace")))?;
    let found = law.size(result)?;
    if found != needed {
        return Err(Violation::Size { law, result: result.to_string(), found, needed });
    }
    for (i, index) in (0..LIMIT).zip(result.indices().map_err(law.stuck())?) {
        let found = layout.at(index).map_err(law.stuck())?;
        law.equal(i, &found.into(), &IntTuple::from(0))?;
    }
    Ok(())
}

/// Checks that `result` (`R`) visits the elements that two layouts have in common: `A(R(i)) == i ==
/// B(R(i))` for all `i < size(R)`.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let (a, b) = (layout!((8, 4):(1, 8)), layout!((8, 4):(1, 16)));
/// laws::check_common_layout(&a, &b, &a.max_common_layout(&b)?)?;
/// assert!(laws::check_common_layout(&a, &b, &layout!(32:1)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_common_layout(a: &Layout, b: &Layout, result: &Layout) -> Result<(), Violation> {
    let law = Law::CommonLayout;
    let size = law.size(result)?;
    let result = result.into();
    below(law, &a.into(), &result, size)?;
    below(law, &b.into(), &result, size)
}
