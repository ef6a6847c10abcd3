//! [`Best`]: the best elements of a row that a warp has seen so far, a sorted list over its lanes.
//! The top-k kernel keeps it while it reads the row.

use std::array;

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{Body, Global, Shared, Val, Var, WARP, f16};
use crate::tensor::rows::{RowPointer, tree};

/// An element with its column, packed so that a better element is a larger integer, first word
/// first. 0 means no element.
///
/// One word holds the 16-bit [key](key) and the complement of a 16-bit column; two words hold 32
/// bits of each. The complement makes lower columns come first.
pub(super) type Entry<'c, const N: usize> = [Val<'c, u32>; N];

/// The best elements of a row that a warp has seen: a sorted list distributed over its lanes, and
/// candidates in shared memory. 32 candidates are merged into the list at a time. The list's last
/// element is the bound: only elements that come before it matter.
pub(super) struct Best<'b, T, const N: usize> {
    row: Val<'b, Global<T>>,
    /// Lane `i` holds element `i` of the list, and element `32 + i` of a list of 64.
    list: Vec<[Var<'b, u32>; N]>,
    shared: Val<'b, Shared<u32>>,
    /// How many candidates are in shared memory (as columns): fewer than 32, except while some are
    /// added.
    len: Var<'b, u32>,
    /// The bound's value and column.
    bound: (Var<'b, f32>, Var<'b, i32>),
    count: u32,
}

impl<'b, T: Converted, const N: usize> Best<'b, T, N> {
    /// Words of shared memory that a warp needs.
    pub(super) const WORDS: u32 = 64 * N as u32;

    /// Starts an empty list for the `count` best elements of a row, 1 to 64. `shared` must have
    /// [`WORDS`](Best::WORDS) elements.
    pub(super) fn new(
        k: &Body<'b, '_>,
        row: Val<'b, Global<T>>,
        count: u32,
        shared: Val<'b, Shared<u32>>,
    ) -> Self {
        let list = (0..count.div_ceil(32)).map(|_| array::from_fn(|_| k.var(0u32))).collect();
        let bound = (k.var(f32::NEG_INFINITY), k.var(i32::MAX));
        Best { row, list, shared, len: k.var(0u32), bound, count }
    }

    /// Returns the bound's value and column: only elements before it matter.
    pub(super) fn bound(&self) -> (Val<'b, f32>, Val<'b, i32>) {
        (self.bound.0.get(), self.bound.1.get())
    }

