//! Vector types: one IR value that holds 2 to 16 elements of a scalar type.

use std::fmt;
use std::str::FromStr;

use super::name::{self, ParseNameError};
use super::types::Scalar;

/// A vector type: 2, 4, 8 or 16 elements of a scalar type other than `bool`.
///
/// A vector has at most 128 bits, the most that one PTX access moves (PTX ISA 5.4.2, 9.7.9.8). The
/// exception is 8 elements of 32 bits, the result of converting 8 elements of 8 or 16 bits, which
/// takes two accesses to load or store.
///
/// In registers, elements of 8 and 16 bits are packed into 32-bit words as in memory, with the
/// first element in the lowest bits. So `f16x2` is an operand of PTX's packed instructions. A
/// 16-bit vector takes half a word. Elements of 32 and 64 bits have a register each.
///
/// Vector types print as, for example, `f16x2`, `u8x16` or `f64x2`:
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
    /// The maximum size of one memory access, in bits.
    pub const ACCESS_BITS: u32 = 128;

    /// `f16x2`
    pub const F16X2: VectorType = VectorType { elem: Scalar::F16, lanes: 2 };
    /// `bf16x2`
    pub const BF16X2: VectorType = VectorType { elem: Scalar::Bf16, lanes: 2 };

    /// Returns the vector of `lanes` elements of type `elem`, or `None` if there is no such type.
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

    /// Returns the vector of `lanes` elements of type `elem`, unchecked: the caller knows that it
    /// is valid.
    pub(in crate::ir) const fn of(elem: Scalar, lanes: u8) -> VectorType {
        VectorType { elem, lanes }
    }

    /// Iterates over all vector types, for tests and tables.
    pub fn all() -> impl Iterator<Item = VectorType> {
        let lanes = |elem| [2, 4, 8, 16].into_iter().filter_map(move |n| VectorType::new(elem, n));
        Scalar::ALL.into_iter().flat_map(lanes)
    }

    /// Returns the element type.
    pub const fn elem(self) -> Scalar {
        self.elem
    }

    /// Returns the element count.
    pub const fn lanes(self) -> u32 {
        self.lanes as u32
    }

    /// Returns the size in bits, the same in memory and in registers.
    pub const fn bits(self) -> u32 {
        self.elem.bits() * self.lanes()
    }

    /// Returns whether one memory access can load or store the vector: true up to 128 bits.
    pub const fn is_one_access(self) -> bool {
        self.bits() <= Self::ACCESS_BITS
    }

    /// Returns the size in memory, in bytes. This is also the alignment that an access to it
    /// requires.
    pub const fn size_bytes(self) -> u32 {
        self.bits() / 8
    }

    /// Returns how many registers hold the vector, for example 1 for `f16x2` and 4 for `f32x4`.
    pub const fn registers(self) -> u32 {
        self.lanes().div_ceil(self.lanes_per_register())
    }

    /// Returns how many elements each register holds, for example 2 for `f16x2` and 1 for `f32x4`.
    pub const fn lanes_per_register(self) -> u32 {
        match self.elem.bits() {
            8 | 16 if self.bits() < 32 => self.lanes(),
            8 => 4,
            16 => 2,
            _ => 1,
        }
    }

    /// Returns whether one instruction computes with all elements at once: true for `f16x2` and
    /// `bf16x2`.
    pub const fn is_packed(self) -> bool {
        matches!(self.elem, Scalar::F16 | Scalar::Bf16) && self.lanes == 2
    }
}

/// Prints, for example, `f16x2`.
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
