//! The memory accesses of an operation: which pointer, how many bytes, which alignment.

use crate::ir::entity::{OpId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{AsyncCopy, Constraint, Effect, Mma, Op};
use crate::ir::types::Type;

/// A memory access that an operation makes through one of its pointers.
pub(crate) struct Access {
    /// The pointer's position among the operands.
    pub(crate) operand: usize,
    pub(crate) base: Value,
    pub(crate) index: Value,
    pub(crate) bytes: AccessBytes,
    pub(crate) align: u32,
    pub(crate) is_store: bool,
    /// If set, only the first `lanes` lanes of the warp supply an address.
    pub(crate) lanes: Option<u32>,
}

#[derive(Clone, Copy)]
pub(crate) enum AccessBytes {
    Known(u32),
    /// A `u32` that each thread computes.
    Computed(Value),
    /// The box size of a tensor map, given by parameter index.
    Box(u32),
}

/// Returns the operation's memory accesses, as far as their sizes are known to the kernel.
pub(crate) fn accesses(ir: &KernelIr, id: OpId) -> Vec<Access> {
    let op = &ir.ops[id].op;
    let Some(info) = op.info() else { return Vec::new() };
    // Address arithmetic and prefetches access nothing. A pointer may be out of bounds until it is
    // used.
    let is_hint = matches!(info.name, "prefetch" | "applypriority" | "cp_async_bulk_prefetch");
    if info.effect == Effect::Pure || is_hint {
        return Vec::new();
    }
    let operands = op.operands();
    let named = |name: &str| {
        let position = info.operands.iter().position(|(operand, _)| *operand == name);
        position.and_then(|position| operands.get(position).copied())
    };
    let vector_of = |value: Value| ir.type_of(value).vector();
    let mut found = Vec::new();
    for (i, pair) in info.operands.windows(2).enumerate() {
        let [(name, kind), (_, Constraint::Index)] = pair else { continue };
        let is_barrier = name.contains("barrier");
        let (base, index) = (operands[i], operands[i + 1]);
        let Type::Pointer { elem, .. } = ir.type_of(base) else { continue };
        let vector = named("vector").or(ir.ops[id].results.first().copied()).and_then(vector_of);
        let mut lanes = None;
        let (bytes, align) = if is_barrier {
            (AccessBytes::Known(8), 8)
        } else if matches!(info.name, "tensormap_replace" | "tensormap_acquire") {
            // The tensor's own address may be anywhere, so it is not checked.
            if *name == "base" {
                continue;
            }
            (AccessBytes::Known(128), 128)
        } else if let Some(map) = named("map") {
            let ValueDef::Param(map) = ir.values[ir.template(map)].def else { continue };
            (AccessBytes::Box(map), 128)
        } else if let Op::AsyncCopy(AsyncCopy::CpAsync { src_bytes, bytes, .. }) = op {
            match (*name, ir.integer(*src_bytes)) {
                ("to", _) => (AccessBytes::Known(*bytes), *bytes),
                (_, Some(0)) => continue,
                (_, Some(count)) => (AccessBytes::Known(count as u32), *bytes),
                (_, None) => (AccessBytes::Computed(*src_bytes), *bytes),
            }
        } else if let Some(count) = named("bytes") {
            match ir.integer(count) {
                Some(0) => continue,
                Some(count) => (AccessBytes::Known(count as u32), 16),
                None => (AccessBytes::Computed(count), 16),
            }
        } else if matches!(op, Op::Mma(Mma::Ldmatrix { .. } | Mma::Stmatrix { .. })) {
            let count = 8 * vector.map_or(4, |vector| vector.registers());
            lanes = (count < 32).then_some(count);
            (AccessBytes::Known(16), 16)
        } else if info.name == "discard" {
            (AccessBytes::Known(128), 128)
        } else {
            let bytes = vector.map_or(elem.size_bytes(), |vector| vector.bits() / 8);
            (AccessBytes::Known(bytes), bytes)
        };
        let is_store = *kind == Constraint::MutPointer;
        found.push(Access { operand: i, base, index, bytes, align, is_store, lanes });
    }
    found
}
