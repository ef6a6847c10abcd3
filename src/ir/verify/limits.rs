//! Names, block size, shared memory, registers.

use std::collections::HashSet;

use super::{Report, VerifyError};
use crate::ir::types::Type;

/// Bytes of static shared memory that a block can have on every target.
const STATIC_SHARED_BYTES: u64 = 48 * 1024;

/// Registers that a variable can have. A thread has 255 in hardware; the limit is far above, so that it only
/// refuses what is a mistake, and bounds the memory that a line of text can make others take.
const VAR_REGISTERS: u32 = 1 << 16;

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    if !is_identifier(&ir.name) {
        report.kernel(VerifyError::InvalidName { name: ir.name.clone() });
    }
    let mut names = HashSet::new();
    for param in &ir.params {
        let repeated = !names.insert(&param.name);
        if repeated || !is_identifier(&param.name) {
            report.kernel(VerifyError::InvalidParamName { name: param.name.clone() });
        }
        if let Type::Vector(ty) = ir.type_of(param.value) {
            report.kernel(VerifyError::VectorParam { name: param.name.clone(), ty });
        }
    }
    if let Some(block @ [x, y, z]) = ir.block {
        let threads = block.iter().fold(1u64, |product, n| product.saturating_mul((*n).into()));
        let possible = x <= 1024 && y <= 1024 && z <= 64 && (1..=1024).contains(&threads);
        if !possible {
            report.kernel(VerifyError::BlockSize { block });
        }
    }
    for (var, data) in ir.vars.iter() {
        let (len, limit) = (data.len, VAR_REGISTERS);
        if len > limit {
            report.place(data.place, VerifyError::VarSize { var, len, limit });
        }
    }
    let mut aligned = true;
    for (shared, data) in ir.shared.iter() {
        let align_bytes = data.align_bytes;
        if !align_bytes.is_power_of_two()
            || align_bytes < data.elem.size_bytes()
            || align_bytes > 1024
        {
            report.place(data.place, VerifyError::SharedAlignment { shared, align_bytes });
            aligned = false;
        }
    }
    if !aligned {
        return;
    }
    let (_, bytes) = ir.shared_layout();
    if let Some((_, last)) = ir.shared.iter().last()
        && bytes > STATIC_SHARED_BYTES
    {
        let limit = STATIC_SHARED_BYTES;
        report.place(last.place, VerifyError::SharedSize { bytes, limit });
    }
}

/// PTX identifiers (PTX ISA 4.4) that start with a letter and have no `$`: those that every tool takes.
/// `WARP_SZ` is the one such word with a meaning of its own; names of instructions are free.
fn is_identifier(name: &str) -> bool {
    name.len() <= 255
        && name != "WARP_SZ"
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
