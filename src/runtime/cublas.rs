//! Runs GEMMs with cuBLAS and cuBLASLt, as a baseline for measurements. The benchmarks use it;
//! kernels do not.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "tune")]
use super::any_buffer::AnyBuffer;
use super::buffer::{Buffer, Memory};
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
        matmul.check_problem(CublasLibrary::Cublas)?;
        matmul.check(a, b, c)?;
        self.gemm_of(matmul, stream, [a.memory(), b.memory()], c.memory_mut())
    }

    fn gemm_of(
        &self,
        matmul: &Matmul,
        stream: &Stream,
        [a, b]: [&Memory; 2],
        c: &mut Memory,
    ) -> Result<(), CublasError> {
        let stream = self.stream(stream)?;
        self.handles.gemm(matmul, stream, [on_gpu(a)?, on_gpu(b)?], on_gpu_mut(c)?)
    }

    /// As [`gemm`](Cublas::gemm).
    #[cfg(feature = "tune")]
    pub(crate) fn gemm_any(
        &self,
        matmul: &Matmul,
        stream: &Stream,
        a: &AnyBuffer,
        b: &AnyBuffer,
        c: &mut AnyBuffer,
    ) -> Result<(), CublasError> {
        matmul.check_problem(CublasLibrary::Cublas)?;
        matmul.check_refs(a.as_ref(), b.as_ref(), c.as_ref())?;
        let inputs = [a.as_ref().memory(), b.as_ref().memory()];
        self.gemm_of(matmul, stream, inputs, c.bytes_mut().memory_mut())
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
        plan.plan.matmul().check(a, b, c)?;
        self.run_of(plan, stream, [a.memory(), b.memory()], c.memory_mut())
    }

    fn run_of(
        &self,
        plan: &CublasLtPlan,
        stream: &Stream,
        [a, b]: [&Memory; 2],
        c: &mut Memory,
    ) -> Result<(), CublasError> {
        let stream = self.stream(stream)?;
        self.handles.run(&plan.plan, stream, [on_gpu(a)?, on_gpu(b)?], on_gpu_mut(c)?)
    }

    /// As [`run`](Cublas::run).
    #[cfg(feature = "tune")]
    pub(crate) fn run_any(
        &self,
        plan: &CublasLtPlan,
        stream: &Stream,
        a: &AnyBuffer,
        b: &AnyBuffer,
        c: &mut AnyBuffer,
    ) -> Result<(), CublasError> {
        plan.plan.matmul().check_refs(a.as_ref(), b.as_ref(), c.as_ref())?;
        let inputs = [a.as_ref().memory(), b.as_ref().memory()];
        self.run_of(plan, stream, inputs, c.bytes_mut().memory_mut())
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

fn on_gpu(memory: &Memory) -> Result<&cuda::Memory, CublasError> {
    match memory {
        Memory::Sim(_) => Err(CublasError::Simulator),
        Memory::Cuda(memory) => Ok(memory),
    }
}

fn on_gpu_mut(memory: &mut Memory) -> Result<&mut cuda::Memory, CublasError> {
    match memory {
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
        assert_eq!(PROBLEM.check(&a, &b, &c), Ok(()));
        let error = PROBLEM.check(&a, &a, &c).unwrap_err();
        assert_eq!(error.to_string(), "B needs 15 elements of bf16, not 10 of bf16");
        let error = PROBLEM.check(&a, &b, &a).unwrap_err();
        assert_eq!(error.to_string(), "C needs 6 elements of f32, not 10 of bf16");
        let error = Matmul { sizes: [2, 0, 5], ..PROBLEM }.check(&a, &b, &c).unwrap_err();
        assert_eq!(error, CublasError::Size { sizes: [2, 0, 5] });
    }
}
