//! [`Row`]: a row of memory that starts anywhere, in vectors.

use crate::ir::builder::{IntoOperand, VectorElement};
use crate::ir::{Body, MutPointer, Pointer as PointerType, Val, Vector};

/// Elements that follow each other in memory, from any index on, as vectors of `N`: vectors that the row has as a whole
/// are one access each, the elements of the first and the last vector are accessed one by one.
///
/// Vector `i` has the elements `i * N` to `i * N + N` from the last multiple of `N` that is not behind the start of the
/// row. Lanes outside of the row are neither read nor written.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, Val, bf16, range};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::Row;
///
/// // Doubles 21 elements from element 3 on.
/// let kernel = Kernel::<(GlobalMut<bf16>,)>::build("twice", Target::SM_90, |k, (x,)| {
///     let row = Row::<_, 8>::new(k, x, 3, 21);
///     k.for_(range(0, row.vectors()), (), |k, i, ()| {
///         let values = row.load(k, i, bf16::from_f32(0.0)).cvt::<f32>();
///         let twice = Val::pack(values.lanes().map(|value| value + value));
///         row.store(k, i, twice.cvt::<bf16>());
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
    /// The first element of the first vector.
    base: Val<'b, P>,
    /// The first element of the row from there on, below `N`, and the one after the last.
    first: Val<'b, i32>,
    end: Val<'b, i32>,
}

impl<'b, P: PointerType, const N: usize> Row<'b, P, N>
where
    P::Elem: VectorElement<N>,
{
    /// The lanes of a vector.
    const LANES: u32 = N as u32;

    /// The `len` elements from `*(base + start)` on. `base` is aligned to a vector, and neither number is negative.
    #[track_caller]
    pub fn new(
        k: &Body<'b, '_>,
        base: Val<'b, P>,
        start: impl IntoOperand<'b, i64>,
        len: impl IntoOperand<'b, i32>,
    ) -> Self {
        let (start, len) = (k.value::<i64>(start), k.value::<i32>(len));
        let aligned = start & !i64::from(Self::LANES - 1);
        let first = (start - aligned).cvt::<i32>();
        Row { base: base.offset(aligned), first, end: first + len }
    }

    /// The number of vectors.
    #[track_caller]
    pub fn vectors(&self) -> Val<'b, i32> {
        (self.end + (Self::LANES - 1)) / Self::LANES
    }

    /// Returns whether the row has all lanes of the vector that starts at `at`.
    #[track_caller]
    fn is_whole(&self, at: Val<'b, i32>) -> Val<'b, bool> {
        at.ge(self.first) & (at + Self::LANES).le(self.end)
    }

    #[track_caller]
    fn has(&self, at: Val<'b, i32>) -> Val<'b, bool> {
        at.ge(self.first) & at.lt(self.end)
    }

    /// Vector `number`, with `fill` in the lanes outside of the row.
    #[track_caller]
    pub fn load<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        number: impl IntoOperand<'b, i32>,
        fill: impl IntoOperand<'b, P::Elem>,
    ) -> Val<'b, Vector<P::Elem, N>> {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let at = k.value::<i32>(number) * Self::LANES;
        let fill = k.value::<P::Elem>(fill);
        k.if_else(
            self.is_whole(at),
            |k| k.yield_(self.base.load_vector::<N>(k, at)),
            |k| {
                let mut lanes = [fill; N];
                for (lane, value) in (0..).zip(&mut lanes) {
                    let at = at + lane;
                    *value = k.if_with(self.has(at), fill, |k| self.base.load(k, at));
                }
                k.yield_(Val::pack(lanes))
            },
        )
    }

    /// Sets vector `number`, but for the lanes outside of the row.
    #[track_caller]
    pub fn store<'k: 'b>(
        &self,
        k: &mut Body<'k, '_>,
        number: impl IntoOperand<'b, i32>,
        vector: Val<'b, Vector<P::Elem, N>>,
    ) where
        P: MutPointer,
    {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let at = k.value::<i32>(number) * Self::LANES;
        k.if_else(
            self.is_whole(at),
            |k| self.base.store_vector(k, at, vector),
            |k| {
                for (lane, value) in (0..).zip(vector.lanes()) {
                    let at = at + lane;
                    k.if_(self.has(at), |k| self.base.store(k, at, value));
                }
            },
        );
    }
}
