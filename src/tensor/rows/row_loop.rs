//! [`RowLoop`]: the rows of a block, the next ones in flight while the threads work on the present one.

use crate::ir::builder::Converted;
use crate::ir::op::CpAsyncCache;
use crate::ir::{Body, Element, Global, Shared, Target, Val, Vector, range};

use super::part::{RowElements, RowPart, RowPointer, filled, lanes_of, narrow};
use super::reduce::cluster_sync;
use super::tile::{RowAccess, RowTile};

/// The rows that the threads of a block work on: one, or, for a tile with [stages](RowTile::stages), row `i`, `i + n`, ..
/// for `n` blocks or clusters.
///
/// The inputs of a tile with stages go through a ring of stages in shared memory. Each thread has its vectors of the next
/// `stages` rows in flight (`cp.async`, one group for each row) while it works on a row. No barrier of the block is needed,
/// because a thread reads only what it has copied itself.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{RowAccess, RowLoop, RowTile, tree};
///
/// // Subtracts the largest element of each row. One block has all rows.
/// let access = RowAccess::Aligned;
/// let tile = RowTile { threads: 64, team: 64, cluster: 1, vectors: 2, access, stages: 2 };
/// type Params = (Global<f32>, GlobalMut<f32>, [i32; 2]);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "below", Target::SM_90, |k, (x, y, sizes)| {
///     let pitch = sizes[1].cvt::<i64>();
///     let mut rows = RowLoop::new::<f32>(Target::SM_90, tile, pitch, sizes);
///     let x = rows.input(k, (x, pitch), f32::NEG_INFINITY);
///     rows.for_each(k, |k, row| {
///         let values = row.load(k, &x).to_f32();
///         let own = tree(k.constant(f32::NEG_INFINITY), &values, |a, b| a.max(b));
///         let [max] = row.part.reduce(k, [own], |_, [a], [b]| [a.max(b)]);
///         row.part.store(k, y.offset(row.number * pitch), values.iter().map(|value| *value - max));
///     });
/// })?;
/// let device = Device::sim()?;
/// let x = device.upload(&(0..5 * 300).map(|i| i as f32).collect::<Vec<_>>())?;
/// let mut y = device.zeros::<f32>(5 * 300)?;
/// device.load(&kernel)?.launch(Grid::cover(64, 64), (&x, &mut y, [5, 300]))?;
/// assert_eq!(y.to_vec()?, (0..5 * 300).map(|i| (i % 300) as f32 - 299.0).collect::<Vec<_>>());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RowLoop<'b> {
    target: Target,
    tile: RowTile,
    vector: u32,
    /// The elements from a row to the next one, which decide where the vectors of a row start.
    pitch: Val<'b, i64>,
    rows: Val<'b, i32>,
    columns: Val<'b, i32>,
    /// The inputs that go through shared memory.
    inputs: Vec<Box<dyn CopyRow<'b> + 'b>>,
}

/// An input matrix of a [`RowLoop`].
#[derive(Clone, Copy, Debug)]
pub struct RowInput<'b, P> {
    base: Val<'b, P>,
    pitch: Val<'b, i64>,
    fill: f32,
    slots: Option<Val<'b, Shared<u32>>>,
}

/// A vector of one element for each column, for example the weight of a norm.
#[derive(Clone, Copy, Debug)]
pub struct RowColumns<'b, T> {
    base: Val<'b, Global<T>>,
    slots: Option<Val<'b, Shared<u32>>>,
}

/// The row of a [`RowLoop`] that the threads work on.
#[derive(Clone, Copy, Debug)]
pub struct CurrentRow<'b> {
    /// The number of the row.
    pub number: Val<'b, i64>,
    /// The thread's part of it.
    pub part: RowPart<'b>,
    /// The row that is copied to the present one's stage, and the thread's part of it.
    next: Val<'b, i64>,
    next_part: RowPart<'b>,
    /// The words from the first stage to the present one.
    stage: Val<'b, i32>,
}

impl<'b> RowLoop<'b> {
    /// The rows of a block, of `rows` rows with `columns` columns of `T` each. `pitch` is the pitch of the inputs.
    pub fn new<T: Element>(
        target: Target,
        tile: RowTile,
        pitch: Val<'b, i64>,
        [rows, columns]: [Val<'b, i32>; 2],
    ) -> Self {
        let vector = tile.vector(T::SCALAR);
        RowLoop { target, tile, vector, pitch, rows, columns, inputs: Vec::new() }
    }

    /// Adds an input matrix with its pitch; `fill` is the value of elements that a row does not have.
    #[track_caller]
    pub fn input<'k: 'b, P: RowPointer>(
        &mut self,
        k: &mut Body<'k, '_>,
        (base, pitch): (Val<'b, P>, Val<'b, i64>),
        fill: f32,
    ) -> RowInput<'b, P> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let slots = self.has_vectors().then(|| self.slots(k, self.tile.stages));
        let input = RowInput { base, pitch, fill, slots };
        if slots.is_some() {
            self.inputs.push(Box::new(input));
        }
        input
    }

