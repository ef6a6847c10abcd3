//! The definitions of the operations, as checks of a result against its arguments.
//!
//! Each `check_*` states the equation that the operation promises and looks at the whole domain.
//! They use evaluation only, never the operation that they check.

#![allow(dead_code, reason = "each test binary uses a part")]

use tilewright::layout::{
    ComposedLayout, Int, IntTuple, IntTupleRef, Layout, LayoutRef, ScaledBasis, StrideTuple, Tiler,
    TilerLeaf,
};

pub(crate) type Check = Result<(), String>;

/// The largest domain that is walked.
pub(crate) const LIMIT: i64 = 1 << 16;

pub(crate) fn fail(text: impl Into<String>) -> Check {
    Err(text.into())
}

fn size(l: &Layout) -> Result<i64, String> {
    l.size().and_then(|s| s.to_static()).map_err(|e| e.to_string())
}

/// The value at an integer coordinate, with the last mode unbounded.
pub(crate) fn value(l: &ComposedLayout, i: i64) -> Result<IntTuple, String> {
    l.apply(i).map_err(|e| e.to_string())
}

fn outer(l: &ComposedLayout) -> Result<&Layout, String> {
    l.outer_layout().map_err(|e| e.to_string())
}

fn composed(l: LayoutRef<'_>) -> ComposedLayout {
    l.to_layout().into()
}

/// `R(i) == A⁺(B(i))` for all `i < size(B)`, and the shape of `R` refines that of `B`.
pub(crate) fn check_composition(
    a: &ComposedLayout,
    b: &ComposedLayout,
    r: &ComposedLayout,
) -> Check {
    let (b_shape, r_shape) = (outer(b)?.shape().to_owned(), outer(r)?.shape().to_owned());
    if !b_shape.compatible(&r_shape).map_err(|e| e.to_string())? {
        return fail(format!("the shape {r_shape} does not refine {b_shape}"));
    }
    let n = size(outer(b)?)?;
    for i in 0..n.min(LIMIT) {
        let at = value(b, i)?;
        let at = match outer(a) {
            Ok(a) => filled(at.as_ref(), a.shape()),
            Err(_) => at,
        };
        let expected = a.apply(&at).map_err(|e| e.to_string())?;
        let found = value(r, i)?;
        if !same_value(&expected, &found) {
            return fail(format!("R({i}) is {found}, A(B({i})) = A({at}) is {expected}"));
        }
    }
    Ok(())
}

/// The coordinate with 0 for the entries of `shape` that it lacks.
fn filled(coord: IntTupleRef<'_>, shape: IntTupleRef<'_>) -> IntTuple {
    if coord.is_leaf() {
        return coord.to_owned();
    }
    // A leaf is its own mode 0.
    if shape.is_leaf() {
        return coord.child(0).map_or_else(|| coord.to_owned(), |c| filled(c, shape));
    }
    let zero = IntTuple::from(0);
    let items: Vec<IntTuple> = shape
        .children()
        .enumerate()
        .map(|(i, s)| coord.child(i).map_or_else(|| zero.clone(), |c| filled(c, s)))
        .collect();
    IntTuple::from_items(&items).unwrap_or(zero)
}

/// Equal as coordinates: the plain 0 is every coordinate of zeros, and missing entries are 0.
pub(crate) fn same_value(a: &IntTuple, b: &IntTuple) -> bool {
    fn walk(a: Option<IntTupleRef<'_>>, b: Option<IntTupleRef<'_>>) -> bool {
        let zero = |t: Option<IntTupleRef<'_>>| {
            t.is_none_or(|t| t.leaves().iter().all(|l| *l == Int::ZERO))
        };
        match (a, b) {
            (Some(x), Some(y)) if x.is_leaf() && y.is_leaf() => x == y,
            (Some(x), Some(y)) if !x.is_leaf() && !y.is_leaf() => {
                (0..x.rank().max(y.rank())).all(|i| walk(x.child(i), y.child(i)))
            }
            (x, y) => zero(x) && zero(y),
        }
    }
    walk(Some(a.as_ref()), Some(b.as_ref()))
}

