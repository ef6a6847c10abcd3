//! The device code of a GEMM with few rows.
//!
//! The weights are the A operand of `mma.sync`, so 16 columns of D by 8 rows are one accumulator
//! tile: few rows waste little. A thread copies with `cp.async` exactly the weights and scales that
//! it multiplies itself, so its ring buffer needs no barrier, and as many bytes are in flight as it
//! has stages. Only the rows of A, which all warps read, take a barrier per slab.

use crate::ir::builder::{Arithmetic, FromInt4, Fused, Role, VectorElement};
use crate::ir::op::{BarrierForm, ClusterArrival, CpAsyncCache};
use crate::ir::types::Scalar;
use crate::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Kernel, KernelOptions, Registers, Shared,
    Untyped, Val, Vector, WARP, bf16, f16, range,
};

use super::super::arrival::is_last_to_arrive;
use super::config::{Exchange, LANE_BYTES, LaunchStart, SmallGemmConfig, TILE};
use super::weights::{Int4Group, WeightFormat};

/// The type of the elements of A and D, and of scales, in the kernel's body.
type X = Role<0>;

crate::params! {
    /// The kernel's parameters.
    pub(super) struct Params<T: VectorElement<2>> => ParamsAt<'b, T> {
        pub(super) a: Global<T>,
        pub(super) weights: Global<u32>,
        pub(super) scales: Global<T>,
        pub(super) d: GlobalMut<T>,
        pub(super) rows: i32,
        pub(super) columns: i32,
        pub(super) depth: i32,
        /// Added to all rows; a launch without it has 0 columns of it.
        pub(super) bias: Global<T>,
        pub(super) bias_columns: i32,
        /// Added last, like D; a launch without it has 0 rows of it.
        pub(super) residual: Global<T>,
        pub(super) residual_rows: i32,
        /// The sums of blocks that share columns of D, and how many of these blocks have arrived.
        pub(super) partials: GlobalMut<f32>,
        pub(super) arrivals: GlobalMut<u32>,
    }
}

/// Words of weights that a warp loads per tile and step.
const STEP_WORDS: u32 = LANE_BYTES / 4 * 32;
/// Loads of 16 bytes per lane, tile and step.
const PIECES: u32 = LANE_BYTES / 16;

/// A tile of 16 columns, as one warp sees it.
#[derive(Clone, Copy)]
struct Tile<'b> {
    /// The lane's first word of weights and first scale.
    weights: Val<'b, Global<u32>>,
    scales: Val<'b, Global<X>>,
    /// The words with scales and zero points of the columns, if they have one for all of K.
    of_column: Option<Scales<'b>>,
}

/// The scales of columns `g` and `g + 8` of a tile, and their zero points, two elements per word.
#[derive(Clone, Copy)]
struct Scales<'b> {
    scales: Val<'b, u32>,
    zeros: Option<Val<'b, u32>>,
}

/// What the threads of a block share, and where the thread is in it.
struct Block<'b> {
    config: SmallGemmConfig,
    p: ParamsAt<'b, X>,
    thread: Val<'b, i32>,
    /// The warp's index along N and along K.
    along_n: Val<'b, i32>,
    along_k: Val<'b, i32>,
    /// Slabs of this block, and the steps of all blocks up to its last one.
    first: Val<'b, i32>,
    end: Val<'b, i32>,
    limit: Val<'b, i32>,
    tiles: Vec<Tile<'b>>,
    /// Two slabs of rows of A, and the ring buffers of weights and of scales.
    activations: Val<'b, Shared<X>>,
    ring: Val<'b, Shared<u32>>,
    scales: Val<'b, Shared<X>>,
}

/// The accumulators of a tile: 16 columns of D by 8 rows each.
type Accumulators<'b> = Vec<Registers<'b, f32>>;

