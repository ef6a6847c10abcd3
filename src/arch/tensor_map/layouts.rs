//! Computes a tensor map from two layouts: the tensor's in global memory and the box's in shared
//! memory. Use it if you describe tiles with layouts, as CuTe does, instead of extents and strides.

use smallvec::SmallVec;

use super::{DimMode, MAX_RANK, SwizzleMode, TensorMapDesc, TensorMapError};
use crate::ir::types::Scalar;
use crate::layout::{ComposedLayout, IntTuple, Layout, LayoutError, LayoutRef, Part};

/// A mode of the tensor.
#[derive(Clone, Copy, Debug)]
struct Mode {
    extent: i64,
    /// In elements.
    stride: i64,
}

/// A run of offsets in shared memory: `extent` elements, each `step` further along `mode` of the
/// box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    extent: i64,
    step: i64,
    mode: usize,
}

/// A dimension of the map.
#[derive(Clone, Copy, Debug)]
struct Dim {
    extent: i64,
    /// In elements.
    stride: i128,
    in_box: i64,
    source: DimMode,
}

impl TensorMapDesc {
    /// Makes the map that copies between a tensor with the layout `global` and boxes with the
    /// layout `shared`, which may be swizzled. For a box at coordinates `c`, element `x` of the box
    /// is element `c + x` of the tensor, and lies at offset `shared(x)` in shared memory.
    ///
    /// The modes of the two layouts correspond, whatever the order of their strides. The map's
    /// dimensions follow the order of the box in shared memory, so dimension 0 has stride 1 on
    /// both sides. CuTe's `make_tma_copy` does the same: the right inverse of `shared` yields the
    /// coordinate at each offset. A mode that the box splits, such as columns in groups of 64,
    /// becomes several dimensions. Use [`coords_of`](TensorMapDesc::coords_of) to translate
    /// coordinates.
    ///
    /// # Errors
    /// Returns a [`TensorMapError`] that names the condition that fails, and a change that meets
    /// it.
    ///
    /// ```
    /// use tilewright::arch::TensorMapDesc;
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::{Layout, layout};
    ///
    /// // Columns in groups of 32 that lie one after the other in shared memory.
    /// let matrix = Layout::row_major((1000, 512));
    /// let tile = layout!((64, (32, 2)):(32, (1, 2048)));
    /// let map = TensorMapDesc::from_layouts(Scalar::F32, &matrix, &tile.into())?;
    /// assert_eq!(map.to_string(), "f32 (32,1000,16) by (4,2048,128) bytes, box (32,64,2)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn from_layouts(
        elem: Scalar,
        global: &Layout,
        shared: &ComposedLayout,
    ) -> Result<TensorMapDesc, TensorMapError> {
        let (elem_bytes, plain) = (elem.size_bytes(), shared.nonswizzle_portion()?);
        if shared.offset().as_static() != Some(0) {
            return Err(TensorMapError::SharedOffset { offset: shared.offset().to_string() });
        }
        let mode = match shared.inner() {
            Part::Identity => Some(SwizzleMode::None),
            Part::Swizzle(swizzle) => SwizzleMode::of(*swizzle, elem_bytes),
            Part::Layout(_) | Part::Function(_) => None,
        };
        let Some(swizzle) = mode else {
            let swizzle = shared.inner().to_string();
            return Err(TensorMapError::UnknownSwizzle { swizzle, elem });
        };
        if global.rank() != plain.rank() {
            return Err(TensorMapError::Modes { global: global.rank(), shared: plain.rank() });
        }
        let modes = modes_of(global)?;
        let dims = dims_of(&modes, &runs_of(plain)?)?;
        if !(1..=MAX_RANK).contains(&dims.len()) {
            return Err(TensorMapError::Rank { rank: dims.len() });
        }
        let map = map_of(elem, &modes, &dims)?.with_swizzle(swizzle)?;
        let (bytes, rows) = (map.inner_bytes(), map.box_extents().skip(1).product::<u64>());
        if bytes < map.row_pitch_bytes() && rows > 1 {
            return Err(TensorMapError::SwizzleRows { bytes, swizzle });
        }
        Ok(map)
    }
}

/// Returns the tensor's modes, each with one extent and one stride.
#[inline]
fn modes_of(global: &Layout) -> Result<SmallVec<[Mode; MAX_RANK]>, TensorMapError> {
    let mode_of = |(mode, layout): (usize, LayoutRef<'_>)| {
        let flat = layout.to_layout().coalesce()?;
        let mut leaves = flat.as_ref().leaves();
        match (leaves.next(), leaves.next()) {
            (Some((extent, stride)), None) => {
                Ok(Mode { extent: extent.to_static()?, stride: stride.to_int()?.to_static()? })
            }
            _ => Err(TensorMapError::NestedMode { mode, layout: layout.to_string() }),
        }
    };
    global.modes().enumerate().map(mode_of).collect()
}

