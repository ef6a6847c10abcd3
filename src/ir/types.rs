//! The types of IR values: scalars, vectors, pointers and tensor maps.

use std::fmt;
use std::str::FromStr;

use super::name::{self, ParseNameError};
use super::narrow;
pub use super::number::{FloatFormat, Rounding, Specials};
pub use super::vector::VectorType;

/// The type of one number or truth value in a register or in memory, as a host value.
///
/// It names the same types as the Rust types that implement [`Element`](super::Element), whose constant
/// [`SCALAR`](super::Element::SCALAR) it is. [`ValType`](crate::tensor::ValType) is the type of an operand of a tensor
/// core instruction: it also has the types that no register holds alone, and
/// [`ValType::scalar`](crate::tensor::ValType::scalar) gives the `Scalar` of the others.
///
/// ```
/// use tilewright::ir::{Element, bf16, types::Scalar};
/// use tilewright::tensor::ValType;
/// assert_eq!((bf16::SCALAR, ValType::Bf16.scalar()), (Scalar::Bf16, Some(Scalar::Bf16)));
/// assert_eq!((ValType::S8.scalar(), ValType::S4.scalar()), (Some(Scalar::I8), None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `true` or `false`; a PTX predicate in registers, one byte in memory.
    Bool,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// OCP 8-bit floating point with 4 exponent bits. Stored and converted, not computed with.
    F8E4M3,
    /// OCP 8-bit floating point with 5 exponent bits. Stored and converted, not computed with.
    F8E5M2,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// The upper 19 bits of binary32, in 32 bits; tensor cores ignore the lower 13. It has loads, stores and
    /// conversions, but no arithmetic.
    Tf32,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Scalar {
    /// All scalar types.
    pub const ALL: [Scalar; 16] = [
        Scalar::Bool,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::U8,
        Scalar::U16,
        Scalar::U32,
        Scalar::U64,
        Scalar::F8E4M3,
        Scalar::F8E5M2,
        Scalar::F16,
        Scalar::Bf16,
        Scalar::Tf32,
        Scalar::F32,
        Scalar::F64,
    ];

    /// Bytes of one element in memory; also its natural alignment.
    pub const fn size_bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::Tf32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// Bits of one element in memory.
    pub const fn bits(self) -> u32 {
        self.size_bytes() * 8
    }

    /// Returns whether this is an integer type (`Bool` is not).
    pub const fn is_int(self) -> bool {
        !matches!(self, Scalar::Bool) && !self.is_float()
    }

    /// Returns whether this is a signed integer type.
    pub const fn is_signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// The unsigned integer type of the same width; any other type is itself.
    pub(crate) const fn unsigned(self) -> Scalar {
        match self {
            Scalar::I8 => Scalar::U8,
            Scalar::I16 => Scalar::U16,
            Scalar::I32 => Scalar::U32,
            Scalar::I64 => Scalar::U64,
            other => other,
        }
    }

    /// Returns whether this is a floating point type, of any width.
    pub const fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64) || self.format().is_some()
    }

    /// Returns whether this is a floating point type of 8 bits.
    pub(crate) const fn is_f8(self) -> bool {
        matches!(self, Scalar::F8E4M3 | Scalar::F8E5M2)
    }

    /// Returns whether the type has arithmetic: integers, `f16`, `bf16`, `f32` and `f64`.
    pub const fn is_number(self) -> bool {
        !matches!(self, Scalar::Bool | Scalar::Tf32 | Scalar::F8E4M3 | Scalar::F8E5M2)
    }

    /// The format of a floating point type other than `f32` and `f64`.
    pub const fn format(self) -> Option<FloatFormat> {
        match self {
            Scalar::F8E4M3 => Some(FloatFormat::F8E4M3),
            Scalar::F8E5M2 => Some(FloatFormat::F8E5M2),
            Scalar::F16 => Some(FloatFormat::F16),
            Scalar::Bf16 => Some(FloatFormat::BF16),
            Scalar::Tf32 => Some(FloatFormat::TF32),
            Scalar::Bool
            | Scalar::I8
            | Scalar::I16
            | Scalar::I32
            | Scalar::I64
            | Scalar::U8
            | Scalar::U16
            | Scalar::U32
            | Scalar::U64
            | Scalar::F32
            | Scalar::F64 => None,
        }
    }

    /// The name in the text form, which is the name of the Rust type.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::Bool => "bool",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::U8 => "u8",
            Scalar::U16 => "u16",
            Scalar::U32 => "u32",
            Scalar::U64 => "u64",
            Scalar::F8E4M3 => "f8e4m3",
            Scalar::F8E5M2 => "f8e5m2",
            Scalar::F16 => "f16",
            Scalar::Bf16 => "bf16",
            Scalar::Tf32 => "tf32",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scalar {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Scalar, ParseNameError> {
        name::find("a scalar type", &Scalar::ALL, text)
    }
}

