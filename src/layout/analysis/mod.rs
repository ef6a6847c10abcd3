//! [`Analysis`] answers questions about a layout in memory: is it one-to-one or contiguous, do two
//! layouts agree or overlap, and which bank conflicts, sectors and vector widths does an access
//! have? Ask before you build a kernel on a layout.
//!
//! Both [`Layout`] and [`ComposedLayout`] implement it. If the strides alone decide, a question is
//! answered at once, whatever the size. Otherwise all coordinates are tried, up to
//! [`DOMAIN_LIMIT`]; a larger domain is [`LayoutError::TooLarge`]. Symbols are allowed if their
//! divisors and bounds decide. If a layout is linear over bits, its widest vector is read off its
//! matrix, [`LinearLayout`](super::LinearLayout), at any size.
//!
//! ```
//! use tilewright::layout::{Analysis, ComposedLayout, layout};
//! // A 32 x 32 tile of `f32`, a row after the other, in shared memory; each thread of a warp reads
//! // one row of column 0.
//! let tile = layout!((32, 32):(32, 1));
//! let column = layout!(32:1);
//! assert_eq!(tile.bank_conflicts(&column, 1, 32)?.degree(), 32);
//! // One element of padding, or a swizzle, takes the words to 32 different banks.
//! assert_eq!(layout!((32, 32):(33, 1)).bank_conflicts(&column, 1, 32)?.degree(), 1);
//! let swizzled: ComposedLayout = "S<5,0,5> o 0 o (32,32):(32,1)".parse()?;
//! let report = swizzled.bank_conflicts(&column, 1, 32)?;
//! assert_eq!(report.to_string(), "32 threads x 32 bits: no bank conflicts; 1 wavefront in 1 phase");
//! # Ok::<(), tilewright::layout::LayoutError>(())
//! ```

mod access;
mod image;
mod injective;
mod overlap;
mod same;
mod vector;

pub use access::{BankConflicts, BankPhase, Sectors, WarpSectors};
pub use image::{Image, Run};
pub use overlap::Overlap;
pub use vector::{VectorLimit, WidestVector};

use super::composed::{ComposedLayout, Part};
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::swizzle::Swizzle;
use super::tuple::{IntTuple, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// The most coordinates that an analysis tries: 1 Mi. If it would have to try more, it returns
/// [`LayoutError::TooLarge`].
///
/// ```
/// use tilewright::layout::{Analysis, DOMAIN_LIMIT, LayoutError, Swizzle, layout};
/// // Strides decide for a plain layout of any size; a swizzled one is walked.
/// let large = layout!((2048, 2048));
/// assert!(large.is_bijective()?);
/// let swizzled = Swizzle::new(3, 4, 3)?.compose_layout(&layout!((2048, 2048):(1, 4096)))?;
/// assert!(matches!(swizzled.image(), Err(LayoutError::TooLarge { limit: DOMAIN_LIMIT, .. })));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub const DOMAIN_LIMIT: u64 = 1 << 20;

/// The error for a domain with too many coordinates to try.
#[cold]
fn domain_too_large() -> LayoutError {
    LayoutError::TooLarge { what: "the number of coordinates to walk", limit: DOMAIN_LIMIT }
}

/// What an [`Analysis`] works on: a layout as `inner(shift + outer(i))`. You return one from
/// [`Analysis::offsets`] for a type of your own.
///
/// ```
/// use tilewright::layout::{Analysis, Offsets, layout};
/// /// Anything that holds a layout can answer the questions of [`Analysis`] through it.
/// struct Tile(tilewright::layout::Layout);
/// impl Analysis for Tile {
///     fn offsets(&self) -> Result<Offsets<'_>, tilewright::layout::LayoutError> {
///         self.0.offsets()
///     }
/// }
/// assert!(Tile(layout!((4, 8):(8, 1))).is_bijective()?);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Offsets<'a> {
    outer: &'a Layout,
    shift: Int,
    inner: Inner<'a>,
}

#[derive(Clone, Debug)]
enum Inner<'a> {
    /// The identity.
    Plain,
    Swizzle(Swizzle),
    /// Any other composed layout. We can only evaluate it.
    Any(&'a ComposedLayout),
}

impl<'a> Offsets<'a> {
    fn new(outer: &'a Layout) -> Self {
        Self { outer, shift: Int::ZERO, inner: Inner::Plain }
    }

