//! Launch bounds: a kernel's block size, cluster shape and register limits. Set them on a kernel so
//! that `ptxas` can allocate registers for the launch that you plan.

/// A kernel's block size, cluster shape and register limits: the counterpart of
/// `__launch_bounds__`. If an entry is `None`, each launch (or `ptxas`, for registers) chooses it.
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
    /// The block size along each axis, if every launch has the same (PTX ISA 11.4, `.reqntid`).
    pub block: Option<[u32; 3]>,
    /// The maximum number of threads per block (`.maxntid`). You cannot set it together with
    /// `block`.
    pub max_threads: Option<u32>,
    /// The minimum number of resident blocks per SM (`.minnctapersm`), which makes `ptxas` use
    /// fewer registers. Requires `block` or `max_threads`.
    pub min_blocks_per_sm: Option<u32>,
    /// The maximum number of registers per thread (`.maxnreg`), so that more blocks fit on an SM.
    pub max_registers: Option<u32>,
    /// How blocks are grouped into clusters. With `None`, a launch may choose clusters or use none.
    pub cluster: Option<ClusterShape>,
}

/// Who chooses the cluster size: the kernel or each launch. The blocks of a cluster run at the same
/// time and can access each other's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterShape {
    /// The cluster size in blocks along each axis, the same for every launch
    /// (`.reqnctapercluster`).
    Fixed([u32; 3]),
    /// Each launch must choose the cluster size (`.explicitcluster`).
    AtLaunch,
}

impl LaunchBounds {
    /// The maximum number of threads per block on any GPU.
    pub const MAX_THREADS: u32 = 1024;
    /// The maximum number of blocks per cluster on any GPU. Some GPUs with clusters allow no more
    /// than [`PORTABLE_CLUSTER`](LaunchBounds::PORTABLE_CLUSTER).
    pub const MAX_CLUSTER: u32 = 16;
    /// The number of blocks per cluster that every GPU with clusters supports.
    pub const PORTABLE_CLUSTER: u32 = 8;
    /// The maximum number of resident blocks per SM, the upper limit of `min_blocks_per_sm`.
    pub const MAX_BLOCKS_PER_SM: u32 = 32;
    /// The smallest and the largest valid `.maxnreg`, in registers per thread.
    pub const REGISTERS: (u32, u32) = (24, 255);

    /// Returns the cluster size in blocks along each axis, or `None` if the kernel does not fix it.
    pub const fn cluster_blocks(&self) -> Option<[u32; 3]> {
        match self.cluster {
            Some(ClusterShape::Fixed(blocks)) => Some(blocks),
            Some(ClusterShape::AtLaunch) | None => None,
        }
    }
}
