//! Launches a GEMM: checks and binds buffers, and starts the repacking or tensor-map kernels that
//! come first, then the GEMM. `AnyGemm::prepare` and `AnyGemm::bind` say in which order.

pub(crate) mod repack;
pub(crate) mod shared;
pub(crate) mod sm90;
pub(crate) mod threads;

use crate::arch::Major;
use crate::ir::builder::{Converted, Parameter};
use crate::ir::types::Const;
use crate::ir::{Element, Number, Untyped};
use crate::runtime::{
    ArgList, Buffer, BufferMut, BufferRef, Device, Function, GraphBuilder, Grid, LaunchOptions,
    LoadOptions, Timing,
};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::{Bias, GemmConfig};
use crate::kernels::gemm::elements::{in_buffers, sum_type};
use crate::kernels::gemm::epilogue::{EpilogueArgs, EpilogueParameter, FusedEpilogue};
use crate::kernels::gemm::kernel::{AnyGemm, Gemm};
use crate::kernels::gemm::launch::repack::{Packing, Repack};
use crate::kernels::gemm::launch::shared::GemmShared;
use crate::kernels::gemm::launch::sm90::{Operands, Sm90Args, Uneven};
use crate::kernels::gemm::launch::threads::ThreadsArgs;
use crate::kernels::gemm::sm90::plan::Plan;
use crate::kernels::gemm::split::GemmWorkspace;
use crate::kernels::group_rows::GroupRows;
use crate::kernels::ready::{Launch, Loaded, ReadyKernel};

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
    /// The rows of each group, for [grouped](crate::kernels::gemm::BatchMode::Grouped)
    /// configurations.
    pub groups: Option<GroupRows<'h>>,
    /// The table of problems for [ragged](crate::kernels::gemm::BatchMode::Ragged)
    /// configurations, made of [`RaggedProblem::words`](crate::kernels::gemm::RaggedProblem::words).
    pub products: Option<&'h Buffer<i64>>,
    /// Your own workspace instead of the loaded kernel's, so that several launches can run at the
    /// same time.
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

    /// Sets the rows of each group, which [grouped](crate::kernels::gemm::BatchMode::Grouped)
    /// configurations need.
    pub fn groups(self, groups: GroupRows<'h>) -> Self {
        GemmArgs { groups: Some(groups), ..self }
    }

    /// Sets the table of problems, which [ragged](crate::kernels::gemm::BatchMode::Ragged)
    /// configurations need.
    pub fn products(self, table: &'h Buffer<i64>) -> Self {
        GemmArgs { products: Some(table), ..self }
    }

    /// Uses this workspace instead of the loaded kernel's, so that this launch can run at the same
    /// time as others of the kernel.
    pub fn workspace(self, workspace: &'h mut GemmWorkspace) -> Self {
        GemmArgs { workspace: Some(workspace), ..self }
    }

    /// Sets the bias. The configuration's epilogue must have one.
    pub fn bias(self, bias: &'h Buffer<C>) -> Self {
        GemmArgs { bias: Some(bias), ..self }
    }
}

impl<A: Element, B: Element, C: Number, D: Converted> ReadyKernel for Gemm<A, B, C, D> {
    type Config = GemmConfig;
    type Params = Untyped;
    type Problem = GemmProblem;
    type Args<'a> = GemmArgs<'a, A, B, C, D>;
    type Shared = GemmShared;
    type Error = GemmError;

    fn config(&self) -> &GemmConfig {
        &self.any.config
    }

    fn share(
        &self,
        function: &Function<Untyped>,
        options: LoadOptions<'_>,
    ) -> Result<GemmShared, GemmError> {
        self.any.share(function, options)
    }

    /// Checks the arguments each time; if they stay the same, [`prepare`](Loaded::prepare) saves
    /// that. [`GemmConfig::programmatic`] decides whether the launch is programmatic, not the
    /// option.
    ///
    /// # Errors
    /// Those of [`prepare`](Loaded::prepare) and [`Function::launch`].
    fn launch(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        launch: Launch<'_, Self>,
    ) -> Result<(), GemmError> {
        self.any.start(problem, args.into(), &launch.cast())
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: EpilogueParameter> ReadyKernel
    for Gemm<A, B, C, D, FusedEpilogue<E>>
{
    type Config = GemmConfig;
    type Params = Untyped;
    type Problem = GemmProblem;
    /// The arguments of any GEMM, and that of your epilogue.
    type Args<'a> = (GemmArgs<'a, A, B, C, D>, E::Arg<'a, 'a>);
    type Shared = GemmShared;
    type Error = GemmError;

    fn config(&self) -> &GemmConfig {
        &self.any.config
    }

    fn share(
        &self,
        function: &Function<Untyped>,
        options: LoadOptions<'_>,
    ) -> Result<GemmShared, GemmError> {
        self.any.share(function, options)
    }

    /// [`GemmConfig::programmatic`] decides whether the launch is programmatic, not the option.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`]; buffers that are too short, including the one for a
    /// reduction's results, or misaligned; operands for a configured epilogue; tensors that TMA
    /// cannot describe; those of [`Function::launch`].
    fn launch(
        &self,
        problem: &GemmProblem,
        (args, epilogue): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), GemmError> {
        let mut list = ArgList::default();
        E::erase(epilogue, &mut list);
        self.any.start_fused(problem, args.into(), list, &launch.cast())
    }
}

/// A prepared launch: everything is checked and computed, so that you can repeat it without host
/// work. Made by [`Loaded::prepare`].
pub struct GemmLaunch<'h, A: Element, B: Element = A, C: Number = A, D: Converted = C> {
    loaded: &'h Loaded<Gemm<A, B, C, D>>,
    prepared: PreparedGemm<'h>,
}

