//! Simulates inline PTX with the closure that its author provides (`InlinePtx::simulated`). Without
//! such a closure, or if an operand is not a scalar, executing the PTX is a fault. The closure runs
//! once for each active lane, with the bits of its operands.

use std::sync::Arc;

use super::compiler::Compiler;
use super::refused::Refused;
use super::slots::Slots;
use crate::ir::op::Inline;
use crate::ir::types::{Const, Scalar};
use crate::sim::fault::raw::InlineText;
use crate::sim::fault::raw_fault::{RawCause, RawFault};
use crate::sim::memory::access::Access;
use crate::sim::memory::mask::lanes_of;

impl Compiler<'_> {
    pub(in crate::sim) fn inline(&self, op: &Inline, results: &[Slots]) -> Result<Access, Refused> {
        let not_simulated: Access = Box::new(|_, _, mask| {
            Err(RawFault::new(
                mask.trailing_zeros() as usize,
                RawCause::NotSimulated { text: InlineText },
            ))
        });
        let Some(simulate) = op.ptx.simulation().map(Arc::clone) else { return Ok(not_simulated) };
        let scalar = |slots: &Slots| match slots {
            Slots::Scalar(scalar, slot) => Some((*scalar, *slot as usize)),
            _ => None,
        };
        let operands: Vec<Slots> =
            op.operands.iter().map(|value| self.slots(*value)).collect::<Result<_, _>>()?;
        // A pointer has no address in the simulator.
        let (Some(operands), Some(results)) = (
            operands.iter().map(scalar).collect::<Option<Vec<(Scalar, usize)>>>(),
            results.iter().map(scalar).collect::<Option<Vec<(Scalar, usize)>>>(),
        ) else {
            return Ok(not_simulated);
        };
        Ok(Box::new(move |regs, _, mask| {
            let (mut bits_in, mut bits_out) = (vec![0; operands.len()], vec![0; results.len()]);
            for lane in lanes_of(mask) {
                for ((scalar, slot), bits) in operands.iter().zip(&mut bits_in) {
                    let is_wide = scalar.bits() == 64;
                    let word =
                        if is_wide { regs.d[*slot][lane] } else { regs.w[*slot][lane].into() };
                    *bits = Const::new(*scalar, word).bits();
                }
                bits_out.fill(0);
                simulate(&bits_in, &mut bits_out);
                for ((scalar, slot), bits) in results.iter().zip(&bits_out) {
                    let bits = Const::new(*scalar, *bits).bits();
                    match scalar {
                        Scalar::Bool => regs.w[*slot][lane] = if bits != 0 { u32::MAX } else { 0 },
                        scalar if scalar.bits() == 64 => regs.d[*slot][lane] = bits,
                        _ => regs.w[*slot][lane] = bits as u32,
                    }
                }
            }
            Ok(())
        }))
    }
}
