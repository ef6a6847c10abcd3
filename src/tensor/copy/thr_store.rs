//! [`ThrStore`]: the part of a [`StagedStore`] that a thread has.

use crate::ir::builder::Converted;
use crate::ir::op::{BulkWait, MatrixOrder, ProxySpace};
use crate::ir::types::Scalar;
use crate::ir::{
    Body, Element, NamedBarrier, Registers, Shared, TensorMapMut, Val, Vector, bf16, f16,
};

use super::global_rows::GlobalRows;
use super::staged_store::StagedStore;
use crate::tensor::view::pointer::TensorPointer;
use crate::tensor::view::tensor::{RegisterTensor, Tensor};

/// The matrices that a [`StagedStore`] writes, and so the way to them from shared memory.
#[derive(Clone, Debug)]
pub enum StoreDestination<'b, T> {
    /// By tensor copies.
    Map(Val<'b, TensorMapMut<T, 3>>),
    /// By the threads, in aligned vectors of 16 bytes: rows may lie anywhere. The threads wait for each other.
    Rows(GlobalRows<'b, T>),
}

impl<'b, T> From<Val<'b, TensorMapMut<T, 3>>> for StoreDestination<'b, T> {
    fn from(map: Val<'b, TensorMapMut<T, 3>>) -> Self {
        StoreDestination::Map(map)
    }
}

impl<'b, T> From<GlobalRows<'b, T>> for StoreDestination<'b, T> {
    fn from(rows: GlobalRows<'b, T>) -> Self {
        StoreDestination::Rows(rows)
    }
}

/// The part of a [`StagedStore`] that a thread has.
#[derive(Clone, Debug)]
pub struct ThrStore<'s, 'b, T> {
    pub(super) store: &'s StagedStore,
    pub(super) to: StoreDestination<'b, T>,
    pub(super) staging: Val<'b, Shared<T>>,
    /// The element of the slot at which the lane's row starts, and the 16 bytes in it that the lane starts with.
    pub(super) row: Val<'b, i32>,
    pub(super) unit: Val<'b, i32>,
    pub(super) lane: Val<'b, i32>,
    pub(super) thread: Val<'b, i32>,
    pub(super) barrier: NamedBarrier<'b>,
}

/// The words of 8 columns of a thread: of its first row, then of its second one. One word has two elements of 16 bits.
pub type StoreWords<'b> = Vec<Val<'b, u32>>;

/// The function applied to an accumulator before it is stored at (row, column, matrix) `place`: a closure, or `()` for none.
pub trait AccumulatorMap<'b> {
    /// Returns whether accumulators stay as they are: their coordinates are not computed then.
    fn is_identity(&self) -> bool {
        false
    }

    /// Returns the value that is stored for the accumulator `sum`.
    fn apply(
        &self,
        k: &mut Body<'b, '_>,
        sum: Val<'b, f32>,
        place: [Val<'b, i32>; 3],
    ) -> Val<'b, f32>;
}

impl<'b> AccumulatorMap<'b> for () {
    fn is_identity(&self) -> bool {
        true
    }

    fn apply(&self, _: &mut Body<'b, '_>, sum: Val<'b, f32>, _: [Val<'b, i32>; 3]) -> Val<'b, f32> {
        sum
    }
}

impl<'b, F> AccumulatorMap<'b> for F
where
    F: Fn(&mut Body<'b, '_>, Val<'b, f32>, [Val<'b, i32>; 3]) -> Val<'b, f32>,
{
    #[track_caller]
    fn apply(
        &self,
        k: &mut Body<'b, '_>,
        sum: Val<'b, f32>,
        place: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        self(k, sum, place)
    }
}

