//! Runs GEMMs with cuBLAS and cuBLASLt, as a baseline for measurements. The benchmarks use it;
//! kernels do not.

use std::fmt;
use std::sync::Arc;

use super::buffer::{Buffer, Memory};
use super::buffer_ref::{BufferMut, BufferRef};
use super::cublas_problem::{CublasError, CublasLibrary, Matmul};
use super::cuda;
use super::device::{Backend, Device};
use super::error::RuntimeError;
use super::stream::{Stream, StreamBackend};
use crate::ir::Element;

/// cuBLAS and cuBLASLt on a GPU, as a baseline for your own GEMMs. They are loaded at run time:
/// nothing links them, and if a machine does not have them, [`Cublas::open`] returns a typed error.
///
/// ```no_run
/// use tilewright::arch::Major;
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::runtime::{Cublas, Device, Matmul};
/// let device = Device::cuda(0)?;
/// let cublas = Cublas::open(&device)?;
/// let (a, b) = (device.upload(&[bf16::from_f32(2.0); 64])?, device.upload(&[bf16::from_f32(3.0); 64])?);
/// let mut c = device.zeros::<f32>(64)?;
/// let of_8 = Matmul {
///     sizes: [8, 8, 8],
///     a: Major::K,
///     b: Major::K,
///     inputs: [Scalar::Bf16; 2],
///     output: Scalar::F32,
/// };
/// cublas.gemm(&of_8, &device.stream()?, &a, &b, &mut c)?;
/// assert_eq!(c.to_vec()?, [48.0; 64]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Cublas {
    device: Device,
    handles: Arc<cuda::CublasHandles>,
}

impl Cublas {
    /// Loads the libraries and creates their handles for this GPU.
    ///
    /// # Errors
    /// [`NoLibrary`](CublasError::NoLibrary), [`MissingSymbol`](CublasError::MissingSymbol),
    /// [`Simulator`](CublasError::Simulator), [`Status`](CublasError::Status),
    /// [`Runtime`](CublasError::Runtime).
    pub fn open(device: &Device) -> Result<Cublas, CublasError> {
        match &device.backend {
            Backend::Sim(_) => Err(CublasError::Simulator),
            Backend::Cuda(context) => {
                let handles = cuda::CublasHandles::new(context)?;
                Ok(Cublas { device: device.clone(), handles })
            }
        }
    }

