//! The hardware's data formats: shared-memory swizzles, `wgmma` matrix descriptors, TMA tensor maps
//! and sparse metadata.
//!
//! [`tensor`](crate::tensor) describes tiles to TMA and to the tensor cores with them; you can do
//! it by hand. All formats are plain data that is computed from layouts. The code generator writes
//! this data, the simulator reads it, and a launch encodes it.
//!
//! ```
//! use tilewright::arch::{SwizzleMode, TensorMapDesc};
//! use tilewright::ir::types::Scalar;
//! use tilewright::layout::{ComposedLayout, Layout};
//!
//! // A tensor map for boxes of 64 rows of 128 bytes of a row-major matrix, and the swizzle of their tile.
//! let tile: ComposedLayout = "S<3,3,3> o 0 o (64,64):(64,1)".parse()?;
//! let map = TensorMapDesc::from_layouts(Scalar::Bf16, &Layout::row_major((1000, 512)), &tile)?;
//! assert_eq!((map.box_dims(), map.swizzle()), (&[64, 64][..], SwizzleMode::B128));
//! // The swizzle moves the 16-byte chunk 3 of row 5 to chunk 3 ^ 5.
//! assert_eq!(SwizzleMode::B128.apply(128 * 5 + 16 * 3), 128 * 5 + 16 * (3 ^ 5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
