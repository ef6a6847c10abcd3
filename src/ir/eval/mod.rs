//! Evaluates pure operations bit by bit: the semantics shared by constant folding, the analyses and
//! the simulator.
//!
//! [`evaluate`] picks the Rust function for an operation by its operand types, and a [`Machine`]
//! runs it: [`constant`] on constants, the simulator on 32 lanes side by side. The choice is made
//! once per operation, so a machine's inner loop runs a function with fixed types.

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

/// Runs the function of one operation on its operands. Implement this for each way to hold values.
///
/// Each method returns `None` if an operand is unavailable, or if the operand types break the
/// operation's row.
pub(crate) trait Machine: Sized {
    /// What running a function produces: a constant, or an instruction of the simulator.
    type Output;

    /// Returns an operand's type, or `None` for pointers.
    fn type_of(&self, value: Value) -> Option<Type>;

    /// Returns the result's type, or `None` for pointers.
    fn result(&self) -> Option<Type>;

    /// Runs `f` on one operand.
    fn unary<A: Lane, R: Lane>(
        self,
        value: Value,
        f: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs `f` on two operands.
    fn binary<A: Lane, B: Lane, R: Lane>(
        self,
        values: [Value; 2],
        f: impl Fn(A, B) -> R + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs `f` on three operands.
    fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
        self,
        values: [Value; 3],
        f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs an integer division or remainder. A zero divisor is a fault.
    fn divide<T: Int>(self, values: [Value; 2], f: fn(T, T) -> T) -> Option<Self::Output>;

    /// Runs `f` on the bits of each element, zero-extended. Operands are scalars, or vectors with
    /// as many elements as the result.
    fn elements<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Runs `f` on the operands as whole words. They have at most 32 bits.
    fn words<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u32; N]) -> u32 + Send + Sync + 'static,
    ) -> Option<Self::Output>;

    /// Selects one of two values of any type.
    fn select(self, cond: Value, then_value: Value, else_value: Value) -> Option<Self::Output>;

    /// Packs scalars into a vector, the first one in the lowest bits.
    fn pack(self, values: &[Value]) -> Option<Self::Output>;

    /// Extracts element `lane` of a vector.
    fn extract(self, vector: Value, lane: u32) -> Option<Self::Output>;

    /// Reinterprets a value's bits as the result type.
    fn bitcast(self, value: Value) -> Option<Self::Output>;
}

/// Runs a pure arithmetic or conversion operation. Returns `None` for all other operations, and if
/// the machine returns `None`.
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

/// Returns the result's type if all operands have it too.
fn same<M: Machine, const N: usize>(machine: &M, values: [Value; N]) -> Option<Type> {
    let ty = machine.result()?;
    values.into_iter().all(|value| machine.type_of(value) == Some(ty)).then_some(ty)
}

/// Returns the type of a scalar, or of a vector's elements.
fn elem_of(ty: Type) -> Option<Scalar> {
    match ty {
        Type::Scalar(scalar) => Some(scalar),
        Type::Vector(vector) => Some(vector.elem()),
        Type::Pointer { .. } | Type::TensorMap { .. } => None,
    }
}

/// Returns an operand's scalar type, or its element type.
fn elem<M: Machine>(machine: &M, value: Value) -> Option<Scalar> {
    elem_of(machine.type_of(value)?)
}

/// Runs `f` on integer operands as mathematical integers, and wraps the result to the result type.
fn integers<M: Machine, const N: usize>(
    machine: M,
    values: [Value; N],
    f: impl Fn([i128; N]) -> i128 + Send + Sync + 'static,
) -> Option<M::Output> {
    let to = elem_of(machine.result()?)?;
    let types = elems(&machine, values)?;
    machine.elements(values, move |bits| Const::new(to, f(numbers(types, bits)) as u64).bits())
}

/// Returns the operands' scalar types, or their element types.
fn elems<M: Machine, const N: usize>(machine: &M, values: [Value; N]) -> Option<[Scalar; N]> {
    let mut types = [Scalar::U32; N];
    for (ty, value) in types.iter_mut().zip(values) {
        *ty = elem(machine, value)?;
    }
    Some(types)
}

/// Decodes integers from their bits.
fn numbers<const N: usize>(types: [Scalar; N], bits: [u64; N]) -> [i128; N] {
    let mut numbers = [0; N];
    for (number, (ty, bits)) in numbers.iter_mut().zip(types.iter().zip(bits)) {
        *number = Const::new(*ty, bits).as_int().unwrap_or(0);
    }
    numbers
}

/// Returns the low 32 bits. This is not a closure because each instance of a caller would get its
/// own copy.
pub(crate) fn low(bits: u64) -> u32 {
    bits as u32
}
