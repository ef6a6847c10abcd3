//! [`PermuteProblem`]: a tensor's modes with their strides before and after a permutation.

use std::fmt;

use crate::ir::types::Scalar;
use crate::tensor::rows::{RowAccess, RowTile};

use super::super::rows::RowError;
use super::super::transpose::{TransposeBatch, TransposeProblem};

/// One mode of a permuted tensor, other than the one that is contiguous in the input: how many rows
/// lie along it, and its strides before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermuteMode {
    /// How many rows there are along the mode.
    pub count: u32,
    /// The input's stride along the mode, in elements.
    pub input_stride: u64,
    /// The output's stride along the mode, in elements.
    pub output_stride: u64,
}

impl PermuteMode {
    /// A mode with a single row.
    pub const ONE: PermuteMode = PermuteMode { count: 1, input_stride: 0, output_stride: 0 };
}

/// A permutation of a tensor's modes, as strides: which rows are contiguous in the input, and where
/// each goes in the output. Output rows must not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PermuteProblem {
    /// Elements per row.
    pub columns: u32,
    /// The rows' modes. Unused modes come last and have count 1.
    pub modes: [PermuteMode; 4],
    /// The output's stride between neighbouring elements of a row. It is 1, unless the rows are
    /// transposed with the first mode, which is then contiguous in the output.
    pub column_stride: u64,
}

/// Prints the row length, with its output stride unless that is 1, and each mode's count and
/// strides in input and output: `64,2:64->192,3:128->64`.
impl fmt::Display for PermuteProblem {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.columns)?;
        if self.column_stride != 1 {
            write!(f, ":1->{}", self.column_stride)?;
        }
        let modes = &self.modes[..self.used_modes() as usize];
        modes.iter().try_for_each(|PermuteMode { count, input_stride, output_stride }| {
            write!(f, ",{count}:{input_stride}->{output_stride}")
        })
    }
}

impl PermuteProblem {
    /// The maximum rank of the rows.
    pub const MAX_MODES: u32 = 4;

