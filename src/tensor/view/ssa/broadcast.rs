//! Broadcasting as in CuTe DSL: finds the common shape of two operands, for example `(4,8)` for
//! `(4,1)` and `(4,8)`. The operators of [`TensorSsa`](super::TensorSsa) use it.
//!
//! Missing trailing modes of the shorter shape count as 1. The shapes must then have the same
//! profile, and two leaves must be equal or one of them 1. A mode that is the leaf 1 also matches a
//! whole tuple, and a leaf matches a tuple of one.
//!
//! If the shorter shape also matches other modes of the longer one, as the column sums of a square
//! matrix do, CuTe DSL takes the first modes. Here that is an error, because it is usually a bug.

use crate::layout::{Int, IntTuple, IntTupleRef, Layout, LayoutError, Tuple};
use crate::tensor::error::TensorErrorKind;

fn modes<'t>(shape: IntTupleRef<'t>) -> Vec<IntTupleRef<'t>> {
    if shape.is_leaf() { vec![shape] } else { shape.children().collect() }
}

fn is_one(shape: IntTupleRef<'_>) -> bool {
    shape.leaves().iter().all(|extent| extent.as_static() == Some(1))
}

/// Returns the smallest shape to which both shapes broadcast.
#[inline]
pub(super) fn common_shape(
    a: IntTupleRef<'_>,
    b: IntTupleRef<'_>,
) -> Result<IntTuple, TensorErrorKind> {
    if a == b || (b.is_leaf() && is_one(b)) {
        return Ok(a.to_owned());
    }
    if a.is_leaf() && is_one(a) {
        return Ok(b.to_owned());
    }
    let (mut x, mut y) = (modes(a), modes(b));
    let (mine, others) = (x.len(), y.len());
    let (one, rank) = (Tuple::leaf(Int::ONE), x.len().max(y.len()));
    x.resize(rank, one.as_ref());
    y.resize(rank, one.as_ref());
    let modes = x.into_iter().zip(y).map(|(x, y)| common_mode(x, y));
    let modes: Option<Vec<IntTuple>> = modes.collect();
    let error = || {
        let (left, right) = (a.to_string(), b.to_string());
        TensorErrorKind::NoCommonShape { left, right }
    };
    let modes = modes.ok_or_else(error)?;
    if mine != others {
        let (shorter, longer) = if mine < others { (a, b) } else { (b, a) };
        check_one_way(shorter, longer)?;
    }
    Ok(Tuple::from_items(modes)?)
}

/// Returns the mode to which both modes broadcast.
#[inline]
fn common_mode(a: IntTupleRef<'_>, b: IntTupleRef<'_>) -> Option<IntTuple> {
    if a == b || (b.is_leaf() && is_one(b)) {
        return Some(a.to_owned());
    }
    if a.is_leaf() && is_one(a) {
        return Some(b.to_owned());
    }
    // A leaf equals a tuple of one.
    if a.rank() != b.rank() || (a.is_leaf() && b.is_leaf()) {
        return None;
    }
    let both = modes(a).into_iter().zip(modes(b)).map(|(x, y)| common_mode(x, y));
    Tuple::from_items(both.collect::<Option<Vec<_>>>()?).ok()
}

/// Checks that the shorter shape matches only the first modes of the longer shape.
#[inline]
fn check_one_way(shorter: IntTupleRef<'_>, longer: IntTupleRef<'_>) -> Result<(), TensorErrorKind> {
    let (mine, all) = (modes(shorter), modes(longer));
    let wanted: Vec<IntTupleRef<'_>> = mine.iter().copied().filter(|m| !is_one(*m)).collect();
    // The first modes of the longer shape, and the last ones that match.
    let first: Vec<usize> = (0..mine.len()).filter(|at| !is_one(mine[*at])).collect();
    let mut last = Vec::new();
    let mut end = all.len();
    for mode in wanted.iter().rev() {
        let Some(at) = all[..end].iter().rposition(|found| found == mode) else { return Ok(()) };
        last.push(at);
        end = at;
    }
    last.reverse();
    if first == last {
        return Ok(());
    }
    let written = |positions: &[usize]| {
        let mut modes = vec![Tuple::leaf(Int::ONE); all.len()];
        for (at, mode) in positions.iter().zip(&wanted) {
            modes[*at] = IntTupleRef::to_owned(*mode);
        }
        Tuple::from_items(modes).map(|shape: IntTuple| shape.to_string())
    };
    Err(TensorErrorKind::AmbiguousBroadcast {
        shape: shorter.to_string().into(),
        to: longer.to_string().into(),
        first: written(&first)?.into(),
        last: written(&last)?.into(),
    })
}

/// Maps the coordinates of `to` to elements of `from`, with stride 0 along repeated modes.
#[inline]
pub(super) fn repeated(from: IntTupleRef<'_>, to: IntTupleRef<'_>) -> Result<Layout, LayoutError> {
    #[inline]
    fn strides(
        from: IntTupleRef<'_>,
        to: IntTupleRef<'_>,
        step: &mut i64,
    ) -> Result<IntTuple, LayoutError> {
        if !to.is_leaf() && from.as_static() != Some(1) {
            let one = Tuple::leaf(Int::ONE);
            let modes = to.children().enumerate().map(|(i, mode)| {
                let part = if from.is_leaf() && i == 0 { Some(from) } else { from.child(i) };
                strides(part.unwrap_or(one.as_ref()), mode, step)
            });
            return Tuple::from_items(modes.collect::<Result<Vec<_>, _>>()?);
        }
        if from.as_static() == Some(1) {
            return to.to_owned().map(|_| Ok(Int::ZERO));
        }
        let stride = *step;
        let overflow = LayoutError::Overflow { operation: "broadcast" };
        *step =
            step.checked_mul(from.as_leaf().map_or(Ok(1), |e| e.to_static())?).ok_or(overflow)?;
        Ok(Tuple::leaf(Int::from(stride)))
    }
    Layout::new(to, strides(from, to, &mut 1)?)
}
