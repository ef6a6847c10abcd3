//! Heat maps: for each operation, which words of shared memory and which sectors of global memory
//! its lanes access, so that a trace can show bank conflicts and uncoalesced accesses.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::counts::LaneAccess;
use crate::sim::race::Target;

/// How many units all maps together may hold.
const MOST: usize = 1 << 16;

/// The accesses to one word of shared memory or one sector of global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sim) struct Unit {
    /// How many warp accesses touched it.
    pub(in crate::sim) accesses: u32,
    /// For a word, how often its bank served another word first. For a sector, how many bytes were
    /// moved and not used.
    pub(in crate::sim) excess: u32,
}

/// Which memory a map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::sim) enum Mapped {
    /// Shared memory, all blocks of the cluster together.
    Shared,
    /// A parameter's buffer.
    Global(usize),
}

/// A cluster's maps, by step, memory and unit.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct Heat {
    pub(in crate::sim) units: HashMap<(u32, Mapped, u64), Unit>,
    /// Set if there was no room for some units.
    pub(in crate::sim) truncated: bool,
}

impl Heat {
    /// Adds an access by lanes.
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
