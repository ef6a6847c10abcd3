//! All small layouts of rank 1 to 3 with the signs of their strides: an operation satisfies its
//! law, and refuses if and only if a search by brute force finds no result. `TILEWRIGHT_SLOW=1`
//! tries all, otherwise an even sample.

use tilewright::layout::laws::{
    all_layouts, check_complement, check_left_inverse, check_logical_divide, check_logical_product,
    check_longest_right_inverse, check_right_inverse,
};
use tilewright::layout::{IntTuple, Layout};

use crate::laws::{exists, left_inverse_is_as_promised};
use crate::support::slow::sample;
use crate::theorems::tiles;

/// The layouts for operations on one layout: 143,364.
fn layouts(every: usize) -> impl Iterator<Item = Layout> {
    sample(every, all_layouts(1..=3, 1..=4, -4..=8))
}

/// The pairs for operations on two layouts, the first up to rank 3, the second up to rank 2:
/// 2,111,508.
fn pairs(every: usize) -> impl Iterator<Item = (Layout, Layout)> {
    let first: Vec<Layout> = all_layouts(1..=3, 1..=3, -1..=4).collect();
    let second: Vec<Layout> = all_layouts(1..=2, 1..=3, -1..=4).collect();
    let count = second.len();
    // A step that shares no factor with the number of second layouts meets all of them.
    let all = sample(every, 0..first.len() * count);
    all.map(move |i| (first[i / count].clone(), second[i % count].clone()))
}

fn values(l: &Layout) -> Vec<i64> {
    l.indices().unwrap().collect()
}

fn extents(l: &Layout) -> Vec<i64> {
    l.to_static().unwrap().leaves().map(|(s, _)| s).collect()
}

/// The modes of `filter(L)` by their strides, as stride and extent.
fn sorted(l: &Layout) -> Vec<(i64, i64)> {
    let filtered = l.filter().unwrap();
    let leaves = filtered.to_static().unwrap().leaves().filter(|(s, _)| *s > 1);
    let mut modes: Vec<(i64, i64)> = leaves.map(|(s, d)| (d, s)).collect();
    modes.sort_unstable();
    modes
}

/// Where a set tiles the numbers from 0 on together with the elements of `L`, the complement is
/// that set. It is refused only if there is no such set for any size: for a negative stride, and if
/// a mode reaches past the next stride.
#[test]
fn complements() {
    let (mut tiled, mut accepted, mut refused) = (0, 0, 0);
    for l in layouts(29) {
        let modes = sorted(&l);
        let past = modes.windows(2).any(|pair| pair[0].0 * pair[0].1 > pair[1].0);
        let negative = modes.iter().any(|(d, _)| *d < 0);
        let all = values(&l.filter().unwrap());
        let reach = all.iter().max().unwrap() + 1;
        for n in [1, reach, 2 * reach, 24, 64] {
            let target = IntTuple::from(n);
            let tiling = tiles(&all, n);
            match l.complement(&target) {
                Ok(r) => {
                    accepted += 1;
                    check_complement(&l, &target, &r).unwrap();
                    assert!(!past && !negative, "{l} in {n}: {r}");
                    if let Some(tiling) = tiling {
                        tiled += 1;
                        assert_eq!(values(&r), tiling, "{l} in {n}: {r}");
                    }
                }
                Err(e) => {
                    refused += 1;
                    assert!(past || negative, "{l} in {n}: {e}");
                    assert_eq!(tiling, None, "{l} in {n}: {e}");
                }
            }
        }
    }
    assert!(tiled > 200 && accepted > 1000 && refused > 1000, "{tiled}, {accepted}, {refused}");
}

/// The right inverse is never refused and no chain of leaves is longer. If the layout is one-to-one
/// and its strides are not negative, no function at all is: the next index is not reached.
#[test]
fn right_inverses() {
    for l in layouts(29) {
        let r = l.right_inverse().unwrap();
        check_right_inverse(&l, &r).unwrap();
        check_longest_right_inverse(&l, &r).unwrap();
        let strides = l.to_static().unwrap().leaves().filter(|(s, _)| *s > 1);
        if l.is_injective().unwrap() && strides.into_iter().all(|(_, d)| d >= 0) {
            let next = r.to_static().unwrap().size();
            assert!(!values(&l).contains(&next), "{l}: {r} stops before {next}");
        }
    }
}

/// The left inverse that has an end of a mode at each stride of the layout is refused if and only
/// if the strides do not divide each other.
#[test]
fn left_inverses() {
    for l in layouts(29) {
        left_inverse_is_as_promised(&l).unwrap();
    }
    // In other modes there may be one although the strides do not divide: this is not looked for.
    let l: Layout = "(2,2):(2,3)".parse().unwrap();
    assert!(l.left_inverse().is_err());
    check_left_inverse(&l, "(2,3):(1,1)".parse::<Layout>().unwrap()).unwrap();
}

