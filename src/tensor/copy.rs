//! Copies between tensors, element by element in the order of their coordinates.

use crate::ir::{Body, Element, MutPointer, Pointer as PointerType, Val, Vector, VectorElement};
use crate::layout::{Layout, LayoutError};

use super::engine::{Readable, Writable};
use super::error::TensorErrorKind;
use super::pointer::{Pointer, Recast};
use super::predicate::{IntoPredicate, of_shape};
use super::tensor::Tensor;

/// `destination(i) = source(i)` for all `i`: CuTe's `copy`. Both have the same number of elements, in layouts
/// without symbols.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{Tensor, copy};
///
/// type Signature = (Global<i32>, GlobalMut<i32>);
/// let kernel = Kernel::<Signature>::build("transpose", Target::SM_80, |k, (x, y)| {
///     let x = Tensor::new(k, x, layout!((2, 3) : (3, 1)));
///     let y = Tensor::new(k, y, layout!((2, 3) : (1, 2)));
///     copy(k, &x, &y);
/// })?;
/// let device = Device::sim()?;
/// let (x, mut y) = (device.upload(&[1, 2, 3, 4, 5, 6])?, device.upload(&[0; 6])?);
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y))?;
/// assert_eq!(y.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn copy<'b, S, D>(k: &Body<'b, '_>, source: &Tensor<S>, destination: &Tensor<D>)
where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let Some(pairs) = pairs(k, "copy", source, destination) else { return };
    for (from, to) in pairs {
        let value = source.engine.at(from).read(k);
        destination.engine.at(to).write(k, value);
    }
}

/// As [`copy`], of the elements alone whose `predicate` is true: CuTe's `copy_if`. The others are neither read
/// nor written.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{Tensor, copy_if};
///
/// type Signature = (Global<i32>, GlobalMut<i32>, i32);
/// let kernel = Kernel::<Signature>::build("first", Target::SM_80, |k, (x, y, n)| {
///     let (x, y) = (Tensor::new(k, x, layout!(4)), Tensor::new(k, y, layout!(4)));
///     let inside = Tensor::identity(k, shape!(4)).within(k, n);
///     copy_if(k, &inside, &x, &y);
/// })?;
/// let device = Device::sim()?;
/// // The source has two elements only.
/// let (x, mut y) = (device.upload(&[1, 2])?, device.upload(&[7; 4])?);
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y, 2))?;
/// assert_eq!(y.to_vec()?, [1, 2, 7, 7]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn copy_if<'b, S, D>(
    k: &mut Body<'b, '_>,
    predicate: &impl IntoPredicate<'b>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let Some(pairs) = pairs(k, "copy_if", source, destination) else { return };
    let Some(predicate) = of_shape(k, predicate, pairs.len(), source) else { return };
    for ((from, to), inside) in pairs.into_iter().zip(predicate.values()) {
        let (from, to) = (source.engine.at(from), destination.engine.at(to));
        match inside {
            None => {
                let value = from.read(k);
                to.write(k, value);
            }
            Some(inside) => k.if_(*inside, |k| {
                let value = from.read(k);
                to.write(k, value);
            }),
        }
    }
}

/// As [`copy`], with zeros for the elements whose `predicate` is false, which are not read: what `cp.async` does
/// with a source size of 0.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{Tensor, copy_zfill};
///
/// type Signature = (Global<i32>, GlobalMut<i32>, i32);
/// let kernel = Kernel::<Signature>::build("first", Target::SM_80, |k, (x, y, n)| {
///     let (x, y) = (Tensor::new(k, x, layout!(4)), Tensor::new(k, y, layout!(4)));
///     let inside = Tensor::identity(k, shape!(4)).within(k, n);
///     copy_zfill(k, &inside, &x, &y);
/// })?;
/// let device = Device::sim()?;
/// let (x, mut y) = (device.upload(&[1, 2])?, device.upload(&[7; 4])?);
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y, 2))?;
/// assert_eq!(y.to_vec()?, [1, 2, 0, 0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn copy_zfill<'b, S, D>(
    k: &mut Body<'b, '_>,
    predicate: &impl IntoPredicate<'b>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let Some(pairs) = pairs(k, "copy_zfill", source, destination) else { return };
    let Some(predicate) = of_shape(k, predicate, pairs.len(), source) else { return };
    for ((from, to), inside) in pairs.into_iter().zip(predicate.values()) {
        let (from, to) = (source.engine.at(from), destination.engine.at(to));
        let value = match inside {
            None => from.read(k),
            Some(inside) => k.if_with(*inside, S::Elem::default(), |k| from.read(k)),
        };
        to.write(k, value);
    }
}