    /// Returns true if there is no swizzle or other inner map, so that the strides decide
    /// everything.
    fn is_plain(&self) -> bool {
        matches!(self.inner, Inner::Plain)
    }

    /// Returns how many coordinates there are, if it is static and at most [`DOMAIN_LIMIT`].
    fn walkable_size(&self) -> Result<i64> {
        let size = self.outer.size()?.to_static()?;
        match u64::try_from(size) {
            Ok(walk) if walk > DOMAIN_LIMIT => Err(domain_too_large()),
            _ => Ok(size),
        }
    }

    /// Returns all indices in the order of their coordinates.
    #[inline]
    fn walk(&self) -> Result<Vec<i64>> {
        let size = self.walkable_size()?;
        if let Inner::Any(composed) = self.inner {
            return (0..size).map(|i| composed.crd2idx(i)?.to_static()).collect();
        }
        let indices = self.outer.indices()?;
        let shift = self.shift.to_static()?;
        let swizzle = match self.inner {
            Inner::Swizzle(swizzle) => swizzle,
            _ => Swizzle::identity(),
        };
        let overflow = || LayoutError::overflow("the walk over a layout");
        indices.map(|i| Ok(swizzle.apply(i.checked_add(shift).ok_or_else(overflow)?))).collect()
    }

    /// Returns the index of a coordinate, which must be in the domain.
    #[inline]
    fn at(&self, coordinate: i64) -> Result<i64> {
        let size = self.outer.size()?.to_static()?;
        if coordinate < 0 || coordinate >= size {
            return Err(LayoutError::OutsideDomain { coordinate, size });
        }
        let shift = self.shift.to_static()?;
        let moved = |i: i64| i.checked_add(shift).ok_or_else(|| LayoutError::overflow("crd2idx"));
        match self.inner {
            Inner::Plain => moved(self.outer.at(coordinate)?),
            Inner::Swizzle(swizzle) => Ok(swizzle.apply(moved(self.outer.at(coordinate)?)?)),
            Inner::Any(composed) => composed.crd2idx(coordinate)?.to_static(),
        }
    }

    /// Splits an integer into a coordinate, which is congruent to the shape.
    #[inline]
    fn coordinate(&self, index: i64) -> Result<IntTuple> {
        super::coord::idx2crd(&IntTuple::from(index), &self.outer.shape().to_owned())
    }

    /// Makes a coordinate of these entries, one per leaf.
    fn of_digits(&self, digits: impl IntoIterator<Item = i64>) -> IntTuple {
        let leaves = digits.into_iter().map(Int::new).collect();
        Tuple { codes: self.outer.codes.clone(), leaves }
    }
}

