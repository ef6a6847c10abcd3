//! Draws layouts, swizzles and operations as text, SVG and LaTeX.
//!
//! Each picture is a scene (`scene.rs`: tables of labelled cells). `text.rs` prints it in the form
//! of CuTe's `print_layout`; `picture.rs` places it on whole pixels for `svg.rs` and `latex.rs`.
//! The same scene gives the same bytes on every platform.

mod latex;
mod operation;
mod palette;
mod picture;
mod scene;
mod svg;
mod swizzle;
mod text;
mod thread_value;

pub use palette::Shading;
#[cfg(feature = "tune")]
pub(crate) use svg::{SANS, escaped};

use std::fmt;

use super::error::LayoutError;
use super::tuple::IntTuple;
use super::{Int, Layout, crd2idx};
use picture::Picture;
use scene::{Cell, MAX_CELLS, Scene, Section, Table, tables};

type Result<T> = std::result::Result<T, LayoutError>;

/// A picture of a layout, a swizzle or an operation, independent of its output form.
///
/// It prints as text; [`svg`](Drawing::svg) and [`latex`](Drawing::latex) are the forms to publish.
/// A layout of rank 2 is one table, the first mode downwards. A layout of rank 1 is one row, folded
/// into rows of 16 from 33 entries on. A higher rank has a table for each coordinate of the modes
/// after the second. In SVG and LaTeX a wider line shows the start of a tile: `(2,4)` as a mode is
/// four tiles of two.
///
/// A layout with symbols, or with more than [`MAX_CELLS`](Drawing::MAX_CELLS) cells, has no
/// picture: [`text`](Drawing::text), [`svg`](Drawing::svg) and [`latex`](Drawing::latex) return the
/// [`LayoutError`], and `Display` prints the layout and the reason instead.
///
/// ```
/// use tilewright::layout::{Drawing, LayoutError, layout, shape, Int, Layout};
/// let a = layout!((2, (2, 2)):(1, (4, 2)));
/// assert_eq!(
///     a.draw().to_string(),
///     "\
/// (2,(2,2)):(1,(4,2))
///       0   1   2   3
///     +---+---+---+---+
///  0  | 0 | 4 | 2 | 6 |
///     +---+---+---+---+
///  1  | 1 | 5 | 3 | 7 |
///     +---+---+---+---+"
/// );
/// assert!(a.draw().svg()?.starts_with("<svg"));
///
/// let dynamic = Layout::compact(shape!(Int::symbol("n"), 8)).draw();
/// assert_eq!(dynamic.svg(), Err(LayoutError::NotStatic { value: "n".into() }));
/// assert!(dynamic.to_string().starts_with("(n,8):(1,n)\nno picture: n is not a number"));
/// let large = layout!((1000, 1000)).draw().svg();
/// assert!(matches!(large, Err(LayoutError::TooLarge { limit: Drawing::MAX_CELLS, .. })));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Drawing {
    subject: String,
    scene: Result<Scene>,
}

/// The error for a picture of too many cells.
fn too_many_cells() -> LayoutError {
    LayoutError::TooLarge { what: "the number of cells of the picture", limit: MAX_CELLS }
}

impl Drawing {
    /// The largest number of cells in one picture.
    ///
    /// ```
    /// # use tilewright::layout::{Drawing, layout};
    /// assert_eq!(Drawing::MAX_CELLS, 16_384);
    /// assert!(layout!((128, 128)).draw().svg().is_ok() && layout!((128, 129)).draw().svg().is_err());
    /// ```
    pub const MAX_CELLS: u64 = MAX_CELLS;

    fn new(subject: String, scene: Result<Scene>) -> Self {
        Self { subject, scene }
    }

    /// The picture as text: for each table its rows between rules, with the numbers of rows and columns.
    ///
    /// A table of rank 2 is CuTe's `print_layout` without spaces at the ends of lines. Columns are
    /// wider than CuTe's if its header has numbers of four digits. There is no line feed at the
    /// end.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let text = layout!((2, 2):(2, 1)).draw().text()?;
    /// assert_eq!(text.lines().next(), Some("(2,2):(2,1)"));
    /// assert_eq!(text.lines().nth(3), Some(" 0  | 0 | 1 |"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotStatic`], [`LayoutError::TooLarge`], [`LayoutError::ExtentNotPositive`],
    /// and the errors of the operations in the picture.
    #[inline]
    pub fn text(&self) -> Result<String> {
        self.scene.as_ref().map(text::text).map_err(Clone::clone)
    }

    /// The picture as an SVG document.
    ///
    /// Coordinates are whole pixels and fonts are those of the viewer (Helvetica or Arial; Menlo,
    /// Consolas or DejaVu Sans Mono for layouts). Each cell is a group with the coordinate and the
    /// label as its title; viewers show it at the pointer.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let svg = layout!((2, 2):(2, 1)).draw().svg()?;
    /// assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`text`](Drawing::text).
    #[inline]
    pub fn svg(&self) -> Result<String> {
        let (scene, note) = self.parts()?;
        Ok(svg::svg(&Picture::of(scene, note.as_deref()), &self.subject))
    }

