//! [`Loaded`]: a kernel on a device, with what its launches need. [`Sm90Args`]: one launch of the
//! warp-specialised kernel. [`GemmFunction`](super::GemmFunction) makes both; come here if a kernel
//! needs another buffer.

use crate::runtime::{
    ArgList, Argument, Buffer, BufferMut, BufferRef, Declared, Device, Function, Grid, LoadOptions,
    RuntimeError,
};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::LoadMethod;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::epilogue::EpilogueArgs;
use crate::kernels::gemm::kernel::AnyGemm;
use crate::kernels::gemm::launch::mode::LaunchMode;
use crate::kernels::gemm::launch::repack::Repack;
use crate::kernels::gemm::sm90::groups::LaunchGroups;
use crate::kernels::gemm::sm90::input::InputArgs;
use crate::kernels::gemm::sm90::output::OutputArgs;
use crate::kernels::gemm::sm90::plan::{Plan, SizeParams};
use crate::kernels::gemm::sm90::ragged::{Made, Maps};
use crate::kernels::gemm::split::{GemmWorkspace, SplitWorkspace, Workspace};

/// A kernel loaded on a device, with what its launches need.
pub(crate) struct Loaded {
    pub(crate) function: Function<Declared>,
    /// Set for warp-specialised kernels.
    pub(crate) plan: Option<Box<Plan>>,
    /// Copies operands that TMA or the tensor cores cannot read. Set for [`LoadMethod::Repack`].
    pub(crate) repack: Option<Box<Repack>>,
    /// Makes the tensor maps on the device. Set for ragged kernels.
    maps: Option<Box<Maps>>,
    /// Set if K is split or tiles are drawn from a counter.
    pub(crate) workspace: Option<SplitWorkspace>,
}

impl Loaded {
    #[inline]
    pub(crate) fn new(
        options: LoadOptions<'_>,
        kernel: &AnyGemm,
        device: &Device,
    ) -> Result<Loaded, GemmError> {
        let AnyGemm { config, kernel, plan, .. } = kernel;
        let maps = config.is_ragged().then(|| Maps::load(config, options, device)).transpose()?;
        let function = device.load_with(options, kernel)?;
        let workspace = config.has_workspace().then(|| SplitWorkspace::new(device)).transpose()?;
        let copies = config.load == LoadMethod::Repack;
        let repack = copies.then(|| Repack::load(config, options, device)).transpose()?;
        Ok(Loaded {
            function,
            plan: plan.clone(),
            repack: repack.map(Box::new),
            maps: maps.map(Box::new),
            workspace,
        })
    }

    /// Returns how many blocks run at once, for a kernel with clusters. This can be less than the
    /// SM count, because a cluster's blocks must be neighbours. `None` without clusters, and on the
    /// simulator.
    #[inline]
    pub(crate) fn blocks_at_once(&self, config: &GemmConfig) -> Result<Option<u32>, RuntimeError> {
        let blocks = config.cluster_blocks();
        if blocks == 1 {
            return Ok(None);
        }
        let grid = Grid::new([blocks, 1, 1], [config.threads(), 1, 1]);
        Ok(self.function.clusters_at_once(grid)?.map(|clusters| clusters * blocks))
    }
}

/// A launch of the warp-specialised kernel, ready to run.
pub(crate) struct Sm90Args<'h> {
    loaded: &'h Loaded,
    config: &'h GemmConfig,
    input: InputArgs<'h>,
    output: OutputArgs<'h>,
    /// The table of a ragged batch.
    table: Option<&'h Buffer<i64>>,
    workspace: Workspace<'h>,
    tiles: [i32; 3],
    batch: i32,
    batched: [i32; 2],
    extents: [i32; 2],
}

/// The buffers of A, B and D.
pub(crate) struct Operands<'h> {
    pub(crate) a: BufferRef<'h>,
    pub(crate) b: BufferRef<'h>,
    pub(crate) d: BufferMut<'h>,
}

/// Group bounds of a grouped GEMM, or the table of a ragged batch.
#[derive(Default)]
pub(crate) struct Uneven<'h> {
    pub(crate) groups: Option<LaunchGroups<'h>>,
    pub(crate) table: Option<&'h Buffer<i64>>,
}

impl<'h> Sm90Args<'h> {
    #[inline]
    pub(crate) fn new(
        loaded: &'h Loaded,
        plan: &'h Plan,
        operands: Operands<'h>,
        problem: &GemmProblem,
        strides: &GemmStrides,
        uneven: Uneven<'h>,
        given: Option<&'h mut GemmWorkspace>,
    ) -> Result<Self, GemmError> {
        let (GemmProblem { m, n, batch, .. }, config) = (*problem, &plan.config);
        let (Operands { a, b, d }, Uneven { groups, table }) = (operands, uneven);
        let is_batched = |[_, next]: [u64; 2]| i32::from(next != 0 && table.is_none());
        Ok(Sm90Args {
            loaded,
            config,
            input: InputArgs::new(plan, a, b, problem, strides)?,
            output: OutputArgs::new(plan, d, problem, strides, groups)?,
            table,
            workspace: Workspace::new(loaded.workspace.as_ref(), given),
            tiles: config.tiles(problem).map(|n| n as i32),
            batch: batch as i32,
            batched: [strides.a, strides.b].map(is_batched),
            extents: [m as i32, (n / config.accumulators_per_element()) as i32],
        })
    }

    #[inline]
    pub(crate) fn run(
        &mut self,
        mode: &mut LaunchMode<'_>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let Sm90Args { loaded, input, output, workspace, .. } = self;
        let (config, table, batch, extents) = (self.config, self.table, self.batch, self.extents);
        let ([row_tiles, column_tiles, steps], [batched_a, batched_b]) = (self.tiles, self.batched);
        let sizes =
            SizeParams { row_tiles, column_tiles, steps, batch, batched_a, batched_b, extents };
        let maps = match (loaded.maps.as_ref().zip(table), &*input, &mut *output) {
            (Some((maps, table)), InputArgs::Maps(input), OutputArgs::Map(d)) => {
                Some(maps.make(mode, input, d, table, batch)?)
            }
            _ => None,
        };
        let made = maps.as_deref().zip(table);
        let made = made.map(|(maps, table)| Made { maps, table, count: batch });
        let groups = [row_tiles as u64, column_tiles as u64, batch as u64];
        let mut reserved = workspace.reserve(config, groups, grid)?;
        // Same order as the declarations in `Plan::build`. The launch checks the types.
        let mut list = ArgList::default();
        input.push(made, &mut list);
        SizeParams::erase(sizes, &mut list);
        epilogue.push(&mut list);
        output.push(made, &mut list);
        reserved.push(config, &mut list);
        let launched = mode.run(&loaded.function, grid, list);
        reserved.end(launched)
    }
}
