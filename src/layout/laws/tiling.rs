//! Checks divides, products and `tile_to_shape` against the equations that define them.

use super::{
    Check, LIMIT, Law, Tile, Violation, ceil_div, check_complement, composition, coordinate, pair,
    part, same,
};
use crate::layout::composed::ComposedLayout;
use crate::layout::divide::Arrange;
use crate::layout::error::LayoutError;
use crate::layout::int::Int;
use crate::layout::layout::{Layout, StrideTuple};
use crate::layout::layout_ref::LayoutRef;
use crate::layout::tiler::{TilerRef, TilerTuple};
use crate::layout::tuple::IntTuple;

/// Returns the leaves' extents and strides, with adjacent contiguous leaves merged. Extents of 1
/// are dropped, except for the last.
fn merged(law: Law, layout: &Layout) -> Result<Vec<(i64, crate::layout::ScaledBasis)>, Violation> {
    let mut out: Vec<(i64, crate::layout::ScaledBasis)> = Vec::new();
    let n = layout.shape().leaves().len();
    for (i, (s, d)) in layout.as_ref().leaves().enumerate() {
        let extent = s.to_static().map_err(law.stuck())?;
        if extent == 1 && i + 1 < n {
            continue;
        }
        match out.last_mut() {
            Some((t, e)) if e.scaled(&Int::from(*t)).is_ok_and(|end| end == *d) => {
                *t = t.checked_mul(extent).ok_or_else(|| overflow(law))?;
            }
            _ => out.push((extent, d.clone())),
        }
    }
    Ok(out)
}

fn overflow(law: Law) -> Violation {
    law.stuck()(LayoutError::overflow("a check of a divide"))
}

/// Coalesces the layout and rounds each mode but the last up to whole tiles. If a tile does not
/// divide a mode, it continues inside that mode.
fn padded(law: Law, layout: &Layout, tile: i64) -> Result<Layout, Violation> {
    let mut rest = tile;
    let (mut extents, mut strides) = (Vec::new(), Vec::new());
    for (s, d) in merged(law, layout)? {
        if s < 1 {
            return Err(law.stuck()(LayoutError::ExtentNotPositive { extent: s.into() }));
        }
        let whole = ceil_div(s, rest).checked_mul(rest).ok_or_else(|| overflow(law))?;
        extents.push(if s > rest { whole } else { s });
        rest = ceil_div(rest, s);
        strides.push(d);
    }
    let shape = IntTuple::from_items(extents).map_err(law.stuck())?;
    let stride = StrideTuple::from_items(strides).map_err(law.stuck())?;
    Layout::new(shape, stride).map_err(law.stuck())
}

fn divide_by_layout(layout: &Layout, tile: &Layout, result: &Layout) -> Check {
    let law = Law::Divide;
    let (first, rest) = pair(law, result)?;
    let target = layout.coalesce().map_err(law.stuck())?.shape().to_owned();
    let complement = tile.complement(&target).map_err(law.stuck())?;
    check_complement(tile, &IntTuple::from(law.size(layout)?), &complement)?;
    // The tile with its gaps: the step of the outermost mode.
    let filtered = tile.filter().map_err(law.stuck())?;
    let mut whole = 1;
    for (s, d) in law.leaves(&filtered)? {
        whole = whole.max(s.checked_mul(d).ok_or_else(|| overflow(law))?);
    }
    let padded = ComposedLayout::from(padded(law, layout, whole)?);
    composition(law, &padded, &tile.into(), &first.into())?;
    composition(law, &padded, &(&complement).into(), &rest.into())?;
    // Together they are a composition only if no index of the tile carries into the next column
    // with one of the complement.
    let pair = Layout::concat([tile, &complement]).map_err(law.stuck())?;
    composition(law, &padded, &pair.into(), &result.into())
}

fn product_by_layout(block: &Layout, tile: &Layout, result: &Layout) -> Check {
    let law = Law::Product;
    let (first, rest) = pair(law, result)?;
    if first != *block {
        return Err(law.form(result, format_args!("does not have {block} as its first mode")));
    }
    let cosize = law.number(tile.cosize())?;
    let target = law.size(block)?.checked_mul(cosize).ok_or_else(|| overflow(law))?;
    let complement = block.complement(&target.into()).map_err(law.stuck())?;
    check_complement(block, &target.into(), &complement)?;
    composition(law, &complement.into(), &tile.into(), &rest.into())
}

