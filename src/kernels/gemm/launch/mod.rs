//! [`GemmFunction`]: a GEMM kernel loaded on a device. Checks and binds buffers, runs the repacking
//! or tensor-map launches that come first, and launches or times the kernel.

pub(crate) mod loaded;
pub(crate) mod mode;
pub(crate) mod repack;

use std::marker::PhantomData;

use crate::arch::Major;
use crate::ir::builder::{Converted, Parameter};
use crate::ir::{Element, Number};
use crate::runtime::{
    ArgList, Argument, Buffer, Device, GraphBuilder, Grid, LaunchOptions, LoadOptions, Timing,
};

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::types::Types;
use crate::kernels::gemm::config::{Bias, GemmConfig};
use crate::kernels::gemm::epilogue::terms::Results;
use crate::kernels::gemm::epilogue::{
    EpilogueArgs, EpilogueParameter, EpilogueParams, EpilogueTypes, FusedEpilogue,
};
use crate::kernels::gemm::kernel::Gemm;
use crate::kernels::gemm::launch::loaded::{Loaded, Operands, Sm90Args};
use crate::kernels::gemm::launch::mode::How;
use crate::kernels::gemm::launch::repack::{Packing, Repack};
use crate::kernels::gemm::sm80::arguments::ThreadsArgs;
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
    /// The rows of each group, for [grouped](GemmConfig::grouped) configurations.
    pub groups: Option<GroupRows<'h>>,
    /// The table of problems for [ragged](GemmConfig::ragged) configurations, made of
    /// [`RaggedProblem::words`](crate::kernels::gemm::RaggedProblem::words).
    pub products: Option<&'h Buffer<i64>>,
    /// Your own workspace instead of the function's, so that several launches can run at the same
    /// time.
    pub workspace: Option<&'h mut GemmWorkspace>,
}

impl<'h, A: Element, B, C, D> GemmArgs<'h, A, B, C, D> {
    /// Arguments without an epilogue.
    pub fn new(a: &'h Buffer<A>, b: &'h Buffer<B>, d: &'h mut Buffer<D>) -> Self {
        let (alpha, beta, c, bias) = (A::Sum::from(1.0), A::Sum::default(), None, None);
        GemmArgs { a, b, c, d, bias, alpha, beta, groups: None, products: None, workspace: None }
    }

    /// Sets the factor for A B.
    pub fn alpha(self, alpha: A::Sum) -> Self {
        GemmArgs { alpha, ..self }
    }

    /// Adds the term `beta C`.
    pub fn beta(self, beta: A::Sum, c: &'h Buffer<C>) -> Self {
        GemmArgs { beta, c: Some(c), ..self }
    }

    /// Sets the rows of each group.
    pub fn groups(self, groups: GroupRows<'h>) -> Self {
        GemmArgs { groups: Some(groups), ..self }
    }

    /// Sets the table of problems of a ragged batch.
    pub fn products(self, table: &'h Buffer<i64>) -> Self {
        GemmArgs { products: Some(table), ..self }
    }

    /// Uses this workspace instead of the function's.
    pub fn workspace(self, workspace: &'h mut GemmWorkspace) -> Self {
        GemmArgs { workspace: Some(workspace), ..self }
    }

    /// Sets the bias.
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
    config: GemmConfig,
    device: Device,
    loaded: Loaded<(A, B, D)>,
    results: Results,
    sms: u32,
    /// Passed in place of a C or a bias that is not used.
    no_c: Buffer<C>,
    epilogue: PhantomData<fn() -> E>,
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> Gemm<A, B, C, D, E> {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<GemmFunction<A, B, C, D, E>, GemmError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Same as [`Gemm::load`], with load options: for example access checks.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<GemmFunction<A, B, C, D, E>, GemmError> {
        let kernel = (&self.kernel, self.plan.as_deref());
        let loaded = Loaded::new(options, self.config(), kernel, device)?;
        // The simulator runs blocks one after the other. With several, a persistent kernel still
        // has to share tiles between them.
        let sms = device.properties().map_or(4, |properties| properties.sm_count);
        let at_once = loaded.blocks_at_once(self.config())?;
        let (sms, no_c) = (at_once.map_or(sms, |blocks| blocks.min(sms)), device.zeros(1)?);
        let (config, device, results) = (*self.config(), device.clone(), self.results);
        Ok(GemmFunction { config, device, loaded, results, sms, no_c, epilogue: PhantomData })
    }
}

/// A prepared launch: everything is checked and computed, so that you can repeat it without host
/// work. Made by [`GemmFunction::prepare`].
pub struct GemmLaunch<'h, A: Element, B: Element = A, C: Number = A, D: Converted = C> {
    grid: Grid,
    programmatic: bool,
    args: AnyArgs<'h, (A, B, D)>,
    epilogue: EpilogueValues<'h, (A, C)>,
}

