//! [`Memory`]: everything that a cluster's warps can access, namely global buffers, each block's
//! shared memory, tensor maps and asynchronous operations in flight, together with the checkers.
//! Compiled operations receive it as an argument.

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

/// A tensor map that a kernel has read from global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Acquired {
    /// The parameter that it was made from.
    pub(in crate::sim) param: u32,
    /// The tensor's first byte in that parameter's buffer.
    pub(in crate::sim) start: usize,
    pub(in crate::sim) map: TensorMapDesc,
}

/// The memory of a cluster, and which warp currently runs.
#[derive(Debug)]
pub(in crate::sim) struct Memory<'m> {
    /// Each parameter's buffer, an empty one if the parameter is not a pointer; then the global
    /// arrays.
    pub(in crate::sim) globals: &'m [&'m GlobalBuffer],
    /// Each parameter's tensor map, if it is one.
    pub(in crate::sim) maps: &'m [Option<&'m TensorMapDesc>],
    /// Tensor maps that the kernel has acquired from memory. Their indices follow those of the
    /// parameters.
    pub(in crate::sim) acquired: Vec<Acquired>,
    /// The constant arrays.
    pub(in crate::sim) arrays: &'m [GlobalBuffer],
    /// Each block's memory, by rank.
    pub(in crate::sim) blocks: Vec<BlockMemory>,
    /// The rank of the running warp's block.
    pub(in crate::sim) here: usize,
    /// The running warp's index in its block.
    pub(in crate::sim) warp: u32,
    /// What the asynchronous proxy sees, if the kernel reads shared memory through it.
    pub(in crate::sim) proxies: Option<Proxies>,
    /// Asynchronous operations that have not been executed.
    pub(in crate::sim) pending: Pending,
    /// Set when the cluster's barrier may open.
    pub(in crate::sim) cluster_arrival: bool,
    /// Threads in a block.
    pub(in crate::sim) threads: usize,
    /// How many operations the cluster had executed before the current turn, not counting the
    /// running warp's.
    pub(in crate::sim) operations: u64,
    /// How floating point MMAs round.
    pub(in crate::sim) accumulation: Accumulation,
    /// The race detector, if races are detected.
    pub(in crate::sim) races: Option<Box<Detector>>,
    /// The recorder, if the run is recorded.
    pub(in crate::sim) recorder: Option<Box<Recorder>>,
}

/// Makes a fault in the first lane of `mask`.
pub(in crate::sim) fn first_of(mask: u32) -> impl FnOnce(RawCause) -> Box<RawFault> {
    move |cause| RawFault::new(mask.trailing_zeros() as usize, cause)
}

impl<'m> Memory<'m> {
    /// Returns the shared memory of the running warp's block.
    #[inline(always)]
    pub(in crate::sim) fn shared(&self) -> &Shared {
        &self.blocks[self.here].shared
    }

    /// Returns the shared memory of the running warp's block.
    #[inline(always)]
    pub(in crate::sim) fn shared_mut(&mut self) -> &mut Shared {
        &mut self.blocks[self.here].shared
    }

    /// Returns the shared memory that holds an allocation: the running warp's block's, or any
    /// block's in the cluster space.
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

    /// Like [`Memory::shared_at`].
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

    /// Returns the running warp's block.
    pub(in crate::sim) fn block_mut(&mut self) -> &mut BlockMemory {
        &mut self.blocks[self.here]
    }

    /// Returns the buffer of a parameter, a global array or a constant array.
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
    /// Returns the shared memory of the block with this rank.
    pub(in crate::sim) fn shared_of(&self, rank: u32) -> Result<&Shared, RawCause> {
        let blocks = self.blocks.len() as u32;
        match self.blocks.get(rank as usize) {
            None => Err(RawCause::NoClusterBlock { rank, blocks }),
            Some(block) if block.ended => Err(RawCause::BlockEnded { rank }),
            Some(block) => Ok(&block.shared),
        }
    }

    /// Like [`Memory::shared_of`].
    pub(in crate::sim) fn shared_of_mut(&mut self, rank: u32) -> Result<&mut Shared, RawCause> {
        self.shared_of(rank)?;
        Ok(&mut self.blocks[rank as usize].shared)
    }

    /// Returns the buffer of a parameter or a global array.
    pub(in crate::sim) fn global(&self, alloc: u32) -> &'m GlobalBuffer {
        self.buffer(Allocation { memory_space: MemorySpace::Global, number: alloc })
    }
}

impl Memory<'_> {
    /// Returns an acquired tensor map. The indices of acquired maps follow the parameters' indices.
    fn acquired(&self, number: u32) -> Option<&Acquired> {
        self.acquired.get((number as usize).checked_sub(self.maps.len())?)
    }

    /// Returns the tensor map with an index.
    pub(in crate::sim) fn map(&self, number: u32) -> Option<&TensorMapDesc> {
        match self.acquired(number) {
            Some(acquired) => Some(&acquired.map),
            None => self.maps.get(number as usize).copied().flatten(),
        }
    }

    /// Returns the parameter whose buffer holds the tensor of a map.
    pub(in crate::sim) fn param_of_map(&self, number: u32) -> u32 {
        self.acquired(number).map_or(number, |acquired| acquired.param)
    }

    /// Returns the first byte of a map's tensor in its buffer.
    pub(in crate::sim) fn start_of_map(&self, number: u32) -> usize {
        self.acquired(number).map_or(0, |acquired| acquired.start)
    }

    /// Returns the index of an acquired tensor map, and adds it if it is new.
    pub(in crate::sim) fn number_of_map(&mut self, found: Acquired) -> u32 {
        let known = self.acquired.iter().position(|acquired| *acquired == found);
        let at = known.unwrap_or_else(|| {
            self.acquired.push(found);
            self.acquired.len() - 1
        });
        (self.maps.len() + at) as u32
    }

    /// Called when a warp has synchronised with others, for the check for missing proxy fences.
    pub(in crate::sim) fn learn(&mut self) {
        if let Some(proxies) = &mut self.proxies {
            proxies.learn();
        }
    }

    /// Called when the running warp has stored bytes to the shared memory of block `rank`, for the
    /// check for missing proxy fences.
    pub(in crate::sim) fn note_store(&mut self, rank: usize, at: usize, bytes: usize) {
        if let Some(proxies) = &self.proxies {
            let by = number(self.here as u32, self.warp);
            self.blocks[rank].shared.stores.note(at, bytes, proxies.now, by);
        }
    }
}
