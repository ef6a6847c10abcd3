//! Runs kernels on candle's tensors. Implement [`Operation`] and call it with [`apply`].
//!
//! `apply` does what each candle operation with a tilewright kernel needs: it looks up the device
//! and candle's stream, makes the inputs contiguous and aligned, borrows their memory as
//! [`Buffer`]s, allocates the output, and names the operation in errors. CPU tensors are copied to
//! the simulator and back. So your operation has three parts: its name, the shape of its output,
//! and the launch. For example, in `examples/custom_op.rs`:
//!
//! ```
#![doc = include_str!("../examples/custom_op.rs")]
//! ```
//!
//! * **You need no macro**, no `cfg`, and none of candle's `CustomOp1`, `CustomOp2` and
//!   `CustomOp3`, because one generic wrapper inside `apply` implements all three. Your crate
//!   forwards one feature, for example `cuda = ["tilewright-candle/cuda"]`.
//! * **Load once.** candle calls an operation for each tensor. [`Place::loaded`] loads a kernel at
//!   the first call and keeps it for the life of the process.
//! * **More than three inputs**, or inputs with other element types, are fields of your operation:
//!   borrow them in `launch` with [`Place::with_tensor`].
//! * **Streams belong to threads.** candle's `Device::new_cuda` gives each thread its own stream.
//!   `apply` looks it up in the thread that calls it.

use std::any::{Any, TypeId};
use std::array::from_fn;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp2, CustomOp3, DType, DeviceLocation, Layout,
    Result as CandleResult, Shape, Storage, Tensor, WithDType,
};
use tilewright::ir::builder::VectorElement;
use tilewright::ir::{Element, Number, Target, bf16, f16};
use tilewright::runtime::{Buffer, Device, LaunchOptions};

/// Any error of an operation. Every error of tilewright and of candle converts with `?`. An error
/// of candle reaches the caller unchanged, any other as an [`OperationError`].
pub type AnyError = Box<dyn Error + Send + Sync>;

/// Why an operation failed, if the reason is not an error of candle. You find it in candle's error:
///
/// ```
/// use candle_core::{DType, Device, Error, Tensor};
/// use tilewright_candle::bridge::OperationError;
/// use tilewright_candle::flash_attn;
/// use tilewright_candle::tilewright::kernels::attention::AttentionError;
///
/// let q = Tensor::zeros((1, 4, 3, 64), DType::BF16, &Device::Cpu)?;
/// let k = Tensor::zeros((1, 4, 2, 64), DType::BF16, &Device::Cpu)?;
/// let Err(Error::Cuda(error)) = flash_attn(&q, &k, &k, 0.125, false) else { panic!() };
/// assert_eq!(error.to_string(), "flash-attn: 3 query heads are not a multiple of 2 key heads");
/// let error = error.downcast::<OperationError>().unwrap();
/// assert!(error.cause.is::<AttentionError>());
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Debug)]
pub struct OperationError {
    /// The operation's [name](Operation::name).
    pub operation: &'static str,
    /// What went wrong, for example a tilewright `RuntimeError` from a launch.
    pub cause: AnyError,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.cause)
    }
}

impl Error for OperationError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_ref())
    }
}

/// Converts an operation's error to candle's. `Cuda` is candle's only variant that keeps the type
/// of an error.
pub(crate) fn candle_error(operation: &'static str, cause: AnyError) -> candle_core::Error {
    match cause.downcast::<candle_core::Error>() {
        Ok(error) => *error,
        Err(cause) => candle_core::Error::Cuda(Box::new(OperationError { operation, cause })),
    }
}

/// An element type of candle that a buffer can have: `f32`, `half::f16`, `half::bf16`, and `u32`,
/// which becomes the device's `i32`.
pub trait Lent: WithDType + OnGpu {
    /// tilewright's type for the same elements. It has the same size, and every bit pattern is
    /// valid for both.
    type Own: Element;
    /// Converts an element.
    fn own(self) -> Self::Own;
}

macro_rules! lent {
    ($($candle:ty => $own:ty, $x:ident => $convert:expr;)*) => {$(
        impl Lent for $candle {
            type Own = $own;
            fn own(self) -> $own {
                let $x = self;
                $convert
            }
        }
    )*};
}

