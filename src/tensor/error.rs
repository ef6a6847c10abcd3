//! [`TensorError`]: errors from invalid tensor operations. Host functions return them; inside a
//! kernel they are recorded, and the build reports them. Come here to look up what an error of a
//! slice, copy or MMA means.

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
/// let errors = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
///     let x = Tensor::new(k, x, layout!((8, 4) : (1, 8)));
///     let column = x.slice(k, (.., 1, ..)); // the tensor has two modes
///     column.load(k, 0);
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
        /// registers have no addresses, so their index is a host number: use a host loop, or keep
        /// the tensor in shared memory
        DeviceIndexOfRegisters,
        /// memory is swizzled or plain, but the layout is composed with {inner}: apply it to the
        /// coordinates first
        NotASwizzle { inner: String },
        /// an alignment is a power of two, and {bytes} is none
        AlignmentNotPowerOfTwo { bytes: u32 },
        /// the shapes {left} and {right} do not go together: modes are of the same form and extent,
        /// or one is 1 and is repeated (`reduce_keepdims` leaves a 1 for each leaf that it folds)
        NoCommonShape { left: String, right: String },
        /// the shape {shape} can be repeated to {to} in several ways: write
        /// `.reshape(shape!{first})` or `.reshape(shape!{last})`, or use `reduce_keepdims` where it
        /// comes from a reduction
        AmbiguousBroadcast { shape: Box<str>, to: Box<str>, first: Box<str>, last: Box<str> },
        /// control flow carries no swizzled pointer that a number of the device has moved: carry
        /// the number, and slice or move the tensor in the body
        CarriedSwizzle,
        /// the tensors have the shapes {left} and {right}: what is taken apart together has one
        /// shape
        ZipShapes { left: String, right: String },
        /// {len} elements of type {from} are no whole number of elements of type {to}
        BitcastSize { len: usize, from: crate::ir::types::Scalar, to: crate::ir::types::Scalar },
        /// the layout of the data {data} has no element at the address {address}
        NoSuchAddress { address: i64, data: String },
        /// the tensor has no mode {mode}: there are {rank}
        NoSuchMode { mode: usize, rank: usize },
        /// the shape {index} of the indices does not go with {tensor}: both have the same number of
        /// modes, and no mode but {mode} of the indices is larger
        GatherShapes { index: String, tensor: String, mode: usize },
        /// {len} elements do not have the shape {shape}: the size must stay the same
        ReshapeSize { shape: String, len: usize },
        /// there is no element {index}: the tensor has {len}
        NoSuchElement { index: i64, len: usize },
        /// the coordinate {coord} is outside mode {mode}, whose extent is {extent}
        OutsideMode { coord: i64, mode: String, extent: i64 },
        /// a tensor of shape {source} is not copied to one of shape {destination}: both must have
        /// the same number of elements
        CopySizes { source: String, destination: String },
        /// the layout needs {needed} bytes, but the range has {bytes}: make it longer
        RangeTooShort { needed: u32, bytes: u32 },
        /// elements of {from} bits are no elements of {to} bits here: the address is known to be a
        /// multiple of {align} bytes only; align the memory, or say what is known with
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
        /// mode {mode} of the threads {threads} gives an index to two of them: {overlap}
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
            "the tile has {count} {what}, which whole atoms of {atom} do not make up: {} are left",
            count % atom
        ),
        /// {instruction} copies {bits} bits at a time, which elements of {element} bits do not make
        /// up
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
            "mode {mode} has the extent {extent}, which tiles of {tile} do not divide: {} are left, and beyond them is no memory",
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
                "vectors of {elements} elements, {bits} bits, are not vectors of {tensor}: {widest}"
            )?;
            if let VectorLimit::BaseAlignment { needed, .. } = widest.limit() {
                return write!(
                    f,
                    "; if the address is a multiple of {needed}, say so with `TensorPointer::new(pointer).assume_aligned(k, {needed})`, else copy smaller vectors"
                );
            }
            match (widest.limit().mode().and_then(|path| path.indices().next()), name) {
                (Some(mode), Some(name)) => write!(f, "; mode {mode} is {name}"),
                _ => Ok(()),
            }
        },
        /// it has no function of the accumulators of two columns, which a store of pairs needs
        NoPairs,
        /// kernels cannot have the instruction {instruction} yet
        NoOperation { instruction: String },
        /// {instruction} is executed by `{method}`
        OtherGemm { instruction: String, method: &'static str },
        /// {instruction} takes more than a source and a destination, a barrier or the map of a
        /// tensor: `{method}` executes it
        OtherCopy { instruction: String, method: &'static str },
        /// {elements} elements follow each other in both tensors, {bytes} bytes: bulk copies move
        /// multiples of 16 bytes
        BulkRun { elements: i64, bytes: i64 },
        /// a run of {tensor} is known to start at a multiple of {align} bytes: bulk copies start at
        /// multiples of 16; align memory and strides, or say what is known with
        /// `TensorPointer::assume_aligned`
        BulkStart { tensor: String, align: u32 },
        /// bulk copies move bytes in their order, and a swizzle exchanges those of {tensor}: copy
        /// it by `TmaCopy`
        BulkSwizzle { tensor: String },
        /// the elements of {operand} are {found}, but the instruction takes {expected}: convert
        /// them first
        ElementType { operand: &'static str, found: crate::ir::types::Scalar, expected: String },
        /// the accumulators of one instruction are registers that follow each other, those of C
        /// with the layout {layout} do not: make them with `fragment_accumulators`
        AccumulatorsApart { layout: String },
        /// the instruction reads A from {expected}
        OperandMemory { expected: &'static str },
        /// C of shape {c} is not the product of A of shape {a} and B of shape {b}: (V,M,N) is
        /// needed of (V,M,K) and (V,N,K)
        GemmShapes { c: String, a: String, b: String },
        /// no tensor copies move it: {why}
        TmaTile { why: &'static str },
        /// no tensor copies move it: its layout is {found}, but the copy is of tiles {expected};
        /// the tile of a copy of a part comes from the layout of the whole tile by `composition`
        TmaLayout { expected: String, found: String },
        /// threads cannot copy it together: {why}
        AsyncTile { why: &'static str },
        /// {error}
        TensorMap(error: Box<TensorMapError>),
        /// {error}
        Descriptor(error: Box<DescriptorError>),
        /// a predicate of shape {shape} does not say which elements of shape {copy} are copied: a
        /// predicate is a tensor of bools of the copy's shape
        PredicateShape { shape: String, copy: String },
        /// a predicate of shape {shape} does not say which of the {vectors} vectors of {elements}
        /// elements of shape {copy} are copied: a predicate is a tensor of bools of the copy's
        /// shape, or has one for each vector, or one for each coordinate of the modes after the
        /// first
        PredicateVectors { shape: String, copy: String, vectors: usize, elements: usize },
        /// a vector of {elements} elements is copied as a whole, but inside of vector {vector} the
        /// predicate is not one value: compare the first element of each vector alone, `within` of
        /// the coordinates sliced at `((0, ..), .., ..)`, or copy single elements
        PredicateInVector { vector: usize, elements: usize },
        /// all threads of a warp execute {instruction} together, so none of them can leave it out:
        /// put `k.if_` with a condition that is the same in the warp around the copy
        NoPredicate { instruction: String },
        /// this atom executes {instruction} without zeros: make it with `zero_fill: true`, or leave
        /// the elements alone with `copy_if`
        NoZeroFill { instruction: String },
        /// {instruction} copies {takes}, not {found}
        CopySpaces { instruction: String, takes: &'static str, found: String },
        /// the source is {source} copies of a thread, the destination {destination}: partition both
        /// by the same tiled copy
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
                write!(f, "there are {found} {what} where {max} are needed")
            } else {
                write!(f, "there are {found} {what}: from {min} to {max} are possible")
            }
        },
        /// tiles cannot be drawn from a counter: {why}
        DrawnTiles { why: &'static str },
        /// the threads {threads} do not stand one after the other: the stride {stride} overlaps a
        /// smaller one or is no multiple of it
        Threads { threads: String, stride: i64 },
        /// the extent {extent} of {shape} is known only when the kernel runs, and what is moved as
        /// a whole has a shape of numbers: take a tile, `local_tile`, or go through the coordinates
        /// in a loop of the device
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
