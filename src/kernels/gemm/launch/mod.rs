//! [`GemmFunction`]: a GEMM kernel loaded on a device. Checks and binds buffers, runs the repacking
//! or tensor-map launches that come first, and launches or times the kernel. Come here to see what
//! a launch checks and runs.

pub(crate) mod loaded;
pub(crate) mod mode;
pub(crate) mod repack;
pub(crate) mod threads;

use std::marker::PhantomData;

use crate::arch::Major;
use crate::ir::builder::{Converted, Parameter};
use crate::ir::types::Const;
use crate::ir::{Element, Number};
use crate::runtime::{
    ArgList, Buffer, BufferMut, BufferRef, Device, GraphBuilder, Grid, LaunchOptions, LoadOptions,
    Timing,
};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::{Bias, GemmConfig};
use crate::kernels::gemm::elements::{in_buffers, sum_type};
use crate::kernels::gemm::epilogue::terms::Results;
use crate::kernels::gemm::epilogue::{
    EpilogueArgs, EpilogueParameter, EpilogueParams, FusedEpilogue,
};
use crate::kernels::gemm::kernel::{AnyGemm, Gemm};
use crate::kernels::gemm::launch::loaded::{Loaded, Operands, Sm90Args, Uneven};
use crate::kernels::gemm::launch::mode::LaunchMode;
use crate::kernels::gemm::launch::repack::{Packing, Repack};
use crate::kernels::gemm::launch::threads::ThreadsArgs;
use crate::kernels::gemm::sm90::groups::GroupRows;
use crate::kernels::gemm::sm90::plan::Plan;
use crate::kernels::gemm::split::GemmWorkspace;

/// What a launch takes: A, B and D, and the operands of the epilogue. Start from
/// [`new`](GemmArgs::new) and add what your configuration needs.
pub struct GemmArgs<'h, A: Element, B = A, C = A, D = C> {
    /// A, `M x K`: row-major if [`GemmConfig::major_a`] is `Major::K`, the default, else
    /// column-major.
    pub a: &'h Buffer<A>,
    /// B, `K x N`: column-major if [`GemmConfig::major_b`] is `Major::K`, the default, else
    /// row-major.
    pub b: &'h Buffer<B>,
    /// C, `M x N`, row-major. Required if the epilogue has `beta`, refused otherwise.
    pub c: Option<&'h Buffer<C>>,
    /// D, `M x N`, row-major.
    pub d: &'h mut Buffer<D>,
    /// The bias: M or N elements, shared by the whole batch. Required if the epilogue has one.
    pub bias: Option<&'h Buffer<C>>,
    /// The factor for A B. Must stay 1 unless the epilogue has `alpha`.
    pub alpha: A::Sum,
    /// The factor for C. Must stay 0 unless the epilogue has `beta`.
    pub beta: A::Sum,
    /// The rows of each group, for [grouped](crate::kernels::gemm::BatchMode::Grouped) configurations.
    pub groups: Option<GroupRows<'h>>,
    /// The table of problems for [ragged](crate::kernels::gemm::BatchMode::Ragged) configurations, made of
    /// [`RaggedProblem::words`](crate::kernels::gemm::RaggedProblem::words).
    pub products: Option<&'h Buffer<i64>>,
    /// Your own workspace instead of the function's, so that several launches can run at the same
    /// time.
    pub workspace: Option<&'h mut GemmWorkspace>,
}

impl<'h, A: Element, B, C, D> GemmArgs<'h, A, B, C, D> {
    /// Makes the arguments of a GEMM without an epilogue: no C, no bias, `alpha` 1 and `beta` 0.
    /// Add others with the methods below.
    pub fn new(a: &'h Buffer<A>, b: &'h Buffer<B>, d: &'h mut Buffer<D>) -> Self {
        let (alpha, beta, c, bias) = (A::Sum::from(1.0), A::Sum::default(), None, None);
        GemmArgs { a, b, c, d, bias, alpha, beta, groups: None, products: None, workspace: None }
    }

