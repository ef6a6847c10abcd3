//! Register variables: in scope, in range, set before read on every path.
//!
//! A forward pass over the regions keeps the set of registers that are set on every path to the present
//! operation. Where paths meet, the sets are intersected; a path that ends is not counted.

use std::collections::HashMap;

use super::{Report, VerifyError};
use crate::ir::entity::{OpId, RegionId, VarId};
use crate::ir::op::{Control, Mem, Op};

pub(super) fn check(report: &mut Report<'_>) {
    let body = report.ir.body;
    let mut flow = Flow { report, breaks: HashMap::new() };
    flow.region(body, Some(Registers::default()));
}

/// The registers that are set, as bits for each variable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Registers(HashMap<VarId, Vec<u64>>);

impl Registers {
    fn contains(&self, var: VarId, index: u32) -> bool {
        let word = self.0.get(&var).and_then(|words| words.get(index as usize / 64));
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn insert(&mut self, var: VarId, index: u32) {
        let words = self.0.entry(var).or_default();
        let word = index as usize / 64;
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        words[word] |= 1 << (index % 64);
    }

    fn intersect(mut self, other: &Registers) -> Registers {
        self.0.retain(|var, words| {
            let Some(theirs) = other.0.get(var) else { return false };
            words.truncate(theirs.len());
            words.iter_mut().zip(theirs).for_each(|(word, mask)| *word &= mask);
            true
        });
        self
    }
}

/// The state after a point that may not be reached (`None`).
type State = Option<Registers>;

fn meet(a: State, b: State) -> State {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersect(&b)),
        (a, b) => a.or(b),
    }
}

struct Flow<'r, 'k> {
    report: &'r mut Report<'k>,
    /// For each open loop, the meet of the states at its breaks.
    breaks: HashMap<OpId, State>,
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

    fn access(&mut self, op: OpId, var: VarId, index: u32) -> bool {
        let ir = self.report.ir;
        let data = &ir.vars[var];
        if !self.in_scope(ir.ops[op].region, var) {
            let made = ir.places[data.place];
            self.report.at(op, VerifyError::VarNotVisible { var, made });
            return false;
        }
        if index >= data.len {
            let len = data.len;
            self.report.at(op, VerifyError::VarIndexOutOfRange { var, index, len });
            return false;
        }
        true
    }

    /// The state after the region, given the state before it: where it falls through or yields.
    fn region(&mut self, region: RegionId, mut state: State) -> State {
        let ir = self.report.ir;
        if let Some(set) = &mut state {
            set.0.retain(|var, _| ir.vars[*var].region != region);
        }
        for &op in &ir.regions[region].ops {
            state = self.op(op, state);
        }
        state
    }

    fn op(&mut self, op: OpId, mut state: State) -> State {
        let ir = self.report.ir;
        match &ir.ops[op].op {
            Op::Mem(Mem::GetVar { var, index }) => {
                if self.access(op, *var, *index)
                    && state.as_ref().is_some_and(|set| !set.contains(*var, *index))
                {
                    let (var, index) = (*var, *index);
                    let made = ir.places[ir.vars[var].place];
                    self.report.at(op, VerifyError::VarReadBeforeSet { var, index, made });
                }
                state
            }
            Op::Mem(Mem::SetVar { var, index, .. }) => {
                if self.access(op, *var, *index)
                    && let Some(set) = &mut state
                {
                    set.insert(*var, *index);
                }
                state
            }
            Op::Const(_)
            | Op::Arith(_)
            | Op::Mem(
                Mem::Ld { .. } | Mem::St { .. } | Mem::Offset { .. } | Mem::SharedBase { .. },
            )
            | Op::Sync(_) => state,
            Op::Control(control) => self.control(op, control, state),
        }
    }

    fn control(&mut self, op: OpId, control: &Control, state: State) -> State {
        match control {
            Control::If { then_region, else_region, .. } => {
                let after_then = self.region(*then_region, state.clone());
                match else_region {
                    Some(else_region) => {
                        let after_else = self.region(*else_region, state);
                        meet(after_then, after_else)
                    }
                    None => meet(after_then, state),
                }
            }
            Control::For { body, .. } => {
                // The body may not run at all. What an iteration sets can only add to what the next one
                // finds, so one pass with the state before the loop is exact.
                self.breaks.insert(op, None);
                self.region(*body, state.clone());
                let broken = self.breaks.remove(&op).flatten();
                meet(state, broken)
            }
            Control::Loop { body, .. } => {
                self.breaks.insert(op, None);
                self.region(*body, state);
                self.breaks.remove(&op).flatten()
            }
            Control::Yield { .. } => state,
            Control::Continue { .. } | Control::Return => None,
            Control::Break { target, .. } => {
                if let Some(broken) = self.breaks.get_mut(target) {
                    *broken = meet(broken.take(), state);
                }
                None
            }
        }
    }
}
