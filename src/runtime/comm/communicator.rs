//! Defines [`Communicator`]: one rank of a set of devices. You call collectives such as all-reduce
//! on it, for example to add up gradients or partial results.

use std::fmt;
use std::sync::Arc;

use super::call::{CommOptions, ReduceOp};
use super::error::{CommError, NcclVersion};
use super::group::CommGroup;
use super::nccl;
use super::unique_id::UniqueId;
use super::world::Member;
use crate::ir::Element;
use crate::runtime::buffer::Buffer;
use crate::runtime::device::{Backend, Device};
use crate::runtime::error::RuntimeError;
use crate::runtime::stream::Stream;

/// One rank of a set of devices, with the collectives that it takes part in: see [the
/// module](super).
///
/// Use its methods if each rank has a thread or a process of its own. If one thread makes the calls
/// of several ranks, put them into a [`CommGroup`].
///
/// You can drop it at any time. NCCL's resources are freed when its work has ended and the ranks in
/// other processes have dropped theirs. The drop waits two seconds at most.
pub struct Communicator {
    device: Device,
    rank: u32,
    ranks: u32,
    options: CommOptions,
    pub(super) backend: CommBackend,
}

#[derive(Clone)]
pub(super) enum CommBackend {
    Sim(Arc<Member>),
    Nccl(Arc<nccl::Comm>),
}

impl Communicator {
    /// Makes these devices the ranks of one communicator in this process, in this order. Use it if
    /// one process drives all devices; otherwise each process calls [`Communicator::connect`].
    ///
    /// # Errors
    /// Those of [`Communicator::connect`]; [`NoDevices`](CommError::NoDevices),
    /// [`MixedDevices`](CommError::MixedDevices), [`SameDevice`](CommError::SameDevice).
    #[inline]
    pub fn all(devices: &[Device]) -> Result<Vec<Communicator>, RuntimeError> {
        Communicator::all_with(CommOptions::default(), devices)
    }

    /// Like [`Communicator::all`], but with [`CommOptions`], for example a longer timeout.
    ///
    /// # Errors
    /// Those of [`Communicator::all`].
    #[inline]
    pub fn all_with(
        options: CommOptions,
        devices: &[Device],
    ) -> Result<Vec<Communicator>, RuntimeError> {
        let first = devices.first().ok_or(CommError::NoDevices)?;
        for (i, device) in devices.iter().enumerate() {
            if device.is_sim() != first.is_sim() {
                return Err(CommError::MixedDevices.into());
            }
            if devices[..i].contains(device) {
                return Err(CommError::SameDevice { device: device.to_string() }.into());
            }
        }
        let id = UniqueId::new(first)?;
        let ranks = devices.len() as u32;
        let contexts: Vec<_> = devices
            .iter()
            .filter_map(|device| match &device.backend {
                Backend::Sim(_) => None,
                Backend::Cuda(context) => Some(*context),
            })
            .collect();
        let backends: Vec<CommBackend> = match contexts.is_empty() {
            true => {
                let member =
                    |rank| Member::connect(&id, rank, ranks, options).map(CommBackend::Sim);
                (0..ranks).map(member).collect::<Result<_, _>>()?
            }
            false => {
                let comms = nccl::Comm::connect(id.as_bytes(), &contexts, 0, ranks, options)?;
                comms.into_iter().map(CommBackend::Nccl).collect()
            }
        };
        let all = devices.iter().zip(0..).zip(backends);
        Ok(all
            .map(|((device, rank), backend)| Communicator {
                device: device.clone(),
                rank,
                ranks,
                options,
                backend,
            })
            .collect())
    }