lent! {
    f32 => f32, x => x;
    half::f16 => f16, x => x.into();
    half::bf16 => bf16, x => x.into();
    u32 => i32, x => x as i32;
}

/// The element type of an operation's inputs and output: `f32`, `half::f16` or `half::bf16`. In
/// `launch`, `T::Own` is tilewright's type, for buffers and for the kernel's parameters.
pub trait Float:
    Lent<Own: VectorElement<2> + Number + From<Self>> + From<<Self as Lent>::Own> + FloatOnGpu
{
}

impl Float for f32 {}
impl Float for half::f16 {}
impl Float for half::bf16 {}

#[cfg(feature = "cuda")]
mod sealed {
    use candle_core::cuda::{CudaDType, cudarc::driver::DeviceRepr};
    use tilewright::runtime::CudarcElement;

    use super::Lent;

    /// A type of which candle has slices on a GPU.
    pub trait OnGpu: CudaDType + DeviceRepr {}
    impl<T: CudaDType + DeviceRepr> OnGpu for T {}

    /// A type whose slices become buffers.
    pub trait FloatOnGpu: Lent + CudarcElement<Elem = <Self as Lent>::Own> {}
    impl<T: Lent + CudarcElement<Elem = <T as Lent>::Own>> FloatOnGpu for T {}
}

#[cfg(not(feature = "cuda"))]
mod sealed {
    pub trait OnGpu {}
    impl<T> OnGpu for T {}
    pub trait FloatOnGpu {}
    impl<T> FloatOnGpu for T {}
}

use sealed::{FloatOnGpu, OnGpu};

/// An operation with `N` inputs (1 to 3) and one output, all with one element type. [`apply`] calls
/// it. For an example, see the [module](self).
pub trait Operation<const N: usize>: Send + Sync + 'static {
    /// Returns the operation's name, which errors start with.
    fn name(&self) -> &'static str;

    /// Checks the inputs' shapes and returns the output's shape. The output is contiguous.
    ///
    /// # Errors
    /// Those of the operation: prefer the variants of [`candle_core::Error`].
    fn shape(&self, inputs: [&Layout; N]) -> Result<Shape, AnyError>;

    /// Returns a tensor with the same values whose memory `launch` can use. The default is
    /// [`packed`]. Override it if your kernel accepts strides.
    ///
    /// # Errors
    /// Those of candle's copy.
    fn prepare(&self, x: &Tensor) -> CandleResult<Tensor> {
        packed(x)
    }

    /// Queues the kernel at a place, with its [options](Place::options). It must write every
    /// element of the output, whose memory is not initialised. It is not called if the output is
    /// empty.
    ///
    /// # Errors
    /// Those of the kernel.
    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        inputs: [Input<'_, T>; N],
        output: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError>;
}

/// An input of a launch.
#[derive(Clone, Copy)]
pub struct Input<'a, T: Lent> {
    /// The memory, from the tensor's first element on.
    pub buffer: &'a Buffer<T::Own>,
    /// Shape and strides. Ignore the start offset, because the buffer starts there.
    pub layout: &'a Layout,
}

