//! Pointer origin analysis: finds the allocation or parameter that each pointer derives from.
//! Vectorizing needs it to tell which accesses may overlap, and the checked-kernel pass to find the
//! bounds of an access.

use crate::ir::entity::{ArrayId, Entity, GlobalId, LocalId, OpId, SharedId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Arith, Control, Mem, Op};
use crate::ir::types::{Space, Type};

/// Where a pointer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::ir) enum Root {
    /// The pointer parameter with this index.
    Param(u32),
    /// A shared allocation of the thread's own block.
    Shared(SharedId),
    /// A local allocation.
    Local(LocalId),
    /// A constant array.
    Array(ArrayId),
    /// A global array.
    Global(GlobalId),
    /// A shared allocation in another block of the cluster, through this `mapa`.
    Mapa(OpId, SharedId),
}

/// What is known about a pointer. It only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// No path to the pointer has been seen yet.
    Unset,
    /// All paths come from one allocation.
    One(Root),
    /// Paths come from different or unknown allocations.
    Many,
}

impl Origin {
    fn or(self, other: Origin) -> Origin {
        match (self, other) {
            (Origin::Unset, known) | (known, Origin::Unset) => known,
            (one, other) if one == other => one,
            _ => Origin::Many,
        }
    }
}

/// The origins of all pointers in a verified kernel. Computed as a fixed point over offsets, casts,
/// selections, loops, `if` results and register variables.
pub(in crate::ir) struct Origins {
    values: Vec<Origin>,
}

impl Origins {
    pub(in crate::ir) fn new(ir: &KernelIr) -> Origins {
        let ops = ir.reached_ops();
        let mut flow = Flow {
            ir,
            values: vec![Origin::Unset; ir.values.len()],
            vars: vec![Origin::Unset; ir.vars.len()],
            changed: true,
        };
        for (i, param) in ir.params.iter().enumerate() {
            if matches!(ir.type_of(param.value), Type::Pointer { space: Space::Global, .. }) {
                flow.values[param.value.index()] = Origin::One(Root::Param(i as u32));
            }
        }
        // Each round raises at least one value, and each value rises at most twice.
        while std::mem::take(&mut flow.changed) {
            ops.iter().for_each(|op| flow.step(*op));
        }
        Origins { values: flow.values }
    }

    /// Returns the allocation that the pointer derives from, if there is exactly one.
    pub(in crate::ir) fn root(&self, pointer: Value) -> Option<Root> {
        match self.values[pointer.index()] {
            Origin::One(root) => Some(root),
            Origin::Unset | Origin::Many => None,
        }
    }
}

struct Flow<'k> {
    ir: &'k KernelIr,
    values: Vec<Origin>,
    vars: Vec<Origin>,
    changed: bool,
}

impl Flow<'_> {
    fn of(&self, value: Value) -> Origin {
        self.values[value.index()]
    }

    fn raise(&mut self, value: Value, origin: Origin) {
        if !matches!(self.ir.type_of(value), Type::Pointer { .. }) {
            return;
        }
        let known = &mut self.values[value.index()];
        let both = known.or(origin);
        self.changed |= both != *known;
        *known = both;
    }

    fn raise_all(&mut self, to: &[Value], from: &[Value]) {
        for (to, from) in to.iter().zip(from) {
            self.raise(*to, self.of(*from));
        }
    }

    fn step(&mut self, id: OpId) {
        let ir = self.ir;
        let data = &ir.ops[id];
        if let Op::Control(control) = &data.op {
            return self.control(id, control);
        }
        let origin = if let Op::Mem(Mem::SharedBase { shared }) = data.op {
            Origin::One(Root::Shared(shared))
        } else if let Op::Mem(Mem::LocalBase { local }) = data.op {
            Origin::One(Root::Local(local))
        } else if let Op::Mem(Mem::ArrayBase { array }) = data.op {
            Origin::One(Root::Array(array))
        } else if let Op::Mem(Mem::GlobalBase { global }) = data.op {
            Origin::One(Root::Global(global))
        } else if let Op::Mem(
            Mem::AssumeAligned { base, .. }
            | Mem::Offset { base, .. }
            | Mem::PtrCast { base, .. }
            | Mem::Cvta { base }
            | Mem::CvtaTo { base, .. },
        ) = data.op
        {
            self.of(base)
        } else if let Op::Mem(Mem::Mapa { base, .. }) = data.op {
            match self.of(base) {
                Origin::One(Root::Shared(shared)) => Origin::One(Root::Mapa(id, shared)),
                Origin::Unset => Origin::Unset,
                Origin::One(_) | Origin::Many => Origin::Many,
            }
        } else if let Op::Mem(Mem::SetVar { value, var, .. }) = data.op {
            let known = &mut self.vars[var.index()];
            let both = known.or(self.values[value.index()]);
            self.changed |= both != *known;
            *known = both;
            return;
        } else if let Op::Mem(Mem::GetVar { var, .. }) = data.op {
            self.vars[var.index()]
        } else if let Op::Arith(Arith::Selp { then_value, else_value, .. }) = data.op {
            self.of(then_value).or(self.of(else_value))
        } else {
            Origin::Many
        };
        for result in &data.results {
            self.raise(*result, origin);
        }
    }

    fn control(&mut self, id: OpId, control: &Control) {
        let ir = self.ir;
        let results = |op: OpId| &ir.ops[op].results[..];
        match control {
            Control::If { .. } | Control::Return => {}
            Control::For { init, .. } | Control::Loop { init, .. } => {
                self.raise_all(ir.carried_args(id).unwrap_or_default(), init);
                if matches!(control, Control::For { .. }) {
                    self.raise_all(results(id), init);
                }
            }
            Control::Continue { target, values } => {
                self.raise_all(ir.carried_args(*target).unwrap_or_default(), values);
                if matches!(ir.ops[*target].op, Op::Control(Control::For { .. })) {
                    self.raise_all(results(*target), values);
                }
            }
            Control::Break { target, values } => self.raise_all(results(*target), values),
            Control::Yield { values } => {
                if let Some(owner) = ir.regions[ir.ops[id].region].parent {
                    self.raise_all(results(owner), values);
                }
            }
        }
    }
}

/// Returns whether the results of `made` are visible at `user`, which comes later.
pub(in crate::ir) fn is_visible(ir: &KernelIr, made: OpId, user: OpId) -> bool {
    let (outer, mut region) = (ir.ops[made].region, ir.ops[user].region);
    while region != outer {
        let Some(parent) = ir.regions[region].parent else { return false };
        region = ir.ops[parent].region;
    }
    true
}
