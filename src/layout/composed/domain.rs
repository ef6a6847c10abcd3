//! The operations on a [`ComposedLayout`]'s domain: each applies the [`Layout`] operation of the
//! same name to the outer layout and keeps the swizzle.

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
        /// Operations on the domain. Each applies the [`Layout`] operation of the same name to the
        /// outer layout, with the same equation and the same errors. If the outer part is a
        /// swizzle, it returns [`LayoutError::Unsupported`].
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The same as the operation on [`Layout`], and [`LayoutError::Unsupported`] if the
            /// outer part is a swizzle.
            #[inline]
            pub fn $name(&self $(, $arg: $t)*) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name($($arg),*)?))
            }
        )*}
    };
}

on_outer! {
    /// Returns the mode at a path. Use it to look at one mode and keep the swizzle.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.get(&[1])?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o 8:1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn get(path: &[usize]);
    /// Returns the modes `begin..end` as a tuple, for example all modes but the batch.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.take(1, 2)?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8):(1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn take(begin: usize, end: usize);
    /// Returns the modes `modes` as a tuple, in that order. Use it to permute or to drop modes.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.select(&[1, 0])?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn select(modes: &[usize]);
    /// Groups the modes `begin..end` into one mode. You can then index it with one integer.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.group(0, 2)?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8)):((8,1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn group(begin: usize, end: usize);
    /// Flattens the layout into one tuple of leaves. Use it if the nesting does not matter any
    /// more.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.flatten()?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn flatten();
    /// Appends `mode` as the last mode. Use it to add a pipeline stage or a batch mode.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.append(&layout!(2:64))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8,2):(8,1,64)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn append(mode: &Layout);
    /// Prepends `mode` as the first mode. Use it to add a batch mode in front.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.prepend(&layout!(2:64))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (2,8,8):(64,8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn prepend(mode: &Layout);
    /// Appends `mode` until the layout has `rank` modes, for example `1:0` for code that expects a
    /// fixed rank.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.append_to(3, &layout!(1:0))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8,1):(8,1,0)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn append_to(rank: usize, mode: &Layout);
    /// Prepends `mode` until the layout has `rank` modes, for example `1:0` for code that expects a
    /// fixed rank.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.prepend_to(3, &layout!(1:0))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (1,8,8):(0,8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn prepend_to(rank: usize, mode: &Layout);
    /// Returns the same function with as few modes as possible. Use it to simplify a layout before
    /// you compare or print it.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.select(&[1, 0])?.coalesce()?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o 64:1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn coalesce();
    /// Coalesces each mode below a leaf of `profile` on its own, as
    /// [`coalesce`](ComposedLayout::coalesce) does, so that the rank stays.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.select(&[1, 0])?.coalesce_by(&shape!(1, 1))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn coalesce_by(profile: &IntTuple);
    /// Drops stride-0 modes below each leaf of `profile`, as [`Layout::filter_by`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.filter_by(&shape!(1, 1))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn filter_by(profile: &IntTuple);
    /// Drops stride-0 modes and coalesces, as [`Layout::filter`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.append(&layout!(2:0))?.filter()?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn filter();
    /// Repeats the layout side by side along each mode, as [`Layout::blocked_product`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.blocked_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,2),(8,2)):((8,64),(1,128))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn blocked_product(tiler: &Layout);
    /// Interleaves the repetitions along each mode, as [`Layout::raked_product`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.raked_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,8),(2,8)):((64,8),(128,1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn raked_product(tiler: &Layout);
    /// Repeats the layout until it has the shape `target`, as [`Layout::tile_to_shape`] does. This
    /// is the usual way from a swizzle atom to a shared-memory tile.
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
        /// Operations with a tiler. Each applies to the outer layout.
        impl ComposedLayout {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The same as the operation on [`Layout`], and [`LayoutError::Unsupported`] if the
            /// outer part is a swizzle.
            pub fn $name<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<ComposedLayout> {
                Ok(self.with_outer(self.outer_layout()?.$name(tiler)?))
            }
        )*}
    };
}

by_tiler! {
    /// Returns `self o right`, with [`Layout::composition`] on the outer layout.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.composition(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (2,4):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    composition;
    /// Splits each mode into tile and rest, as [`Layout::logical_divide`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.logical_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,4),(4,2)):((8,16),(1,4))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    logical_divide;
    /// Splits into `((tile, ..), (rest, ..))`, as [`Layout::zipped_divide`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.zipped_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,4),(4,2)):((8,1),(16,4))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    zipped_divide;
    /// Splits into `((tile, ..), rest, ..)`, as [`Layout::tiled_divide`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.tiled_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((2,4),4,2):((8,1),16,4)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    tiled_divide;
    /// Splits into `(tile, .., rest, ..)`, as [`Layout::flat_divide`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, tiler};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.flat_divide(&tiler!(2, 4))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o (2,4,4,2):(8,1,16,4)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    flat_divide;
    /// Repeats the layout over the tiler, as [`Layout::logical_product`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.logical_product(&layout!(2:1))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8),2):((8,1),64)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    logical_product;
    /// Repeats into `((block, ..), (tile, ..))`, as [`Layout::zipped_product`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.zipped_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8),(2,2)):((8,1),(64,128))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    zipped_product;
    /// Repeats into `((block, ..), tile, ..)`, as [`Layout::tiled_product`] does.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// let made = s.tiled_product(&layout!((2, 2):(1, 2)))?;
    /// assert_eq!(made.to_string(), "S<3,0,3> o 0 o ((8,8),2,2):((8,1),64,128)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    tiled_product;
    /// Repeats into `(block, .., tile, ..)`, as [`Layout::flat_product`] does.
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
    /// Returns the outer layout's [`Layout::complement`]: the indices that it does not reach,
    /// before the swizzle.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.complement(&128.into())?, layout!(2:64));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::complement`], and [`LayoutError::Unsupported`] if the outer part is a
    /// swizzle.
    #[inline]
    pub fn complement(&self, cotarget: &IntTuple) -> Result<Layout> {
        self.outer_layout()?.complement(cotarget)
    }

    /// Returns the outer layout's [`Layout::layout_like`]: a compact layout without the swizzle,
    /// with the same shape, whose strides sort in the same order as the outer layout's. Use it to
    /// allocate an unswizzled copy, for example in registers.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.layout_like()?, layout!((8, 8):(8, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::layout_like`].
    #[inline]
    pub fn layout_like(&self) -> Result<Layout> {
        self.outer_layout()?.layout_like()
    }

    /// Returns the outer layout's [`Layout::fragment_like`]: the layout of registers for these
    /// elements, which need no swizzle.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 0 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.fragment_like()?.to_string(), "(8,(8)):(1,(8))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::fragment_like`].
    #[inline]
    pub fn fragment_like(&self) -> Result<Layout> {
        self.outer_layout()?.fragment_like()
    }

    /// Returns the tile at `coord` and its offset, as [`Layout::local_tile`] does. Use it to get a
    /// thread block's tile.
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
    /// The same as [`Layout::local_tile`].
    pub fn local_tile<'t>(
        &self,
        tiler: impl Into<TilerRef<'t>>,
        coord: &Coord,
    ) -> Result<(ComposedLayout, IntTuple)> {
        let tiled = self.zipped_divide(tiler)?;
        let coord = partition::tile_coord(tiled.outer_layout()?, coord)?;
        tiled.slice_and_offset(&coord)
    }

    /// Returns the elements of thread `index` and their offset, as [`Layout::local_partition`]
    /// does. Use it to divide a swizzled tile among threads.
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
    /// The same as [`Layout::local_partition`].
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
