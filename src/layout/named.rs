//! [`NamedLayout`] is a layout whose modes have names, such as `m` and `k`. Use it if you lose
//! track of what each mode of a divided tensor means.

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

/// A layout whose modes have names. Use it if you want to select modes by name and to read names in
/// error messages; otherwise a [`Layout`] is simpler and has all operations.
///
/// The names follow their modes through divides, products and slices. They are printed with the
/// layout, `(64,32):(32,1) of (m,k)`, and in the errors of its operations.
///
/// | operation | names |
/// |---|---|
/// | `logical_divide`, `blocked_product`, .., which put each mode's tile and tiles into one mode | `(m,k)`, as before |
/// | `zipped_divide`, `zipped_product` | `((m,k),(tiles of m,tiles of k))` |
/// | `tiled_divide`, `tiled_product` | `((m,k),tiles of m,tiles of k)` |
/// | `flat_divide`, `flat_product` | `(m,k,tiles of m,tiles of k)` |
/// | any of these with a tiler for the whole layout | as if there were one mode, called `(m,k)` |
/// | `slice` | those of the modes that stay; if several parts of a mode stay, all have its name |
/// | `group_modes` | `(m,(n,k))` |
///
/// A [`Tensor`](crate::tensor::view::Tensor) with this layout has the same names.
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
///     "`slice` of (6,32):(32,1) of (m,k): in mode m: expected an integer, but found the tuple \
///      (1,_)"
/// );
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NamedLayout {
    layout: Layout,
    names: Names,
}

/// # Mode names
///
/// Lets you select modes by name.
impl Layout {
    /// Gives each mode a name, such as `["m", "k"]`, so that you can select modes by name and
    /// errors mention them.
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
    /// Returns [`LayoutError::Name`] if there is not one name per mode, or if a name is empty or
    /// occurs twice.
    pub fn named<N: Into<String>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<NamedLayout> {
        let names = Names::new(names, self.rank()).map_err(LayoutError::Name)?;
        Ok(NamedLayout { layout: self.clone(), names })
    }
}

impl NamedLayout {
    /// Returns the layout without names. Use it for operations that only [`Layout`] has.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8)).named(["m", "k"])?.layout(), &layout!((4, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Takes the layout and the names apart.
    pub(crate) fn into_parts(self) -> (Layout, Names) {
        (self.layout, self.names)
    }

    /// Iterates over the names, one for each mode, in the order of the modes.
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

    /// Returns the index of the mode `name`. Use it for operations that take a mode by its index.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8)).named(["m", "k"])?.index_of("k")?, 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Name`] if no mode or more than one mode has the name.
    #[inline]
    pub fn index_of(&self, name: &str) -> Result<usize> {
        self.names.find(name).map_err(LayoutError::Name)
    }