    /// Connects the device as rank `rank` of `ranks`. Use it if the ranks are in several threads,
    /// processes or machines: all of them must connect with the same id. On GPUs, the call waits
    /// until all ranks have connected.
    ///
    /// # Errors
    /// [`NcclNotBuilt`](CommError::NcclNotBuilt), [`NoLibrary`](CommError::NoLibrary),
    /// [`MissingSymbol`](CommError::MissingSymbol), [`OldVersion`](CommError::OldVersion),
    /// [`Rank`](CommError::Rank), [`RankTaken`](CommError::RankTaken),
    /// [`Status`](CommError::Status); [`TimedOut`](CommError::TimedOut) if some ranks have not
    /// connected: NCCL then keeps a thread that waits for them.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use std::thread;
    /// use tilewright::runtime::{Device, RuntimeError};
    /// use tilewright::runtime::comm::{CommOptions, Communicator, UniqueId};
    ///
    /// let id = UniqueId::new(&Device::sim()?)?;
    /// let rank = |rank: u32| -> Result<Vec<u32>, RuntimeError> {
    ///     let device = Device::sim_number(rank)?;
    ///     let comm = Communicator::connect(CommOptions::default(), &device, &id, rank, 3)?;
    ///     let mut all = device.zeros(3)?;
    ///     comm.all_gather(&device.stream()?, &device.upload(&[10 * rank])?, &mut all)?;
    ///     all.to_vec()
    /// };
    /// thread::scope(|threads| {
    ///     let threads: Vec<_> = (0..3).map(|r| threads.spawn(move || rank(r))).collect();
    ///     threads.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(vec![0, 10, 20])));
    /// });
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    #[inline]
    pub fn connect(
        options: CommOptions,
        device: &Device,
        id: &UniqueId,
        rank: u32,
        ranks: u32,
    ) -> Result<Communicator, RuntimeError> {
        if rank >= ranks {
            return Err(CommError::Rank { rank, ranks }.into());
        }
        let backend = match &device.backend {
            Backend::Sim(_) => CommBackend::Sim(Member::connect(id, rank, ranks, options)?),
            Backend::Cuda(context) => {
                let comms = nccl::Comm::connect(id.as_bytes(), &[*context], rank, ranks, options)?;
                CommBackend::Nccl(comms.into_iter().next().ok_or(CommError::NoDevices)?)
            }
        };
        Ok(Communicator { device: device.clone(), rank, ranks, options, backend })
    }

    /// Returns the NCCL library's version, for example to print it with a measurement.
    ///
    /// # Errors
    /// [`NcclNotBuilt`](CommError::NcclNotBuilt), [`NoLibrary`](CommError::NoLibrary),
    /// [`MissingSymbol`](CommError::MissingSymbol), [`OldVersion`](CommError::OldVersion),
    /// [`Status`](CommError::Status).
    pub fn nccl_version() -> Result<NcclVersion, RuntimeError> {
        nccl::version()
    }

    /// Returns this rank's index, counted from 0, for example to choose the rank's share of the
    /// data.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns how many ranks the communicator has.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns this rank's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns how many thread blocks a collective may use: the value of
    /// [`CommOptions::max_blocks`]. Returns `None` if the options set no limit. Each of these
    /// blocks occupies an SM. So if a persistent kernel runs at the same time as a collective, give
    /// the kernel one thread block for each of the other SMs.
    pub fn max_blocks(&self) -> Option<u32> {
        self.options.max_blocks
    }

    /// Returns an error if the communicator has failed. Call it to notice a failure early;
    /// otherwise the next call on the communicator returns the error.
    ///
    /// # Errors
    /// The reason why the communicator was aborted.
    pub fn check(&self) -> Result<(), RuntimeError> {
        match &self.backend {
            CommBackend::Sim(member) => member.check(),
            CommBackend::Nccl(comm) => comm.check(),
        }
    }

    /// Aborts all calls in flight, for all ranks in this process. Call it if a rank cannot go on,
    /// so that the other ranks do not wait until the timeout. The aborted calls and all later ones
    /// fail with [`Aborted`](CommError::Aborted). Ranks in other processes fail when they wait for
    /// this rank.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::runtime::Device;
    /// use tilewright::runtime::comm::Communicator;
    /// let ranks = Communicator::all(&[Device::sim_number(0)?, Device::sim_number(1)?])?;
    /// ranks[0].abort();
    /// assert_eq!(ranks[1].check().unwrap_err().to_string(), "rank 0 aborted the communicator");
    /// # }
    /// # Ok::<(), tilewright::runtime::RuntimeError>(())
    /// ```
    pub fn abort(&self) {
        match &self.backend {
            CommBackend::Sim(member) => member.abort(),
            CommBackend::Nccl(comm) => comm.abort(),
        }
    }

