//! Names, launch bounds, shared memory, registers.

use std::collections::HashSet;

use super::{Report, VerifyError};
use crate::ir::bounds::{ClusterShape, LaunchBounds};
use crate::ir::target::Target;

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
    }
    bounds(report);
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
        && bytes > ir.target.max_shared_bytes()
    {
        let limit = ir.target.max_shared_bytes();
        report.place(last.place, VerifyError::SharedSize { bytes, limit });
    }
}

fn bounds(report: &mut Report<'_>) {
    let target = report.ir.target;
    let LaunchBounds { block, max_threads, min_blocks_per_sm, max_registers, cluster } =
        report.ir.bounds;
    let product = |extent: &[u32; 3]| {
        extent.iter().fold(1u64, |product, n| product.saturating_mul((*n).into()))
    };
    if let Some(block @ [x, y, z]) = block {
        let threads = 1..=u64::from(LaunchBounds::MAX_THREADS);
        let possible = x <= 1024 && y <= 1024 && z <= 64 && threads.contains(&product(&block));
        if !possible {
            report.kernel(VerifyError::BlockSize { block });
        }
    }
    let (least, most) = LaunchBounds::REGISTERS;
    let numbers = [
        ("max_threads", max_threads, 1, LaunchBounds::MAX_THREADS),
        ("min_blocks_per_sm", min_blocks_per_sm, 1, LaunchBounds::MAX_BLOCKS_PER_SM),
        ("max_registers", max_registers, least, most),
    ];
    for (bound, number, least, most) in numbers {
        if let Some(number) = number.filter(|number| !(least..=most).contains(number)) {
            report.kernel(VerifyError::LaunchBound { bound, number, least, most });
        }
    }
    if let (Some(max_threads), Some(block)) = (max_threads, block) {
        report.kernel(VerifyError::MaxThreadsOfFixedBlock { max_threads, block });
    }
    if let (Some(min_blocks_per_sm), None, None) = (min_blocks_per_sm, block, max_threads) {
        report.kernel(VerifyError::MinBlocksOfAnyBlock { min_blocks_per_sm });
    }
    let threads = block.map(|block| product(&block)).or(max_threads.map(u64::from));
    if let (Some(min_blocks_per_sm), Some(threads)) = (min_blocks_per_sm, threads) {
        let limit = target.threads_per_sm();
        if u64::from(min_blocks_per_sm).saturating_mul(threads.next_multiple_of(32)) > limit.into()
        {
            report.kernel(VerifyError::ThreadsPerSm { min_blocks_per_sm, threads, limit });
        }
    }
    if cluster.is_some() && !target.offers(Target::SM_90) {
        let (op, first) = ("cluster".to_owned(), Target::SM_90);
        report.kernel(VerifyError::NotOnTarget { op, first, target });
    }
    if let Some(ClusterShape::Fixed(cluster)) = cluster {
        let limit = LaunchBounds::MAX_CLUSTER;
        if !(1..=u64::from(limit)).contains(&product(&cluster)) {
            report.kernel(VerifyError::ClusterSize { cluster, limit });
        }
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
