//! Verifier rules for ids and ownership: every id is in its arena, and every part has one owner.
//! All other rules index arenas without checks, so these run first.

use std::fmt;

use super::{Report, VerifyError, Violation};
use crate::ir::entity::{Arena, Entity, OpId, RegionId, Value};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Control, Mem, Op};

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut walk = Walk {
        report,
        seen_regions: vec![false; ir.regions.len()],
        seen_ops: vec![false; ir.ops.len()],
        depth: 0,
    };
    for param in &ir.params {
        walk.value(param.value);
    }
    walk.region(ir.body, None);
    // A shared allocation takes memory even if no operation uses it, so check all of them.
    for (_, data) in ir.shared.iter() {
        walk.exists(&ir.locations, data.location);
    }
    for (_, data) in ir.locals.iter() {
        walk.exists(&ir.locations, data.location);
    }
    for (_, data) in ir.arrays.iter() {
        walk.exists(&ir.locations, data.location);
    }
    for (_, data) in ir.globals.iter() {
        walk.exists(&ir.locations, data.location);
    }
    for (_, data) in ir.vars.iter() {
        walk.exists(&ir.locations, data.location);
        walk.exists(&ir.regions, data.region);
    }
    for (i, param) in ir.params.iter().enumerate() {
        if ir.values.get(param.value).is_some_and(|v| v.def != ValueDef::Param(i as u32)) {
            walk.wrong_owner(param.value);
        }
    }
}

struct Walk<'r, 'k> {
    report: &'r mut Report<'k>,
    seen_regions: Vec<bool>,
    seen_ops: Vec<bool>,
    /// How many regions enclose the current operation.
    depth: usize,
}

impl Walk<'_, '_> {
    fn violation(&mut self, error: VerifyError) {
        // No path and no location: finding them would follow the ids that are in doubt here.
        self.report.violations.push(Violation { location: None, path: String::new(), error });
    }

    fn twice(&mut self, entity: impl fmt::Display) {
        self.violation(VerifyError::InKernelTwice { entity: entity.to_string() });
    }

    fn wrong_owner(&mut self, entity: impl fmt::Display) {
        self.violation(VerifyError::WrongOwner { entity: entity.to_string() });
    }

    fn exists<K: Entity + fmt::Display, T>(&mut self, arena: &Arena<K, T>, key: K) -> bool {
        let exists = key.index() < arena.len();
        if !exists {
            let (entity, len) = (key.to_string(), arena.len());
            self.violation(VerifyError::EntityOutOfRange { entity, len });
        }
        exists
    }

    fn value(&mut self, value: Value) -> bool {
        let ir = self.report.ir;
        if !self.exists(&ir.values, value) {
            return false;
        }
        let data = &ir.values[value];
        if !self.exists(&ir.regions, data.region) || !self.exists(&ir.locations, data.location) {
            return false;
        }
        let defined = match data.def {
            ValueDef::Param(i) => {
                let param = ir.params.get(i as usize);
                data.region == ir.body && param.is_some_and(|param| param.value == value)
            }
            ValueDef::Result(op, i) => ir.ops.get(op).is_some_and(|op| {
                data.region == op.region && op.results.get(i as usize) == Some(&value)
            }),
            ValueDef::Arg(id, i) => ir.regions.get(id).is_some_and(|region| {
                data.region == id && region.args.get(i as usize) == Some(&value)
            }),
        };
        if !defined {
            self.wrong_owner(value);
        }
        defined
    }

    fn region(&mut self, region: RegionId, parent: Option<OpId>) {
        let ir = self.report.ir;
        if !self.exists(&ir.regions, region) {
            return;
        }
        if std::mem::replace(&mut self.seen_regions[region.index()], true) {
            return self.twice(region);
        }
        if ir.regions[region].parent != parent {
            return self.wrong_owner(region);
        }
        for (i, arg) in ir.regions[region].args.iter().enumerate() {
            if self.value(*arg) && ir.values[*arg].def != ValueDef::Arg(region, i as u32) {
                self.wrong_owner(*arg);
            }
        }
        if self.depth == KernelIr::MAX_DEPTH {
            return self.violation(VerifyError::TooDeep { limit: KernelIr::MAX_DEPTH });
        }
        self.depth += 1;
        for op in &ir.regions[region].ops {
            self.op(*op, region);
        }
        self.depth -= 1;
    }

    fn op(&mut self, op: OpId, region: RegionId) {
        let ir = self.report.ir;
        if !self.exists(&ir.ops, op) {
            return;
        }
        if std::mem::replace(&mut self.seen_ops[op.index()], true) {
            return self.twice(op);
        }
        if ir.ops[op].region != region {
            return self.wrong_owner(op);
        }
        self.exists(&ir.locations, ir.ops[op].location);
        for (i, result) in ir.ops[op].results.iter().enumerate() {
            if self.value(*result) && ir.values[*result].def != ValueDef::Result(op, i as u32) {
                self.wrong_owner(*result);
            }
        }
        for value in ir.ops[op].op.operands() {
            self.value(value);
        }
        let found = &ir.ops[op].op;
        if let Some(var) = found.var() {
            self.exists(&ir.vars, var);
        }
        if let Op::Mem(Mem::ArrayBase { array }) = found {
            self.exists(&ir.arrays, *array);
        }
        if let Op::Mem(Mem::GlobalBase { global }) = found {
            self.exists(&ir.globals, *global);
        }
        if let Op::Mem(Mem::LocalBase { local }) = found {
            self.exists(&ir.locals, *local);
        }
        if let Op::Mem(Mem::SharedBase { shared }) = found {
            self.exists(&ir.shared, *shared);
        }
        if let Some(Control::Break { target, .. } | Control::Continue { target, .. }) =
            found.control()
        {
            self.exists(&ir.ops, *target);
        }
        for inner in ir.ops[op].op.regions() {
            self.region(inner, Some(op));
        }
    }
}
