//! [`Plan`]: the layouts and copies that the host computes before it builds the kernel, and the
//! frame of the device code, `Plan::body`.
//!
//! A block is persistent and walks over tiles of D. Thread 0 of the producer warp group loads
//! blocks of 128 elements along K of A and B by TMA. If each column of D has its own scales of B,
//! the group's second warp copies them (`columns.rs`). The consumer warp groups (`consumer.rs`)
//! multiply, scale and store.

use crate::arch::{L2Promotion, Major, TensorMapDesc};
use crate::ir::builder::Role;
use crate::ir::op::BarrierForm;
use crate::ir::types::Scalar;
use crate::ir::{
    Body, Element, Global, GlobalMut, Kernel, KernelOptions, TensorMap, TensorMapMut, Untyped, Val,
    range,
};
use crate::layout::{ComposedLayout, Layout, layout, shape, tiler};
use crate::tensor::atom::{
    MmaAtom, OperandSource, SmemAtom, SmemSwizzle, TiledMma, ValType, Wgmma,
};
use crate::tensor::copy::{GlobalRows, StagedStore, StoreDestination, TmaCopy};
use crate::tensor::pipeline::{RowGroups, TileScheduler, TmaPipeline, WarpRole, warp_roles};
use crate::tensor::view::SharedTensor;

use super::super::gemm::BatchMode;
use super::columns::ColumnScales;
use super::config::{GROUP, LaunchOverlap, ScaledGemmConfig};
use super::consumer::{Consumer, Rings};
use super::error::ScaledGemmError;
use super::problem::{BLOCK, BScaleBlock, ScaledGemmProblem};

/// The elements of A, B and D in the body of the kernel.
pub(super) type A = Role<0>;
pub(super) type B = Role<1>;
pub(super) type D = Role<2>;

/// Alignment of swizzled tiles, in bytes.
const ALIGN: u32 = 1024;
/// Bytes of an L2 line.
const LINE: u32 = 128;

crate::params! {
    /// The scales and the sizes of a launch.
    pub(super) struct SizeParams => Sizes<'b> {
        pub(super) a_scales: Global<f32>,
        pub(super) b_scales: Global<f32>,
        /// Elements between the scales of rows, of blocks along K, and of matrices.
        pub(super) a_strides: [i32; 3],
        pub(super) b_strides: [i32; 3],
        pub(super) a_scale_count: i32,
        pub(super) b_scale_count: i32,
        /// Rows of A, and rows of B or blocks of 128 rows that share a scale.
        pub(super) rows: i32,
        pub(super) b_scale_rows: i32,
        /// Blocks of 128 elements along K, at least one.
        pub(super) steps: i32,
        /// The tiles along M and along N, and the matrices.
        pub(super) tiles: [i32; 3],
        /// Whether A and B have a matrix for each of D, 1, or one for all, 0.
        pub(super) is_batched: [i32; 2],
    }
}

crate::params! {
    /// The groups of a grouped GEMM, and the extents of D.
    pub(super) struct GroupParams => GroupsAt<'b> {
        pub(super) bounds: Global<i32>,
        pub(super) count: i32,
        pub(super) capacity: i32,
        pub(super) extents: [i32; 2],
    }
}

/// A (M, K, matrix), B (N, K, matrix) and D (M, N, matrix) as tensor maps, and the sizes.
type Params = (TensorMap<A, 3>, TensorMap<B, 3>, TensorMapMut<D, 3>, SizeParams);
/// Those of a grouped GEMM. D is also an address, because TMA cannot store the tile in which a
/// group ends.
type GroupedParams = (
    TensorMap<A, 3>,
    TensorMap<B, 3>,
    (TensorMapMut<D, 3>, GlobalMut<D>),
    (SizeParams, GroupParams),
);

/// Everything about the kernel that is known on the host.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: ScaledGemmConfig,
    pub(super) mma: TiledMma,
    a_ring: ComposedLayout,
    b_ring: ComposedLayout,
    a: TmaCopy,
    b: TmaCopy,
    d: StagedStore,
}