    /// Sets the factor for A B. The configuration's epilogue must have `alpha`.
    pub fn alpha(self, alpha: A::Sum) -> Self {
        GemmArgs { alpha, ..self }
    }

    /// Adds the term `beta C`. The configuration's epilogue must have `beta`.
    pub fn beta(self, beta: A::Sum, c: &'h Buffer<C>) -> Self {
        GemmArgs { beta, c: Some(c), ..self }
    }

    /// Sets the rows of each group, which [grouped](crate::kernels::gemm::BatchMode::Grouped) configurations need.
    pub fn groups(self, groups: GroupRows<'h>) -> Self {
        GemmArgs { groups: Some(groups), ..self }
    }

    /// Sets the table of problems, which [ragged](crate::kernels::gemm::BatchMode::Ragged) configurations need.
    pub fn products(self, table: &'h Buffer<i64>) -> Self {
        GemmArgs { products: Some(table), ..self }
    }

    /// Uses this workspace instead of the function's, so that this launch can run at the same time
    /// as others of the function.
    pub fn workspace(self, workspace: &'h mut GemmWorkspace) -> Self {
        GemmArgs { workspace: Some(workspace), ..self }
    }

    /// Sets the bias. The configuration's epilogue must have one.
    pub fn bias(self, bias: &'h Buffer<C>) -> Self {
        GemmArgs { bias: Some(bias), ..self }
    }
}

/// A [`Gemm`] loaded on a device. For buffers that stay the same,
/// [`prepare`](GemmFunction::prepare) once and launch the result many times.
pub struct GemmFunction<
    A: Element,
    B: Element = A,
    C: Number = A,
    D: Converted = C,
    E: Parameter = EpilogueParams<(A, C)>,
> {
    loaded: AnyGemmFunction,
    buffers: PhantomData<(A, B, C, D)>,
    epilogue: PhantomData<fn() -> E>,
}

/// An [`AnyGemm`] loaded on a device. Its buffers have element types that are values.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{AnyGemm, GemmConfig, GemmProblem};
/// use tilewright::runtime::{AnyBuffer, Device};
///
/// let config: GemmConfig = "sm80_f64_tn_64x64x16_s3_ms_strip8_direct".parse()?;
/// let device = Device::sim()?;
/// let gemm = AnyGemm::new(config)?.load(&device)?;
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
pub struct AnyGemmFunction {
    config: GemmConfig,
    device: Device,
    loaded: Loaded,
    results: Results,
    sms: u32,
    /// Passed in place of a C or a bias that is not used.
    no_c: Buffer<u64>,
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Gemm<A, B, C, D, E> {
    /// Loads the kernel on a device. Do it once, and launch the result many times.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<GemmFunction<A, B, C, D, E>, GemmError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Same as [`Gemm::load`], with load options: for example, access checks turn a wrong index
    /// into an error.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<GemmFunction<A, B, C, D, E>, GemmError> {
        let loaded = AnyGemmFunction::new(&self.kernel, options, device)?;
        Ok(GemmFunction { loaded, buffers: PhantomData, epilogue: PhantomData })
    }
}

/// A prepared launch: everything is checked and computed, so that you can repeat it without host
/// work. Made by [`GemmFunction::prepare`].
pub struct GemmLaunch<'h, A: Element, B: Element = A, C: Number = A, D: Converted = C> {
    prepared: PreparedGemm<'h>,
    buffers: PhantomData<(A, B, C, D)>,
}

/// A [`GemmLaunch`] without the types of its buffers.
struct PreparedGemm<'h> {
    grid: Grid,
    programmatic: bool,
    args: BoundArgs<'h>,
    epilogue: EpilogueValues<'h>,
}

