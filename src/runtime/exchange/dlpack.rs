//! Exports GPU memory as DLPack tensors, and imports such tensors, to share memory with libraries
//! such as PyTorch without a copy.

use std::ptr;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType};
use dlpark::metadata::{Dynamic, PreparedDynamic};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};

use super::kept_buffer::KeptBuffer;
use crate::ir::Element;
use crate::ir::types::Scalar;
use crate::runtime::buffer::{Buffer, Memory};
use crate::runtime::cuda;
use crate::runtime::dlpack_error::{DlpackError, data_type, data_type_name};
use crate::runtime::error::RuntimeError;
use crate::runtime::stream::{Stream, StreamBackend};

/// Memory that other code uses through a tensor.
struct Exported(Option<cuda::Memory>);

impl Drop for Exported {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        // Other code may drop the tensor while its work on streams that we do not know is still in
        // flight.
        let context = memory.context();
        if context.keep(context.wait_for_all_code()).is_none() {
            // Leak the memory, because it may still be in use.
            std::mem::forget(memory);
        }
    }
}

impl<T: Element> Buffer<T> {
    /// Turns the buffer into a DLPack tensor of `shape` in row-major order, for another library
    /// such as PyTorch, CuPy or JAX. `M` is the tensor's form: `dlpark::versioned::Dlpack`, or
    /// `dlpark::legacy::Dlpack` for libraries that predate DLPack 1.0.
    ///
    /// The call waits for all uses of the buffer, so you can use the tensor on any stream. The
    /// tensor owns the memory. Dropping it waits for all of this process's work on the GPU, and
    /// then frees the memory.
    ///
    /// A buffer of `bool`s is copied through the host, because a kernel may have stored bytes other
    /// than 0 and 1; they become 1.
    ///
    /// # Errors
    /// Each error returns the buffer. [`AddressOnSimulator`](RuntimeError::AddressOnSimulator);
    /// [`BufferShared`](RuntimeError::BufferShared) if a graph uses the buffer;
    /// [`Dlpack`](RuntimeError::Dlpack) with [`DlpackError::Shape`] or [`DlpackError::NoDataType`];
    /// the fault of an earlier launch, if there was one.
    ///
    /// ```no_run
    /// use tilewright::runtime::Device;
    /// let buffer = Device::cuda(0)?.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let tensor: dlpark::versioned::Dlpack = buffer.into_dlpack(&[2, 3])?;
    /// assert_eq!(tensor.validate()?.strides(), Some(&[3, 1][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_dlpack<M: ManagedTensorBase>(
        mut self,
        shape: &[usize],
    ) -> Result<Managed<M>, KeptBuffer<T>> {
        let prepared = match self.prepare_for_dlpack::<M>(shape) {
            Ok(prepared) => prepared,
            Err(error) => return Err(KeptBuffer { error, buffer: self }),
        };
        let len = self.len();
        let memory = match self.into_memory() {
            Memory::Cuda(memory) => memory,
            memory @ Memory::Sim(_) => {
                let buffer = Buffer::from_memory(memory, len);
                return Err(KeptBuffer { error: RuntimeError::AddressOnSimulator, buffer });
            }
        };
        let (tensor, data_type) = prepared;
        let (address, ordinal) = (memory.address() as usize, memory.context().ordinal());
        let mut tensor = tensor.initialize(Box::new(Exported(Some(memory))));
        tensor.set_data(ptr::without_provenance_mut(address));
        tensor.set_dtype(data_type);
        tensor.set_device(DLDevice::cuda(ordinal as i32));
        // SAFETY: the shape has as many coordinates as the memory has elements, strides are given,
        // and the memory lives as long as the tensor. Nobody else has the memory, so it may be
        // written, as the tensor's flags say.
        Ok(unsafe { tensor.finish() })
    }

    /// Checks that the memory can be given away, waits for its uses, and prepares the tensor's
    /// description.
    fn prepare_for_dlpack<M: ManagedTensorBase>(
        &mut self,
        shape: &[usize],
    ) -> Result<(PreparedDynamic<M>, DLDataType), RuntimeError> {
        let len = self.len();
        let elements = shape.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent));
        if elements != Some(len) {
            return Err(DlpackError::Shape { shape: shape.to_vec(), len }.into());
        }
        let data_type = data_type(T::SCALAR)?;
        let memory = match self.memory_mut() {
            Memory::Cuda(memory) => memory,
            Memory::Sim(_) => return Err(RuntimeError::AddressOnSimulator),
        };
        memory.wait_alone()?;
        memory.context().check_asserts()?;
        if T::SCALAR == Scalar::Bool {
            memory.make_bools()?;
        }
        let invalid =
            |error: dlpark::metadata::Error| DlpackError::Invalid { reason: error.to_string() };
        let prepared = Dynamic::compact(shape.to_vec()).prepare_as::<M>().map_err(invalid)?;
        Ok((prepared, data_type))
    }

    /// Wraps a DLPack tensor in row-major order as a buffer, without a copy, so that kernels can
    /// use another library's tensor. The tensor is dropped after the buffer's last use.
    ///
    /// `ready_on` is the stream whose queued work produces the elements. Pass the stream on which
    /// you asked the other library to make the tensor ready ([`Stream::from_cudarc`] wraps one of
    /// its own), or any stream of the GPU if the library has already waited for them.
    ///
    /// # Safety
    /// As long as the tensor is not dropped, its elements are memory of its GPU's primary context,
    /// as many as its shape says. After the work that is queued on `ready_on`, no other code writes
    /// them, and other code reads them only if this crate does not write them.
    ///
    /// # Errors
    /// [`Dlpack`](RuntimeError::Dlpack) with the [`DlpackError`];
    /// [`AddressOnSimulator`](RuntimeError::AddressOnSimulator);
    /// [`NotInGraph`](RuntimeError::NotInGraph). The tensor is dropped in each case.
    pub unsafe fn from_dlpack<M: ManagedTensorBase + 'static>(
        tensor: Managed<M>,
        ready_on: &Stream,
    ) -> Result<Buffer<T>, RuntimeError> {
        let found = check::<T, M>(&tensor)?;
        let stream: &Arc<cuda::Stream> = match &ready_on.backend {
            StreamBackend::Cuda(stream) => stream,
            StreamBackend::Sim(_) => return Err(RuntimeError::AddressOnSimulator),
        };
        stream.check_runs("Buffer::from_dlpack")?;
        if usize::try_from(found.device) != Ok(stream.context().ordinal()) {
            let (tensor, stream) = (found.device, ready_on.device().to_string());
            return Err(DlpackError::OtherDevice { tensor, stream }.into());
        }
        let bytes = found.len.saturating_mul(size_of::<T>());
        // SAFETY: guaranteed by the caller.
        let memory =
            unsafe { cuda::Memory::foreign(stream, found.address, bytes, Box::new(tensor)) };
        Ok(Buffer::from_memory(Memory::Cuda(memory), found.len))
    }
}