    /// The picture as a LaTeX document of the class `standalone`, drawn with TikZ: for pdfLaTeX, LuaLaTeX
    /// and XeLaTeX, without further packages.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let latex = layout!((2, 2):(2, 1)).draw().latex()?;
    /// assert!(latex.contains("\\begin{tikzpicture}") && latex.trim_end().ends_with("\\end{document}"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`text`](Drawing::text).
    #[inline]
    pub fn latex(&self) -> Result<String> {
        let (scene, note) = self.parts()?;
        Ok(latex::latex(&Picture::of(scene, note.as_deref()), &self.subject))
    }

    #[inline]
    fn parts(&self) -> Result<(&Scene, Option<String>)> {
        let scene = self.scene.as_ref().map_err(Clone::clone)?;
        Ok((scene, scene.note()))
    }

    /// The same picture with other colours.
    ///
    /// ```
    /// # use tilewright::layout::{Shading, layout};
    /// let rows = layout!((8, 8):(8, 1)).draw().shaded(Shading::Cycle { run: 8, period: 8 });
    /// assert_eq!(rows.svg()?.matches("fill=\"#77AADD\"").count(), 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn shaded(mut self, shading: Shading) -> Self {
        if let Ok(scene) = &mut self.scene {
            scene.shading = shading;
        }
        self
    }

    /// The pictures side by side, each below its name, in the colours of the first.
    ///
    /// ```
    /// # use tilewright::layout::{Drawing, layout, tiler};
    /// let a = layout!((4, 6):(1, 4));
    /// let tiled = a.zipped_divide(&tiler!(2, 3))?;
    /// let picture = Drawing::beside([("layout", a.draw()), ("zipped_divide", tiled.draw())]);
    /// assert!(picture.text()?.contains("\nzipped_divide  ((2,3),(2,2)):((1,4),(2,12))\n"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// The picture fails with the first error of its parts, and with [`LayoutError::TooLarge`] if
    /// there are too many cells together.
    pub fn beside<'a>(parts: impl IntoIterator<Item = (&'a str, Drawing)>) -> Self {
        let mut subjects = Vec::new();
        let mut joined: Option<Result<Scene>> = None;
        for (role, part) in parts {
            subjects.push(part.subject);
            let scene = part.scene.map(|mut scene| {
                for section in &mut scene.sections {
                    role.clone_into(&mut section.role);
                }
                scene
            });
            joined = Some(match (joined, scene) {
                (None, scene) => scene,
                (Some(Ok(mut first)), Ok(next)) => {
                    first.sections.extend(next.sections);
                    Ok(first)
                }
                (Some(Err(error)), _) | (Some(Ok(_)), Err(error)) => Err(error),
            });
        }
        let empty = Scene { sections: Vec::new(), shading: Shading::Plain, owner: "" };
        let joined = joined.unwrap_or(Ok(empty));
        let joined = joined.and_then(|scene| scene.check_size().map(|()| scene));
        Self::new(subjects.join(", "), joined)
    }
}

impl fmt::Display for Drawing {
    /// The text, or the layout and the reason that it has no picture.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "{}\nno picture: {error}", self.subject),
        }
    }
}

/// A section without a role.
fn section(notation: String, width: usize, (tables, across): (Vec<Table>, usize)) -> Section {
    Section { role: String::new(), notation, width, tables, across }
}

/// The picture of a function on a shape, with integers or coordinates as values. `width` is the
/// smallest width of a cell in text; `coshape` is the shape of the values for colours of
/// coordinates.
fn values(
    notation: String,
    shape: &IntTuple,
    width: usize,
    coshape: Option<&IntTuple>,
    mut f: impl FnMut(i64) -> Result<IntTuple>,
) -> Result<Section> {
    let tables = tables(shape, |at, coord| {
        let result = f(at)?;
        let value = result.as_static().or_else(|| {
            let index = crd2idx(&result, coshape?).ok()?;
            index.as_static()
        });
        Ok(Some(Cell { label: vec![result.to_string()], index: at, coord, value, owner: None }))
    })?;
    Ok(section(notation, width, tables))
}

/// The section of a layout.
#[inline]
fn layout_section(layout: &Layout) -> Result<Section> {
    let shape = layout.shape().to_owned();
    let coshape = layout.coshape().ok();
    // CuTe makes the cells as wide as the digits of the cosize.
    let cosize = coshape.as_ref().and_then(IntTuple::as_static);
    let width = cosize.map_or(0, |cosize| cosize.to_string().len());
    scene::extents(layout.shape())?;
    if let Some(stride) = layout.stride().leaves().iter().find(|stride| !stride.is_static()) {
        return Err(LayoutError::NotStatic { value: stride.to_string() });
    }
    values(layout.to_string(), &shape, width, coshape.as_ref(), |at| {
        layout.apply(IntTuple::leaf(Int::new(at)))
    })
}

impl Layout {
    /// The picture of the layout: each coordinate with its index, from light to dark in the order
    /// of the indices. A layout of basis strides shows the coordinates that it maps to.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout};
    /// assert_eq!(
    ///     Layout::identity((2, 2))?.draw().text()?,
    ///     "\
    /// (2,2):(1@0,1@1)
    ///           0       1
    ///     +-------+-------+
    ///  0  | (0,0) | (0,1) |
    ///     +-------+-------+
    ///  1  | (1,0) | (1,1) |
    ///     +-------+-------+"
    /// );
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn draw(&self) -> Drawing {
        let scene = layout_section(self).map(|section| Scene {
            sections: vec![section],
            shading: Shading::Ramp,
            owner: "",
        });
        Drawing::new(self.to_string(), scene)
    }
}
