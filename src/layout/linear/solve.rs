//! Rank, kernel and inverses of bit matrices, by Gaussian elimination. They answer which coordinate
//! has an index, and whether a layout is one-to-one, at any size.

use smallvec::SmallVec;

use super::{Columns, LinearLayout, Result};
use crate::layout::error::LayoutError;

/// A vector in the image, with a coordinate that maps to it.
struct Pivot {
    bit: u64,
    vector: u64,
    coordinate: u64,
}

/// The columns in echelon form: each pivot bit is the lowest bit of its vector, and is clear in all
/// later vectors.
#[derive(Default)]
struct Echelon {
    pivots: SmallVec<[Pivot; 16]>,
    kernel: Columns,
}

impl Echelon {
    #[inline]
    fn of(columns: &[u64]) -> Self {
        let mut out = Self::default();
        for (i, &column) in columns.iter().enumerate() {
            let (rest, solution) = out.reduce(column);
            let coordinate = solution ^ 1 << i;
            if rest == 0 {
                out.kernel.push(coordinate);
            } else {
                let bit = rest & rest.wrapping_neg();
                out.pivots.push(Pivot { bit, vector: rest, coordinate });
            }
        }
        out
    }

    /// Returns what is left of `value` without its part in the image, and a coordinate of that
    /// part. Both are linear in `value`.
    fn reduce(&self, value: u64) -> (u64, u64) {
        self.pivots.iter().fold((value, 0), |(rest, solution), p| match rest & p.bit {
            0 => (rest, solution),
            _ => (rest ^ p.vector, solution ^ p.coordinate),
        })
    }

    #[inline]
    fn solutions(&self, bits: u32) -> Columns {
        (0..bits).map(|bit| self.reduce(1 << bit).1).collect()
    }
}

impl LinearLayout {
    /// Returns how many columns are independent. The layout reaches `1 << rank` different indices.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// assert_eq!(LinearLayout::new(&layout!((4, 2):(1, 0)))?.rank(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn rank(&self) -> u32 {
        Echelon::of(&self.columns).pivots.len() as u32
    }

    /// Returns true if the layout is one-to-one, that is, if the rank is the number of columns.
    /// Unlike a test of all coordinates, this works at any size.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// assert!(LinearLayout::new(&layout!((4, 2):(1, 4)))?.is_injective());
    /// assert!(!LinearLayout::new(&layout!((4, 2):(1, 0)))?.is_injective());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn is_injective(&self) -> bool {
        self.rank() == self.in_bits()
    }

    /// Returns true if every integer below `1 << out_bits` is an index: the rank is the number of
    /// rows.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// assert!(LinearLayout::new(&layout!((4, 2):(1, 4)))?.is_surjective());
    /// assert!(!LinearLayout::new(&layout!(4:2))?.is_surjective());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn is_surjective(&self) -> bool {
        self.rank() == self.out_bits
    }

    /// Returns a basis of the coordinates with index 0. Use it to find which coordinates share an
    /// index: two do exactly if their exclusive or is a combination of these.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// assert_eq!(LinearLayout::new(&layout!((4, 2):(1, 0)))?.kernel(), [0b100]);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn kernel(&self) -> Vec<u64> {
        Echelon::of(&self.columns).kernel.into_vec()
    }

    /// Returns a coordinate with the index `index`, or `None` if the layout does not reach it. Use
    /// it to ask who holds an element. If several coordinates have the index, it returns one of
    /// them; the others differ from it by combinations of the [`kernel`](Self::kernel).
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(16, 1)))?;
    /// assert_eq!((m.solve(33), m.solve(8)), (Some(6), None));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn solve(&self, index: u64) -> Option<u64> {
        match Echelon::of(&self.columns).reduce(index) {
            (0, coordinate) => Some(coordinate),
            _ => None,
        }
    }

    /// Returns a matrix `R` with `R(self(i)) == i` for all `i`. Use it to map each index back to
    /// its coordinate.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!(4:2))?;
    /// assert_eq!(m.left_inverse()?.apply(m.apply(3)), 3);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankDeficient`] if two coordinates have the same index.
    #[inline]
    pub fn left_inverse(&self) -> Result<Self> {
        let (echelon, needed) = (Echelon::of(&self.columns), self.in_bits());
        let rank = echelon.pivots.len() as u32;
        if rank < needed {
            return Err(LayoutError::RankDeficient { rank, needed });
        }
        Ok(Self { columns: echelon.solutions(self.out_bits), out_bits: needed })
    }

    /// Returns a matrix `R` with `self(R(j)) == j` for all `j < 1 << out_bits`. Use it to find a
    /// coordinate for each index, if a layout may repeat elements.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 2, 8):(8, 0, 1)))?;
    /// assert_eq!(m.compose(&m.right_inverse()?)?, LinearLayout::identity(5)?);
    /// assert!(m.left_inverse().is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankDeficient`] if the layout does not reach every integer below
    /// `1 << out_bits`.
    #[inline]
    pub fn right_inverse(&self) -> Result<Self> {
        let (echelon, needed) = (Echelon::of(&self.columns), self.out_bits);
        let rank = echelon.pivots.len() as u32;
        if rank < needed {
            return Err(LayoutError::RankDeficient { rank, needed });
        }
        Ok(Self { columns: echelon.solutions(self.out_bits), out_bits: self.in_bits() })
    }

    /// Returns the inverse matrix, which is both the [left](Self::left_inverse) and the
    /// [right](Self::right_inverse) inverse. Use it if the layout is a permutation.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.inverse()?.apply(m.apply(13)), 13);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankDeficient`] if the map is not one-to-one onto `0..1 << out_bits`.
    #[inline]
    pub fn inverse(&self) -> Result<Self> {
        let (rank, needed) = (self.rank(), self.in_bits().max(self.out_bits));
        if rank < needed {
            return Err(LayoutError::RankDeficient { rank, needed });
        }
        self.left_inverse()
    }
}
