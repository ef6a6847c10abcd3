//! A scene: a picture before it has an output form, as tables of labelled cells. `picture.rs`
//! places it.

use super::super::error::LayoutError;
use super::super::tuple::{IntTuple, IntTupleRef};
use super::super::{Int, idx2crd};
use super::palette::Shading;

type Result<T> = std::result::Result<T, LayoutError>;

/// A picture. Its sections stand side by side.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scene {
    pub(super) sections: Vec<Section>,
    pub(super) shading: Shading,
    /// What a cell's owner is, in words, for the note on the colours.
    pub(super) owner: &'static str,
}

/// One object: one table, or from rank 3 on one table per slice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Section {
    /// The object's role in an operation, such as `layout` or `tiler`.
    pub(super) role: String,
    /// The object in CuTe's notation.
    pub(super) notation: String,
    /// The smallest cell width in text.
    pub(super) width: usize,
    pub(super) tables: Vec<Table>,
    /// How many tables stand side by side.
    pub(super) across: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    /// Names a slice, such as `(_,_,1)`.
    pub(super) caption: String,
    pub(super) rows: Axis,
    pub(super) columns: Axis,
    /// Row by row.
    pub(super) cells: Vec<Option<Cell>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) headers: Vec<String>,
    /// How many tile levels begin at each position; 0 inside the innermost tile.
    pub(super) levels: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cell {
    /// One or two lines.
    pub(super) label: Vec<String>,
    /// The position in the domain, with the first mode fastest.
    pub(super) index: i64,
    /// The full coordinate.
    pub(super) coord: String,
    pub(super) value: Option<i64>,
    pub(super) owner: Option<i64>,
}

/// The most cells that a picture may have.
pub(super) const MAX_CELLS: u64 = 1 << 14;
/// A vector of up to this length is one row. A longer one is folded.
const MAX_ROW: i64 = 32;
/// How long a folded row is.
const FOLD: i64 = 16;

impl Axis {
    /// Makes the axis of a mode, with its tile boundaries.
    #[inline]
    fn of(mode: IntTupleRef<'_>) -> Result<Self> {
        let (mut extent, mut tiles) = (1i64, Vec::new());
        for leaf in mode.leaves() {
            let next = extent
                .checked_mul(leaf.to_static()?)
                .ok_or_else(|| LayoutError::overflow("the size of a layout"))?;
            if extent > 1 && next > extent {
                tiles.push(extent);
            }
            extent = next;
        }
        let level = |at: i64| tiles.iter().filter(|&tile| at > 0 && at % tile == 0).count();
        Ok(Self {
            headers: (0..extent).map(|at| at.to_string()).collect(),
            levels: (0..extent).map(|at| u8::try_from(level(at)).unwrap_or(u8::MAX)).collect(),
        })
    }

    fn plain(headers: Vec<String>) -> Self {
        Self { levels: vec![0; headers.len()], headers }
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }
}

/// Returns the size of each mode. The shape must be static and positive, with at most [`MAX_CELLS`]
/// cells.
pub(super) fn extents(shape: IntTupleRef<'_>) -> Result<Vec<i64>> {
    if let Some(extent) = shape.leaves().iter().find(|extent| extent.bounds().1 < 1) {
        return Err(LayoutError::ExtentNotPositive { extent: extent.clone() });
    }
    let mut size = 1i64;
    let mut extents = Vec::new();
    for mode in shape.children() {
        let mut extent = 1i64;
        for leaf in mode.leaves() {
            // A product that does not fit in 64 bits is too large anyway.
            extent = extent.saturating_mul(leaf.to_static()?);
        }
        size = size.saturating_mul(extent);
        extents.push(extent);
    }
    if size.unsigned_abs() > MAX_CELLS {
        return Err(super::too_many_cells());
    }
    Ok(extents)
}

