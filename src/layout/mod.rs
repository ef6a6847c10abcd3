//! CuTe's layout algebra as a host library: integers, tuples, layouts and their operations.
//!
//! A layout `(4,(2,8)):(2,(1,8))` maps a coordinate, such as `(3,(1,5))` or the integer 47, to an
//! index: the sum of the entries times their strides.
//!
//! ```
//! use tilewright::layout::{Layout, layout, tiler};
//! let a: Layout = layout!((4, (2, 8)):(2, (1, 8)));
//! let tiled = a.logical_divide(&tiler!(2, 4))?;
//! assert_eq!(tiled.to_string().parse::<Layout>()?, tiled);
//! # Ok::<(), tilewright::layout::LayoutError>(())
//! ```

// What layouts mean for memory, and layouts as bit matrices.
mod analysis;
mod linear;
pub use analysis::{
    Analysis, BankConflicts, BankPhase, DOMAIN_LIMIT, Image, Offsets, Overlap, Run, Sectors,
    VectorLimit, WarpSectors, WidestVector,
};
pub use linear::LinearLayout;

mod arith;
mod basis;
mod coalesce;
mod common;
mod complement;
mod compose;
mod composed;
mod composed_ops;
mod coord;
mod divide;
mod draw;
mod error;
mod int;
mod inverse;
#[expect(clippy::module_inception, reason = "the type that gives the storey its name")]
mod layout;
mod macros;
mod modes;
mod partition;
mod product;
mod ratio;
mod recast;
#[cfg(feature = "serde")]
mod serde_text;
mod slice;
#[cfg(feature = "proptest")]
pub mod strategies;
mod swizzle;
mod text;
mod threads;
mod tiler;
mod tuple;
mod tuple_ops;
mod walk;

pub use basis::ScaledBasis;
pub use common::{compact_col_major, compact_row_major, domain_distribute};
pub use composed::{ComposedLayout, CoordFn, Part};
pub use coord::{Coord, CoordRef, Slot, Underscore, crd2crd, crd2idx, idx2crd, idx2crd_with};
pub use draw::{Drawing, Shading};
pub use error::{LayoutError, ModePath};
pub use int::{Atom, Call, Env, Fun, Int, Symbol, Term, Width};
pub use layout::{Layout, LayoutBuilder, LayoutRef, Modes, StrideRef, StrideTuple};
pub use macros::{coord, layout, shape, tiler, tuple};
pub use ratio::Ratio;
pub use swizzle::Swizzle;
pub use threads::{FastDivmod, make_layout_image_mask, make_layout_tv};
pub use tiler::{Tiler, TilerLeaf, TilerRef};
pub use tuple::{Builder, Children, IntTuple, IntTupleRef, IntoTuple, Tuple, TupleRef};
pub use walk::Indices;
