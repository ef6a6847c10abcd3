//! [`ClusterPeers`]: the blocks of a cluster that need the same tile.

use crate::ir::Val;

/// The blocks of a cluster that need the same tile, seen from one of them: where multicast copies go.
/// [`TileScheduler::peers`](crate::tensor::TileScheduler::peers) makes it.
#[derive(Clone, Copy, Debug)]
pub struct ClusterPeers<'b> {
    /// The number of these blocks.
    pub blocks: u32,
    /// The number of the calling block among them.
    pub rank: Val<'b, i32>,
    /// The bit of each of them in the cluster: the mask of a multicast.
    pub ctas: Val<'b, u32>,
}
