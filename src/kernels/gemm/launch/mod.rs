//! [`GemmFunction`]: a matrix product on a device.

pub(crate) mod loaded;
pub(crate) mod mode;
pub(crate) mod repack;

use std::marker::PhantomData;

use crate::arch::Major;
use crate::ir::builder::{Converted, Parameter};
use crate::ir::types::Const;
use crate::ir::{Element, Number};
use crate::runtime::{
    ArgList, Buffer, BufferRef, Device, GraphBuilder, Grid, LaunchOptions, LoadOptions, Timing,
};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::{Bias, GemmConfig};
use crate::kernels::gemm::epilogue::terms::Results;
use crate::kernels::gemm::epilogue::{
    EpilogueArgs, EpilogueParameter, EpilogueParams, FusedEpilogue,
};
use crate::kernels::gemm::kernel::{AnyGemm, Gemm};
use crate::kernels::gemm::launch::loaded::{Loaded, Operands, Sm90Args, Uneven};
use crate::kernels::gemm::launch::mode::How;
use crate::kernels::gemm::launch::repack::{Packing, Repack};
use crate::kernels::gemm::sm80::arguments::ThreadsArgs;
use crate::kernels::gemm::sm90::groups::GroupRows;
use crate::kernels::gemm::sm90::plan::Plan;
use crate::kernels::gemm::split::GemmWorkspace;

/// The arguments of a launch: A, B and D, and the operands of the epilogue.
pub struct GemmArgs<'h, A: Element, B = A, C = A, D = C> {
    /// A, `M x K`: row-major where [`GemmConfig::major_a`] is `Major::K`, the default.
    pub a: &'h Buffer<A>,
    /// B, `K x N`: column-major where [`GemmConfig::major_b`] is `Major::K`, the default, and row-major where it is
    /// `Major::Mn`.
    pub b: &'h Buffer<B>,
    /// C, `M x N`, row-major, where the epilogue has `beta`.
    pub c: Option<&'h Buffer<C>>,
    /// D, `M x N`, row-major.
    pub d: &'h mut Buffer<D>,
    /// The bias, where the epilogue has one: M or N numbers, for all matrices of a batch.
    pub bias: Option<&'h Buffer<C>>,
    /// The factor of the product, where the epilogue has `alpha`.
    pub alpha: A::Sum,
    /// The factor of C, where the epilogue has `beta`.
    pub beta: A::Sum,
    /// The rows of the groups, where the configuration is [grouped](GemmConfig::grouped).
    pub groups: Option<GroupRows<'h>>,
    /// The [words](crate::kernels::gemm::RaggedProblem::words) of the products, where the configuration is [ragged](GemmConfig::ragged).
    pub products: Option<&'h Buffer<i64>>,
    /// A workspace in place of that of the function.
    pub workspace: Option<&'h mut GemmWorkspace>,
}

impl<'h, A: Element, B, C, D> GemmArgs<'h, A, B, C, D> {
    /// A product without epilogue.
    pub fn new(a: &'h Buffer<A>, b: &'h Buffer<B>, d: &'h mut Buffer<D>) -> Self {
        let (alpha, beta, c, bias) = (A::Sum::from(1.0), A::Sum::default(), None, None);
        GemmArgs { a, b, c, d, bias, alpha, beta, groups: None, products: None, workspace: None }
    }

    /// The same with a factor of the product.
    pub fn alpha(self, alpha: A::Sum) -> Self {
        GemmArgs { alpha, ..self }
    }

    /// The same with the term `beta C`.
    pub fn beta(self, beta: A::Sum, c: &'h Buffer<C>) -> Self {
        GemmArgs { beta, c: Some(c), ..self }
    }

    /// The same with the rows of groups.
    pub fn groups(self, groups: GroupRows<'h>) -> Self {
        GemmArgs { groups: Some(groups), ..self }
    }

    /// The same with products of different sizes.
    pub fn products(self, table: &'h Buffer<i64>) -> Self {
        GemmArgs { products: Some(table), ..self }
    }

