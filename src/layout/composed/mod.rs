//! [`ComposedLayout`] is a layout, then an offset, then a swizzle, another layout or a function.
//! Tiles in swizzled shared memory have one.

mod compose;
mod domain;
mod inverse;
mod recast;
mod slice;
mod transfer;

pub(crate) use slice::bits_of;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use super::error::LayoutError;
use super::int::{Env, Int};
use super::into_tuple::{Builder, IntoTuple};
use super::layout::Layout;
use super::swizzle::{Swizzle, parse_swizzle};
use super::text::Parser;
use super::tuple::{IntTuple, IntTupleRef, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

type Function = dyn Fn(&IntTuple) -> Result<IntTuple> + Send + Sync;

/// A named function on coordinates, to use as the inner part of a [`ComposedLayout`]; for example,
/// a gather through an index table. Two are equal if they are clones of one object.
///
/// ```
/// use tilewright::layout::{ComposedLayout, CoordFn, IntTuple, layout};
/// let rows = [7, 2, 5];
/// let gather = CoordFn::new("rows", move |i| {
///     let i = usize::try_from(i.to_int()?.to_static()?).unwrap_or(usize::MAX);
///     Ok(IntTuple::from(rows.get(i).copied().unwrap_or(0)))
/// });
/// let l = ComposedLayout::new(gather, 0, layout!(3:1))?;
/// assert_eq!(l.to_string(), "rows o 0 o 3:1");
/// assert_eq!(l.apply(2)?, 5.into());
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone)]
pub struct CoordFn {
    name: Arc<str>,
    function: Arc<Function>,
}

impl CoordFn {
    /// Wraps `function`, so that a [`ComposedLayout`] can apply it to its coordinates. The layout
    /// prints it as `name`.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, CoordFn, layout};
    /// let f = CoordFn::new("twice", |x| Ok(x.to_int()?.mul(&2.into())?.into()));
    /// assert_eq!(ComposedLayout::new(f, 0, layout!(4:3))?.crd2idx(2)?, 12);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn new(
        name: &str,
        function: impl Fn(&IntTuple) -> Result<IntTuple> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), function: Arc::new(function) }
    }

    /// Returns the name that was passed to [`new`](CoordFn::new), which the layout prints.
    ///
    /// ```
    /// # use tilewright::layout::CoordFn;
    /// assert_eq!(CoordFn::new("same", |x| Ok(x.clone())).name(), "same");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl PartialEq for CoordFn {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.function, &other.function)
    }
}
impl Eq for CoordFn {}

/// The inner or outer part of a [`ComposedLayout`]. Match on [`inner`](ComposedLayout::inner) or
/// [`outer`](ComposedLayout::outer) if you handle swizzled and other layouts differently.
///
/// ```
/// use tilewright::layout::{ComposedLayout, Part, Swizzle, layout};
/// let l: ComposedLayout = "S<3,4,3> o 0 o (8,64):(64,1)".parse()?;
/// assert!(matches!(l.inner(), Part::Swizzle(s) if *s == Swizzle::new(3, 4, 3)?));
/// assert!(matches!(l.outer(), Part::Layout(outer) if *outer == layout!((8, 64):(64, 1))));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "the layout is the usual one, and a box would allocate"
)]
pub enum Part {
    /// The identity, which is the inner part of a plain layout.
    Identity,
    /// A swizzle, which maps integers to integers.
    Swizzle(Swizzle),
    /// A layout.
    Layout(Layout),
    /// A function.
    Function(CoordFn),
}

impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Part::Identity => {}
            Part::Swizzle(s) => s.hash(state),
            Part::Layout(l) => l.hash(state),
            Part::Function(f) => f.name.hash(state),
        }
    }
}

impl Part {
    #[inline]
    fn apply(&self, coord: &IntTuple) -> Result<IntTuple> {
        match self {
            Part::Identity => Ok(coord.clone()),
            Part::Swizzle(s) => Ok(Tuple::leaf(s.apply_int(coord.to_int()?)?)),
            Part::Layout(l) => l.apply(coord),
            Part::Function(f) => (f.function)(coord),
        }
    }
}

