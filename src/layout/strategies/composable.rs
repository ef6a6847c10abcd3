//! Random layouts that fit each other, so that their compositions exist. Use them to test
//! operations on two or three layouts.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{layouts, nested};
use crate::layout::{Layout, Tiler, TilerLeaf, Tuple};

/// Describes a mode: its depth, the left-hand leaf that it runs through, and the step and the count
/// inside that leaf.
type Pick = (u8, Index, Index, Index);

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    vec((0u8..2, any::<Index>(), any::<Index>(), any::<Index>()), 1..4)
}

/// Picks a divisor of `n`.
fn divisor(n: i64, at: Index) -> i64 {
    let all: Vec<i64> = (1..=n).filter(|d| n % d == 0).collect();
    at.get(&all).to_owned()
}

/// Returns each leaf's extent and the product of the extents before it.
fn digits(extents: impl Iterator<Item = Option<i64>>) -> Vec<(i64, i64)> {
    let mut size = 1;
    let digit = |extent: Option<i64>| {
        let extent = extent.unwrap_or(1).max(1);
        let before = size;
        size *= extent;
        (extent, before)
    };
    extents.map(digit).collect()
}

/// Builds a layout into the coordinates of `left`. Each of its leaves runs through one leaf of
/// `left` that has more than one element, with a count and a step that divide the extent, and no
/// two run through the same leaf.
fn chosen(left: &Layout, picks: Vec<Pick>) -> Layout {
    let mut free = digits(left.shape().leaves().iter().map(|s| s.as_static()));
    free.retain(|(extent, _)| *extent > 1);
    let mut leaves = Vec::new();
    for (depth, leaf, step, count) in picks {
        if free.is_empty() {
            break;
        }
        let (extent, before) = free.remove(leaf.index(free.len()));
        let count = divisor(extent, count);
        let step = divisor(extent / count, step);
        leaves.push((depth, (count, if count == 1 { 0 } else { before * step })));
    }
    match leaves[..] {
        [] => Layout::trivial(),
        [(0, (count, stride))] => Layout::leaf(count, stride),
        _ => nested(leaves),
    }
}

/// Generates pairs `(a, b)` for which `a o b` exists: `b` maps into the domain of `a`, its steps
/// divide the modes of `a`, and no two of its modes carry into each other. Use it to test a
/// composition of your own: independent layouts rarely compose.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::composable_pairs;
/// proptest!(|((a, b) in composable_pairs(64))| {
///     let r = a.composition(&b).unwrap();
///     for i in 0..b.to_static().unwrap().size() {
///         prop_assert_eq!(r.at(i), a.at(b.at(i).unwrap()));
///     }
/// });
/// ```
pub fn composable_pairs(max_size: i64) -> impl Strategy<Value = (Layout, Layout)> {
    (layouts(max_size), picks()).prop_map(|(a, picks)| {
        let b = chosen(&a, picks);
        (a, b)
    })
}

/// Generates triples `(a, b, c)` for which `a o b`, `b o c`, `(a o b) o c` and `a o (b o c)` exist.
/// The last two are the same function. Use it to test that composition is associative.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::composable_triples;
/// proptest!(|((a, b, c) in composable_triples(64))| {
///     let left = a.composition(&b).unwrap().composition(&c).unwrap();
///     let right = a.composition(&b.composition(&c).unwrap()).unwrap();
///     for i in 0..c.to_static().unwrap().size() {
///         prop_assert_eq!(left.at(i), right.at(i));
///     }
/// });
/// ```
pub fn composable_triples(max_size: i64) -> impl Strategy<Value = (Layout, Layout, Layout)> {
    (layouts(max_size), picks(), picks()).prop_map(|(a, first, second)| {
        let b = chosen(&a, first);
        let c = chosen(&b, second);
        (a, b, c)
    })
}

/// Generates tilers that divide a static layout without remainder, with one tile per mode: an
/// integer, or a layout that may have a step. All four divides by them exist. Use it to test code
/// that tiles.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::{dividing_tilers, layouts};
/// let both = layouts(64).prop_flat_map(|l| (Just(l.clone()), dividing_tilers(&l)));
/// proptest!(|((l, tiler) in both)| {
///     prop_assert_eq!(l.logical_divide(&tiler).unwrap().size(), l.size(), "{} by {}", l, tiler);
/// });
/// ```
pub fn dividing_tilers(layout: &Layout) -> impl Strategy<Value = Tiler> + use<> {
    let modes: Vec<Vec<(i64, i64)>> = layout
        .modes()
        .map(|mode| digits(mode.shape().leaves().iter().map(|s| s.as_static())))
        .collect();
    let rank = modes.len();
    vec((0u8..4, any::<Index>(), any::<Index>(), any::<Index>()), rank).prop_filter_map(
        "too large",
        move |picks| {
            let tile = |(leaves, (kind, leaf, count, step)): (&Vec<(i64, i64)>, Pick)| {
                let (extent, before) = *leaf.get(leaves);
                let count = divisor(extent, count);
                match kind {
                    0 => Layout::leaf(before * count, 1).into(),
                    1 => Layout::leaf(count, before * divisor(extent / count, step)).into(),
                    _ => TilerLeaf::Int((before * count).into()),
                }
            };
            Tuple::from_items(modes.iter().zip(picks).map(tile).map(Tuple::leaf)).ok()
        },
    )
}