/// Applies an operation to 1 to 3 tensors and returns its output, on the tensors' device. On a GPU
/// the host does not wait.
///
/// # Errors
/// Those of the operation; a variant of [`candle_core::Error`] for unsupported or different element
/// types and for different devices; `BackwardNotSupported` when you call `backward` on the result.
pub fn apply<'a, O, const N: usize>(operation: O, inputs: [&'a Tensor; N]) -> CandleResult<Tensor>
where
    O: Operation<N>,
    [&'a Tensor; N]: Inputs<N>,
{
    let mut prepared = Vec::with_capacity(N);
    for x in inputs {
        prepared.push(operation.prepare(x)?);
    }
    <[&Tensor; N]>::apply(from_fn(|i| &prepared[i]), operation)
}

/// The tensors of [`apply`]: an array of 1 to 3 references. You name it only as a bound.
pub trait Inputs<const N: usize> {
    #[doc(hidden)]
    fn apply<O: Operation<N>>(tensors: [&Tensor; N], operation: O) -> CandleResult<Tensor>;
}

/// An operation as one of candle's.
struct Custom<O>(O);

/// Implements [`Inputs`] by a trait of candle, whose methods take pairs of storage and layout.
macro_rules! inputs {
    ($N:literal $Trait:ident $apply:ident $first:ident $($other:ident)*:
     $($storage:ident $layout:ident),+) => {
        impl Inputs<$N> for [&Tensor; $N] {
            fn apply<O: Operation<$N>>(
                [$first, $($other),*]: [&Tensor; $N],
                operation: O,
            ) -> CandleResult<Tensor> {
                $first.$apply($($other,)* Custom(operation))
            }
        }

        impl<O: Operation<$N>> $Trait for Custom<O> {
            fn name(&self) -> &'static str {
                self.0.name()
            }

            fn cpu_fwd(
                &self,
                $($storage: &CpuStorage, $layout: &Layout),+
            ) -> CandleResult<(CpuStorage, Shape)> {
                on_cpu(&self.0, [$(($storage, $layout)),+])
            }

            fn cuda_fwd(
                &self,
                $($storage: &CudaStorage, $layout: &Layout),+
            ) -> CandleResult<(CudaStorage, Shape)> {
                on_gpu(&self.0, [$(($storage, $layout)),+])
            }
        }
    };
}

inputs!(1 CustomOp1 apply_op1 a: a a_layout);
inputs!(2 CustomOp2 apply_op2 a b: a a_layout, b b_layout);
inputs!(3 CustomOp3 apply_op3 a b c: a a_layout, b b_layout, c c_layout);

/// The alignment that vector accesses and TMA need.
const ALIGN: usize = 16;

/// Returns a contiguous tensor that starts at a multiple of 16 bytes in its storage. Copies only if
/// `x` is a view that does not.
///
/// # Errors
/// Those of candle's copy.
pub fn packed(x: &Tensor) -> CandleResult<Tensor> {
    let start = x.layout().start_offset() * x.dtype().size_in_bytes();
    if x.is_contiguous() && start.is_multiple_of(ALIGN) {
        Ok(x.clone())
    } else {
        x.force_contiguous()
    }
}

/// Returns a tensor whose last dimension is contiguous, and whose rows along it start at multiples
/// of 16 bytes. Copies only if they do not. For kernels that accept strides in the other
/// dimensions.
///
/// # Errors
/// Those of candle's copy.
pub fn aligned_rows(x: &Tensor) -> CandleResult<Tensor> {
    let layout = x.layout();
    let mut starts = layout.stride().to_vec();
    let last = starts.pop();
    starts.push(layout.start_offset());
    let bytes = x.dtype().size_in_bytes();
    if last == Some(1) && starts.iter().all(|start| (start * bytes).is_multiple_of(ALIGN)) {
        Ok(x.clone())
    } else {
        x.force_contiguous()
    }
}

/// Where an operation launches its kernel.
pub struct Place<'a> {
    /// The GPU, or the simulator as an `sm_90a` device. Build kernels for its `target()`.
    pub device: &'a Device,
    /// The launch options, with candle's stream. Pass them to every launch.
    pub options: LaunchOptions<'a>,
    location: DeviceLocation,
    name: &'static str,
    /// The types of the operation and of its elements.
    types: [TypeId; 2],
}

/// Loaded kernels: by the type of the table, a table by [`LoadedKey`].
type Loaded = HashMap<TypeId, Box<dyn Any + Send>>;

#[derive(PartialEq, Eq, Hash)]
struct LoadedKey<K> {
    location: DeviceLocation,
    types: [TypeId; 2],
    config: K,
}