/// The [`GemmArgs`] of an [`AnyGemmFunction`]: the element types of the buffers are values, and the
/// launch compares them with the configuration's. Start from
/// [`AnyGemmFunction::args`] and set what the configuration needs.
#[derive(Debug)]
pub struct AnyGemmArgs<'h> {
    /// A, as [`GemmArgs::a`].
    pub a: BufferRef<'h>,
    /// B, as [`GemmArgs::b`].
    pub b: BufferRef<'h>,
    /// C, as [`GemmArgs::c`].
    pub c: Option<BufferRef<'h>>,
    /// D, as [`GemmArgs::d`].
    pub d: BufferMut<'h>,
    /// The bias, as [`GemmArgs::bias`].
    pub bias: Option<BufferRef<'h>>,
    /// The factor for A B: an `f64` if A is, else an `f32`.
    pub alpha: Const,
    /// The factor for C: an `f64` if A is, else an `f32`.
    pub beta: Const,
    /// The rows of each group, as [`GemmArgs::groups`].
    pub groups: Option<GroupRows<'h>>,
    /// The table of a ragged batch, as [`GemmArgs::products`].
    pub products: Option<&'h Buffer<i64>>,
    /// Your own workspace, as [`GemmArgs::workspace`].
    pub workspace: Option<&'h mut GemmWorkspace>,
}

impl AnyGemmArgs<'_> {
    /// Checks that buffers and factors have the configuration's types.
    fn check_types(&self, config: &GemmConfig) -> Result<(), GemmError> {
        let [a, b, c, d] = in_buffers(config);
        let sum = sum_type(config);
        let found = [
            ("A", Some(self.a.scalar()), a),
            ("B", Some(self.b.scalar()), b),
            ("C", self.c.map(BufferRef::scalar), c),
            ("D", Some(self.d.as_ref().scalar()), d),
            ("the bias", self.bias.map(BufferRef::scalar), c),
            ("`alpha`", Some(self.alpha.scalar()), sum),
            ("`beta`", Some(self.beta.scalar()), sum),
        ];
        for (operand, found, expected) in found {
            if let Some(found) = found.filter(|found| *found != expected) {
                return Err(GemmError::BufferType { operand, found, expected });
            }
        }
        Ok(())
    }
}

impl<'h, A: Element, B: Element, C: Element, D: Element> From<GemmArgs<'h, A, B, C, D>>
    for AnyGemmArgs<'h>
{
    fn from(args: GemmArgs<'h, A, B, C, D>) -> Self {
        let GemmArgs { a, b, c, d, bias, alpha, beta, groups, products, workspace } = args;
        AnyGemmArgs {
            a: a.into(),
            b: b.into(),
            c: c.map(BufferRef::from),
            d: d.into(),
            bias: bias.map(BufferRef::from),
            alpha: alpha.to_const(),
            beta: beta.to_const(),
            groups,
            products,
            workspace,
        }
    }
}

/// The kernel's arguments, by the kind of kernel.
enum BoundArgs<'h> {
    Sm90(Box<Sm90Args<'h>>),
    Repacked(Box<RepackedArgs<'h>>),
    Threads(ThreadsArgs<'h>),
}

impl BoundArgs<'_> {
    #[inline]
    fn run(
        &mut self,
        mode: &mut LaunchMode<'_>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        match self {
            BoundArgs::Sm90(args) => args.run(mode, grid, epilogue),
            BoundArgs::Repacked(args) => args.run(mode, grid, epilogue),
            BoundArgs::Threads(args) => args.run(mode, grid, epilogue),
        }
    }
}

/// The arguments of a GEMM whose operands are repacked first.
struct RepackedArgs<'h> {
    loaded: &'h Loaded,
    plan: &'h Plan,
    repack: &'h Repack,
    packing: Packing,
    strides: GemmStrides,
    operands: Operands<'h>,
    workspace: Option<&'h mut GemmWorkspace>,
}

