//! [`Gemm`]: the kernel of a configuration.

use std::fmt;
use std::marker::PhantomData;

use crate::arch::TensorMapDesc;
use crate::codegen::{Ptx, PtxOptions};
use crate::ir::builder::{Converted, Parameter};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Kernel, KernelIr, Number, Val};
use crate::runtime::Declared;

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::forms::{Schedule, StoreForm};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::config::types::in_memory;
use crate::kernels::gemm::config::{Epilogue, GemmConfig};
use crate::kernels::gemm::epilogue::terms::Results;
use crate::kernels::gemm::epilogue::{
    ConfiguredEpilogue, EpilogueForm, EpilogueParameter, EpilogueParams, FusedEpilogue, FusedForm,
};
use crate::kernels::gemm::simt;
use crate::kernels::gemm::sm80;
use crate::kernels::gemm::sm90::plan::Plan;

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
///
/// `E` is the parameter of the kernel's epilogue: at first the operands of the epilogue of a configuration.
pub struct Gemm<
    A: Element,
    B: Element = A,
    C: Number = A,
    D: Converted = C,
    E: Parameter = EpilogueParams<(A, C)>,
> {
    config: GemmConfig,
    pub(crate) kernel: Kernel<Declared>,
    /// The plan of a warp-specialised kernel.
    pub(crate) plan: Option<Box<Plan>>,
    pub(crate) results: Results,
    buffers: PhantomData<(A, B, C, D)>,
    epilogue: PhantomData<fn() -> E>,
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> fmt::Debug
    for Gemm<A, B, C, D, E>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gemm({})", self.config)
    }
}