impl SmallGemmConfig {
    #[inline]
    pub(super) fn build(&self) -> Result<Kernel<Untyped>, BuildErrors> {
        let options = KernelOptions::default().block([self.threads(), 1, 1]);
        let options = options.min_blocks_per_sm(self.blocks_per_sm());
        let options = match self.exchange {
            Exchange::Cluster if self.splits > 1 => options.cluster([1, self.splits, 1]),
            _ => options,
        };
        let name = format!("small_gemm_{}_{self}", X::scalar());
        let kernel =
            Kernel::<(Params<X>,)>::build_with(options, &name, self.target, |k, (params,)| {
                let block = Block::new(k, *self, params);
                let sums = block.multiply(k);
                block.finish(k, &sums);
            })?;
        Ok(kernel.untyped())
    }
}

impl<'b> Block<'b> {
    #[inline]
    fn new(k: &mut Body<'b, '_>, config: SmallGemmConfig, p: ParamsAt<'b, X>) -> Self {
        let (thread, block, lane) = (k.thread_idx().x, k.block_idx(), k.lane_id());
        // After a shuffle, `ptxas` knows that the value is uniform in the warp.
        let warp = k.shfl_idx(WARP, thread / 32, 0);
        let (along_n, along_k) = (warp & (config.warps - 1), warp >> config.warps.ilog2());
        let ceil_div = |value: Val<'b, i32>, by: u32| (value + (by - 1)) / by;
        let steps = ceil_div(p.depth, config.weights.step());
        let slabs = ceil_div(steps, config.slab_steps());
        let each = ceil_div(slabs, config.splits);
        let first = block.y * each;
        let end = (first + each).min(slabs);
        let last_tile = ceil_div(p.columns, TILE) - 1;
        let lane_scales = config.weights.lane_scales();
        let tiles = (0..config.tiles()).map(|i| {
            // Tiles that do not exist read those of the last one, and are not stored.
            let tile = (block.x * config.warps + along_n) * config.tiles() + i;
            let tile = tile.min(last_tile);
            let weights = tile.mul_wide(steps * STEP_WORDS) + (lane * 4).cvt::<i64>();
            let of_lane = lane / 4 * lane_scales;
            let scales = tile.mul_wide(steps * (8 * lane_scales)) + of_lane.cvt::<i64>();
            let of_column = (lane_scales == 0).then(|| {
                let elements = config.weights.scale_elements();
                let at = (tile * 8 + lane / 4) * (elements / 2);
                let words = p.scales.ptr_cast::<u32>();
                let zeros = (elements == 4).then(|| words.load(at + 1));
                Scales { scales: words.load(at), zeros }
            });
            let (weights, scales) = (p.weights.offset(weights), p.scales.offset(scales));
            Tile { weights, scales, of_column }
        });
        Block {
            config,
            p,
            thread,
            along_n,
            along_k,
            first,
            end,
            limit: steps.min(end * config.slab_steps()),
            tiles: tiles.collect(),
            activations: k.shared_aligned(2 * config.activations(), 16),
            ring: k.shared_aligned(config.ring_words(), 16),
            scales: k.shared_aligned(config.ring_scales().max(8), 16),
        }
    }