    /// Borrows the mode `name`, for example to ask for its size.
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
    /// The same as [`index_of`](NamedLayout::index_of).
    #[inline]
    pub fn mode(&self, name: &str) -> Result<LayoutRef<'_>> {
        self.layout.mode(&[self.index_of(name)?])
    }

    /// Returns the coordinate with these indices in the named modes, and `_` in all others. Use it
    /// to slice without counting modes.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.coordinate([("batch", 2), ("m", 0)])?, coord!(0, _, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`index_of`](NamedLayout::index_of), and [`LayoutError::Name`] if a name occurs
    /// twice.
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

    /// Slices the layout at these indices in the named modes, and keeps all other modes. For
    /// example, it picks one matrix of a batch.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.slice_named([("k", 2)])?.to_string(), "(4,3):(1,32) of (m,batch)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`coordinate`](NamedLayout::coordinate) and [`slice`](NamedLayout::slice).
    pub fn slice_named<'n, I: Into<Int>>(
        &self,
        positions: impl IntoIterator<Item = (&'n str, I)>,
    ) -> Result<NamedLayout> {
        self.slice(&self.coordinate(positions)?)
    }

    /// Keeps the modes at the `_` of a coordinate with their names, as [`Layout::slice`] does. To
    /// name the fixed modes instead, use [`slice_named`](NamedLayout::slice_named).
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let a = layout!((4, (2, 8)) : (2, (1, 8))).named(["m", "k"])?;
    /// assert_eq!(a.slice(&coord!(1, (_, _)))?.to_string(), "(2,8):(1,8) of (k,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::slice`].
    #[inline]
    pub fn slice(&self, coord: &Coord) -> Result<NamedLayout> {
        let names = self.names.at(coord.as_ref());
        self.with("slice", true, self.layout.slice(coord), |_| names)
    }

    /// Returns the slice with its names, and the index where it begins, as
    /// [`Layout::slice_and_offset`] does. Use it to get the part of a tensor that a thread works
    /// on.
    ///
    /// ```
    /// # use tilewright::layout::{coord, layout};
    /// let (row, offset) = layout!((4, 8) : (8, 1)).named(["m", "k"])?.slice_and_offset(&coord!(3, _))?;
    /// assert_eq!((row.to_string(), offset.to_string()), ("(8):(1) of (k)".into(), "24".into()));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::slice_and_offset`].
    #[inline]
    pub fn slice_and_offset(&self, coord: &Coord) -> Result<(NamedLayout, IntTuple)> {
        let operation = "slice_and_offset";
        let found = self.layout.slice_and_offset(coord);
        let (layout, offset) = found.map_err(|error| self.failed(operation, true, error))?;
        let names = self.names.at(coord.as_ref());
        Ok((NamedLayout { layout, names }, offset))
    }

    /// Groups the modes `begin..end` into one mode with the joined name, such as `(m,k)`, as
    /// [`Layout::group`] does. You can then index them with one integer.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.group_modes(0, 2)?.to_string(), "((4,8),3):((1,4),32) of ((m,k),batch)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::group`].
    #[inline]
    pub fn group_modes(&self, begin: usize, end: usize) -> Result<NamedLayout> {
        let made = self.layout.group(begin, end);
        self.with("group_modes", true, made, |_| self.names.group(begin, end))
    }

    /// Returns the modes `modes` in that order, with their names, as [`Layout::select`] does. Use
    /// it to permute or to drop modes.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let a = layout!((4, 8, 3)).named(["m", "k", "batch"])?;
    /// assert_eq!(a.select(&[2, 0])?.to_string(), "(3,4):(32,1) of (batch,m)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::select`].
    #[inline]
    pub fn select(&self, modes: &[usize]) -> Result<NamedLayout> {
        self.with("select", true, self.layout.select(modes), |_| self.names.select(modes))
    }

    /// Repeats the layout side by side along each mode, as [`Layout::blocked_product`] does. Each
    /// mode keeps its name.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 5) : (5, 1)).named(["m", "k"])?.blocked_product(&layout!((3, 4)))?;
    /// assert_eq!(l.to_string(), "((2,3),(5,4)):((5,10),(1,30)) of (m,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::blocked_product`].
    #[inline]
    pub fn blocked_product(&self, tiler: &Layout) -> Result<NamedLayout> {
        let made = self.layout.blocked_product(tiler);
        self.with("blocked_product", false, made, |made| self.names.interleaved(made.rank()))
    }

    /// Interleaves the repetitions along each mode, as [`Layout::raked_product`] does. Each mode
    /// keeps its name.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((2, 5) : (5, 1)).named(["m", "k"])?.raked_product(&layout!((3, 4)))?;
    /// assert_eq!(l.to_string(), "((3,2),(4,5)):((10,5),(30,1)) of (m,k)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Layout::raked_product`].
    #[inline]
    pub fn raked_product(&self, tiler: &Layout) -> Result<NamedLayout> {
        let made = self.layout.raked_product(tiler);
        self.with("raked_product", false, made, |made| self.names.interleaved(made.rank()))
    }

    /// Gives an operation's result its names, or adds the names to its error.
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

    /// Adds the layout and the name of the mode to an error. `by_mode` says that the error's paths
    /// are modes of this layout.
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
        /// Divides and products by a tiler. The layout of the result is the same as for the
        /// operation on [`Layout`].
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

/// Prints `(64,32):(32,1) of (m,k)`.
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
