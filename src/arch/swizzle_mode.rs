//! [`SwizzleMode`]: how TMA and `wgmma` permute the 16-byte chunks in rows of shared memory. A
//! tensor map and a matrix descriptor of the same tile must use the same mode.

use std::fmt;

use crate::layout::Swizzle;

/// The swizzle of a tensor map or a matrix descriptor, which spreads the chunks of one column over
/// all banks.
///
/// It permutes the 16-byte chunks within a row by XORing the row's address bits onto the chunk's.
/// It acts on addresses in shared memory, not on coordinates of a box, so a tile must be aligned to
/// [`align_bytes`](SwizzleMode::align_bytes). In bytes it is CuTe's `Swizzle<B,4,3>`.
///
/// ```
/// use tilewright::arch::SwizzleMode;
/// // Chunk `c` of 16 bytes in row `r` of 128 bytes goes to chunk `c ^ (r % 8)`.
/// let (row, chunk) = (5, 3);
/// assert_eq!(SwizzleMode::B128.apply(128 * row + 16 * chunk), 128 * row + 16 * (chunk ^ (row % 8)));
/// assert_eq!(SwizzleMode::None.apply(1234), 1234);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SwizzleMode {
    /// No permutation.
    #[default]
    None,
    /// Rows of 32 bytes: `Swizzle<1,4,3>`.
    B32,
    /// Rows of 64 bytes: `Swizzle<2,4,3>`.
    B64,
    /// Rows of 128 bytes: `Swizzle<3,4,3>`.
    B128,
}

impl SwizzleMode {
    /// All modes, from no permutation to the widest rows, for code that tries each.
    pub const ALL: [SwizzleMode; 4] =
        [SwizzleMode::None, SwizzleMode::B32, SwizzleMode::B64, SwizzleMode::B128];

    /// Returns how many address bits the mode changes: `B` of `Swizzle<B,4,3>`, from 0 for no
    /// permutation to 3.
    pub const fn bits(self) -> u32 {
        match self {
            SwizzleMode::None => 0,
            SwizzleMode::B32 => 1,
            SwizzleMode::B64 => 2,
            SwizzleMode::B128 => 3,
        }
    }

    /// Returns how many bytes a row of the pattern has, or `None` if the mode permutes nothing. A
    /// chunk stays within its row, and the rows of a TMA box must not be longer.
    pub const fn row_bytes(self) -> Option<u32> {
        match self {
            SwizzleMode::None => None,
            SwizzleMode::B32 | SwizzleMode::B64 | SwizzleMode::B128 => Some(16 << self.bits()),
        }
    }

    /// Returns the alignment at which the pattern repeats, at least the 128 bytes that bulk copies
    /// need. Align a shared-memory tile to it: then its chunks are permuted as if the tile started
    /// at address 0.
    pub const fn align_bytes(self) -> u32 {
        128 << self.bits()
    }

    /// Returns the shared-memory address to which the byte at `address` of the unswizzled tile
    /// goes. Use it to read a swizzled tile by hand, for example in a test.
    pub const fn apply(self, address: u64) -> u64 {
        let mask = (1 << self.bits()) - 1;
        address ^ ((address >> 7 & mask) << 4)
    }

    /// Returns the mode that permutes elements of `elem_bytes` bytes like CuTe's `swizzle`, or
    /// `None` if the hardware has no such mode. Use it to find the mode for a swizzled layout.
    ///
    /// ```
    /// use tilewright::arch::SwizzleMode;
    /// use tilewright::layout::Swizzle;
    /// assert_eq!(SwizzleMode::of(Swizzle::new(3, 3, 3)?, 2), Some(SwizzleMode::B128));
    /// assert_eq!(SwizzleMode::of(Swizzle::new(3, 3, 3)?, 4), None);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn of(swizzle: Swizzle, elem_bytes: u32) -> Option<SwizzleMode> {
        if swizzle.is_identity() {
            return Some(SwizzleMode::None);
        }
        let in_bytes = swizzle.downcast(elem_bytes.into()).ok()?;
        SwizzleMode::ALL.into_iter().find(|mode| {
            let of_mode = (i64::from(mode.bits()), 4, 3);
            (in_bytes.bits(), in_bytes.base(), in_bytes.shift()) == of_mode
        })
    }
}

/// Prints CUDA's name of the mode: `none`, `32B`, `64B`, `128B`.
impl fmt::Display for SwizzleMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row_bytes() {
            None => f.write_str("none"),
            Some(bytes) => write!(f, "{bytes}B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each mode permutes like CuTe's swizzle, and the mode of that swizzle is the mode again, for
    /// elements of every size.
    #[test]
    fn modes_are_the_swizzles_of_cute() {
        for mode in SwizzleMode::ALL {
            let bits = i64::from(mode.bits());
            let swizzle = Swizzle::new(bits, 4, 3).unwrap();
            for address in 0..4096 {
                assert_eq!(mode.apply(address), swizzle.apply(address as i64) as u64);
                assert_eq!(mode.apply(mode.apply(address)), address);
            }
            for (elem_bytes, base) in [(1, 4), (2, 3), (4, 2), (8, 1)] {
                let in_elements = Swizzle::new(bits, base, 3).unwrap();
                assert_eq!(SwizzleMode::of(in_elements, elem_bytes), Some(mode), "{in_elements}");
            }
            // The pattern repeats at its alignment.
            let period = u64::from(mode.align_bytes());
            assert!((0..4096).all(|at| mode.apply(at + period) == mode.apply(at) + period));
        }
        for (bits, base, shift) in [(4, 4, 4), (3, 4, 4), (3, 3, 3), (2, 5, 3)] {
            assert_eq!(SwizzleMode::of(Swizzle::new(bits, base, shift).unwrap(), 1), None);
        }
    }
}
