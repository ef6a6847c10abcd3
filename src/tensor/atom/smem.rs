//! [`SmemAtom`]: the shared-memory tiles that `wgmma` and TMA understand. Make an operand's shared
//! layout from one, and both can use the tile.
//!
//! A tile has eight lines of 16, 32, 64 or 128 bytes. The 16-byte units of line `i` are permuted by
//! an exclusive or with `i`, so that accesses along lines and along columns of units both avoid
//! bank conflicts. PTX ISA, "Shared Memory Matrix Layout" and "Swizzling Modes".

use crate::layout::{ComposedLayout, Layout, Swizzle, layout};

use super::error::AtomError;

use crate::arch::Major;

/// A shared-memory tile's swizzle, by its line length. Take the widest one whose line divides the
/// tile's contiguous extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SmemSwizzle {
    /// No swizzle, lines of 16 bytes: CuTe's `INTER`, the interleaved layout.
    Inter,
    /// Lines of 32 bytes.
    Sw32,
    /// Lines of 64 bytes.
    Sw64,
    /// Lines of 128 bytes.
    Sw128,
}

impl SmemSwizzle {
    /// All swizzles, for example to try each on a tile.
    pub const ALL: [SmemSwizzle; 4] =
        [SmemSwizzle::Inter, SmemSwizzle::Sw32, SmemSwizzle::Sw64, SmemSwizzle::Sw128];

    /// Returns the bytes per line. A tile's contiguous extent must be a multiple of it.
    pub const fn line_bytes(self) -> u32 {
        16 << self.bits()
    }

    /// How many bits of a 16-byte unit's index are permuted.
    const fn bits(self) -> u32 {
        match self {
            SmemSwizzle::Inter => 0,
            SmemSwizzle::Sw32 => 1,
            SmemSwizzle::Sw64 => 2,
            SmemSwizzle::Sw128 => 3,
        }
    }
}

/// A shared-memory tile in a layout that `wgmma` reads: CuTe's `GMMA::Layout_K_SW128_Atom<T>` and
/// its siblings; it prints under that name. Repeat it with
/// [`tile_to_shape`](ComposedLayout::tile_to_shape) to make a whole operand.
///
/// ```
/// use tilewright::layout::shape;
/// use tilewright::arch::Major;
/// use tilewright::tensor::atom::{SmemAtom, SmemSwizzle};
/// let atom = SmemAtom::new(Major::K, SmemSwizzle::Sw128);
/// assert_eq!(atom.swizzle().to_string(), "S<3,4,3>"); // of bytes
/// let f16 = atom.position_independent(16)?;
/// assert_eq!(f16.to_string(), "S<3,3,3> o 0 o (8,64):(64,1)");
/// let tile = f16.tile_to_shape(&shape!(128, 64, 4), None)?;
/// assert_eq!(tile.to_string(), "S<3,3,3> o 0 o ((8,16),(64,1),(1,4)):((64,512),(1,0),(0,8192))");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmemAtom {
    /// The contiguous mode.
    pub major: Major,
    /// The swizzle.
    pub swizzle: SmemSwizzle,
}

impl SmemAtom {
    /// Makes the atom for a major mode (the contiguous one) and a swizzle.
    pub const fn new(major: Major, swizzle: SmemSwizzle) -> Self {
        Self { major, swizzle }
    }

    /// Returns the swizzle on byte addresses: `S<b,4,3>`. It is the identity for
    /// [`SmemSwizzle::Inter`].
    pub fn swizzle(&self) -> Swizzle {
        Swizzle::new(i64::from(self.swizzle.bits()), 4, 3).unwrap_or(Swizzle::identity())
    }

    /// Maps (MN, K) to an element before the swizzle, for elements of `bits` bits. Use it to see
    /// the tile's shape; for a tensor take
    /// [`position_independent`](SmemAtom::position_independent).
    ///
    /// # Errors
    /// [`AtomError::ElementBits`] if the width is not a power of two up to 128.
    #[inline]
    pub fn layout(&self, bits: u32) -> Result<Layout, AtomError> {
        if !bits.is_power_of_two() || bits > 128 {
            return Err(AtomError::ElementBits { bits });
        }
        let line = i64::from(self.swizzle.line_bytes() * 8 / bits);
        Ok(match self.major {
            Major::Mn => layout!((line, 8):(1, line)),
            Major::K => layout!((8, line):(line, 1)),
        })
    }

    /// Maps (MN, K) to an element, with the swizzle in element units: CuTe's
    /// `as_position_independent_swizzle_layout`. Repeat it with
    /// [`tile_to_shape`](ComposedLayout::tile_to_shape) for the layout of a shared tensor.
    ///
    /// # Errors
    /// [`AtomError::ElementBits`] if the width is not a power of two up to 128.
    #[inline]
    pub fn position_independent(&self, bits: u32) -> Result<ComposedLayout, AtomError> {
        let layout = self.layout(bits)?;
        let swizzle = self.swizzle().recast(8, i64::from(bits))?;
        if swizzle.is_identity() {
            return Ok(layout.into());
        }
        Ok(swizzle.compose_composed(&layout.into())?)
    }

    /// Iterates over all atoms, for example to look one up by name.
    pub fn all() -> impl Iterator<Item = SmemAtom> {
        [Major::K, Major::Mn].into_iter().flat_map(|major| {
            SmemSwizzle::ALL.into_iter().map(move |swizzle| SmemAtom::new(major, swizzle))
        })
    }
}
