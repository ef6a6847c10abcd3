//! [`Plan`]: the layouts and copies that the host computes before it builds the kernel, and the
//! device code, which starts at `Plan::body`.
//!
//! A block is persistent and walks over tiles of y, 128 pixels by up to 256 output channels. Thread
//! 0 of the producer warp group loads, for each filter position and each block of 64 channels, the
//! tile's pixels of x by im2col TMA, and the filters by TMA. Two consumer warp groups multiply them
//! with `wgmma`, 64 pixels each. They keep a finished tile in registers and store it under the next
//! tile's main loop.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::{Role, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{
    Body, Element, Global, Kernel, KernelOptions, TensorMap, TensorMapMut, Untyped, Val, Vector,
    range,
};
use crate::layout::{ComposedLayout, IntTuple, Layout, layout, shape, tiler};
use crate::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use crate::tensor::copy::{Filter, Im2colCopy, OverlappedStore, StagedStore, TmaCopy};
use crate::tensor::mma::WgmmaMainloop;
use crate::tensor::pipeline::{Raster, TileScheduler, TmaPipeline, WarpRole, warp_roles};
use crate::tensor::view::{RegisterTensor, SharedTensor};

use super::config::{CONSUMERS, ConvolutionBias, ConvolutionConfig, GROUP, ROWS, STORE};
use super::error::ConvolutionError;
use super::problem::ConvolutionProblem;

/// The type of the elements of x, w, bias and y in the body of the kernel.
type X = Role<0>;

/// Alignment of swizzled tiles, in bytes.
const ALIGN: u32 = 1024;

crate::params! {
    /// The kernel's parameters. Pairs are along the width, then along the height, as in the map of
    /// x.
    pub(super) struct Params<T: VectorElement<2>> => ParamsAt<'b, T> {
        /// x as (channel, column, row, image).
        pub(super) x: TensorMap<T, 4>,
        /// w as (channel, output channel, filter position).
        pub(super) w: TensorMap<T, 3>,
        /// y as (output channel, pixel, 1).
        pub(super) y: TensorMapMut<T, 3>,
        /// Not read without a bias.
        pub(super) bias: Global<T>,
        pub(super) out_channels: i32,
        /// The tiles of pixels and of output channels.
        pub(super) tiles: [i32; 2],
        /// The size of y.
        pub(super) outputs: [i32; 2],
        pub(super) filter: [i32; 2],
        pub(super) stride: [i32; 2],
        pub(super) dilation: [i32; 2],
        pub(super) padding: [i32; 2],
        /// Blocks of channels per filter position.
        pub(super) channel_blocks: i32,
    }
}

/// Everything about the kernel that is known on the host.
#[derive(Debug)]
pub(super) struct Plan {
    config: ConvolutionConfig,
    mma: TiledMma,
    x_ring: ComposedLayout,
    w_ring: ComposedLayout,
    x: Im2colCopy,
    w: TmaCopy,
    y: StagedStore,
}

impl Plan {
    #[inline]
    pub(super) fn new(config: &ConvolutionConfig) -> Result<Plan, ConvolutionError> {
        config.check()?;
        let ([rows, columns, depth], stages) = (config.tile, config.stages);
        let (elem, ty) = match X::scalar() {
            Scalar::F16 => (Scalar::F16, ValType::F16),
            Scalar::Bf16 => (Scalar::Bf16, ValType::Bf16),
            found => return Err(ConvolutionError::Element { found }),
        };
        let op = Wgmma::new(columns, ty, ty, ValType::F32, OperandSource::Shared);
        // The layout that `wgmma` reads without bank conflicts.
        let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(elem.bits())?;
        let order = shape!(0, 1, 2);
        let tiled = |shape: IntTuple| atom.tile_to_shape(&shape, Some(&order));
        let x_tile = atom.tile_to_shape(&shape!(rows, depth), None)?;
        Ok(Plan {
            config: *config,
            mma: TiledMma::new(MmaAtom::new(op)?, &layout!((CONSUMERS, 1, 1)), tiler!(_, _, _))?,
            x_ring: tiled(shape!(rows, depth, stages))?,
            w_ring: tiled(shape!(columns, depth, stages))?,
            // A launch replaces the image and the filters.
            x: Im2colCopy::new(elem, &x_tile, &[1; 2], &[Filter::new(1); 2])?,
            w: TmaCopy::new(elem, tiled(shape!(columns, depth, 1))?)?,
            y: StagedStore::new(elem, STORE, config.store_slots())?,
        })
    }

