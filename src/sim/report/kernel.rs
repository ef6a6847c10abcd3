//! Makes a launch's [`KernelReport`] from its records: adds the counts of all steps up by source
//! line.

use std::collections::HashMap;

use crate::ir::SourceLocation;
use crate::sim::fault::source::SourceOp;
use crate::sim::kernel_report::{
    AccessReport, KernelReport, StageReport, TrafficReport, WaitReport,
};
use crate::sim::options::LaunchReport;
use crate::sim::report::explain::Launch;
use crate::sim::trace::Records;
use crate::sim::trace::class::{OpClass, flops};
use crate::sim::trace::counts::{MemoryKind, StepCount, TrafficSource};
use crate::sorting::sort_by_key;

/// Counts by operation and source line.
type ByLine = HashMap<(&'static str, u32, u32, &'static str), (SourceOp, OpClass, StepCount)>;

/// Makes a launch's report.
pub(in crate::sim) fn kernel_report(
    launch: &Launch<'_>,
    report: &LaunchReport,
    records: &Records,
) -> KernelReport {
    let (mut classes, mut flops_128) = (HashMap::new(), 0u64);
    let mut lines = ByLine::new();
    let (mut warps, mut threads) = (0, 0);
    for (step, count) in (0..).zip(&records.counts.steps).filter(|(_, count)| count.warps > 0) {
        let Some(id) = launch.code.ops.get(step as usize).copied() else { continue };
        let Some(op) = launch.op(step) else { continue };
        let class = OpClass::of(launch.ir, id);
        *classes.entry(class).or_default() += count.warps;
        (warps, threads) = (warps + count.warps, threads + count.threads);
        flops_128 += count.threads * flops(launch.ir, id);
        if class == OpClass::Plain {
            continue;
        }
        let SourceLocation { file, line, column } = op.location;
        let (_, _, all) = lines
            .entry((file, line, column, op.name))
            .or_insert_with(|| (op, class, StepCount::default()));
        all.add(count);
    }
    let mut classes: Vec<(OpClass, u64)> = classes.into_iter().collect();
    sort_by_key(&mut classes, |(class, count)| (std::cmp::Reverse(*count), *class));
    let (mut accesses, mut waits) = (Vec::new(), Vec::new());
    let mut lines: Vec<_> = lines.into_values().collect();
    sort_by_key(&mut lines, |(op, ..)| (op.location, op.name));
    for (SourceOp { name: op, location }, class, count) in lines {
        let StepCount { warps, blocked, global, shared, banks, .. } = count;
        if global.bytes + shared.bytes > 0 {
            accesses.push(AccessReport {
                op,
                location,
                warps,
                global_bytes: global.bytes,
                sectors: global.count,
                ideal_sectors: global.ideal,
                shared_bytes: shared.bytes,
                wavefronts: shared.count,
                ideal_wavefronts: shared.ideal,
                banks: banks.map_or_else(Vec::new, |banks| banks.to_vec()),
            });
        }
        let waiting = matches!(class, OpClass::Mbarrier | OpClass::Barrier | OpClass::Wgmma);
        if blocked > 0 || waiting && op.contains("wait") {
            waits.push(WaitReport { op, location, warps, blocked });
        }
    }
    sort_by_key(&mut accesses, |access| {
        let cost = access.bank_conflicts() + access.excess_sectors();
        std::cmp::Reverse((cost, access.global_bytes + access.shared_bytes))
    });
    sort_by_key(&mut waits, |wait| std::cmp::Reverse(wait.blocked));
    KernelReport {
        kernel: launch.ir.name.clone(),
        // A run that stops early has no totals.
        warp_ops: report.warp_ops.max(warps),
        thread_ops: report.thread_ops.max(threads),
        classes,
        flops: flops_128 / 128,
        traffic: traffic(records),
        accesses,
        waits,
        stages: StageReport::new(records.stages),
    }
}

fn traffic(records: &Records) -> Vec<TrafficReport> {
    let mut all = Vec::new();
    for memory in [MemoryKind::Global, MemoryKind::Shared] {
        for mover in [TrafficSource::Threads, TrafficSource::Copies, TrafficSource::TensorCores] {
            let [loaded, stored] = records.counts.moved[mover as usize][memory as usize];
            if loaded + stored > 0 {
                all.push(TrafficReport { memory, mover, loaded, stored });
            }
        }
    }
    all
}
