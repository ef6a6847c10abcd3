//! [`Sorted`]: a list of elements, sorted over the lanes of a warp.

use crate::ir::{Body, Shared, Val, Var, Vector, WARP};

/// A value and its column.
pub(super) type Entry<'c> = (Val<'c, f32>, Val<'c, i32>);

/// No element: behind each element.
pub(super) const NONE: (f32, i32) = (f32::NEG_INFINITY, i32::MAX);

/// A list of the best elements, sorted over the lanes of a warp: lane `i` has number `i`, and number `32 + i` if there are as
/// many.
pub(super) struct Sorted<'b> {
    pub(super) entries: Vec<(Var<'b, f32>, Var<'b, i32>)>,
}

impl<'b> Sorted<'b> {
    /// A list of `32 * lists` elements that are none.
    pub(super) fn new(k: &Body<'b, '_>, lists: u32) -> Sorted<'b> {
        Sorted { entries: (0..lists).map(|_| (k.var(NONE.0), k.var(NONE.1))).collect() }
    }

    /// Adds an element of each lane.
    pub(super) fn add(&self, k: &Body<'b, '_>, mut entry: Entry<'b>) {
        // A bitonic sort over the lanes, the last element first.
        for size in [2, 4, 8, 16, 32] {
            let descends = (k.lane_id() & size).ne(0);
            let mut stride = size / 2;
            while stride > 0 {
                entry = exchange(k, entry, stride, descends);
                stride /= 2;
            }
        }
        let none = (k.constant(NONE.0), k.constant(NONE.1));
        let mut others = vec![none; self.entries.len() - 1];
        others.push(entry);
        self.merge(k, &others);
    }

    /// Merges sorted elements, which come from the last one to the first one: a step of a bitonic sort.
    fn merge(&self, k: &Body<'b, '_>, others: &[Entry<'b>]) {
        let better = |(own, other): (&(Var<'b, f32>, Var<'b, i32>), &Entry<'b>)| {
            let own = (own.0.get(k), own.1.get(k));
            choose(is_better(own, *other), own, *other)
        };
        let mut found: Vec<Entry<'b>> = self.entries.iter().zip(others).map(better).collect();
        if let [a, b] = found[..] {
            let is_first = is_better(a, b);
            found = vec![choose(is_first, a, b), choose(is_first, b, a)];
        }
        for ((value, column), mut own) in self.entries.iter().zip(found) {
            for stride in [16, 8, 4, 2, 1] {
                own = exchange(k, own, stride, k.constant(true));
            }
            value.set(k, own.0);
            column.set(k, own.1);
        }
    }

    /// Stores the list to a warp's part of shared memory.
    pub(super) fn store(&self, k: &Body<'b, '_>, list: Val<'b, Shared<u64>>) {
        for (number, (value, column)) in (0..).zip(&self.entries) {
            list.store(k, k.lane_id() + number * 32, packed((value.get(k), column.get(k))));
        }
    }

    /// Merges the list that another warp has stored.
    pub(super) fn merge_stored(&self, k: &Body<'b, '_>, list: Val<'b, Shared<u64>>) {
        let last = self.entries.len() as i32 * 32 - 1;
        let load = |number| {
            let at = -k.lane_id() + (last - number * 32);
            unpacked(list.load(k, at))
        };
        let others: Vec<_> = (0..).zip(&self.entries).map(|(number, _)| load(number)).collect();
        self.merge(k, &others);
    }
}

/// Returns the better one of the elements of a lane and the one `stride` lanes from it to the lower lane, if the lanes descend,
/// else to the higher lane; the other one to the other lane.
fn exchange<'c>(
    k: &Body<'c, '_>,
    own: Entry<'c>,
    stride: i32,
    descends: Val<'c, bool>,
) -> Entry<'c> {
    let at = stride as u32;
    let other = (k.shfl_bfly(WARP, own.0, at), k.shfl_bfly(WARP, own.1, at));
    let is_upper = (k.lane_id() & stride).ne(0);
    choose(is_better(own, other) ^ is_upper ^ !descends, own, other)
}

/// Returns true if `a` comes before `b`.
pub(super) fn is_better<'c>(a: Entry<'c>, b: Entry<'c>) -> Val<'c, bool> {
    a.0.gt(b.0) | (a.0.eq(b.0) & a.1.lt(b.1))
}

fn choose<'c>(condition: Val<'c, bool>, a: Entry<'c>, b: Entry<'c>) -> Entry<'c> {
    (condition.select(a.0, b.0), condition.select(a.1, b.1))
}

/// Returns an element as one word, for shared memory.
pub(super) fn packed<'c>((value, column): Entry<'c>) -> Val<'c, u64> {
    Val::pack([value.bitcast::<u32>(), column.bitcast::<u32>()]).bitcast::<u64>()
}

/// Returns the element of a word.
pub(super) fn unpacked(word: Val<'_, u64>) -> Entry<'_> {
    let [value, column] = word.bitcast::<Vector<u32, 2>>().lanes();
    (value.bitcast::<f32>(), column.bitcast::<i32>())
}
