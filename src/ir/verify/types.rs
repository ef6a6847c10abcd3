//! Verifier rules for types: operands and results match the operation's row in the op table, and
//! the target has the operation.

use super::{Report, VerifyError, diagnostic};
use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Constraint, Control, Convert, Mem, Op, OpInfo};
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

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
    if let Op::Inline(inline) = &data.op {
        super::inline::check(report, op, inline);
    }
    if let Op::Diagnostic(found) = &data.op {
        diagnostic::check(report, op, found);
    }
    let before = report.violations.len();
    if let Some(info) = data.op.info() {
        check_operands(report, op, info);
    }
    let first = match data.op.support(ir) {
        Ok(first) => first,
        // If the row rejects the operands, that error is enough.
        Err(_) if report.violations.len() > before => return,
        Err(reason) => {
            let (op_name, types) = (data.op.name_with_attributes(), operand_types(ir, &data.op));
            return report.at(op, VerifyError::NotInPtx { op: op_name, types, reason });
        }
    };
    if !ir.target.offers(first) {
        let (op_name, target) = (data.op.name_with_attributes(), ir.target);
        report.at(op, VerifyError::NotOnTarget { op: op_name, first, target });
    }
    if let Some(info) = data.op.info()
        && let Some(error) = vectors(ir, &data.op, info)
    {
        return report.at(op, error);
    }
    let expected = data.op.result_types(ir).into_vec();
    let found: Vec<Type> = data.results.iter().map(|value| ir.type_of(*value)).collect();
    // Result types follow from the operands, so check them only if those are right.
    if report.violations.len() == before {
        check_results(report, op, expected, found);
    }
}

fn check_operands(report: &mut Report<'_>, op: OpId, info: &'static OpInfo) {
    let ir = report.ir;
    let data = &ir.ops[op];
    let operands = data.op.operands();
    let variable = data.op.type_of_operand(ir, info, Constraint::T);
    if let Some(found) = variable
        && !info.class.contains(found)
    {
        let class = info.class;
        report.at(op, VerifyError::OperandClass { op: info.name, class, found });
    }
    let constraints = info.operands.iter().copied().chain(info.list.into_iter().cycle());
    for (value, (operand, constraint)) in operands.into_iter().zip(constraints) {
        let (op_name, found) = (info.name, ir.type_of(value));
        let other = |expected: Option<Type>| {
            expected.filter(|expected| *expected != found).map(|expected| {
                let expected = expected.to_string();
                VerifyError::OperandType { op: op_name, operand, expected, found }
            })
        };
        let error = match constraint {
            Constraint::Any => None,
            Constraint::T => variable.filter(|ty| *ty != found).map(|expected| {
                VerifyError::MixedOperands { op: op_name, operand, expected, found }
            }),
            Constraint::Bool => not_bool(op_name, operand, found),
            Constraint::U32 => other(Some(Scalar::U32.into())),
            Constraint::I32 => other(Some(Scalar::I32.into())),
            Constraint::U64 => other(Some(Scalar::U64.into())),
            Constraint::F32 => other(Some(Scalar::F32.into())),
            Constraint::F64 => other(Some(Scalar::F64.into())),
            Constraint::TensorMap => match found {
                Type::TensorMap { .. } => None,
                Type::Scalar(_) | Type::Vector(_) | Type::Pointer { .. } => {
                    let expected = "a tensor map".to_owned();
                    Some(VerifyError::OperandType { op: op_name, operand, expected, found })
                }
            },
            Constraint::Wide => other(data.op.wide(ir, info)),
            Constraint::Bytes => one_of(op_name, operand, found, [Scalar::I8, Scalar::U8], 4),
            Constraint::Halves => one_of(op_name, operand, found, [Scalar::I16, Scalar::U16], 2),
            Constraint::Dot => other(Some(data.op.dot(ir))),
            Constraint::Index => match found {
                Type::Scalar(Scalar::I32 | Scalar::U32 | Scalar::I64 | Scalar::U64) => None,
                _ => Some(VerifyError::IndexType { op: op_name, found }),
            },
            Constraint::Pointer => match found {
                Type::Pointer { .. } => None,
                Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => {
                    Some(VerifyError::NotAPointer { op: op_name, found })
                }
            },
            Constraint::MutPointer => match found {
                Type::Pointer { mutable: true, .. } => None,
                Type::Pointer { mutable: false, .. } => {
                    Some(VerifyError::ReadOnlyPointer { op: op_name, found })
                }
                Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => {
                    Some(VerifyError::NotAPointer { op: op_name, found })
                }
            },
            Constraint::Elem => other(data.op.pointee(ir, info).map(Type::from)),
            Constraint::ElemVector => data
                .op
                .pointee(ir, info)
                .filter(|elem| found.vector().is_none_or(|vector| vector.elem() != *elem))
                .map(|elem| {
                    let expected = format!("a vector of {elem}");
                    VerifyError::OperandType { op: op_name, operand, expected, found }
                }),
            Constraint::VarElem => other(data.op.type_of_attribute(ir)),
        };
        if let Some(error) = error {
            report.at(op, error);
        }
    }
}

