//! What an operation needs of its target beyond its row.

use super::{Arith, Atomic, Diagnostic, Mem, MemScope, Op, Sync};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::Scalar;
use crate::ir::vector::VectorType;

impl Op {
    /// The first target that has the operation with its attributes.
    pub fn first_target(&self) -> Target {
        let row = self.info().map_or(Target::SM_80, |info| info.target);
        match self {
            Op::Arith(Arith::Sreg { reg }) => row.max(reg.first_target()),
            Op::Mem(Mem::Ld { access, .. } | Mem::LdVec { access, .. }) => {
                scoped(row, access.order.scope())
            }
            Op::Mem(Mem::St { access, .. } | Mem::StVec { access, .. }) => {
                scoped(row, access.order.scope())
            }
            Op::Atomic(
                Atomic::Atom { scope, .. }
                | Atomic::AtomCas { scope, .. }
                | Atomic::Red { scope, .. },
            ) => scoped(row, Some(*scope)),
            Op::Sync(Sync::Fence { scope, .. }) => scoped(row, Some(*scope)),
            Op::Const(_)
            | Op::Arith(_)
            | Op::Mem(_)
            | Op::Cache(_)
            | Op::Sync(_)
            | Op::Warp(_)
            | Op::Thread(_)
            | Op::Diagnostic(_)
            | Op::Control(_) => row,
        }
    }

    /// The first target that has the operation with its attributes, on the types of its operands: conversions
    /// to and from 8-bit floating point, which `printf` makes too, came with `sm_89`.
    pub fn first_target_on(&self, ir: &KernelIr) -> Target {
        let first = self.first_target();
        let converts = if let Op::Arith(Arith::Cvt { value, to }) = self {
            elem_of(ir, *value).is_some_and(|from| from != *to && (is_byte(from) || is_byte(*to)))
        } else if let Op::Diagnostic(Diagnostic::Printf { values, .. }) = self {
            values.iter().any(|value| elem_of(ir, *value).is_some_and(is_byte))
        } else {
            false
        };
        if converts { first.max(Target::SM_89) } else { first }
    }

    /// The operation as messages about its attributes name it: `sreg<tid.x>`.
    pub(in crate::ir) fn name_with_attributes(&self) -> String {
        match self.attributes() {
            none if none.iter().all(String::is_empty) => self.name().to_owned(),
            attributes => format!("{}<{}>", self.name(), attributes.join(", ")),
        }
    }
}

/// The type of a scalar, or of the elements of a vector.
fn elem_of(ir: &KernelIr, value: Value) -> Option<Scalar> {
    let ty = ir.values.get(value)?.ty;
    ty.scalar().or_else(|| ty.vector().map(VectorType::elem))
}

fn is_byte(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F8E4M3 | Scalar::F8E5M2)
}

fn scoped(row: Target, scope: Option<MemScope>) -> Target {
    scope.map_or(row, |scope| row.max(scope.first_target()))
}
