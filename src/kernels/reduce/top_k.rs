//! [`TopK`]: the largest elements of each row, with their columns.

use crate::codegen::Ptx;
use crate::ir::builder::Converted;
use crate::ir::op::LoadAccess;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Global, GlobalMut, Kernel, KernelIr, Target, WARP, range};
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions};
use crate::tensor::RowTile;

use super::super::rows::{RowConfig, RowError, RowProblem, check_aligned, check_len, own_row};
use super::best::{Best, maxima};
use super::reduced;

/// The configuration of a [`TopK`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopKConfig {
    /// The target and the tile of a row, which a warp or the warps of a block share; a row may be longer than the tile.
    pub rows: RowConfig,
    /// The number of elements of the result of a row: 1 to [`MAX`](TopKConfig::MAX).
    pub count: u32,
}

impl TopKConfig {
    /// The maximum number of elements of the result of a row.
    pub const MAX: u32 = 64;

    /// The configuration for rows of these sizes, with elements of this type. The pitch of the output does not count.
    pub fn new(count: u32, target: Target, input: Scalar, problem: &RowProblem) -> Self {
        let access = reduced(problem).access(input);
        let lanes = RowTile { threads: 128, team: 32, cluster: 1, vectors: 4, access, stages: 0 };
        // A warp finds few better elements after its first ones. Only where there are few rows, more warps share them.
        let steps = if problem.rows < 1024 { 2 } else { 16 };
        let warps = problem.columns.div_ceil(steps * lanes.capacity(input)).next_power_of_two();
        let tile = match warps.min(16) {
            1 => lanes,
            warps => RowTile { threads: 32 * warps, team: 32 * warps, ..lanes },
        };
        TopKConfig { rows: RowConfig { target, tile }, count }
    }

    fn check(&self) -> Result<(), RowError> {
        self.rows.check()?;
        let RowTile { team, cluster, .. } = self.rows.tile;
        let rule = if !(1..=Self::MAX).contains(&self.count) {
            "the result of a row has 1 to 64 elements"
        } else if team < 32 || cluster > 1 {
            "whole warps of one block share a row"
        } else {
            return Ok(());
        };
        Err(RowError::Tile { rule })
    }
}

/// The input with its pitch, the values, the columns, rows and columns.
type Params<T> = ((Global<T>, i64), GlobalMut<f32>, GlobalMut<i32>, [i32; 2]);

/// The `count` largest elements of each row of a matrix of `f32`, `f16` or `bf16` in descending order, as `f32`, and their
/// columns. Of equal elements the one with the lower column comes first. NaN is left out. A row with fewer elements ends
/// with negative infinity and the column -1.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::reduce::{TopK, TopKConfig};
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// let problem = RowProblem::new(1, 1000);
/// let x: Vec<f32> = (0..1000).map(|i| (i * 7 % 500) as f32).collect();
/// let top = TopK::<f32>::new(TopKConfig::new(3, device.target(), Scalar::F32, &problem))?.load(&device)?;
/// let (mut values, mut columns) = (device.zeros::<f32>(3)?, device.zeros::<i32>(3)?);
/// top.launch(&problem, &device.upload(&x)?, &mut values, &mut columns)?;
/// assert_eq!(values.to_vec()?, [499.0, 499.0, 498.0]);
/// // 7 * 357 = 4 * 500 + 499.
/// assert_eq!(columns.to_vec()?, [357, 857, 214]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TopK<T> {
    config: TopKConfig,
    kernel: Kernel<Params<T>>,
}

impl<T: Converted> TopK<T> {
    /// The maximum number of columns of a row.
    pub const MAX_COLUMNS: u32 = 1 << 30;

    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`RowConfig::check`]; [`RowError::Element`], [`RowError::Tile`].
    pub fn new(config: TopKConfig) -> Result<Self, RowError> {
        config.check()?;
        RowConfig::check_element("the input", T::SCALAR, false)?;
        Ok(TopK { config, kernel: build(&config)? })
    }

    /// The configuration.
    pub fn config(&self) -> &TopKConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        self.kernel.ir()
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        self.kernel.ptx()
    }

    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<TopKFunction<T>, RowError> {
        Ok(TopKFunction { config: self.config, function: device.load(&self.kernel)? })
    }
}

/// A [`TopK`] that a device has loaded.
#[derive(Debug)]
pub struct TopKFunction<T> {
    config: TopKConfig,
    function: Function<Params<T>>,
}

