//! The operations, by number.

use tilewright::layout::{
    Analysis as _, ComposedLayout, FastDivmod, IntTuple, Layout, LayoutError, LinearLayout, Ratio, Tiler, TilerLeaf,
    compact_col_major, compact_row_major, crd2crd, crd2idx, domain_distribute, idx2crd,
    idx2crd_with, make_layout_image_mask, make_layout_tv,
};

use super::bytes::Bytes;
use super::oracle::{self, Check};

/// The largest domain on which a definition is checked.
const CHECKED: i64 = 128;
/// The largest magnitude of the numbers there: sums of the oracle stay far from the ends.
const SMALL: i64 = 1 << 24;
/// Results with more leaves are not kept.
const LEAVES: usize = 24;

fn is_small(l: &Layout) -> bool {
    let mut size = 1i64;
    l.as_ref().leaves().all(|(s, d)| match (s.as_static(), d.as_static()) {
        (Some(s), Some(d)) if s > 0 => {
            size = size.saturating_mul(s);
            size <= CHECKED && (0..SMALL).contains(&d)
        }
        _ => false,
    })
}

/// The oracle computes with the strides of the tiler too.
fn has_small_layouts(tiler: &Tiler) -> bool {
    tiler.leaves().iter().all(|leaf| match leaf {
        TilerLeaf::Layout(l) => is_small(l),
        TilerLeaf::Int(_) | TilerLeaf::All => true,
    })
}

fn held(check: Check, what: impl Fn() -> String) {
    if let Err(e) = check {
        panic!("{}: {e}", what());
    }
}

fn composed(l: &Layout) -> ComposedLayout {
    l.clone().into()
}

type Operation<'a> = &'a dyn Fn(&Layout) -> Result<Layout, LayoutError>;

/// An operation on `l`, and on its numbers if it has symbols: the same function.
fn commuting(bytes: &Bytes<'_>, name: &str, l: &Layout, op: Operation<'_>) -> Option<Layout> {
    let made = op(l).ok()?;
    if !l.is_static()
        && let (Ok(left), Ok(numbers)) = (made.eval(&bytes.env), l.eval(&bytes.env))
        && is_small(&left)
        && is_small(&numbers)
    {
        match op(&numbers).and_then(|r| r.eval(&bytes.env)) {
            Ok(right) => held(oracle::check_same(&composed(&left), &composed(&right)), || {
                format!("{name} of {l:?} is {made}, of {numbers} is {right}")
            }),
            Err(e) => panic!("{name} of {l:?} is {made}, of {numbers} an error: {e}"),
        }
    }
    Some(made)
}

/// A few operations, each on one of the operands or results so far.
pub(crate) fn run(bytes: &mut Bytes<'_>) {
    let mut pool = vec![bytes.layout(), bytes.layout()];
    for _ in 0..6 {
        let (op, i, j) = (bytes.byte(), bytes.below(pool.len()), bytes.below(pool.len()));
        let (a, b) = (pool[i].clone(), pool[j].clone());
        if let Some(result) = step(bytes, op % 64, &a, &b)
            && result.shape().leaves().len() <= LEAVES
        {
            let text = result.to_string();
            if result.is_static() {
                match text.parse::<Layout>() {
                    Ok(read) => assert_eq!(read, result, "{text}"),
                    Err(e) => panic!("{text}: {e}"),
                }
            }
            pool.push(result);
        }
        if bytes.is_empty() {
            break;
        }
    }
}