    /// The same with a workspace, in place of that of the function.
    pub fn workspace(self, workspace: &'h mut GemmWorkspace) -> Self {
        GemmArgs { workspace: Some(workspace), ..self }
    }

    /// The same with a bias.
    pub fn bias(self, bias: &'h Buffer<C>) -> Self {
        GemmArgs { bias: Some(bias), ..self }
    }
}

/// A [`Gemm`] that a device has loaded.
pub struct GemmFunction<
    A: Element,
    B: Element = A,
    C: Number = A,
    D: Converted = C,
    E: Parameter = EpilogueParams<(A, C)>,
> {
    loaded: AnyGemmFunction,
    buffers: PhantomData<fn() -> (A, B, C, D)>,
    epilogue: PhantomData<fn() -> E>,
}

/// An [`AnyGemm`] that a device has loaded.
pub struct AnyGemmFunction {
    config: GemmConfig,
    device: Device,
    loaded: Loaded,
    results: Results,
    sms: u32,
    /// In the place of a C or a bias that is not there.
    no_c: Buffer<u64>,
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Gemm<A, B, C, D, E> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<GemmFunction<A, B, C, D, E>, GemmError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// As [`Gemm::load`], with options.
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

/// A launch of a matrix product that is made ready: what it needs is computed and checked, so that it can be repeated
/// at no cost.
pub struct GemmLaunch<'h, A: Element, B: Element = A, C: Number = A, D: Converted = C> {
    prepared: PreparedGemm<'h>,
    buffers: PhantomData<fn() -> (A, B, C, D)>,
}

/// A [`GemmLaunch`] without the types of its buffers.
struct PreparedGemm<'h> {
    grid: Grid,
    programmatic: bool,
    args: BoundArgs<'h>,
    epilogue: EpilogueValues<'h>,
}

/// [`GemmArgs`] without the types of the buffers.
pub(crate) struct AnyArgs<'h> {
    pub(crate) operands: Operands<'h>,
    pub(crate) c: Option<BufferRef<'h>>,
    pub(crate) bias: Option<BufferRef<'h>>,
    pub(crate) alpha: Const,
    pub(crate) beta: Const,
    pub(crate) groups: Option<GroupRows<'h>>,
    pub(crate) products: Option<&'h Buffer<i64>>,
    pub(crate) workspace: Option<&'h mut GemmWorkspace>,
}

impl<'h, A: Element, B: Element, C: Element, D: Element> From<GemmArgs<'h, A, B, C, D>>
    for AnyArgs<'h>
{
    fn from(args: GemmArgs<'h, A, B, C, D>) -> Self {
        let GemmArgs { a, b, c, d, bias, alpha, beta, groups, products, workspace } = args;
        AnyArgs {
            operands: Operands { a: a.into(), b: b.into(), d: d.into() },
            c: c.map(BufferRef::from),
            bias: bias.map(BufferRef::from),
            alpha: alpha.to_const(),
            beta: beta.to_const(),
            groups,
            products,
            workspace,
        }
    }
}

/// The arguments of a kernel, with its function.
enum BoundArgs<'h> {
    Sm90(Box<Sm90Args<'h>>),
    Repacked(Box<RepackedArgs<'h>>),
    Threads(ThreadsArgs<'h>),
}

impl BoundArgs<'_> {
    #[inline]
    fn run(
        &mut self,
        how: &mut How<'_>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        match self {
            BoundArgs::Sm90(args) => args.run(how, grid, epilogue),
            BoundArgs::Repacked(args) => args.run(how, grid, epilogue),
            BoundArgs::Threads(args) => args.run(how, grid, epilogue),
        }
    }
}

/// The arguments of a product whose operands are copied.
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
        how: &mut How<'_>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let RepackedArgs { loaded, plan, repack, packing, strides, .. } = *self;
        let Operands { a, b, d } = &mut self.operands;
        let own = Operands { a: *a, b: *b, d: d.reborrow() };
        let workspace = self.workspace.as_deref_mut();
        repack.run(how, &packing, own, |how, operands| {
            let (problem, uneven) = (&packing.problem, Uneven::default());
            Sm90Args::new(loaded, plan, operands, problem, &strides, uneven, workspace)?
                .run(how, grid, epilogue)
        })
    }
}

