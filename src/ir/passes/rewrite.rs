//! [`Rewrite`]: copies a kernel operation by operation and renames values, loops and variables. A
//! pass that changes a kernel copies the operations that it keeps with it, and emits new operations
//! in place of the others.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::ir::entity::{Arena, Entity, LocationId, OpId, RegionId, Value, VarId};
use crate::ir::kernel::{KernelIr, OpData, Region, ValueData, ValueDef, VarData};
use crate::ir::op::{Control, Op, ValueList};
use crate::ir::types::{Const, Scalar, Type};

/// What a `break` or `continue` of a source loop becomes in the copy.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// It refers to the copy of the loop.
    Loop(OpId),
    /// `continue` becomes a break of the first loop, `break` a break of the second.
    Breaks { on_continue: OpId, on_break: OpId },
}

/// The copy that is being built.
pub(super) struct Rewrite<'k> {
    pub(super) source: &'k KernelIr,
    pub(super) out: KernelIr,
    /// For each source value, its current copy.
    values: Vec<Option<Value>>,
    targets: HashMap<OpId, Target>,
    vars: HashMap<VarId, VarId>,
    /// The variables that each source region declares.
    declared: HashMap<RegionId, Vec<VarId>>,
    /// For each `mbarrier_init`: how many more mbarriers to initialise after it, and the distance
    /// between them in elements.
    pub(super) further: HashMap<OpId, (u32, u64)>,
}

