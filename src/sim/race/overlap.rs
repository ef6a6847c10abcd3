//! Races between launches that may overlap: a programmatic launch (programmatic dependent launch),
//! and the launches before it in its stream.
//!
//! The simulator runs each launch to its end before the next one begins. So a launch leaves a
//! [`Footprint`]: one write and one read for each word of global memory that the launch accessed. A
//! later programmatic launch compares its accesses with the footprints of the launches that may
//! still run. `griddepcontrol.wait` orders the end of the previous launch before the thread that
//! waits. That edge is the clock entry [`LAUNCHES`](super::clock::LAUNCHES), so it travels through
//! barriers like all other knowledge. `griddepcontrol.launch_dependents` orders nothing.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::layout::Layout;
use super::record::{Access, Record};
use super::shadow::PAGE;

/// What a launch accessed in global memory.
#[derive(Debug, Default)]
pub(in crate::sim) struct Footprint {
    pub(super) layout: Layout,
    /// By allocation.
    touched: HashMap<u64, Pages>,
}

type Pages = Vec<Option<Box<[Touched]>>>;

/// One write and one read of a word.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    write: Record,
    read: Record,
}

impl Touched {
    /// Adds an access. Accesses of different launches are never ordered with each other, so
    /// one of each kind is enough.
    fn add(&mut self, new: Record) {
        let old = if new.writes() { &mut self.write } else { &mut self.read };
        if old.bytes() == 0 {
            *old = new;
        } else if !old.take_same(&new) {
            // A weak access races with more than a strong one does, so it is the one to keep.
            match (is_strong(old), is_strong(&new)) {
                (false, true) => {}
                (true, false) => *old = new,
                _ => *old = new.with_bytes(old.bytes()),
            }
        }
    }

    /// Returns an access that races with a new one, and the bytes that both touch.
    fn clash(&self, new: &Record) -> Option<(Record, u32)> {
        let races = |old: &&Record| {
            let strong = is_strong(old) && is_strong(new) && old.is_async() == new.is_async();
            old.bytes() & new.bytes() != 0 && !strong
        };
        let read = new.writes().then_some(&self.read);
        let found = [Some(&self.write), read].into_iter().flatten().find(races)?;
        Some((*found, found.bytes() & new.bytes()))
    }
}

/// Returns whether a strong operation's scope includes the threads of other launches.
fn is_strong(record: &Record) -> bool {
    record.strong().is_some_and(|scope| scope >= 2)
}

/// A launch that may still run while a later one does.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Before {
    pub(in crate::sim) footprint: Arc<Footprint>,
    /// Whether `griddepcontrol.wait` waits for its end. It always does for the previous launch, and
    /// for an earlier one only if every launch between has waited too.
    pub(in crate::sim) ends: bool,
}

/// An earlier launch's access that races with a new one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlapped {
    /// The launch's index in [`Overlap::before`].
    pub(super) launch: usize,
    pub(super) record: Record,
    /// The byte of the buffer, and the bytes of its word that both touch.
    pub(super) byte: usize,
    pub(super) bytes: u32,
    /// Set if the thread has waited, but a launch between has not.
    pub(super) waited: bool,
}

/// A launch, and the earlier launches that it may overlap with.
#[derive(Debug)]
pub(in crate::sim) struct Overlap {
    /// For each buffer, the id of its allocation and its first byte there.
    places: Vec<(u64, usize)>,
    /// The most recent launch first.
    pub(super) before: Vec<Before>,
    pub(super) own: Footprint,
    /// Set if the next launch may start early, so this one's accesses must be kept.
    keeps: bool,
    /// Set once a thread has waited for the launches before.
    pub(super) waited: bool,
    /// Set once a thread has allowed the next launch to start.
    pub(super) starts_dependents: bool,
}

impl Overlap {
    /// Makes the state of a launch from its buffers, given by their places in their allocations,
    /// and from the earlier launches that may still run.
    pub(in crate::sim) fn new(
        places: Vec<(u64, usize)>,
        before: Vec<Before>,
        keeps: bool,
    ) -> Overlap {
        let own = Footprint::default();
        Overlap { places, before, own, keeps, waited: false, starts_dependents: false }
    }

    /// Compares an access to bytes of a buffer with the earlier launches' footprints, and records
    /// it. `waited` says whether the accessing thread knows that the previous launch has ended.
    pub(super) fn access(
        &mut self,
        access: &Access,
        waited: bool,
        buffer: usize,
        at: usize,
        len: usize,
        clash: &mut dyn FnMut(Overlapped),
    ) {
        let Some((allocation, first)) = self.places.get(buffer).copied() else { return };
        let mut before: SmallVec<[(usize, &Pages); 2]> = SmallVec::new();
        for (launch, found) in self.before.iter().enumerate() {
            if !(waited && found.ends)
                && let Some(pages) = found.footprint.touched.get(&allocation)
            {
                before.push((launch, pages));
            }
        }
        let mut own = self.keeps.then(|| self.own.touched.entry(allocation).or_default());
        if before.is_empty() && own.is_none() {
            return;
        }
        let (mut from, end) = (first + at, first + at + len);
        while from < end {
            let (word, to) = (from / 4, end.min(from / 4 * 4 + 4));
            let new = access.record((15 >> (4 - (to - from))) << (from % 4));
            from = to;
            for (launch, pages) in &before {
                let Some(Some(page)) = pages.get(word / PAGE) else { continue };
                if let Some((record, bytes)) = page[word % PAGE].clash(&new) {
                    let byte = 4 * word + bytes.trailing_zeros() as usize - first;
                    clash(Overlapped { launch: *launch, record, byte, bytes, waited });
                }
            }
            if let Some(pages) = &mut own {
                if pages.len() <= word / PAGE {
                    pages.resize_with(word / PAGE + 1, || None);
                }
                let page = pages[word / PAGE]
                    .get_or_insert_with(|| vec![Touched::default(); PAGE].into_boxed_slice());
                page[word % PAGE].add(new);
            }
        }
    }
}
