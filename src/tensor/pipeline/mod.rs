//! Rings of stages with their barriers, warp-group roles, tile schedulers and rasterization.

pub(super) mod cp_async;
pub(super) mod raster;
pub(super) mod roles;
pub(super) mod scheduler;
pub(super) mod tma;
pub(super) mod tma_store;

pub use cp_async::{CpAsyncPipeline, CpAsyncState};
pub use raster::{ParseRasterError, Raster};
pub use roles::{WarpRole, warp_roles};
pub use scheduler::{Tile, TileScheduler};
pub use tma::{OrderedBarrier, PipelineState, TmaPipeline};
pub use tma_store::TmaStorePipeline;