    /// Returns the tensor maps of x, w and y.
    #[inline]
    pub(super) fn maps(
        &self,
        problem: &ConvolutionProblem,
    ) -> Result<[TensorMapDesc; 3], ConvolutionError> {
        let ConvolutionProblem { images, height, width, channels, out_channels, .. } = *problem;
        let [along_h, along_w] = problem.filters;
        let [image, row] = [[height, width, channels], [1, width, channels]].map(elements);
        let x = Layout::new([channels, width, height, images], (1, channels, row, image))?;
        // `ConvolutionProblem::check` bounds both.
        let (rows, positions) = (problem.rows() as i64, problem.positions() as i64);
        let filter = positions * i64::from(channels);
        let w = Layout::new((out_channels, channels, positions), (filter, 1, channels))?;
        let y = Layout::new((rows, out_channels, 1), (out_channels, 1, 0))?;
        let copy = self.x.of_images(&[width, height], &[along_w, along_h])?;
        // A promoted fetch must not straddle two pixels, of which the tile may read only one.
        let promotion = match channels {
            _ if channels.is_multiple_of(128) => L2Promotion::B256,
            _ if channels.is_multiple_of(64) => L2Promotion::B128,
            _ => L2Promotion::None,
        };
        Ok([
            copy.desc(&x)?.with_l2_promotion(promotion),
            self.w.desc(&w)?.with_l2_promotion(promotion),
            self.y.desc(&y)?,
        ])
    }

    #[inline]
    pub(super) fn build(&self) -> Result<Kernel<Untyped>, ConvolutionError> {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let options = options.min_blocks_per_sm(1);
        let name = format!("convolution_{}_{}", X::scalar(), self.config);
        let target = self.config.target;
        let kernel = Kernel::<(Params<X>,)>::build_with(options, &name, target, |k, (params,)| {
            self.body(k, &params);
        })?;
        Ok(kernel.untyped())
    }

    /// Emits the kernel: setup by all threads, then one body per warp-group role.
    #[inline]
    fn body<'a>(&self, k: &mut Body<'a, '_>, params: &ParamsAt<'a, X>) {
        let Plan { config, mma, .. } = self;
        let [rows, columns, _] = config.tile;
        let x = SharedTensor::<X>::shared_aligned(k, self.x_ring.clone(), ALIGN);
        let w = SharedTensor::<X>::shared_aligned(k, self.w_ring.clone(), ALIGN);
        let staging = k.shared_aligned::<X>(CONSUMERS * self.y.elements(), ALIGN);
        let pipe = TmaPipeline::new(k, config.stages, self.x.bytes() + self.w.bytes(), CONSUMERS);
        let [row_tiles, column_tiles] = params.tiles;
        // Blocks that run at the same time read the same filters, and few pixels.
        let raster = Raster::Swizzle { width: 16 };
        let tiles = TileScheduler::new(k, raster, [row_tiles, column_tiles, k.constant(1)]);
        if config.bias == ConvolutionBias::PerChannel {
            params.bias.require_len(params.out_channels);
        }
        let thread = k.thread_idx().x;
        pipe.init(thread.eq(0));
        k.barrier();
        // The producer gives registers away, so that a consumer thread can hold the accumulators
        // and the packed words of its previous tile.
        let roles = WarpRole::producers_and_consumers([1, CONSUMERS], Some([40, 232]));
        warp_roles(k, &roles, 168, |k, role, group| {
            if role == 0 {
                let producer = Producer { plan: self, params, pipe, x: &x, w: &w };
                return k.if_(thread.eq(0), |k| producer.produce(k, tiles));
            }
            let mainloop = WgmmaMainloop::new(k, mma, pipe, thread - GROUP, &x, &w);
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let own = staging.offset(group * self.y.elements());
            let store = self.y.slice(k, params.y, own, thread % GROUP, barrier);
            let overlapped = OverlappedStore::new(k, store, columns);
            let [filter_w, filter_h] = params.filter;
            let steps = filter_w * filter_h * params.channel_blocks;
            let (store_steps, stores) = (config.store_steps, config.stores());
            let at_once = stores / store_steps;
            let start = (pipe.consumer(), overlapped.nothing());
            let (_, last) = tiles.for_each(k, start, |k, tile, (state, previous)| {
                let acc = mma.slice(0).fragment_c::<f32>(k, shape!(rows, columns));
                let state = mainloop.run_over(&acc, state, steps, store_steps, |_, step| {
                    overlapped.store(previous, step * at_once..(step + 1) * at_once);
                });
                mainloop.finish(state);
                let [row, column] = [tile.row * rows + group * ROWS, tile.column * columns];
                self.epilogue(k, &acc, column, params);
                (state, overlapped.keep(&acc, [row, column, tile.batch], &()))
            });
            overlapped.finish(last);
        });
    }

    /// Adds the bias to a thread's accumulators, and applies the activation. The tile's columns
    /// start at output channel `first`.
    #[inline]
    fn epilogue<'b>(
        &self,
        k: &mut Body<'b, '_>,
        acc: &RegisterTensor<'b, f32>,
        first: Val<'b, i32>,
        params: &ParamsAt<'b, X>,
    ) {
        let ConvolutionConfig { bias, activation, tile: [_, columns, _], .. } = self.config;
        if bias == ConvolutionBias::Absent && activation.is_none() {
            return;
        }
        let (values, column) = (acc.variables(), first + k.lane_id() % 4 * 2);
        // In 8 columns of `wgmma`'s accumulators, a thread has two adjacent columns of two rows.
        for unit in 0..columns / 8 {
            let pair = (bias == ConvolutionBias::PerChannel).then(|| {
                // Columns past the last one are not stored, so they can take any bias.
                let at = (column + 8 * unit).min(params.out_channels - 2);
                let pair: Val<'_, Vector<X, 2>> = params.bias.load_vector(at);
                pair.lanes().map(|value| value.cvt::<f32>())
            });
            for i in 0..4u32 {
                let mut value = values.get(4 * unit + i);
                if let Some(pair) = pair {
                    value += pair[i as usize % 2];
                }
                if let Some(activation) = activation {
                    value = activation.apply(value);
                }
                values.set(4 * unit + i, value);
            }
        }
    }
}

