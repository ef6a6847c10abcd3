//! Copies by a single thread, element by element or in vectors. Call them on a thread's own
//! partitions, for example from global memory to registers; each thread copies its part.

use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Val};
use crate::layout::{Layout, LayoutError};

use crate::tensor::error::TensorErrorKind;
use crate::tensor::view::elements::{Step, Vectors};
use crate::tensor::view::engine::{Readable, Writable};
use crate::tensor::view::predicate::{IntoPredicate, Predicate, of_shape};
use crate::tensor::view::tensor::Tensor;

/// Copies a tensor element by element, `destination(i) = source(i)`: CuTe's `copy`. Both must have
/// the same size and static shapes; strides can be symbolic. Use it if element order or alignment
/// allows no vectors; else [`autovec_copy`] is faster.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::copy;
/// use tilewright::tensor::view::Tensor;
///
/// type Signature = (Global<i32>, GlobalMut<i32>);
/// let kernel = Kernel::<Signature>::build("transpose", Target::SM_80, |_, (x, y)| {
///     let x = Tensor::new(x, layout!((2, 3) : (3, 1)));
///     let y = Tensor::new(y, layout!((2, 3) : (1, 2)));
///     copy(&x, &y);
/// })?;
/// let device = Device::sim()?;
/// let (x, mut y) = (device.upload(&[1, 2, 3, 4, 5, 6])?, device.upload(&[0; 6])?);
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y))?;
/// assert_eq!(y.to_vec()?, [1, 4, 2, 5, 3, 6]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn copy<'b, S, D>(source: &Tensor<S>, destination: &Tensor<D>)
where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let k = &destination.body();
    for pair in pairs(k, "copy", source, destination).unwrap_or_default() {
        move_one(&pair);
    }
}

/// Like [`copy`], only for elements whose `predicate` is true: CuTe's `copy_if`. Other elements are
/// neither read nor written.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::copy_if;
/// use tilewright::tensor::view::Tensor;
///
/// type Signature = (Global<i32>, GlobalMut<i32>, i32);
/// let kernel = Kernel::<Signature>::build("first", Target::SM_80, |k, (x, y, n)| {
///     let (x, y) = (Tensor::new(x, layout!(4)), Tensor::new(y, layout!(4)));
///     let inside = Tensor::identity(k, shape!(4)).within(n);
///     copy_if(&inside, &x, &y);
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
    predicate: &impl IntoPredicate<'b>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let k = &mut destination.body();
    for (pair, inside) in predicated(k, "copy_if", predicate, source, destination) {
        match inside {
            None => move_one(&pair),
            Some(inside) => k.if_(inside, |_| move_one(&pair)),
        }
    }
}

/// Like [`copy`], but writes zeros for elements whose `predicate` is false, without reading them,
/// as `cp.async` does with a source size of 0. Use it to load tiles that reach beyond their tensor,
/// if the zeros do not change the result.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::{layout, shape};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::copy_zfill;
/// use tilewright::tensor::view::Tensor;
///
/// type Signature = (Global<i32>, GlobalMut<i32>, i32);
/// let kernel = Kernel::<Signature>::build("first", Target::SM_80, |k, (x, y, n)| {
///     let (x, y) = (Tensor::new(x, layout!(4)), Tensor::new(y, layout!(4)));
///     let inside = Tensor::identity(k, shape!(4)).within(n);
///     copy_zfill(&inside, &x, &y);
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
    predicate: &impl IntoPredicate<'b>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let k = &mut destination.body();
    for ((from, to), inside) in predicated(k, "copy_zfill", predicate, source, destination) {
        let value = match inside {
            None => from.read(),
            Some(inside) => k.if_with(inside, S::Elem::default(), |_| from.read()),
        };
        to.write(value);
    }
}

