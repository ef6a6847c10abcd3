//! [`ThreadsArgs`]: the arguments of a launch of a kernel without warp roles (`sm80` and `simt`),
//! in the order in which `sm80/arguments.rs` declares the parameters.

use crate::runtime::{ArgList, Grid};

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::problem::{GemmProblem, GemmStrides};
use crate::kernels::gemm::epilogue::EpilogueArgs;
use crate::kernels::gemm::kernel::AnyGemm;
use crate::kernels::gemm::launch::shared::GemmShared;
use crate::kernels::gemm::launch::sm90::Operands;
use crate::kernels::gemm::split::{GemmWorkspace, Workspace};
use crate::kernels::ready::Launch;

/// A launch, ready to run.
pub(crate) struct ThreadsArgs<'h> {
    workspace: Workspace<'h>,
    config: &'h GemmConfig,
    operands: Operands<'h>,
    strides: [[i64; 2]; 3],
    sizes: [i32; 4],
    tiles: [u64; 3],
}

impl<'h> ThreadsArgs<'h> {
    /// Binds the buffers, and checks that A and B are aligned as the kernel needs.
    #[inline]
    pub(crate) fn new(
        shared: &'h GemmShared,
        config: &'h GemmConfig,
        operands: Operands<'h>,
        problem: &GemmProblem,
        strides: &GemmStrides,
        given: Option<&'h mut GemmWorkspace>,
    ) -> Result<Self, GemmError> {
        let alignment = config.alignment;
        let bytes = alignment.into();
        let Operands { a, b, .. } = &operands;
        let starts = [('A', a.is_aligned_to(bytes)), ('B', b.is_aligned_to(bytes))];
        if let Some((operand, _)) = starts.into_iter().find(|(_, aligned)| !aligned) {
            return Err(GemmError::Address { operand, alignment });
        }
        let GemmProblem { m, n, k, batch, .. } = *problem;
        let [rows, columns, _] = config.tiles(problem).map(u64::from);
        Ok(ThreadsArgs {
            workspace: Workspace::new(shared.workspace.as_ref(), given),
            config,
            operands,
            // Strides are below 2^40, and sizes below 2^31.
            strides: [strides.a, strides.b, strides.d].map(|both| both.map(|s| s as i64)),
            sizes: [m, n, k, batch].map(|size| size as i32),
            tiles: [rows, columns, batch.into()],
        })
    }

    #[inline]
    pub(crate) fn start(
        &mut self,
        launch: &Launch<'_, AnyGemm>,
        grid: Grid,
        epilogue: &mut dyn EpilogueArgs,
    ) -> Result<(), GemmError> {
        let (config, tiles, sizes) = (self.config, self.tiles, self.sizes);
        let [a_strides, b_strides, d_strides] = self.strides;
        let mut reserved = self.workspace.reserve(config, tiles, grid)?;
        // In the order of `Params`.
        let mut list = ArgList::default();
        list.buffer(self.operands.a);
        list.scalars(a_strides);
        list.buffer(self.operands.b);
        list.scalars(b_strides);
        list.buffer_mut(self.operands.d.reborrow());
        list.scalars(d_strides);
        list.scalars(sizes);
        epilogue.push(&mut list);
        reserved.push(config, &mut list);
        let launched = launch.start_list(grid, &mut list);
        drop(list);
        reserved.end(launched)
    }
}
