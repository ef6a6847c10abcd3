//! [`TransposeFunction`]: a transpose on a device.

use crate::ir::Element;
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions};

use super::super::rows::{RowError, check_len};
use super::{Params, THREADS, Tile, Transpose, TransposeConfig, TransposeProblem};

/// A [`Transpose`] that a device has loaded.
#[derive(Debug)]
pub struct TransposeFunction<T> {
    config: TransposeConfig,
    function: Function<Params<T>>,
}

impl<T: Element> Transpose<T> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<TransposeFunction<T>, RowError> {
        Ok(TransposeFunction { config: self.config, function: device.load(&self.kernel)? })
    }
}

impl<T: Element> TransposeFunction<T> {
    /// Starts the kernel, on the stream for all work that names none. No elements are no work.
    ///
    /// # Errors
    /// [`RowError::Pitch`], [`RowError::TooLarge`], [`RowError::Rows`]; [`RowError::Vector`] for rows that the accesses of
    /// the kernel do not divide; buffers that are too short or misaligned; those of [`Function::launch`].
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
        let TransposeProblem { rows, columns, .. } = *problem;
        let pitches = problem.pitches();
        let possible = problem.vectors(T::SCALAR);
        let vectors = [self.config.input_vector, self.config.output_vector];
        let operands = [("the input", rows, columns), ("the output", columns, rows)];
        for (i, (operand, lines, len)) in operands.into_iter().enumerate() {
            let (pitch, vector) = (pitches[i], vectors[i]);
            if pitch < len.into() {
                return Err(RowError::Pitch { operand, pitch, columns: len });
            }
            let all = pitch.checked_mul(lines.into()).filter(|all| *all < 1 << 40);
            all.ok_or(RowError::TooLarge { operand })?;
            if vector > possible[i] {
                return Err(RowError::Vector { operand, vector });
            }
            // Both are below 2^40.
            let needed = u64::from(lines.saturating_sub(1)) * pitch + u64::from(len);
            let is_empty = rows == 0 || columns == 0;
            let found = if i == 0 { x.len() } else { y.len() };
            check_len(operand, found, if is_empty { 0 } else { needed })?;
            let bytes = u64::from(vector * T::SCALAR.size_bytes());
            let aligned = if i == 0 { x.is_aligned_to(bytes) } else { y.is_aligned_to(bytes) };
            if !aligned {
                return Err(RowError::Address { operand });
            }
        }
        let tile = Tile::of(T::SCALAR);
        let [down, across] = [rows.div_ceil(tile.rows), columns.div_ceil(tile.columns)];
        let blocks = down.checked_mul(across).filter(|blocks| *blocks <= i32::MAX as u32);
        let blocks = blocks.ok_or(RowError::Rows { rows })?;
        // Coordinates in the last tile are numbers of `i32`.
        let most = i32::MAX as u32 - 1023;
        if rows > most || columns > most {
            return Err(RowError::Rows { rows: rows.max(columns) });
        }
        if blocks == 0 {
            return Ok(());
        }
        let grid = Grid::new([blocks, 1, 1], [THREADS, 1, 1]);
        let [x_pitch, y_pitch] = pitches.map(|pitch| pitch as i64);
        let sizes = [rows, columns].map(|size| size as i32);
        Ok(self.function.launch_with(options, grid, ((x, x_pitch), (y, y_pitch), sizes))?)
    }
}
