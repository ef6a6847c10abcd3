//! Moves a swizzle's permutation from one layout to another. With it you keep a swizzle when you
//! change the layout of a tile.

use super::ComposedLayout;
use crate::layout::error::LayoutError;
use crate::layout::layout::Layout;
use crate::layout::linear::{LinearLayout, swizzle_bits};
use crate::layout::swizzle::Swizzle;

type Result<T> = std::result::Result<T, LayoutError>;

impl Swizzle {
    /// Returns `S o new`, where the swizzle `S` permutes `new`'s coordinates in the same way as
    /// `self` permutes those of `old`: if `self(old(i)) == old(j)`, then `S(new(i)) == new(j)`.
    /// This is CuTe's `transfer_swizzle`. Use it to keep a swizzle when a tile changes from
    /// row-major to column-major, for example.
    ///
    /// Both layouts must have the same size and extents that are powers of two, `old` must be
    /// one-to-one, and `self` must permute the indices of `old`.
    ///
    /// ```
    /// # use tilewright::layout::{Swizzle, layout};
    /// let (rows, columns) = (layout!((8, 8):(8, 1)), layout!((8, 8):(1, 8)));
    /// let moved = Swizzle::new(3, 0, 3)?.transfer(&rows, &columns)?;
    /// // The row selects the column in both.
    /// assert_eq!(moved.to_string(), "S<3,0,-3> o 0 o (8,8):(1,8)");
    /// assert_eq!((rows.at(10)?, Swizzle::new(3, 0, 3)?.apply(rows.at(10)?)), (17, 19));
    /// assert_eq!((rows.at(26)?, moved.crd2idx(10)?), (19, 26.into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`LinearLayout::new`]; [`LayoutError::BitsMismatch`] if the sizes differ;
    /// [`LayoutError::NotInjective`] if `old` is not one-to-one; [`LayoutError::BadSwizzleMasks`]
    /// if the moved bits do not form a swizzle; [`LayoutError::Unsupported`] if `self` leaves the
    /// indices of `old`, or if no swizzle permutes the coordinates of `new` in this way.
    #[inline]
    pub fn transfer(self, old: &Layout, new: &Layout) -> Result<ComposedLayout> {
        let (from, to) = (LinearLayout::new(old)?, LinearLayout::new(new)?);
        if from.in_bits() != to.in_bits() {
            return Err(LayoutError::BitsMismatch {
                expected: from.in_bits(),
                found: to.in_bits(),
            });
        }
        if !from.is_injective() {
            return Err(LayoutError::NotInjective { layout: old.to_string() });
        }
        let unsupported = || LayoutError::Unsupported {
            operation: "transfer_swizzle",
            argument: format!("{self}, {old} and {new}"),
        };
        // Takes the coordinate with the index `index` in `old` and returns its index in `new`.
        let moved = |index: u64| from.solve(index).map(|i| to.apply(i)).ok_or_else(unsupported);
        let used = from.columns().iter().fold(0, |all, column| all | column);
        let (mut y, mut z) = (0, 0);
        for bit in (0..63).map(|bit| 1u64 << bit).filter(|bit| used & bit != 0) {
            let read = self.y_mask().unsigned_abs() & bit != 0;
            let written = bit ^ swizzle_bits(self, bit);
            if read && written != 0 {
                y |= moved(bit)?;
                z |= moved(written)?;
            }
        }
        // Bits in between that `new` does not use may be swizzled or not, so fill the masks up.
        let swizzle = Swizzle::from_masks(run(y), run(z))?;
        for (column, target) in from.columns().iter().zip(to.columns()) {
            if swizzle_bits(swizzle, *target) != moved(swizzle_bits(self, *column))? {
                return Err(unsupported());
            }
        }
        swizzle.compose_layout(new)
    }
}

/// Fills all bits between the lowest and the highest bit of `mask`.
fn run(mask: u64) -> u64 {
    if mask == 0 {
        0
    } else {
        (u64::MAX >> mask.leading_zeros()) & (u64::MAX << mask.trailing_zeros())
    }
}
