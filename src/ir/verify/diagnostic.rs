//! Verifier rules for `assert` and `printf`: the format string is valid and fits the values.

use super::{Report, VerifyError};
use crate::ir::entity::OpId;
use crate::ir::format::Format;
use crate::ir::op::Diagnostic;
use crate::ir::types::{Scalar, Type};

/// Checks a diagnostic's operands against its format string.
pub(super) fn check(report: &mut Report<'_>, id: OpId, diagnostic: &Diagnostic) {
    let ir = report.ir;
    let op = diagnostic.name();
    let limit = match diagnostic {
        Diagnostic::Assert { cond, element, .. } => {
            if let Some(found) = element.map(|element| ir.type_of(element))
                && found != Type::Scalar(Scalar::I32)
            {
                let (operand, expected) = ("element", Type::Scalar(Scalar::I32).to_string());
                report.at(id, VerifyError::OperandType { op, operand, expected, found });
            }
            let found = ir.type_of(*cond);
            if found != Type::BOOL {
                let (operand, expected) = ("cond", Type::BOOL.to_string());
                report.at(id, VerifyError::OperandType { op, operand, expected, found });
            }
            Diagnostic::ASSERT_VALUES
        }
        Diagnostic::Printf { .. } => Diagnostic::PRINTF_VALUES,
    };
    let (text, values) = diagnostic.text();
    if values.len() > limit {
        report.at(id, VerifyError::TooManyValues { op, found: values.len(), limit });
    }
    let format = match Format::parse(text) {
        Ok(format) => format,
        Err(error) => return report.at(id, VerifyError::FormatSyntax { op, error }),
    };
    let (expected, found) = (format.placeholders().count(), values.len());
    if expected != found {
        return report.at(id, VerifyError::FormatCount { op, expected, found });
    }
    for (placeholder, value) in format.placeholders().zip(values) {
        let found = ir.type_of(*value);
        let reason = match found {
            Type::Scalar(scalar) => placeholder.refusal(scalar),
            Type::Vector(_) => Some("a vector cannot be printed: pass its elements"),
            Type::Pointer { .. } => Some("a pointer has a different value on each device"),
            Type::TensorMap { .. } => Some("a tensor map cannot be printed"),
        };
        if let Some(reason) = reason {
            let placeholder = placeholder.text.clone();
            report.at(id, VerifyError::FormatType { op, placeholder, found, reason });
        }
    }
}
