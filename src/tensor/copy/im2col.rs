//! [`Im2colCopy`]: TMA copies that gather a feature map's pixels, so that a convolution becomes a
//! GEMM. Use it for convolutions on `sm_90`, instead of writing the im2col matrix to memory.

use std::fmt;

use super::tma::{TmaCopy, at};
use crate::arch::{PixelBox, TensorMapDesc, TensorMapError};
use crate::ir::builder::{DeviceCoord, IntoVal, MbarrierRef};
use crate::ir::op::L2Policy;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, TensorMap, TensorMapMut, Val};
use crate::layout::{ComposedLayout, Layout, LayoutError};
use crate::tensor::atom::{AtomError, CopyAtom, TmaOp};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::engine::clamped;
use crate::tensor::view::tensor::SharedTensor;

/// A convolution's filter along one spatial dimension: output `q` reads the pixels
/// `q * stride + s * dilation - lower_padding` for `s` in `0..size`. Make it with [`Filter::new`]
/// and pass one per spatial dimension to [`Im2colCopy::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Filter positions, at least 1.
    pub size: u32,
    /// Pixels between adjacent outputs, 1 to 8.
    pub stride: u32,
    /// Pixels between adjacent positions, at least 1.
    pub dilation: u32,
    /// Zeros before the first pixel.
    pub lower_padding: u32,
    /// Zeros after the last pixel.
    pub upper_padding: u32,
}

impl Filter {
    /// Makes a filter of `size` positions with stride and dilation 1 and no padding. Change these
    /// with the methods below.
    pub const fn new(size: u32) -> Filter {
        Filter { size, stride: 1, dilation: 1, lower_padding: 0, upper_padding: 0 }
    }

    /// Sets how many pixels adjacent outputs are apart, for a convolution that downsamples.
    pub const fn stride(self, stride: u32) -> Filter {
        Filter { stride, ..self }
    }

    /// Sets how many pixels adjacent filter positions are apart, for an atrous convolution.
    pub const fn dilation(self, dilation: u32) -> Filter {
        Filter { dilation, ..self }
    }

    /// Sets `padding` zeros on both sides. For example size 3 with padding 1 gives as many outputs
    /// as pixels.
    pub const fn padding(self, padding: u32) -> Filter {
        Filter { lower_padding: padding, upper_padding: padding, ..self }
    }

    /// The pixel box's corners: the first base pixel, and the last one relative to the last pixel.
    fn corners(&self) -> (i64, i64) {
        let reach = (i64::from(self.size) - 1) * i64::from(self.dilation);
        (-i64::from(self.lower_padding), i64::from(self.upper_padding) - reach)
    }

    /// Returns how many outputs the filter has along an axis of `extent` pixels, with its padding,
    /// stride and dilation, or 0 if it does not fit. Use it to size the output tensor.
    ///
    /// ```
    /// use tilewright::tensor::copy::Filter;
    /// assert_eq!(Filter::new(3).padding(1).outputs(56), 56);
    /// assert_eq!(Filter::new(7).stride(2).padding(3).outputs(224), 112);
    /// assert_eq!(Filter::new(3).outputs(2), 0);
    /// ```
    pub fn outputs(&self, extent: u32) -> u32 {
        let (lower, upper) = self.corners();
        let last = i64::from(extent) - 1 + upper - lower;
        if last < 0 { 0 } else { (last / i64::from(self.stride.max(1)) + 1).min(1 << 31) as u32 }
    }
}

/// Copies tiles of the matrix that an implicit GEMM multiplies with its filter: rows are outputs,
/// columns are channels at one filter position. CuTe's `make_im2col_tma_copy`.
///
/// Rows count the outputs along W, then H, then D, then images. The hardware finds each row's pixel
/// and fills padding with zeros. On the host, [`desc`](Im2colCopy::desc) makes the tensor map; in a
/// kernel, one thread issues a tile's copies.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::layout;
/// use tilewright::tensor::copy::{Filter, Im2colCopy};
///
/// // Images of 14 x 9 pixels and 64 channels, channels last; a filter of 3 x 3 with padding 1.
/// let tile = layout!((32, 16) : (16, 1));
/// let filters = [Filter::new(3).padding(1); 2];
/// let copy = Im2colCopy::new(Scalar::Bf16, &tile.into(), &[14, 9], &filters)?;
/// assert_eq!((copy.outputs(), copy.bytes()), (vec![14, 9], 1024));
/// let images = layout!((64, 14, 9, 5) : (1, 64, 896, 8064));
/// let map = copy.desc(&images)?;
/// let pixels = map.pixel_box().unwrap();
/// assert_eq!((&pixels.lower[..], &pixels.upper[..]), (&[-1, -1][..], &[-1, -1][..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Im2colCopy {
    tile: TmaCopy,
    /// The feature map's extents along W, then H, then D.
    image: Vec<u32>,
    filters: Vec<Filter>,
}

