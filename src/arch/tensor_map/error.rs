//! [`TensorMapError`]: why TMA cannot copy a tensor with a given box, for example because a stride
//! is not a multiple of 16 bytes.

use crate::errors::errors;

use super::SwizzleMode;
use crate::ir::types::Scalar;
use crate::layout::LayoutError;

errors! {
    prefix "there is no such tensor map: ";
    /// Why no tensor map describes a tensor and a box (CUDA driver API, `cuTensorMapEncodeTiled`,
    /// `cuTensorMapEncodeIm2col`). The constructors of [`TensorMapDesc`](super::TensorMapDesc)
    /// return it. Dimensions are counted as in the map, fastest first; modes are counted as in the
    /// layout.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TensorMapError {
        /// {error}
        Layout(error: LayoutError),
        /// the tensor has {global} modes and the box {shared}: give the box one mode for each, of
        /// extent 1 where it is one element
        Modes { global: usize, shared: usize },
        /// mode {mode} of the tensor, `{layout}`, is not one extent with one stride: make each of
        /// its parts a mode
        NestedMode { mode: usize, layout: String },
        /// it has {rank} dimensions, but must have 1 to 5
        Rank { rank: usize },
        /// there are {dims} extents of the tensor, {strides} strides and {extents} extents of the
        /// box: the first dimension has no stride, and each has an extent of the box
        Lengths { dims: usize, strides: usize, extents: usize },
        /// dimension {dim} of the tensor has extent {extent}, but must have 1 to 2^32
        Extent { dim: usize, extent: i128 },
        /// The fastest dimension of the box does not have stride 1 in the tensor.
        NotContiguous {
            /// The mode that is fastest in shared memory.
            mode: usize,
            /// Its stride in the tensor, in elements.
            stride: i128,
            /// The mode that has stride 1 in the tensor, if one has.
            contiguous: Option<usize>,
        } = |f| match contiguous {
            Some(contiguous) => write!(
                f,
                "mode {mode} is the fastest of the box and has stride {stride} in the tensor, where mode {contiguous} has stride 1: a copy does not transpose, so let mode {contiguous} be the fastest of the box"
            ),
            None => write!(
                f,
                "mode {mode}, the fastest of the box, has stride {stride} in the tensor, where no mode has stride 1: one must"
            ),
        },
        /// dimension {dim} of the tensor has a stride of {stride_bytes} bytes, but must have a
        /// multiple of 16 from 16 to below 2^40: pad its rows
        Stride { dim: usize, stride_bytes: i128 },
        /// the layout of the box, `{layout}`, is not one-to-one onto the offsets from 0: a copy
        /// fills them without gaps, so leave out paddings and broadcasts
        SharedNotDense { layout: String },
        /// the layout of the box starts at {offset} and not at 0: add the offset to the address of
        /// the copy
        SharedOffset { offset: String },
        /// the box has the swizzle `{swizzle}` of elements of type {elem}, and hardware has
        /// `Swizzle<B,4,3>` of bytes, B from 0 to 3
        UnknownSwizzle { swizzle: String, elem: Scalar },
        /// the box takes mode {mode} apart into pieces of {part}, which do not divide its extent
        /// {extent}: copy a box of one piece several times, or pad the tensor
        SplitMode { mode: usize, extent: i64, part: i64 },
        /// dimension {dim} of the box has extent {extent}, but must have 1 to 256: copy several
        /// boxes
        BoxExtent { dim: usize, extent: i128 },
        /// the box has {bytes} bytes and a block at most {limit} of shared memory: copy several
        /// smaller boxes
        BoxBytes { bytes: u64, limit: u64 },
        /// the fastest dimension of the box has {bytes} bytes, but must have a multiple of 16
        InnerBytes { bytes: u64 },
        /// the fastest dimension of the box has {bytes} bytes, which is more than a row of the
        /// swizzle {swizzle}: copy several boxes
        SwizzleWidth { bytes: u64, swizzle: SwizzleMode },
        /// the rows of the box have {bytes} bytes, and with swizzle {swizzle} hardware puts each of
        /// them into a row of the swizzle: make them as long as that, or choose a narrower swizzle
        SwizzleRows { bytes: u64, swizzle: SwizzleMode },
        /// the steps {strides:?} between elements are not one for each dimension, 1 for the fastest
        /// one and, in im2col mode, for the images, and 1 to 8 for the others
        ElementStrides { strides: Vec<u32> },
        /// it has {rank} dimensions, but those of a map of im2col mode are 3 to 5: channels, 1 to 3
        /// of pixels, and images
        PixelRank { rank: usize },
        /// The corners do not have one number for each spatial dimension.
        PixelCorners { rank: usize, corners: [usize; 2] } = |f| write!(
            f,
            "the corners of the box of pixels have {} and {} numbers, but each must have {} for {rank} dimensions",
            corners[0], corners[1], rank - 2
        ),
        /// a corner of the box of pixels has {corner}, but of {rank} dimensions must have -{limit}
        /// to below {limit}
        PixelCorner { rank: usize, corner: i32, limit: i32 },
        /// the box of pixels is empty along dimension {dim}: its upper corner is before its lower
        /// one
        PixelBoxEmpty { dim: usize },
        /// a copy moves {pixels} pixels, but must move 1 to 1024
        PixelCount { pixels: u32 },
        /// elements outside of the tensor cannot be NaN in elements of type {elem}
        FillNotFloat { elem: Scalar },
        /// it is of elements of type {map} and the buffer has {buffer}
        Element { map: Scalar, buffer: Scalar },
        /// the tensor takes {tensor_bytes} bytes and the buffer has {buffer_bytes}
        BufferTooSmall { tensor_bytes: u64, buffer_bytes: u64 },
        /// the tensor starts at address {address:#x}, which is not a multiple of 16
        Address { address: u64 },
    }
}
crate::errors::message_as_debug!(TensorMapError);

impl From<LayoutError> for TensorMapError {
    fn from(error: LayoutError) -> TensorMapError {
        TensorMapError::Layout(error)
    }
}
