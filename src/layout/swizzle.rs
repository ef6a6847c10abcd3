//! [`Swizzle`] XORs some bits of an index into others, so that accesses spread over the banks. Use
//! one for shared-memory tiles that are written along one mode and read along another.

use std::fmt;
use std::str::FromStr;

use super::error::LayoutError;
use super::int::Int;
use super::text::Parser;

type Result<T> = std::result::Result<T, LayoutError>;

/// CuTe's `Swizzle<bits, base, shift>`, which XORs some bits of an index into others:
/// `x ^ ((x & Y) >> shift)`. The mask `Y` of the bits that are read has `bits` bits from bit
/// `base + max(shift, 0)` on. The mask `Z` of the bits that change has as many, from bit
/// `base - min(shift, 0)` on. A negative `shift` shifts to the left. A swizzle is its own inverse.
///
/// For example, `S<3,4,3>` is the 128-byte swizzle in bytes: it XORs the row (bits 7 to 9) into the
/// 16-byte column (bits 4 to 6). To swizzle a layout, use
/// [`compose_layout`](Swizzle::compose_layout).
///
/// ```
/// use tilewright::layout::Swizzle;
/// let s = Swizzle::new(3, 0, 3)?;
/// assert_eq!(s.to_string(), "S<3,0,3>");
/// assert_eq!((s.apply(8), s.apply(s.apply(29))), (9, 29));
/// assert_eq!("Sw<3,0,3>".parse::<Swizzle>()?, s);
/// assert!(Swizzle::new(3, 0, 2).is_err());
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Swizzle {
    bits: u8,
    base: u8,
    shift: i8,
}

impl Swizzle {
    /// Builds a swizzle that keeps the lowest `base` bits and XORs `bits` bits into others at a
    /// distance of `shift`.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 4, 3)?.to_string(), "S<3,4,3>");
    /// assert!(Swizzle::new(3, 4, 2).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadSwizzle`] if `bits` or `base` is negative, if `|shift| < bits`, or
    /// if a bit would be above bit 61.
    #[doc(alias = "make_swizzle")]
    pub fn new(bits: i64, base: i64, shift: i64) -> Result<Self> {
        let bad = || LayoutError::BadSwizzle { bits, base, shift };
        let distance = shift.checked_abs().ok_or_else(bad)?;
        let top = bits.checked_add(base).and_then(|x| x.checked_add(distance)).ok_or_else(bad)?;
        if bits < 0 || base < 0 || distance < bits || top > 62 {
            return Err(bad());
        }
        match (u8::try_from(bits), u8::try_from(base), i8::try_from(shift)) {
            (Ok(bits), Ok(base), Ok(shift)) => Ok(Self { bits, base, shift }),
            _ => Err(bad()),
        }
    }

    /// Returns the swizzle that changes nothing, as CuTe writes it: `S<0,4,3>`. Use it where a
    /// swizzle is needed and you want none.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert!(Swizzle::identity().is_identity());
    /// ```
    pub const fn identity() -> Self {
        Self { bits: 0, base: 4, shift: 3 }
    }

    /// Builds the swizzle that reads the bits in `y` and changes the bits in `z`: CuTe's
    /// `make_swizzle`. Use it if you know which address bits should be mixed.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(Swizzle::from_masks(0b11_0000, 0b110)?, Swizzle::new(2, 1, 3)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadSwizzleMasks`] if the masks are not runs of equally many bits, or
    /// if they overlap.
    pub fn from_masks(y: u64, z: u64) -> Result<Self> {
        let bad = || LayoutError::BadSwizzleMasks { y, z };
        if y == 0 && z == 0 {
            return Ok(Self { bits: 0, base: 0, shift: 0 });
        }
        if y.count_ones() != z.count_ones() {
            return Err(bad());
        }
        let (ty, tz) = (i64::from(y.trailing_zeros()), i64::from(z.trailing_zeros()));
        let made = Self::new(i64::from(y.count_ones()), ty.min(tz), ty - tz).map_err(|_| bad())?;
        if (made.y_mask().unsigned_abs(), made.z_mask().unsigned_abs()) != (y, z) {
            return Err(bad());
        }
        Ok(made)
    }