    /// Returns the cuBLAS version, such as `13.1.0`, so that a measurement can say what it compares
    /// with.
    ///
    /// # Errors
    /// [`Status`](CublasError::Status).
    pub fn version(&self) -> Result<String, CublasError> {
        let version = self.handles.version()?;
        Ok(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
    }

    /// Queues the GEMM `C = A B` with the kernel that cuBLAS chooses. `A` and `B` must have the
    /// types in [`Matmul::inputs`] (`f32` for `tf32`), and `C` the type in [`Matmul::output`]. If
    /// the stream records a graph, the GEMM becomes part of the graph.
    ///
    /// # Errors
    /// [`Buffer`](CublasError::Buffer), [`UnsupportedInputs`](CublasError::UnsupportedInputs),
    /// [`UnsupportedOutput`](CublasError::UnsupportedOutput), [`Size`](CublasError::Size),
    /// [`Status`](CublasError::Status), [`Runtime`](CublasError::Runtime).
    pub fn gemm<A: Element, B: Element, D: Element>(
        &self,
        matmul: &Matmul,
        stream: &Stream,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<D>,
    ) -> Result<(), CublasError> {
        self.gemm_any(matmul, stream, a.into(), b.into(), c.into())
    }

    /// Queues the GEMM as [`gemm`](Cublas::gemm) does, on buffers whose types are values.
    ///
    /// # Errors
    /// Those of [`gemm`](Cublas::gemm).
    pub fn gemm_any(
        &self,
        matmul: &Matmul,
        stream: &Stream,
        a: BufferRef<'_>,
        b: BufferRef<'_>,
        c: BufferMut<'_>,
    ) -> Result<(), CublasError> {
        matmul.check_problem(CublasLibrary::Cublas)?;
        matmul.check(a, b, c.as_ref())?;
        let stream = self.stream(stream)?;
        self.handles.gemm(matmul, stream, [on_gpu(a)?, on_gpu(b)?], on_gpu(c.into_ref())?)
    }

    /// Returns the first kernels that cuBLASLt's heuristic suggests for the GEMM, best first and at
    /// most `count`, with 32 MiB of workspace. Run them with [`Cublas::run`], for example to find
    /// the fastest one.
    ///
    /// # Errors
    /// [`UnsupportedInputs`](CublasError::UnsupportedInputs),
    /// [`UnsupportedOutput`](CublasError::UnsupportedOutput), [`NoKernel`](CublasError::NoKernel),
    /// [`Size`](CublasError::Size), [`Status`](CublasError::Status),
    /// [`Runtime`](CublasError::Runtime).
    pub fn plans(&self, matmul: &Matmul, count: usize) -> Result<Vec<CublasLtPlan>, CublasError> {
        matmul.check_problem(CublasLibrary::CublasLt)?;
        let plans = self.handles.plans(matmul, count)?;
        Ok(plans.into_iter().map(|plan| CublasLtPlan { plan: Arc::new(plan) }).collect())
    }

    /// Queues the GEMM `C = A B` with the kernel of a plan, which must come from this device. If
    /// the stream records a graph, the GEMM becomes part of the graph.
    ///
    /// # Errors
    /// Those of [`Cublas::gemm`].
    pub fn run<A: Element, B: Element, D: Element>(
        &self,
        plan: &CublasLtPlan,
        stream: &Stream,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<D>,
    ) -> Result<(), CublasError> {
        self.run_any(plan, stream, a.into(), b.into(), c.into())
    }

    /// Queues the GEMM as [`run`](Cublas::run) does, on buffers whose types are values.
    ///
    /// # Errors
    /// Those of [`gemm`](Cublas::gemm).
    pub fn run_any(
        &self,
        plan: &CublasLtPlan,
        stream: &Stream,
        a: BufferRef<'_>,
        b: BufferRef<'_>,
        c: BufferMut<'_>,
    ) -> Result<(), CublasError> {
        plan.plan.matmul().check(a, b, c.as_ref())?;
        let stream = self.stream(stream)?;
        self.handles.run(&plan.plan, stream, [on_gpu(a)?, on_gpu(b)?], on_gpu(c.into_ref())?)
    }

    fn stream<'s>(&self, stream: &'s Stream) -> Result<&'s Arc<cuda::Stream>, CublasError> {
        match &stream.backend {
            StreamBackend::Cuda(raw) if stream.is_on(&self.device) => Ok(raw),
            _ => Err(CublasError::Runtime(RuntimeError::OtherDeviceStream {
                what: "cuBLAS".to_owned(),
                stream: stream.device().to_string(),
                device: self.device.to_string(),
            })),
        }
    }
}

impl fmt::Debug for Cublas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cublas(on {})", self.device)
    }
}

/// A cuBLASLt kernel for one problem, made by [`Cublas::plans`]. Pass it to [`Cublas::run`] to
/// measure it beside the other plans.
#[derive(Clone)]
pub struct CublasLtPlan {
    plan: Arc<cuda::CublasLtPlan>,
}

impl fmt::Debug for CublasLtPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CublasLtPlan({:?})", self.plan.matmul())
    }
}

fn on_gpu(buffer: BufferRef<'_>) -> Result<&cuda::Memory, CublasError> {
    match buffer.memory() {
        Memory::Sim(_) => Err(CublasError::Simulator),
        Memory::Cuda(memory) => Ok(memory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Major;
    use crate::ir::types::Scalar;

    const PROBLEM: Matmul = Matmul {
        sizes: [2, 3, 5],
        a: Major::K,
        b: Major::Mn,
        inputs: [Scalar::Bf16; 2],
        output: Scalar::F32,
    };

    #[cfg(feature = "sim")]
    #[test]
    fn wrong_buffers_and_devices_are_named() {
        let device = Device::sim().unwrap();
        assert_eq!(Cublas::open(&device).unwrap_err(), CublasError::Simulator);
        let bf16 = |len| device.zeros::<crate::ir::bf16>(len).unwrap();
        let (a, b, c) = (bf16(10), bf16(15), device.zeros::<f32>(6).unwrap());
        let check = |a, b, c| PROBLEM.check(BufferRef::from(a), BufferRef::from(b), c);
        assert_eq!(check(&a, &b, (&c).into()), Ok(()));
        let error = check(&a, &a, (&c).into()).unwrap_err();
        assert_eq!(error.to_string(), "B needs 15 elements of bf16, not 10 of bf16");
        let error = check(&a, &b, (&a).into()).unwrap_err();
        assert_eq!(error.to_string(), "C needs 6 elements of f32, not 10 of bf16");
        let empty = Matmul { sizes: [2, 0, 5], ..PROBLEM };
        let error = empty.check((&a).into(), (&b).into(), (&c).into()).unwrap_err();
        assert_eq!(error, CublasError::Size { sizes: [2, 0, 5] });
    }
}