/// A divide or a product.
#[derive(Clone, Copy)]
enum Tiling {
    Divide,
    Product,
}

impl Tiling {
    fn law(self) -> Law {
        match self {
            Tiling::Divide => Law::Divide,
            Tiling::Product => Law::Product,
        }
    }

    #[inline]
    fn by_tiler(self, layout: &Layout, tiler: TilerRef<'_>, result: &Layout) -> Check {
        let law = self.law();
        match (part(tiler), self) {
            (Tile::All, _) if layout == result => Ok(()),
            (Tile::All, _) => {
                Err(law.form(result, format_args!("is not {layout}, although the tile is `_`")))
            }
            (Tile::Whole(tile), Tiling::Divide) => divide_by_layout(layout, &tile, result),
            (Tile::Whole(tile), Tiling::Product) => product_by_layout(layout, &tile, result),
            (Tile::ByMode(tiler), _) => {
                if layout.rank() != result.rank() || tiler.rank() > layout.rank() {
                    let ranks =
                        format_args!("does not have the {} modes of {layout}", layout.rank());
                    return Err(law.form(result, ranks));
                }
                let mut tiles = tiler.children();
                for (mode, part) in layout.modes().zip(result.modes()) {
                    let (mode, part) = (mode.to_layout(), part.to_layout());
                    match tiles.next() {
                        Some(tile) => self.by_tiler(&mode, TilerRef::Tuple(tile), &part)?,
                        None if mode == part => {}
                        None => {
                            let changed = format_args!("is not {mode}, although it has no tile");
                            return Err(law.form(part, changed));
                        }
                    }
                }
                Ok(())
            }
        }
    }

    /// Checks a zipped, tiled or flat form. It computes and checks the logical form, and then
    /// compares the rearranged modes.
    #[inline]
    fn arranged(
        self,
        arrange: Arrange,
        layout: &Layout,
        tiler: TilerRef<'_>,
        result: &Layout,
    ) -> Check {
        let law = self.law();
        let logical = match self {
            Tiling::Divide => layout.logical_divide(tiler),
            Tiling::Product => layout.logical_product(tiler),
        };
        let logical = logical.map_err(law.stuck())?;
        self.by_tiler(layout, tiler, &logical)?;
        let (mut tiles, mut rests) = (Vec::new(), Vec::new());
        match part(tiler) {
            Tile::ByMode(tiler) => {
                sort_modes(law, logical.as_ref(), tiler, &mut tiles, &mut rests)?
            }
            Tile::All | Tile::Whole(_) => {
                let (tile, rest) = pair(law, &logical)?;
                tiles.extend(modes_of(&tile, arrange == Arrange::Flat));
                rests.extend(modes_of(&rest, arrange != Arrange::Zipped));
            }
        }
        let all = Layout::concat(tiles.iter().chain(&rests)).map_err(law.stuck())?;
        same(law, &all.into(), &result.into())?;
        let rank = match arrange {
            Arrange::Zipped => 2,
            Arrange::Tiled => 1 + rests.len(),
            Arrange::Flat => tiles.len() + rests.len(),
        };
        if result.rank() != rank {
            return Err(law.form(result, format_args!("does not have {rank} modes")));
        }
        if arrange != Arrange::Flat {
            let tile = Layout::concat(&tiles).map_err(law.stuck())?;
            let first = result.get(&[0]).map_err(law.stuck())?;
            same(law, &tile.into(), &first.into())?;
        }
        Ok(())
    }
}

/// Returns the layout's modes if `split` is set, and otherwise the layout as one mode.
fn modes_of(layout: &Layout, split: bool) -> Vec<Layout> {
    match split && !layout.is_leaf() {
        true => layout.modes().map(LayoutRef::to_layout).collect(),
        false => vec![layout.clone()],
    }
}

/// Separates the modes of a logical form into the modes of the tile and the remaining modes.
fn sort_modes(
    law: Law,
    logical: LayoutRef<'_>,
    tiler: TilerTuple<'_>,
    tiles: &mut Vec<Layout>,
    rests: &mut Vec<Layout>,
) -> Check {
    let mut tile_of_mode = tiler.children();
    for mode in logical.modes() {
        match tile_of_mode.next() {
            None => rests.push(mode.to_layout()),
            Some(tile) if tile.is_leaf() => {
                let (tile, rest) = pair(law, &mode.to_layout())?;
                tiles.push(tile);
                rests.push(rest);
            }
            Some(tile) => {
                let (mut inner, mut outer) = (Vec::new(), Vec::new());
                sort_modes(law, mode, tile, &mut inner, &mut outer)?;
                tiles.push(Layout::concat(&inner).map_err(law.stuck())?);
                rests.push(Layout::concat(&outer).map_err(law.stuck())?);
            }
        }
    }
    Ok(())
}