impl From<Swizzle> for Part {
    fn from(swizzle: Swizzle) -> Self {
        Part::Swizzle(swizzle)
    }
}
impl From<Layout> for Part {
    fn from(layout: Layout) -> Self {
        Part::Layout(layout)
    }
}
impl From<&Layout> for Part {
    #[inline]
    fn from(layout: &Layout) -> Self {
        Part::Layout(layout.clone())
    }
}
impl From<CoordFn> for Part {
    fn from(function: CoordFn) -> Self {
        Part::Function(function)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Identity => f.write_str("1"),
            Part::Swizzle(s) => s.fmt(f),
            Part::Layout(l) => l.fmt(f),
            Part::Function(function) => f.write_str(&function.name),
        }
    }
}

/// The function `c -> inner(offset + outer(c))`, written `inner o offset o outer`. The usual one is
/// a swizzled layout: `outer` is a plain layout and `inner` a swizzle.
///
/// The algebra's operations act on the domain, so they change only the outer part. Slicing adds to
/// the offset; if the swizzle then has no effect any more, the result is a plain layout again. A
/// plain layout is a composed layout with the identity inside, see
/// [`is_normal`](ComposedLayout::is_normal).
///
/// ```
/// use tilewright::layout::{ComposedLayout, Swizzle, coord, layout, tiler};
/// let s = ComposedLayout::new(Swizzle::new(3, 0, 3)?, 0, layout!((8, 8):(8, 1)))?;
/// assert_eq!(s.to_string(), "S<3,0,3> o 0 o (8,8):(8,1)");
/// assert_eq!(s.crd2idx((1, 2))?, 8 + (2 ^ 1));
/// assert_eq!(s.zipped_divide(&tiler!(4, 4))?.to_string(), "S<3,0,3> o 0 o ((4,4),(2,2)):((8,1),(32,4))");
/// let (row, offset) = s.slice_and_offset(&coord!(5, _))?;
/// assert_eq!((row.to_string(), offset.to_string()), ("((2,2,2)):((-1,2,-4))".into(), "45".into()));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ComposedLayout {
    inner: Part,
    offset: IntTuple,
    outer: Part,
}

impl ComposedLayout {
    /// Builds `inner o offset o outer`. For a swizzle on a layout, [`Swizzle::compose_layout`] is
    /// shorter.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, Swizzle, layout};
    /// let s = ComposedLayout::new(Swizzle::new(3, 0, 3)?, 5, layout!((8, 8):(8, 1)))?;
    /// assert_eq!(s.to_string(), "S<3,0,3> o 5 o (8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] if the offset is nested too deeply.
    #[doc(alias = "make_composed_layout")]
    pub fn new(
        inner: impl Into<Part>,
        offset: impl IntoTuple<Int>,
        outer: impl Into<Part>,
    ) -> Result<Self> {
        Ok(Self { inner: inner.into(), offset: offset.into_tuple()?, outer: outer.into() })
    }

    pub(crate) fn from_parts(inner: Part, offset: IntTuple, outer: Part) -> Self {
        Self { inner, offset, outer }
    }

    /// Replaces the outer layout. A swizzle of no bits at offset 0 is dropped, as in CuTe.
    #[inline]
    pub(crate) fn with_outer(&self, outer: Layout) -> Self {
        match self.inner {
            Part::Swizzle(s) if s.is_identity() && self.offset.as_static() == Some(0) => {
                outer.into()
            }
            _ => {
                Self { inner: self.inner.clone(), offset: self.offset.clone(), outer: outer.into() }
            }
        }
    }

