//! [`bulk_copy`] and [`bulk_store`]: one thread copies contiguous memory between global and shared
//! memory. Use them for data that is contiguous and needs no tensor map, for example a vector of
//! biases.

use crate::ir::builder::MbarrierRef;
use crate::ir::op::L2Policy;
use crate::ir::{Body, Element, Pointer as PointerType, Val};
use crate::layout::Layout;

use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::engine::{ElementAddress, Readable};
use crate::tensor::view::pointer::TensorPointer;
use crate::tensor::view::tensor::{GlobalTensorMut, SharedTensor, Tensor};

/// Copies a tensor from global to shared memory with bulk copies that complete on `full`. Call it
/// in one thread and make `full` expect the returned byte count. CuTe's `SM90_BULK_COPY_G2S`.
///
/// It needs neither a tensor map nor the host, unlike [`TmaCopy`](crate::tensor::copy::TmaCopy),
/// but it cannot swizzle and does not clip at the tensor's edge. Each run that is contiguous in
/// both tensors becomes one copy, for example a whole tensor or each of its rows. Runs must start
/// at multiples of 16 bytes and be multiples of 16 bytes long.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::bulk_copy;
/// use tilewright::tensor::view::{SharedTensor, Tensor, TensorPointer};
///
/// // Rows 2 and 3 of 32 numbers, of a matrix with rows of 40.
/// let kernel = Kernel::<(Global<i32>, GlobalMut<i32>)>::build("rows", Target::SM_90, |k, (x, y)| {
///     let x = TensorPointer::new(x).assume_aligned(16) + 80;
///     let from = Tensor::new(x, layout!((2, 32) : (40, 1)));
///     let tile = SharedTensor::<i32>::shared(k, layout!((2, 32) : (32, 1)));
///     let full = k.shared::<u64>(1).mbarrier(0);
///     let t = k.thread_idx().x;
///     k.if_(t.eq(0), |k| {
///         full.init(1);
///         k.fence_mbarrier_init();
///         let bytes = bulk_copy(&from, &tile, full);
///         assert_eq!(bytes, 256);
///         full.arrive_expect_tx(bytes);
///     });
///     k.barrier();
///     full.wait_parity(0);
///     y.store(t, tile.load((0, t)) + tile.load((1, t)));
/// })?;
/// assert_eq!(kernel.ptx().text().matches("cp.async.bulk.shared::cluster.global").count(), 2);
/// let device = Device::sim()?;
/// let (x, mut y) = (device.upload(&(0..160).collect::<Vec<i32>>())?, device.zeros::<i32>(32)?);
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&x, &mut y))?;
/// assert_eq!(y.to_vec()?, (0..32).map(|i| (80 + i) + (120 + i)).collect::<Vec<i32>>());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is a build error if the tensors differ in size, if a run is not a multiple of 16 bytes or not
/// known to start at one, or if a tensor is swizzled.
#[track_caller]
pub fn bulk_copy<'b, T: Element, P: PointerType<Elem = T>>(
    from: &Tensor<TensorPointer<'b, P>>,
    to: &SharedTensor<'b, T>,
    full: MbarrierRef<'_>,
) -> u32
where
    TensorPointer<'b, P>: Readable<'b, Elem = T>,
{
    let k = &to.body();
    let mut all = 0u32;
    for Run { from_index, to_index, bytes } in runs(k, "bulk_copy", from, to) {
        let addresses = (from.engine.address(from_index), to.engine.address(to_index));
        let (ElementAddress::Global(base, at), ElementAddress::Shared(to, to_at)) = addresses
        else {
            let instruction = "cp.async.bulk".to_owned();
            let (takes, found) = ("from global to shared memory", format!("from {from} to {to}"));
            from.failed(k, "bulk_copy", TensorErrorKind::CopySpaces { instruction, takes, found });
            return 0;
        };
        let (to, base) = (element(to, to_at), element(base, at));
        k.cp_async_bulk_load(to, base, bytes, full, L2Policy::Default);
        all = all.saturating_add(bytes);
    }
    all
}

