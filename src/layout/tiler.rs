//! [`Tiler`] is the argument of divides, products and compositions, applied mode by mode. For
//! example, `(16,8)` cuts a matrix into tiles of 16 by 8.

use std::fmt;

use super::coord::Underscore;
use super::error::LayoutError;
use super::int::{Env, Int};
use super::into_tuple::{Builder, IntoTuple};
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tuple::{IntTuple, Tuple, TupleRef};

/// A leaf of a [`Tiler`]: what to do with one mode. Match on it if you apply a tiler yourself.
///
/// ```
/// use tilewright::layout::{TilerLeaf, layout, tiler};
/// let t = tiler!(2, 4:1, _);
/// assert_eq!(t.leaves(), [TilerLeaf::Int(2.into()), layout!(4:1).into(), TilerLeaf::All]);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum TilerLeaf {
    /// `n`, which stands for the layout `n:1`.
    Int(Int),
    /// `_`: keeps the mode as it is.
    All,
    /// A layout.
    Layout(Box<Layout>),
}

/// An integer, a layout, `_`, or a tuple of tilers, one per mode. Divides, products and
/// compositions take one, for example to cut a matrix into tiles of 16 by 8. Write it with
/// `tiler!`.
///
/// ```
/// use tilewright::layout::{Tiler, tiler};
/// let t: Tiler = tiler!(2, 4:1, (_, 8));
/// assert_eq!(t.to_string(), "(2,4:1,(_,8))");
/// assert_eq!(t.to_string().parse::<Tiler>()?, t);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type Tiler = Tuple<TilerLeaf>;

impl Tiler {
    /// Replaces the symbols by their values in `env`. Use it when the sizes are known.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, Tiler, Underscore, tiler};
    /// let t = Tiler::from((Int::symbol("n"), Underscore));
    /// assert_eq!(t.eval(&Env::new().with("n", 8))?, tiler!(8, _));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::eval`].
    #[inline]
    pub fn eval(&self, env: &Env) -> Result<Tiler, LayoutError> {
        self.map(|leaf| {
            Ok(match leaf {
                TilerLeaf::Int(extent) => TilerLeaf::Int(extent.eval(env)?.into()),
                TilerLeaf::All => TilerLeaf::All,
                TilerLeaf::Layout(layout) => TilerLeaf::Layout(Box::new(layout.eval(env)?)),
            })
        })
    }
}

pub(crate) type TilerTuple<'a> = TupleRef<'a, TilerLeaf>;

/// A borrowed tiler or layout. Operations take `impl Into<TilerRef>`, so that you can pass `&Tiler`
/// or `&Layout`.
///
/// ```
/// use tilewright::layout::{Layout, LayoutError, TilerRef, layout, tiler};
/// fn halves<'t>(l: &Layout, tiler: impl Into<TilerRef<'t>>) -> Result<String, LayoutError> {
///     Ok(l.composition(tiler)?.to_string())
/// }
/// let l = layout!((4, 8):(8, 1));
/// assert_eq!(halves(&l, &layout!(8:1))?, "(4,2):(8,1)");
/// assert_eq!(halves(&l, &tiler!(2, _))?, "(2,8):(8,1)");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy)]
pub enum TilerRef<'a> {
    /// A layout, which applies to the whole.
    Layout(LayoutRef<'a>),
    /// A tiler, which applies mode by mode.
    Tuple(TupleRef<'a, TilerLeaf>),
}

impl TilerRef<'_> {
    /// Returns how many modes the tiler applies to one by one, or `None` if it applies to the
    /// whole.
    pub(crate) fn by_mode(self) -> Option<usize> {
        match self {
            TilerRef::Tuple(tuple) if !tuple.is_leaf() => Some(tuple.rank()),
            TilerRef::Tuple(_) | TilerRef::Layout(_) => None,
        }
    }
}

impl<'a> From<&'a Layout> for TilerRef<'a> {
    fn from(layout: &'a Layout) -> Self {
        TilerRef::Layout(layout.as_ref())
    }
}
impl<'a> From<LayoutRef<'a>> for TilerRef<'a> {
    fn from(layout: LayoutRef<'a>) -> Self {
        TilerRef::Layout(layout)
    }
}
impl<'a> From<&'a Tiler> for TilerRef<'a> {
    fn from(tiler: &'a Tiler) -> Self {
        match tiler.as_leaf() {
            Some(TilerLeaf::Layout(layout)) => TilerRef::Layout(layout.as_ref().as_ref()),
            _ => TilerRef::Tuple(tiler.as_ref()),
        }
    }
}
impl From<Int> for TilerLeaf {
    fn from(value: Int) -> Self {
        TilerLeaf::Int(value)
    }
}
impl From<Underscore> for TilerLeaf {
    fn from(_: Underscore) -> Self {
        TilerLeaf::All
    }
}
impl From<Layout> for TilerLeaf {
    fn from(layout: Layout) -> Self {
        TilerLeaf::Layout(Box::new(layout))
    }
}
impl From<Layout> for Tiler {
    #[inline]
    fn from(layout: Layout) -> Self {
        Tuple::leaf(layout)
    }
}
impl From<&IntTuple> for Tiler {
    #[inline]
    fn from(tuple: &IntTuple) -> Self {
        Tuple {
            codes: tuple.codes.clone(),
            leaves: tuple.leaves.iter().cloned().map(TilerLeaf::Int).collect(),
        }
    }
}
impl IntoTuple<TilerLeaf> for Layout {
    #[inline]
    fn push_into(self, out: &mut Builder<TilerLeaf>) {
        out.push(self);
    }
}
impl IntoTuple<TilerLeaf> for &Layout {
    #[inline]
    fn push_into(self, out: &mut Builder<TilerLeaf>) {
        out.push(self.clone());
    }
}
impl IntoTuple<TilerLeaf> for &IntTuple {
    #[inline]
    fn push_into(self, out: &mut Builder<TilerLeaf>) {
        out.push_tree(Tiler::from(self).as_ref());
    }
}
impl fmt::Display for TilerLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TilerLeaf::Int(extent) => extent.fmt(f),
            TilerLeaf::All => f.write_str("_"),
            TilerLeaf::Layout(layout) => layout.fmt(f),
        }
    }
}
impl fmt::Debug for TilerLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}
