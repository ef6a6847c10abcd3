//! [`LinearLayout`] is a layout whose extents are powers of two, as a matrix over bits.
//!
//! Such a layout maps the bits of a coordinate to the bits of an index. If no addition carries,
//! adding is the same as an exclusive or, so the layout is a linear map over the field with two
//! elements, and questions about it are linear algebra: a swizzle is one more matrix, one-to-one
//! means full rank, and the inverse layout is the inverse matrix. Use it if the operations on
//! [`Layout`](super::Layout) refuse a swizzled layout, or if its domain is too large to try.
//!
//! `LinearLayout::new(L)?.apply(i) == L(i)` for all `i < size(L)`. The form follows "Linear
//! Layouts" (arXiv 2505.23819). No function here visits all coordinates.

mod convert;
mod solve;

pub(crate) use convert::swizzle_bits;

use std::fmt;

use smallvec::SmallVec;

use super::error::LayoutError;

type Result<T> = std::result::Result<T, LayoutError>;

/// The images of a coordinate's bits, lowest bit first.
pub(crate) type Columns = SmallVec<[u64; 16]>;

/// A linear map of bit vectors: `M(i)` is the exclusive or of `column[b]` over the bits `b` that
/// are set in `i`. Make one from a layout or a swizzled layout whose extents are powers of two, to
/// invert it or to compare it at any size.
///
/// Column `b` is the image of `1 << b`, packed into one word. There are `in_bits` columns and
/// `out_bits` rows, and all images are below `1 << out_bits`.
///
/// ```
/// use tilewright::layout::{LinearLayout, Swizzle, layout};
/// let l = layout!((4, 8):(8, 1));
/// let m = LinearLayout::new(&l)?;
/// assert_eq!(m.columns(), [8, 16, 1, 2, 4]);
/// assert_eq!(m.apply(13), 11);
/// assert_eq!(l.at(13)?, 11);
/// // A swizzle is a matrix from the left.
/// let s = m.swizzled(Swizzle::new(2, 0, 3)?)?;
/// assert_eq!(s.columns(), [9, 18, 1, 2, 4]);
/// assert_eq!(s.inverse()?.compose(&s)?, LinearLayout::identity(5)?);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LinearLayout {
    columns: Columns,
    out_bits: u32,
}

impl LinearLayout {
    /// The most bits that a coordinate or an index may have: 62, so that both are nonnegative
    /// `i64`.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert!(LinearLayout::identity(LinearLayout::MAX_BITS).is_ok());
    /// assert!(LinearLayout::identity(LinearLayout::MAX_BITS + 1).is_err());
    /// ```
    pub const MAX_BITS: u32 = 62;

    /// Makes the matrix with these columns, and with as many rows as they need. Use it if you know
    /// where each bit of a coordinate goes.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// let m = LinearLayout::from_columns([1, 3, 4])?;
    /// assert_eq!((m.in_bits(), m.out_bits(), m.apply(0b111)), (3, 3, 0b110));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooManyBits`] if there are more than [`MAX_BITS`](Self::MAX_BITS)
    /// columns or rows.
    pub fn from_columns(columns: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut out = Columns::new();
        let mut all = 0;
        for column in columns {
            if out.len() >= Self::MAX_BITS as usize {
                return Err(LayoutError::TooManyBits { limit: Self::MAX_BITS });
            }
            all |= column;
            out.push(column);
        }
        let out_bits = u64::BITS - all.leading_zeros();
        if out_bits > Self::MAX_BITS {
            return Err(LayoutError::TooManyBits { limit: Self::MAX_BITS });
        }
        Ok(Self { columns: out, out_bits })
    }

    /// Makes the identity on `bits` bits, which is the layout `2^bits:1`. Compare a product of
    /// matrices with it, or add a swizzle to it.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert_eq!(LinearLayout::identity(3)?.apply(5), 5);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooManyBits`] if `bits` is above [`MAX_BITS`](Self::MAX_BITS).
    #[inline]
    pub fn identity(bits: u32) -> Result<Self> {
        if bits > Self::MAX_BITS {
            return Err(LayoutError::TooManyBits { limit: Self::MAX_BITS });
        }
        Ok(Self { columns: (0..bits).map(|b| 1 << b).collect(), out_bits: bits })
    }

    /// Adds or removes zero rows, so that the matrix has `bits` rows. Use it before you compare two
    /// matrices, which are equal only if they have equally many rows.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert_eq!(LinearLayout::identity(3)?.with_out_bits(4)?.out_bits(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooManyBits`] if `bits` is above [`MAX_BITS`](Self::MAX_BITS), or
    /// [`LayoutError::BitsMismatch`] if the images need more bits.
    #[inline]
    pub fn with_out_bits(&self, bits: u32) -> Result<Self> {
        if bits > Self::MAX_BITS {
            return Err(LayoutError::TooManyBits { limit: Self::MAX_BITS });
        }
        let found = self.used_bits();
        if found > bits {
            return Err(LayoutError::BitsMismatch { expected: bits, found });
        }
        Ok(Self { columns: self.columns.clone(), out_bits: bits })
    }