/// The layout with contiguous modes merged and extents 1 dropped, but for the last mode, which goes
/// on beyond the layout, and with each mode but the last that a tile of so many elements does not
/// divide rounded up.
fn padded(l: &Layout, mut tile: i64) -> Layout {
    let mut leaves: Vec<(i64, i64)> = Vec::new();
    let all: Vec<(i64, i64)> = l.to_static().unwrap().leaves().collect();
    for (i, &(s, d)) in all.iter().enumerate() {
        match leaves.last_mut() {
            _ if s == 1 && i + 1 < all.len() => {}
            Some((t, e)) if *t * *e == d => *t *= s,
            _ => leaves.push((s, d)),
        }
    }
    for (s, _) in &mut leaves {
        let extent = *s;
        if extent > tile {
            *s = (extent + tile - 1) / tile * tile;
        }
        tile = (tile + extent - 1) / extent;
    }
    let (shape, stride): (Vec<i64>, Vec<i64>) = leaves.into_iter().unzip();
    let [shape, stride] = [shape, stride].map(|entries| IntTuple::from_items(entries).unwrap());
    Layout::new(shape, stride).unwrap()
}

/// True if a layout is `i -> A(B(i))` with `A` continued beyond its size.
fn composes(a: &Layout, b: &Layout) -> bool {
    let values: Vec<i64> = values(b).into_iter().map(|i| a.at(i).unwrap()).collect();
    exists(&values, &extents(b))
}

/// The layout with strides so far apart that a value says which coordinate it has.
fn with_strides_apart(l: &Layout) -> Layout {
    let rank = extents(l).len();
    let strides = (0..rank).map(|i| 1000i64.pow(u32::try_from(i).unwrap()));
    Layout::new(l.shape(), IntTuple::from_items(strides).unwrap()).unwrap()
}

/// A divide is refused if and only if the tile has no complement, or the coordinates of the layout
/// after the pair of the tile and the complement are no layout. Each alone may be one:
/// `(3,1):(2,-1)` after `2:2` and after its complement `2:1` is `2:4` and `2:2`, but index 3 of the
/// pair is not `4 + 2`, because it is the first of the next column, -1.
///
/// If the coordinates are a layout, so are the values. The other way round it takes a layout of
/// three modes or more, in which a carry into one mode and a carry out of it cancel:
/// `(2,2,2):(1,0,2)` at 3, at 1 and at 4 is 1, 1 and 2, but the coordinates are (1,1,0), (1,0,0)
/// and (0,0,1).
#[test]
fn divides() {
    let (mut accepted, mut refused, mut cancelled) = (0, 0, 0);
    for (l, tile) in pairs(211) {
        let target = l.coalesce().unwrap().shape().to_owned();
        let (mut possible, mut agrees) = (false, false);
        if let Ok(complement) = tile.complement(&target) {
            let whole = sorted(&tile).last().map_or(1, |(d, s)| d * s);
            let (l, pair) = (padded(&l, whole), Layout::concat([&tile, &complement]).unwrap());
            agrees = composes(&l, &pair);
            possible = agrees && composes(&with_strides_apart(&l), &pair);
        }
        match l.logical_divide(&tile) {
            Ok(r) => {
                accepted += 1;
                check_logical_divide(&l, &tile, &r).unwrap();
                assert!(possible, "{l} / {tile} = {r}");
            }
            Err(e) => {
                refused += 1;
                assert!(!possible, "{l} / {tile}: {e}");
                if agrees {
                    cancelled += 1;
                    assert!(extents(&l).len() > 2, "{l} / {tile}: {e}");
                }
            }
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
    assert!(cancelled * 100 < refused, "{cancelled} of {refused} agree by chance");
}

/// A product is refused if and only if the block has no complement, or the complement after the
/// tile is no layout.
#[test]
fn products() {
    let (mut accepted, mut refused) = (0, 0);
    for (block, tile) in pairs(211) {
        let cosize = tile.to_static().unwrap().cosize();
        let target = block.to_static().unwrap().size() * cosize;
        let possible =
            block.complement(&target.into()).is_ok_and(|complement| composes(&complement, &tile));
        match block.logical_product(&tile) {
            Ok(r) => {
                accepted += 1;
                check_logical_product(&block, &tile, &r).unwrap();
                assert!(possible, "{block} x {tile} = {r}");
            }
            Err(e) => {
                refused += 1;
                assert!(!possible, "{block} x {tile}: {e}");
            }
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}
