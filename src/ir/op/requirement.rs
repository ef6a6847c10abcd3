//! Requirements of an operation on its target beyond its row.

use super::{Arith, Atomic, Diagnostic, Mem, MemScope, Op, Sync};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Type};

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
                | Atomic::AtomVec { scope, .. }
                | Atomic::RedVec { scope, .. }
                | Atomic::AtomCas { scope, .. }
                | Atomic::Red { scope, .. },
            ) => scoped(row, Some(*scope)),
            Op::Sync(Sync::Fence { scope, .. }) => scoped(row, Some(*scope)),
            Op::Const(_)
            | Op::Arith(_)
            | Op::Mem(_)
            | Op::Cache(_)
            | Op::Sync(_)
            | Op::Mma(_)
            | Op::Mbarrier(_)
            | Op::AsyncCopy(_)
            | Op::Warp(_)
            | Op::Thread(_)
            | Op::Diagnostic(_)
            | Op::Inline(_)
            | Op::Control(_) => row,
        }
    }

    /// The first target that has the operation with its attributes, on the types of its operands.
    ///
    /// # Errors
    /// Why no target has it.
    pub fn support(&self, ir: &KernelIr) -> Result<Target, &'static str> {
        let first = self.first_target().max(self.check(ir)?);
        match self {
            Op::Mem(op) => super::space_support::mem(op, ir).map(|target| first.max(target)),
            Op::Atomic(op) => super::space_support::atomic(op, ir).map(|target| first.max(target)),
            Op::Mma(op) => super::tensor_support::mma(op, ir).map(|target| first.max(target)),
            Op::Mbarrier(op) => {
                super::tensor_support::mbarrier(op, ir).map(|target| first.max(target))
            }
            Op::AsyncCopy(op) => {
                super::tensor_support::async_copy(op, ir).map(|target| first.max(target))
            }
            // What is printed is converted to `f64`.
            Op::Diagnostic(Diagnostic::Printf { values, .. }) => {
                let is_byte = |value: &Value| {
                    matches!(
                        ir.values.get(*value).map(|value| value.ty),
                        Some(Type::Scalar(Scalar::F8E4M3 | Scalar::F8E5M2))
                    )
                };
                Ok(if values.iter().any(is_byte) { first.max(Target::SM_89) } else { first })
            }
            Op::Const(_)
            | Op::Arith(_)
            | Op::Cache(_)
            | Op::Sync(_)
            | Op::Warp(_)
            | Op::Thread(_)
            | Op::Diagnostic(Diagnostic::Assert { .. })
            | Op::Inline(_)
            | Op::Control(_) => Ok(first),
        }
    }

    /// The operation as messages about its attributes name it: `sreg<tid.x>`.
    pub(in crate::ir) fn name_with_attributes(&self) -> String {
        let mut attributes = self.attributes();
        attributes.retain(|attribute| !attribute.is_empty());
        match attributes.is_empty() {
            true => self.name().to_owned(),
            false => format!("{}<{}>", self.name(), attributes.join(", ")),
        }
    }
}

/// The later one of the targets of a row and of a scope.
fn scoped(row: Target, scope: Option<MemScope>) -> Target {
    scope.map_or(row, |scope| row.max(scope.first_target()))
}
