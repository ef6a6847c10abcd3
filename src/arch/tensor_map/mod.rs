//! [`TensorMapDesc`]: a tensor in global memory and the boxes that TMA copies from and to it.
//!
//! Make a map from two layouts, the tensor's and the box's, with [`TensorMapDesc::from_layouts`];
//! or give extents and strides yourself, with [`TensorMapDesc::new`] in tiled and
//! [`TensorMapDesc::im2col`] in im2col mode. A map is plain data: a launch encodes it in the GPU's
//! 128-byte format, and the simulator reads it directly.

mod error;
mod im2col;
mod layouts;

use std::fmt;

use smallvec::SmallVec;

pub use self::error::TensorMapError;
pub use self::im2col::PixelBox;

use super::swizzle_mode::SwizzleMode;
use crate::ir::Target;
use crate::ir::types::Scalar;

/// The most dimensions that a map can have.
const MAX_RANK: usize = 5;

/// One value for each dimension.
type PerDim<T> = SmallVec<[T; MAX_RANK]>;

/// A tensor in global memory and the box that one TMA copy moves (PTX ISA 5.5, tiled mode; CUDA
/// driver API, `cuTensorMapEncodeTiled`). You make one on the host and pass it to a kernel that
/// loads or stores with TMA. Dimension 0 is the fastest, in memory and in a copy's coordinates.
///
/// Let `s` be the element strides. Element `i` of the box at coordinates `c` is element `c + i * s`
/// of the tensor. The box is dense in shared memory, dimension 0 fastest, and the swizzle permutes
/// its 16-byte chunks.
///
/// ```
/// use tilewright::arch::{SwizzleMode, TensorMapDesc};
/// use tilewright::ir::types::Scalar;
/// use tilewright::layout::{ComposedLayout, Layout, Swizzle, layout};
///
/// // A row-major matrix of 1000 x 512, copied in boxes of 64 rows and 32 columns, 128 bytes a row.
/// let matrix = Layout::row_major((1000, 512));
/// let tile = ComposedLayout::new(Swizzle::new(3, 2, 3)?, 0, layout!((64, 32):(32, 1)))?;
/// let map = TensorMapDesc::from_layouts(Scalar::F32, &matrix, &tile)?;
/// assert_eq!((map.dims(), map.box_dims()), (&[512, 1000][..], &[32, 64][..]));
/// assert_eq!((map.strides_bytes(), map.swizzle()), (&[4, 2048][..], SwizzleMode::B128));
/// assert_eq!(map.box_bytes(), 64 * 32 * 4);
/// // Row 2, column 5 of the tensor; row 1000 is out of bounds.
/// assert_eq!((map.global_offset(&[5, 2]), map.global_offset(&[5, 1000])), (Some(4116), None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMapDesc {
    elem: Scalar,
    dims: PerDim<u64>,
    /// For every dimension; the first is the element size.
    strides_bytes: PerDim<u64>,
    box_dims: PerDim<u32>,
    element_strides: PerDim<u32>,
    swizzle: SwizzleMode,
    fill: Fill,
    l2_promotion: L2Promotion,
    sources: PerDim<DimMode>,
    /// Set in im2col mode, in which `box_dims` holds channels and pixels.
    pixels: Option<PixelBox>,
}

/// What a copy writes to shared memory for elements outside the tensor. Keep zero for GEMM, where
/// it does not change the result; NaN shows elements that a kernel should not have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fill {
    /// Zero.
    #[default]
    Zero,
    /// A NaN, for floating point elements of 16 bits or more.
    Nan,
}

/// How many bytes a copy brings into the L2 cache at once. Raise it if neighbouring bytes are
/// needed soon after, for example by the next box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum L2Promotion {
    /// Only the bytes that it needs.
    #[default]
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// Which mode of the tensor's layout a dimension of the map steps along. You need it to translate a
/// layout coordinate to TMA coordinates yourself; [`TensorMapDesc::coords_of`] does it for you.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DimMode {
    /// The mode's index.
    pub mode: usize,
    /// How many elements along the mode one step is. It is more than 1 if the box splits the mode.
    pub step: u64,
}

/// One element of a box: its offsets in global and in shared memory. Use
/// [`TensorMapDesc::box_elements`] to check what a copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoxElement {
    /// Bytes from the start of the tensor, or `None` if the element is outside it.
    pub global: Option<u64>,
    /// Bytes from the start of the box, before the swizzle.
    pub shared: u64,
}

