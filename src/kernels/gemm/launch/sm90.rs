//! [`Sm90Args`]: the arguments of a launch of the warp-specialised kernel, in the order in which
//! `sm90/plan.rs` declares the parameters.

use crate::runtime::{ArgList, Argument, Buffer, BufferMut, BufferRef, Grid};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::epilogue::EpilogueArgs;
use crate::kernels::gemm::kernel::AnyGemm;
use crate::kernels::gemm::launch::shared::GemmShared;
use crate::kernels::gemm::sm90::input::InputArgs;
use crate::kernels::gemm::sm90::output::OutputArgs;
use crate::kernels::gemm::sm90::plan::{Plan, SizeParams};
use crate::kernels::gemm::sm90::ragged::Made;
use crate::kernels::gemm::split::{GemmWorkspace, Workspace};
use crate::kernels::group_rows::LaunchGroups;
use crate::kernels::ready::Launch;

/// A launch of the warp-specialised kernel, ready to run.
pub(crate) struct Sm90Args<'h> {
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
        shared: &'h GemmShared,
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
            config,
            input: InputArgs::new(plan, a, b, problem, strides)?,
            output: OutputArgs::new(plan, d, problem, strides, groups)?,
            table,
            workspace: Workspace::new(shared.workspace.as_ref(), given),
            tiles: config.tiles(problem).map(|n| n as i32),
            batch: batch as i32,
            batched: [strides.a, strides.b].map(is_batched),
            extents: [m as i32, (n / config.accumulators_per_element()) as i32],
        })
    }

    #[inline]
    pub(crate) fn start(
        &mut self,
        launch: &Launch<'_, AnyGemm>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let Sm90Args { input, output, workspace, .. } = self;
        let (config, table, batch, extents) = (self.config, self.table, self.batch, self.extents);
        let ([row_tiles, column_tiles, steps], [batched_a, batched_b]) = (self.tiles, self.batched);
        let sizes =
            SizeParams { row_tiles, column_tiles, steps, batch, batched_a, batched_b, extents };
        let maps = match (launch.shared().maps.as_ref().zip(table), &*input, &mut *output) {
            (Some((maps, table)), InputArgs::Maps(input), OutputArgs::Map(d)) => {
                Some(maps.make(launch, input, d, table, batch)?)
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
        let launched = launch.start_list(grid, &mut list);
        drop(list);
        reserved.end(launched)
    }
}
