//! The types behind the columns of the op table: operand constraints, result types, type classes,
//! effects, targets and PTX versions.

use std::fmt;

use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};

/// The PTX ISA version of rows that name none: the first with `sm_80`.
pub(super) const PTX_7_0: (u16, u16) = (7, 0);
pub(super) const PTX_7_1: (u16, u16) = (7, 1);
pub(super) const PTX_7_4: (u16, u16) = (7, 4);
pub(super) const PTX_7_5: (u16, u16) = (7, 5);
pub(super) const PTX_7_6: (u16, u16) = (7, 6);
pub(super) const PTX_7_8: (u16, u16) = (7, 8);
pub(super) const PTX_8_0: (u16, u16) = (8, 0);
pub(super) const PTX_8_1: (u16, u16) = (8, 1);
pub(super) const PTX_8_2: (u16, u16) = (8, 2);
pub(super) const PTX_8_3: (u16, u16) = (8, 3);
pub(super) const PTX_8_5: (u16, u16) = (8, 5);

/// What type an operand must have, as an op-table row says it, for example `base: Pointer`. The
/// verifier checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// The row's type variable: the same type everywhere in the row, from the row's [`Class`].
    T,
    /// Any type.
    Any,
    /// `bool`.
    Bool,
    /// `u32`.
    U32,
    /// `i32`.
    I32,
    /// `u64`.
    U64,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// A tensor map.
    TensorMap,
    /// The integer type twice as wide as `T`.
    Wide,
    /// Four bytes: `i8x4` or `u8x4`.
    Bytes,
    /// Two 16-bit integers: `i16x2` or `u16x2`.
    Halves,
    /// The accumulator of `dp4a` and `dp2a`: `u32` if both operands are unsigned, otherwise `i32`.
    Dot,
    /// An index in elements: `i32`, `u32`, `i64` or `u64`.
    Index,
    /// A pointer.
    Pointer,
    /// A pointer through which stores are allowed.
    MutPointer,
    /// The type that the operand `base` points to.
    Elem,
    /// A vector of the type that the operand `base` points to.
    ElemVector,
    /// The type of the register variable `var`.
    VarElem,
}

/// How a result's type follows from the operands and attributes, as an op-table row says it after
/// `->`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultKind {
    /// No result.
    Unit,
    /// The row's type variable.
    T,
    /// `bool`.
    Bool,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// The type of the special register in the attribute `reg`.
    Reg,
    /// The attribute `to`; if `T` is a vector, the vector of as many `to` elements.
    To,
    /// The attribute `to`, a scalar or vector type.
    As,
    /// The type of the operand `map`.
    Map,
    /// The integer type twice as wide as `T`.
    Wide,
    /// `u32` if `lhs` and `rhs` are unsigned, otherwise `i32`.
    Dot,
    /// The vector that holds all operands.
    Pack,
    /// The vector with one element of type `to` per operand.
    PackTo,
    /// The vector of `lanes` elements of type `T`.
    Splat,
    /// The element type of the vector `T`.
    Lane,
    /// The type that the operand `base` points to.
    Elem,
    /// The vector of `lanes` elements of the type that `base` points to. If there is a vector
    /// operand, its type.
    ElemVector,
    /// The type of `base`, with `to` as the element type.
    PointerTo,
    /// The type of `base`, but into the cluster's shared memory.
    ClusterPointer,
    /// A pointer to the elements of the shared allocation `shared`.
    SharedPointer,
    /// A pointer to the elements of the local allocation `local`.
    LocalPointer,
    /// The type of `base`, but generic.
    GenericPointer,
    /// The type of `base`, but into the space in the attribute `space`.
    PointerInto,
    /// A mutable pointer into global memory, with `to` as the element type.
    GlobalPointer,
    /// The integer type of the pointer operand's address.
    Address,
    /// A pointer to the elements of the constant array `array`.
    ArrayPointer,
    /// A pointer to the elements of the global array `global`.
    GlobalArrayPointer,
    /// The type of the register variable `var`.
    VarElem,
}

