//! Draws layouts, swizzles and operations as text, SVG and LaTeX. Use it to see what a layout does,
//! for example in a document or while you design a kernel.
//!
//! A picture starts as a scene (`scene.rs`): tables of labelled cells. `text.rs` prints it like
//! CuTe's `print_layout`. For `svg.rs` and `latex.rs`, `picture.rs` first places it on whole
//! pixels. The same scene gives the same bytes on every platform, so you can compare pictures in
//! tests.

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

use std::fmt;

use super::error::LayoutError;
use super::tuple::IntTuple;
use super::{Int, Layout, crd2idx};
use picture::Picture;
use scene::{Cell, MAX_CELLS, Scene, Section, Table, tables};

type Result<T> = std::result::Result<T, LayoutError>;

/// A picture of a layout, a swizzle or an operation, in any of the three output forms. You get one
/// from `draw` of a layout or swizzle, from [`Layout::draw_tv`], or from the functions here for
/// operations.
///
/// It prints as text. To publish it, use [`svg`](Drawing::svg) or [`latex`](Drawing::latex). A
/// layout of rank 2 is one table with the first mode downwards. A layout of rank 1 is one row, or
/// rows of 16 if it has more than 32 entries. From rank 3 on there is one table per coordinate of
/// the other modes. In SVG and LaTeX a wider line shows where a tile starts; for example, the mode
/// `(2,4)` is four tiles of two.
///
/// A layout with symbols, or with more than [`MAX_CELLS`](Drawing::MAX_CELLS) cells, has no
/// picture. Then [`text`](Drawing::text), [`svg`](Drawing::svg) and [`latex`](Drawing::latex)
/// return the [`LayoutError`], and `Display` prints the layout and the reason instead.
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
/// assert!(dynamic.to_string().starts_with("(n,8):(1,n)\nno picture: n is not static"));
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

/// The error for a picture with too many cells.
fn too_many_cells() -> LayoutError {
    LayoutError::TooLarge { what: "the number of cells of the picture", limit: MAX_CELLS }
}

impl Drawing {
    /// The most cells that a picture may have: 16384. A layout with more coordinates has no
    /// picture, so draw a part of it.
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

    /// Returns the picture as text: the rows of each table between rules, with row and column
    /// indices.
    ///
    /// A table of rank 2 looks like CuTe's `print_layout`, but has no spaces at line ends, and its
    /// columns are wider if a column index has four digits. There is no newline at the end.
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
    /// Returns [`LayoutError::NotStatic`] if there are symbols, [`LayoutError::TooLarge`] if there
    /// are too many cells, [`LayoutError::ExtentNotPositive`], or the error of an operation in the
    /// picture.
    #[inline]
    pub fn text(&self) -> Result<String> {
        self.scene.as_ref().map(text::text).map_err(Clone::clone)
    }

    /// Returns the picture as an SVG document.
    ///
    /// Coordinates are whole pixels. Fonts are the viewer's: Helvetica or Arial, and Menlo,
    /// Consolas or DejaVu Sans Mono for layouts. If you point at a cell, the viewer shows its
    /// coordinate and label.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let svg = layout!((2, 2):(2, 1)).draw().svg()?;
    /// assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`text`](Drawing::text).
    #[inline]
    pub fn svg(&self) -> Result<String> {
        let (scene, note) = self.parts()?;
        Ok(svg::svg(&Picture::of(scene, note.as_deref()), &self.subject))
    }

    /// Returns the picture as a LaTeX document of the class `standalone`, drawn with TikZ. You can
    /// compile it with pdfLaTeX, LuaLaTeX or XeLaTeX, and it needs no other packages.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let latex = layout!((2, 2):(2, 1)).draw().latex()?;
    /// assert!(latex.contains("\\begin{tikzpicture}") && latex.trim_end().ends_with("\\end{document}"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`text`](Drawing::text).
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

    /// Colours the cells by `shading` instead of the picture's own colours, for example by the
    /// shared-memory bank of each element.
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

    /// Places pictures side by side, each below its name, in the colours of the first. Use it to
    /// compare layouts.
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
    /// If a part has no picture, the result has none either and keeps the first error. With too
    /// many cells in total, the error is [`LayoutError::TooLarge`].
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
    /// Prints the text, or the layout and the reason why it has no picture.
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Ok(text) => f.write_str(&text),
            Err(error) => write!(f, "{}\nno picture: {error}", self.subject),
        }
    }
}

/// Makes a section without a role.
fn section(notation: String, width: usize, (tables, across): (Vec<Table>, usize)) -> Section {
    Section { role: String::new(), notation, width, tables, across }
}

/// Draws a function on a shape, whose values are integers or coordinates. `width` is the smallest
/// cell width in text. `coshape` is the shape of the values, for colouring coordinates.
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

/// Makes a layout's section.
#[inline]
fn layout_section(layout: &Layout) -> Result<Section> {
    let shape = layout.shape().to_owned();
    let coshape = layout.coshape().ok();
    // CuTe makes the cells as wide as the cosize has digits.
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

/// # Drawings
///
/// Shows which index each coordinate has.
impl Layout {
    /// Draws the layout: each coordinate with its index, coloured from light to dark by index. If
    /// the strides are basis elements, each cell shows the coordinate that it maps to.
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