    /// Raises the bound to about the `count`-th largest of these values, of which every lane has
    /// one or more, from columns before `end`. Bisects the range of their keys.
    pub(super) fn start(&self, k: &mut Body<'b, '_>, values: &[Val<'b, f32>], end: Val<'b, i32>) {
        let (count, all) = (self.count, 32 * values.len() as u32);
        if all < count {
            return;
        }
        let keys: Vec<_> =
            values.iter().map(|value| key::<T>(value.max(f32::NEG_INFINITY))).collect();
        let low = tree(keys[0], &keys, |a, b| a.min(b));
        let high = tree(keys[0], &keys, |a, b| a.max(b));
        let ends = [k.redux_min(WARP, low), k.redux_max(WARP, high) + 1, k.constant(all)];
        // Stopping at slightly more than `count` values saves steps.
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
        self.bound.0.set(value);
        // Negative infinity may stand for a missing element.
        self.bound.1.set(value.eq(f32::NEG_INFINITY).select(i32::MAX, end));
    }

    /// Adds one element from each lane in which `holds` is true. It may be NaN, or not come before
    /// the bound.
    pub(super) fn add(&self, k: &mut Body<'b, '_>, holds: Val<'b, bool>, column: Val<'b, i32>) {
        let (lanes, len) = (k.vote_ballot(WARP, holds), self.len.get());
        let at = len + (lanes & k.lanemask_lt()).popc();
        k.if_(holds, |_| self.shared.store(at, column.cvt::<u32>()));
        let len = len + lanes.popc();
        self.len.set(len);
        k.if_(len.ge(32), |k| self.merge_candidates(k));
    }

    /// Merges the last 32 candidates (or all, if fewer) into the list, and raises the bound.
    pub(super) fn merge_candidates(&self, k: &mut Body<'b, '_>) {
        let len = self.len.get();
        let first = len.max(32) - 32;
        let at = first + k.lane_id().cvt::<u32>();
        k.bar_warp(WARP);
        let mut entry = k.if_with(at.lt(len), [0; N], |_| {
            let column = self.shared.load(at).cvt::<i32>();
            let value = self.row.load_with(column, <Global<T>>::access()).cvt::<f32>();
            let is_number = value.eq(value);
            entry::<T, N>(value, column).map(|word| is_number.select(word, 0))
        });
        k.bar_warp(WARP);
        self.len.set(first);
        // A bitonic sort over the lanes, worst element first.
        for log in 1..=5 {
            let descends = (k.lane_id() & (1 << log)).ne(0);
            for stride in (0..log).rev() {
                entry = exchange(k, entry, 1 << stride, descends);
            }
        }
        let mut others = vec![[k.constant(0); N]; self.list.len() - 1];
        others.push(entry);
        self.merge(k, &others);
        // The list's last element, if the list is full.
        let of_lane = self.list[self.list.len() - 1].each_ref().map(|word| word.get());
        let last = of_lane.map(|word| k.shfl_idx(WARP, word, (self.count - 1) % 32));
        let (value, column) = element::<T, N>(last);
        k.if_(last[0].ne(0), |_| {
            self.bound.0.set(value);
            self.bound.1.set(column);
        });
    }

    /// Merges elements sorted from worst to best into the list: one step of a bitonic sort.
    fn merge(&self, k: &Body<'b, '_>, others: &[Entry<'b, N>]) {
        let own = self.list.iter().map(|words| words.each_ref().map(|word| word.get()));
        let best = own.zip(others).map(|(own, other)| choose(is_better(own, *other), own, *other));
        let mut found: Vec<_> = best.collect();
        if let [a, b] = found[..] {
            let is_first = is_better(a, b);
            found = vec![choose(is_first, a, b), choose(is_first, b, a)];
        }
        for (words, mut own) in self.list.iter().zip(found) {
            for stride in [16, 8, 4, 2, 1] {
                own = exchange(k, own, stride, k.constant(true));
            }
            words.iter().zip(own).for_each(|(word, own)| word.set(own));
        }
    }

    /// Returns value and column of the lane's elements in the list, elements `i` and `32 + i` for
    /// lane `i`. A missing element is negative infinity with column -1.
    pub(super) fn elements(&self) -> Vec<(Val<'b, f32>, Val<'b, i32>)> {
        let of = |words: &[Var<'b, u32>; N]| {
            let words = words.each_ref().map(|word| word.get());
            let (has, (value, column)) = (words[0].ne(0), element::<T, N>(words));
            (has.select(value, f32::NEG_INFINITY), has.select(column, -1))
        };
        self.list.iter().map(of).collect()
    }

    /// Merges the lists of the `warps` warps that share a row, pairwise, into the list of warp 0.
    /// If there are several, all threads of the block must call this together.
    pub(super) fn join(&self, k: &mut Body<'b, '_>, warp: Val<'b, i32>, warps: i32) {
        if warps == 1 {
            return;
        }
        k.while_(
            k.constant(1),
            |_, apart| apart.lt(warps),
            |k, apart| {
                k.if_((warp % apart).eq(0), |k| self.store(k));
                k.barrier();
                let merges = (warp % (apart * 2)).eq(0) & (warp + apart).lt(warps);
                k.if_(merges, |k| self.merge_stored(k, apart));
                apart * 2
            },
        );
    }

    /// Stores the list to the warp's part of shared memory.
    fn store(&self, k: &Body<'b, '_>) {
        for (number, words) in (0..).zip(&self.list) {
            let to = self.shared.offset((k.lane_id() + number * 32) * N as i32);
            (0..).zip(words).for_each(|(at, word): (i32, _)| to.store(at, word.get()));
        }
    }

    /// Merges the list that the warp `apart` warps further on has stored.
    fn merge_stored(&self, k: &Body<'b, '_>, apart: Val<'b, i32>) {
        let list = self.shared.offset(apart * Self::WORDS as i32);
        let last = self.list.len() as i32 * 32 - 1;
        let load = |number: i32| {
            let from = list.offset((-k.lane_id() + (last - number * 32)) * N as i32);
            array::from_fn(|word| from.load(word as i32))
        };
        let others: Vec<_> = (0..self.list.len() as i32).map(load).collect();
        self.merge(k, &others);
    }
}

/// Compares each lane's entry with that of lane `lane ^ stride`. If `descends` is true, the lower
/// lane keeps the better entry, otherwise the upper lane does.
fn exchange<'c, const N: usize>(
    k: &Body<'c, '_>,
    own: Entry<'c, N>,
    stride: u32,
    descends: Val<'c, bool>,
) -> Entry<'c, N> {
    let other = own.map(|word| k.shfl_bfly(WARP, word, stride));
    let is_upper = (k.lane_id() & stride as i32).ne(0);
    choose(is_better(own, other) ^ is_upper ^ !descends, own, other)
}

