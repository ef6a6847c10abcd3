//! Tensor maps in im2col mode, with which an implicit GEMM reads columns of pixels of a feature
//! map. Use them for convolutions.

use super::{DimMode, Fill, L2Promotion, MAX_RANK, PerDim, TensorMapDesc, TensorMapError};
use crate::arch::SwizzleMode;
use crate::ir::types::Scalar;
use smallvec::SmallVec;

/// Which pixels an im2col map visits, and how much of them one copy moves. Pass it to
/// [`TensorMapDesc::im2col`]. A base pixel is a position of the convolution's filter; a copy adds
/// the offset of one filter element to it. Spatial dimensions are counted as in the map: W, then H,
/// then D (PTX ISA 5.5.4, im2col mode; CUDA driver API, `cuTensorMapEncodeIm2col`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PixelBox {
    /// The first base pixel along each spatial dimension, for example -1 for a padding of 1.
    pub lower: Vec<i32>,
    /// The last base pixel along each spatial dimension, relative to the tensor's last pixel: 0 is
    /// that pixel, -1 the one before it.
    pub upper: Vec<i32>,
    /// How many channels of a pixel one copy moves, 1 to 256.
    pub channels: u32,
    /// How many pixels one copy moves, 1 to 1024.
    pub pixels: u32,
}

impl TensorMapDesc {
    /// Makes an im2col map of a tensor with dimensions C, W, N or C, W, H, N or C, W, H, D, N. Use
    /// it for a convolution that runs as a GEMM: each copy gathers the pixels under one element of
    /// the filter. `dims` holds the tensor's extents, and `strides_bytes` its strides without the
    /// one of C. To set the step between base pixels, use
    /// [`with_element_strides`](TensorMapDesc::with_element_strides).
    ///
    /// A copy names a channel, a base pixel, its image, and an offset from base pixels along each
    /// spatial dimension. It moves `channels` channels of each of `pixels` pixels. Base pixels
    /// advance along W, then H, then D, then N, within the box; the pixel that is read is the base
    /// pixel plus the offset. A pixel outside the tensor gets the fill value. In shared memory each
    /// pixel is a row.
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
    /// Returns a [`TensorMapError`] that names the condition of the hardware that fails.
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
        // A corner has 16, 8 or 5 bits.
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

    /// Returns the box of pixels of an im2col map, or `None` for a tiled map. Use it to tell the
    /// two kinds of maps apart.
    pub fn pixel_box(&self) -> Option<&PixelBox> {
        self.pixels.as_ref()
    }

    /// Returns how many offsets a load with this map takes: one for each spatial dimension in
    /// im2col mode, otherwise 0.
    pub fn offsets(&self) -> usize {
        if self.pixels.is_some() { self.rank() - 2 } else { 0 }
    }

    /// Returns the first and the last base pixel along a spatial dimension `dim`.
    pub(crate) fn pixel_range(&self, dim: usize) -> Option<(i64, i64)> {
        let pixels = self.pixels.as_ref()?;
        let spatial = dim.checked_sub(1)?;
        let (lower, upper) = (pixels.lower.get(spatial)?, pixels.upper.get(spatial)?);
        Some((i64::from(*lower), *self.dims.get(dim)? as i64 - 1 + i64::from(*upper)))
    }

    /// Returns the first dimension along which base pixels are outside the tensor, with its first
    /// and last base pixel and its extent. Stores do not accept such a map (PTX ISA 9.7.9.25.5,
    /// restrictions on tensor copies to global memory).
    pub(crate) fn pixels_outside(&self) -> Option<(u32, (i64, i64), u64)> {
        let pixels = self.pixels.as_ref()?;
        let dim = (1..).zip(pixels.lower.iter().zip(&pixels.upper));
        let (dim, _) = dim.into_iter().find(|(_, (lower, upper))| **lower < 0 || **upper > 0)?;
        Some((dim as u32, self.pixel_range(dim)?, *self.dims.get(dim)?))
    }

    /// Returns the pixels of a copy from `coord` (the coordinates, then the offsets), each as the
    /// tensor coordinates of its first channel. Missing values count as 0.
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
