//! [`GemmFunction`]: a matrix product on a device.

use crate::arch::Major;
use crate::ir::{Element, Number};
use crate::runtime::{
    Buffer, Device, Function, GraphBuilder, Grid, LaunchOptions, TensorMapArg, TensorMapArgMut,
    Timing,
};

use super::config::{Bias, GemmConfig};
use super::error::GemmError;
use super::front::{AnyKernel, Gemm};
use super::problem::{GemmProblem, GemmStrides};
use super::sm90;
use super::threads;

/// The arguments of a launch: A, B and D, and the operands of the epilogue.
pub struct GemmArgs<'h, A, B = A, C = A, D = C> {
    /// A.
    pub a: &'h Buffer<A>,
    /// B.
    pub b: &'h Buffer<B>,
    /// C, where the epilogue has `beta`.
    pub c: Option<&'h Buffer<C>>,
    /// D.
    pub d: &'h mut Buffer<D>,
    /// The bias, where the epilogue has one: M or N numbers, for all matrices of a batch.
    pub bias: Option<&'h Buffer<D>>,
    /// The factor of the product, where the epilogue has `alpha`.
    pub alpha: f32,
    /// The factor of C, where the epilogue has `beta`.
    pub beta: f32,
}

impl<'h, A, B, C, D> GemmArgs<'h, A, B, C, D> {
    /// A product without epilogue.
    pub fn new(a: &'h Buffer<A>, b: &'h Buffer<B>, d: &'h mut Buffer<D>) -> Self {
        GemmArgs { a, b, c: None, d, bias: None, alpha: 1.0, beta: 0.0 }
    }

    /// The same with a factor of the product.
    pub fn alpha(self, alpha: f32) -> Self {
        GemmArgs { alpha, ..self }
    }

    /// The same with the term `beta C`.
    pub fn beta(self, beta: f32, c: &'h Buffer<C>) -> Self {
        GemmArgs { beta, c: Some(c), ..self }
    }

    /// The same with a bias.
    pub fn bias(self, bias: &'h Buffer<D>) -> Self {
        GemmArgs { bias: Some(bias), ..self }
    }
}

/// A [`Gemm`] that a device has loaded.
pub struct GemmFunction<A, B = A, C = A, D = C> {
    config: GemmConfig,
    loaded: AnyFunction<A, B, C, D>,
    sms: u32,
    /// In the place of C and of a bias that are not there.
    no_c: Buffer<C>,
    no_bias: Buffer<D>,
}

enum AnyFunction<A, B, C, D> {
    Sm90(Box<sm90::Plan>, Function<sm90::Params<A, B, C, D>>),
    Threads(Function<threads::Params<A, B, C, D>>),
}

impl<A: Element, B: Element, C: Number, D: Number> Gemm<A, B, C, D> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<GemmFunction<A, B, C, D>, GemmError> {
        let loaded = match &self.kernel {
            AnyKernel::Sm90(plan, kernel) => AnyFunction::Sm90(plan.clone(), device.load(kernel)?),
            AnyKernel::Threads(kernel) => AnyFunction::Threads(device.load(kernel)?),
        };
        // The simulator runs blocks one after the other; some of them let a kernel show what it does with several.
        let sms = device.properties().map_or(4, |properties| properties.sm_count);
        let (no_c, no_bias) = (device.zeros(1)?, device.zeros(1)?);
        Ok(GemmFunction { config: *self.config(), loaded, sms, no_c, no_bias })
    }
}

/// A launch of a matrix product that is made ready: what it needs is computed and checked, so that it can be repeated
/// at no cost.
pub struct GemmLaunch<'h, A, B = A, C = A, D = C> {
    grid: Grid,
    programmatic: bool,
    args: AnyArgs<'h, A, B, C, D>,
    epilogue: EpilogueValues<'h, C, D>,
}

struct Sm90Args<'h, A, B, C, D> {
    function: &'h Function<sm90::Params<A, B, C, D>>,
    a: TensorMapArg<'h, A>,
    b: TensorMapArg<'h, B>,
    d: TensorMapArgMut<'h, D>,
    extents: [i32; 4],
    batch_strides: [i32; 2],
}

enum AnyArgs<'h, A, B, C, D> {
    Sm90(Box<Sm90Args<'h, A, B, C, D>>),
    Threads {
        function: &'h Function<threads::Params<A, B, C, D>>,
        a: &'h Buffer<A>,
        b: &'h Buffer<B>,
        d: &'h mut Buffer<D>,
        strides: [[i64; 2]; 3],
        sizes: [i32; 4],
    },
}

/// The arguments of the epilogue.
#[derive(Clone, Copy)]
struct EpilogueValues<'h, C, D> {
    alpha: f32,
    beta: f32,
    c: &'h Buffer<C>,
    strides: [i64; 2],
    bias: &'h Buffer<D>,
    sizes: [i32; 2],
}

impl<A: Element, B: Element, C: Number, D: Number> GemmFunction<A, B, C, D> {
    /// The configuration.
    pub fn config(&self) -> &GemmConfig {
        &self.config
    }

    /// The compiler's log of the kernel: see [`Function::compiler_log`].
    pub fn compiler_log(&self) -> &str {
        match &self.loaded {
            AnyFunction::Sm90(_, function) => function.compiler_log(),
            AnyFunction::Threads(function) => function.compiler_log(),
        }
    }

