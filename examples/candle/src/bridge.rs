//! Lets operations use the memory of candle's tensors: borrowed on a GPU, copied to and from the
//! simulator on the CPU.

use std::any::{Any, TypeId};
use std::array::from_fn;
use std::collections::HashMap;
use std::error::Error;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use candle_core::{CpuStorage, DType, Layout, Result, Shape, WithDType};
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Number, Target, bf16, f16};
use tilewright::runtime::{Buffer, Device, LaunchOptions};

pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

/// A tensor element type that the kernels support.
pub(crate) trait Float:
    WithDType + From<<Self as Float>::Own> + OnGpu<<Self as Float>::Own>
{
    /// tilewright's type for the same elements.
    type Own: VectorElement<2> + Number + From<Self>;
}

impl Float for f32 {
    type Own = f32;
}
impl Float for half::f16 {
    type Own = f16;
}
impl Float for half::bf16 {
    type Own = bf16;
}

/// A type whose slices can be borrowed.
#[cfg(feature = "cuda")]
pub(crate) trait OnGpu<E>:
    candle_core::cuda::CudaDType
    + candle_core::cuda::cudarc::driver::DeviceRepr
    + tilewright::runtime::CudarcElement<Elem = E>
{
}
#[cfg(feature = "cuda")]
impl<E, T> OnGpu<E> for T where
    T: candle_core::cuda::CudaDType
        + candle_core::cuda::cudarc::driver::DeviceRepr
        + tilewright::runtime::CudarcElement<Elem = E>
{
}
#[cfg(not(feature = "cuda"))]
pub(crate) trait OnGpu<E> {}
#[cfg(not(feature = "cuda"))]
impl<E, T> OnGpu<E> for T {}

/// An operation with `N` inputs and one output, all of one type.
pub(crate) trait Operation<const N: usize> {
    const NAME: &'static str;
    /// Checks the shapes of the inputs and returns the shape of the output, which is contiguous.
    fn shape(&self, inputs: [&Layout; N]) -> std::result::Result<Shape, AnyError>;
    /// Queues the kernel. Each buffer starts at its tensor's first element, and the output is not
    /// empty.
    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        layouts: [&Layout; N],
        inputs: [&Buffer<T::Own>; N],
        output: &mut Buffer<T::Own>,
    ) -> std::result::Result<(), AnyError>;
}

/// The device and the stream of a launch.
pub(crate) struct Place<'a> {
    pub(crate) device: &'a Device,
    /// The GPU's ordinal.
    pub(crate) ordinal: Option<usize>,
    pub(crate) options: LaunchOptions<'a>,
}

/// Loaded kernels by the type of their function, then by GPU and configuration.
static LOADED: LazyLock<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>> =
    LazyLock::new(Mutex::default);

impl Place<'_> {
    /// Returns a configuration's function. The first call loads it.
    pub(crate) fn loaded<K, F>(
        &self,
        config: K,
        load: impl FnOnce() -> std::result::Result<F, AnyError>,
    ) -> std::result::Result<Arc<F>, AnyError>
    where
        K: Copy + Eq + Hash + Send + 'static,
        F: Send + Sync + 'static,
    {
        type Functions<K, F> = HashMap<(Option<usize>, K), Arc<F>>;
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let own = loaded
            .entry(TypeId::of::<Functions<K, F>>())
            .or_insert_with(|| Box::new(Functions::<K, F>::new()))
            .downcast_mut::<Functions<K, F>>()
            .ok_or("the table of kernels has another type")?;
        if let Some(function) = own.get(&(self.ordinal, config)) {
            return Ok(Arc::clone(function));
        }
        let function = Arc::new(load()?);
        own.insert((self.ordinal, config), Arc::clone(&function));
        Ok(function)
    }
}

/// Evaluates an expression with `T` as a tensor's element type.
macro_rules! with_type {
    ($dtype:expr, $name:expr, $T:ident => $result:expr) => {{
        let result = match $dtype {
            DType::F32 => {
                type $T = f32;
                $result
            }
            DType::F16 => {
                type $T = half::f16;
                $result
            }
            DType::BF16 => {
                type $T = half::bf16;
                $result
            }
            other => Err(format!("tensors of {other:?} are not taken").into()),
        };
        result.map_err(|error: AnyError| candle_core::Error::Msg(format!("{}: {error}", $name)))
    }};
}

