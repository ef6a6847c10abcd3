//! [`RowProblem`]: the sizes and row pitches of the matrices that a row kernel works on.

use std::fmt;

use crate::ir::types::Scalar;
use crate::runtime::BufferRef;
use crate::tensor::rows::{RowAccess, RowTile};

use super::error::RowError;

/// The sizes of an input and an output matrix with equally many rows and columns. Elements of a row
/// are contiguous; rows may be padded.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::tensor::rows::RowAccess;
///
/// let problem = RowProblem::new(8192, 4095);
/// assert_eq!(problem.access(Scalar::Bf16), RowAccess::Ragged);
/// // Padded rows start at multiples of 16 bytes, but do not end there.
/// let padded = RowProblem { input_pitch: Some(4096), output_pitch: Some(4096), ..problem };
/// assert_eq!(padded.access(Scalar::Bf16), RowAccess::Ragged);
/// assert_eq!(RowProblem::new(8192, 4096).access(Scalar::Bf16), RowAccess::Aligned);
/// let mixed = RowProblem { input_pitch: Some(4096), ..problem };
/// assert_eq!(mixed.access(Scalar::Bf16), RowAccess::Elements);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowProblem {
    /// Rows of both matrices.
    pub rows: u32,
    /// Elements per row.
    pub columns: u32,
    /// The input's row pitch in elements; `None` means `columns`.
    pub input_pitch: Option<u64>,
    /// The output's row pitch in elements; `None` means `columns`.
    pub output_pitch: Option<u64>,
}

/// Prints `8192x4095`, and the pitches that are set: `8192x4095, input pitch 4096`.
impl fmt::Display for RowProblem {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)?;
        let pitches = [("input", self.input_pitch), ("output", self.output_pitch)];
        pitches.iter().try_for_each(|(side, pitch)| match pitch {
            Some(pitch) => write!(f, ", {side} pitch {pitch}"),
            None => Ok(()),
        })
    }
}

impl RowProblem {
    /// Returns the problem for packed matrices.
    pub const fn new(rows: u32, columns: u32) -> RowProblem {
        RowProblem { rows, columns, input_pitch: None, output_pitch: None }
    }

    /// Returns the row pitches of input and output.
    #[inline]
    pub fn pitches(&self) -> [u64; 2] {
        [self.input_pitch, self.output_pitch].map(|pitch| pitch.unwrap_or(self.columns.into()))
    }

    /// Returns true if the matrices have no elements.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0
    }

    /// Returns the widest access that all rows allow, for input elements of this type.
    #[inline]
    pub fn access(&self, input: Scalar) -> RowAccess {
        let order = [RowAccess::Aligned, RowAccess::Ragged];
        let access = order.into_iter().find(|access| self.has_access(*access, input));
        access.unwrap_or(RowAccess::Elements)
    }

    #[inline]
    fn has_access(&self, access: RowAccess, input: Scalar) -> bool {
        let vector = u64::from(RowTile::vector_len(input));
        // The pitch of a single row does not matter.
        let starts = self.pitches().map(|pitch| if self.rows > 1 { pitch % vector } else { 0 });
        match access {
            RowAccess::Aligned => {
                starts == [0, 0] && u64::from(self.columns).is_multiple_of(vector)
            }
            RowAccess::Ragged => starts[0] == starts[1],
            RowAccess::Elements => true,
        }
    }

    /// Checks the sizes for a kernel with this tile and at most `max` columns; returns the pitches.
    #[inline]
    pub(in crate::kernels) fn check(
        &self,
        tile: &RowTile,
        input: Scalar,
        max: u32,
    ) -> Result<[u64; 2], RowError> {
        let RowProblem { rows, columns, .. } = *self;
        let pitches = self.pitches();
        for (operand, pitch) in [("the input", pitches[0]), ("the output", pitches[1])] {
            if pitch < columns.into() && rows > 1 {
                return Err(RowError::Pitch { operand, pitch, columns });
            }
            let len = pitch.checked_mul(rows.into()).filter(|len| *len < 1 << 40);
            len.ok_or(RowError::TooLarge { operand })?;
        }
        if columns > max {
            return Err(RowError::Columns { columns, max });
        }
        // Blocks past the last row have row indices too.
        let last = u64::from(tile.blocks(rows)) * u64::from(tile.rows_per_block().max(1));
        if last > i32::MAX as u64 {
            return Err(RowError::Rows { rows });
        }
        if !self.has_access(tile.access, input) {
            return Err(RowError::Access { access: tile.access });
        }
        Ok(pitches)
    }

    /// Returns the span of a matrix with this pitch: elements from the first to the last.
    pub(in crate::kernels) fn len(&self, pitch: u64) -> u64 {
        if self.is_empty() { 0 } else { u64::from(self.rows - 1) * pitch + u64::from(self.columns) }
    }
}

/// Checks that a buffer is long enough for the kernel's accesses.
pub(in crate::kernels) fn check_len(
    operand: &'static str,
    found: usize,
    needed: u64,
) -> Result<(), RowError> {
    let found = found as u64;
    if found < needed { Err(RowError::BufferLength { operand, found, needed }) } else { Ok(()) }
}

/// Checks that a buffer has `len` elements, and is aligned well enough for the tile's vectors.
pub(in crate::kernels) fn check_matrix(
    operand: &'static str,
    tile: &RowTile,
    buffer: BufferRef<'_>,
    len: u64,
) -> Result<(), RowError> {
    check_len(operand, buffer.len(), len)?;
    check_aligned(operand, tile, buffer.is_aligned_to(16))
}

/// Checks that a buffer is aligned well enough for the tile's vectors.
pub(in crate::kernels) fn check_aligned(
    operand: &'static str,
    tile: &RowTile,
    aligned: bool,
) -> Result<(), RowError> {
    if tile.access == RowAccess::Elements || aligned {
        Ok(())
    } else {
        Err(RowError::Address { operand })
    }
}
