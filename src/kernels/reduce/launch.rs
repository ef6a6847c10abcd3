//! [`RowReduceFunction`]: a row reduction loaded on a device. Here buffers are checked against the
//! problem and the kernel is launched.

use crate::ir::builder::Converted;
use crate::runtime::{Buffer, Function, LaunchOptions};

use super::super::loadable::loadable;
use super::super::rows::{RowError, RowProblem, check_aligned, check_len, row_grid};
use super::{Params, RowReduce, RowReduceConfig, reduced};

/// A [`RowReduce`] loaded on a device, made by [`RowReduce::load`]. Load it once; each
/// [`launch`](RowReduceFunction::launch) takes its own problem and buffers.
#[derive(Debug)]
pub struct RowReduceFunction<T, Y = f32> {
    config: RowReduceConfig,
    function: Function<Params<T, Y>>,
}

loadable! {
    impl[T: Converted, Y: Converted] RowReduce<T, Y>: RowReduceConfig => RowReduceFunction<T, Y>, RowError;
    (config, function, _) {
        Ok(RowReduceFunction { config, function })
    }
}

impl<T: Converted, Y: Converted> RowReduceFunction<T, Y> {
    /// Launches the kernel on the default stream; `y[row]` is the row's result. Does nothing if
    /// there are no rows.
    ///
    /// # Errors
    /// Returns the errors of
    /// [`RowConfig::check_problem`](crate::kernels::rows::RowConfig::check_problem), with up to
    /// [`MAX_COLUMNS`](RowReduce::MAX_COLUMNS) columns, and of [`Function::launch`], and errors for
    /// buffers that are too short or misaligned.
    pub fn launch(
        &self,
        problem: &RowProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// Launches as [`launch`](RowReduceFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](RowReduceFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &RowProblem,
        x: &Buffer<T>,
        y: &mut Buffer<Y>,
    ) -> Result<(), RowError> {
        let tile = &self.config.rows.tile;
        let max = RowReduce::<T, Y>::MAX_COLUMNS;
        let [pitch, _] = reduced(problem).check(tile, T::scalar(), max)?;
        check_len("the input", x.len(), problem.len(pitch))?;
        check_len("the output", y.len(), problem.rows.into())?;
        check_aligned("the input", tile, x.is_aligned_to(16))?;
        if problem.rows == 0 {
            return Ok(());
        }
        let grid = row_grid(tile, problem.rows);
        let sizes = [problem.rows, problem.columns].map(|size| size as i32);
        Ok(self.function.launch_with(options, grid, ((x, pitch as i64), y, sizes))?)
    }
}