/// A PTX state space that a pointer can point into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Memory of the device, visible to all threads.
    Global,
    /// Memory of one block.
    Shared,
    /// Shared memory of all blocks of a cluster, as one of them sees it.
    SharedCluster,
    /// Memory of one thread.
    Local,
    /// Constant arrays of the module, of at most 64 KiB: fast where all threads of a warp read one element.
    Const,
    /// Any of the others: the address says which.
    Generic,
}

impl Space {
    /// All state spaces.
    pub const ALL: [Space; 6] = [
        Space::Global,
        Space::Shared,
        Space::SharedCluster,
        Space::Local,
        Space::Const,
        Space::Generic,
    ];

    /// Bits of a pointer into this space.
    pub const fn pointer_bits(self) -> u32 {
        match self {
            Space::Global | Space::Local | Space::Const | Space::Generic => 64,
            Space::Shared | Space::SharedCluster => 32,
        }
    }

    /// PTX's name of the space.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::SharedCluster => "shared::cluster",
            Space::Local => "local",
            Space::Const => "const",
            Space::Generic => "generic",
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Space {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Space, ParseNameError> {
        name::find("a state space", &Space::ALL, text)
    }
}

/// The type of an IR value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A number or truth value.
    Scalar(Scalar),
    /// A few elements of one scalar type.
    Vector(VectorType),
    /// A pointer to elements of a scalar type.
    Pointer {
        /// The memory space.
        space: Space,
        /// The type of the elements.
        elem: Scalar,
        /// True if stores through it are allowed.
        mutable: bool,
    },
    /// The tensor map of a tensor in global memory: a parameter for the operations of the tensor memory
    /// accelerator (TMA) only.
    TensorMap {
        /// The elements of the tensor.
        elem: Scalar,
        /// The dimensions of the tensor.
        rank: u8,
        /// True if copies into the tensor are allowed.
        mutable: bool,
    },
}

impl Type {
    /// The truth value type.
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);

    /// The bytes of a tensor map as a parameter (CUDA driver API, `CUtensorMap`).
    pub const TENSOR_MAP_BYTES: u64 = 128;

    /// The bytes that a tensor map as a parameter is aligned to.
    pub const TENSOR_MAP_ALIGN_BYTES: u64 = 64;

    /// The scalar type, or `None` for other types.
    pub const fn scalar(self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(s),
            Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => None,
        }
    }

    /// The vector type, or `None` for other types.
    pub const fn vector(self) -> Option<VectorType> {
        match self {
            Type::Vector(vector) => Some(vector),
            Type::Scalar(_) | Type::Pointer { .. } | Type::TensorMap { .. } => None,
        }
    }

    /// Bits of a value of this type in a register (a `bool` counts as its byte in memory).
    pub const fn bits(self) -> u32 {
        match self {
            Type::Scalar(s) => s.bits(),
            Type::Vector(vector) => vector.bits(),
            Type::Pointer { space, .. } => space.pointer_bits(),
            // In a register there is its generic address.
            Type::TensorMap { .. } => 64,
        }
    }
}

impl From<Scalar> for Type {
    fn from(scalar: Scalar) -> Type {
        Type::Scalar(scalar)
    }
}

impl From<VectorType> for Type {
    fn from(vector: VectorType) -> Type {
        Type::Vector(vector)
    }
}

/// `f32`, `f16x2` for vectors, `ptr<global, f32>` and `ptr<global, mut f32>` for pointers,
/// `tensor_map<f32, 2>` and `tensor_map<mut f32, 2>`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(s) => s.fmt(f),
            Type::Vector(vector) => vector.fmt(f),
            Type::Pointer { space, elem, mutable } => {
                write!(f, "ptr<{space}, {}{elem}>", if *mutable { "mut " } else { "" })
            }
            Type::TensorMap { elem, rank, mutable } => {
                write!(f, "tensor_map<{}{elem}, {rank}>", if *mutable { "mut " } else { "" })
            }
        }
    }
}

/// A scalar or a vector type. Pointers are more than a word.
impl FromStr for Type {
    type Err = ParseNameError;

    #[inline]
    fn from_str(text: &str) -> Result<Type, ParseNameError> {
        if let Ok(vector) = text.parse::<VectorType>() {
            return Ok(vector.into());
        }
        text.parse::<Scalar>().map(Type::from)
    }
}

/// A constant: a scalar type and the bits of the value, zero-extended to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Const {
    scalar: Scalar,
    bits: u64,
}

