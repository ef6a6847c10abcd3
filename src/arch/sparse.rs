//! Finds a sparse MMA operand's metadata: which thread's register holds the bits of which elements.
//! Use it to pack metadata for `mma.sp` and sparse `wgmma` by hand.

use crate::ir::types::Scalar;

/// Returns where the 4 metadata bits of chunk `chunk` of row `row` are, for an operand with 16
/// rows: which of the threads with metadata holds them (counted among lanes `4 (row % 8) ..`), and
/// their lowest bit there. A chunk has 4 columns, or 2 of `tf32` (PTX ISA 9.7.14.6.2, "Matrix
/// fragments for mma.sp").
///
/// Of 4 columns 2 are kept: bits 0 and 1 hold the index of the first one in the chunk, bits 2 and 3
/// that of the second. Of 2 columns of `tf32` one is kept: `0b0100` means the first, `0b1110` the
/// second.
///
/// ```
/// use tilewright::arch::sparse_metadata_at;
/// use tilewright::ir::types::Scalar;
/// // 16 columns of 16 bits are in one thread, rows below 8 in its lower half.
/// assert_eq!(sparse_metadata_at(Scalar::F16, 3, 2), (0, 8));
/// assert_eq!(sparse_metadata_at(Scalar::F16, 11, 4), (1, 16));
/// // 32 columns of 8 bits are in one thread, rows from 8 on in the next.
/// assert_eq!(sparse_metadata_at(Scalar::I8, 11, 9), (3, 4));
/// ```
pub const fn sparse_metadata_at(elem: Scalar, row: u32, chunk: u32) -> (u32, u32) {
    if elem.bits() == 8 {
        (row / 8 + 2 * (chunk / 8), 4 * (chunk % 8))
    } else {
        (chunk / 4, 4 * (chunk % 4) + 16 * (row / 8))
    }
}
