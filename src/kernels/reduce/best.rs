//! [`Best`]: the best elements that a warp has seen.

use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{Body, Shared, Val, Var, WARP, f16, range};
use crate::tensor::tree;

use super::sorted::{Entry, NONE, Sorted, is_better, packed, unpacked};

/// The candidates of a warp for the `count` best elements: a list in shared memory, in no order. Of a long list the best
/// ones are kept: about `count`, and the last of them is the bound that further elements must pass.
pub(super) struct Best<'b> {
    /// The candidates, [packed].
    list: Val<'b, Shared<u64>>,
    len: Var<'b, u32>,
    /// An element has a place only if its value is above the bound's, or equal and its column is lower.
    bound: (Var<'b, f32>, Var<'b, i32>),
    count: u32,
}

impl<'b> Best<'b> {
    /// No candidates. `list` has [`slots`](Best::slots) elements.
    pub(super) fn new(k: &Body<'b, '_>, count: u32, list: Val<'b, Shared<u64>>) -> Best<'b> {
        let bound = (k.var(NONE.0), k.var(NONE.1));
        Best { list, len: k.var(0u32), bound, count }
    }

    /// Returns the number of candidates that are kept at most: more than `count`, which takes fewer steps of a bisection.
    const fn kept(count: u32) -> u32 {
        count + count / 4 + 2
    }

    /// Returns the number of candidates after which the best ones are kept.
    const fn room(count: u32) -> u32 {
        Self::kept(count).next_multiple_of(32)
    }

    /// Returns the number of candidates for which a warp needs shared memory: another one of each lane has a place.
    pub(super) const fn slots(count: u32) -> u32 {
        Self::room(count) + 32
    }

    /// Returns true if the element has a place. NaN has none.
    pub(super) fn passes(&self, k: &Body<'b, '_>, entry: Entry<'b>) -> Val<'b, bool> {
        is_better(entry, self.bound(k))
    }

    pub(super) fn bound(&self, k: &Body<'b, '_>) -> Entry<'b> {
        (self.bound.0.get(k), self.bound.1.get(k))
    }

    /// Raises the bound to about the `count`-th largest of these values, one or more elements of each lane. All elements in
    /// columns from `end` on come later.
    pub(super) fn start<T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        values: &[Val<'b, f32>],
        end: Val<'b, i32>,
    ) {
        let number = 32 * values.len() as u32;
        if number < self.count {
            return;
        }
        let keys: Vec<_> = values.iter().map(|value| key::<T>(value.max(NONE.0))).collect();
        let low = tree(keys[0], &keys, |a, b| a.min(b));
        let high = tree(keys[0], &keys, |a, b| a.max(b));
        let ends = [k.redux_min(WARP, low), k.redux_max(WARP, high) + 1];
        let [low, _] = self.bisect(k, &keys, ends, k.constant(number));
        let value = value_of::<T>(low);
        self.bound.0.set(k, value);
        // Negative infinity may stand for no element.
        self.bound.1.set(k, value.eq(NONE.0).select(NONE.1, end));
    }

    /// Adds an element of each lane that passes. All elements in columns from `end` on come later.
    pub(super) fn add<T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        entry: Entry<'b>,
        end: Val<'b, i32>,
    ) {
        let passes = self.passes(k, entry);
        self.append(k, passes, entry);
        let is_full = self.len.get(k).gt(Self::room(self.count));
        k.if_(is_full, |k| self.keep::<T>(k, end));
    }

    /// Appends an element of each lane for which `holds` is true.
    fn append(&self, k: &mut Body<'b, '_>, holds: Val<'b, bool>, entry: Entry<'b>) {
        let (lanes, len) = (k.vote_ballot(WARP, holds), self.len.get(k));
        let at = len + (lanes & k.lanemask_lt()).popc();
        k.if_(holds, |k| self.store(k, at, entry));
        self.len.set(k, len + lanes.popc());
    }

    /// Keeps the best candidates and raises the bound.
    fn keep<T: Converted>(&self, k: &mut Body<'b, '_>, end: Val<'b, i32>) {
        let len = self.len.get(k);
        let loads = 0..Self::slots(self.count) / 32;
        k.bar_warp(WARP);
        let entries: Vec<Entry<'_>> =
            loads.map(|i| self.load(k, k.constant(i * 32), len)).collect();
        k.bar_warp(WARP);
        // No candidate has key 0.
        let keys: Vec<_> = (entries.iter())
            .map(|(value, column)| column.eq(NONE.1).select(0, key::<T>(*value)))
            .collect();
        let high = tree(keys[0], &keys, |a, b| a.max(b));
        let ends = [key::<T>(self.bound.0.get(k)), k.redux_max(WARP, high) + 1];
        let [low, number] = self.bisect(k, &keys, ends, len);
        self.bound.0.set(k, value_of::<T>(low));
        self.bound.1.set(k, end);
        k.if_(number.gt(Self::kept(self.count)), |k| {
            // Of the candidates that are equal to the bound, those in the lowest columns.
            let last = i32::MAX as u32;
            let keys: Vec<_> = (keys.iter().zip(&entries))
                .map(|(key, (_, column))| {
                    let equal = key.eq(low).select(column.cvt::<u32>() ^ last, 0);
                    key.gt(low).select(u32::MAX, equal)
                })
                .collect();
            let ends = [k.constant(last / 2), k.constant(last + 1)];
            let [low, _] = self.bisect(k, &keys, ends, number);
            self.bound.1.set(k, (low ^ last).cvt::<i32>() + 1);
        });
        self.len.set(k, 0);
        for entry in entries {
            let holds = self.passes(k, entry);
            self.append(k, holds, entry);
        }
    }

    /// Narrows `low..high` until about `count` keys of the warp are at least `low`, and at least `count`. At first that are
    /// `number`. Returns the lower end with the number of keys.
    fn bisect<'c>(
        &self,
        k: &mut Body<'c, '_>,
        keys: &[Val<'c, u32>],
        [low, high]: [Val<'c, u32>; 2],
        number: Val<'c, u32>,
    ) -> [Val<'c, u32>; 2] {
        let (count, kept) = (self.count, Self::kept(self.count));
        let [low, _, number] = k.while_(
            [low, high, number],
            |_, [low, high, number]| number.gt(kept) & (high - low).gt(1),
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
        [low, number]
    }

    /// Returns the `32 * lists` best candidates, sorted.
    pub(super) fn sorted(&self, k: &mut Body<'b, '_>) -> Sorted<'b> {
        let sorted = Sorted::new(k, self.count.div_ceil(32));
        let len = self.len.get(k);
        k.bar_warp(WARP);
        k.for_(range(0u32, (len + 31) / 32), (), |k, i, ()| {
            let entry = self.load(k, i * 32, len);
            sorted.add(k, entry);
        });
        k.bar_warp(WARP);
        sorted
    }

    fn store(&self, k: &Body<'b, '_>, at: Val<'b, u32>, (value, column): Entry<'b>) {
        self.list.store(k, at, packed((value, column)));
    }

    /// Loads a candidate from slot `first` and the lane on, if it is before `len`.
    fn load(&self, k: &mut Body<'b, '_>, first: Val<'b, u32>, len: Val<'b, u32>) -> Entry<'b> {
        let at = first + k.lane_id().cvt::<u32>();
        k.if_with(at.lt(len), NONE, |k| unpacked(self.list.load(k, at)))
    }
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
