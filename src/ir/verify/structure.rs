//! Visibility of values, terminators, and what passes into and out of regions.

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
    region(report, &mut visible, ir.body);
}

/// Checks the operations of a region. Values made in it are visible until its end.
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
        ir.ops[op].op.for_each_operand(|value| {
            if !visible[value.index()] {
                let made = ir.places[ir.values[value].place];
                report.at(op, VerifyError::ValueNotVisible { value, made });
            }
        });
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
        match data.ops.last().copied().or(data.parent) {
            Some(op) => report.at(op, VerifyError::MissingTerminator),
            None => report.kernel(VerifyError::MissingTerminator),
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

/// Whether nothing can follow the operation.
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
    if found != expected {
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
                carried(report, op, name, &[], &ir.regions[arm].args);
            }
            if else_region.is_none() && !data.results.is_empty() {
                report.at(op, VerifyError::ResultsWithoutElse);
            }
        }
        Control::For { init, body, .. } => {
            // The first argument is the index, whose type the range rules check.
            let args = ir.regions[*body].args.get(1..).unwrap_or(&[]);
            carried(report, op, name, init, args);
            carried(report, op, name, init, &data.results);
        }
        Control::Loop { init, body } => {
            carried(report, op, name, init, &ir.regions[*body].args);
        }
        Control::Yield { values } => match ir.regions[data.region].parent {
            Some(parent) if matches!(ir.ops[parent].op, Op::Control(Control::If { .. })) => {
                carried(report, op, name, values, &ir.ops[parent].results);
            }
            _ => report.at(op, VerifyError::YieldOutsideIf),
        },
        Control::Continue { target, values } => match enclosing_loop(ir, op, *target) {
            Some(args) => carried(report, op, name, values, args),
            None => report.at(op, VerifyError::NotAnEnclosingLoop { op: name }),
        },
        Control::Break { target, values } => match enclosing_loop(ir, op, *target) {
            Some(_) => carried(report, op, name, values, &ir.ops[*target].results),
            None => report.at(op, VerifyError::NotAnEnclosingLoop { op: name }),
        },
        Control::Return => {}
    }
}

/// The arguments that an iteration of the loop `target` passes on to the next one, if `target` is a loop
/// that encloses `op`.
fn enclosing_loop(ir: &KernelIr, op: OpId, target: OpId) -> Option<&[Value]> {
    let mut region = ir.ops[op].region;
    while let Some(parent) = ir.regions[region].parent {
        if parent == target {
            return ir.carried_args(target);
        }
        region = ir.ops[parent].region;
    }
    None
}
