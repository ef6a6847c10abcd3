//! [`Best`]: the best elements that a warp has seen.

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{Body, Global, Shared, Val, Var, Vector, WARP, f16};
use crate::tensor::{RowPointer, tree};

/// A value and its column. An element comes before another one if its value is larger, or equal and its column is lower.
pub(super) type Entry<'c> = (Val<'c, f32>, Val<'c, i32>);

/// No element: behind each element.
const NONE: (f32, i32) = (f32::NEG_INFINITY, i32::MAX);

/// The best elements of a row that a warp has seen, in a sorted list over its lanes, and candidates in shared memory. 32 candidates are
/// merged into the list at once. The last element of the list is the bound that further ones must come before.
pub(super) struct Best<'b, T> {
    row: Val<'b, Global<T>>,
    /// Lane `i` has number `i` of the list, and number `32 + i` of a list of 64.
    list: Vec<(Var<'b, f32>, Var<'b, i32>)>,
    /// The columns of the candidates, and their number: below 32, except while some are added.
    candidates: Val<'b, Shared<i32>>,
    len: Var<'b, u32>,
    bound: (Var<'b, f32>, Var<'b, i32>),
    count: u32,
}

impl<'b, T: Converted> Best<'b, T> {
    /// The elements of shared memory that a warp needs.
    pub(super) const SLOTS: u32 = 64;

    /// None of the `count` best elements, 1 to 64, of a row. `shared` has [`SLOTS`](Best::SLOTS) elements.
    pub(super) fn new(
        k: &Body<'b, '_>,
        row: Val<'b, Global<T>>,
        count: u32,
        shared: Val<'b, Shared<u64>>,
    ) -> Self {
        let none = || (k.var(NONE.0), k.var(NONE.1));
        let list = (0..count.div_ceil(32)).map(|_| none()).collect();
        let (candidates, len) = (shared.ptr_cast(), k.var(0u32));
        Best { row, list, candidates, len, bound: none(), count }
    }

    /// Returns true if the element comes before the bound. NaN does not.
    pub(super) fn passes(&self, k: &Body<'b, '_>, entry: Entry<'b>) -> Val<'b, bool> {
        is_better(entry, self.bound(k))
    }

    pub(super) fn bound(&self, k: &Body<'b, '_>) -> Entry<'b> {
        (self.bound.0.get(k), self.bound.1.get(k))
    }

    /// Raises the bound to about the `count`-th largest of these values of elements, one or more of each lane, in columns before
    /// `end`: bisects the range of their keys.
    pub(super) fn start(&self, k: &mut Body<'b, '_>, values: &[Val<'b, f32>], end: Val<'b, i32>) {
        let (count, all) = (self.count, 32 * values.len() as u32);
        if all < count {
            return;
        }
        let keys: Vec<_> = values.iter().map(|value| key::<T>(value.max(NONE.0))).collect();
        let low = tree(keys[0], &keys, |a, b| a.min(b));
        let high = tree(keys[0], &keys, |a, b| a.max(b));
        let ends = [k.redux_min(WARP, low), k.redux_max(WARP, high) + 1, k.constant(all)];
        // Some more than `count` values take fewer steps.
        let [low, ..] = k.while_(
            ends,
            |_, [low, high, number]| number.gt(count + count / 4 + 2) & (high - low).gt(1),
            |k, [low, high, number]| {
                let middle = low + ((high - low) >> 1);
                let own = keys.iter().map(|key| key.ge(middle).select(1u32, 0));
                let own = own.reduce(|a, b| a + b).unwrap_or(number);
                let found = k.redux_add(WARP, own);
                let is_enough = found.ge(count);
                let low = is_enough.select(middle, low);
                [low, is_enough.select(high, middle), is_enough.select(found, number)]
            },
        );
        let value = value_of::<T>(low);
        self.bound.0.set(k, value);
        // Negative infinity may stand for no element.
        self.bound.1.set(k, value.eq(NONE.0).select(NONE.1, end));
    }

    /// Adds an element of each lane where `holds` is true. It may be NaN, or not come before the bound.
    pub(super) fn add(&self, k: &mut Body<'b, '_>, holds: Val<'b, bool>, column: Val<'b, i32>) {
        let (lanes, len) = (k.vote_ballot(WARP, holds), self.len.get(k));
        let at = len + (lanes & k.lanemask_lt()).popc();
        k.if_(holds, |k| self.candidates.store(k, at, column));
        let len = len + lanes.popc();
        self.len.set(k, len);
        k.if_(len.ge(32), |k| self.merge_candidates(k));
    }

    /// Merges the last 32 candidates, or all of fewer, into the list, and raises the bound.
    pub(super) fn merge_candidates(&self, k: &mut Body<'b, '_>) {
        let len = self.len.get(k);
        let first = len.max(32) - 32;
        let at = first + k.lane_id().cvt::<u32>();
        k.bar_warp(WARP);
        let mut entry = k.if_with(at.lt(len), NONE, |k| {
            let column = self.candidates.load(k, at);
            let value = self.row.load_with(k, column, <Global<T>>::access()).cvt::<f32>();
            choose(value.eq(value), (value, column), none(k))
        });
        k.bar_warp(WARP);
        self.len.set(k, first);
        // A bitonic sort over the lanes, the last element first.
        for log in 1..=5 {
            let descends = (k.lane_id() & (1 << log)).ne(0);
            for stride in (0..log).rev() {
                entry = exchange(k, entry, 1 << stride, descends);
            }
        }
        let mut others = vec![none(k); self.list.len() - 1];
        others.push(entry);
        self.merge(k, &others);
        // The element of the list's last number.
        let (lane, of_lane, bound) = ((self.count - 1) % 32, self.entries(k), self.bound(k));
        let (value, column) = of_lane[of_lane.len() - 1];
        let last = (k.shfl_idx(WARP, value, lane), k.shfl_idx(WARP, column, lane));
        set(k, &self.bound, choose(is_better(last, bound), last, bound));
    }

    /// Merges sorted elements, which come from the last one to the first one: a step of a bitonic sort.
    fn merge(&self, k: &Body<'b, '_>, others: &[Entry<'b>]) {
        let mut found = self.entries(k);
        for (own, other) in found.iter_mut().zip(others) {
            *own = choose(is_better(*own, *other), *own, *other);
        }
        if let [a, b] = found[..] {
            let is_first = is_better(a, b);
            found = vec![choose(is_first, a, b), choose(is_first, b, a)];
        }
        for (list, mut own) in self.list.iter().zip(found) {
            for stride in [16, 8, 4, 2, 1] {
                own = exchange(k, own, stride, k.constant(true));
            }
            set(k, list, own);
        }
    }

    /// Returns the lane's elements of the list: numbers `i` and `32 + i` in lane `i`.
    pub(super) fn entries(&self, k: &Body<'b, '_>) -> Vec<Entry<'b>> {
        self.list.iter().map(|(value, column)| (value.get(k), column.get(k))).collect()
    }

    /// Stores the list to the warp's part of shared memory.
    pub(super) fn store(&self, k: &Body<'b, '_>) {
        let list = self.candidates.ptr_cast::<u64>();
        for (number, entry) in (0..).zip(self.entries(k)) {
            list.store(k, k.lane_id() + number * 32, packed(entry));
        }
    }

    /// Merges the list that the warp `apart` warps further has stored.
    pub(super) fn merge_stored(&self, k: &Body<'b, '_>, apart: Val<'b, i32>) {
        let list = self.candidates.ptr_cast::<u64>().offset(apart * Self::SLOTS as i32);
        let last = self.list.len() as i32 * 32 - 1;
        let load = |number: i32| unpacked(list.load(k, -k.lane_id() + (last - number * 32)));
        let others: Vec<_> = (0..self.list.len() as i32).map(load).collect();
        self.merge(k, &others);
    }
}

fn none<'c>(k: &Body<'c, '_>) -> Entry<'c> {
    (k.constant(NONE.0), k.constant(NONE.1))
}

fn set<'b>(k: &Body<'b, '_>, to: &(Var<'b, f32>, Var<'b, i32>), entry: Entry<'b>) {
    to.0.set(k, entry.0);
    to.1.set(k, entry.1);
}

