//! [`PermuteFunction`]: a permutation loaded on a device. Here buffers are checked against the
//! problem and the kernel is launched.

use crate::ir::builder::Converted;
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions, LoadOptions};
use crate::tensor::rows::RowAccess;

use super::super::rows::{RowConfig, RowError, check_aligned, check_len};
use super::super::transpose::TransposeFunction;
use super::{AnyKernel, Params, Permute, PermuteConfig, PermuteProblem};

/// A [`Permute`] loaded on a device, made by [`Permute::load`]. Load it once; each
/// [`launch`](PermuteFunction::launch) takes its own problem and buffers.
#[derive(Debug)]
pub struct PermuteFunction<T> {
    function: AnyFunction<T>,
}

#[derive(Debug)]
enum AnyFunction<T> {
    Rows { rows: RowConfig, modes: u32, function: Function<Params<T>> },
    Transpose(TransposeFunction<T>),
}

impl<T: Converted> Permute<T> {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Returns the error of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<PermuteFunction<T>, RowError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Loads the kernel as [`load`](Permute::load) does, with options.
    ///
    /// # Errors
    /// Returns the error of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<PermuteFunction<T>, RowError> {
        let function = match (&self.kernel, self.config) {
            (AnyKernel::Rows(kernel), PermuteConfig::Rows { rows, modes }) => {
                AnyFunction::Rows { rows, modes, function: device.load_with(options, kernel)? }
            }
            (AnyKernel::Transpose(kernel), _) => {
                AnyFunction::Transpose(kernel.load_with(options, device)?)
            }
            _ => {
                return Err(RowError::Tile {
                    rule: "a kernel that keeps rows contiguous needs a row tile",
                });
            }
        };
        Ok(PermuteFunction { function })
    }
}

impl<T: Converted> PermuteFunction<T> {
    /// Returns the log of the driver's compiler.
    pub fn compiler_log(&self) -> &str {
        match &self.function {
            AnyFunction::Rows { function, .. } => function.compiler_log(),
            AnyFunction::Transpose(function) => function.compiler_log(),
        }
    }

    /// Launches the kernel on the default stream. Does nothing if there are no elements.
    ///
    /// # Errors
    /// [`RowError::TooLarge`] or [`RowError::Rows`]; [`RowError::Access`] if a kernel with aligned
    /// accesses gets other rows; [`RowError::Tile`] if the problem has more modes than the kernel,
    /// or if one transposes and the other does not; errors for buffers that are too short or
    /// misaligned, and those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &PermuteProblem,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// Launches as [`launch`](PermuteFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](PermuteFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &PermuteProblem,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        let (rows, kernel_modes, function) = match (&self.function, problem.transpose()) {
            (AnyFunction::Rows { rows, modes, function }, None) => (rows, *modes, function),
            (AnyFunction::Transpose(function), Some(problem)) => {
                return function.launch_with(options, &problem, x, y);
            }
            (AnyFunction::Rows { .. }, Some(_)) => {
                return Err(RowError::Tile {
                    rule: "the kernel keeps rows contiguous, but the problem transposes them",
                });
            }
            (AnyFunction::Transpose(_), None) => {
                return Err(RowError::Tile {
                    rule: "the kernel transposes rows, but the problem keeps them contiguous",
                });
            }
        };
        let tile = &rows.tile_of_copy();
        let lens = problem.lens().ok_or(RowError::TooLarge { operand: "the tensor" })?;
        if tile.access == RowAccess::Aligned && problem.access(T::scalar()) != RowAccess::Aligned {
            return Err(RowError::Access { access: RowAccess::Aligned });
        }
        if problem.used_modes() > kernel_modes {
            return Err(RowError::Tile { rule: "the problem has more row modes than the kernel" });
        }
        check_len("the input", x.len(), lens[0])?;
        check_len("the output", y.len(), lens[1])?;
        check_aligned("the input", tile, x.is_aligned_to(16))?;
        check_aligned("the output", tile, y.is_aligned_to(16))?;
        if lens[0] == 0 {
            return Ok(());
        }
        let rows = problem.rows().ok_or(RowError::Rows { rows: u32::MAX })?;
        let max = i32::MAX as u32 - tile.rows_per_block();
        if rows > max || problem.columns > 1 << 30 {
            return Err(RowError::Rows { rows: rows.max(problem.columns) });
        }
        let grid = Grid::new([tile.blocks(rows), 1, 1], [tile.threads, 1, 1]);
        let sizes = [rows, problem.columns].map(|size| size as i32);
        let counts = problem.modes.map(|mode| mode.count as i32);
        let strides = [
            problem.modes.map(|mode| mode.input_stride as i64),
            problem.modes.map(|mode| mode.output_stride as i64),
        ];
        Ok(function.launch_with(options, grid, (x, y, sizes, counts, strides))?)
    }
}
