//! Launches a convolution kernel: checks the buffers, makes the tensor maps, and passes the
//! parameters. A caller passes [`ConvolutionArgs`].

use crate::ir::Untyped;
use crate::ir::builder::VectorElement;
use crate::runtime::{Buffer, Function, Grid};

use super::super::ready::{Launch, ReadyKernel};
use super::Convolution;
use super::config::{ConvolutionBias, ConvolutionConfig};
use super::error::ConvolutionError;
use super::kernel::Params;
use super::problem::ConvolutionProblem;

/// The buffers of a convolution launch, for a [`Convolution`]. Their shapes are in the
/// [`ConvolutionProblem`]; each must start at a multiple of 16 bytes.
pub struct ConvolutionArgs<'h, T> {
    /// x, the images.
    pub x: &'h Buffer<T>,
    /// w, the filters.
    pub w: &'h Buffer<T>,
    /// The bias, one value per output channel, for [`ConvolutionBias::PerChannel`].
    pub bias: Option<&'h Buffer<T>>,
    /// y, the output.
    pub y: &'h mut Buffer<T>,
}

impl<T: VectorElement<2>> ReadyKernel for Convolution<T> {
    type Config = ConvolutionConfig;
    /// The parameters have names, and are not public.
    type Params = Untyped;
    type Problem = ConvolutionProblem;
    type Args<'a> = ConvolutionArgs<'a, T>;
    /// The device's SMs.
    type Shared = u32;
    type Error = ConvolutionError;

    fn config(&self) -> &ConvolutionConfig {
        &self.config
    }

    fn share(&self, function: &Function<Untyped>) -> Result<u32, ConvolutionError> {
        // The simulator runs blocks one after the other. With only two, each has several tiles, as
        // on a GPU.
        Ok(function.device().properties().map_or(2, |properties| properties.sm_count))
    }

    /// # Errors
    /// Those of [`ConvolutionProblem::check`]; [`ConvolutionError::Bias`]; buffers that are too
    /// short or misaligned; those of [`Function::launch`].
    fn launch(
        &self,
        problem: &ConvolutionProblem,
        args: ConvolutionArgs<'_, T>,
        launch: Launch<'_, Self>,
    ) -> Result<(), ConvolutionError> {
        let ConvolutionArgs { x, w, bias, y } = args;
        problem.check()?;
        match (self.config.bias, bias) {
            (ConvolutionBias::Absent, Some(_)) => {
                return Err(ConvolutionError::Bias { what: "a", with: "without" });
            }
            (ConvolutionBias::PerChannel, None) => {
                return Err(ConvolutionError::Bias { what: "no", with: "with" });
            }
            _ => {}
        }
        let [x_len, w_len, y_len] = problem.lens();
        check_len("x", x.len(), x_len)?;
        check_len("w", w.len(), w_len)?;
        check_len("y", y.len(), y_len)?;
        if let Some(bias) = bias {
            check_len("the bias", bias.len(), problem.out_channels.into())?;
        }
        if problem.images == 0 {
            return Ok(());
        }
        let (tiles, steps) = (self.config.tiles(problem), self.config.steps(problem));
        let [row_tiles, column_tiles] = tiles;
        // Both are below 2^31.
        let count = row_tiles * column_tiles;
        let max = (1 << 31) - 1;
        for (what, found) in [("the tile count", count), ("a tile's step count", steps)] {
            if found > max {
                return Err(ConvolutionError::TooLarge { what, found, max });
            }
        }
        let blocks = count.min((*launch.shared()).into()) as u32;
        let grid = Grid::new([blocks, 1, 1], [self.config.threads(), 1, 1]);
        let [x_map, w_map, y_map] = self.plan.maps(problem)?;
        let [out_height, out_width] = problem.outputs();
        let [along_h, along_w] = problem.filters;
        // `ConvolutionProblem::check` bounds all of them.
        let params = Params {
            x: &x.tensor_map(&x_map)?,
            w: &w.tensor_map(&w_map)?,
            y: &mut y.tensor_map_mut(&y_map)?,
            bias: bias.unwrap_or(x),
            out_channels: problem.out_channels as i32,
            tiles: tiles.map(|tiles| tiles as i32),
            outputs: [out_width, out_height].map(|size| size as i32),
            filter: [along_w, along_h].map(|filter| filter.size as i32),
            stride: [along_w, along_h].map(|filter| filter.stride as i32),
            dilation: [along_w, along_h].map(|filter| filter.dilation as i32),
            padding: [along_w, along_h].map(|filter| filter.lower_padding as i32),
            channel_blocks: self.config.channel_blocks(problem) as i32,
        };
        Ok(launch.start_as::<(Params<T>,)>(grid, (params,))?)
    }
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), ConvolutionError> {
    let found = found as u64;
    if found < needed {
        return Err(ConvolutionError::BufferLength { operand, found, needed });
    }
    Ok(())
}
