//! CuTe's layout algebra on the host, for integers and for symbolic extents and strides.
//!
//! Come here to describe how a tensor lies in memory, to split it among thread blocks and threads,
//! and to prove what such a split does. Where CuTe's answer is right, this module prints the same
//! one. Where CuTe's answer is wrong, it returns an error.
//!
//! A **layout** maps coordinates to indices and is written `shape : stride`. For example, in
//! `(4,(2,8)):(2,(1,8))` the coordinate `(3,(1,5))` has the index `3*2 + 1*1 + 5*8`. You can also
//! pass one integer for a nested mode: the 7 in the mode `(2,8)` means `(1,3)`, because the first
//! entry runs fastest and the last entry takes what is left. So you can call every layout with a
//! single integer `i`, and the equations below are written that way.
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
//! | [`Int`] | an integer, or an expression over symbols with known divisors and bounds | `4`, `n/16`, `?{div=16}` |
//! | [`IntTuple`] | an integer or a nested tuple of integers: shapes, orders, coordinates | `(4,(2,8))`, [`shape!`], [`tuple!`] |
//! | [`Coord`] | a coordinate for slicing, in which `_` keeps a mode | `(1,_)`, [`coord!`] |
//! | [`ScaledBasis`] | one stride: an integer, or a scaled basis element if the layout maps to coordinates | `2@1@0` |
//! | [`Layout`] | shape and stride | `(4,8):(8,1)`, [`layout!`] |
//! | [`NamedLayout`] | a layout whose modes have names | `(4,8):(8,1) of (m,k)`, [`Layout::named`] |
//! | [`Tiler`] | an integer, a layout, `_` or a tuple of these; a tuple is applied mode by mode | `(2,4:1,_)`, [`tiler!`] |
//! | [`Swizzle`] | XORs some bits of an index into others, to avoid bank conflicts | `S<3,4,3>` |
//! | [`ComposedLayout`] | a layout, then an offset, then a swizzle, a layout or a function | `S<3,4,3> o 0 o (8,64):(64,1)` |
//! | [`Ratio`] | an exact fraction | `3/4` |
//!
//! # Operations, by their CuTe names
//!
//! | CuTe | here | equation for the result `R` |
//! |---|---|---|
//! | `coalesce(L)` | [`Layout::coalesce`], [`coalesce_by`](Layout::coalesce_by) | `R(i) == L(i)`, depth at most 1 |
//! | `filter`, `filter_zeros` | [`Layout::filter`], [`filter_zeros`](Layout::filter_zeros) | sets the extent of stride-0 modes to 1, because they reach no new index; `filter` also coalesces |
//! | `composition(A, B)` | [`Layout::composition`] | `R(i) == A⁺(B(i))` |
//! | `composition` of swizzled layouts | [`ComposedLayout::compose_composed`], [`Swizzle::compose_layout`], [`Layout::compose_swizzle`] | the same |
//! | `size<I,J>(L)`, `rank`, `depth`, `shape`, `stride`, `cosize`, `coshape` | [`Layout::mode`], then the query: `L.mode(&[i, j])?.size()` | of that mode |
//! | `complement(L, M)` | [`Layout::complement`] | `(filter(L), R)` is one-to-one, and `R` increases |
//! | `right_inverse`, `left_inverse` | [`Layout::right_inverse`], [`left_inverse`](Layout::left_inverse) | `L(R(i)) == i`; `L(R(L(i))) == L(i)` |
//! | `nullspace(L)` | [`Layout::nullspace`] | `L(R(i)) == 0` |
//! | `logical_divide(L, T)` | [`Layout::logical_divide`], [`zipped`](Layout::zipped_divide), [`tiled`](Layout::tiled_divide), [`flat`](Layout::flat_divide) | `L o (T, complement(T, shape(L)))`; inner modes of `L` that the tile does not divide round up to whole tiles |
//! | `logical_product(B, T)` | [`Layout::logical_product`], `zipped`, `tiled`, `flat`, [`blocked`](Layout::blocked_product), [`raked`](Layout::raked_product) | `(B, complement(B, size(B) * cosize(T)) o T)` |
//! | `tile_to_shape` | [`Layout::tile_to_shape`] | repeats `B` until it has the shape |
//! | `local_tile`, `local_partition` | [`Layout::local_tile`], [`local_partition`](Layout::local_partition) | the tile of a thread block, the elements of a thread |
//! | `slice`, `dice`, `slice_and_offset` | [`Layout::slice`], [`dice`](Layout::dice), [`slice_and_offset`](Layout::slice_and_offset) | `L(c) == offset + R(rest of c)` |
//! | `upcast`, `downcast`, `recast_layout` | [`Layout::upcast`], [`downcast`](Layout::downcast), [`recast_layout`](Layout::recast_layout) | views the same memory as wider or narrower elements |
//! | `max_common_layout`, `_vector` | [`Layout::max_common_layout`], [`max_common_vector`](Layout::max_common_vector) | `a(R(i)) == i == b(R(i))`, `R(i)` in both domains |
//! | `mark_layout_dynamic`, `mark_compact_shape_dynamic` | [`Layout::mark_layout_dynamic`], [`mark_compact_shape_dynamic`](Layout::mark_compact_shape_dynamic) | replaces integers by symbols |
//! | `crd2idx`, `idx2crd`, `crd2crd` | [`crd2idx`](crd2idx()), [`idx2crd`], [`crd2crd`], [`Layout::crd2idx`] | mixed radix, first mode fastest |
//!
//! # What you can rely on
//!
//! * An operation satisfies its equation on its whole domain, or it returns a [`LayoutError`]. It
//!   never panics. Arithmetic is 64-bit and checked, so it never wraps.
//! * `A⁺` is `A` with its last mode unbounded, as in CuTe: a tile that does not divide the last
//!   extent rounds up. In a divide the other modes round up too, each to whole tiles.
//! * With symbols, you can run the operation first and evaluate later: `eval(op(L)) == op(eval(L))`
//!   as functions. If an operation is correct only for some values of the symbols, its result
//!   carries that condition, and [`Layout::eval`] returns [`LayoutError::ConditionViolated`] for
//!   the other values. If an operation refuses a symbol, [`LayoutError::assumption`] names an
//!   assumption that would be enough (if there is one), and [`Layout::by_cases`] computes one
//!   result per case.
//! * Operations on static layouts of up to 8 leaves do not allocate.
//!
//! To check a result against its equation, whoever computed it, use [`laws`].
//!
//! Sources: the behaviour of CuTe's `layout.hpp`, `stride.hpp`, `int_tuple.hpp`, `swizzle.hpp` and
//! `layout_composed.hpp`; "CuTe Layout Representation and Algebra" (arXiv 2603.02298); "Categorical
//! Foundations for CuTe Layouts" (arXiv 2601.05972).

