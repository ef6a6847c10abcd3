//! The columns of the operation table: constraints, results, classes, effects, targets and PTX versions.

use std::fmt;

use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};

/// The version of the PTX ISA of rows that name none: the first one with `sm_80`.
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

/// A constraint on the type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// The type variable of the row: the same type in all locations, of the row's [`Class`].
    T,
    /// A value of any type.
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
    /// The integer type of twice the width of `T`.
    Wide,
    /// Four bytes: `i8x4` or `u8x4`.
    Bytes,
    /// Two half words: `i16x2` or `u16x2`.
    Halves,
    /// The type of a sum of products: `u32` where both operands are unsigned, else `i32`.
    Dot,
    /// An index in elements: `i32`, `u32`, `i64` or `u64`.
    Index,
    /// A pointer.
    Pointer,
    /// A pointer that allows stores.
    MutPointer,
    /// The type that the operand `base` points to.
    Elem,
    /// A vector of the type that the operand `base` points to.
    ElemVector,
    /// The type of the register variable `var`.
    VarElem,
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultKind {
    /// No result.
    Unit,
    /// The type variable of the row.
    T,
    /// `bool`.
    Bool,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// The type of the special register that the attribute `reg` names.
    Reg,
    /// The attribute `to`, or the vector of as many of it as `T` has elements.
    To,
    /// The attribute `to`, which is a type of a scalar or a vector.
    As,
    /// The type of the operand `map`.
    Map,
    /// The integer type of twice the width of `T`.
    Wide,
    /// `u32` where `lhs` and `rhs` are unsigned, else `i32`.
    Dot,
    /// The vector of the operands.
    Pack,
    /// The vector of as many elements of the attribute `to` as there are operands.
    PackTo,
    /// The vector of `lanes` elements of the type `T`.
    Splat,
    /// The type of an element of the vector `T`.
    Lane,
    /// The type that the operand `base` points to.
    Elem,
    /// The vector of `lanes` elements of the type that the operand `base` points to; that of the operand where
    /// there is one.
    ElemVector,
    /// The type of the operand `base`, pointing to elements of the attribute `to`.
    PointerTo,
    /// The type of the operand `base`, pointing into shared memory of the cluster.
    ClusterPointer,
    /// A pointer to the elements of the allocation `shared`.
    SharedPointer,
    /// A pointer to the elements of the allocation `local`.
    LocalPointer,
    /// The type of the operand `base`, as a generic pointer.
    GenericPointer,
    /// The type of the operand `base`, pointing into the attribute `space`.
    PointerInto,
    /// A pointer to elements of the attribute `to` in global memory, which may be written.
    GlobalPointer,
    /// An integer for the address of the pointer that is the operand.
    Address,
    /// A pointer to the elements of the constant array `array`.
    ArrayPointer,
    /// The type of the register variable `var`.
    VarElem,
}

/// The types that the type variable of a row may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Every type but tensor maps, which only their own operations take.
    Any,
    /// Every scalar.
    Scalar,
    /// Every vector.
    Vector,
    /// Scalars and vectors.
    Data,
    /// Integers, and the floating point types with arithmetic: `f16`, `bf16`, `f32` and `f64`; also the
    /// packed vectors `f16x2` and `bf16x2`.
    Number,
    /// Those of `Number` that are scalars.
    ScalarNumber,
    /// Integers.
    Int,
    /// Integers of 16 and 32 bits.
    IntHalf,
    /// Integers of 32 and 64 bits.
    IntWord,
    /// `i32` and `u32`.
    Int32,
    /// The floating point types with arithmetic, and the packed vectors.
    Float,
    /// Those of `Float` that are scalars.
    ScalarFloat,
    /// `i16x2` and `u16x2`.
    PackedInt,
    /// `i32` and `i16x2`.
    Relu,
    /// Signed integers, the floating point types with arithmetic, and the packed vectors.
    Signed,
    /// Scalars that can be compared: `bool`, integers, and the floating point types with arithmetic.
    Ordered,
    /// Integers and `bool`.
    Bits,
    /// Pointers.
    Pointer,
}

