//! The types of IR values: scalars, vectors, pointers and tensor maps. You meet them when you
//! inspect a kernel or choose element types at run time; typed kernels are written with Rust types.

use std::fmt;
use std::str::FromStr;

use super::name::{self, ParseNameError};
use super::narrow;
pub use super::number::{FloatFormat, Rounding, Specials};
pub use super::vector::VectorType;

/// An element type: one value in a register or in memory.
///
/// Use it where a type is data at run time. In Rust code, the types that implement
/// [`Element`](super::Element) stand for the same set, and [`SCALAR`](super::Element::SCALAR) maps
/// each of them to its `Scalar`. Tensor core instructions have a larger set of operand types,
/// [`ValType`](crate::tensor::atom::ValType), because they also take types that no register holds
/// alone, for example `s4`. [`ValType::scalar`](crate::tensor::atom::ValType::scalar) returns the
/// `Scalar` if there is one.
///
/// ```
/// use tilewright::ir::{Element, bf16, types::Scalar};
/// use tilewright::tensor::atom::ValType;
/// assert_eq!((bf16::SCALAR, ValType::Bf16.scalar()), (Scalar::Bf16, Some(Scalar::Bf16)));
/// assert_eq!((ValType::S8.scalar(), ValType::S4.scalar()), (Some(Scalar::I8), None));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `true` or `false`: a PTX predicate in registers, one byte in memory.
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
    /// OCP 8-bit floating point with 4 exponent bits. For storage and conversion: it has no
    /// arithmetic.
    F8E4M3,
    /// OCP 8-bit floating point with 5 exponent bits. For storage and conversion: it has no
    /// arithmetic.
    F8E5M2,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16, the upper half of binary32.
    Bf16,
    /// TensorFloat-32: the upper 19 bits of binary32, stored in 32 bits. Tensor cores ignore the
    /// lower 13. It has loads, stores and conversions, but no arithmetic.
    Tf32,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Scalar {
    /// All scalar types, for tests and tables.
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

    /// Returns the size of one element in memory, in bytes, which is also its natural alignment.
    pub const fn size_bytes(self) -> u32 {
        match self {
            Scalar::Bool | Scalar::I8 | Scalar::U8 | Scalar::F8E4M3 | Scalar::F8E5M2 => 1,
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::I32 | Scalar::U32 | Scalar::Tf32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::U64 | Scalar::F64 => 8,
        }
    }

    /// Returns the size of one element in memory, in bits.
    pub const fn bits(self) -> u32 {
        self.size_bytes() * 8
    }

    /// Returns whether this is an integer type. `Bool` is not.
    pub const fn is_int(self) -> bool {
        !matches!(self, Scalar::Bool) && !self.is_float()
    }

    /// Returns whether this is a signed integer type.
    pub const fn is_signed(self) -> bool {
        matches!(self, Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// Returns the unsigned integer type of the same width, or the type itself if it is not a
    /// signed integer.
    pub(crate) const fn unsigned(self) -> Scalar {
        match self {
            Scalar::I8 => Scalar::U8,
            Scalar::I16 => Scalar::U16,
            Scalar::I32 => Scalar::U32,
            Scalar::I64 => Scalar::U64,
            other => other,
        }
    }

    /// Returns whether this is a floating-point type, of any width.
    pub const fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64) || self.format().is_some()
    }

    /// Returns whether this is an 8-bit floating-point type.
    pub const fn is_f8(self) -> bool {
        matches!(self, Scalar::F8E4M3 | Scalar::F8E5M2)
    }

    /// Returns whether the type has arithmetic: true for integers, `f16`, `bf16`, `f32` and `f64`.
    /// Convert values of any other type before you compute.
    pub const fn is_number(self) -> bool {
        !matches!(self, Scalar::Bool | Scalar::Tf32 | Scalar::F8E4M3 | Scalar::F8E5M2)
    }

    /// Returns the bit format of a floating-point type narrower than `f32`, or of `tf32`, to encode
    /// and decode values on the host. Returns `None` for all other types, which Rust has itself or
    /// which are not floating-point types.
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

    /// Returns the type's name in printed kernels, such as `f32`, which is also the Rust type's
    /// name.
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

/// A PTX state space that a pointer points into. You meet it in pointer types, and pass it to
/// [`isspacep`](crate::ir::Val::isspacep).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Device memory, visible to all threads.
    Global,
    /// The thread block's shared memory.
    Shared,
    /// The shared memory of every block in the cluster, addressed from one of them.
    SharedCluster,
    /// A thread's private memory.
    Local,
    /// The module's constant arrays, at most 64 KiB. Fast if all threads of a warp read the same
    /// element.
    Const,
    /// Any of the other spaces; the address tells which.
    Generic,
}