/// The kernel's arguments, by the kind of kernel.
enum AnyArgs<'h, T: Types> {
    Sm90(Box<Sm90Args<'h, T>>),
    Repacked(Box<RepackedArgs<'h, T>>),
    Threads(ThreadsArgs<'h, T>),
}

impl<T: Types> AnyArgs<'_, T> {
    fn run(
        &mut self,
        how: &mut How<'_>,
        grid: Grid,
        epilogue: &mut impl EpilogueArgs,
    ) -> Result<(), GemmError> {
        match self {
            AnyArgs::Sm90(args) => args.run(how, grid, epilogue),
            AnyArgs::Repacked(args) => args.run(how, grid, epilogue),
            AnyArgs::Threads(args) => args.run(how, grid, epilogue),
        }
    }
}

/// The arguments of a GEMM whose operands are repacked first.
struct RepackedArgs<'h, T: Types> {
    loaded: &'h Loaded<T>,
    plan: &'h Plan,
    repack: &'h Repack<T>,
    packing: Packing,
    strides: GemmStrides,
    a: &'h Buffer<T::A>,
    b: &'h Buffer<T::B>,
    d: &'h mut Buffer<T::D>,
    workspace: Option<&'h mut GemmWorkspace>,
}

impl<T: Types> RepackedArgs<'_, T> {
    fn run(
        &mut self,
        how: &mut How<'_>,
        grid: Grid,
        epilogue: &mut impl EpilogueArgs,
    ) -> Result<(), GemmError> {
        let RepackedArgs { loaded, plan, repack, packing, strides, .. } = *self;
        let (own, workspace) = ((self.a, self.b, &mut *self.d), self.workspace.as_deref_mut());
        repack.run(how, &packing, own, |how, buffers| {
            let problem = (&packing.problem, &strides);
            Sm90Args::new((loaded, plan), buffers, problem, (None, None), workspace)?
                .run(how, grid, epilogue)
        })
    }
}

/// The arguments of the configuration's epilogue.
struct EpilogueValues<'h, T: EpilogueTypes> {
    alpha: T::Sum,
    beta: T::Sum,
    c: &'h Buffer<T::C>,
    c_strides: [i64; 2],
    bias: &'h Buffer<T::C>,
}

impl<T: EpilogueTypes> EpilogueArgs for EpilogueValues<'_, T> {
    fn push<'x>(&'x mut self, list: &mut ArgList<'x>) {
        let EpilogueValues { alpha, beta, c, c_strides, bias } = *self;
        EpilogueParams::<T>::erase(EpilogueParams { alpha, beta, c, c_strides, bias }, list);
    }
}

impl<A: Element, B: Element, C: Number, D: Converted, E: Parameter> GemmFunction<A, B, C, D, E> {
    /// Returns the configuration.
    pub fn config(&self) -> &GemmConfig {
        &self.config
    }

    /// Limits a persistent (warp-specialised) kernel to `sms` SMs and leaves the rest to other
    /// streams. Choose the configuration with [`best`](GemmConfig::best) for a
    /// [`Machine`](crate::kernels::gemm::Machine) with that many SMs.
    pub fn with_sms(self, sms: u32) -> Self {
        GemmFunction { sms: sms.clamp(1, self.sms), ..self }
    }

    /// Allocates a workspace for launches of a problem, to pass as [`GemmArgs::workspace`].
    ///
    /// # Errors
    /// Those of [`GemmConfig::check_problem`], and out of memory.
    pub fn workspace(&self, problem: &GemmProblem) -> Result<GemmWorkspace, GemmError> {
        let config = &self.config;
        config.check_problem(problem)?;
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        let (tiles, grid) = ([rows, columns, problem.batch.into()], config.grid(problem, self.sms));
        GemmWorkspace::new(&self.device, config, tiles, grid)
    }

    /// Returns the compiler's log: see
    /// [`Function::compiler_log`](crate::runtime::Function::compiler_log).
    pub fn compiler_log(&self) -> &str {
        self.loaded.function.compiler_log()
    }

