//! Describes formats of the hardware: shared-memory swizzles, `wgmma` matrix descriptors and TMA
//! tensor maps.
//!
//! All of them are plain data computed from layouts. The code generator writes this data, the
//! simulator reads it, and a launch encodes it.

mod matrix_descriptor;
mod sparse;
mod swizzle_mode;
mod tensor_map;

pub use matrix_descriptor::{DescriptorError, Major, MatrixDescriptor};
pub use sparse::sparse_metadata_at;
pub use swizzle_mode::SwizzleMode;
pub use tensor_map::{
    BoxElement, DimMode, Fill, L2Promotion, PixelBox, TensorMapDesc, TensorMapError,
};
