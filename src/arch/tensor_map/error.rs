//! Why there is no tensor map of this kind.

use std::fmt;

use super::SwizzleMode;
use crate::ir::Scalar;
use crate::layout::LayoutError;

/// Why a tensor and a box cannot be described to the tensor memory accelerator (CUDA driver API,
/// `cuTensorMapEncodeTiled`). A dimension is counted in the order of the map, fastest first; a mode in the
/// order of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorMapError {
    /// A computation with the layouts failed, or one of them has symbols.
    Layout(LayoutError),
    /// The layouts have different numbers of modes.
    Modes {
        /// The modes of the tensor.
        global: usize,
        /// The modes of the box.
        shared: usize,
    },
    /// A mode of the tensor is not one extent with one stride.
    NestedMode {
        /// The mode.
        mode: usize,
        /// Its layout.
        layout: String,
    },
    /// The map has no dimension, or more than 5.
    Rank {
        /// The dimensions.
        rank: usize,
    },
    /// The lists of extents, strides and box do not belong together.
    Lengths {
        /// The dimensions of the tensor.
        dims: usize,
        /// The strides, one less than dimensions.
        strides: usize,
        /// The extents of the box.
        extents: usize,
    },
    /// An extent of the tensor is below 1 or above 2^32.
    Extent {
        /// The dimension.
        dim: usize,
        /// The extent.
        extent: i128,
    },
    /// The fastest dimension of the box does not have stride 1 in the tensor.
    NotContiguous {
        /// The mode that is fastest in shared memory.
        mode: usize,
        /// Its stride in the tensor, in elements.
        stride: i128,
        /// The mode that has stride 1 in the tensor, if one has.
        contiguous: Option<usize>,
    },
    /// A stride is negative, not a multiple of 16 bytes, or 2^40 bytes or more.
    Stride {
        /// The dimension.
        dim: usize,
        /// The stride in bytes.
        stride_bytes: i128,
    },
    /// The layout of the box leaves places out, or has several elements in one.
    SharedNotDense {
        /// The layout.
        layout: String,
    },
    /// The layout of the box does not start at 0.
    SharedOffset {
        /// The offset in elements.
        offset: String,
    },
    /// The swizzle of the box is none that hardware has for elements of this size.
    UnknownSwizzle {
        /// The swizzle, in elements.
        swizzle: String,
        /// The elements.
        elem: Scalar,
    },
    /// The box takes a mode of the tensor apart, and the part does not divide the extent.
    SplitMode {
        /// The mode.
        mode: usize,
        /// Its extent in the tensor.
        extent: i64,
        /// The part that the box has in one piece.
        part: i64,
    },
    /// An extent of the box is 0 or above 256.
    BoxExtent {
        /// The dimension.
        dim: usize,
        /// The extent.
        extent: i128,
    },
    /// The box is more than the shared memory of a block.
    BoxBytes {
        /// Its bytes.
        bytes: u64,
        /// The bytes of shared memory that a block can have.
        limit: u64,
    },
    /// The fastest dimension of the box is not a multiple of 16 bytes.
    InnerBytes {
        /// Its bytes.
        bytes: u64,
    },
    /// The fastest dimension of the box is longer than the rows of the swizzle.
    SwizzleWidth {
        /// Its bytes.
        bytes: u64,
        /// The swizzle.
        swizzle: SwizzleMode,
    },
    /// The layout of the box has rows that are closer than hardware puts them: with a swizzle, rows are as far apart
    /// as those of the swizzle.
    SwizzleRows {
        /// The bytes of a row of the box.
        bytes: u64,
        /// The swizzle.
        swizzle: SwizzleMode,
    },
    /// A step between elements is 0 or above 8, that of the fastest dimension is not 1, or there are more or fewer
    /// steps than dimensions.
    ElementStrides {
        /// The steps.
        strides: Vec<u32>,
    },
    /// Places outside of the tensor cannot be NaN where the elements are integers.
    FillNotFloat {
        /// The elements.
        elem: Scalar,
    },
    /// The buffer has elements of another type than the map.
    Element {
        /// The elements of the map.
        map: Scalar,
        /// The elements of the buffer.
        buffer: Scalar,
    },
    /// The tensor does not fit into the buffer.
    BufferTooSmall {
        /// The bytes of the tensor, from its first element to the end of its last one.
        tensor_bytes: u64,
        /// The bytes of the buffer.
        buffer_bytes: u64,
    },
    /// The tensor does not start at a multiple of 16 bytes.
    Address {
        /// The address.
        address: u64,
    },
}