fn step(bytes: &mut Bytes<'_>, op: u8, a: &Layout, b: &Layout) -> Option<Layout> {
    let both = is_small(a) && is_small(b);
    match op {
        0 => {
            let r = commuting(bytes, "coalesce", a, &Layout::coalesce)?;
            if is_small(a) {
                held(oracle::check_coalesce(a, &r), || format!("coalesce {a} = {r}"));
            }
            Some(r)
        }
        1 => {
            let profile = bytes.tuple();
            a.filter_by(&profile).ok();
            commuting(bytes, "coalesce_by", a, &|l| l.coalesce_by(&profile))
        }
        2 => commuting(bytes, "filter", a, &Layout::filter),
        3 => Some(a.filter_zeros()),
        4..=7 => {
            let r = commuting(bytes, "composition", a, &|l| l.composition(b))?;
            if both {
                let check = oracle::check_composition(&composed(a), &composed(b), &composed(&r));
                held(check, || format!("{a} o {b} = {r}"));
            }
            Some(r)
        }
        8 => commuting(bytes, "composition on the right", b, &|l| a.composition(l)),
        9 => {
            let tiler = bytes.tiler();
            let r = commuting(bytes, "composition by mode", a, &|l| l.composition(&tiler))?;
            if is_small(a) && is_small(&r) && has_small_layouts(&tiler) {
                held(oracle::check_composition_by(a, &tiler, &r), || format!("{a} o {tiler} = {r}"));
            }
            Some(r)
        }
        10..=12 => {
            let target = bytes.tuple();
            let r = commuting(bytes, "complement", a, &|l| l.complement(&target))?;
            // The cotarget is a number or a shape.
            let extents = target.leaves().iter().map(|n| n.as_static());
            let extents: Option<Vec<i64>> = extents.collect();
            if is_small(a)
                && is_small(&r)
                && let Some(extents) = extents
                && extents.iter().all(|n| (1..SMALL).contains(n))
            {
                let check = oracle::check_complement(a, &extents, &r);
                held(check, || format!("complement({a}, {target}) = {r}"));
            }
            Some(r)
        }
        13 => a.complement_inner().ok(),
        14 | 15 => {
            let r = a.right_inverse().ok()?;
            if is_small(a) && is_small(&r) {
                let n = r.size().ok()?.as_static()?;
                let check = oracle::check_right_inverse(&composed(a), &composed(&r), n);
                held(check, || format!("right_inverse {a} = {r}"));
            }
            Some(r)
        }
        16 | 17 => {
            // Symbols may have a shorter one than their numbers: modes of extent 1 and stride 0 differ.
            let r = a.left_inverse().ok()?;
            if !a.is_static()
                && let (Ok(numbers), Ok(r)) = (a.eval(&bytes.env), r.eval(&bytes.env))
                && is_small(&numbers)
            {
                held(oracle::check_left_inverse(&composed(&numbers), &composed(&r)), || {
                    format!("left_inverse of {a:?}, which is {numbers}, = {r}")
                });
            }
            if is_small(a) {
                held(oracle::check_left_inverse(&composed(a), &composed(&r)), || {
                    format!("left_inverse {a} = {r}")
                });
            }
            Some(r)
        }
        18 => commuting(bytes, "nullspace", a, &Layout::nullspace),
        19..=21 => {
            let r = commuting(bytes, "logical_divide", a, &|l| l.logical_divide(b))?;
            if both && is_small(&r) {
                held(oracle::check_logical_divide(a, b, &r), || format!("{a} / {b} = {r}"));
            }
            Some(r)
        }
        22 => {
            let tiler = bytes.tiler();
            let r = commuting(bytes, "logical_divide", a, &|l| l.logical_divide(&tiler))?;
            if is_small(a) && is_small(&r) && has_small_layouts(&tiler) {
                held(oracle::check_divide_by(a, &tiler, &r), || format!("{a} / {tiler} = {r}"));
            }
            Some(r)
        }
        23 => {
            let tiler = bytes.tiler();
            commuting(bytes, "zipped_divide", a, &|l| l.zipped_divide(&tiler))
        }
        24 => {
            let tiler = bytes.tiler();
            commuting(bytes, "tiled_divide", a, &|l| l.tiled_divide(&tiler))
        }
        25 => {
            let tiler = bytes.tiler();
            commuting(bytes, "flat_divide", a, &|l| l.flat_divide(&tiler))
        }
        26 | 27 => {
            let r = commuting(bytes, "logical_product", a, &|l| l.logical_product(b))?;
            if both && is_small(&r) {
                held(oracle::check_logical_product(a, b, &r), || format!("{a} x {b} = {r}"));
            }
            Some(r)
        }
        28 => {
            let tiler = bytes.tiler();
            a.zipped_product(&tiler).ok();
            a.tiled_product(&tiler).ok();
            a.flat_product(&tiler).ok()
        }
        29 => a.blocked_product(b).ok(),
        30 => a.raked_product(b).ok(),
        31 => {
            let (target, order) = (bytes.tuple(), bytes.tuple());
            let order = (bytes.byte() % 2 == 0).then_some(&order);
            a.tile_to_shape(&target, order).ok()
        }
        32 => {
            let n = bytes.number();
            commuting(bytes, "upcast", a, &|l| l.upcast(n))
        }
        33 => {
            let n = bytes.number();
            commuting(bytes, "downcast", a, &|l| l.downcast(n))
        }
        34 => {
            let (old, new) = (bytes.number(), bytes.number());
            a.size_in_bytes(old).ok();
            commuting(bytes, "recast_layout", a, &|l| l.recast_layout(old, new))
        }
        35 => {
            let coord = bytes.coord(a.rank());
            a.dice(&coord).ok();
            let (sliced, _) = a.slice_and_offset(&coord).ok()?;
            assert_eq!(a.slice(&coord).ok().as_ref(), Some(&sliced), "{a} at {coord}");
            Some(sliced)
        }
        36 => {
            let coord = bytes.tuple();
            let at = a.crd2idx(&coord);
            let applied = a.apply(&coord);
            if let (Ok(at), Ok(applied)) = (at, applied) {
                assert_eq!(IntTuple::from(at), applied, "{a} at {coord}");
            }
            a.domain_offset(&coord).ok().map(|(l, _)| l)
        }
        37 => {
            let (tiler, coord) = (bytes.tiler(), bytes.coord(2));
            a.local_tile(&tiler, &coord).ok().map(|(l, _)| l)
        }
        38 => a.local_partition(b, &bytes.int(true)).ok().map(|(l, _)| l),
        39 => {
            a.at(bytes.number()).ok();
            let (size, cosize) = (a.size(), a.cosize());
            a.coshape().ok();
            if let (Ok(n), Ok(m)) = (size.and_then(|n| n.to_static()), cosize.and_then(|n| n.to_static()))
                && is_small(a)
            {
                let most = (0..n).filter_map(|i| a.at(i).ok()).max()?;
                assert_eq!(most + 1, m, "cosize of {a}");
            }
            None
        }
        40 => a.flatten().ok(),
        41 => a.unflatten(&bytes.tuple()).ok(),
        42 => a.group(bytes.below(6), bytes.below(6)).ok(),
        43 => a.take(bytes.below(6), bytes.below(6)).ok(),
        44 => a.select(&[bytes.below(5), bytes.below(5)]).ok(),
        45 => a.append(b).ok(),
        46 => a.prepend_to(bytes.below(8), b).ok(),
        47 => a.append_to(bytes.below(8), b).ok(),
        48 => a.replace(bytes.below(5), b).ok(),
        49 => a.zip(b).ok(),
        50 => Layout::concat([a, b]).ok(),
        51 => {
            a.max_common_vector(b).ok();
            a.max_alignment().ok();
            a.max_common_layout(b).ok()
        }
        52 => {
            a.leading_dim();
            a.is_major(&[bytes.below(3)]).ok();
            a.append_ones(bytes.below(7)).ok();
            a.identity_like().ok();
            a.layout_like().ok();
            a.fragment_like().ok()
        }
        53 => {
            let (shape, order) = (bytes.tuple(), bytes.tuple());
            compact_col_major(&shape, &order).ok();
            compact_row_major(&shape, &order).ok();
            Layout::identity(&shape).ok();
            let _ = Layout::row_major(shape.clone());
            domain_distribute(&shape, &bytes.int(true)).ok();
            Layout::ordered(&shape, &order).ok()
        }
        54 => {
            make_layout_image_mask(a, &bytes.tuple(), bytes.below(4)).ok();
            make_layout_tv(a, b).ok().map(|(_, l)| l)
        }
        55 => tuples(bytes),
        56 => scalars(bytes),
        57..=59 => composed_step(bytes, a, b),
        60 => {
            // A drawing is limited in cells, not in time: only small ones and those far too large.
            let size = a.size().ok()?.as_static()?;
            if size <= 64 || size > 1 << 24 {
                let drawing = a.draw();
                drawing.text().ok();
                drawing.svg().ok();
                drawing.latex().ok();
            }
            None
        }
        61 => {
            let matrix = LinearLayout::new(a).ok()?;
            matrix.left_inverse().ok();
            matrix.right_inverse().ok();
            if is_small(a) {
                for i in 0..a.size().ok()?.as_static()? {
                    let at = i64::try_from(matrix.apply(u64::try_from(i).ok()?)).ok();
                    assert_eq!(at, a.at(i).ok(), "the matrix of {a} at {i}");
                }
            }
            matrix.to_layout().ok()
        }
        62 => {
            let size = a.size().ok()?.as_static()?;
            if size <= 4096 || size > 1 << 24 {
                a.is_injective().ok();
                a.is_bijective().ok();
                a.is_contiguous().ok();
                a.image().ok();
            }
            None
        }
        _ => Some(bytes.layout()),
    }
}