fn all_loaded() -> MutexGuard<'static, Loaded> {
    static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Mutex::default);
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Place<'_> {
    /// Returns the kernel for a configuration. The first call for this operation, element type,
    /// device and configuration loads it. `F` can be any type, for example a
    /// [`Function`](tilewright::runtime::Function) or a tuple of a kernel and its workspace.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn loaded<K, F>(
        &self,
        config: K,
        load: impl FnOnce() -> Result<F, AnyError>,
    ) -> Result<Arc<F>, AnyError>
    where
        K: Eq + Hash + Send + 'static,
        F: Send + Sync + 'static,
    {
        type Table<K, F> = HashMap<LoadedKey<K>, Arc<F>>;
        fn table<K: Send + 'static, F: Send + Sync + 'static>(
            loaded: &mut Loaded,
        ) -> Option<&mut Table<K, F>> {
            let table = loaded.entry(TypeId::of::<Table<K, F>>());
            table.or_insert_with(|| Box::new(Table::<K, F>::new())).downcast_mut()
        }
        const LOST: &str = "the table of kernels has another type";
        let key = LoadedKey { location: self.location, types: self.types, config };
        if let Some(kernel) = table::<K, F>(&mut all_loaded()).ok_or(LOST)?.get(&key) {
            return Ok(Arc::clone(kernel));
        }
        // Without the lock, because loading takes long and may load other kernels. If two threads
        // load the same kernel, the first one is kept.
        let kernel = Arc::new(load()?);
        let mut loaded = all_loaded();
        let table = table::<K, F>(&mut loaded).ok_or(LOST)?;
        Ok(Arc::clone(table.entry(key).or_insert(kernel)))
    }

    /// Calls `f` with a buffer that has a tensor's elements. Use it for a fourth input and for
    /// indices. On a GPU the buffer borrows the tensor's memory, after [`packed`].
    ///
    /// # Errors
    /// `UnexpectedDType` if the elements are not `T`; `DeviceMismatchBinaryOp`; those of `f`.
    pub fn with_tensor<T: Lent, R>(
        &self,
        tensor: &Tensor,
        f: impl FnOnce(&Buffer<T::Own>) -> Result<R, AnyError>,
    ) -> Result<R, AnyError> {
        let (lhs, rhs) = (self.location, tensor.device().location());
        if lhs != rhs {
            let op = self.name;
            return Err(candle_core::Error::DeviceMismatchBinaryOp { lhs, rhs, op }.into());
        }
        if tensor.dtype() != T::DTYPE {
            let (msg, expected, got) = (self.name, T::DTYPE, tensor.dtype());
            return Err(candle_core::Error::UnexpectedDType { msg, expected, got }.into());
        }
        let tensor = packed(tensor)?;
        let (storage, layout) = tensor.storage_and_layout();
        let elements = layout.start_offset()..layout.start_offset() + tensor.elem_count();
        match &*storage {
            Storage::Cpu(storage) => {
                let elements = storage.as_slice::<T>()?.get(elements).unwrap_or_default();
                let elements: Vec<_> = elements.iter().map(|x| x.own()).collect();
                f(&self.device.upload(&elements)?)
            }
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => {
                let view = storage.as_cuda_slice::<T>()?.slice(elements);
                // SAFETY: the types have the same size, and every bit pattern is valid for both.
                let view = unsafe { view.transmute::<T::Own>(tensor.elem_count()) };
                self.device.borrow_cudarc(&view.ok_or("the slice is too short")?, f)
            }
            _ => Err("the tensor is not on a GPU of this program".into()),
        }
    }
}

/// Checks that all inputs have one element type, and returns it.
fn common_dtype(types: &[DType], op: &'static str) -> CandleResult<DType> {
    let lhs = types.first().copied().unwrap_or(DType::F32);
    match types.iter().find(|rhs| **rhs != lhs) {
        Some(&rhs) => Err(candle_core::Error::DTypeMismatchBinaryOp { lhs, rhs, op }),
        None => Ok(lhs),
    }
}

/// Evaluates an expression with `T` as the element type of `inputs`.
macro_rules! with_type {
    ($inputs:expr, $name:expr, $T:ident => $result:expr) => {{
        let (inputs, name) = ($inputs, $name);
        let result = match common_dtype(&inputs.map(|(storage, _)| storage.dtype()), name)? {
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
            other => return Err(candle_core::Error::UnsupportedDTypeForOp(other, name)),
        };
        result.map_err(|error| candle_error(name, error))
    }};
}

/// Runs an operation on the simulator.
fn on_cpu<const N: usize, O: Operation<N>>(
    operation: &O,
    inputs: [(&CpuStorage, &Layout); N],
) -> CandleResult<(CpuStorage, Shape)> {
    with_type!(inputs, operation.name(), T => on_cpu_as::<T, N, O>(operation, inputs))
}

