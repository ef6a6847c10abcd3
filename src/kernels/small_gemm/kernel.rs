//! The device code of a GEMM with few rows.
//!
//! The weights are the A operand of the MMAs, so 16 columns of D by 8 rows are one accumulator tile:
//! few rows waste little. A thread copies with `cp.async` exactly the weights and scales that it
//! multiplies itself, so its ring buffer needs no barrier, and as many bytes are in flight as it has
//! stages. Only the rows of A, which all warps read, take a barrier per slab.
//!
//! The order of a sum does not matter. So if the weights are a row-major matrix, lane `4 g + t`
//! loads 16 adjacent bytes of each 64 along K, for columns `g` and `g + 8`, and uses them as the
//! elements that an A operand has in its lane.

use crate::ir::builder::{Role, VectorElement};
use crate::ir::op::{CpAsyncCache, ProxySpace};
use crate::ir::{
    Body, BuildErrors, Element, Global, GlobalMut, Kernel, KernelOptions, Registers, Shared,
    Untyped, Val, WARP, range,
};

use super::config::{Exchange, LaunchStart, MmaKind, SmallGemmConfig, TILE};
use super::unpack::{Scales, StepWeights};

/// The type of the elements of A and D, and of scales, in the kernel's body.
pub(super) type X = Role<0>;
/// The type of the buffer with the weights.
type W = Role<1>;

crate::params! {
    /// The kernel's parameters, except for the weights.
    pub(super) struct Params<T: VectorElement<2>> => ParamsAt<'b, T> {
        pub(super) a: Global<T>,
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

/// The kernel's signature: the parameters and the weights.
pub(super) type Signature<T, W> = (Params<T>, Global<W>);

/// A tile of 16 columns, as one warp sees it.
#[derive(Clone, Copy)]
pub(super) struct Tile<'b> {
    /// The lane's first word of packed weights, or those of columns `g` and `g + 8`.
    weights: [Val<'b, Global<u32>>; 2],
    /// The lane's first scale.
    scales: Val<'b, Global<X>>,
    /// The words with scales and zero points of the columns, if they have one for all of K.
    pub(super) of_column: Option<Scales<'b>>,
}

/// What the threads of a block share, and where the thread is in it.
pub(super) struct Block<'b> {
    pub(super) config: SmallGemmConfig,
    pub(super) p: ParamsAt<'b, X>,
    pub(super) thread: Val<'b, i32>,
    /// The warp's index along N and along K.
    pub(super) along_n: Val<'b, i32>,
    pub(super) along_k: Val<'b, i32>,
    /// Slabs of this block.
    first: Val<'b, i32>,
    end: Val<'b, i32>,
    /// The end of this block's part of K in steps.
    end_step: Val<'b, i32>,
    /// The same; or in words that a copy from a row of weights may start at.
    limit: Val<'b, i32>,
    pub(super) tiles: Vec<Tile<'b>>,
    /// Two slabs of rows of A, and the ring buffers of weights and of scales.
    pub(super) activations: Val<'b, Shared<X>>,
    pub(super) ring: Val<'b, Shared<u32>>,
    scales: Val<'b, Shared<X>>,
}

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
        let kernel = Kernel::<Signature<X, W>>::build_with(
            options,
            &name,
            self.target,
            |k, (p, weights)| {
                let block = Block::new(k, *self, p, weights.ptr_cast());
                let sums = block.multiply(k);
                block.finish(k, &sums);
            },
        )?;
        Ok(kernel.untyped())
    }

    /// Returns the words of a row-major matrix's row that a step has.
    fn row_words(&self) -> u32 {
        self.weights.step() * self.weights.bits() / 32
    }
}