/// Returns the better one of the elements of a lane and the one `stride` lanes from it to the lower lane, if the lanes descend,
/// else to the higher lane; the other one to the other lane.
fn exchange<'c>(
    k: &Body<'c, '_>,
    own: Entry<'c>,
    stride: u32,
    descends: Val<'c, bool>,
) -> Entry<'c> {
    let other = (k.shfl_bfly(WARP, own.0, stride), k.shfl_bfly(WARP, own.1, stride));
    let is_upper = (k.lane_id() & stride as i32).ne(0);
    choose(is_better(own, other) ^ is_upper ^ !descends, own, other)
}

/// Returns true if `a` comes before `b`.
fn is_better<'c>(a: Entry<'c>, b: Entry<'c>) -> Val<'c, bool> {
    a.0.gt(b.0) | (a.0.eq(b.0) & a.1.lt(b.1))
}

fn choose<'c>(condition: Val<'c, bool>, a: Entry<'c>, b: Entry<'c>) -> Entry<'c> {
    (condition.select(a.0, b.0), condition.select(a.1, b.1))
}

/// Returns an element as one word, for shared memory.
fn packed<'c>((value, column): Entry<'c>) -> Val<'c, u64> {
    Val::pack([value.bitcast::<u32>(), column.bitcast::<u32>()]).bitcast::<u64>()
}

/// Returns the element of a word.
fn unpacked(word: Val<'_, u64>) -> Entry<'_> {
    let [value, column] = word.bitcast::<Vector<u32, 2>>().lanes();
    (value.bitcast::<f32>(), column.bitcast::<i32>())
}

/// Returns a number that has the order of the values, which are those of `T`: larger than 0, and one for both zeros.
fn key<'c, T: Converted>(value: Val<'c, f32>) -> Val<'c, u32> {
    let value = value + 0.0;
    let bits = match T::SCALAR {
        Scalar::F16 => value.cvt::<f16>().bitcast::<u16>().cvt::<u32>() << 16,
        _ => value.bitcast::<u32>(),
    };
    let sign = (bits.bitcast::<i32>() >> 31).bitcast::<u32>();
    (bits ^ (sign | 1 << 31)) >> (32 - T::SCALAR.bits())
}

/// Returns the value of a key.
fn value_of<'c, T: Converted>(key: Val<'c, u32>) -> Val<'c, f32> {
    let key = key << (32 - T::SCALAR.bits());
    let sign = (!key.bitcast::<i32>() >> 31).bitcast::<u32>();
    let bits = key ^ (sign | 1 << 31);
    match T::SCALAR {
        Scalar::F32 => bits.bitcast::<f32>(),
        _ => (bits >> 16).cvt::<u16>().bitcast::<T>().cvt::<f32>(),
    }
}
