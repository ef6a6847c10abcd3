//! [`ClusterPeers`]: the blocks of a cluster that need the same tile, for TMA multicast loads. Pass
//! it to [`TmaCopy::load_rotated`](crate::tensor::copy::TmaCopy::load_rotated), so that each tile
//! is read once per cluster.

use crate::ir::Val;

/// The blocks of a cluster that need the same tile, seen from one of them: the targets of multicast
/// copies. Made by [`TileScheduler::peers`](crate::tensor::pipeline::TileScheduler::peers).
#[derive(Clone, Copy, Debug)]
pub struct ClusterPeers<'b> {
    /// How many blocks need the tile.
    pub blocks: u32,
    /// The calling block's index among them.
    pub rank: Val<'b, i32>,
    /// One bit per block of the cluster: the multicast mask.
    pub ctas: Val<'b, u32>,
}
