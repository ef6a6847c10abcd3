//! [`TensorError`]: errors from invalid tensor operations. Host functions return them; inside a
//! kernel they are recorded, and the build reports them.

use crate::errors::errors;
use std::fmt;

use crate::arch::{DescriptorError, TensorMapError};
use crate::layout::{LayoutError, Overlap, VectorLimit, WidestVector};

use super::atom::coverage::CoverageFault;

/// An invalid operation on a tensor or a pointer. The build records it with its Rust line and
/// continues; [`Kernel::build`](crate::ir::Kernel::build) returns it as
/// [`BuildErrorKind::Reported`](crate::ir::builder::BuildErrorKind::Reported).
///
/// An operation on a tensor that could not be made reports nothing, so that one mistake gives one
/// error.
///
/// ```
/// use tilewright::ir::builder::BuildErrorKind;
/// use tilewright::ir::{Global, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::tensor::{TensorError, TensorErrorKind};
/// use tilewright::tensor::view::Tensor;
///
/// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |_, (x,)| {
///     let x = Tensor::new(x, layout!((8, 4) : (1, 8)));
///     let column = x.slice((.., 1, ..)); // the tensor has two modes
///     column.load(0);
/// })
/// .unwrap_err();
/// assert_eq!(errors.iter().len(), 1);
/// let error = errors.iter().next().unwrap();
/// assert!(error.to_string().ends_with(
///     "`slice` of ptr<f32, gmem, align<4>> o (8,4):(1,8): 2 modes are needed, 3 were given"
/// ));
/// let BuildErrorKind::Reported(reported) = &error.kind else { panic!() };
/// let error: &TensorError = reported.downcast_ref().unwrap();
/// assert!(matches!(error.kind, TensorErrorKind::Layout(_)));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TensorError {
    /// The operation under its CuTe name, for example `slice`.
    pub operation: &'static str,
    /// The tensor or pointer in text form, for example `ptr<f32, gmem, align<4>> o (8,4):(1,8)`.
    pub operand: String,
    /// What is wrong.
    pub kind: TensorErrorKind,
}