    /// Returns the warp's first step in a slab.
    #[inline]
    fn base(&self, slab: Val<'b, i32>) -> Val<'b, i32> {
        slab * self.config.slab_steps() + self.along_k * self.config.steps
    }

    /// Returns the sums of the warp's part of K, for each of its tiles.
    #[inline]
    fn multiply(&self, k: &mut Body<'b, '_>) -> Vec<Accumulators<'b>> {
        let SmallGemmConfig { steps, stages, start, .. } = self.config;
        if start == LaunchStart::Early {
            k.griddepcontrol_launch_dependents();
        }
        let sums: Vec<_> = self.tiles.iter().map(|_| self.accumulators(k)).collect();
        let base = self.base(self.first);
        for ahead in 0..stages - 1 {
            self.copy_weights(k, base, ahead);
        }
        if start == LaunchStart::Early {
            // The previous launch may still write A, or read D.
            k.griddepcontrol_wait();
        }
        self.copy_rows(k, self.first, k.constant(0));
        // The first group has all of that, so that the weights need not wait for A.
        for _ in 0..stages - 1 {
            k.cp_async_commit_group();
        }
        let slabs = self.config.activations();
        k.for_(range(self.first, self.end), (), |k, slab, ()| {
            let base = self.base(slab);
            let odd = (slab - self.first) & 1;
            for step in 0..steps {
                k.cp_async_wait_group(stages - 2);
                if step == 0 {
                    // Now the slab is complete, and all threads have left the previous one.
                    k.barrier();
                    let next = slab + 1;
                    k.if_(next.lt(self.end), |k| self.copy_rows(k, next, (1 - odd) * slabs));
                }
                self.copy_weights(k, base, step + stages - 1);
                k.cp_async_commit_group();
                self.step(k, &sums, odd * slabs, step);
            }
        });
        for (tile, sums) in self.tiles.iter().zip(&sums) {
            if let Some(scales) = tile.of_column {
                scales.multiply(sums);
            }
        }
        sums
    }

