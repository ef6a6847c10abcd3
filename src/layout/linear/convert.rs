//! Converts layouts to bit matrices and back. [`LinearLayout::new`] and
//! [`LinearLayout::to_composed`] are the usual entry points.

use super::{Columns, LinearLayout, Result};
use crate::layout::builder::LayoutBuilder;
use crate::layout::composed::{ComposedLayout, Part};
use crate::layout::error::LayoutError;
use crate::layout::layout::Layout;
use crate::layout::layout_ref::LayoutRef;
use crate::layout::swizzle::Swizzle;

/// Appends each leaf's columns. `seen` has all bits of the columns so far; a bit that occurs again
/// would make additions carry.
#[inline]
fn push_columns(layout: LayoutRef<'_>, seen: &mut u64, out: &mut Columns) -> Result<()> {
    if !layout.is_leaf() {
        for (i, mode) in layout.modes().enumerate() {
            push_columns(mode, seen, out).map_err(|e| e.at(i))?;
        }
        return Ok(());
    }
    for (extent, stride) in layout.leaves() {
        let (s, d) = (extent.to_static()?, stride.to_int()?.to_static()?);
        if s < 1 || s.count_ones() != 1 {
            return Err(LayoutError::NotPowerOfTwo { value: extent.clone() });
        }
        let bits = s.trailing_zeros();
        let not_linear = |bit| LayoutError::AddsWithCarry {
            extent: extent.clone(),
            stride: stride.to_string(),
            bit,
        };
        let d = match u64::try_from(d) {
            Ok(d) => d,
            Err(_) if bits == 0 => 0,
            Err(_) => return Err(LayoutError::NegativeStride { stride: stride.to_string() }),
        };
        let too_many = LayoutError::TooManyBits { limit: LinearLayout::MAX_BITS };
        for bit in 0..bits {
            // The column must stay below `1 << MAX_BITS`.
            if d != 0 && bit + (u64::BITS - d.leading_zeros()) > LinearLayout::MAX_BITS {
                return Err(too_many);
            }
            if out.len() >= LinearLayout::MAX_BITS as usize {
                return Err(too_many);
            }
            let column = d << bit;
            if *seen & column != 0 {
                return Err(not_linear((*seen & column).trailing_zeros()));
            }
            *seen |= column;
            out.push(column);
        }
    }
    Ok(())
}

impl LinearLayout {
    /// Makes the matrix of a layout: `R(i) == L(i)` for all `i < size(L)`.
    ///
    /// This works exactly if all extents are powers of two and no addition of strides carries.
    /// Strides are usually powers of two, but `2:3`, for example, is linear too.
    ///
    /// ```
    /// use tilewright::layout::{LayoutError, LinearLayout, layout};
    /// assert_eq!(LinearLayout::new(&layout!((2, (4, 2)):(4, (0, 8))))?.columns(), [4, 0, 0, 8]);
    /// let padded = LinearLayout::new(&layout!((32, 32):(33, 1))).unwrap_err();
    /// assert_eq!(padded.mode().map(|m| m.to_string()).as_deref(), Some("1"));
    /// assert!(matches!(padded.cause(), LayoutError::AddsWithCarry { bit: 0, .. }));
    /// let ragged = LinearLayout::new(&layout!((4, (2, 3)):(1, (4, 8)))).unwrap_err();
    /// assert_eq!(ragged.to_string(), "in mode 1.1: 3 is not a power of two");
    /// # Ok::<(), LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the first error with its mode: [`LayoutError::NotPowerOfTwo`] for an extent,
    /// [`LayoutError::AddsWithCarry`], [`LayoutError::NegativeStride`], [`LayoutError::NotStatic`],
    /// or [`LayoutError::NotAnIntegerStride`]; [`LayoutError::TooManyBits`] if an index or a
    /// coordinate has more than [`MAX_BITS`](Self::MAX_BITS) bits.
    #[inline]
    pub fn new(layout: &Layout) -> Result<Self> {
        let (mut columns, mut seen) = (Columns::new(), 0);
        push_columns(layout.as_ref(), &mut seen, &mut columns)?;
        let out_bits = u64::BITS - seen.leading_zeros();
        Ok(Self { columns, out_bits })
    }

    /// Makes the matrix of `inner o 0 o outer`, if both parts are linear. Use it to ask about a
    /// swizzled layout.
    ///
    /// ```
    /// use tilewright::layout::{ComposedLayout, LinearLayout};
    /// let l: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(LinearLayout::from_composed(&l)?.columns(), [9, 18, 36, 1, 2, 4]);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`new`](Self::new) for a part; [`LayoutError::Unsupported`] if there is an
    /// offset, a function inside, or a swizzle as the outer part; [`LayoutError::BitsMismatch`] if
    /// the outer part leaves the domain of an inner layout.
    #[inline]
    pub fn from_composed(layout: &ComposedLayout) -> Result<Self> {
        let unsupported = || LayoutError::Unsupported {
            operation: "the conversion to a bit matrix",
            argument: layout.to_string(),
        };
        if layout.offset().as_static() != Some(0) {
            return Err(unsupported());
        }
        let outer = Self::new(layout.outer_layout()?)?;
        match layout.inner() {
            Part::Identity => Ok(outer),
            Part::Swizzle(swizzle) => outer.swizzled(*swizzle),
            Part::Layout(inner) => Self::new(inner)?.compose(&outer),
            Part::Function(_) => Err(unsupported()),
        }
    }