impl<'b> Block<'b> {
    #[inline]
    fn new(
        k: &mut Body<'b, '_>,
        config: SmallGemmConfig,
        p: ParamsAt<'b, X>,
        words: Val<'b, Global<u32>>,
    ) -> Self {
        let (thread, block, lane) = (k.thread_idx().x, k.block_idx(), k.lane_id());
        // After a shuffle, `ptxas` knows that the value is uniform in the warp.
        let warp = k.shfl_idx(WARP, thread / 32, 0);
        let (along_n, along_k) = (warp & (config.warps - 1), warp >> config.warps.ilog2());
        let ceil_div = |value: Val<'b, i32>, by: u32| (value + (by - 1)) / by;
        let format = config.weights;
        let steps = ceil_div(p.depth, format.step());
        let slabs = ceil_div(steps, config.slab_steps());
        let each = ceil_div(slabs, config.splits);
        let first = block.y * each;
        let end = (first + each).min(slabs);
        let last_tile = ceil_div(p.columns, TILE) - 1;
        let lane_scales = format.lane_scales();
        // A row's words, if the weights are a row-major matrix.
        let row_words = p.depth / (32 / format.bits());
        let tiles = (0..config.tiles()).map(|i| {
            // Tiles and columns that do not exist read the last one, and are not stored.
            let tile = (block.x * config.warps + along_n) * config.tiles() + i;
            let tile = tile.min(last_tile);
            let weights = [0, 8].map(|more| match format.is_packed() {
                true => {
                    let first = tile.mul_wide(steps * format.step_words());
                    words.offset(first + (lane * 4).cvt::<i64>())
                }
                false => {
                    let column = (tile * TILE + lane / 4 + more).min(p.columns - 1);
                    words.offset(column.mul_wide(row_words) + (lane % 4 * 4).cvt::<i64>())
                }
            });
            let of_lane = lane / 4 * lane_scales;
            let scales = tile.mul_wide(steps * (8 * lane_scales)) + of_lane.cvt::<i64>();
            let elements = format.scale_elements();
            let of_column = (lane_scales == 0 && elements > 0).then(|| {
                let at = (tile * 8 + lane / 4) * (elements / 2);
                let words = p.scales.ptr_cast::<u32>();
                let zeros = (elements == 4).then(|| words.load(at + 1));
                Scales { scales: words.load(at), zeros }
            });
            Tile { weights, scales: p.scales.offset(scales), of_column }
        });
        let end_step = steps.min(end * config.slab_steps());
        let limit = match format.is_packed() {
            true => end_step,
            // Lanes copy 4 words at a time, from multiples of 4 on: the last one must exist.
            false => row_words.min(end_step * config.row_words()) - 3,
        };
        let align = if config.mma == MmaKind::WarpGroup { 1024 } else { 16 };
        Block {
            config,
            p,
            thread,
            along_n,
            along_k,
            first,
            end,
            end_step,
            limit,
            tiles: tiles.collect(),
            activations: k.shared_aligned(2 * config.activations(), align),
            ring: k.shared_aligned(config.ring_words(), 16),
            scales: k.shared_aligned(config.ring_scales().max(8), 16),
        }
    }

    /// Returns the warp's first step in a slab.
    #[inline]
    fn base(&self, slab: Val<'b, i32>) -> Val<'b, i32> {
        slab * self.config.slab_steps() + self.along_k * self.config.steps
    }

    /// Returns the sums of the warp's part of K: for each tile, 4 accumulators for each 8 rows.
    #[inline]
    fn multiply(&self, k: &mut Body<'b, '_>) -> Vec<Registers<'b, f32>> {
        let SmallGemmConfig { mma, steps, stages, start, .. } = self.config;
        if start == LaunchStart::Early {
            k.griddepcontrol_launch_dependents();
        }
        let sums: Vec<_> = self.tiles.iter().map(|_| self.accumulators(k)).collect();
        sums.iter().for_each(|sums| sums.fill(0.0));
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
        let groups = match mma {
            MmaKind::Warp => None,
            MmaKind::WarpGroup => Some(self.warp_group(k)),
        };
        k.for_(range(self.first, self.end), (), |k, slab, ()| {
            let base = self.base(slab);
            let odd = (slab - self.first) & 1;
            let mut pending = None;
            for step in 0..steps {
                k.cp_async_wait_group(stages - 2);
                if step == 0 {
                    if mma == MmaKind::WarpGroup {
                        k.fence_proxy_async(ProxySpace::SharedCta);
                    }
                    // Now the slab is complete, and all threads have left the previous one.
                    k.barrier();
                    let next = slab + 1;
                    k.if_(next.lt(self.end), |k| self.copy_rows(k, next, (1 - odd) * slabs));
                }
                self.copy_weights(k, base, step + stages - 1);
                k.cp_async_commit_group();
                match &groups {
                    None => self.step(k, &sums, odd * slabs, step),
                    Some(group) => {
                        pending = self.group_step(k, group, &sums, odd * slabs, step, pending)
                    }
                }
            }
            if mma == MmaKind::WarpGroup {
                self.complete(k, &sums, pending);
            }
        });
        for (tile, sums) in self.tiles.iter().zip(&sums) {
            if let Some(scales) = tile.of_column {
                scales.multiply(sums);
            }
        }
        sums
    }

