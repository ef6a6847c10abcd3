//! [`WgmmaMainloop`]: the main loop of a consumer warp group in a warp-specialised GEMM. It waits
//! for the stages that a TMA producer fills, multiplies them with `wgmma`, and releases them. Use
//! it in the consumer role of an `sm_90` kernel.

use crate::ir::builder::{Accumulator, IntoVal, IntoValues, Values};
use crate::ir::op::ProxySpace;
use crate::ir::{Body, Element, NamedBarrier, Val, range};
use crate::layout::{LayoutError, tiler};

use super::smem_operand::SmemOperand;
use crate::tensor::atom::tiled_mma::TiledMma;
use crate::tensor::atom::{MmaOp, ValType, Wgmma};
use crate::tensor::copy::clear::cooperative_clear;
use crate::tensor::pipeline::roles::WarpRole;
use crate::tensor::pipeline::tma::{PipelineState, TmaPipeline};
use crate::tensor::view::tensor::{RegisterTensor, SharedTensor};

/// A consumer warp group's main loop: CUTLASS's collective main loop for `sm_90`.
///
/// For each stage it waits for the full barrier and starts the stage's `wgmma`. Then it waits for
/// the previous stage's `wgmma`, and the group's first thread releases that stage to the producer.
/// So one stage's MMAs are always in flight, and the consumer holds up to two stages.
///
/// ```
/// use tilewright::ir::{Kernel, Target, bf16};
/// use tilewright::layout::{layout, shape, tiler};
/// use tilewright::arch::Major;
/// use tilewright::tensor::atom::{
///     MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
/// };
/// use tilewright::tensor::mma::WgmmaMainloop;
/// use tilewright::tensor::pipeline::TmaPipeline;
/// use tilewright::tensor::view::SharedTensor;
///
/// let op = Wgmma::new(64, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
/// let mma = TiledMma::new(MmaAtom::new(op)?, &layout!((1, 1, 1)), tiler!(_, _, _))?;
/// let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
/// let ring = rows.tile_to_shape(&shape!(64, 64, 3), None)?;
/// let kernel = Kernel::<(i32,)>::build("k", Target::SM_90A, |k, (steps,)| {
///     let x = SharedTensor::<bf16>::shared_aligned(k, ring.clone(), 1024);
///     let pipe = TmaPipeline::new(k, 3, 8192, 1);
///     let products = WgmmaMainloop::new(k, &mma, pipe, k.thread_idx().x, &x, &x);
///     let accumulators = mma.slice(k.thread_idx().x).fragment_c::<f32>(k, shape!(64, 64));
///     let state = products.run(&accumulators, pipe.consumer(), steps);
///     products.finish(state);
/// })?;
/// let text = kernel.ptx();
/// assert_eq!(text.text().matches("wgmma.mma_async").count(), 4);
/// assert_eq!(text.text().matches("wgmma.wait_group.sync.aligned 1;").count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct WgmmaMainloop<'m, 'b> {
    mma: &'m TiledMma,
    pipe: TmaPipeline<'b>,
    a: SmemOperand<'b>,
    b: SmemOperand<'b>,
    leader: Val<'b, bool>,
    promoted: bool,
}

/// The state after some stages, and other values.
type StateAnd<'b, V> = (PipelineState<'b>, <V as Values>::At<'b>);

impl<'m, 'b> WgmmaMainloop<'m, 'b> {
    /// Makes the main loop of `mma`'s thread `thread` over ring buffers (M, K, stage) and (N, K,
    /// stage) that `pipe` fills. Make it once, before the loop over tiles.
    #[track_caller]
    pub fn new<A: Element, B: Element>(
        k: &Body<'b, '_>,
        mma: &'m TiledMma,
        pipe: TmaPipeline<'b>,
        thread: Val<'b, i32>,
        a: &SharedTensor<'b, A>,
        b: &SharedTensor<'b, B>,
    ) -> Self {
        let thr = mma.slice(thread);
        let a = SmemOperand::new(&thr.partition_a(a));
        let b = SmemOperand::new(&thr.partition_b(b));
        let leader = (k.thread_idx().x % WarpRole::THREADS).eq(0);
        WgmmaMainloop { mma, pipe, a, b, leader, promoted: false }
    }

    /// Adds each stage's products to the accumulators with separate FP32 additions: CUTLASS's
    /// two-level accumulation. Use it for 8-bit floats, which tensor cores accumulate with only
    /// about 14 bits.
    #[must_use]
    pub fn promoted(self, promoted: bool) -> Self {
        WgmmaMainloop { promoted, ..self }
    }

