//! [`NamedLayout`] is a layout whose modes have names.

use std::fmt;

use super::coord::{Coord, Slot};
use super::divide::Arrange;
use super::error::{LayoutError, NameError};
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::names::Names;
use super::tiler::TilerRef;
use super::tuple::{IntTuple, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

/// A layout whose modes have names. The names follow their modes through divides, products and
/// slices. They stand in the text of the layout, `(64,32):(32,1) of (m,k)`, and in the errors of
/// its operations.
///
/// | operation | names |
/// |---|---|
/// | each mode as its tile and its tiles: `logical_divide`, `blocked_product`, .. | those of the modes: `(m,k)` |
/// | `zipped_divide`, `zipped_product` | `((m,k),(tiles of m,tiles of k))` |
/// | `tiled_divide`, `tiled_product` | `((m,k),tiles of m,tiles of k)` |
/// | `flat_divide`, `flat_product` | `(m,k,tiles of m,tiles of k)` |
/// | any of these with a tiler of the whole | as for one mode, `(m,k)` |
/// | `slice` | those of the modes that stay; all parts of a mode have its name |
/// | `group_modes` | `(m,(n,k))` |
///
/// A [`Tensor`](crate::tensor::Tensor) of it has the same names.
///
/// ```
/// use tilewright::layout::{coord, layout, tiler};
///
/// let a = layout!((64, 32) : (32, 1)).named(["m", "k"])?;
/// let tiles = a.flat_divide(&tiler!(16, 8))?;
/// assert_eq!(tiles.to_string(), "(16,8,4,4):(32,1,512,8) of (m,k,tiles of m,tiles of k)");
/// assert_eq!(tiles.mode("tiles of k")?.to_string(), "4:8");
/// let column = tiles.slice_named([("tiles of k", 1), ("k", 0)])?;
/// assert_eq!(column.to_string(), "(16,4):(32,512) of (m,tiles of m)");
/// assert_eq!(a.slice(&coord!(3, _))?.to_string(), "(32):(1) of (k)");
///
/// let error = layout!((6, 32) : (32, 1)).named(["m", "k"])?.slice(&coord!((1, _), _)).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`slice` of (6,32):(32,1) of (m,k): in mode m: the tuple (1,_) stands where an integer is needed"
/// );
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NamedLayout {
    layout: Layout,
    names: Names,
}

impl Layout {
    /// The layout with a name for each of its modes.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, (2, 8)) : (2, (1, 8))).named(["m", "k"])?;
    /// assert_eq!(a.mode("k")?.to_string(), "(2,8):(1,8)");
    /// assert!(layout!((4, 8)).named(["m", "m"]).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Name`]: a number of names that is not the number of modes; a name that is empty, or stands twice.
    pub fn named<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<NamedLayout> {
        let names = Names::new(names, self.rank()).map_err(LayoutError::Name)?;
        Ok(NamedLayout { layout: self.clone(), names })
    }
}

impl NamedLayout {
    /// The layout without names.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8)).named(["m", "k"])?.layout(), &layout!((4, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The layout and the names.
    pub(crate) fn into_parts(self) -> (Layout, Names) {
        (self.layout, self.names)
    }

    /// The names, one for each mode.
    ///
    /// ```
    /// # use tilewright::layout::{layout, tiler};
    /// let a = layout!((4, 8)).named(["m", "k"])?.zipped_divide(&tiler!(2, 2))?;
    /// assert!(a.names().eq(["(m,k)", "(tiles of m,tiles of k)"]));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter()
    }

    /// The index of the mode `name`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8)).named(["m", "k"])?.index_of("k")?, 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Name`]: no mode has the name, or several have it.
    #[inline]
    pub fn index_of(&self, name: &str) -> Result<usize> {
        self.names.find(name).map_err(LayoutError::Name)
    }

    /// The mode `name`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8) : (8, 1)).named(["m", "k"])?;
    /// assert_eq!(a.mode("m")?.to_string(), "4:8");
    /// assert_eq!(a.mode("n").unwrap_err().to_string(), "no mode has the name `n`; the modes are (m,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`index_of`](NamedLayout::index_of).
    #[inline]
    pub fn mode(&self, name: &str) -> Result<LayoutRef<'_>> {
        self.layout.mode(&[self.index_of(name)?])
    }

    /// The coordinate with these indices in these modes and `_` in all others.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.coordinate([("batch", 2), ("m", 0)])?, coord!(0, _, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`index_of`](NamedLayout::index_of); a name that is given two positions.
    pub fn coordinate<'n, I: Into<Int>>(
        &self,
        positions: impl IntoIterator<Item = (&'n str, I)>,
    ) -> Result<Coord> {
        let mut slots = vec![Slot::All; self.layout.rank()];
        for (name, position) in positions {
            let mode = self.index_of(name)?;
            match slots.get_mut(mode) {
                Some(slot @ Slot::All) => *slot = Slot::At(position.into()),
                _ => return Err(LayoutError::Name(NameError::Repeated { name: name.to_owned() })),
            }
        }
        match (self.layout.is_leaf(), slots.as_slice()) {
            (true, [slot]) => Ok(Tuple::leaf(slot.clone())),
            _ => Tuple::from_items(slots.into_iter().map(Tuple::leaf)),
        }
    }

    /// The layout at indices of some modes: [`slice`](NamedLayout::slice) at
    /// [`coordinate`](NamedLayout::coordinate).
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.slice_named([("k", 2)])?.to_string(), "(4,3):(1,32) of (m,batch)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of both.
    pub fn slice_named<'n, I: Into<Int>>(
        &self,
        positions: impl IntoIterator<Item = (&'n str, I)>,
    ) -> Result<NamedLayout> {
        self.slice(&self.coordinate(positions)?)
    }

    /// [`Layout::slice`]: the modes at the `_` of a coordinate.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, (2, 8)) : (2, (1, 8))).named(["m", "k"])?;
    /// assert_eq!(a.slice(&coord!(1, (_, _)))?.to_string(), "(2,8):(1,8) of (k,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::slice`].
    #[inline]
    pub fn slice(&self, coord: &Coord) -> Result<NamedLayout> {
        let names = self.names.at(coord.as_ref());
        self.with("slice", true, self.layout.slice(coord), |_| names)
    }

    /// [`Layout::slice_and_offset`]: the slice and the index of its origin.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let (row, offset) = layout!((4, 8) : (8, 1)).named(["m", "k"])?.slice_and_offset(&coord!(3, _))?;
    /// assert_eq!((row.to_string(), offset.to_string()), ("(8):(1) of (k)".into(), "24".into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::slice_and_offset`].
    #[inline]
    pub fn slice_and_offset(&self, coord: &Coord) -> Result<(NamedLayout, IntTuple)> {
        let operation = "slice_and_offset";
        let found = self.layout.slice_and_offset(coord);
        let (layout, offset) = found.map_err(|error| self.failed(operation, true, error))?;
        let names = self.names.at(coord.as_ref());
        Ok((NamedLayout { layout, names }, offset))
    }

    /// [`Layout::group`]: the modes `begin..end` as one.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.group_modes(0, 2)?.to_string(), "((4,8),3):((1,4),32) of ((m,k),batch)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::group`].
    #[inline]
    pub fn group_modes(&self, begin: usize, end: usize) -> Result<NamedLayout> {
        let made = self.layout.group(begin, end);
        self.with("group_modes", true, made, |_| self.names.group(begin, end))
    }

    /// [`Layout::select`]: the modes `modes`, in that order.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.select(&[2, 0])?.to_string(), "(3,4):(32,1) of (batch,m)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::select`].
    #[inline]
    pub fn select(&self, modes: &[usize]) -> Result<NamedLayout> {
        self.with("select", true, self.layout.select(modes), |_| self.names.select(modes))
    }

    /// [`Layout::blocked_product`]: each mode of the block with the mode of the tiler.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 5) : (5, 1)).named(["m", "k"])?.blocked_product(&layout!((3, 4)))?;
    /// assert_eq!(l.to_string(), "((2,3),(5,4)):((5,10),(1,30)) of (m,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::blocked_product`].
    #[inline]
    pub fn blocked_product(&self, tiler: &Layout) -> Result<NamedLayout> {
        let made = self.layout.blocked_product(tiler);
        self.with("blocked_product", false, made, |made| self.names.interleaved(made.rank()))
    }

    /// [`Layout::raked_product`]: each mode of the tiler with the mode of the block.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 5) : (5, 1)).named(["m", "k"])?.raked_product(&layout!((3, 4)))?;
    /// assert_eq!(l.to_string(), "((3,2),(4,5)):((10,5),(30,1)) of (m,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Layout::raked_product`].
    #[inline]
    pub fn raked_product(&self, tiler: &Layout) -> Result<NamedLayout> {
        let made = self.layout.raked_product(tiler);
        self.with("raked_product", false, made, |made| self.names.interleaved(made.rank()))
    }

    /// The result of an operation with its names, or its error with those of the modes.
    fn with(
        &self,
        operation: &'static str,
        by_mode: bool,
        made: Result<Layout>,
        names: impl FnOnce(&Layout) -> Names,
    ) -> Result<NamedLayout> {
        let layout = made.map_err(|error| self.failed(operation, by_mode, error))?;
        let names = names(&layout);
        Ok(NamedLayout { layout, names })
    }

    /// The error of an operation. If it works `by_mode`, its paths are modes of this layout.
    #[inline]
    fn failed(&self, operation: &'static str, by_mode: bool, error: LayoutError) -> LayoutError {
        let mode = error.mode().filter(|_| by_mode).and_then(|path| {
            let mut indices = path.indices();
            let mut text = self.names().nth(indices.next()?)?.to_owned();
            indices.for_each(|index| text.push_str(&format!(".{index}")));
            Some(text)
        });
        let cause = if mode.is_some() { error.without_mode() } else { error };
        let layout = self.to_string();
        LayoutError::Named { operation, layout, mode, cause: Box::new(cause) }
    }
}

