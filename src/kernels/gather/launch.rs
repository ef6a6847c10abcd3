//! [`RowGatherFunction`]: a gather or scatter of rows on a device.

use crate::ir::builder::Converted;
use crate::runtime::{Buffer, Function, Grid, LaunchOptions};

use super::super::loadable::loadable;
use super::super::rows::{RowError, RowProblem, check_aligned, check_len};
use super::{GatherSide, Params, RowGather, RowGatherConfig};

/// A [`RowGather`] that a device has loaded.
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
    /// Starts the kernel, on the stream for all work that names none: for `problem.rows` numbers of `index`, each below
    /// `limit`, the rows of the numbered side. No elements are no work.
    ///
    /// # Errors
    /// Those of [`RowConfig::check_problem`](crate::kernels::rows::RowConfig::check_problem), with up to 2^30 columns;
    /// buffers that are too short or misaligned; those of [`Function::launch`].
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

    /// As [`launch`](RowGatherFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](RowGatherFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        (problem, limit): (&RowProblem, u32),
        index: &Buffer<i32>,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        let tile = &self.config.rows.tile_of_copy();
        // Both matrices are checked with the rows that they have.
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