    /// Writes zeros to the rows from `first` on in all stages of a ring buffer (M, K, stage) of A.
    /// Use it if tiles have fewer rows than an instruction and copies bring only the first ones.
    ///
    /// All threads of the consumer warp group must call it before the first MMA; they meet at
    /// `barrier`. `thread` is the index in the group. Rows are cleared in groups of 16 and must be
    /// contiguous along K.
    #[track_caller]
    pub fn clear_rows<A: Element>(
        k: &Body<'b, '_>,
        ring: &SharedTensor<'b, A>,
        first: u32,
        thread: Val<'b, i32>,
        barrier: NamedBarrier<'b>,
    ) {
        let extents = || -> Result<[i64; 3], LayoutError> {
            let extent = |mode: usize| ring.layout().get(&[mode])?.size()?.to_static();
            Ok([extent(0)?, extent(1)?, extent(2)?])
        };
        let [rows, depth, stages] = match extents() {
            Ok(extents) => extents,
            Err(error) => return ring.failed(k, "clear_rows", error),
        };
        let first = i64::from(first);
        if first >= rows {
            return;
        }
        if first % 16 != 0 || rows % 16 != 0 {
            let error = LayoutError::NotDivisible { value: first.into(), by: 16.into() };
            return ring.failed(k, "clear_rows", error);
        }
        for block in first / 16..rows / 16 {
            let rows = ring.local_tile(&tiler!(16, depth, stages), (block, 0, 0));
            cooperative_clear(&rows, thread, WarpRole::THREADS);
        }
        k.fence_proxy_async(ProxySpace::SharedCta);
        barrier.sync();
    }

