//! The shared memory that all reductions and scans of a kernel use. Calls of them need no barrier
//! in between.
//!
//! It has two halves, and each call takes the half that the previous call did not take. Inside each
//! call all threads pass a barrier between their stores and their loads. Two calls that use the
//! same half have another call between them, whose barrier separates the first call's loads from
//! the second one's stores. So no call needs a barrier at its start or end. A register says which
//! half is next, because calls may be in loops and in branches that all threads of the block take
//! alike.

use crate::ir::builder::context::{Context, State};
use crate::ir::builder::typed::{Element, Val};
use crate::ir::entity::{Entity, OpId, SharedId, Value, VarId};
use crate::ir::kernel::{OpData, SharedData, SourceLocation, ValueDef, VarData};
use crate::ir::op::{Mem, Op, ValueList};
use crate::ir::types::{Scalar, Type};

pub(super) const FILE: &str = file!();

const I32: Type = Type::Scalar(Scalar::I32);

/// Alignment of the halves, for vector loads.
const ALIGN_BYTES: u32 = 16;

/// The shared memory for all collectives of a kernel.
#[derive(Clone, Debug)]
pub(in crate::ir::builder) struct Pool {
    shared: SharedId,
    /// Holds the byte offset of the half that the next call takes.
    next: VarId,
    half_bytes: u32,
    /// The constants that hold the size of a half, to update when it grows.
    sizes: Vec<OpId>,
}

impl Pool {
    /// Makes an empty pool, and sets its register at the start of the kernel.
    #[inline]
    fn new(state: &mut State, location: SourceLocation) -> Pool {
        let (location, region) = (state.ir.location(location), state.ir.body);
        let shared = state.ir.shared.push(SharedData {
            elem: Scalar::U8,
            len: 0,
            align_bytes: ALIGN_BYTES,
            location,
        });
        let var = VarData { ty: I32, len: 1, region, location, name: None };
        let next = state.ir.vars.push(var);
        let op = Op::Const(0i32.to_const());
        let zero = state.ir.ops.push(OpData { op, results: Default::default(), region, location });
        let value = state.add_result(zero, I32);
        let op = Op::from(Mem::SetVar { value, var: next, index: 0 });
        let set = state.ir.ops.push(OpData { op, results: Default::default(), region, location });
        state.ir.regions[region].ops.splice(0..0, [zero, set]);
        Pool { shared, next, half_bytes: 0, sizes: Vec::new() }
    }

    /// Makes the halves at least this large, for all calls so far.
    fn grow(&mut self, state: &mut State, bytes: u32) {
        self.half_bytes = self.half_bytes.max(bytes.next_multiple_of(ALIGN_BYTES));
        state.ir.shared[self.shared].len = 2 * self.half_bytes;
        let size = i32::try_from(self.half_bytes).unwrap_or(i32::MAX).to_const();
        for op in &self.sizes {
            state.ir.ops[*op].op = Op::Const(size);
        }
    }

    /// Forgets the operations from index `ops` on, which have been undone.
    pub(in crate::ir::builder) fn without_ops_from(mut self, ops: usize) -> Pool {
        self.sizes.retain(|op| op.index() < ops);
        self
    }
}

/// Takes the half for this call; returns a pointer to `len` elements for each type.
#[inline]
pub(super) fn take(cx: &Context, location: SourceLocation, types: &[Type], len: u32) -> ValueList {
    let sizes = types.iter().map(|ty| ty.scalar().map_or(0, |scalar| scalar.size_bytes() * len));
    let starts = sizes.scan(0, |end, size: u32| {
        let start = *end;
        *end += size.next_multiple_of(ALIGN_BYTES);
        Some((start, *end))
    });
    let starts: Vec<(u32, u32)> = starts.collect();
    let bytes = starts.last().map_or(0, |(_, end)| *end).max(ALIGN_BYTES);
    let half: Val<'_, i32> = cx.constant(0);
    let (shared, next) = cx.with(|state| {
        let mut pool = state.pool.take().unwrap_or_else(|| Pool::new(state, location));
        if let ValueDef::Result(op, _) = state.ir.values[half.id()].def {
            pool.sizes.push(op);
        }
        pool.grow(state, bytes);
        let taken = (pool.shared, pool.next);
        state.pool = Some(pool);
        taken
    });
    let start: Val<'_, i32> = cx.emit_val(Mem::GetVar { var: next, index: 0 });
    let other = half - start;
    cx.emit(Mem::SetVar { value: other.id(), var: next, index: 0 });
    let base = first(cx, &cx.emit(Mem::SharedBase { shared }), I32);
    let pointer = |(ty, (offset, _)): (&Type, &(u32, u32))| {
        let Type::Scalar(elem) = *ty else { return cx.poison(*ty) };
        let offset = i32::try_from(*offset).unwrap_or(i32::MAX);
        let index = if offset == 0 { start } else { start + offset };
        let part = first(cx, &cx.emit(Mem::Offset { base, index: index.id() }), *ty);
        first(cx, &cx.emit(Mem::PtrCast { base: part, to: elem }), *ty)
    };
    types.iter().zip(&starts).map(pointer).collect()
}

fn first(cx: &Context, results: &[Value], ty: Type) -> Value {
    results.first().copied().unwrap_or_else(|| cx.poison(ty))
}
