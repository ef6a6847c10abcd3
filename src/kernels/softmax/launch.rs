//! [`SoftmaxFunction`]: a softmax loaded on a device. Here buffers are checked against the problem
//! and the kernel is launched.

use crate::ir::Element;
use crate::ir::builder::{Converted, VectorElement};
use crate::runtime::{Buffer, Function, LaunchOptions};

use super::super::loadable::loadable;
use super::super::rows::{RowError, RowProblem, check_aligned, check_len, row_grid};
use super::{Params, Softmax, SoftmaxConfig};

/// A [`Softmax`] loaded on a device, made by [`Softmax::load`]. Load it once; each
/// [`launch`](SoftmaxFunction::launch) takes its own problem and buffers.
#[derive(Debug)]
pub struct SoftmaxFunction<T, D = T> {
    config: SoftmaxConfig,
    function: Function<Params<T, D>>,
}

loadable! {
    impl[T: Element + Converted, D: VectorElement<2> + Converted] Softmax<T, D>: SoftmaxConfig => SoftmaxFunction<T, D>, RowError;
    (config, function, _) {
        Ok(SoftmaxFunction { config, function })
    }
}

impl<T: Element + Converted, D: VectorElement<2> + Converted> SoftmaxFunction<T, D> {
    /// Launches the kernel on the default stream. Does nothing if the matrix is empty.
    ///
    /// # Errors
    /// Returns the errors of
    /// [`RowConfig::check_problem`](crate::kernels::rows::RowConfig::check_problem) and of
    /// [`Function::launch`], and errors for buffers that are too short or misaligned.
    pub fn launch(
        &self,
        problem: &RowProblem,
        x: &Buffer<T>,
        y: &mut Buffer<D>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// Launches as [`launch`](SoftmaxFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](SoftmaxFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &RowProblem,
        x: &Buffer<T>,
        y: &mut Buffer<D>,
    ) -> Result<(), RowError> {
        let tile = &self.config.rows.tile;
        let pitches = self.config.rows.check_problem(T::scalar(), problem)?;
        let [x_pitch, y_pitch] = pitches.map(|pitch| pitch as i64);
        check_len("the input", x.len(), problem.len(pitches[0]))?;
        check_len("the output", y.len(), problem.len(pitches[1]))?;
        check_aligned("the input", tile, x.is_aligned_to(16))?;
        check_aligned("the output", tile, y.is_aligned_to(16))?;
        if problem.is_empty() {
            return Ok(());
        }
        let grid = row_grid(tile, problem.rows);
        let sizes = [problem.rows, problem.columns].map(|size| size as i32);
        Ok(self.function.launch_with(options, grid, ((x, x_pitch), (y, y_pitch), sizes))?)
    }
}