impl<A: Element, B: Element, C: Number, D: Converted> Gemm<A, B, C, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check`]; [`GemmError::BufferType`] where the configuration is for buffers of other types:
    /// `Tf32` is in memory as `f32`; [`GemmError::PairsWithoutEpilogue`].
    pub fn new(config: GemmConfig) -> Result<Self, GemmError> {
        if config.pairs {
            return Err(GemmError::PairsWithoutEpilogue);
        }
        Self::build(config, &ConfiguredEpilogue::new(config.epilogue))
    }

    /// Builds the kernel with an epilogue of the program: D[row, column] of matrix `batch` is
    /// `epilogue(k, sum, [row, column, batch], args)`, where `sum` is the element of A B: an `f32`, also of integers, and an
    /// `f64` of `f64`; an integer D is the result rounded to nearest and cut to its range.
    ///
    /// The closure is called while the kernel is built, and its operations run once for each element of D, by the thread that
    /// has it, whatever the schedule. `E` is what they need beside it: anything that a kernel can have as a parameter,
    /// or a struct declared with [`params!`](crate::params). A launch takes it beside A, B and D.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::{Global, GlobalMut, f16};
    /// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
    /// use tilewright::runtime::Device;
    ///
    /// tilewright::params! {
    ///     /// A factor for each row, and the matrix before it was scaled.
    ///     struct Scaled => ScaledAt<'b> {
    ///         factors: Global<f32>,
    ///         unscaled: GlobalMut<f32>,
    ///     }
    /// }
    ///
    /// let config = GemmConfig::sm90(Scalar::F16, [64, 64]);
    /// let gemm = Gemm::<f16>::with_epilogue::<Scaled>(config, |k, sum, [row, column, _], scaled| {
    ///     scaled.unscaled.store(k, row * 24 + column, sum);
    ///     sum * scaled.factors.load(k, row)
    /// })?;
    /// let (m, n, k) = (40, 24, 16);
    /// let device = Device::sim()?;
    /// let a = device.upload(&vec![f16::from_f32(0.5); m * k])?;
    /// let b = device.upload(&vec![f16::from_f32(2.0); n * k])?;
    /// let factors = device.upload(&(0..m).map(|row| row as f32).collect::<Vec<_>>())?;
    /// let (mut d, mut unscaled) = (device.zeros::<f16>(m * n)?, device.zeros::<f32>(m * n)?);
    /// let scaled = Scaled { factors: &factors, unscaled: &mut unscaled };
    /// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    /// gemm.load(&device)?.launch(&problem, GemmArgs::new(&a, &b, &mut d), scaled)?;
    /// assert_eq!(d.to_vec()?[3 * n].to_f32(), 48.0);
    /// assert!(unscaled.to_vec()?.iter().all(|sum| *sum == 16.0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Gemm::new`]; [`GemmError::TwoEpilogues`] where the configuration has an epilogue, too; errors in the
    /// operations of the closure.
    pub fn with_epilogue<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            Val<'b, A::Sum>,
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<Gemm<A, B, C, D, FusedEpilogue<E>>, GemmError> {
        if config.pairs {
            return Err(GemmError::PairsWithoutEpilogue);
        }
        Self::fused::<E>(config, |k, [sum, _], coord, args| epilogue(k, sum, coord, args))
    }

    /// As [`with_epilogue`](Gemm::with_epilogue), of pairs of columns: D[row, j] of matrix `batch` is
    /// `epilogue(k, [even, odd], [row, j, batch], args)`, where `even` and `odd` are the elements of A B in the columns
    /// `2 j` and `2 j + 1`. D has `N / 2` columns. The [`pairs`](GemmConfig::pairs) of the configuration are set.
    ///
    /// SwiGLU, `silu(A G) * (A U)`, is one product with a B whose columns are those of G and U in turn:
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::f16;
    /// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem, Machine};
    /// use tilewright::runtime::Device;
    ///
    /// let device = Device::sim()?;
    /// let (m, n, k) = (40, 48, 16);
    /// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    /// let wanted = GemmConfig { pairs: true, ..GemmConfig::sm90(Scalar::F16, [128, 128]) };
    /// let config = wanted.best(&problem, &Machine::of(&device))?;
    /// let swiglu = Gemm::<f16>::with_pairs::<()>(config, |_, [gate, up], _, ()| {
    ///     gate.silu_fast() * up
    /// })?;
    /// let a = device.upload(&vec![f16::from_f32(0.125); m * k])?;
    /// // Rows of ones, the gates, and rows of twos.
    /// let b: Vec<f16> = (0..n * k).map(|i| f16::from_f32((1 + i / k % 2) as f32)).collect();
    /// let (b, mut d) = (device.upload(&b)?, device.zeros::<f16>(m * n / 2)?);
    /// swiglu.load(&device)?.launch(&problem, GemmArgs::new(&a, &b, &mut d), ())?;
    /// let expected = 2.0 / (1.0 + (-2.0f32).exp()) * 4.0;
    /// assert!(d.to_vec()?.iter().all(|x| (x.to_f32() - expected).abs() < 0.01));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`with_epilogue`](Gemm::with_epilogue). A launch returns [`GemmError::OddColumns`] where N is odd.
    pub fn with_pairs<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<Gemm<A, B, C, D, FusedEpilogue<E>>, GemmError> {
        Self::fused::<E>(GemmConfig { pairs: true, ..config }, epilogue)
    }

    fn fused<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<Gemm<A, B, C, D, FusedEpilogue<E>>, GemmError> {
        Gemm::with_closure(config, &FusedForm::<E, _>::new(epilogue))
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter>
    Gemm<A, B, C, D, FusedEpilogue<E>>
{
    /// Builds the kernel with an epilogue of the program, which the configuration then has not.
    pub(crate) fn with_closure(
        config: GemmConfig,
        epilogue: &impl EpilogueForm<A::Sum, Params = FusedEpilogue<E>>,
    ) -> Result<Self, GemmError> {
        if config.epilogue != Epilogue::default() {
            return Err(GemmError::TwoEpilogues);
        }
        Self::build(config, epilogue)
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Gemm<A, B, C, D, E> {
    fn build(
        config: GemmConfig,
        epilogue: &impl EpilogueForm<A::Sum, Params = E>,
    ) -> Result<Self, GemmError> {
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
        let plan = config.is_warp_specialised().then(|| Plan::new(&config)).transpose()?;
        let kernel = match (&plan, config.schedule) {
            (Some(plan), _) => plan.build::<(A, B, D), _>(epilogue)?,
            (None, Schedule::Simt) => simt::build::<(A, B, D), _>(&config, epilogue)?,
            (None, _) => sm80::build::<(A, B, D), _>(&config, epilogue)?,
        };
        let (plan, results) = (plan.map(Box::new), epilogue.results());
        Ok(Gemm { config, kernel, plan, results, buffers: PhantomData, epilogue: PhantomData })
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
        self.kernel.ptx_with(options)
    }

    /// The tensor maps of A, B and D that a launch of the kernel takes for a problem; `None` for a kernel that takes
    /// pointers, for D or for all, or makes maps itself. A launch by `GemmFunction` makes them by itself.
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
        let takes_maps = self.config.store != StoreForm::Direct && !self.config.ragged;
        let Some(plan) = self.plan.as_ref().filter(|_| takes_maps) else { return Ok(None) };
        let [a, b] = plan.maps(problem, &strides)?;
        Ok(Some([a, b, plan.map_of_d(problem, &strides)?]))
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// Proves that the kernel's accesses are in bounds. See
    /// [`Kernel::prove`](crate::ir::Kernel::prove).
    pub fn prove(&self) -> crate::prove::Proof {
        self.kernel.prove()
    }

    /// The kernel in the text form of the IR.
    pub fn text(&self) -> String {
        self.kernel.to_string()
    }
}
