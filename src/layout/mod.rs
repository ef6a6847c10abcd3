//! Implements CuTe's layout algebra as a host library, for numbers and for symbols.
//!
//! It is exact where CuTe is right, and returns an error where CuTe is wrong.
//!
//! A **layout** is a function from coordinates to indices, written `shape : stride`. In
//! `(4,(2,8)):(2,(1,8))` the coordinate `(3,(1,5))` has the index `3*2 + 1*1 + 5*8`. A coordinate
//! may be less nested than the shape: the integer 7 in the mode `(2,8)` is `(1,3)`, because the
//! first entry runs fastest and the last entry takes the rest. So every layout is also a function
//! of one integer, and the operations below are statements about that function.
//!
//! ```
//! use tilewright::layout::{Env, Int, Layout, LayoutError, coord, layout, tiler};
//!
//! let a: Layout = layout!((4, (2, 8)):(2, (1, 8)));
//! assert_eq!(a.crd2idx((3, (1, 5)))?, 47);
//!
//! // Same function, fewer modes.
//! assert_eq!(layout!((2, (1, 6)):(1, (6, 2))).coalesce()?, layout!(12:1));
//! // Composition: R(i) == A(B(i)).
//! assert_eq!(layout!((6, 2):(8, 2)).composition(&layout!((4, 3):(3, 1)))?.to_string(), "((2,2),3):((24,2),8)");
//! // Complement: the indices that are not reached yet.
//! assert_eq!(layout!((2, 2):(1, 6)).complement(&24.into())?, layout!((3, 2):(2, 12)));
//! // Divide: a tile, and the layout of the tiles.
//! let tiled = a.zipped_divide(&tiler!(2, 4))?;
//! assert_eq!(tiled.to_string(), "((2,(2,2)),(2,4)):((2,(1,8)),(4,16))");
//! // Product: a block repeated.
//! assert_eq!(layout!((2, 2):(4, 1)).logical_product(&layout!(6:1))?.to_string(), "((2,2),(2,3)):((4,1),(2,8))");
//! // Inverse: L(R(i)) == i.
//! assert_eq!(layout!((4, 8):(8, 1)).right_inverse()?, layout!((8, 4):(4, 1)));
//! // Slice: fix some entries, keep the rest.
//! let (row, offset) = a.slice_and_offset(&coord!(3, _))?;
//! assert_eq!((row.to_string(), offset.to_string()), ("((2,8)):((1,8))".into(), "6".into()));
//!
//! // Extents and strides may be symbols with known divisors; nothing is lost.
//! let n = Int::symbol("n").divisible_by(16);
//! let d = Layout::compact((n, 64)).logical_divide(&tiler!(16, 16))?;
//! assert_eq!(d.to_string(), "((16,n/16),(16,4)):((1,16),(n,16*n))");
//! assert_eq!(d.eval(&Env::new().with("n", 32))?.to_string(), "((16,2),(16,4)):((1,16),(32,512))");
//!
//! // A result that is not a layout is an error with the mode and the values.
//! let error = layout!((4, 6, 8):(2, 3, 5)).composition(&layout!(6:3)).unwrap_err();
//! assert!(matches!(error, LayoutError::NotAdmissible { .. }));
//! # Ok::<(), LayoutError>(())
//! ```
//!
//! # Types
//!
//! | type | what it is | written |
//! |---|---|---|
//! | [`Int`] | a number, or an expression over symbols with divisor and bounds | `4`, `n/16`, `?{div=16}` |
//! | [`IntTuple`] | an integer or a tuple of such: shapes, orders, coordinates | `(4,(2,8))`, [`shape!`], [`tuple!`] |
//! | [`Coord`] | a coordinate in which `_` keeps a mode | `(1,_)`, [`coord!`] |
//! | [`ScaledBasis`] | a stride: an integer, or a scaled basis element of a coordinate space | `2@1@0` |
//! | [`Layout`] | shape and stride | `(4,8):(8,1)`, [`layout!`] |
//! | [`NamedLayout`] | a layout whose modes have names | `(4,8):(8,1) of (m,k)`, [`Layout::named`] |
//! | [`Tiler`] | an integer, a layout, `_` or a tuple of those, applied mode by mode | `(2,4:1,_)`, [`tiler!`] |
//! | [`Swizzle`] | an exclusive or of some bits of an index onto others | `S<3,4,3>` |
//! | [`ComposedLayout`] | a swizzle, layout or function after an offset after a layout | `S<3,4,3> o 0 o (8,64):(64,1)` |
//! | [`Ratio`] | an exact fraction | `3/4` |
//!
//! # Operations, by CuTe's names
//!
//! | CuTe | here | equation for the result `R` |
//! |---|---|---|
//! | `coalesce(L)` | [`Layout::coalesce`], [`coalesce_by`](Layout::coalesce_by) | `R(i) == L(i)`, depth at most 1 |
//! | `filter`, `filter_zeros` | [`Layout::filter`], [`filter_zeros`](Layout::filter_zeros) | the modes that reach new indices |
//! | `composition(A, B)` | [`Layout::composition`] | `R(i) == A⁺(B(i))` |
//! | `composition` of swizzled layouts | [`ComposedLayout::compose_composed`], [`Swizzle::compose_layout`], [`Layout::compose_swizzle`] | the same |
//! | `size<I,J>(L)`, `rank`, `depth`, `shape`, `stride`, `cosize`, `coshape` | [`Layout::mode`] and the question: `L.mode(&[i, j])?.size()` | of that mode |
//! | `complement(L, M)` | [`Layout::complement`] | `(filter(L), R)` is one-to-one, `R` increases |
//! | `right_inverse`, `left_inverse` | [`Layout::right_inverse`], [`left_inverse`](Layout::left_inverse) | `L(R(i)) == i`; `L(R(L(i))) == L(i)` |
//! | `nullspace(L)` | [`Layout::nullspace`] | `L(R(i)) == 0` |
//! | `logical_divide(L, T)` | [`Layout::logical_divide`], [`zipped`](Layout::zipped_divide), [`tiled`](Layout::tiled_divide), [`flat`](Layout::flat_divide) | `L o (T, complement(T, shape(L)))`, where the inner modes of `L` that the tile does not divide round up to whole tiles |
//! | `logical_product(B, T)` | [`Layout::logical_product`], `zipped`, `tiled`, `flat`, [`blocked`](Layout::blocked_product), [`raked`](Layout::raked_product) | `(B, complement(B, size(B) * cosize(T)) o T)` |
//! | `tile_to_shape` | [`Layout::tile_to_shape`] | `B` repeated to a shape |
//! | `local_tile`, `local_partition` | [`Layout::local_tile`], [`local_partition`](Layout::local_partition) | the part of a block, of a thread |
//! | `slice`, `dice`, `slice_and_offset` | [`Layout::slice`], [`dice`](Layout::dice), [`slice_and_offset`](Layout::slice_and_offset) | `L(c) == offset + R(rest of c)` |
//! | `upcast`, `downcast`, `recast_layout` | [`Layout::upcast`], [`downcast`](Layout::downcast), [`recast_layout`](Layout::recast_layout) | the same memory in other elements |
//! | `max_common_layout`, `_vector` | [`Layout::max_common_layout`], [`max_common_vector`](Layout::max_common_vector) | `a(R(i)) == i == b(R(i))`, `R(i)` in both domains |
//! | `mark_layout_dynamic`, `mark_compact_shape_dynamic` | [`Layout::mark_layout_dynamic`], [`mark_compact_shape_dynamic`](Layout::mark_compact_shape_dynamic) | symbols for numbers |
//! | `crd2idx`, `idx2crd`, `crd2crd` | [`crd2idx`](crd2idx()), [`idx2crd`], [`crd2crd`], [`Layout::crd2idx`] | mixed radix, first mode fastest |
//!
//! # How it reads the definitions
//!
//! * `A⁺` is `A` with its last mode unbounded, as CuTe reads it: a tile that does not divide the
//!   last extent rounds up. In a divide the other modes round up too, each to whole tiles.
//! * An operation satisfies its equation on its whole domain or returns a [`LayoutError`]. If
//!   CuTe's answer is right, ours prints the same.
//! * For symbols, evaluation commutes with the operation: `eval(op(L)) == op(eval(L))` as
//!   functions. If divisors and bounds leave a condition open, the result carries it, and an `eval`
//!   that violates it is [`LayoutError::ConditionViolated`]. A refusal names an assumption about
//!   one symbol that is enough, if there is one ([`LayoutError::assumption`]), and
//!   [`Layout::by_cases`] gives results by cases.
//! * Arithmetic is 64-bit and checked. Nothing wraps, nothing panics.
//! * No operation on static layouts of up to 8 leaves allocates.
//!
//! [`laws`] checks a result against the equation of its operation, whoever computed it.
//!
//! Sources: CuTe's `layout.hpp`, `stride.hpp`, `int_tuple.hpp`, `swizzle.hpp`,
//! `layout_composed.hpp`, by behaviour; "CuTe Layout Representation and Algebra" (arXiv
//! 2603.02298); "Categorical Foundations for CuTe Layouts" (arXiv 2601.05972).