    /// Combines the ranks' `from` buffers element by element, and writes the result to `to` on each
    /// rank. For example, if two ranks pass `[1, 2]` and `[3, 4]`, a sum gives `[4, 6]` on both.
    ///
    /// # Errors
    /// The reason why the communicator was aborted; [`OtherDevice`](CommError::OtherDevice),
    /// [`Length`](CommError::Length), [`UnsupportedType`](CommError::UnsupportedType),
    /// [`Mismatch`](CommError::Mismatch) (on simulators), [`PeerGone`](CommError::PeerGone),
    /// [`TimedOut`](CommError::TimedOut), [`Status`](CommError::Status); the fault of an earlier
    /// launch, if there was one.
    pub fn all_reduce<T: Element>(
        &self,
        stream: &Stream,
        op: ReduceOp,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.all_reduce(self, stream, op, from, to)?;
        group.run()
    }

    /// Like [`Communicator::all_reduce`], but `data` is both input and output, which saves a
    /// buffer.
    ///
    /// # Errors
    /// Those of [`Communicator::all_reduce`].
    pub fn all_reduce_in_place<T: Element>(
        &self,
        stream: &Stream,
        op: ReduceOp,
        data: &mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.all_reduce_in_place(self, stream, op, data)?;
        group.run()
    }

    /// Concatenates the ranks' `from` buffers in rank order, and writes the result to `to` on each
    /// rank. For example, if two ranks pass `[1, 2]` and `[3, 4]`, both get `[1, 2, 3, 4]`.
    ///
    /// # Errors
    /// Those of [`Communicator::all_reduce`].
    pub fn all_gather<T: Element>(
        &self,
        stream: &Stream,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.all_gather(self, stream, from, to)?;
        group.run()
    }

    /// Combines the ranks' `from` buffers element by element, then writes the first `to.len()`
    /// elements to `to` on rank 0, the next ones to `to` on rank 1, and so on. For example, if two
    /// ranks pass `[1, 2]` and `[3, 4]`, a sum gives `[4]` on rank 0 and `[6]` on rank 1.
    ///
    /// # Errors
    /// Those of [`Communicator::all_reduce`].
    pub fn reduce_scatter<T: Element>(
        &self,
        stream: &Stream,
        op: ReduceOp,
        from: &Buffer<T>,
        to: &mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.reduce_scatter(self, stream, op, from, to)?;
        group.run()
    }

    /// Copies `data` from rank `root` to all ranks, for example weights that one rank has read. The
    /// other ranks' `data` is overwritten.
    ///
    /// # Errors
    /// Those of [`Communicator::all_reduce`]; [`Rank`](CommError::Rank).
    pub fn broadcast<T: Element>(
        &self,
        stream: &Stream,
        root: u32,
        data: &mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.broadcast(self, stream, root, data)?;
        group.run()
    }

    /// Sends the elements to rank `peer`, which must receive the same count. If two ranks send to
    /// each other, put both calls of each rank into a [`CommGroup`].
    ///
    /// # Errors
    /// Those of [`Communicator::all_reduce`]; [`Rank`](CommError::Rank).
    pub fn send<T: Element>(
        &self,
        stream: &Stream,
        peer: u32,
        from: &Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.send(self, stream, peer, from)?;
        group.run()
    }

    /// Receives the elements that rank `peer` sends into `to`.
    ///
    /// # Errors
    /// Those of [`Communicator::send`].
    pub fn recv<T: Element>(
        &self,
        stream: &Stream,
        peer: u32,
        to: &mut Buffer<T>,
    ) -> Result<(), RuntimeError> {
        let mut group = CommGroup::new();
        group.recv(self, stream, peer, to)?;
        group.run()
    }
}

/// For example `Communicator(rank 0 of 2 on GPU 0 (NVIDIA H200))`.
impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {} on {})", self.rank, self.ranks, self.device)
    }
}