impl Im2colCopy {
    /// Makes the copy of (outputs, channels) tiles that have this layout in shared memory, channels
    /// contiguous. The feature map has 1 to 3 spatial extents `image` along W, then H, then D;
    /// `filters` has one entry for each.
    ///
    /// # Errors
    /// Those of [`TmaCopy::new`]; [`TensorErrorKind::TmaTile`] if `filters` and `image` differ in
    /// length, a size, stride or dilation is 0, or there are no outputs.
    #[inline]
    pub fn new(
        elem: Scalar,
        tile: &ComposedLayout,
        image: &[u32],
        filters: &[Filter],
    ) -> Result<Im2colCopy, TensorError> {
        let copy = TmaCopy::new(elem, tile)?;
        if copy.modes() != [1, 0] {
            return Err(Self::refused(
                &copy,
                "the tile must have the modes outputs and channels, with contiguous channels",
            ));
        }
        Im2colCopy { tile: copy, image: Vec::new(), filters: Vec::new() }.of_images(image, filters)
    }

    /// Returns the copy of the same tile for other feature maps or filters. Call it before a launch
    /// if the kernel loads with [`load_from`](Im2colCopy::load_from).
    ///
    /// # Errors
    /// Those of [`new`](Im2colCopy::new) for `image` and `filters`.
    #[inline]
    pub fn of_images(&self, image: &[u32], filters: &[Filter]) -> Result<Im2colCopy, TensorError> {
        let copy = &self.tile;
        if !(1..=3).contains(&image.len()) || filters.len() != image.len() {
            return Err(Self::refused(
                copy,
                "a feature map must have 1 to 3 spatial dimensions, each with a filter",
            ));
        }
        if filters.iter().any(|f| f.size == 0 || f.stride == 0 || f.dilation == 0) {
            return Err(Self::refused(copy, "a filter has size, stride or dilation 0"));
        }
        if filters.iter().zip(image).any(|(filter, extent)| filter.outputs(*extent) == 0) {
            return Err(Self::refused(
                copy,
                "the filter is larger than the feature map with its padding",
            ));
        }
        Ok(Im2colCopy { tile: copy.clone(), image: image.to_vec(), filters: filters.to_vec() })
    }

    #[inline]
    fn refused(copy: &TmaCopy, why: &'static str) -> TensorError {
        TensorError {
            operation: "make_im2col_tma_copy",
            operand: copy.to_string(),
            kind: TensorErrorKind::TmaTile { why },
        }
    }

    /// Returns a tile's layout in shared memory. Allocate the tile with it.
    pub fn tile(&self) -> &ComposedLayout {
        self.tile.tile()
    }

    /// Returns an image's output counts along W, then H, then D. Their product times the image
    /// count is M of the implicit GEMM.
    pub fn outputs(&self) -> Vec<u32> {
        self.filters
            .iter()
            .zip(&self.image)
            .map(|(filter, extent)| filter.outputs(*extent))
            .collect()
    }

    /// Returns a tile's size in bytes, which the full barrier has to expect (`arrive_expect_tx`)
    /// before a [`load`](Im2colCopy::load).
    pub fn bytes(&self) -> u32 {
        self.tile.bytes()
    }

    /// Returns the copy of one box as an atom: one thread, all bits of the box. `op` must be
    /// [`TmaOp::LoadIm2col`], [`TmaOp::LoadIm2colMulticast`] or [`TmaOp::StoreIm2col`].
    ///
    /// # Errors
    /// [`AtomError::BulkBits`] if a box has more than 2^32 bits, which no shared memory holds.
    #[inline]
    pub fn atom(&self, op: TmaOp) -> Result<CopyAtom, AtomError> {
        self.tile.atom(op)
    }

