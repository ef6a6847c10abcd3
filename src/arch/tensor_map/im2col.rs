//! Tensor maps of im2col mode: columns of pixels of a feature map, as an implicit GEMM reads them.

use super::{DimMode, Fill, L2Promotion, MAX_RANK, PerDim, TensorMapDesc, TensorMapError};
use crate::arch::SwizzleMode;
use crate::ir::types::Scalar;
use smallvec::SmallVec;

/// The pixels that a map of im2col mode visits, and the part of each that one copy moves (PTX ISA 5.5.4, im2col mode; CUDA
/// driver API, `cuTensorMapEncodeIm2col`). Spatial dimensions are counted as in the map: W, then H, then D.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PixelBox {
    /// The first base pixel along each spatial dimension.
    pub lower: Vec<i32>,
    /// The last base pixel along each spatial dimension, counted from the last pixel of the tensor: 0 is that one, -1 the
    /// one before it.
    pub upper: Vec<i32>,
    /// Channels of a pixel that one copy moves, 1 to 256.
    pub channels: u32,
    /// Pixels that one copy moves, 1 to 1024.
    pub pixels: u32,
}

impl TensorMapDesc {
    /// The map of im2col mode of a tensor with dimensions C, W, N or C, W, H, N or C, W, H, D, N, with the extents `dims`
    /// and the strides `strides_bytes`, which has no entry for C. The steps between base pixels are
    /// [`with_element_strides`](TensorMapDesc::with_element_strides).
    ///
    /// A copy names a channel, a base pixel and its image, and an offset from base pixels along each spatial dimension. It
    /// moves `channels` channels of each of `pixels` pixels. Base pixels follow each other along W, then H, then D, then N,
    /// each within the box; the pixel that is read is the base pixel plus the offset. A pixel outside of the tensor is
    /// filled. In shared memory a pixel is a row.
    ///
    /// ```
    /// use tilewright::arch::{PixelBox, TensorMapDesc};
    /// use tilewright::ir::types::Scalar;
    ///
    /// // An image of 3 x 4 pixels with 4 channels, for a filter of 3 x 3 with padding 1: all pixels are base pixels, if the
    /// // offset (0, 0) stands for the upper left corner of the filter.
    /// let pixels = PixelBox { lower: vec![-1, -1], upper: vec![-1, -1], channels: 4, pixels: 4 };
    /// let map = TensorMapDesc::im2col(Scalar::F32, &[4, 4, 3, 1], &[16, 64, 192], pixels)?;
    /// // Channel 0, from column 2 of row -1, offset (0, 1): row 0 of the image, then row 1, which starts at column -1.
    /// let first = |pixel: usize| map.box_elements(&[0, 2, -1, 0, 0, 1]).nth(4 * pixel).unwrap();
    /// assert_eq!([0, 1, 2].map(|pixel| first(pixel).global), [Some(32), None, Some(64)]);
    /// # Ok::<(), tilewright::arch::TensorMapError>(())
    /// ```
    ///
    /// # Errors
    /// [`TensorMapError`] names the condition of the hardware that fails.
    #[inline]
    pub fn im2col(
        elem: Scalar,
        dims: &[u64],
        strides_bytes: &[u64],
        pixels: PixelBox,
    ) -> Result<TensorMapDesc, TensorMapError> {
        let rank = dims.len();
        if !(3..=MAX_RANK).contains(&rank) {
            return Err(TensorMapError::PixelRank { rank });
        }
        let corners = [pixels.lower.len(), pixels.upper.len()];
        if corners != [rank - 2; 2] {
            return Err(TensorMapError::PixelCorners { rank, corners });
        }
        // 16, 8 or 5 bits of a corner.
        let limit = [1 << 15, 1 << 7, 1 << 4][rank - 3];
        for corner in pixels.lower.iter().chain(&pixels.upper) {
            if !(-limit..limit).contains(corner) {
                return Err(TensorMapError::PixelCorner { rank, corner: *corner, limit });
            }
        }
        if !(1..=1024).contains(&pixels.pixels) {
            return Err(TensorMapError::PixelCount { pixels: pixels.pixels });
        }
        let ends = pixels.lower.iter().zip(&pixels.upper).zip(&dims[1..]);
        for (dim, ((lower, upper), extent)) in (1..).zip(ends) {
            if *extent as i64 - 1 + i64::from(*upper) < i64::from(*lower) {
                return Err(TensorMapError::PixelBoxEmpty { dim });
            }
        }
        Self::checked_dims(dims, strides_bytes)?;
        let channels = pixels.channels;
        if !(1..=256).contains(&channels) {
            return Err(TensorMapError::BoxExtent { dim: 0, extent: channels.into() });
        }
        let mut all_strides = PerDim::from_slice(&[elem.size_bytes().into()]);
        all_strides.extend_from_slice(strides_bytes);
        let map = TensorMapDesc {
            elem,
            dims: dims.into(),
            strides_bytes: all_strides,
            box_dims: PerDim::from_slice(&[channels, pixels.pixels]),
            element_strides: SmallVec::from_elem(1, rank),
            swizzle: SwizzleMode::None,
            fill: Fill::Zero,
            l2_promotion: L2Promotion::None,
            sources: (0..rank).map(|mode| DimMode { mode, step: 1 }).collect(),
            pixels: Some(pixels),
        };
        map.check_box()
    }

