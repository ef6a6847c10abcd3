//! [`GemmShared`]: what the launches of a loaded GEMM share: the kernels that prepare operands, and
//! the workspace of split-K and of the tile counter.

use crate::ir::Untyped;
use crate::runtime::{Buffer, Function, Grid, LoadOptions, RuntimeError};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::LoadMethod;
use crate::kernels::gemm::launch::repack::Repack;
use crate::kernels::gemm::sm90::ragged::Maps;
use crate::kernels::gemm::split::SplitWorkspace;

/// What the launches of a loaded GEMM share: the kernels that run before it, and workspaces.
pub struct GemmShared {
    /// Copies operands that TMA or the tensor cores cannot read. Set for [`LoadMethod::Repack`].
    pub(crate) repack: Option<Box<Repack>>,
    /// Makes the tensor maps on the device. Set for ragged kernels.
    pub(crate) maps: Option<Box<Maps>>,
    /// Set if K is split or tiles are drawn from a counter.
    pub(crate) workspace: Option<SplitWorkspace>,
    /// How many SMs a persistent kernel may use.
    pub(crate) sms: u32,
    /// Passed in place of a C or a bias that is not used.
    pub(crate) no_c: Buffer<u64>,
}

impl GemmShared {
    #[inline]
    pub(crate) fn new(
        config: &GemmConfig,
        function: &Function<Untyped>,
        options: LoadOptions<'_>,
    ) -> Result<GemmShared, GemmError> {
        let device = function.device();
        let maps = config.is_ragged().then(|| Maps::load(config, options, device)).transpose()?;
        let workspace = config.has_workspace().then(|| SplitWorkspace::new(device)).transpose()?;
        let copies = config.load == LoadMethod::Repack;
        let repack = copies.then(|| Repack::load(config, options, device)).transpose()?;
        // The simulator runs blocks one after the other. With several, a persistent kernel still
        // has to share tiles between them.
        let sms = device.properties().map_or(4, |properties| properties.sm_count);
        let at_once = blocks_at_once(config, function)?;
        Ok(GemmShared {
            repack: repack.map(Box::new),
            maps: maps.map(Box::new),
            workspace,
            sms: at_once.map_or(sms, |blocks| blocks.min(sms)),
            no_c: device.zeros(1)?,
        })
    }
}

/// Returns how many blocks run at once, for a kernel with clusters. This can be less than the SM
/// count, because a cluster's blocks must be neighbours. `None` without clusters, and on the
/// simulator.
#[inline]
fn blocks_at_once(
    config: &GemmConfig,
    function: &Function<Untyped>,
) -> Result<Option<u32>, RuntimeError> {
    let blocks = config.cluster_blocks();
    if blocks == 1 {
        return Ok(None);
    }
    let grid = Grid::new([blocks, 1, 1], [config.threads(), 1, 1]);
    Ok(function.clusters_at_once(grid)?.map(|clusters| clusters * blocks))
}