    /// Returns how many rows there are up to the last one with a set bit.
    fn used_bits(&self) -> u32 {
        u64::BITS - self.columns.iter().fold(0, |all, c| all | c).leading_zeros()
    }

    /// Returns how many bits a coordinate has, which is the number of columns. It says how many
    /// coordinates the layout has: `1 << in_bits`.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.in_bits(), 5);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn in_bits(&self) -> u32 {
        self.columns.len() as u32
    }

    /// Returns how many bits an index has, which is the number of rows. The layout reaches only
    /// integers below `1 << out_bits`.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.out_bits(), 5);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn out_bits(&self) -> u32 {
        self.out_bits
    }

    /// Returns how many coordinates the layout has: `1 << in_bits`.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.size(), 32);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn size(&self) -> u64 {
        1 << self.columns.len()
    }

    /// Returns the columns: column `b` is the index of coordinate `1 << b`. They determine the
    /// whole map. For `(4,8):(8,1)` they are 8, 16, 1, 2 and 4.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.columns(), [8, 16, 1, 2, 4]);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn columns(&self) -> &[u64] {
        &self.columns
    }

    /// Returns row `bit`: the coordinate bits whose parity is bit `bit` of the index. Use it to ask
    /// what an index bit, for example a bank bit, depends on. It is 0 past the last row.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert_eq!(LinearLayout::from_columns([1, 3, 4])?.row(0), 0b011);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn row(&self, bit: u32) -> u64 {
        let bit_of = |column: &u64| column.checked_shr(bit).unwrap_or(0) & 1;
        self.columns.iter().rev().fold(0, |row, column| row << 1 | bit_of(column))
    }

    /// Returns the index of coordinate `i`, as [`Layout::at`](super::Layout::at) does for a layout.
    /// Bits of `i` past the last column are ignored.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.apply(1 + 4 * 3), 8 + 3);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn apply(&self, i: u64) -> u64 {
        let (mut rest, mut index) = (i, 0);
        for column in &self.columns {
            index ^= column & (rest & 1).wrapping_neg();
            rest >>= 1;
        }
        index
    }

    /// Multiplies the matrices, `self o other`: `R(i) == self(other(i))`. Use it to apply one
    /// layout after another.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let (a, b) = (layout!((4, 8):(8, 1)), layout!((8, 4):(4, 1)));
    /// let product = LinearLayout::new(&a)?.compose(&LinearLayout::new(&b)?)?;
    /// assert_eq!(product.to_layout()?, a.composition(&b)?.coalesce()?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BitsMismatch`] if `other` leaves the domain of `self`.
    #[inline]
    pub fn compose(&self, other: &LinearLayout) -> Result<Self> {
        let (expected, found) = (self.in_bits(), other.used_bits());
        if found > expected {
            return Err(LayoutError::BitsMismatch { expected, found });
        }
        let columns = other.columns.iter().map(|&c| self.apply(c)).collect();
        Ok(Self { columns, out_bits: self.out_bits })
    }

    /// Puts the matrices side by side: `R(i + size(self) * j) == self(i) ^ other(j)`. If the images
    /// of two layouts share no bits, this is their concatenation. Use it to add modes to a layout.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let (a, b) = (LinearLayout::new(&layout!(4:8))?, LinearLayout::new(&layout!(8:1))?);
    /// assert_eq!(a.concat(&b)?, LinearLayout::new(&layout!((4, 8):(8, 1)))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooManyBits`] if there are too many columns.
    #[inline]
    pub fn concat(&self, other: &LinearLayout) -> Result<Self> {
        let columns = self.columns.iter().chain(&other.columns).copied();
        let joined = Self::from_columns(columns)?;
        joined.with_out_bits(self.out_bits.max(other.out_bits))
    }
}

/// Prints one line per row. Row 0 and column 0 come first.
///
/// ```
/// # use tilewright::layout::{LinearLayout, layout};
/// let m = LinearLayout::new(&layout!((2, 4):(4, 1)))?;
/// assert_eq!(m.to_string(), "0 1 0\n0 0 1\n1 0 0");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
impl fmt::Display for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bit in 0..self.out_bits {
            if bit > 0 {
                f.write_str("\n")?;
            }
            for (i, column) in self.columns.iter().enumerate() {
                let space = if i > 0 { " " } else { "" };
                write!(f, "{space}{}", column >> bit & 1)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinearLayout({} <- {:#x?})", self.out_bits, self.columns.as_slice())
    }
}
