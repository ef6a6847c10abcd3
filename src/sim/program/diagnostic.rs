//! Compiles prints and assertions. Each lane's text or failure is stored in the block's
//! diagnostics, and the launch prints them in block order.

use super::compiler::Compiler;
use super::refused::Refused;
use crate::ir::op::Diagnostic;
use crate::ir::types::{Const, Scalar};
use crate::ir::{Format, OpId, Value};
use crate::sim::memory::access::Access;
use crate::sim::memory::diagnostics::{Consts, Diagnostics};
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::lanes_of;

/// Returns the values of a lane's slots, for a print or for the message of an assertion.
fn values_of(regs: &Regs, slots: &[(Scalar, u32)], lane: usize) -> Consts {
    let value = |(scalar, slot): &(Scalar, u32)| {
        let slot = *slot as usize;
        let word = if scalar.bits() == 64 { regs.d[slot][lane] } else { regs.w[slot][lane].into() };
        Const::new(*scalar, word)
    };
    slots.iter().map(value).collect()
}

impl Compiler<'_> {
    pub(in crate::sim) fn diagnostic(&self, id: OpId, op: &Diagnostic) -> Result<Access, Refused> {
        let slots = |values: &[Value]| -> Result<Box<[(Scalar, u32)]>, Refused> {
            values.iter().map(|value| self.scalar(*value)).collect()
        };
        match op {
            Diagnostic::Assert { cond, values, element, .. } => {
                let (cond, values) = (self.scalar_of(*cond, Scalar::Bool)?, slots(values)?);
                let element: Vec<Value> = element.iter().copied().collect();
                let element = slots(&element)?;
                Ok(Box::new(move |regs, memory, mask| {
                    for lane in lanes_of(mask & !regs.truth(cond)) {
                        let index = values_of(regs, &element, lane);
                        let index = index.first().map(|index| index.bits());
                        memory.block_mut().diagnostics.fail(
                            lane,
                            id,
                            values_of(regs, &values, lane),
                            index,
                        );
                    }
                    Ok(())
                }))
            }
            Diagnostic::Printf { format, values } => {
                let format = Format::parse(format).map_err(|_| Refused::Malformed)?;
                let values = slots(values)?;
                Ok(Box::new(move |regs, memory, mask| {
                    let Diagnostics { first_thread, prints, .. } =
                        &mut memory.block_mut().diagnostics;
                    for lane in lanes_of(mask) {
                        let text = format.to_text(&values_of(regs, &values, lane));
                        prints.push((*first_thread + lane as u32, text));
                    }
                    Ok(())
                }))
            }
        }
    }
}
