//! [`TensorError`]: what was asked of a tensor that it cannot do.

use std::fmt;

use crate::arch::{DescriptorError, TensorMapError};
use crate::layout::{LayoutError, Overlap, WidestVector};

use super::atom::coverage::CoverageFault;

/// A mistake in the use of a tensor or a pointer. The build records it with its Rust line and goes on;
/// [`Kernel::build`](crate::ir::Kernel::build) returns it as
/// [`BuildErrorKind::Reported`](crate::ir::BuildErrorKind::Reported).
///
/// What depends on a tensor that could not be made says nothing more: one mistake is one error.
///
/// ```
/// use tilewright::ir::{BuildErrorKind, Global, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::tensor::{Tensor, TensorError, TensorErrorKind};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorError {
    /// The operation, in CuTe's words.
    pub operation: &'static str,
    /// Of which tensor or pointer, printed.
    pub operand: String,
    /// The cause.
    pub kind: TensorErrorKind,
}

/// The cause of an error of an operation on a tensor or a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorErrorKind {
    /// The layout algebra has no result.
    Layout(LayoutError),
    /// A part of a tensor in registers is chosen by a device number.
    DeviceIndexOfRegisters,
    /// The layout is composed with something other than a swizzle.
    NotASwizzle {
        /// The inner function, printed.
        inner: String,
    },
    /// An alignment that is not a power of two.
    AlignmentNotPowerOfTwo {
        /// The alignment in bytes.
        bytes: u64,
    },
    /// Two shapes that cannot be repeated to a common shape.
    NoCommonShape {
        /// The first shape, printed.
        left: String,
        /// The second shape, printed.
        right: String,
    },
    /// A shape that goes to another one in several ways.
    AmbiguousBroadcast {
        /// The shape, printed.
        shape: String,
        /// The shape that has more modes, printed.
        to: String,
        /// The shape with as many modes, its modes first.
        first: String,
        /// The same, its modes as far behind as they fit.
        last: String,
    },
    /// A shape of another size.
    ReshapeSize {
        /// The shape, printed.
        shape: String,
        /// The number of elements.
        len: usize,
    },
    /// An element beyond the last one.
    NoSuchElement {
        /// The number of the element.
        index: i64,
        /// The number of elements.
        len: usize,
    },
    /// A copy between tensors of different sizes.
    CopySizes {
        /// The shape of the source, printed.
        source: String,
        /// The shape of the destination, printed.
        destination: String,
    },
    /// A range of shared memory that is too short for a layout.
    RangeTooShort {
        /// The bytes that the layout needs.
        needed: usize,
        /// The bytes of the range.
        bytes: usize,
    },
    /// A pointer or layout that cannot be one of other elements.
    Recast {
        /// The bits of the elements.
        from: u32,
        /// The bits of the new elements.
        to: u32,
        /// The known alignment of the address, in bytes.
        align: u64,
    },
    /// Threads and values that do not reach each element of their tile once.
    Coverage {
        /// The layout from threads and values to the tile, printed.
        layout_tv: String,
        /// The elements of the tile.
        elements: i64,
        /// The number of elements that are reached.
        reached: i64,
        /// The number of pairs of thread and value.
        places: i64,
        /// The mode that is wrong, and by how much.
        fault: Box<CoverageFault>,
    },
    /// An arrangement of atoms that gives one index to two threads.
    SharedIndex {
        /// From (thread of the atom, atom in M, in N, in K) to the index of the thread, printed.
        threads: String,
        /// The first mode in which the two differ.
        mode: usize,
        /// The two, and the index.
        overlap: Box<Overlap>,
    },
    /// Threads or values that whole atoms do not make up.
    Atoms {
        /// `threads` or `values`.
        what: &'static str,
        /// The number of a tile.
        count: i64,
        /// The number of an atom.
        atom: i64,
    },
    /// An atom whose elements are not whole.
    AtomBits {
        /// The instruction.
        instruction: String,
        /// The bits that it copies at a time.
        bits: i64,
        /// The bits of an element.
        element: u32,
    },
    /// A tensor of its own that tiles do not divide.
    RaggedTile {
        /// The mode.
        mode: usize,
        /// Its extent.
        extent: i64,
        /// The extent of the tile.
        tile: i64,
    },
    /// A copy whose vectors are no vectors of a tensor.
    Vector {
        /// The elements of a vector.
        elements: i64,
        /// The bits of a vector.
        bits: i64,
        /// Of which tensor, printed.
        tensor: String,
        /// The widest vector of the layout, and its limit.
        widest: Box<WidestVector>,
        /// The name of the mode that is in the way.
        name: Option<String>,
    },
    /// An instruction that kernels cannot have yet.
    NoOperation {
        /// The instruction.
        instruction: String,
    },
    /// An instruction that another function executes.
    OtherGemm {
        /// The instruction.
        instruction: String,
        /// The function.
        method: &'static str,
    },
    /// A copy that takes more than a source and a destination, and that another function executes.
    OtherCopy {
        /// The instruction.
        instruction: String,
        /// The function.
        method: &'static str,
    },
    /// Elements that follow each other in both tensors, and that no bulk copy moves.
    BulkRun {
        /// The number.
        elements: i64,
        /// Their bytes.
        bytes: i64,
    },
    /// A bulk copy from or to an address that is not known to be a multiple of 16 bytes.
    BulkStart {
        /// The tensor, printed.
        tensor: String,
        /// Of how many bytes it is known to be a multiple.
        align: u64,
    },
    /// A bulk copy from or to a tensor whose elements a swizzle exchanges.
    BulkSwizzle {
        /// The tensor, printed.
        tensor: String,
    },
    /// Elements of another type than the instruction takes.
    ElementType {
        /// The operand: `A`, `B`, `C`.
        operand: &'static str,
        /// The type of the elements.
        found: crate::ir::Scalar,
        /// The type that the instruction takes.
        expected: String,
    },
    /// Sums of one instruction that are not neighbours in registers.
    AccumulatorsApart {
        /// The layout of C, printed.
        layout: String,
    },
    /// A in another memory than the instruction reads it from.
    OperandMemory {
        /// The source of A.
        expected: &'static str,
    },
    /// Parts of threads that do not multiply.
    GemmShapes {
        /// The shape of C, printed.
        c: String,
        /// The shape of A, printed.
        a: String,
        /// The shape of B, printed.
        b: String,
    },
    /// A tile that tensor copies do not move.
    TmaTile {
        /// The reason.
        why: &'static str,
    },
    /// A tile whose layout is not that of a tensor copy.
    TmaLayout {
        /// The layout of the copy's tiles, printed.
        expected: String,
        /// The layout of the tile, printed.
        found: String,
    },
    /// A tile that threads do not share.
    AsyncTile {
        /// The reason.
        why: &'static str,
    },
    /// A tensor that the tensor memory accelerator does not take.
    TensorMap(Box<TensorMapError>),
    /// An operand that `wgmma` does not read.
    Descriptor(Box<DescriptorError>),
    /// A predicate of another shape than the copy.
    PredicateShape {
        /// The shape of the predicate, printed.
        shape: String,
        /// The shape of what is copied, printed.
        copy: String,
    },
    /// A predicate that has the shape neither of a copy nor of its vectors.
    PredicateVectors {
        /// The shape of the predicate, printed.
        shape: String,
        /// The shape of what is copied, printed.
        copy: String,
        /// The number of vectors that are copied.
        vectors: usize,
        /// The elements of each.
        elements: usize,
    },
    /// A predicate that differs inside of a vector.
    PredicateInVector {
        /// The number of the first such vector.
        vector: usize,
        /// The elements of each.
        elements: usize,
    },
    /// A predicate for an instruction that all threads of a warp execute together.
    NoPredicate {
        /// The instruction.
        instruction: String,
    },
    /// Zeros are asked for from an atom that is made without.
    NoZeroFill {
        /// The instruction.
        instruction: String,
    },
    /// Memories between which the instruction does not copy.
    CopySpaces {
        /// The instruction.
        instruction: String,
        /// The spaces between which it copies.
        takes: &'static str,
        /// The source and the destination, printed.
        found: String,
    },
    /// Parts of a source and a destination that are not as many copies.
    CopyCounts {
        /// Copies that the source is made up of.
        source: usize,
        /// Copies that the destination is made up of.
        destination: usize,
    },
    /// As many of something as there cannot be.
    Count {
        /// Of what.
        what: &'static str,
        /// The number.
        found: u32,
        /// The fewest.
        least: u32,
        /// The most.
        most: u32,
    },
    /// The layout of the threads does not say for each index of a thread where it stands.
    Threads {
        /// The layout, printed.
        threads: String,
        /// The stride of a leaf that overlaps another one, or that the ones below do not divide.
        stride: i64,
    },
    /// An extent of what is copied that is known only when the kernel runs.
    DynamicExtent {
        /// The extent, printed.
        extent: String,
        /// The shape, printed.
        shape: String,
    },
}