impl<'k> Rewrite<'k> {
    /// Starts a copy with the source's parameters, shared allocations and locations, and an empty
    /// body.
    pub(super) fn new(source: &'k KernelIr) -> Rewrite<'k> {
        let mut out = source.clone();
        out.regions = Arena::new();
        out.body = out.regions.push(Region::default());
        out.ops = Arena::new();
        out.values = Arena::new();
        out.vars = Arena::new();
        let mut values = vec![None; source.values.len()];
        for param in &mut out.params {
            let data = ValueData { region: out.body, ..source.values[param.value] };
            let copy = out.values.push(data);
            values[param.value.index()] = Some(copy);
            param.value = copy;
        }
        let mut declared: HashMap<RegionId, Vec<VarId>> = HashMap::new();
        for (id, var) in source.vars.iter() {
            declared.entry(var.region).or_default().push(id);
        }
        let (targets, vars) = (HashMap::new(), HashMap::new());
        let further = HashMap::new();
        Rewrite { source, out, values, targets, vars, declared, further }
    }

    /// Returns the value's copy. In a verified kernel, it exists wherever the value is visible.
    pub(super) fn value(&self, value: Value) -> Value {
        self.values[value.index()].unwrap_or(value)
    }

    pub(super) fn values(&self, values: &[Value]) -> ValueList {
        values.iter().map(|value| self.value(*value)).collect()
    }

    /// Records that `to` are the copies of `from`, so that later copied operations use them.
    pub(super) fn rename(&mut self, from: &[Value], to: &[Value]) {
        for (from, to) in from.iter().zip(to) {
            self.values[from.index()] = Some(*to);
        }
    }

    pub(super) fn set_target(&mut self, source: OpId, target: Target) {
        self.targets.insert(source, target);
    }

    /// Declares copies of the source region's variables in `region`.
    pub(super) fn declare_vars(&mut self, source: RegionId, region: RegionId) {
        for var in self.declared.get(&source).cloned().unwrap_or_default() {
            let copy = self.out.vars.push(VarData { region, ..self.source.vars[var] });
            self.vars.insert(var, copy);
        }
    }

    /// Appends an operation with results of the given types to `region`.
    pub(super) fn push(
        &mut self,
        region: RegionId,
        location: LocationId,
        op: impl Into<Op>,
        types: &[Type],
    ) -> (OpId, ValueList) {
        let op = op.into();
        for inner in op.regions() {
            self.out.regions[inner].parent = Some(OpId::from_index(self.out.ops.len()));
        }
        let id = self.out.ops.push(OpData { op, results: SmallVec::new(), region, location });
        self.out.regions[region].ops.push(id);
        let results: ValueList = (0..)
            .zip(types)
            .map(|(i, &ty)| {
                let def = ValueDef::Result(id, i);
                self.out.values.push(ValueData { ty, def, region, location })
            })
            .collect();
        self.out.ops[id].results = results.iter().copied().collect();
        (id, results)
    }

    /// Appends an operation with one result.
    pub(super) fn push_value(
        &mut self,
        region: RegionId,
        location: LocationId,
        op: impl Into<Op>,
        ty: impl Into<Type>,
    ) -> Value {
        self.push(region, location, op, &[ty.into()]).1[0]
    }

    pub(super) fn constant(
        &mut self,
        region: RegionId,
        location: LocationId,
        scalar: Scalar,
        bits: u64,
    ) -> Value {
        self.push_value(region, location, Op::Const(Const::new(scalar, bits)), scalar)
    }

    pub(super) fn arith(
        &mut self,
        region: RegionId,
        location: LocationId,
        scalar: Scalar,
        op: impl Into<Op>,
    ) -> Value {
        self.push_value(region, location, op, scalar)
    }

    /// Creates a region without an owner, with arguments of the given types.
    pub(super) fn new_region(
        &mut self,
        location: LocationId,
        args: &[Type],
    ) -> (RegionId, ValueList) {
        let region = self.out.regions.push(Region::default());
        let args: ValueList = (0..)
            .zip(args)
            .map(|(i, &ty)| {
                let def = ValueDef::Arg(region, i);
                self.out.values.push(ValueData { ty, def, region, location })
            })
            .collect();
        self.out.regions[region].args = args.iter().copied().collect();
        (region, args)
    }

    /// Returns the types of source values.
    pub(super) fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|value| self.source.type_of(*value)).collect()
    }

    /// Copies an operation that owns no region.
    pub(super) fn copy_plain(&mut self, id: OpId, region: RegionId) {
        let source = self.source;
        let data = &source.ops[id];
        let mut op = data.op.clone();
        op.for_each_operand_mut(&mut |value| *value = self.value(*value));
        if let Some(var) = op.var_mut() {
            *var = self.vars.get(var).copied().unwrap_or(*var);
        }
        if let Op::Control(Control::Continue { target, values }) = &mut op {
            match self.targets.get(target).copied() {
                Some(Target::Loop(copy)) => *target = copy,
                Some(Target::Breaks { on_continue, .. }) => {
                    let values = std::mem::take(values);
                    op = Control::Break { target: on_continue, values }.into();
                }
                None => {}
            }
        } else if let Op::Control(Control::Break { target, .. }) = &mut op {
            match self.targets.get(target).copied() {
                Some(Target::Loop(copy)) => *target = copy,
                Some(Target::Breaks { on_break, .. }) => *target = on_break,
                None => {}
            }
        }
        let (_, results) = self.push(region, data.location, op, &self.types(&data.results));
        self.rename(&data.results, &results);
    }

    /// Copies an operation that owns regions, but not their contents. Returns `(source, copy)` for
    /// each region.
    pub(super) fn copy_owner(
        &mut self,
        id: OpId,
        region: RegionId,
    ) -> SmallVec<[(RegionId, RegionId); 2]> {
        let source = self.source;
        let data = &source.ops[id];
        let mut op = data.op.clone();
        op.for_each_operand_mut(&mut |value| *value = self.value(*value));
        let mut copies = SmallVec::new();
        let mut copy = |rewrite: &mut Self, inner: &mut RegionId| {
            let args = &source.regions[*inner].args;
            let (copy, copied_args) = rewrite.new_region(data.location, &rewrite.types(args));
            rewrite.rename(args, &copied_args);
            rewrite.declare_vars(*inner, copy);
            copies.push((*inner, copy));
            *inner = copy;
        };
        if let Op::Control(control) = &mut op {
            match control {
                Control::If { then_region, else_region, .. } => {
                    copy(self, then_region);
                    else_region.iter_mut().for_each(|inner| copy(self, inner));
                }
                Control::For { body, .. } | Control::Loop { body, .. } => copy(self, body),
                Control::Yield { .. }
                | Control::Continue { .. }
                | Control::Break { .. }
                | Control::Return => {}
            }
        }
        let (copied, results) = self.push(region, data.location, op, &self.types(&data.results));
        self.rename(&data.results, &results);
        self.set_target(id, Target::Loop(copied));
        copies
    }
}