macro_rules! by_tiler {
    ($($name:ident, $logical:ident, $arrange:expr, $expected:literal;)*) => {
        /// Divides and products by a tiler: the layout is the result of the same operation of
        /// [`Layout`].
        impl NamedLayout {$(
            #[doc = concat!("[`Layout::", stringify!($name), "`].")]
            ///
            /// ```
            /// # use tilewright::layout::{layout, tiler};
            #[doc = concat!(
                "let l = layout!((4, 6)).named([\"m\", \"k\"])?.", stringify!($name), "(&tiler!(2, 3))?;"
            )]
            #[doc = concat!("assert_eq!(l.to_string(), \"", $expected, "\");")]
            /// # Ok::<(), tilewright::layout::LayoutError>(())
            /// ```
            ///
            /// # Errors
            #[doc = concat!("Those of [`Layout::", stringify!($name), "`], with the names.")]
            pub fn $name<'t>(&self, tiler: impl Into<TilerRef<'t>>) -> Result<NamedLayout> {
                let tiler = tiler.into();
                let by_mode = tiler.by_mode().is_some();
                self.with(stringify!($name), by_mode, self.layout.$name(tiler), |made| {
                    self.names.tiled($arrange, tiler, made, || self.layout.$logical(tiler))
                })
            }
        )*}
    };
}

