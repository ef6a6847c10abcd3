//! Sorts for short or rarely sorted lists, which keep compile times low.
//!
//! The standard library's sort is compiled again for each type and comparison, and takes longer to
//! compile than the rest of most functions that call it. Here one function sorts indices, for all
//! types, and the items are then moved into place.

use std::cmp::Ordering;

/// Sorts like [`slice::sort_by`], but slower: each comparison is a call through a pointer, and the
/// order of the indices needs memory.
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = ordered(items.len(), &|a, b| compare(&items[a], &items[b]));
    // Each cycle of the permutation moves its items by swaps.
    for start in 0..order.len() {
        let mut to = start;
        loop {
            let from = std::mem::replace(&mut order[to], to);
            if from == start {
                break;
            }
            items.swap(to, from);
            to = from;
        }
    }
}

/// Sorts like [`slice::sort`].
pub(crate) fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, T::cmp);
}

/// Sorts like [`slice::sort_by_key`].
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// Returns the indices below `len`, sorted by the items that they stand for.
fn ordered(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_order_is_that_of_the_standard_library(keys: Vec<u8>) {
            let items: Vec<(u8, usize)> = keys.iter().map(|key| key % 16).zip(0..).collect();
            let (mut found, mut expected) = (items.clone(), items);
            sort_by_key(&mut found, |item| item.0);
            expected.sort_by_key(|item| item.0);
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
