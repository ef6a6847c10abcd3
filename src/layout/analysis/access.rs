//! Counts shared-memory bank conflicts and global-memory sectors when threads access memory through
//! a layout. You can judge a layout or a swizzle by them before you build a kernel.

use std::fmt;

use super::{DOMAIN_LIMIT, Offsets, Result};
use crate::layout::error::LayoutError;
use crate::layout::layout::Layout;

/// How many banks shared memory has.
const BANKS: u32 = 32;
/// The width of a bank's word in bits.
const BANK_BITS: u32 = 32;
/// The size of a global-memory sector in bits.
const SECTOR_BITS: u32 = 256;
/// How many threads access memory together.
const WARP: u32 = 32;

/// Returns how many bits an access of `vector` elements has.
fn access_bits(vector: u32, element_bits: u32) -> Result<u32> {
    match vector.checked_mul(element_bits) {
        Some(bits @ (8 | 16 | 32 | 64 | 128)) => Ok(bits),
        _ => Err(LayoutError::BadAccess { vector, element_bits }),
    }
}

/// Each thread's address in bits, and the width of an access.
struct Accesses {
    addresses: Vec<i64>,
    bits: u32,
}

impl Accesses {
    #[inline]
    fn new(
        offsets: &Offsets<'_>,
        threads: &Layout,
        vector: u32,
        element_bits: u32,
    ) -> Result<Self> {
        let bits = access_bits(vector, element_bits)?;
        let count = threads.size()?.to_static()?;
        if u64::try_from(count).is_ok_and(|count| count > DOMAIN_LIMIT) {
            return Err(super::domain_too_large());
        }
        let mut addresses = Vec::new();
        for (thread, coordinate) in (0..).zip(threads.indices()?) {
            let index = offsets.at(coordinate)?;
            let address = index.checked_mul(i64::from(element_bits));
            let address = address.ok_or_else(|| LayoutError::overflow("the address in bits"))?;
            if address % i64::from(bits) != 0 {
                return Err(LayoutError::Misaligned { thread, index, bits });
            }
            addresses.push(address);
        }
        Ok(Self { addresses, bits })
    }

    /// Iterates over the warps and their addresses.
    fn warps(&self) -> impl Iterator<Item = (u64, &[i64])> {
        (0..).zip(self.addresses.chunks(WARP as usize))
    }

    /// Returns how many lanes of a warp are served together.
    fn lanes_of_phase(&self, warp: &[i64]) -> u32 {
        let words = self.bits.div_ceil(BANK_BITS);
        let lanes = WARP / words;
        // A missing lane agrees with every other lane.
        let agrees = |step: usize| {
            let other = |lane: usize| warp.get(lane ^ step);
            warp.iter().enumerate().all(|(i, at)| other(i).is_none_or(|other| other == at))
        };
        if words > 1 && (agrees(1) || agrees(2)) { 2 * lanes } else { lanes }
    }

    /// Returns the distinct units of `unit_bits` that these accesses touch, sorted.
    #[inline]
    fn units(&self, addresses: &[i64], unit_bits: u32) -> Vec<i64> {
        let unit = i64::from(unit_bits);
        let each = i64::from(self.bits.div_ceil(unit_bits));
        let mut units: Vec<i64> = addresses
            .iter()
            .flat_map(|address| (0..each).map(move |i| address.div_euclid(unit) + i))
            .collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}

/// One phase of an access to shared memory: the lanes that are served together.
/// [`BankConflicts::phases`] lists them, so that you can see which lanes conflict. The hardware
/// splits a warp into several phases if each lane accesses more than 4 bytes.
///
/// ```
/// use tilewright::layout::{Analysis, layout};
/// // 32 threads read every second word: two words of each even bank.
/// let report = layout!(64:1).bank_conflicts(&layout!(32:2), 1, 32)?;
/// let phase = report.phases()[0];
/// assert_eq!((phase.warp, phase.first_lane, phase.lanes, phase.words), (0, 0, 32, 32));
/// assert_eq!((phase.degree, phase.bank), (2, 0));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BankPhase {
    /// The index of the warp among the threads of the access.
    pub warp: u64,
    /// The first lane of the phase.
    pub first_lane: u32,
    /// How many lanes the phase has.
    pub lanes: u32,
    /// How many distinct words the lanes access.
    pub words: u32,
    /// The most distinct words in one bank, which is how many wavefronts the phase takes. 1 means
    /// no conflict.
    pub degree: u32,
    /// The bank that has `degree` words. If several have as many, it is the lowest.
    pub bank: u32,
}

