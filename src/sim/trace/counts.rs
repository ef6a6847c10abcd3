//! Counts for each step of the kernel: executions, bytes, wavefronts, sectors, waits. A
//! [`KernelReport`](crate::sim::KernelReport) adds them up by source line.

use crate::sim::race::Target;

/// Lanes of a warp.
const LANES: usize = 32;
/// Banks of shared memory, each 4 bytes wide.
pub(in crate::sim) const BANKS: usize = 32;
/// Bytes in a sector of global memory.
const SECTOR: u64 = 32;

/// Bytes moved, and in how many pieces the memory has to serve them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Pieces {
    pub(in crate::sim) bytes: u64,
    /// Wavefronts of shared memory, or sectors of global memory.
    pub(in crate::sim) count: u64,
    /// The fewest pieces in which these bytes could be served, without bank conflicts and with full
    /// sectors.
    pub(in crate::sim) ideal: u64,
}

impl Pieces {
    fn add(&mut self, other: Pieces) {
        self.bytes += other.bytes;
        self.count += other.count;
        self.ideal += other.ideal;
    }
}

/// Who moves bytes, in the [`TrafficReport`](crate::sim::TrafficReport) of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum TrafficSource {
    /// Threads, by loads, stores and atomics.
    Threads,
    /// Asynchronous copies: `cp.async`, bulk and tensor copies.
    Copies,
    /// The tensor cores, when `wgmma` reads operands from shared memory.
    TensorCores,
}

/// The memory from or to which bytes are moved, in the [`TrafficReport`](crate::sim::TrafficReport)
/// of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Global memory.
    Global,
    /// Shared memory of the block and of its cluster.
    Shared,
}

/// The counts of one step.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct StepCount {
    /// Executions, by warps and by threads.
    pub(in crate::sim) warps: u64,
    pub(in crate::sim) threads: u64,
    pub(in crate::sim) global: Pieces,
    pub(in crate::sim) shared: Pieces,
    /// For each bank, how many words waited behind another word.
    pub(in crate::sim) banks: Option<Box<[u64; BANKS]>>,
    /// Executions that had to wait.
    pub(in crate::sim) blocked: u64,
}

impl StepCount {
    pub(in crate::sim) fn add(&mut self, from: &StepCount) {
        self.warps += from.warps;
        self.threads += from.threads;
        self.blocked += from.blocked;
        self.global.add(from.global);
        self.shared.add(from.shared);
        if let Some(from) = &from.banks {
            let to = self.banks.get_or_insert_default();
            to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to += from);
        }
    }
}

/// Counts of some clusters.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Counts {
    pub(in crate::sim) steps: Vec<StepCount>,
    /// Bytes by mover and memory, loaded and stored.
    pub(in crate::sim) moved: [[[u64; 2]; 2]; 3],
}

/// The bytes that a warp's lanes access, as each lane's first byte.
pub(in crate::sim) struct LaneAccess<'a> {
    pub(in crate::sim) target: Target,
    pub(in crate::sim) writes: bool,
    pub(in crate::sim) bytes: u32,
    pub(in crate::sim) mask: u32,
    pub(in crate::sim) at: &'a dyn Fn(usize) -> u64,
}

