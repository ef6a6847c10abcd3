//! Finds the widest vector with which threads can access a layout, for example 8 contiguous `f16`
//! per load. The planner of tiled copies uses it to choose the vector width.

use std::fmt;

use super::{Inner, Offsets, Result};
use crate::layout::error::{LayoutError, ModePath};
use crate::layout::int::Int;
use crate::layout::layout_ref::LayoutRef;
use crate::layout::linear::LinearLayout;

/// The widest access of a thread, in bits.
const MAX_VECTOR_BITS: u32 = 128;

/// Returns how many elements the widest access at this alignment has; 1 if an element is wider than
/// the alignment.
fn widest_access(element_bits: u32, base_align_bytes: u32) -> Result<u32> {
    if !element_bits.is_power_of_two() || element_bits > MAX_VECTOR_BITS {
        return Err(LayoutError::BadAccess { vector: 1, element_bits });
    }
    if !base_align_bytes.is_power_of_two() {
        let value = Int::from(base_align_bytes);
        return Err(LayoutError::NotPowerOfTwo { value });
    }
    let align = base_align_bytes.saturating_mul(8).min(MAX_VECTOR_BITS);
    Ok((align / element_bits).max(1))
}

/// Why a vector is not wider: the mode, its value, and what the next wider vector at this alignment
/// would need. [`WidestVector::limit`] returns it, so that you know which stride to pad or which
/// size to round up.
///
/// ```
/// use tilewright::layout::{Analysis, VectorLimit, layout};
/// let report = layout!((8, 4):(1, 12)).widest_vector(16, 16)?;
/// assert_eq!(report.elements(), 4);
/// assert!(matches!(report.limit(), VectorLimit::Stride { stride, needed: 8, .. } if stride == "12"));
/// assert_eq!(report.limit().mode(), Some(&[1].into()));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorLimit {
    /// Nothing: 128 bits, or the requested width, are reached.
    Width,
    /// The memory's alignment is too small.
    BaseAlignment {
        /// The alignment in bytes.
        bytes: u32,
        /// The alignment in bytes at which the layout allows a wider vector.
        needed: u32,
    },
    /// There are too few contiguous elements. With symbols, this is about the divisor of their
    /// count.
    Run {
        /// How many elements are contiguous.
        elements: i64,
        /// The vector length that does not divide it.
        needed: u32,
        /// The mode that does not continue the run, with its stride as text. `None` if the run is
        /// the whole layout.
        end: Option<(ModePath, String)>,
    },
    /// A stride is not a multiple of a wider vector.
    Stride {
        /// The mode with that stride.
        mode: ModePath,
        /// The stride as text.
        stride: String,
        /// The vector length that does not divide it.
        needed: u32,
    },
    /// A composed layout's offset is not a multiple of a wider vector.
    Offset {
        /// The offset as text.
        offset: String,
        /// The vector length that does not divide it.
        needed: u32,
    },
    /// Under a swizzle or another inner map, an index is not the previous index plus 1.
    Index {
        /// The mode in which the coordinate differs from the previous one.
        mode: ModePath,
        /// The coordinate as an integer.
        coordinate: i64,
        /// Its index.
        index: i64,
        /// The previous index plus 1.
        needed: i64,
    },
    /// Under a swizzle or another inner map, the first index of a vector is not a multiple of a
    /// wider vector.
    Start {
        /// The last mode whose entry is not 0.
        mode: ModePath,
        /// The coordinate as an integer.
        coordinate: i64,
        /// Its index.
        index: i64,
        /// The vector length that does not divide it.
        needed: u32,
    },
}

impl VectorLimit {
    /// Returns the mode that keeps the vector from being wider, or `None` if the reason is not a
    /// mode.
    ///
    /// ```
    /// use tilewright::layout::{Analysis, layout};
    /// let report = layout!((8, 4) : (1, 12)).widest_vector(16, 16)?;
    /// assert_eq!(report.limit().mode(), Some(&[1].into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn mode(&self) -> Option<&ModePath> {
        match self {
            VectorLimit::Run { end, .. } => end.as_ref().map(|(mode, _)| mode),
            VectorLimit::Stride { mode, .. }
            | VectorLimit::Index { mode, .. }
            | VectorLimit::Start { mode, .. } => Some(mode),
            VectorLimit::Width | VectorLimit::BaseAlignment { .. } | VectorLimit::Offset { .. } => {
                None
            }
        }
    }
}

