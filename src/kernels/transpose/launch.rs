//! [`TransposeFunction`]: a transpose on a device.

use crate::ir::Element;
use crate::runtime::{Arguments, Buffer, Function, Grid, LaunchOptions};
use crate::tensor::RowAccess;

use super::super::loadable::loadable;
use super::super::rows::{RowError, check_len};
use super::tile::Tile;
use super::{Params, THREADS, Transpose, TransposeConfig, TransposeProblem};

/// A [`Transpose`] that a device has loaded.
#[derive(Debug)]
pub struct TransposeFunction<T> {
    config: TransposeConfig,
    function: Function<Params<T>>,
}

loadable! {
    impl[T: Element] Transpose<T>: TransposeConfig => TransposeFunction<T>, RowError;
    (config, function, _) {
        Ok(TransposeFunction { config, function })
    }
}

impl<T: Element> TransposeFunction<T> {
    /// Starts the kernel, on the stream for all work that names none. No elements are no work.
    ///
    /// # Errors
    /// [`RowError::Pitch`], [`RowError::TooLarge`], [`RowError::Rows`]; [`RowError::Access`] for rows that a kernel
    /// with aligned accesses does not take; [`RowError::Tile`] for more modes of a batch than the kernel has; buffers that are too short or misaligned; those of [`Function::launch`].
    pub fn launch(
        &self,
        problem: &TransposeProblem,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, x, y)
    }

    /// As [`launch`](TransposeFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](TransposeFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &TransposeProblem,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<(), RowError> {
        self.run(problem, x, y, |function, grid, args| {
            Ok(function.launch_with(options, grid, args)?)
        })
    }

    /// Calls `start` with the kernel, its grid and its arguments, unless there is no element.
    pub(crate) fn run<'h, E: From<RowError>>(
        &self,
        problem: &TransposeProblem,
        x: &'h Buffer<T>,
        y: &'h mut Buffer<T>,
        start: impl FnOnce(
            &Function<Params<T>>,
            Grid,
            <Params<T> as Arguments>::Args<'h, 'h>,
        ) -> Result<(), E>,
    ) -> Result<(), E> {
        let TransposeProblem { rows, columns, batch, .. } = *problem;
        let access = self.config.access;
        let pitches = problem.pitches();
        let operands = [("the input", rows, columns), ("the output", columns, rows)];
        for (i, (operand, lines, len)) in operands.into_iter().enumerate() {
            if pitches[i] < len.into() && lines > 1 {
                return Err(RowError::Pitch { operand, pitch: pitches[i], columns: len }.into());
            }
        }
        let lens = problem.lens().ok_or(RowError::TooLarge { operand: "the matrix" })?;
        if access == RowAccess::Aligned && problem.access(T::scalar()) != RowAccess::Aligned {
            return Err(RowError::Access { access }.into());
        }
        if problem.batch_modes() > self.config.batch_modes {
            return Err(RowError::Tile { rule: "the kernel has the modes of the batch" }.into());
        }
        check_len("the input", x.len(), lens[0])?;
        check_len("the output", y.len(), lens[1])?;
        for (operand, aligned) in
            [("the input", x.is_aligned_to(16)), ("the output", y.is_aligned_to(16))]
        {
            if !aligned {
                return Err(RowError::Address { operand }.into());
            }
        }
        // Coordinates in the last tile are numbers of `i32`.
        let max = i32::MAX as u32 - 1023;
        if rows > max || columns > max {
            return Err(RowError::Rows { rows: rows.max(columns) }.into());
        }
        if problem.is_empty() {
            return Ok(());
        }
        let counts = batch.map(|mode| mode.count);
        let matrices = counts.into_iter().try_fold(1u32, u32::checked_mul);
        let matrices = matrices.filter(|matrices| *matrices <= max);
        let matrices = matrices.ok_or(RowError::Rows { rows })?;
        let tile = Tile::of(&self.config, T::scalar());
        let own = tile.steps([rows, columns]);
        let tiles =
            [rows.div_ceil(own[0]), columns.div_ceil(own[1]), matrices.div_ceil(tile.matrices)];
        let blocks = tiles.into_iter().try_fold(1u32, u32::checked_mul);
        let blocks = blocks.filter(|blocks| *blocks <= i32::MAX as u32);
        let blocks = blocks.ok_or(RowError::Rows { rows })?;
        let grid = Grid::new([blocks, 1, 1], [THREADS, 1, 1]);
        let [x_pitch, y_pitch] = pitches.map(|pitch| pitch as i64);
        let strides = [
            batch.map(|mode| mode.input_stride as i64),
            batch.map(|mode| mode.output_stride as i64),
        ];
        let sizes = [rows, columns, matrices].map(|size| size as i32);
        let (own, tiles) = (own.map(|size| size as i32), tiles.map(|count| count as i32));
        let batch = (counts.map(|count| count as i32), strides);
        let args = ((x, x_pitch, lens[0] as i64), (y, y_pitch), sizes, own, tiles, batch);
        start(&self.function, grid, args)
    }
}