/// A [`GemmLaunch`] without the types of its buffers.
struct PreparedGemm<'h> {
    grid: Grid,
    args: BoundArgs<'h>,
    epilogue: EpilogueValues<'h>,
}

impl PreparedGemm<'_> {
    #[inline]
    fn start(&mut self, launch: &Launch<'_, AnyGemm>) -> Result<(), GemmError> {
        self.args.start(launch, self.grid, &mut self.epilogue)
    }
}

/// The [`GemmArgs`] of an [`AnyGemm`]: the element types of the buffers are values, and the launch
/// compares them with the configuration's. Start from [`Loaded::args`] and set what the
/// configuration needs.
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
    fn start(
        &mut self,
        launch: &Launch<'_, AnyGemm>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        match self {
            BoundArgs::Sm90(args) => args.start(launch, grid, epilogue),
            BoundArgs::Repacked(args) => args.start(launch, grid, epilogue),
            BoundArgs::Threads(args) => args.start(launch, grid, epilogue),
        }
    }
}

/// The arguments of a GEMM whose operands are repacked first.
struct RepackedArgs<'h> {
    shared: &'h GemmShared,
    plan: &'h Plan,
    repack: &'h Repack,
    packing: Packing,
    strides: GemmStrides,
    operands: Operands<'h>,
    workspace: Option<&'h mut GemmWorkspace>,
}

impl RepackedArgs<'_> {
    #[inline]
    fn start(
        &mut self,
        launch: &Launch<'_, AnyGemm>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let RepackedArgs { shared, plan, repack, packing, strides, .. } = *self;
        let Operands { a, b, d } = &mut self.operands;
        let own = Operands { a: *a, b: *b, d: d.reborrow() };
        let workspace = self.workspace.as_deref_mut();
        repack.start(launch, &packing, own, |operands| {
            let (problem, uneven) = (&packing.problem, Uneven::default());
            Sm90Args::new(shared, plan, operands, problem, &strides, uneven, workspace)?
                .start(launch, grid, epilogue)
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

impl ReadyKernel for AnyGemm {
    type Config = GemmConfig;
    type Params = Untyped;
    type Problem = GemmProblem;
    type Args<'a> = AnyGemmArgs<'a>;
    type Shared = GemmShared;
    type Error = GemmError;

    fn config(&self) -> &GemmConfig {
        &self.config
    }

    #[inline]
    fn share(
        &self,
        function: &Function<Untyped>,
        options: LoadOptions<'_>,
    ) -> Result<GemmShared, GemmError> {
        GemmShared::new(&self.config, function, options)
    }

    /// [`GemmConfig::programmatic`] decides whether the launch is programmatic, not the option.
    ///
    /// # Errors
    /// Those of [`Loaded::prepare`] and [`Function::launch`], and [`GemmError::BufferType`] for a
    /// buffer or factor of another type than the configuration's.
    #[inline]
    fn launch(
        &self,
        problem: &GemmProblem,
        args: AnyGemmArgs<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), GemmError> {
        args.check_types(&self.config)?;
        self.start(problem, args, &launch)
    }
}

/// # GEMM with element types that are values
impl Loaded<AnyGemm> {
    /// Returns the arguments of a launch without an epilogue. Set further fields of the result if
    /// the configuration has one.
    pub fn args<'h>(
        &self,
        a: BufferRef<'h>,
        b: BufferRef<'h>,
        d: BufferMut<'h>,
    ) -> AnyGemmArgs<'h> {
        let sum = sum_type(self.config());
        let [alpha, beta] = [1.0, 0.0].map(|factor| Const::from_f64(sum, factor));
        let (c, bias, groups, products, workspace) = Default::default();
        AnyGemmArgs { a, b, c, d, bias, alpha, beta, groups, products, workspace }
    }
}

impl AnyGemm {
    /// Starts a GEMM with its configuration's epilogue.
    #[inline]
    fn start(
        &self,
        problem: &GemmProblem,
        args: AnyGemmArgs<'_>,
        launch: &Launch<'_, AnyGemm>,
    ) -> Result<(), GemmError> {
        let launch = launch.programmatic(self.config.programmatic);
        self.prepare(launch.shared(), problem, args)?.start(&launch)
    }

    /// Starts a GEMM with the arguments of an epilogue that a program wrote.
    #[inline]
    fn start_fused(
        &self,
        problem: &GemmProblem,
        args: AnyGemmArgs<'_>,
        mut epilogue: ArgList<'_>,
        launch: &Launch<'_, AnyGemm>,
    ) -> Result<(), GemmError> {
        let (config, shared) = (&self.config, launch.shared());
        let strides = config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let mut args = self.bind(shared, problem, &strides, args)?;
        self.results.check(config, problem, &epilogue)?;
        let launch = launch.programmatic(config.programmatic);
        args.start(&launch, config.grid(problem, shared.sms), &mut epilogue)
    }

    #[inline]
    fn workspace(
        &self,
        shared: &GemmShared,
        device: &Device,
        problem: &GemmProblem,
    ) -> Result<GemmWorkspace, GemmError> {
        let config = &self.config;
        config.check_problem(problem)?;
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        let tiles = [rows, columns, problem.batch.into()];
        GemmWorkspace::new(device, config, tiles, config.grid(problem, shared.sms))
    }

    /// Binds everything but the epilogue.
    #[inline]
    fn bind<'h>(
        &'h self,
        shared: &'h GemmShared,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: AnyGemmArgs<'h>,
    ) -> Result<BoundArgs<'h>, GemmError> {
        let config = &self.config;
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
        let Some(plan) = &self.plan else {
            let args = ThreadsArgs::new(shared, config, operands, problem, strides, workspace)?;
            return Ok(BoundArgs::Threads(args));
        };
        let Some(repack) = shared.repack.as_deref() else {
            let uneven = Uneven { groups, table };
            let args = Sm90Args::new(shared, plan, operands, problem, strides, uneven, workspace)?;
            return Ok(BoundArgs::Sm90(Box::new(args)));
        };
        let starts = [a.is_aligned_to(16), b.is_aligned_to(16)];
        let packing = Packing::new(config, problem, strides, starts);
        let strides = packing.problem.strides(&plan.config)?;
        let args = RepackedArgs { shared, plan, repack, packing, strides, operands, workspace };
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
        shared: &'h GemmShared,
        problem: &GemmProblem,
        args: AnyGemmArgs<'h>,
    ) -> Result<PreparedGemm<'h>, GemmError> {
        let config = &self.config;
        let strides = config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let no_c = BufferRef::from(&shared.no_c).cast(config.c);
        let epilogue = EpilogueValues {
            alpha: args.alpha,
            beta: args.beta,
            c: args.c.unwrap_or(no_c),
            // Strides are below 2^40.
            c_strides: strides.c.map(|stride| stride as i64),
            bias: args.bias.unwrap_or(no_c),
        };
        let args = self.bind(shared, problem, &strides, args)?;
        Ok(PreparedGemm { grid: config.grid(problem, shared.sms), args, epilogue })
    }
}