fn composed_step(bytes: &mut Bytes<'_>, a: &Layout, b: &Layout) -> Option<Layout> {
    let c = bytes.composed(a.clone());
    let text = c.to_string();
    if c.offset().is_static() && a.is_static() {
        match text.parse::<ComposedLayout>() {
            Ok(read) => assert_eq!(read, c, "{text}"),
            Err(e) => panic!("{text}: {e}"),
        }
    }
    let small = is_small(a) && is_small(b) && c.offset().leaves().iter().all(|o| {
        o.as_static().is_some_and(|o| (0..SMALL).contains(&o))
    });
    match bytes.byte() % 16 {
        0 => {
            let r = c.composition(b).ok()?;
            if small {
                held(oracle::check_composition(&c, &composed(b), &r), || format!("{c} o {b} = {r}"));
            }
            None
        }
        1 => {
            let coord = bytes.coord(a.rank());
            c.slice_and_offset(&coord).ok();
            None
        }
        2 => {
            let r = c.right_inverse().ok()?;
            r.apply(bytes.number()).ok();
            None
        }
        3 => {
            let r = c.left_inverse().ok()?;
            if small {
                held(oracle::check_left_inverse(&c, &r), || format!("left_inverse {c} = {r}"));
            }
            None
        }
        4 => c.upcast(bytes.number()).ok().map(|_| None)?,
        5 => c.downcast(bytes.number()).ok().map(|_| None)?,
        6 => c.recast_layout(bytes.number(), bytes.number()).ok().map(|_| None)?,
        7 => c.complement(&bytes.tuple()).ok(),
        8 => c.domain_offset(&bytes.tuple()).ok().map(|_| None)?,
        9 => {
            let swizzle = bytes.swizzle();
            let r = b.compose_swizzle(swizzle).ok()?;
            r.apply(bytes.number()).ok();
            b.compose_composed(&c).ok();
            swizzle.compose_composed(&c).ok();
            None
        }
        10 => {
            c.max_alignment().ok();
            c.cosize().ok();
            c.max_common_vector(&composed(b)).ok();
            c.max_common_layout(&composed(b)).ok()
        }
        11 => {
            let tiler = bytes.tiler();
            c.local_tile(&tiler, &bytes.coord(2)).ok();
            c.zipped_divide(&tiler).ok();
            None
        }
        12 => {
            b.logical_product_composed(&c).ok();
            None
        }
        13 => c.apply(&bytes.tuple()).ok().map(|_| None)?,
        14 => {
            let matrix = LinearLayout::from_composed(&c).ok()?;
            matrix.inverse().ok();
            matrix.to_layout().ok()
        }
        _ => c.nullspace().ok(),
    }
}

