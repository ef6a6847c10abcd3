//! Finds a sparse MMA operand's metadata: which thread's register holds the bits of which elements.
//! Use it to pack metadata for `mma.sp` and sparse `wgmma` by hand.

use crate::ir::types::Scalar;

/// Returns `(thread, bit)`: where the 4 metadata bits for chunk `chunk` of row `row` go, in a
/// sparse MMA operand with 16 rows. Use it to pack the metadata by hand. `thread` counts the
/// threads that hold metadata for the row, from lane `4 * (row % 8)` on, and `bit` is the lowest of
/// the 4 bits in that thread's register. A chunk has 4 columns, or 2 for `tf32` (PTX ISA
/// 9.7.14.6.2, "Matrix fragments for mma.sp").
///
/// The 4 bits say which columns of the chunk are kept. Of 4 columns, 2 are kept: bits 0 and 1 hold
/// the index of the first one in the chunk, and bits 2 and 3 the index of the second. Of 2 columns
/// of `tf32`, one is kept: `0b0100` means the first, and `0b1110` the second.
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
