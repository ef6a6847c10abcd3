//! [`ColumnValues`]: one value per matrix column, such as a norm's weights or a bias, which a
//! kernel combines with the elements of every row. Use it if every row needs the same values.

use crate::ir::builder::Converted;
use crate::ir::op::CpAsyncCache;
use crate::ir::{Body, Global, Shared, Val};

use super::partition::{RowFragment, RowPartition, RowPointer, filled, lanes_of, narrow};
use super::row_tile::RowAccess;
use crate::tensor::copy::{ByteShift, lead};

/// One value per column (a norm's weights, a bias) at the thread's columns. It is loaded early, so
/// that its loads overlap with the row's loads, and read late.
///
/// Use it instead of [`RowPartition::load_elements`] for values that every row shares: it keeps
/// them in registers only if they are few, and otherwise in shared memory.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::{RowAccess, RowTile};
///
/// // y(i, j) = x(i, j) * w(j) with a block for each row.
/// let tile = RowTile { threads: 128, team: 128, cluster: 1, vectors: 8, access: RowAccess::Aligned };
/// type Params = (Global<f32>, Global<f32>, GlobalMut<f32>, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "scaled", Target::SM_80, |k, (x, w, y, columns)| {
///     let start = tile.row(k).mul_wide(columns);
///     let part = tile.part::<f32>(k, start, columns);
///     let elements = part.load_elements(x.offset(start), 0.0);
///     let weights = part.load_columns(w);
///     let results = elements.iter_f32().zip(weights.iter_f32()).map(|(x, w)| x * w);
///     part.store(y.offset(start), results);
/// })?;
/// assert!(kernel.ptx().text().contains("cp.async"));
/// let device = Device::sim()?;
/// let w: Vec<f32> = (0..1000).map(|column| column as f32).collect();
/// let mut y = device.zeros::<f32>(2000)?;
/// let args = (&device.upload(&[2.0; 2000])?, &device.upload(&w)?, &mut y, 1000);
/// device.load(&kernel)?.launch(Grid::new([2, 1, 1], [128, 1, 1]), args)?;
/// assert!(y.to_vec()?.iter().zip(w.iter().cycle()).all(|(y, w)| *y == 2.0 * w));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ColumnValues<'b, T> {
    part: RowPartition<'b>,
    vector: Val<'b, Global<T>>,
    held: Held<'b, T>,
}

