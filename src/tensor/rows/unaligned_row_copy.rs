//! [`UnalignedRowCopy`]: a row on its way to a destination with another alignment. Use it for
//! gathers, concatenation and padding, where the two rows start anywhere.

use crate::ir::builder::Converted;
use crate::ir::op::LoadAccess;
use crate::ir::{GlobalMut, Val, Vector};
use crate::tensor::copy::{lead, shifted};

use super::partition::{RowFragment, RowPartition, RowPointer, narrow};

/// One thread's elements of a row that is copied to a row with any other alignment. Made by
/// [`RowPartition::load_copy`], stored by [`RowPartition::store_copy`].
///
/// Use it for gathers, concatenation or padding, where source and destination start anywhere. If
/// both rows have the same alignment, [`RowPartition::load_elements`] and
/// [`RowPartition::store_elements`] need half the loads.
///
/// In a ragged row, vectors are loaded from the source's multiples of 16 bytes; two of them are
/// shifted together into one vector at a multiple of 16 bytes in the destination. The elements
/// before the first such vector and after the last one, fewer than 3 vectors, are copied one by
/// one. Nothing outside the source row is read, and no load depends on the destination.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16, range};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::{RowAccess, RowTile};
///
/// // Copies 100 elements from element 3 on to element 6 and those after it.
/// let access = RowAccess::Ragged;
/// let tile = RowTile { threads: 32, team: 32, cluster: 1, vectors: 1, access };
/// type Params = (Global<bf16>, GlobalMut<bf16>, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "copy", Target::SM_80, |k, (x, y, columns)| {
///     let (x, y) = (x.offset(3), y.offset(6));
///     let part = tile.part_at(k, x, columns);
///     k.for_(range(0, part.steps()), (), |_, step, ()| {
///         let part = part.step(step);
///         let copy = part.load_copy(x);
///         part.store_copy(y, &copy);
///     });
/// })?;
/// assert!(kernel.ptx().text().contains("ld.global.v4.b32"));
/// let device = Device::sim()?;
/// let numbers: Vec<bf16> = (0..103).map(|i| bf16::from_f32(i as f32)).collect();
/// let x = device.upload(&numbers)?;
/// let mut y = device.zeros::<bf16>(106)?;
/// device.load(&kernel)?.launch(Grid::cover(32, 32), (&x, &mut y, 100))?;
/// assert_eq!(y.to_vec()?[6..], numbers[3..]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct UnalignedRowCopy<'b, T> {
    elements: RowFragment<'b, T>,
    /// For each vector of a ragged row, the vector that follows it.
    next: Vec<Val<'b, Vector<u32, 4>>>,
}

impl<'b> RowPartition<'b> {
    /// Loads the thread's elements of the row that starts at `*row`, for
    /// [`store_copy`](RowPartition::store_copy). Make the part with
    /// [`RowTile::part_at`](super::RowTile::part_at) at `row`.
    #[track_caller]
    pub fn load_copy<P: RowPointer>(&self, row: Val<'b, P>) -> UnalignedRowCopy<'b, P::Elem> {
        let k = &mut self.columns.body();
        let _call = k.call();
        // `ptxas` may move non-coherent loads behind the stores, and then one waits for the other.
        let access = LoadAccess::default();
        let elements = self.load_inner(k, row, 0.0, access);
        if self.head.is_none() {
            return UnalignedRowCopy { elements, next: Vec::new() };
        }
        let after = RowPartition { thread: self.thread + 1, ..*self };
        let next = after.load_inner(k, row, 0.0, access).vectors;
        let zero = k.constant(narrow::<P::Elem>(0.0));
        let load = |number| {
            let (_, column) = self.single(number);
            let has = column.ge(0) & column.lt(self.columns);
            k.if_with(has, zero, |_| row.load_with(column, access))
        };
        let singles = (0..self.singles()).map(load).collect();
        UnalignedRowCopy { elements: RowFragment { singles, ..elements }, next }
    }

    /// Stores what [`load_copy`](RowPartition::load_copy) has loaded to the row that starts at
    /// `*row`. The two calls are apart so that you can compute the destination while the loads are
    /// in flight.
    #[track_caller]
    pub fn store_copy<T: Converted>(
        &self,
        row: Val<'b, GlobalMut<T>>,
        copy: &UnalignedRowCopy<'b, T>,
    ) {
        let k = &mut self.columns.body();
        let Some(head) = self.head else { return self.store_elements(row, &copy.elements) };
        let (k, _call) = (&mut k.rescoped(), k.call());
        // How many elements a destination vector is ahead of its source vector.
        let shift = -(lead(row) + head) & (self.vector as i32 - 1);
        let bytes = (shift * T::scalar().size_bytes()).cvt::<u32>();
        // The source's last vector has no next one.
        let vectors = shift.eq(0).select(self.vectors, self.vectors - 1).max(0);
        let to = RowPartition { head: Some(head + shift), vectors, ..*self };
        let words = copy.elements.vectors.iter().zip(&copy.next);
        let vectors = words
            .map(|(vector, next)| Val::pack(shifted(vector.lanes(), next.lanes(), bytes)))
            .collect();
        to.store_elements(row, &RowFragment { vectors, singles: Vec::new() });
        for (number, value) in (0..).zip(&copy.elements.singles) {
            let (is_first, column) = self.single(number);
            let is_single = is_first.select(column.lt(head + shift), column.ge(to.vector_end()));
            k.if_(is_single & column.lt(self.columns), |_| row.store(column, *value));
        }
    }

    /// Returns how many elements the thread loads one by one.
    fn singles(&self) -> u32 {
        (4 * self.vector).div_ceil(self.tile.sharers())
    }

    /// Returns the column of the thread's single element `number`, which the row may not have. The
    /// flag is true for the first two vectors' worth of elements, false for those from the source's
    /// last vector on.
    #[track_caller]
    #[inline]
    fn single(&self, number: u32) -> (Val<'b, bool>, Val<'b, i32>) {
        let lanes = self.vector as i32;
        let at = self.end_thread + (number * self.tile.sharers()) as i32;
        let is_first = at.lt(2 * lanes);
        let last = self.vector_end() - 3 * lanes;
        (is_first, is_first.select(at, at + last))
    }
}