/// The arguments of the epilogue.
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
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<AnyGemmFunction, GemmError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// As [`AnyGemm::load`], with options.
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
    /// The configuration.
    pub fn config(&self) -> &GemmConfig {
        &self.config
    }

    /// The compiler's log of the kernel: see [`Function::compiler_log`](crate::runtime::Function::compiler_log).
    pub fn compiler_log(&self) -> &str {
        self.loaded.function.compiler_log()
    }

    /// Starts the product with options.
    #[cfg(feature = "tune")]
    #[inline]
    pub(crate) fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &GemmProblem,
        args: AnyArgs<'_>,
    ) -> Result<(), GemmError> {
        let PreparedGemm { grid, mut args, mut epilogue, .. } = self.prepare(problem, args)?;
        args.run(&mut How::Launch(options), grid, &mut epilogue)
    }

    #[inline]
    fn new(
        kernel: &AnyGemm,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<AnyGemmFunction, GemmError> {
        let (config, results) = (kernel.config, kernel.results);
        let loaded = Loaded::new(options, kernel, device)?;
        // The simulator runs blocks one after the other; some of them let a kernel show what it does with several.
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

    /// The arguments of a launch beside those of the epilogue.
    #[inline]
    fn bind<'h>(
        &'h self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: AnyArgs<'h>,
    ) -> Result<BoundArgs<'h>, GemmError> {
        let (config, loaded) = (&self.config, &self.loaded);
        let AnyArgs { operands, groups, products, workspace, .. } = args;
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

    /// Checks the operands of the epilogue of the configuration.
    #[inline]
    fn check_epilogue(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: &AnyArgs<'_>,
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
        args: AnyArgs<'h>,
    ) -> Result<PreparedGemm<'h>, GemmError> {
        let config = &self.config;
        let strides = config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let no_c = BufferRef::from(&self.no_c).cast(config.c);
        let epilogue = EpilogueValues {
            alpha: args.alpha,
            beta: args.beta,
            c: args.c.unwrap_or(no_c),
            // Below 2^40.
            c_strides: strides.c.map(|stride| stride as i64),
            bias: args.bias.unwrap_or(no_c),
        };
        let args = self.bind(problem, &strides, args)?;
        let grid = config.grid(problem, self.sms);
        Ok(PreparedGemm { grid, programmatic: config.programmatic, args, epilogue })
    }

    /// Runs the product with the arguments of an epilogue that a program wrote.
    #[inline]
    fn run(
        &self,
        how: &mut How<'_>,
        problem: &GemmProblem,
        args: AnyArgs<'_>,
        mut epilogue: ArgList<'_>,
    ) -> Result<(), GemmError> {
        let strides = self.config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let mut args = self.bind(problem, &strides, args)?;
        self.results.check(&self.config, problem, &epilogue)?;
        args.run(how, self.config.grid(problem, self.sms), &mut epilogue)
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> GemmFunction<A, B, C, D, E> {
    /// The configuration.
    pub fn config(&self) -> &GemmConfig {
        &self.loaded.config
    }

    /// The same for launches of at most `sms` thread blocks of a warp-specialised kernel, which has one on each SM: the other
    /// SMs of the device are free for work of other streams. It needs a configuration that is
    /// [planned](GemmConfig::best) for as many SMs.
    pub fn with_sms(mut self, sms: u32) -> Self {
        self.loaded.sms = sms.clamp(1, self.loaded.sms);
        self
    }

    /// Returns a workspace for launches of a problem, for [`GemmArgs::workspace`].
    ///
    /// # Errors
    /// [`GemmConfig::check_problem`]; no memory.
    pub fn workspace(&self, problem: &GemmProblem) -> Result<GemmWorkspace, GemmError> {
        self.loaded.workspace(problem)
    }

    /// The compiler's log of the kernel: see [`Function::compiler_log`](crate::runtime::Function::compiler_log).
    pub fn compiler_log(&self) -> &str {
        self.loaded.loaded.function.compiler_log()
    }
}

impl<A: Element, B: Element, C: Number, D: Converted> GemmFunction<A, B, C, D> {
    /// Starts the product, on the stream for all work that names none.
    ///
    /// # Errors
    /// Those of [`prepare`](GemmFunction::prepare), and of [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
    ) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// As [`launch`](GemmFunction::launch), with options. The launch is programmatic if the configuration is.
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

    /// Makes a launch ready for buffers that stay.
    ///
    /// # Errors
    /// [`GemmConfig::check_problem`]; buffers that are too short or misaligned, an operand of the epilogue that is missing or of no
    /// use, tensors that tensor copies do not take.
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
    /// Starts the product, with the argument of the epilogue, on the stream for all work that names none.
    ///
    /// # Errors
    /// [`GemmConfig::check_problem`]; buffers that are too short, that of the results of a reduction included, or misaligned; an operand
    /// of the epilogue of a configuration, tensors that tensor copies do not take; those of [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch<'h, 'b: 'h>(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default(), problem, args, epilogue)
    }

    /// As [`launch`](GemmFunction::launch), with options. The launch is programmatic if the configuration is.
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
        self.run(&mut How::Launch(options), problem, args, epilogue)
    }

    /// Runs the product, waits for its end, and says how long it took.
    ///
    /// # Errors
    /// Those of [`launch`](GemmFunction::launch), and of [`Function::time`](crate::runtime::Function::time).
    pub fn time<'h, 'b: 'h>(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<Timing, GemmError> {
        How::timed(|how| self.run(how, problem, args, epilogue))
    }

    fn run<'h, 'b: 'h>(
        &self,
        how: &mut How<'_>,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<(), GemmError> {
        let mut list = ArgList::default();
        E::erase(epilogue, &mut list);
        self.loaded.run(how, problem, args.into(), list)
    }
}

