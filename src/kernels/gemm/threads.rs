//! Common parts of the kernels in which all threads copy tiles.

use crate::ir::builder::OnDevice;
use crate::ir::{Body, Element, Global, GlobalMut, Kernel, KernelOptions, Val};
use crate::runtime::{Buffer, Device, Function, Grid, LoadOptions};
use crate::tensor::Tile;

use super::config::{GemmConfig, SM_REGISTERS};
use super::epilogue::{EpilogueArgs, EpilogueForm, EpilogueMap, EpilogueParameter, kept};
use super::error::GemmError;
use super::forms::Schedule;
use super::how::How;
use super::parts::Splits;
use super::problem::{GemmProblem, GemmStrides};
use super::product::Operands;
use super::split::{GemmWorkspace, SplitArgs, SplitParams, SplitWorkspace, Threads, Workspace};
use super::types::Types;

crate::params! {
    /// The parameters of a kernel beside those of its epilogue: matrices, each with its row pitch and its batch stride, and sizes.
    pub(super) struct Params<T: Types> {
        pub(super) a: Global<T::A>,
        pub(super) a_strides: [i64; 2],
        pub(super) b: Global<T::B>,
        pub(super) b_strides: [i64; 2],
        pub(super) d: GlobalMut<T::D>,
        pub(super) d_strides: [i64; 2],
        pub(super) m: i32,
        pub(super) n: i32,
        pub(super) k: i32,
        pub(super) batch: i32,
    }
}

/// The parameters of the kernels: without and with thread blocks that share tiles.
type Whole<T, E> = (Params<T>, E);
type SplitWhole<T, E> = (Params<T>, E, SplitParams);

/// Makes the epilogue in the body `'b` of a kernel, for the rows and columns of D. The bodies of kernels are compiled once for
/// all epilogues.
pub(super) type MakeEpilogue<'f, 'b, S> =
    &'f dyn Fn([Val<'b, i32>; 2]) -> Box<dyn EpilogueMap<'b, S> + 'f>;

/// The body of a kernel for elements of these types.
pub(super) type ThreadsBody<T> = dyn for<'b> Fn(
    &mut Body<'b, 'b>,
    Params<T, OnDevice<'b>>,
    MakeEpilogue<'_, 'b, <T as Types>::Sum>,
    Option<&SplitArgs<'b>>,
);

/// The kernel of a configuration.
pub(super) enum ThreadsKernel<T: Types, E: EpilogueParameter> {
    Whole(Kernel<Whole<T, E>>),
    Split(Kernel<SplitWhole<T, E>>),
}

impl<T: Types, E: EpilogueParameter> ThreadsKernel<T, E> {
    /// Builds the kernel with this body, for `blocks` resident thread blocks of an SM.
    pub(super) fn build<F: EpilogueForm<T::Sum, Params = E>>(
        config: &GemmConfig,
        form: &F,
        blocks: u32,
        body: &ThreadsBody<T>,
    ) -> Result<Self, GemmError> {
        let options = KernelOptions::default().block([config.threads(), 1, 1]);
        let options = options.min_blocks_per_sm(blocks);
        let (name, target) = (format!("{config}{}", F::SUFFIX), config.target);
        Ok(if config.splits.is_split() {
            ThreadsKernel::Split(Kernel::<SplitWhole<T, E>>::build_with(
                options,
                &name,
                target,
                |k, (args, epilogue, split)| {
                    let kept = kept(k, form);
                    let map = |limits| -> Box<dyn EpilogueMap<'_, T::Sum> + '_> {
                        Box::new(form.map(kept, epilogue.clone(), limits))
                    };
                    body(k, args, &map, Some(&split));
                },
            )?)
        } else {
            ThreadsKernel::Whole(Kernel::<Whole<T, E>>::build_with(
                options,
                &name,
                target,
                |k, (args, epilogue)| {
                    let kept = kept(k, form);
                    let map = |limits| -> Box<dyn EpilogueMap<'_, T::Sum> + '_> {
                        Box::new(form.map(kept, epilogue.clone(), limits))
                    };
                    body(k, args, &map, None);
                },
            )?)
        })
    }

