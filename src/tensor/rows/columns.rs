//! [`RowColumns`]: a vector of one element for each column, beside the elements of a row.

use crate::ir::builder::Converted;
use crate::ir::op::CpAsyncCache;
use crate::ir::{Body, Global, Shared, Val};

use super::part::{RowElements, RowPart, RowPointer, filled, lanes_of, narrow};
use super::tile::RowAccess;
use crate::tensor::{lead, shifted};

/// The elements of a vector, for example the weight of a norm, at the columns of a thread.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{RowAccess, RowTile};
///
/// // y(i, j) = x(i, j) * w(j) with a block for each row.
/// let tile = RowTile { threads: 128, team: 128, cluster: 1, vectors: 8, access: RowAccess::Aligned };
/// type Params = (Global<f32>, Global<f32>, GlobalMut<f32>, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "scaled", Target::SM_80, |k, (x, w, y, columns)| {
///     let start = tile.row(k).mul_wide(columns);
///     let part = tile.part::<f32>(k, start, columns);
///     let elements = part.load_elements(k, x.offset(start), 0.0);
///     let weights = part.load_columns(k, w);
///     let results = elements.iter_f32().zip(weights.iter_f32(k)).map(|(x, w)| x * w);
///     part.store(k, y.offset(start), results);
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
pub struct RowColumns<'b, T> {
    part: RowPart<'b>,
    vector: Val<'b, Global<T>>,
    held: Held<'b, T>,
}

/// The elements before they are used.
#[derive(Clone, Debug)]
enum Held<'b, T> {
    Registers(RowElements<'b, T>),
    /// The thread's first slot. Of a ragged row, elements of a slot before the thread's vector, which goes on in the slot after it.
    Slots(Val<'b, Shared<u32>>, Option<Val<'b, i32>>),
    Global,
}

impl<'b> RowPart<'b> {
    /// Starts to load the elements of a vector at the columns of the row. Beside 8 vectors of a row or more there are few registers:
    /// the elements are copied to shared memory then, if there is enough for the blocks of an SM. Others are loaded when they are used, and
    /// so are those of ragged rows that share a block.
    #[track_caller]
    pub fn load_columns<'k: 'b, T: Converted>(
        &self,
        k: &mut Body<'k, '_>,
        vector: Val<'b, Global<T>>,
    ) -> RowColumns<'b, T> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let tile = self.tile;
        let has_slots = match tile.access {
            RowAccess::Aligned => true,
            RowAccess::Ragged => tile.team == tile.threads,
            RowAccess::Elements => false,
        };
        let words = self.slot(tile.vectors) as u32;
        // An SM has blocks of 1024 threads together.
        let blocks = u64::from((1024 / tile.threads.max(1)).max(1));
        let needed = blocks * (k.shared_bytes() + u64::from(4 * words) + 2048);
        let held = if !tile.is_wide() {
            Held::Registers(match self.head {
                None => self.load_elements(k, vector, 0.0),
                Some(_) => {
                    let singles = self.columns_by_vector(k, vector).collect();
                    RowElements { vectors: Vec::new(), singles }
                }
            })
        } else if has_slots && needed <= k.target().max_shared_bytes() {
            let slots = k.shared_aligned::<u32>(words, 16).offset(k.thread_idx().x * 4);
            let before = self.head.map(|_| self.copy_around(k, vector, slots));
            if before.is_none() {
                self.copy_aligned(k, vector, slots);
            }
            Held::Slots(slots, before)
        } else {
            Held::Global
        };
        RowColumns { part: *self, vector, held }
    }

    /// Copies the thread's vectors to its slots.
    fn copy_aligned<T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        vector: Val<'b, Global<T>>,
        slots: Val<'b, Shared<u32>>,
    ) {
        let first = <Global<T>>::words(vector.offset(self.first_column()));
        for number in 0..self.tile.vectors {
            let (to, from) = (slots.offset(self.slot(number)), self.word::<T>(number));
            let from = first.offset(from);
            k.if_(self.has_vector(number), |k| k.cp_async(to, from, CpAsyncCache::Cg, 16));
        }
    }

    /// Copies the aligned vectors that have elements of the thread's vectors to its slots. A vector of a ragged row starts inside an aligned
    /// one and ends in the next one, which the next thread copies. Returns the elements before it.
    fn copy_around<T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        vector: Val<'b, Global<T>>,
        slots: Val<'b, Shared<u32>>,
    ) -> Val<'b, i32> {
        let (tile, per, size) = (self.tile, self.vector as i32, T::SCALAR.size_bytes() as i32);
        let before = (lead(vector) + self.first_column()) & (per - 1);
        let is_last = k.thread_idx().x.eq((tile.threads - 1) as i32);
        for number in 0..tile.vectors {
            let index = self.thread + (number * tile.sharers()) as i32;
            let column = self.first_column() - before + number as i32 * self.stride();
            let has = [index.le(self.vectors), is_last & index.lt(self.vectors)];
            for (next, has) in (0..).zip(has) {
                let column = column + next * per;
                // The bytes behind the last column are not read.
                let bytes = ((self.columns - column) * size).max(0).min(16).cvt::<u32>();
                let (from, to) =
                    (vector.offset(column), slots.offset(self.slot(number) + 4 * next));
                let from = <Global<T>>::words(from);
                k.if_(has, |k| k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, bytes));
            }
        }
        before
    }

    /// Returns the words of shared memory from the thread's first slot to that of its vector `number`. A block with ragged rows has one
    /// more slot than threads.
    fn slot(&self, number: u32) -> i32 {
        (number * (self.tile.threads + u32::from(self.head.is_some())) * 4) as i32
    }
}

impl<'b, T: Converted> RowColumns<'b, T> {
    /// Returns an iterator over the elements in the order of [`RowPart`], converted to `f32`. It loads and converts a vector when
    /// it comes to it, for example where [`RowPart::store`] stores the vector.
    pub fn iter_f32<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
    ) -> Box<dyn Iterator<Item = Val<'b, f32>> + '_> {
        let part = self.part;
        match &self.held {
            Held::Registers(elements) => Box::new(elements.iter_f32()),
            Held::Slots(slots, before) => {
                // A thread reads what it has copied itself, and of ragged rows what the next one has.
                k.cp_async_wait_all();
                before.inspect(|_| k.barrier());
                let (mut own_k, slots, before): (Body<'b, 'b>, _, _) =
                    (k.rescoped(), *slots, *before);
                let fill = filled(&own_k, narrow::<T>(0.0));
                let load = move |number| {
                    own_k.if_with(part.has_vector(number), fill, |k| {
                        let own = slots.load_vector::<4>(k, part.slot(number));
                        let Some(before) = before else { return own };
                        let next = slots.load_vector::<4>(k, part.slot(number) + 4);
                        let bytes = (before * T::SCALAR.size_bytes() as i32).cvt::<u32>();
                        Val::pack(shifted(own.lanes(), next.lanes(), bytes))
                    })
                };
                let elements = (0..part.tile.vectors).map(load).flat_map(lanes_of::<T>);
                let (mut k, vector): (Body<'b, 'b>, _) = (k.rescoped(), self.vector);
                let end = move |number| part.load_end(&mut k, vector, number, 0.0);
                let elements = elements.chain((0..part.end_count()).map(end));
                Box::new(elements.map(|value| value.cvt::<f32>()))
            }
            Held::Global => {
                let elements = part.columns_by_vector(k, self.vector);
                Box::new(elements.map(|value| value.cvt::<f32>()))
            }
        }
    }
}
