//! Heat maps: for each operation, the words of shared memory and the sectors of global memory that its lanes access.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::counts::LaneAccess;
use crate::sim::race::Target;

/// Upper bound on the units of all maps.
const MOST: usize = 1 << 16;

/// Accesses to a word of shared memory or to a sector of global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Unit {
    /// Accesses by warps.
    pub(in crate::sim) accesses: u32,
    /// Of a word: accesses in which its bank served another word first. Of a sector: bytes that were moved and not used.
    pub(in crate::sim) excess: u32,
}

/// The memory of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) enum Mapped {
    /// Shared memory of the blocks of the cluster, all as one.
    Shared,
    /// The buffer of a parameter.
    Global(usize),
}

/// The maps of a cluster, by step and memory.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Heat {
    pub(in crate::sim) maps: BTreeMap<(u32, Mapped), BTreeMap<u64, Unit>>,
    units: usize,
    /// Set if units were left out.
    pub(in crate::sim) truncated: bool,
}

impl Heat {
    /// Adds an access of lanes.
    pub(in crate::sim) fn add(&mut self, step: u32, access: &LaneAccess<'_>) {
        let mapped = match access.target {
            Target::Shared(_) => Mapped::Shared,
            Target::Global(param) => Mapped::Global(param),
        };
        let map = self.maps.entry((step, mapped)).or_default();
        let (units, truncated) = (&mut self.units, &mut self.truncated);
        access.units_with_excess(|unit, excess| {
            let found = match map.entry(unit) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(_) if *units >= MOST => {
                    *truncated = true;
                    return;
                }
                Entry::Vacant(entry) => {
                    *units += 1;
                    entry.insert(Unit::default())
                }
            };
            found.accesses += 1;
            found.excess += excess;
        });
    }
}