// Analyses of layouts in memory, and layouts as bit matrices.
mod analysis;
mod linear;
pub use analysis::{
    Analysis, BankConflicts, BankPhase, DOMAIN_LIMIT, Image, Offsets, Overlap, Run, Sectors,
    VectorLimit, WarpSectors, WidestVector,
};
pub use linear::LinearLayout;

mod alignment;
mod arith;
mod assume;
mod assumption;
mod basis;
mod builder;
mod cases;
mod coalesce;
mod compact;
mod compare;
mod complement;
mod compose;
mod composed;
mod coord;
mod divide;
mod draft;
mod draw;
mod dynamic;
mod error;
mod int;
mod into_tuple;
mod inverse;
pub mod laws;
#[expect(clippy::module_inception, reason = "the type that gives the layer its name")]
mod layout;
mod layout_ref;
mod macros;
mod modes;
mod named;
mod names;
mod number;
mod partition;
mod product;
mod profile;
mod ratio;
mod recast;
#[cfg(feature = "serde")]
mod serde_text;
mod slice;
mod static_layout;
#[cfg(feature = "proptest")]
pub mod strategies;
mod swizzle;
mod text;
mod threads;
mod tiler;
mod transform;
mod tuple;
mod tuple_ops;
mod tuple_search;
mod walk;