impl<T: Converted> TopKFunction<T> {
    /// Starts the kernel, on the stream for all work that names none: `values` and `columns` have `count` elements for each
    /// row. No rows are no work.
    ///
    /// # Errors
    /// Those of [`RowConfig::check_problem`], with [`MAX_COLUMNS`](TopK::MAX_COLUMNS) columns; buffers that are too short
    /// or misaligned; those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &RowProblem,
        x: &Buffer<T>,
        values: &mut Buffer<f32>,
        columns: &mut Buffer<i32>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, values, columns)
    }

    /// As [`launch`](TopKFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](TopKFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &RowProblem,
        x: &Buffer<T>,
        values: &mut Buffer<f32>,
        columns: &mut Buffer<i32>,
    ) -> Result<(), RowError> {
        let tile = &self.config.rows.tile;
        let [pitch, _] = reduced(problem).check(tile, T::SCALAR, TopK::<T>::MAX_COLUMNS)?;
        let results = u64::from(problem.rows) * u64::from(self.config.count);
        check_len("the input", x.len(), problem.len(pitch))?;
        check_len("the values", values.len(), results)?;
        check_len("the columns", columns.len(), results)?;
        check_aligned("the input", tile, x.is_aligned_to(16))?;
        if problem.rows == 0 {
            return Ok(());
        }
        let grid = Grid::new([tile.blocks(problem.rows), 1, 1], [tile.threads, 1, 1]);
        let sizes = [problem.rows, problem.columns].map(|size| size as i32);
        Ok(self.function.launch_with(options, grid, ((x, pitch as i64), values, columns, sizes))?)
    }
}

/// Each warp keeps the best elements that it has seen, sorted over its lanes. Most steps have no better one, which the maxima of
/// the lanes tell; else the warp loads the elements of a lane with a better one again, one by each lane. In the end the first
/// warp of a row merges the lists of the others with its own.
fn build<T: Converted>(config: &TopKConfig) -> Result<Kernel<Params<T>>, BuildErrors> {
    let TopKConfig { rows: RowConfig { target, tile }, count } = *config;
    let name = format!("top_{count}_{}_{}", T::SCALAR, config.rows);
    // 64 registers for each thread.
    Kernel::<Params<T>>::build_with(
        tile.options().min_blocks_per_sm((1024 / tile.threads).max(1)),
        &name,
        target,
        |k, ((x, pitch), values, indices, sizes)| {
            let (row, columns) = own_row(k, tile, sizes);
            let part = tile.part::<T>(k, row * pitch, columns);
            let x = x.offset(row * pitch);
            let best = Best::new(k, count);
            k.for_(range(0, part.steps()).prefetch_stages(1), (), |k, step, ()| {
                let part = part.step(step);
                let loaded = part.load_elements(k, x, f32::NAN);
                let halves = maxima(k, &loaded);
                k.if_(step.eq(0), |k| best.start(k, halves));
                let (first, end) = (part.first_column(), part.vector_end());
                // The element of a lane that this lane compares.
                let lane = k.lane_id();
                let vector = tile.vector(T::SCALAR) as i32;
                let own = lane / vector * part.stride() + lane % vector;
                best.for_each_better(k, (halves[0].max(halves[1]), first), |k, other| {
                    let column = k.shfl_idx(WARP, first, other) + own;
                    let is_element = lane.lt(tile.vectors as i32 * vector) & column.lt(end);
                    let value = k.if_with(is_element, f32::NAN, |k| {
                        x.load_with(k, column, LoadAccess::default().non_coherent()).cvt::<f32>()
                    });
                    best.add(k, (value, column));
                });
                if !loaded.vectors.is_empty() {
                    let columns = part.columns();
                    let ends = columns.iter().rev().zip(loaded.singles.iter().rev());
                    ends.for_each(|(column, end)| best.add(k, (end.cvt::<f32>(), *column)));
                }
            });
            let (warps, lists) = (tile.team / 32, best.entries.len() as u32);
            let (warp, lane) = (k.thread_idx().x % tile.team as i32 / 32, k.lane_id());
            if warps > 1 {
                let found =
                    (k.shared::<f32>(tile.team * lists), k.shared::<i32>(tile.team * lists));
                for (list, (value, column)) in (0..).zip(&best.entries) {
                    let at = (warp * lists + list) * 32 + lane;
                    found.0.store(k, at, value.get(k));
                    found.1.store(k, at, column.get(k));
                }
                k.barrier();
                k.if_(warp.eq(0), |k| {
                    k.for_(range(1, warps), (), |k, warp, ()| {
                        // From the last entry to the first one.
                        let last = (warp * lists + lists) * 32 - 1 - lane;
                        let at = (0..lists).map(|list| last - list * 32);
                        let load = |at| (found.0.load(k, at), found.1.load(k, at));
                        best.merge(k, &at.map(load).collect::<Vec<_>>());
                    });
                });
            }
            for (list, (value, column)) in (0..).zip(&best.entries) {
                let rank = lane + list * 32;
                let is_result = warp.eq(0) & rank.lt(count) & row.lt(sizes[0].cvt::<i64>());
                k.if_(is_result, |k| {
                    let (at, column) = (row * i64::from(count) + rank.cvt::<i64>(), column.get(k));
                    values.store(k, at, value.get(k));
                    indices.store(k, at, column.eq(i32::MAX).select(-1, column));
                });
            }
        },
    )
}
