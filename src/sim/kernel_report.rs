//! The report of a launch: instructions, bytes, bank conflicts, sectors, waits, stages.

use std::fmt;

use super::trace::class::OpClass;
use super::trace::counts::{Moved, Mover};
use super::trace::stages::StageTime;
use crate::ir::SourceLocation;

/// The report of one launch on the simulator: see [`Options::reports`](crate::sim::Options::reports). All counts are
/// those of all blocks. It prints as a table for a terminal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelReport {
    /// The name of the kernel.
    pub kernel: String,
    /// Operations of the IR, counted for each warp that executed them.
    pub warp_ops: u64,
    /// Operations of the IR, counted for each thread that executed them.
    pub thread_ops: u64,
    /// Operations of warps by class, without constants and the like, which need no step of the simulator.
    pub classes: Vec<(OpClass, u64)>,
    /// Floating point operations: 2 for an `fma`, `2 m n k` for an MMA.
    pub flops: u64,
    /// Bytes by memory and mover, without lines of 0 bytes.
    pub traffic: Vec<TrafficReport>,
    /// Accesses of threads and of `cp.async`, by operation and source line: the most costly first.
    pub accesses: Vec<AccessReport>,
    /// Waits at barriers, by operation and source line: the most frequent waits first.
    pub waits: Vec<WaitReport>,
    /// Stages of pipelines; `None` for a kernel without asynchronous copies to shared memory.
    pub stages: Option<StageReport>,
}

/// Bytes that are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrafficReport {
    /// The memory.
    pub memory: Moved,
    /// The mover.
    pub mover: Mover,
    /// Bytes loaded.
    pub loaded: u64,
    /// Bytes stored.
    pub stored: u64,
}

/// The accesses of one operation and line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessReport {
    /// The name of the operation.
    pub op: &'static str,
    /// The Rust line that made it.
    pub location: SourceLocation,
    /// Executions by warps.
    pub warps: u64,
    /// Bytes of global memory.
    pub global_bytes: u64,
    /// Sectors of 32 bytes of global memory.
    pub sectors: u64,
    /// The smallest number of sectors that holds the bytes.
    pub ideal_sectors: u64,
    /// Bytes of shared memory.
    pub shared_bytes: u64,
    /// Wavefronts of shared memory.
    pub wavefronts: u64,
    /// Wavefronts without bank conflicts.
    pub ideal_wavefronts: u64,
    /// For each of the 32 banks, the words that waited for another word of the bank. Empty without bank conflicts.
    pub banks: Vec<u64>,
}

impl AccessReport {
    /// Returns the wavefronts that bank conflicts cost.
    pub fn bank_conflicts(&self) -> u64 {
        self.wavefronts.saturating_sub(self.ideal_wavefronts)
    }

    /// Returns the sectors beyond the smallest number.
    pub fn excess_sectors(&self) -> u64 {
        self.sectors.saturating_sub(self.ideal_sectors)
    }
}

/// The waits of one operation and line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitReport {
    /// The name of the operation.
    pub op: &'static str,
    /// The Rust line that made it.
    pub location: SourceLocation,
    /// Executions by warps.
    pub warps: u64,
    /// Executions after which the warp had to wait.
    pub blocked: u64,
}

/// Shares of the steps of a launch in which a stage is in a state; they add up to 1. Steps are an order, no time:
/// they compare pipelines on the simulator, and are no measure of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StageReport {
    /// Stages of a block or cluster.
    pub stages: u64,
    /// Fills of all stages.
    pub fills: u64,
    /// Copies are in flight.
    pub filling: f64,
    /// The bytes are there, and nobody has read them.
    pub full: f64,
    /// The bytes are read.
    pub read: f64,
    /// Between two fills.
    pub free: f64,
}

impl StageReport {
    pub(in crate::sim) fn new(time: StageTime) -> Option<StageReport> {
        let StageTime { stages, fills, filling, full, read, free } = time;
        let all = (filling + full + read + free).max(1) as f64;
        let [filling, full, read, free] = [filling, full, read, free].map(|x| x as f64 / all);
        (fills > 0).then_some(StageReport { stages, fills, filling, full, read, free })
    }
}