impl Plan {
    #[inline]
    pub(super) fn new(config: &ScaledGemmConfig) -> Result<Plan, ScaledGemmError> {
        config.check()?;
        let ([rows, columns, depth], stages) = (config.tile, config.stages);
        if D::scalar() != config.d {
            let expected = config.d.to_string();
            return Err(ScaledGemmError::Element { operand: "D", found: D::scalar(), expected });
        }
        let (a, b) = (val_type("A", A::scalar())?, val_type("B", B::scalar())?);
        let op = Wgmma::new(columns, a, b, ValType::F32, OperandSource::Shared);
        // The layout that `wgmma` reads without bank conflicts.
        let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(8)?;
        let order = shape!(0, 1, 2);
        let ring =
            |rows: u32, stages: u32| atom.tile_to_shape(&shape!(rows, depth, stages), Some(&order));
        let copy = |scalar, rows: u32| -> Result<TmaCopy, ScaledGemmError> {
            Ok(TmaCopy::new(scalar, &ring(rows, 1)?)?)
        };
        let groups = layout!((config.consumers(), 1, 1));
        Ok(Plan {
            config: *config,
            mma: TiledMma::new(MmaAtom::new(op)?, &groups, tiler!(_, _, _))?,
            a_ring: ring(rows, stages)?,
            b_ring: ring(columns, stages)?,
            a: copy(A::scalar(), rows)?,
            b: copy(B::scalar(), columns)?,
            d: StagedStore::new(config.d, config.store_columns(), config.store_slots())?,
        })
    }

    /// Returns the tensor maps of A, B and D.
    #[inline]
    pub(super) fn maps(
        &self,
        problem: &ScaledGemmProblem,
    ) -> Result<[TensorMapDesc; 3], ScaledGemmError> {
        let ScaledGemmProblem { m, n, k, .. } = *problem;
        // A fetch of 256 bytes must not straddle two rows.
        let promotion = match k {
            _ if k.is_multiple_of(2 * LINE) => L2Promotion::B256,
            _ if k.is_multiple_of(LINE) => L2Promotion::B128,
            _ => L2Promotion::None,
        };
        // Matrices that the batch shares are one in the map.
        let matrices = |rows: u32, columns: u32, stride: u64| {
            let count = if stride == 0 { 1 } else { problem.batch.count() };
            Layout::new((rows, columns, count), (columns, 1, stride))
        };
        let strides = problem.strides();
        Ok([
            self.a.desc(&matrices(m, k, strides.a)?)?.with_l2_promotion(promotion),
            self.b.desc(&matrices(n, k, strides.b)?)?.with_l2_promotion(promotion),
            self.d.desc(&matrices(m, n, strides.d)?)?,
        ])
    }

    /// Returns how many adjacent columns of a tile lie in one block of 128, wherever the tile
    /// starts.
    #[inline]
    pub(super) fn group_columns(&self) -> u32 {
        1 << self.config.tile[1].trailing_zeros().min(BLOCK.trailing_zeros())
    }

    /// Returns how many scales of B each consumer thread loads per step: the most blocks of 128
    /// columns that a tile can overlap. It is 0 with `Row128`, whose scales come through shared
    /// memory.
    #[inline]
    pub(super) fn column_blocks(&self) -> u32 {
        match self.config.b_block {
            BScaleBlock::Square128 => {
                (BLOCK - self.group_columns() + self.config.tile[1]).div_ceil(BLOCK)
            }
            BScaleBlock::Row128 => 0,
        }
    }

    #[inline]
    pub(super) fn build(&self) -> Result<Kernel<Untyped>, ScaledGemmError> {
        let options = KernelOptions::default().block([self.config.threads(), 1, 1]);
        let options = options.min_blocks_per_sm(1);
        let options = match self.config.cluster_blocks() {
            1 => options,
            blocks => options.cluster([blocks, 1, 1]),
        };
        let name = format!("scaled_gemm_{}_{}_{}", A::scalar(), B::scalar(), self.config);
        let target = self.config.target;
        if self.config.batch == BatchMode::Grouped {
            let kernel = Kernel::<GroupedParams>::build_with(
                options,
                &name,
                target,
                |k, (a, b, (map, to), (sizes, groups))| {
                    let GroupsAt { bounds, count, capacity, extents } = groups;
                    let strides = [extents[1].cvt::<i64>(), k.constant(0)];
                    let rows = GlobalRows { to, strides, extents };
                    let groups = RowGroups { bounds, count, capacity };
                    let d = StoreDestination::Groups { map, rows, groups };
                    self.body(k, a, b, d, &sizes);
                },
            )?;
            return Ok(kernel.untyped());
        }
        let kernel =
            Kernel::<Params>::build_with(options, &name, target, |k, (a, b, d, sizes)| {
                self.body(k, a, b, d.into(), &sizes);
            })?;
        Ok(kernel.untyped())
    }

