//! [`TransposeProblem`]: the sizes of a matrix, or a batch of them, and where it and its transpose lie.

use std::fmt;

use crate::ir::types::Scalar;
use crate::tensor::{RowAccess, RowTile};

/// The sizes of a matrix and where it and its transpose lie. Rows of both are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeProblem {
    /// The rows of the input, the columns of the output.
    pub rows: u32,
    /// The columns of the input, the rows of the output.
    pub columns: u32,
    /// The elements from a row of the input to the next one; `None` is `columns`.
    pub input_pitch: Option<u64>,
    /// The elements from a row of the output to the next one; `None` is `rows`.
    pub output_pitch: Option<u64>,
    /// The modes of a batch of such matrices. Unused modes come last and have the count 1.
    pub batch: [TransposeBatch; 3],
}

/// `4096x8192`, the pitches that are given, and the count of each mode of a batch with its strides:
/// `64x32, input pitch 40, batch 7:2560->2048`.
impl fmt::Display for TransposeProblem {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)?;
        for (side, pitch) in [("input", self.input_pitch), ("output", self.output_pitch)] {
            pitch.map_or(Ok(()), |pitch| write!(f, ", {side} pitch {pitch}"))?;
        }
        let batch = &self.batch[..self.batch_modes() as usize];
        batch.iter().try_for_each(|TransposeBatch { count, input_stride, output_stride }| {
            write!(f, ", batch {count}:{input_stride}->{output_stride}")
        })
    }
}

/// A mode of a batch of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeBatch {
    /// The number of matrices along the mode.
    pub count: u32,
    /// The elements from a matrix of the input to the next one.
    pub input_stride: u64,
    /// The elements from a matrix of the output to the next one.
    pub output_stride: u64,
}

impl TransposeBatch {
    /// A mode with one matrix.
    pub const ONE: TransposeBatch = TransposeBatch { count: 1, input_stride: 0, output_stride: 0 };
}

impl TransposeProblem {
    /// The maximum number of modes of a batch.
    pub const MAX_BATCH_MODES: u32 = 3;

    /// Contiguous matrices.
    pub const fn new(rows: u32, columns: u32) -> TransposeProblem {
        let (pitch, batch) = (None, [TransposeBatch::ONE; 3]);
        TransposeProblem { rows, columns, input_pitch: pitch, output_pitch: pitch, batch }
    }

    /// `count` matrices that follow each other, and so do their transposes.
    #[inline]
    pub fn batched(self, count: u32) -> TransposeProblem {
        let [input, output] = self.pitches();
        let [input_stride, output_stride] =
            [input * u64::from(self.rows), output * u64::from(self.columns)];
        let first = TransposeBatch { count, input_stride, output_stride };
        TransposeProblem { batch: [first, TransposeBatch::ONE, TransposeBatch::ONE], ..self }
    }

    /// Returns the pitches of the input and the output.
    #[inline]
    pub fn pitches(&self) -> [u64; 2] {
        let [input, output] = [(self.input_pitch, self.columns), (self.output_pitch, self.rows)]
            .map(|(pitch, contiguous)| pitch.unwrap_or(contiguous.into()));
        [input, output]
    }

    /// Returns true if there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0 || self.batch.iter().any(|mode| mode.count == 0)
    }

    /// Returns the number of elements.
    #[inline]
    pub fn elements(&self) -> u64 {
        let matrix = u64::from(self.rows) * u64::from(self.columns);
        self.batch.iter().fold(matrix, |all, mode| all.saturating_mul(mode.count.into()))
    }

    /// Returns the number of modes of the batch that are used: those up to the last count other than 1.
    #[inline]
    pub fn batch_modes(&self) -> u32 {
        let last = self.batch.iter().rposition(|mode| mode.count != 1);
        last.map_or(0, |last| last as u32 + 1)
    }

    /// Returns the accesses for elements of this type: `Aligned` if every row of input and output starts at a multiple of
    /// 16 bytes and ends there, else `Ragged`.
    #[inline]
    pub fn access(&self, elem: Scalar) -> RowAccess {
        let chunk = u64::from(RowTile::vector_len(elem));
        let strides = self.batch.iter().filter(|mode| mode.count > 1);
        let mut all = strides.flat_map(|mode| [mode.input_stride, mode.output_stride]);
        let [input, output] = self.pitches();
        let sizes = [input, output, self.rows.into(), self.columns.into()];
        let aligned = sizes.iter().all(|size| size.is_multiple_of(chunk));
        match aligned && all.all(|stride| stride.is_multiple_of(chunk)) {
            true => RowAccess::Aligned,
            false => RowAccess::Ragged,
        }
    }

    /// Returns the elements from the first to the last one of the input and the output: `None` for 2^40 or more.
    #[inline]
    pub(crate) fn lens(&self) -> Option<[u64; 2]> {
        if self.is_empty() {
            return Some([0, 0]);
        }
        let [input, output] = self.pitches();
        let mut lens = [(input, self.rows, self.columns), (output, self.columns, self.rows)].map(
            |(pitch, lines, len)| pitch.checked_mul(u64::from(lines - 1))?.checked_add(len.into()),
        );
        for mode in self.batch {
            let strides = [mode.input_stride, mode.output_stride];
            for (len, stride) in lens.iter_mut().zip(strides) {
                let more = stride.checked_mul(u64::from(mode.count - 1));
                *len = len.zip(more).and_then(|(len, more)| len.checked_add(more));
            }
        }
        let [input, output] = lens.map(|len| len.filter(|len| *len < 1 << 40));
        Some([input?, output?])
    }
}