    /// Makes a tile's accumulators and sets them to 0.
    #[inline]
    fn accumulators(&self, k: &Body<'b, '_>) -> Accumulators<'b> {
        let make = |_| {
            let registers = k.registers::<f32>(4);
            registers.fill(0.0);
            registers
        };
        (0..self.config.row_tiles()).map(make).collect()
    }

    /// Starts to copy the weights and scales of the step that is `ahead` steps after `base`.
    #[inline]
    fn copy_weights(&self, k: &Body<'b, '_>, base: Val<'b, i32>, ahead: u32) {
        let config = &self.config;
        let SmallGemmConfig { steps, stages, weights, .. } = *config;
        let more = ahead / steps * config.slab_steps() + ahead % steps;
        let exists = (base + more).lt(self.limit);
        let bytes = |bytes: u32| exists.select(k.constant(bytes), 0u32);
        let lane_scales = weights.lane_scales();
        for (tile, place) in self.tiles.iter().zip(self.places(ahead % stages)) {
            let from = tile.weights.offset(base * STEP_WORDS);
            for piece in 0..PIECES {
                let to = self.ring.offset(self.word(place, piece));
                let from = from.offset((more * STEP_WORDS + 128 * piece) as i32);
                k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, bytes(16));
            }
            let from = tile.scales.offset(base * (8 * lane_scales));
            for at in (0..lane_scales).step_by(8) {
                let size = 2 * (lane_scales - at).min(8);
                let cache = if size == 16 { CpAsyncCache::Cg } else { CpAsyncCache::Ca };
                let to = self.scales.offset((self.thread + place) * lane_scales + at);
                let from = from.offset((more * 8 * lane_scales + at) as i32);
                k.cp_async_zfill(to, from, cache, size, bytes(size));
            }
        }
    }

    /// Returns, for each tile, how many threads' parts are before a stage's in the ring buffers.
    fn places(&self, stage: u32) -> impl Iterator<Item = u32> {
        let (tiles, threads) = (self.config.tiles(), self.config.threads());
        (0..tiles).map(move |tile| (stage * tiles + tile) * threads)
    }

    /// Returns the thread's first word of a piece in the ring buffer.
    #[inline]
    fn word(&self, place: u32, piece: u32) -> Val<'b, i32> {
        self.thread * 4 + (place * PIECES + piece * self.config.threads()) * 4
    }

    /// Starts to copy a slab of the block's rows of A, with zeros where there are none.
    #[inline]
    fn copy_rows(&self, k: &mut Body<'b, '_>, slab: Val<'b, i32>, to: Val<'b, i32>) {
        let (config, p) = (&self.config, self.p);
        let (vectors, threads) = (config.slab() / 8, config.threads());
        let count = config.rows * vectors;
        let first = k.block_idx().z * config.rows;
        for more in (0..count).step_by(threads as usize) {
            let at = self.thread + more;
            let (row, column) = (at >> vectors.ilog2(), (at & (vectors - 1)) * 8);
            let (from_row, from_column) = (first + row, slab * config.slab() + column);
            let exists = from_row.lt(p.rows) & from_column.lt(p.depth);
            let bytes = exists.select(k.constant(16u32), 0u32);
            let from = p.a.offset(from_row * p.depth + from_column);
            let to = self.activations.offset(to + row * config.pitch() + column);
            let copy = |k: &mut Body<'_, '_>| {
                k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, bytes);
            };
            if more + threads <= count { copy(k) } else { k.if_(at.lt(count), copy) }
        }
    }

    /// Multiplies a step's weights by the rows of A in the slab that starts at element `slab`.
    #[inline]
    fn step(&self, k: &mut Body<'b, '_>, sums: &[Accumulators<'b>], slab: Val<'b, i32>, step: u32) {
        let config = &self.config;
        let WeightFormat::Int4 { group, .. } = config.weights;
        let lane = k.lane_id();
        let own = self.along_k * (config.steps * config.weights.step()) + lane % 4 * 8;
        let own = slab + own + step * config.weights.step();
        let rows = (0..config.row_tiles()).map(|tile| {
            // Rows that do not exist read others, and are not stored.
            let row = (lane / 4 + 8 * tile).min(config.rows - 1);
            self.activations.offset(own + row * config.pitch()).ptr_cast::<u32>()
        });
        let rows: Vec<_> = rows.collect();
        let mut tiles = Vec::new();
        for (tile, place) in self.tiles.iter().zip(self.places(step % config.stages)) {
            let pieces = (0..PIECES).map(|piece| {
                let words: Val<'_, Vector<u32, 4>> = self.ring.load_vector(self.word(place, piece));
                words.lanes()
            });
            let pieces: Vec<_> = pieces.collect();
            let scales = match tile.of_column {
                Some(scales) => vec![scales],
                None => self.load_scales(place),
            };
            tiles.push((pieces, scales));
        }
        let mut parts: Vec<Accumulators<'b>> = Vec::new();
        for half in 0..2 * PIECES {
            let (piece, word) = (half / 2, half % 2 * 2);
            let length = group.len(0);
            let has_groups = group != Int4Group::PerColumn;
            if has_groups && 32 * half % length == 0 {
                parts = sums.iter().map(|_| self.accumulators(k)).collect();
            }
            let operands = rows.iter().map(|row| {
                let words: Val<'_, Vector<u32, 4>> = row.load_vector(16 * half);
                let [a, b, c, d] = words.lanes();
                [[a, b], [c, d]].map(|pair| Val::pack(pair).bitcast::<Vector<X, 4>>())
            });
            let operands: Vec<_> = operands.collect();
            for (at, (pieces, scales)) in tiles.iter().enumerate() {
                let scales = &scales[if has_groups { 32 * half / length } else { 0 } as usize];
                for (more, word) in [word, word + 1].into_iter().enumerate() {
                    let weights = scales.unpack(pieces[piece as usize][word as usize]);
                    for (tile, operands) in operands.iter().enumerate() {
                        let sums = if has_groups { parts[at][tile] } else { sums[at][tile] };
                        k.mma_sync(&sums, weights, operands[more]);
                    }
                }
                if has_groups && (32 * (half + 1)).is_multiple_of(length) {
                    scales.add(&sums[at], &parts[at]);
                }
            }
        }
    }

    /// Loads the scales of a tile's step from the ring buffer, one pair of columns per group.
    #[inline]
    fn load_scales(&self, place: u32) -> Vec<Scales<'b>> {
        let weights = self.config.weights;
        let words = weights.lane_scales() / 2;
        let from = self.scales.ptr_cast::<u32>();
        let at = (self.thread + place) * words;
        let vectors = (0..words)
            .step_by(4)
            .filter_map(|more| from.load_any(at + more, (words - more).min(4))?.values::<u32>());
        let words: Vec<_> = vectors.flatten().collect();
        let pairs = words.chunks(weights.scale_elements() as usize / 2);
        pairs.map(|pair| Scales { scales: pair[0], zeros: pair.get(1).copied() }).collect()
    }

    /// Adds up the sums of the block's warps, then those of other blocks, and stores D.
    #[inline]
    fn finish(&self, k: &mut Body<'b, '_>, sums: &[Accumulators<'b>]) {
        let SmallGemmConfig { rows, splits, exchange, .. } = self.config;
        let (count, threads) = (rows * self.config.block_columns(), self.config.threads());
        self.share(k, sums);
        let own = range(self.thread, count).step(threads);
        match exchange {
            _ if splits == 1 => k.for_(own, (), |k, at, ()| {
                let sum = self.of_warps(at);
                self.store(k, at, sum);
            }),
            Exchange::Cluster => {
                k.for_(own, (), |_, at, ()| {
                    let sum = self.of_warps(at);
                    self.sums().store(self.place(at), sum);
                });
                self.cluster_barrier(k);
                let first = k.block_idx().y * threads + self.thread;
                k.for_(range(first, count).step(threads * splits), (), |k, at, ()| {
                    let (sums, place) = (self.sums(), self.place(at));
                    let sum = added(splits, |block| sums.mapa(block).load(place));
                    self.store(k, at, sum);
                });
                // No block may end while others read its sums.
                self.cluster_barrier(k);
            }
            Exchange::Workspace => {
                let (block, grid) = (k.block_idx(), k.grid_dim());
                let tile = block.z * grid.x + block.x;
                let partials = self.p.partials.offset(tile.mul_wide(splits * count));
                k.for_(own, (), |_, at, ()| {
                    let sum = self.of_warps(at);
                    partials.store(block.y * count + at, sum);
                });
                let barrier = k.named_barrier(1, threads).aligned();
                let (arrivals, leader) = (self.p.arrivals.offset(tile), self.thread.eq(0));
                let blocks = k.constant(splits as i32);
                let is_last = is_last_to_arrive(k, arrivals, blocks, (barrier, leader));
                k.if_(is_last, |k| {
                    k.for_(own, (), |k, at, ()| {
                        let sum = added(splits, |part| partials.load(at + part * count));
                        self.store(k, at, sum);
                    });
                });
            }
        }
    }

    /// Stores the warp's sums to shared memory, for all threads of the block.
    #[inline]
    fn share(&self, k: &mut Body<'b, '_>, sums: &[Accumulators<'b>]) {
        let config = &self.config;
        // They take the ring buffer's memory.
        k.cp_async_wait_all();
        k.barrier();
        let (shared, lane) = (self.sums(), k.lane_id());
        for (tile, sums) in (0..).zip(sums) {
            let column = (self.along_n * config.tiles() + tile) * TILE + lane / 4;
            for (row_tile, sums) in (0..).zip(sums) {
                for second in 0..2 {
                    let row = lane % 4 * 2 + (8 * row_tile + second);
                    let at = (self.along_k * config.rows + row) * config.sum_pitch() + column;
                    let store = |_: &mut Body<'_, '_>| {
                        shared.store(at, sums.get(second));
                        shared.store(at + 8, sums.get(second + 2));
                    };
                    if config.rows >= 8 { store(k) } else { k.if_(row.lt(config.rows), store) }
                }
            }
        }
        k.barrier();
    }

    /// Returns the sums of all warps in shared memory.
    fn sums(&self) -> Val<'b, Shared<f32>> {
        self.ring.ptr_cast()
    }

    /// Returns where the sums of the block's element `at` are; the elements count along rows of D.
    fn place(&self, at: Val<'b, i32>) -> Val<'b, i32> {
        let columns = self.config.block_columns();
        (at >> columns.ilog2()) * self.config.sum_pitch() + (at & (columns - 1))
    }

    /// Returns the sum of the warps along K for the block's element `at`.
    #[inline]
    fn of_warps(&self, at: Val<'b, i32>) -> Val<'b, f32> {
        let (sums, place) = (self.sums(), self.place(at));
        let of_warp = self.config.rows * self.config.sum_pitch();
        added(self.config.depth_warps, |warp| sums.load(place + warp * of_warp))
    }

    #[inline]
    fn cluster_barrier(&self, k: &Body<'b, '_>) {
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
        k.barrier_cluster_wait(BarrierForm::Aligned);
    }

    /// Stores the block's element `at` of D.
    #[inline]
    fn store(&self, k: &mut Body<'b, '_>, at: Val<'b, i32>, sum: Val<'b, f32>) {
        let (p, block, columns) = (self.p, k.block_idx(), self.config.block_columns());
        let row = block.z * self.config.rows + (at >> columns.ilog2());
        let column = block.x * columns + (at & (columns - 1));
        k.if_(row.lt(p.rows) & column.lt(p.columns), |k| {
            let at = row * p.columns + column;
            let bias =
                k.if_with(column.lt(p.bias_columns), 0.0, |_| p.bias.load(column).cvt::<f32>());
            let residual =
                k.if_with(row.lt(p.residual_rows), 0.0, |_| p.residual.load(at).cvt::<f32>());
            let sum = sum + bias;
            let sum = self.config.activation.map_or(sum, |activation| activation.apply(sum));
            p.d.store(at, (sum + residual).cvt::<X>());
        });
    }
}

impl<'b> Scales<'b> {
    /// Returns a word's weights without their scales, as an A operand of `mma.sync`.
    #[inline]
    fn unpack(&self, word: Val<'b, u32>) -> Val<'b, Vector<X, 8>> {
        match X::scalar() {
            Scalar::F16 => self.unpack_to::<f16>(word),
            _ => self.unpack_to::<bf16>(word),
        }
    }

    #[inline]
    fn unpack_to<T: FromInt4>(&self, word: Val<'b, u32>) -> Val<'b, Vector<X, 8>>
    where
        Vector<T, 2>: Arithmetic + Fused,
    {
        let pairs = match self.zeros {
            None => word.unpack_i4::<T>(),
            Some(zeros) => {
                let [low, high] = zeros.bitcast::<Vector<T, 2>>().lanes().map(Val::splat);
                word.unpack_u4_minus::<T>([low, high, low, high])
            }
        };
        Val::pack(pairs.map(|pair| pair.bitcast::<u32>())).bitcast()
    }

    /// Adds `scale * part` to the sums.
    #[inline]
    fn add(&self, sums: &[Registers<'b, f32>], parts: &[Registers<'b, f32>]) {
        let [low, high] = self.factors();
        for (sums, parts) in sums.iter().zip(parts) {
            for (i, scale) in [(0, low), (1, low), (2, high), (3, high)] {
                sums.set(i, parts.get(i).fma(scale, sums.get(i)));
            }
        }
    }

    /// Multiplies sums by the scales.
    #[inline]
    fn multiply(&self, sums: &[Registers<'b, f32>]) {
        let [low, high] = self.factors();
        for sums in sums {
            for (i, scale) in [(0, low), (1, low), (2, high), (3, high)] {
                sums.set(i, sums.get(i) * scale);
            }
        }
    }

    /// Returns the scales of columns `g` and `g + 8`.
    #[inline]
    fn factors(&self) -> [Val<'b, f32>; 2] {
        self.scales.bitcast::<Vector<X, 2>>().lanes().map(|scale| scale.cvt())
    }
}

/// Adds up `count` values. All are loaded before the first addition.
#[inline]
fn added<'b>(count: u32, load: impl Fn(u32) -> Val<'b, f32>) -> Val<'b, f32> {
    let first = load(0);
    let others: Vec<_> = (1..count).map(load).collect();
    others.into_iter().fold(first, |sum, other| sum + other)
}
