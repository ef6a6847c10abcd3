//! Asynchronous operations in flight, as data: the bytes that they copy and the barriers that they signal.
//!
//! `engine/` carries them out.

use std::ops::Range;

use super::mask::LANES;
use super::shared::ByteAddress;
use crate::ir::op::BulkReduce;
use crate::ir::types::Scalar;
use crate::sim::fault::raw::Origin;

/// The coordinates of a box; those beyond the rank of the tensor do not count.
pub(in crate::sim) type Coords = [i32; MAX_COORDS];
/// The maximum number of coordinates, 5, with the maximum number of offsets of im2col mode, 3.
pub(in crate::sim) const MAX_COORDS: usize = 8;

/// The shared memory of a block, by its rank in the cluster: some of its bytes.
pub(in crate::sim) type Bytes = (usize, Range<usize>);

/// Returns whether two ranges have a byte in common.
pub(in crate::sim) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// One side of a copy, in global memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Global {
    /// Bytes of a buffer.
    Bytes(ByteAddress),
    /// The box at some coordinates of the tensor map with a number.
    Box { map: u32, coords: Coords },
}

/// A copy to the shared memory of a block, and to a barrier there.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Load {
    pub(in crate::sim) lane: usize,
    /// The rank of the block.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) from: Global,
    /// The rank of the block whose shared memory has the bytes `from`, if global memory has not.
    pub(in crate::sim) source: Option<u32>,
    pub(in crate::sim) to: ByteAddress,
    pub(in crate::sim) bytes: u32,
    pub(in crate::sim) barrier: ByteAddress,
    /// Its number, as the race detector counts.
    pub(in crate::sim) number: u32,
}

/// A copy from shared memory.
#[derive(Debug)]
pub(in crate::sim) struct Store {
    pub(in crate::sim) lane: usize,
    pub(in crate::sim) group: u32,
    pub(in crate::sim) to: Global,
    pub(in crate::sim) from: ByteAddress,
    pub(in crate::sim) bytes: u32,
    pub(in crate::sim) reduce: Option<BulkReduce>,
    /// The bytes read.
    pub(in crate::sim) data: Option<Vec<u8>>,
    /// Set when the thread has waited for the reads.
    pub(in crate::sim) waited: bool,
}

/// The copies of a warp: those of `lanes`.
#[derive(Debug)]
pub(in crate::sim) struct Copies {
    pub(in crate::sim) lanes: u32,
    /// The group of each lane.
    pub(in crate::sim) groups: [u32; LANES],
    /// Bytes of each copy.
    pub(in crate::sim) bytes: usize,
    pub(in crate::sim) to: [u32; LANES],
    /// A range of shared memory around all destinations.
    pub(in crate::sim) hull: [u32; 2],
    pub(in crate::sim) from: [(u32, usize); LANES],
    /// The bytes that are read; the rest is zero.
    pub(in crate::sim) read: [u8; LANES],
}

/// Arrivals at barriers when the copies before are done, of `lanes`.
#[derive(Debug)]
pub(in crate::sim) struct Arrivals {
    pub(in crate::sim) lanes: u32,
    pub(in crate::sim) barriers: [Option<ByteAddress>; LANES],
    /// The `cp.async` of the warp before it, as the race detector counts them.
    pub(in crate::sim) copies: u32,
}

/// A store to the shared memory of a block of the cluster, and to a barrier there.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct RemoteStore {
    pub(in crate::sim) lane: usize,
    /// The rank of the block.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) to: ByteAddress,
    pub(in crate::sim) elem: Scalar,
    /// The bits of the element.
    pub(in crate::sim) value: u64,
    pub(in crate::sim) reduce: Option<BulkReduce>,
    pub(in crate::sim) barrier: ByteAddress,
    /// Its number, as the race detector counts.
    pub(in crate::sim) number: u32,
}

/// An asynchronous operation that has not taken effect, or not as a whole.
#[derive(Debug)]
pub(in crate::sim) struct Task {
    pub(in crate::sim) origin: Origin,
    pub(in crate::sim) what: What,
    /// Set while the task overwrites written bytes of shared memory and has not been offered to
    /// [`Memory::complete_again`].
    pub(in crate::sim) again: bool,
    /// Its number in the timeline of a run that is recorded.
    pub(in crate::sim) flight: u32,
    /// The round of the warp scheduler in which it was issued.
    pub(in crate::sim) round: u64,
}

#[derive(Debug)]
pub(in crate::sim) enum What {
    Copies(Box<Copies>),
    Arrivals(Box<Arrivals>),
    Load(Box<Load>),
    Store(Box<Store>),
    Remote(Box<RemoteStore>),
}

/// All tasks of a cluster, in the order of their issue.
#[derive(Debug, Default)]
pub(in crate::sim) struct Pending {
    pub(in crate::sim) tasks: Vec<Task>,
    /// The present round of the warp scheduler.
    pub(in crate::sim) round: u64,
}

impl Pending {
    /// Issues an operation; `again` says whether it writes over bytes that were written before.
    pub(in crate::sim) fn push(&mut self, origin: Origin, what: What, again: bool, flight: u32) {
        self.tasks.push(Task { origin, what, again, flight, round: self.round });
    }

    pub(in crate::sim) fn iter(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter()
    }

    pub(in crate::sim) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(in crate::sim) fn clear(&mut self) {
        self.tasks.clear();
        self.round = 0;
    }
}
