//! What an operation needs of its target beyond its row.

use super::{Arith, Op};
use crate::ir::target::Target;

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

    /// The operation as messages about its attributes name it: `sreg<tid.x>`.
    pub(in crate::ir) fn name_with_attributes(&self) -> String {
        match self.attributes() {
            none if none.is_empty() => self.name().to_owned(),
            attributes => format!("{}<{}>", self.name(), attributes.join(", ")),
        }
    }
}