impl TensorMapDesc {
    /// Makes a tiled map for a tensor with extents `dims` and strides `strides_bytes`, and a box
    /// with extents `box_dims`. Use it if you think in extents and strides; for layouts, use
    /// [`from_layouts`](TensorMapDesc::from_layouts). `strides_bytes` has no entry for the first
    /// dimension. The map has no swizzle and fills with zeros.
    ///
    /// # Errors
    /// Returns a [`TensorMapError`] that names the condition of the hardware that fails.
    #[inline]
    pub fn new(
        elem: Scalar,
        dims: &[u64],
        strides_bytes: &[u64],
        box_dims: &[u32],
    ) -> Result<TensorMapDesc, TensorMapError> {
        if box_dims.len() != dims.len() {
            return Err(TensorMapError::Lengths {
                dims: dims.len(),
                strides: strides_bytes.len(),
                extents: box_dims.len(),
            });
        }
        Self::checked_dims(dims, strides_bytes)?;
        for (dim, extent) in box_dims.iter().enumerate() {
            if !(1..=256).contains(extent) {
                return Err(TensorMapError::BoxExtent { dim, extent: (*extent).into() });
            }
        }
        let mut all_strides = PerDim::from_slice(&[elem.size_bytes().into()]);
        all_strides.extend_from_slice(strides_bytes);
        let map = TensorMapDesc {
            elem,
            dims: dims.into(),
            strides_bytes: all_strides,
            box_dims: box_dims.into(),
            element_strides: SmallVec::from_elem(1, dims.len()),
            swizzle: SwizzleMode::None,
            fill: Fill::Zero,
            l2_promotion: L2Promotion::None,
            sources: (0..dims.len()).map(|mode| DimMode { mode, step: 1 }).collect(),
            pixels: None,
        };
        map.check_box()
    }

    /// Checks a tensor's extents and strides.
    fn checked_dims(dims: &[u64], strides_bytes: &[u64]) -> Result<(), TensorMapError> {
        if !(1..=MAX_RANK).contains(&dims.len()) {
            return Err(TensorMapError::Rank { rank: dims.len() });
        }
        if strides_bytes.len() + 1 != dims.len() {
            return Err(TensorMapError::Lengths {
                dims: dims.len(),
                strides: strides_bytes.len(),
                extents: dims.len(),
            });
        }
        for (dim, extent) in dims.iter().enumerate() {
            if !(1..=1 << 32).contains(extent) {
                return Err(TensorMapError::Extent { dim, extent: (*extent).into() });
            }
        }
        for (dim, stride) in (1..).zip(strides_bytes) {
            if !(16..1 << 40).contains(stride) || stride % 16 != 0 {
                let stride_bytes = (*stride).into();
                return Err(TensorMapError::Stride { dim, stride_bytes });
            }
        }
        Ok(())
    }

    /// Returns the same map for a tensor with other extents, and other strides of all dimensions
    /// but the first. Use it if the same box should copy from tensors of several sizes.
    ///
    /// # Errors
    /// Returns [`TensorMapError::Lengths`], [`TensorMapError::Extent`] or
    /// [`TensorMapError::Stride`] if the new tensor does not fit the map or the hardware.
    pub fn with_tensor(
        self,
        dims: &[u64],
        strides_bytes: &[u64],
    ) -> Result<TensorMapDesc, TensorMapError> {
        if dims.len() != self.rank() {
            let (strides, extents) = (strides_bytes.len(), self.box_dims.len());
            return Err(TensorMapError::Lengths { dims: dims.len(), strides, extents });
        }
        Self::checked_dims(dims, strides_bytes)?;
        let mut map = TensorMapDesc { dims: dims.into(), ..self };
        map.strides_bytes[1..].copy_from_slice(strides_bytes);
        Ok(map)
    }

    /// Returns the map if the hardware accepts its box.
    fn check_box(self) -> Result<TensorMapDesc, TensorMapError> {
        let (inner, bytes) = (self.inner_bytes(), self.shared_bytes());
        let limit = Target::SM_90.max_shared_bytes();
        if inner % 16 != 0 {
            return Err(TensorMapError::InnerBytes { bytes: inner });
        }
        if bytes > limit { Err(TensorMapError::BoxBytes { bytes, limit }) } else { Ok(self) }
    }