macro_rules! tilings {
    ($($name:ident, $tiling:ident, $arrange:expr, $operation:ident, $what:literal;)*) => {$(
        #[doc = concat!("Checks that `result` is `", stringify!($operation), "(layout, tiler)`: ", $what)]
        ///
        /// ```
        /// use tilewright::layout::{layout, laws, tiler};
        /// let (l, t) = (layout!((4, 8):(8, 1)), tiler!(2, 4));
        #[doc = concat!("laws::", stringify!($name), "(&l, &t, &l.", stringify!($operation), "(&t)?)?;")]
        #[doc = concat!("assert!(laws::", stringify!($name), "(&l, &t, &l).is_err());")]
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        ///
        /// # Errors
        /// Returns the [`Violation`].
        pub fn $name<'t>(
            layout: &Layout,
            tiler: impl Into<TilerRef<'t>>,
            result: &Layout,
        ) -> Result<(), Violation> {
            let arrange: Option<Arrange> = $arrange;
            match arrange {
                None => Tiling::$tiling.by_tiler(layout, tiler.into(), result),
                Some(arrange) => Tiling::$tiling.arranged(arrange, layout, tiler.into(), result),
            }
        }
    )*};
}

tilings! {
    check_logical_divide, Divide, None, logical_divide,
        "`L o (T, C)` with `C` the complement of the tile in the coalesced layout's shape, for the whole or for each mode \
         and its tile. If a tile does not divide a mode, the mode is rounded up to whole tiles.";
    check_zipped_divide, Divide, Some(Arrange::Zipped), zipped_divide,
        "the modes of [`check_logical_divide`] as `((tiles, ..), (rests, ..))`.";
    check_tiled_divide, Divide, Some(Arrange::Tiled), tiled_divide,
        "the modes of [`check_logical_divide`] as `((tiles, ..), rests, ..)`.";
    check_flat_divide, Divide, Some(Arrange::Flat), flat_divide,
        "the modes of [`check_logical_divide`] as `(tiles, .., rests, ..)`.";
    check_logical_product, Product, None, logical_product,
        "`(B, C o T)` with `C` the complement of the block, so that the second mode moves the block to places that do not \
         overlap, for the whole or for each mode and its tile.";
    check_zipped_product, Product, Some(Arrange::Zipped), zipped_product,
        "the modes of [`check_logical_product`] as `((blocks, ..), (tiles, ..))`.";
    check_tiled_product, Product, Some(Arrange::Tiled), tiled_product,
        "the modes of [`check_logical_product`] as `((blocks, ..), tiles, ..)`.";
    check_flat_product, Product, Some(Arrange::Flat), flat_product,
        "the modes of [`check_logical_product`] as `(blocks, .., tiles, ..)`.";
}

/// Checks a blocked product: mode `k` of the result is mode `k` of the block followed by mode `k`
/// of the tile, with the values of the logical product. The elements of one block thus stay
/// neighbours.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let (b, t) = (layout!((2, 5):(5, 1)), layout!((3, 4):(1, 3)));
/// laws::check_blocked_product(&b, &t, &b.blocked_product(&t)?)?;
/// assert!(laws::check_blocked_product(&b, &t, &b.raked_product(&t)?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_blocked_product(
    block: &Layout,
    tile: &Layout,
    result: &Layout,
) -> Result<(), Violation> {
    interleaved(Law::BlockedProduct, block, tile, result)
}

/// Checks a raked product: mode `k` of the result is mode `k` of the tile followed by mode `k` of
/// the block, with the values of the logical product. The elements of one block are thus spread
/// out.
///
/// ```
/// use tilewright::layout::{layout, laws};
/// let (b, t) = (layout!((2, 5):(5, 1)), layout!((3, 4):(1, 3)));
/// laws::check_raked_product(&b, &t, &b.raked_product(&t)?)?;
/// assert!(laws::check_raked_product(&b, &t, &b.blocked_product(&t)?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_raked_product(
    block: &Layout,
    tile: &Layout,
    result: &Layout,
) -> Result<(), Violation> {
    interleaved(Law::RakedProduct, block, tile, result)
}