    /// Returns how many bits change: the first parameter of CuTe's `Swizzle<bits, base, shift>`. `1
    /// << bits` rows get different columns.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.bits(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn bits(self) -> i64 {
        i64::from(self.bits)
    }

    /// Returns how many low bits the swizzle neither reads nor changes: the second parameter of
    /// CuTe's `Swizzle<bits, base, shift>`.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.base(), 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn base(self) -> i64 {
        i64::from(self.base)
    }

    /// Returns the distance from the bits that change up to the bits that are read: the third
    /// parameter of CuTe's `Swizzle<bits, base, shift>`. It is negative if the bits that are read
    /// are the lower ones.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.shift(), 3);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn shift(self) -> i64 {
        i64::from(self.shift)
    }

    /// Returns the mask of the bits that are read, for code that swizzles by itself.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.y_mask(), 0b11_0000);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn y_mask(self) -> i64 {
        ((1i64 << self.bits) - 1) << (self.base() + self.shift().max(0))
    }

    /// Returns the mask of the bits that change, for code that swizzles by itself.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.z_mask(), 0b110);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn z_mask(self) -> i64 {
        ((1i64 << self.bits) - 1) << (self.base() - self.shift().min(0))
    }

    /// Returns true if the swizzle changes nothing, so that you can leave it out.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert!(Swizzle::new(0, 4, 3)?.is_identity());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_identity(self) -> bool {
        self.bits == 0
    }

    /// Returns the swizzled index: the place in memory of the element that would be at `index`
    /// without the swizzle. For example, `S<3,0,3>` maps 8 to 9.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.apply(0b01_0001), 0b01_0011);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn apply(self, index: i64) -> i64 {
        let read = index & self.y_mask();
        index ^ if self.shift >= 0 { read >> self.shift } else { read << -self.shift }
    }

    /// Returns the swizzled index for an index that may contain symbols; for a plain integer, use
    /// [`apply`](Swizzle::apply).
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, Swizzle};
    /// let s = Swizzle::new(2, 1, 3)?;
    /// let x = Int::symbol("x").assume(1, 0, 63)?;
    /// assert_eq!(s.apply_int(&x)?.eval(&Env::new().with("x", 0b01_0001))?, 0b01_0011);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`] if an operand does not fit in 64 bits.
    pub fn apply_int(self, index: &Int) -> Result<Int> {
        if let Some(index) = index.as_static() {
            return Ok(Int::new(self.apply(index)));
        }
        let read = index.and(&Int::new(self.y_mask()))?;
        let distance = Int::new(1i64 << self.shift().abs());
        let moved = if self.shift >= 0 { read.floor_div(&distance)? } else { read.mul(&distance)? };
        index.xor(&moved)
    }

    /// Returns the swizzle that undoes this one. That is the swizzle itself, because the bits that
    /// it reads do not change.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let s = Swizzle::new(2, 1, 3)?;
    /// assert_eq!(s.inverse().apply(s.apply(45)), 45);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[must_use]
    pub fn inverse(self) -> Self {
        self
    }

    /// Returns the swizzle `self o other`, if it is a single swizzle: both have the same distance,
    /// and they either touch different bits or undo each other. Use it to combine the swizzles of
    /// two layouts.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// let (a, b) = (Swizzle::new(1, 0, 3)?, Swizzle::new(1, 1, 3)?);
    /// assert_eq!(a.compose(b)?, Swizzle::new(2, 0, 3)?);
    /// assert_eq!(a.compose(a)?.bits(), 0);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::BadSwizzleMasks`] if no single swizzle does both.
    #[inline]
    pub fn compose(self, other: Swizzle) -> Result<Swizzle> {
        if self.shift != other.shift && (self.is_identity() || other.is_identity()) {
            return Ok(if self.is_identity() { other } else { self });
        }
        let y = (self.y_mask() ^ other.y_mask()).unsigned_abs();
        let z = (self.z_mask() ^ other.z_mask()).unsigned_abs();
        // If one swizzle changes a bit that the other reads, the other would read the changed bit.
        let mixes = self.z_mask() & other.y_mask() != 0 || other.z_mask() & self.y_mask() != 0;
        if self.shift != other.shift || mixes {
            return Err(LayoutError::BadSwizzleMasks { y, z });
        }
        Self::from_masks(y, z)
    }

    /// Returns the swizzle for elements `n` times as wide, where `n` is a power of two. For
    /// example, `S<3,4,3>` on bytes is `S<3,3,3>` on 2-byte elements. Bits inside such an element
    /// are dropped.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 4, 3)?.upcast(2)?, Swizzle::new(3, 3, 3)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotDivisible`] if `n` is not a power of two.
    pub fn upcast(self, n: i64) -> Result<Self> {
        let base = self.base() - log2(n)?;
        if base >= 0 {
            return Self::new(self.bits(), base, self.shift());
        }
        Self::new((self.bits() + base).max(0), 0, self.shift())
    }

    /// Returns the swizzle for elements 1/`n` as wide, where `n` is a power of two. For example,
    /// `S<3,3,3>` on 2-byte elements is `S<3,4,3>` on bytes.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 3, 3)?.downcast(2)?, Swizzle::new(3, 4, 3)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotDivisible`] if `n` is not a power of two, or
    /// [`LayoutError::BadSwizzle`] if a bit would be above bit 61.
    pub fn downcast(self, n: i64) -> Result<Self> {
        Self::new(self.bits(), self.base() + log2(n)?, self.shift())
    }

    /// Returns the swizzle for elements of `new_bits`, given the swizzle of the same memory for
    /// elements of `old_bits`. Use it if you know the element types, not their ratio.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 4, 3)?.recast(8, 16)?, Swizzle::new(3, 3, 3)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`upcast`](Swizzle::upcast) and [`downcast`](Swizzle::downcast).
    #[inline]
    pub fn recast(self, old_bits: i64, new_bits: i64) -> Result<Self> {
        let (up, down) = super::recast::recast_steps(old_bits, new_bits)?;
        self.upcast(up)?.downcast(down)
    }

    /// Returns the size of the largest aligned block that stays contiguous: `1 << base`. A vector
    /// access must not be longer.
    ///
    /// ```
    /// # use tilewright::layout::Swizzle;
    /// assert_eq!(Swizzle::new(3, 4, 3)?.max_alignment(), 16);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn max_alignment(self) -> i64 {
        1i64 << self.base
    }
}