pub use assumption::Assumption;
pub use basis::ScaledBasis;
pub use builder::{IntoLeaf, LayoutBuilder};
pub use cases::LayoutCases;
pub use compact::{compact_col_major, compact_row_major, domain_distribute};
pub(crate) use composed::bits_of;
pub use composed::{ComposedLayout, CoordFn, Part};
pub use coord::{Coord, CoordRef, Slot, Underscore, crd2crd, crd2idx, idx2crd, idx2crd_with};
pub(crate) use divide::Arrange;
pub use draw::{Drawing, Shading};
#[cfg(feature = "tune")]
pub(crate) use draw::{SANS, escaped};
pub use error::{LayoutError, ModePath, NameError};
pub use int::{Call, Env, Factor, Fun, Int, Symbol, Term, Width};
pub use into_tuple::{Builder, IntoTuple};
pub use layout::{Layout, StrideRef, StrideTuple};
pub use layout_ref::{LayoutRef, Modes};
#[doc(inline)]
pub use macros::{coord, layout, shape, tiler, tuple};
pub use named::NamedLayout;
pub(crate) use names::Names;
pub use ratio::Ratio;
pub use static_layout::StaticLayout;
pub use swizzle::Swizzle;
pub use threads::{FastDivmod, make_layout_image_mask, make_layout_tv};
pub use tiler::{Tiler, TilerLeaf, TilerRef};
pub use tuple::{Children, IntTuple, IntTupleRef, Tuple, TupleRef};
pub use walk::Indices;
