//! Defines [`CommGroup`]: collective calls that start together, for threads that make the calls of
//! several ranks.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::call::{CallKind, CallShape, ReduceOp};
use super::communicator::{CommBackend, Communicator};
use super::error::CommError;
use super::nccl;
use super::reduce::reduces;
use super::world::{self, Member};
use crate::ir::Element;
use crate::runtime::buffer::{Buffer, Memory};
use crate::runtime::cuda;
use crate::runtime::error::RuntimeError;
use crate::runtime::stream::{Stream, StreamBackend};

/// Calls of one or more ranks that start together, so that none waits for another call in the
/// group.
///
/// You need a group if one thread makes the calls of several ranks, or if two ranks send to each
/// other. The group borrows its buffers until you call [`run`](CommGroup::run). Dropping it without
/// that does nothing.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::runtime::Device;
/// use tilewright::runtime::comm::{CommGroup, Communicator};
///
/// let devices = [Device::sim_number(0)?, Device::sim_number(1)?];
/// let ranks = Communicator::all(&devices)?;
/// let streams = [devices[0].stream()?, devices[1].stream()?];
/// let x = [devices[0].upload(&[1, 2])?, devices[1].upload(&[3, 4])?];
/// let [mut y, mut z] = [devices[0].zeros::<i32>(2)?, devices[1].zeros::<i32>(2)?];
/// let mut exchange = CommGroup::new();
/// exchange.send(&ranks[0], &streams[0], 1, &x[0])?;
/// exchange.recv(&ranks[0], &streams[0], 1, &mut y)?;
/// exchange.send(&ranks[1], &streams[1], 0, &x[1])?;
/// exchange.recv(&ranks[1], &streams[1], 0, &mut z)?;
/// exchange.run()?;
/// assert_eq!((y.to_vec()?, z.to_vec()?), (vec![3, 4], vec![1, 2]));
/// # }
/// # Ok::<(), tilewright::runtime::RuntimeError>(())
/// ```
#[derive(Default)]
pub struct CommGroup<'b> {
    calls: SmallVec<[Call<'b>; 1]>,
}

/// A call whose arguments are checked. `from` is `None` for `broadcast` and for calls in place.
struct Call<'b> {
    comm: &'b Communicator,
    stream: &'b Stream,
    shape: CallShape,
    from: Option<&'b Memory>,
    to: Option<&'b Memory>,
}

