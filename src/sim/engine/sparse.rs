//! Decodes the metadata of a sparse MMA's operand A, to find the columns of its kept elements.
//! `mma.sync` and `wgmma` then multiply only the rows of B that these columns select.

use super::mma::Rows;
use crate::arch::sparse_metadata_at;
use crate::ir::op::metadata_threads;
use crate::ir::types::Scalar;
use crate::sim::fault::raw_fault::RawCause;
use crate::sim::memory::mask::LANES;

/// Returns how many elements a chunk of A has, and how many of them are kept: 1 of 2 for `tf32`, 2
/// of 4 for all other types.
fn chunk(elem: Scalar) -> (usize, usize) {
    if elem == Scalar::Tf32 { (2, 1) } else { (4, 2) }
}

/// Returns the column of each kept element of A, for blocks of 8 rows. `words` holds the lanes'
/// metadata, `k` is the number of columns of A with its zeros.
pub(in crate::sim) fn kept_columns(
    elem: Scalar,
    k: usize,
    selector: u32,
    words: &[u32; LANES],
) -> Result<Vec<Rows<u8>>, RawCause> {
    let ((wide, kept), threads) = (chunk(elem), metadata_threads(elem, k as u32));
    let mut columns = vec![[0; 8]; 2 * (k / 2)];
    for row in 0..16 {
        for number in 0..k / wide {
            let (thread, bit) = sparse_metadata_at(elem, row as u32, number as u32);
            let lane = 4 * (row as u32 % 8) + selector * threads + thread;
            let bits = words.get(lane as usize).map_or(0, |word| word >> bit & 15);
            let found = match (kept, bits) {
                (1, 0b0100) => [0, 0],
                (1, 0b1110) => [1, 0],
                (2, _) if bits & 3 < bits >> 2 => [bits & 3, bits >> 2],
                _ => {
                    let (row, chunk) = (row as u32, number as u32);
                    return Err(RawCause::SparseMetadata { lane, row, chunk, bits });
                }
            };
            for (i, column) in found.into_iter().take(kept).enumerate() {
                let at = row / 8 * (k / 2) + kept * number + i;
                columns[at][row % 8] = (wide * number) as u8 + column as u8;
            }
        }
    }
    Ok(columns)
}