/// Copies a tensor from shared to global memory with bulk copies that join the next committed bulk
/// group. CuTe's `SM90_BULK_COPY_S2G`. Use it for results that are contiguous in both memories, for
/// example one row per block.
///
/// Call it in one thread. Before that, every thread that wrote the tensor must make its writes
/// visible with [`fence_proxy_async`](Body::fence_proxy_async) and pass a barrier.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::op::{BulkWait, ProxySpace};
/// use tilewright::ir::{GlobalMut, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::tensor::copy::bulk_store;
/// use tilewright::tensor::view::{SharedTensor, Tensor, TensorPointer};
///
/// let kernel = Kernel::<(GlobalMut<i32>,)>::build("squares", Target::SM_90, |k, (y,)| {
///     let y = Tensor::new(TensorPointer::new(y).assume_aligned(16), layout!(32));
///     let tile = SharedTensor::<i32>::shared(k, layout!(32));
///     let t = k.thread_idx().x;
///     tile.store(t, t * t);
///     k.fence_proxy_async(ProxySpace::SharedCta);
///     k.barrier();
///     k.if_(t.eq(0), |k| {
///         bulk_store(&tile, &y);
///         k.cp_async_bulk_commit_group();
///         k.cp_async_bulk_wait_group(0, BulkWait::Done);
///     });
/// })?;
/// let device = Device::sim()?;
/// let mut y = device.zeros::<i32>(32)?;
/// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&mut y,))?;
/// assert_eq!(y.to_vec()?, (0..32).map(|i| i * i).collect::<Vec<i32>>());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Build errors are those of [`bulk_copy`].
#[track_caller]
pub fn bulk_store<'b, T: Element>(from: &SharedTensor<'b, T>, to: &GlobalTensorMut<'b, T>) {
    let k = &to.body();
    for Run { from_index, to_index, bytes } in runs(k, "bulk_store", from, to) {
        let ((to, to_at), (from, at)) = (to.engine.resolve(), from.engine.resolve());
        let to = element(to, to_at.saturating_add(to_index));
        k.cp_async_bulk_store(
            to,
            element(from, at.saturating_add(from_index)),
            bytes,
            L2Policy::Default,
        );
    }
}

#[track_caller]
fn element<P: PointerType>(base: Val<'_, P>, offset: i64) -> Val<'_, P> {
    if offset == 0 { base } else { base.offset(offset) }
}

/// Elements that are contiguous in both tensors.
struct Run {
    from_index: i64,
    to_index: i64,
    bytes: u32,
}

/// Splits a copy into runs; on failure reports the error and returns none.
#[track_caller]
fn runs<'b, P, Q>(
    k: &Body<'b, '_>,
    operation: &'static str,
    from: &Tensor<TensorPointer<'b, P>>,
    to: &Tensor<TensorPointer<'b, Q>>,
) -> Vec<Run>
where
    P: PointerType,
    Q: PointerType<Elem = P::Elem>,
{
    let _call = k.call();
    if from.poisoned || to.poisoned {
        return Vec::new();
    }
    let swizzled = [(from.swizzle(), from.to_string()), (to.swizzle(), to.to_string())];
    let found = match swizzled.into_iter().find(|(s, _)| s.is_some_and(|s| !s.is_identity())) {
        Some((_, tensor)) => Err(TensorErrorKind::BulkSwizzle { tensor }),
        None => runs_of(
            [&from.layout, &to.layout],
            [from.engine.alignment(), to.engine.alignment()],
            [&|| from.to_string(), &|| to.to_string()],
            i64::from(<P::Elem as Element>::scalar().size_bytes()),
        ),
    };
    found.unwrap_or_else(|kind| {
        k.report(TensorError { operation, operand: format!("{from} to {to}"), kind });
        Vec::new()
    })
}

#[inline]
fn runs_of(
    layouts: [&Layout; 2],
    aligns: [u32; 2],
    names: [&dyn Fn() -> String; 2],
    size: i64,
) -> Result<Vec<Run>, TensorErrorKind> {
    let [from, to] = layouts;
    if from.size()?.to_static()? != to.size()?.to_static()? {
        let [source, destination] = layouts.map(|layout| layout.shape().to_string());
        return Err(TensorErrorKind::CopySizes { source, destination });
    }
    let mut pairs: Vec<(i64, i64)> = to.indices()?.zip(from.indices()?).collect();
    pairs.sort_unstable();
    let mut runs = Vec::new();
    for run in pairs.chunk_by(|a, b| b.0 == a.0 + 1 && b.1 == a.1 + 1) {
        let Some(&(to_index, from_index)) = run.first() else { continue };
        let elements = i64::try_from(run.len()).unwrap_or(i64::MAX);
        let bytes = elements.saturating_mul(size);
        let whole = u32::try_from(bytes).ok().filter(|bytes| bytes % 16 == 0);
        let bytes = whole.ok_or(TensorErrorKind::BulkRun { elements, bytes })?;
        for ((index, align), tensor) in [from_index, to_index].into_iter().zip(aligns).zip(names) {
            // Combine the first element's known alignment with the run's distance from it.
            let way = index.saturating_mul(size).trailing_zeros();
            let align = if way < 32 { align.min(1 << way) } else { align };
            if align < 16 {
                return Err(TensorErrorKind::BulkStart { tensor: tensor(), align });
            }
        }
        runs.push(Run { from_index, to_index, bytes });
    }
    Ok(runs)
}