/// The set of types that the type variable `T` of an op-table row ranges over, for example `Int`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Every type except tensor maps, which only their own operations take.
    Any,
    /// Every scalar.
    Scalar,
    /// Every vector.
    Vector,
    /// Scalars and vectors.
    Data,
    /// Integers, the floating-point types with arithmetic (`f16`, `bf16`, `f32`, `f64`), and the
    /// packed vectors `f16x2` and `bf16x2`.
    Number,
    /// The scalars in `Number`.
    ScalarNumber,
    /// Integers.
    Int,
    /// Integers of 16 or 32 bits.
    IntHalf,
    /// Integers of 32 or 64 bits.
    IntWord,
    /// `i32` and `u32`.
    Int32,
    /// The floating-point types with arithmetic, and the packed vectors.
    Float,
    /// The scalars in `Float`.
    ScalarFloat,
    /// `i16x2` and `u16x2`.
    PackedInt,
    /// `i32` and `i16x2`.
    Relu,
    /// Signed integers, the floating-point types with arithmetic, and the packed vectors.
    Signed,
    /// Scalars with an order: `bool`, integers, and the floating-point types with arithmetic.
    Ordered,
    /// Integers and `bool`.
    Bits,
    /// Pointers.
    Pointer,
}

impl Class {
    /// Returns whether `ty` belongs to the class. The verifier asks it for the type that `T` stands
    /// for.
    pub const fn contains(self, ty: Type) -> bool {
        let s = match ty {
            Type::Scalar(s) => s,
            Type::Vector(vector) => {
                return match self {
                    Class::Any | Class::Vector | Class::Data => true,
                    Class::Number | Class::Float | Class::Signed => vector.is_packed(),
                    Class::PackedInt => {
                        vector.lanes() == 2 && matches!(vector.elem(), Scalar::I16 | Scalar::U16)
                    }
                    Class::Relu => vector.lanes() == 2 && matches!(vector.elem(), Scalar::I16),
                    Class::Scalar
                    | Class::ScalarNumber
                    | Class::Int
                    | Class::IntHalf
                    | Class::IntWord
                    | Class::Int32
                    | Class::ScalarFloat
                    | Class::Ordered
                    | Class::Bits
                    | Class::Pointer => false,
                };
            }
            Type::Pointer { .. } => return matches!(self, Class::Any | Class::Pointer),
            Type::TensorMap { .. } => return false,
        };
        match self {
            Class::Any | Class::Scalar | Class::Data => true,
            Class::Number | Class::ScalarNumber => s.is_number(),
            Class::Int => s.is_int(),
            Class::IntHalf => s.is_int() && matches!(s.bits(), 16 | 32),
            Class::IntWord => s.is_int() && matches!(s.bits(), 32 | 64),
            Class::Int32 => matches!(s, Scalar::I32 | Scalar::U32),
            Class::Float | Class::ScalarFloat => s.is_number() && s.is_float(),
            Class::Signed => s.is_number() && (s.is_signed() || s.is_float()),
            Class::Ordered => s.is_number() || matches!(s, Scalar::Bool),
            Class::Bits => s.is_int() || matches!(s, Scalar::Bool),
            Class::Relu => matches!(s, Scalar::I32),
            Class::Vector | Class::Pointer | Class::PackedInt => false,
        }
    }
}

