//! Heat maps: for each operation, the words of shared memory and the sectors of global memory that its lanes access.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sim) enum Mapped {
    /// Shared memory of the blocks of the cluster, all as one.
    Shared,
    /// The buffer of a parameter.
    Global(usize),
}

/// The maps of a cluster, by step, memory and unit.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Heat {
    pub(in crate::sim) units: HashMap<(u32, Mapped, u64), Unit>,
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
        let (units, truncated) = (&mut self.units, &mut self.truncated);
        access.units_with_excess(|unit, excess| {
            let is_full = units.len() >= MOST;
            let found = match units.entry((step, mapped, unit)) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(_) if is_full => {
                    *truncated = true;
                    return;
                }
                Entry::Vacant(entry) => entry.insert(Unit::default()),
            };
            found.accesses += 1;
            found.excess += excess;
        });
    }
}