impl From<LayoutError> for TensorMapError {
    fn from(error: LayoutError) -> TensorMapError {
        TensorMapError::Layout(error)
    }
}

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TensorMapError as E;
        f.write_str("there is no such tensor map: ")?;
        match self {
            E::Layout(error) => error.fmt(f),
            E::Modes { global, shared } => write!(
                f,
                "the tensor has {global} modes and the box {shared}: give the box one mode for each, of extent 1 where it is one element"
            ),
            E::NestedMode { mode, layout } => write!(
                f,
                "mode {mode} of the tensor, `{layout}`, is not one extent with one stride: make each of its parts a mode"
            ),
            E::Rank { rank } => write!(f, "it has {rank} dimensions, but must have 1 to 5"),
            E::Lengths { dims, strides, extents } => write!(
                f,
                "there are {dims} extents of the tensor, {strides} strides and {extents} extents of the box: the first dimension has no stride, and each has an extent of the box"
            ),
            E::Extent { dim, extent } => write!(
                f,
                "dimension {dim} of the tensor has extent {extent}, but must have 1 to 2^32"
            ),
            E::NotContiguous { mode, stride, contiguous: Some(contiguous) } => write!(
                f,
                "mode {mode} is the fastest of the box and has stride {stride} in the tensor, where mode {contiguous} has stride 1: a copy does not transpose, so let mode {contiguous} be the fastest of the box"
            ),
            E::NotContiguous { mode, stride, contiguous: None } => write!(
                f,
                "mode {mode}, the fastest of the box, has stride {stride} in the tensor, where no mode has stride 1: one must"
            ),
            E::Stride { dim, stride_bytes } => write!(
                f,
                "dimension {dim} of the tensor has a stride of {stride_bytes} bytes, but must have a multiple of 16 from 16 to below 2^40: pad its rows"
            ),
            E::SharedNotDense { layout } => write!(
                f,
                "the layout of the box, `{layout}`, is not one-to-one onto the places from 0: a copy fills them without gaps, so leave out paddings and broadcasts"
            ),
            E::SharedOffset { offset } => write!(
                f,
                "the layout of the box starts at {offset} and not at 0: add the offset to the address of the copy"
            ),
            E::UnknownSwizzle { swizzle, elem } => write!(
                f,
                "the box has the swizzle `{swizzle}` of elements of type {elem}, and hardware has `Swizzle<B,4,3>` of bytes, B from 0 to 3"
            ),
            E::SplitMode { mode, extent, part } => write!(
                f,
                "the box takes mode {mode} apart into pieces of {part}, which do not divide its extent {extent}: copy a box of one piece several times, or pad the tensor"
            ),
            E::BoxExtent { dim, extent } => write!(
                f,
                "dimension {dim} of the box has extent {extent}, but must have 1 to 256: copy several boxes"
            ),
            E::BoxBytes { bytes, limit } => write!(
                f,
                "the box has {bytes} bytes and a block at most {limit} of shared memory: copy several smaller boxes"
            ),
            E::InnerBytes { bytes } => write!(
                f,
                "the fastest dimension of the box has {bytes} bytes, but must have a multiple of 16"
            ),
            E::SwizzleWidth { bytes, swizzle } => write!(
                f,
                "the fastest dimension of the box has {bytes} bytes, which is more than a row of the swizzle {swizzle}: copy several boxes"
            ),
            E::SwizzleRows { bytes, swizzle } => write!(
                f,
                "the rows of the box have {bytes} bytes, and with swizzle {swizzle} hardware puts each of them into a row of the swizzle: make them as long as that, or choose a narrower swizzle"
            ),
            E::ElementStrides { strides } => write!(
                f,
                "the steps {strides:?} between elements are not one for each dimension, 1 for the fastest one and 1 to 8 for the others"
            ),
            E::FillNotFloat { elem } => {
                write!(f, "places outside of the tensor cannot be NaN in elements of type {elem}")
            }
            E::Element { map, buffer } => {
                write!(f, "it is of elements of type {map} and the buffer has {buffer}")
            }
            E::BufferTooSmall { tensor_bytes, buffer_bytes } => {
                write!(f, "the tensor takes {tensor_bytes} bytes and the buffer has {buffer_bytes}")
            }
            E::Address { address } => write!(
                f,
                "the tensor starts at address {address:#x}, which is not a multiple of 16"
            ),
        }
    }
}

impl std::error::Error for TensorMapError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The sentence of a layout error is part of this one's.
        None
    }
}
