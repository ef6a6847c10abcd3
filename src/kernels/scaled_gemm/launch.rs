//! Launches a GEMM with block scales: checks the buffers, makes the tensor maps, and passes the
//! parameters. A caller passes [`ScaledGemmArgs`].

use crate::ir::builder::Converted;
use crate::ir::{Element, Untyped};
use crate::runtime::{
    ArgList, Argument, Buffer, BufferMut, BufferRef, Function, Grid, LoadOptions,
};

use super::super::gemm::{BatchMode, GroupRows};
use super::super::group_rows::LaunchGroups;
use super::super::ready::{Launch, ReadyKernel};
use super::ScaledGemm;
use super::config::{LaunchOverlap, ScaledGemmConfig};
use super::error::ScaledGemmError;
use super::kernel::{GroupParams, SizeParams};
use super::problem::{ScaleStrides, ScaledGemmProblem};

/// The buffers of a launch, for a [`ScaledGemm`]. The [`ScaledGemmProblem`] has their shapes; A, B
/// and D must start at a multiple of 16 bytes.
pub struct ScaledGemmArgs<'h, A, B, D> {
    /// A, (M, K), row-major. A batch has one A per GEMM, spaced as [`ScaledGemmProblem::batch`]
    /// says.
    pub a: &'h Buffer<A>,
    /// A's scales, one per row and block of 128 elements.
    pub a_scales: &'h Buffer<f32>,
    /// B, (N, K), row-major.
    pub b: &'h Buffer<B>,
    /// B's scales, one per block of elements that share it: [`ScaledGemmProblem::b_block`].
    pub b_scales: &'h Buffer<f32>,
    /// D, (M, N), row-major.
    pub d: &'h mut Buffer<D>,
    /// The rows of each group of a [grouped](ScaledGemmProblem::grouped) GEMM.
    pub groups: Option<GroupRows<'h>>,
}

impl<A: Element, B: Element, D: Converted> ReadyKernel for ScaledGemm<A, B, D> {
    type Config = ScaledGemmConfig;
    /// The parameters have names, and are not public.
    type Params = Untyped;
    type Problem = ScaledGemmProblem;
    type Args<'a> = ScaledGemmArgs<'a, A, B, D>;
    /// How many blocks run at once.
    type Shared = u32;
    type Error = ScaledGemmError;

    fn config(&self) -> &ScaledGemmConfig {
        &self.config
    }

    fn share(
        &self,
        function: &Function<Untyped>,
        _: LoadOptions<'_>,
    ) -> Result<u32, ScaledGemmError> {
        // The simulator runs blocks one after the other. With only two, each has several tiles, as
        // on a GPU.
        let sms = function.device().properties().map_or(2, |properties| properties.sm_count);
        let blocks = self.config.cluster_blocks();
        if blocks == 1 {
            return Ok(sms);
        }
        let grid = Grid::new([blocks, 1, 1], [self.config.threads(), 1, 1]);
        let at_once = function.clusters_at_once(grid)?.map_or(sms, |clusters| clusters * blocks);
        Ok(at_once.min(sms))
    }