impl Class {
    /// Returns whether `ty` belongs to the class.
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

/// The class as a noun phrase, for messages.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Any => "any type",
            Class::Scalar => "a scalar",
            Class::Vector => "a vector",
            Class::Data => "a scalar or a vector",
            Class::Number => {
                "an integer or floating point type: one of Rust's, f16, bf16, f16x2 or bf16x2"
            }
            Class::ScalarNumber => "an integer or floating point type: one of Rust's, f16 or bf16",
            Class::Int => "an integer type",
            Class::IntHalf => "an integer type of 16 or 32 bits",
            Class::IntWord => "an integer type of 32 or 64 bits",
            Class::Int32 => "i32 or u32",
            Class::PackedInt => "i16x2 or u16x2",
            Class::Relu => "i32 or i16x2",
            Class::Float => "a floating point type: f16, bf16, f32, f64, f16x2 or bf16x2",
            Class::ScalarFloat => "a floating point type: f16, bf16, f32 or f64",
            Class::Signed => {
                "a signed integer or floating point type: one of Rust's, f16, bf16, f16x2 or bf16x2"
            }
            Class::Ordered => "bool, an integer or floating point type: one of Rust's, f16 or bf16",
            Class::Bits => "an integer type or bool",
            Class::Pointer => "a pointer",
        })
    }
}

/// The effect of an operation beside computing its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: it may be repeated, moved or removed.
    Pure,
    /// Reads state that other operations write.
    Read,
    /// Writes memory or a variable.
    Write,
    /// Waits for other threads or orders memory.
    Sync,
}

/// The threads that must reach an operation together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Together {
    /// All threads of the block that have not ended.
    Block,
    /// All threads of the warp that have not ended.
    Warp,
    /// The threads of the warp whose bits the operand `members` has.
    Members,
}

/// The PTX instruction of a plain operation, whose operands are those of the row in order.
///
/// ```
/// use tilewright::ir::op::Op;
/// let dp2a = Op::table().find(|info| info.name == "dp2a").and_then(|info| info.mnemonic);
/// assert_eq!(dp2a.map(|mnemonic| mnemonic.text), Some("dp2a.{half}"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mnemonic {
    /// The name without types. `{attribute}` stands for the text of an attribute, and `{.attribute}` for the same
    /// after a dot, or for nothing where PTX has no suffix for the value.
    pub text: &'static str,
    /// The types at the end of the name.
    pub suffix: TypeSuffix,
}

/// The types at the end of the name of a PTX instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypeSuffix {
    /// None.
    None,
    /// The type of the result.
    Result,
    /// The type of the result, which is then wrapped to the width of a narrow integer.
    Wrapped,
    /// The type of the first operand.
    Operand,
    /// `b32` or `b64`, as wide as the first operand.
    Bits,
    /// `b16`, `b32` or `b64`, as wide as the first operand, then the type of the last one.
    Select,
    /// `s16x2`, `u16x2` or `s32`.
    Halves,
    /// `s32` or `u32` for each of the first two operands.
    Dot,
}

/// The facts of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpInfo {
    /// The name in the text form.
    pub name: &'static str,
    /// Names and constraints of the operands.
    pub operands: &'static [(&'static str, Constraint)],
    /// Name and constraint of the list of any number of operands that follow these, if there is one.
    pub list: Option<(&'static str, Constraint)>,
    /// Names and Rust types of the attributes.
    pub attributes: &'static [(&'static str, &'static str)],
    /// The types of the results, in order; [`ResultKind::Unit`] stands for none.
    pub results: &'static [ResultKind],
    /// The types that the type variable may stand for.
    pub class: Class,
    /// The effect of the operation beside its result.
    pub effect: Effect,
    /// The threads that must reach the operation together; `None` if each thread may come alone.
    pub together: Option<Together>,
    /// True if the result, or the variable that the operation writes, may differ between threads whose operands
    /// are equal.
    pub own_result: bool,
    /// The first target that has the operation.
    pub target: Target,
    /// The first version of the PTX ISA that has the operation, major and minor. Values of attributes may need a
    /// later one.
    pub version: (u16, u16),
    /// The PTX instruction, if the operation is always that one.
    pub mnemonic: Option<Mnemonic>,
}
