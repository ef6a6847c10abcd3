//! Places a scene on whole pixels, as rectangles and texts, for both SVG and LaTeX.
//!
//! The lines of a table are gaps between its cells, over a dark rectangle. So all edges are on
//! whole pixels, and there is no stroke that a renderer could blur. The gap is wider where a tile
//! starts.

use super::palette::{Colour, FAINT, INK, LINE};
use super::scene::{Axis, Cell, Scene, Section, Table};

/// A picture of `width` by `height` pixels.
pub(super) struct Picture<'a> {
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) items: Vec<Item<'a>>,
}

pub(super) enum Item<'a> {
    /// The dark rectangle below the cells of a table.
    Ground { at: Rect, colour: Colour },
    /// A cell of a table, or `None` if the table has a hole there.
    Cell { at: Rect, colour: Colour, cell: Option<&'a Cell> },
    /// A text with its baseline at `y`.
    Text { x: i64, y: i64, style: Style, text: &'a str },
}

#[derive(Clone, Copy)]
pub(super) struct Rect {
    pub(super) x: i64,
    pub(super) y: i64,
    pub(super) width: i64,
    pub(super) height: i64,
}

/// How a text looks, and which point of it is at `x`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// A layout in CuTe's notation; its left end.
    Notation,
    /// A section's role; its left end.
    Role,
    /// A note below the picture; its left end.
    Note,
    /// A slice's caption; its middle.
    Caption,
    /// A column index; its middle.
    Column,
    /// A row index; its right end.
    Row,
    /// A cell's label; its middle.
    Label,
    /// The second line of a label; its middle.
    Detail,
}

impl Style {
    /// Returns the font size in pixels.
    pub(super) fn size(self) -> i64 {
        match self {
            Style::Notation | Style::Role | Style::Label => 14,
            Style::Note | Style::Caption | Style::Column | Style::Row => 12,
            Style::Detail => 11,
        }
    }

    pub(super) fn colour(self) -> Colour {
        match self {
            Style::Notation | Style::Role | Style::Label | Style::Detail => INK,
            Style::Note | Style::Caption | Style::Column | Style::Row => FAINT,
        }
    }

    pub(super) fn is_monospaced(self) -> bool {
        matches!(self, Style::Notation | Style::Caption)
    }

    /// Returns an upper bound on the text's width in all common fonts.
    fn width(self, text: &str) -> i64 {
        let letters = i64::try_from(text.chars().count()).unwrap_or(i64::MAX >> 16);
        // 0.61 of the font size per letter: what monospaced fonts need, and more than digits and
        // most letters need in other fonts.
        (letters * self.size() * 61 + 99) / 100
    }
}

/// The empty border around the picture, and the gap between a table and its headers.
const MARGIN: i64 = 12;
const HEADER_GAP: i64 = 6;
/// The gaps between sections, and between the slices of a section.
const SECTION_GAP: i64 = 40;
const SLICE_GAP: i64 = 24;
/// The heights of text lines.
const ROLE_HEIGHT: i64 = 22;
const NOTATION_HEIGHT: i64 = 28;
const CAPTION_HEIGHT: i64 = 20;
const HEADER_HEIGHT: i64 = 20;
const NOTE_HEIGHT: i64 = 30;
/// The heights of cells with one line and with two.
const CELL: i64 = 34;
const TALL_CELL: i64 = 42;

/// The size that all cells share.
struct CellSize {
    width: i64,
    height: i64,
}

impl CellSize {
    #[inline]
    fn of(scene: &Scene) -> Self {
        let lines = scene.cells().map(|cell| cell.label.len()).max().unwrap_or(1);
        let height = if lines > 1 { TALL_CELL } else { CELL };
        let labels = scene.cells().flat_map(|cell| &cell.label);
        let label = labels.map(|text| Style::Label.width(text)).max().unwrap_or(0);
        let headers = scene.sections.iter().flat_map(|s| &s.tables);
        let headers = headers.flat_map(|table| &table.columns.headers);
        let header = headers.map(|text| Style::Column.width(text)).max().unwrap_or(0);
        let width = (label + 10).max(header + 4).max(height);
        // Even, so that the middle is on a whole pixel.
        Self { width: width + width % 2, height }
    }
}

/// Returns where the cells start along an axis, and the axis length with the lines at both ends.
fn positions(axis: &Axis, size: i64) -> (Vec<i64>, i64) {
    const EDGE: i64 = 2;
    let mut end = EDGE;
    let mut starts = Vec::with_capacity(axis.len());
    for (i, level) in axis.levels.iter().enumerate() {
        if i > 0 {
            end += 1 + 2 * i64::from(*level).min(2);
        }
        starts.push(end);
        end += size;
    }
    (starts, end + EDGE)
}