/// Runs an operation on the simulator.
pub(crate) fn on_cpu<const N: usize, O: Operation<N>>(
    operation: &O,
    inputs: [(&CpuStorage, &Layout); N],
) -> Result<(CpuStorage, Shape)> {
    use candle_core::backend::BackendStorage;
    with_type!(inputs[0].0.dtype(), O::NAME, T => on_cpu_as::<T, N, O>(operation, inputs))
}

fn on_cpu_as<T: Float, const N: usize, O: Operation<N>>(
    operation: &O,
    inputs: [(&CpuStorage, &Layout); N],
) -> std::result::Result<(CpuStorage, Shape), AnyError> {
    let layouts = inputs.map(|(_, layout)| layout);
    let shape = operation.shape(layouts)?;
    let device = Device::sim_for(Target::SM_90A)?;
    let mut buffers = Vec::new();
    for (storage, layout) in inputs {
        let elements = storage.as_slice::<T>()?.get(layout.start_offset()..).unwrap_or_default();
        let elements: Vec<T::Own> = elements.iter().map(|x| (*x).into()).collect();
        buffers.push(device.upload(&elements)?);
    }
    let mut output = device.zeros::<T::Own>(shape.elem_count())?;
    if shape.elem_count() > 0 {
        let place = Place { device: &device, ordinal: None, options: LaunchOptions::default() };
        operation.launch::<T>(&place, layouts, from_fn(|i| &buffers[i]), &mut output)?;
    }
    let output: Vec<T> = output.to_vec()?.into_iter().map(T::from).collect();
    Ok((T::to_cpu_storage_owned(output), shape))
}

#[cfg(feature = "cuda")]
pub(crate) use gpu::on_gpu;

#[cfg(feature = "cuda")]
mod gpu {
    use candle_core::CudaStorage;
    use candle_core::backend::BackendStorage;
    use tilewright::runtime::Stream;

    use super::*;

    /// Queues an operation on candle's stream.
    pub(crate) fn on_gpu<const N: usize, O: Operation<N>>(
        operation: &O,
        inputs: [(&CudaStorage, &Layout); N],
    ) -> Result<(CudaStorage, Shape)> {
        with_type!(inputs[0].0.dtype(), O::NAME, T => on_gpu_as::<T, N, O>(operation, inputs))
    }

    fn on_gpu_as<T: Float, const N: usize, O: Operation<N>>(
        operation: &O,
        inputs: [(&CudaStorage, &Layout); N],
    ) -> std::result::Result<(CudaStorage, Shape), AnyError> {
        let layouts = inputs.map(|(_, layout)| layout);
        let shape = operation.shape(layouts)?;
        let candle_device = inputs[0].0.device.clone();
        let candle_stream = candle_device.cuda_stream();
        let ordinal = candle_stream.context().ordinal();
        let (device, stream) = (Device::cuda(ordinal)?, Stream::from_cudarc(&candle_stream)?);
        // SAFETY: the kernel writes each element before anybody reads it.
        let mut output = unsafe { candle_device.alloc::<T>(shape.elem_count())? };
        if shape.elem_count() > 0 {
            let mut views = Vec::new();
            for (storage, layout) in inputs {
                views.push(storage.as_cuda_slice::<T>()?.slice(layout.start_offset()..));
            }
            let options = LaunchOptions::default().stream(&stream);
            let place = Place { device: &device, ordinal: Some(ordinal), options };
            device.borrow_cudarc(
                (views.iter().collect::<Vec<_>>(), &mut output),
                |(inputs, output)| {
                    operation.launch::<T>(&place, layouts, from_fn(|i| inputs[i]), output)
                },
            )?;
        }
        Ok((CudaStorage::wrap_cuda_slice(output, candle_device), shape))
    }
}
