//! A tilewright softmax for CubeCL buffers, which burn's CUDA tensors are made of.
//!
//! CubeCL and tilewright share a GPU's primary context, so each can use the other's addresses.
//! CubeCL does not give out its stream, so the host waits for CubeCL's work before the launch, and
//! for the launch before CubeCL continues.

use std::error::Error;

use cubecl_common::future::block_on;
use cubecl_core::client::ComputeClient;
use cubecl_core::server::Handle;
use cubecl_cuda::CudaRuntime;
use tilewright::ir::types::Scalar;
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::runtime::{Buffer, Device};

/// Borrows the buffer behind a handle of `len` elements.
///
/// # Safety
/// CubeCL has no work on the memory and starts none before the buffer is dropped. The handle
/// outlives the buffer.
unsafe fn borrow(
    device: &Device,
    client: &ComputeClient<CudaRuntime>,
    handle: &Handle,
    len: usize,
) -> Result<Buffer<f32>, Box<dyn Error>> {
    let resource = client.get_resource(handle.clone()).map_err(|error| format!("{error:?}"))?;
    let found = resource.resource().size;
    let needed = u64::try_from(len * size_of::<f32>())?;
    if found < needed {
        return Err(
            format!("the buffer of CubeCL has {found} bytes, and {needed} are needed").into()
        );
    }
    // SAFETY: the address belongs to `found` bytes on this GPU, which the handle keeps alive; the
    // caller guarantees the rest.
    Ok(unsafe { device.borrow_raw(resource.resource().ptr, len, ())? })
}

/// Returns the softmax of each row of a contiguous `f32` matrix on the client's GPU, whose ordinal
/// is `ordinal`.
///
/// # Errors
/// Errors of both runtimes; a handle with too few elements.
pub fn softmax(
    client: &ComputeClient<CudaRuntime>,
    ordinal: usize,
    x: &Handle,
    [rows, columns]: [u32; 2],
) -> Result<Handle, Box<dyn Error>> {
    let device = Device::cuda(ordinal)?;
    let problem = RowProblem::new(rows, columns);
    // A program with many calls keeps the loaded kernel.
    let config = SoftmaxConfig::new(device.target(), Scalar::F32, &problem)?;
    let softmax = Softmax::<f32>::new(config)?.load(&device)?;
    let len = usize::try_from(u64::from(rows) * u64::from(columns))?;
    let y = client.empty(len * size_of::<f32>());
    // SAFETY: CubeCL's work on the memory ends with `sync`. Its next work starts after this
    // function returns, and the handles live until then.
    let (of_x, mut of_y) =
        unsafe { (borrow(&device, client, x, len)?, borrow(&device, client, &y, len)?) };
    block_on(client.sync()).map_err(|error| format!("{error:?}"))?;
    softmax.launch(&problem, (&of_x, &mut of_y))?;
    device.synchronize()?;
    Ok(y)
}
