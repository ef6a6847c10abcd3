//! Applies the operations of [`Layout`] to the domain of a [`ComposedLayout`], its outer layout.

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
        /// Operations on the domain. Each applies the operation of the same name of [`Layout`] to
        /// the outer layout, with the same equation and errors, and returns
        /// [`LayoutError::Unsupported`] if the outer part is a swizzle.
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// Those of [`Layout`]'s operation; [`LayoutError::Unsupported`].
            #[inline]
            pub fn $name(&self $(, $arg: $t)*) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name($($arg),*)?))
            }
        )*}
    };
}

on_outer! {
    /// The mode at a path.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.get(&[1])?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o 8:1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn get(path: &[usize]);
    /// The modes `begin..end` as a tuple.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.take(1, 2)?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8):(1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn take(begin: usize, end: usize);
    /// The modes `modes` as a tuple.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.select(&[1, 0])?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn select(modes: &[usize]);
    /// The layout with the modes `begin..end` as one.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.group(0, 2)?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8)):((8,1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn group(begin: usize, end: usize);
    /// The leaves as one flat tuple.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.flatten()?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn flatten();
    /// The layout with `mode` after its modes.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.append(&layout!(2:64))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8,2):(8,1,64)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn append(mode: &Layout);
    /// The layout with `mode` before its modes.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.prepend(&layout!(2:64))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (2,8,8):(64,8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn prepend(mode: &Layout);
    /// The layout with `mode` appended until it has `rank` modes.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.append_to(3, &layout!(1:0))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8,1):(8,1,0)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn append_to(rank: usize, mode: &Layout);
    /// The layout with `mode` prepended until it has `rank` modes.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.prepend_to(3, &layout!(1:0))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (1,8,8):(0,8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn prepend_to(rank: usize, mode: &Layout);
    /// The same function with as few modes as possible.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.select(&[1, 0])?.coalesce()?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o 64:1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn coalesce();
    /// [`coalesce`](ComposedLayout::coalesce) of each mode below a leaf of `profile`.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.select(&[1, 0])?.coalesce_by(&shape!(1, 1))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn coalesce_by(profile: &IntTuple);
    /// [`Layout::filter_by`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.filter_by(&shape!(1, 1))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn filter_by(profile: &IntTuple);
    /// [`Layout::filter`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.append(&layout!(2:0))?.filter()?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn filter();
    /// [`Layout::blocked_product`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.blocked_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,2),(8,2)):((8,64),(1,128))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn blocked_product(tiler: &Layout);
    /// [`Layout::raked_product`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.raked_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,8),(2,8)):((64,8),(128,1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn raked_product(tiler: &Layout);
    /// [`Layout::tile_to_shape`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.tile_to_shape(&shape!(16, 8), None)?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,2),(8,1)):((8,64),(1,0))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
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
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.composition(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (2,4):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    composition;
    /// [`Layout::logical_divide`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.logical_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,4),(4,2)):((8,16),(1,4))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    logical_divide;
    /// [`Layout::zipped_divide`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.zipped_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,4),(4,2)):((8,1),(16,4))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    zipped_divide;
    /// [`Layout::tiled_divide`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.tiled_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,4),4,2):((8,1),16,4)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    tiled_divide;
    /// [`Layout::flat_divide`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.flat_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (2,4,4,2):(8,1,16,4)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    flat_divide;
    /// [`Layout::logical_product`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.logical_product(&layout!(2:1))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8),2):((8,1),64)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    logical_product;
    /// [`Layout::zipped_product`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.zipped_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8),(2,2)):((8,1),(64,128))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    zipped_product;
    /// [`Layout::tiled_product`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.tiled_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8),2,2):((8,1),64,128)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    tiled_product;
    /// [`Layout::flat_product`].
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.flat_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8,2,2):(8,1,64,128)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
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
    #[inline]
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
    #[inline]
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
    #[inline]
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
    #[inline]
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