/// Where the values are until they are used.
#[derive(Clone, Debug)]
enum Held<'b, T> {
    Registers(RowFragment<'b, T>),
    /// The thread's first slot, and its values at the row's ends. In a ragged row also how many
    /// elements of a slot precede the thread's vector, which continues in the next slot.
    Slots(Val<'b, Shared<u32>>, Vec<Val<'b, T>>, Option<Val<'b, i32>>),
    Global,
}

impl<'b> RowPartition<'b> {
    /// Starts loading a vector of column values for the row's columns.
    ///
    /// An aligned row with fewer than 8 vectors per thread loads them into registers. Otherwise
    /// `cp.async` copies them to shared memory, if the row is aligned or takes the whole block, and
    /// if all blocks of an SM fit. What remains is loaded when it is used (8 or more vectors) or
    /// element by element into registers.
    ///
    /// Ragged rows read whole aligned vectors: unless `vector` is a multiple of 16 bytes, up to 15
    /// bytes before it must be readable.
    #[track_caller]
    pub fn load_columns<T: Converted>(&self, vector: Val<'b, Global<T>>) -> ColumnValues<'b, T> {
        let k = &mut self.columns.body();
        let _call = k.call();
        let tile = self.tile;
        let has_slots = match tile.access {
            RowAccess::Aligned => true,
            RowAccess::Ragged => tile.team == tile.threads,
            RowAccess::Elements => false,
        };
        let words = self.slot(tile.vectors) as u32;
        // An SM runs 1024 threads' worth of blocks.
        let blocks = u64::from((1024 / tile.threads.max(1)).max(1));
        let needed = blocks * (k.shared_bytes() + u64::from(4 * words) + 2048);
        let fits = has_slots && needed <= k.target().max_shared_bytes();
        let in_registers = self.head.is_none() && !tile.is_wide();
        let held = if in_registers {
            Held::Registers(self.load_elements(vector, 0.0))
        } else if fits {
            let slots = k.shared_aligned::<u32>(words, 16).offset(k.thread_idx().x * 4);
            let ends = (0..self.end_count()).map(|end| self.load_end(k, vector, end, 0.0));
            let ends = ends.collect();
            Held::Slots(slots, ends, self.copy(k, vector, slots))
        } else if tile.is_wide() {
            Held::Global
        } else {
            let singles = self.columns_by_vector(k, vector).collect();
            Held::Registers(RowFragment { vectors: Vec::new(), singles })
        };
        ColumnValues { part: *self, vector, held }
    }

    /// Copies the aligned vectors in which the thread's vectors start to its slots. In a ragged row
    /// a vector starts inside an aligned one and ends in the next, which the next thread copies.
    /// Returns how many elements precede it.
    ///
    /// The copies go through L1, so that an SM's blocks share them. The values occupy few L2 lines,
    /// which cannot serve all SMs at once.
    fn copy<T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        vector: Val<'b, Global<T>>,
        slots: Val<'b, Shared<u32>>,
    ) -> Option<Val<'b, i32>> {
        let before =
            self.head.map(|_| (lead(vector) + self.first_column()) & (self.vector as i32 - 1));
        let first = before.map_or(self.first_column(), |before| self.first_column() - before);
        let words = <Global<T>>::words(vector.offset(first));
        let copy = |k: &mut Body<'_, '_>, number: u32| {
            let (to, from) = (slots.offset(self.slot(number)), self.word::<T>(number));
            k.cp_async(to, words.offset(from), CpAsyncCache::Ca, 16);
        };
        let copy_all = |k: &mut Body<'_, '_>| {
            for number in 0..self.tile.vectors {
                k.if_(self.has_vector(number), |k| copy(k, number));
            }
        };
        if before.is_none() {
            copy_all(k);
            return None;
        }
        let after_last_thread =
            |k: &mut Body<'_, '_>| self.copy_after_last_thread(k, vector, first, slots);
        // Behind one branch, all copies are issued together. If each has its own predicate, `ptxas`
        // moves them behind the row's loads.
        k.if_else(
            self.has_vector(self.tile.vectors - 1),
            |k| {
                (0..self.tile.vectors).for_each(|number| copy(k, number));
                after_last_thread(k);
            },
            |k| {
                copy_all(k);
                self.copy_after_last_vector(k, vector, first, slots);
                after_last_thread(k);
            },
        );
        before
    }

    /// Copies the aligned vector that completes a ragged row's last vector.
    fn copy_after_last_vector<T: Converted>(
        &self,
        k: &mut Body<'_, '_>,
        vector: Val<'b, Global<T>>,
        first: Val<'b, i32>,
        slots: Val<'b, Shared<u32>>,
    ) {
        let (left, sharers) = (self.vectors - self.thread, self.tile.sharers() as i32);
        let number = left / sharers;
        let is_own = left.ge(0) & (left % sharers).eq(0);
        let has = is_own & number.lt(self.tile.vectors as i32);
        let (slot, column) = (number * self.slot(1), first + number * self.stride());
        self.copy_end(k, has, vector.offset(column), slots.offset(slot), column);
    }

    /// Copies the aligned vectors that complete the block's last thread; thread `i` copies for
    /// vector `i`.
    fn copy_after_last_thread<T: Converted>(
        &self,
        k: &mut Body<'_, '_>,
        vector: Val<'b, Global<T>>,
        first: Val<'b, i32>,
        slots: Val<'b, Shared<u32>>,
    ) {
        let [threads, sharers] = [self.tile.threads, self.tile.sharers()].map(|count| count as i32);
        let thread = k.thread_idx().x;
        let more = thread * (sharers - 1) + threads;
        let has = thread.lt(self.tile.vectors as i32) & (self.thread + more).le(self.vectors);
        let (slot, column) = ((thread + 1) * (4 * threads), first + more * self.vector as i32);
        self.copy_end(k, has, vector.offset(column), slots.offset(slot), column);
    }

    /// Copies a vector from a column on if `has`. Bytes beyond the last column are not read.
    fn copy_end<T: Converted>(
        &self,
        k: &mut Body<'_, '_>,
        has: Val<'b, bool>,
        from: Val<'b, Global<T>>,
        slot: Val<'b, Shared<u32>>,
        column: Val<'b, i32>,
    ) {
        let bytes = (self.columns - column) * T::scalar().size_bytes() as i32;
        let bytes = bytes.max(0).min(16).cvt::<u32>();
        let from = <Global<T>>::words(from);
        k.if_(has, |k| k.cp_async_zfill(slot, from, CpAsyncCache::Ca, 16, bytes));
    }

    /// Returns the distance in words from the thread's first slot to that of its vector `number`.
    /// For ragged rows a block has one slot more than threads.
    fn slot(&self, number: u32) -> i32 {
        (number * (self.tile.threads + u32::from(self.head.is_some())) * 4) as i32
    }
}

