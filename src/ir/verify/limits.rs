//! Names, block size, shared memory.

use super::{Report, VerifyError};

/// Bytes of static shared memory that a block can have on every target.
const STATIC_SHARED_BYTES: u64 = 48 * 1024;

pub(super) fn check(report: &mut Report<'_>) {
    let ir = report.ir;
    if !is_identifier(&ir.name) {
        report.kernel(VerifyError::InvalidName { name: ir.name.clone() });
    }
    for (i, param) in ir.params.iter().enumerate() {
        let repeated = ir.params[..i].iter().any(|p| p.name == param.name);
        if repeated || !is_identifier(&param.name) {
            report.kernel(VerifyError::InvalidParamName { name: param.name.clone() });
        }
    }
    if let Some(block @ [x, y, z]) = ir.block {
        let threads = block.iter().map(|n| u64::from(*n)).product::<u64>();
        let possible = x <= 1024 && y <= 1024 && z <= 64 && (1..=1024).contains(&threads);
        if !possible {
            report.kernel(VerifyError::BlockSize { block });
        }
    }
    for (shared, data) in ir.shared.iter() {
        let align_bytes = data.align_bytes;
        if !align_bytes.is_power_of_two()
            || align_bytes < data.elem.size_bytes()
            || align_bytes > 1024
        {
            report.place(data.place, VerifyError::SharedAlignment { shared, align_bytes });
            return;
        }
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
fn is_identifier(name: &str) -> bool {
    name.len() <= 255
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