/// Checks that a buffer has all elements of a batch of matrices of `lines` lines of `contiguous` elements.
#[inline]
fn long_enough(
    operand: &'static str,
    found: usize,
    problem: &GemmProblem,
    (lines, contiguous): (u64, u64),
    [pitch, next]: [u64; 2],
) -> Result<(), GemmError> {
    // All of these are below 2^40.
    let needed = u64::from(problem.batch - 1) * next + (lines - 1) * pitch + contiguous;
    let found = found as u64;
    if found < needed { Err(GemmError::BufferLength { operand, found, needed }) } else { Ok(()) }
}

impl<A: Element, B: Element, C: Number, D: Converted> GemmLaunch<'_, A, B, C, D> {
    /// The grid.
    pub fn grid(&self) -> Grid {
        self.prepared.grid
    }

    /// Starts the product as its configuration says.
    ///
    /// # Errors
    /// Those of [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch(&mut self) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default().programmatic(self.prepared.programmatic))
    }

    /// Starts the product with options: a stream, and whether it is a programmatic launch.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`](crate::runtime::Function::launch_with).
    pub fn launch_with(&mut self, options: LaunchOptions<'_>) -> Result<(), GemmError> {
        self.run(&mut How::Launch(options))
    }

    /// Runs the product, waits for its end, and says how long it took.
    ///
    /// # Errors
    /// Those of [`Function::time`](crate::runtime::Function::time).
    pub fn time(&mut self) -> Result<Timing, GemmError> {
        How::timed(|how| self.run(how))
    }

    fn run(&mut self, how: &mut How<'_>) -> Result<(), GemmError> {
        let PreparedGemm { grid, args, epilogue, .. } = &mut self.prepared;
        args.run(how, *grid, epilogue)
    }

    /// Adds the product to a graph.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::launch`].
    pub fn record(&mut self, graph: &GraphBuilder) -> Result<(), GemmError> {
        let options = LaunchOptions::default().programmatic(self.prepared.programmatic);
        self.launch_with(options.stream(graph.stream()))
    }
}
