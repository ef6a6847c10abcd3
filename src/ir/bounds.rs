//! Launch bounds: block size, cluster shape and register limits of a kernel.

/// The block and cluster shape of a kernel, and its limits for the register allocation of `ptxas`. Each launch,
/// or `ptxas`, chooses the entries that are `None`.
///
/// ```
/// use tilewright::ir::{ClusterShape, LaunchBounds};
/// let mut bounds = LaunchBounds::default();
/// bounds.block = Some([384, 1, 1]);
/// bounds.cluster = Some(ClusterShape::Fixed([2, 1, 1]));
/// assert_eq!(bounds.cluster_blocks(), Some([2, 1, 1]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaunchBounds {
    /// Threads of a block along each axis, if all launches have the same (PTX ISA 11.4, `.reqntid`).
    pub block: Option<[u32; 3]>,
    /// The maximum number of threads in a block (`.maxntid`); excludes a fixed block.
    pub max_threads: Option<u32>,
    /// The minimum number of resident blocks on an SM (`.minnctapersm`). Requires `block`
    /// or `max_threads`.
    pub min_blocks_per_sm: Option<u32>,
    /// The maximum number of registers of a thread (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// The clusters in which the blocks are launched.
    pub cluster: Option<ClusterShape>,
}

/// The clusters of a kernel: groups of blocks that run at once and reach each other's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterShape {
    /// The blocks of a cluster along each axis, for all launches (`.reqnctapercluster`).
    Fixed([u32; 3]),
    /// Each launch says how many blocks a cluster has (`.explicitcluster`).
    AtLaunch,
}

impl LaunchBounds {
    /// The maximum number of threads in a block on any GPU.
    pub const MAX_THREADS: u32 = 1024;
    /// The maximum number of blocks in a cluster on any GPU. More than
    /// [`PORTABLE_CLUSTER`](LaunchBounds::PORTABLE_CLUSTER) are not on every GPU with clusters.
    pub const MAX_CLUSTER: u32 = 16;
    /// The blocks of a cluster that every GPU with clusters has room for.
    pub const PORTABLE_CLUSTER: u32 = 8;
    /// The maximum number of resident blocks on an SM.
    pub const MAX_BLOCKS_PER_SM: u32 = 32;
    /// The minimum and the maximum of `.maxnreg`, in registers of a thread.
    pub const REGISTERS: (u32, u32) = (24, 255);

    /// The blocks of a cluster along each axis, where the kernel fixes them.
    pub const fn cluster_blocks(&self) -> Option<[u32; 3]> {
        match self.cluster {
            Some(ClusterShape::Fixed(blocks)) => Some(blocks),
            Some(ClusterShape::AtLaunch) | None => None,
        }
    }
}
