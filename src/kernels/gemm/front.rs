//! [`Gemm`]: the kernel of a configuration.

use std::fmt;

use crate::arch::TensorMapDesc;
use crate::codegen::{Ptx, PtxOptions};
use crate::ir::types::Scalar;
use crate::ir::{Element, Kernel, KernelIr, Number};

use super::config::{GemmConfig, Schedule, StoreForm};
use super::error::GemmError;
use super::fma;
use super::problem::GemmProblem;
use super::sm80;
use super::sm90::{self, Sm90Kernel};
use super::threads;
use super::types::{Types, in_memory};

/// The kernel of a configuration, for buffers of these types of A, B, C and D. By default B and C have the type of A, and
/// D has the type of C.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
/// use tilewright::runtime::Device;
///
/// // A[m, k] is row-major, and B column-major, which is the usual case.
/// let gemm = Gemm::<bf16>::new(GemmConfig::sm90(Scalar::Bf16, [128, 64]))?;
/// let (m, n, k) = (40, 24, 16);
/// let device = Device::sim()?;
/// let a = device.upload(&(0..m * k).map(|i| bf16::from_f32((i % 7) as f32)).collect::<Vec<_>>())?;
/// let b = device.upload(&(0..n * k).map(|i| bf16::from_f32((i % 5) as f32)).collect::<Vec<_>>())?;
/// let mut d = device.zeros::<bf16>(m * n)?;
/// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
/// gemm.load(&device)?.launch(&problem, GemmArgs::new(&a, &b, &mut d))?;
/// let sum: usize = (0..k).map(|i| (k + i) % 7 * ((3 * k + i) % 5)).sum();
/// assert_eq!(d.to_vec()?[n + 3].to_f32(), sum as f32);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Gemm<A: Element, B: Element = A, C: Number = A, D: Number = C> {
    config: GemmConfig,
    pub(super) kernel: AnyKernel<(A, B, C, D)>,
}

/// The kernel of one of the schedules: with tensor maps, or with pointers for threads that copy by themselves.
pub(super) enum AnyKernel<T: Types> {
    Sm90(Box<sm90::Plan>, Box<Sm90Kernel<T>>),
    Threads(Box<Kernel<(threads::Params<T>,)>>),
}

/// Evaluates an expression of the kernel, whatever its parameters are.
macro_rules! with_kernel {
    ($of:expr, $kernel:ident => $result:expr) => {
        match $of {
            AnyKernel::Sm90(_, kernel) => match &**kernel {
                Sm90Kernel::Whole($kernel) => $result,
                Sm90Kernel::Split($kernel) => $result,
                Sm90Kernel::Rows($kernel) => $result,
                Sm90Kernel::SplitRows($kernel) => $result,
                Sm90Kernel::Lines($kernel) => $result,
                Sm90Kernel::SplitLines($kernel) => $result,
            },
            AnyKernel::Threads($kernel) => $result,
        }
    };
}

impl<A: Element, B: Element, C: Number, D: Number> fmt::Debug for Gemm<A, B, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gemm({})", self.config)
    }
}

impl<A: Element, B: Element, C: Number, D: Number> Gemm<A, B, C, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check`]; [`GemmError::BufferType`] where the configuration is for buffers of other types:
    /// `Tf32` is in memory as `f32`.
    pub fn new(config: GemmConfig) -> Result<Self, GemmError> {
        config.check()?;
        let types: [(char, Scalar, Scalar); 4] = [
            ('A', A::SCALAR, in_memory(config.a)),
            ('B', B::SCALAR, in_memory(config.b)),
            ('C', C::SCALAR, config.c),
            ('D', D::SCALAR, config.d),
        ];
        for (operand, found, expected) in types {
            if found != expected {
                return Err(GemmError::BufferType { operand, found, expected });
            }
        }
        let kernel = match config.schedule {
            Schedule::Simt => AnyKernel::Threads(Box::new(fma::build(&config)?)),
            Schedule::Multistage => AnyKernel::Threads(Box::new(sm80::build(&config)?)),
            Schedule::Cooperative | Schedule::Pingpong => {
                let plan = sm90::Plan::new(&config)?;
                let kernel = Box::new(plan.build()?);
                AnyKernel::Sm90(Box::new(plan), kernel)
            }
        };
        Ok(Gemm { config, kernel })
    }

    /// The configuration.
    pub fn config(&self) -> &GemmConfig {
        &self.config
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.ptx_with(PtxOptions::default())
    }

    /// The kernel as PTX, with options.
    pub fn ptx_with(&self, options: PtxOptions) -> Ptx {
        with_kernel!(&self.kernel, kernel => kernel.ptx_with(options))
    }

    /// The tensor maps of A, B and D that a launch of the kernel takes for a problem; `None` for a kernel that takes
    /// pointers, for D or for all. A launch by `GemmFunction` makes them by itself.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::bf16;
    /// use tilewright::kernels::gemm::{Gemm, GemmConfig, GemmProblem};
    ///
    /// let gemm = Gemm::<bf16>::new(GemmConfig::sm90(Scalar::Bf16, [128, 256]))?;
    /// let [a, b, d] = gemm.tensor_maps(&GemmProblem::new(1000, 600, 512))?.unwrap();
    /// assert_eq!((a.dims(), a.box_dims()), (&[512, 1000, 1][..], &[64, 128, 1][..]));
    /// assert_eq!((b.dims(), b.box_dims()), (&[512, 600, 1][..], &[64, 256, 1][..]));
    /// assert_eq!((d.dims(), d.box_dims()), (&[600, 1000, 1][..], &[64, 64, 1][..]));
    /// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`]; tensors that tensor copies do not take.
    pub fn tensor_maps(
        &self,
        problem: &GemmProblem,
    ) -> Result<Option<[TensorMapDesc; 3]>, GemmError> {
        let strides = self.config.check_problem(problem)?;
        match &self.kernel {
            AnyKernel::Sm90(plan, _) if self.config.store != StoreForm::Direct => {
                let [a, b] = plan.maps(problem, &strides)?;
                Ok(Some([a, b, plan.map_of_d(problem, &strides)?]))
            }
            AnyKernel::Sm90(..) | AnyKernel::Threads(_) => Ok(None),
        }
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        with_kernel!(&self.kernel, kernel => kernel.ir())
    }

    /// The kernel in the text form of the IR.
    pub fn text(&self) -> String {
        with_kernel!(&self.kernel, kernel => kernel.to_string())
    }
}
