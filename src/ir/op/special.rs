//! Special registers: what the hardware tells a thread about itself and its launch (PTX ISA,
//! chapter 10). In a kernel, call the methods of `Body`, such as `thread_idx`.

use std::fmt;
use std::str::FromStr;

use super::Axis;
use crate::ir::name::{self, ParseNameError};
use crate::ir::target::Target;
use crate::ir::types::Scalar;

/// A special register whose value does not change while the thread runs, so that reads of it may be
/// merged.
///
/// Counts and indices are `i32`; lane masks and sizes in bytes are `u32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpecialReg {
    /// `%tid`: the thread's index in its block.
    Tid(Axis),
    /// `%ntid`: the block's size.
    Ntid(Axis),
    /// `%ctaid`: the block's index in the grid.
    Ctaid(Axis),
    /// `%nctaid`: the grid's size in blocks.
    Nctaid(Axis),
    /// `%laneid`: the thread's index in its warp, 0 to 31.
    LaneId,
    /// `%nwarpid`: the maximum number of warps on an SM.
    NWarpId,
    /// `%nsmid`: the highest SM index plus one.
    NSmId,
    /// `%gridid`: the launch's id, `u64`.
    GridId,
    /// `%lanemask_eq`: the bit of the thread's own lane.
    LaneMaskEq,
    /// `%lanemask_le`: the bits of the thread's lane and all lower lanes.
    LaneMaskLe,
    /// `%lanemask_lt`: the bits of all lower lanes.
    LaneMaskLt,
    /// `%lanemask_ge`: the bits of the thread's lane and all higher lanes.
    LaneMaskGe,
    /// `%lanemask_gt`: the bits of all higher lanes.
    LaneMaskGt,
    /// `%is_explicit_cluster`: whether the launch specifies clusters, `bool`.
    IsExplicitCluster,
    /// `%clusterid`: the cluster's index in the grid.
    ClusterId(Axis),
    /// `%nclusterid`: the grid's size in clusters.
    NClusterId(Axis),
    /// `%cluster_ctaid`: the block's index in its cluster.
    ClusterCtaid(Axis),
    /// `%cluster_nctaid`: the cluster's size in blocks, along an axis.
    ClusterNctaid(Axis),
    /// `%cluster_ctarank`: the block's rank in its cluster.
    ClusterCtaRank,
    /// `%cluster_nctarank`: the number of blocks in the cluster.
    ClusterNctaRank,
    /// `%dynamic_smem_size`: the dynamic shared memory that the launch requested, in bytes.
    DynamicSmemSize,
    /// `%total_smem_size`: the block's shared memory as allocated, static and dynamic, in bytes.
    TotalSmemSize,
    /// `%aggr_smem_size`: the block's shared memory as allocated, plus what the system reserves, in
    /// bytes.
    AggrSmemSize,
}

/// A special register whose value may change between two reads, so that reads of it are never
/// merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VolatileReg {
    /// `%warpid`: the warp's current slot on its SM, `i32`. This is not the warp's index in its
    /// block.
    WarpId,
    /// `%smid`: the SM that currently runs the thread, `i32`.
    SmId,
    /// `%clock`: the SM's cycle counter, `u32`; wraps.
    Clock,
    /// `%clock64`: the SM's cycle counter, `u64`.
    Clock64,
    /// `%globaltimer`: a nanosecond clock shared by all SMs, `u64`. Its resolution depends on the
    /// device and is often one microsecond.
    GlobalTimer,
}

impl SpecialReg {
    /// All registers whose values do not change, with every axis, for tests and tables.
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

    /// Returns the type of the value.
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

    /// Returns the oldest target that has the register.
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
    /// All registers whose values may change, for tests and tables.
    pub const ALL: [VolatileReg; 5] = [
        VolatileReg::WarpId,
        VolatileReg::SmId,
        VolatileReg::Clock,
        VolatileReg::Clock64,
        VolatileReg::GlobalTimer,
    ];

    /// Returns the type of the value.
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

/// Prints the PTX name without its percent sign: `tid.x`.
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

/// Prints the PTX name without its percent sign: `clock64`.
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