/// The widest vector with which all elements of a layout can be accessed, and what limits it.
/// [`Analysis::widest_vector`](super::Analysis::widest_vector) returns it, and it prints as a
/// sentence.
///
/// ```
/// use tilewright::layout::{Analysis, ComposedLayout, VectorLimit, layout};
/// let tile: ComposedLayout = "S<2,2,3> o 0 o (32,8):(1,32)".parse()?;
/// let report = tile.widest_vector(16, 16)?;
/// assert_eq!((report.elements(), report.bits()), (4, 64));
/// assert_eq!(
///     report.to_string(),
///     "4 x 16 bits; along mode 1, coordinate 32 has index 36, \
///      but a vector of 8 needs a multiple of 8"
/// );
/// assert_eq!(layout!(64:1).widest_vector(16, 16)?.limit(), &VectorLimit::Width);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WidestVector {
    elements: u32,
    element_bits: u32,
    limit: VectorLimit,
}

impl WidestVector {
    /// Returns how many elements the vector has, a power of two. It is the vector length to use in
    /// a copy.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!((8, 4):(1, 16)).widest_vector(16, 16)?;
    /// assert_eq!(report.elements(), 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn elements(&self) -> u32 {
        self.elements
    }

    /// Returns the vector's width in bits. If it is below 8, a single element cannot be accessed on
    /// its own.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, layout};
    /// let report = layout!((8, 4):(1, 16)).widest_vector(16, 16)?;
    /// assert_eq!(report.bits(), 128);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn bits(&self) -> u32 {
        self.elements * self.element_bits
    }

    /// Returns why the vector is not wider, so that you can change the layout.
    ///
    /// ```
    /// # use tilewright::layout::{Analysis, VectorLimit, Width, layout};
    /// let report = layout!(64:1).widest_vector(16, 16)?;
    /// assert_eq!(report.limit(), &VectorLimit::Width);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn limit(&self) -> &VectorLimit {
        &self.limit
    }
}

impl fmt::Display for WidestVector {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} bits; ", self.elements, self.element_bits)?;
        match &self.limit {
            VectorLimit::Width => write!(f, "no access is wider"),
            VectorLimit::BaseAlignment { bytes, needed } => {
                write!(f, "the alignment is {bytes} bytes, but the layout allows {needed}")
            }
            VectorLimit::Run { elements, needed, end: None } => {
                write!(
                    f,
                    "contiguous runs have length {elements}, but a vector of {needed} needs a multiple of {needed}"
                )
            }
            VectorLimit::Run { elements, needed, end: Some((mode, stride)) } => write!(
                f,
                "contiguous runs have length {elements}, because {} has stride {stride}, but a vector of {needed} needs a multiple of {needed}",
                ModeName(mode)
            ),
            VectorLimit::Stride { mode, stride, needed } => write!(
                f,
                "{} has stride {stride}, but a vector of {needed} needs a multiple of {needed}",
                ModeName(mode)
            ),
            VectorLimit::Offset { offset, needed } => {
                write!(
                    f,
                    "the offset is {offset}, but a vector of {needed} needs a multiple of {needed}"
                )
            }
            VectorLimit::Index { mode, coordinate, index, needed } => write!(
                f,
                "along {}, coordinate {coordinate} has index {index}, but must have {needed} to be contiguous",
                ModeName(mode)
            ),
            VectorLimit::Start { mode, coordinate, index, needed } => write!(
                f,
                "along {}, coordinate {coordinate} has index {index}, but a vector of {needed} needs a multiple of {needed}",
                ModeName(mode)
            ),
        }
    }
}

/// Prints `mode 1.0`, or `the layout` for the whole.
struct ModeName<'p>(&'p ModePath);

impl fmt::Display for ModeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_root() { f.write_str("the layout") } else { write!(f, "mode {}", self.0) }
    }
}

/// Returns the largest power of two that divides `value` and is at most `limit`, itself a power of
/// two.
fn power(value: &Int, limit: u32) -> u32 {
    match value.divisibility() {
        0 => limit,
        d => (1u64 << d.trailing_zeros()).min(u64::from(limit)) as u32,
    }
}

/// The strides after the contiguous run at the front, each with its path.
#[derive(Default)]
struct Rest {
    strides: Vec<(ModePath, Int)>,
}

impl Rest {
    /// Multiplies `run` up while the leaves continue it. From the first leaf that does not, it
    /// collects strides.
    #[inline]
    fn push(&mut self, layout: LayoutRef<'_>, path: &mut Vec<usize>, run: &mut Int) -> Result<()> {
        if !layout.is_leaf() {
            for (i, mode) in layout.modes().enumerate() {
                path.push(i);
                self.push(mode, path, run)?;
                path.pop();
            }
            return Ok(());
        }
        for (extent, stride) in layout.leaves() {
            if extent.bounds().1 < 1 {
                return Err(LayoutError::ExtentNotPositive { extent: extent.clone() });
            }
            let stride = stride.to_int()?;
            if extent.is(1) {
            } else if self.strides.is_empty() && stride.same(run) {
                *run = run.mul(extent)?;
            } else {
                self.strides.push((ModePath::from(path.as_slice()), stride.clone()));
            }
        }
        Ok(())
    }
}

