//! Products: repeat a layout as a block of a larger one. `logical_product` and its arrangements,
//! `blocked_product`, `raked_product` and `tile_to_shape`. Use them to build a tile from an atom,
//! for example a swizzled one.

use super::assume::{Operands, advise};
use super::builder::LayoutBuilder;
use super::coalesce::Flat;
use super::complement::{complement_into, cosize};
use super::compose::{ByTiler, Composer, Pairwise, by_tiler_or_advice};
use super::divide::{Arrange, Arranged};
use super::draft::{Draft, perform};
use super::error::LayoutError;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::modes::zip_into;
use super::number::{Number, Stride as _};
use super::slice::product_each;
use super::tiler::TilerRef;
use super::tuple::{IntTuple, Tuple};

type Result<T, E = LayoutError> = std::result::Result<T, E>;
type Done<N> = Result<(), <N as Number>::Error>;

struct Product;

impl Pairwise for Product {
    const REST: bool = true;

    /// Appends `(block, complement(block, size(block) * cosize(tile)) o tile)`.
    #[inline]
    fn pair<N: Number>(
        &self,
        block: LayoutRef<'_>,
        tile: LayoutRef<'_>,
        out: &mut Draft<N>,
    ) -> Done<N> {
        let cosize = cosize::<N>(tile)?;
        let mut target = cosize.clone();
        for extent in block.shape {
            target = target.mul(&N::read(extent)?)?;
        }
        let mut composer = Composer::<N>::new(block);
        let free = composer.flat();
        let covered = complement_into(block, &mut std::iter::once(Ok(target)), free)?;
        free.fill()?;
        let violation = dropped_by_numbers(free, tile, &cosize)?.max(&covered.violation)?;
        composer.begin()?;
        out.tuple(2)?;
        out.push_ref(block)?;
        composer.compose(tile, out)?;
        composer.check(tile, out)?;
        out.check_last(&violation)
    }
}

/// Returns an expression above 0 if the last mode of `free` has extent 1 and the tile reaches it,
/// by its cosize or by a negative index. With static extents that mode would be dropped, and the
/// mode before it would be the unbounded one.
#[inline]
fn dropped_by_numbers<N: Number>(
    free: &Flat<N>,
    tile: LayoutRef<'_>,
    cosize: &N,
) -> Result<N, N::Error> {
    let Some(((last, _), inner)) = free.modes.split_last() else { return Ok(N::new(0)) };
    if last.bounds().0 > 1 || last.is_number() {
        return Ok(N::new(0));
    }
    let dropped = N::new(2).sub(last)?;
    for (s, d) in tile.leaves() {
        if !s.is(1) && N::Stride::read(d)?.factor()?.bounds().0 < 0 {
            return Ok(dropped);
        }
    }
    let mut inside = N::new(1);
    for (extent, _) in inner {
        inside = inside.mul(extent)?;
    }
    dropped.min(&cosize.sub(&inside)?)
}

