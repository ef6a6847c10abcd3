//! Protects shared memory that asynchronous operations in flight still read or write: an access
//! that conflicts with such an operation before it has completed is a fault. This finds missing
//! waits and stages that are refilled too early.
//!
//! A `wgmma` reads its operands until a warp of its group has waited for the `wgmma`. A bulk store
//! reads its source until the thread that issued the store has waited for these reads. A load
//! writes its destination until it completes. Until then, no thread may write the bytes that the
//! operation reads, nor access the bytes that the operation writes. For `wgmma` and stores it does
//! not matter when the simulator executes the operation.
//!
//! Each write is compared with the operations in flight. Reads cost nothing extra: the destination
//! of a load counts as never written while the load is in flight, so only a read of unwritten bytes
//! has to search for a load in flight.
//!
//! We do not track which thread waited: once any wait returns, the copy counts as complete for
//! every thread. This never reports a false fault, but it can miss a thread that relies on another
//! thread's wait without synchronising with it. The race detector finds such a thread.

use std::ops::Range;

use crate::ir::types::{Scalar, Space};
use crate::sim::fault::raw::{AccessAt, Origin, StepAt};
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::fault::state::AsyncUse;
use crate::sim::memory::address::Address;
use crate::sim::memory::agent::{BlockBytes, Global, Load, RemoteStore, What, overlap};
use crate::sim::memory::cluster_memory::Memory;
use crate::sim::memory::lanes::Regs;
use crate::sim::memory::mask::{LANES, lanes_of};
use crate::sim::memory::races::{Detector, mbarrier_address};
use crate::sim::memory::shared::{ByteAddress, SharedRange, of_cluster};
use crate::sim::memory::space::{Allocation, MemorySpace};
use crate::sim::race::{MbarrierWrite, Pieces};

impl What {
    /// Returns a range of shared memory that contains all bytes that the operation, issued by block
    /// `from`, still uses, and how it uses them.
    fn hull(&self, from: usize, memory: &Memory<'_>) -> Option<(AsyncUse, BlockBytes)> {
        let bytes = |rank, range| BlockBytes { rank, range };
        Some(match self {
            What::Store(store) if store.waited => return None,
            What::Store(store) => (AsyncUse::Reads, bytes(from, store.hull(memory))),
            What::Load(load) => (AsyncUse::Writes, bytes(load.block as usize, load.hull(memory))),
            // Reductions may overlap each other.
            What::Remote(store) if store.is_reduction() => return None,
            What::Remote(store) => (AsyncUse::Writes, store.bytes()),
            What::Copies(copies) => (AsyncUse::Writes, bytes(from, copies.hull())),
            What::Arrivals(_) => return None,
        })
    }

    /// Returns whether the operation uses one of these bytes, which are inside its hull.
    fn uses(&self, memory: &Memory<'_>, bytes: &Range<usize>) -> bool {
        let mut uses = false;
        let mut piece = |at: usize, part: Range<usize>| {
            uses |= overlap(&(at..at + part.len()), bytes);
        };
        match self {
            What::Store(store) => store.pieces(memory, piece),
            What::Load(load) => load.pieces(memory, piece),
            What::Copies(copies) => copies.each(|at, len| piece(at, 0..len)),
            What::Remote(_) => return true,
            What::Arrivals(_) => {}
        }
        uses
    }
}