/// Returns the runs of elements in shared memory, by rising offset.
#[inline]
fn runs_of(shared: &Layout) -> Result<SmallVec<[Run; 8]>, TensorMapError> {
    let inverse = shared.right_inverse()?;
    if inverse.size()? != shared.size()? {
        return Err(TensorMapError::SharedNotDense { layout: shared.to_string() });
    }
    let sizes: Vec<_> = shared.modes().map(|mode| mode.size()).collect::<Result<_, _>>()?;
    let coords = Layout::identity(IntTuple::from_items(sizes)?)?.composition(&inverse)?;
    let mut runs = SmallVec::<[Run; 8]>::new();
    for (extent, stride) in coords.as_ref().leaves() {
        let extent = extent.to_static()?;
        if extent == 1 {
            continue;
        }
        let unsupported = || LayoutError::NotAnIntegerStride { stride: stride.to_string() };
        let step = stride.value().ok_or_else(unsupported)?.to_static()?;
        let run = Run { extent, step, mode: stride.mode().next().unwrap_or(0) };
        match runs.last_mut() {
            // The inverse splits this run into two modes.
            Some(last) if last.mode == run.mode && last.extent * last.step == run.step => {
                last.extent *= extent;
            }
            _ => runs.push(run),
        }
    }
    Ok(runs)
}

/// Returns the map's dimensions: those of the box in the order of shared memory, then the modes
/// with one element in the box.
#[inline]
fn dims_of(modes: &[Mode], runs: &[Run]) -> Result<SmallVec<[Dim; 8]>, TensorMapError> {
    let mut dims = SmallVec::new();
    for run in runs {
        let Some(mode) = modes.get(run.mode) else {
            return Err(TensorMapError::Rank { rank: run.mode + 1 });
        };
        // The next piece of the same mode, if the box splits it here.
        let part = runs.iter().filter(|other| other.mode == run.mode && other.step > run.step);
        let part = part.map(|other| other.step).min();
        let extent = match part {
            Some(part) => part / run.step,
            None => mode.extent / run.step,
        };
        if mode.extent % run.step != 0 || part.is_some_and(|part| mode.extent % part != 0) {
            let part = part.unwrap_or(run.step);
            return Err(TensorMapError::SplitMode { mode: run.mode, extent: mode.extent, part });
        }
        let stride = i128::from(mode.stride) * i128::from(run.step);
        let source = DimMode { mode: run.mode, step: run.step.unsigned_abs() };
        dims.push(Dim { extent, stride, in_box: run.extent, source });
    }
    for (number, mode) in modes.iter().enumerate() {
        if runs.iter().all(|run| run.mode != number) && mode.extent != 1 {
            let source = DimMode { mode: number, step: 1 };
            dims.push(Dim { extent: mode.extent, stride: mode.stride.into(), in_box: 1, source });
        }
    }
    Ok(dims)
}

#[inline]
fn map_of(elem: Scalar, modes: &[Mode], dims: &[Dim]) -> Result<TensorMapDesc, TensorMapError> {
    if let Some(Dim { source, stride, .. }) = dims.first().filter(|dim| dim.stride != 1) {
        let contiguous = modes.iter().position(|mode| mode.stride == 1);
        let (mode, stride) = (source.mode, *stride);
        return Err(TensorMapError::NotContiguous { mode, stride, contiguous });
    }
    let (mut extents, mut strides, mut in_box) = (Vec::new(), Vec::new(), Vec::new());
    // How many bytes the dimensions so far span.
    let mut reach = 0u64;
    for (number, dim) in dims.iter().enumerate() {
        let bad_extent = |_| TensorMapError::Extent { dim: number, extent: dim.extent.into() };
        extents.push(u64::try_from(dim.extent).map_err(bad_extent)?);
        let bad_box = |_| TensorMapError::BoxExtent { dim: number, extent: dim.in_box.into() };
        in_box.push(u32::try_from(dim.in_box).map_err(bad_box)?);
        let extent = u64::try_from(dim.extent).unwrap_or(0);
        if number == 0 {
            reach = extent.saturating_mul(elem.size_bytes().into());
            continue;
        }
        let stride_bytes = dim.stride * i128::from(elem.size_bytes());
        let stride = match u64::try_from(stride_bytes) {
            // The stride of a single element does not matter, but the hardware wants a valid one.
            _ if dim.extent == 1 => reach.next_multiple_of(16),
            Ok(stride) => stride,
            Err(_) => return Err(TensorMapError::Stride { dim: number, stride_bytes }),
        };
        reach = reach.max(extent.saturating_mul(stride));
        strides.push(stride);
    }
    let map = TensorMapDesc::new(elem, &extents, &strides, &in_box)?;
    Ok(TensorMapDesc { sources: dims.iter().map(|dim| dim.source).collect(), ..map })
}
