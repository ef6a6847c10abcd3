//! The types of elements in memory and in instructions.

use crate::ir::builder::{Accumulator, Converted, Float};
use crate::ir::types::{Rounding, Scalar};
use crate::ir::{Element, Val};
use crate::tensor::ValType;

/// The types of the elements of A, B and D in memory, as one type: the tuple of them.
pub(super) trait Types: 'static {
    /// The type in which sums are stored and epilogues compute.
    type Sum: Float + Accumulator + From<f32>;
    type A: Element;
    type B: Element;
    type D: Converted;
}

impl<A: Element, B: Element, D: Converted> Types for (A, B, D) {
    type Sum = A::Sum;
    type A = A;
    type B = B;
    type D = D;
}

/// The instruction's name of a type.
#[inline]
pub(super) fn val_type(scalar: Scalar) -> Option<ValType> {
    Some(match scalar {
        Scalar::Bf16 => ValType::Bf16,
        Scalar::F16 => ValType::F16,
        Scalar::Tf32 => ValType::Tf32,
        Scalar::F32 => ValType::F32,
        Scalar::F8E4M3 => ValType::E4M3,
        Scalar::F8E5M2 => ValType::E5M2,
        Scalar::F64 => ValType::F64,
        Scalar::I32 => ValType::S32,
        Scalar::I8 => ValType::S8,
        Scalar::U8 => ValType::U8,
        _ => return None,
    })
}

/// The type of the accumulators of products of elements of this type.
pub(super) const fn accumulator_of(input: Scalar) -> Scalar {
    match input {
        Scalar::I8 | Scalar::U8 => Scalar::I32,
        Scalar::F64 => Scalar::F64,
        _ => Scalar::F32,
    }
}

/// The type of elements in memory.
#[inline]
pub(crate) const fn in_memory(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Tf32 => Scalar::F32,
        other => other,
    }
}

/// The conversions of an epilogue, which computes in floating point: integers are in the bits of accumulators.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    /// The types of sums and of D.
    pub(super) acc: Scalar,
    pub(super) d: Scalar,
}

impl Numbers {
    /// Sums as numbers.
    pub(super) fn of_sums<'b, S: Float>(self, sums: [Val<'b, S>; 2]) -> [Val<'b, S>; 2] {
        sums.map(|sum| match self.acc {
            Scalar::I32 => sum.bitcast::<i32>().cvt::<S>(),
            _ => sum,
        })
    }

    /// An element of D from a number.
    pub(super) fn stored<S: Float>(self, value: Val<'_, S>) -> Val<'_, S> {
        match self.d {
            Scalar::I32 => value.cvt_rint::<i32>(Rounding::NearestEven).bitcast(),
            _ => value,
        }
    }
}