impl RepackedArgs<'_> {
    #[inline]
    fn run(
        &mut self,
        mode: &mut LaunchMode<'_>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let RepackedArgs { loaded, plan, repack, packing, strides, .. } = *self;
        let Operands { a, b, d } = &mut self.operands;
        let own = Operands { a: *a, b: *b, d: d.reborrow() };
        let workspace = self.workspace.as_deref_mut();
        repack.run(mode, &packing, own, |mode, operands| {
            let (problem, uneven) = (&packing.problem, Uneven::default());
            Sm90Args::new(loaded, plan, operands, problem, &strides, uneven, workspace)?
                .run(mode, grid, epilogue)
        })
    }
}

/// The arguments of the configuration's epilogue.
struct EpilogueValues<'h> {
    alpha: Const,
    beta: Const,
    c: BufferRef<'h>,
    c_strides: [i64; 2],
    bias: BufferRef<'h>,
}

impl EpilogueArgs for EpilogueValues<'_> {
    /// In the order of [`EpilogueParams`].
    #[inline]
    fn push<'x>(&'x mut self, list: &mut ArgList<'x>) {
        let EpilogueValues { alpha, beta, c, c_strides, bias } = *self;
        list.constant(alpha);
        list.constant(beta);
        list.buffer(c);
        list.scalars(c_strides);
        list.buffer(bias);
    }
}

impl AnyGemm {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<AnyGemmFunction, GemmError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Same as [`AnyGemm::load`], with load options.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<AnyGemmFunction, GemmError> {
        AnyGemmFunction::new(self, options, device)
    }
}

impl std::fmt::Debug for AnyGemmFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AnyGemmFunction({} on {})", self.config, self.device)
    }
}

impl AnyGemmFunction {
    /// Returns the configuration the kernel was built for, for example to size buffers.
    pub fn config(&self) -> &GemmConfig {
        &self.config
    }

    /// Returns the compiler's log: see
    /// [`Function::compiler_log`](crate::runtime::Function::compiler_log). Use it to look for
    /// spills.
    pub fn compiler_log(&self) -> &str {
        self.loaded.function.compiler_log()
    }

