//! [`LinearLayout`] is a layout over powers of two, as a matrix over the field of two elements.
//!
//! Such a layout maps the bits of a coordinate to the bits of an index. If no two of these bits
//! meet in a carry, addition is exclusive or and the layout is linear. Questions about it are then
//! linear algebra: a swizzle is one more matrix, one-to-one is full rank, and an inverse is an
//! inverse matrix.
//!
//! Invariant: `LinearLayout::new(L)?.apply(i) == L(i)` for all `i < size(L)`. The form follows
//! "Linear Layouts" (arXiv 2505.23819). No function here walks a domain.

mod convert;
mod solve;

pub(crate) use convert::swizzle_bits;

use std::fmt;

use smallvec::SmallVec;

use super::error::LayoutError;

type Result<T> = std::result::Result<T, LayoutError>;

/// The images of the bits of a coordinate, lowest bit first.
pub(crate) type Columns = SmallVec<[u64; 16]>;

/// A linear map of bit vectors: `M(i) = XOR of column[b] over the bits b that are set in i`.
///
/// Column `b` is the image of `1 << b`, packed into one word. `in_bits` is the number of columns,
/// `out_bits` the number of rows. All images are below `1 << out_bits`.
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
    /// The largest number of bits of a coordinate or an index, so that both are positive `i64`.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert!(LinearLayout::identity(LinearLayout::MAX_BITS).is_ok());
    /// assert!(LinearLayout::identity(LinearLayout::MAX_BITS + 1).is_err());
    /// ```
    pub const MAX_BITS: u32 = 62;

    /// The matrix of these columns, with as many rows as they need.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// let m = LinearLayout::from_columns([1, 3, 4])?;
    /// assert_eq!((m.in_bits(), m.out_bits(), m.apply(0b111)), (3, 3, 0b110));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooManyBits`] for more than [`MAX_BITS`](Self::MAX_BITS) columns or rows.
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

    /// The identity on `bits` bits.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert_eq!(LinearLayout::identity(3)?.apply(5), 5);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooManyBits`].
    #[inline]
    pub fn identity(bits: u32) -> Result<Self> {
        if bits > Self::MAX_BITS {
            return Err(LayoutError::TooManyBits { limit: Self::MAX_BITS });
        }
        Ok(Self { columns: (0..bits).map(|b| 1 << b).collect(), out_bits: bits })
    }

    /// The same map into the numbers below `1 << bits`: rows of zeros are added or removed.
    ///
    /// ```
    /// # use tilewright::layout::LinearLayout;
    /// assert_eq!(LinearLayout::identity(3)?.with_out_bits(4)?.out_bits(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooManyBits`] for too many bits, [`LayoutError::BitsMismatch`] for fewer than
    /// the images have.
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

    /// The number of rows up to the last row with a set bit.
    fn used_bits(&self) -> u32 {
        u64::BITS - self.columns.iter().fold(0, |all, c| all | c).leading_zeros()
    }

    /// The number of bits of a coordinate.
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

    /// The number of bits of an index.
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

    /// The number of coordinates, `1 << in_bits`.
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

    /// The images of `1, 2, 4, ..`.
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

    /// Row `bit`: the bits of a coordinate whose parity is bit `bit` of the index; 0 beyond the
    /// last row.
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

    /// The index of coordinate `i`. Bits of `i` beyond the last column are ignored.
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

    /// The product of matrices, `self o other`: `R(i) == self(other(i))`.
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
    /// [`LayoutError::BitsMismatch`] if `other` leaves the domain of `self`.
    #[inline]
    pub fn compose(&self, other: &LinearLayout) -> Result<Self> {
        let (expected, found) = (self.in_bits(), other.used_bits());
        if found > expected {
            return Err(LayoutError::BitsMismatch { expected, found });
        }
        let columns = other.columns.iter().map(|&c| self.apply(c)).collect();
        Ok(Self { columns, out_bits: self.out_bits })
    }

    /// The matrices side by side: `R(i + size(self) * j) == self(i) ^ other(j)`. For layouts whose
    /// images share no bits it is their concatenation.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let (a, b) = (LinearLayout::new(&layout!(4:8))?, LinearLayout::new(&layout!(8:1))?);
    /// assert_eq!(a.concat(&b)?, LinearLayout::new(&layout!((4, 8):(8, 1)))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::TooManyBits`].
    #[inline]
    pub fn concat(&self, other: &LinearLayout) -> Result<Self> {
        let columns = self.columns.iter().chain(&other.columns).copied();
        let joined = Self::from_columns(columns)?;
        joined.with_out_bits(self.out_bits.max(other.out_bits))
    }
}

/// The matrix, one line for each row; row 0 and column 0 come first.
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