/// # GEMM
impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Loaded<Gemm<A, B, C, D, E>>
where
    Gemm<A, B, C, D, E>: ReadyKernel<Shared = GemmShared>,
{
    /// Limits a persistent (warp-specialised) kernel to `sms` SMs and leaves the rest to other
    /// streams. Choose the configuration with [`best`](GemmConfig::best) for a
    /// [`Machine`](crate::kernels::gemm::Machine) with that many SMs.
    pub fn with_sms(mut self, sms: u32) -> Self {
        let shared = self.shared_mut();
        shared.sms = sms.clamp(1, shared.sms);
        self
    }

    /// Allocates a workspace for launches of a problem, to pass as [`GemmArgs::workspace`]. You
    /// need it only to run several launches of the kernel at the same time.
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`], and out of memory.
    pub fn workspace(&self, problem: &GemmProblem) -> Result<GemmWorkspace, GemmError> {
        self.ready().any.workspace(self.shared(), self.function().device(), problem)
    }
}

/// # Prepared GEMM
impl<A: Element, B: Element, C: Number, D: Converted> Loaded<Gemm<A, B, C, D>> {
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
        let prepared = self.ready().any.prepare(self.shared(), problem, args.into())?;
        Ok(GemmLaunch { loaded: self, prepared })
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
        self.launch_with(self.configured())
    }

    /// Launches the GEMM with options: the stream, and whether the launch is programmatic. Here the
    /// option counts, not the configuration: pass `programmatic(true)` if the kernel may start
    /// before the previous launch has ended.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`](crate::runtime::Function::launch_with).
    pub fn launch_with(&mut self, options: LaunchOptions<'_>) -> Result<(), GemmError> {
        self.prepared.start(&self.loaded.with(options).start(None).cast())
    }

    /// Runs the GEMM, waits for it, and returns how long it took.
    ///
    /// # Errors
    /// Those of [`Function::time`](crate::runtime::Function::time).
    pub fn time(&mut self) -> Result<Timing, GemmError> {
        let loaded = self.loaded.with(LaunchOptions::default());
        loaded.time_all(|launch| self.prepared.start(&launch.cast()))
    }

    /// Records the launch in a graph, which replays it with the same buffers at less cost per
    /// launch.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::launch`].
    pub fn record(&mut self, graph: &GraphBuilder) -> Result<(), GemmError> {
        self.launch_with(self.configured().stream(graph.stream()))
    }

    /// Returns the options that the configuration asks for.
    fn configured(&self) -> LaunchOptions<'static> {
        LaunchOptions::default().programmatic(self.loaded.config().programmatic)
    }
}