fn log2(n: i64) -> Result<i64> {
    if n > 0 && n.count_ones() == 1 {
        return Ok(i64::from(n.trailing_zeros()));
    }
    Err(LayoutError::NotDivisible { value: Int::new(n), by: Int::new(2) })
}

impl fmt::Display for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "S<{},{},{}>", self.bits, self.base, self.shift)
    }
}
impl fmt::Debug for Swizzle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[inline]
pub(crate) fn parse_swizzle(p: &mut Parser<'_>) -> Result<Swizzle> {
    if !p.eat("Sw<") {
        p.expect("S<", "`S<` or `Sw<`")?;
    }
    let bits = p.number()?;
    p.expect(",", "`,`")?;
    let base = p.number()?;
    p.expect(",", "`,`")?;
    let shift = p.number()?;
    p.expect(">", "`>`")?;
    Swizzle::new(bits, base, shift)
}

impl FromStr for Swizzle {
    type Err = LayoutError;

    /// Parses `S<3,4,3>` or `Sw<3,4,3>`.
    #[inline]
    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser::new(text);
        let swizzle = parse_swizzle(&mut parser)?;
        parser.end()?;
        Ok(swizzle)
    }
}

/// Returns a mask's lowest bit, as a mask.
pub(crate) fn lowest_bit(mask: i64) -> i64 {
    mask & mask.wrapping_neg()
}
