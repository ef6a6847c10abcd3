//! What the kernels without warp roles (`sm80` and `simt`) share: parameters, arguments, and how
//! they are built and launched. Come here to add a parameter to both.

use crate::ir::builder::{ParamList, Parameter};
use crate::ir::{Body, Element, Global, GlobalMut, Kernel, KernelOptions, Val};
use crate::runtime::{ArgList, Declared, Grid};
use crate::tensor::pipeline::Tile;

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::Schedule;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::config::{GemmConfig, SM_REGISTERS};
use crate::kernels::gemm::elements::{A, B, D};
use crate::kernels::gemm::epilogue::{EpilogueArgs, EpilogueForm, EpilogueMap, kept};
use crate::kernels::gemm::launch::loaded::{Loaded, Operands};
use crate::kernels::gemm::launch::mode::LaunchMode;
use crate::kernels::gemm::split::work_tiles::Splits;
use crate::kernels::gemm::split::{GemmWorkspace, SplitArgs, SplitParams, Threads, Workspace};

crate::params! {
    /// All parameters but the epilogue's: matrices with their row pitch and batch stride, and
    /// sizes.
    pub(crate) struct Params => ParamsAt<'b> {
        pub(crate) a: Global<A>,
        pub(crate) a_strides: [i64; 2],
        pub(crate) b: Global<B>,
        pub(crate) b_strides: [i64; 2],
        pub(crate) d: GlobalMut<D>,
        pub(crate) d_strides: [i64; 2],
        pub(crate) m: i32,
        pub(crate) n: i32,
        pub(crate) k: i32,
        pub(crate) batch: i32,
    }
}

/// The body of a kernel, which gets its parameters, its epilogue and its workspace.
pub(crate) type ThreadsBody = dyn for<'b> Fn(
    &mut Body<'b, 'b>,
    ParamsAt<'b>,
    &(dyn EpilogueMap<'b> + '_),
    Option<&SplitArgs<'b>>,
);

/// Builds the kernel with this body. `blocks` is how many thread blocks should share an SM.
#[inline]
pub(crate) fn build(
    config: &GemmConfig,
    form: &dyn EpilogueForm,
    blocks: u32,
    body: &ThreadsBody,
) -> Result<Kernel<Declared>, GemmError> {
    let options = KernelOptions::default().block([config.threads(), 1, 1]);
    let options = options.min_blocks_per_sm(blocks);
    let name = format!("{config}{}", form.suffix());
    let declare = |list: &mut ParamList| {
        list.param(0, Params::declare);
        list.param(1, |list| form.declare(list));
        if config.has_workspace() {
            list.param(2, SplitParams::declare);
        }
    };
    let kernel = Kernel::declared(options, &name, config.target, declare, |k, values| {
        let (cx, kept) = (k.context(), kept(k, form));
        let args = Params::make(cx, values);
        let epilogue = form.make(cx, values, kept);
        let split = config.has_workspace().then(|| SplitParams::make(cx, values));
        body(k, args, &*epilogue, split.as_ref());
    });
    Ok(kernel?)
}

impl GemmConfig {
    /// Returns how many blocks of a kernel without roles run on an SM with this much shared memory.
    #[inline]
    pub(crate) fn resident(&self, shared_bytes: u64) -> u32 {
        let by_shared = shared_bytes / self.shared_bytes().saturating_add(1024);
        // A thread needs about 64 registers besides its accumulators, and 128 if it tracks a
        // stream-K run while it holds two steps of operands.
        let follows = self.schedule == Schedule::Simt && self.splits == Splits::StreamK;
        let others = if follows { 128 } else { 64 };
        let registers = self.accumulators().saturating_add(others).min(255);
        let by_registers = SM_REGISTERS / registers.saturating_mul(self.threads()).max(1);
        let by_threads = 2048 / self.threads().max(1);
        (by_shared as u32).min(by_registers).min(by_threads).max(1)
    }
}

/// Returns the threads of a block, which together hold a tile's accumulators.
#[inline]
pub(crate) fn threads_of_block<'b>(k: &Body<'b, '_>, config: &GemmConfig) -> Threads<'b> {
    let count = config.threads();
    let barrier = k.named_barrier(1, count).aligned();
    Threads { group: k.constant(0), groups: 1, count, barrier }
}

/// A launch, ready to run.
pub(crate) struct ThreadsArgs<'h> {
    loaded: &'h Loaded,
    workspace: Workspace<'h>,
    config: &'h GemmConfig,
    operands: Operands<'h>,
    strides: [[i64; 2]; 3],
    sizes: [i32; 4],
    tiles: [u64; 3],
}

impl<'h> ThreadsArgs<'h> {
    /// Binds the buffers, and checks that A and B are aligned as the kernel needs.
    #[inline]
    pub(crate) fn new(
        loaded: &'h Loaded,
        config: &'h GemmConfig,
        operands: Operands<'h>,
        problem: &GemmProblem,
        strides: &GemmStrides,
        given: Option<&'h mut GemmWorkspace>,
    ) -> Result<Self, GemmError> {
        let alignment = config.alignment;
        let bytes = alignment.into();
        let Operands { a, b, .. } = &operands;
        let starts = [('A', a.is_aligned_to(bytes)), ('B', b.is_aligned_to(bytes))];
        if let Some((operand, _)) = starts.into_iter().find(|(_, aligned)| !aligned) {
            return Err(GemmError::Address { operand, alignment });
        }
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        Ok(ThreadsArgs {
            loaded,
            workspace: Workspace::new(loaded.workspace.as_ref(), given),
            config,
            operands,
            // Strides are below 2^40, and sizes below 2^31.
            strides: [strides.a, strides.b, strides.d].map(|both| both.map(|s| s as i64)),
            sizes: [m, n, k, batch].map(|size| size as i32),
            tiles: [rows, columns, batch.into()],
        })
    }

    #[inline]
    pub(crate) fn run(
        &mut self,
        mode: &mut LaunchMode<'_>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let (config, tiles, sizes) = (self.config, self.tiles, self.sizes);
        let [a_strides, b_strides, d_strides] = self.strides;
        let mut reserved = self.workspace.reserve(config, tiles, grid)?;
        // In the order of `Params`.
        let mut list = ArgList::default();
        list.buffer(self.operands.a);
        list.scalars(a_strides);
        list.buffer(self.operands.b);
        list.scalars(b_strides);
        list.buffer_mut(self.operands.d.reborrow());
        list.scalars(d_strides);
        list.scalars(sizes);
        epilogue.push(&mut list);
        reserved.push(config, &mut list);
        let launched = mode.run(&self.loaded.function, grid, list);
        reserved.end(launched)
    }
}

/// Returns how many tiles cover a size.
#[inline]
pub(crate) fn count(size: Val<'_, i32>, tile: u32) -> Val<'_, i32> {
    (size + (tile - 1)) / tile
}

/// Returns the columns of D for columns of A B, counted from the first. With `pairs`, two become
/// one.
#[inline]
pub(crate) fn of_d<'b>(config: &GemmConfig, columns: Val<'b, i32>) -> Val<'b, i32> {
    if config.pairs { columns / config.accumulators_per_element() } else { columns }
}

/// Returns a tile's matrix, and its pitch.
pub(crate) fn matrix<'b, T: Element>(
    from: Val<'b, Global<T>>,
    [pitch, next]: [Val<'b, i64>; 2],
    tile: Tile<'b>,
) -> (Val<'b, Global<T>>, Val<'b, i64>) {
    (from.offset(tile.batch.cvt::<i64>() * next), pitch)
}