    /// Returns the same map with a swizzle of the box, which avoids bank conflicts. The rows' pitch
    /// in shared memory becomes the swizzle's row
    /// ([`row_pitch_bytes`](TensorMapDesc::row_pitch_bytes)).
    ///
    /// # Errors
    /// Returns [`TensorMapError::SwizzleWidth`] if a row of the box is longer than the swizzle's
    /// row, or [`TensorMapError::BoxBytes`] if the box no longer fits into shared memory.
    pub fn with_swizzle(self, swizzle: SwizzleMode) -> Result<TensorMapDesc, TensorMapError> {
        let bytes = self.inner_bytes();
        match swizzle.row_bytes() {
            Some(row) if bytes > row.into() => Err(TensorMapError::SwizzleWidth { bytes, swizzle }),
            _ => TensorMapDesc { swizzle, ..self }.check_box(),
        }
    }

    /// Returns the same map with another fill value for elements outside the tensor. For example,
    /// fill with NaN to find out whether a kernel uses such elements.
    ///
    /// # Errors
    /// Returns [`TensorMapError::FillNotFloat`] if the elements cannot be NaN.
    pub fn with_fill(self, fill: Fill) -> Result<TensorMapDesc, TensorMapError> {
        match fill {
            // The hardware treats 8-bit elements as integers.
            Fill::Nan if !self.elem.is_float() || self.elem.bits() < 16 => {
                Err(TensorMapError::FillNotFloat { elem: self.elem })
            }
            Fill::Nan | Fill::Zero => Ok(TensorMapDesc { fill, ..self }),
        }
    }

    /// Returns the same map with another [`L2Promotion`], which sets how many bytes a copy brings
    /// into the L2 cache at once.
    pub fn with_l2_promotion(self, l2_promotion: L2Promotion) -> TensorMapDesc {
        TensorMapDesc { l2_promotion, ..self }
    }

    /// Returns the same map with a step between copied elements for each dimension, for example 2
    /// to copy every second row. A box then spans `box_dims` elements of the tensor and holds
    /// `ceil(box_dims / steps)`. The first step must be 1, because the hardware ignores it.
    ///
    /// Returns [`TensorMapError::ElementStrides`] if there is not one step from 1 to 8 for each
    /// dimension, or if a step that must be 1 is not, or the error of a box that the hardware does
    /// not accept.
    pub fn with_element_strides(self, strides: &[u32]) -> Result<TensorMapDesc, TensorMapError> {
        let possible = strides.iter().all(|stride| (1..=8).contains(stride));
        // Images in im2col mode have step 1.
        let images = self.pixels.is_none() || strides.last() == Some(&1);
        if strides.len() != self.rank() || !possible || !images || strides.first() != Some(&1) {
            return Err(TensorMapError::ElementStrides { strides: strides.to_vec() });
        }
        let map = TensorMapDesc { element_strides: strides.into(), ..self };
        map.check_box()
    }

    /// Returns, for each dimension of the map, the mode of the tensor's layout that it steps along,
    /// and the step. You need it only to translate coordinates yourself, which
    /// [`coords_of`](TensorMapDesc::coords_of) does for you. In a map that was not made from
    /// layouts, dimension `i` steps along mode `i`.
    pub fn sources(&self) -> &[DimMode] {
        &self.sources
    }