/// Returns true if `a` comes before `b`.
fn is_better<'c, const N: usize>(a: Entry<'c, N>, b: Entry<'c, N>) -> Val<'c, bool> {
    let words = (0..N).rev().map(|word| (a[word].gt(b[word]), a[word].eq(b[word])));
    let found =
        words.reduce(|(rest, _), (is_larger, equals)| (is_larger | (equals & rest), equals));
    found.map_or_else(|| a[0].gt(b[0]), |(is_better, _)| is_better)
}

fn choose<'c, const N: usize>(
    condition: Val<'c, bool>,
    a: Entry<'c, N>,
    b: Entry<'c, N>,
) -> Entry<'c, N> {
    array::from_fn(|word| condition.select(a[word], b[word]))
}

/// Packs an element.
fn entry<'c, T: Converted, const N: usize>(
    value: Val<'c, f32>,
    column: Val<'c, i32>,
) -> Entry<'c, N> {
    let (key, behind) = (key::<T>(value), !column.cvt::<u32>());
    array::from_fn(|word| match (N, word) {
        (1, _) => key << 16 | behind & 0xffff,
        (_, 0) => key,
        _ => behind,
    })
}

/// Unpacks an entry into value and column.
fn element<'c, T: Converted, const N: usize>(words: Entry<'c, N>) -> (Val<'c, f32>, Val<'c, i32>) {
    match N {
        1 => (value_of::<T>(words[0] >> 16), (!words[0] & 0xffff).cvt::<i32>()),
        _ => (value_of::<T>(words[0]), (!words[N - 1]).cvt::<i32>()),
    }
}

/// Returns an unsigned key with the same order as the values, which must be those of `T`. Keys are
/// above 0, and both zeros have the same.
fn key<'c, T: Converted>(value: Val<'c, f32>) -> Val<'c, u32> {
    let value = value + 0.0;
    let bits = match T::scalar() {
        Scalar::F16 => value.cvt::<f16>().bitcast::<u16>().cvt::<u32>() << 16,
        _ => value.bitcast::<u32>(),
    };
    let sign = (bits.bitcast::<i32>() >> 31).bitcast::<u32>();
    (bits ^ (sign | 1 << 31)) >> (32 - T::scalar().bits())
}

/// Returns a key's value.
fn value_of<'c, T: Converted>(key: Val<'c, u32>) -> Val<'c, f32> {
    let key = key << (32 - T::scalar().bits());
    let sign = (!key.bitcast::<i32>() >> 31).bitcast::<u32>();
    let bits = key ^ (sign | 1 << 31);
    match T::scalar() {
        Scalar::F32 => bits.bitcast::<f32>(),
        _ => (bits >> 16).cvt::<u16>().bitcast::<T>().cvt::<f32>(),
    }
}