// Analyses of layouts in memory, and layouts as bit matrices.
mod analysis;
mod linear;
pub use analysis::{
    Analysis, BankConflicts, BankPhase, DOMAIN_LIMIT, Image, Offsets, Overlap, Run, Sectors,
    VectorLimit, WarpSectors, WidestVector,
};
pub use draft::GENERAL;
pub use linear::LinearLayout;

// rustdoc lists the methods of `Layout` in the order of these modules.

// How layouts are made, their coordinates and their modes.
#[expect(clippy::module_inception, reason = "the type that gives the layer its name")]
mod layout;

mod compact;
mod coord;
mod modes;
mod walk;

// The algebra.
mod coalesce;
mod complement;
mod compose;
mod composed;
mod inverse;

mod divide;
mod partition;
mod product;
mod slice;
mod transform;

// Elements in memory.
mod alignment;
mod recast;
mod threads;

// Symbols.
mod assume;
mod cases;
mod dynamic;
mod static_layout;

// Names and drawings.
mod draw;
mod named;

// Without methods of `Layout`.
mod arith;
mod assumption;
mod basis;
mod builder;
mod compare;
mod draft;
mod error;
mod int;
mod into_tuple;
pub mod laws;
mod layout_ref;
mod macros;
mod names;
mod number;
mod profile;
mod ratio;
#[cfg(feature = "serde")]
mod serde_text;
#[cfg(feature = "proptest")]
pub mod strategies;
mod swizzle;
mod text;
mod tiler;
mod tuple;
mod tuple_ops;
mod tuple_search;

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
