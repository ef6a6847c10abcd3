//! Operations on the domain of a [`ComposedLayout`]: they are those of its outer layout.

use super::ComposedLayout;
use crate::layout::coord::Coord;
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::Layout;
use crate::layout::partition;
use crate::layout::tiler::TilerRef;
use crate::layout::tuple::IntTuple;

type Result<T> = std::result::Result<T, LayoutError>;

macro_rules! on_outer {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $t:ty),*);)*) => {
        /// Operations on the domain: each is the operation of the same name of [`Layout`] on the
        /// outer layout, with the same equation and errors, besides
        /// [`LayoutError::Unsupported`] where the outer part is a swizzle.
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of [`Layout`]'s operation; [`LayoutError::Unsupported`].
            pub fn $name(&self $(, $arg: $t)*) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name($($arg),*)?))
            }
        )*}
    };
}

on_outer! {
    /// The mode at a path.
    fn get(path: &[usize]);
    /// The modes `begin..end` as a tuple.
    fn take(begin: usize, end: usize);
    /// The modes `modes` as a tuple.
    fn select(modes: &[usize]);
    /// The layout with the modes `begin..end` as one.
    fn group(begin: usize, end: usize);
    /// The leaves as one flat tuple.
    fn flatten();
    /// The layout with `mode` after its modes.
    fn append(mode: &Layout);
    /// The layout with `mode` before its modes.
    fn prepend(mode: &Layout);
    /// The layout with `mode` appended until it has `rank` modes.
    fn append_to(rank: usize, mode: &Layout);
    /// The layout with `mode` prepended until it has `rank` modes.
    fn prepend_to(rank: usize, mode: &Layout);
    /// The same function with as few modes as possible.
    fn coalesce();
    /// [`coalesce`](ComposedLayout::coalesce) of each mode below a leaf of `profile`.
    fn coalesce_by(profile: &IntTuple);
    /// [`Layout::filter_by`].
    fn filter_by(profile: &IntTuple);
    /// [`Layout::filter`].
    fn filter();
    /// [`Layout::blocked_product`].
    fn blocked_product(tiler: &Layout);
    /// [`Layout::raked_product`].
    fn raked_product(tiler: &Layout);
    /// [`Layout::tile_to_shape`].
    fn tile_to_shape(target: &IntTuple, order: Option<&IntTuple>);
}

macro_rules! by_tiler {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        /// Operations with a tiler, on the outer layout.
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of [`Layout`]'s operation; [`LayoutError::Unsupported`].
            pub fn $name<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name(tiler)?))
            }
        )*}
    };
}

by_tiler! {
    /// `self o right`: [`Layout::composition`] of the outer layout.
    composition;
    /// [`Layout::logical_divide`].
    logical_divide;
    /// [`Layout::zipped_divide`].
    zipped_divide;
    /// [`Layout::tiled_divide`].
    tiled_divide;
    /// [`Layout::flat_divide`].
    flat_divide;
    /// [`Layout::logical_product`].
    logical_product;
    /// [`Layout::zipped_product`].
    zipped_product;
    /// [`Layout::tiled_product`].
    tiled_product;
    /// [`Layout::flat_product`].
    flat_product;
}

impl ComposedLayout {
    /// [`Layout::complement`] of the outer layout.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.complement(&128.into())?, layout!(2:64));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::complement`]; [`LayoutError::Unsupported`].
    pub fn complement(&self, cotarget: &IntTuple) -> Result<Layout> {
        self.outer_layout()?.complement(cotarget)
    }

    /// [`Layout::layout_like`] of the outer layout.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.layout_like()?, layout!((8, 8):(8, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::layout_like`].
    pub fn layout_like(&self) -> Result<Layout> {
        self.outer_layout()?.layout_like()
    }

    /// [`Layout::fragment_like`] of the outer layout.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.fragment_like()?.to_string(), "(8,(8)):(1,(8))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::fragment_like`].
    pub fn fragment_like(&self) -> Result<Layout> {
        self.outer_layout()?.fragment_like()
    }

    /// The tile at `coord`, as [`Layout::local_tile`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, coord, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let (tile, offset) = s.local_tile(&tiler!(4, 4), &coord!(1, 0))?;
    /// assert_eq!(tile.size()?, 16);
    /// assert_eq!(tile.crd2idx(0)?.add(offset.to_int()?)?, s.crd2idx((4, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::local_tile`].
    pub fn local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: &Coord,
    ) -> Result<(ComposedLayout, IntTuple)> {
        let tiled = self.zipped_divide(tiler)?;
        let coord = partition::tile_coord(tiled.outer_layout()?, coord)?;
        tiled.slice_and_offset(&coord)
    }

    /// The elements of thread `index`, as [`Layout::local_partition`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let (part, offset) = s.local_partition(&layout!((2, 2):(1, 2)), &1.into())?;
    /// assert_eq!(part.size()?, 16);
    /// assert_eq!(part.crd2idx(0)?.add(offset.to_int()?)?, s.crd2idx((1, 0))?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::local_partition`].
    pub fn local_partition(
        &self,
        threads: &Layout,
        index: &Int,
    ) -> Result<(ComposedLayout, IntTuple)> {
        let tiler = partition::thread_tiler(threads)?;
        let tiled = self.zipped_divide(&tiler)?;
        let coord = partition::thread_coord(tiled.outer_layout()?, threads, index)?;
        tiled.slice_and_offset(&coord)
    }
}