impl<'a> Picture<'a> {
    #[inline]
    pub(super) fn of(scene: &'a Scene, note: Option<&'a str>) -> Self {
        let mut picture = Picture { width: 0, height: 0, items: Vec::new() };
        let size = CellSize::of(scene);
        let roles = scene.sections.iter().any(|section| !section.role.is_empty());
        let top = MARGIN + if roles { ROLE_HEIGHT } else { 0 };
        let mut x = MARGIN;
        for section in &scene.sections {
            if !section.role.is_empty() {
                picture.text(x, MARGIN + 14, Style::Role, &section.role);
            }
            x = picture.section(scene, section, &size, x, top) + SECTION_GAP;
        }
        if let Some(note) = note {
            let y = picture.height + NOTE_HEIGHT;
            picture.text(MARGIN, y - 6, Style::Note, note);
            picture.height = y;
        }
        picture.width += MARGIN;
        picture.height += MARGIN;
        picture
    }

    fn grow(&mut self, right: i64, bottom: i64) {
        self.width = self.width.max(right);
        self.height = self.height.max(bottom);
    }

    fn text(&mut self, x: i64, y: i64, style: Style, text: &'a str) -> i64 {
        let width = style.width(text);
        let right = match style {
            Style::Notation | Style::Role | Style::Note => x + width,
            Style::Caption | Style::Column | Style::Label | Style::Detail => x + width / 2,
            Style::Row => x,
        };
        self.grow(right, y);
        self.items.push(Item::Text { x, y, style, text });
        right
    }

    /// Places a section and returns its right end.
    #[inline]
    fn section(
        &mut self,
        scene: &Scene,
        section: &'a Section,
        size: &CellSize,
        x: i64,
        y: i64,
    ) -> i64 {
        let mut end = self.text(x, y + 14, Style::Notation, &section.notation);
        if !section.role.is_empty() {
            end = end.max(x + Style::Role.width(&section.role));
        }
        let mut top = y + NOTATION_HEIGHT;
        for row in section.tables.chunks(section.across.max(1)) {
            let (mut left, mut bottom) = (x, top);
            for table in row {
                let corner = self.table(scene, table, size, left, top);
                end = end.max(corner.0);
                left = corner.0 + SLICE_GAP;
                bottom = bottom.max(corner.1);
            }
            top = bottom + SLICE_GAP;
        }
        end
    }

    /// Places a table with its headers and returns its lower right corner.
    #[inline]
    fn table(
        &mut self,
        scene: &Scene,
        table: &'a Table,
        size: &CellSize,
        x: i64,
        y: i64,
    ) -> (i64, i64) {
        let caption = if table.caption.is_empty() { 0 } else { CAPTION_HEIGHT };
        let widest = table.rows.headers.iter().map(|text| Style::Row.width(text)).max();
        let header = widest.map_or(0, |width| if width == 0 { 0 } else { width + HEADER_GAP });
        let (left, top) = (x + header, y + caption + HEADER_HEIGHT);
        let (columns, width) = positions(&table.columns, size.width);
        let (rows, height) = positions(&table.rows, size.height);

        if !table.caption.is_empty() {
            self.text(left + width / 2, y + 12, Style::Caption, &table.caption);
        }
        for (at, text) in columns.iter().zip(&table.columns.headers) {
            self.text(left + at + size.width / 2, top - HEADER_GAP, Style::Column, text);
        }
        for (at, text) in rows.iter().zip(&table.rows.headers) {
            if !text.is_empty() {
                let y = top + at + size.height / 2 + 4;
                self.text(left - HEADER_GAP, y, Style::Row, text);
            }
        }
        let at = Rect { x: left, y: top, width, height };
        self.items.push(Item::Ground { at, colour: LINE });
        self.grow(left + width, top + height);
        let range = scene.range();
        let mut cells = table.cells.iter();
        for y in &rows {
            for (x, cell) in columns.iter().zip(cells.by_ref()) {
                let at = Rect { x: left + x, y: top + y, width: size.width, height: size.height };
                let (value, owner) = cell.as_ref().map_or((None, None), |c| (c.value, c.owner));
                let colour = scene.shading.colour(value, owner, range);
                self.items.push(Item::Cell { at, colour, cell: cell.as_ref() });
            }
        }
        (left + width, top + height)
    }
}

/// Returns the style and the baseline (from the cell's upper edge) for each of `lines` label lines.
pub(super) fn lettering(height: i64, lines: usize) -> &'static [(Style, i64)] {
    match (lines, height) {
        (0, _) => &[],
        (1, CELL) => &[(Style::Label, 22)],
        (1, _) => &[(Style::Label, 26)],
        _ => &[(Style::Label, 19), (Style::Detail, 34)],
    }
}