/// The composition with a tiler, mode by mode.
pub(crate) fn check_composition_by(a: &Layout, tiler: &Tiler, r: &Layout) -> Check {
    match tiler.as_leaf() {
        Some(TilerLeaf::All) if a == r => Ok(()),
        Some(TilerLeaf::All) => fail(format!("`_` changed {a} to {r}")),
        Some(TilerLeaf::Int(n)) => {
            let tile = Layout::leaf(n.clone(), 1);
            check_composition(&a.clone().into(), &tile.into(), &r.clone().into())
        }
        Some(TilerLeaf::Layout(tile)) => {
            check_composition(&a.clone().into(), &tile.as_ref().clone().into(), &r.clone().into())
        }
        None => {
            if r.rank() != tiler.rank() {
                return fail(format!("{r} has not the rank of {tiler}"));
            }
            for ((mode, tile), part) in a.modes().zip(tiler.children()).zip(r.modes()) {
                let (mode, part) = (mode.to_layout(), part.to_layout());
                check_composition_by(&mode, &tile.to_owned(), &part)?;
            }
            Ok(())
        }
    }
}

/// The plain layout into the integers, if it is one.
fn integers(l: &ComposedLayout) -> Option<&Layout> {
    l.as_normal().filter(|l| l.stride().leaves().iter().all(|d| d.as_static().is_some()))
}

/// Same values at all integer coordinates.
pub(crate) fn check_same(a: &ComposedLayout, b: &ComposedLayout) -> Check {
    let (n, m) = (size(outer(a)?)?, size(outer(b)?)?);
    if n != m {
        return fail(format!("sizes {n} and {m}"));
    }
    if let (Some(x), Some(y)) = (integers(a), integers(b)) {
        return match (0..n.min(LIMIT)).find(|&i| x.at(i) != y.at(i)) {
            Some(i) => fail(format!("at {i}: {:?} and {:?}", x.at(i), y.at(i))),
            None => Ok(()),
        };
    }
    for i in 0..n.min(LIMIT) {
        let (x, y) = (value(a, i)?, value(b, i)?);
        if !same_value(&x, &y) {
            return fail(format!("at {i}: {x} and {y}"));
        }
    }
    Ok(())
}

/// `R(i) == L(i)` for all `i < size(L)`, `depth(R) <= 1`, and no two adjacent modes are one.
pub(crate) fn check_coalesce(l: &Layout, r: &Layout) -> Check {
    check_same(&l.clone().into(), &r.clone().into())?;
    if r.depth() > 1 {
        return fail(format!("{r} is nested"));
    }
    let leaves: Vec<_> = r.as_ref().leaves().collect();
    if leaves.len() > 1 && leaves.iter().any(|(s, _)| **s == Int::ONE) {
        return fail(format!("{r} has an extent 1"));
    }
    for pair in leaves.windows(2) {
        if let (Some(end), Some(next)) =
            (pair[0].1.as_int().and_then(|d| d.mul(pair[0].0).ok()), pair[1].1.as_int())
            && end == *next
        {
            return fail(format!("two modes of {r} are one"));
        }
    }
    Ok(())
}

/// With `F = filter(L)`: `(F, R)` is one-to-one, `R` increases, and if the strides of `F` divide each
/// other in order, `F` and `R` reach the cotarget: all of its elements if it is a number. Of a shape, as
/// many tiles as lie beside each other in each mode, where what one mode leaves of a tile goes on in the
/// next: CuTe's `ceil_div` of a tuple by a number.
pub(crate) fn check_complement(l: &Layout, cotarget: &[i64], r: &Layout) -> Check {
    let f = l.filter().map_err(|e| e.to_string())?;
    let (nf, nr) = (size(&f)?, size(r)?);
    if let Some(covered) = in_order(&f) {
        let (mut wanted, mut tile) = (covered, covered);
        for &extent in cotarget {
            wanted = wanted.saturating_mul(extent / tile + i64::from(extent % tile != 0));
            tile = tile / extent + i64::from(tile % extent != 0);
        }
        if nf.saturating_mul(nr) < wanted {
            return fail(format!("{nf} * {nr} elements, but {wanted} reach {cotarget:?}"));
        }
    }
    let at = |l: &Layout, i: i64| l.at(i).map_err(|e| e.to_string());
    for i in 1..nr.min(LIMIT) {
        if at(r, i - 1)? >= at(r, i)? {
            return fail(format!("{r} does not increase at {i}"));
        }
    }
    if nf.saturating_mul(nr) <= LIMIT {
        let mut seen = std::collections::HashSet::new();
        for i in 0..nf {
            for j in 0..nr {
                if !seen.insert(at(&f, i)? + at(r, j)?) {
                    return fail(format!("({f},{r}) meets {} twice", at(&f, i)? + at(r, j)?));
                }
            }
        }
    }
    Ok(())
}