/// Returns the vector length and the limit that the strides give, for at most `widest` elements.
#[inline]
fn by_strides(offsets: &Offsets<'_>, widest: u32) -> Result<(u32, Option<VectorLimit>)> {
    let (mut run, mut rest) = (Int::ONE, Rest::default());
    rest.push(offsets.outer.as_ref(), &mut Vec::new(), &mut run)?;
    let (mut elements, mut limit) = (widest, None);
    let by_run = power(&run, elements);
    if by_run < elements {
        let run = run.as_static().unwrap_or_else(|| run.divisibility());
        let end = rest.strides.first().map(|(mode, stride)| (mode.clone(), stride.to_string()));
        (elements, limit) = (by_run, Some(VectorLimit::Run { elements: run, needed: widest, end }));
    }
    for (mode, stride) in rest.strides {
        let by_stride = power(&stride, elements);
        if by_stride < elements {
            let stride = stride.to_string();
            let found = VectorLimit::Stride { mode, stride, needed: widest };
            (elements, limit) = (by_stride, Some(found));
        }
    }
    let by_offset = power(&offsets.shift, elements);
    if by_offset < elements {
        let offset = offsets.shift.to_string();
        (elements, limit) = (by_offset, Some(VectorLimit::Offset { offset, needed: widest }));
    }
    Ok((elements, limit))
}

/// Returns the last leaf in which two coordinates differ, or the root if there is none.
#[inline]
fn differs(offsets: &Offsets<'_>, [a, b]: [i64; 2]) -> Result<ModePath> {
    #[inline]
    fn walk(
        layout: LayoutRef<'_>,
        path: &mut Vec<usize>,
        [a, b]: &mut [i64; 2],
        found: &mut ModePath,
    ) -> Result<()> {
        if !layout.is_leaf() {
            for (i, mode) in layout.modes().enumerate() {
                path.push(i);
                walk(mode, path, &mut [*a, *b], found)?;
                path.pop();
                let size = mode.to_layout().size()?.to_static()?.max(1);
                (*a, *b) = (*a / size, *b / size);
            }
            return Ok(());
        }
        let size = layout.to_layout().size()?.to_static()?.max(1);
        if *a % size != *b % size {
            *found = ModePath::from(path.as_slice());
        }
        Ok(())
    }
    let mut found = ModePath::default();
    walk(offsets.outer.as_ref(), &mut Vec::new(), &mut [a, b], &mut found)?;
    Ok(found)
}

/// Returns the layout's matrix, if it is linear over bits.
#[inline]
fn matrix(offsets: &Offsets<'_>) -> Option<LinearLayout> {
    match offsets.inner {
        Inner::Swizzle(swizzle) if offsets.shift.is(0) => {
            LinearLayout::new(offsets.outer).ok()?.swizzled(swizzle).ok()
        }
        Inner::Any(composed) => LinearLayout::from_composed(composed).ok(),
        Inner::Plain | Inner::Swizzle(_) => None,
    }
}

/// Returns the vector length and the limit that the matrix gives. The limit is the same as
/// [`by_walk`] finds.
///
/// `1 << k` elements are a vector if the first `k` columns are those of the identity, and no other
/// column has one of the lowest `k` bits. The first coordinate that breaks this is a power of two,
/// because all others are sums of powers of two.
#[inline]
fn by_columns(
    offsets: &Offsets<'_>,
    matrix: &LinearLayout,
    widest: u32,
) -> Result<(u32, Option<VectorLimit>)> {
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut elements = 1u32;
    for (bit, &column) in matrix.columns().iter().enumerate() {
        if elements >= widest {
            return Ok((elements, None));
        }
        let (coordinate, needed) = (1i64 << bit, i64::from(elements));
        if column != u64::from(elements) {
            let (index, mode) = (signed(column), differs(offsets, [coordinate - 1, coordinate])?);
            let limit = VectorLimit::Index { mode, coordinate, index, needed };
            return Ok((elements, Some(limit)));
        }
        let later = matrix.columns().iter().enumerate().skip(bit + 1);
        let mut unaligned = later.filter(|(_, column)| *column & u64::from(elements) != 0);
        if let Some((bit, &column)) = unaligned.next() {
            let coordinate = 1i64 << bit;
            let (index, mode) = (signed(column), differs(offsets, [0, coordinate])?);
            let limit = VectorLimit::Start { mode, coordinate, index, needed: 2 * elements };
            return Ok((elements, Some(limit)));
        }
        elements *= 2;
    }
    if elements >= widest {
        return Ok((elements, None));
    }
    let run = VectorLimit::Run { elements: elements.into(), needed: 2 * elements, end: None };
    Ok((elements, Some(run)))
}