impl<'b, T: Element> ThrStore<'_, 'b, T> {
    /// Columns of one store.
    pub fn columns(&self) -> u32 {
        self.store.columns
    }

    /// The four accumulators of a thread in 8 columns of 64 rows, in the order of `wgmma` (two of one row, two of the row 8
    /// further), as words to be stored: rounded to nearest.
    #[track_caller]
    pub fn words(&self, accumulators: [Val<'b, f32>; 4]) -> StoreWords<'b> {
        #[track_caller]
        fn two<'b, U: Converted + crate::ir::builder::VectorElement<2>>(
            accumulators: [Val<'b, f32>; 2],
        ) -> Val<'b, u32> {
            let two: Val<'b, Vector<f32, 2>> = Val::pack(accumulators);
            two.cvt::<U>().bitcast::<u32>()
        }
        let [a, b, c, d] = accumulators;
        match self.store.elem {
            Scalar::F16 => vec![two::<f16>([a, b]), two::<f16>([c, d])],
            Scalar::Bf16 => vec![two::<bf16>([a, b]), two::<bf16>([c, d])],
            _ => vec![a.bitcast(), b.bitcast(), c.bitcast(), d.bitcast()],
        }
    }

    /// The (row, column, matrix) of the four accumulators of a thread in the 8 columns of 64 rows that start at `origin`, in the
    /// order of `wgmma`.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target, TensorMapMut, bf16};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::StagedStore;
    ///
    /// let store = StagedStore::new(Scalar::Bf16, 64, 1)?;
    /// type Params = (TensorMapMut<bf16, 3>, GlobalMut<i32>);
    /// let kernel = Kernel::<Params>::build("k", Target::SM_90A, |k, (map, y)| {
    ///     let (thread, to) = (k.thread_idx().x, k.shared_aligned::<bf16>(store.elements(), 1024));
    ///     let part = store.slice(k, map, to, thread, k.named_barrier(1, 128));
    ///     let origin = [100, 200, 3].map(|number| k.constant(number));
    ///     for (i, number) in (0u32..).zip(part.coordinates(k, origin).flatten()) {
    ///         y.store(k, thread * 12 + i, number);
    ///     }
    /// })?;
    /// let device = Device::sim()?;
    /// let mut d = device.zeros::<bf16>(64 * 64)?;
    /// let map = store.desc(&"(64,64,1):(64,1,0)".parse()?)?;
    /// let mut y = device.zeros::<i32>(128 * 12)?;
    /// let args = (&mut d.tensor_map_mut(&map)?, &mut y);
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [128, 1, 1]), args)?;
    /// // Thread 38 has lane 6 of the second warp.
    /// let places = [[117, 204, 3], [117, 205, 3], [125, 204, 3], [125, 205, 3]];
    /// assert_eq!(y.to_vec()?[38 * 12..39 * 12], places.concat());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn coordinates(
        &self,
        k: &Body<'b, '_>,
        [row, column, batch]: [Val<'b, i32>; 3],
    ) -> impl Iterator<Item = [Val<'b, i32>; 3]> + use<'b, T> {
        let _call = k.call();
        // `wgmma` itself takes the place of a warp in its group from its place in the block.
        let (warp, lane) = (k.thread_idx().x % 128 / 32, k.lane_id());
        let (row, column, places) = if self.store.transposed {
            let column = column + warp * 16 + lane / 4;
            (row + lane % 4 * 2, column, [(0, 0), (1, 0), (0, 8), (1, 8)])
        } else {
            let row = row + warp * 16 + lane / 4;
            (row, column + lane % 4 * 2, [(0, 0), (0, 1), (8, 0), (8, 1)])
        };
        places.map(|(down, right)| [row + down, column + right, batch]).into_iter()
    }

    /// The [`words`](ThrStore::words) of the 8 columns of 64 rows that start at `origin`: of the accumulators from number
    /// `4 * unit` on, through `map`.
    #[track_caller]
    fn words_at(
        &self,
        k: &mut Body<'b, '_>,
        acc: &RegisterTensor<'b, f32>,
        unit: u32,
        origin: [Val<'b, i32>; 3],
        map: &impl AccumulatorMap<'b>,
    ) -> StoreWords<'b> {
        let _call = k.call();
        let accumulators = acc.variables();
        let mut values = [0, 1, 2, 3].map(|i| accumulators.get(k, 4 * unit + i));
        if !map.is_identity() {
            for (value, place) in values.iter_mut().zip(self.coordinates(k, origin)) {
                *value = map.apply(k, *value, place);
            }
        }
        self.words(values)
    }

    /// Stores 64 rows of the columns of one store to (row, column, matrix) `origin`: `words` has, for each 8 columns,
    /// what [`words`](ThrStore::words) makes. `number` counts the stores of this group, modulo the slots. All threads
    /// of the group do it together.
    #[track_caller]
    pub fn rows<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        origin: [Val<'b, i32>; 3],
        number: u32,
        mut words: impl FnMut(&mut Body<'b, '_>, u32) -> StoreWords<'b>,
    ) {
        let _call = k.call();
        let k = &mut k.rescoped();
        let StagedStore { slots, .. } = *self.store;
        let to = self.staging.offset(number % slots * self.store.slot_elements());
        let first = self.thread.eq(0);
        if let StoreDestination::Map(_) = self.to {
            k.if_(first, |k| k.cp_async_bulk_wait_group(slots - 1, BulkWait::Read));
        }
        self.barrier.sync(k);
        if self.store.elem.bits() == 16 {
            self.store_matrices(k, to, &mut words);
        } else {
            self.store_pairs(k, to, &mut words);
        }
        let map = match &self.to {
            StoreDestination::Map(map) => *map,
            StoreDestination::Rows(rows) => {
                self.barrier.sync(k);
                return rows.store(k, &self.store.shared_rows(to), origin, self.thread);
            }
        };
        k.fence_proxy_async(ProxySpace::SharedCta);
        self.barrier.sync(k);
        k.if_(first, |k| {
            let (copy, slot) = (&self.store.copy, self.store.copy.tile().clone());
            let from = Tensor::new(k, TensorPointer::new(to).assume_aligned(k, 128), slot);
            let [row, column, batch] = origin;
            copy.store(k, map, &from, (row, column, batch));
            k.cp_async_bulk_commit_group();
        });
    }

    /// Stores `blocks` times 64 rows, `apart` rows from each other, of `width` columns, to (row, column, matrix)
    /// `origin` and on: the accumulators of the thread, block after block, each through `map`. Where the store is transposed,
    /// the rows of the accumulators are columns of the matrix.
    #[track_caller]
    pub fn tile<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        acc: &RegisterTensor<'b, f32>,
        [row, column, batch]: [Val<'b, i32>; 3],
        [blocks, apart, width]: [u32; 3],
        map: &impl AccumulatorMap<'b>,
    ) {
        let StagedStore { columns, transposed, .. } = *self.store;
        for block in 0..blocks {
            for chunk in 0..width / columns {
                let (down, right) = (block * apart, chunk * columns);
                let (down, right) = if transposed { (right, down) } else { (down, right) };
                let (row, column) = (row + down, column + right);
                let number = block * (width / columns) + chunk;
                self.rows(k, [row, column, batch], number, |k, unit| {
                    let first = (block * width + chunk * columns) / 8 + unit;
                    let at = if transposed {
                        [row + 8 * unit, column, batch]
                    } else {
                        [row, column + 8 * unit, batch]
                    };
                    self.words_at(k, acc, first, at, map)
                });
            }
        }
    }

    /// Keeps the words of 64 rows from (row, column, matrix) `origin` on in registers, for [`part`](ThrStore::part) to
    /// store them later: of the accumulators of the thread, each through `map`. The accumulators can then be used
    /// again.
    #[track_caller]
    pub fn keep<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        acc: &RegisterTensor<'b, f32>,
        [row, column, batch]: [Val<'b, i32>; 3],
        kept: &Registers<'b, u32>,
        map: &impl AccumulatorMap<'b>,
    ) {
        let _call = k.call();
        let k = &mut k.rescoped();
        let words = self.store.elem.size_bytes();
        for unit in 0..kept.len() / words {
            let at = [row, column + 8 * unit, batch];
            let made = self.words_at(k, acc, unit, at, map);
            (words * unit..).zip(made).for_each(|(i, word)| kept.set(k, i, word));
        }
    }

    /// Stores part `part` of 64 rows whose words are kept in registers, as
    /// [`keep`](ThrStore::keep) keeps them.
    #[track_caller]
    pub fn part<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        [row, column, batch]: [Val<'b, i32>; 3],
        kept: &Registers<'b, u32>,
        part: u32,
    ) {
        let _call = k.call();
        let columns = self.store.columns;
        let words = self.store.elem.size_bytes();
        self.rows(k, [row, column + part * columns, batch], part, |k, unit| {
            let first = words * (part * columns / 8 + unit);
            (first..first + words).map(|word| kept.get(k, word)).collect()
        });
    }

    /// The 16 bytes that are `units` further than those the lane starts with, in elements.
    #[track_caller]
    fn unit(&self, units: u32) -> Val<'b, i32> {
        let per_unit = 16 / self.store.elem.size_bytes();
        let unit = match (units, self.store.swizzled) {
            (0, _) => self.unit,
            (units, true) => self.unit ^ units,
            (units, false) => self.unit + units,
        };
        self.row + unit * per_unit
    }

    #[track_caller]
    fn store_matrices(
        &self,
        k: &mut Body<'b, '_>,
        to: Val<'b, Shared<T>>,
        words: &mut impl FnMut(&mut Body<'b, '_>, u32) -> StoreWords<'b>,
    ) {
        let to = TensorPointer::new(to).recast::<u16>(k).resolve().0;
        let StagedStore { columns, transposed, .. } = *self.store;
        let order = if transposed { MatrixOrder::Trans } else { MatrixOrder::Rows };
        let groups = columns / 8;
        for first in (0..groups).step_by(2) {
            // Lines of a transposed slot are 64 elements, and 8 of them go on with the pattern of the swizzle.
            let at = if transposed { self.unit(0) + first * 8 * 64 } else { self.unit(first) };
            let mut all = words(k, first);
            if first + 1 < groups {
                all.extend(words(k, first + 1));
            }
            match *all.as_slice() {
                [a, b, c, d] => {
                    let four: Val<'_, Vector<u32, 4>> = Val::pack([a, b, c, d]);
                    to.stmatrix(k, at, four.bitcast::<Vector<u16, 8>>(), order);
                }
                [a, b] => {
                    let two: Val<'_, Vector<u32, 2>> = Val::pack([a, b]);
                    to.stmatrix(k, at, two.bitcast::<Vector<u16, 4>>(), order);
                }
                // `words` makes two for each 8 columns.
                _ => {}
            }
        }
    }

    #[track_caller]
    fn store_pairs(
        &self,
        k: &mut Body<'b, '_>,
        to: Val<'b, Shared<T>>,
        words: &mut impl FnMut(&mut Body<'b, '_>, u32) -> StoreWords<'b>,
    ) {
        let to = TensorPointer::new(to).recast::<u32>(k).resolve().0;
        let inside = self.lane % 2 * 2;
        // The second row of a lane is 8 further: the same place in the pattern of the swizzle.
        let next = 8 * self.store.pitch;
        for group in 0..self.store.columns / 8 {
            let at = self.unit(2 * group) + inside;
            if let [a, b, c, d] = *words(k, group).as_slice() {
                let pair = |x, y| -> Val<'_, Vector<u32, 2>> { Val::pack([x, y]) };
                to.store_vector(k, at, pair(a, b));
                to.store_vector(k, at + next, pair(c, d));
            }
        }
    }

    /// Waits until all stores of the group have been read from shared memory: before it is used for something else,
    /// and before the block ends.
    #[track_caller]
    pub fn finish<'k: 'b>(&self, k: &mut Body<'k, '_>) {
        if let StoreDestination::Map(_) = self.to {
            k.if_(self.thread.eq(0), |k| k.cp_async_bulk_wait_group(0, BulkWait::Read));
        }
    }
}
