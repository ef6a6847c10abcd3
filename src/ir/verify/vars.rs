//! Verifier rules for register variables: they are in scope, in range, and set on every path before
//! they are read.
//!
//! This is a forward dataflow pass over the regions. It tracks the set of registers that are set on
//! every path to the current operation. Where paths join, the sets are intersected; paths that end
//! do not count. Instead of copying the set at each branch, the pass records what a region adds and
//! removes it again at the region's end. So its run time grows with the operation count and with
//! the nesting depth at which registers are set.

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

/// One register of a variable.
type Register = (VarId, u32);

/// The registers that a path has set since some point, or `None` if the path never gets here.
type Added = Option<Vec<Register>>;

/// Intersects the registers of two paths. If only one path gets here, returns its registers.
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
    /// The registers that are set on every path to the current operation.
    set: HashSet<Register>,
    /// The same registers, in insertion order.
    added: Vec<Register>,
    /// Whether any path reaches the current operation.
    reached: bool,
    /// For each open loop: the length of `added` before the loop, and what all breaks have set
    /// since.
    breaks: HashMap<OpId, (usize, Added)>,
    /// Where a read of an unset register was reported for a variable, because a single source line
    /// may read many registers.
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

    /// Processes a branch. Returns the registers that it sets on paths that reach its end, and
    /// restores the state from before the branch.
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

    /// Continues after a join of paths.
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
                // The body may not run at all, so nothing is added. An iteration can only add to
                // what the next one finds set, so a single pass with the state before the loop is
                // exact.
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