/// The thread that loads x and w into the ring buffers.
struct Producer<'p, 'a, 'b> {
    plan: &'p Plan,
    params: &'p ParamsAt<'a, X>,
    pipe: TmaPipeline<'b>,
    x: &'p SharedTensor<'b, X>,
    w: &'p SharedTensor<'b, X>,
}

impl<'a: 'b, 'b> Producer<'_, 'a, 'b> {
    /// Loads the steps of every tile: filter row, filter column, block of channels.
    #[inline]
    fn produce(&self, k: &mut Body<'b, '_>, tiles: TileScheduler<'b>) {
        let Producer { plan, params, pipe, x, w } = *self;
        let [rows, columns, depth] = plan.config.tile;
        let [filter_w, filter_h] = params.filter;
        let [dilation_w, dilation_h] = params.dilation;
        tiles.for_each(k, pipe.producer(), |k, tile, state| {
            let [column, row, image] = params.base_pixel(tile.row * rows);
            let first = tile.column * columns;
            k.for_(range(0, filter_h), state, |k, r, state| {
                k.for_(range(0, filter_w), state, |k, s, state| {
                    let offsets = [s * dilation_w, r * dilation_h];
                    let position = r * filter_w + s;
                    k.for_(range(0, params.channel_blocks), state, |_, block, state| {
                        let full = pipe.acquire(state);
                        let [x, w] = [x, w].map(|ring| ring.slice((.., .., state.stage)));
                        let channel = block * depth;
                        let base = [channel, column, row, image];
                        plan.x.load_from(params.x, base, offsets, &x, full);
                        plan.w.load(params.w, (first, channel, position), &w, full);
                        state.next()
                    })
                })
            })
        });
    }
}

impl<'b> ParamsAt<'b, X> {
    /// Returns the column, row and image of the first pixel that pixel `output` of y reads.
    fn base_pixel<'c>(&self, output: Val<'c, i32>) -> [Val<'c, i32>; 3]
    where
        'b: 'c,
    {
        let ([width, height], [stride_w, stride_h]) = (self.outputs, self.stride);
        let [padding_w, padding_h] = self.padding;
        let (line, column) = (output / width, output % width);
        let (image, row) = (line / height, line % height);
        [column * stride_w - padding_w, row * stride_h - padding_h, image]
    }
}

/// Multiplies extents, and returns `i64::MAX` if the product does not fit.
fn elements(extents: [u32; 3]) -> i64 {
    extents.into_iter().map(i64::from).fold(1, i64::saturating_mul)
}