impl LaneAccess<'_> {
    fn lanes(&self) -> impl Iterator<Item = usize> {
        let mask = self.mask;
        (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
    }

    /// Returns a range that contains all bytes.
    pub(in crate::sim) fn hull(&self) -> Option<(u64, u64)> {
        let start = self.lanes().map(|lane| (self.at)(lane)).min()?;
        let end =
            self.lanes().map(|lane| (self.at)(lane).saturating_add(self.bytes.into())).max()?;
        Some((start, end))
    }

    fn all_bytes(&self) -> u64 {
        u64::from(self.mask.count_ones()) * u64::from(self.bytes)
    }

    /// Returns the distinct units of `unit` bytes that some lanes touch, sorted.
    fn units(&self, lanes: impl Iterator<Item = usize>, unit: u64) -> Vec<u64> {
        let each = |lane: usize| {
            let first = (self.at)(lane);
            let last = first.saturating_add(u64::from(self.bytes).saturating_sub(1));
            first / unit..=last / unit
        };
        let mut units: Vec<u64> = lanes.flat_map(each).collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    fn sectors(&self) -> Pieces {
        let sectors = self.units(self.lanes(), SECTOR).len() as u64;
        // Lanes may access the same bytes, so count the bytes that are touched.
        let size = u64::from(self.bytes).max(1);
        let touched = self.units(self.lanes(), size).len() as u64 * size;
        let bytes = self.all_bytes();
        Pieces { bytes, count: sectors, ideal: touched.div_ceil(SECTOR).min(sectors) }
    }

    /// Returns how many lanes shared memory serves together: as many as fit into 128 bytes, or
    /// twice as many if neighbours access the same words. For example, that is 8 lanes if each
    /// loads 16 bytes.
    fn lanes_of_phase(&self) -> usize {
        let words = self.bytes.div_ceil(4).max(1) as usize;
        let lanes = (LANES / words).max(1);
        let has = |lane: usize| self.mask >> lane & 1 == 1;
        let agrees = |step: usize| {
            self.lanes().all(|lane| !has(lane ^ step) || (self.at)(lane) == (self.at)(lane ^ step))
        };
        if words > 1 && (agrees(1) || agrees(2)) { (2 * lanes).min(LANES) } else { lanes }
    }

    /// Calls `f` with each word of shared memory or sector of global memory, and its excess in this
    /// access: for a word, 1 if its bank serves another word first; for a sector, its bytes that no
    /// lane asks for.
    pub(in crate::sim) fn units_with_excess(&self, mut f: impl FnMut(u64, u32)) {
        if let Target::Global(_) = self.target {
            let size = u64::from(self.bytes).max(1);
            let touched = self.units(self.lanes(), size);
            for sector in self.units(self.lanes(), SECTOR) {
                let inside = |unit: &&u64| (**unit * size) / SECTOR == sector;
                let used = touched.iter().filter(inside).count() as u64 * size;
                f(sector, SECTOR.saturating_sub(used) as u32);
            }
            return;
        }
        let step = self.lanes_of_phase();
        for first in (0..LANES).step_by(step) {
            let lanes = self.lanes().filter(|lane| (first..first + step).contains(lane));
            let mut busy = 0u32;
            for word in self.units(lanes, 4) {
                let bank = 1 << (word % BANKS as u64);
                f(word, u32::from(busy & bank != 0));
                busy |= bank;
            }
        }
    }

    /// Returns the wavefronts of an access to shared memory, and calls `served` with each bank that
    /// has several words in one phase, and how many of them have to wait.
    fn wavefronts(&self, mut served: impl FnMut(usize, u64)) -> Pieces {
        let step = self.lanes_of_phase();
        let (mut count, mut ideal) = (0, 0);
        for first in (0..LANES).step_by(step) {
            let lanes = self.lanes().filter(|lane| (first..first + step).contains(lane));
            let words = self.units(lanes, 4);
            if words.is_empty() {
                continue;
            }
            let mut in_bank = [0u64; BANKS];
            words.iter().for_each(|word| in_bank[(word % BANKS as u64) as usize] += 1);
            for (bank, words) in in_bank.iter().enumerate().filter(|(_, words)| **words > 1) {
                served(bank, words - 1);
            }
            count += in_bank.iter().copied().max().unwrap_or(0);
            ideal += 1;
        }
        Pieces { bytes: self.all_bytes(), count, ideal }
    }
}

impl Counts {
    pub(in crate::sim) fn new(steps: usize) -> Counts {
        Counts { steps: vec![StepCount::default(); steps], moved: Default::default() }
    }

    /// Counts bytes that something moves.
    pub(in crate::sim) fn moved(
        &mut self,
        by: TrafficSource,
        memory: MemoryKind,
        writes: bool,
        bytes: u64,
    ) {
        self.moved[by as usize][memory as usize][usize::from(writes)] += bytes;
    }

    /// Counts an access by lanes.
    pub(in crate::sim) fn access(&mut self, step: u32, by: TrafficSource, access: &LaneAccess<'_>) {
        let memory = match access.target {
            Target::Global(_) => MemoryKind::Global,
            Target::Shared(_) => MemoryKind::Shared,
        };
        self.moved(by, memory, access.writes, access.all_bytes());
        let Some(counts) = self.steps.get_mut(step as usize) else { return };
        match memory {
            MemoryKind::Global => counts.global.add(access.sectors()),
            MemoryKind::Shared => {
                let banks = &mut counts.banks;
                let pieces = access.wavefronts(|bank, words| {
                    banks.get_or_insert_default()[bank] += words;
                });
                counts.shared.add(pieces);
            }
        }
    }

    pub(in crate::sim) fn add(&mut self, other: Counts) {
        self.steps.iter_mut().zip(&other.steps).for_each(|(to, from)| to.add(from));
        let from = other.moved.iter().flatten().flatten();
        self.moved.iter_mut().flatten().flatten().zip(from).for_each(|(to, from)| *to += from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Analysis, layout};

    /// A warp's wavefronts equal the result of the layout analysis, for each width and stride.
    #[test]
    fn wavefronts_and_sectors_are_those_of_the_layout() {
        for words in [1u32, 2, 4] {
            for stride in [0i64, 1, 2, 3, 8, 16, 32, 33] {
                let threads = layout!(32:stride * i64::from(words));
                let bits = 32 * words;
                let all = layout!(4096:1);
                let expected = all.bank_conflicts(&threads, words, 32).unwrap();
                let at = |lane: usize| (lane as i64 * stride) as u64 * u64::from(words) * 4;
                let access = LaneAccess {
                    target: Target::Shared(0),
                    writes: false,
                    bytes: bits / 8,
                    mask: u32::MAX,
                    at: &at,
                };
                let pieces = access.wavefronts(|_, _| {});
                assert_eq!(pieces.count, expected.wavefronts(), "{words} words, stride {stride}");
                assert_eq!(pieces.count - pieces.ideal, expected.conflicts());
                let expected = all.sectors(&threads, words, 32).unwrap();
                assert_eq!(access.sectors().count, expected.sectors());
                assert_eq!(access.sectors().ideal, expected.ideal());
            }
        }
    }

    /// Each word that waits behind another in its bank counts as excess, and so do a sector's bytes
    /// that no lane asks for.
    #[test]
    fn the_excess_of_units_is_that_of_the_access() {
        for (stride, bytes) in [(4u64, 4u32), (8, 4), (128, 4), (16, 16), (2, 2), (64, 8)] {
            let at = |lane: usize| lane as u64 * stride;
            let access =
                |target| LaneAccess { target, writes: false, bytes, mask: u32::MAX, at: &at };
            let (mut in_banks, mut waits) = (0, 0);
            access(Target::Shared(0)).wavefronts(|_, words| in_banks += words);
            access(Target::Shared(0)).units_with_excess(|_, excess| waits += u64::from(excess));
            assert_eq!(waits, in_banks, "stride {stride}, {bytes} bytes");
            let pieces = access(Target::Global(0)).sectors();
            let (mut sectors, mut unused) = (0, 0);
            access(Target::Global(0)).units_with_excess(|_, excess| {
                sectors += 1;
                unused += u64::from(excess);
            });
            assert_eq!(sectors, pieces.count);
            assert_eq!(32 * sectors - unused, pieces.bytes, "stride {stride}, {bytes} bytes");
        }
    }

    #[test]
    fn lanes_that_are_off_do_not_count() {
        let at = |lane: usize| lane as u64 * 128;
        let access =
            |mask| LaneAccess { target: Target::Shared(0), writes: true, bytes: 4, mask, at: &at };
        let mut banks = Vec::new();
        let pieces = access(0b1011).wavefronts(|bank, words| banks.push((bank, words)));
        assert_eq!((pieces, banks), (Pieces { bytes: 12, count: 3, ideal: 1 }, vec![(0, 2)]));
        assert_eq!(access(0).wavefronts(|_, _| {}), Pieces::default());
        assert_eq!(access(1).hull(), Some((0, 4)));
    }
}