/// Like [`copy`], in the widest vectors that the layouts and alignments allow, up to 128 bits:
/// CuTe's `autovec_copy`. Either side can be registers in any order; between registers there are no
/// vectors. Known divisors of symbols count: rows whose pitch is a multiple of 4 elements start
/// with whole vectors of 4.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::autovec_copy;
/// use tilewright::tensor::view::{RegisterTensor, Tensor, TensorPointer};
///
/// type Signature = (Global<f32>, GlobalMut<f32>);
/// let kernel = Kernel::<Signature>::build("rows", Target::SM_80, |_, (x, y)| {
///     let x = TensorPointer::new(x).assume_aligned(16);
///     let y = TensorPointer::new(y).assume_aligned(8);
///     // Rows of 8 in rows of 12, and the second address is a multiple of 8 bytes only.
///     let x = Tensor::new(x, layout!((2, 8) : (12, 1)));
///     let y = Tensor::new(y, layout!((2, 8) : (8, 1)));
///     let held: RegisterTensor<'_, f32> = x.fragment_like();
///     autovec_copy(&x, &held);
///     autovec_copy(&held, &y);
/// })?;
/// assert_eq!(kernel.ptx().text().matches("ld.global.v4").count(), 4);
/// assert_eq!(kernel.ptx().text().matches("st.global.v2").count(), 8);
/// let device = Device::sim()?;
/// let x = device.upload(&(0..24).map(|i| i as f32).collect::<Vec<_>>())?;
/// let mut y = device.zeros::<f32>(16)?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x, &mut y))?;
/// assert_eq!(y.to_vec()?[7..10], [7.0, 12.0, 13.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("copy_aligned", "copy_vec"))]
#[track_caller]
pub fn autovec_copy<'b, S, D>(source: &Tensor<S>, destination: &Tensor<D>)
where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let k = &destination.body();
    if source.poisoned || destination.poisoned {
        return;
    }
    let _call = k.call();
    match vectors(k, source, destination, None) {
        Ok(Some((steps, _))) => steps.iter().for_each(|step| step.move_vector()),
        // Either the sizes differ, which `copy` reports, or there are no vectors.
        Ok(None) => copy(source, destination),
        Err(error) => source.failed(k, "autovec_copy", error),
    }
}

/// Like [`autovec_copy`], only for elements whose `predicate` is true: [`copy_if`] in vectors. A
/// vector must share one predicate value, so vectors are no wider than the predicate allows,
/// usually one value per row.
///
/// ```
/// use tilewright::ir::{Global, Kernel, Target};
/// use tilewright::layout::{layout, shape};
/// use tilewright::tensor::copy::autovec_copy_if;
/// use tilewright::tensor::view::{RegisterTensor, Tensor, TensorPointer};
///
/// let kernel = Kernel::<(Global<f32>, i32)>::build("rows", Target::SM_80, |k, (x, rows)| {
///     let x = TensorPointer::new(x).assume_aligned(16);
///     let x = Tensor::new(x, layout!((2, 8) : (8, 1)));
///     let held: RegisterTensor<'_, f32> = x.fragment_like();
///     let inside = Tensor::identity(k, shape!(2, 8)).within((rows, ..));
///     autovec_copy_if(&inside, &x, &held);
/// })?;
/// assert_eq!(kernel.ptx().text().matches("ld.global.v4").count(), 4);
/// # Ok::<(), tilewright::ir::BuildErrors>(())
/// ```
#[track_caller]
pub fn autovec_copy_if<'b, S, D>(
    predicate: &impl IntoPredicate<'b>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let k = &mut destination.body();
    let operation = "autovec_copy_if";
    if source.poisoned || destination.poisoned {
        return;
    }
    let predicate = predicate.predicate(k);
    match vectors(k, source, destination, Some(&predicate)) {
        Ok(Some((steps, coordinates))) => {
            for (step, coordinate) in steps.iter().zip(coordinates) {
                let index = usize::try_from(coordinate).unwrap_or(usize::MAX);
                match predicate.values().get(index).copied().flatten() {
                    None => step.move_vector(),
                    Some(inside) => k.if_(inside, |_| step.move_vector()),
                }
            }
        }
        Ok(None) => copy_if(&predicate, source, destination),
        Err(error) => source.failed(k, operation, error),
    }
}

