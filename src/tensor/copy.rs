//! Copies between tensors, element by element in the order of their coordinates.

use crate::ir::Body;
use crate::layout::LayoutError;

use super::engine::{Readable, Writable};
use super::error::TensorErrorKind;
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
            let destination = destination.shape().to_string();
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