fn tuples(bytes: &mut Bytes<'_>) -> Option<Layout> {
    let (a, b, c) = (bytes.tuple(), bytes.tuple(), bytes.tuple());
    let (i, j) = (bytes.below(5), bytes.below(5));
    let _ = (a.sum(), a.max(), a.min(), a.gcd(), a.product(), a.inner_product(&b));
    let _ = (a.ceil_div(&b), a.shape_div(&b), a.round_up(&b), a.elem_scale(&b), a.compatible(&b));
    let _ = (a.lex_less(&b), a.colex_less(&b), a.elem_less(&b), a.elem_leq(&b), a.increment(&b));
    let _ = (a.congruent(&b), a.weakly_congruent(&b), a.wrap(), a.unwrap_tuple(), a.flatten());
    let _ = (a.unflatten(&b), a.group(i, j), a.take(i, j), a.select(&[i, j]), a.append(&b));
    let _ = (a.insert(i, &b), a.remove(i), a.replace(i, &b), a.repeat(i), a.zip(&b));
    let _ = (a.product_each(), a.product_like(&b), a.append_to(i, &b), a.prepend_to(i, &b));
    let _ = (crd2idx(&a, &b), crd2crd(&a, &b, &c), a.evenly_divides(&bytes.tiler()));
    let _ = a.slice(&bytes.coord(a.rank()));
    if let Ok(l) = Layout::new(&b, &c) {
        let _ = idx2crd_with(&a, &l);
    }
    // The coordinate of an index has this index.
    if let Ok(crd) = idx2crd(&a, &b)
        && let (Some(index), Some(size)) =
            (a.as_static(), b.product().ok().and_then(|n| n.as_static()))
        && b.leaves().iter().all(|s| s.as_static().is_some_and(|s| s > 0))
        && (0..size).contains(&index)
    {
        assert_eq!(crd2idx(&crd, &b).ok().and_then(|i| i.as_static()), Some(index), "{crd} in {b}");
    }
    None
}

