//! [`RowGatherFunction`]: a gather or scatter loaded on a device. Here buffers are checked against
//! the problem and the kernel is launched.

use crate::ir::builder::Converted;
use crate::runtime::{Buffer, Function, Grid, LaunchOptions};

use super::super::loadable::loadable;
use super::super::rows::{RowError, RowProblem, check_aligned, check_len};
use super::{GatherSide, Params, RowGather, RowGatherConfig};

/// A [`RowGather`] loaded on a device, made by [`RowGather::load`]. Load it once; each
/// [`launch`](RowGatherFunction::launch) takes its own problem and buffers.
#[derive(Debug)]
pub struct RowGatherFunction<T> {
    config: RowGatherConfig,
    function: Function<Params<T>>,
}

loadable! {
    impl[T: Converted] RowGather<T>: RowGatherConfig => RowGatherFunction<T>, RowError;
    (config, function, _) {
        Ok(RowGatherFunction { config, function })
    }
}

impl<T: Converted> RowGatherFunction<T> {
    /// Launches the kernel on the default stream. `index` has `problem.rows` row indices; `limit`
    /// is how many rows the indexed side has, and an index outside `0..limit` is skipped. Does
    /// nothing if there are no elements.
    ///
    /// # Errors
    /// Returns the errors of
    /// [`RowConfig::check_problem`](crate::kernels::rows::RowConfig::check_problem), with up to
    /// 2^30 columns, and of [`Function::launch`], and errors for buffers that are too short or
    /// misaligned.
    pub fn launch(
        &self,
        problem: &RowProblem,
        limit: u32,
        index: &Buffer<i32>,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), (problem, limit), index, x, y)
    }

    /// Launches as [`launch`](RowGatherFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](RowGatherFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        (problem, limit): (&RowProblem, u32),
        index: &Buffer<i32>,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        let tile = &self.config.rows.tile_of_copy();
        // Each matrix is checked with its own row count.
        let numbered = RowProblem { rows: limit, ..*problem };
        let [x_pitch, y_pitch] = problem.check(tile, T::scalar(), 1 << 30)?;
        numbered.check(tile, T::scalar(), 1 << 30)?;
        let limit = i32::try_from(limit).map_err(|_| RowError::Rows { rows: limit })?;
        let [input, output] = match self.config.side {
            GatherSide::Input => [&numbered, problem],
            GatherSide::Output => [problem, &numbered],
        };
        check_len("the list", index.len(), problem.rows.into())?;
        check_len("the input", x.len(), input.len(x_pitch))?;
        check_len("the output", y.len(), output.len(y_pitch))?;
        check_aligned("the input", tile, x.is_aligned_to(16))?;
        check_aligned("the output", tile, y.is_aligned_to(16))?;
        if problem.is_empty() {
            return Ok(());
        }
        let grid = Grid::new([tile.blocks(problem.rows), 1, 1], [tile.threads, 1, 1]);
        let sizes = [problem.rows, problem.columns].map(|size| size as i32);
        let args = ((x, x_pitch as i64), (y, y_pitch as i64), index, limit, sizes);
        Ok(self.function.launch_with(options, grid, args)?)
    }
}