impl Const {
    /// The constant of type `scalar` with the given bits; bits above the width are dropped.
    pub const fn new(scalar: Scalar, bits: u64) -> Const {
        let bits = match scalar {
            Scalar::Bool => (bits != 0) as u64,
            _ if scalar.bits() == 64 => bits,
            _ => bits & ((1 << scalar.bits()) - 1),
        };
        Const { scalar, bits }
    }

    /// The type of the constant.
    pub const fn scalar(self) -> Scalar {
        self.scalar
    }

    /// The bits of the value, zero-extended.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// The address of the bits, for callers that pass them by address.
    pub(crate) const fn bits_place(&self) -> &u64 {
        &self.bits
    }

    /// The value of an integer constant, or `None` for other types.
    pub const fn as_int(self) -> Option<i128> {
        let shift = 64 - self.scalar.bits();
        match self.scalar {
            Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => {
                Some((((self.bits << shift) as i64) >> shift) as i128)
            }
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => Some(self.bits as i128),
            Scalar::Bool
            | Scalar::F8E4M3
            | Scalar::F8E5M2
            | Scalar::F16
            | Scalar::Bf16
            | Scalar::Tf32
            | Scalar::F32
            | Scalar::F64 => None,
        }
    }
}

impl Const {
    /// The value of a floating point constant, or `None` for other types.
    pub fn to_f64(self) -> Option<f64> {
        match self.scalar {
            Scalar::F32 => Some(f32::from_bits(self.bits as u32).into()),
            Scalar::F64 => Some(f64::from_bits(self.bits)),
            narrow => narrow::decode(narrow, self.bits as u32),
        }
    }
}

/// The value as Rust writes it (`-1`, `2.5`, `true`); NaN prints as `nan:` and its bits in hexadecimal. A
/// `tf32` with nonzero ignored bits prints as its bits in hexadecimal.
impl fmt::Display for Const {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(int) = self.as_int() {
            return write!(f, "{int}");
        }
        let (text, is_nan) = match self.scalar {
            Scalar::F32 => {
                let x = f32::from_bits(self.bits as u32);
                (format!("{x:?}"), x.is_nan())
            }
            Scalar::F64 => {
                let x = f64::from_bits(self.bits);
                (format!("{x:?}"), x.is_nan())
            }
            scalar => match narrow::decode(scalar, self.bits as u32) {
                Some(x) if scalar == Scalar::Tf32 && !x.is_nan() && self.bits & 0x1fff != 0 => {
                    (format!("{:#x}", self.bits), false)
                }
                // Every number of a narrow format is an `f32`.
                Some(x) => (format!("{:?}", x as f32), x.is_nan()),
                None => ((self.bits != 0).to_string(), false),
            },
        };
        if is_nan { write!(f, "nan:{:#x}", self.bits) } else { f.write_str(&text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_print_as_rust_writes_them() {
        let cases = [
            (Scalar::I8, -1i64 as u64, "-1"),
            (Scalar::U8, 255, "255"),
            (Scalar::I64, u64::MAX, "-1"),
            (Scalar::U64, u64::MAX, "18446744073709551615"),
            (Scalar::F32, 1.5f32.to_bits().into(), "1.5"),
            (Scalar::F64, (-0.0f64).to_bits(), "-0.0"),
            (Scalar::F32, f32::INFINITY.to_bits().into(), "inf"),
            (Scalar::F32, 0x7fc0_0000, "nan:0x7fc00000"),
            (Scalar::Bool, 7, "true"),
            (Scalar::F16, 0x3e00, "1.5"),
            (Scalar::Bf16, 0x3dcd, "0.100097656"),
            (Scalar::F8E4M3, 0x7e, "448.0"),
            (Scalar::F8E4M3, 0xff, "nan:0xff"),
            (Scalar::F8E5M2, 0xfc, "-inf"),
            (Scalar::Tf32, 0x3f80_0000, "1.0"),
            (Scalar::Tf32, 0x3f80_0001, "0x3f800001"),
        ];
        for (scalar, bits, text) in cases {
            assert_eq!(Const::new(scalar, bits).to_string(), text);
        }
    }

    #[test]
    fn types_print_with_space_and_mutability() {
        let p = |mutable| Type::Pointer { space: Space::Shared, elem: Scalar::U16, mutable };
        assert_eq!(p(false).to_string(), "ptr<shared, u16>");
        assert_eq!(p(true).to_string(), "ptr<shared, mut u16>");
        let pair = VectorType::new(Scalar::F16, 2).unwrap();
        assert_eq!(Type::from(pair).to_string(), "f16x2");
        let map = |mutable| Type::TensorMap { elem: Scalar::F32, rank: 3, mutable };
        assert_eq!(map(false).to_string(), "tensor_map<f32, 3>");
        assert_eq!(map(true).to_string(), "tensor_map<mut f32, 3>");
    }
}