fn scalars(bytes: &mut Bytes<'_>) -> Option<Layout> {
    let (x, y) = (bytes.int(true), bytes.int(true));
    let made = match bytes.byte() % 13 {
        0 => x.add(&y),
        1 => x.sub(&y),
        2 => x.mul(&y),
        3 => x.floor_div(&y),
        4 => x.ceil_div(&y),
        5 => x.modulo(&y),
        6 => x.min(&y),
        7 => x.max(&y),
        8 => x.gcd(&y),
        9 => x.shape_div(&y),
        10 => x.round_up(&y),
        11 => x.exact_div(&y),
        _ => x.negate().and_then(|n| n.abs()),
    };
    if let Ok(made) = made
        && let Ok(value) = made.eval(&bytes.env)
    {
        let d = made.divisibility();
        assert!(if d == 0 { value == 0 } else { value % d == 0 }, "{made:?} = {value} by {d}");
        let (low, high) = made.bounds();
        assert!(low <= value && value <= high, "{made:?} = {value} in {low}..={high}");
    }
    let (n, d, m, e) = (bytes.number(), bytes.number(), bytes.number(), bytes.number());
    if let (Ok(p), Ok(q)) = (Ratio::new(n, d), Ratio::new(m, e)) {
        let _ = (p.mul(q), p.div(q), p.add(q), p.sub(q), p.gcd(q), p.abs(), p.floor(), p < q);
    }
    let swizzle = bytes.swizzle();
    assert_eq!(swizzle.inverse().apply(swizzle.apply(n)), n, "{swizzle} of {n}");
    let _ = (swizzle.apply_int(&x), swizzle.compose(bytes.swizzle()), swizzle.recast(n, d));
    let _ = (swizzle.upcast(n), swizzle.downcast(n));
    if let Ok(fast) = FastDivmod::new(d)
        && let (Ok(by), Ok(n)) = (u32::try_from(d), u32::try_from(n))
    {
        assert_eq!(fast.divmod(n), (n / by, n % by), "{n} by {by}");
    }
    None
}