    /// Adds a vector of one element for each column, after the inputs. A block whose rows all start at a multiple of 16 bytes
    /// reads it once, if it fits into shared memory beside the inputs.
    #[track_caller]
    pub fn columns<'k: 'b, T: Converted>(
        &mut self,
        k: &mut Body<'k, '_>,
        base: Val<'b, Global<T>>,
    ) -> RowColumns<'b, T> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        // Two blocks of at most 512 threads share an SM.
        let blocks = if self.tile.threads <= 512 { 2 } else { 1 };
        let needed = blocks * (k.shared_bytes() + u64::from(self.tile.stage_bytes()) + 2048);
        let fits = needed <= self.target.max_shared_bytes();
        let once = self.has_vectors() && self.tile.access == RowAccess::Aligned && fits;
        let slots = once.then(|| self.slots(k, 1));
        if let Some(slots) = slots {
            // These copies belong to the group of the first row.
            copy(k, base, &self.tile.part::<T>(k, k.constant(0), self.columns), slots);
        }
        RowColumns { base, slots }
    }

    /// Runs `body` for each row of the block. With stages, the body loads each input once, before vectors of columns.
    #[track_caller]
    pub fn for_each<'k: 'b>(
        self,
        k: &mut Body<'k, '_>,
        body: impl for<'c> FnOnce(&mut Body<'c, 'b>, CurrentRow<'c>),
    ) {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let RowTile { stages, cluster, .. } = self.tile;
        let first = self.tile.row(k);
        if stages == 0 {
            let part = self.part(k, first);
            let (number, stage) = (first.cvt::<i64>(), k.constant(0));
            body(k, CurrentRow { number, part, next: number, next_part: part, stage });
            return;
        }
        let step = k.grid_dim().x / cluster as i32;
        let stage_words = (self.tile.stage_bytes() / 4) as i32;
        for stage in 0..stages as i32 {
            let row = first + step * stage;
            let part = self.part(k, row);
            for input in &self.inputs {
                input.copy(k, row.cvt::<i64>(), &part, k.constant(stage * stage_words));
            }
            k.cp_async_commit_group();
        }
        k.for_(range(first, self.rows).step(step), k.constant(0u32), |k, row, count| {
            let mut part = self.part(k, row);
            part.round = Some(count.cvt::<i32>());
            let next = row + step * stages as i32;
            let next_part = self.part(k, next);
            let stage = (count % stages).cvt::<i32>() * stage_words;
            let (number, next) = (row.cvt::<i64>(), next.cvt::<i64>());
            body(k, CurrentRow { number, part, next, next_part, stage });
            k.cp_async_commit_group();
            count + 1
        });
        if cluster > 1 {
            // No block ends before the others have told it that its results are read.
            cluster_sync(k);
        }
    }

    /// The inputs go through shared memory.
    fn has_vectors(&self) -> bool {
        self.tile.stages > 0 && self.tile.access != RowAccess::Elements
    }

    /// Allocates stages and returns the thread's slot for its first vector in the first one. The slot of the next vector is as
    /// many vectors further as the block has threads.
    #[track_caller]
    fn slots(&self, k: &Body<'b, '_>, stages: u32) -> Val<'b, Shared<u32>> {
        let slots = k.shared_aligned::<u32>(stages * self.tile.stage_bytes() / 4, 16);
        slots.offset(k.thread_idx().x * 4)
    }

    /// The thread's part of a row, with no columns beyond the last row.
    #[track_caller]
    #[inline]
    fn part<'c>(&self, k: &Body<'c, '_>, row: Val<'c, i32>) -> RowPart<'c>
    where
        'b: 'c,
    {
        // Numbers after the last row may have bit 31 set.
        let columns = row.cvt::<u32>().lt(self.rows.cvt::<u32>()).select(self.columns, 0);
        self.tile.part_of(k, self.vector, row.cvt::<i64>() * self.pitch, columns)
    }
}