/// Questions about a layout in memory. Implement [`offsets`](Self::offsets) for your own type that
/// holds a layout, and you get the answers to all of them.
///
/// ```
/// use tilewright::layout::{Analysis, layout};
/// let l = layout!((4, (2, 8)):(2, (1, 8)));
/// assert!(l.is_injective()? && l.is_contiguous()? && l.is_bijective()?);
/// assert_eq!(l.image()?.to_string(), "0..=63");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub trait Analysis {
    /// Returns the layout that the other methods analyse.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, ComposedLayout, LayoutError, layout};
    /// assert!(layout!((4, 8):(8, 1)).offsets().is_ok());
    /// // The inverse of a swizzled layout has a swizzle outside, and no shape.
    /// let l: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert!(matches!(l.left_inverse()?.offsets(), Err(LayoutError::Unsupported { .. })));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Unsupported`] for a composed layout without a shape.
    fn offsets(&self) -> Result<Offsets<'_>>;

    /// Returns true if the layout is one-to-one: `L(i) == L(j)` only for `i == j`. Use it to prove
    /// that threads that write through the layout do not collide.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, Int, Layout, layout};
    /// assert!(!layout!((4, 8):(1, 2)).is_injective()?);
    /// // The divisors of symbols, and how their products nest, may decide.
    /// let n = Int::symbol("n");
    /// assert!(Layout::compact((&n, 64)).is_injective()?);
    /// assert!(Layout::new((&n, 16), (16, 1))?.is_injective()?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] if the strides do not decide and the domain is too large
    /// to try, [`LayoutError::Undecided`] if symbols leave it open, [`LayoutError::NotStatic`] if
    /// there are symbols under a map that we can only evaluate,
    /// [`LayoutError::NotAnIntegerStride`], [`LayoutError::ExtentNotPositive`], or
    /// [`LayoutError::Overflow`].
    fn is_injective(&self) -> Result<bool> {
        injective::is_injective(&self.offsets()?)
    }

    /// Returns two coordinates with the same index, or `None` if there are none. They show why a
    /// layout is not one-to-one.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, layout};
    /// let found = layout!((4, 8):(3, 2)).collision()?.map(|o| o.to_string());
    /// assert_eq!(found.as_deref(), Some("(2,0) and (0,3) share the index 6"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`is_injective`](Self::is_injective), and [`LayoutError::NotStatic`] if there
    /// are symbols.
    #[inline]
    fn collision(&self) -> Result<Option<Overlap>> {
        injective::collision(&self.offsets()?)
    }

    /// Returns true if the layout reaches every integer between its smallest and its largest index,
    /// so that one bulk copy can move the elements. The smallest need not be 0, and an index may
    /// occur more than once.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// assert!(layout!((4, 8):(8, 1)).is_contiguous()? && !layout!((4, 8):(9, 1)).is_contiguous()?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`is_injective`](Self::is_injective).
    fn is_contiguous(&self) -> Result<bool> {
        image::is_contiguous(&self.offsets()?)
    }

    /// Returns true if the layout is a permutation of `0..size`: it has no gap, and no two
    /// coordinates share an index.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// assert!(layout!((4, 8):(8, 1)).is_bijective()? && !layout!((4, 8):(0, 1)).is_bijective()?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`is_injective`](Self::is_injective).
    fn is_bijective(&self) -> Result<bool> {
        image::is_bijective(&self.offsets()?)
    }

    /// Returns true if both layouts have the same size and `L(i) == M(i)` for all `i` below it.
    /// Their modes may differ. Use it to test that a rewritten layout means the same.
    ///
    /// ```
    /// use tilewright::layout::{Swizzle, layout};
    /// assert!(layout!((2, 3):(1, 2)).same_function(&layout!(6:1))?);
    /// assert!(!layout!((2, 3):(3, 1)).same_function(&layout!(6:1))?);
    /// // This swizzle changes nothing below 8.
    /// let swizzled = Swizzle::new(1, 0, 3)?.compose_layout(&layout!(8:1))?;
    /// assert!(layout!(8:1).same_function(&swizzled)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] if different swizzles have domains that are too large to
    /// try, [`LayoutError::Undecided`] if symbols leave it open, [`LayoutError::NotStatic`] if
    /// there are symbols under a map that we can only evaluate, [`LayoutError::ExtentNotPositive`],
    /// or [`LayoutError::Overflow`].
    fn same_function(&self, other: &impl Analysis) -> Result<bool> {
        same::same_function(&self.offsets()?, &other.offsets()?)
    }

    /// Returns the set of all indices, as runs with one step. Use it to see which part of a buffer
    /// a layout covers.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, layout};
    /// assert_eq!(layout!((4, 8):(2, 16)).image()?.to_string(), "0..=6, 16..=22, 32..=38, 48..=54, 64..=70, 80..=86, 96..=102, 112..=118 by 2");
    /// assert_eq!(layout!((1048576, 3):(1, 0)).image()?.to_string(), "0..=1048575");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] if there are more than [`DOMAIN_LIMIT`] runs, or as many
    /// coordinates under a swizzle that we can only try; [`LayoutError::NotStatic`],
    /// [`LayoutError::NotAnIntegerStride`], [`LayoutError::ExtentNotPositive`], or
    /// [`LayoutError::Overflow`].
    #[inline]
    fn image(&self) -> Result<Image> {
        image::image(&self.offsets()?)
    }

    /// Returns a coordinate of each of two layouts that have the same index, if there are any. Use
    /// it to show that two tensors in one buffer do not overlap. A composed layout's offset counts.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, ComposedLayout, Swizzle, layout};
    /// let a = layout!((8, 8):(16, 1));
    /// let at = |offset| ComposedLayout::new(Swizzle::identity(), offset, a.clone());
    /// assert_eq!(a.overlap(&at(8)?)?, None);
    /// let found = a.overlap(&at(39)?)?.map(|o| o.to_string());
    /// assert_eq!(found.as_deref(), Some("(2,7) and (0,0) share the index 39"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`image`](Self::image), except that symbols are allowed if they prove that one
    /// layout ends before the other begins.
    fn overlap(&self, other: &impl Analysis) -> Result<Option<Overlap>> {
        overlap::overlap(&self.offsets()?, &other.offsets()?)
    }

    /// Counts the bank conflicts of an access to shared memory, phase by phase. Use it to choose
    /// between layouts or swizzles for a tile.
    ///
    /// Thread `t` accesses `vector` elements of `element_bits`, starting at index `L(threads(t))`.
    /// 32 threads are a warp. The memory has 32 banks of 4 bytes and starts at a multiple of 128
    /// bytes.
    ///
    /// A warp takes one phase if each thread accesses up to 4 bytes, two phases of half a warp for
    /// 8 bytes, and four phases of a quarter for 16 bytes. It takes half as many if every lane `i`
    /// accesses the same address as lane `i ^ 1`, or every lane the same as lane `i ^ 2`. Threads
    /// of a phase that access the same word share it. (On Hopper, random accesses of 4, 8 and 16
    /// bytes take a time that depends only on how many [wavefronts](BankConflicts::wavefronts) this
    /// gives.)
    ///
    /// ```
    /// use tilewright::layout::{Analysis, layout};
    /// let report = layout!((32, 32):(32, 1)).bank_conflicts(&layout!(32:1), 4, 32)?;
    /// assert_eq!(report.to_string(), "32 threads x 128 bits: 8-way bank conflict (8 words of bank 0 in lanes 0..8 of warp 0); 32 wavefronts in 4 phases");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadAccess`] if an access is not 8, 16, 32, 64 or 128 bits wide,
    /// [`LayoutError::Misaligned`] if an address is not a multiple of that,
    /// [`LayoutError::OutsideDomain`] if a thread has no element, [`LayoutError::TooLarge`] if
    /// there are too many threads, or an error of evaluating the layouts.
    #[inline]
    fn bank_conflicts(
        &self,
        threads: &Layout,
        vector: u32,
        element_bits: u32,
    ) -> Result<BankConflicts> {
        access::bank_conflicts(&self.offsets()?, threads, vector, element_bits)
    }

    /// Counts the 32-byte sectors of global memory that each warp touches in one access, which
    /// tells whether the access is coalesced. The threads are given as in
    /// [`bank_conflicts`](Self::bank_conflicts), and the memory starts at a multiple of 32 bytes.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, layout};
    /// let report = layout!((32, 32):(32, 1)).sectors(&layout!(32:1), 1, 32)?;
    /// assert_eq!(report.to_string(), "32 threads x 32 bits: 32 sectors for 128 bytes (12.5 % used), 4 would do");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`bank_conflicts`](Self::bank_conflicts).
    fn sectors(&self, threads: &Layout, vector: u32, element_bits: u32) -> Result<Sectors> {
        access::sectors(&self.offsets()?, threads, vector, element_bits)
    }

    /// Returns the widest vector with which you can access all elements in the order of the domain,
    /// and what keeps it from being wider. It is the largest power of two `v` that divides the
    /// size, with `v * element_bits <= 128`, for which `L(v * i + j) == L(v * i) + j` for `j < v`
    /// and `L(v * i)` is a multiple of `v`. The memory starts at a multiple of `base_align_bytes`.
    /// With symbols, it is the width that their divisors prove.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, Int, Layout, layout};
    /// let report = layout!((8, 16):(1, 12)).widest_vector(16, 16)?;
    /// assert_eq!(
    ///     report.to_string(),
    ///     "4 x 16 bits; mode 1 has stride 12, but a vector of 8 needs a multiple of 8"
    /// );
    /// // Row-major: the vectors run along the last mode, which must come first.
    /// assert_eq!(layout!((16, 8):(8, 1)).widest_vector(16, 16)?.elements(), 1);
    /// assert_eq!(layout!((16, 8):(8, 1)).select(&[1, 0])?.widest_vector(16, 16)?.elements(), 8);
    /// let n = Int::symbol("n").divisible_by(4);
    /// assert_eq!(Layout::compact((n, 8)).widest_vector(32, 16)?.elements(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadAccess`] if `element_bits` is not a power of two or above 128,
    /// [`LayoutError::NotPowerOfTwo`] if the alignment is not a power of two, or, under a swizzle,
    /// an error of evaluating the layout.
    fn widest_vector(&self, element_bits: u32, base_align_bytes: u32) -> Result<WidestVector> {
        vector::widest_vector(&self.offsets()?, element_bits, base_align_bytes)
    }

    /// Like [`widest_vector`](Self::widest_vector), but with at most `vector` elements, a power of
    /// two. The report says why `vector` elements are not possible: the layout, if it rules them
    /// out at every alignment, and otherwise the alignment.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, layout};
    /// let columns = layout!((4, 8):(8, 1));
    /// assert_eq!(
    ///     columns.vector_of(32, 4, 4)?.to_string(),
    ///     "1 x 32 bits; contiguous runs have length 1, because mode 0 has stride 8, \
    ///      but a vector of 4 needs a multiple of 4"
    /// );
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`widest_vector`](Self::widest_vector), and [`LayoutError::BadAccess`] if
    /// `vector` elements are wider than the widest access.
    #[inline]
    fn vector_of(
        &self,
        element_bits: u32,
        base_align_bytes: u32,
        vector: u32,
    ) -> Result<WidestVector> {
        vector::vector_of(&self.offsets()?, element_bits, base_align_bytes, vector)
    }
}