/// Checks that `found` is at least `least` and at most `most`.
pub(super) fn count_of(
    what: &'static str,
    found: u32,
    [least, most]: [u32; 2],
) -> Result<(), TensorErrorKind> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(TensorErrorKind::Count { what, found, least, most })
    }
}

impl From<LayoutError> for TensorErrorKind {
    fn from(error: LayoutError) -> Self {
        TensorErrorKind::Layout(error)
    }
}

impl fmt::Display for TensorErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TensorErrorKind::Layout(error) => error.fmt(f),
            TensorErrorKind::DeviceIndexOfRegisters => f.write_str(
                "registers have no addresses, so their index is a host number: use a host loop, or keep the tensor in shared memory",
            ),
            TensorErrorKind::NotASwizzle { inner } => write!(
                f,
                "memory is swizzled or plain, but the layout is composed with {inner}: apply it to the coordinates first"
            ),
            TensorErrorKind::AlignmentNotPowerOfTwo { bytes } => {
                write!(f, "an alignment is a power of two, and {bytes} is none")
            }
            TensorErrorKind::NoCommonShape { left, right } => write!(
                f,
                "the shapes {left} and {right} do not go together: modes are of the same form and extent, or one is 1 and is repeated (`reduce_keepdims` leaves a 1 for each leaf that it folds)"
            ),
            TensorErrorKind::AmbiguousBroadcast { shape, to, first, last } => write!(
                f,
                "the shape {shape} can be repeated to {to} in several ways: write `.reshape(shape!{first})` or `.reshape(shape!{last})`, or use `reduce_keepdims` where it comes from a reduction"
            ),
            TensorErrorKind::ReshapeSize { shape, len } => write!(
                f,
                "{len} elements do not have the shape {shape}: the size must stay the same"
            ),
            TensorErrorKind::NoSuchElement { index, len } => {
                write!(f, "there is no element {index}: the tensor has {len}")
            }
            TensorErrorKind::CopySizes { source, destination } => write!(
                f,
                "a tensor of shape {source} is not copied to one of shape {destination}: both must have the same number of elements"
            ),
            TensorErrorKind::RangeTooShort { needed, bytes } => write!(
                f,
                "the layout needs {needed} bytes, but the range has {bytes}: make it longer"
            ),
            TensorErrorKind::Recast { from, to, align } => write!(
                f,
                "elements of {from} bits are no elements of {to} bits here: the address is known to be a multiple of {align} bytes only; align the memory, or say what is known with `assume_aligned`"
            ),
            TensorErrorKind::Coverage { layout_tv, elements, reached, places, fault } => write!(
                f,
                "each element of the tile must be reached once, but the {places} places of {layout_tv} reach {reached} of its {elements} elements: {fault}"
            ),
            TensorErrorKind::SharedIndex { threads, mode, overlap } => write!(
                f,
                "mode {mode} of the threads {threads} gives an index to two of them: {overlap}"
            ),
            TensorErrorKind::Atoms { what, count, atom } => write!(
                f,
                "the tile has {count} {what}, which whole atoms of {atom} do not make up: {} are left",
                count % atom
            ),
            TensorErrorKind::AtomBits { instruction, bits, element } => write!(
                f,
                "{instruction} copies {bits} bits at a time, which elements of {element} bits do not make up"
            ),
            TensorErrorKind::RaggedTile { mode, extent, tile } => write!(
                f,
                "mode {mode} has the extent {extent}, which tiles of {tile} do not divide: {} are left, and beyond them is no memory",
                extent % tile
            ),
            TensorErrorKind::Vector { elements, bits, tensor, widest, name } => {
                write!(
                    f,
                    "vectors of {elements} elements, {bits} bits, are not vectors of {tensor}: {widest}"
                )?;
                match (widest.limit().mode().and_then(|path| path.indices().next()), name) {
                    (Some(mode), Some(name)) => write!(f, "; mode {mode} is {name}"),
                    _ => Ok(()),
                }
            }
            TensorErrorKind::NoOperation { instruction } => {
                write!(f, "kernels cannot have the instruction {instruction} yet")
            }
            TensorErrorKind::OtherGemm { instruction, method } => {
                write!(f, "{instruction} is executed by `{method}`")
            }
            TensorErrorKind::OtherCopy { instruction, method } => write!(
                f,
                "{instruction} takes more than a source and a destination, a barrier or the map of a tensor: `{method}` executes it"
            ),
            TensorErrorKind::BulkRun { elements, bytes } => write!(
                f,
                "{elements} elements follow each other in both tensors, {bytes} bytes: bulk copies move multiples of 16 bytes"
            ),
            TensorErrorKind::BulkStart { tensor, align } => write!(
                f,
                "a run of {tensor} is known to start at a multiple of {align} bytes: bulk copies start at multiples of 16"
            ),
            TensorErrorKind::BulkSwizzle { tensor } => write!(
                f,
                "bulk copies move bytes in their order, and a swizzle exchanges those of {tensor}: copy it by `TmaCopy`"
            ),
            TensorErrorKind::ElementType { operand, found, expected } => write!(
                f,
                "the elements of {operand} are {found}, but the instruction takes {expected}: convert them first"
            ),
            TensorErrorKind::AccumulatorsApart { layout } => write!(
                f,
                "the sums of one instruction are registers that follow each other, those of C with the layout {layout} do not: make them with `fragment_accumulators`"
            ),
            TensorErrorKind::OperandMemory { expected } => {
                write!(f, "the instruction reads A from {expected}")
            }
            TensorErrorKind::GemmShapes { c, a, b } => write!(
                f,
                "C of shape {c} is not the product of A of shape {a} and B of shape {b}: (V,M,N) is needed of (V,M,K) and (V,N,K)"
            ),
            TensorErrorKind::TmaLayout { expected, found } => write!(
                f,
                "no tensor copies move it: its layout is {found}, but the copy is of tiles {expected}; the tile of a copy of a part comes from the layout of the whole tile by `composition`"
            ),
            TensorErrorKind::TmaTile { why } => write!(f, "no tensor copies move it: {why}"),
            TensorErrorKind::AsyncTile { why } => {
                write!(f, "threads cannot copy it together: {why}")
            }
            TensorErrorKind::TensorMap(error) => error.fmt(f),
            TensorErrorKind::Descriptor(error) => error.fmt(f),
            TensorErrorKind::PredicateShape { shape, copy } => write!(
                f,
                "a predicate of shape {shape} does not say which elements of shape {copy} are copied: a predicate is a tensor of bools of the copy's shape"
            ),
            TensorErrorKind::PredicateVectors { shape, copy, vectors, elements } => write!(
                f,
                "a predicate of shape {shape} does not say which of the {vectors} vectors of {elements} elements of shape {copy} are copied: a predicate is a tensor of bools of the copy's shape, or has one for each vector, or one for each coordinate of the modes after the first"
            ),
            TensorErrorKind::PredicateInVector { vector, elements } => write!(
                f,
                "a vector of {elements} elements is copied as a whole, but inside of vector {vector} the predicate is not one value: compare the first element of each vector alone, `within` of the coordinates sliced at `((0, ..), .., ..)`, or copy single elements"
            ),
            TensorErrorKind::NoPredicate { instruction } => write!(
                f,
                "all threads of a warp execute {instruction} together, so none of them can leave it out: put `k.if_` with a condition that is the same in the warp around the copy"
            ),
            TensorErrorKind::NoZeroFill { instruction } => write!(
                f,
                "this atom executes {instruction} without zeros: make it with `zero_fill: true`, or leave the elements alone with `copy_if`"
            ),
            TensorErrorKind::CopySpaces { instruction, takes, found } => {
                write!(f, "{instruction} copies {takes}, not {found}")
            }
            TensorErrorKind::CopyCounts { source, destination } => write!(
                f,
                "the source is {source} copies of a thread, the destination {destination}: partition both by the same tiled copy"
            ),
            TensorErrorKind::Count { what, found, least, most } if least == most => {
                write!(f, "there are {found} {what} where {most} are needed")
            }
            TensorErrorKind::Count { what, found, least, most } => {
                write!(f, "there are {found} {what}: from {least} to {most} are possible")
            }
            TensorErrorKind::Threads { threads, stride } => write!(
                f,
                "the threads {threads} do not stand one after the other: the stride {stride} overlaps a smaller one or is no multiple of it"
            ),
            TensorErrorKind::DynamicExtent { extent, shape } => write!(
                f,
                "the extent {extent} of {shape} is known only when the kernel runs, and what is moved as a whole has a shape of numbers: take a tile, `local_tile`, or go through the coordinates in a loop of the device"
            ),
        }
    }
}

impl fmt::Display for TensorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TensorError { operation, operand, kind } = self;
        write!(f, "`{operation}` of {operand}: {kind}")
    }
}

impl std::error::Error for TensorError {}