    /// Makes the tensor map of feature maps with the modes C, W, H and D as far as they exist, and
    /// N; C must be contiguous.
    ///
    /// # Errors
    /// The tensor has other modes or extents; [`TensorMapError`] if the hardware cannot express it:
    /// strides that are not multiples of 16 bytes, corners that do not fit their fields, strides
    /// above 8.
    #[inline]
    pub fn desc(&self, tensor: &Layout) -> Result<TensorMapDesc, TensorError> {
        let error = |kind| TensorError {
            operation: "make_im2col_tma_copy",
            operand: tensor.to_string(),
            kind,
        };
        let why = |why| error(TensorErrorKind::TmaTile { why });
        let sizes = super::tma::sizes_of(tensor).map_err(|cause| error(cause.into()))?;
        let spatial = self.image.len();
        if sizes.len() != spatial + 2 {
            return Err(why("the tensor must have the modes C, one for each filter, and N"));
        }
        if sizes[0].1 != 1 && sizes[0].0 > 1 {
            return Err(why("the channels of the tensor are not contiguous"));
        }
        if sizes[1..].iter().zip(&self.image).any(|(size, extent)| size.0 != i64::from(*extent)) {
            return Err(why("the tensor's spatial extents differ from the copy's feature map"));
        }
        let elem = self.tile.elem();
        let bytes = i64::from(elem.size_bytes());
        let dims: Vec<u64> = sizes.iter().map(|(extent, _)| extent.unsigned_abs()).collect();
        let stride = |(extent, stride): &(i64, i64)| {
            if *extent == 1 { 16 } else { (stride * bytes).unsigned_abs() }
        };
        let strides: Vec<u64> = sizes[1..].iter().map(stride).collect();
        let corners = self.filters.iter().map(Filter::corners);
        let (lower, upper) = corners.map(|(lower, upper)| (clamped(lower), clamped(upper))).unzip();
        let [channels, pixels] =
            [0, 1].map(|dim| self.tile.box_dims().get(dim).copied().unwrap_or(0));
        let steps = self.filters.iter().map(|filter| filter.stride);
        let steps: Vec<u32> = [1].into_iter().chain(steps).chain([1]).collect();
        let map = TensorMapDesc::im2col(
            elem,
            &dims,
            &strides,
            PixelBox { lower, upper, channels, pixels },
        )
        .and_then(|map| map.with_swizzle(self.tile.swizzle()))
        .and_then(|map| map.with_element_strides(&steps));
        map.map_err(|cause: TensorMapError| error(TensorErrorKind::TensorMap(Box::new(cause))))
    }

    /// Returns an output's coordinates in the tensor map: channel, base pixel and image.
    #[track_caller]
    fn base<'b, const RANK: usize>(
        &self,
        k: &Body<'b, '_>,
        operation: &'static str,
        [channel, output]: [Val<'b, i32>; 2],
    ) -> [Val<'b, i32>; RANK] {
        let _call = k.call();
        let expected = self.image.len() + 2;
        if RANK != expected {
            let kind = LayoutError::RankMismatch { expected, found: RANK }.into();
            k.report(TensorError { operation, operand: self.to_string(), kind });
            return [channel; RANK];
        }
        let mut rest = output;
        let mut coords = vec![channel];
        for (filter, outputs) in self.filters.iter().zip(self.outputs()) {
            let at = rest % outputs as i32 * filter.stride as i32;
            coords.push(at - clamped(filter.lower_padding.into()));
            rest /= outputs as i32;
        }
        coords.push(rest);
        std::array::from_fn(|dim| coords[dim])
    }

