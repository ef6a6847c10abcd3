//! The memory of a cluster: global buffers, shared memory of each block, operations in flight.

use super::agent::Pending;
use super::block_memory::BlockMemory;
use super::buffer::GlobalBuffer;
use super::proxy::{Proxies, number};
use super::races::Detector;
use super::shared::{Shared, of_cluster};
use super::space::{Allocation, MemorySpace};
use crate::arch::TensorMapDesc;
use crate::sim::fault::raw_fault::{RawCause, RawFault, RawResult};
use crate::sim::options::Accumulation;
use crate::sim::trace::Recorder;

/// A tensor map in global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Acquired {
    /// The parameter that it was made from.
    pub(in crate::sim) param: u32,
    /// The first byte of the tensor in the buffer of the parameter.
    pub(in crate::sim) start: usize,
    pub(in crate::sim) map: TensorMapDesc,
}

/// The memory that the warps of a cluster see.
#[derive(Debug)]
pub(in crate::sim) struct Memory<'m> {
    /// The buffer of each parameter; an empty one for a parameter that is not a pointer.
    pub(in crate::sim) globals: &'m [&'m GlobalBuffer],
    /// The map of each parameter that is one.
    pub(in crate::sim) maps: &'m [Option<&'m TensorMapDesc>],
    /// The maps that kernels have acquired from memory, whose numbers follow those of the parameters.
    pub(in crate::sim) acquired: Vec<Acquired>,
    /// The constant arrays.
    pub(in crate::sim) arrays: &'m [GlobalBuffer],
    /// The memory of each block of the cluster, by rank.
    pub(in crate::sim) blocks: Vec<BlockMemory>,
    /// The rank of the block of the running warp.
    pub(in crate::sim) here: usize,
    /// The running warp, by its number in the block.
    pub(in crate::sim) warp: u32,
    /// In a kernel that reads shared memory through the asynchronous proxy, what that sees.
    pub(in crate::sim) proxies: Option<Proxies>,
    /// The asynchronous operations that have not taken effect.
    pub(in crate::sim) pending: Pending,
    /// Set when the barrier of the cluster may open.
    pub(in crate::sim) cluster_arrival: bool,
    /// Threads of a block.
    pub(in crate::sim) threads: usize,
    /// The operations that the warps of the cluster executed before the present run, without those of the
    /// running warp.
    pub(in crate::sim) operations: u64,
    /// The accumulation of floating point MMAs.
    pub(in crate::sim) accumulation: Accumulation,
    /// The race detector, where races are detected.
    pub(in crate::sim) races: Option<Box<Detector>>,
    /// The recorder, where the run is recorded.
    pub(in crate::sim) recorder: Option<Box<Recorder>>,
}

/// The trap in the first lane of `mask`.
pub(in crate::sim) fn first_of(mask: u32) -> impl FnOnce(RawCause) -> Box<RawFault> {
    move |cause| RawFault::new(mask.trailing_zeros() as usize, cause)
}

impl<'m> Memory<'m> {
    /// The shared memory of the block of the running warp.
    #[inline(always)]
    pub(in crate::sim) fn shared(&self) -> &Shared {
        &self.blocks[self.here].shared
    }

    /// The shared memory of the block of the running warp.
    #[inline(always)]
    pub(in crate::sim) fn shared_mut(&mut self) -> &mut Shared {
        &mut self.blocks[self.here].shared
    }

    /// The shared memory that the allocation is in, to which the lanes of `mask` point: that of the block whose
    /// warp has its turn, or in the space of the cluster that of any.
    #[inline(always)]
    pub(in crate::sim) fn shared_at(&self, found: Allocation, mask: u32) -> RawResult<&Shared> {
        match found.memory_space {
            MemorySpace::Cluster => {
                self.shared_of(of_cluster(found.number).0).map_err(first_of(mask))
            }
            MemorySpace::Shared | MemorySpace::Global | MemorySpace::Const | MemorySpace::Local => {
                Ok(self.shared())
            }
        }
    }