impl Memory<'_> {
    /// Returns a copy or store in flight that uses one of the bytes in this way: exactly, or as a
    /// quick upper bound.
    fn copies(&self, bytes: &BlockBytes, exactly: bool, how: AsyncUse) -> Option<Origin> {
        let BlockBytes { rank, range } = bytes;
        let found = self.pending.iter().find(|task| {
            if let (AsyncUse::Reads, What::Load(load)) = (how, &task.what) {
                let source = load.shared_source();
                return source
                    .is_some_and(|read| read.rank == *rank && overlap(&read.range, range));
            }
            let hull = task.what.hull(task.origin.block as usize, self);
            hull.is_some_and(|(found, hull)| {
                (found, hull.rank) == (how, *rank)
                    && overlap(&hull.range, range)
                    && (!exactly || task.what.uses(self, range))
            })
        });
        found.map(|task| task.origin)
    }

    /// Returns a `wgmma` or a store in flight that reads one of the bytes: exactly, or as a quick
    /// upper bound.
    fn reader(&self, bytes: &BlockBytes, exactly: bool) -> Option<Origin> {
        // All operations that read shared memory do so through the asynchronous proxy.
        self.proxies.as_ref()?;
        let groups = &self.blocks[bytes.rank].groups;
        let multiplied = groups.iter().find_map(|group| group.reader(&bytes.range, exactly));
        multiplied.or_else(|| self.copies(bytes, exactly, AsyncUse::Reads))
    }

    /// Returns the cause if one of the bytes that `access` writes is in use. `each` calls its
    /// argument with the bytes, which are all inside `hull`.
    fn check_write(
        &self,
        hull: &BlockBytes,
        access: impl FnOnce() -> AccessAt,
        each: impl Fn(&mut dyn FnMut(Range<usize>)),
    ) -> Result<(), RawCause> {
        let (mut found, rank) = (None, hull.rank);
        let shared = &self.blocks[rank].shared;
        each(&mut |range| {
            if found.is_none() && shared.has_incoming(&range) {
                let writer = self.copies(&BlockBytes { rank, range }, true, AsyncUse::Writes);
                found = writer.map(|origin| (AsyncUse::Writes, origin));
            }
        });
        if found.is_none() && self.reader(hull, false).is_some() {
            each(&mut |range| {
                if found.is_none() {
                    let reader = self.reader(&BlockBytes { rank, range }, true);
                    found = reader.map(|origin| (AsyncUse::Reads, origin));
                }
            });
        }
        match found {
            None => Ok(()),
            Some((how, Origin { step, .. })) => {
                Err(RawCause::InFlight { access: access().write(), how, op: StepAt(step) })
            }
        }
    }

    /// Returns a fault if a lane of `mask` stores `bytes` bytes of which some are in use.
    /// `byte_addresses` holds each lane's block rank and first byte.
    pub(in crate::sim) fn check_stores(
        &self,
        mask: u32,
        byte_addresses: &[(usize, usize); LANES],
        bytes: usize,
        access: impl Fn(usize) -> AccessAt,
    ) -> RawResult {
        let mut lanes = lanes_of(mask);
        let Some((rank, start)) = lanes.next().map(|lane| byte_addresses[lane]) else {
            return Ok(());
        };
        // Lanes may point into different blocks of the cluster.
        let hull = lanes.try_fold((rank, start..start + bytes), |(rank, hull), lane| {
            let (other, at) = byte_addresses[lane];
            let hull = hull.start.min(at)..hull.end.max(at + bytes);
            (other == rank).then_some((rank, hull))
        });
        let incoming = lanes_of(mask).any(|lane| {
            let (rank, at) = byte_addresses[lane];
            self.blocks[rank].shared.has_incoming(&(at..at + bytes))
        });
        if !incoming
            && hull.is_some_and(|(rank, range)| {
                self.reader(&BlockBytes { rank, range }, false).is_none()
            })
        {
            return Ok(());
        }
        for lane in lanes_of(mask) {
            let (rank, at) = byte_addresses[lane];
            let range = at..at + bytes;
            let bytes = BlockBytes { rank, range: range.clone() };
            let checked = self.check_write(&bytes, || access(lane), |f| f(range.clone()));
            checked.map_err(|cause| RawFault::new(lane, cause))?;
        }
        Ok(())
    }

    /// Tracks the stores to shared memory that a warp's access has just performed, and checks them
    /// against the operations in flight.
    pub(in crate::sim) fn note_stores(
        &mut self,
        address: &Address,
        regs: &Regs,
        mask: u32,
    ) -> RawResult {
        let bytes = address.bytes_accessed();
        let (mut byte_addresses, mut shared) = ([(0, 0); LANES], 0);
        for lane in lanes_of(mask) {
            let Allocation { memory_space, number } = address.allocation(regs, lane);
            let rank = match memory_space {
                MemorySpace::Shared => self.here,
                MemorySpace::Cluster => of_cluster(number).0 as usize,
                MemorySpace::Global | MemorySpace::Const | MemorySpace::Local => continue,
            };
            let byte_address = address.byte_address(regs, self, lane, bytes, 1)?;
            self.note_store(rank, byte_address.at, bytes as usize);
            byte_addresses[lane] = (rank, byte_address.at);
            shared |= 1 << lane;
        }
        let access = |lane| address.access_at(regs, self, lane, bytes);
        self.check_stores(shared, &byte_addresses, bytes as usize, access)
    }

    /// Starts a load: checks it, passes it to the race detector, and marks its destination as
    /// unwritten.
    pub(in crate::sim) fn begin_load(&mut self, origin: Origin, mut load: Load) -> RawResult {
        load.check_source(self)?;
        self.check_started(origin, 1 << load.lane, load.block);
        let (rank, lane) = (load.block as usize, load.lane);
        let access = || {
            let elem = load.elem(self);
            let range = self.blocks[rank].shared.range(load.to.alloc);
            access_at(Space::Shared, load.to, elem, load.bytes, range)
        };
        let mut pieces = Vec::new();
        load.pieces(self, |at, part| pieces.push(at..at + part.len()));
        let each = |f: &mut dyn FnMut(Range<usize>)| pieces.iter().cloned().for_each(f);
        let hull = BlockBytes { rank, range: load.hull(self) };
        self.check_write(&hull, access, each).map_err(|cause| RawFault::new(lane, cause))?;
        load.number = self.detect_load(origin, &load, &pieces);
        let shared = &mut self.blocks[rank].shared;
        let again =
            pieces.into_iter().fold(false, |again, piece| shared.begin_write(piece) | again);
        self.issue(origin, What::Load(Box::new(load)), again);
        Ok(())
    }

    /// Passes a load to the race detector, and returns the detector's number for it.
    fn detect_load(&mut self, origin: Origin, load: &Load, pieces: &[Range<usize>]) -> u32 {
        let (at, lane, rank) = (origin.into(), load.lane as u32, load.block as usize);
        let (mut number, elem) = (0, load.elem(self));
        self.detect(elem, |Detector { races, buffers, .. }, memory| {
            races.mbarrier_use(at, 1 << lane, mbarrier_address(load.block, load.barrier), true);
            let param = match load.from {
                Global::Bytes(from) => from.alloc,
                Global::Box { map, .. } => memory.param_of_map(map),
            };
            let write = MbarrierWrite { rank, is_async: true, reduces: false };
            let mut to = |f: &mut dyn FnMut(usize, usize)| {
                pieces.iter().for_each(|piece| f(piece.start, piece.len()));
            };
            let mut from = |f: &mut dyn FnMut(usize, usize)| load.sources(memory, f);
            if load.source.is_some() {
                number = races.load_issue(at, lane, write, &mut to, None);
                return races.source_read(at, lane, number, &mut from);
            }
            let buffer = buffers.get(param as usize).copied().flatten();
            let from: Option<(usize, Pieces<'_>)> = match buffer {
                None => None,
                Some(buffer) => Some((buffer, &mut from)),
            };
            number = races.load_issue(at, lane, write, &mut to, from);
        });
        number
    }

    /// Passes a store to another block to the race detector, and returns the detector's number for
    /// it.
    fn detect_remote(&mut self, origin: Origin, store: &RemoteStore) -> u32 {
        let BlockBytes { rank, range } = store.bytes();
        let (at, lane) = (origin.into(), store.lane as u32);
        let mut number = 0;
        self.detect(store.elem, |Detector { races, .. }, _| {
            races.mbarrier_use(at, 1 << lane, store.signals(), false);
            let mut to = |f: &mut dyn FnMut(usize, usize)| f(range.start, range.len());
            let write = MbarrierWrite { rank, is_async: false, reduces: store.is_reduction() };
            number = races.load_issue(at, lane, write, &mut to, None);
        });
        number
    }

    /// Starts a store to another block of the cluster.
    pub(in crate::sim) fn begin_remote(
        &mut self,
        origin: Origin,
        mut store: RemoteStore,
    ) -> RawResult {
        let bytes = store.bytes();
        let (rank, elem) = (bytes.rank, store.elem);
        self.check_started(origin, 1 << store.lane, rank as u32);
        let access = || {
            let range = self.blocks[rank].shared.range(store.to.alloc);
            access_at(Space::SharedCluster, store.to, elem, elem.size_bytes(), range)
        };
        self.check_write(&bytes, access, |f| f(bytes.range.clone()))
            .map_err(|cause| RawFault::new(store.lane, cause))?;
        store.number = self.detect_remote(origin, &store);
        let again = !store.is_reduction() && self.blocks[rank].shared.begin_write(bytes.range);
        self.issue(origin, What::Remote(Box::new(store)), again);
        Ok(())
    }

    /// Refines the cause of a read of unwritten bytes: if a load that writes these bytes is in
    /// flight, the cause names the load.
    pub(in crate::sim) fn explain_read(&self, here: usize, cause: RawCause) -> RawCause {
        let writer = |rank: usize, at: usize| {
            let byte = BlockBytes { rank, range: at..at + 1 };
            self.copies(&byte, true, AsyncUse::Writes).map(|origin| origin.step)
        };
        match cause {
            RawCause::Uninitialised { access, byte } => {
                let rank = match access.space {
                    Space::SharedCluster => of_cluster(access.alloc).0 as usize,
                    Space::Shared => here,
                    Space::Global | Space::Const | Space::Local | Space::Generic => return cause,
                };
                let start = self.blocks[rank].shared.range(access.alloc).start;
                match writer(rank, start + byte as usize) {
                    Some(step) => {
                        let how = AsyncUse::Writes;
                        RawCause::InFlight { access, how, op: StepAt(step) }
                    }
                    None => cause,
                }
            }
            RawCause::MatrixUninitialised { which, address } => {
                match writer(here, address as usize) {
                    Some(step) => RawCause::MatrixInFlight { which, address, op: StepAt(step) },
                    None => cause,
                }
            }
            _ => cause,
        }
    }
}

/// Describes an access to the bytes at `to`, in an allocation at `range`, for a fault.
fn access_at(
    space: Space,
    to: ByteAddress,
    elem: Scalar,
    bytes: u32,
    range: SharedRange,
) -> AccessAt {
    AccessAt {
        is_store: None,
        space,
        alloc: to.alloc,
        elem,
        byte: to.at.saturating_sub(range.start) as i128,
        bytes,
        align: elem.size_bytes(),
        len_bytes: range.len as u64,
    }
}
