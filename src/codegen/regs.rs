//! The registers and operands of PTX instructions, and which PTX type each IR type has in a
//! register and in memory.
//!
//! A value's register has the number that the value has when the kernel's IR is printed, so `%r14`
//! holds `%14`. A vector with several registers has `%f14_0`, `%f14_1`, and so on. Registers that
//! the code generator adds have a `t` before their class (`%tr0`). The registers of a register
//! variable have the variable's number and the index (`%v0_3`).

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
    /// Floating point of 16 and 8 bits, and vectors of 16 bits.
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

    /// Returns the class of a value's register, or of each register of a vector.
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

    /// Returns the class of a pointer into the space.
    pub(super) const fn of_pointer(space: Space) -> Class {
        match space {
            Space::Global | Space::Local | Space::Const | Space::Generic => Class::B64,
            Space::Shared | Space::SharedCluster => Class::B32,
        }
    }

    /// Returns the prefix of value registers.
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

    /// Returns the type in a declaration.
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

    /// Returns the type of instructions that only move bits: `mov`, `selp`, `and`, and so on.
    ///
    /// Floating point values are moved as bits. If `ptxas` 13.0 is told that they are numbers, it
    /// turns a choice between -1 and -0 (by `selp.f32`, or by `mov.f32` in two arms) into the
    /// conversion of an integer, and the zero loses its sign.
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
    /// A value's register, by the value's number.
    Value(Class, u32),
    /// One register of a vector with several: the value's number, and the register's index.
    Part(Class, u32, u32),
    /// A register that the code generator added, by its index in the class.
    Temp(Class, u32),
    /// A register of a variable: the variable's number, and the register's index.
    Var(Class, u32, u32),
}

/// Hashes the whole register as one word. The derived hash takes three, and registers are hashed
/// often.
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

/// An operand that an instruction reads or writes. `ptxas` accepts immediates wherever an operand
/// is read, including predicates, except as an instruction's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant of the kernel.
    Const(Const),
    /// An integer that the code generator adds.
    Int(i64),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg(reg)
    }
}

/// Returns the type of instructions that compute. Narrow integers are computed in 32 bits. `bool`
/// has no arithmetic type, so it counts as its byte. Floating point formats without arithmetic have
/// the names that conversions use.
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

/// Returns the type of an element in memory.
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
