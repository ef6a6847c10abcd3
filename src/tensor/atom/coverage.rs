//! Checks that a layout reaches each element of a tile exactly once, and names the mode that fails.
//! [`TiledMma`](crate::tensor::atom::TiledMma) and [`TiledCopy`](crate::tensor::atom::TiledCopy)
//! use it, so that no element is computed or copied twice or left out.

use crate::errors::errors;

use crate::layout::{Analysis, IntTuple, Layout, LayoutError, ModePath, Ratio, idx2crd};

use crate::sorting::sort_by_key;
use crate::tensor::error::TensorErrorKind;

errors! {
    /// Why a layout does not reach each element of its tile exactly once, with the mode at fault.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::layout::layout;
    /// use tilewright::tensor::TensorErrorKind;
    /// use tilewright::tensor::atom::{CopyAtom, CopyOp, CoverageFault, TiledCopy};
    ///
    /// // The four columns of threads are one and the same.
    /// let atom = CopyAtom::new(CopyOp::Universal { bits: 32 })?;
    /// let error = TiledCopy::new(atom, Scalar::F32, &layout!((8, 4) : (1, 0)), &layout!((1, 4)));
    /// let TensorErrorKind::Coverage { fault, .. } = error.unwrap_err().kind else { panic!() };
    /// assert_eq!(fault.to_string(), "mode 1 of the threads must have the stride 8, but has 0");
    /// assert!(matches!(*fault, CoverageFault::Stride { stride: 0, needed: 8, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum CoverageFault {
        /// A mode's stride does not continue where smaller strides end, so the layout repeats or
        /// skips elements.
        Stride {
            /// Which layout: `the threads`, `the values`, or another name.
            of: &'static str,
            /// The mode at fault.
            mode: ModePath,
            /// Its stride.
            stride: i64,
            /// The stride that would continue where smaller ones end.
            needed: i64,
        } = |f| {
            if mode.is_root() {
                write!(f, "{of} must have the stride {needed}, but have {stride}")
            } else {
                write!(
                    f,
                    "mode {mode} of {of} must have the stride {needed}, but has {stride}"
                )
            }
        },
        /// mode {mode} of the tile has the extent {extent}, but {reached} are reached
        Extent { mode: usize, extent: i64, reached: Ratio },
        /// {coord} must be reached {needed} times, but is reached {times} times
        Element { coord: IntTuple, times: i64, needed: i64 },
    }
}

/// Returns each leaf with an extent above 1: its path, extent and stride.
#[inline]
fn leaves(layout: &Layout) -> Result<Vec<(ModePath, i64, i64)>, LayoutError> {
    #[inline]
    fn walk(
        layout: &Layout,
        path: &mut Vec<usize>,
        out: &mut Vec<(ModePath, i64, i64)>,
    ) -> Result<(), LayoutError> {
        if layout.shape().as_leaf().is_none() {
            for (i, mode) in layout.modes().enumerate() {
                path.push(i);
                walk(&mode.to_layout(), path, out)?;
                path.pop();
            }
            return Ok(());
        }
        for (extent, stride) in layout.as_ref().leaves() {
            let (extent, stride) = (extent.to_static()?, stride.to_int()?.to_static()?);
            if extent != 1 {
                out.push((ModePath::from(path.as_slice()), extent, stride));
            }
        }
        Ok(())
    }
    let mut out = Vec::new();
    walk(layout, &mut Vec::new(), &mut out)?;
    Ok(out)
}

/// Returns the first mode that does not continue where smaller strides end, with its stride and the
/// expected one; `None` if the layout covers `0..size` once.
#[inline]
fn first_wrong(layout: &Layout) -> Result<Option<(ModePath, i64, i64)>, LayoutError> {
    let mut leaves = leaves(layout)?;
    // A mode with stride 0 should have continued where the others end.
    sort_by_key(&mut leaves, |(_, _, stride)| if *stride == 0 { i64::MAX } else { *stride });
    let still = leaves.iter().find(|(_, _, stride)| *stride == 0).cloned();
    let mut needed = 1i64;
    for (mode, extent, stride) in leaves {
        if stride != needed {
            let (mode, _, stride) = still.unwrap_or((mode, extent, stride));
            return Ok(Some((mode, stride, needed)));
        }
        needed = needed.checked_mul(extent).ok_or(LayoutError::Overflow { operation: "size" })?;
    }
    Ok(None)
}