    /// Loads the kernel.
    pub(super) fn load(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<ThreadsFunction<T, E>, GemmError> {
        Ok(match self {
            ThreadsKernel::Whole(kernel) => {
                ThreadsFunction::Whole(device.load_with(options, kernel)?)
            }
            ThreadsKernel::Split(kernel) => ThreadsFunction::Split(
                device.load_with(options, kernel)?,
                Box::new(SplitWorkspace::new(device)?),
            ),
        })
    }
}

impl GemmConfig {
    /// Returns the number of resident blocks of an SM with this shared memory, for a kernel without roles.
    #[inline]
    pub(super) fn resident(&self, shared_bytes: u64) -> u32 {
        let by_shared = shared_bytes / self.shared_bytes().saturating_add(1024);
        // A thread needs about 64 registers beside its accumulators, and as many to follow its run beside two steps of operands.
        let follows = self.schedule == Schedule::Simt && self.splits == Splits::Stream;
        let others = if follows { 128 } else { 64 };
        let registers = self.accumulators().saturating_add(others).min(255);
        let by_registers = SM_REGISTERS / registers.saturating_mul(self.threads()).max(1);
        let by_threads = 2048 / self.threads().max(1);
        (by_shared as u32).min(by_registers).min(by_threads).max(1)
    }
}

/// The threads of a block, which have the accumulators of a tile.
#[inline]
pub(super) fn threads_of_block<'b>(k: &Body<'b, '_>, config: &GemmConfig) -> Threads<'b> {
    let count = config.threads();
    let barrier = k.named_barrier(1, count).aligned();
    Threads { group: k.constant(0), groups: 1, count, barrier }
}

/// A [`ThreadsKernel`] that a device has loaded.
pub(super) enum ThreadsFunction<T: Types, E: EpilogueParameter> {
    Whole(Function<Whole<T, E>>),
    Split(Function<SplitWhole<T, E>>, Box<SplitWorkspace>),
}

impl<T: Types, E: EpilogueParameter> ThreadsFunction<T, E> {
    pub(super) fn compiler_log(&self) -> &str {
        match self {
            ThreadsFunction::Whole(function) => function.compiler_log(),
            ThreadsFunction::Split(function, _) => function.compiler_log(),
        }
    }
}

/// A [`ThreadsFunction`] with the workspace of a launch.
enum Bound<'h, T: Types, E: EpilogueParameter> {
    Whole(&'h Function<Whole<T, E>>),
    Split(&'h Function<SplitWhole<T, E>>, Workspace<'h>),
}

/// A product that is ready to run.
pub(super) struct ThreadsArgs<'h, T: Types, E: EpilogueParameter> {
    function: Bound<'h, T, E>,
    config: GemmConfig,
    a: &'h Buffer<T::A>,
    b: &'h Buffer<T::B>,
    d: &'h mut Buffer<T::D>,
    strides: [[i64; 2]; 3],
    sizes: [i32; 4],
    tiles: [u64; 3],
}

impl<'h, T: Types, E: EpilogueParameter> ThreadsArgs<'h, T, E> {
    /// Checks that the operands start where the kernel copies them from.
    pub(super) fn new(
        function: &'h ThreadsFunction<T, E>,
        config: &GemmConfig,
        (a, b, d): Operands<'h, T>,
        problem: &GemmProblem,
        (strides, given): (&GemmStrides, Option<&'h mut GemmWorkspace>),
    ) -> Result<Self, GemmError> {
        let function = match function {
            ThreadsFunction::Whole(function) => Bound::Whole(function),
            ThreadsFunction::Split(function, own) => {
                Bound::Split(function, Workspace::new(own, given))
            }
        };
        let alignment = config.alignment;
        let bytes = alignment.into();
        let starts = [('A', a.is_aligned_to(bytes)), ('B', b.is_aligned_to(bytes))];
        if let Some((operand, _)) = starts.into_iter().find(|(_, aligned)| !aligned) {
            return Err(GemmError::Address { operand, alignment });
        }
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        Ok(ThreadsArgs {
            function,
            config: *config,
            a,
            b,
            d,
            // Distances are below 2^40, and sizes below 2^31.
            strides: [strides.a, strides.b, strides.d].map(|both| both.map(|s| s as i64)),
            sizes: [m, n, k, batch].map(|size| size as i32),
            tiles: [rows, columns, batch.into()],
        })
    }

    pub(super) fn run(
        &mut self,
        how: &mut How<'_>,
        grid: Grid,
        epilogue: &mut impl EpilogueArgs<E>,
    ) -> Result<(), GemmError> {
        let (config, tiles) = (self.config, self.tiles);
        let [a_strides, b_strides, d_strides] = self.strides;
        let [m, n, k, batch] = self.sizes;
        let (a, b, d) = (self.a, self.b, &mut *self.d);
        let params = Params { a, a_strides, b, b_strides, d, d_strides, m, n, k, batch };
        match &mut self.function {
            Bound::Whole(function) => how.run(function, grid, (params, epilogue.arg())),
            Bound::Split(function, workspace) => {
                let mut reserved = workspace.reserve(&config, tiles, grid)?;
                let split = SplitParams::arg(&config, reserved.buffers());
                let launched = how.run(function, grid, (params, epilogue.arg(), split));
                reserved.end(launched)
            }
        }
    }
}

/// The number of tiles of a size.
#[inline]
pub(super) fn count(size: Val<'_, i32>, tile: u32) -> Val<'_, i32> {
    (size + (tile - 1)) / tile
}

/// The columns of D for some of A B, from the first one on: pairs of them are one.
#[inline]
pub(super) fn of_d<'b>(config: &GemmConfig, columns: Val<'b, i32>) -> Val<'b, i32> {
    if config.pairs { columns / config.sums() } else { columns }
}

/// The matrix of a tile, and its pitch.
pub(super) fn matrix<'b, T: Element>(
    from: Val<'b, Global<T>>,
    [pitch, next]: [Val<'b, i64>; 2],
    tile: Tile<'b>,
) -> (Val<'b, Global<T>>, Val<'b, i64>) {
    (from.offset(tile.batch.cvt::<i64>() * next), pitch)
}