/// Returns the size of each mode.
fn sizes(law: Law, layout: &Layout) -> Result<Vec<i64>, Violation> {
    layout.modes().map(|mode| law.number(mode.size())).collect()
}

#[inline]
fn interleaved(law: Law, block: &Layout, tile: &Layout, result: &Layout) -> Check {
    let rank = block.rank().max(tile.rank());
    let pad = |l: &Layout| l.append_to(rank, &Layout::trivial()).map_err(law.stuck());
    let (block, tile) = (pad(block)?, pad(tile)?);
    let product = block.logical_product(&tile).map_err(law.stuck())?;
    check_logical_product(&block, &tile, &product)?;
    let (needed, found) = (law.size(&product)?, law.size(result)?);
    if found != needed {
        return Err(Violation::Size { law, result: result.to_string(), found, needed });
    }
    let (inner, outer) = (sizes(law, &block)?, sizes(law, &tile)?);
    let (product, result) = (ComposedLayout::from(product), ComposedLayout::from(result));
    for i in 0..needed.min(LIMIT) {
        let mut rest = i;
        let mut digits = |extents: &[i64]| {
            let digit = |s: &i64| {
                let digit = rest % s;
                rest /= s;
                digit
            };
            extents.iter().map(digit).collect::<Vec<i64>>()
        };
        let (b, t) = (digits(&inner), digits(&outer));
        let mixed = |k: usize| match law {
            Law::RakedProduct => t[k] + outer[k] * b[k],
            _ => b[k] + inner[k] * t[k],
        };
        let entries: Vec<i64> = (0..rank).map(mixed).collect();
        let at = coordinate(law, &entries, rank == 1)?;
        let left = result.apply(&at).map_err(law.stuck())?;
        law.equal(at, &left, &law.value(&product, i)?)?;
    }
    Ok(())
}

/// Checks that `result` repeats `block` until it has the shape `target`: its shape refines the
/// target, and each repetition is the block at another offset.
///
/// ```
/// use tilewright::layout::{layout, laws, shape};
/// let (b, target) = (layout!((2, 2):(2, 1)), shape!(4, 6));
/// laws::check_tile_to_shape(&b, &target, &b.tile_to_shape(&target, None)?)?;
/// let error = laws::check_tile_to_shape(&b, &target, &layout!((4, 6):(6, 1))).unwrap_err();
/// assert!(error.to_string().ends_with("at (1,0) the left side is 6 and the right side is 2"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns the [`Violation`].
#[inline]
pub fn check_tile_to_shape(
    block: &Layout,
    target: &IntTuple,
    result: &Layout,
) -> Result<(), Violation> {
    let law = Law::TileToShape;
    let found = result.shape().to_owned();
    if !target.compatible(&found).map_err(law.stuck())? {
        let refines = format_args!("has the shape {found}, which does not refine {target}");
        return Err(law.form(result, refines));
    }
    let rank = target.rank();
    let block = block.append_to(rank, &Layout::trivial()).map_err(law.stuck())?;
    let (own, whole) = (sizes(law, &block)?, sizes(law, result)?);
    if let Some((s, _)) = own.iter().zip(&whole).find(|(s, w)| **s < 1 || **w % **s != 0) {
        return Err(law.form(result, format_args!("does not have whole blocks of {s}")));
    }
    let value = |l: &Layout, entries: &[i64]| {
        l.crd2idx(coordinate(law, entries, rank == 1)?).map_err(law.stuck())
    };
    for i in 0..law.size(result)?.min(LIMIT) {
        let mut rest = i;
        let (mut at, mut inside, mut start) = (Vec::new(), Vec::new(), Vec::new());
        for (s, w) in own.iter().zip(&whole) {
            let digit = rest % w;
            rest /= w;
            at.push(digit);
            inside.push(digit % s);
            start.push(digit - digit % s);
        }
        let moved = value(&block, &inside)?.add(&value(result, &start)?).map_err(law.stuck())?;
        let found = value(result, &at)?;
        law.equal(coordinate(law, &at, rank == 1)?, &found.into(), &moved.into())?;
    }
    Ok(())
}
