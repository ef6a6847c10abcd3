//! Issues asynchronous operations, and records them if the launch asked for a report or a trace, so
//! that a trace shows when each copy started and ended. Every file that issues an operation calls
//! it.

use std::ops::Range;

use crate::sim::fault::raw::Origin;
use crate::sim::memory::agent::{BlockBytes, Global, Load, Store, What};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::mask::lanes_of;
use crate::sim::memory::races::mbarrier_address;
use crate::sim::trace::counts::{MemoryKind, TrafficSource};
use crate::sim::trace::timeline::{AsyncOp, Engine};
use crate::sorting::sort_by_key;

/// The largest gap between pieces of one operand, in bytes, that counts as part of it: the rest of
/// a swizzled row.
const GAP: usize = 256;

/// Joins pieces of at least 1 byte into ranges.
fn joined(mut pieces: Vec<Range<usize>>) -> Vec<Range<usize>> {
    sort_by_key(&mut pieces, |piece| piece.start);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match ranges.last_mut() {
            Some(last) if piece.start <= last.end + GAP => last.end = last.end.max(piece.end),
            _ => ranges.push(piece),
        }
    }
    ranges
}

/// Values for several blocks, each with the block's rank.
type Of<T> = Vec<(usize, T)>;

impl Memory<'_> {
    /// Issues an operation, and records the issue if the run is recorded. `again` says whether the
    /// operation overwrites bytes that were written before.
    pub(super) fn issue(&mut self, origin: Origin, what: What, again: bool) {
        let flight = match self.recorder {
            Some(_) => self.take_off(origin, &what),
            None => 0,
        };
        self.pending.push(origin, what, again, flight);
    }

    /// Records the start of an operation. Returns its index in the timeline.
    #[cold]
    fn take_off(&mut self, origin: Origin, what: &What) -> u32 {
        let here = origin.block as usize;
        let (mut engine, mut bytes) = (Engine::Arrival, 0);
        let (mut barrier, mut group) = (None, None);
        let (mut writes, mut reads): (Of<Vec<Range<usize>>>, Of<Range<usize>>) = Default::default();
        let mut moved: Vec<(MemoryKind, bool, u64)> = Vec::new();
        match what {
            What::Load(load) => {
                (engine, bytes) = (Engine::Load, u64::from(load.bytes));
                barrier = Some(mbarrier_address(load.block, load.barrier));
                writes.push((load.block as usize, self.written(load)));
                moved.push((MemoryKind::Shared, true, bytes));
                match (load.source, load.from) {
                    (Some(rank), Global::Bytes(from)) => {
                        reads.push((rank as usize, from.at..from.at + load.bytes as usize));
                        moved.push((MemoryKind::Shared, false, bytes));
                    }
                    _ => moved.push((MemoryKind::Global, false, bytes)),
                }
            }
            What::Store(store) => {
                (engine, bytes) = (Engine::Store, u64::from(store.bytes));
                reads.extend(self.stored(store).into_iter().map(|range| (here, range)));
                moved = vec![(MemoryKind::Shared, false, bytes), (MemoryKind::Global, true, bytes)];
            }
            What::Remote(store) => {
                let BlockBytes { rank, range } = store.bytes();
                (engine, bytes) = (Engine::Remote, range.len() as u64);
                barrier = Some(store.signals());
                writes.push((rank, vec![range]));
                moved.push((MemoryKind::Shared, true, bytes));
            }
            What::Copies(copies) => {
                engine = Engine::CpAsync;
                bytes = u64::from(copies.lanes.count_ones()) * copies.bytes as u64;
                group = lanes_of(copies.lanes).next().map(|lane| copies.groups[lane]);
                let mut pieces = Vec::new();
                copies.each(|at, len| pieces.push(at..at + len));
                writes.push((here, joined(pieces)));
            }
            What::Arrivals(arrivals) => {
                let first = lanes_of(arrivals.lanes).find_map(|lane| arrivals.barriers[lane]);
                barrier = first.map(|at| mbarrier_address(origin.block, at));
            }
        }
        let mut flight = 0;
        self.record(|recorder| {
            for (memory, stores, bytes) in moved {
                recorder.counts.moved(TrafficSource::Copies, memory, stores, bytes);
            }
            let op = AsyncOp { engine, origin, bytes, barrier, group };
            flight = recorder.timeline.take_off(op, &writes, &reads);
        });
        flight
    }

    fn written(&self, load: &Load) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        load.pieces(self, |at, part| pieces.push(at..at + part.len()));
        joined(pieces)
    }

    fn stored(&self, store: &Store) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        store.pieces(self, |at, part| pieces.push(at..at + part.len()));
        joined(pieces)
    }

    /// Records that a warp has reached a `wgmma`, given by its warp group and number. `chunks`
    /// yields the address of each 16 bytes that it reads.
    #[inline]
    pub(super) fn record_wgmma(
        &mut self,
        origin: Origin,
        group: usize,
        number: u64,
        chunks: impl FnOnce(&mut dyn FnMut(usize)),
    ) {
        self.record(|recorder| {
            let mut pieces = Vec::new();
            chunks(&mut |at| pieces.push(at..at + 16));
            let bytes = 16 * pieces.len() as u64;
            let here = origin.block as usize;
            let reads: Of<Range<usize>> =
                joined(pieces).into_iter().map(|range| (here, range)).collect();
            if recorder.timeline.wgmma(origin, group, number, bytes, &reads) {
                recorder.counts.moved(TrafficSource::TensorCores, MemoryKind::Shared, false, bytes);
            }
        });
    }
}