/// What a buffer needs to know about a tensor.
struct Found {
    device: i32,
    /// The first element's address; 0 if there are no elements.
    address: u64,
    len: usize,
}

/// Returns an error if the tensor cannot be a buffer of `T`.
fn check<T: Element, M: ManagedTensorBase>(tensor: &Managed<M>) -> Result<Found, DlpackError> {
    let invalid = |error: dlpark::tensor::Error| DlpackError::Invalid { reason: error.to_string() };
    let view = tensor.validate().map_err(invalid)?;
    let device = view.device();
    if device.device_type != DLDeviceType::CUDA {
        return Err(DlpackError::NotCuda { device_type: device.device_type.0 });
    }
    if view.dtype() != data_type(T::SCALAR)? {
        let found = data_type_name(view.dtype());
        return Err(DlpackError::DataType { expected: T::SCALAR, found });
    }
    if !view.is_compact().map_err(invalid)? {
        let strides = view.strides().unwrap_or_default().to_vec();
        return Err(DlpackError::Strides { shape: view.shape().to_vec(), strides });
    }
    if tensor.flags().contains(DlpackFlags::READ_ONLY) {
        return Err(DlpackError::ReadOnly);
    }
    let len = view.num_elements();
    if len == 0 {
        return Ok(Found { device: device.device_id, address: 0, len });
    }
    if view.data_ptr().is_null() {
        return Err(DlpackError::NoData { elements: len });
    }
    let (data, byte_offset) = (view.data_ptr().addr() as u64, view.byte_offset());
    let align = size_of::<T>() as u64;
    let address = data.checked_add(byte_offset).filter(|address| address.is_multiple_of(align));
    let address = address.ok_or(DlpackError::Offset { data, byte_offset, align })?;
    Ok(Found { device: device.device_id, address, len })
}
