//! [`KernelReport`]: what a launch did, as a profiler would say it: instructions, bytes, bank
//! conflicts, sectors, waits, stages. Use it to find out without a GPU why a kernel may be slow.

use std::fmt;

use super::trace::class::OpClass;
use super::trace::counts::{MemoryKind, TrafficSource};
use super::trace::stages::StageTime;
use crate::ir::SourceLocation;

/// What a profiler would say about one launch on the simulator, summed over all blocks. To get it,
/// pass a [`Reports`](crate::sim::Reports) list to
/// [`Options::reports`](crate::sim::Options::reports). `Display` prints it as a table for a
/// terminal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KernelReport {
    /// The name of the kernel.
    pub kernel: String,
    /// IR operations, each counted once for every warp that executed it.
    pub warp_ops: u64,
    /// IR operations, each counted once for every thread that executed it.
    pub thread_ops: u64,
    /// Warp operations by class. Constants and the like are left out, because the simulator takes
    /// no step for them.
    pub classes: Vec<(OpClass, u64)>,
    /// Floating point operations: an `fma` counts as 2, an MMA as `2 m n k`.
    pub flops: u64,
    /// Bytes moved, one entry for each memory and each mover. Entries with 0 bytes are left out.
    pub traffic: Vec<TrafficReport>,
    /// Accesses by threads and by `cp.async`, one entry for each operation and source line, the
    /// most costly first.
    pub accesses: Vec<AccessReport>,
    /// Waits at barriers, one entry for each operation and source line, the one that blocked most
    /// often first.
    pub waits: Vec<WaitReport>,
    /// How the pipeline stages spend their time; `None` if the kernel has no asynchronous copies to
    /// shared memory.
    pub stages: Option<StageReport>,
}

/// How many bytes one mover (threads, asynchronous copies or tensor cores) moved to and from one
/// memory. Use it to check a kernel's memory traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrafficReport {
    /// Which memory.
    pub memory: MemoryKind,
    /// Who moved the bytes.
    pub mover: TrafficSource,
    /// Bytes loaded.
    pub loaded: u64,
    /// Bytes stored.
    pub stored: u64,
}

/// The memory accesses made by one operation on one source line. Use it to find the line that has
/// bank conflicts or touches too many sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessReport {
    /// The operation's name.
    pub op: &'static str,
    /// The Rust line that built the operation.
    pub location: SourceLocation,
    /// How often warps executed it.
    pub warps: u64,
    /// Bytes of global memory that lanes asked for.
    pub global_bytes: u64,
    /// 32-byte sectors of global memory that the accesses touched.
    pub sectors: u64,
    /// The fewest sectors that could hold the same bytes.
    pub ideal_sectors: u64,
    /// Bytes of shared memory that lanes asked for.
    pub shared_bytes: u64,
    /// Wavefronts that shared memory needed.
    pub wavefronts: u64,
    /// Wavefronts that it would need without bank conflicts.
    pub ideal_wavefronts: u64,
    /// For each of the 32 banks, how many words had to wait for another word in the same bank.
    /// Empty if there are no bank conflicts.
    pub banks: Vec<u64>,
}

impl AccessReport {
    /// Returns how many wavefronts were spent on bank conflicts. If it is not 0, try a swizzled or
    /// padded layout.
    pub fn bank_conflicts(&self) -> u64 {
        self.wavefronts.saturating_sub(self.ideal_wavefronts)
    }

    /// Returns how many 32-byte sectors were touched beyond the smallest possible count. If it is
    /// not 0, neighbouring threads do not access neighbouring elements.
    pub fn excess_sectors(&self) -> u64 {
        self.sectors.saturating_sub(self.ideal_sectors)
    }
}

/// The waits of one operation on one source line, for example of an mbarrier wait. Use it to find
/// where warps are held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitReport {
    /// The operation's name.
    pub op: &'static str,
    /// The Rust line that built the operation.
    pub location: SourceLocation,
    /// How often warps executed it.
    pub warps: u64,
    /// How often the warp then had to wait.
    pub blocked: u64,
}

/// How a launch's pipeline stages spend their time. Use it to see what holds up a pipeline: much
/// `filling` means that it waits for copies, much `full` or `read` that it waits for compute.
/// `filling`, `full`, `read` and `free` are fractions of the time of all stages, and add up to 1.
/// Time is counted in simulator steps, so you can compare pipelines with it but not predict a GPU's
/// timing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StageReport {
    /// How many stages the block or cluster with the most stages has.
    pub stages: u64,
    /// How often stages were filled, all stages together.
    pub fills: u64,
    /// Fraction of the time in which copies into a stage are in flight.
    pub filling: f64,
    /// Fraction of the time in which the bytes of a stage have arrived, and nobody has read them
    /// yet.
    pub full: f64,
    /// Fraction of the time between the first read of a stage and its release.
    pub read: f64,
    /// Fraction of the time between a stage's release and its next fill.
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
    /// Returns how many bytes of global memory were loaded and stored. Compare it with the bytes
    /// that the algorithm has to move.
    pub fn global_bytes(&self) -> u64 {
        let global = self.traffic.iter().filter(|traffic| traffic.memory == MemoryKind::Global);
        global.map(|traffic| traffic.loaded + traffic.stored).sum()
    }

    /// Returns the arithmetic intensity, that is floating point operations per byte of global
    /// memory. With a roofline model it tells whether memory or compute bounds the kernel. Returns
    /// `None` if no byte was moved.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.global_bytes();
        (bytes > 0).then(|| self.flops as f64 / bytes as f64)
    }
}

/// A count with a unit, such as `12.3 M`.
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

/// How many lines of each table are printed.
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
                MemoryKind::Global => "global",
                MemoryKind::Shared => "shared",
            };
            let mover = match mover {
                TrafficSource::Threads => "threads",
                TrafficSource::Copies => "copies",
                TrafficSource::TensorCores => "wgmma",
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