impl KernelReport {
    /// Returns the bytes of global memory that are loaded and stored.
    pub fn global_bytes(&self) -> u64 {
        let global = self.traffic.iter().filter(|traffic| traffic.memory == Moved::Global);
        global.map(|traffic| traffic.loaded + traffic.stored).sum()
    }

    /// Returns the floating point operations for each byte of global memory; `None` without such bytes.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.global_bytes();
        (bytes > 0).then(|| self.flops as f64 / bytes as f64)
    }
}

/// A count with a unit of 1000, such as `12.3 M`.
struct Short(u64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..10_000 => return f.pad(&self.0.to_string()),
            10_000..10_000_000 => (self.0 as f64 / 1e3, "k"),
            10_000_000..10_000_000_000 => (self.0 as f64 / 1e6, "M"),
            _ => (self.0 as f64 / 1e9, "G"),
        };
        f.pad(&format!("{value:.1} {unit}"))
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Lines of a table that are printed.
const MAX: usize = 16;

impl fmt::Display for KernelReport {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelReport { kernel, warp_ops, thread_ops, flops, .. } = self;
        writeln!(f, "kernel `{kernel}`")?;
        write!(
            f,
            "  operations   {} of warps, {} of threads",
            Short(*warp_ops),
            Short(*thread_ops)
        )?;
        let classes = self.classes.iter().filter(|(class, _)| *class != OpClass::Plain).take(6);
        let classes: Vec<String> =
            classes.map(|(class, count)| format!("{} {}", class.name(), Short(*count))).collect();
        writeln!(f, "{}{}", if classes.is_empty() { "" } else { "; " }, classes.join(", "))?;
        write!(f, "  arithmetic   {} floating point operations", Short(*flops))?;
        match self.intensity() {
            Some(intensity) => writeln!(f, ", {intensity:.1} for each byte of global memory")?,
            None => writeln!(f)?,
        }
        for TrafficReport { memory, mover, loaded, stored } in &self.traffic {
            let memory = match memory {
                Moved::Global => "global",
                Moved::Shared => "shared",
            };
            let mover = match mover {
                Mover::Threads => "threads",
                Mover::Copies => "copies",
                Mover::TensorCores => "wgmma",
            };
            let (loaded, stored) = (Short(*loaded), Short(*stored));
            writeln!(f, "  {memory:<12} {loaded:>9} B loaded  {stored:>9} B stored  by {mover}")?;
        }
        if let Some(StageReport { stages, fills, filling, full, read, free }) = self.stages {
            let [filling, full, read, free] = [filling, full, read, free].map(percent);
            writeln!(
                f,
                "  stages       {stages} with {} fills: filling {filling}, full {full}, read {read}, free {free} of the steps",
                Short(fills)
            )?;
        }
        self.write_accesses(f)?;
        self.write_waits(f)
    }
}

impl KernelReport {
    #[inline]
    fn write_accesses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.accesses.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "  {:<14} {:>8} {:>9} {:>10} {:>9} {:>9} {:>10}  line",
            "access", "warps", "bytes", "wavefronts", "conflicts", "sectors", "too many"
        )?;
        for access in self.accesses.iter().take(MAX) {
            let dash = |is_there: bool, count: u64| match is_there {
                true => Short(count).to_string(),
                false => "-".to_owned(),
            };
            let (shared, global) = (access.shared_bytes > 0, access.global_bytes > 0);
            writeln!(
                f,
                "  {:<14} {:>8} {:>9} {:>10} {:>9} {:>9} {:>10}  {}",
                access.op,
                Short(access.warps),
                Short(access.global_bytes.max(access.shared_bytes)),
                dash(shared, access.wavefronts),
                dash(shared, access.bank_conflicts()),
                dash(global, access.sectors),
                dash(global, access.excess_sectors()),
                access.location
            )?;
        }
        match self.accesses.len().saturating_sub(MAX) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} lines more"),
        }
    }

    fn write_waits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.waits.is_empty() {
            return Ok(());
        }
        writeln!(f, "  {:<26} {:>8} {:>9}  line", "wait", "warps", "waited")?;
        for WaitReport { op, location, warps, blocked } in self.waits.iter().take(MAX) {
            writeln!(f, "  {op:<26} {:>8} {:>9}  {location}", Short(*warps), Short(*blocked))?;
        }
        Ok(())
    }
}
