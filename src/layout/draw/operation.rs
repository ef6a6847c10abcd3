//! Draws operations: input, tiler and result side by side, with one colour per tile. The picture
//! shows how a divide, a product or a composition moves elements.

use std::collections::HashMap;

use super::super::basis::ScaledBasis;
use super::super::builder::LayoutBuilder;
use super::super::error::LayoutError;
use super::super::layout_ref::LayoutRef;
use super::super::tiler::{Tiler, TilerLeaf, TilerRef};
use super::super::tuple::{IntTuple, IntTupleRef, TupleRef};
use super::super::{Int, Layout};
use super::palette::Shading;
use super::scene::{Scene, Section, extents};
use super::{Drawing, layout_section};

type Result<T> = std::result::Result<T, LayoutError>;

/// Appends `tile` with its strides along the mode `path`.
#[inline]
fn push_along(tile: LayoutRef<'_>, path: &[usize], out: &mut LayoutBuilder) -> Result<()> {
    if let (Some(extent), Some(stride)) = (tile.shape().as_leaf(), tile.stride().as_leaf()) {
        out.push(extent.clone(), ScaledBasis::new(stride.to_int()?.clone(), path)?);
        return Ok(());
    }
    out.open();
    tile.modes().try_for_each(|mode| push_along(mode, path, out))?;
    out.close();
    Ok(())
}

#[inline]
fn push_tiler(
    tiler: TupleRef<'_, TilerLeaf>,
    shape: IntTupleRef<'_>,
    path: &mut Vec<usize>,
    out: &mut LayoutBuilder,
) -> Result<()> {
    match tiler.as_leaf() {
        Some(TilerLeaf::Int(extent)) => out.push(extent.clone(), ScaledBasis::e(path)?),
        Some(TilerLeaf::All) => out.push(shape.product()?, ScaledBasis::e(path)?),
        Some(TilerLeaf::Layout(tile)) => push_along(tile.as_ref().as_ref(), path, out)?,
        None => {
            out.open();
            for (i, child) in tiler.children().enumerate() {
                path.push(i);
                push_tiler(child, shape.child(i).unwrap_or(shape), path, out)?;
                path.pop();
            }
            out.close();
        }
    }
    Ok(())
}

/// Returns the tiler as a layout. A tuple tiler becomes the layout of the coordinates that it
/// visits, with `_` as a whole mode of `shape`.
#[inline]
fn as_layout(tiler: TilerRef<'_>, shape: IntTupleRef<'_>) -> Result<Layout> {
    match tiler {
        TilerRef::Layout(tile) => Ok(tile.to_layout()),
        TilerRef::Tuple(tiler) => {
            if let Some(TilerLeaf::Int(extent)) = tiler.as_leaf() {
                return Ok(Layout::leaf(extent.clone(), 1));
            }
            let mut out = LayoutBuilder::new();
            push_tiler(tiler, shape, &mut Vec::new(), &mut out)?;
            out.finish()
        }
    }
}

fn notation(tiler: TilerRef<'_>) -> String {
    match tiler {
        TilerRef::Layout(tile) => tile.to_string(),
        TilerRef::Tuple(tiler) => tiler.to_string(),
    }
}

/// Returns the tiler with each `_` replaced by the whole mode of `shape`, or by one entry if there
/// is no shape.
#[inline]
fn whole(tiler: TupleRef<'_, TilerLeaf>, shape: Option<IntTupleRef<'_>>) -> Result<Tiler> {
    match (tiler.as_leaf(), shape) {
        (Some(TilerLeaf::All), Some(shape)) => Ok(Tiler::leaf(shape.product()?)),
        (Some(TilerLeaf::All), None) => Ok(Tiler::leaf(Int::ONE)),
        (Some(leaf), _) => Ok(Tiler::leaf(leaf.clone())),
        (None, shape) => {
            let parts = tiler.children().enumerate();
            let parts = parts.map(|(i, child)| whole(child, shape.and_then(|s| s.child(i))));
            Tiler::from_items(parts.collect::<Result<Vec<_>>>()?)
        }
    }
}