    /// Returns a filter position's offsets from a base pixel.
    #[track_caller]
    fn offsets<'b, I: IntoVal<'b, i32>>(
        &self,
        k: &Body<'b, '_>,
        position: impl IntoIterator<Item = I>,
    ) -> Vec<Val<'b, i32>> {
        let scaled = |(filter, at): (&Filter, I)| match filter.dilation {
            1 => k.value::<i32>(at),
            dilation => k.value::<i32>(at) * dilation as i32,
        };
        self.filters.iter().zip(position).map(scaled).collect()
    }

    /// Starts loading a tile into shared memory. `origin` is an output and a channel, `position`
    /// the filter position along W, then H, then D. The copies complete on `full` with
    /// [`bytes`](Im2colCopy::bytes) bytes, and padding becomes zero. Call it in one thread. CuTe's
    /// `SM90_TMA_LOAD_IM2COL`.
    #[track_caller]
    pub fn load<'b, T: Element, const RANK: usize, I: IntoVal<'b, i32>>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        position: impl IntoIterator<Item = I>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
    ) {
        let k = &map.body();
        let operation = "im2col_load";
        let (origin, Some(base)) = (origin.into(), self.tile.shared_base(k, operation, to)) else {
            return;
        };
        let offsets = self.offsets(k, position);
        for part in self.tile.parts() {
            let coords = self.base(k, operation, self.tile.coords(k, operation, &origin, part));
            let to = at(base, part.offset());
            map.cp_async_bulk_tensor_load_im2col(to, coords, &offsets, full, L2Policy::Default);
        }
    }

    /// Starts loading a tile from a base pixel that the kernel has computed. Use it instead of
    /// [`load`](Im2colCopy::load) in a kernel for feature maps and filters of any size: those of
    /// this copy are not part of the kernel's code then, and only [`desc`](Im2colCopy::desc) needs
    /// them.
    ///
    /// `base` is a channel, the base pixel of the tile's first output along W, then H, then D, and
    /// an image: output `q` of a row has base pixel `q * stride - lower_padding`. `offsets` are the
    /// filter position times the dilation, in the same order. It is a build error if the tile has
    /// several boxes of pixels.
    #[track_caller]
    pub fn load_from<'b, T: Element, const RANK: usize, I: IntoVal<'b, i32>>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        base: [Val<'b, i32>; RANK],
        offsets: impl IntoIterator<Item = I>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
    ) {
        let k = &map.body();
        let operation = "im2col_load_from";
        let Some(start) = self.tile.shared_base(k, operation, to) else { return };
        let offsets: Vec<Val<'b, i32>> = offsets.into_iter().map(|at| k.value(at)).collect();
        for part in self.tile.parts() {
            let [output, channel] = [0, 1].map(|mode| part.start(mode));
            if output != 0 {
                let why = "a tile with several boxes of pixels has several base pixels";
                let kind = TensorErrorKind::TmaTile { why };
                return k.report(TensorError { operation, operand: self.to_string(), kind });
            }
            let mut coords = base;
            if let (Some(first), 1..) = (coords.first_mut(), channel) {
                *first += clamped(channel);
            }
            let to = at(start, part.offset());
            map.cp_async_bulk_tensor_load_im2col(to, coords, &offsets, full, L2Policy::Default);
        }
    }

    /// Like [`load`](Im2colCopy::load), but multicast to every block of the cluster whose bit is
    /// set in `ctas`. The data and the barrier signal arrive at the same shared-memory offsets
    /// there. CuTe's `SM90_TMA_LOAD_IM2COL_MULTICAST`. Use it if blocks of a cluster need the same
    /// pixels, for example because they compute different output channels.
    #[track_caller]
    pub fn load_multicast<'b, T: Element, const RANK: usize, I: IntoVal<'b, i32>>(
        &self,
        map: Val<'b, TensorMap<T, RANK>>,
        origin: impl Into<DeviceCoord<'b>>,
        position: impl IntoIterator<Item = I>,
        to: &SharedTensor<'b, T>,
        full: MbarrierRef<'_>,
        ctas: impl IntoVal<'b, u32>,
    ) {
        let k = &map.body();
        let operation = "im2col_load";
        let (origin, Some(base)) = (origin.into(), self.tile.shared_base(k, operation, to)) else {
            return;
        };
        let (offsets, ctas) = (self.offsets(k, position), k.value::<u32>(ctas));
        for part in self.tile.parts() {
            let coords = self.base(k, operation, self.tile.coords(k, operation, &origin, part));
            let (to, policy) = (at(base, part.offset()), L2Policy::Default);
            map.cp_async_bulk_tensor_multicast_im2col(to, coords, &offsets, full, ctas, policy);
        }
    }

    /// Starts storing a tile from shared memory to the base pixels of `origin`, an output and a
    /// channel, clipped behind the last image. The copies join the next committed bulk group.
    /// CuTe's `SM90_TMA_STORE_IM2COL`.
    ///
    /// Call it in one thread. Before that, every thread that wrote the tile must make its writes
    /// visible with [`fence_proxy_async`](Body::fence_proxy_async) and pass a barrier.
    ///
    /// The hardware stores only to base pixels inside the tensor, so a filter with padding is a
    /// build error.
    #[track_caller]
    pub fn store<'b, T: Element, const RANK: usize>(
        &self,
        map: Val<'b, TensorMapMut<T, RANK>>,
        from: &SharedTensor<'b, T>,
        origin: impl Into<DeviceCoord<'b>>,
    ) {
        let k = &map.body();
        let operation = "im2col_store";
        let is_outside = |filter: &Filter| filter.corners().0 < 0 || filter.corners().1 > 0;
        if self.filters.iter().any(is_outside) {
            let why = "a store needs filters without padding, so that all base pixels lie inside the tensor";
            let kind = TensorErrorKind::TmaTile { why };
            return k.report(TensorError { operation, operand: self.to_string(), kind });
        }
        let (origin, Some(base)) = (origin.into(), self.tile.shared_base(k, operation, from))
        else {
            return;
        };
        for part in self.tile.parts() {
            let coords = self.base(k, operation, self.tile.coords(k, operation, &origin, part));
            let from = at(base, part.offset());
            map.cp_async_bulk_tensor_store_im2col(coords, from, L2Policy::Default);
        }
    }
}

/// For example `bf16 o (32,16):(16,1) in boxes of 16x32 of images of 14x9 pixels`.
impl fmt::Display for Im2colCopy {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.image.iter().map(u32::to_string).collect();
        write!(f, "{} of images of {} pixels", self.tile, dims.join("x"))
    }
}