    /// Emits the kernel: setup by all threads, then one body per warp-group role.
    #[inline]
    fn body<'a>(
        &self,
        k: &mut Body<'a, '_>,
        a: Val<'a, TensorMap<A, 3>>,
        b: Val<'a, TensorMap<B, 3>>,
        d: StoreDestination<'a, D>,
        sizes: &Sizes<'a>,
    ) {
        let ScaledGemmConfig { tile: [m, n, depth], stages, cluster, raster, overlap, .. } =
            self.config;
        let consumers = self.config.consumers();
        let sa = SharedTensor::<A>::shared_aligned(k, self.a_ring.clone(), ALIGN);
        let sb = SharedTensor::<B>::shared_aligned(k, self.b_ring.clone(), ALIGN);
        let staging = k.shared_aligned::<D>(consumers * self.d.elements(), ALIGN);
        let pipe = TmaPipeline::new(k, stages, self.a.bytes() + self.b.bytes(), consumers);
        let pipe = pipe.cluster(self.config.cluster_blocks());
        let columns = match self.config.b_block {
            BScaleBlock::Square128 => None,
            BScaleBlock::Row128 => Some(ColumnScales::new(k, &self.config)),
        };
        let (groups, _) = d.groups();
        let tiles = TileScheduler::new(k, raster, sizes.tiles).clusters(cluster);
        let tiles = tiles.row_groups(groups, m);
        sizes.a_scales.require_len(sizes.a_scale_count);
        sizes.b_scales.require_len(sizes.b_scale_count);
        let (thread, is_early) = (k.thread_idx().x, overlap == LaunchOverlap::Programmatic);
        if is_early {
            k.griddepcontrol_launch_dependents();
        }
        pipe.init(thread.eq(0));
        if let Some(columns) = &columns {
            columns.init(thread.eq(0));
        }
        k.barrier();
        pipe.cluster_sync(BarrierForm::Aligned);
        if is_early {
            k.griddepcontrol_wait();
        }
        // The producer gives registers away, so that a consumer thread can hold two sets of
        // accumulators. A single consumer has enough.
        let (registers, entry) = match consumers {
            1 => (None, 255),
            _ => (Some([40, 232]), 168),
        };
        let roles = WarpRole::producers_and_consumers([1, consumers], registers);
        warp_roles(k, &roles, entry, |k, role, group| {
            if role == 0 {
                if let Some(columns) = &columns {
                    let is_second =
                        thread.ge(ColumnScales::WARP) & thread.lt(2 * ColumnScales::WARP);
                    k.if_(is_second, |k| columns.produce(k, &tiles, sizes));
                }
                return k.if_(thread.eq(0), |k| {
                    let (a, b) = (self.a.tensor(a), self.b.tensor(b));
                    let [along_m, along_n] = tiles.peers();
                    tiles.for_each(k, pipe.producer(), |k, tile, state| {
                        let [of_a, of_b] =
                            sizes.is_batched.map(|is_batched| tile.batch * is_batched);
                        let first_row = tiles.first_row(tile);
                        k.for_(range(0, sizes.steps), state, |_, step, state| {
                            let full = pipe.acquire(state);
                            let sa = sa.slice((.., .., state.stage));
                            let sb = sb.slice((.., .., state.stage));
                            let ga = a.local_tile(&tiler!(m, depth), (tile.row, step, of_a));
                            let ga = ga.domain_offset((first_row.clone(), 0));
                            let gb = b.local_tile(&tiler!(n, depth), (tile.column, step, of_b));
                            ga.load_rotated(&sa, full, along_n, step);
                            gb.load_rotated(&sb, full, along_m, step);
                            state.next()
                        })
                    });
                });
            }
            let barrier = k.named_barrier((group + 1).cvt::<u32>(), GROUP).aligned();
            let own = staging.offset(group * self.d.elements());
            let store = self.d.slice(k, d.clone(), own, thread % GROUP, barrier);
            let rings = Rings { pipe, a: &sa, b: &sb, columns };
            let consumer = Consumer::new(k, self, sizes, tiles, group, rings, store);
            consumer.consume(k);
        });
        pipe.cluster_sync(BarrierForm::Unaligned);
    }
}

/// Returns the nearest index that is one of `count`. Indices past the end are those of rows and
/// columns that are not stored. The prover sees both ends of what a tile multiplies with strides.
pub(super) fn inside<'b>(index: Val<'b, i32>, count: Val<'b, i32>) -> Val<'b, i32> {
    index.min(count - 1).max(0)
}

/// Returns the type of an operand of `wgmma`.
#[inline]
fn val_type(operand: &'static str, found: Scalar) -> Result<ValType, ScaledGemmError> {
    match found {
        Scalar::F8E4M3 => Ok(ValType::E4M3),
        Scalar::F8E5M2 => Ok(ValType::E5M2),
        _ => {
            let expected = "f8e4m3 or f8e5m2".to_owned();
            Err(ScaledGemmError::Element { operand, found, expected })
        }
    }
}
