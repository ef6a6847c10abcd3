//! Asynchronous operations in flight, as plain data: what each of them copies, and which mbarrier
//! it signals. The files in `engine/` issue and execute them.

use std::ops::Range;

use super::mask::LANES;
use super::shared::ByteAddress;
use crate::ir::op::BulkReduce;
use crate::ir::types::Scalar;
use crate::sim::fault::raw::Origin;

/// A box's coordinates. Those beyond the tensor's rank are ignored.
pub(in crate::sim) type Coords = [i32; MAX_COORDS];
/// At most 5 coordinates and 3 im2col offsets.
pub(in crate::sim) const MAX_COORDS: usize = 8;

/// Bytes of a block's shared memory.
#[derive(Clone, Debug)]
pub(in crate::sim) struct BlockBytes {
    /// The block's rank in its cluster.
    pub(in crate::sim) rank: usize,
    pub(in crate::sim) range: Range<usize>,
}

/// Returns whether two ranges have a byte in common.
pub(in crate::sim) fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The side of a copy that is in global memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Global {
    /// Bytes of a buffer.
    Bytes(ByteAddress),
    /// A box of a tensor, given by the index of its tensor map and its coordinates.
    Box { map: u32, coords: Coords },
}

/// A copy to a block's shared memory that signals an mbarrier there.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct Load {
    pub(in crate::sim) lane: usize,
    /// The block's rank.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) from: Global,
    /// If the source is shared memory: its block's rank.
    pub(in crate::sim) source: Option<u32>,
    pub(in crate::sim) to: ByteAddress,
    pub(in crate::sim) bytes: u32,
    pub(in crate::sim) barrier: ByteAddress,
    /// Its number in the race detector.
    pub(in crate::sim) number: u32,
}

/// A bulk or tensor copy from shared memory.
#[derive(Debug)]
pub(in crate::sim) struct Store {
    pub(in crate::sim) lane: usize,
    pub(in crate::sim) group: u32,
    pub(in crate::sim) to: Global,
    pub(in crate::sim) from: ByteAddress,
    pub(in crate::sim) bytes: u32,
    pub(in crate::sim) reduce: Option<BulkReduce>,
    /// The bytes, once they have been read.
    pub(in crate::sim) data: Option<Vec<u8>>,
    /// Set when the thread has waited for the reads.
    pub(in crate::sim) waited: bool,
}

/// A warp's `cp.async`, with one copy for each of `lanes`.
#[derive(Debug)]
pub(in crate::sim) struct Copies {
    pub(in crate::sim) lanes: u32,
    /// Each lane's group.
    pub(in crate::sim) groups: [u32; LANES],
    /// How many bytes each lane copies.
    pub(in crate::sim) bytes: usize,
    pub(in crate::sim) to: [u32; LANES],
    /// A range of shared memory that contains all destinations.
    pub(in crate::sim) hull: [u32; 2],
    pub(in crate::sim) from: [(u32, usize); LANES],
    /// How many bytes each lane reads. The rest of its destination becomes zero.
    pub(in crate::sim) read: [u8; LANES],
}

/// Arrivals at mbarriers that wait for the lanes' earlier `cp.async` (`cp.async.mbarrier.arrive`).
#[derive(Debug)]
pub(in crate::sim) struct Arrivals {
    pub(in crate::sim) lanes: u32,
    pub(in crate::sim) barriers: [Option<ByteAddress>; LANES],
    /// How many `cp.async` the warp has issued before this operation, by the race detector's count.
    pub(in crate::sim) copies: u32,
}

/// A store to a block's shared memory that signals an mbarrier there.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct RemoteStore {
    pub(in crate::sim) lane: usize,
    /// The block's rank.
    pub(in crate::sim) block: u32,
    pub(in crate::sim) to: ByteAddress,
    pub(in crate::sim) elem: Scalar,
    /// The element's bits.
    pub(in crate::sim) value: u64,
    pub(in crate::sim) reduce: Option<BulkReduce>,
    pub(in crate::sim) barrier: ByteAddress,
    /// Its number in the race detector.
    pub(in crate::sim) number: u32,
}

/// An asynchronous operation that has not completed.
#[derive(Debug)]
pub(in crate::sim) struct Task {
    pub(in crate::sim) origin: Origin,
    pub(in crate::sim) what: What,
    /// Set if the task overwrites written bytes of shared memory, until it has been offered to
    /// [`Memory::complete_again`].
    pub(in crate::sim) again: bool,
    /// Its index in the timeline, if the run is recorded.
    pub(in crate::sim) flight: u32,
    /// The warp scheduler's round in which it was issued.
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

/// A cluster's tasks, in issue order.
#[derive(Debug, Default)]
pub(in crate::sim) struct Pending {
    pub(in crate::sim) tasks: Vec<Task>,
    /// The warp scheduler's current round.
    pub(in crate::sim) round: u64,
}

impl Pending {
    /// Issues an operation. `again` says whether it writes over bytes that were written before.
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
