//! Thread-value layouts, and what the CuTe DSL adds to the algebra: multicast masks, leading
//! dimensions, fast division. A thread-value layout says which elements of a tile each thread
//! holds; a mask says which blocks of a cluster receive a multicast.

use super::compare::equal;
use super::composed::ComposedLayout;
use super::coord::{Coord, Slot};
use super::error::{LayoutError, ModePath};
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::swizzle::Swizzle;
use super::tuple::{IntTuple, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// Builds a thread-value layout. Returns `(tiler, tv)`: the tile that `threads` cover if each holds
/// `values`, and the layout `tv` for which `tv((t, v))` is the column-major index in the tile of
/// thread `t`'s value `v`. CuTe DSL's `make_layout_tv`. For example, threads `(4,8):(8,1)` with
/// values `(2,1):(1,0)` cover a tile of 8 by 8. Use it to build a tiled copy.
///
/// ```
/// use tilewright::layout::{layout, make_layout_tv, shape};
/// let (tiler, tv) = make_layout_tv(&layout!((4, 8):(8, 1)), &layout!((2, 1):(1, 0)))?;
/// assert_eq!(tiler, shape!(8, 8));
/// assert_eq!(tv.to_string(), "((8,4),2):((8,2),1)");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Returns [`LayoutError::NotBijective`] if threads and values do not number the elements of the
/// tile from 0 on, each once, because then some elements would have no index. Returns
/// [`LayoutError::Undecided`] if symbols leave that open, and the errors of
/// [`Layout::raked_product`].
#[inline]
pub fn make_layout_tv(threads: &Layout, values: &Layout) -> Result<(IntTuple, Layout)> {
    let tile = threads.raked_product(values)?;
    let inverse = tile.right_inverse()?;
    if !equal(&inverse.size()?, &tile.size()?)? {
        return Err(LayoutError::NotBijective { layout: tile.to_string() });
    }
    let layout = inverse.composition(&Layout::compact((threads.size()?, values.size()?)))?;
    Ok((tile.shape().to_owned().product_each()?, layout))
}

/// Returns the bit mask of the indices that `layout` reaches along mode `mode`, with `coord` in the
/// other modes. Use it to select the thread blocks of a cluster for a multicast. CuTe DSL's
/// `make_layout_image_mask`.
///
/// ```
/// use tilewright::layout::{coord, layout, make_layout_image_mask, shape};
/// let mask = make_layout_image_mask(&layout!((2, 4):(1, 2)), &shape!(1, 0), 1)?;
/// assert_eq!(mask, 0b1010_1010);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
///
/// # Errors
/// Returns [`LayoutError::NoSuchMode`], [`LayoutError::RankMismatch`] if `coord` does not fit,
/// [`LayoutError::NotStatic`], [`LayoutError::OutsideShape`] if an index is not below 16, or
/// [`LayoutError::TooLarge`] if there are more coordinates than 16 bits allow.
#[inline]
pub fn make_layout_image_mask(layout: &Layout, coord: &IntTuple, mode: usize) -> Result<u16> {
    if mode >= layout.rank() {
        return Err(LayoutError::NoSuchMode { mode, rank: layout.rank() });
    }
    let all: Coord = Tuple::leaf(Slot::All);
    let slicer = Coord::from(coord).replace(mode, &all)?;
    let (sliced, offset) = layout.slice_and_offset(&slicer)?;
    let offset = offset.to_int()?.to_static()?;
    sliced.indices()?;
    // Stride-0 modes add no bit. Every other mode of extent `s` takes at least `s - 1` of the 15
    // steps from the first bit to the last, so there are at most 2^15 coordinates.
    let walked = sliced.filter()?;
    let limit = 1u16 << 15;
    if walked.size()?.to_static()? > i64::from(limit) {
        let what = "the number of coordinates to walk";
        return Err(LayoutError::TooLarge { what, limit: limit.into() });
    }
    let mut mask = 0u16;
    for index in walked.indices()? {
        let index = index.checked_add(offset).ok_or_else(|| LayoutError::overflow("addition"))?;
        let bit = u32::try_from(index).ok().and_then(|bit| 1u16.checked_shl(bit));
        mask |= bit.ok_or_else(|| LayoutError::OutsideShape {
            coord: index.to_string(),
            shape: u16::BITS.to_string(),
        })?;
    }
    Ok(mask)
}

/// # Contiguous modes
///
/// Finds the mode along which vector accesses run.
impl Layout {
    /// Returns the path of the first leaf with stride 1 whose extent is not 1: the mode along which
    /// elements are contiguous. CuTe DSL's `leading_dim`. Vector accesses run along it.
    ///
    /// ```
    /// # use tilewright::layout::{ModePath, layout};
    /// assert_eq!(layout!((4, (2, 8)):(16, (1, 2))).leading_dim(), Some(ModePath::from([1, 0])));
    /// assert_eq!(layout!((4, 8):(2, 16)).leading_dim(), None);
    /// ```
    #[inline]
    pub fn leading_dim(&self) -> Option<ModePath> {
        #[inline]
        fn walk(layout: LayoutRef<'_>) -> Option<ModePath> {
            if let (Some(s), Some(d)) = (layout.shape().as_leaf(), layout.stride().as_leaf()) {
                return (d.as_static() == Some(1) && !s.is(1)).then(ModePath::default);
            }
            layout.modes().enumerate().find_map(|(i, mode)| {
                let mut path = walk(mode)?;
                path.push_front(i);
                Some(path)
            })
        }
        walk(self.as_ref())
    }

    /// Returns true if the mode at `path` is the contiguous one, that is, if its first stride is 1.
    /// CuTe DSL's `is_major`. Use it to tell row-major from column-major operands.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, 8):(8, 1));
    /// assert!(l.is_major(&[1])? && !l.is_major(&[0])?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    pub fn is_major(&self, path: &[usize]) -> Result<bool> {
        let mode = self.as_ref().mode(path)?;
        Ok(mode.stride.first().and_then(super::basis::ScaledBasis::as_static) == Some(1))
    }
}

