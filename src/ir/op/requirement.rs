//! What an operation requires of the target beyond its row, for example because an attribute's
//! value came with a later GPU. The verifier asks it for each operation of a kernel.

use super::{Diagnostic, Op};
use crate::ir::entity::Value;
use crate::ir::kernel::KernelIr;
use crate::ir::target::Target;
use crate::ir::types::Type;

impl Op {
    /// Returns the oldest target that has the operation with these attributes and operand types.
    ///
    /// # Errors
    /// Returns the reason if no target has it.
    pub fn support(&self, ir: &KernelIr) -> Result<Target, &'static str> {
        let row = self.info().map_or(Target::SM_80, |info| info.target);
        let first = row.max(self.check(ir)?);
        // `printf` converts floating-point values to `f64`, and conversions from 8-bit formats need
        // `sm_89`.
        if let Op::Diagnostic(Diagnostic::Printf { values, .. }) = self {
            let is_byte = |value: &Value| {
                let ty = ir.values.get(*value).map(|value| value.ty);
                matches!(ty, Some(Type::Scalar(scalar)) if scalar.is_f8())
            };
            return Ok(if values.iter().any(is_byte) { first.max(Target::SM_89) } else { first });
        }
        Ok(first)
    }

    /// Returns the operation's name with its attributes, for error messages: `sreg<tid.x>`.
    pub(in crate::ir) fn name_with_attributes(&self) -> String {
        let mut attributes = self.attributes();
        attributes.retain(|attribute| !attribute.is_empty());
        match attributes.is_empty() {
            true => self.name().to_owned(),
            false => format!("{}<{}>", self.name(), attributes.join(", ")),
        }
    }
}
