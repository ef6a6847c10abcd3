//! [`Best`]: the best elements that a warp has seen, sorted over its lanes.

use crate::ir::builder::{Arithmetic, Converted, VectorElement};
use crate::ir::op::FindFrom;
use crate::ir::types::Scalar;
use crate::ir::{Body, Val, Var, Vector, WARP, bf16, f16};
use crate::tensor::{RowElements, tree};

/// The best elements that a warp has seen: lane `i` has number `i`, and number `32 + i` if there are as many.
pub(super) struct Best<'b> {
    pub(super) entries: Vec<(Var<'b, f32>, Var<'b, i32>)>,
    /// A better element has a place: the last entry, or a lower bound of it.
    last: (Var<'b, f32>, Var<'b, i32>),
    count: u32,
}

/// A value and its column.
pub(super) type Entry<'c> = (Val<'c, f32>, Val<'c, i32>);

impl<'b> Best<'b> {
    pub(super) fn new(k: &Body<'b, '_>, count: u32) -> Best<'b> {
        let none = || (k.var(f32::NEG_INFINITY), k.var(i32::MAX));
        Best { entries: (0..count.div_ceil(32)).map(|_| none()).collect(), last: none(), count }
    }

    /// Finds a lower bound of the last entry, from two elements of each lane, or NaN: the `count`-th larger one of a lane.
    /// More than 32 are twice as many as there are lanes with a smaller one at least as large.
    pub(super) fn start<'c>(&self, k: &Body<'c, '_>, [a, b]: [Val<'c, f32>; 2])
    where
        'b: 'c,
    {
        let (number, value) = match self.count {
            0..=32 => (self.count, a.max(b)),
            // NaN is no element.
            count => (count.div_ceil(2), a.max(f32::NEG_INFINITY).min(b.max(f32::NEG_INFINITY))),
        };
        let (lane, mut value) = (k.lane_id(), value.max(f32::NEG_INFINITY));
        // A bitonic sort over the lanes, larger values first.
        for (size, stride) in
            (1..=5).flat_map(|size| (0..size).rev().map(move |i| (1 << size, 1 << i)))
        {
            let other = k.shfl_bfly(WARP, value, stride as u32);
            let is_larger = (lane & stride).eq(0) ^ (lane & size).ne(0);
            value = is_larger.select(value.max(other), value.min(other));
        }
        self.last.0.set(k, k.shfl_idx(WARP, value, number - 1));
    }

    /// Runs `body` for each lane whose entry is better than the last one, from the highest lane on. `body` has the number of the
    /// lane, and may add elements. NaN is not better.
    pub(super) fn for_each_better<'c>(
        &self,
        k: &mut Body<'c, '_>,
        entry: Entry<'c>,
        mut body: impl for<'d> FnMut(&mut Body<'d, 'c>, Val<'d, u32>),
    ) where
        'b: 'c,
    {
        let last = (self.last.0.get(k), self.last.1.get(k));
        let better = k.vote_ballot(WARP, is_better(entry, last));
        k.while_(
            better,
            |_, lanes| lanes.ne(0),
            |k, lanes| {
                let lane = lanes.bfind(FindFrom::Position);
                body(&mut k.rescoped(), lane);
                let last = (self.last.0.get(k), self.last.1.get(k));
                k.vote_ballot(WARP, is_better(entry, last)) & ((k.constant(1u32) << lane) - 1)
            },
        );
    }

    /// Adds an element of each lane. NaN is no element.
    pub(super) fn add<'c>(&self, k: &mut Body<'c, '_>, entry: Entry<'c>)
    where
        'b: 'c,
    {
        self.for_each_better(k, entry, |k, lane| {
            self.insert(k, (k.shfl_idx(WARP, entry.0, lane), k.shfl_idx(WARP, entry.1, lane)));
        });
    }

    /// Moves all entries after the new one to the next lane.
    fn insert<'c>(&self, k: &Body<'c, '_>, new: Entry<'c>)
    where
        'b: 'c,
    {
        let old: Vec<Entry<'_>> =
            self.entries.iter().map(|(value, column)| (value.get(k), column.get(k))).collect();
        let before = |entry: &Entry<'c>| k.vote_ballot(WARP, is_better(*entry, new)).popc();
        let place = old.iter().map(before).reduce(|a, b| a + b).unwrap_or_else(|| k.constant(0));
        let (place, lane) = (place.cvt::<i32>(), k.lane_id());
        for (list, (value, column)) in self.entries.iter().enumerate() {
            let mut moved = (k.shfl_up(WARP, old[list].0, 1), k.shfl_up(WARP, old[list].1, 1));
            if list > 0 {
                let over = old[list - 1];
                let over = (k.shfl_idx(WARP, over.0, 31), k.shfl_idx(WARP, over.1, 31));
                moved = choose(lane.eq(0), over, moved);
            }
            let rank = lane + 32 * list as i32;
            let kept = choose(rank.lt(place), old[list], choose(rank.eq(place), new, moved));
            value.set(k, kept.0);
            column.set(k, kept.1);
        }
        let (list, lane) = ((self.count - 1) / 32, (self.count - 1) % 32);
        let (value, column) = self.entries[list as usize];
        let entry = (k.shfl_idx(WARP, value.get(k), lane), k.shfl_idx(WARP, column.get(k), lane));
        let old = (self.last.0.get(k), self.last.1.get(k));
        let last = choose(is_better(entry, old), entry, old);
        self.last.0.set(k, last.0);
        self.last.1.set(k, last.1);
    }

    /// Merges sorted entries, which come from the last one to the first one: a step of a bitonic sort.
    pub(super) fn merge<'c>(&self, k: &Body<'c, '_>, others: &[Entry<'c>])
    where
        'b: 'c,
    {
        let better = |(own, other): (&(Var<'b, f32>, Var<'b, i32>), &Entry<'c>)| {
            let own = (own.0.get(k), own.1.get(k));
            choose(is_better(own, *other), own, *other)
        };
        let mut found: Vec<Entry<'c>> = self.entries.iter().zip(others).map(better).collect();
        if let [a, b] = found[..] {
            let is_first = is_better(a, b);
            found = vec![choose(is_first, a, b), choose(is_first, b, a)];
        }
        for ((value, column), mut own) in self.entries.iter().zip(found) {
            for stride in [16, 8, 4, 2, 1] {
                let other = [stride as u32]
                    .map(|at| (k.shfl_bfly(WARP, own.0, at), k.shfl_bfly(WARP, own.1, at)))[0];
                let keeps = is_better(own, other) ^ (k.lane_id() & stride).ne(0);
                own = choose(keeps, own, other);
            }
            value.set(k, own.0);
            column.set(k, own.1);
        }
    }
}

