//! The attention kernel with `mma.sync`, for `sm_80` and newer targets, as in FlashAttention-2 (Dao
//! 2023). It runs wherever `wgmma` does not.
//!
//! A block computes one tile of queries. It loops over the tiles of keys that these queries see,
//! from the last to the first. All threads prefetch tiles of K and V with `cp.async` into ring
//! buffers, some steps ahead. In each step a warp computes `S = Q Kᵀ`, masks S, updates its online
//! softmax, rescales O, and adds `P V`; one barrier per step keeps a stage from being refilled
//! while a warp still reads it. Each warp has whole rows of scores, so a softmax never needs
//! another warp. At the end, the block stores O and the LSE.

use crate::arch::Major;
use crate::ir::{Body, Element, Kernel, KernelOptions, Untyped, Val, range};
use crate::layout::{ComposedLayout, layout, shape, tiler};
use crate::tensor::atom::{MmaAtom, MmaSync, Operand, TiledMma, ValType};
use crate::tensor::copy::{AsyncTile, MatrixLoad, ThrAsyncTile};
use crate::tensor::mma::{AccumulatorOperand, AccumulatorRows, OnlineSoftmax};
use crate::tensor::pipeline::CpAsyncPipeline;
use crate::tensor::view::SharedTensor;

use super::config::AttentionConfig;
use super::error::AttentionError;
use super::item::{Item, Own, ScoreTile, offset_of};
use super::plan::{ByThreads, OperandsAt, ParamsAt, SequencesAt, X, val_type};

/// Alignment of swizzled tiles, in bytes.
const ALIGN: u32 = 1024;
/// Elements along K per MMA instruction.
const DEPTH: u32 = 16;

/// Everything about the kernel that the host computes before it builds the kernel.
struct Plan {
    config: AttentionConfig,
    /// The tiled MMA, for both S and O.
    mma: TiledMma,
    /// The copies of tiles of Q, (query, dimension), and of K and V, (dimension, key).
    tiles: [AsyncTile; 3],
    rings: [ComposedLayout; 3],
    loads: [MatrixLoad; 3],
    powers: AccumulatorOperand,
    score_rows: AccumulatorRows,
    output_rows: AccumulatorRows,
    /// How far the copies of K and V run ahead of the MMAs.
    pipe: CpAsyncPipeline,
}

/// Builds the kernel of a configuration with `warps` warps.
#[inline]
pub(super) fn build(
    config: &AttentionConfig,
    warps: u32,
) -> Result<Kernel<Untyped>, AttentionError> {
    config.check()?;
    let AttentionConfig { head_dim, value_dim, tile: [rows, columns], stages, .. } = *config;
    let ty = val_type()?;
    let atom = MmaAtom::new(MmaSync::new([16, 8, DEPTH], ty, ty, ValType::F32))?;
    let mma = TiledMma::new(atom, &layout!((warps, 1, 1)), tiler!(_, 16, _))?;
    let tile = |major, shape| AsyncTile::of_shape(X::scalar(), major, shape, config.threads());
    let tiles = [
        tile(Major::K, [rows, head_dim])?,
        tile(Major::Mn, [head_dim, columns])?,
        tile(Major::Mn, [value_dim, columns])?,
    ];
    let plan = Plan {
        config: *config,
        rings: [tiles[0].layout(1)?, tiles[1].layout(stages)?, tiles[2].layout(stages)?],
        tiles,
        loads: [
            MatrixLoad::new(&mma, Operand::A, Major::K, rows)?,
            MatrixLoad::new(&mma, Operand::B, Major::K, columns)?,
            MatrixLoad::new(&mma, Operand::B, Major::Mn, value_dim)?,
        ],
        powers: AccumulatorOperand::new(&mma, &mma, [rows, columns])?,
        score_rows: AccumulatorRows::new(&mma, [rows, columns])?,
        output_rows: AccumulatorRows::new(&mma, [rows, value_dim])?,
        pipe: CpAsyncPipeline::new(stages, 1)?,
        mma,
    };
    let options = KernelOptions::default().block([config.threads(), 1, 1]);
    let (options, name) = (options.min_blocks_per_sm(8 / warps), format!("attention_{config}"));
    let kernel = Kernel::<ByThreads<X>>::build_with(
        options,
        &name,
        config.target,
        |k, (operands, to, args)| match rows / warps {
            16 => plan.body::<1>(k, &operands, &to, &args),
            _ => plan.body::<2>(k, &operands, &to, &args),
        },
    )?;
    Ok(kernel.untyped())
}