    /// Returns the part that is applied last: the swizzle of swizzled memory, or the identity if
    /// the layout is plain.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.inner().to_string(), "S<3,0,3>");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn inner(&self) -> &Part {
        &self.inner
    }

    /// Returns the offset, which is added to the outer part's result. A slice of a swizzled layout
    /// often has one.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.offset(), &5.into());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn offset(&self) -> &IntTuple {
        &self.offset
    }

    /// Returns the part that is applied first. It is a layout, except in the inverse of a swizzled
    /// layout.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.outer().to_string(), "(8,8):(8,1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn outer(&self) -> &Part {
        &self.outer
    }

    /// Returns the part that is applied first, or an error if it is not a layout. Use it to read
    /// the shape and the strides.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.outer_layout()?, &layout!((8, 8):(8, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Unsupported`] for the inverse of a swizzled layout, because its outer
    /// part is the swizzle.
    pub fn outer_layout(&self) -> Result<&Layout> {
        match &self.outer {
            Part::Layout(layout) => Ok(layout),
            _ => {
                Err(LayoutError::Unsupported { operation: "the shape", argument: self.to_string() })
            }
        }
    }

    /// Returns the inner part if it is a swizzle, and `None` otherwise. Use it to ask how shared
    /// memory is swizzled.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, Swizzle};
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.swizzle(), Some(Swizzle::new(3, 0, 3)?));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn swizzle(&self) -> Option<Swizzle> {
        match self.inner {
            Part::Swizzle(swizzle) => Some(swizzle),
            _ => None,
        }
    }

    /// Returns true if this is a plain layout: the identity inside and offset 0. A swizzle of no
    /// bits, `S<0,4,3>`, counts as a swizzle until an operation drops it.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert!(!s.is_normal() && ComposedLayout::from(layout!(4:1)).is_normal());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn is_normal(&self) -> bool {
        self.as_normal().is_some()
    }

    /// Returns the plain layout if this is one, and `None` otherwise. Use it to handle layouts
    /// without a swizzle by themselves.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// assert_eq!(ComposedLayout::from(layout!(4:1)).as_normal(), Some(&layout!(4:1)));
    /// ```
    pub fn as_normal(&self) -> Option<&Layout> {
        match (&self.inner, &self.outer) {
            (Part::Identity, Part::Layout(layout)) if self.offset.as_static() == Some(0) => {
                Some(layout)
            }
            _ => None,
        }
    }

    /// Returns the swizzle, or the identity if there is none: CuTe's `get_swizzle_portion`. Use it
    /// in code that takes plain and swizzled layouts.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, Swizzle};
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.swizzle_portion(), Swizzle::new(3, 0, 3)?);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn swizzle_portion(&self) -> Swizzle {
        self.swizzle().unwrap_or(Swizzle::identity())
    }

    /// Returns the layout without its swizzle and offset: CuTe's `get_nonswizzle_portion`. Use it
    /// to read the shape and the strides.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, layout};
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.nonswizzle_portion()?, &layout!((8, 8):(8, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`outer_layout`](ComposedLayout::outer_layout).
    pub fn nonswizzle_portion(&self) -> Result<&Layout> {
        self.outer_layout()
    }

    /// Returns the shape of the domain: the coordinates that the layout accepts.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, shape};
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.shape()?.to_owned(), shape!(8, 8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`outer_layout`](ComposedLayout::outer_layout).
    pub fn shape(&self) -> Result<IntTupleRef<'_>> {
        Ok(self.outer_layout()?.shape())
    }

    /// Returns how many coordinates the layout has: the product of its extents.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.size()?, 64);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`outer_layout`](ComposedLayout::outer_layout), and [`LayoutError::Overflow`].
    pub fn size(&self) -> Result<Int> {
        self.outer_layout()?.size()
    }

    /// Returns the outer layout's cosize, as CuTe does. A swizzle or an offset can reach larger
    /// indices, so a buffer may need more elements.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.cosize()?, 64);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`outer_layout`](ComposedLayout::outer_layout), and [`LayoutError::Overflow`].
    #[inline]
    pub fn cosize(&self) -> Result<Int> {
        self.outer_layout()?.cosize()
    }

    /// Returns the value at a coordinate, `inner(offset + outer(c))`. If the layout maps to
    /// integers, [`crd2idx`](ComposedLayout::crd2idx) is easier to use. Use it for layouts into
    /// coordinates.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.apply((1, 2))?, ((5 + 10) ^ 1).into());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the error of the part that fails, or [`LayoutError::RankMismatch`] if the offset is
    /// nested differently from the outer part's result.
    pub fn apply(&self, coord: impl IntoTuple<Int>) -> Result<IntTuple> {
        let value = self.outer.apply(&coord.into_tuple()?)?;
        if self.is_normal() {
            return Ok(value);
        }
        self.inner.apply(&self.offset.plus(&value)?)
    }

    /// Returns the index of a coordinate, with offset and swizzle applied. The layout must map to
    /// integers.
    ///
    /// ```
    /// # use tilewright::layout::ComposedLayout;
    /// let s: ComposedLayout = "S<3,0,3> o 5 o (8,8):(8,1)".parse()?;
    /// assert_eq!(s.crd2idx((1, 2))?, (5 + 10) ^ 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`apply`](ComposedLayout::apply), and [`LayoutError::NotAnInteger`] if the
    /// layout maps to coordinates.
    pub fn crd2idx(&self, coord: impl IntoTuple<Int>) -> Result<Int> {
        self.apply(coord)?.to_int().cloned()
    }

    /// Replaces the symbols by their values in `env` and returns the static layout. Use it when the
    /// sizes are known.
    ///
    /// ```
    /// # use tilewright::layout::{ComposedLayout, Env, Int, Layout, Swizzle};
    /// let s = ComposedLayout::new(Swizzle::new(1, 0, 1)?, 0, Layout::leaf(Int::symbol("n"), 1))?;
    /// assert_eq!(s.eval(&Env::new().with("n", 4))?.to_string(), "S<1,0,1> o 0 o 4:1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::eval`].
    #[inline]
    pub fn eval(&self, env: &Env) -> Result<Self> {
        let part = |part: &Part| {
            Ok(match part {
                Part::Layout(layout) => Part::Layout(layout.eval(env)?),
                other => other.clone(),
            })
        };
        Ok(Self {
            inner: part(&self.inner)?,
            offset: self.offset.eval(env)?,
            outer: part(&self.outer)?,
        })
    }
}