    /// Translates a coordinate of the tensor's layout to the TMA coordinates that a copy
    /// instruction takes, for example
    /// [`cp_async_bulk_tensor_load`](crate::ir::Val::cp_async_bulk_tensor_load).
    ///
    /// Call it if you issue the instruction yourself with a map made by
    /// [`from_layouts`](TensorMapDesc::from_layouts). `origin` is where the box starts, with one
    /// entry per layout mode; missing modes count as 0. The result has one entry per dimension of
    /// the map, the contiguous one first: in a row-major matrix `(row, column)` becomes
    /// `[column, row]`. A mode that the map splits into several dimensions gets several entries.
    ///
    /// ```
    /// use tilewright::arch::TensorMapDesc;
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::{Layout, layout};
    /// let matrix = Layout::row_major((1000, 512));
    /// let rows = TensorMapDesc::from_layouts(Scalar::F32, &matrix, &layout!((64, 32):(32, 1)).into())?;
    /// assert_eq!(rows.coords_of(&[128, 32]), [32, 128]);
    /// let groups = layout!((64, (32, 2)):(32, (1, 2048)));
    /// let groups = TensorMapDesc::from_layouts(Scalar::F32, &matrix, &groups.into())?;
    /// assert_eq!(groups.coords_of(&[128, 64]), [0, 128, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn coords_of(&self, origin: &[i64]) -> Vec<i64> {
        let coord = |(dim, source): (usize, &DimMode)| {
            let at = origin.get(source.mode).copied().unwrap_or(0);
            let steps = at.div_euclid(source.step.max(1) as i64);
            let is_part = self
                .sources
                .iter()
                .any(|other| other.mode == source.mode && other.step > source.step);
            let extent = self.dims.get(dim).map_or(1, |extent| *extent as i64);
            if is_part { steps.rem_euclid(extent.max(1)) } else { steps }
        };
        self.sources.iter().enumerate().map(coord).collect()
    }

    /// Returns the type of the tensor's elements. A buffer that you launch with must have the same
    /// type.
    pub fn elem(&self) -> Scalar {
        self.elem
    }

    /// Returns how many dimensions the map has, 1 to 5. A copy takes as many coordinates.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Returns the tensor's extents in elements, fastest dimension first.
    pub fn dims(&self) -> &[u64] {
        &self.dims
    }

    /// Returns the tensor's strides in bytes, fastest dimension first. The first stride is the
    /// element size.
    pub fn strides_bytes(&self) -> &[u64] {
        &self.strides_bytes
    }

    /// Returns the box's extents in elements of the tensor, fastest dimension first. In im2col
    /// mode, they are the channels and the pixels that one copy moves.
    pub fn box_dims(&self) -> &[u32] {
        &self.box_dims
    }

    /// Returns the step between copied elements for each dimension. All steps are 1 unless
    /// [`with_element_strides`](TensorMapDesc::with_element_strides) set others.
    pub fn element_strides(&self) -> &[u32] {
        &self.element_strides
    }

    /// Returns the box's swizzle. The matrix descriptor of the same tile must use the same one.
    pub fn swizzle(&self) -> SwizzleMode {
        self.swizzle
    }

    /// Returns the value that a copy writes for elements outside the tensor.
    pub fn fill(&self) -> Fill {
        self.fill
    }

    /// Returns how many bytes a copy brings into the L2 cache at once; see [`L2Promotion`].
    pub fn l2_promotion(&self) -> L2Promotion {
        self.l2_promotion
    }

    /// Returns how many elements a box has along each dimension: `ceil(box_dims /
    /// element_strides)`. In im2col mode, it returns the channels and the pixels.
    pub fn box_extents(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        let is_tile = self.pixels.is_none();
        let pairs = self.box_dims.iter().zip(&self.element_strides);
        pairs.map(move |(extent, stride)| {
            extent.div_ceil(if is_tile { (*stride).max(1) } else { 1 }).into()
        })
    }

    /// Returns the size of a box's elements in bytes. Announce this many bytes to the mbarrier,
    /// even if the box is partly out of bounds.
    pub fn box_bytes(&self) -> u64 {
        self.box_extents().product::<u64>() * u64::from(self.elem.size_bytes())
    }

    /// Returns the row pitch of a box in shared memory, in bytes: the length of a row, or of the
    /// swizzle's row. The copy leaves the bytes between a shorter row's end and the pitch
    /// unchanged.
    pub fn row_pitch_bytes(&self) -> u64 {
        self.swizzle.row_bytes().map_or(self.inner_bytes(), u64::from)
    }

    /// Returns how many bytes of shared memory to allocate for a box. With a swizzle, this counts
    /// whole rows of the swizzle, even if the box's rows are shorter.
    pub fn shared_bytes(&self) -> u64 {
        self.box_extents().skip(1).product::<u64>() * self.row_pitch_bytes()
    }

    /// Returns the tensor's size in bytes, from its first element to the end of its last. The
    /// buffer that you launch with must be at least as large.
    pub fn tensor_bytes(&self) -> u64 {
        let last = self.dims.iter().zip(&self.strides_bytes).fold(0u64, |end, (extent, stride)| {
            end.saturating_add((extent - 1).saturating_mul(*stride))
        });
        last.saturating_add(self.elem.size_bytes().into())
    }

    /// Returns the offset in global memory, in bytes, of the element at TMA coordinates `coord`
    /// (fastest dimension first), or `None` if the element is outside the tensor or there are not
    /// exactly `rank` coordinates.
    pub fn global_offset(&self, coord: &[i64]) -> Option<u64> {
        if coord.len() != self.rank() {
            return None;
        }
        let offsets = coord.iter().zip(self.dims.iter().zip(&self.strides_bytes));
        offsets.into_iter().try_fold(0, |offset, (at, (extent, stride))| {
            let at = u64::try_from(*at).ok().filter(|at| at < extent)?;
            Some(offset + at * stride)
        })
    }

    /// Returns the elements of the box at TMA coordinates `coord`, in the order of shared memory:
    /// what one copy moves, for tests and for simulating it. In im2col mode the offsets follow the
    /// coordinates. Missing values count as 0.
    ///
    /// ```
    /// use tilewright::arch::TensorMapDesc;
    /// use tilewright::ir::types::Scalar;
    /// let map = TensorMapDesc::new(Scalar::F32, &[6, 3], &[32], &[4, 2])?;
    /// let offsets: Vec<_> = map.box_elements(&[4, -1]).map(|element| element.global).collect();
    /// // Row -1 and the columns 6 and 7 are out of bounds.
    /// assert_eq!(offsets, [None, None, None, None, Some(16), Some(20), None, None]);
    /// # Ok::<(), tilewright::arch::TensorMapError>(())
    /// ```
    #[inline]
    pub fn box_elements(&self, coord: &[i32]) -> impl Iterator<Item = BoxElement> + '_ {
        let extents: PerDim<u64> = self.box_extents().collect();
        let mut start: PerDim<i64> = coord.iter().map(|c| i64::from(*c)).collect();
        start.resize(self.rank(), 0);
        let columns: Vec<_> = self.columns(coord).collect();
        let (elements, pitch) = (extents.iter().product::<u64>(), self.row_pitch_bytes());
        (0..elements).map(move |number| {
            let mut rest = number;
            let (row, column) = (number / extents[0], number % extents[0]);
            let mut at = start.clone();
            if let Some(pixel) = columns.get(row as usize) {
                at.iter_mut().zip(pixel).for_each(|(at, pixel)| *at = *pixel);
                at[0] += column as i64;
            } else {
                for (at, (extent, stride)) in
                    at.iter_mut().zip(extents.iter().zip(&self.element_strides))
                {
                    *at += (rest % extent * u64::from(*stride)) as i64;
                    rest /= extent;
                }
            }
            let shared = row * pitch + column * u64::from(self.elem.size_bytes());
            BoxElement { global: self.global_offset(&at), shared }
        })
    }

    /// Returns the address in shared memory, after the swizzle, of byte `offset` of a box that
    /// starts at `base`. Use it to find a copied element by hand, for example in a test.
    pub fn shared_address(&self, base: u64, offset: u64) -> u64 {
        self.swizzle.apply(base + offset)
    }

    /// Returns the size of the box's fastest dimension in bytes.
    fn inner_bytes(&self) -> u64 {
        self.box_extents().next().unwrap_or(0) * u64::from(self.elem.size_bytes())
    }
}