    /// Makes a tile's accumulators.
    #[inline]
    pub(super) fn accumulators(&self, k: &Body<'b, '_>) -> Registers<'b, f32> {
        k.registers::<f32>(4 * self.config.row_tiles())
    }

    /// Starts to copy the weights and scales of the step that is `ahead` steps after `base`.
    #[inline]
    fn copy_weights(&self, k: &Body<'b, '_>, base: Val<'b, i32>, ahead: u32) {
        let config = &self.config;
        let SmallGemmConfig { steps, stages, weights, .. } = *config;
        let more = ahead / steps * config.slab_steps() + ahead % steps;
        let lane_scales = weights.lane_scales();
        let lane = k.lane_id();
        for (tile, place) in self.tiles.iter().zip(self.places(ahead % stages)) {
            for piece in 0..config.pieces() {
                // The lane's words from the first on, and whether they exist.
                let (step_words, piece_words, at) = match weights.is_packed() {
                    true => (weights.step_words(), 128 * piece, base + more),
                    false => {
                        let (words, of_piece) = (config.row_words(), piece / 2 * 16);
                        (words, of_piece, base * words + lane % 4 * 4 + (more * words + of_piece))
                    }
                };
                let bytes = at.lt(self.limit).select(k.constant(16u32), 0u32);
                let from = tile.weights[piece as usize % 2].offset(base.mul_wide(step_words));
                let from = from.offset((more * step_words + piece_words) as i32);
                let to = self.ring.offset(self.word(place, piece));
                k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, bytes);
            }
            let from = tile.scales.offset(base.mul_wide(8 * lane_scales));
            for at in (0..lane_scales).step_by(8) {
                let size = 2 * (lane_scales - at).min(8);
                let cache = if size == 16 { CpAsyncCache::Cg } else { CpAsyncCache::Ca };
                let exists = (base + more).lt(self.end_step);
                let bytes = exists.select(k.constant(size), 0u32);
                let to = self.scales.offset((self.thread + place) * lane_scales + at);
                let from = from.offset((more * 8 * lane_scales + at) as i32);
                k.cp_async_zfill(to, from, cache, size, bytes);
            }
        }
    }

    /// Returns, for each tile, how many threads' parts are before a stage's in the ring buffers.
    pub(super) fn places(&self, stage: u32) -> impl Iterator<Item = u32> {
        let (tiles, threads) = (self.config.tiles(), self.config.threads());
        (0..tiles).map(move |tile| (stage * tiles + tile) * threads)
    }

    /// Returns the thread's first word of a piece in the ring buffer.
    #[inline]
    fn word(&self, place: u32, piece: u32) -> Val<'b, i32> {
        let config = &self.config;
        self.thread * 4 + (place * config.pieces() + piece * config.threads()) * 4
    }

    /// Loads a tile's weights of a step from the ring buffer.
    #[inline]
    pub(super) fn load_weights(&self, place: u32) -> StepWeights<'b> {
        let load = |piece| self.ring.load_vector::<4>(self.word(place, piece)).lanes();
        let pieces = (0..self.config.pieces()).map(load).collect();
        StepWeights { format: self.config.weights, pieces }
    }

    /// Loads the scales of a tile's step from the ring buffer, one pair of columns per group.
    #[inline]
    pub(super) fn load_scales(&self, place: u32) -> Vec<Scales<'b>> {
        let weights = self.config.weights;
        let words = weights.lane_scales() / 2;
        let from = self.scales.ptr_cast::<u32>();
        let at = (self.thread + place) * words;
        let vectors = (0..words)
            .step_by(4)
            .filter_map(|more| from.load_any(at + more, (words - more).min(4))?.values::<u32>());
        let words: Vec<_> = vectors.flatten().collect();
        let pairs = words.chunks((weights.scale_elements() as usize / 2).max(1));
        pairs.map(|pair| Scales { scales: pair[0], zeros: pair.get(1).copied() }).collect()
    }

    /// Starts to copy a slab of the block's rows of A, with zeros where there are none.
    #[inline]
    fn copy_rows(&self, k: &mut Body<'b, '_>, slab: Val<'b, i32>, to: Val<'b, i32>) {
        let (config, p) = (&self.config, self.p);
        let (vectors, threads) = (config.slab() / 8, config.threads());
        let count = config.rows * vectors;
        // Both are powers of two. So what a thread copies next is some rows or some vectors on.
        let (row, vector) = (self.thread >> vectors.ilog2(), self.thread & (vectors - 1));
        let (first_row, column) =
            (k.block_idx().z * config.rows + row, slab * config.slab() + vector * 8);
        let first = p.a.offset(first_row.mul_wide(p.depth)).offset(column);
        for more in (0..count).step_by(threads as usize) {
            let (more_rows, more_vectors) = (more / vectors, more % vectors);
            let exists =
                (first_row + more_rows).lt(p.rows) & (column + more_vectors * 8).lt(p.depth);
            let bytes = exists.select(k.constant(16u32), 0u32);
            let from = first.offset(p.depth.mul_wide(more_rows) + i64::from(more_vectors * 8));
            let place = config.place_of_rows(row, vector, more_rows, more_vectors);
            let to = self.activations.offset(to + place);
            let copy = |k: &mut Body<'_, '_>| {
                k.cp_async_zfill(to, from, CpAsyncCache::Cg, 16, bytes);
            };
            let at = self.thread + more;
            if more + threads <= count { copy(k) } else { k.if_(at.lt(count), copy) }
        }
    }
}