/// # Plain layouts as swizzled ones
///
/// Lets code take plain and swizzled layouts alike.
impl Layout {
    /// Returns the swizzle of a plain layout, which is the identity: CuTe's `get_swizzle_portion`.
    /// Use it in code that takes plain and swizzled layouts.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert!(layout!(4:1).swizzle_portion().is_identity());
    /// ```
    pub fn swizzle_portion(&self) -> Swizzle {
        Swizzle::identity()
    }

    /// Wraps the layout as a [`ComposedLayout`], so that you can pass it where swizzled layouts are
    /// accepted.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!(4:1).to_composed().as_normal(), Some(&layout!(4:1)));
    /// ```
    #[inline]
    pub fn to_composed(&self) -> ComposedLayout {
        self.clone().into()
    }
}

/// Divides by a fixed divisor with a multiplication and a shift. Persistent kernels use it to find
/// their tile. For dividends from 0 to 2^31 - 1, the quotient is `(n * multiplier >> 32) >> shift`,
/// and `n` itself if the divisor is 1.
///
/// ```
/// use tilewright::layout::FastDivmod;
/// let d = FastDivmod::new(7)?;
/// assert_eq!(d.divmod(100), (14, 2));
/// assert!(FastDivmod::new(0).is_err());
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FastDivmod {
    divisor: u32,
    multiplier: u32,
    shift: u32,
}

impl FastDivmod {
    /// Precomputes the division by `divisor`, which must be from 1 to 2^31 - 1. Do it on the host,
    /// and pass the result to the kernel.
    ///
    /// ```
    /// # use tilewright::layout::FastDivmod;
    /// assert_eq!(FastDivmod::new(12)?.divmod(31), (2, 7));
    /// assert!(FastDivmod::new(0).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::DivisionByZero`] for 0, [`LayoutError::ExtentNotPositive`] for a
    /// negative divisor, or [`LayoutError::TooLarge`].
    #[doc(alias = "FastDivmodDivisor")]
    pub fn new(divisor: i64) -> Result<Self> {
        if divisor == 0 {
            return Err(LayoutError::DivisionByZero { operation: "FastDivmod" });
        }
        if divisor < 0 {
            return Err(LayoutError::ExtentNotPositive { extent: Int::new(divisor) });
        }
        let limit = u64::from(u32::MAX >> 1);
        let too_large = || LayoutError::TooLarge { what: "the divisor", limit };
        let divisor =
            u32::try_from(divisor).ok().filter(|d| u64::from(*d) <= limit).ok_or_else(too_large)?;
        if divisor == 1 {
            return Ok(Self { divisor, multiplier: 0, shift: 0 });
        }
        // With 2^(l-1) < d <= 2^l and p = 31 + l, m = ceil(2^p / d) has 32 bits. Its error is below
        // d <= 2^l, which does not change the quotient of a dividend below 2^31.
        let log2 = 32 - (divisor - 1).leading_zeros();
        let power = 31 + log2;
        let multiplier = (1u64 << power).div_ceil(u64::from(divisor));
        let multiplier = u32::try_from(multiplier).map_err(|_| too_large())?;
        Ok(Self { divisor, multiplier, shift: power - 32 })
    }

    /// Returns the divisor that was passed to [`new`](FastDivmod::new).
    ///
    /// ```
    /// # use tilewright::layout::FastDivmod;
    /// let by = FastDivmod::new(12)?;
    /// assert_eq!(by.divisor(), 12);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn divisor(self) -> u32 {
        self.divisor
    }

    /// Returns the multiplier of the formula `(n * multiplier >> 32) >> shift`, for code that
    /// divides with it. It is 0 for the divisor 1, for which the quotient is `n` itself.
    ///
    /// ```
    /// # use tilewright::layout::FastDivmod;
    /// assert_eq!((FastDivmod::new(12)?.multiplier(), FastDivmod::new(1)?.multiplier()), (2_863_311_531, 0));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn multiplier(self) -> u32 {
        self.multiplier
    }

    /// Returns the shift of the formula `(n * multiplier >> 32) >> shift`, for code that divides
    /// with it.
    ///
    /// ```
    /// # use tilewright::layout::FastDivmod;
    /// let by = FastDivmod::new(12)?;
    /// let high = (1000 * u64::from(by.multiplier())) >> 32;
    /// assert_eq!((by.shift(), high >> by.shift()), (3, 83));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn shift(self) -> u32 {
        self.shift
    }

    /// Returns quotient and remainder of a dividend below 2^31, computed on the host.
    ///
    /// ```
    /// # use tilewright::layout::FastDivmod;
    /// let by = FastDivmod::new(12)?;
    /// assert_eq!(by.divmod(100), (8, 4));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn divmod(self, dividend: u32) -> (u32, u32) {
        let quotient = if self.divisor == 1 {
            dividend
        } else {
            let high = (u64::from(dividend) * u64::from(self.multiplier)) >> 32;
            (high >> self.shift) as u32
        };
        (quotient, dividend.wrapping_sub(quotient.wrapping_mul(self.divisor)))
    }
}
