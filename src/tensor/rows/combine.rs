//! [`tree`] and [`chained`]: combine one thread's values with short dependency chains, for example
//! to a partial sum before [`RowPartition::reduce`](crate::tensor::rows::RowPartition::reduce)
//! joins the threads.

/// Combines a thread's values pairwise in a tree, so that the longest dependency chain is
/// logarithmic. Returns `identity` for no values. Use it when the values are already in registers.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::tree;
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("sum", Target::SM_80, |k, (x,)| {
///     let values: Vec<_> = (0..5).map(|i| x.load(i)).collect();
///     x.store(0, tree(k.constant(0.0), &values, |a, b| a + b));
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?[0], 15.0);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn tree<V: Copy>(identity: V, values: &[V], combine: impl Fn(V, V) -> V + Copy) -> V {
    match values {
        [] => identity,
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            combine(tree(identity, left, combine), tree(identity, right, combine))
        }
    }
}

/// Folds a thread's values in four independent chains and joins the chains at the end. Use it
/// instead of [`tree`] when values come from an iterator that loads or converts them, because it
/// holds only four results at a time.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::rows::chained;
///
/// let kernel = Kernel::<(GlobalMut<f32>,)>::build("squares", Target::SM_80, |k, (x,)| {
///     let values: Vec<_> = (0..5).map(|i| x.load(i)).collect();
///     let squares = chained(k.constant(0.0), values, |sum, value| value.fma(value, sum), |a, b| a + b);
///     x.store(0, squares);
/// })?;
/// let device = Device::sim()?;
/// let mut x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x,))?;
/// assert_eq!(x.to_vec()?[0], 55.0);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn chained<V: Copy, I>(
    identity: V,
    values: impl IntoIterator<Item = I>,
    fold: impl Fn(V, I) -> V,
    join: impl Fn(V, V) -> V + Copy,
) -> V {
    let mut chains = [identity; 4];
    for (chain, value) in (0..4).cycle().zip(values) {
        chains[chain] = fold(chains[chain], value);
    }
    tree(identity, &chains, join)
}