/// Returns the vector length and the limit by trying all indices.
#[inline]
fn by_walk(offsets: &Offsets<'_>, widest: u32) -> Result<(u32, Option<VectorLimit>)> {
    let indices = offsets.walk()?;
    let mut elements = 1u32;
    while elements < widest {
        let next = 2 * elements as usize;
        if indices.len() % next != 0 {
            let elements = i64::try_from(indices.len()).unwrap_or(i64::MAX);
            let needed = next as u32;
            let run = VectorLimit::Run { elements, needed, end: None };
            return Ok((needed / 2, Some(run)));
        }
        for (i, vector) in indices.chunks(next).enumerate() {
            let first = vector.first().copied().unwrap_or(0);
            let wrong = if first % next as i64 == 0 {
                (0i64..).zip(vector).position(|(j, &index)| first.checked_add(j) != Some(index))
            } else {
                Some(0)
            };
            if let Some(j) = wrong {
                let coordinate = i64::try_from(i * next + j).unwrap_or(i64::MAX);
                let index = vector.get(j).copied().unwrap_or(0);
                let limit = if j == 0 {
                    let mode = differs(offsets, [0, coordinate])?;
                    VectorLimit::Start { mode, coordinate, index, needed: next as u32 }
                } else {
                    let mode = differs(offsets, [coordinate - 1, coordinate])?;
                    let needed = first.saturating_add(j as i64);
                    VectorLimit::Index { mode, coordinate, index, needed }
                };
                return Ok((elements, Some(limit)));
            }
        }
        elements *= 2;
    }
    Ok((elements, None))
}

/// Returns the vector length and the limit from the matrix if there is one, and otherwise by trying
/// all indices.
#[inline]
fn by_indices(offsets: &Offsets<'_>, widest: u32) -> Result<(u32, Option<VectorLimit>)> {
    match matrix(offsets) {
        Some(matrix) => by_columns(offsets, &matrix, widest),
        None => by_walk(offsets, widest),
    }
}

/// Returns the vector length and the limit that the layout alone gives, for at most `widest`
/// elements.
#[inline]
fn by_layout(offsets: &Offsets<'_>, widest: u32) -> Result<(u32, Option<VectorLimit>)> {
    match offsets.inner {
        Inner::Plain => by_strides(offsets, widest),
        // A swizzle moves whole blocks of `1 << base` indices, so it does not affect vectors up to
        // that length.
        Inner::Swizzle(swizzle) => match by_strides(offsets, widest)? {
            (elements, limit)
                if i64::from(2 * elements).min(widest.into()) <= swizzle.max_alignment() =>
            {
                Ok((elements, limit))
            }
            _ => by_indices(offsets, widest),
        },
        Inner::Any(_) => by_indices(offsets, widest),
    }
}

#[inline]
pub(super) fn widest_vector(
    offsets: &Offsets<'_>,
    element_bits: u32,
    base_align_bytes: u32,
) -> Result<WidestVector> {
    let aligned = widest_access(element_bits, base_align_bytes)?;
    let (elements, limit) = by_layout(offsets, aligned)?;
    let limit = match limit {
        Some(limit) => limit,
        None if aligned * element_bits >= MAX_VECTOR_BITS => VectorLimit::Width,
        // If twice the alignment does not help, the layout is in the way.
        None => match by_layout(offsets, 2 * aligned)? {
            (more, Some(limit)) if more <= aligned => limit,
            _ => too_little(element_bits, base_align_bytes, 2 * aligned),
        },
    };
    Ok(WidestVector { elements, element_bits, limit })
}

fn too_little(element_bits: u32, bytes: u32, vector: u32) -> VectorLimit {
    VectorLimit::BaseAlignment { bytes, needed: (vector * element_bits).div_ceil(8) }
}

#[inline]
pub(super) fn vector_of(
    offsets: &Offsets<'_>,
    element_bits: u32,
    base_align_bytes: u32,
    vector: u32,
) -> Result<WidestVector> {
    let aligned = widest_access(element_bits, base_align_bytes)?;
    let widest = MAX_VECTOR_BITS / element_bits;
    if !vector.is_power_of_two() || vector > widest {
        return Err(LayoutError::BadAccess { vector, element_bits });
    }
    let (elements, limit) = by_layout(offsets, vector)?;
    let limit = match limit {
        Some(limit) => limit,
        None if aligned < vector => too_little(element_bits, base_align_bytes, vector),
        None => VectorLimit::Width,
    };
    Ok(WidestVector { elements: elements.min(aligned), element_bits, limit })
}