/// `f32 (512,1000) by (4,2048) bytes, box (32,64), swizzle 128B`; `box (4,8) of pixels from (-1,-1)
/// to (-1,-1)` in im2col mode
impl fmt::Display for TensorMapDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, numbers: &[T]) -> fmt::Result {
            for (i, number) in numbers.iter().enumerate() {
                write!(f, "{}{number}", if i == 0 { "(" } else { "," })?;
            }
            f.write_str(")")
        }
        write!(f, "{} ", self.elem)?;
        list(f, &self.dims)?;
        f.write_str(" by ")?;
        list(f, &self.strides_bytes)?;
        f.write_str(" bytes, box ")?;
        list(f, &self.box_dims)?;
        if let Some(pixels) = &self.pixels {
            f.write_str(" of pixels from ")?;
            list(f, &pixels.lower)?;
            f.write_str(" to ")?;
            list(f, &pixels.upper)?;
        }
        if self.element_strides.iter().any(|stride| *stride != 1) {
            f.write_str(", steps ")?;
            list(f, &self.element_strides)?;
        }
        match self.swizzle {
            SwizzleMode::None => Ok(()),
            SwizzleMode::B32 | SwizzleMode::B64 | SwizzleMode::B128 => {
                write!(f, ", swizzle {}", self.swizzle)
            }
        }
    }
}
