//! Vector types: 2 to 16 elements of one scalar type in one value.

use std::fmt;
use std::str::FromStr;

use super::name::{self, ParseNameError};
use super::types::Scalar;

/// The type of a vector: 2, 4, 8 or 16 elements of a scalar type other than `bool`, of at most 128 bits
/// together, which is what one access of PTX moves (PTX ISA 5.4.2, 9.7.9.8); or 8 elements of 32 bits, what 8 elements
/// of 8 or 16 bits are converted to, which is loaded and stored by two accesses.
///
/// In registers, elements of 8 and 16 bits lie side by side in words of 32 bits, the first one in the lowest
/// bits, as they do in memory; so `f16x2` is the operand of PTX's packed instructions. A vector of 16 bits is
/// a half word. Elements of 32 and 64 bits have a register each.
///
/// It is written `f16x2`, `u8x16`, `f64x2`:
///
/// ```
/// use tilewright::ir::types::{Scalar, VectorType};
/// let pair: VectorType = "bf16x2".parse()?;
/// assert_eq!((pair.elem(), pair.lanes(), pair.registers()), (Scalar::Bf16, 2, 1));
/// assert_eq!(VectorType::new(Scalar::F64, 4), None); // 256 bits
/// # Ok::<(), tilewright::ir::ParseNameError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VectorType {
    elem: Scalar,
    lanes: u8,
}

impl VectorType {
    /// The maximum number of bits of one memory access.
    pub const ACCESS_BITS: u32 = 128;

    /// `f16x2`
    pub const F16X2: VectorType = VectorType { elem: Scalar::F16, lanes: 2 };
    /// `bf16x2`
    pub const BF16X2: VectorType = VectorType { elem: Scalar::Bf16, lanes: 2 };

    /// The vector of `lanes` elements of type `elem`; `None` where there is none.
    pub const fn new(elem: Scalar, lanes: u32) -> Option<VectorType> {
        let lanes_exist = matches!(lanes, 2 | 4 | 8 | 16);
        if matches!(elem, Scalar::Bool) || !lanes_exist {
            return None;
        }
        let converted = elem.bits() == 32 && lanes == 8;
        if elem.bits() * lanes > Self::ACCESS_BITS && !converted {
            return None;
        }
        Some(VectorType { elem, lanes: lanes as u8 })
    }

    /// The vector of `lanes` elements of type `elem`, which the caller knows to exist.
    pub(in crate::ir) const fn of(elem: Scalar, lanes: u8) -> VectorType {
        VectorType { elem, lanes }
    }

    /// All vector types.
    pub fn all() -> impl Iterator<Item = VectorType> {
        let lanes = |elem| [2, 4, 8, 16].into_iter().filter_map(move |n| VectorType::new(elem, n));
        Scalar::ALL.into_iter().flat_map(lanes)
    }

    /// The type of an element.
    pub const fn elem(self) -> Scalar {
        self.elem
    }

    /// The number of elements.
    pub const fn lanes(self) -> u32 {
        self.lanes as u32
    }

    /// Bits of the vector, in memory as in registers.
    pub const fn bits(self) -> u32 {
        self.elem.bits() * self.lanes()
    }

    /// Returns whether one memory access moves it.
    pub const fn is_one_access(self) -> bool {
        self.bits() <= Self::ACCESS_BITS
    }

    /// Bytes of the vector in memory; also the alignment of an access to it.
    pub const fn size_bytes(self) -> u32 {
        self.bits() / 8
    }

    /// The number of registers that hold it.
    pub const fn registers(self) -> u32 {
        self.lanes().div_ceil(self.lanes_per_register())
    }

    /// The number of elements of each register.
    pub const fn lanes_per_register(self) -> u32 {
        match self.elem.bits() {
            8 | 16 if self.bits() < 32 => self.lanes(),
            8 => 4,
            16 => 2,
            _ => 1,
        }
    }

    /// Returns whether the vector has packed arithmetic: `f16x2` and `bf16x2`.
    pub const fn is_packed(self) -> bool {
        matches!(self.elem, Scalar::F16 | Scalar::Bf16) && self.lanes == 2
    }
}

/// `f16x2`
impl fmt::Display for VectorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.elem, self.lanes)
    }
}

impl FromStr for VectorType {
    type Err = ParseNameError;

    #[inline]
    fn from_str(text: &str) -> Result<VectorType, ParseNameError> {
        let all: Vec<VectorType> = VectorType::all().collect();
        name::find("a vector type", &all, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_8_to_256_bits_and_print_as_they_are_read() {
        let all: Vec<VectorType> = VectorType::all().collect();
        // 8 bits: 2 to 16 elements; 16: 2 to 8; 32: 2 to 8; 64: 2.
        assert_eq!(all.len(), 4 * 4 + 4 * 3 + 4 * 3 + 3);
        for vector in all {
            assert!((16..=256).contains(&vector.bits()), "{vector}");
            assert_eq!(vector.to_string().parse(), Ok(vector));
            assert_eq!(vector.registers() * vector.lanes_per_register(), vector.lanes());
            assert!(vector.registers() <= if vector.is_one_access() { 4 } else { 8 }, "{vector}");
        }
        assert_eq!(VectorType::new(Scalar::U8, 16).unwrap().registers(), 4);
        assert_eq!(VectorType::new(Scalar::F64, 2).unwrap().registers(), 2);
        for text in ["f32", "boolx2", "f32x3", "f64x4", "f32x02", "f32x+2", "x2", "f16x2x2", "f16x"]
        {
            assert!(text.parse::<VectorType>().is_err(), "{text}");
        }
    }
}
