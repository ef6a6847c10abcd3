//! Verifier rules for inline PTX: the text is well-formed, uses each result, and exists on the
//! target.

use super::{Report, VerifyError};
use crate::ir::entity::OpId;
use crate::ir::op::{Inline, PtxPiece};
use crate::ir::types::Type;

pub(super) fn check(report: &mut Report<'_>, id: OpId, inline: &Inline) {
    let ir = report.ir;
    let (op, first, target) = (Inline::NAME.to_owned(), inline.ptx.target(), ir.target);
    if !target.offers(first) {
        report.at(id, VerifyError::NotOnTarget { op, first, target });
    }
    let operands = inline.operands.iter().map(|value| ir.type_of(*value));
    for ty in operands.chain(inline.results.iter().copied()) {
        if let Type::Vector(_) = ty {
            report.at(id, VerifyError::PtxOperand { found: ty });
        }
    }
    let results = inline.results.len();
    let pieces = match inline.ptx.pieces(results + inline.operands.len()) {
        Ok(pieces) => pieces,
        Err(error) => return report.at(id, VerifyError::PtxText { error }),
    };
    for result in 0..results {
        if !pieces.contains(&PtxPiece::Place(result)) {
            report.at(id, VerifyError::PtxResult { result });
        }
    }
}