fn not_bool(op: &'static str, operand: &'static str, found: Type) -> Option<VerifyError> {
    (found != Type::BOOL).then_some(VerifyError::ConditionType { op, operand, found })
}

/// Compares an operation's results with the types that its row implies.
fn check_results(report: &mut Report<'_>, op: OpId, expected: Vec<Type>, found: Vec<Type>) {
    let name = report.ir.ops[op].op.name();
    if expected.len() != found.len() {
        let (expected, found) = (expected.len(), found.len());
        report.at(op, VerifyError::ResultCount { op: name, expected, found });
    } else if expected != found {
        report.at(op, VerifyError::ResultTypes { op: name, expected, found });
    }
}

/// Checks the operation's vector types and returns the first error.
fn vectors(ir: &KernelIr, op: &Op, info: &'static OpInfo) -> Option<VerifyError> {
    // The support check (`pack`) has reported this operation's wrong element counts.
    if matches!(op, Op::Convert(Convert::CvtPack { .. })) {
        return None;
    }
    let pointee = || op.pointee(ir, info).map(Type::from);
    let ty = op.type_of_operand(ir, info, Constraint::T).or_else(pointee);
    if let Some(lanes) = op.made_lanes() {
        let no_vector = match ty {
            Some(Type::Scalar(elem)) => VectorType::new(elem, lanes)
                .is_none_or(|made| matches!(op, Op::Mem(_)) && !made.is_one_access()),
            // The row check has reported operands of other types.
            Some(Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. }) => false,
            None => true,
        };
        return no_vector.then_some(VerifyError::NoSuchVector { op: info.name, elem: ty, lanes });
    }
    if let Op::Mem(Mem::StVec { vector, .. }) = op
        && let Some(vector) = ir.type_of(*vector).vector()
        && !vector.is_one_access()
    {
        let (elem, lanes) = (Some(vector.elem().into()), vector.lanes());
        return Some(VerifyError::NoSuchVector { op: info.name, elem, lanes });
    }
    if let (Op::Convert(Convert::VecExtract { lane, .. }), Type::Vector(vector)) = (op, ty?) {
        let lane = *lane;
        return (lane >= vector.lanes()).then_some(VerifyError::LaneOutOfRange { lane, vector });
    }
    None
}

fn one_of(
    op: &'static str,
    operand: &'static str,
    found: Type,
    elems: [Scalar; 2],
    lanes: u32,
) -> Option<VerifyError> {
    let is_one = found.vector().is_some_and(|v| elems.contains(&v.elem()) && v.lanes() == lanes);
    let [a, b] = elems;
    let expected = format!("{a}x{lanes} or {b}x{lanes}");
    (!is_one).then_some(VerifyError::OperandType { op, operand, expected, found })
}

fn operand_types(ir: &KernelIr, op: &Op) -> Vec<Type> {
    op.operands().into_iter().map(|value| ir.type_of(value)).collect()
}

fn check_control(report: &mut Report<'_>, op: OpId, control: &Control) {
    let ir = report.ir;
    match control {
        Control::If { cond, .. } => {
            if let Some(error) = not_bool(control.name(), "cond", ir.type_of(*cond)) {
                report.at(op, error);
            }
        }
        Control::For { lo, hi, step, body, .. } => {
            let found = [*lo, *hi, *step].map(|value| ir.type_of(value));
            let index = ir.regions[*body].args.first().map(|arg| ir.type_of(*arg));
            let expected = found[0];
            if found.iter().any(|ty| *ty != expected) {
                report.at(op, VerifyError::RangeTypes { found });
            } else if !expected.scalar().is_some_and(Scalar::is_int) {
                report.at(op, VerifyError::RangeNotInteger { found: expected });
            }
            if index != Some(expected) {
                report.at(op, VerifyError::RangeIndex { expected, found: index });
            }
            if let Some(step) = ir.integer(*step).filter(|step| *step <= 0) {
                report.at(op, VerifyError::StepNotPositive { step });
            }
        }
        Control::Loop { .. } => {}
        Control::Yield { .. }
        | Control::Continue { .. }
        | Control::Break { .. }
        | Control::Return => {
            let found = ir.ops[op].results.iter().map(|value| ir.type_of(*value)).collect();
            check_results(report, op, Vec::new(), found);
        }
    }
}