/// Returns why `layout`, called `of` in the error, does not cover each element of `tile` once.
#[inline]
pub(in crate::tensor) fn fault(
    layout: &Layout,
    of: &'static str,
    tile: &IntTuple,
) -> Result<Option<CoverageFault>, LayoutError> {
    if let Some((mode, stride, needed)) = first_wrong(layout)? {
        return Ok(Some(CoverageFault::Stride { of, mode, stride, needed }));
    }
    let (size, elements) = (layout.size()?.to_static()?, tile.product()?.to_static()?);
    if size == elements {
        return Ok(None);
    }
    // The first `size` elements are reached. Find the mode in which they end.
    let extents: Vec<i64> =
        tile.children().map(|e| e.product()?.to_static()).collect::<Result<_, _>>()?;
    let (mut below, mut last) = (1i64, (0, elements, 1));
    for (mode, extent) in extents.into_iter().enumerate() {
        last = (mode, extent, below);
        // This cannot exceed `elements`, which fits.
        below = below.saturating_mul(extent);
        if below > size {
            break;
        }
    }
    let (mode, extent, below) = last;
    let reached = Ratio::new(size, below)?;
    Ok(Some(CoverageFault::Extent { mode, extent, reached }))
}

/// Like [`fault`], as an error.
#[inline]
pub(in crate::tensor) fn check(
    layout: &Layout,
    of: &'static str,
    tile: &IntTuple,
) -> Result<(), TensorErrorKind> {
    match fault(layout, of, tile)? {
        None => Ok(()),
        Some(fault) => Err(missed(layout, tile, fault)?),
    }
}

/// Wraps a fault with the counts that the error message shows.
#[inline]
fn missed(
    layout: &Layout,
    tile: &IntTuple,
    fault: CoverageFault,
) -> Result<TensorErrorKind, LayoutError> {
    let elements = tile.product()?.to_static()?;
    let inside = layout.image()?.iter().filter(|index| (0..elements).contains(index)).count();
    Ok(TensorErrorKind::Coverage {
        layout_tv: layout.to_string(),
        elements,
        reached: i64::try_from(inside).unwrap_or(i64::MAX),
        size: layout.size()?.to_static()?,
        fault: Box::new(fault),
    })
}

/// Returns the error for threads and values that together do not cover a tile.
#[inline]
pub(in crate::tensor) fn threads_and_values(
    threads: &Layout,
    values: &Layout,
) -> Result<TensorErrorKind, LayoutError> {
    for (layout, of) in [(threads, "the threads"), (values, "the values")] {
        if let Some(fault) = fault(layout, of, &layout.size()?.into())? {
            // (tile coordinate) -> (thread, value).
            let tile = threads.raked_product(values)?;
            return missed(&tile, &tile.shape().to_owned(), fault);
        }
    }
    let layout = threads.raked_product(values)?.to_string();
    Err(LayoutError::NotBijective { layout })
}

/// Checks that all elements of `tile` are reached equally often: threads that share an operand each
/// hold all of it.
#[inline]
pub(in crate::tensor) fn check_shared(
    layout_tv: &Layout,
    tile: &IntTuple,
) -> Result<(), TensorErrorKind> {
    let elements = tile.product()?.to_static()?;
    let size = layout_tv.size()?.to_static()?;
    let mut times = vec![0i64; usize::try_from(elements).unwrap_or(0)];
    for index in layout_tv.indices()? {
        if let Some(times) = usize::try_from(index).ok().and_then(|index| times.get_mut(index)) {
            *times += 1;
        }
    }
    let needed = size / elements.max(1);
    match (0i64..).zip(times).find(|(_, times)| *times != needed || *times == 0) {
        None => Ok(()),
        Some((index, times)) => {
            let coord = idx2crd(&index.into(), tile)?;
            let needed = needed.max(1);
            Err(missed(layout_tv, tile, CoverageFault::Element { coord, times, needed })?)
        }
    }
}
