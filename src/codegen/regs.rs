//! Registers and operands.
//!
//! The register of a value has the number that the value has in the kernel's text form, so `%r14` holds
//! `%14`; those of a vector that has several are `%f14_0`, `%f14_1`, and so on. Registers that the code
//! generator adds have a `t` before their class (`%tr0`), those of register
//! variables the number of the variable and the index (`%v0_3`).

use std::hash::{Hash, Hasher};

use crate::ir::types::{Const, Scalar, Space, Type};

/// A kind of PTX register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// `bool`.
    Pred,
    /// Integers up to 32 bits, `tf32`, packed vectors, and pointers to shared memory.
    B32,
    /// 64-bit integers and pointers to global memory.
    B64,
    /// Floating point of 16 and of 8 bits, and vectors of 16 bits.
    B16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl Class {
    pub(super) const ALL: [Class; 6] =
        [Class::Pred, Class::B32, Class::B64, Class::B16, Class::F32, Class::F64];

    pub(super) const fn of_scalar(scalar: Scalar) -> Class {
        match scalar {
            Scalar::Bool => Class::Pred,
            Scalar::I64 | Scalar::U64 => Class::B64,
            Scalar::F32 => Class::F32,
            Scalar::F64 => Class::F64,
            Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F16 | Scalar::Bf16 => Class::B16,
            Scalar::I8
            | Scalar::I16
            | Scalar::I32
            | Scalar::U8
            | Scalar::U16
            | Scalar::U32
            | Scalar::Tf32 => Class::B32,
        }
    }

    /// The class of the register of a value, or of each of the registers of a vector.
    pub(super) const fn of(ty: Type) -> Class {
        match ty {
            Type::Scalar(scalar) => Class::of_scalar(scalar),
            Type::Vector(vector) if vector.bits() == 16 => Class::B16,
            Type::Vector(vector) if vector.lanes_per_register() > 1 => Class::B32,
            Type::Vector(vector) => Class::of_scalar(vector.elem()),
            Type::Pointer { space, .. } => Class::of_pointer(space),
            Type::TensorMap { .. } => Class::B64,
        }
    }

    /// The class of the register of a pointer into the space.
    pub(super) const fn of_pointer(space: Space) -> Class {
        match space {
            Space::Global | Space::Local | Space::Const | Space::Generic => Class::B64,
            Space::Shared | Space::SharedCluster => Class::B32,
        }
    }

    /// The prefix of the registers of values.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Class::Pred => "%p",
            Class::B32 => "%r",
            Class::B64 => "%rd",
            Class::B16 => "%h",
            Class::F32 => "%f",
            Class::F64 => "%fd",
        }
    }

    /// The type of a declaration.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Class::Pred => "pred",
            Class::B32 => "b32",
            Class::B64 => "b64",
            Class::B16 => "b16",
            Class::F32 => "f32",
            Class::F64 => "f64",
        }
    }

    /// The type of instructions that only move bits: `mov`, `selp`, `and`, ..
    ///
    /// Floating point is moved as bits. Told that they are numbers, `ptxas` 13.0 makes a choice between -1
    /// and -0 (by `selp.f32`, or by `mov.f32` in two arms) the conversion of an integer, and the sign of the
    /// zero is lost.
    pub(super) const fn bits_name(self) -> &'static str {
        match self {
            Class::Pred => "pred",
            Class::B32 | Class::F32 => "b32",
            Class::B64 | Class::F64 => "b64",
            Class::B16 => "b16",
        }
    }
}

/// A PTX register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    /// The register of a value, by the number of the value.
    Value(Class, u32),
    /// A register of a vector that has several: the numbers of the value and of the register.
    Part(Class, u32, u32),
    /// A register of the code generator, by its number in the class.
    Temp(Class, u32),
    /// A register of a variable: the numbers of the variable and of the register.
    Var(Class, u32, u32),
}

/// One word for the whole register: the default takes three, and registers are hashed often.
impl Hash for Reg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (kind, class, number, index) = match *self {
            Reg::Value(class, number) => (0, class, number, 0),
            Reg::Temp(class, number) => (1, class, number, 0),
            Reg::Var(class, var, index) => (2, class, var, index),
            Reg::Part(class, number, index) => (3, class, number, index),
        };
        let low = u64::from(number) << 8 | kind << 4 | class as u64;
        state.write_u64(low ^ u64::from(index) << 40);
    }
}

impl Reg {
    pub(super) const fn class(self) -> Class {
        match self {
            Reg::Value(class, _)
            | Reg::Temp(class, _)
            | Reg::Part(class, ..)
            | Reg::Var(class, ..) => class,
        }
    }
}

/// An operand that an instruction reads or writes. `ptxas` takes immediate operands in every place that is
/// read, predicates included, except as the guard of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant of the kernel.
    Const(Const),
    /// A number that the code generator adds.
    Int(i64),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

/// The integer or floating point type of instructions that compute: narrow integers are computed with 32
/// bits. `bool` has none; as a number it is its byte. Those floating point formats that are not computed with
/// have the names that conversions know them by.
pub(super) const fn arith_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::I8 | Scalar::I16 | Scalar::I32 => "s32",
        Scalar::Bool | Scalar::U8 | Scalar::U16 | Scalar::U32 => "u32",
        Scalar::I64 => "s64",
        Scalar::U64 => "u64",
        Scalar::F8E4M3 => "e4m3",
        Scalar::F8E5M2 => "e5m2",
        Scalar::F16 => "f16",
        Scalar::Bf16 => "bf16",
        Scalar::Tf32 => "tf32",
        Scalar::F32 => "f32",
        Scalar::F64 => "f64",
    }
}

/// The type of an element in memory.
pub(super) const fn memory_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::I8 => "s8",
        Scalar::I16 => "s16",
        Scalar::Bool | Scalar::U8 => "u8",
        Scalar::U16 => "u16",
        Scalar::F8E4M3 | Scalar::F8E5M2 => "b8",
        Scalar::F16 | Scalar::Bf16 => "b16",
        Scalar::Tf32 => "b32",
        wide => arith_type(wide),
    }
}
