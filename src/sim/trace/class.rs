//! Groups operations into classes such as loads, MMAs and barriers, and tells how many floating
//! point operations each operation does. Reports add up both, and traces show the classes.

use crate::ir::KernelIr;
use crate::ir::op::{Arith, FloatArith, Mem, Mma, MmaShape, Op};
use crate::ir::types::{Space, Type};
use crate::ir::{OpId, Value};

/// What kind of work an operation is. A [`KernelReport`](crate::sim::KernelReport) counts
/// operations by class, and a trace shows the class of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OpClass {
    /// Arithmetic, conversions, variables, addresses and control flow. A trace counts these and
    /// does not list them.
    Plain,
    /// A load or store of global memory, or through a generic pointer.
    Global,
    /// A load or store of shared memory, including matrix loads and stores.
    Shared,
    /// An atomic operation.
    Atomic,
    /// A warp's MMA, `mma.sync`.
    Mma,
    /// A `wgmma`, with its fence, commit and wait.
    Wgmma,
    /// A `cp.async`, with its commit and wait.
    CpAsync,
    /// A bulk or tensor copy with its commit and wait, or an asynchronous store to another block of
    /// the cluster.
    Tma,
    /// An operation on an mbarrier.
    Mbarrier,
    /// A barrier of a warp, block or cluster.
    Barrier,
    /// A fence.
    Fence,
    /// A shuffle, a vote, or another operation between a warp's lanes.
    Warp,
    /// Anything else.
    Other,
}

impl OpClass {
    /// Returns the class's name, such as `wgmma`, as traces and reports print it.
    pub const fn name(self) -> &'static str {
        match self {
            OpClass::Plain => "plain",
            OpClass::Global => "global",
            OpClass::Shared => "shared",
            OpClass::Atomic => "atomic",
            OpClass::Mma => "mma",
            OpClass::Wgmma => "wgmma",
            OpClass::CpAsync => "cp.async",
            OpClass::Tma => "tma",
            OpClass::Mbarrier => "mbarrier",
            OpClass::Barrier => "barrier",
            OpClass::Fence => "fence",
            OpClass::Warp => "warp",
            OpClass::Other => "other",
        }
    }

    /// Returns an operation's class.
    pub(in crate::sim) fn of(ir: &KernelIr, id: OpId) -> OpClass {
        let of_space = |base: Value| match ir.values.get(base).map(|value| value.ty) {
            Some(Type::Pointer { space: Space::Shared | Space::SharedCluster, .. }) => {
                OpClass::Shared
            }
            Some(Type::Pointer { space: Space::Local | Space::Const, .. }) => OpClass::Plain,
            _ => OpClass::Global,
        };
        let op = &ir.ops[id].op;
        let named = |prefix: &str| op.name().starts_with(prefix);
        match op {
            Op::Mem(
                Mem::Ld { base, .. }
                | Mem::St { base, .. }
                | Mem::LdVec { base, .. }
                | Mem::StVec { base, .. },
            ) => of_space(*base),
            Op::Mem(_)
            | Op::Const(_)
            | Op::Arith(_)
            | Op::FloatArith(_)
            | Op::IntArith(_)
            | Op::Convert(_)
            | Op::Control(_)
            | Op::Thread(_)
            | Op::Diagnostic(_) => OpClass::Plain,
            Op::Atomic(_) => OpClass::Atomic,
            Op::Mma(_) if named("wgmma") => OpClass::Wgmma,
            Op::Mma(_) if named("mma_sync") => OpClass::Mma,
            Op::Mma(_) if named("ldmatrix") || named("stmatrix") => OpClass::Shared,
            Op::Mma(_) if named("setmaxnreg") => OpClass::Other,
            Op::Mma(_) => OpClass::Plain,
            Op::AsyncCopy(_) if named("cp_async") && !named("cp_async_bulk") => OpClass::CpAsync,
            Op::AsyncCopy(_) => OpClass::Tma,
            Op::Mbarrier(_) | Op::Sync(_) if named("fence") => OpClass::Fence,
            Op::Mbarrier(_) => OpClass::Mbarrier,
            Op::Sync(_) => OpClass::Barrier,
            Op::Warp(_) => OpClass::Warp,
            Op::Cache(_) | Op::Inline(_) => OpClass::Other,
        }
    }
}

/// Returns 128 times the floating point operations that one thread does when it executes an
/// operation. The factor makes the result an integer, because the 128 threads of a warp group share
/// an MMA.
pub(in crate::sim) fn flops(ir: &KernelIr, id: OpId) -> u64 {
    let data = &ir.ops[id];
    let product = |shape: MmaShape, threads: u64| {
        2 * 128 * u64::from(shape.m) * u64::from(shape.n) * u64::from(shape.k) / threads
    };
    if let Op::Mma(Mma::MmaSync { shape, .. } | Mma::MmaSyncF64 { shape, .. }) = &data.op {
        return product(*shape, 32);
    }
    if let Op::Mma(Mma::Wgmma { shape, .. } | Mma::WgmmaRs { shape, .. }) = &data.op {
        return product(*shape, 128);
    }
    let one = matches!(
        &data.op,
        Op::Arith(Arith::Add { .. } | Arith::Sub { .. } | Arith::Mul { .. } | Arith::Div { .. })
            | Op::FloatArith(
                FloatArith::AddRounded { .. }
                    | FloatArith::SubRounded { .. }
                    | FloatArith::MulRounded { .. }
                    | FloatArith::DivRounded { .. },
            )
    );
    let two = matches!(
        &data.op,
        Op::Arith(Arith::Fma { .. }) | Op::FloatArith(FloatArith::FmaRounded { .. })
    );
    let each = u64::from(one) + 2 * u64::from(two);
    let ty = data.results.first().and_then(|result| ir.values.get(*result)).map(|value| value.ty);
    match ty {
        Some(Type::Scalar(scalar)) if scalar.is_float() => 128 * each,
        Some(Type::Vector(vector)) if vector.elem().is_float() => {
            128 * each * u64::from(vector.lanes())
        }
        _ => 0,
    }
}