    /// # Errors
    /// Those of [`ScaledGemmProblem::check`]; [`ScaledGemmError::BScales`],
    /// [`ScaledGemmError::Batch`] and [`ScaledGemmError::GroupRows`] for a problem that another
    /// kernel runs; buffers that are too short or misaligned; those of [`Function::launch`].
    fn launch(
        &self,
        problem: &ScaledGemmProblem,
        args: ScaledGemmArgs<'_, A, B, D>,
        launch: Launch<'_, Self>,
    ) -> Result<(), ScaledGemmError> {
        let ScaledGemmArgs { a, a_scales, b, b_scales, d, groups } = args;
        problem.check(self.config.d.bits())?;
        let (built, found) = (self.config.b_block, problem.b_block);
        if found != built {
            return Err(ScaledGemmError::BScales { found, built });
        }
        let grouped = self.config.batch == BatchMode::Grouped;
        if problem.batch.mode() != self.config.batch {
            return Err(ScaledGemmError::Batch { grouped });
        }
        if groups.is_some() != grouped {
            return Err(ScaledGemmError::GroupRows { needed: grouped });
        }
        let ScaledGemmProblem { m, n, k, batch, .. } = *problem;
        let groups = groups.map(|groups| groups.bind(m, batch.count())).transpose()?;
        let strides = problem.strides();
        let product = |x: u32, y: u32| u64::from(x) * u64::from(y);
        let [a_scale_count, b_scale_count] = problem.scale_lens();
        check_len("A", a.len(), problem.len(product(m, k), strides.a))?;
        check_len("B", b.len(), problem.len(product(n, k), strides.b))?;
        check_len("D", d.len(), problem.len(product(m, n), strides.d))?;
        check_len("A's scales", a_scales.len(), a_scale_count)?;
        check_len("B's scales", b_scales.len(), b_scale_count)?;
        if problem.is_empty() {
            return Ok(());
        }
        let tiles = self.config.tiles(problem);
        let matrices = if grouped { 1 } else { u64::from(batch.count()) };
        let [row_clusters, column_clusters] = {
            let [m, n] = self.config.cluster.map(u64::from);
            [tiles[0].div_ceil(m), tiles[1].div_ceil(n)]
        };
        let cluster = self.config.cluster_blocks();
        let clusters = row_clusters.saturating_mul(column_clusters).saturating_mul(matrices);
        let (count, max) = (clusters.saturating_mul(cluster.into()), (1 << 31) - 512);
        if count > max {
            return Err(ScaledGemmError::TooLarge { what: "the tile count", found: count, max });
        }
        let [a_map, b_map, d_map] = self.plan.maps(problem)?;
        // `ScaledGemmProblem::check` bounds all of them.
        let to_next = |scales: ScaleStrides, matrix: u64| {
            [scales.row as i32, scales.block as i32, matrix as i32]
        };
        let sizes = SizeParams {
            a_scales,
            b_scales,
            a_strides: to_next(problem.a_scales, strides.a_scales),
            b_strides: to_next(problem.b_scales, strides.b_scales),
            a_scale_count: a_scale_count as i32,
            b_scale_count: b_scale_count as i32,
            rows: m as i32,
            b_scale_rows: problem.b_scale_rows() as i32,
            steps: problem.k_blocks() as i32,
            tiles: [tiles[0] as i32, tiles[1] as i32, batch.count() as i32],
            is_batched: [strides.a, strides.b].map(|stride| i32::from(stride != 0)),
        };
        // Whole clusters, and no more blocks than run at once.
        let at_once = (*launch.shared() / cluster).max(1);
        let blocks = clusters.min(at_once.into()) as u32 * cluster;
        let grid = Grid::new([blocks, 1, 1], [self.config.threads(), 1, 1]);
        let a = BufferRef::from(a).tensor_map(&a_map)?;
        let b = BufferRef::from(b).tensor_map(&b_map)?;
        let mut d = BufferMut::from(d).tensor_map(&d_map)?;
        let launch = launch.programmatic(self.config.overlap == LaunchOverlap::Programmatic);
        // In the order of the kernel's parameters.
        let mut list = ArgList::default();
        list.tensor_map(&a);
        list.tensor_map(&b);
        match groups {
            None => {
                list.tensor_map_mut(&mut d);
                SizeParams::erase(sizes, &mut list);
            }
            Some(LaunchGroups { bounds, count, capacity }) => {
                list.mapped_rows(&mut d);
                SizeParams::erase(sizes, &mut list);
                let extents = [m, n].map(|extent| extent as i32);
                GroupParams::erase(GroupParams { bounds, count, capacity, extents }, &mut list);
            }
        }
        Ok(launch.start_list(grid, &mut list)?)
    }
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), ScaledGemmError> {
    let found = found as u64;
    if found < needed {
        return Err(ScaledGemmError::BufferLength { operand, found, needed });
    }
    Ok(())
}
