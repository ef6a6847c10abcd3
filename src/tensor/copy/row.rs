//! [`Row`]: accesses a row that starts anywhere in memory, in vectors. Use it if one thread walks
//! over a row without keeping it.

use crate::ir::builder::{IntoOperand, VectorElement};
use crate::ir::{MutPointer, Pointer as PointerType, Val, Vector};

/// A row of `len` elements that can start anywhere in memory, accessed as vectors of `N`. Vectors
/// that lie completely inside the row are one access each; the first and the last one are accessed
/// element by element.
///
/// Use it in a loop of your own, when a thread walks over a row that it does not keep. If threads
/// share a row, [`RowTile`](crate::tensor::rows::RowTile) distributes it over their registers, and
/// [`UnalignedRowCopy`](crate::tensor::rows::UnalignedRowCopy) copies it between two alignments.
///
/// Vectors start at the row's start, rounded down to a multiple of `N`: vector `i` covers the `N`
/// elements from `i * N` on, counted from there. Lanes outside the row are neither read nor
/// written.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val, bf16, range};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::Row;
///
/// // Doubles 21 elements from element 3 on.
/// let kernel = Kernel::<(GlobalMut<bf16>,)>::build("twice", Target::SM_90, |k, (x,)| {
///     let row = Row::<_, 8>::new(x, 3, 21);
///     k.for_(range(0, row.vectors()), (), |_, i, ()| {
///         let values = row.load(i, bf16::from_f32(0.0)).cvt::<f32>();
///         let twice = Val::pack(values.lanes().map(|value| value + value));
///         row.store(i, twice.cvt::<bf16>());
///     });
/// })?;
/// assert!(kernel.ptx().text().contains("ld.global.v4.b32"));
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0; 26].map(bf16::from_f32))?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// let twice = |i: usize| bf16::from_f32(if (3..24).contains(&i) { 2.0 } else { 1.0 });
/// assert_eq!(x.to_vec()?, std::array::from_fn::<_, 26, _>(twice));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Row<'b, P, const N: usize> {
    /// The first vector's first element.
    base: Val<'b, P>,
    /// The row's first element and its end, counted from there. `first` is below `N`.
    first: Val<'b, i32>,
    end: Val<'b, i32>,
}

impl<'b, P: PointerType, const N: usize> Row<'b, P, N>
where
    P::Elem: VectorElement<N>,
{
    /// Lanes per vector.
    const LANES: u32 = N as u32;

    /// Makes the row of `len` elements from `*(base + start)` on. `base` must be aligned to a
    /// vector, and `start` and `len` must not be negative. Vectors need not be aligned to the row,
    /// so `start` can be any element.
    #[track_caller]
    pub fn new(
        base: Val<'b, P>,
        start: impl IntoOperand<'b, i64>,
        len: impl IntoOperand<'b, i32>,
    ) -> Self {
        let k = &base.body();
        let (start, len) = (k.value::<i64>(start), k.value::<i32>(len));
        let aligned = start & !i64::from(Self::LANES - 1);
        let first = (start - aligned).cvt::<i32>();
        Row { base: base.offset(aligned), first, end: first + len }
    }

    /// Returns how many vectors of `N` elements the row touches: the bound of a loop over them.
    #[track_caller]
    pub fn vectors(&self) -> Val<'b, i32> {
        (self.end + (Self::LANES - 1)) / Self::LANES
    }

    /// Returns whether the row contains all lanes of the vector that starts at `at`.
    #[track_caller]
    fn is_whole(&self, at: Val<'b, i32>) -> Val<'b, bool> {
        at.ge(self.first) & (at + Self::LANES).le(self.end)
    }

    #[track_caller]
    fn has(&self, at: Val<'b, i32>) -> Val<'b, bool> {
        at.ge(self.first) & at.lt(self.end)
    }

    /// Loads vector `number`, with `fill` in the lanes outside the row. Vectors count from 0 to
    /// below [`vectors`](Row::vectors). Choose a `fill` that does not change the result, for
    /// example 0 for a sum.
    #[track_caller]
    pub fn load(
        &self,
        number: impl IntoOperand<'b, i32>,
        fill: impl IntoOperand<'b, P::Elem>,
    ) -> Val<'b, Vector<P::Elem, N>> {
        let k = &mut self.base.body();
        let _call = k.call();
        let at = k.value::<i32>(number) * Self::LANES;
        let fill = k.value::<P::Elem>(fill);
        k.if_else(
            self.is_whole(at),
            |k| k.yield_(self.base.load_vector::<N>(at)),
            |k| {
                let mut lanes = [fill; N];
                for (lane, value) in (0..).zip(&mut lanes) {
                    let at = at + lane;
                    *value = k.if_with(self.has(at), fill, |_| self.base.load(at));
                }
                k.yield_(Val::pack(lanes))
            },
        )
    }

    /// Stores vector `number`; lanes outside the row are not written.
    #[track_caller]
    pub fn store(&self, number: impl IntoOperand<'b, i32>, vector: Val<'b, Vector<P::Elem, N>>)
    where
        P: MutPointer,
    {
        let k = &mut self.base.body();
        let _call = k.call();
        let at = k.value::<i32>(number) * Self::LANES;
        k.if_else(
            self.is_whole(at),
            |_| self.base.store_vector(at, vector),
            |k| {
                for (lane, value) in (0..).zip(vector.lanes()) {
                    let at = at + lane;
                    k.if_(self.has(at), |_| self.base.store(at, value));
                }
            },
        );
    }
}