/// Returns the size that the modes cover, if each stride, in increasing order, is a multiple of the size covered by the
/// modes before it.
fn in_order(f: &Layout) -> Option<i64> {
    let mut modes: Vec<(i64, i64)> =
        f.as_ref().leaves().filter_map(|(s, d)| Some((d.as_static()?, s.as_static()?))).collect();
    modes.sort_unstable();
    let mut covered = 1;
    let all = modes.iter().all(|&(d, s)| {
        let fits = d % covered == 0;
        covered = d.saturating_mul(s).max(1);
        fits
    });
    all.then_some(covered)
}

/// `L(R(i)) == i` for all `i < size(R)`.
pub(crate) fn check_right_inverse(l: &ComposedLayout, r: &ComposedLayout, n: i64) -> Check {
    for i in 0..n.min(LIMIT) {
        let at = value(r, i)?;
        let found = l.apply(&at).map_err(|e| e.to_string())?;
        if found != IntTuple::from(i) {
            return fail(format!("L(R({i})) = L({at}) is {found}"));
        }
    }
    Ok(())
}

/// No sequence of leaves of `L`, each with the stride that those before it reach, is longer than
/// `size` elements.
pub(crate) fn check_longest_right_inverse(l: &Layout, size: i64) -> Check {
    fn longest(leaves: &[(i64, i64)], reached: i64) -> i64 {
        let further = leaves.iter().filter(|(s, d)| *s > 1 && *d == reached);
        further.map(|(s, _)| longest(leaves, reached * s)).max().unwrap_or(reached)
    }
    let leaves: Option<Vec<(i64, i64)>> =
        l.as_ref().leaves().map(|(s, d)| Some((s.as_static()?, d.as_static()?))).collect();
    match leaves.map(|leaves| longest(&leaves, 1)) {
        Some(most) if most > size => fail(format!("{most} elements of {l} have an inverse")),
        _ => Ok(()),
    }
}

/// `L(R(L(i))) == L(i)` for all `i < size(L)`.
pub(crate) fn check_left_inverse(l: &ComposedLayout, r: &ComposedLayout) -> Check {
    for i in 0..size(outer(l)?)?.min(LIMIT) {
        let index = value(l, i)?;
        let back = r.apply(&index).map_err(|e| e.to_string())?;
        let found = l.apply(&back).map_err(|e| e.to_string())?;
        if found != index {
            return fail(format!("L({i}) is {index}, L(R({index})) is {found}"));
        }
    }
    Ok(())
}

/// The leaves with adjacent contiguous ones merged and extents 1 dropped, but for the last.
fn merged(l: &Layout) -> Result<Vec<(i64, ScaledBasis)>, String> {
    let mut out: Vec<(i64, ScaledBasis)> = Vec::new();
    let n = l.shape().leaves().len();
    for (i, (s, d)) in l.as_ref().leaves().enumerate() {
        let extent = s.to_static().map_err(|e| e.to_string())?;
        if extent == 1 && i + 1 < n {
            continue;
        }
        match out.last_mut() {
            Some((t, e)) if e.scaled(&Int::from(*t)).is_ok_and(|end| end == *d) => *t *= extent,
            _ => out.push((extent, d.clone())),
        }
    }
    Ok(out)
}

/// The merged leaves with each mode but the last rounded up to a multiple of its part of `tile`
/// elements, where that part is not the whole mode.
fn padded(l: &Layout, tile: i64) -> Result<Layout, String> {
    let mut rest = tile;
    let (mut extents, mut strides) = (Vec::new(), Vec::new());
    for (s, d) in merged(l)? {
        extents.push(if s > rest && rest > 0 { (s + rest - 1) / rest * rest } else { s });
        rest = (rest + s - 1) / s;
        strides.push(d);
    }
    let shape = IntTuple::from_items(extents).map_err(|e| e.to_string())?;
    let stride = StrideTuple::from_items(strides).map_err(|e| e.to_string())?;
    let l = Layout::new(shape, stride).map_err(|e| e.to_string())?;
    Ok(l)
}

/// `R = (A o tile, A o C)` with `A` the coalesced layout, ragged modes rounded up, and `C` the
/// complement of the tile in the shape of the coalesced layout.
pub(crate) fn check_logical_divide(l: &Layout, tile: &Layout, r: &Layout) -> Check {
    let mut modes = r.modes();
    let (Some(first), Some(rest), None) = (modes.next(), modes.next(), modes.next()) else {
        return fail(format!("{r} is not a pair"));
    };
    let target = l.coalesce().map_err(|e| e.to_string())?.shape().to_owned();
    let complement = tile.complement(&target).map_err(|e| e.to_string())?;
    check_complement(tile, &[size(l)?], &complement)?;
    // The tile and what it skips: the step of the outermost mode.
    let filtered = tile.filter().map_err(|e| e.to_string())?;
    let whole = filtered
        .as_ref()
        .leaves()
        .filter_map(|(s, d)| Some(s.as_static()?.checked_mul(d.as_static()?)))
        .try_fold(1, |a, b| b.map(|b| a.max(b)))
        .ok_or("overflow")?;
    let a: ComposedLayout = padded(l, whole)?.into();
    check_composition(&a, &tile.clone().into(), &composed(first))?;
    check_composition(&a, &complement.into(), &composed(rest))
}