impl Analysis for Layout {
    fn offsets(&self) -> Result<Offsets<'_>> {
        Ok(Offsets::new(self))
    }
}

impl Analysis for ComposedLayout {
    fn offsets(&self) -> Result<Offsets<'_>> {
        let outer = self.outer_layout()?;
        let (shift, inner) = match (self.offset().as_leaf(), self.inner()) {
            (Some(shift), Part::Identity) => (shift.clone(), Inner::Plain),
            (Some(shift), Part::Swizzle(s)) if s.is_identity() => (shift.clone(), Inner::Plain),
            (Some(shift), Part::Swizzle(s)) => (shift.clone(), Inner::Swizzle(*s)),
            _ => (Int::ZERO, Inner::Any(self)),
        };
        Ok(Offsets { outer, shift, inner })
    }
}

/// Inherent methods for the questions of laws, so that callers need not import the trait.
macro_rules! inherent {
    ($($layout:ident, $example:literal;)*) => {$(
        impl $layout {
            /// Returns true if the layout is one-to-one, as [`Analysis::is_injective`] does.
            ///
            /// ```
            /// # use tilewright::layout::{ComposedLayout, Layout};
            #[doc = $example]
            /// assert!(l.is_injective()?);
            /// # Ok::<(), tilewright::layout::LayoutError>(())
            /// ```
            ///
            /// # Errors
            /// The same as [`Analysis::is_injective`].
            pub fn is_injective(&self) -> Result<bool> {
                Analysis::is_injective(self)
            }

            /// Returns true if the layout is a permutation of `0..size`, as
            /// [`Analysis::is_bijective`] does.
            ///
            /// ```
            /// # use tilewright::layout::{ComposedLayout, Layout};
            #[doc = $example]
            /// assert!(l.is_bijective()?);
            /// # Ok::<(), tilewright::layout::LayoutError>(())
            /// ```
            ///
            /// # Errors
            /// The same as [`Analysis::is_injective`].
            pub fn is_bijective(&self) -> Result<bool> {
                Analysis::is_bijective(self)
            }

            /// Returns true if both layouts have the same size and the same index for each integer
            /// coordinate, as [`Analysis::same_function`] does.
            ///
            /// ```
            /// # use tilewright::layout::{ComposedLayout, Layout, layout};
            #[doc = $example]
            /// assert!(l.same_function(&l)? && !l.same_function(&layout!(32:1))?);
            /// # Ok::<(), tilewright::layout::LayoutError>(())
            /// ```
            ///
            /// # Errors
            /// The same as [`Analysis::same_function`].
            pub fn same_function(&self, other: &impl Analysis) -> Result<bool> {
                <Self as Analysis>::same_function(self, other)
            }
        }
    )*};
}

inherent! {
    Layout, "let l: Layout = \"(4,8):(8,1)\".parse()?;";
    ComposedLayout, "let l: ComposedLayout = \"S<2,0,2> o 0 o (4,8):(8,1)\".parse()?;";
}
