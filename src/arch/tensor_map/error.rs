//! [`TensorMapError`]: why TMA cannot copy a tensor with a given box, for example because a stride
//! is not a multiple of 16 bytes.

use crate::errors::errors;

use super::SwizzleMode;
use crate::ir::types::Scalar;
use crate::layout::LayoutError;

errors! {
    prefix "invalid tensor map: ";
    /// Why no tensor map describes a tensor and a box (CUDA driver API, `cuTensorMapEncodeTiled`,
    /// `cuTensorMapEncodeIm2col`). The constructors of [`TensorMapDesc`](super::TensorMapDesc)
    /// return it. Dimensions are counted as in the map, fastest first; modes are counted as in the
    /// layout.
    #[derive(Clone, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum TensorMapError {
        /// {error}
        Layout(error: LayoutError),
        /// the tensor has {global} modes, but the box has {shared}: give the box one mode for each,
        /// with extent 1 if it covers one element
        Modes { global: usize, shared: usize },
        /// tensor mode {mode}, `{layout}`, must have one extent and one stride: make each of its
        /// parts a mode of its own
        NestedMode { mode: usize, layout: String },
        /// it has {rank} dimensions, but must have 1 to 5
        Rank { rank: usize },
        /// got {dims} tensor extents, {strides} strides and {extents} box extents: pass one tensor
        /// extent and one box extent per dimension, and a stride for each dimension but the first
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
                "mode {mode} is the fastest of the box, but has stride {stride} in the tensor: TMA does not transpose, so make mode {contiguous}, which has stride 1, the fastest of the box"
            ),
            None => write!(
                f,
                "mode {mode} is the fastest of the box, but has stride {stride} in the tensor: it must have stride 1"
            ),
        },
        /// dimension {dim} of the tensor has a stride of {stride_bytes} bytes, but the stride must
        /// be a multiple of 16, at least 16 and below 2^40: pad its rows
        Stride { dim: usize, stride_bytes: i128 },
        /// the box layout `{layout}` skips or repeats offsets, but TMA fills all offsets from 0
        /// without gaps: remove padding and broadcast modes
        SharedNotDense { layout: String },
        /// the box layout starts at {offset}, but must start at 0: add the offset to the copy's
        /// address
        SharedOffset { offset: String },
        /// the box has the swizzle `{swizzle}` on {elem} elements, but TMA only supports
        /// `Swizzle<B,4,3>` on bytes, with B from 0 to 3
        UnknownSwizzle { swizzle: String, elem: Scalar },
        /// the box splits mode {mode} into pieces of {part}, which does not divide its extent
        /// {extent}: copy one piece per box, or pad the tensor
        SplitMode { mode: usize, extent: i64, part: i64 },
        /// dimension {dim} of the box has extent {extent}, but must have 1 to 256: copy several
        /// boxes
        BoxExtent { dim: usize, extent: i128 },
        /// the box has {bytes} bytes, but a block has at most {limit} bytes of shared memory: copy
        /// several smaller boxes
        BoxBytes { bytes: u64, limit: u64 },
        /// the fastest dimension of the box has {bytes} bytes, but must have a multiple of 16
        InnerBytes { bytes: u64 },
        /// the fastest dimension of the box has {bytes} bytes, which is more than a row of the
        /// swizzle {swizzle}: copy several boxes
        SwizzleWidth { bytes: u64, swizzle: SwizzleMode },
        /// the rows of the box have {bytes} bytes, but TMA puts each into a full row of swizzle
        /// {swizzle}: make the rows that long, or choose a narrower swizzle
        SwizzleRows { bytes: u64, swizzle: SwizzleMode },
        /// the element strides {strides:?} are invalid: pass one per dimension, 1 for the fastest
        /// one and, in im2col mode, for the images, and 1 to 8 for the others
        ElementStrides { strides: Vec<u32> },
        /// it has {rank} dimensions, but an im2col map must have 3 to 5: channels, 1 to 3 of
        /// pixels, and images
        PixelRank { rank: usize },
        /// The corners do not have one number for each spatial dimension.
        PixelCorners { rank: usize, corners: [usize; 2] } = |f| write!(
            f,
            "the corners of the pixel box have {} and {} coordinates, but each must have {} for {rank} dimensions",
            corners[0], corners[1], rank - 2
        ),
        /// a corner of the pixel box is at {corner}, but with {rank} dimensions must be from
        /// -{limit} to below {limit}
        PixelCorner { rank: usize, corner: i32, limit: i32 },
        /// the pixel box is empty along dimension {dim}: its upper corner is before its lower
        /// one
        PixelBoxEmpty { dim: usize },
        /// a copy moves {pixels} pixels, but must move 1 to 1024
        PixelCount { pixels: u32 },
        /// elements outside the tensor cannot be filled with NaN if they are {elem}: fill with
        /// zeros
        FillNotFloat { elem: Scalar },
        /// its elements are {map}, but those of the buffer are {buffer}
        Element { map: Scalar, buffer: Scalar },
        /// the tensor needs {tensor_bytes} bytes, but the buffer has {buffer_bytes}
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
