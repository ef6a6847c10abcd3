//! What an operation needs of its target beyond its row.

use super::{Arith, Op};
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};

impl Op {
    /// The first target that has the operation with its attributes.
    pub fn first_target(&self) -> Target {
        let row = self.info().map_or(Target::SM_80, |info| info.target);
        match self {
            Op::Arith(Arith::Sreg { reg }) => row.max(reg.first_target()),
            Op::Const(_)
            | Op::Arith(_)
            | Op::Mem(_)
            | Op::Sync(_)
            | Op::Warp(_)
            | Op::Thread(_)
            | Op::Diagnostic(_)
            | Op::Control(_) => row,
        }
    }

    /// The first target that has the operation with its attributes, on the types of its operands: conversions
    /// to and from 8-bit floating point came with `sm_89`.
    pub fn first_target_on(&self, ir: &KernelIr) -> Target {
        let first = self.first_target();
        let Op::Arith(Arith::Cvt { value, to }) = self else { return first };
        let from = match ir.values.get(*value).map(|value| value.ty) {
            Some(Type::Scalar(scalar)) => scalar,
            Some(Type::Vector(vector)) => vector.elem(),
            Some(Type::Pointer { .. }) | None => return first,
        };
        let is_byte = |s: Scalar| matches!(s, Scalar::F8E4M3 | Scalar::F8E5M2);
        let converts = from != *to && (is_byte(from) || is_byte(*to));
        if converts { first.max(Target::SM_89) } else { first }
    }

    /// The operation as messages about its attributes name it: `sreg<tid.x>`.
    pub(in crate::ir) fn name_with_attributes(&self) -> String {
        match self.attributes() {
            none if none.is_empty() => self.name().to_owned(),
            attributes => format!("{}<{}>", self.name(), attributes.join(", ")),
        }
    }
}