impl<'b, T: Converted> ColumnValues<'b, T> {
    /// Iterates over the weights (or biases) of the thread's columns as `f32`: one value for each
    /// element of the thread's share of the row, in the same order as [`RowFragment::iter_f32`], so
    /// you can `zip` the two. Each vector is loaded and converted only when the iterator reaches
    /// it, for example while [`RowPartition::store`] stores the products.
    ///
    /// For ragged rows all threads of the block must call it together. The weights can be in shared
    /// memory, where a thread's vector can end in one that the next thread has copied, so the call
    /// waits at a block barrier. Put another barrier after the last use before you load the same
    /// weights again, because the new copies would overwrite what other threads still read.
    pub fn iter_f32(&self) -> Box<dyn Iterator<Item = Val<'b, f32>> + '_> {
        let k = &mut self.vector.body();
        let part = self.part;
        match &self.held {
            Held::Registers(elements) => Box::new(elements.iter_f32()),
            Held::Slots(slots, ends, before) => {
                // A thread reads what it has copied itself; in ragged rows, also what the next
                // thread has copied.
                k.cp_async_wait_all();
                if before.is_some() {
                    k.barrier();
                }
                let (mut own_k, slots, before): (Body<'b, 'b>, _, _) =
                    (k.rescoped(), *slots, *before);
                let fill = filled(&own_k, narrow::<T>(0.0));
                let shift = before.map(|before| {
                    let bytes = (before * T::scalar().size_bytes() as i32).cvt::<u32>();
                    (slots.offset((bytes & 8u32).cvt::<i32>() >> 2), ByteShift::new(bytes))
                });
                let load = move |number| {
                    own_k.if_with(part.has_vector(number), fill, |_| {
                        let at = part.slot(number);
                        let Some((half, shift)) = shift else {
                            return slots.load_vector::<4>(at);
                        };
                        let pair = |i: i32| half.load_vector::<2>(at + i).lanes();
                        let ([a, b], [c, d], [e, f]) = (pair(0), pair(2), pair(4));
                        Val::pack(shift.of([a, b, c, d, e, f]))
                    })
                };
                let elements = (0..part.tile.vectors).map(load).flat_map(lanes_of::<T>);
                Box::new(elements.chain(ends.iter().copied()).map(|value| value.cvt::<f32>()))
            }
            Held::Global => {
                let elements = part.columns_by_vector(k, self.vector);
                Box::new(elements.map(|value| value.cvt::<f32>()))
            }
        }
    }
}
