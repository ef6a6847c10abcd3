//! Requirements of an operation on its target beyond its row.

use super::{Diagnostic, Op};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::Type;

impl Op {
    /// The first target that has the operation with its attributes, on the types of its operands.
    ///
    /// # Errors
    /// Why no target has it.
    pub fn support(&self, ir: &KernelIr) -> Result<Target, &'static str> {
        let row = self.info().map_or(Target::SM_80, |info| info.target);
        let first = row.max(self.check(ir)?);
        // What is printed is converted to `f64`.
        if let Op::Diagnostic(Diagnostic::Printf { values, .. }) = self {
            let is_byte = |value: &Value| {
                let ty = ir.values.get(*value).map(|value| value.ty);
                matches!(ty, Some(Type::Scalar(scalar)) if scalar.is_f8())
            };
            return Ok(if values.iter().any(is_byte) { first.max(Target::SM_89) } else { first });
        }
        Ok(first)
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
