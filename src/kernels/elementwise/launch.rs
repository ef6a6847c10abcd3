//! [`ElementwiseFunction`]: an elementwise kernel loaded on a device. Here buffers are checked
//! against the problem and the kernel is launched.

use crate::ir::builder::{Converted, VectorElement};
use crate::runtime::{Buffer, Device, Function, Grid, LaunchOptions, LoadOptions};

use super::super::rows::{RowError, check_aligned, check_len};
use super::{Elementwise, Params, Work};

/// An [`Elementwise`] loaded on a device, made by [`Elementwise::load`]. Load it once and
/// [`launch`](ElementwiseFunction::launch) it on as many buffers as you like.
#[derive(Debug)]
pub struct ElementwiseFunction<T, D, const N: usize> {
    work: Work<N>,
    function: Function<Params<T, D, N>>,
}

impl<T: Converted, D: VectorElement<2> + Converted, const N: usize> Elementwise<T, D, N> {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Returns the error of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<ElementwiseFunction<T, D, N>, RowError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Loads the kernel as [`load`](Elementwise::load) does, with options.
    ///
    /// # Errors
    /// Returns the error of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<ElementwiseFunction<T, D, N>, RowError> {
        let function = device.load_with(options, &self.kernel)?;
        Ok(ElementwiseFunction { work: self.work, function })
    }
}

impl<T: Converted, D: VectorElement<2> + Converted, const N: usize> ElementwiseFunction<T, D, N> {
    /// Returns the log of the driver's compiler.
    pub fn compiler_log(&self) -> &str {
        self.function.compiler_log()
    }

    /// Computes all elements of `y` on the default stream; with layouts, as many as the output's
    /// layout has. Does nothing if there are none.
    ///
    /// # Errors
    /// Errors for inputs shorter than `y`, for buffers shorter than their layouts, and for
    /// misaligned buffers; [`RowError::TooLarge`]; those of [`Function::launch`].
    pub fn launch(&self, x: [&Buffer<T>; N], y: &mut Buffer<D>) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), x, y)
    }

    /// Launches as [`launch`](ElementwiseFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](ElementwiseFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        x: [&Buffer<T>; N],
        y: &mut Buffer<D>,
    ) -> Result<(), RowError> {
        let Work { tile, lens } = self.work;
        let (lens, len) = lens.unwrap_or(([y.len() as u64; N], y.len() as u64));
        for (x, len) in x.into_iter().zip(lens) {
            check_len("an input", x.len(), len)?;
            check_aligned("an input", &tile, x.is_aligned_to(16))?;
        }
        check_len("the output", y.len(), len)?;
        check_aligned("the output", &tile, y.is_aligned_to(16))?;
        let blocks = len.div_ceil(tile.capacity(T::scalar()).into());
        let blocks = i32::try_from(blocks).ok().filter(|_| len < 1 << 40);
        let blocks = blocks.ok_or(RowError::TooLarge { operand: "the output" })?;
        if blocks == 0 {
            return Ok(());
        }
        let grid = Grid::new([blocks as u32, 1, 1], [tile.threads, 1, 1]);
        Ok(self.function.launch_with(options, grid, (x, y, len as i64))?)
    }
}