errors! {
    /// Why a tensor or pointer operation failed. Match on it if code should react to one kind of
    /// mistake, for example in a test that expects a build error.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TensorErrorKind {
        /// {error}
        Layout(error: LayoutError),
        /// registers have no addresses, so a device value cannot index them: use a host loop, or
        /// keep the tensor in shared memory
        DeviceIndexOfRegisters,
        /// a tensor's layout can only be composed with a swizzle, not with {inner}: apply that to
        /// the coordinates first
        NotASwizzle { inner: String },
        /// alignment must be a power of two, got {bytes}
        AlignmentNotPowerOfTwo { bytes: u32 },
        /// cannot broadcast the shapes {left} and {right}: each pair of modes must have the same
        /// profile and extents, or one of the two must be 1 (`reduce_keepdims` leaves a 1 for each
        /// leaf that it folds)
        NoCommonShape { left: String, right: String },
        /// the shape {shape} can be broadcast to {to} in several ways: write
        /// `.reshape(shape!{first})` or `.reshape(shape!{last})`, or use `reduce_keepdims` if it
        /// comes from a reduction
        AmbiguousBroadcast { shape: Box<str>, to: Box<str>, first: Box<str>, last: Box<str> },
        /// control flow cannot carry a swizzled pointer with a device offset: carry the offset, and
        /// slice or move the tensor in the body
        CarriedSwizzle,
        /// zipped tensors must have the same shape, got {left} and {right}
        ZipShapes { left: String, right: String },
        /// {len} elements of type {from} do not fill a whole number of {to} elements
        BitcastSize { len: usize, from: crate::ir::types::Scalar, to: crate::ir::types::Scalar },
        /// the data layout {data} has no element at address {address}
        NoSuchAddress { address: i64, data: String },
        /// the tensor has no mode {mode}: its rank is {rank}
        NoSuchMode { mode: usize, rank: usize },
        /// the index shape {index} does not fit the tensor shape {tensor}: both must have the same
        /// rank, and only mode {mode} of the indices may be larger than the tensor's
        GatherShapes { index: String, tensor: String, mode: usize },
        /// cannot reshape {len} elements to {shape}: the size must stay the same
        ReshapeSize { shape: String, len: usize },
        /// there is no element {index}: the tensor has {len}
        NoSuchElement { index: i64, len: usize },
        /// the coordinate {coord} is outside mode {mode}, whose extent is {extent}
        OutsideMode { coord: i64, mode: String, extent: i64 },
        /// cannot copy a tensor of shape {source} to one of shape {destination}: both must have the
        /// same number of elements
        CopySizes { source: String, destination: String },
        /// the layout needs {needed} bytes, but the range has {bytes}: make it longer
        RangeTooShort { needed: u32, bytes: u32 },
        /// cannot recast {from}-bit elements to {to} bits: the address is only known to be a
        /// multiple of {align} bytes; align the memory, or state its alignment with
        /// `TensorPointer::assume_aligned`
        Recast { from: u32, to: u32, align: u32 },
        /// each element of the tile must be reached once, but the {size} indices of {layout_tv}
        /// reach {reached} of its {elements} elements: {fault}
        Coverage {
            layout_tv: String,
            elements: i64,
            reached: i64,
            size: i64,
            fault: Box<CoverageFault>,
        },
        /// mode {mode} of the thread layout {threads} gives two threads the same index: {overlap}
        SharedIndex { threads: String, mode: usize, overlap: Box<Overlap> },
        /// The tile's threads or values do not divide into whole atoms.
        Atoms {
            /// `threads` or `values`.
            what: &'static str,
            /// The tile's count.
            count: i64,
            /// The atom's count.
            atom: i64,
        } = |f| write!(
            f,
            "the tile has {count} {what}, which is not a multiple of the atom's {atom}: {} are left over",
            count % atom
        ),
        /// {instruction} copies {bits} bits at a time, which is not a whole number of {element}-bit
        /// elements
        AtomBits { instruction: String, bits: i64, element: u32 },
        /// An allocation (registers or shared memory) that the tiler does not divide.
        RaggedTile {
            /// The index of the mode.
            mode: usize,
            /// Its extent.
            extent: i64,
            /// The tile's extent.
            tile: i64,
        } = |f| write!(
            f,
            "mode {mode} has the extent {extent}, which is not a multiple of the tile's {tile}: {} are left over, and the last tile would reach past the end of the memory",
            extent % tile
        ),
        /// The tensor's layout or alignment does not allow the copy's vectors.
        Vector {
            /// Elements per vector.
            elements: i64,
            /// Bits per vector.
            bits: i64,
            /// The tensor, as text.
            tensor: String,
            /// The widest vector that the layout allows, and what limits it.
            widest: Box<WidestVector>,
            /// The name of the mode that limits it, if the mode is named.
            name: Option<String>,
        } = |f| {
            write!(
                f,
                "cannot access {tensor} in vectors of {elements} elements ({bits} bits): {widest}"
            )?;
            if let VectorLimit::BaseAlignment { needed, .. } = widest.limit() {
                return write!(
                    f,
                    "; if the address is a multiple of {needed}, say so with `TensorPointer::new(pointer).assume_aligned({needed})`, else copy smaller vectors"
                );
            }
            match (widest.limit().mode().and_then(|path| path.indices().next()), name) {
                (Some(mode), Some(name)) => write!(f, "; mode {mode} is {name}"),
                _ => Ok(()),
            }
        },
        /// the epilogue does not implement `apply_pair`, which a store of column pairs needs
        NoPairs,
        /// kernels do not support the instruction {instruction} yet
        NoOperation { instruction: String },
        /// use `{method}` to execute {instruction}
        OtherGemm { instruction: String, method: &'static str },
        /// {instruction} needs more than a source and a destination (a barrier or a tensor map):
        /// use `{method}` to execute it
        OtherCopy { instruction: String, method: &'static str },
        /// only {elements} elements ({bytes} bytes) are contiguous in both tensors, but bulk copies
        /// move multiples of 16 bytes
        BulkRun { elements: i64, bytes: i64 },
        /// bulk copies must start at a multiple of 16 bytes, but a run of {tensor} is only known to
        /// start at a multiple of {align}; align memory and strides, or state the alignment with
        /// `TensorPointer::assume_aligned`
        BulkStart { tensor: String, align: u32 },
        /// bulk copies cannot swizzle, but {tensor} is swizzled: copy it with `TmaCopy`
        BulkSwizzle { tensor: String },
        /// the elements of {operand} are {found}, but the instruction needs {expected}: convert
        /// them first
        ElementType { operand: &'static str, found: crate::ir::types::Scalar, expected: String },
        /// a sparse MMA reads 64 bytes of each row of B in one step, but half a step is {units}
        /// units of 16 bytes apart in the layout {layout}: make B's tile K-major, with a swizzle of
        /// at least 64 bytes
        SparseSteps { layout: String, units: i64 },
        /// an instruction's accumulators must be consecutive registers, which the layout {layout}
        /// of C does not give: make C with `fragment_accumulators`
        AccumulatorsApart { layout: String },
        /// the instruction reads A from {expected}
        OperandMemory { expected: &'static str },
        /// the shapes do not match: C is {c}, A is {a} and B is {b}, but must be (V,M,N), (V,M,K)
        /// and (V,N,K)
        GemmShapes { c: String, a: String, b: String },
        /// TMA cannot copy it: {why}
        TmaTile { why: &'static str },
        /// TMA cannot copy it: its layout is {found}, but the copy was made for tiles {expected};
        /// to copy a part of a tile, get its layout from the whole tile's with `composition`
        TmaLayout { expected: String, found: String },
        /// invalid asynchronous tile copy: {why}
        AsyncTile { why: &'static str },
        /// {error}
        TensorMap(error: Box<TensorMapError>),
        /// {error}
        Descriptor(error: Box<DescriptorError>),
        /// the predicate has the shape {shape}, but the copy {copy}: a predicate must be a tensor
        /// of bools of the copy's shape
        PredicateShape { shape: String, copy: String },
        /// the predicate has the shape {shape}, but the copy {copy}, in {vectors} vectors of
        /// {elements} elements: a predicate must have one bool for each element, for each vector,
        /// or for each coordinate of the modes after the first
        PredicateVectors { shape: String, copy: String, vectors: usize, elements: usize },
        /// vectors of {elements} elements are copied whole, but the predicate changes inside vector
        /// {vector}: compare only the first element of each vector, with `within` on the
        /// coordinates sliced at `((0, ..), .., ..)`, or copy single elements
        PredicateInVector { vector: usize, elements: usize },
        /// all threads of a warp execute {instruction} together, so single threads cannot skip it:
        /// put the copy into a `k.if_` whose condition is the same for the whole warp
        NoPredicate { instruction: String },
        /// this atom's {instruction} cannot fill with zeros: make the atom with `zero_fill: true`,
        /// or leave the elements unchanged with `copy_if`
        NoZeroFill { instruction: String },
        /// {instruction} copies {takes}, not {found}
        CopySpaces { instruction: String, takes: &'static str, found: String },
        /// each thread has {source} copies in the source but {destination} in the destination:
        /// partition both with the same tiled copy
        CopyCounts { source: usize, destination: usize },
        /// A count outside its limits.
        Count {
            /// What is counted.
            what: &'static str,
            /// The count.
            found: u32,
            /// The minimum.
            min: u32,
            /// The maximum.
            max: u32,
        } = |f| {
            if min == max {
                write!(f, "expected {max} {what}, got {found}")
            } else {
                write!(f, "expected {min} to {max} {what}, got {found}")
            }
        },
        /// cannot draw tiles from a counter: {why}
        DrawnTiles { why: &'static str },
        /// in the thread layout {threads}, the stride {stride} must be a multiple of the range that
        /// the smaller strides cover
        Threads { threads: String, stride: i64 },
        /// the extent {extent} of {shape} is known only when the kernel runs, but this operation
        /// needs a static shape: take a tile with `local_tile`, or loop over the coordinates on the
        /// device
        DynamicExtent { extent: String, shape: String },
    }
}

/// Checks that `found` lies between `min` and `max`, both included.
pub(super) fn count_of(
    what: &'static str,
    found: u32,
    [min, max]: [u32; 2],
) -> Result<(), TensorErrorKind> {
    if (min..=max).contains(&found) {
        Ok(())
    } else {
        Err(TensorErrorKind::Count { what, found, min, max })
    }
}

impl From<LayoutError> for TensorErrorKind {
    fn from(error: LayoutError) -> Self {
        TensorErrorKind::Layout(error)
    }
}

impl fmt::Display for TensorError {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorError { operation, operand, kind } = self;
        write!(f, "`{operation}` of {operand}: {kind}")
    }
}

impl std::error::Error for TensorError {}
crate::errors::message_as_debug!(TensorError);
