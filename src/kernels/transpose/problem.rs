//! [`TransposeProblem`]: the sizes and strides of a matrix, or of a batch of them, and of its
//! transpose.

use std::fmt;

use crate::ir::types::Scalar;
use crate::tensor::rows::{RowAccess, RowTile};

/// The sizes of a matrix, and the strides of it and its transpose. Rows of both are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeProblem {
    /// Rows of the input, columns of the output.
    pub rows: u32,
    /// Columns of the input, rows of the output.
    pub columns: u32,
    /// The input's row pitch in elements; `None` means `columns`.
    pub input_pitch: Option<u64>,
    /// The output's row pitch in elements; `None` means `rows`.
    pub output_pitch: Option<u64>,
    /// The batch's modes. Unused modes come last and have count 1.
    pub batch: [TransposeBatch; 3],
}

/// Prints the sizes, the pitches that are set, and each batch mode's count and strides:
/// `4096x8192`, or `64x32, input pitch 40, batch 7:2560->2048`.
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

/// One mode of a batch of matrices that are transposed in one launch, for example the heads: how
/// many there are, and the distances between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransposeBatch {
    /// How many matrices there are along the mode.
    pub count: u32,
    /// The distance between two matrices of the input, in elements.
    pub input_stride: u64,
    /// The distance between two matrices of the output, in elements.
    pub output_stride: u64,
}

impl TransposeBatch {
    /// A mode with a single matrix.
    pub const ONE: TransposeBatch = TransposeBatch { count: 1, input_stride: 0, output_stride: 0 };
}

impl TransposeProblem {
    /// The maximum rank of a batch.
    pub const MAX_BATCH_MODES: u32 = 3;

    /// Returns the problem for a single packed matrix.
    pub const fn new(rows: u32, columns: u32) -> TransposeProblem {
        let (pitch, batch) = (None, [TransposeBatch::ONE; 3]);
        TransposeProblem { rows, columns, input_pitch: pitch, output_pitch: pitch, batch }
    }

    /// Turns the problem into a batch of `count` matrices, stored one after the other, as are their
    /// transposes.
    #[inline]
    pub fn batched(self, count: u32) -> TransposeProblem {
        let [input, output] = self.pitches();
        let [input_stride, output_stride] =
            [input * u64::from(self.rows), output * u64::from(self.columns)];
        let first = TransposeBatch { count, input_stride, output_stride };
        TransposeProblem { batch: [first, TransposeBatch::ONE, TransposeBatch::ONE], ..self }
    }

    /// Returns the row pitches of input and output.
    #[inline]
    pub fn pitches(&self) -> [u64; 2] {
        let [input, output] = [(self.input_pitch, self.columns), (self.output_pitch, self.rows)]
            .map(|(pitch, contiguous)| pitch.unwrap_or(contiguous.into()));
        [input, output]
    }

    /// Returns true if there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0 || self.batch.iter().any(|mode| mode.count == 0)
    }

    /// Returns how many elements there are.
    #[inline]
    pub fn elements(&self) -> u64 {
        let matrix = u64::from(self.rows) * u64::from(self.columns);
        self.batch.iter().fold(matrix, |all, mode| all.saturating_mul(mode.count.into()))
    }

    /// Returns how many batch modes are used: all up to the last whose count is not 1.
    #[inline]
    pub fn batch_modes(&self) -> u32 {
        let last = self.batch.iter().rposition(|mode| mode.count != 1);
        last.map_or(0, |last| last as u32 + 1)
    }

    /// Returns the access for elements of this type: `Aligned` if every row of input and output
    /// starts and ends at a multiple of 16 bytes, otherwise `Ragged`.
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

    /// Returns how many elements the buffers of input and output need: from the first to the last
    /// one that the kernel reads or writes. `None` if it is 2^40 or more.
    #[inline]
    pub fn lens(&self) -> Option<[u64; 2]> {
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
