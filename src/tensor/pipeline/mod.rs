//! Pipelines between copies and compute, warp roles, and schedulers that hand out tiles. They
//! overlap loads with MMAs, and let blocks loop over their work.
//!
//! | pipeline | who fills a stage | who empties it | pick it |
//! |---|---|---|---|
//! | [`CpAsyncPipeline`] | all threads, `cp.async` | the same threads | on `sm_80`, no warp roles |
//! | [`TmaPipeline`] | one thread, TMA or bulk copies | consumer warps | on `sm_90`, warp roles |
//! | [`TmaPipeline::written_by`] | some threads, stores | consumer warps | without TMA |
//! | [`TmaStorePipeline`] | all threads, stores | one thread, TMA | in epilogues |
//!
//! For a plain loop without roles, [`Range::prefetch_stages`](crate::ir::Range::prefetch_stages)
//! builds the pipeline for you.
//!
//! | work | scheduler |
//! |---|---|
//! | tiles of a matrix or batch, in a [`Raster`] order | [`TileScheduler`] |
//! | grouped GEMM | [`TileScheduler`] with [`RowGroups`] or [`GroupSizes`] |
//! | any items of equal cost | [`StaticScheduler`] |
//! | items whose cost differs | [`WorkCounter`], with warp roles [`DynamicScheduler`] |
//! | attention heads, ragged sequences | decode items with [`HeadSections`], [`Sequences`] |

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
pub(crate) use scheduler::{GroupTile, GroupWalk};
pub use scheduler::{Tile, TileScheduler};
pub use sequences::{HeadSections, SequenceTile, Sequences};
pub use tma::{OrderedBarrier, PipelineState, TmaPipeline};
pub use tma_store::TmaStorePipeline;
pub(crate) use turns::PipelineTurns;
pub use work::{
    DynamicScheduler, DynamicWork, StaticScheduler, WorkCounter, WorkNumbers, WorkScheduler,
};
