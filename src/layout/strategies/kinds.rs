//! Random layouts of one kind: one-to-one, with negative strides, swizzled, or with symbols. Use
//! them if a law holds, or if your code works, only for layouts of that kind.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{extents, layouts, nested, symbols, with_symbols};
use crate::layout::{ComposedLayout, Env, IntTuple, Layout, ScaledBasis, Swizzle};

/// Generates one-to-one layouts: compact in a random order of their leaves, with gaps after some of
/// them. Use it to test inverses, for example.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::injective_layouts;
/// proptest!(|(l in injective_layouts(64))| {
///     let mut indices: Vec<i64> = l.indices().unwrap().collect();
///     indices.sort_unstable();
///     prop_assert!(indices.windows(2).all(|pair| pair[0] < pair[1]));
/// });
/// ```
pub fn injective_layouts(max_size: i64) -> impl Strategy<Value = Layout> {
    let gap = prop_oneof![3 => Just(1), 1 => 2..4i64];
    vec((0u8..2, extents(), any::<u8>(), gap), 1..5).prop_map(move |modes| {
        let (mut size, mut step) = (1, 1);
        let mut leaves: Vec<(u8, (i64, i64))> = Vec::new();
        for (depth, extent, _, _) in &modes {
            let extent = if size * extent > max_size { 1 } else { *extent };
            size *= extent;
            leaves.push((*depth, (extent, 0)));
        }
        let mut order: Vec<usize> = (0..modes.len()).collect();
        order.sort_by_key(|&i| modes[i].2);
        for i in order {
            let (_, (extent, stride)) = &mut leaves[i];
            if *extent > 1 {
                *stride = step;
                step *= *extent * modes[i].3;
            }
        }
        match leaves[..] {
            [(0, (extent, stride))] => Layout::leaf(extent, stride),
            _ => nested(leaves),
        }
    })
}

/// Generates layouts with at least one negative stride. Use it to test code that claims to support
/// them.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::negative_layouts;
/// proptest!(|(l in negative_layouts(64))| {
///     let strides = l.stride().leaves();
///     prop_assert!(strides.iter().any(|d| d.as_static() < Some(0)));
/// });
/// ```
pub fn negative_layouts(max_size: i64) -> impl Strategy<Value = Layout> {
    (layouts(max_size), any::<Index>()).prop_map(|(layout, at)| {
        let strides: Vec<i64> =
            layout.stride().leaves().iter().map(|d| d.as_static().unwrap_or(0)).collect();
        let at = at.index(strides.len());
        let mut leaf = 0;
        let stride = layout.stride().to_owned().map(|_: &ScaledBasis| {
            let found = strides[leaf];
            let stride = if leaf == at { -found.abs().max(1) } else { found };
            leaf += 1;
            Ok::<_, std::convert::Infallible>(ScaledBasis::from(stride))
        });
        let Ok(stride) = stride;
        Layout::new(layout.shape().to_owned(), stride).unwrap_or(layout)
    })
}

/// Generates swizzled layouts that map one-to-one onto `0..size`: a compact layout of powers of two
/// in a random order, with a swizzle of its own bits. The sizes are 4 to `max_size`. Use it to test
/// code for swizzled shared memory.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::swizzled_layouts;
/// proptest!(|(l in swizzled_layouts(64))| {
///     let n = l.size().unwrap().to_static().unwrap();
///     let mut indices: Vec<i64> = (0..n).map(|i| l.crd2idx(i).unwrap().to_static().unwrap()).collect();
///     indices.sort_unstable();
///     prop_assert!(indices.into_iter().eq(0..n), "{}", l);
/// });
/// ```
pub fn swizzled_layouts(max_size: i64) -> impl Strategy<Value = ComposedLayout> {
    let max = max_size.max(4).ilog2();
    let leaves = vec((1u32..5, any::<u8>()), 1..5);
    let swizzle = (any::<Index>(), any::<Index>(), any::<Index>(), any::<bool>());
    (leaves, swizzle).prop_filter_map("not admissible", move |(leaves, (b, m, s, negative))| {
        let mut all = 0;
        let mut bits: Vec<u32> = Vec::new();
        for (wanted, _) in &leaves {
            let room = (*wanted).min(max - all);
            all += room;
            bits.push(room);
        }
        if all < 2 {
            bits[0] = 2;
            all = bits.iter().sum();
        }
        let mut order: Vec<usize> = (0..leaves.len()).collect();
        order.sort_by_key(|&i| leaves[i].1);
        let (mut strides, mut bit) = (vec![0i64; leaves.len()], 0);
        for i in order {
            strides[i] = if bits[i] == 0 { 0 } else { 1 << bit };
            bit += bits[i];
        }
        let shape = IntTuple::from_items(bits.iter().map(|bits| 1i64 << bits)).ok()?;
        let layout = Layout::new(shape, IntTuple::from_items(strides).ok()?).ok()?;
        // `bits` bits from `base` on, and as many `shift` bits above, all below `all`.
        let all = usize::try_from(all).ok()?;
        let bits = 1 + b.index(all / 2);
        let base = m.index(all - 2 * bits + 1);
        let shift = bits + s.index(all - base - 2 * bits + 1);
        let number = |n: usize| i64::try_from(n).ok();
        let shift = if negative { -number(shift)? } else { number(shift)? };
        Swizzle::new(number(bits)?, number(base)?, shift).ok()?.compose_layout(&layout).ok()
    })
}

/// Generates layouts with symbols, each with an environment that has the symbols' values. It is
/// [`symbolic`](super::symbolic) on [`layouts`], but a counterexample shrinks to few symbols. Use
/// it to test operations on symbolic layouts.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::symbolic_layouts;
/// proptest!(|((l, env) in symbolic_layouts(64))| {
///     let size = l.size().unwrap().eval(&env).unwrap();
///     prop_assert_eq!(size, l.eval(&env).unwrap().to_static().unwrap().size());
/// });
/// ```
pub fn symbolic_layouts(max_size: i64) -> impl Strategy<Value = (Layout, Env)> {
    // Not `prop_flat_map`: it would draw new symbols for each smaller layout, so that shrinking
    // would hardly end.
    (layouts(max_size), symbols(4)).prop_map(|(layout, picks)| with_symbols(&layout, picks))
}