/// # Products
///
/// Repeats a layout. The forms differ in how they group the modes.
impl Layout {
    /// Repeats the block `self` once per coordinate of the tiler: `(self, complement(self, size *
    /// cosize(tiler)) o tiler)`. For example, the block `(2,2):(4,1)` over `6:1` gives
    /// `((2,2),(2,3)):((4,1),(2,8))`. A tuple tiler does this mode by mode.
    ///
    /// The result is `(block, repetition)`. To get a layout with the same modes as the block, use
    /// [`blocked_product`](Layout::blocked_product) or [`raked_product`](Layout::raked_product).
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 2):(4, 1)).logical_product(&layout!(6:1))?;
    /// assert_eq!(l, layout!(((2, 2), (2, 3)):((4, 1), (2, 8))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`composition`](Layout::composition) and [`complement`](Layout::complement).
    pub fn logical_product<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        by_tiler_or_advice(self.as_ref(), tiler.into(), |layout, tiler| {
            perform(&ByTiler { layout, tiler, pairwise: Product })
        })
    }

    fn multiplied<'t>(&self, tiler: impl Into<TilerRef<'t>>, arrange: Arrange) -> Result<Layout> {
        by_tiler_or_advice(self.as_ref(), tiler.into(), |layout, tiler| {
            perform(&Arranged { operation: ByTiler { layout, tiler, pairwise: Product }, arrange })
        })
    }

    /// Repeats the block like [`logical_product`](Layout::logical_product), arranged as `((block,
    /// ..), (tile, ..))`. Use it if one coordinate should select the element of a block, and
    /// another the block.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let block = layout!((2, 2):(1, 2));
    /// assert_eq!(block.zipped_product(&layout!((3, 4):(1, 3)))?.to_string(), "((2,2),(3,4)):((1,2),(4,12))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`logical_product`](Layout::logical_product), and
    /// [`LayoutError::UnexpectedUnderscore`] if a `_` in the tiler keeps a mode.
    pub fn zipped_product<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.multiplied(tiler, Arrange::Zipped)
    }

    /// Repeats the block like [`logical_product`](Layout::logical_product), arranged as `((block,
    /// ..), tile, ..)`. Use it if you select the repetition with one index per mode.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let block = layout!((2, 2):(1, 2));
    /// assert_eq!(block.tiled_product(&layout!((3, 4):(1, 3)))?.to_string(), "((2,2),3,4):((1,2),4,12)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`zipped_product`](Layout::zipped_product).
    pub fn tiled_product<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.multiplied(tiler, Arrange::Tiled)
    }

    /// Repeats the block like [`logical_product`](Layout::logical_product), arranged as `(block,
    /// .., tile, ..)`. Use it if you need no nesting.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let block = layout!((2, 2):(1, 2));
    /// assert_eq!(block.flat_product(&layout!((3, 4):(1, 3)))?.to_string(), "(2,2,3,4):(1,2,4,12)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`zipped_product`](Layout::zipped_product).
    pub fn flat_product<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<Layout> {
        self.multiplied(tiler, Arrange::Flat)
    }

    /// Repeats the block side by side along each of its modes: `((block0, tile0), (block1, tile1),
    /// ..)`. The elements of one block stay neighbours. For example, a 2x5 block over a 3x4 tiler
    /// gives a 6x20 layout.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 5):(5, 1)).blocked_product(&layout!((3, 4):(1, 3)))?;
    /// assert_eq!(l, layout!(((2, 3), (5, 4)):((5, 10), (1, 30))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`logical_product`](Layout::logical_product).
    #[inline]
    pub fn blocked_product(&self, tiler: &Layout) -> Result<Layout> {
        self.interleaved(tiler, false)
    }

    /// Interleaves the repetitions of the block along each of its modes: `((tile0, block0), (tile1,
    /// block1), ..)`. The elements of one block are spread out, as in a cyclic distribution.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 5):(5, 1)).raked_product(&layout!((3, 4):(1, 3)))?;
    /// assert_eq!(l, layout!(((3, 2), (4, 5)):((10, 5), (30, 1))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`logical_product`](Layout::logical_product).
    #[inline]
    pub fn raked_product(&self, tiler: &Layout) -> Result<Layout> {
        self.interleaved(tiler, true)
    }

    #[inline]
    fn interleaved(&self, tiler: &Layout, raked: bool) -> Result<Layout> {
        let interleave =
            |block: &Layout, tiler: &Layout| Self::interleave_modes(block, tiler, raked);
        interleave(self, tiler).map_err(|error| {
            let operands = Operands::new(self.as_ref()).with_layout(tiler.as_ref());
            advise(error, &operands, |o| interleave(&o.layout, &o.other))
        })
    }

    #[inline]
    fn interleave_modes(block: &Layout, tiler: &Layout, raked: bool) -> Result<Layout> {
        let rank = block.rank().max(tiler.rank());
        let one = Layout::trivial();
        let pad = |l: &Layout| -> Result<Layout> {
            // Like CuTe's `append<R>`: an integer becomes a tuple only if modes are missing.
            l.append_to(rank, &one)
        };
        let (block, tile) = (pad(block)?, pad(tiler)?);
        let (layout, tiler) = (block.as_ref(), TilerRef::from(&tile));
        let product = perform(&ByTiler { layout, tiler, pairwise: Product })?;
        let (first, second) = (product.as_ref().mode(&[0])?, product.as_ref().mode(&[1])?);
        let mut out = LayoutBuilder::new();
        if raked {
            zip_into(second, first, &mut out)?;
        } else {
            zip_into(first, second, &mut out)?;
        }
        out.finish()
    }

    /// Repeats the block until it has the shape `target`. Use it to build a shared-memory layout
    /// from a swizzle atom. For example, `(2,2):(1,2)` to `(4,6)` gives
    /// `((2,2),(2,3)):((1,4),(2,8))`. `order` says in which order the modes are filled; if it is
    /// `None`, the first mode is filled first. `compatible(target, shape(R))` holds.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((2, 2):(1, 2)).tile_to_shape(&shape!(4, 6), None)?;
    /// assert_eq!(l, layout!(((2, 2), (2, 3)):((1, 4), (2, 8))));
    /// let r = layout!((2, 2):(1, 2)).tile_to_shape(&shape!(4, 6), Some(&shape!(1, 0)))?;
    /// assert_eq!(r, layout!(((2, 2), (2, 3)):((1, 12), (2, 4))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotDivisible`] if the block does not divide the target,
    /// [`LayoutError::TooManyModes`] if the block has more modes than the target, and the errors of
    /// [`blocked_product`](Layout::blocked_product).
    #[inline]
    pub fn tile_to_shape(&self, target: &IntTuple, order: Option<&IntTuple>) -> Result<Layout> {
        self.repeated(target, order).map_err(|error| {
            let operands = Operands::new(self.as_ref()).with_tuple(target.as_ref());
            advise(error, &operands, |o| o.layout.repeated(&o.tuple, order))
        })
    }

    #[inline]
    fn repeated(&self, target: &IntTuple, order: Option<&IntTuple>) -> Result<Layout> {
        let rank = target.rank();
        if self.rank() > rank {
            return Err(LayoutError::TooManyModes { tiler: self.rank(), layout: rank });
        }
        let block = self.append_to(rank, &Layout::trivial())?;
        let own = product_each(block.shape())?;
        let target = product_each(target.as_ref())?;
        let mut repeat = Vec::with_capacity(rank);
        for (i, (t, b)) in target.leaves().iter().zip(own.leaves()).enumerate() {
            let left = t.modulo(b).map_err(|e| e.at(i))?;
            if left.is_static() && !left.is(0) {
                return Err(LayoutError::NotDivisible { value: t.clone(), by: b.clone() }.at(i));
            }
            repeat.push(t.ceil_div(b)?.on_condition(&left));
        }
        let repeat: IntTuple = Tuple::from_items(repeat)?;
        let tiler = match order {
            Some(order) => Layout::ordered(&repeat, order)?,
            None => Layout::compact(repeat),
        };
        Self::interleave_modes(&block, &tiler, false)
    }
}