    /// Returns the arguments of a launch without an epilogue. Set further fields of the result if
    /// the configuration has one.
    pub fn args<'h>(
        &self,
        a: BufferRef<'h>,
        b: BufferRef<'h>,
        d: BufferMut<'h>,
    ) -> AnyGemmArgs<'h> {
        let sum = sum_type(&self.config);
        let [alpha, beta] = [1.0, 0.0].map(|factor| Const::from_f64(sum, factor));
        let (c, bias, groups, products, workspace) = Default::default();
        AnyGemmArgs { a, b, c, d, bias, alpha, beta, groups, products, workspace }
    }

    /// Launches the GEMM on the default stream.
    ///
    /// # Errors
    /// Those of [`GemmFunction::launch`], and [`GemmError::BufferType`] for a buffer or factor of
    /// another type than the configuration's.
    pub fn launch(&self, problem: &GemmProblem, args: AnyGemmArgs<'_>) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// Launches the GEMM with options, for example on a stream. The configuration decides whether
    /// the launch is programmatic; that option is overwritten.
    ///
    /// # Errors
    /// Those of [`launch`](AnyGemmFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &GemmProblem,
        args: AnyGemmArgs<'_>,
    ) -> Result<(), GemmError> {
        args.check_types(&self.config)?;
        let options = options.programmatic(self.config.programmatic);
        let PreparedGemm { grid, mut args, mut epilogue, .. } = self.prepare(problem, args)?;
        args.run(&mut LaunchMode::Launch(options), grid, &mut epilogue)
    }

    #[inline]
    fn new(
        kernel: &AnyGemm,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<AnyGemmFunction, GemmError> {
        let (config, results) = (kernel.config, kernel.results);
        let loaded = Loaded::new(options, kernel, device)?;
        // The simulator runs blocks one after the other. With several, a persistent kernel still
        // has to share tiles between them.
        let sms = device.properties().map_or(4, |properties| properties.sm_count);
        let at_once = loaded.blocks_at_once(&config)?;
        let (sms, no_c) = (at_once.map_or(sms, |blocks| blocks.min(sms)), device.zeros(1)?);
        Ok(AnyGemmFunction { config, device: device.clone(), loaded, results, sms, no_c })
    }

    #[inline]
    fn workspace(&self, problem: &GemmProblem) -> Result<GemmWorkspace, GemmError> {
        let config = &self.config;
        config.check_problem(problem)?;
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        let (tiles, grid) = ([rows, columns, problem.batch.into()], config.grid(problem, self.sms));
        GemmWorkspace::new(&self.device, config, tiles, grid)
    }

    /// Binds everything but the epilogue.
    #[inline]
    fn bind<'h>(
        &'h self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: AnyGemmArgs<'h>,
    ) -> Result<BoundArgs<'h>, GemmError> {
        let (config, loaded) = (&self.config, &self.loaded);
        let AnyGemmArgs { a, b, d, groups, products, workspace, .. } = args;
        let operands = Operands { a, b, d };
        let groups = config.groups(problem, groups)?;
        let table = config.products(problem, products)?;
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        let lines =
            |major, lines, depth| if major == Major::K { (lines, depth) } else { (depth, lines) };
        let Operands { a, b, d } = &operands;
        if table.is_none() {
            long_enough("A", a.len(), problem, lines(config.major_a, m, k), strides.a)?;
            long_enough("B", b.len(), problem, lines(config.major_b, n, k), strides.b)?;
            long_enough(
                "D",
                d.as_ref().len(),
                problem,
                (m, n / u64::from(config.accumulators_per_element())),
                strides.d,
            )?;
        }
        let Some(plan) = loaded.plan.as_deref() else {
            let args = ThreadsArgs::new(loaded, config, operands, problem, strides, workspace)?;
            return Ok(BoundArgs::Threads(args));
        };
        let Some(repack) = loaded.repack.as_deref() else {
            let uneven = Uneven { groups, table };
            let args = Sm90Args::new(loaded, plan, operands, problem, strides, uneven, workspace)?;
            return Ok(BoundArgs::Sm90(Box::new(args)));
        };
        let starts = [a.is_aligned_to(16), b.is_aligned_to(16)];
        let packing = Packing::new(config, problem, strides, starts);
        let strides = packing.problem.strides(&plan.config)?;
        let args = RepackedArgs { loaded, plan, repack, packing, strides, operands, workspace };
        Ok(BoundArgs::Repacked(Box::new(args)))
    }

    /// Checks that the epilogue's operands are given exactly if the configuration needs them.
    #[inline]
    fn check_epilogue(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: &AnyGemmArgs<'_>,
    ) -> Result<(), GemmError> {
        let ops = self.config.epilogue;
        let operands = [
            ("C", ops.beta, args.c.is_some()),
            ("a bias", ops.bias.is_some(), args.bias.is_some()),
        ];
        for (operand, needed, given) in operands {
            if needed != given {
                return Err(GemmError::EpilogueOperand { operand, needed });
            }
        }
        let factors = [
            ("`alpha`", ops.alpha, args.alpha.to_f64() != Some(1.0)),
            ("`beta`", ops.beta, args.beta.to_f64() != Some(0.0)),
        ];
        for (operand, possible, given) in factors {
            if given && !possible {
                return Err(GemmError::EpilogueOperand { operand, needed: false });
            }
        }
        if let Some(c) = args.c {
            long_enough("C", c.len(), problem, (problem.m.into(), problem.n.into()), strides.c)?;
        }
        if let (Some(bias), Some(given)) = (ops.bias, args.bias) {
            let needed = if bias == Bias::Row { problem.m } else { problem.n }.into();
            let found = given.len() as u64;
            if found < needed {
                return Err(GemmError::BufferLength { operand: "the bias", found, needed });
            }
        }
        Ok(())
    }

    #[inline]
    fn prepare<'h>(
        &'h self,
        problem: &GemmProblem,
        args: AnyGemmArgs<'h>,
    ) -> Result<PreparedGemm<'h>, GemmError> {
        let config = &self.config;
        let strides = config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let no_c = BufferRef::from(&self.no_c).cast(config.c);
        let epilogue = EpilogueValues {
            alpha: args.alpha,
            beta: args.beta,
            c: args.c.unwrap_or(no_c),
            // Strides are below 2^40.
            c_strides: strides.c.map(|stride| stride as i64),
            bias: args.bias.unwrap_or(no_c),
        };
        let args = self.bind(problem, &strides, args)?;
        let grid = config.grid(problem, self.sms);
        Ok(PreparedGemm { grid, programmatic: config.programmatic, args, epilogue })
    }

    /// Runs the GEMM with the arguments of an epilogue that a program wrote.
    #[inline]
    fn run(
        &self,
        mode: &mut LaunchMode<'_>,
        problem: &GemmProblem,
        args: AnyGemmArgs<'_>,
        mut epilogue: ArgList<'_>,
    ) -> Result<(), GemmError> {
        let strides = self.config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let mut args = self.bind(problem, &strides, args)?;
        self.results.check(&self.config, problem, &epilogue)?;
        args.run(mode, self.config.grid(problem, self.sms), &mut epilogue)
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> GemmFunction<A, B, C, D, E> {
    /// Returns the configuration the kernel was built for, for example to size buffers.
    pub fn config(&self) -> &GemmConfig {
        &self.loaded.config
    }

    /// Limits a persistent (warp-specialised) kernel to `sms` SMs and leaves the rest to other
    /// streams. Choose the configuration with [`best`](GemmConfig::best) for a
    /// [`Machine`](crate::kernels::gemm::Machine) with that many SMs.
    pub fn with_sms(mut self, sms: u32) -> Self {
        self.loaded.sms = sms.clamp(1, self.loaded.sms);
        self
    }

    /// Allocates a workspace for launches of a problem, to pass as [`GemmArgs::workspace`]. You
    /// need it only to run several launches of the function at the same time.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`], and out of memory.
    pub fn workspace(&self, problem: &GemmProblem) -> Result<GemmWorkspace, GemmError> {
        self.loaded.workspace(problem)
    }

    /// Returns the compiler's log: see
    /// [`Function::compiler_log`](crate::runtime::Function::compiler_log). Use it to look for
    /// spills.
    pub fn compiler_log(&self) -> &str {
        self.loaded.loaded.function.compiler_log()
    }
}

impl<A: Element, B: Element, C: Number, D: Converted> GemmFunction<A, B, C, D> {
    /// Launches the GEMM on the default stream. It checks the arguments each time; if they stay the
    /// same, [`prepare`](GemmFunction::prepare) saves that.
    ///
    /// # Errors
    /// Those of [`prepare`](GemmFunction::prepare) and
    /// [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
    ) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// Same as [`launch`](GemmFunction::launch), with options: for example the stream. The option
    /// [`programmatic`](LaunchOptions::programmatic) (start before the previous launch has ended)
    /// is ignored: the configuration's [`programmatic`](GemmConfig::programmatic) decides.
    ///
    /// # Errors
    /// Those of [`launch`](GemmFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
    ) -> Result<(), GemmError> {
        let options = options.programmatic(self.loaded.config.programmatic);
        self.prepare(problem, args)?.launch_with(options)
    }

    /// Checks the arguments and prepares a launch that you can repeat, time or record in a graph.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`]; buffers that are too short or misaligned; an
    /// epilogue operand that is missing or not used; tensors that TMA cannot describe.
    pub fn prepare<'h>(
        &'h self,
        problem: &GemmProblem,
        args: GemmArgs<'h, A, B, C, D>,
    ) -> Result<GemmLaunch<'h, A, B, C, D>, GemmError> {
        let prepared = self.loaded.prepare(problem, args.into())?;
        Ok(GemmLaunch { prepared, buffers: PhantomData })
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: EpilogueParameter>
    GemmFunction<A, B, C, D, FusedEpilogue<E>>
{
    /// Launches the GEMM on the default stream, with the argument of your epilogue.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`]; buffers that are too short, including the one for a
    /// reduction's results, or misaligned; operands for a configured epilogue; tensors that TMA
    /// cannot describe; those of [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch<'h, 'b: 'h>(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default(), problem, args, epilogue)
    }

    /// Same as [`launch`](GemmFunction::launch), with options: for example the stream. The option
    /// [`programmatic`](LaunchOptions::programmatic) (start before the previous launch has ended)
    /// is ignored: the configuration's [`programmatic`](GemmConfig::programmatic) decides.
    ///
    /// # Errors
    /// Those of [`launch`](GemmFunction::launch).
    pub fn launch_with<'h, 'b: 'h>(
        &self,
        options: LaunchOptions<'_>,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<(), GemmError> {
        let options = options.programmatic(self.loaded.config.programmatic);
        self.run(&mut LaunchMode::Launch(options), problem, args, epilogue)
    }

    /// Runs the GEMM, waits for it, and returns how long it took. Use it for a quick look; to
    /// compare kernels, use the crate `tilewright-tune`, which keeps the GPU in a defined state.
    ///
    /// # Errors
    /// Those of [`launch`](GemmFunction::launch) and
    /// [`Function::time`](crate::runtime::Function::time).
    pub fn time<'h, 'b: 'h>(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<Timing, GemmError> {
        LaunchMode::timed(|mode| self.run(mode, problem, args, epilogue))
    }

    fn run<'h, 'b: 'h>(
        &self,
        mode: &mut LaunchMode<'_>,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<(), GemmError> {
        let mut list = ArgList::default();
        E::erase(epilogue, &mut list);
        self.loaded.run(mode, problem, args.into(), list)
    }
}