impl<'b> CommGroup<'b> {
    /// Returns an empty group. Add calls with its other methods, then start them with
    /// [`run`](CommGroup::run).
    pub fn new() -> CommGroup<'b> {
        CommGroup::default()
    }

    /// Adds a [`Communicator::all_reduce`] to the group.
    ///
    /// # Errors
    /// [`OtherDevice`](CommError::OtherDevice), [`Length`](CommError::Length),
    /// [`UnsupportedType`](CommError::UnsupportedType).
    pub fn all_reduce<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        op: ReduceOp,
        from: &'b Buffer<T>,
        to: &'b mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let kind = CallKind::AllReduce(op);
        check_len(kind, comm, from.len(), Some(from.len()), to.len())?;
        self.add::<T>(comm, stream, kind, from.len(), Some(from.memory()), Some(to.memory()))
    }

    /// Adds a [`Communicator::all_reduce_in_place`] to the group.
    ///
    /// # Errors
    /// Those of [`CommGroup::all_reduce`].
    pub fn all_reduce_in_place<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        op: ReduceOp,
        data: &'b mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let (len, kind) = (data.len(), CallKind::AllReduce(op));
        self.add::<T>(comm, stream, kind, len, None, Some(data.memory()))
    }

    /// Adds a [`Communicator::all_gather`] to the group, which starts with the group's others.
    ///
    /// # Errors
    /// Those of [`CommGroup::all_reduce`].
    pub fn all_gather<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        from: &'b Buffer<T>,
        to: &'b mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let expected = from.len().checked_mul(comm.ranks() as usize);
        check_len(CallKind::AllGather, comm, from.len(), expected, to.len())?;
        let (from, to, len) = (Some(from.memory()), Some(to.memory()), from.len());
        self.add::<T>(comm, stream, CallKind::AllGather, len, from, to)
    }

    /// Adds a [`Communicator::reduce_scatter`] to the group.
    ///
    /// # Errors
    /// Those of [`CommGroup::all_reduce`].
    pub fn reduce_scatter<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        op: ReduceOp,
        from: &'b Buffer<T>,
        to: &'b mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let (ranks, kind) = (comm.ranks() as usize, CallKind::ReduceScatter(op));
        let expected = from.len().is_multiple_of(ranks).then_some(from.len() / ranks);
        check_len(kind, comm, from.len(), expected, to.len())?;
        self.add::<T>(comm, stream, kind, to.len(), Some(from.memory()), Some(to.memory()))
    }

    /// Adds a [`Communicator::broadcast`] to the group.
    ///
    /// # Errors
    /// Those of [`CommGroup::all_reduce`]; [`Rank`](CommError::Rank).
    pub fn broadcast<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        root: u32,
        data: &'b mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        check_rank(comm, root)?;
        let (len, kind) = (data.len(), CallKind::Broadcast { root });
        self.add::<T>(comm, stream, kind, len, None, Some(data.memory()))
    }

    /// Adds a [`Communicator::send`] to the group.
    ///
    /// # Errors
    /// Those of [`CommGroup::all_reduce`]; [`Rank`](CommError::Rank).
    pub fn send<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        peer: u32,
        from: &'b Buffer<T>,
    ) -> Result<(), RuntimeError> {
        check_rank(comm, peer)?;
        let (len, kind) = (from.len(), CallKind::Send { peer });
        self.add::<T>(comm, stream, kind, len, Some(from.memory()), None)
    }

    /// Adds a [`Communicator::recv`] to the group.
    ///
    /// # Errors
    /// Those of [`CommGroup::all_reduce`]; [`Rank`](CommError::Rank).
    pub fn recv<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        peer: u32,
        to: &'b mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        check_rank(comm, peer)?;
        let (len, kind) = (to.len(), CallKind::Recv { peer });
        self.add::<T>(comm, stream, kind, len, None, Some(to.memory()))
    }

    fn add<T: Element>(
        &mut self,
        comm: &'b Communicator,
        stream: &'b Stream,
        kind: CallKind,
        count: usize,
        from: Option<&'b Memory>,
        to: Option<&'b Memory>,
    ) -> Result<(), RuntimeError> {
        let call = kind.name();
        if kind.reduction().is_some() && !reduces(T::SCALAR) {
            return Err(CommError::UnsupportedType { call, scalar: T::SCALAR }.into());
        }
        let device = comm.device();
        let memory = [("the input", from), ("the output", to)];
        let others = memory.into_iter().filter_map(|(what, memory)| {
            memory.filter(|memory| !memory.is_on(device)).map(|memory| (what, memory.device()))
        });
        let stream_elsewhere = (!stream.is_on(device)).then(|| ("the stream", stream.device()));
        if let Some((what, found)) = others.chain(stream_elsewhere).next() {
            return Err(CommError::OtherDevice {
                call,
                what,
                found: found.to_string(),
                rank: comm.rank(),
                device: device.to_string(),
            }
            .into());
        }
        let shape = CallShape { kind, scalar: T::SCALAR, count };
        self.calls.push(Call { comm, stream, shape, from, to });
        Ok(())
    }

    /// Starts all calls of the group. On GPUs it returns when they are queued, on simulators when
    /// they have ended.
    ///
    /// # Errors
    /// [`MixedGroup`](CommError::MixedGroup); those of [`Communicator::all_reduce`].
    #[inline]
    pub fn run(self) -> Result<(), RuntimeError> {
        let mut simulated: Vec<world::MemberCall> = Vec::new();
        let mut queued: SmallVec<[nccl::CommCall<'_>; 1]> = SmallVec::new();
        for Call { comm, stream, shape, from, to } in &self.calls {
            match (&comm.backend, &stream.backend) {
                (CommBackend::Sim(member), StreamBackend::Sim(stream)) => {
                    simulated.push(world::MemberCall {
                        member: Arc::clone(member) as Arc<Member>,
                        stream: stream.clone(),
                        shape: *shape,
                        from: from.or(*to).and_then(on_simulator),
                        to: to.and_then(on_simulator),
                    });
                }
                (CommBackend::Nccl(comm), StreamBackend::Cuda(stream)) => {
                    let (to, from) = (to.and_then(on_gpu), from.and_then(on_gpu));
                    queued.push(nccl::CommCall { comm, stream, shape: *shape, from, to });
                }
                _ => return Err(CommError::MixedGroup.into()),
            }
        }
        match (simulated.is_empty(), queued.is_empty()) {
            (false, false) => Err(CommError::MixedGroup.into()),
            (false, true) => world::run_or_record(simulated),
            (true, false) => nccl::run(&queued),
            (true, true) => Ok(()),
        }
    }
}

impl fmt::Debug for CommGroup<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls.iter().map(|call| call.shape.to_string());
        f.debug_list().entries(calls).finish()
    }
}

fn check_len(
    kind: CallKind,
    comm: &Communicator,
    from: usize,
    expected: Option<usize>,
    to: usize,
) -> Result<(), RuntimeError> {
    if expected == Some(to) {
        return Ok(());
    }
    let expected = match expected {
        Some(len) => len.to_string(),
        None => format!("{from} / {}", comm.ranks()),
    };
    Err(CommError::Length { call: kind.name(), ranks: comm.ranks(), from, expected, to }.into())
}

fn check_rank(comm: &Communicator, rank: u32) -> Result<(), RuntimeError> {
    let ranks = comm.ranks();
    if rank < ranks { Ok(()) } else { Err(CommError::Rank { rank, ranks }.into()) }
}

fn on_simulator(memory: &Memory) -> Option<crate::runtime::simulator::Memory> {
    match memory {
        Memory::Sim(memory) => Some(memory.clone()),
        Memory::Cuda(_) => None,
    }
}

fn on_gpu(memory: &Memory) -> Option<&cuda::Memory> {
    match memory {
        Memory::Sim(_) => None,
        Memory::Cuda(memory) => Some(memory),
    }
}
