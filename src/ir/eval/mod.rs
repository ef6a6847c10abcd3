//! The bits that each pure operation computes, for constant folding and for the lanes of the simulator.
//!
//! [`evaluate`] chooses the Rust function of an operation by the types of its operands. A [`Machine`] runs it:
//! [`constant`] on constants when PTX is written, the simulator on 32 lanes side by side. The choice is made
//! once for an operation, so that a machine runs a function of fixed types in its loop.

mod arith;
mod bits;
mod constant;
mod convert;
mod dispatch;
mod float;
mod int;
mod lane;
mod number;
mod round;

pub(crate) use constant::constant;
pub(crate) use dispatch::with_type;
#[cfg(feature = "sim")]
pub(crate) use dispatch::{with_int, with_number};
pub(crate) use lane::{Lane, Pair};
#[cfg(feature = "sim")]
pub(crate) use lane::{Registers, Word};
pub(crate) use number::Int;
#[cfg(feature = "sim")]
pub(crate) use number::{Bits, Nan, Number};

use super::entity::Value;
use super::op::Op;
use super::types::{Const, Scalar, Type};

/// Runs the function of one operation on its operands.
///
/// Each method returns `None` where the machine lacks an operand, or where the types of the operands break the
/// operation's row.
pub(crate) trait Machine: Sized {
    /// The result of running a function: a constant, or an instruction of the simulator.
    type Output;

    /// The type of an operand; `None` for pointers.
    fn type_of(&self, value: Value) -> Option<Type>;

    /// The type of the result; `None` for pointers.
    fn result(&self) -> Option<Type>;

    /// Runs `f` of one operand.
    fn unary<A: Lane, R: Lane>(
        self,
        value: Value,
        f: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs `f` of two operands.
    fn binary<A: Lane, B: Lane, R: Lane>(
        self,
        values: [Value; 2],
        f: impl Fn(A, B) -> R + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs `f` of three operands.
    fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
        self,
        values: [Value; 3],
        f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs an integer division or remainder; a divisor that is zero is a fault.
    fn divide<T: Int>(self, values: [Value; 2], f: fn(T, T) -> T) -> Option<Self::Output>;

    /// Runs `f` of the bits of each element of the operands, which are scalars, or vectors of as many elements
    /// as the result. Bits are zero-extended.
    fn elements<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs `f` of the whole words of the operands, which have at most 32 bits.
    fn words<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u32; N]) -> u32 + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Chooses one of two values of any type.
    fn select(self, cond: Value, then_value: Value, else_value: Value) -> Option<Self::Output>;

    /// Makes a vector of scalars, the first one in the lowest bits.
    fn pack(self, values: &[Value]) -> Option<Self::Output>;

    /// Takes element `lane` of a vector.
    fn extract(self, vector: Value, lane: u32) -> Option<Self::Output>;

    /// Reads the bits of a value as the type of the result.
    fn bitcast(self, value: Value) -> Option<Self::Output>;
}

/// Runs the function of a pure operation on numbers; `None` for every other operation, and where the machine
/// has no result.
pub(crate) fn evaluate<M: Machine>(op: &Op, machine: M) -> Option<M::Output> {
    match op {
        Op::Arith(op) => arith::arith(op, machine),
        Op::FloatArith(op) => float::float_arith(op, machine),
        Op::IntArith(op) => int::int_arith(op, machine),
        Op::Convert(op) => convert::conversion(op, machine),
        Op::Const(_)
        | Op::Mem(_)
        | Op::Atomic(_)
        | Op::Cache(_)
        | Op::Sync(_)
        | Op::Mma(_)
        | Op::Mbarrier(_)
        | Op::AsyncCopy(_)
        | Op::Warp(_)
        | Op::Thread(_)
        | Op::Control(_)
        | Op::Diagnostic(_)
        | Op::Inline(_) => None,
    }
}

/// The type of the result, where all operands have it too.
fn same<M: Machine, const N: usize>(machine: &M, values: [Value; N]) -> Option<Type> {
    let ty = machine.result()?;
    values.into_iter().all(|value| machine.type_of(value) == Some(ty)).then_some(ty)
}

/// The type of a scalar, or of the elements of a vector.
fn elem_of(ty: Type) -> Option<Scalar> {
    match ty {
        Type::Scalar(scalar) => Some(scalar),
        Type::Vector(vector) => Some(vector.elem()),
        Type::Pointer { .. } | Type::TensorMap { .. } => None,
    }
}

/// The scalar type of an operand, or of its elements.
fn elem<M: Machine>(machine: &M, value: Value) -> Option<Scalar> {
    elem_of(machine.type_of(value)?)
}

/// Runs `f` of the numbers of operands of integer types, and wraps it to the type of the result.
fn integers<M: Machine, const N: usize>(
    machine: M,
    values: [Value; N],
    f: impl Fn([i128; N]) -> i128 + Send + Sync + 'static,
) -> Option<M::Output> {
    let to = elem_of(machine.result()?)?;
    let types = elems(&machine, values)?;
    machine.elements(values, move |bits| Const::new(to, f(numbers(types, bits)) as u64).bits())
}

/// The scalar types of operands, or of their elements.
fn elems<M: Machine, const N: usize>(machine: &M, values: [Value; N]) -> Option<[Scalar; N]> {
    let mut types = [Scalar::U32; N];
    for (ty, value) in types.iter_mut().zip(values) {
        *ty = elem(machine, value)?;
    }
    Some(types)
}

/// The numbers of integers from their bits.
fn numbers<const N: usize>(types: [Scalar; N], bits: [u64; N]) -> [i128; N] {
    let mut numbers = [0; N];
    for (number, (ty, bits)) in numbers.iter_mut().zip(types.iter().zip(bits)) {
        *number = Const::new(*ty, bits).as_int().unwrap_or(0);
    }
    numbers
}

/// The low bits. A function and no closure, because a closure is another type in each of its callers' instances.
pub(crate) fn low(bits: u64) -> u32 {
    bits as u32
}