/// Checks that a buffer holds a batch of matrices with `lines` lines of `contiguous` elements.
#[inline]
fn long_enough(
    operand: &'static str,
    found: usize,
    problem: &GemmProblem,
    (lines, contiguous): (u64, u64),
    [pitch, next]: [u64; 2],
) -> Result<(), GemmError> {
    // Cannot overflow: all of these are below 2^40.
    let needed = u64::from(problem.batch - 1) * next + (lines - 1) * pitch + contiguous;
    let found = found as u64;
    if found < needed { Err(GemmError::BufferLength { operand, found, needed }) } else { Ok(()) }
}

impl<A: Element, B: Element, C: Number, D: Converted> GemmLaunch<'_, A, B, C, D> {
    /// Returns the launch's grid, for example to see how many blocks run.
    pub fn grid(&self) -> Grid {
        self.prepared.grid
    }

    /// Launches the GEMM on the default stream.
    ///
    /// # Errors
    /// Those of [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch(&mut self) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default().programmatic(self.prepared.programmatic))
    }

    /// Launches the GEMM with options: the stream, and whether the launch is programmatic. Here the
    /// option counts, not the configuration: pass `programmatic(true)` if the kernel may start
    /// before the previous launch has ended.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`](crate::runtime::Function::launch_with).
    pub fn launch_with(&mut self, options: LaunchOptions<'_>) -> Result<(), GemmError> {
        self.run(&mut LaunchMode::Launch(options))
    }

    /// Runs the GEMM, waits for it, and returns how long it took.
    ///
    /// # Errors
    /// Those of [`Function::time`](crate::runtime::Function::time).
    pub fn time(&mut self) -> Result<Timing, GemmError> {
        LaunchMode::timed(|mode| self.run(mode))
    }

    fn run(&mut self, mode: &mut LaunchMode<'_>) -> Result<(), GemmError> {
        let PreparedGemm { grid, args, epilogue, .. } = &mut self.prepared;
        args.run(mode, *grid, epilogue)
    }

    /// Records the launch in a graph, which replays it with the same buffers at less cost per
    /// launch.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::launch`].
    pub fn record(&mut self, graph: &GraphBuilder) -> Result<(), GemmError> {
        let options = LaunchOptions::default().programmatic(self.prepared.programmatic);
        self.launch_with(options.stream(graph.stream()))
    }
}
