//! The operations on layouts, by number.

use tilewright::layout::{
    Analysis as _, IntTuple, Layout, LinearLayout, Tiler, TilerLeaf,
    compact_col_major, compact_row_major, domain_distribute, make_layout_image_mask,
    make_layout_tv,
};

use super::bytes::Bytes;
use super::numbers::{SMALL, commuting, held, is_small};
use super::{composed_layouts, oracle, scalars};

/// Results with more leaves are not kept.
const LEAVES: usize = 24;

/// The oracle computes with the strides of the tiler too.
fn has_small_layouts(tiler: &Tiler) -> bool {
    tiler.leaves().iter().all(|leaf| match leaf {
        TilerLeaf::Layout(l) => is_small(l),
        TilerLeaf::Int(_) | TilerLeaf::All => true,
    })
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
            reads_back(bytes, &result);
            pool.push(result);
        }
        if bytes.is_empty() {
            break;
        }
    }
}

/// Checks that a printed value reads back as the same value. The conditions of symbols are not printed, so with symbols
/// the numbers are compared.
fn reads_back(bytes: &Bytes<'_>, result: &Layout) {
    let text = format!("{result:+}");
    let read: Layout = match text.parse() {
        Ok(read) => read,
        // Without its conditions a value may be seen to have none.
        Err(e) => {
            let valued = bytes.envs.iter().any(|env| result.eval(env).is_ok());
            assert!(!result.is_static() && !valued, "{text}: {e}");
            return;
        }
    };
    if result.is_static() {
        assert_eq!(read, *result, "{text}");
    }
    for env in &bytes.envs {
        if let (Ok(wanted), Ok(found)) = (result.eval(env), read.eval(env)) {
            assert_eq!(found, wanted, "{text} for {env:?}");
        }
    }
}