/// Prints the class as a noun phrase, for error messages.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Any => "any type",
            Class::Scalar => "a scalar",
            Class::Vector => "a vector",
            Class::Data => "a scalar or a vector",
            Class::Number => {
                "an integer or floating point type (Rust's, f16, bf16, f16x2 or bf16x2)"
            }
            Class::ScalarNumber => "an integer or floating point type (Rust's, f16 or bf16)",
            Class::Int => "an integer type",
            Class::IntHalf => "an integer type of 16 or 32 bits",
            Class::IntWord => "an integer type of 32 or 64 bits",
            Class::Int32 => "i32 or u32",
            Class::PackedInt => "i16x2 or u16x2",
            Class::Relu => "i32 or i16x2",
            Class::Float => "a floating point type (f16, bf16, f32, f64, f16x2 or bf16x2)",
            Class::ScalarFloat => "a floating point type (f16, bf16, f32 or f64)",
            Class::Signed => {
                "a signed integer or floating point type (Rust's, f16, bf16, f16x2 or bf16x2)"
            }
            Class::Ordered => "bool, an integer or floating point type (Rust's, f16 or bf16)",
            Class::Bits => "an integer type or bool",
            Class::Pointer => "a pointer",
        })
    }
}

/// What an operation does besides computing its results, as its op-table row says. Passes ask it
/// before they remove or move an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: it may be repeated, moved or removed.
    Pure,
    /// Reads state that other operations may write.
    Read,
    /// Writes memory or a variable.
    Write,
    /// Synchronises with other threads, or orders memory accesses.
    Sync,
}

/// Which threads must reach an operation together. The verifier rejects such an operation in a
/// branch that only some of these threads take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Together {
    /// All threads of the block that have not exited.
    Block,
    /// All threads of the warp that have not exited.
    Warp,
    /// The threads of the warp whose bits are set in the operand `members`.
    Members,
}

/// The PTX instruction of an operation that is always one instruction, with its operands in row
/// order. The PTX writer fills it in, so such a row needs no code of its own.
///
/// ```
/// use tilewright::ir::op::Op;
/// let dp2a = Op::table().find(|info| info.name == "dp2a").and_then(|info| info.mnemonic);
/// assert_eq!(dp2a.map(|mnemonic| mnemonic.text), Some("dp2a.{half}"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mnemonic {
    /// The mnemonic without types. `{attribute}` is replaced by the attribute's text.
    /// `{.attribute}` is the same with a leading dot, and empty if PTX has no suffix for the value.
    pub text: &'static str,
    /// The type suffix at the end.
    pub suffix: TypeSuffix,
}

/// The type suffix of a PTX instruction, which follows from the operand and result types. The PTX
/// writer reads it from the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeSuffix {
    /// No suffix.
    None,
    /// The result's type.
    Result,
    /// The result's type. The result is then wrapped to the width of a narrow integer.
    Wrapped,
    /// The first operand's type.
    Operand,
    /// `b32` or `b64`, by the first operand's width.
    Bits,
    /// `b16`, `b32` or `b64` by the first operand's width, then the last operand's type.
    Select,
    /// `s16x2`, `u16x2` or `s32`.
    Halves,
    /// `s32` or `u32` for each of the first two operands.
    Dot,
}

/// A row of the op table as data, from which the parser, the verifier and the PTX writer learn what
/// an operation takes and returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpInfo {
    /// The name in the text form.
    pub name: &'static str,
    /// The operands' names and constraints.
    pub operands: &'static [(&'static str, Constraint)],
    /// Name and constraint of the variadic operands that follow, if any.
    pub list: Option<(&'static str, Constraint)>,
    /// The attributes' names and Rust types.
    pub attributes: &'static [(&'static str, &'static str)],
    /// The result types, in order. A row without results has [`ResultKind::Unit`].
    pub results: &'static [ResultKind],
    /// The set of types that the row's type variable `T` ranges over.
    pub class: Class,
    /// What the operation does besides computing its results.
    pub effect: Effect,
    /// Which threads must reach the operation together; `None` if each thread may come alone.
    pub together: Option<Together>,
    /// Whether the result, or the variable that the operation writes, may differ between threads
    /// with equal operands. The uniformity analysis asks for it.
    pub own_result: bool,
    /// The oldest target that has the operation.
    pub target: Target,
    /// The first PTX ISA version that has the operation, as (major, minor). Some attribute values
    /// need a later one.
    pub version: (u16, u16),
    /// The PTX instruction, if the operation is always that one instruction.
    pub mnemonic: Option<Mnemonic>,
}