/// As [`copy`] of a tensor in memory to another one, in vectors as wide as both layouts and what is known of both
/// addresses allow, up to 128 bits: CuTe's `autovec_copy`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::{Pointer, Tensor, autovec_copy};
///
/// type Signature = (Global<f32>, GlobalMut<f32>);
/// let kernel = Kernel::<Signature>::build("rows", Target::SM_80, |k, (x, y)| {
///     let x = Pointer::new(x).assume_aligned(k, 16);
///     let y = Pointer::new(y).assume_aligned(k, 8);
///     // Rows of 8 in rows of 12, and the second address is a multiple of 8 bytes only.
///     let x = Tensor::new(k, x, layout!((2, 8) : (12, 1)));
///     let y = Tensor::new(k, y, layout!((2, 8) : (8, 1)));
///     autovec_copy(k, &x, &y);
/// })?;
/// assert_eq!(kernel.ptx().text().matches("ld.global.v2").count(), 8);
/// let device = Device::sim()?;
/// let x = device.upload(&(0..24).map(|i| i as f32).collect::<Vec<_>>())?;
/// let mut y = device.zeros::<f32>(16)?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y))?;
/// assert_eq!(y.to_vec()?[7..10], [7.0, 12.0, 13.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn autovec_copy<'b, P, Q>(
    k: &Body<'b, '_>,
    source: &Tensor<Pointer<'b, P>>,
    destination: &Tensor<Pointer<'b, Q>>,
) where
    P: Recast,
    Q: Recast<Elem = P::Elem> + MutPointer,
    Q::Of<u8>: MutPointer,
    Q::Of<u16>: MutPointer,
    Q::Of<u32>: MutPointer,
{
    if source.poisoned || destination.poisoned {
        return;
    }
    let vectors = match Vectors::of(source, destination) {
        Ok(Some(vectors)) => vectors,
        // They differ in size, which is said, or have no vectors.
        Ok(None) => return copy(k, source, destination),
        Err(error) => return source.failed(k, "autovec_copy", error),
    };
    for (from, to) in vectors.places {
        let (from, to) = ((source.engine + from).plain(), (destination.engine + to).plain());
        match vectors.bytes {
            16 => move_vector::<P, Q, u32, 4>(k, &from, &to),
            8 => move_vector::<P, Q, u32, 2>(k, &from, &to),
            4 => {
                let word = from.recast::<u32>(k).load(k);
                to.recast::<u32>(k).store(k, word);
            }
            2 => {
                let word = from.recast::<u16>(k).load(k);
                to.recast::<u16>(k).store(k, word);
            }
            _ => {
                let byte = from.recast::<u8>(k).load(k);
                to.recast::<u8>(k).store(k, byte);
            }
        }
    }
}

/// One vector of `N` words from one address to another.
#[track_caller]
fn move_vector<'b, P, Q, W, const N: usize>(
    k: &Body<'b, '_>,
    from: &Pointer<'b, P>,
    to: &Pointer<'b, Q>,
) where
    P: Recast,
    Q: Recast,
    Q::Of<W>: MutPointer,
    W: VectorElement<N>,
{
    let (base, offset) = from.recast::<W>(k).resolve();
    let vector: Val<'_, Vector<W, N>> = base.load_vector(k, offset);
    let (base, offset) = to.recast::<W>(k).resolve();
    base.store_vector(k, offset, vector);
}

/// The vectors of a copy: their bytes, which places of the tensors are one, and the indices of their first elements.
pub(super) struct Vectors {
    pub(super) bytes: u64,
    pub(super) vector: Layout,
    pub(super) places: Vec<(i64, i64)>,
}

impl Vectors {
    /// The widest vectors of two tensors of the same size; `None` for other sizes.
    pub(super) fn of<P: PointerType, Q: PointerType>(
        source: &Tensor<Pointer<'_, P>>,
        destination: &Tensor<Pointer<'_, Q>>,
    ) -> Result<Option<Vectors>, LayoutError> {
        let (from, to) = (&source.layout, &destination.layout);
        let size = from.size()?.to_static()?;
        if to.size()?.to_static()? != size || size == 0 {
            return Ok(None);
        }
        let element = u64::from(P::Elem::SCALAR.size_bytes());
        let common = from.max_common_layout(to)?.coalesce()?;
        let align = source.engine.alignment().min(destination.engine.alignment()).min(16);
        let mut count = common.size()?.to_static()?.unsigned_abs().max(1);
        count = (1 << count.trailing_zeros()).min((align / element).max(1));
        loop {
            // The first `count` of the common places as one mode, all others as another one.
            let vector = common.composition(&Layout::compact(count as i64))?;
            let divided = [from, to].map(|layout| layout.coalesce()?.logical_divide(&vector));
            let [from, to] = divided;
            let firsts = |layout: Result<Layout, LayoutError>| -> Result<Vec<i64>, LayoutError> {
                Ok(layout?.get(&[1])?.indices()?.collect())
            };
            let (from, to) = (firsts(from)?, firsts(to)?);
            let whole = |index: &i64| index.unsigned_abs().is_multiple_of(count);
            if count == 1 || (from.iter().all(whole) && to.iter().all(whole)) {
                let places = from.into_iter().zip(to).collect();
                return Ok(Some(Vectors { bytes: count * element, vector, places }));
            }
            count /= 2;
        }
    }
}

/// The indices of each element in both tensors, or `None` after the error was recorded.
#[track_caller]
pub(super) fn pairs<'b, S: Readable<'b>, D: Readable<'b>>(
    k: &Body<'b, '_>,
    operation: &'static str,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) -> Option<Vec<(i64, i64)>> {
    if source.poisoned || destination.poisoned {
        return None;
    }
    let found = (|| -> Result<_, LayoutError> {
        let (from, to) = (source.layout.indices()?, destination.layout.indices()?);
        Ok((from.collect::<Vec<_>>(), to.collect::<Vec<_>>()))
    })();
    match found {
        Ok((from, to)) if from.len() == to.len() => Some(from.into_iter().zip(to).collect()),
        Ok(_) => {
            let source_shape = source.shape().to_string();
            let destination = format!("{}{}", destination.shape(), destination.names);
            let kind = TensorErrorKind::CopySizes { source: source_shape, destination };
            source.failed(k, operation, kind);
            None
        }
        Err(error) => {
            source.failed(k, operation, error);
            None
        }
    }
}