impl Space {
    /// All state spaces, for tests and tables.
    pub const ALL: [Space; 6] = [
        Space::Global,
        Space::Shared,
        Space::SharedCluster,
        Space::Local,
        Space::Const,
        Space::Generic,
    ];

    /// Returns the width of a pointer into this space, in bits: 32 for shared memory, 64 for every
    /// other space.
    pub const fn pointer_bits(self) -> u32 {
        match self {
            Space::Global | Space::Local | Space::Const | Space::Generic => 64,
            Space::Shared | Space::SharedCluster => 32,
        }
    }

    /// Returns PTX's name for the space.
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

/// The type of an IR value. [`KernelIr::type_of`](crate::ir::KernelIr::type_of) returns it; in a
/// typed kernel the Rust type decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// A single element.
    Scalar(Scalar),
    /// 2 to 16 elements of one scalar type.
    Vector(VectorType),
    /// A pointer to elements of a scalar type.
    Pointer {
        /// The memory space.
        space: Space,
        /// The element type.
        elem: Scalar,
        /// Whether stores through it are allowed.
        mutable: bool,
    },
    /// The tensor map (`CUtensorMap`) of a tensor in global memory. It is a kernel parameter, and
    /// only TMA operations can use it.
    TensorMap {
        /// The tensor's element type.
        elem: Scalar,
        /// The number of dimensions.
        rank: u8,
        /// Whether copies into the tensor are allowed.
        mutable: bool,
    },
}

impl Type {
    /// `bool` as a type, for conditions.
    pub const BOOL: Type = Type::Scalar(Scalar::Bool);

    /// Size of a tensor map parameter, in bytes (CUDA driver API, `CUtensorMap`).
    pub const TENSOR_MAP_BYTES: u64 = 128;

    /// Alignment of a tensor map parameter, in bytes.
    pub const TENSOR_MAP_ALIGN_BYTES: u64 = 64;

    /// Returns the scalar type, or `None` if this is not a scalar.
    pub const fn scalar(self) -> Option<Scalar> {
        match self {
            Type::Scalar(s) => Some(s),
            Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => None,
        }
    }

    /// Returns the vector type, or `None` if this is not a vector.
    pub const fn vector(self) -> Option<VectorType> {
        match self {
            Type::Vector(vector) => Some(vector),
            Type::Scalar(_) | Type::Pointer { .. } | Type::TensorMap { .. } => None,
        }
    }

