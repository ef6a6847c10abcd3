//! Which registers of a register variable an operation reads and sets. The verifier asks it to find
//! reads of unset registers. MMAs accumulate into such variables.

use super::{Accumulators, Mem, Mma, Op};
use crate::ir::entity::VarId;
use crate::ir::kernel::KernelIr;

/// A range of a variable's registers, and how an operation uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) struct VarUse {
    pub(in crate::ir) var: VarId,
    /// The first register's index.
    pub(in crate::ir) first: u32,
    /// How many registers.
    pub(in crate::ir) len: u32,
    /// Whether they must have been set before.
    pub(in crate::ir) reads: bool,
    /// Whether the operation sets them.
    pub(in crate::ir) sets: bool,
}

impl Op {
    /// Returns the registers that the operation reads or sets, or `None` if it uses no variable.
    pub(in crate::ir) fn var_use(&self, ir: &KernelIr) -> Option<VarUse> {
        let var = self.var()?;
        let accumulators = |shape, threads| {
            let ty = ir.vars.get(var)?.ty;
            Accumulators::new(shape, threads, ty).map(|accumulators| accumulators.len)
        };
        if let Op::Mem(Mem::GetVar { index, .. }) = self {
            return Some(VarUse { var, first: *index, len: 1, reads: true, sets: false });
        }
        if let Op::Mem(Mem::SetVar { index, .. }) = self {
            return Some(VarUse { var, first: *index, len: 1, reads: false, sets: true });
        }
        if let Op::Mma(
            Mma::MmaSync { shape, first, .. }
            | Mma::MmaSyncF64 { shape, first, .. }
            | Mma::MmaSyncSp { shape, first, .. },
        ) = self
        {
            let len = accumulators(*shape, 32)?;
            return Some(VarUse { var, first: *first, len, reads: true, sets: true });
        }
        if let Op::Mma(
            Mma::Wgmma { shape, first, accumulate, .. }
            | Mma::WgmmaRs { shape, first, accumulate, .. }
            | Mma::WgmmaSp { shape, first, accumulate, .. }
            | Mma::WgmmaRsSp { shape, first, accumulate, .. },
        ) = self
        {
            let len = accumulators(*shape, 128)?;
            // If `accumulate` is not a constant, it may be false when the registers are unset, so
            // we do not require them to be set.
            let reads = ir.constant(*accumulate).is_some_and(|accumulate| accumulate.bits() != 0);
            return Some(VarUse { var, first: *first, len, reads, sets: true });
        }
        None
    }
}
