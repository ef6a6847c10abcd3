//! [`Gemm`]: the kernel built for a configuration, with its own or a caller's epilogue. All three
//! GEMM kernels are built from here, by the configuration's schedule.

use std::marker::PhantomData;

use crate::arch::TensorMapDesc;
use crate::ir::builder::{Converted, Parameter};
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Kernel, Number, Untyped, Val};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{Schedule, StoreMethod};
use crate::kernels::gemm::config::problem::GemmProblem;
use crate::kernels::gemm::config::{Epilogue, GemmConfig};
use crate::kernels::gemm::elements::{in_buffers, with_elements};
use crate::kernels::gemm::epilogue::terms::Results;
use crate::kernels::gemm::epilogue::{
    ConfiguredEpilogue, EpilogueForm, EpilogueParameter, EpilogueParams, FusedEpilogue, FusedForm,
};
use crate::kernels::gemm::simt;
use crate::kernels::gemm::sm80;
use crate::kernels::gemm::sm90::plan::Plan;
use crate::kernels::ready::{Built, ReadyKernel};

/// The GEMM kernel of a configuration, for buffers with the element types A, B, C and D. By
/// default, B and C have the type of A, and D has the type of C. Use it if your program knows the
/// element types; else use [`AnyGemm`].
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::gemm::{Gemm, GemmArgs, GemmConfig, GemmProblem};
/// use tilewright::runtime::Device;
///
/// // A[m, k] is row-major and B column-major, which is the usual case.
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
/// `E` is the kernel's epilogue parameter. With [`Gemm::new`], it holds the operands of the
/// configuration's epilogue, and a launch takes [`GemmArgs`](crate::kernels::gemm::GemmArgs). With
/// your own epilogue, a launch takes a pair: these and the epilogue's argument.
pub struct Gemm<
    A: Element,
    B: Element = A,
    C: Number = A,
    D: Converted = C,
    E: Parameter = EpilogueParams<(A, C)>,
> {
    pub(crate) any: AnyGemm,
    types: PhantomData<fn() -> (A, B, C, D, E)>,
}

/// A [`Gemm`] whose element types are those of its configuration, not Rust types. Use it in
/// programs that learn the types when they run, for example if a user passes a configuration's name
/// as text. A launch takes [`AnyGemmArgs`](crate::kernels::gemm::AnyGemmArgs).
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{AnyGemm, GemmConfig, GemmProblem};
/// use tilewright::runtime::{AnyBuffer, Device};
///
/// let config: GemmConfig = "sm80_f64_tn_64x64x16_s3_ms_strip8_direct".parse()?;
/// let gemm = AnyGemm::new(config)?;
/// assert!(gemm.ptx().text().contains("mma.sync.aligned.m8n8k4.row.col.f64"));
/// let device = Device::sim()?;
/// let gemm = gemm.load(&device)?;
/// let (m, n, k) = (40, 24, 16);
/// let a = AnyBuffer::from_f64(&device, Scalar::F64, &vec![0.5; m * k])?;
/// let b = AnyBuffer::from_f64(&device, Scalar::F64, &vec![2.0; n * k])?;
/// let mut d = AnyBuffer::zeros(&device, Scalar::F64, m * n)?;
/// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
/// gemm.launch(&problem, gemm.args(a.as_ref(), b.as_ref(), d.as_mut()))?;
/// assert_eq!(d.to_f64()?, vec![16.0; m * n]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AnyGemm {
    pub(crate) config: GemmConfig,
    /// Set for warp-specialised kernels only.
    pub(crate) plan: Option<Plan>,
    pub(crate) results: Results,
}