/// The divide by a tiler, mode by mode; modes that the tiler does not have stay.
pub(crate) fn check_divide_by(l: &Layout, tiler: &Tiler, r: &Layout) -> Check {
    match tiler.as_leaf() {
        Some(TilerLeaf::All) if l == r => Ok(()),
        Some(TilerLeaf::All) => fail(format!("`_` changed {l} to {r}")),
        Some(TilerLeaf::Int(n)) => check_logical_divide(l, &Layout::leaf(n.clone(), 1), r),
        Some(TilerLeaf::Layout(tile)) => check_logical_divide(l, tile, r),
        None => {
            let mut tiles = tiler.children();
            for (mode, part) in l.modes().zip(r.modes()) {
                let (mode, part) = (mode.to_layout(), part.to_layout());
                match tiles.next() {
                    Some(tile) => check_divide_by(&mode, &tile.to_owned(), &part)?,
                    None if mode == part => {}
                    None => return fail(format!("{mode} changed to {part}")),
                }
            }
            Ok(())
        }
    }
}

/// `R = (B, C o tile)` with `C` the complement of `B`: the second mode moves the block to places
/// that do not overlap.
pub(crate) fn check_logical_product(b: &Layout, tile: &Layout, r: &Layout) -> Check {
    let mut modes = r.modes();
    let (Some(first), Some(rest), None) = (modes.next(), modes.next(), modes.next()) else {
        return fail(format!("{r} is not a pair"));
    };
    if first != b.as_ref() {
        return fail(format!("the first mode of {r} is not {b}"));
    }
    let cosize = tile.cosize().and_then(|c| c.to_static()).map_err(|e| e.to_string())?;
    let target = size(b)?.saturating_mul(cosize);
    let complement = b.complement(&target.into()).map_err(|e| e.to_string())?;
    check_complement(b, &[target], &complement)?;
    check_composition(&complement.into(), &tile.clone().into(), &composed(rest))
}

/// `L(c) == offset + R(rest of c)` is checked through the integer coordinates of a slice that keeps
/// whole modes: `kept` is the list of values that the layout takes there.
pub(crate) fn check_slice(values: &[IntTuple], r: &ComposedLayout, offset: &IntTuple) -> Check {
    for (i, expected) in values.iter().enumerate() {
        let i = i64::try_from(i).map_err(|e| e.to_string())?;
        let found = value(r, i)?;
        let sum = match (found.as_leaf(), offset.as_leaf()) {
            (Some(a), Some(b)) => IntTuple::from(a.add(b).map_err(|e| e.to_string())?),
            _ => found.clone(),
        };
        if sum != *expected {
            return fail(format!("at {i}: {offset} + {found}, not {expected}"));
        }
    }
    Ok(())
}

/// Elements of `up / down` times the width: a mode that is contiguous below an element becomes
/// shorter, and every other stride `up` times smaller; then the reverse for `down`.
pub(crate) fn check_upcast(l: &Layout, up: i64, down: i64, r: &ComposedLayout) -> Check {
    let r = outer(r)?;
    if !l.shape().congruent(r.shape()) {
        return fail(format!("{r} has another profile than {l}"));
    }
    let number = |i: &Int| i.to_static().map_err(|e| e.to_string());
    for ((s, d), (t, e)) in l.as_ref().leaves().zip(r.as_ref().leaves()) {
        let (s, t) = (number(s)?, number(t)?);
        let stride = |d: &tilewright::layout::ScaledBasis| {
            d.value().ok_or("a ratio".to_owned()).and_then(number)
        };
        let (d, e) = (stride(d)?, stride(e)?);
        // The bytes that the mode steps over and spans, before and after.
        let step_fits = t == 1 || d == 0 || d.abs() < up || d * down == e * up;
        let span = |n: i64, d: i64| n * d.abs().max(1);
        let span_fits = d == 0 || span(t, e) * up >= span(s, d.min(1)) * down.min(1);
        if !step_fits || !span_fits {
            return fail(format!("{t}:{e} is not {s}:{d} in units of {up}/{down}"));
        }
    }
    Ok(())
}
