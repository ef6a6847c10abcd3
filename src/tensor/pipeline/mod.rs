//! Rings of stages with their barriers, warp-group roles, work schedulers and rasterization.

pub(super) mod cp_async;
pub(super) mod group_sizes;
mod groups;
pub(super) mod launch;
pub(super) mod raster;
pub(super) mod roles;
pub(super) mod row_groups;
pub(super) mod scheduler;
pub(super) mod sequences;
pub(super) mod tma;
pub(super) mod tma_store;
mod turns;
pub(super) mod work;

pub use cp_async::{CpAsyncPipeline, CpAsyncState};
pub use group_sizes::GroupSizes;
pub(crate) use launch::wait_for_launch;
pub use raster::{ParseRasterError, Raster};
pub use roles::{WarpRole, warp_roles};
pub use row_groups::{RowGroup, RowGroups};
pub use scheduler::{Tile, TileScheduler};
pub use sequences::{HeadSections, SequenceTile, Sequences};
pub use tma::{OrderedBarrier, PipelineState, TmaPipeline};
pub use tma_store::TmaStorePipeline;
pub(crate) use turns::PipelineTurns;
pub use work::{
    DynamicScheduler, DynamicWork, StaticScheduler, WorkCounter, WorkNumbers, WorkScheduler,
};
