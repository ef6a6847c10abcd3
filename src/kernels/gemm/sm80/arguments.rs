//! What the kernels without warp roles (`sm80` and `simt`) share: their parameters, and how they
//! are built. `launch/threads.rs` passes their values.

use crate::ir::builder::{ParamList, Parameter};
use crate::ir::{Body, Element, Global, GlobalMut, Kernel, KernelOptions, Untyped, Val};
use crate::tensor::pipeline::Tile;

use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{Schedule, Splits};
use crate::kernels::gemm::config::{GemmConfig, SM_REGISTERS};
use crate::kernels::gemm::elements::{A, B, D};
use crate::kernels::gemm::epilogue::{EpilogueForm, EpilogueMap, kept};
use crate::kernels::gemm::split::{SplitArgs, SplitParams, Threads};

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
) -> Result<Kernel<Untyped>, GemmError> {
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

/// One matrix of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'b, T> {
    pub(crate) first: Val<'b, Global<T>>,
    pub(crate) pitch: Val<'b, i64>,
}

impl<'b, T: Element> Matrix<'b, T> {
    /// Returns the matrix that a tile of D needs. `next` is the distance between two matrices.
    pub(crate) fn of_tile(
        from: Val<'b, Global<T>>,
        [pitch, next]: [Val<'b, i64>; 2],
        tile: Tile<'b>,
    ) -> Self {
        Matrix { first: from.offset(tile.batch.cvt::<i64>() * next), pitch }
    }
}
