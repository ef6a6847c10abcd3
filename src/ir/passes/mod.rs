//! Passes: each rewrites a verified kernel into an equivalent one.
//!
//! `lower` applies the transformations that loops request, such as unrolling and prefetching, so
//! that code generation and the simulator only see plain loops. It never fails, because the
//! verifier has rejected every request that cannot be applied.

pub(in crate::ir) mod checked;
mod counted;
mod merge_shared;
mod pipeline;
mod rewrite;
mod unroll;
mod without_asserts;

pub(in crate::ir) use merge_shared::merge_shared;
pub(in crate::ir) use without_asserts::without_asserts;

use super::entity::RegionId;
use super::kernel::KernelIr;
use super::op::{Control, Op, Unroll};

/// Applies the transformations that the loops of a verified kernel request. Returns `None` if no
/// loop requests one, so that the caller can use `ir` as it is.
pub(in crate::ir) fn lower(ir: &KernelIr) -> Option<KernelIr> {
    // Pipelining comes first, because its main loop may be unrolled afterwards.
    let pipelined = asks(ir, ir.body, &|prefetch, _| prefetch > 0).then(|| pipeline::pipeline(ir));
    let ir = pipelined.as_ref().unwrap_or(ir);
    let unrolled =
        asks(ir, ir.body, &|_, unroll| unroll != Unroll::Keep).then(|| unroll::unroll(ir));
    unrolled.or(pipelined)
}

/// Returns whether `such` is true for the prefetch and unroll requests of some loop in the region.
fn asks(ir: &KernelIr, region: RegionId, such: &dyn Fn(u32, Unroll) -> bool) -> bool {
    ir.regions[region].ops.iter().any(|op| {
        let op = &ir.ops[*op].op;
        matches!(op, Op::Control(Control::For { prefetch, unroll, .. }) if such(*prefetch, *unroll))
            || op.regions().into_iter().any(|inner| asks(ir, inner, such))
    })
}
