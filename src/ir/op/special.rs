//! Special registers: facts of the hardware about the running thread (PTX ISA, chapter 10).

use std::fmt;
use std::str::FromStr;

use super::Axis;
use crate::ir::name::{self, ParseNameError};
use crate::ir::target::Target;
use crate::ir::types::Scalar;

/// A special register that holds the same value as long as a thread runs.
///
/// Counts and indices are `i32`, masks of lanes and sizes in bytes `u32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialReg {
    /// `%tid`: the thread's index in its block.
    Tid(Axis),
    /// `%ntid`: threads of a block.
    Ntid(Axis),
    /// `%ctaid`: the block's index in the grid.
    Ctaid(Axis),
    /// `%nctaid`: blocks of the grid.
    Nctaid(Axis),
    /// `%laneid`: the thread's index in its warp, 0 to 31.
    LaneId,
    /// `%nwarpid`: warps that an SM has room for.
    NWarpId,
    /// `%nsmid`: one more than the highest index of an SM.
    NSmId,
    /// `%gridid`: the number of the launch, `u64`.
    GridId,
    /// `%lanemask_eq`: the bit of the thread's lane.
    LaneMaskEq,
    /// `%lanemask_le`: the bits of the thread's lane and of those below.
    LaneMaskLe,
    /// `%lanemask_lt`: the bits of the lanes below the thread's.
    LaneMaskLt,
    /// `%lanemask_ge`: the bits of the thread's lane and of those above.
    LaneMaskGe,
    /// `%lanemask_gt`: the bits of the lanes above the thread's.
    LaneMaskGt,
    /// `%is_explicit_cluster`: whether the launch names a cluster, `bool`.
    IsExplicitCluster,
    /// `%clusterid`: the cluster's index in the grid.
    ClusterId(Axis),
    /// `%nclusterid`: clusters of the grid.
    NClusterId(Axis),
    /// `%cluster_ctaid`: the block's index in its cluster.
    ClusterCtaid(Axis),
    /// `%cluster_nctaid`: blocks of a cluster along an axis.
    ClusterNctaid(Axis),
    /// `%cluster_ctarank`: the number of the block in its cluster.
    ClusterCtaRank,
    /// `%cluster_nctarank`: blocks of a cluster.
    ClusterNctaRank,
    /// `%dynamic_smem_size`: bytes of shared memory that the launch asks for.
    DynamicSmemSize,
    /// `%total_smem_size`: bytes of shared memory of the block, static and dynamic, as they are allocated.
    TotalSmemSize,
    /// `%aggr_smem_size`: the same with what the system reserves.
    AggrSmemSize,
}

/// A special register that may hold something else each time it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VolatileReg {
    /// `%warpid`: the slot of the warp in its SM now, `i32`. Not the index of the warp in its thread block.
    WarpId,
    /// `%smid`: the SM that runs the thread now, `i32`.
    SmId,
    /// `%clock`: cycles of the SM, `u32`, which wraps.
    Clock,
    /// `%clock64`: cycles of the SM, `u64`.
    Clock64,
    /// `%globaltimer`: nanoseconds of a clock that all SMs share, `u64`. Its resolution depends on the device
    /// and is often a microsecond.
    GlobalTimer,
}

impl SpecialReg {
    /// All special registers that do not change.
    pub const ALL: [SpecialReg; 39] = {
        use SpecialReg as R;
        let [x, y, z] = Axis::ALL;
        [
            R::Tid(x),
            R::Tid(y),
            R::Tid(z),
            R::Ntid(x),
            R::Ntid(y),
            R::Ntid(z),
            R::Ctaid(x),
            R::Ctaid(y),
            R::Ctaid(z),
            R::Nctaid(x),
            R::Nctaid(y),
            R::Nctaid(z),
            R::LaneId,
            R::NWarpId,
            R::NSmId,
            R::GridId,
            R::LaneMaskEq,
            R::LaneMaskLe,
            R::LaneMaskLt,
            R::LaneMaskGe,
            R::LaneMaskGt,
            R::IsExplicitCluster,
            R::ClusterId(x),
            R::ClusterId(y),
            R::ClusterId(z),
            R::NClusterId(x),
            R::NClusterId(y),
            R::NClusterId(z),
            R::ClusterCtaid(x),
            R::ClusterCtaid(y),
            R::ClusterCtaid(z),
            R::ClusterNctaid(x),
            R::ClusterNctaid(y),
            R::ClusterNctaid(z),
            R::ClusterCtaRank,
            R::ClusterNctaRank,
            R::DynamicSmemSize,
            R::TotalSmemSize,
            R::AggrSmemSize,
        ]
    };