    /// Returns the size of a value of this type in a register, in bits. A `bool` counts as 8, its
    /// size in memory.
    pub const fn bits(self) -> u32 {
        match self {
            Type::Scalar(s) => s.bits(),
            Type::Vector(vector) => vector.bits(),
            Type::Pointer { space, .. } => space.pointer_bits(),
            // The register holds the map's generic address.
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

/// Prints, for example, `f32`, `f16x2`, `ptr<global, f32>`, `ptr<global, mut f32>`,
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

/// Parses a scalar or a vector type. Pointers are not accepted, because they are more than one
/// word.
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

/// A constant: a scalar type and the value's bits, zero-extended to 64. It represents a literal in
/// the IR, and an argument whose type is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Const {
    scalar: Scalar,
    bits: u64,
}

impl Const {
    /// Returns the constant of type `scalar` with these bits. Bits above the type's width are
    /// dropped.
    pub const fn new(scalar: Scalar, bits: u64) -> Const {
        let bits = match scalar {
            Scalar::Bool => (bits != 0) as u64,
            _ if scalar.bits() == 64 => bits,
            _ => bits & ((1 << scalar.bits()) - 1),
        };
        Const { scalar, bits }
    }

    /// Returns the constant's type.
    pub const fn scalar(self) -> Scalar {
        self.scalar
    }

    /// Returns the value's bits, zero-extended, to store or compare them.
    pub const fn bits(self) -> u64 {
        self.bits
    }

    /// Borrows the bits, for callers that pass them by address.
    pub(crate) const fn bits_place(&self) -> &u64 {
        &self.bits
    }

    /// Returns the value of an integer constant, or `None` for other types.
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
    /// Returns a value as a constant of a type that the program knows only when it runs. Floats are
    /// rounded to nearest even. Integers are truncated and clamped to the type's range; NaN becomes
    /// 0. A `bool` is true unless the value is 0.
    ///
    /// ```
    /// use tilewright::ir::types::{Const, Scalar};
    ///
    /// assert_eq!(Const::from_f64(Scalar::Bf16, 1.0).bits(), 0x3f80);
    /// assert_eq!(Const::from_f64(Scalar::I8, -200.5).as_int(), Some(-128));
    /// ```
    pub fn from_f64(scalar: Scalar, value: f64) -> Const {
        let bits = match scalar {
            Scalar::Bool => u64::from(value != 0.0),
            Scalar::I8 => (value as i8) as u64,
            Scalar::I16 => (value as i16) as u64,
            Scalar::I32 => (value as i32) as u64,
            Scalar::I64 => (value as i64) as u64,
            Scalar::U8 => (value as u8).into(),
            Scalar::U16 => (value as u16).into(),
            Scalar::U32 => (value as u32).into(),
            Scalar::U64 => value as u64,
            Scalar::F8E4M3 => narrow::f8e4m3::from_f64(value).to_bits().into(),
            Scalar::F8E5M2 => narrow::f8e5m2::from_f64(value).to_bits().into(),
            Scalar::F16 => narrow::f16::from_f64(value).to_bits().into(),
            Scalar::Bf16 => narrow::bf16::from_f64(value).to_bits().into(),
            Scalar::Tf32 => narrow::tf32::from_f64(value).to_bits().into(),
            Scalar::F32 => (value as f32).to_bits().into(),
            Scalar::F64 => value.to_bits(),
        };
        Const::new(scalar, bits)
    }

    /// Returns the value of a floating-point constant, or `None` for other types.
    pub fn to_f64(self) -> Option<f64> {
        match self.scalar {
            Scalar::F32 => Some(f32::from_bits(self.bits as u32).into()),
            Scalar::F64 => Some(f64::from_bits(self.bits)),
            narrow => narrow::decode(narrow, self.bits as u32),
        }
    }

    /// Returns the value of a constant, rounded if it is a large integer, or `None` if it is a
    /// `bool`.
    ///
    /// ```
    /// use tilewright::ir::types::{Const, Scalar};
    /// assert_eq!(Const::from_f64(Scalar::Bf16, 1.001).as_f64(), Some(1.0));
    /// ```
    pub fn as_f64(self) -> Option<f64> {
        self.to_f64().or(self.as_int().map(|integer| integer as f64))
    }
}

/// Prints the value as Rust writes it (`-1`, `2.5`, `true`). NaN prints as `nan:` and its bits in
/// hexadecimal. A `tf32` whose ignored bits are not all zero prints as its bits in hexadecimal.
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
                // Every value of a narrow format is exact in `f32`.
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