    /// Starts the product, on the stream for all work that names none.
    ///
    /// # Errors
    /// Those of [`prepare`](GemmFunction::prepare), and of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &GemmProblem,
        args: GemmArgs<'_, A, B, C, D>,
    ) -> Result<(), GemmError> {
        let options = LaunchOptions::default().programmatic(self.config.programmatic);
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
        let config = &self.config;
        let strides = config.check_problem(problem)?;
        let epilogue = self.epilogue(problem, &strides, &args)?;
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        let lines =
            |major, lines, depth| if major == Major::K { (lines, depth) } else { (depth, lines) };
        long_enough("A", args.a.len(), problem, lines(config.major_a, m, k), strides.a)?;
        long_enough("B", args.b.len(), problem, lines(config.major_b, n, k), strides.b)?;
        long_enough("D", args.d.len(), problem, (m, n), strides.d)?;
        let args = match &self.loaded {
            AnyFunction::Sm90(plan, function) => {
                let [a, b, d] = plan.maps(problem, &strides)?;
                let [rows, columns, steps] = config.tiles(problem).map(|n| n as i32);
                let batch_strides = [strides.a, strides.b].map(|[_, next]| i32::from(next != 0));
                AnyArgs::Sm90(Box::new(Sm90Args {
                    function,
                    a: args.a.tensor_map(&a)?,
                    b: args.b.tensor_map(&b)?,
                    d: args.d.tensor_map_mut(&d)?,
                    extents: [rows, columns, steps, problem.batch as i32],
                    batch_strides,
                }))
            }
            AnyFunction::Threads(function) => {
                let alignment = config.alignment;
                let bytes = alignment.into();
                let starts =
                    [('A', args.a.is_aligned_to(bytes)), ('B', args.b.is_aligned_to(bytes))];
                if let Some((operand, _)) = starts.into_iter().find(|(_, aligned)| !aligned) {
                    return Err(GemmError::Address { operand, alignment });
                }
                let GemmProblem { m, n, k, batch, .. } = *problem;
                // Distances are below 2^40, and sizes below 2^31.
                let strides = [strides.a, strides.b, strides.d].map(|both| both.map(|s| s as i64));
                let sizes = [m, n, k, batch].map(|size| size as i32);
                AnyArgs::Threads { function, a: args.a, b: args.b, d: args.d, strides, sizes }
            }
        };
        let grid = config.grid(problem, self.sms);
        Ok(GemmLaunch { grid, programmatic: config.programmatic, args, epilogue })
    }

    fn epilogue<'h>(
        &'h self,
        problem: &GemmProblem,
        strides: &GemmStrides,
        args: &GemmArgs<'h, A, B, C, D>,
    ) -> Result<EpilogueValues<'h, C, D>, GemmError> {
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
        let factors =
            [("`alpha`", ops.alpha, args.alpha != 1.0), ("`beta`", ops.beta, args.beta != 0.0)];
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
        Ok(EpilogueValues {
            alpha: args.alpha,
            beta: args.beta,
            c: args.c.unwrap_or(&self.no_c),
            // Below 2^40.
            strides: strides.c.map(|stride| stride as i64),
            bias: args.bias.unwrap_or(&self.no_bias),
            sizes: [problem.m as i32, problem.n as i32],
        })
    }
}

/// Checks that a buffer has all elements of a batch of matrices of `lines` lines of `contiguous` elements.
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

impl<A: Element, B: Element, C: Number, D: Number> GemmLaunch<'_, A, B, C, D> {
    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Starts the product as its configuration says.
    ///
    /// # Errors
    /// Those of [`Function::launch`].
    pub fn launch(&mut self) -> Result<(), GemmError> {
        self.launch_with(LaunchOptions::default().programmatic(self.programmatic))
    }

    /// Starts the product with options: a stream, and whether it is a programmatic launch.
    ///
    /// # Errors
    /// Those of [`Function::launch_with`].
    pub fn launch_with(&mut self, options: LaunchOptions<'_>) -> Result<(), GemmError> {
        let EpilogueValues { alpha, beta, c, strides, bias, sizes } = self.epilogue;
        let epilogue = (alpha, beta, c, strides, bias, sizes);
        match &mut self.args {
            AnyArgs::Sm90(args) => {
                let Sm90Args { function, a, b, d, extents, batch_strides } = &mut **args;
                function.launch_with(
                    options,
                    self.grid,
                    (a, b, d, *extents, *batch_strides, epilogue),
                )?;
            }
            AnyArgs::Threads { function, a, b, d, strides: [of_a, of_b, of_d], sizes } => {
                let args = ((*a, *of_a), (*b, *of_b), (&mut **d, *of_d), *sizes, epilogue);
                function.launch_with(options, self.grid, args)?;
            }
        }
        Ok(())
    }

    /// Runs the product, waits for its end, and says how long it took.
    ///
    /// # Errors
    /// Those of [`Function::time`].
    pub fn time(&mut self) -> Result<Timing, GemmError> {
        let EpilogueValues { alpha, beta, c, strides, bias, sizes } = self.epilogue;
        let epilogue = (alpha, beta, c, strides, bias, sizes);
        Ok(match &mut self.args {
            AnyArgs::Sm90(args) => {
                let Sm90Args { function, a, b, d, extents, batch_strides } = &mut **args;
                function.time(self.grid, (a, b, d, *extents, *batch_strides, epilogue))?
            }
            AnyArgs::Threads { function, a, b, d, strides: [of_a, of_b, of_d], sizes } => {
                let args = ((*a, *of_a), (*b, *of_b), (&mut **d, *of_d), *sizes, epilogue);
                function.time(self.grid, args)?
            }
        })
    }

    /// Adds the product to a graph.
    ///
    /// # Errors
    /// Those of [`GraphBuilder::launch`].
    pub fn record(&mut self, graph: &GraphBuilder) -> Result<(), GemmError> {
        let options = LaunchOptions::default().programmatic(self.programmatic);
        self.launch_with(options.stream(graph.stream()))
    }
}