    /// Returns the permutation of a packed tensor whose last mode is contiguous: output mode `i` is
    /// input mode `order[i]`. Modes that stay adjacent are merged, also with the last one.
    ///
    /// ```
    /// use tilewright::kernels::permute::PermuteProblem;
    ///
    /// // (batch, position, head, dimension) to (batch, head, position, dimension).
    /// let problem = PermuteProblem::new(&[2, 100, 8, 64], &[0, 2, 1, 3])?;
    /// assert_eq!((problem.columns, problem.rows(), problem.used_modes()), (64, Some(1600), 3));
    /// // Nothing moves: all rows are one.
    /// assert_eq!(PermuteProblem::new(&[2, 3, 4], &[0, 1, 2])?.columns, 24);
    /// // (channel, height, width) to (height, width, channel): the transpose of 3 x 400.
    /// let problem = PermuteProblem::new(&[3, 20, 20], &[1, 2, 0])?;
    /// assert_eq!((problem.columns, problem.rows(), problem.column_stride), (400, Some(3), 3));
    /// let error = PermuteProblem::new(&[2, 3], &[1, 1]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "unsupported configuration: the order must contain each mode exactly once"
    /// );
    /// # Ok::<(), tilewright::kernels::rows::RowError>(())
    /// ```
    ///
    /// # Errors
    /// [`RowError::Tile`] if the order is not a permutation, or if the rows have more than 4 modes
    /// after merging; [`RowError::TooLarge`].
    #[inline]
    pub fn new(shape: &[u32], order: &[usize]) -> Result<PermuteProblem, RowError> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if order.is_empty() || sorted.len() != shape.len() || !sorted.into_iter().eq(0..shape.len())
        {
            return Err(RowError::Tile { rule: "the order must contain each mode exactly once" });
        }
        let compact = |sizes: &[u32]| -> Option<Vec<u64>> {
            let mut strides = vec![1u64; sizes.len()];
            for mode in (1..sizes.len()).rev() {
                strides[mode - 1] = strides[mode].checked_mul(sizes[mode].max(1).into())?;
            }
            (strides[0].checked_mul(sizes[0].into())? < 1 << 40).then_some(strides)
        };
        let large = RowError::TooLarge { operand: "the input" };
        let permuted: Vec<u32> = order.iter().map(|mode| shape[*mode]).collect();
        let (input, output) = (compact(shape), compact(&permuted));
        let (input, output) = input.zip(output).ok_or_else(|| large.clone())?;
        // From the output's last mode on, each with its strides.
        let mut modes: Vec<PermuteMode> = Vec::new();
        for (place, mode) in order.iter().enumerate().rev() {
            let (count, input_stride, output_stride) = (shape[*mode], input[*mode], output[place]);
            let last = modes.last_mut().filter(|last| {
                last.input_stride * u64::from(last.count) == input_stride
                    && last.output_stride * u64::from(last.count) == output_stride
            });
            match last {
                Some(last) => {
                    last.count = last.count.checked_mul(count).ok_or_else(|| large.clone())?;
                }
                None if count == 1 => {}
                None => modes.push(PermuteMode { count, input_stride, output_stride }),
            }
        }
        // The columns are contiguous in the input. A tensor of one element has no modes.
        let columns = modes.iter().position(|mode| mode.input_stride == 1);
        let columns = columns
            .map_or(PermuteMode { output_stride: 1, ..PermuteMode::ONE }, |at| modes.remove(at));
        let mut all = [PermuteMode::ONE; 4];
        if modes.len() > all.len() {
            return Err(RowError::Tile { rule: "rows can have at most 4 modes" });
        }
        all[..modes.len()].copy_from_slice(&modes);
        let column_stride = columns.output_stride;
        Ok(PermuteProblem { columns: columns.count, modes: all, column_stride })
    }

    /// Returns the equivalent transpose, or `None` if the rows stay contiguous.
    #[inline]
    pub fn transpose(&self) -> Option<TransposeProblem> {
        let [PermuteMode { count: rows, input_stride, .. }, batch @ ..] = self.modes;
        let batch = batch.map(|PermuteMode { count, input_stride, output_stride }| {
            TransposeBatch { count, input_stride, output_stride }
        });
        (self.column_stride != 1).then_some(TransposeProblem {
            rows,
            columns: self.columns,
            input_pitch: Some(input_stride),
            output_pitch: Some(self.column_stride),
            batch,
        })
    }

    /// Returns how many elements there are.
    #[inline]
    pub fn elements(&self) -> u64 {
        let counts = self.modes.iter().map(|mode| u64::from(mode.count));
        counts.fold(self.columns.into(), u64::saturating_mul)
    }

    /// Returns how many rows there are, or `None` if they reach 2^31.
    #[inline]
    pub fn rows(&self) -> Option<u32> {
        let rows = self.modes.iter().try_fold(1u32, |all, mode| all.checked_mul(mode.count));
        rows.filter(|rows| *rows <= i32::MAX as u32)
    }

    /// Returns how many modes are used: all up to the last whose count is not 1.
    #[inline]
    pub fn used_modes(&self) -> u32 {
        let last = self.modes.iter().rposition(|mode| mode.count != 1);
        last.map_or(0, |last| last as u32 + 1)
    }

    /// Returns the access for elements of this type: `Aligned` if every row starts and ends at a
    /// multiple of 16 bytes, otherwise `Ragged`. `PermuteConfig::new` calls it, and a launch
    /// compares.
    #[inline]
    pub fn access(&self, elem: Scalar) -> RowAccess {
        let vector = u64::from(RowTile::vector_len(elem));
        if let Some(transpose) = self.transpose() {
            return transpose.access(elem);
        }
        let used = self.modes.iter().filter(|mode| mode.count > 1);
        let mut strides = used.flat_map(|mode| [mode.input_stride, mode.output_stride]);
        let aligned = strides.all(|stride| stride.is_multiple_of(vector));
        match aligned && u64::from(self.columns).is_multiple_of(vector) {
            true => RowAccess::Aligned,
            false => RowAccess::Ragged,
        }
    }

    /// Returns how many elements the buffers of input and output need: from the first to the last
    /// one that the kernel reads or writes. `None` if it is 2^40 or more.
    #[inline]
    pub fn lens(&self) -> Option<[u64; 2]> {
        if self.columns == 0 || self.modes.iter().any(|mode| mode.count == 0) {
            return Some([0, 0]);
        }
        let columns = u64::from(self.columns);
        let mut lens = [columns, self.column_stride.checked_mul(columns - 1)?.checked_add(1)?];
        for mode in self.modes {
            for (len, stride) in lens.iter_mut().zip([mode.input_stride, mode.output_stride]) {
                *len = stride.checked_mul(u64::from(mode.count - 1))?.checked_add(*len)?;
            }
        }
        lens.iter().all(|len| *len < 1 << 40).then_some(lens)
    }
}