impl From<Layout> for ComposedLayout {
    #[inline]
    fn from(layout: Layout) -> Self {
        Self { inner: Part::Identity, offset: Tuple::leaf(Int::ZERO), outer: layout.into() }
    }
}

impl From<&Layout> for ComposedLayout {
    #[inline]
    fn from(layout: &Layout) -> Self {
        layout.clone().into()
    }
}
impl From<&ComposedLayout> for ComposedLayout {
    #[inline]
    fn from(layout: &ComposedLayout) -> Self {
        layout.clone()
    }
}

impl fmt::Display for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(layout) = self.as_normal() {
            return layout.fmt(f);
        }
        self.inner.fmt(f)?;
        f.write_str(" o ")?;
        self.offset.fmt(f)?;
        f.write_str(" o ")?;
        self.outer.fmt(f)
    }
}
impl fmt::Debug for ComposedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}

#[inline]
fn parse_part(p: &mut Parser<'_>) -> Result<Part> {
    if p.starts_with("S<") || p.starts_with("Sw<") {
        return parse_swizzle(p).map(Part::from);
    }
    p.layout().map(Part::from)
}

impl FromStr for ComposedLayout {
    type Err = LayoutError;

    /// Parses `S<3,4,3> o 0 o (8,64):(64,1)`, `A o offset o B`, or a plain layout. A swizzle at
    /// offset 0 in front of these, as CuTe prints it, is composed with the inner swizzle.
    #[inline]
    fn from_str(text: &str) -> Result<Self> {
        let mut p = Parser::new(text);
        let mut inner = parse_part(&mut p)?;
        let mut swizzles: Vec<Swizzle> = Vec::new();
        if !p.eat("o ") {
            p.end()?;
            return match inner {
                Part::Layout(layout) => Ok(layout.into()),
                _ => Err(p.error("`o`")),
            };
        }
        loop {
            let mut offset = Builder::new();
            p.tree(&mut offset)?;
            let offset: IntTuple = offset.finish()?;
            p.expect("o ", "`o`")?;
            let outer = parse_part(&mut p)?;
            if !p.eat("o ") {
                p.end()?;
                let innermost = Self { inner, offset, outer };
                return swizzles.iter().rev().try_fold(innermost, |l, s| s.compose_composed(&l));
            }
            match inner {
                Part::Swizzle(swizzle) if offset.as_static() == Some(0) => swizzles.push(swizzle),
                _ => return Err(p.error("the end of the text")),
            }
            inner = outer;
        }
    }
}