impl<'b> CurrentRow<'b> {
    /// Loads the thread's elements of the row. With stages, the copy of a later row to the same stage starts at once.
    #[track_caller]
    pub fn load<'k: 'b, P: RowPointer>(
        &self,
        k: &mut Body<'k, '_>,
        input: &RowInput<'b, P>,
    ) -> RowElements<'b, P::Elem> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let row = input.base.offset(self.number * input.pitch);
        let Some(slots) = input.slots else {
            return self.part.load_elements(k, row, input.fill);
        };
        let singles = self.part.load_ends(k, row, input.fill).singles;
        k.cp_async_wait_group(self.part.tile.stages - 1);
        let slots = slots.offset(self.stage);
        let vectors = self.part.load_slots(k, slots, narrow::<P::Elem>(input.fill));
        input.copy(k, self.next, &self.next_part, self.stage);
        RowElements { vectors, singles }
    }

    /// Returns the elements of a vector at the thread's columns; 0 where the row has no column. Those of a tile with stages, or
    /// with 8 vectors or more in registers, are not loaded before they are used.
    #[track_caller]
    pub fn load_columns<'k: 'b, T: Converted>(
        &self,
        k: &mut Body<'k, '_>,
        columns: &RowColumns<'b, T>,
    ) -> ColumnElements<'b, T> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let is_early = self.part.tile.stages == 0 && self.part.tile.vectors < 8;
        let loaded = is_early.then(|| self.part.load_columns(k, columns.base, 0.0));
        ColumnElements { part: self.part, columns: *columns, loaded }
    }
}

/// The elements of a [`RowColumns`] at the columns of a thread.
#[derive(Clone, Debug)]
pub struct ColumnElements<'b, T> {
    part: RowPart<'b>,
    columns: RowColumns<'b, T>,
    loaded: Option<RowElements<'b, T>>,
}

impl<'b, T: Converted> ColumnElements<'b, T> {
    /// Returns an iterator over the elements in the order of [`RowPart`], converted to `f32`. It loads and converts a vector when
    /// it comes to it, for example where [`RowPart::store`] stores the vector.
    pub fn iter_f32<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
    ) -> Box<dyn Iterator<Item = Val<'b, f32>> + '_> {
        if let Some(loaded) = &self.loaded {
            return Box::new(loaded.iter_f32());
        }
        let part = self.part;
        let Some(slots) = self.columns.slots else {
            let columns = part.columns_by_vector(k, self.columns.base);
            return Box::new(columns.map(|value| value.cvt::<f32>()));
        };
        let mut k: Body<'b, 'b> = k.rescoped();
        let fill = filled(&k, narrow::<T>(0.0));
        let vectors = (0..part.tile.vectors)
            .map(move |number| part.load_slot(&mut k.rescoped(), slots, number, fill));
        Box::new(vectors.flat_map(lanes_of::<T>).map(|value| value.cvt::<f32>()))
    }
}

/// An input whose rows are copied to shared memory.
trait CopyRow<'b> {
    /// Starts the copies of the thread's part of row `number` to the stage at this offset in words.
    fn copy(
        &self,
        k: &mut Body<'b, '_>,
        number: Val<'b, i64>,
        part: &RowPart<'b>,
        stage: Val<'b, i32>,
    );
}

impl<'b, P: RowPointer> CopyRow<'b> for RowInput<'b, P> {
    #[track_caller]
    fn copy(
        &self,
        k: &mut Body<'b, '_>,
        number: Val<'b, i64>,
        part: &RowPart<'b>,
        stage: Val<'b, i32>,
    ) {
        if let Some(slots) = self.slots {
            copy(k, self.base.offset(number * self.pitch), part, slots.offset(stage));
        }
    }
}

impl<'b> RowPart<'b> {
    /// Loads the thread's vectors from its slots.
    #[track_caller]
    fn load_slots<'k: 'b, T: Element>(
        &self,
        k: &mut Body<'k, '_>,
        slots: Val<'b, Shared<u32>>,
        fill: T,
    ) -> Vec<Val<'b, Vector<u32, 4>>> {
        let fill = filled(k, fill);
        (0..self.tile.vectors).map(|number| self.load_slot(k, slots, number, fill)).collect()
    }

    /// Loads the thread's vector `number` from its slot.
    #[track_caller]
    #[inline]
    fn load_slot<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        slots: Val<'b, Shared<u32>>,
        number: u32,
        fill: Val<'b, Vector<u32, 4>>,
    ) -> Val<'b, Vector<u32, 4>> {
        let at = (number * self.tile.threads * 4) as i32;
        let k = &mut k.rescoped();
        k.if_with(self.has_vector(number), fill, |k| slots.load_vector::<4>(k, at))
    }
}

/// Starts the copies of the thread's vectors of a row to its slots.
#[track_caller]
fn copy<'b, 'k: 'b, P: RowPointer>(
    k: &mut Body<'k, '_>,
    row: Val<'b, P>,
    part: &RowPart<'b>,
    slots: Val<'b, Shared<u32>>,
) {
    let first = P::words(row.offset(part.first_column()));
    for number in 0..part.tile.vectors {
        let to = slots.offset((number * part.tile.threads * 4) as i32);
        let from =
            first.offset(number as i32 * part.stride() / (32 / P::Elem::SCALAR.bits() as i32));
        k.if_(part.has_vector(number), |k| k.cp_async(to, from, CpAsyncCache::Cg, 16));
    }
}
