//! Memory spaces, and generic pointers, which store their memory space together with the allocation
//! index.

use super::shared::{in_cluster, of_cluster};
use crate::ir::types::Space;

/// The concrete memories: every space but the generic one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum MemorySpace {
    Global,
    Const,
    Shared,
    Cluster,
    Local,
}

/// An allocation, by its index among those of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Allocation {
    pub(in crate::sim) memory_space: MemorySpace,
    pub(in crate::sim) number: u32,
}

/// Bits of the allocation index in a generic pointer. The memory space is above them. Indices are
/// those of parameters, of arrays of at most 64 KiB, or of allocations of at most 2^19 bytes, below
/// the rank of one of 16 blocks.
const NUMBER_BITS: u32 = 28;

impl MemorySpace {
    const ALL: [MemorySpace; 5] = [
        MemorySpace::Global,
        MemorySpace::Const,
        MemorySpace::Shared,
        MemorySpace::Cluster,
        MemorySpace::Local,
    ];

    /// Returns the memory that pointers into a space point into. Returns `None` for the generic
    /// space, because each generic pointer stores its own memory space.
    pub(in crate::sim) const fn of(space: Space) -> Option<MemorySpace> {
        match space {
            Space::Global => Some(MemorySpace::Global),
            Space::Const => Some(MemorySpace::Const),
            Space::Shared => Some(MemorySpace::Shared),
            Space::SharedCluster => Some(MemorySpace::Cluster),
            Space::Local => Some(MemorySpace::Local),
            Space::Generic => None,
        }
    }

    pub(in crate::sim) const fn space(self) -> Space {
        match self {
            MemorySpace::Global => Space::Global,
            MemorySpace::Const => Space::Const,
            MemorySpace::Shared => Space::Shared,
            MemorySpace::Cluster => Space::SharedCluster,
            MemorySpace::Local => Space::Local,
        }
    }
}

impl Allocation {
    /// Returns the allocation that a pointer into the space keeps as `number`.
    #[inline(always)]
    pub(in crate::sim) fn of(space: Space, number: u32) -> Allocation {
        match MemorySpace::of(space) {
            Some(memory_space) => Allocation { memory_space, number },
            None => {
                let memory_space =
                    MemorySpace::ALL[(number >> NUMBER_BITS) as usize % MemorySpace::ALL.len()];
                Allocation { memory_space, number: number & ((1 << NUMBER_BITS) - 1) }
            }
        }
    }

    /// Returns the allocation's index in a generic pointer.
    pub(in crate::sim) fn generic(self) -> u32 {
        (self.memory_space as u32) << NUMBER_BITS | self.number
    }

    /// Returns the allocation's index in a pointer into the space, in block `rank` of the cluster,
    /// or `None` if the allocation is not in that space. A block's shared memory also belongs to
    /// its cluster's.
    pub(in crate::sim) fn number_in(self, space: Space, rank: u32) -> Option<u32> {
        let number = self.number;
        match (space, self.memory_space) {
            (Space::Global, MemorySpace::Global)
            | (Space::Const, MemorySpace::Const)
            | (Space::Shared, MemorySpace::Shared)
            | (Space::SharedCluster, MemorySpace::Cluster)
            | (Space::Local, MemorySpace::Local) => Some(number),
            (Space::SharedCluster, MemorySpace::Shared) => Some(in_cluster(rank, number)),
            (Space::Shared, MemorySpace::Cluster) => {
                let (block, number) = of_cluster(number);
                (block == rank).then_some(number)
            }
            (Space::Generic, _) => Some(self.generic()),
            (
                Space::Global | Space::Const | Space::Shared | Space::SharedCluster | Space::Local,
                _,
            ) => None,
        }
    }
}

/// Address bits of an allocation in global memory.
const GLOBAL_BITS: u32 = 40;
/// Address bits of a constant array, which has at most 64 KiB.
const CONST_BITS: u32 = 16;
/// Address bits of one block's shared memory within the cluster.
const BLOCK_BITS: u32 = 24;
/// Address bits of each memory that generic addresses reach. Global memory comes first.
const MEMORY_BITS: u32 = 56;

/// Where a kernel's shared and local allocations start.
pub(in crate::sim) struct Starts {
    pub(in crate::sim) shared: Vec<u64>,
    pub(in crate::sim) local: Vec<u64>,
}

impl Allocation {
    /// Returns the address of the first byte, for pointers into the space.
    pub(in crate::sim) fn address(self, space: Space, starts: &Starts) -> u64 {
        let start = |of: &[u64], number: u32| of.get(number as usize).copied().unwrap_or(0);
        // Only in shared and local memory an allocation may be at address 0.
        let apart = |bits: u32| (u64::from(self.number) + 1) << bits;
        let own = match self.memory_space {
            MemorySpace::Global => apart(GLOBAL_BITS),
            MemorySpace::Const => apart(CONST_BITS),
            MemorySpace::Shared => start(&starts.shared, self.number),
            MemorySpace::Cluster => {
                let (block, number) = of_cluster(self.number);
                u64::from(block) << BLOCK_BITS | start(&starts.shared, number)
            }
            MemorySpace::Local => start(&starts.local, self.number),
        };
        if space == Space::Generic { (self.memory_space as u64) << MEMORY_BITS | own } else { own }
    }
}

/// Splits a global address into the allocation's index and the offset there. An address below the
/// first allocation counts from the end.
pub(in crate::sim) fn global_at(address: u64) -> (u32, u64) {
    let number = (address >> GLOBAL_BITS) as u32;
    (number.wrapping_sub(1), address & ((1 << GLOBAL_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generic_number_is_its_allocation() {
        for memory_space in MemorySpace::ALL {
            for number in [0, 1, 0xfff, in_cluster(15, 0xf_ffff)] {
                let allocation = Allocation { memory_space, number };
                assert_eq!(Allocation::of(Space::Generic, allocation.generic()), allocation);
                assert_eq!(Allocation::of(memory_space.space(), number), allocation);
                assert_eq!(allocation.number_in(memory_space.space(), 3), Some(number));
            }
        }
    }

    #[test]
    fn an_address_of_global_memory_is_that_of_its_allocation() {
        let starts = Starts { shared: Vec::new(), local: Vec::new() };
        for number in [0, 1, 0xffff] {
            let allocation = Allocation { memory_space: MemorySpace::Global, number };
            let start = allocation.address(Space::Global, &starts);
            assert_eq!(global_at(start + 12), (number, 12));
        }
        // No kernel has so many parameters.
        assert_eq!(global_at(0).0, u32::MAX);
    }

    #[test]
    fn shared_memory_of_a_block_is_that_of_its_cluster_too() {
        let own = Allocation { memory_space: MemorySpace::Shared, number: 7 };
        assert_eq!(own.number_in(Space::SharedCluster, 3), Some(in_cluster(3, 7)));
        let mapped = Allocation { memory_space: MemorySpace::Cluster, number: in_cluster(3, 7) };
        assert_eq!(mapped.number_in(Space::Shared, 3), Some(7));
        assert_eq!(mapped.number_in(Space::Shared, 2), None);
        assert_eq!(own.number_in(Space::Local, 3), None);
    }
}