    /// The box of pixels of a map of im2col mode, `None` for one of tiled mode.
    pub fn pixel_box(&self) -> Option<&PixelBox> {
        self.pixels.as_ref()
    }

    /// The number of offsets that a load by this map takes: one for each spatial dimension in im2col mode, else 0.
    pub fn offsets(&self) -> usize {
        if self.pixels.is_some() { self.rank() - 2 } else { 0 }
    }

    /// The first and the last base pixel along dimension `dim`, a spatial one.
    pub(crate) fn pixel_range(&self, dim: usize) -> Option<(i64, i64)> {
        let pixels = self.pixels.as_ref()?;
        let spatial = dim.checked_sub(1)?;
        let (lower, upper) = (pixels.lower.get(spatial)?, pixels.upper.get(spatial)?);
        Some((i64::from(*lower), *self.dims.get(dim)? as i64 - 1 + i64::from(*upper)))
    }

    /// The first dimension along which base pixels are outside of the tensor, its first and last base pixel, and its
    /// extent. Stores take no such map (PTX ISA 9.7.9.25.5, restrictions on tensor copies to global memory).
    pub(crate) fn pixels_outside(&self) -> Option<(u32, (i64, i64), u64)> {
        let pixels = self.pixels.as_ref()?;
        let dim = (1..).zip(pixels.lower.iter().zip(&pixels.upper));
        let (dim, _) = dim.into_iter().find(|(_, (lower, upper))| **lower < 0 || **upper > 0)?;
        Some((dim as u32, self.pixel_range(dim)?, *self.dims.get(dim)?))
    }

    /// The pixels of a copy from `coord`, the coordinates and then the offsets: of each the coordinates in the tensor of
    /// its first channel. Missing numbers count as 0.
    pub(crate) fn columns(&self, coord: &[i32]) -> impl Iterator<Item = [i64; MAX_RANK]> + '_ {
        let rank = self.rank();
        let number = |i: usize| coord.get(i).map_or(0, |c| i64::from(*c));
        let mut base: [i64; MAX_RANK] =
            std::array::from_fn(|dim| if dim < rank { number(dim) } else { 0 });
        let shift: [i64; MAX_RANK] = std::array::from_fn(|dim| {
            if (1..rank - 1).contains(&dim) { number(rank + dim - 1) } else { 0 }
        });
        let pixels = self.pixels.as_ref().map_or(0, |pixels| pixels.pixels);
        (0..pixels).map(move |_| {
            let here = std::array::from_fn(|dim| base[dim] + shift[dim]);
            let mut carried = true;
            for (dim, at) in base.iter_mut().enumerate().take(rank - 1).skip(1) {
                let Some((first, last)) = self.pixel_range(dim) else { continue };
                *at += i64::from(self.element_strides[dim]);
                carried = *at > last;
                if !carried {
                    break;
                }
                *at = first;
            }
            if carried {
                base[rank - 1] += 1;
            }
            here
        })
    }
}
