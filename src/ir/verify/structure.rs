//! Verifier rules for control flow: values are visible where they are used, regions end in
//! terminators, and the values passed into and out of regions match.

use super::{Report, VerifyError};
use crate::ir::entity::{Entity, OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Control, Op};
use crate::ir::types::Type;

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    let mut visible = vec![false; ir.values.len()];
    for param in &ir.params {
        visible[param.value.index()] = true;
    }
    let found = ir.regions[ir.body].args.len();
    if found > 0 {
        report.kernel(VerifyError::RegionArguments { owner: None, found });
    }
    region(report, &mut visible, ir.body);
}

/// Checks a region's operations. Values defined in it are visible until its end.
fn region(report: &mut Report<'_>, visible: &mut [bool], id: RegionId) {
    let ir = report.ir;
    let data = &ir.regions[id];
    for arg in &data.args {
        visible[arg.index()] = true;
    }
    let mut ended = false;
    for &op in &data.ops {
        if ended {
            report.at(op, VerifyError::AfterTerminator { op: ir.ops[op].op.name() });
        }
        for value in ir.ops[op].op.operands() {
            if !visible[value.index()] {
                let made = ir.locations[ir.values[value].location];
                report.at(op, VerifyError::ValueNotVisible { value, made });
            }
        }
        for inner in ir.ops[op].op.regions() {
            region(report, visible, inner);
        }
        if let Op::Control(control) = &ir.ops[op].op {
            self::control(report, op, control);
            ended |= ends(ir, control);
        }
        for result in &ir.ops[op].results {
            visible[result.index()] = true;
        }
    }
    if !ended {
        let owner = data.parent.map(|parent| ir.ops[parent].op.name());
        match data.ops.last().copied().or(data.parent) {
            Some(op) => report.at(op, VerifyError::MissingTerminator { owner }),
            None => report.kernel(VerifyError::MissingTerminator { owner }),
        }
    }
    for &op in &data.ops {
        for result in &ir.ops[op].results {
            visible[result.index()] = false;
        }
    }
    for arg in &data.args {
        visible[arg.index()] = false;
    }
}

/// Returns whether control never continues after the operation.
fn ends(ir: &KernelIr, control: &Control) -> bool {
    match control {
        Control::If { then_region, else_region: Some(else_region), .. } => {
            !ir.falls_through(*then_region) && !ir.falls_through(*else_region)
        }
        Control::If { .. }
        | Control::For { .. }
        | Control::Loop { .. }
        | Control::Yield { .. }
        | Control::Continue { .. }
        | Control::Break { .. }
        | Control::Return => control.is_terminator(),
    }
}

fn types(ir: &KernelIr, values: &[Value]) -> Vec<Type> {
    values.iter().map(|value| ir.type_of(*value)).collect()
}

fn carried(report: &mut Report<'_>, op: OpId, name: &'static str, found: &[Value], to: &[Value]) {
    let (found, expected) = (types(report.ir, found), types(report.ir, to));
    if found.len() != expected.len() {
        let (expected, found) = (expected.len(), found.len());
        report.at(op, VerifyError::CarriedCount { op: name, expected, found });
    } else if found != expected {
        report.at(op, VerifyError::CarriedTypes { op: name, expected, found });
    }
}

fn control(report: &mut Report<'_>, op: OpId, control: &Control) {
    let ir = report.ir;
    let data = &ir.ops[op];
    let name = control.name();
    match control {
        Control::If { then_region, else_region, .. } => {
            for arm in [*then_region].into_iter().chain(*else_region) {
                let found = ir.regions[arm].args.len();
                if found > 0 {
                    report.at(op, VerifyError::RegionArguments { owner: Some(name), found });
                }
            }
            if else_region.is_none() && !data.results.is_empty() {
                report.at(op, VerifyError::ResultsWithoutElse);
            }
        }
        Control::For { init, body, .. } => {
            // The first argument is the index; `types.rs` checks its type.
            let args = ir.regions[*body].args.get(1..).unwrap_or(&[]);
            carried(report, op, name, init, args);
            carried(report, op, name, init, &data.results);
        }
        Control::Loop { init, body } => {
            carried(report, op, name, init, &ir.regions[*body].args);
        }
        Control::Yield { values } => match ir.regions[data.region].parent {
            None => report.at(op, VerifyError::YieldOutsideIf),
            Some(parent) => match ir.ops[parent].op.name() {
                "if" => carried(report, op, name, values, &ir.ops[parent].results),
                owner => report.at(op, VerifyError::YieldInLoop { owner }),
            },
        },
        Control::Continue { target, values } => {
            if let Some(args) = target_args(report, op, name, *target) {
                carried(report, op, name, values, args);
            }
        }
        Control::Break { target, values } => {
            if target_args(report, op, name, *target).is_some() {
                carried(report, op, name, values, &ir.ops[*target].results);
            }
        }
        Control::Return => {}
    }
}

/// Returns the arguments that `target` carries between iterations. Reports an error and returns
/// `None` if `target` is not a loop around `op`.
fn target_args<'k>(
    report: &mut Report<'k>,
    op: OpId,
    name: &'static str,
    target: OpId,
) -> Option<&'k [Value]> {
    let ir = report.ir;
    let Some(args) = ir.carried_args(target) else {
        let target = ir.ops[target].op.name();
        report.at(op, VerifyError::NotALoop { op: name, target });
        return None;
    };
    let mut region = ir.ops[op].region;
    while let Some(parent) = ir.regions[region].parent {
        if parent == target {
            return Some(args);
        }
        region = ir.ops[parent].region;
    }
    let made = ir.location_of(target);
    report.at(op, VerifyError::NotAnEnclosingLoop { op: name, made });
    None
}