    /// Returns the matrix of `swizzle o self`. Use it to try a swizzle on a layout.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, Swizzle};
    /// let m = LinearLayout::identity(6)?.swizzled(Swizzle::new(1, 0, 3)?)?;
    /// assert_eq!(m.apply(8), 9);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooManyBits`] if the swizzle reaches too high a bit.
    #[inline]
    pub fn swizzled(&self, swizzle: Swizzle) -> Result<Self> {
        let swizzled = Self::from_columns(self.columns.iter().map(|&c| swizzle_bits(swizzle, c)))?;
        let out_bits = swizzled.out_bits.max(self.out_bits);
        swizzled.with_out_bits(out_bits)
    }

    /// Returns the matrix as a layout, flat and coalesced: `R(i) == self(i)` for all `i <
    /// size(self)`. Use it to continue with the algebra.
    ///
    /// ```
    /// # use tilewright::layout::{LinearLayout, layout};
    /// let m = LinearLayout::new(&layout!((4, 8):(8, 1)))?;
    /// assert_eq!(m.to_layout()?, layout!((4, 8):(8, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotALayout`] if two columns share a bit. Then the map is an exclusive
    /// or that strides cannot express. Try [`to_composed`](Self::to_composed), which may find a
    /// swizzle for it.
    #[inline]
    pub fn to_layout(&self) -> Result<Layout> {
        if !disjoint(self.columns.iter().copied()) {
            return Err(self.not_a_layout());
        }
        layout_of(&self.columns)
    }

    /// Returns the matrix as a swizzled layout, with the swizzle of the fewest bits that makes it
    /// possible. If no swizzle is needed, the result is a plain layout. Use it to find out which
    /// swizzle a permutation of elements is.
    ///
    /// ```
    /// use tilewright::layout::{LinearLayout, Swizzle, layout};
    /// let m = LinearLayout::new(&layout!((8, 64):(64, 1)))?.swizzled(Swizzle::new(3, 3, 3)?)?;
    /// assert!(m.to_layout().is_err());
    /// assert_eq!(m.to_composed()?.to_string(), "S<3,3,3> o 0 o (8,64):(64,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotALayout`] if no swizzle makes it possible.
    #[inline]
    pub fn to_composed(&self) -> Result<ComposedLayout> {
        match self.find_swizzle() {
            Some(swizzle) => {
                let plain: Columns =
                    self.columns.iter().map(|&c| swizzle_bits(swizzle, c)).collect();
                let layout = layout_of(&plain)?;
                if swizzle.is_identity() {
                    return Ok(layout.into());
                }
                ComposedLayout::new(swizzle, 0, layout)
            }
            None => Err(self.not_a_layout()),
        }
    }

    /// Finds the swizzle that makes the columns disjoint: the one with the fewest bits, then the
    /// lowest bits, then the smallest distance. A swizzle is its own inverse, so the same swizzle
    /// goes on top of the resulting layout.
    #[inline]
    fn find_swizzle(&self) -> Option<Swizzle> {
        if disjoint(self.columns.iter().copied()) {
            return Some(Swizzle::identity());
        }
        let top = i64::from(self.out_bits);
        for bits in 1..=top / 2 {
            for base in 0..=top - 2 * bits {
                for distance in bits..=top - bits - base {
                    for shift in [distance, -distance] {
                        let Ok(swizzle) = Swizzle::new(bits, base, shift) else { continue };
                        if disjoint(self.columns.iter().map(|&c| swizzle_bits(swizzle, c))) {
                            return Some(swizzle);
                        }
                    }
                }
            }
        }
        None
    }

    fn not_a_layout(&self) -> LayoutError {
        let columns: Vec<String> = self.columns.iter().map(u64::to_string).collect();
        LayoutError::NotALayout { columns: columns.join(",") }
    }
}

/// Swizzles an integer of at most 62 bits.
pub(crate) fn swizzle_bits(swizzle: Swizzle, value: u64) -> u64 {
    i64::try_from(value).map_or(value, |value| swizzle.apply(value).unsigned_abs())
}

fn disjoint(columns: impl IntoIterator<Item = u64>) -> bool {
    let mut seen = 0;
    for column in columns {
        if seen & column != 0 {
            return false;
        }
        seen |= column;
    }
    true
}

/// Returns the coalesced layout whose strides are the columns.
#[inline]
fn layout_of(columns: &[u64]) -> Result<Layout> {
    let mut bits = LayoutBuilder::new();
    bits.open();
    for &column in columns {
        bits.push(2, i64::try_from(column).unwrap_or(i64::MAX));
    }
    bits.close();
    bits.finish()?.coalesce()
}

impl TryFrom<&Layout> for LinearLayout {
    type Error = LayoutError;

    #[inline]
    fn try_from(layout: &Layout) -> Result<Self> {
        Self::new(layout)
    }
}

impl TryFrom<&ComposedLayout> for LinearLayout {
    type Error = LayoutError;

    #[inline]
    fn try_from(layout: &ComposedLayout) -> Result<Self> {
        Self::from_composed(layout)
    }
}