/// Picks a colour index for the position `at` of a shape, so that neighbours along each mode
/// differ.
#[inline]
fn colour_number(at: i64, shape: &[i64]) -> i64 {
    if shape.iter().product::<i64>() <= 8 {
        return at;
    }
    let (mut rest, mut sum) = (at, 0);
    for (extent, step) in shape.iter().zip([1, 3, 5, 7].into_iter().cycle()) {
        sum += rest % extent * step;
        rest /= extent;
    }
    sum
}

/// Maps each value of `zipped`, a layout with the modes (inside the tile, tile), to its tile's
/// colour.
#[inline]
fn owners(zipped: &Layout) -> Result<HashMap<String, i64>> {
    let modes: Vec<LayoutRef<'_>> = zipped.modes().collect();
    let [inner, outer] = modes.as_slice() else {
        return Err(LayoutError::RankMismatch { expected: 2, found: modes.len() });
    };
    extents(zipped.shape())?;
    let inner: i64 = extents(inner.shape())?.iter().product();
    let shape = extents(outer.shape())?;
    let outer: i64 = shape.iter().product();
    let mut owners = HashMap::new();
    for tile in 0..outer {
        for at in 0..inner {
            let value = zipped.apply(IntTuple::leaf(Int::new(at + tile * inner)))?;
            owners.entry(value.to_string()).or_insert_with(|| colour_number(tile, &shape));
        }
    }
    Ok(owners)
}

#[inline]
fn owned(mut section: Section, owners: &HashMap<String, i64>) -> Section {
    for cell in section.cells_mut() {
        cell.owner = cell.label.first().and_then(|label| owners.get(label)).copied();
    }
    section
}

/// Places the sections side by side, below their names.
#[inline]
fn joined(parts: [(&str, Section); 3], shading: Shading, owner: &'static str) -> Result<Scene> {
    let named = parts.map(|(role, section)| Section { role: role.to_owned(), ..section });
    let scene = Scene { sections: named.into(), shading, owner };
    scene.check_size()?;
    Ok(scene)
}

/// Draws the arguments and the result of a divide or product. Each element has the colour of its
/// tile in `zipped`.
#[inline]
fn by_owner(
    zipped: &Layout,
    [(role, input), tiler]: [(&str, Section); 2],
    (name, result): (&str, &Layout),
    owner: &'static str,
) -> Result<Scene> {
    let owners = owners(zipped)?;
    let (input, output) = (owned(input, &owners), owned(layout_section(result)?, &owners));
    joined([(role, input), tiler, (name, output)], Shading::Owner, owner)
}