    /// Returns whether this is the warp group's first thread, which releases stages. Use it to
    /// elect a thread for other work of the group.
    pub fn leader(&self) -> Val<'b, bool> {
        self.leader
    }

    /// Waits for a stage and starts its `wgmma`: `acc += A B`, or `acc = A B` unless `accumulate`.
    /// Call it if you write the main loop yourself; [`run`](WgmmaMainloop::run) is the whole loop.
    #[track_caller]
    pub fn start<D: Accumulator>(
        &self,
        acc: &RegisterTensor<'b, D>,
        state: PipelineState<'b>,
        accumulate: impl IntoVal<'b, bool>,
    ) {
        let k = &self.leader.body();
        self.pipe.wait(state);
        k.wgmma_fence();
        let (a, b) = (self.a.stage(state.stage), self.b.stage(state.stage));
        self.mma.gemm_async(acc, &a, &b, accumulate);
        k.wgmma_commit_group();
    }

    /// Waits for the `wgmma` of the stage before `state`, and releases that stage if `is_there` is
    /// true. Pass false in a main loop's first step, which has no previous stage. Call it after
    /// [`start`](WgmmaMainloop::start), so that one stage's MMAs stay in flight.
    #[track_caller]
    pub fn release_previous(&self, state: PipelineState<'b>, is_there: impl IntoVal<'b, bool>) {
        let k = &mut self.leader.body();
        k.wgmma_wait_group(1);
        let elected = self.leader & k.value::<bool>(is_there);
        k.if_(elected, |_| self.pipe.release(state.previous()));
    }

    /// Computes `acc = A B` over `steps` stages, at least one, without waiting for the last one.
    /// Returns the state after it. Call [`finish`](WgmmaMainloop::finish) before you read `acc`.
    #[track_caller]
    pub fn run<D: Accumulator>(
        &self,
        acc: &RegisterTensor<'_, D>,
        state: PipelineState<'b>,
        steps: Val<'b, i32>,
    ) -> PipelineState<'b> {
        let k = &mut self.leader.body();
        let start = (state, k.constant(0));
        let (state, _) = k.do_while(start, |_, (state, step)| {
            let more = step.gt(0);
            self.start(acc, state, more);
            self.release_previous(state, more);
            let step = step + 1;
            ((state.next(), step), step.lt(steps))
        });
        state
    }

    /// Computes `acc = A B` over `steps` stages, at least one, and waits for all of them. `started`
    /// runs once the last stage's `wgmma` have started, so its work overlaps with them. Integer
    /// accumulators are returned bit-cast in `acc`.
    #[track_caller]
    pub fn multiply(
        &self,
        acc: &RegisterTensor<'_, f32>,
        state: PipelineState<'b>,
        steps: Val<'b, i32>,
        started: impl FnOnce(&mut Body<'b, '_>),
    ) -> PipelineState<'b> {
        let k = &mut self.leader.body();
        let _call = k.call();
        let k = &mut k.rescoped();
        let is_integer =
            matches!(self.mma.atom().op(), MmaOp::Wgmma(Wgmma { c: ValType::S32, .. }));
        let integers =
            is_integer.then(|| RegisterTensor::<i32>::registers(k, acc.layout().clone()));
        let state = match &integers {
            Some(integers) => self.run(integers, state, steps),
            None if self.promoted => self.run_promoted(k, acc, state, steps),
            None => self.run(acc, state, steps),
        };
        started(k);
        self.finish(state);
        integers.inspect(|integers| copy_bits(integers, acc));
        state
    }

    /// Like [`run`](WgmmaMainloop::run), with two-level accumulation.
    #[inline]
    fn run_promoted(
        &self,
        k: &mut Body<'b, '_>,
        acc: &RegisterTensor<'_, f32>,
        state: PipelineState<'b>,
        steps: Val<'b, i32>,
    ) -> PipelineState<'b> {
        let partial = RegisterTensor::<f32>::registers(k, acc.layout().clone());
        acc.fill(0.0);
        let start = (state, k.constant(0));
        let (state, _) = k.do_while(start, |k, (state, step)| {
            self.start(&partial, state, false);
            k.wgmma_wait_group(0);
            let step = step + 1;
            let more = step.lt(steps);
            // `finish` releases the last stage.
            k.if_(self.leader & more, |_| self.pipe.release(state));
            let (acc, partial) = (acc.variables(), partial.variables());
            for i in 0..acc.len() {
                acc.set(i, acc.get(i) + partial.get(i));
            }
            ((state.next(), step), more)
        });
        state
    }

    /// Like [`run`](WgmmaMainloop::run), with other work during the first `parts` steps, for
    /// example the previous tile's epilogue. `work` gets the step's index. `steps` must be at least
    /// `parts`.
    #[track_caller]
    pub fn run_over(
        &self,
        acc: &RegisterTensor<'_, f32>,
        mut state: PipelineState<'b>,
        steps: Val<'b, i32>,
        parts: u32,
        mut work: impl FnMut(&mut Body<'b, '_>, u32),
    ) -> PipelineState<'b> {
        let k = &mut self.leader.body();
        for part in 0..parts {
            self.start(acc, state, part > 0);
            work(k, part);
            if part == 0 {
                k.wgmma_wait_group(1);
            } else {
                self.release_previous(state, true);
            }
            state = state.next();
        }
        k.for_(range(k.value(parts), steps), state, |_, _, state| {
            self.start(acc, state, true);
            self.release_previous(state, true);
            state.next()
        })
    }

    /// Runs `body`, which multiplies `steps` stages, and returns the state and the other values
    /// that it yields. If `is_idle` is true, the warp group only waits for the stages and releases
    /// them, and the other values stay as they are. Use it for tiles in which one consumer has
    /// nothing to compute. If `is_idle` is `None`, `body` always runs.
    ///
    /// `barrier` synchronises the warp group, so that no stage is released and filled again while
    /// one of its warps still waits for it.
    #[track_caller]
    pub fn unless<I: IntoValues<'b>>(
        &self,
        is_idle: Option<Val<'b, bool>>,
        barrier: NamedBarrier<'b>,
        steps: Val<'b, i32>,
        state: PipelineState<'b>,
        others: I,
        body: impl for<'c> FnOnce(&mut Body<'c, 'b>) -> StateAnd<'c, I::V>,
    ) -> StateAnd<'b, I::V> {
        let k = &mut self.leader.body();
        let _call = k.call();
        let k: &mut Body<'b, '_> = &mut k.rescoped();
        let Some(is_idle) = is_idle else { return body(&mut k.rescoped()) };
        let skipped = is_idle.select(steps, 0);
        let state = k.for_(range(k.constant(0), skipped), state, |k, _, state| {
            self.pipe.wait(state);
            barrier.sync();
            k.if_(self.leader, |_| self.pipe.release(state));
            state.next()
        });
        k.if_with(!is_idle, (state, others), body)
    }

    /// Waits for all `wgmma` and releases the last stage, which is the one before `state`. After
    /// that you can read `acc`.
    #[track_caller]
    #[inline]
    pub fn finish(&self, state: PipelineState<'b>) {
        let k = &mut self.leader.body();
        k.wgmma_wait_group(0);
        k.if_(self.leader, |_| self.pipe.release(state.previous()));
    }
}

/// Bit-casts integer accumulators, because GEMM kernels keep all 32-bit accumulators as `f32`.
#[track_caller]
pub(crate) fn copy_bits<S: Element>(from: &RegisterTensor<'_, i32>, to: &RegisterTensor<'_, S>) {
    let (from, to) = (from.variables(), to.variables());
    for i in 0..from.len() {
        to.set(i, from.get(i).bitcast());
    }
}