fn step(bytes: &mut Bytes<'_>, op: u8, a: &Layout, b: &Layout) -> Option<Layout> {
    let both = is_small(a) && is_small(b);
    match op {
        0 => {
            let r = commuting(bytes, "coalesce", a, &(), |l, ()| l.coalesce())?;
            if is_small(a) {
                held(oracle::check_coalesce(a, &r), || format!("coalesce {a} = {r}"));
            }
            Some(r)
        }
        1 => {
            let profile = bytes.tuple();
            commuting(bytes, "filter_by", a, &profile, |l, p| l.filter_by(p));
            commuting(bytes, "coalesce_by", a, &profile, |l, p| l.coalesce_by(p))
        }
        2 => commuting(bytes, "filter", a, &(), |l, ()| l.filter()),
        3 => commuting(bytes, "filter_zeros", a, &(), |l, ()| Ok(l.filter_zeros())),
        4..=8 => {
            let r = commuting(bytes, "composition", a, b, |l, r| l.composition(r))?;
            if both {
                let check = oracle::check_composition(a, b, &r);
                held(check, || format!("{a} o {b} = {r}"));
            }
            Some(r)
        }
        9 => {
            let tiler = bytes.tiler();
            let r = commuting(bytes, "composition", a, &tiler, |l, t| l.composition(t))?;
            if is_small(a) && is_small(&r) && has_small_layouts(&tiler) {
                held(oracle::check_composition_by(a, &tiler, &r), || {
                    format!("{a} o {tiler} = {r}")
                });
            }
            Some(r)
        }
        10..=12 => {
            let target = bytes.tuple();
            let r = commuting(bytes, "complement", a, &target, |l, n| l.complement(n))?;
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
        13 => commuting(bytes, "complement_inner", a, &(), |l, ()| l.complement_inner()),
        14 | 15 => {
            // Symbols may have a shorter one than their numbers.
            let r = a.right_inverse().ok()?;
            for env in &bytes.envs {
                if let (Ok(l), Ok(r)) = (a.eval(env), r.eval(env))
                    && is_small(&l)
                    && is_small(&r)
                {
                    let n = r.size().ok()?.as_static()?;
                    let check = oracle::check_right_inverse(&l, &r, n);
                    held(check, || format!("right_inverse of {a:?}, which is {l}, = {r}"));
                }
            }
            Some(r)
        }
        16 | 17 => {
            // Symbols may have a longer one than their numbers: modes of extent 1 and stride 0 differ.
            let r = a.left_inverse().ok()?;
            for env in &bytes.envs {
                if let (Ok(l), Ok(r)) = (a.eval(env), r.eval(env))
                    && is_small(&l)
                {
                    let check = oracle::check_left_inverse(&l, &r);
                    held(check, || format!("left_inverse of {a:?}, which is {l}, = {r}"));
                }
            }
            Some(r)
        }
        18 => commuting(bytes, "nullspace", a, &(), |l, ()| l.nullspace()),
        19..=21 => {
            let r = commuting(bytes, "logical_divide", a, b, |l, t| l.logical_divide(t))?;
            if both && is_small(&r) {
                held(oracle::check_logical_divide(a, b, &r), || format!("{a} / {b} = {r}"));
            }
            Some(r)
        }
        22 => {
            let tiler = bytes.tiler();
            let r = commuting(bytes, "logical_divide", a, &tiler, |l, t| l.logical_divide(t))?;
            if is_small(a) && is_small(&r) && has_small_layouts(&tiler) {
                held(oracle::check_logical_divide(a, &tiler, &r), || format!("{a} / {tiler} = {r}"));
            }
            Some(r)
        }
        23 => {
            let tiler = bytes.tiler();
            commuting(bytes, "zipped_divide", a, &tiler, |l, t| l.zipped_divide(t))
        }
        24 => {
            let tiler = bytes.tiler();
            commuting(bytes, "tiled_divide", a, &tiler, |l, t| l.tiled_divide(t))
        }
        25 => {
            let tiler = bytes.tiler();
            commuting(bytes, "flat_divide", a, &tiler, |l, t| l.flat_divide(t))
        }
        26 | 27 => {
            let r = commuting(bytes, "logical_product", a, b, |l, t| l.logical_product(t))?;
            if both && is_small(&r) {
                held(oracle::check_logical_product(a, b, &r), || format!("{a} x {b} = {r}"));
            }
            Some(r)
        }
        28 => {
            let tiler = bytes.tiler();
            commuting(bytes, "zipped_product", a, &tiler, |l, t| l.zipped_product(t));
            commuting(bytes, "tiled_product", a, &tiler, |l, t| l.tiled_product(t));
            commuting(bytes, "flat_product", a, &tiler, |l, t| l.flat_product(t))
        }
        29 => commuting(bytes, "blocked_product", a, b, |l, t| l.blocked_product(t)),
        30 => commuting(bytes, "raked_product", a, b, |l, t| l.raked_product(t)),
        31 => {
            let (target, order) = (bytes.tuple(), bytes.tuple());
            // Symbols come last in an order, whatever their numbers.
            let order = order.eval(&bytes.envs[0]).ok().filter(|_| bytes.byte() % 2 == 0);
            commuting(bytes, "tile_to_shape", a, &(target, order), |l, (target, order)| {
                l.tile_to_shape(target, order.as_ref())
            })
        }
        32 => {
            let n = bytes.number();
            commuting(bytes, "upcast", a, &(), |l, ()| l.upcast(n))
        }
        33 => {
            let n = bytes.number();
            commuting(bytes, "downcast", a, &(), |l, ()| l.downcast(n))
        }
        34 => {
            let (old, new) = (bytes.number(), bytes.number());
            commuting(bytes, "size_in_bytes", a, &(), |l, ()| l.size_in_bytes(old));
            commuting(bytes, "recast_layout", a, &(), |l, ()| l.recast_layout(old, new))
        }
        35 => {
            let coord = bytes.coord(a.rank());
            commuting(bytes, "dice", a, &coord, |l, c| l.dice(c));
            let at = commuting(bytes, "slice", a, &coord, |l, c| l.slice_and_offset(c))?;
            assert_eq!(a.slice(&coord).ok().as_ref(), Some(&at.0), "{a} at {coord}");
            Some(at.0)
        }
        36 => {
            let coord = bytes.tuple();
            let at = commuting(bytes, "crd2idx", a, &coord, |l, c| l.crd2idx(c));
            let applied = commuting(bytes, "apply", a, &coord, |l, c| l.apply(c));
            if let (Some(at), Some(applied)) = (at, applied) {
                assert_eq!(IntTuple::from(at), applied, "{a} at {coord}");
            }
            commuting(bytes, "domain_offset", a, &coord, |l, c| l.domain_offset(c)).map(|(l, _)| l)
        }
        37 => {
            // The coordinate is one of the modes of the rest, which symbols may have more of than numbers.
            let (tiler, coord) = (bytes.tiler(), bytes.coord(2));
            a.local_tile(&tiler, &coord).ok().map(|(l, _)| l)
        }
        38 => {
            // The conditions on the extents of the tile go with it.
            a.local_partition(b, &bytes.int(true)).ok().map(|(l, _)| l)
        }
        39 => {
            let index = bytes.number();
            a.at(index).ok();
            let size = commuting(bytes, "size", a, &(), |l, ()| l.size())?;
            let cosize = commuting(bytes, "cosize", a, &(), |l, ()| l.cosize())?;
            commuting(bytes, "coshape", a, &(), |l, ()| l.coshape());
            if let (Some(n), Some(m)) = (size.as_static(), cosize.as_static())
                && is_small(a)
            {
                let most = (0..n).filter_map(|i| a.at(i).ok()).max()?;
                assert_eq!(most + 1, m, "cosize of {a}");
            }
            None
        }
        40 => commuting(bytes, "flatten", a, &(), |l, ()| l.flatten()),
        41 => {
            let profile = bytes.tuple();
            commuting(bytes, "unflatten", a, &profile, |l, p| l.unflatten(p))
        }
        42 => a.group(bytes.below(6), bytes.below(6)).ok(),
        43 => a.take(bytes.below(6), bytes.below(6)).ok(),
        44 => a.select(&[bytes.below(5), bytes.below(5)]).ok(),
        45 => a.append(b).ok(),
        46 => a.prepend_to(bytes.below(8), b).ok(),
        47 => a.append_to(bytes.below(8), b).ok(),
        48 => a.replace(bytes.below(5), b).ok(),
        49 => commuting(bytes, "zip", a, b, |l, r| l.zip(r)),
        50 => Layout::concat([a, b]).ok(),
        51 => {
            // Of symbols the common part may be shorter, and the alignment less.
            a.max_common_vector(b).ok();
            a.max_alignment().ok();
            let common = a.max_common_layout(b).ok()?;
            for env in &bytes.envs {
                if let (Ok(x), Ok(y), Ok(r)) = (a.eval(env), b.eval(env), common.eval(env))
                    && is_small(&x)
                    && is_small(&y)
                    && is_small(&r)
                {
                    let n = r.size().ok()?.as_static()?;
                    for l in [&x, &y] {
                        let check = oracle::check_right_inverse(l, &r, n);
                        held(check, || format!("common layout of {a:?} and {b:?} = {common}, {r}"));
                    }
                }
            }
            Some(common)
        }
        52 => {
            a.leading_dim();
            a.is_major(&[bytes.below(3)]).ok();
            a.append_ones(bytes.below(7)).ok();
            a.identity_like().ok();
            // Which stride is the smaller is not known of all symbols, and is not the same for all numbers.
            a.layout_like().ok();
            a.fragment_like().ok()
        }
        53 => {
            let (shape, order, n) = (bytes.tuple(), bytes.tuple(), bytes.int(true));
            // Modes of extent 1 have another stride for symbols, and the same values.
            commuting(bytes, "compact_col_major", &shape, &order, |s, start| {
                Layout::new(s, &compact_col_major(s, start)?)
            });
            commuting(bytes, "compact_row_major", &shape, &order, |s, start| {
                Layout::new(s, &compact_row_major(s, start)?)
            });
            commuting(bytes, "row_major", &shape, &(), |s, ()| Ok(Layout::row_major(s.clone())));
            commuting(bytes, "domain_distribute", &shape, &n, domain_distribute);
            Layout::identity(&shape).ok();
            Layout::ordered(&shape, &order).ok()
        }
        54 => {
            make_layout_image_mask(a, &bytes.tuple(), bytes.below(4)).ok();
            commuting(bytes, "make_layout_tv", a, b, make_layout_tv).map(|(_, l)| l)
        }
        55 => scalars::tuples(bytes),
        56 => scalars::scalars(bytes),
        57..=59 => composed_layouts::step(bytes, a, b),
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
            if size <= 512 || size > 1 << 24 {
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
