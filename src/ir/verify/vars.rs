//! Checks that register variables are in scope, in range, and set before read on every path.
//!
//! A forward pass over the regions keeps the set of registers that are set on every path to the present
//! operation. Where paths meet, the sets are intersected; a path that ends is not counted. What a region
//! adds to the set is kept as a list and taken back at its end, so that the pass never copies the set: its
//! time grows with the operations, and with the depth at which registers are set.

use std::collections::{HashMap, HashSet};

use super::{Report, VerifyError};
use crate::ir::SourceLocation;
use crate::ir::entity::{OpId, RegionId, VarId};
use crate::ir::op::{Control, VarUse};

pub(super) fn check(report: &mut Report<'_>) {
    let body = report.ir.body;
    let (set, added, breaks) = (HashSet::new(), Vec::new(), HashMap::new());
    Flow { report, set, added, reached: true, breaks, reported: HashSet::new() }.region(body);
}

/// A register of a variable.
type Register = (VarId, u32);

/// The registers that a path has set since a point; `None` for no path.
type Added = Option<Vec<Register>>;

/// Returns the registers that both paths set, or those of the only path.
fn meet(a: Added, b: Added) -> Added {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            let b: HashSet<Register> = b.into_iter().collect();
            a.retain(|register| b.contains(register));
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

struct Flow<'r, 'k> {
    report: &'r mut Report<'k>,
    /// The registers that are set on every path to the present operation.
    set: HashSet<Register>,
    /// The same, in the order in which they were added.
    added: Vec<Register>,
    /// True if there is such a path.
    reached: bool,
    /// For each open loop, the length of `added` before it, and what all breaks have added since.
    breaks: HashMap<OpId, (usize, Added)>,
    /// The variables with an unset register that is read, and where: one line of a program may read many.
    reported: HashSet<(VarId, SourceLocation)>,
}

impl Flow<'_, '_> {
    fn in_scope(&self, region: RegionId, var: VarId) -> bool {
        let ir = self.report.ir;
        let mut region = region;
        loop {
            if region == ir.vars[var].region {
                return true;
            }
            match ir.regions[region].parent {
                Some(parent) => region = ir.ops[parent].region,
                None => return false,
            }
        }
    }

    fn access(&mut self, op: OpId, VarUse { var, first, len, .. }: VarUse) -> bool {
        let ir = self.report.ir;
        let data = &ir.vars[var];
        if !self.in_scope(ir.ops[op].region, var) {
            let made = ir.locations[data.location];
            self.report.at(op, VerifyError::VarNotVisible { var, made });
            return false;
        }
        let last = u64::from(first) + u64::from(len.max(1)) - 1;
        if last >= u64::from(data.len) {
            let (index, len) = (u32::try_from(last).unwrap_or(u32::MAX), data.len);
            self.report.at(op, VerifyError::VarIndexOutOfRange { var, index, len });
            return false;
        }
        true
    }

    fn add(&mut self, register: Register) {
        if self.set.insert(register) {
            self.added.push(register);
        }
    }

    fn region(&mut self, region: RegionId) {
        for &op in &self.report.ir.regions[region].ops {
            self.op(op);
        }
    }

    /// Returns the registers that the region adds where it falls through or yields, and restores the state from
    /// before it.
    fn branch(&mut self, region: RegionId) -> Added {
        let ir = self.report.ir;
        let (before, reached) = (self.added.len(), self.reached);
        self.region(region);
        let mut added = self.added.split_off(before);
        for register in &added {
            self.set.remove(register);
        }
        added.retain(|(var, _)| ir.vars[*var].region != region);
        std::mem::replace(&mut self.reached, reached).then_some(added)
    }

    /// Goes on after paths that have met.
    fn join(&mut self, added: Added) {
        match added {
            Some(added) => added.into_iter().for_each(|register| self.add(register)),
            None => self.reached = false,
        }
    }

    fn op(&mut self, op: OpId) {
        let ir = self.report.ir;
        let found = &ir.ops[op].op;
        if let Some(control) = found.control() {
            return self.control(op, control);
        }
        let Some(used) = found.var_use(ir) else { return };
        if !self.access(op, used) || !self.reached {
            return;
        }
        let registers = (used.first..used.first + used.len).map(|index| (used.var, index));
        if used.reads
            && let Some((var, index)) = registers.clone().find(|found| !self.set.contains(found))
        {
            let made = ir.locations[ir.vars[var].location];
            if self.reported.insert((var, ir.location_of(op))) {
                self.report.at(op, VerifyError::VarReadBeforeSet { var, index, made });
            }
        }
        if used.sets {
            registers.for_each(|register| self.add(register));
        }
    }

    fn control(&mut self, op: OpId, control: &Control) {
        match control {
            Control::If { then_region, else_region, .. } => {
                let then_added = self.branch(*then_region);
                if let Some(else_region) = else_region {
                    let else_added = self.branch(*else_region);
                    self.join(meet(then_added, else_added));
                }
            }
            Control::For { body, .. } => {
                // The body may not run at all, so nothing is added. What an iteration sets can only add to
                // what the next one finds, so one pass with the state before the loop is exact.
                self.breaks.insert(op, (self.added.len(), None));
                self.branch(*body);
                self.breaks.remove(&op);
            }
            Control::Loop { body, .. } => {
                self.breaks.insert(op, (self.added.len(), None));
                self.branch(*body);
                let broken = self.breaks.remove(&op).and_then(|(_, broken)| broken);
                self.join(broken);
            }
            Control::Yield { .. } => {}
            Control::Continue { .. } | Control::Return => self.reached = false,
            Control::Break { target, .. } => {
                if let Some((before, broken)) = self.breaks.get_mut(target)
                    && self.reached
                {
                    let added = self.added.get(*before..).unwrap_or_default().to_vec();
                    *broken = meet(broken.take(), Some(added));
                }
                self.reached = false;
            }
        }
    }
}