fn on_cpu_as<T: Float, const N: usize, O: Operation<N>>(
    operation: &O,
    inputs: [(&CpuStorage, &Layout); N],
) -> Result<(CpuStorage, Shape), AnyError> {
    let layouts = inputs.map(|(_, layout)| layout);
    let shape = operation.shape(layouts)?;
    let device = Device::sim_for(Target::SM_90A)?;
    let mut buffers = Vec::new();
    for (storage, layout) in inputs {
        let elements = storage.as_slice::<T>()?.get(layout.start_offset()..).unwrap_or_default();
        let elements: Vec<T::Own> = elements.iter().map(|x| x.own()).collect();
        buffers.push(device.upload(&elements)?);
    }
    let mut output = device.zeros::<T::Own>(shape.elem_count())?;
    if shape.elem_count() > 0 {
        let place = Place {
            device: &device,
            options: LaunchOptions::default(),
            location: DeviceLocation::Cpu,
            name: operation.name(),
            types: [TypeId::of::<O>(), TypeId::of::<T>()],
        };
        let inputs = from_fn(|i| Input { buffer: &buffers[i], layout: layouts[i] });
        operation.launch::<T>(&place, inputs, &mut output)?;
    }
    let output: Vec<T> = output.to_vec()?.into_iter().map(T::from).collect();
    Ok((T::to_cpu_storage_owned(output), shape))
}

/// Without the feature `cuda`: another crate may have turned on candle's.
#[cfg(not(feature = "cuda"))]
fn on_gpu<const N: usize, O: Operation<N>>(
    operation: &O,
    _: [(&CudaStorage, &Layout); N],
) -> CandleResult<(CudaStorage, Shape)> {
    let cause = "tilewright-candle was built without its feature `cuda`";
    Err(candle_error(operation.name(), cause.into()))
}

#[cfg(feature = "cuda")]
use gpu::on_gpu;

#[cfg(feature = "cuda")]
mod gpu {
    use tilewright::runtime::Stream;

    use super::*;

    /// Queues an operation on candle's stream.
    pub(super) fn on_gpu<const N: usize, O: Operation<N>>(
        operation: &O,
        inputs: [(&CudaStorage, &Layout); N],
    ) -> CandleResult<(CudaStorage, Shape)> {
        with_type!(inputs, operation.name(), T => on_gpu_as::<T, N, O>(operation, inputs))
    }

    fn on_gpu_as<T: Float, const N: usize, O: Operation<N>>(
        operation: &O,
        inputs: [(&CudaStorage, &Layout); N],
    ) -> Result<(CudaStorage, Shape), AnyError> {
        let layouts = inputs.map(|(_, layout)| layout);
        let shape = operation.shape(layouts)?;
        let candle_device = inputs[0].0.device.clone();
        let candle_stream = candle_device.cuda_stream();
        let gpu_id = candle_stream.context().ordinal();
        let (device, stream) = (Device::cuda(gpu_id)?, Stream::from_cudarc(&candle_stream)?);
        // SAFETY: the kernel writes each element before anybody reads it.
        let mut output = unsafe { candle_device.alloc::<T>(shape.elem_count())? };
        if shape.elem_count() > 0 {
            let mut views = Vec::new();
            for (storage, layout) in inputs {
                views.push(storage.as_cuda_slice::<T>()?.slice(layout.start_offset()..));
            }
            let place = Place {
                device: &device,
                options: LaunchOptions::default().stream(&stream),
                location: DeviceLocation::Cuda { gpu_id },
                name: operation.name(),
                types: [TypeId::of::<O>(), TypeId::of::<T>()],
            };
            device.borrow_cudarc(
                (views.iter().collect::<Vec<_>>(), &mut output),
                |(buffers, output)| {
                    let input = |i| Input { buffer: buffers[i], layout: layouts[i] };
                    operation.launch::<T>(&place, from_fn(input), output)
                },
            )?;
        }
        Ok((CudaStorage::wrap_cuda_slice(output, candle_device), shape))
    }
}