/// Both tensors' vectors, each with one predicate value, and the linear coordinates of their first
/// elements; `None` if vectors would be single elements.
type BothVectors<S, D> = Option<(Vec<Step<S, D>>, Vec<i64>)>;

#[track_caller]
fn vectors<'b, S, D>(
    k: &Body<'b, '_>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
    predicate: Option<&Predicate<'b>>,
) -> Result<BothVectors<S, D>, TensorErrorKind>
where
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    // There are no vectors of bools. A wrong predicate is reported by the element-wise copy.
    let fits = predicate.is_none_or(|predicate| predicate.is_of(source.shape()));
    if S::Elem::scalar() == Scalar::Bool || !fits {
        return Ok(None);
    }
    let coordinates = |vectors: &Vectors| -> Result<Vec<i64>, LayoutError> {
        let size = i64::from(vectors.elements) * vectors.count;
        Ok(vectors.divide(&Layout::compact(size))?.indices()?.collect())
    };
    let whole = |vectors: &Vectors| -> Result<bool, LayoutError> {
        let Some(predicate) = predicate else { return Ok(true) };
        let all = coordinates(vectors)?;
        Ok(all.chunks(vectors.elements as usize).all(|vector| predicate.is_one(vector)))
    };
    let vectors = match Vectors::of(source, destination, whole)? {
        Some(vectors) if vectors.elements > 1 => vectors,
        _ => return Ok(None),
    };
    let firsts = coordinates(&vectors)?.into_iter().step_by(vectors.elements as usize).collect();
    let (froms, tos) = (vectors.groups(k, source)?, vectors.groups(k, destination)?);
    let steps = froms.into_iter().zip(tos).map(|(from, to)| Step { from, to }).collect();
    Ok(Some((steps, firsts)))
}

#[track_caller]
fn move_one<'b, 'c, S, D>((from, to): &(S, D))
where
    'b: 'c,
    S: Readable<'b>,
    D: Writable<'b, Elem = S::Elem>,
{
    let value = from.read();
    to.write(value);
}

/// An element of both tensors, and its predicate if it is not known to be true.
type Predicated<'b, S, D> = ((S, D), Option<Val<'b, bool>>);

/// Pairs the tensors' elements with their predicates; on failure reports the error and returns
/// none.
#[track_caller]
fn predicated<'b, S: Readable<'b>, D: Readable<'b>>(
    k: &Body<'b, '_>,
    operation: &'static str,
    predicate: &impl IntoPredicate<'b>,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) -> Vec<Predicated<'b, S, D>> {
    let Some(pairs) = pairs(k, operation, source, destination) else { return Vec::new() };
    let Some(predicate) = of_shape(k, operation, predicate, source) else { return Vec::new() };
    pairs.into_iter().zip(predicate.values().iter().copied()).collect()
}

/// Pairs the tensors' elements; on failure reports the error and returns `None`.
#[track_caller]
fn pairs<'b, S: Readable<'b>, D: Readable<'b>>(
    k: &Body<'b, '_>,
    operation: &'static str,
    source: &Tensor<S>,
    destination: &Tensor<D>,
) -> Option<Vec<(S, D)>> {
    let _call = k.call();
    if source.poisoned || destination.poisoned {
        return None;
    }
    let found = || -> Result<_, TensorErrorKind> {
        let (from, to) = (source.elements(k)?, destination.elements(k)?);
        if from.len() != to.len() {
            let (source, destination) = (
                source.shape().to_string(),
                format!("{}{}", destination.shape(), destination.names),
            );
            return Err(TensorErrorKind::CopySizes { source, destination });
        }
        let pairs = from.into_iter().zip(to);
        Ok(pairs.map(|((from, i), (to, j))| (from.at(i), to.at(j))).collect())
    };
    match found() {
        Ok(pairs) => Some(pairs),
        Err(error) => {
            source.failed(k, operation, error);
            None
        }
    }
}