/// Returns the largest element of each half of a thread's vectors, or of its elements where there are none. NaN counts only
/// where all elements are NaN.
pub(super) fn maxima<'c, T: Converted>(
    k: &Body<'c, '_>,
    elements: &RowElements<'c, T>,
) -> [Val<'c, f32>; 2] {
    let nothing = k.constant(f32::NEG_INFINITY);
    if elements.vectors.is_empty() {
        let values: Vec<_> = elements.singles.iter().map(|value| value.cvt::<f32>()).collect();
        let (a, b) = values.split_at(values.len() / 2);
        return [a, b].map(|half| tree(nothing, half, |a, b| a.max(b)));
    }
    let words: Vec<Val<'c, u32>> = elements.vectors.iter().flat_map(|four| four.lanes()).collect();
    let (a, b) = words.split_at(words.len() / 2);
    [a, b].map(|words| match T::SCALAR {
        Scalar::F16 => max_of_pairs::<f16>(nothing, words),
        Scalar::Bf16 => max_of_pairs::<bf16>(nothing, words),
        _ => {
            let values: Vec<_> = words.iter().map(|word| word.bitcast::<f32>()).collect();
            tree(nothing, &values, |a, b| a.max(b))
        }
    })
}

/// Returns the largest of the elements of pairs.
fn max_of_pairs<'c, T>(nothing: Val<'c, f32>, words: &[Val<'c, u32>]) -> Val<'c, f32>
where
    T: VectorElement<2> + Converted,
    Vector<T, 2>: Arithmetic,
{
    let pairs: Vec<_> = words.iter().map(|word| word.bitcast::<Vector<T, 2>>()).collect();
    let Some(first) = pairs.first() else { return nothing };
    let [a, b] = tree(*first, &pairs, |a, b| a.max(b)).lanes();
    a.cvt::<f32>().max(b.cvt::<f32>())
}

fn is_better<'c>(a: Entry<'c>, b: Entry<'c>) -> Val<'c, bool> {
    a.0.gt(b.0) | (a.0.eq(b.0) & a.1.lt(b.1))
}

fn choose<'c>(condition: Val<'c, bool>, a: Entry<'c>, b: Entry<'c>) -> Entry<'c> {
    (condition.select(a.0, b.0), condition.select(a.1, b.1))
}