impl<A: Element, B: Element, C: Number, D: Converted> Gemm<A, B, C, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check`]. [`GemmError::BufferType`] if the configuration has other
    /// element types than `Self` (`Tf32` is `f32` in memory). [`GemmError::PairsWithoutEpilogue`]
    /// if it has `pairs`, which need [`with_pairs`](Gemm::with_pairs).
    pub fn new(config: GemmConfig) -> Result<Built<Self>, GemmError> {
        if config.pairs {
            return Err(GemmError::PairsWithoutEpilogue);
        }
        Self::build(config, &ConfiguredEpilogue(config.epilogue))
    }

    /// Builds the kernel with your own epilogue: `D[row, column]` of matrix `batch` is
    /// `epilogue(k, sum, [row, column, batch], args)`. `sum` is the element of A B, an `f64` for
    /// `f64` operands and an `f32` for all others, integers included. An integer D gets the result
    /// rounded to nearest and clamped to its range.
    ///
    /// The closure runs once, while the kernel is built. The operations it emits run once per
    /// element of D, in the thread that holds the element, with every schedule. `E` is what they
    /// need besides the sum: any kernel parameter type, or a struct declared with
    /// [`params!`](crate::params). You pass it at launch, in a pair with the [`GemmArgs`].
    ///
    /// [`GemmArgs`]: crate::kernels::gemm::GemmArgs
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
    /// let gemm = Gemm::<f16>::with_epilogue::<Scaled>(config, |_, sum, [row, column, _], scaled| {
    ///     scaled.unscaled.store(row * 24 + column, sum);
    ///     sum * scaled.factors.load(row)
    /// })?;
    /// let (m, n, k) = (40, 24, 16);
    /// let device = Device::sim()?;
    /// let a = device.upload(&vec![f16::from_f32(0.5); m * k])?;
    /// let b = device.upload(&vec![f16::from_f32(2.0); n * k])?;
    /// let factors = device.upload(&(0..m).map(|row| row as f32).collect::<Vec<_>>())?;
    /// let (mut d, mut unscaled) = (device.zeros::<f16>(m * n)?, device.zeros::<f32>(m * n)?);
    /// let scaled = Scaled { factors: &factors, unscaled: &mut unscaled };
    /// let problem = GemmProblem::new(m as u32, n as u32, k as u32);
    /// gemm.load(&device)?.launch(&problem, (GemmArgs::new(&a, &b, &mut d), scaled))?;
    /// assert_eq!(d.to_vec()?[3 * n].to_f32(), 48.0);
    /// assert!(unscaled.to_vec()?.iter().all(|sum| *sum == 16.0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Gemm::new`], [`GemmError::TwoEpilogues`] if the configuration has an epilogue
    /// too, and build errors from the closure's operations.
    pub fn with_epilogue<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            Val<'b, A::Sum>,
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<Built<Gemm<A, B, C, D, FusedEpilogue<E>>>, GemmError> {
        if config.pairs {
            return Err(GemmError::PairsWithoutEpilogue);
        }
        Self::fused::<E>(config, |k, [sum, _], coord, args| epilogue(k, sum, coord, args))
    }

    /// Builds the kernel with an epilogue over pairs of columns: `D[row, j]` of matrix `batch` is
    /// `epilogue(k, [even, odd], [row, j, batch], args)`, where `even` and `odd` are the elements
    /// of A B in the columns `2 j` and `2 j + 1`. D has `N / 2` columns. Sets the configuration's
    /// [`pairs`](GemmConfig::pairs). Everything else is as for
    /// [`with_epilogue`](Gemm::with_epilogue).
    ///
    /// For example SwiGLU, `silu(A G) * (A U)`, becomes one GEMM if B interleaves the columns of G
    /// and U:
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
    /// swiglu.load(&device)?.launch(&problem, (GemmArgs::new(&a, &b, &mut d), ()))?;
    /// let expected = 2.0 / (1.0 + (-2.0f32).exp()) * 4.0;
    /// assert!(d.to_vec()?.iter().all(|x| (x.to_f32() - expected).abs() < 0.01));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`with_epilogue`](Gemm::with_epilogue). A launch returns [`GemmError::OddColumns`]
    /// if N is odd.
    pub fn with_pairs<E: EpilogueParameter>(
        config: GemmConfig,
        epilogue: impl for<'b> Fn(
            &mut Body<'b, '_>,
            [Val<'b, A::Sum>; 2],
            [Val<'b, i32>; 3],
            E::At<'b>,
        ) -> Val<'b, A::Sum>,
    ) -> Result<Built<Gemm<A, B, C, D, FusedEpilogue<E>>>, GemmError> {
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
    ) -> Result<Built<Gemm<A, B, C, D, FusedEpilogue<E>>>, GemmError> {
        Gemm::with_closure(config, &FusedForm::<A::Sum, E, _>::new(epilogue))
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: EpilogueParameter>
    Gemm<A, B, C, D, FusedEpilogue<E>>
{
    /// Builds the kernel with a closure as its epilogue. The configuration must not have one too.
    /// The constructors that take a closure call it.
    pub(crate) fn with_closure(
        config: GemmConfig,
        epilogue: &dyn EpilogueForm,
    ) -> Result<Built<Self>, GemmError> {
        if config.epilogue != Epilogue::default() {
            return Err(GemmError::TwoEpilogues);
        }
        Self::build(config, epilogue)
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Gemm<A, B, C, D, E>
where
    Self: ReadyKernel<Params = Untyped>,
{
    fn build(config: GemmConfig, epilogue: &dyn EpilogueForm) -> Result<Built<Self>, GemmError> {
        let buffers = [A::SCALAR, B::SCALAR, C::SCALAR, D::SCALAR];
        let (any, kernel) = AnyGemm::build(config, buffers, epilogue)?;
        Ok(Built::new(Gemm { any, types: PhantomData }, kernel))
    }
}

/// # GEMM
impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Built<Gemm<A, B, C, D, E>>
where
    Gemm<A, B, C, D, E>: ReadyKernel,
{
    /// Returns the tensor maps of A, B and D that a launch passes for a problem, or `None` if the
    /// kernel takes pointers for D or for all operands, or makes the maps on the device. You need
    /// this only to launch the kernel by other means, because a launch makes the maps itself.
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
    /// Those of [`GemmConfig::check_problem`], and tensors that TMA cannot describe.
    pub fn tensor_maps(
        &self,
        problem: &GemmProblem,
    ) -> Result<Option<[TensorMapDesc; 3]>, GemmError> {
        self.ready().any.tensor_maps(problem)
    }
}

impl AnyGemm {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`Gemm::new`].
    #[inline]
    pub fn new(config: GemmConfig) -> Result<Built<AnyGemm>, GemmError> {
        if config.pairs {
            return Err(GemmError::PairsWithoutEpilogue);
        }
        let epilogue = ConfiguredEpilogue(config.epilogue);
        let (gemm, kernel) = Self::build(config, in_buffers(&config), &epilogue)?;
        Ok(Built::new(gemm, kernel))
    }

    /// Builds the kernel of a configuration, for buffers of these types. Refuses the configuration
    /// if its types differ.
    #[inline]
    fn build(
        config: GemmConfig,
        buffers: [Scalar; 4],
        epilogue: &dyn EpilogueForm,
    ) -> Result<(AnyGemm, Kernel<Untyped>), GemmError> {
        config.check()?;
        let types = buffers.into_iter().zip(in_buffers(&config));
        for (operand, (found, expected)) in ["A", "B", "C", "D"].into_iter().zip(types) {
            if found != expected {
                return Err(GemmError::BufferType { operand, found, expected });
            }
        }
        let plan = config.is_warp_specialised().then(|| Plan::new(&config)).transpose()?;
        let kernel = with_elements(&config, || match (&plan, config.schedule) {
            (Some(plan), _) => plan.build(epilogue),
            (None, Schedule::Simt) => simt::build(&config, epilogue),
            (None, _) => sm80::build(&config, epilogue),
        })?;
        Ok((AnyGemm { config, plan, results: epilogue.results() }, kernel))
    }

    /// See [`Built::tensor_maps`].
    #[inline]
    fn tensor_maps(&self, problem: &GemmProblem) -> Result<Option<[TensorMapDesc; 3]>, GemmError> {
        let strides = self.config.check_problem(problem)?;
        let takes_maps =
            self.config.store != StoreMethod::Direct && !self.config.batch.has_sizes_on_device();
        let Some(plan) = self.plan.as_ref().filter(|_| takes_maps) else { return Ok(None) };
        let [a, b] = plan.maps(problem, &strides)?;
        Ok(Some([a, b, plan.map_of_d(problem, &strides)?]))
    }
}