    /// As [`Memory::shared_at`].
    #[inline(always)]
    pub(in crate::sim) fn shared_at_mut(
        &mut self,
        found: Allocation,
        mask: u32,
    ) -> RawResult<&mut Shared> {
        match found.memory_space {
            MemorySpace::Cluster => {
                self.shared_of_mut(of_cluster(found.number).0).map_err(first_of(mask))
            }
            MemorySpace::Shared | MemorySpace::Global | MemorySpace::Const | MemorySpace::Local => {
                Ok(self.shared_mut())
            }
        }
    }

    /// The block of the running warp.
    pub(in crate::sim) fn block_mut(&mut self) -> &mut BlockMemory {
        &mut self.blocks[self.here]
    }

    /// The buffer of a parameter, or a constant array.
    pub(in crate::sim) fn buffer(&self, found: Allocation) -> &'m GlobalBuffer {
        static NONE: std::sync::LazyLock<GlobalBuffer> =
            std::sync::LazyLock::new(|| GlobalBuffer::zeros(0));
        let number = found.number as usize;
        let buffer = match found.memory_space {
            MemorySpace::Const => self.arrays.get(number),
            MemorySpace::Global => self.globals.get(number).copied(),
            MemorySpace::Shared | MemorySpace::Cluster | MemorySpace::Local => None,
        };
        buffer.unwrap_or(&NONE)
    }
}

impl<'m> Memory<'m> {
    /// The shared memory of the block with this rank in the cluster.
    pub(in crate::sim) fn shared_of(&self, rank: u32) -> Result<&Shared, RawCause> {
        let blocks = self.blocks.len() as u32;
        match self.blocks.get(rank as usize) {
            None => Err(RawCause::NoClusterBlock { rank, blocks }),
            Some(block) if block.ended => Err(RawCause::BlockEnded { rank }),
            Some(block) => Ok(&block.shared),
        }
    }

    /// As [`Memory::shared_of`].
    pub(in crate::sim) fn shared_of_mut(&mut self, rank: u32) -> Result<&mut Shared, RawCause> {
        self.shared_of(rank)?;
        Ok(&mut self.blocks[rank as usize].shared)
    }

    /// The buffer of a parameter.
    pub(in crate::sim) fn global(&self, alloc: u32) -> &'m GlobalBuffer {
        self.buffer(Allocation { memory_space: MemorySpace::Global, number: alloc })
    }
}

impl Memory<'_> {
    /// A tensor map by its number: that of its parameter, or one behind those of all parameters.
    fn acquired(&self, number: u32) -> Option<&Acquired> {
        self.acquired.get((number as usize).checked_sub(self.maps.len())?)
    }

    /// The tensor map with a number.
    pub(in crate::sim) fn map(&self, number: u32) -> Option<&TensorMapDesc> {
        match self.acquired(number) {
            Some(acquired) => Some(&acquired.map),
            None => self.maps.get(number as usize).copied().flatten(),
        }
    }

    /// The parameter of a tensor map, whose buffer has the tensor.
    pub(in crate::sim) fn param_of_map(&self, number: u32) -> u32 {
        self.acquired(number).map_or(number, |acquired| acquired.param)
    }

    /// The first byte of the tensor of a map in its buffer.
    pub(in crate::sim) fn start_of_map(&self, number: u32) -> usize {
        self.acquired(number).map_or(0, |acquired| acquired.start)
    }

    /// The number of a tensor map in memory.
    pub(in crate::sim) fn number_of_map(&mut self, found: Acquired) -> u32 {
        let known = self.acquired.iter().position(|acquired| *acquired == found);
        let at = known.unwrap_or_else(|| {
            self.acquired.push(found);
            self.acquired.len() - 1
        });
        (self.maps.len() + at) as u32
    }

    /// A warp learns of what others have done.
    pub(in crate::sim) fn learn(&mut self) {
        if let Some(proxies) = &mut self.proxies {
            proxies.learn();
        }
    }

    /// Notes that the running warp stored bytes of the shared memory of the block `rank`.
    pub(in crate::sim) fn note_store(&mut self, rank: usize, at: usize, bytes: usize) {
        if let Some(proxies) = &self.proxies {
            let by = number(self.here as u32, self.warp);
            self.blocks[rank].shared.stores.note(at, bytes, (proxies.now, by));
        }
    }
}