by_tiler! {
    logical_divide, logical_divide, None, "((2,2),(3,2)):((1,2),(4,12)) of (m,k)";
    zipped_divide, logical_divide, Some(Arrange::Zipped),
        "((2,3),(2,2)):((1,4),(2,12)) of ((m,k),(tiles of m,tiles of k))";
    tiled_divide, logical_divide, Some(Arrange::Tiled),
        "((2,3),2,2):((1,4),2,12) of ((m,k),tiles of m,tiles of k)";
    flat_divide, logical_divide, Some(Arrange::Flat),
        "(2,3,2,2):(1,4,2,12) of (m,k,tiles of m,tiles of k)";
    logical_product, logical_product, None, "((4,2),(6,3)):((1,4),(4,1)) of (m,k)";
    zipped_product, logical_product, Some(Arrange::Zipped),
        "((4,6),(2,3)):((1,4),(4,1)) of ((m,k),(tiles of m,tiles of k))";
    tiled_product, logical_product, Some(Arrange::Tiled),
        "((4,6),2,3):((1,4),4,1) of ((m,k),tiles of m,tiles of k)";
    flat_product, logical_product, Some(Arrange::Flat),
        "(4,6,2,3):(1,4,4,1) of (m,k,tiles of m,tiles of k)";
}

impl From<NamedLayout> for Layout {
    fn from(named: NamedLayout) -> Layout {
        named.layout
    }
}

/// `(64,32):(32,1) of (m,k)`.
impl fmt::Display for NamedLayout {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.layout, self.names)
    }
}

impl fmt::Debug for NamedLayout {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}