    /// Binds everything but the epilogue.
    fn bind<'h>(
        &'h self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        (a, b, d): Operands<'h, (A, B, D)>,
        (groups, products): (Option<GroupRows<'h>>, Option<&'h Buffer<i64>>),
        workspace: Option<&'h mut GemmWorkspace>,
    ) -> Result<AnyArgs<'h, (A, B, D)>, GemmError> {
        let (config, loaded) = (&self.config, &self.loaded);
        let groups = config.groups(problem, groups)?;
        let table = config.products(problem, products)?;
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        let lines =
            |major, lines, depth| if major == Major::K { (lines, depth) } else { (depth, lines) };
        if table.is_none() {
            long_enough("A", a.len(), problem, lines(config.major_a, m, k), strides.a)?;
            long_enough("B", b.len(), problem, lines(config.major_b, n, k), strides.b)?;
            long_enough(
                "D",
                d.len(),
                problem,
                (m, n / u64::from(config.accumulators_per_element())),
                strides.d,
            )?;
        }
        let Some(plan) = loaded.plan.as_deref() else {
            let args = (strides, workspace);
            let args = ThreadsArgs::new(loaded, config, (a, b, d), problem, args)?;
            return Ok(AnyArgs::Threads(args));
        };
        let Some(repack) = loaded.repack.as_deref() else {
            let (problem, uneven) = ((problem, strides), (groups, table));
            let args = Sm90Args::new((loaded, plan), (a, b, d), problem, uneven, workspace)?;
            return Ok(AnyArgs::Sm90(Box::new(args)));
        };
        let starts = [a.is_aligned_to(16), b.is_aligned_to(16)];
        let packing = Packing::new(config, problem, strides, starts);
        let strides = packing.problem.strides(&plan.config)?;
        let args = RepackedArgs { loaded, plan, repack, packing, strides, a, b, d, workspace };
        Ok(AnyArgs::Repacked(Box::new(args)))
    }

    /// Checks that the epilogue's operands are given exactly if the configuration needs them.
    fn check_epilogue(
        &self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: &GemmArgs<'_, A, B, C, D>,
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
            ("`alpha`", ops.alpha, args.alpha != A::Sum::from(1.0)),
            ("`beta`", ops.beta, args.beta != A::Sum::default()),
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
}

impl<A: Element, B: Element, C: Number, D: Converted> GemmFunction<A, B, C, D> {
    /// Launches the GEMM on the default stream.
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

    /// Same as [`launch`](GemmFunction::launch), with options. Whether the launch is programmatic
    /// follows from the configuration.
    ///
    /// # Errors
    /// Those of [`launch`](GemmFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
    ) -> Result<(), GemmError> {
        let options = options.programmatic(self.config.programmatic);
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
        let config = &self.config;
        let strides = config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let epilogue = self.epilogue_values(&strides, &args);
        let args = self.bind(
            problem,
            &strides,
            (args.a, args.b, args.d),
            (args.groups, args.products),
            args.workspace,
        )?;
        let grid = config.grid(problem, self.sms);
        Ok(GemmLaunch { grid, programmatic: config.programmatic, args, epilogue })
    }

    fn epilogue_values<'h>(
        &'h self,
        strides: &GemmStrides,
        args: &GemmArgs<'h, A, B, C, D>,
    ) -> EpilogueValues<'h, (A, C)> {
        EpilogueValues {
            alpha: args.alpha,
            beta: args.beta,
            c: args.c.unwrap_or(&self.no_c),
            // Strides are below 2^40.
            c_strides: strides.c.map(|stride| stride as i64),
            bias: args.bias.unwrap_or(&self.no_c),
        }
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

    /// Same as [`launch`](GemmFunction::launch), with options. Whether the launch is programmatic
    /// follows from the configuration.
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
        let options = options.programmatic(self.config.programmatic);
        self.run(&mut How::Launch(options), problem, args, epilogue)
    }

    /// Runs the GEMM, waits for it, and returns how long it took.
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
        How::timed(|how| self.run(how, problem, args, epilogue))
    }

    fn run<'h, 'b: 'h>(
        &self,
        how: &mut How<'_>,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
        epilogue: E::Arg<'h, 'b>,
    ) -> Result<(), GemmError> {
        let strides = self.config.check_problem(problem)?;
        self.check_epilogue(problem, &strides, &args)?;
        let mut args = self.bind(
            problem,
            &strides,
            (args.a, args.b, args.d),
            (args.groups, args.products),
            args.workspace,
        )?;
        let mut list = ArgList::default();
        E::erase(epilogue, &mut list);
        self.results.check(&self.config, problem, &list)?;
        args.run(how, self.config.grid(problem, self.sms), &mut list)
    }
}

/// Checks that a buffer holds a batch of matrices with `lines` lines of `contiguous` elements.
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
    /// Returns the grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Launches the GEMM on the default stream.
    ///
    /// # Errors
    /// Those of [`Function::launch`](crate::runtime::Function::launch).
    pub fn launch(&mut self) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default().programmatic(self.programmatic))
    }

    /// Launches the GEMM with options: the stream, and whether the launch is programmatic.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`](crate::runtime::Function::launch_with).
    pub fn launch_with(&mut self, options: LaunchOptions<'_>) -> Result<(), GemmError> {
        self.run(&mut How::Launch(options))
    }

    /// Runs the GEMM, waits for it, and returns how long it took.
    ///
    /// # Errors
    /// Those of [`Function::time`](crate::runtime::Function::time).
    pub fn time(&mut self) -> Result<Timing, GemmError> {
        How::timed(|how| self.run(how))
    }

    fn run(&mut self, how: &mut How<'_>) -> Result<(), GemmError> {
        self.args.run(how, self.grid, &mut self.epilogue)
    }

    /// Records the launch in a graph.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::launch`].
    pub fn record(&mut self, graph: &GraphBuilder) -> Result<(), GemmError> {
        let options = LaunchOptions::default().programmatic(self.programmatic);
        self.launch_with(options.stream(graph.stream()))
    }
}
