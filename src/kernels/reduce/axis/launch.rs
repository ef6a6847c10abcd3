//! [`AxisReduceFunction`]: a reduction along an axis on a device.

use std::sync::{Mutex, PoisonError};

use crate::ir::builder::Converted;
use crate::runtime::{Buffer, Function, Grid, LaunchOptions};
use crate::tensor::RowAccess;

use super::super::super::loadable::loadable;
use super::super::super::rows::{RowError, check_len};
use super::{AxisProblem, AxisReduce, AxisReduceConfig, Params};

/// The rows that a thread loads at least, if the axis is split.
const LEAST_LOADS: u32 = 4;
/// The maximum number of blocks along the second mode of a grid.
const MAX_PARTS: u64 = 65_535;
/// The rows that a thread could load in the time of the block's start and of the exchange of its result.
const START_LOADS: u64 = 4;

loadable! {
    impl[T: Converted, Y: Converted] AxisReduce<T, Y>: AxisReduceConfig => AxisReduceFunction<T, Y>, RowError;
    (config, function, device) {
        let occupancy = function.occupancy(config.threads)?;
        // On the simulator an axis is split, too.
        let resident = occupancy.map_or(16, |occupancy| occupancy.blocks()).max(1).into();
        let workspace = Mutex::new([device.zeros(1)?, device.zeros(1)?]);
        Ok(AxisReduceFunction { config, function, resident, workspace })
    }
}

/// An [`AxisReduce`] that a device has loaded.
#[derive(Debug)]
pub struct AxisReduceFunction<T, Y = f32> {
    config: AxisReduceConfig,
    function: Function<Params<T, Y>>,
    /// The blocks that run at once.
    resident: u64,
    /// The results of parts of an axis, as large as any launch needed, and the arrivals at each chunk: 0 before and after a
    /// launch. Launches come after each other for it.
    workspace: Mutex<[Buffer<u32>; 2]>,
}

impl<T: Converted, Y: Converted> AxisReduceFunction<T, Y> {
    /// Starts the kernel, on the stream for all work that names none. No results are no work. Launches of one function come
    /// after each other, also those on several streams: they share a workspace.
    ///
    /// # Errors
    /// [`RowError::TooLarge`], [`RowError::Rows`], [`RowError::Access`]; buffers that are too short or misaligned; those of
    /// [`Function::launch`].
    pub fn launch(
        &self,
        problem: &AxisProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// As [`launch`](AxisReduceFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](AxisReduceFunction::launch).
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
        // Coordinates after the last row and column are numbers of `i32`.
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
        // A single cluster joins its results without a workspace.
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
            // Blocks that the simulator stopped have not arrived.
            *arrivals = arrivals.device().zeros(arrivals.len())?;
        }
        Ok(launched?)
    }

    /// Returns the parts of an axis with `chunks` chunks of columns, whole clusters of them: as many as 1 to 8 waves of blocks have
    /// room for, in the shortest time.
    fn parts(&self, chunks: u64, len: u32) -> u64 {
        let AxisReduceConfig { threads, team, cluster, .. } = self.config;
        let (resident, at_once, cluster) = (self.resident, threads / team, u64::from(cluster));
        let chunks = chunks * cluster;
        // Without an exchange between clusters, the results are there sooner than more blocks could read the rows.
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