/// The bank conflicts of an access to shared memory.
/// [`Analysis::bank_conflicts`](super::Analysis::bank_conflicts) returns it, and it prints as a
/// sentence. Compare its [`wavefronts`](BankConflicts::wavefronts) to choose between layouts.
///
/// ```
/// use tilewright::layout::{Analysis, layout};
/// // 8 bytes a thread, every second double word: the half warps are served one after the other.
/// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
/// assert_eq!(report.phases().len(), 2);
/// assert_eq!((report.degree(), report.wavefronts(), report.conflicts()), (2, 4, 2));
/// assert_eq!(report.to_string(), "32 threads x 64 bits: 2-way bank conflict (2 words of bank 0 in lanes 0..16 of warp 0); 4 wavefronts in 2 phases");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BankConflicts {
    access_bits: u32,
    threads: u64,
    phases: Vec<BankPhase>,
}

impl BankConflicts {
    /// Returns how many bits a thread accesses at once.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert_eq!(report.access_bits(), 64);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn access_bits(&self) -> u32 {
        self.access_bits
    }

    /// Returns the phases, warp by warp. Use it to find out which lanes conflict.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert_eq!(report.phases().len(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn phases(&self) -> &[BankPhase] {
        &self.phases
    }

    /// Returns the phase with the most words in one bank; if there are several, the first. It is
    /// `None` if no thread accesses memory.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert_eq!(report.worst().map(|phase| phase.degree), Some(2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn worst(&self) -> Option<&BankPhase> {
        self.phases.iter().rev().max_by_key(|phase| phase.degree)
    }

    /// Returns the `n` of the worst `n`-way conflict. It is 1 if there is no conflict.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert_eq!(report.degree(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn degree(&self) -> u32 {
        self.worst().map_or(1, |phase| phase.degree)
    }

    /// Returns true if there are no bank conflicts. A test of a layout can assert it.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert!(!report.is_free());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_free(&self) -> bool {
        self.degree() <= 1
    }

    /// Returns how many wavefronts the access takes: the sum of the phases' degrees. The time of an
    /// access grows with it.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert_eq!(report.wavefronts(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn wavefronts(&self) -> u64 {
        self.phases.iter().map(|phase| u64::from(phase.degree)).sum()
    }

    /// Returns how many wavefronts the conflicts add: the sum of `degree - 1` over the phases. It
    /// is what a better layout can save.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:2).bank_conflicts(&layout!(32:2), 2, 32)?;
    /// assert_eq!(report.conflicts(), 2);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn conflicts(&self) -> u64 {
        self.wavefronts() - self.phases.len() as u64
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl fmt::Display for BankConflicts {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.threads;
        write!(f, "{threads} thread{} x {} bits: ", plural(threads), self.access_bits)?;
        match self.worst() {
            Some(&BankPhase { warp, first_lane, lanes, degree, bank, .. }) if degree > 1 => write!(
                f,
                "{degree}-way bank conflict ({degree} words of bank {bank} in lanes {first_lane}..{} of warp {warp})",
                first_lane + lanes
            )?,
            _ => f.write_str("no bank conflicts")?,
        }
        let (wavefronts, phases) = (self.wavefronts(), self.phases.len() as u64);
        write!(
            f,
            "; {wavefronts} wavefront{} in {phases} phase{}",
            plural(wavefronts),
            plural(phases)
        )
    }
}

#[inline]
pub(super) fn bank_conflicts(
    offsets: &Offsets<'_>,
    threads: &Layout,
    vector: u32,
    element_bits: u32,
) -> Result<BankConflicts> {
    let accesses = Accesses::new(offsets, threads, vector, element_bits)?;
    let mut phases = Vec::new();
    for (warp, addresses) in accesses.warps() {
        let step = accesses.lanes_of_phase(addresses);
        for (first_lane, phase) in (0..).step_by(step as usize).zip(addresses.chunks(step as usize))
        {
            let words = accesses.units(phase, BANK_BITS);
            let mut in_bank = [0u32; BANKS as usize];
            for word in &words {
                if let Some(count) = in_bank.get_mut(word.rem_euclid(i64::from(BANKS)) as usize) {
                    *count += 1;
                }
            }
            let degree = in_bank.iter().copied().max().unwrap_or(0);
            let bank = in_bank.iter().position(|&count| count == degree).unwrap_or(0);
            phases.push(BankPhase {
                warp,
                first_lane,
                lanes: phase.len() as u32,
                words: words.len() as u32,
                degree,
                bank: bank as u32,
            });
        }
    }
    Ok(BankConflicts {
        access_bits: accesses.bits,
        threads: accesses.addresses.len() as u64,
        phases,
    })
}

