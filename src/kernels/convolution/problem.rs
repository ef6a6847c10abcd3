//! [`ConvolutionProblem`]: the sizes and filters of one convolution. You pass it at launch, so one
//! kernel serves many layers.

use crate::tensor::copy::Filter;

use super::error::ConvolutionError;

/// A 2-D convolution's sizes. All tensors are compact, with contiguous channels: x is
/// `[images, height, width, channels]` (NHWC), w is
/// `[out_channels, filter height, filter width, channels]` (KRSC), and y is
/// `[images, output height, output width, out_channels]`. A 1-D convolution has height 1.
///
/// ```
/// use tilewright::kernels::convolution::ConvolutionProblem;
/// use tilewright::tensor::copy::Filter;
///
/// // A 3 x 3 filter with stride 2 and padding 1 on 32 images of 56 x 56 pixels.
/// let filter = Filter::new(3).stride(2).padding(1);
/// let problem = ConvolutionProblem::new([32, 56, 56, 128], 256, [filter; 2]);
/// assert_eq!(problem.outputs(), [28, 28]);
/// assert_eq!(problem.lens(), [32 * 56 * 56 * 128, 256 * 3 * 3 * 128, 32 * 28 * 28 * 256]);
/// assert_eq!(problem.flops(), 2.0 * (32.0 * 28.0 * 28.0) * 256.0 * (3.0 * 3.0 * 128.0));
/// assert!(problem.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvolutionProblem {
    /// Images in the batch. If there are none, a launch does nothing.
    pub images: u32,
    /// The images' height in pixels.
    pub height: u32,
    /// The images' width in pixels.
    pub width: u32,
    /// Channels of x, a multiple of 8.
    pub channels: u32,
    /// Channels of y, a multiple of 8.
    pub out_channels: u32,
    /// The filter along the height, then along the width.
    pub filters: [Filter; 2],
}

impl ConvolutionProblem {
    /// Makes the problem for x of `[images, height, width, channels]` and filters along height and
    /// width.
    pub const fn new(
        [images, height, width, channels]: [u32; 4],
        out_channels: u32,
        filters: [Filter; 2],
    ) -> ConvolutionProblem {
        ConvolutionProblem { images, height, width, channels, out_channels, filters }
    }

    /// Returns the height and the width of y.
    pub fn outputs(&self) -> [u32; 2] {
        let [along_h, along_w] = self.filters;
        [along_h.outputs(self.height), along_w.outputs(self.width)]
    }

    /// Returns how many pixels y has in all images: M of the implicit GEMM.
    #[inline]
    pub fn rows(&self) -> u64 {
        let [height, width] = self.outputs();
        product([self.images, height, width, 1])
    }

    /// Returns how many positions the filter has.
    #[inline]
    pub(super) fn positions(&self) -> u64 {
        product([self.filters[0].size, self.filters[1].size, 1, 1])
    }

    /// Returns the lengths of x, w and y in elements, for example to allocate them.
    #[inline]
    pub fn lens(&self) -> [u64; 3] {
        let [along_h, along_w] = self.filters;
        let [height, width] = self.outputs();
        [
            product([self.images, self.height, self.width, self.channels]),
            product([self.out_channels, along_h.size, along_w.size, self.channels]),
            product([self.images, height, width, self.out_channels]),
        ]
    }

    /// Returns the floating-point operations, padding included. Use it to compute the TFLOP/s of a
    /// launch.
    #[inline]
    pub fn flops(&self) -> f64 {
        let depth = self.positions() as f64 * f64::from(self.channels);
        2.0 * self.rows() as f64 * f64::from(self.out_channels) * depth
    }

    /// Checks that TMA can read the images and write the outputs. Every launch calls it; call it to
    /// reject a problem earlier.
    ///
    /// # Errors
    /// [`ConvolutionError::Channels`] if a channel count is not a multiple of 8, because TMA needs
    /// strides of 16 bytes. [`ConvolutionError::Filter`] for what an im2col tensor map cannot
    /// express: strides above 8, more than 255 pixels from a filter's first to its last position,
    /// more than 128 pixels of padding. [`ConvolutionError::NoOutputs`] if a filter is larger than
    /// the image. [`ConvolutionError::TooLarge`] if y has more than 2^31 - 256 pixels, or the
    /// filter more than 2^31 - 1 elements per output channel.
    #[inline]
    pub fn check(&self) -> Result<(), ConvolutionError> {
        for (which, found) in [("input", self.channels), ("output", self.out_channels)] {
            if found == 0 || !found.is_multiple_of(8) {
                return Err(ConvolutionError::Channels { which, found });
            }
        }
        let [along_h, along_w] = self.filters;
        check_filter("height", &along_h, self.height)?;
        check_filter("width", &along_w, self.width)?;
        let max_rows = (1 << 31) - 256;
        let limits = [
            ("the pixel count of y", self.rows(), max_rows),
            ("the output channel count", self.out_channels.into(), max_rows),
            (
                "a filter's element count",
                self.positions().saturating_mul(self.channels.into()),
                (1 << 31) - 1,
            ),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(ConvolutionError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}

/// Checks the limits of im2col tensor maps with two spatial dimensions: offsets and corners have 8
/// bits (PTX ISA 5.5.4, im2col mode).
#[inline]
fn check_filter(
    dimension: &'static str,
    filter: &Filter,
    extent: u32,
) -> Result<(), ConvolutionError> {
    let Filter { size, stride, dilation, lower_padding, upper_padding } = *filter;
    let [size, lower, upper] = [size, lower_padding, upper_padding].map(i64::from);
    let reach = (size - 1) * i64::from(dilation);
    let limits = [
        ("the size", size, 1, 256),
        ("the stride", stride.into(), 1, 8),
        ("the dilation", dilation.into(), 1, i64::from(u32::MAX)),
        ("the distance of its first from its last position", reach, 0, 255),
        ("the lower padding", lower, 0, 128),
        ("the upper padding", upper, (reach - 128).max(0), reach + 127),
    ];
    for (what, found, min, max) in limits {
        if !(min..=max).contains(&found) {
            return Err(ConvolutionError::Filter { dimension, what, found, min, max });
        }
    }
    // Pixel coordinates are `i32`.
    if extent > 1 << 30 {
        let (what, max) = ("an image's extent", 1 << 30);
        return Err(ConvolutionError::TooLarge { what, found: extent.into(), max });
    }
    if extent == 0 || filter.outputs(extent) == 0 {
        return Err(ConvolutionError::NoOutputs { dimension, extent });
    }
    Ok(())
}

/// Multiplies, and returns `u64::MAX` if the product does not fit.
fn product(factors: [u32; 4]) -> u64 {
    let factors = factors.map(u64::from);
    // No factor hides an overflow behind a zero.
    if factors.contains(&0) {
        return 0;
    }
    factors.into_iter().fold(1, u64::saturating_mul)
}
