//! Computes bank conflicts, sectors and vectors of a linear layout as ranks of its matrix.
//!
//! Let `M` map lane bits to bit addresses. The lanes of one phase and the words of one access span
//! a space that `M` maps onto `2^r` words. They fall to `2^b` banks, where `b` is the rank of the
//! rows that select the bank. The map is linear, so each of these banks gets equally many words:
//! `2^(r - b)`.

use super::solve::rank_of;
use super::{Columns, LinearLayout, Result};
use crate::layout::analysis::{BANK_BITS, BANKS, MAX_VECTOR_BITS, SECTOR_BITS, WARP, access_bits};
use crate::layout::error::LayoutError;

/// log2 of a power of two.
const fn log2(n: u32) -> u32 {
    n.trailing_zeros()
}

impl LinearLayout {
    /// The columns of the bit address: first the bits inside an access, then those of the lanes.
    fn address_columns(
        &self,
        threads: &LinearLayout,
        vector: u32,
        element_bits: u32,
        lane_bits: u32,
    ) -> Result<Columns> {
        let bits = access_bits(vector, element_bits)?;
        let lanes = self.compose(threads)?;
        let mut columns: Columns = (0..log2(bits)).map(|bit| 1 << bit).collect();
        if lanes.out_bits + log2(element_bits) > u64::BITS {
            return Err(LayoutError::TooManyBits { limit: Self::MAX_BITS });
        }
        for (i, column) in lanes.columns.iter().enumerate() {
            let address = column << log2(element_bits);
            if address & u64::from(bits - 1) != 0 {
                return Err(LayoutError::Misaligned {
                    thread: 1 << i,
                    index: *column as i64,
                    bits,
                });
            }
            if (i as u32) < lane_bits {
                columns.push(address);
            }
        }
        Ok(columns)
    }

    /// The number of different words in one bank in a phase of an access to shared memory, from the
    /// matrix. All phases and all banks with a word have this same number. `threads` maps a thread
    /// to the coordinate of the first of its `vector` elements.
    ///
    /// Equal to [`BankConflicts::degree`](crate::layout::BankConflicts::degree).
    ///
    /// ```
    /// use tilewright::layout::{LinearLayout, Swizzle, layout};
    /// let tile = LinearLayout::new(&layout!((32, 32):(32, 1)))?;
    /// let column = LinearLayout::new(&layout!(32:1))?;
    /// assert_eq!(tile.bank_conflict_degree(&column, 1, 32)?, 32);
    /// let swizzled = tile.swizzled(Swizzle::new(5, 0, 5)?)?;
    /// assert_eq!(swizzled.bank_conflict_degree(&column, 1, 32)?, 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::BadAccess`], [`LayoutError::Misaligned`]; [`LayoutError::BitsMismatch`] if a
    /// thread leaves the domain.
    pub fn bank_conflict_degree(
        &self,
        threads: &LinearLayout,
        vector: u32,
        element_bits: u32,
    ) -> Result<u32> {
        let words = access_bits(vector, element_bits)?.div_ceil(BANK_BITS);
        // Equal addresses of lanes `i` and `i ^ 1`, or `i` and `i ^ 2`, are a column of zeros.
        let agrees = |bit: usize| threads.columns.get(bit).is_none_or(|&c| self.apply(c) == 0);
        let merged = words > 1 && (agrees(0) || agrees(1));
        let lane_bits = log2(WARP) - log2(words) + u32::from(merged);
        let columns = self.address_columns(threads, vector, element_bits, lane_bits)?;
        let word = |address: &u64| address >> log2(BANK_BITS);
        let rows = rank_of(columns.iter().map(word));
        let banks = rank_of(columns.iter().map(|a| word(a) % u64::from(BANKS)));
        Ok(1 << (rows - banks))
    }

    /// The number of 32-byte sectors that a warp touches in one access to global memory, from the
    /// matrix: the same for all warps that are full.
    ///
    /// ```
    /// use tilewright::layout::{LinearLayout, layout};
    /// let tile = LinearLayout::new(&layout!((32, 32):(32, 1)))?;
    /// let (row, column) = (layout!(32:32), layout!(32:1));
    /// assert_eq!(tile.sectors_per_warp(&LinearLayout::new(&row)?, 1, 32)?, 4);
    /// assert_eq!(tile.sectors_per_warp(&LinearLayout::new(&column)?, 1, 32)?, 32);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`bank_conflict_degree`](Self::bank_conflict_degree).
    pub fn sectors_per_warp(
        &self,
        threads: &LinearLayout,
        vector: u32,
        element_bits: u32,
    ) -> Result<u32> {
        let columns = self.address_columns(threads, vector, element_bits, log2(WARP))?;
        Ok(1 << rank_of(columns.iter().map(|address| address >> log2(SECTOR_BITS))))
    }

    /// The number of elements of the widest vector, from the matrix. It is the largest `1 << k` for
    /// which the first `k` columns are those of the identity and no other column has any of the
    /// lowest `k` bits.
    ///
    /// Equal to [`WidestVector::elements`](crate::layout::WidestVector::elements).
    ///
    /// ```
    /// use tilewright::layout::{LinearLayout, Swizzle, layout};
    /// let tile = LinearLayout::new(&layout!((64, 8):(1, 64)))?;
    /// assert_eq!(tile.widest_vector(16, 16)?, 8);
    /// assert_eq!(tile.swizzled(Swizzle::new(3, 2, 4)?)?.widest_vector(16, 16)?, 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::BadAccess`] for elements of more than 128 bits, or of a number of bits that
    /// is not a power of two; [`LayoutError::NotPowerOfTwo`] for the alignment.
    pub fn widest_vector(&self, element_bits: u32, base_align_bytes: u64) -> Result<u32> {
        let limit = crate::layout::analysis::widest_access(element_bits, base_align_bytes)?;
        debug_assert!(limit <= MAX_VECTOR_BITS);
        let mut elements = 1;
        while elements < limit {
            let k = log2(elements);
            let next = u64::from(elements);
            let fits = |(i, column): (usize, &u64)| match i as u32 {
                i if i < k => column >> (k + 1) == 0,
                i if i == k => *column == next,
                _ => column & (2 * next - 1) == 0,
            };
            if k >= self.in_bits() || !self.columns.iter().enumerate().all(fits) {
                break;
            }
            elements *= 2;
        }
        Ok(elements)
    }
}