/// The sectors that a warp touches in one access to global memory. [`Sectors::warps`] lists them,
/// so that you can find the warp that wastes bandwidth.
///
/// ```
/// use tilewright::layout::{Analysis, layout};
/// // 32 threads read every second of 64 numbers of 4 bytes: 8 sectors of 32 bytes, half of them used.
/// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
/// let warp = report.warps()[0];
/// assert_eq!((warp.warp, warp.lanes, warp.sectors, warp.bytes), (0, 32, 8, 128));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpSectors {
    /// The index of the warp among the threads of the access.
    pub warp: u64,
    /// How many of the warp's threads access memory.
    pub lanes: u32,
    /// How many distinct 32-byte sectors the warp touches.
    pub sectors: u32,
    /// How many distinct bytes of these sectors it uses.
    pub bytes: u32,
}

impl WarpSectors {
    /// Returns how many sectors would be enough for as many bytes, if the warp accessed them
    /// contiguously.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.warps()[0].ideal(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn ideal(&self) -> u32 {
        self.bytes.div_ceil(SECTOR_BITS / 8)
    }
}

/// The sectors that an access to global memory touches.
/// [`Analysis::sectors`](super::Analysis::sectors) returns it, and it prints as a sentence. Its
/// [`efficiency`](Sectors::efficiency) says whether the access is coalesced.
///
/// ```
/// use tilewright::layout::{Analysis, layout};
/// let report = layout!((64, 64):(1, 64)).sectors(&layout!(64:2), 2, 16)?;
/// assert_eq!((report.warps().len(), report.sectors(), report.ideal()), (2, 8, 8));
/// assert_eq!(report.to_string(), "64 threads x 32 bits: 8 sectors for 256 bytes (100 % used)");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sectors {
    access_bits: u32,
    threads: u64,
    warps: Vec<WarpSectors>,
}

impl Sectors {
    /// Returns how many bits a thread accesses at once.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.access_bits(), 32);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn access_bits(&self) -> u32 {
        self.access_bits
    }

    /// Returns the report of each warp. Use it to find the warp that wastes bandwidth.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.warps().len(), 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn warps(&self) -> &[WarpSectors] {
        &self.warps
    }

    /// Returns the sum of all warps' sectors. A sector that two warps touch counts twice. It is
    /// proportional to the memory traffic.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.sectors(), 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn sectors(&self) -> u64 {
        self.warps.iter().map(|warp| u64::from(warp.sectors)).sum()
    }

    /// Returns how many distinct bytes of their sectors the warps use, summed over all warps.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.bytes(), 128);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn bytes(&self) -> u64 {
        self.warps.iter().map(|warp| u64::from(warp.bytes)).sum()
    }

    /// Returns how many sectors would be enough for as many bytes per warp, to compare with
    /// [`sectors`](Sectors::sectors).
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.ideal(), 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn ideal(&self) -> u64 {
        self.warps.iter().map(|warp| u64::from(warp.ideal())).sum()
    }

    /// Returns which share of the bytes in the touched sectors is used, from 0 to 1. An access is
    /// fully coalesced at 1.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!(64:1).sectors(&layout!(32:2), 1, 32)?;
    /// assert_eq!(report.efficiency(), 0.5);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn efficiency(&self) -> f64 {
        self.bytes() as f64 / (self.sectors() * u64::from(SECTOR_BITS / 8)).max(1) as f64
    }
}

impl fmt::Display for Sectors {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, sectors, bytes) = (self.threads, self.sectors(), self.bytes());
        write!(
            f,
            "{threads} thread{} x {} bits: {sectors} sector{} for {bytes} byte{} ({} % used)",
            plural(threads),
            self.access_bits,
            plural(sectors),
            plural(bytes),
            (self.efficiency() * 1000.0).round() / 10.0
        )?;
        if self.ideal() < sectors {
            write!(f, ", {} would do", self.ideal())?;
        }
        Ok(())
    }
}

#[inline]
pub(super) fn sectors(
    offsets: &Offsets<'_>,
    threads: &Layout,
    vector: u32,
    element_bits: u32,
) -> Result<Sectors> {
    let accesses = Accesses::new(offsets, threads, vector, element_bits)?;
    let warps = accesses.warps().map(|(warp, addresses)| {
        let used = accesses.units(addresses, accesses.bits).len() as u32;
        WarpSectors {
            warp,
            lanes: addresses.len() as u32,
            sectors: accesses.units(addresses, SECTOR_BITS).len() as u32,
            bytes: used * accesses.bits / 8,
        }
    });
    Ok(Sectors {
        access_bits: accesses.bits,
        threads: accesses.addresses.len() as u64,
        warps: warps.collect(),
    })
}
