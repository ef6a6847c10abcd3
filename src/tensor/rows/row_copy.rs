//! [`RowCopy`]: the elements of a row on their way to a row with any other start.

use crate::ir::builder::Converted;
use crate::ir::op::LoadAccess;
use crate::ir::{Body, GlobalMut, Val, Vector};
use crate::tensor::{lead, shifted};

use super::part::{RowElements, RowPart, RowPointer, narrow};

/// The elements that one thread copies from a row to another one. Both rows start at any element.
///
/// Vectors of a ragged row are loaded from the multiples of 16 bytes in the source. Two of them are shifted together to
/// one vector at a multiple of 16 bytes in the destination. The elements before the first such vector and after
/// the last one are copied one by one: fewer than 3 vectors. Nothing outside of the source row is read.
///
/// No load depends on the destination.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target, bf16, range};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{RowAccess, RowTile};
///
/// // Copies 100 elements from element 3 on to element 6 and those after it.
/// let access = RowAccess::Ragged;
/// let tile = RowTile { threads: 32, team: 32, cluster: 1, vectors: 1, access };
/// type Params = (Global<bf16>, GlobalMut<bf16>, i32);
/// let kernel = Kernel::<Params>::build_with(tile.options(), "copy", Target::SM_80, |k, (x, y, columns)| {
///     let (x, y) = (x.offset(3), y.offset(6));
///     let part = tile.part_at(k, x, columns);
///     k.for_(range(0, part.steps()), (), |k, step, ()| {
///         let part = part.step(step);
///         let copy = part.load_copy(k, x);
///         part.store_copy(k, y, &copy);
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
pub struct RowCopy<'b, T> {
    elements: RowElements<'b, T>,
    /// The vector after each one of a ragged row.
    next: Vec<Val<'b, Vector<u32, 4>>>,
}

impl<'b> RowPart<'b> {
    /// Loads the thread's elements of a row whose first element is `*row`, for [`store_copy`](RowPart::store_copy). The part is
    /// the one [at](super::RowTile::part_at) `row`.
    #[track_caller]
    pub fn load_copy<'k: 'b, P: RowPointer>(
        &self,
        k: &mut Body<'k, '_>,
        row: Val<'b, P>,
    ) -> RowCopy<'b, P::Elem> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        // The assembler may move non-coherent loads behind the stores, where one waits for the other.
        let access = LoadAccess::default();
        let elements = self.load_inner(k, row, 0.0, access);
        if self.head.is_none() {
            return RowCopy { elements, next: Vec::new() };
        }
        let after = RowPart { thread: self.thread + 1, ..*self };
        let next = after.load_inner(k, row, 0.0, access).vectors;
        let zero = k.constant(narrow::<P::Elem>(0.0));
        let load = |number| {
            let (_, column) = self.single(number);
            let has = column.ge(0) & column.lt(self.columns);
            k.if_with(has, zero, |k| row.load_with(k, column, access))
        };
        let singles = (0..self.singles()).map(load).collect();
        RowCopy { elements: RowElements { singles, ..elements }, next }
    }

    /// Stores what [`load_copy`](RowPart::load_copy) has loaded to the row whose first element is `*row`.
    #[track_caller]
    pub fn store_copy<'k: 'b, T: Converted>(
        &self,
        k: &mut Body<'k, '_>,
        row: Val<'b, GlobalMut<T>>,
        copy: &RowCopy<'b, T>,
    ) {
        let Some(head) = self.head else { return self.store_elements(k, row, &copy.elements) };
        let (k, _call) = (&mut k.rescoped(), k.call());
        // The elements from a vector of the source to the one of the destination.
        let shift = -(lead(row) + head) & (self.vector as i32 - 1);
        let bytes = (shift * T::scalar().size_bytes()).cvt::<u32>();
        // The last vector of the source has no next one.
        let vectors = shift.eq(0).select(self.vectors, self.vectors - 1).max(0);
        let to = RowPart { head: Some(head + shift), vectors, ..*self };
        let words = copy.elements.vectors.iter().zip(&copy.next);
        let vectors = words
            .map(|(vector, next)| Val::pack(shifted(vector.lanes(), next.lanes(), bytes)))
            .collect();
        to.store_elements(k, row, &RowElements { vectors, singles: Vec::new() });
        for (number, value) in (0..).zip(&copy.elements.singles) {
            let (is_first, column) = self.single(number);
            let is_single = is_first.select(column.lt(head + shift), column.ge(to.vector_end()));
            k.if_(is_single & column.lt(self.columns), |k| row.store(k, column, *value));
        }
    }

    /// Returns the number of elements that the thread loads one by one.
    fn singles(&self) -> u32 {
        (4 * self.vector).div_ceil(self.tile.sharers())
    }

    /// Returns true if the thread's single element `number` is one of the first two vectors of elements, else it is one of
    /// those from the last vector of the source on; and its column, which the row may not have.
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
