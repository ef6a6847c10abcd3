//! Operands and results against the rows of the operation table.

use super::{Report, VerifyError, diagnostic};
use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::{KernelIr, ValueDef};
use crate::ir::op::{Constraint, Control, Op, OpInfo, ValueList};
use crate::ir::types::{Scalar, Type};

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    region(report, ir.body);
}

fn region(report: &mut Report<'_>, id: RegionId) {
    let ir = report.ir;
    for &op in &ir.regions[id].ops {
        check_op(report, op);
        for inner in ir.ops[op].op.regions() {
            region(report, inner);
        }
    }
}

fn check_op(report: &mut Report<'_>, op: OpId) {
    let ir = report.ir;
    let data = &ir.ops[op];
    if let Op::Control(control) = &data.op {
        return check_control(report, op, control);
    }
    if let Op::Diagnostic(found) = &data.op {
        diagnostic::check(report, op, found);
    }
    if let Some(info) = data.op.info() {
        check_operands(report, op, info);
        let first = data.op.first_target();
        if !ir.target.offers(first) {
            let (op_name, target) = (data.op.name_with_attributes(), ir.target);
            report.at(op, VerifyError::NotOnTarget { op: op_name, first, target });
        }
    }
    let expected = data.op.result_types(ir).into_vec();
    let found: Vec<Type> = data.results.iter().map(|value| ir.type_of(*value)).collect();
    if expected != found {
        report.at(op, VerifyError::ResultTypes { op: data.op.name(), expected, found });
    }
}

fn check_operands(report: &mut Report<'_>, op: OpId, info: &'static OpInfo) {
    let ir = report.ir;
    let data = &ir.ops[op];
    let mut operands = ValueList::new();
    data.op.for_each_operand(|value| operands.push(value));
    let variable = data.op.type_of_operand(ir, info, Constraint::T);
    if let Some(found) = variable
        && !info.class.contains(found)
    {
        let class = info.class;
        report.at(op, VerifyError::OperandClass { op: info.name, class, found });
    }
    for (value, (operand, constraint)) in operands.into_iter().zip(info.operands) {
        let found = ir.type_of(value);
        let expected = match constraint {
            Constraint::T => variable.filter(|ty| *ty != found).map(|ty| ty.to_string()),
            Constraint::Bool => other_than(found, Type::BOOL),
            Constraint::U32 => other_than(found, Scalar::U32.into()),
            Constraint::Index => match found {
                Type::Scalar(Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64) => None,
                _ => Some("i32, u32, i64 or u64".to_owned()),
            },
            Constraint::Pointer => match found {
                Type::Pointer { .. } => None,
                Type::Scalar(_) => Some("a pointer".to_owned()),
            },
            Constraint::MutPointer => match found {
                Type::Pointer { mutable: true, .. } => None,
                _ => Some("a pointer that allows stores".to_owned()),
            },
            Constraint::Elem => pointee(ir, &data.op, info).and_then(|ty| other_than(found, ty)),
            Constraint::VarElem => {
                data.op.type_of_attribute(ir).and_then(|ty| other_than(found, ty))
            }
        };
        if let Some(expected) = expected {
            report.at(op, VerifyError::OperandType { op: info.name, operand, expected, found });
        }
    }
}

fn other_than(found: Type, expected: Type) -> Option<String> {
    (found != expected).then(|| expected.to_string())
}

fn pointee(ir: &KernelIr, op: &Op, info: &OpInfo) -> Option<Type> {
    let base = op
        .type_of_operand(ir, info, Constraint::Pointer)
        .or_else(|| op.type_of_operand(ir, info, Constraint::MutPointer));
    match base? {
        Type::Pointer { elem, .. } => Some(elem.into()),
        Type::Scalar(_) => None,
    }
}

fn check_control(report: &mut Report<'_>, op: OpId, control: &Control) {
    let ir = report.ir;
    match control {
        Control::If { cond, .. } => {
            let found = ir.type_of(*cond);
            if let Some(expected) = other_than(found, Type::BOOL) {
                let (op_name, operand) = (control.name(), "cond");
                let error = VerifyError::OperandType { op: op_name, operand, expected, found };
                report.at(op, error);
            }
        }
        Control::For { lo, hi, step, body, .. } => {
            let found = [*lo, *hi, *step].map(|value| ir.type_of(value));
            let index = ir.regions[*body].args.first().map(|arg| ir.type_of(*arg));
            let integer = found[0].scalar().is_some_and(Scalar::is_int);
            if !integer || found.iter().any(|ty| *ty != found[0]) || index != Some(found[0]) {
                report.at(op, VerifyError::RangeTypes { found });
            }
            if let ValueDef::Result(def, _) = ir.values[*step].def
                && let Op::Const(constant) = ir.ops[def].op
                && let Some(step) = constant.as_int().filter(|step| *step <= 0)
            {
                report.at(op, VerifyError::StepNotPositive { step });
            }
        }
        Control::Loop { .. } => {}
        Control::Yield { .. }
        | Control::Continue { .. }
        | Control::Break { .. }
        | Control::Return => {
            let results = &ir.ops[op].results;
            if !results.is_empty() {
                let (op_name, expected) = (control.name(), Vec::new());
                let found = results.iter().map(|value| ir.type_of(*value)).collect();
                report.at(op, VerifyError::ResultTypes { op: op_name, expected, found });
            }
        }
    }
}
