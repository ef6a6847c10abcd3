//! Launches a GEMM with few rows: checks the buffers and passes the parameters. A caller passes
//! [`SmallGemmArgs`].

use crate::ir::builder::VectorElement;
use crate::ir::{Element, Untyped};
use crate::runtime::{Buffer, Function, Grid, LoadOptions, Occupancy};

use super::super::ready::{Launch, ReadyKernel};
use super::super::split::SplitWorkspace;
use super::SmallGemm;
use super::config::{Exchange, LaunchStart, SmallGemmConfig};
use super::error::{SmallGemmError, some_or_no};
use super::kernel::{Params, Signature};
use super::problem::SmallGemmProblem;

/// The buffers of a launch of [`SmallGemm`]. Each must start at a multiple of 16 bytes.
pub struct SmallGemmArgs<'h, T, W = u32> {
    /// A, `[rows, depth]`.
    pub a: &'h Buffer<T>,
    /// The words of the [`PackedWeights`](super::PackedWeights), or the matrix `[columns, depth]`.
    pub weights: &'h Buffer<W>,
    /// The scales of the [`PackedWeights`](super::PackedWeights), or those of
    /// [`pack_scales`](super::pack_scales); `None` for
    /// [`WeightFormat::Full`](super::WeightFormat::Full).
    pub scales: Option<&'h Buffer<T>>,
    /// D, `[rows, columns]`.
    pub d: &'h mut Buffer<T>,
    /// Added to all rows before the activation, `[columns]`.
    pub bias: Option<&'h Buffer<T>>,
    /// Added after the activation, like D.
    pub residual: Option<&'h Buffer<T>>,
}

/// The occupancy that the simulator reports; the kernel does not ask for it.
const SIMULATED: Occupancy = Occupancy { blocks_per_sm: 2, sm_count: 2 };

impl<T: VectorElement<2>, W: Element> ReadyKernel for SmallGemm<T, W> {
    type Config = SmallGemmConfig;
    /// The parameters have names, and are not public.
    type Params = Untyped;
    type Problem = SmallGemmProblem;
    type Args<'a> = SmallGemmArgs<'a, T, W>;
    type Shared = SplitWorkspace<f32>;
    type Error = SmallGemmError;

    fn config(&self) -> &SmallGemmConfig {
        &self.config
    }

    fn share(
        &self,
        function: &Function<Untyped>,
        _: LoadOptions<'_>,
    ) -> Result<SplitWorkspace<f32>, SmallGemmError> {
        Ok(SplitWorkspace::new(function, self.config.threads(), SIMULATED)?)
    }

    /// # Errors
    /// Those of [`SmallGemmProblem::check`]; [`SmallGemmError::Depth`] if K is no multiple of
    /// [`depth_multiple`](super::WeightFormat::depth_multiple); [`SmallGemmError::Scales`] if they
    /// are missing, or if there are some and the format has none; buffers that are too short or
    /// misaligned; those of [`Function::launch`].
    fn launch(
        &self,
        problem: &SmallGemmProblem,
        args: SmallGemmArgs<'_, T, W>,
        launch: Launch<'_, Self>,
    ) -> Result<(), SmallGemmError> {
        problem.check()?;
        let SmallGemmArgs { a, weights, scales, d, bias, residual } = args;
        let SmallGemmProblem { rows, columns, depth } = *problem;
        let SmallGemmConfig { weights: format, splits, exchange, start, .. } = self.config;
        let multiple = format.depth_multiple();
        if !depth.is_multiple_of(multiple) {
            return Err(SmallGemmError::Depth { found: depth, needed: multiple });
        }
        let (found, needed) = (scales.is_some(), format.group().is_some());
        if found != needed {
            let [found, needed] = [found, needed].map(some_or_no);
            return Err(SmallGemmError::Scales { format, found, needed });
        }
        // A stands in for what is missing; the kernel does not read it.
        let scales = scales.unwrap_or(a);
        let [a_len, d_len] = problem.lens();
        let lens = [
            ("elements of A", a.len(), a_len, a.is_aligned_to(16)),
            ("weights", weights.len(), format.weights(columns, depth), weights.is_aligned_to(16)),
            ("scales", scales.len(), format.scales(columns, depth), scales.is_aligned_to(16)),
            ("elements of D", d.len(), d_len, true),
        ];
        let bias_len = bias.map(|bias| ("elements of the bias", bias.len(), columns.into(), true));
        let residual_len =
            residual.map(|residual| ("elements of the residual", residual.len(), d_len, true));
        let lens = lens.into_iter().chain(bias_len).chain(residual_len);
        for (operand, found, needed, is_aligned) in lens {
            let found = found as u64;
            if found < needed {
                return Err(SmallGemmError::Length { operand, found, needed });
            }
            if !is_aligned {
                return Err(SmallGemmError::Address { operand });
            }
        }
        if d_len == 0 {
            return Ok(());
        }
        let [along_n, along_m] =
            [columns.div_ceil(self.config.block_columns()), rows.div_ceil(self.config.rows)];
        let grid = Grid::new([along_n, splits, along_m], [self.config.threads(), 1, 1]);
        let tiles = u64::from(along_n) * u64::from(along_m);
        let (partials, arrivals) = match exchange {
            Exchange::Workspace if splits > 1 => {
                let of_block = u64::from(self.config.rows * self.config.block_columns());
                (tiles * u64::from(splits) * of_block, tiles)
            }
            _ => (0, 0),
        };
        let launch = launch.programmatic(start == LaunchStart::Early);
        launch.shared().with(partials, arrivals, |buffers| {
            let params = Params {
                a,
                scales,
                d,
                // `SmallGemmProblem::check` bounds all of them.
                rows: rows as i32,
                columns: columns as i32,
                depth: depth as i32,
                bias: bias.unwrap_or(a),
                bias_columns: if bias.is_some() { columns as i32 } else { 0 },
                residual: residual.unwrap_or(a),
                residual_rows: if residual.is_some() { rows as i32 } else { 0 },
                partials: &mut buffers.partials,
                arrivals: &mut buffers.arrivals,
            };
            launch.start_as::<Signature<T, W>>(grid, (params, weights))
        })?;
        Ok(())
    }
}