impl Plan {
    /// Emits the kernel. Each warp has `N` times 16 rows, with a softmax state for each 16.
    #[inline]
    fn body<'a, const N: usize>(
        &self,
        k: &mut Body<'a, '_>,
        operands: &OperandsAt<'a, X>,
        to: &SequencesAt<'a, X>,
        args: &ParamsAt<'a>,
    ) {
        let Plan { config, mma, pipe, .. } = self;
        let AttentionConfig { head_dim, value_dim, tile: [rows, columns], .. } = *config;
        let (thread, zero) = (k.thread_idx().x, k.constant(0));
        let block = k.block_idx().x.assume_between(0, args.row_tiles * args.all_heads - 1);
        let item = Item::decode(k, config, args, config.varlen.then_some(to), block);
        let [head, key_head, batch] = item.heads(config, args);
        // Row `r` of a tile is query `r / heads` of head `r % heads` in the tile.
        let heads = config.packed_heads;
        // A thread's parts of the copies, and of the loads of operands.
        let [strides_q, strides_k, strides_v] = operands.strides;
        let first = item.key(zero);
        let q = operands.q.offset(offset_of(strides_q, [item.query(zero), head, batch]));
        let keys = operands.k.offset(offset_of(strides_k, [first, key_head, batch]));
        let values = operands.v.offset(offset_of(strides_v, [first, key_head, batch]));
        let [sq, sk, sv] = [0, 1, 2].map(|operand| {
            SharedTensor::<X>::shared_aligned(k, self.rings[operand].clone(), ALIGN)
        });
        let (dim, value) = (k.value::<i32>(head_dim), k.value::<i32>(value_dim));
        let [of_q, of_k, of_v] = &self.tiles;
        let row_q = |row| offset_of(strides_q, [row / heads, row % heads, zero]);
        let limits = [item.queries * heads, dim];
        let copy_q = of_q.slice_rows(k, q, row_q, item.row * heads, limits, &sq);
        let copy_k = of_k.slice(k, keys, strides_k[0], zero, [dim, item.keys], &sk);
        let copy_v = of_v.slice(k, values, strides_v[0], zero, [value, item.keys], &sv);
        let [load_q, load_k, load_v] = &self.loads;
        // S = Q Kᵀ sums over the dimension, so K is (key, dimension) here.
        let keys_first = sk.select(&[1, 0, 2]);
        let from_q = load_q.ring(thread, &sq);
        let from_k = load_k.ring(thread, &keys_first);
        let from_v = load_v.ring(thread, &sv);
        let thr = mma.slice(thread);
        let a = thr.fragment_words(k, Operand::A, shape!(rows, DEPTH));
        let b = thr.fragment_words(k, Operand::B, shape!(columns, DEPTH));
        let v = thr.fragment_words(k, Operand::B, shape!(value_dim, DEPTH));
        let scores = thr.fragment_c::<f32>(k, shape!(rows, columns));
        let powers = self.powers.fragment(k, mma);
        let output = thr.fragment_c::<f32>(k, shape!(rows, value_dim));
        output.fill(0.0);
        // Steps go from the last tile of keys to the first. Tiles beyond the last step are not
        // fetched.
        pipe.fill(k, |k, step, stage| {
            if step == 0 {
                copy_q.start(zero, zero);
            }
            let step = k.value(step);
            fetch(k, &copy_k, item, columns, step, stage);
            fetch(k, &copy_v, item, columns, step, stage);
        });
        let start = ([OnlineSoftmax::new(k); N], pipe.start(k));
        let (softmax, _) = k.for_(range(0, item.steps), start, |k, step, (mut softmax, state)| {
            // All warps have left the stage by now.
            let ahead = step + pipe.ahead();
            fetch(k, &copy_k, item, columns, ahead, state.write);
            scores.fill(0.0);
            let from_k = from_k.stage(state.read);
            for step in 0..head_dim / DEPTH {
                from_q.load(step, &a);
                from_k.load(step, &b);
                mma.gemm_sync(&scores, &a, &b);
            }
            let tile = ScoreTile {
                mma,
                rows: &self.score_rows,
                thread,
                scores: &scores,
                first_query: item.row,
                queries: config.queries_of_tile(),
                first_key: (item.last - step) * columns,
            };
            item.mask(k, config, args, &tile);
            for (n, state) in softmax.iter_mut().enumerate() {
                let [of_scores, of_output] =
                    [&self.score_rows, &self.output_rows].map(|rows| rows.part([2 * n, 2 * n + 2]));
                let maxima = state.maxima(&of_scores, &scores, args.scale, config.lazy);
                let (next, factors) = state.update_to(&of_scores, &scores, args.scale, maxima);
                OnlineSoftmax::rescale(&of_output, &output, factors, config.lazy);
                *state = next;
            }
            self.powers.convert::<X>(&scores, &powers);
            // At this point `ptxas` ends the softmax, which leaves registers for the operands of P
            // V.
            fetch(k, &copy_v, item, columns, ahead, state.write);
            let from_v = from_v.stage(state.read);
            for step in 0..columns / DEPTH {
                let powers = powers.slice((.., .., i64::from(step))).append_ones(3);
                from_v.load(step, &v);
                mma.gemm_sync(&output, &powers, &v);
            }
            pipe.commit(k);
            pipe.wait(k);
            (softmax, pipe.next(state))
        });
        let [row, column] = self.output_rows.origin(mma, thread);
        let own = Own { heads, first: item.row, head: item.head * heads, row, column };
        for (n, softmax) in softmax.into_iter().enumerate() {
            let [of_scores, of_output] =
                [&self.score_rows, &self.output_rows].map(|rows| rows.part([2 * n, 2 * n + 2]));
            let ends = softmax.finish(&of_scores, args.scale);
            OnlineSoftmax::rescale(&of_output, &output, ends.inverse, false);
            item.store_lse(k, args, own, &of_output, ends.lse);
        }
        item.store_rows(k, to, batch, Own { head, ..own }, &self.output_rows, &output);
    }
}

/// Fetches a step's tile of K or V to a stage, if there is such a step.
#[inline]
fn fetch<'b>(
    k: &mut Body<'b, '_>,
    copy: &ThrAsyncTile<'b, X>,
    item: Item<'b>,
    columns: u32,
    step: Val<'b, i32>,
    stage: Val<'b, i32>,
) {
    k.if_(step.lt(item.steps), |_| copy.start(stage, (item.last - step) * columns));
}