impl Drawing {
    /// Draws a division: `layout`, `tiler` and `result` side by side, with one colour for the
    /// elements of each tile. `name` is the operation's name, which is shown above the result.
    ///
    /// The tiler is drawn as the elements of the first tile; for a tuple tiler these are
    /// coordinates of the layout.
    ///
    /// ```
    /// # use tilewright::layout::{Drawing, layout, tiler};
    /// let (a, tile) = (layout!((4, 8):(8, 1)), tiler!(2, 4));
    /// let picture = Drawing::divide("zipped_divide", &a, &tile, &a.zipped_divide(&tile)?);
    /// assert!(picture.text()?.contains("\ntiler  (2,4)\n"));
    /// assert!(picture.svg()?.contains("colour: tile"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// There is no picture if [`Layout::zipped_divide`] fails, or if `layout` has no picture.
    pub fn divide<'t>(
        name: &str,
        layout: &Layout,
        tiler: impl Into<TilerRef<'t>>,
        result: &Layout,
    ) -> Drawing {
        let tiler = tiler.into();
        let scene = layout_section(layout).and_then(|input| {
            let zipped = match tiler {
                TilerRef::Layout(tile) => layout.zipped_divide(tile)?,
                TilerRef::Tuple(tuple) => {
                    layout.zipped_divide(&whole(tuple, Some(layout.shape()))?)?
                }
            };
            let mut tile = layout_section(&as_layout(tiler, layout.shape())?)?;
            tile.notation = notation(tiler);
            tile.cells_mut().for_each(|cell| cell.owner = Some(0));
            by_owner(&zipped, [("layout", input), ("tiler", tile)], (name, result), "tile")
        });
        Drawing::new(result.to_string(), scene)
    }

    /// Draws a product: `layout`, `tiler` and `result` side by side, with one colour per repetition
    /// of the block. `name` is the operation's name, which is shown above the result.
    ///
    /// ```
    /// # use tilewright::layout::{Drawing, layout};
    /// let (block, tile) = (layout!((2, 2):(1, 2)), layout!((2, 3):(3, 1)));
    /// let raked = block.raked_product(&tile)?;
    /// let picture = Drawing::product("raked_product", &block, &tile, &raked);
    /// assert!(picture.text()?.starts_with("block  (2,2):(1,2)\n"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// There is no picture if [`Layout::zipped_product`] fails, or if a part has no picture.
    pub fn product<'t>(
        name: &str,
        layout: &Layout,
        tiler: impl Into<TilerRef<'t>>,
        result: &Layout,
    ) -> Drawing {
        let tiler = tiler.into();
        let scene = layout_section(layout).and_then(|input| {
            let zipped = match tiler {
                TilerRef::Layout(tile) => layout.zipped_product(tile)?,
                TilerRef::Tuple(tuple) => layout.zipped_product(&whole(tuple, None)?)?,
            };
            let one = IntTuple::leaf(Int::ONE);
            let repeat = as_layout(tiler, one.as_ref())?;
            let shape = extents(repeat.shape())?;
            let mut tile = layout_section(&repeat)?;
            tile.notation = notation(tiler);
            number_places(&mut tile, &shape);
            let arguments = [("block", input), ("tiler", tile)];
            by_owner(&zipped, arguments, (name, result), "copy of the block")
        });
        Drawing::new(result.to_string(), scene)
    }

    /// Draws a composition: `left`, `right` and `result` side by side. Each cell of `right` and of
    /// the result has the colour of its value in `left`.
    ///
    /// ```
    /// # use tilewright::layout::{Drawing, layout};
    /// let (a, b) = (layout!((6, 2):(8, 2)), layout!((4, 3):(3, 1)));
    /// let picture = Drawing::composition(&a, &b, &a.composition(&b)?);
    /// assert!(picture.text()?.contains("composition  ((2,2),3):((24,2),8)\n"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// There is no picture if a part has none.
    pub fn composition<'t>(
        left: &Layout,
        right: impl Into<TilerRef<'t>>,
        result: &Layout,
    ) -> Drawing {
        let tiler = right.into();
        let scene = layout_section(left).and_then(|input| {
            let mut right = layout_section(&as_layout(tiler, left.shape())?)?;
            right.notation = notation(tiler);
            let output = layout_section(result)?;
            // `right` and the result are nested alike down to `right`'s modes, so their positions
            // agree.
            let values_of = |section: &Section| -> HashMap<i64, Option<i64>> {
                let cells = section.tables.iter().flat_map(|table| &table.cells).flatten();
                cells.map(|cell| (cell.index, cell.value)).collect()
            };
            let values = values_of(&output);
            for cell in right.cells_mut() {
                cell.value = values.get(&cell.index).copied().flatten();
            }
            joined(
                [("left", input), ("right", right), ("composition", output)],
                Shading::Ramp,
                "value on the left",
            )
        });
        Drawing::new(result.to_string(), scene)
    }
}

/// Makes each position of a section its own owner.
#[inline]
fn number_places(section: &mut Section, shape: &[i64]) {
    for cell in section.cells_mut() {
        cell.owner = Some(colour_number(cell.index, shape));
    }
}
