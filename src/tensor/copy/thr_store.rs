//! [`ThrStore`]: a thread's share of a [`StagedStore`]. A GEMM's consumer threads call it in the
//! epilogue to write their accumulators to global memory.

use crate::ir::op::{BulkWait, MatrixOrder, ProxySpace};
use crate::ir::{Body, Element, NamedBarrier, Registers, Shared, TensorMapMut, Val, Vector};

use super::global_rows::GlobalRows;
use super::packed::packed;
use super::staged_store::StagedStore;
use super::tma_tensor::MapArray;
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::pipeline::group_sizes::GroupSizes;
use crate::tensor::pipeline::row_groups::RowGroups;
use crate::tensor::view::pointer::TensorPointer;
use crate::tensor::view::tensor::{RegisterTensor, Tensor};

/// Where a [`StagedStore`] writes, and thus how the staged rows get there from shared memory: by
/// TMA or by threads. Pick the variant when you make the thread's share of the store.
#[derive(Clone, Debug)]
pub enum StoreDestination<'b, T> {
    /// One batch of matrices, by TMA.
    Map(Val<'b, TensorMapMut<T, 3>>),
    /// Rows that can start anywhere, by the threads in aligned vectors of 16 bytes. All threads
    /// take part and wait for each other.
    Rows(GlobalRows<'b, T>),
    /// Groups of rows in one matrix (grouped GEMM). An origin's third coordinate is the group, its
    /// first one a row of that group. TMA writes blocks of 64 rows that the group contains
    /// completely; the threads write the group's last rows, so that no other group's row is
    /// touched. An accumulator map gets the matrix row, or `i32::MAX` beyond the group's end.
    Groups {
        /// The matrix's tensor map.
        map: Val<'b, TensorMapMut<T, 3>>,
        /// The same matrix, for the threads.
        rows: GlobalRows<'b, T>,
        /// The row groups.
        groups: RowGroups<'b>,
    },
    /// Matrices of different sizes (ragged GEMM), by TMA with tensor maps in memory. An origin's
    /// third coordinate is the GEMM's index.
    Made {
        /// The map from which they are made.
        map: Val<'b, TensorMapMut<T, 3>>,
        /// Each GEMM's tensor map.
        maps: MapArray<'b>,
        /// Each GEMM's sizes. N counts accumulator columns.
        sizes: GroupSizes<'b>,
    },
}

impl<'b, T> StoreDestination<'b, T> {
    /// Returns the row groups and the sizes of the GEMMs, or `None` for each that the destination
    /// does not have. A tile scheduler takes both, so that it walks the same groups.
    pub fn groups(&self) -> (Option<RowGroups<'b>>, Option<GroupSizes<'b>>) {
        match self {
            StoreDestination::Groups { groups, .. } => (Some(*groups), None),
            StoreDestination::Made { sizes, .. } => (None, Some(*sizes)),
            StoreDestination::Map(_) | StoreDestination::Rows(_) => (None, None),
        }
    }
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

/// A thread's share of a [`StagedStore`]: the thread calls it to write its accumulators. Made by
/// [`StagedStore::slice`], once before the loop over tiles.
#[derive(Clone, Debug)]
pub struct ThrStore<'s, 'b, T> {
    pub(super) store: &'s StagedStore,
    pub(super) to: StoreDestination<'b, T>,
    pub(super) staging: Val<'b, Shared<T>>,
    /// The slot's element where the lane's row starts, and the lane's first 16-byte unit in it.
    pub(super) row: Val<'b, i32>,
    pub(super) unit: Val<'b, i32>,
    pub(super) lane: Val<'b, i32>,
    pub(super) thread: Val<'b, i32>,
    pub(super) barrier: NamedBarrier<'b>,
}

/// What a thread stores of 8 accumulator columns, packed into 32-bit words: first the accumulators
/// of its first row, then those of its second row. A word holds two 16-bit or four 8-bit elements.
/// [`ThrStore::words`] makes them.
pub type StoreWords<'b> = Vec<Val<'b, u32>>;

/// What a store applies to each accumulator at `coord` = (row, column, matrix): a closure, or `()`
/// for nothing. Pass a closure to fuse an epilogue into the store.
pub trait AccumulatorMap<'b> {
    /// Returns whether accumulators stay as they are. If so, the store computes no coordinates.
    fn is_identity(&self) -> bool {
        false
    }

    /// Returns whether the map has side effects. If so, accumulators that a store [of fewer
    /// rows](StagedStore::of_rows) leaves out get row `i32::MAX`. An effect is, for example, a sum
    /// over rows that the epilogue adds up.
    fn has_effects(&self) -> bool {
        true
    }

    /// Returns the value to store for the accumulator `sum`, for example `sum` plus the bias of
    /// column `coord[1]`.
    fn apply(
        &self,
        k: &mut Body<'b, '_>,
        sum: Val<'b, f32>,
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, f32>;

    /// Returns the value that a store [of pairs](StagedStore::of_pairs) writes for two adjacent
    /// columns' accumulators; `coord` is the element's. By default this is a build error.
    #[track_caller]
    fn apply_pair(
        &self,
        k: &mut Body<'b, '_>,
        [even, _]: [Val<'b, f32>; 2],
        _: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        let kind = TensorErrorKind::NoPairs;
        k.report(TensorError { operation: "apply_pair", operand: "an epilogue".to_owned(), kind });
        even
    }
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
        coord: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        self(k, sum, coord)
    }
}

/// A tile's matrix.
#[derive(Clone, Copy)]
struct Matrix<'b, T> {
    /// The tensor map, if TMA writes the matrix.
    map: Option<Val<'b, TensorMapMut<T, 3>>>,
    /// The ends of its rows and columns, if they differ between matrices.
    end: Option<Val<'b, i32>>,
    end_column: Option<Val<'b, i32>>,
}

/// An element's place in its matrix.
struct Placed<'b, T> {
    /// Its (row, column, matrix).
    origin: [Val<'b, i32>; 3],
    matrix: Matrix<'b, T>,
}

impl<'b, T: Element> ThrStore<'_, 'b, T> {
    /// Returns the barrier of the threads that store together.
    pub(crate) fn barrier(&self) -> NamedBarrier<'b> {
        self.barrier
    }

    /// Returns how many columns one store covers, which is the step of the epilogue's column loop.
    pub fn columns(&self) -> u32 {
        self.store.columns
    }

    /// Packs a thread's four accumulators of 8 columns and 64 rows into the words to store, rounded
    /// to nearest. They come in `wgmma`'s order: two of one row, two of the row 8 further. Use it
    /// with [`rows`](ThrStore::rows) if you compute the values yourself.
    #[track_caller]
    pub fn words(&self, accumulators: [Val<'b, f32>; 4]) -> StoreWords<'b> {
        packed(self.store.elem, &accumulators)
    }

    /// Words per 8 accumulator columns.
    fn words_of_unit(&self) -> u32 {
        (self.store.elem.size_bytes() / self.store.sums()).max(1)
    }

    /// How many stores can be in flight.
    pub(super) fn slots(&self) -> u32 {
        self.store.slots
    }

    /// Words of 64 rows and `columns` columns of the matrix.
    pub(super) fn words_of_columns(&self, columns: u32) -> u32 {
        columns * self.store.sums() / 8 * self.words_of_unit()
    }

    /// Returns the (row, column, matrix) of the thread's elements in 8 columns and 64 rows of
    /// accumulators whose first one is at `origin`: all four in `wgmma`'s order, or the two pairs.
    /// Use it to load what an epilogue combines with the accumulators, for example C.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target, TensorMapMut, bf16};
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::copy::StagedStore;
    ///
    /// let store = StagedStore::new(Scalar::Bf16, 64, 1)?;
    /// type Params = (TensorMapMut<bf16, 3>, GlobalMut<i32>);
    /// let kernel = Kernel::<Params>::build("k", Target::SM_90A, |k, (map, y)| {
    ///     let (thread, to) = (k.thread_idx().x, k.shared_aligned::<bf16>(store.elements(), 1024));
    ///     let part = store.slice(k, map, to, thread, k.named_barrier(1, 128));
    ///     let origin = [100, 200, 3].map(|number| k.constant(number));
    ///     for (i, number) in (0u32..).zip(part.coordinates(origin).flatten()) {
    ///         y.store(thread * 12 + i, number);
    ///     }
    /// })?;
    /// let device = Device::sim()?;
    /// let mut d = device.zeros::<bf16>(64 * 64)?;
    /// let map = store.desc(&"(64,64,1):(64,1,0)".parse()?)?;
    /// let mut y = device.zeros::<i32>(128 * 12)?;
    /// let args = (&mut d.tensor_map_mut(&map)?, &mut y);
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [128, 1, 1]), args)?;
    /// // Thread 38 has lane 6 of the second warp.
    /// let coords = [[117, 204, 3], [117, 205, 3], [125, 204, 3], [125, 205, 3]];
    /// assert_eq!(y.to_vec()?[38 * 12..39 * 12], coords.concat());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn coordinates(
        &self,
        [row, column, batch]: [Val<'b, i32>; 3],
    ) -> impl Iterator<Item = [Val<'b, i32>; 3]> + use<'b, T> {
        let k = &self.row.body();
        let _call = k.call();
        // `wgmma` too derives a warp's index in its group from its index in the block.
        let (warp, lane) = (k.thread_idx().x % 128 / 32, k.lane_id());
        let elements = 4 / self.store.sums() as usize;
        let (row, column, coords) = if self.store.pairs {
            let (row, column) = (row + warp * 16 + lane / 4, column + lane % 4);
            (row, column, [(0, 0), (8, 0), (0, 0), (8, 0)])
        } else if self.store.transposed {
            let column = column + warp * 16 + lane / 4;
            (row + lane % 4 * 2, column, [(0, 0), (1, 0), (0, 8), (1, 8)])
        } else {
            let row = row + warp * 16 + lane / 4;
            (row, column + lane % 4 * 2, [(0, 0), (0, 1), (8, 0), (8, 1)])
        };
        let coords = coords.map(|(down, right)| [row + down, column + right, batch]);
        coords.into_iter().take(elements)
    }

    /// Returns the (row, column, matrix) of the thread's first element in a tile at `origin`, and
    /// the ends of the tile's rows and columns if they differ between matrices.
    #[track_caller]
    pub(crate) fn first<'k: 'b>(
        &self,
        origin: [Val<'b, i32>; 3],
    ) -> ([Val<'b, i32>; 3], [Option<Val<'b, i32>>; 2]) {
        let Placed { origin, matrix: Matrix { end, end_column, .. } } = self.placed(origin);
        let first = self.coordinates(origin).next().unwrap_or(origin);
        (first, [self.end(origin, end), end_column])
    }

    /// Returns the end of the rows of a tile at `origin`.
    fn end(&self, origin: [Val<'b, i32>; 3], end: Option<Val<'b, i32>>) -> Option<Val<'b, i32>> {
        let low = (self.store.rows < 64).then(|| origin[0] + self.store.rows);
        low.map_or(end, |low| Some(end.map_or(low, |end| end.min(low))))
    }

    /// Returns the [`words`](ThrStore::words) of the 8 columns and 64 rows at `origin`: the
    /// accumulators from index `4 * unit` on, passed through `map`.
    #[track_caller]
    fn words_at(
        &self,
        k: &mut Body<'b, '_>,
        acc: &RegisterTensor<'b, f32>,
        unit: u32,
        placed: &Placed<'b, T>,
        map: &impl AccumulatorMap<'b>,
    ) -> StoreWords<'b> {
        let _call = k.call();
        let Placed { origin, matrix: Matrix { end, end_column, .. } } = *placed;
        let accumulators = acc.variables();
        let mut values = [0, 1, 2, 3].map(|i| accumulators.get(4 * unit + i));
        let checks = map.has_effects() && !map.is_identity();
        let end = if checks { self.end(origin, end) } else { end };
        let inside = |[row, column, batch]: [Val<'b, i32>; 3]| {
            let row = end.map_or(row, |end| row.lt(end).select(row, i32::MAX));
            let row = end_column.map_or(row, |end| column.lt(end).select(row, i32::MAX));
            [row, column, batch]
        };
        if self.store.pairs {
            let ([a, b, c, d], coords) = (values, self.coordinates(origin));
            let pairs = [[a, b], [c, d]].into_iter().zip(coords.map(inside));
            let values: Vec<_> = pairs.map(|(two, coord)| map.apply_pair(k, two, coord)).collect();
            return packed(self.store.elem, &values);
        }
        if !map.is_identity() {
            for (value, coord) in values.iter_mut().zip(self.coordinates(origin)) {
                *value = map.apply(k, *value, inside(coord));
            }
        }
        self.words(values)
    }

    /// Stores 64 rows of one store's columns to (row, column, matrix) `origin`. `words` returns,
    /// for each 8 accumulator columns, what [`words`](ThrStore::words) makes. `number` counts the
    /// group's stores and selects the slot. All threads of the group must call it together. Use it
    /// if you control the epilogue's loop; [`tile`](ThrStore::tile) stores a whole tile.
    #[track_caller]
    pub fn rows(
        &self,
        origin: [Val<'b, i32>; 3],
        number: u32,
        words: impl FnMut(&mut Body<'b, '_>, u32) -> StoreWords<'b>,
    ) {
        let k = &mut self.row.body();
        let placed = self.placed(origin);
        self.placed_rows(k, &placed, number, words);
    }

    /// Returns the coordinates in the matrix, and the matrix.
    #[track_caller]
    fn placed(&self, origin: [Val<'b, i32>; 3]) -> Placed<'b, T> {
        let [row, column, batch] = origin;
        let in_map = |map| Matrix { map, end: None, end_column: None };
        let (origin, matrix) = match &self.to {
            StoreDestination::Map(map) => (origin, in_map(Some(*map))),
            StoreDestination::Rows(_) => (origin, in_map(None)),
            StoreDestination::Groups { map, rows, groups } => {
                let [start, end] = groups.range(batch);
                // Whatever the groups' bounds are, their rows are those of the matrix.
                let (all, start) = (rows.extents[0], start + row);
                let (row, end) = (start.min(all).max(0), Some(end.min(all)));
                ([row, column, batch], Matrix { end, ..in_map(Some(*map)) })
            }
            StoreDestination::Made { map, maps, sizes } => {
                let map = map.tensormap_acquire(maps.at(batch));
                let [m, n, _] = sizes.of(batch);
                let end_column = Some(n / self.store.sums());
                (origin, Matrix { map: Some(map), end: Some(m), end_column })
            }
        };
        Placed { origin, matrix }
    }

    /// Like [`rows`](ThrStore::rows), with coordinates in the matrix.
    #[track_caller]
    fn placed_rows<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        placed: &Placed<'b, T>,
        number: u32,
        mut words: impl FnMut(&mut Body<'b, '_>, u32) -> StoreWords<'b>,
    ) {
        let _call = k.call();
        let k = &mut k.rescoped();
        let Placed { origin, matrix } = *placed;
        let StagedStore { slots, .. } = *self.store;
        let to = self.staging.offset(number % slots * self.store.slot_elements());
        let first = self.thread.eq(0);
        if !matches!(self.to, StoreDestination::Rows(_)) {
            k.if_(first, |k| k.cp_async_bulk_wait_group(slots - 1, BulkWait::Read));
        }
        self.barrier.sync();
        match (self.store.pairs, self.store.elem.bits()) {
            (false, 16) => self.store_matrices(k, to, &mut words),
            (false, 32) => self.store_pairs(k, to, &mut words),
            _ => self.store_parts(k, to, &mut words),
        }
        let Some(map) = matrix.map else {
            if let StoreDestination::Rows(rows) = &self.to {
                self.barrier.sync();
                rows.store(k, &self.store.shared_rows(to), origin, self.thread);
            }
            return;
        };
        let row_end = match &self.to {
            StoreDestination::Groups { rows, .. } => matrix.end.map(|end| (rows, end)),
            StoreDestination::Map(_)
            | StoreDestination::Rows(_)
            | StoreDestination::Made { .. } => None,
        };
        let is_made = matches!(self.to, StoreDestination::Made { .. });
        k.fence_proxy_async(ProxySpace::SharedCta);
        self.barrier.sync();
        let [row, column, batch] = origin;
        let whole = row_end.map(|(_, end)| (row + self.store.rows).le(end));
        k.if_(first, |k| {
            let (copy, slot) = (&self.store.copy, self.store.copy.tile().clone());
            let from = Tensor::new(TensorPointer::new(to).assume_aligned(128), slot);
            match whole {
                None if is_made => copy.store(map, &from, (row, column, 0)),
                None => copy.store(map, &from, (row, column, batch)),
                Some(whole) => k.if_(whole, |_| copy.store(map, &from, (row, column, 0))),
            }
            // The group is empty if the threads store; slots are counted in bulk groups.
            k.cp_async_bulk_commit_group();
        });
        if let (Some((rows, end)), Some(whole)) = (row_end, whole) {
            let rows = GlobalRows { extents: [end, rows.extents[1]], ..rows.clone() };
            let origin = [row, column, k.constant(0)];
            let from = self.store.shared_rows(to);
            k.if_(!whole, |k| rows.store(k, &from, origin, self.thread));
        }
    }

    /// Stores a tile: `blocks` times 64 rows, which are `apart` rows from each other, of `width`
    /// accumulator columns, starting at (row, column, matrix) `origin`. `acc` holds the thread's
    /// accumulators block by block; each passes through `map`. In a transposed store, accumulator
    /// rows are columns of the matrix. This is the usual call at the end of a tile.
    #[track_caller]
    pub fn tile(
        &self,
        acc: &RegisterTensor<'b, f32>,
        origin: [Val<'b, i32>; 3],
        [blocks, apart, width]: [u32; 3],
        map: &impl AccumulatorMap<'b>,
    ) {
        let k = &mut self.row.body();
        let Placed { origin: [row, column, batch], matrix } = self.placed(origin);
        let StagedStore { columns, transposed, .. } = *self.store;
        let (sums, chunks) = (self.store.sums(), width / (columns * self.store.sums()));
        for block in 0..blocks {
            for chunk in 0..chunks {
                let (down, right) = (block * apart, chunk * columns);
                let (down, right) = if transposed { (right, down) } else { (down, right) };
                let (row, column) = (row + down, column + right);
                let number = block * chunks + chunk;
                let placed = Placed { origin: [row, column, batch], matrix };
                self.placed_rows(k, &placed, number, |k, unit| {
                    let first = (block * width + chunk * columns * sums) / 8 + unit;
                    let at = if transposed {
                        [row + 8 * unit, column, batch]
                    } else {
                        [row, column + 8 / sums * unit, batch]
                    };
                    self.words_at(k, acc, first, &Placed { origin: at, matrix }, map)
                });
            }
        }
    }

    /// Packs the accumulators of 64 rows at (row, column, matrix) `origin` into the registers
    /// `kept`, each passed through `map`, so that [`part`](ThrStore::part) can store them later.
    /// The accumulators are free again afterwards, for example for the next tile's main loop.
    #[track_caller]
    pub fn keep(
        &self,
        acc: &RegisterTensor<'b, f32>,
        origin: [Val<'b, i32>; 3],
        kept: &Registers<'b, u32>,
        map: &impl AccumulatorMap<'b>,
    ) {
        let k = &mut self.row.body();
        let _call = k.call();
        let k = &mut k.rescoped();
        let Placed { origin: [row, column, batch], matrix } = self.placed(origin);
        let words = self.words_of_unit();
        for unit in 0..kept.len() / words {
            let at = [row, column + 8 / self.store.sums() * unit, batch];
            let made = self.words_at(k, acc, unit, &Placed { origin: at, matrix }, map);
            (words * unit..).zip(made).for_each(|(i, word)| kept.set(i, word));
        }
    }

    /// Stores part `part` of 64 rows that [`keep`](ThrStore::keep) has packed into `kept`. Call it
    /// in the next tile's main loop, one part per step, so that the store overlaps with the MMAs.
    #[track_caller]
    pub fn part(
        &self,
        [row, column, batch]: [Val<'b, i32>; 3],
        kept: &Registers<'b, u32>,
        part: u32,
    ) {
        let k = &mut self.row.body();
        let _call = k.call();
        let columns = self.store.columns;
        let (words, units) = (self.words_of_unit(), columns * self.store.sums() / 8);
        self.rows([row, column + part * columns, batch], part, |_, unit| {
            let first = words * (part * units + unit);
            (first..first + words).map(|word| kept.get(word)).collect()
        });
    }

    /// Returns the element of the 16-byte unit that is `units` after the lane's first one.
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
        let to = TensorPointer::new(to).recast::<u16>().resolve().0;
        let StagedStore { columns, transposed, .. } = *self.store;
        let order = if transposed { MatrixOrder::Trans } else { MatrixOrder::Rows };
        let groups = columns / 8;
        for first in (0..groups).step_by(2) {
            // Transposed slots have lines of 64 elements, and 8 of them complete the swizzle
            // pattern.
            let at = if transposed { self.unit(0) + first * 8 * 64 } else { self.unit(first) };
            let mut all = words(k, first);
            if first + 1 < groups {
                all.extend(words(k, first + 1));
            }
            match *all.as_slice() {
                [a, b, c, d] => {
                    let four: Val<'_, Vector<u32, 4>> = Val::pack([a, b, c, d]);
                    to.stmatrix(at, four.bitcast::<Vector<u16, 8>>(), order);
                }
                [a, b] => {
                    let two: Val<'_, Vector<u32, 2>> = Val::pack([a, b]);
                    to.stmatrix(at, two.bitcast::<Vector<u16, 4>>(), order);
                }
                // `words` makes two words per 8 columns.
                _ => {}
            }
        }
    }

    /// Writes the lane's part of a row at once, less than 8 bytes. Four consecutive lanes have
    /// adjacent parts of this row, and of the row 8 further.
    #[track_caller]
    fn store_parts(
        &self,
        k: &mut Body<'b, '_>,
        to: Val<'b, Shared<T>>,
        words: &mut impl FnMut(&mut Body<'b, '_>, u32) -> StoreWords<'b>,
    ) {
        let size = self.store.elem.size_bytes();
        let part = 2 * size / self.store.sums();
        let next = 8 * self.store.pitch;
        for group in 0..self.store.columns * size / (4 * part) {
            let byte = 4 * part * group;
            let at = self.unit(byte / 16) + (self.lane % 4 * part + byte % 16) / size;
            let (upper, lower) = (to.offset(at), to.offset(at + next));
            let all = words(k, group);
            match (part, all.as_slice()) {
                (1, [both]) => {
                    upper.ptr_cast::<u8>().store(0, both.cvt::<u8>());
                    lower.ptr_cast::<u8>().store(0, (*both >> 8u32).cvt::<u8>());
                }
                (2, [both]) => {
                    let halves = both.bitcast::<Vector<u16, 2>>().lanes();
                    for (to, half) in [upper, lower].into_iter().zip(halves) {
                        to.ptr_cast::<u16>().store(0, half);
                    }
                }
                (_, [first, second]) => {
                    upper.ptr_cast::<u32>().store(0, *first);
                    lower.ptr_cast::<u32>().store(0, *second);
                }
                // `words` makes one or two words per 8 accumulator columns.
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
        let to = TensorPointer::new(to).recast::<u32>().resolve().0;
        let inside = self.lane % 2 * 2;
        // The lane's second row is 8 further, at the same row of the swizzle pattern.
        let next = 8 * self.store.pitch;
        for group in 0..self.store.columns / 8 {
            let at = self.unit(2 * group) + inside;
            if let [a, b, c, d] = *words(k, group).as_slice() {
                let pair = |x, y| -> Val<'_, Vector<u32, 2>> { Val::pack([x, y]) };
                to.store_vector(at, pair(a, b));
                to.store_vector(at + next, pair(c, d));
            }
        }
    }

    /// Waits until TMA has read all of the group's stores from shared memory. Call it before you
    /// reuse the staging memory and before the block ends.
    #[track_caller]
    pub fn finish(&self) {
        let k = &mut self.row.body();
        if !matches!(self.to, StoreDestination::Rows(_)) {
            k.if_(self.thread.eq(0), |k| k.cp_async_bulk_wait_group(0, BulkWait::Read));
        }
    }
}