    /// The type of the value.
    pub const fn scalar(self) -> Scalar {
        use SpecialReg as R;
        match self {
            R::Tid(_) | R::Ntid(_) | R::Ctaid(_) | R::Nctaid(_) => Scalar::I32,
            R::ClusterId(_) | R::NClusterId(_) | R::ClusterCtaid(_) | R::ClusterNctaid(_) => {
                Scalar::I32
            }
            R::LaneId | R::NWarpId | R::NSmId | R::ClusterCtaRank | R::ClusterNctaRank => {
                Scalar::I32
            }
            R::LaneMaskEq | R::LaneMaskLe | R::LaneMaskLt | R::LaneMaskGe | R::LaneMaskGt => {
                Scalar::U32
            }
            R::DynamicSmemSize | R::TotalSmemSize | R::AggrSmemSize => Scalar::U32,
            R::GridId => Scalar::U64,
            R::IsExplicitCluster => Scalar::Bool,
        }
    }

    /// The first target that has the register.
    pub const fn first_target(self) -> Target {
        use SpecialReg as R;
        match self {
            R::IsExplicitCluster
            | R::ClusterId(_)
            | R::NClusterId(_)
            | R::ClusterCtaid(_)
            | R::ClusterNctaid(_)
            | R::ClusterCtaRank
            | R::ClusterNctaRank
            | R::AggrSmemSize => Target::SM_90,
            R::Tid(_) | R::Ntid(_) | R::Ctaid(_) | R::Nctaid(_) => Target::SM_80,
            R::LaneId | R::NWarpId | R::NSmId | R::GridId => Target::SM_80,
            R::LaneMaskEq | R::LaneMaskLe | R::LaneMaskLt | R::LaneMaskGe | R::LaneMaskGt => {
                Target::SM_80
            }
            R::DynamicSmemSize | R::TotalSmemSize => Target::SM_80,
        }
    }
}

impl VolatileReg {
    /// All special registers that change.
    pub const ALL: [VolatileReg; 5] = [
        VolatileReg::WarpId,
        VolatileReg::SmId,
        VolatileReg::Clock,
        VolatileReg::Clock64,
        VolatileReg::GlobalTimer,
    ];

    /// The type of the value.
    pub const fn scalar(self) -> Scalar {
        match self {
            VolatileReg::WarpId | VolatileReg::SmId => Scalar::I32,
            VolatileReg::Clock => Scalar::U32,
            VolatileReg::Clock64 | VolatileReg::GlobalTimer => Scalar::U64,
        }
    }
}

impl FromStr for SpecialReg {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<SpecialReg, ParseNameError> {
        name::find("a special register", &SpecialReg::ALL, text)
    }
}

impl FromStr for VolatileReg {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<VolatileReg, ParseNameError> {
        name::find("a volatile special register", &VolatileReg::ALL, text)
    }
}

/// The PTX name without its percent sign: `tid.x`.
impl fmt::Display for SpecialReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SpecialReg as R;
        let (name, axis) = match self {
            R::Tid(axis) => ("tid", Some(axis)),
            R::Ntid(axis) => ("ntid", Some(axis)),
            R::Ctaid(axis) => ("ctaid", Some(axis)),
            R::Nctaid(axis) => ("nctaid", Some(axis)),
            R::LaneId => ("laneid", None),
            R::NWarpId => ("nwarpid", None),
            R::NSmId => ("nsmid", None),
            R::GridId => ("gridid", None),
            R::LaneMaskEq => ("lanemask_eq", None),
            R::LaneMaskLe => ("lanemask_le", None),
            R::LaneMaskLt => ("lanemask_lt", None),
            R::LaneMaskGe => ("lanemask_ge", None),
            R::LaneMaskGt => ("lanemask_gt", None),
            R::IsExplicitCluster => ("is_explicit_cluster", None),
            R::ClusterId(axis) => ("clusterid", Some(axis)),
            R::NClusterId(axis) => ("nclusterid", Some(axis)),
            R::ClusterCtaid(axis) => ("cluster_ctaid", Some(axis)),
            R::ClusterNctaid(axis) => ("cluster_nctaid", Some(axis)),
            R::ClusterCtaRank => ("cluster_ctarank", None),
            R::ClusterNctaRank => ("cluster_nctarank", None),
            R::DynamicSmemSize => ("dynamic_smem_size", None),
            R::TotalSmemSize => ("total_smem_size", None),
            R::AggrSmemSize => ("aggr_smem_size", None),
        };
        match axis {
            Some(axis) => write!(f, "{name}.{axis}"),
            None => f.write_str(name),
        }
    }
}

/// The PTX name without its percent sign: `clock64`.
impl fmt::Display for VolatileReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VolatileReg::WarpId => "warpid",
            VolatileReg::SmId => "smid",
            VolatileReg::Clock => "clock",
            VolatileReg::Clock64 => "clock64",
            VolatileReg::GlobalTimer => "globaltimer",
        })
    }
}
