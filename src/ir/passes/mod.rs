//! Passes that rewrite a verified kernel into an equivalent one.
//!
//! `lower` carries out what the operations ask for, such as the unrolling of a loop, so that code generation
//! and the simulator see plain loops only. The verifier has refused requests that cannot be carried out.

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

/// Carries out what the operations of a verified kernel ask for: the new kernel, or `None` where they ask
/// for nothing.
pub(in crate::ir) fn lower(ir: &KernelIr) -> Option<KernelIr> {
    // First, because the loop that pipelining leaves may be unrolled.
    let pipelined = asks(ir, ir.body, &|prefetch, _| prefetch > 0).then(|| pipeline::pipeline(ir));
    let ir = pipelined.as_ref().unwrap_or(ir);
    let unrolled =
        asks(ir, ir.body, &|_, unroll| unroll != Unroll::Keep).then(|| unroll::unroll(ir));
    unrolled.or(pipelined)
}

/// Returns whether there is a loop with such a request.
fn asks(ir: &KernelIr, region: RegionId, such: &dyn Fn(u32, Unroll) -> bool) -> bool {
    ir.regions[region].ops.iter().any(|op| {
        let op = &ir.ops[*op].op;
        matches!(op, Op::Control(Control::For { prefetch, unroll, .. }) if such(*prefetch, *unroll))
            || op.regions().into_iter().any(|inner| asks(ir, inner, such))
    })
}
