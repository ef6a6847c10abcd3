//! [`AxisReduceFunction`]: an axis reduction loaded on a device. Here buffers are checked against
//! the problem and the kernel is launched.

use std::sync::{Mutex, PoisonError};

use crate::ir::builder::Converted;
use crate::runtime::{Buffer, Function, Grid, LaunchOptions};
use crate::tensor::rows::RowAccess;

use super::super::super::loadable::loadable;
use super::super::super::rows::{RowError, check_len};
use super::{AxisProblem, AxisReduce, AxisReduceConfig, Params};

/// If an axis is split, each thread loads at least this many rows.
const LEAST_LOADS: u32 = 4;
/// The maximum grid size along y.
const MAX_PARTS: u64 = 65_535;
/// What a block's start and the exchange of its result cost, in rows that a thread could load
/// meanwhile.
const START_LOADS: u64 = 4;

loadable! {
    impl[T: Converted, Y: Converted] AxisReduce<T, Y>: AxisReduceConfig => AxisReduceFunction<T, Y>, RowError;
    (config, function, device) {
        let occupancy = function.occupancy(config.threads)?;
        // On the simulator an axis is split too.
        let resident = occupancy.map_or(16, |occupancy| occupancy.blocks()).max(1).into();
        let workspace = Mutex::new([device.zeros(1)?, device.zeros(1)?]);
        Ok(AxisReduceFunction { config, function, resident, workspace })
    }
}

/// An [`AxisReduce`] loaded on a device, made by [`AxisReduce::load`]. Load it once; each
/// [`launch`](AxisReduceFunction::launch) takes its own problem and buffers.
#[derive(Debug)]
pub struct AxisReduceFunction<T, Y = f32> {
    config: AxisReduceConfig,
    function: Function<Params<T, Y>>,
    /// How many blocks the device runs at once.
    resident: u64,
    /// Partial results of split axes, as large as any launch has needed, and the arrival counters
    /// of the chunks, which are 0 between launches. Because of this workspace, launches run one
    /// after the other.
    workspace: Mutex<[Buffer<u32>; 2]>,
}

impl<T: Converted, Y: Converted> AxisReduceFunction<T, Y> {
    /// Launches the kernel on the default stream. Does nothing if there are no results. Launches of
    /// one function run one after the other, even on different streams, because they share a
    /// workspace.
    ///
    /// # Errors
    /// [`RowError::TooLarge`], [`RowError::Rows`] or [`RowError::Access`], errors for buffers that
    /// are too short or misaligned, and those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &AxisProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// Launches as [`launch`](AxisReduceFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](AxisReduceFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &AxisProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        let AxisProblem { outer, len, inner } = *problem;
        let all = problem.results().checked_mul(len.max(1).into()).filter(|all| *all < 1 << 40);
        let all = all.ok_or(RowError::TooLarge { operand: "the input" })?;
        // Coordinates past the last row and column must still fit an `i32`.
        let max = i32::MAX as u32 - (1 << 16);
        if len > max || inner > max {
            return Err(RowError::Rows { rows: len.max(inner) });
        }
        let needed =
            AxisReduceConfig::new(self.config.op, self.config.target, T::scalar(), problem);
        if self.config.access == RowAccess::Aligned && needed.access != RowAccess::Aligned {
            return Err(RowError::Access { access: RowAccess::Aligned });
        }
        check_len("the input", x.len(), if len == 0 { 0 } else { all })?;
        check_len("the output", y.len(), problem.results())?;
        if !x.is_aligned_to(16) {
            return Err(RowError::Address { operand: "the input" });
        }
        if problem.results() == 0 {
            return Ok(());
        }
        let chunks = self.config.chunks(T::scalar(), problem);
        let parts = self.parts(chunks, len);
        let blocks = i32::try_from(chunks).map_err(|_| RowError::Rows { rows: outer })?;
        let mut workspace = self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        let [partials, arrivals] = &mut *workspace;
        // A single cluster needs no workspace.
        if parts > u64::from(self.config.cluster) {
            let chunk = u64::from(self.config.tile().columns(T::scalar()));
            let words = 2 * chunks * parts / u64::from(self.config.cluster) * chunk;
            if (partials.len() as u64) < words {
                *partials = partials.device().zeros(words as usize)?;
            }
            if (arrivals.len() as u64) < chunks {
                *arrivals = arrivals.device().zeros(chunks as usize)?;
            }
        }
        let grid = Grid::new([blocks as u32, parts as u32, 1], [self.config.threads, 1, 1]);
        let args = (x, y, [len as i32, inner as i32], (partials, &mut *arrivals));
        let launched = self.function.launch_with(options, grid, args);
        if launched.is_err() {
            // Blocks that the simulator stopped have not arrived, so the counters may be wrong.
            *arrivals = arrivals.device().zeros(arrivals.len())?;
        }
        Ok(launched?)
    }

    /// Returns into how many parts to split an axis with `chunks` column chunks, in whole clusters:
    /// the fastest choice that fills 1 to 8 waves of blocks.
    fn parts(&self, chunks: u64, len: u32) -> u64 {
        let AxisReduceConfig { threads, team, cluster, .. } = self.config;
        let (resident, at_once, cluster) = (self.resident, threads / team, u64::from(cluster));
        let chunks = chunks * cluster;
        // Without an exchange between clusters, the results are there sooner than more blocks could
        // read the rows.
        if cluster > 1 && 3 * chunks >= resident {
            return cluster;
        }
        let most = (u64::from(len / (LEAST_LOADS * at_once)).min(MAX_PARTS) / cluster).max(1);
        let loads = |clusters: u64| {
            u64::from(len).div_ceil(clusters * cluster * u64::from(at_once)) + START_LOADS
        };
        let time = |clusters: &u64| (chunks * clusters).div_ceil(resident) * loads(*clusters);
        let candidates = (1..=8).map(|waves| (waves * resident / chunks).clamp(1, most));
        cluster * candidates.min_by_key(time).unwrap_or(1)
    }
}
