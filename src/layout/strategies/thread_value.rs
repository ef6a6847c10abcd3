//! Random threads and values that cover a tile, as `make_layout_tv` takes and returns them. Use
//! them to test code that assigns the elements of a tile to threads.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::layout::{IntTuple, Layout, make_layout_tv};

/// Builds a compact layout with these extents, whose strides follow the order of the keys.
fn ordered(extents: &[i64], keys: &[u8]) -> Option<Layout> {
    let mut order: Vec<usize> = (0..extents.len()).collect();
    order.sort_by_key(|&mode| keys.get(mode));
    let mut strides = vec![0; extents.len()];
    let mut step = 1;
    for mode in order {
        if extents[mode] > 1 {
            strides[mode] = step;
            step *= extents[mode];
        }
    }
    let shape = IntTuple::from_items(extents.iter().copied()).ok()?;
    Layout::new(shape, IntTuple::from_items(strides).ok()?).ok()
}

/// Generates `(threads, values)` for which [`make_layout_tv`] has a result: compact layouts of the
/// same rank, 1 to 3, in random orders, that cover a tile of up to `max_size` elements. Use it to
/// test code that builds thread-value layouts.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::make_layout_tv;
/// use tilewright::layout::strategies::threads_and_values;
/// proptest!(|((threads, values) in threads_and_values(256))| {
///     let (tile, tv) = make_layout_tv(&threads, &values).unwrap();
///     prop_assert_eq!(tile.product().unwrap(), tv.size().unwrap());
/// });
/// ```
pub fn threads_and_values(max_size: i64) -> impl Strategy<Value = (Layout, Layout)> {
    let extents = || prop::sample::select(vec![1i64, 2, 4, 8, 3, 16]);
    let mode = (extents(), extents(), any::<u8>(), any::<u8>());
    vec(mode, 1..4).prop_filter_map("too large", move |modes| {
        let mut size = 1;
        let mut fitting = |extent: i64| {
            let extent = if size * extent > max_size { 1 } else { extent };
            size *= extent;
            extent
        };
        let threads: Vec<i64> = modes.iter().map(|mode| fitting(mode.0)).collect();
        let values: Vec<i64> = modes.iter().map(|mode| fitting(mode.1)).collect();
        let of_threads: Vec<u8> = modes.iter().map(|mode| mode.2).collect();
        let of_values: Vec<u8> = modes.iter().map(|mode| mode.3).collect();
        Some((ordered(&threads, &of_threads)?, ordered(&values, &of_values)?))
    })
}

/// Generates thread-value layouts with their tile, `(tv, tile)`: `tv((t, v))` is the column-major
/// index in the tile of thread `t`'s value `v`. Each element of the tile belongs to exactly one
/// value of one thread. Use it to test code that copies a tile by threads.
///
/// Half of them number the values in another order than [`make_layout_tv`] does, and a quarter also
/// the threads.
///
/// ```
/// use proptest::prelude::*;
/// use tilewright::layout::strategies::thread_value_layouts;
/// proptest!(|((tv, tile) in thread_value_layouts(256))| {
///     prop_assert!(tv.is_bijective().unwrap(), "{} of {}", tv, tile);
///     prop_assert_eq!(tv.rank(), 2);
/// });
/// ```
pub fn thread_value_layouts(max_size: i64) -> impl Strategy<Value = (Layout, IntTuple)> {
    let turns = (0u8..4, any::<Index>(), any::<Index>());
    (threads_and_values(max_size), turns).prop_filter_map(
        "no layout",
        |((threads, values), (turns, thread, value))| {
            let (tile, tv) = make_layout_tv(&threads, &values).ok()?;
            let (of_threads, of_values) = (tv.get(&[0]).ok()?, tv.get(&[1]).ok()?);
            let of_threads = if turns == 3 { turned(&of_threads, thread)? } else { of_threads };
            let of_values = if turns >= 2 { turned(&of_values, value)? } else { of_values };
            Some((Layout::concat([&of_threads, &of_values]).ok()?, tile))
        },
    )
}

/// Moves the layout's first modes to the end.
fn turned(layout: &Layout, by: Index) -> Option<Layout> {
    if layout.is_leaf() {
        return Some(layout.clone());
    }
    let modes: Vec<Layout> = layout.modes().map(|mode| mode.to_layout()).collect();
    let (first, rest) = modes.split_at(by.index(modes.len()));
    Layout::concat(rest.iter().chain(first)).ok()
}
