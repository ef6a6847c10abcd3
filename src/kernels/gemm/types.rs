//! The types of elements in memory and in instructions.

use crate::ir::types::Scalar;
use crate::ir::{Element, Number};
use crate::tensor::ValType;

/// The types of the elements of A, B and D in memory, as one type: the tuple of them.
pub(super) trait Types: 'static {
    type A: Element;
    type B: Element;
    type D: Number;
}

impl<A: Element, B: Element, D: Number> Types for (A, B, D) {
    type A = A;
    type B = B;
    type D = D;
}

/// The instruction's name of a type.
pub(super) fn val_type(scalar: Scalar) -> Option<ValType> {
    Some(match scalar {
        Scalar::Bf16 => ValType::Bf16,
        Scalar::F16 => ValType::F16,
        Scalar::Tf32 => ValType::Tf32,
        Scalar::F32 => ValType::F32,
        Scalar::F8E4M3 => ValType::E4M3,
        Scalar::F8E5M2 => ValType::E5M2,
        _ => return None,
    })
}

/// The type of elements in memory.
pub(crate) const fn in_memory(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Tf32 => Scalar::F32,
        other => other,
    }
}
