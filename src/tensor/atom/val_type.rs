//! [`ValType`]: the element types of MMA operands, which you name when you choose an instruction.

use std::fmt;

use crate::ir::types::Scalar;

/// The element type of an MMA operand: CuTe's `ValTypeA` and so on. It prints as in CuTe's atom
/// names.
///
/// [`Scalar`] is the type of one value in a register or in memory. [`ValType::scalar`] returns the
/// `Scalar` of an operand type; types narrower than a byte and complex types have none.
///
/// ```
/// use tilewright::tensor::atom::ValType;
/// assert_eq!(ValType::Bf16.to_string(), "BF16");
/// assert_eq!((ValType::E4M3.ptx(), ValType::E4M3.bits()), ("e4m3", 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValType {
    /// One bit, unsigned; `U1` in CuTe's names.
    B1,
    /// Signed, 4 bits.
    S4,
    /// Unsigned, 4 bits.
    U4,
    /// Signed, 8 bits.
    S8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 16 bits.
    S16,
    /// Signed, 32 bits.
    S32,
    /// 8-bit float: 4 bits of exponent, 3 of mantissa.
    E4M3,
    /// 8-bit float: 5 bits of exponent, 2 of mantissa.
    E5M2,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// A binary32 with 19 significant bits: sign, 8 of exponent, 10 of mantissa.
    Tf32,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// A complex number of two `F64`.
    C64,
    /// The three `F64` accumulators of a complex multiplication with Gauss's method.
    Gc64,
}

impl ValType {
    /// All types, for example to list the instructions that exist.
    pub const ALL: [ValType; 16] = [
        ValType::B1,
        ValType::S4,
        ValType::U4,
        ValType::S8,
        ValType::U8,
        ValType::S16,
        ValType::S32,
        ValType::E4M3,
        ValType::E5M2,
        ValType::F16,
        ValType::Bf16,
        ValType::Tf32,
        ValType::F32,
        ValType::F64,
        ValType::C64,
        ValType::Gc64,
    ];

    /// Returns the bits per element in memory and in registers. Use it to compute how many elements
    /// a register or a line holds.
    pub const fn bits(self) -> u32 {
        match self {
            ValType::B1 => 1,
            ValType::S4 | ValType::U4 => 4,
            ValType::S8 | ValType::U8 | ValType::E4M3 | ValType::E5M2 => 8,
            ValType::S16 | ValType::F16 | ValType::Bf16 => 16,
            ValType::S32 | ValType::Tf32 | ValType::F32 => 32,
            ValType::F64 => 64,
            ValType::C64 => 128,
            ValType::Gc64 => 192,
        }
    }

    /// Returns the type of the elements in kernels, or `None` if kernels have no such scalar.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::tensor::atom::ValType;
    /// assert_eq!((ValType::S8.scalar(), ValType::U4.scalar()), (Some(Scalar::I8), None));
    /// ```
    pub const fn scalar(self) -> Option<Scalar> {
        match self {
            ValType::S8 => Some(Scalar::I8),
            ValType::U8 => Some(Scalar::U8),
            ValType::S16 => Some(Scalar::I16),
            ValType::S32 => Some(Scalar::I32),
            ValType::E4M3 => Some(Scalar::F8E4M3),
            ValType::E5M2 => Some(Scalar::F8E5M2),
            ValType::F16 => Some(Scalar::F16),
            ValType::Bf16 => Some(Scalar::Bf16),
            ValType::Tf32 => Some(Scalar::Tf32),
            ValType::F32 => Some(Scalar::F32),
            ValType::F64 => Some(Scalar::F64),
            ValType::B1 | ValType::S4 | ValType::U4 | ValType::C64 | ValType::Gc64 => None,
        }
    }

    /// Returns the type's spelling in PTX instructions, for example `bf16`. Complex types are
    /// spelled `f64`, because their instructions work on the parts.
    pub const fn ptx(self) -> &'static str {
        match self {
            ValType::B1 => "b1",
            ValType::S4 => "s4",
            ValType::U4 => "u4",
            ValType::S8 => "s8",
            ValType::U8 => "u8",
            ValType::S16 => "s16",
            ValType::S32 => "s32",
            ValType::E4M3 => "e4m3",
            ValType::E5M2 => "e5m2",
            ValType::F16 => "f16",
            ValType::Bf16 => "bf16",
            ValType::Tf32 => "tf32",
            ValType::F32 => "f32",
            ValType::F64 | ValType::C64 | ValType::Gc64 => "f64",
        }
    }

    /// The type's spelling in CuTe's atom names.
    pub(super) const fn name(self) -> &'static str {
        match self {
            ValType::B1 => "U1",
            ValType::S4 => "S4",
            ValType::U4 => "U4",
            ValType::S8 => "S8",
            ValType::U8 => "U8",
            ValType::S16 => "S16",
            ValType::S32 => "S32",
            ValType::E4M3 => "E4M3",
            ValType::E5M2 => "E5M2",
            ValType::F16 => "F16",
            ValType::Bf16 => "BF16",
            ValType::Tf32 => "TF32",
            ValType::F32 => "F32",
            ValType::F64 => "F64",
            ValType::C64 => "C64",
            ValType::Gc64 => "GC64",
        }
    }

    /// Returns whether the type is an integer; one bit counts as one. An integer MMA accumulates in
    /// `S32`.
    pub const fn is_integer(self) -> bool {
        match self {
            ValType::B1
            | ValType::S4
            | ValType::U4
            | ValType::S8
            | ValType::U8
            | ValType::S16
            | ValType::S32 => true,
            ValType::E4M3
            | ValType::E5M2
            | ValType::F16
            | ValType::Bf16
            | ValType::Tf32
            | ValType::F32
            | ValType::F64
            | ValType::C64
            | ValType::Gc64 => false,
        }
    }
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
