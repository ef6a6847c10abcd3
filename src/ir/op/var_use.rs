//! The registers of a variable that an operation reads and sets.

use super::{Accumulators, Mem, Mma, Op};
use crate::ir::entity::VarId;
use crate::ir::kernel::KernelIr;

/// Some registers of a variable, and what an operation does with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) struct VarUse {
    pub(in crate::ir) var: VarId,
    /// The first register.
    pub(in crate::ir) first: u32,
    /// The number of registers.
    pub(in crate::ir) len: u32,
    /// True if they must have been set before.
    pub(in crate::ir) reads: bool,
    /// True if they are set afterwards.
    pub(in crate::ir) sets: bool,
}

impl Op {
    /// The registers of a variable that the operation reads or sets; `None` where it has none.
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
            // One that is not known may be false where it matters.
            let reads = ir.constant(*accumulate).is_some_and(|accumulate| accumulate.bits() != 0);
            return Some(VarUse { var, first: *first, len, reads, sets: true });
        }
        None
    }
}
