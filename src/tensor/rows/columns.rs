//! [`RowColumns`]: a vector of one element for each column, beside the elements of a row.

use crate::ir::builder::Converted;
use crate::ir::op::CpAsyncCache;
use crate::ir::{Body, Global, Shared, Val};

use super::part::{RowElements, RowPart, RowPointer, filled, lanes_of, narrow};
use super::tile::RowAccess;

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
    /// The thread's first slot. The slot of its next vector is as many vectors further as the block has threads.
    Slots(Val<'b, Shared<u32>>),
    Global,
}

impl<'b> RowPart<'b> {
    /// Starts to load the elements of a vector at the columns of the row. Beside 8 vectors of a row or more there are few registers:
    /// the elements of aligned rows are copied to shared memory then, if there is enough for the blocks of an SM. Others are loaded when
    /// they are used.
    #[track_caller]
    pub fn load_columns<'k: 'b, T: Converted>(
        &self,
        k: &mut Body<'k, '_>,
        vector: Val<'b, Global<T>>,
    ) -> RowColumns<'b, T> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let (tile, is_aligned) = (self.tile, self.tile.access == RowAccess::Aligned);
        // An SM has blocks of 1024 threads together.
        let blocks = u64::from((1024 / tile.threads.max(1)).max(1));
        let needed = blocks * (k.shared_bytes() + u64::from(tile.block_bytes()) + 2048);
        let held = if !tile.is_wide() {
            Held::Registers(match self.head {
                None => self.load_elements(k, vector, 0.0),
                Some(_) => {
                    let singles = self.columns_by_vector(k, vector).collect();
                    RowElements { vectors: Vec::new(), singles }
                }
            })
        } else if is_aligned && needed <= k.target().max_shared_bytes() {
            let slots = k.shared_aligned::<u32>(tile.block_bytes() / 4, 16);
            let slots = slots.offset(k.thread_idx().x * 4);
            let first = <Global<T>>::words(vector.offset(self.first_column()));
            for number in 0..tile.vectors {
                let (to, from) = (slots.offset(self.slot(number)), self.word::<T>(number));
                let from = first.offset(from);
                k.if_(self.has_vector(number), |k| k.cp_async(to, from, CpAsyncCache::Cg, 16));
            }
            Held::Slots(slots)
        } else {
            Held::Global
        };
        RowColumns { part: *self, vector, held }
    }

    /// Returns the words of shared memory from the thread's first slot to that of its vector `number`.
    fn slot(&self, number: u32) -> i32 {
        (number * self.tile.threads * 4) as i32
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
            Held::Slots(slots) => {
                // A thread reads what it has copied itself.
                k.cp_async_wait_all();
                let (mut k, slots): (Body<'b, 'b>, _) = (k.rescoped(), *slots);
                let fill = filled(&k, narrow::<T>(0.0));
                let load = move |number| {
                    k.if_with(part.has_vector(number), fill, |k| {
                        slots.load_vector::<4>(k, part.slot(number))
                    })
                };
                let elements = (0..part.tile.vectors).map(load).flat_map(lanes_of::<T>);
                Box::new(elements.map(|value| value.cvt::<f32>()))
            }
            Held::Global => {
                let elements = part.columns_by_vector(k, self.vector);
                Box::new(elements.map(|value| value.cvt::<f32>()))
            }
        }
    }
}
