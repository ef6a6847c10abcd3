//! Checks buffers against a [`TransposeProblem`], and makes grid and arguments of the launch.

use crate::ir::types::Scalar;
use crate::runtime::{
    ArgList, BufferMut, BufferRef, Declared, Device, Function, Grid, LoadOptions,
};
use crate::tensor::rows::RowAccess;

use super::super::rows::{RowError, check_len};
use super::tile::Tile;
use super::{THREADS, TransposeConfig, TransposeProblem, build};

/// A loaded transpose without the type of its elements, with which a GEMM repacks its operands.
#[derive(Debug)]
pub(in crate::kernels) struct LoadedTranspose {
    config: TransposeConfig,
    pub(in crate::kernels) function: Function<Declared>,
}

impl LoadedTranspose {
    /// Builds and loads a kernel.
    #[inline]
    pub(in crate::kernels) fn new(
        config: TransposeConfig,
        scalar: Scalar,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<LoadedTranspose, RowError> {
        let function = device.load_with(options, &build(&config, scalar)?)?;
        Ok(LoadedTranspose { config, function })
    }

    /// As [`TransposeConfig::bind`].
    #[inline]
    pub(in crate::kernels) fn bind<'h>(
        &self,
        problem: &TransposeProblem,
        x: BufferRef<'h>,
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        self.config.bind(problem, x, y, args)
    }
}

impl TransposeConfig {
    /// Checks a launch, and returns its grid and appends its arguments; `None` if there are no
    /// elements.
    #[inline]
    pub(in crate::kernels) fn bind<'h>(
        &self,
        problem: &TransposeProblem,
        x: BufferRef<'h>,
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let elem = x.scalar();
        let TransposeProblem { rows, columns, batch, .. } = *problem;
        let access = self.access;
        let pitches = problem.pitches();
        let operands = [("the input", rows, columns), ("the output", columns, rows)];
        for (i, (operand, lines, len)) in operands.into_iter().enumerate() {
            if pitches[i] < len.into() && lines > 1 {
                return Err(RowError::Pitch { operand, pitch: pitches[i], columns: len });
            }
        }
        let lens = problem.lens().ok_or(RowError::TooLarge { operand: "the matrix" })?;
        if access == RowAccess::Aligned && problem.access(elem) != RowAccess::Aligned {
            return Err(RowError::Access { access });
        }
        if problem.batch_modes() > self.batch_modes {
            return Err(RowError::Tile {
                rule: "the problem has more batch modes than the kernel",
            });
        }
        check_len("the input", x.len(), lens[0])?;
        check_len("the output", y.as_ref().len(), lens[1])?;
        for (operand, aligned) in
            [("the input", x.is_aligned_to(16)), ("the output", y.as_ref().is_aligned_to(16))]
        {
            if !aligned {
                return Err(RowError::Address { operand });
            }
        }
        // Coordinates in the last tile must still fit an `i32`.
        let max = i32::MAX as u32 - 1023;
        if rows > max || columns > max {
            return Err(RowError::Rows { rows: rows.max(columns) });
        }
        if problem.is_empty() {
            return Ok(None);
        }
        let counts = batch.map(|mode| mode.count);
        let matrices = counts.into_iter().try_fold(1u32, u32::checked_mul);
        let matrices = matrices.filter(|matrices| *matrices <= max);
        let matrices = matrices.ok_or(RowError::Rows { rows })?;
        let tile = Tile::of(self, elem);
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
        // In the order of `Params`.
        args.buffer(x);
        args.scalars([x_pitch, lens[0] as i64]);
        args.buffer_mut(y);
        args.scalars([y_pitch]);
        args.scalars(sizes);
        args.scalars(own);
        args.scalars(tiles);
        args.scalars(counts.map(|count| count as i32));
        strides.into_iter().for_each(|strides| args.scalars(strides));
        Ok(Some(grid))
    }
}