/// Returns a domain's tables, and how many of them stand side by side. Calls `cell` with each
/// position, in order with the first mode fastest, and its coordinate.
pub(super) fn tables(
    shape: &IntTuple,
    mut cell: impl FnMut(i64, String) -> Result<Option<Cell>>,
) -> Result<(Vec<Table>, usize)> {
    let extents = extents(shape.as_ref())?;
    let size: i64 = extents.iter().product();
    let mut cells = Vec::new();
    for at in 0..size {
        let coord = idx2crd(&IntTuple::leaf(Int::new(at)), shape)?;
        cells.push(cell(at, coord.to_string())?);
    }
    let modes: Vec<IntTupleRef<'_>> = shape.children().collect();
    let (first, second) = match (modes.first(), modes.get(1)) {
        (Some(first), Some(second)) => (*first, *second),
        (mode, _) => return Ok((vec![vector(mode.copied(), size, cells)?], 1)),
    };
    let (rows, columns) = (Axis::of(first)?, Axis::of(second)?);
    let area = rows.len() * columns.len();
    let outer: Vec<i64> = extents.iter().skip(2).copied().collect();
    let slices = cells.chunks(area.max(1)).enumerate().map(|(slice, cells)| Table {
        caption: caption(&outer, slice),
        cells: (0..area)
            .map(|at| {
                let (row, column) = (at / columns.len(), at % columns.len());
                cells.get(row + column * rows.len()).cloned().flatten()
            })
            .collect(),
        rows: rows.clone(),
        columns: columns.clone(),
    });
    let across = outer.first().and_then(|extent| usize::try_from(*extent).ok()).unwrap_or(1);
    Ok((slices.collect(), across))
}

/// Makes the table of a domain with one mode.
#[inline]
fn vector(mode: Option<IntTupleRef<'_>>, size: i64, mut cells: Vec<Option<Cell>>) -> Result<Table> {
    let caption = String::new();
    if size <= MAX_ROW {
        let columns = match mode {
            Some(mode) => Axis::of(mode)?,
            None => Axis::plain(vec!["0".to_owned()]),
        };
        return Ok(Table { caption, rows: Axis::plain(vec![String::new()]), columns, cells });
    }
    let starts: Vec<i64> = (0..size).step_by(FOLD as usize).collect();
    cells.resize(starts.len() * FOLD as usize, None);
    let rows = Axis::plain(starts.iter().map(i64::to_string).collect());
    let columns = Axis::plain((0..FOLD).map(|at| format!("+{at}")).collect());
    Ok(Table { caption, rows, columns, cells })
}

/// Returns the slice's coordinates in the modes after the first two, for example `(_,_,1,2)`.
fn caption(outer: &[i64], slice: usize) -> String {
    if outer.is_empty() {
        return String::new();
    }
    let mut rest = i64::try_from(slice).unwrap_or(i64::MAX);
    let mut text = "(_,_".to_owned();
    for extent in outer {
        text.push_str(&format!(",{}", rest % extent));
        rest /= extent;
    }
    text.push(')');
    text
}

impl Section {
    pub(super) fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        self.tables.iter_mut().flat_map(|table| &mut table.cells).flatten()
    }
}

impl Scene {
    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.sections.iter().flat_map(|s| &s.tables).flat_map(|t| &t.cells).flatten()
    }

    /// Returns the smallest and the largest value.
    #[inline]
    pub(super) fn range(&self) -> (i64, i64) {
        let values = || self.cells().filter_map(|cell| cell.value);
        (values().min().unwrap_or(0), values().max().unwrap_or(0))
    }

    /// Returns an error if there are more cells than a picture may have.
    pub(super) fn check_size(&self) -> Result<()> {
        let cells: usize =
            self.sections.iter().flat_map(|s| &s.tables).map(|t| t.cells.len()).sum();
        if u64::try_from(cells).unwrap_or(u64::MAX) > MAX_CELLS {
            return Err(super::too_many_cells());
        }
        Ok(())
    }

    pub(super) fn note(&self) -> Option<String> {
        self.shading.note(self.owner)
    }
}
