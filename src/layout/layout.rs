//! [`Layout`], the type at the centre of the algebra: a shape and a stride, which map coordinates
//! to memory indices. Almost every operation of the algebra is a method of it.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::basis::ScaledBasis;
use super::builder::LayoutBuilder;
use super::error::LayoutError;
use super::int::{Env, Int};
use super::into_tuple::IntoTuple;
use super::layout_ref::{LayoutRef, Modes};
use super::profile::{Codes, LEAF};
use super::tuple::{IntTuple, IntTupleRef, Leaves, Tuple, TupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

/// Nested strides, congruent to a shape. [`Layout::stride`] returns them; you can keep or print
/// them apart from the shape.
///
/// ```
/// use tilewright::layout::{StrideTuple, layout};
/// let strides: StrideTuple = layout!((4, (2, 8)):(2, (1, 8))).stride().to_owned();
/// assert_eq!(strides, "(2,(1,8))".parse::<StrideTuple>()?);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type StrideTuple = Tuple<ScaledBasis>;
/// A borrowed subtree of a [`StrideTuple`]. [`Layout::stride`] returns one, so that you can look at
/// strides without copying them.
///
/// ```
/// use tilewright::layout::{StrideRef, layout};
/// let l = layout!((4, (2, 8)):(2, (1, 8)));
/// let strides: StrideRef<'_> = l.stride();
/// assert_eq!(strides.mode(&[1, 1])?.as_leaf().and_then(|d| d.as_static()), Some(8));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub type StrideRef<'a> = TupleRef<'a, ScaledBasis>;

/// A function from coordinates to indices, written `shape : stride`.
///
/// A coordinate is an integer, or a tuple that is at most as nested as the shape. If it has one
/// integer for each leaf of the shape, its index is the inner product with the strides. An integer
/// that stands for a nested mode is first split into that mode's entries: the first entry runs
/// fastest, and the last one takes what is left, so it may exceed its extent.
///
/// If the strides are basis elements, as in [`Layout::identity`], the layout maps to coordinates
/// instead of indices. For memory that is swizzled, see [`ComposedLayout`](super::ComposedLayout);
/// for modes with names, see [`NamedLayout`](super::NamedLayout).
///
/// The methods below are grouped by topic:
///
/// | topic | for example |
/// |---|---|
/// | construction | `new`, `compact`, `identity`, `concat` |
/// | shape and size | `shape`, `rank`, `size`, `cosize` |
/// | coordinates and indices | `crd2idx`, `at`, `indices` |
/// | modes | `mode`, `select`, `group`, `flatten`, `append` |
/// | coalescing, composition, inverses | `coalesce`, `composition`, `complement`, `right_inverse` |
/// | division, products, slices | `logical_divide`, `blocked_product`, `local_tile`, `slice` |
/// | elements in memory | `max_common_vector`, `recast_layout`, `leading_dim` |
/// | symbols | `eval`, `assuming`, `by_cases`, `mark_layout_dynamic` |
/// | names and drawings | `named`, `draw` |
///
/// ```
/// use tilewright::layout::{Layout, layout};
/// let a: Layout = layout!((4, (2, 8)):(2, (1, 8)));
/// assert_eq!(a.to_string(), "(4,(2,8)):(2,(1,8))");
/// assert_eq!(a.crd2idx((3, (1, 2)))?, 3 * 2 + 1 + 2 * 8);
/// assert_eq!(a.at(3 + 4 * (1 + 2 * 2))?, 23);
/// assert_eq!((a.size()?.as_static(), a.cosize()?.as_static()), (Some(64), Some(64)));
/// assert_eq!("(4,(_2,8)):(2,(1,8))".parse::<Layout>()?, a);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone)]
pub struct Layout {
    pub(crate) codes: Codes,
    pub(crate) shape: Leaves<Int>,
    pub(crate) stride: Leaves<ScaledBasis>,
}

/// # Construction
///
/// Makes a layout from a shape and strides, or from other layouts.
impl Layout {
    /// Builds a layout from a shape and its strides. Use it if they are values that your program
    /// computes; for literals, `layout!` is shorter.
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::new((4, (2, 8)), (2, (1, 8)))?.to_string(), "(4,(2,8)):(2,(1,8))");
    /// assert!(Layout::new((4, 8), (1, (4, 32))).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotCongruent`] if the two are not nested alike.
    #[doc(alias = "make_layout")]
    pub fn new(shape: impl IntoTuple<Int>, stride: impl IntoTuple<ScaledBasis>) -> Result<Self> {
        let (shape, stride) = (shape.into_tuple()?, stride.into_tuple()?);
        if !shape.congruent(&stride) {
            return Err(LayoutError::NotCongruent {
                left: shape.to_string(),
                right: stride.to_string(),
            });
        }
        Ok(Self { codes: shape.codes, shape: shape.leaves, stride: stride.leaves })
    }

    /// Builds a layout with one mode, `extent : stride`, for example for a vector. It is a leaf,
    /// not a tuple with one entry.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout};
    /// assert_eq!(Layout::leaf(4, 2), layout!(4:2));
    /// ```
    #[inline]
    pub fn leaf(extent: impl Into<Int>, stride: impl Into<ScaledBasis>) -> Self {
        let mut codes = Codes::new();
        codes.push(LEAF);
        let (mut shape, mut strides) = (Leaves::new(), Leaves::new());
        shape.push(extent.into());
        strides.push(stride.into());
        Self { codes, shape, stride: strides }
    }

    /// Returns `1:0`, the layout with one coordinate and index 0. Use it where a layout is needed
    /// but there is only one element.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout};
    /// assert_eq!(Layout::trivial(), layout!(1:0));
    /// ```
    #[inline]
    pub fn trivial() -> Self {
        Self::leaf(1, 0)
    }

    /// Builds the layout that maps each coordinate of `shape` to itself. Each leaf has its own
    /// basis element as stride. Use it to find out which element of a tensor a tile or a thread
    /// holds.
    ///
    /// ```
    /// # use tilewright::layout::Layout;
    /// assert_eq!(Layout::identity((4, (2, 8)))?.to_string(), "(4,(2,8)):(1@0,(1@0@1,1@1@1))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] or [`LayoutError::TooLarge`] if the shape is nested too
    /// deeply, or has too many modes, for a basis path.
    #[doc(alias = "make_identity_layout")]
    pub fn identity(shape: impl IntoTuple<Int>) -> Result<Self> {
        #[inline]
        fn walk(
            node: IntTupleRef<'_>,
            path: &mut Vec<usize>,
            out: &mut Leaves<ScaledBasis>,
        ) -> Result<()> {
            if node.is_leaf() {
                out.push(ScaledBasis::e(path)?);
                return Ok(());
            }
            for (i, child) in node.children().enumerate() {
                path.push(i);
                walk(child, path, out)?;
                path.pop();
            }
            Ok(())
        }
        let shape = shape.into_tuple()?;
        let mut stride = Leaves::new();
        walk(shape.as_ref(), &mut Vec::new(), &mut stride)?;
        Ok(Self { codes: shape.codes, shape: shape.leaves, stride })
    }

    /// Makes a layout with `modes` as its modes, in order: CuTe's `make_layout` on layouts. Use it
    /// to put layouts side by side, for example a thread layout and a value layout.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, layout};
    /// let l = Layout::concat([&layout!(4:1), &layout!((2, 8):(4, 8))])?;
    /// assert_eq!(l.to_string(), "(4,(2,8)):(1,(4,8))");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] or [`LayoutError::TooLarge`] beyond the limits of a tuple.
    #[doc(alias = "make_layout")]
    pub fn concat<'a>(modes: impl IntoIterator<Item = &'a Layout>) -> Result<Self> {
        let mut out = LayoutBuilder::new();
        out.open();
        for mode in modes {
            out.push_ref(mode.as_ref());
        }
        out.close();
        out.finish()
    }
}

/// # Shape and size
///
/// Answers questions about the modes and about the indices that the layout reaches.
impl Layout {
    /// Borrows the whole layout as a mode, for functions that take a [`LayoutRef`].
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(8, 1)).as_ref().rank(), 2);
    /// ```
    #[inline]
    pub fn as_ref(&self) -> LayoutRef<'_> {
        LayoutRef { codes: &self.codes, shape: &self.shape, stride: &self.stride }
    }

    /// Returns the shape: the extents, nested as the coordinates are.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.shape().to_owned(), shape!(4, (2, 8)));
    /// ```
    #[inline]
    pub fn shape(&self) -> IntTupleRef<'_> {
        self.as_ref().shape()
    }

    /// Returns the strides, which are congruent to the shape. Use them to read the memory order.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.stride().to_string(), "(2,(1,8))");
    /// ```
    #[inline]
    pub fn stride(&self) -> StrideRef<'_> {
        self.as_ref().stride()
    }

    /// Returns how many modes the layout has. A leaf counts as one mode. Compare it with the rank
    /// that your code expects.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.rank(), 2);
    /// ```
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// Returns how deeply the shape is nested: 0 for a leaf, 1 for `(4,8)`, and 2 for `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.depth(), 2);
    /// ```
    pub fn depth(&self) -> usize {
        self.shape().depth()
    }

    /// Returns true for a leaf, that is, one extent with one stride and no parentheses. A recursive
    /// function tests it before it visits the modes.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert!(layout!(4:2).is_leaf() && !layout!((4):(2)).is_leaf());
    /// ```
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.as_ref().is_leaf()
    }

    /// Iterates over the modes, from the first to the last. For a leaf, it returns the leaf itself.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// let modes: Vec<String> = l.modes().map(|mode| mode.to_string()).collect();
    /// assert_eq!(modes, ["4:2", "(2,8):(1,8)"]);
    /// ```
    pub fn modes(&self) -> Modes<'_> {
        self.as_ref().modes()
    }

    /// Returns true if no extent and no stride contains a symbol. Operations on plain
    /// integers, such as [`at`](Layout::at), need such a layout.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout, layout};
    /// assert!(layout!(4:2).is_static() && !Layout::leaf(Int::symbol("n"), 1).is_static());
    /// ```
    pub fn is_static(&self) -> bool {
        self.shape.iter().all(Int::is_static) && self.stride.iter().all(ScaledBasis::is_static)
    }

    /// Returns how many coordinates the layout has: the product of the extents. For example, it is
    /// the number of elements in a tile.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.size()?, 64);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the product does not fit in 64 bits.
    #[inline]
    pub fn size(&self) -> Result<Int> {
        self.as_ref().size()
    }

    /// Returns one more than the largest index, if no stride is negative: the number of elements
    /// that a buffer for this layout needs. Negative strides count by their absolute value, as in
    /// [`coshape`](Layout::coshape), whose size this is.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((2, 4):(8, 0)).cosize()?, 9);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`] if the result does not fit in 64 bits.
    #[inline]
    pub fn cosize(&self) -> Result<Int> {
        self.as_ref().cosize()
    }

    /// Returns the smallest shape that contains all results: `sum (extent - 1) * |stride|`, plus 1
    /// in each entry. It is an integer if the layout maps to integers. Use it to find out
    /// how far a layout into coordinates reaches.
    ///
    /// ```
    /// # use tilewright::layout::{Layout, shape};
    /// assert_eq!(Layout::identity((4, (2, 8)))?.coshape()?, shape!(4, (2, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`], or [`LayoutError::NotAnIntegerStride`] if a stride is a
    /// fraction.
    #[inline]
    pub fn coshape(&self) -> Result<IntTuple> {
        self.as_ref().coshape()
    }
}

/// # Evaluation
///
/// Replaces symbols by integers.
impl Layout {
    /// Replaces the symbols by their values in `env` and returns the static layout. Use it when the
    /// sizes are known, for example at the launch.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, Layout, layout};
    /// let l = Layout::compact((4, Int::symbol("n")));
    /// assert_eq!(l.eval(&Env::new().with("n", 8))?, layout!((4, 8):(1, 4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::eval`].
    #[inline]
    pub fn eval(&self, env: &Env) -> Result<Layout> {
        Ok(Self {
            codes: self.codes.clone(),
            shape: self.shape.iter().map(|s| s.eval(env).map(Int::new)).collect::<Result<_>>()?,
            stride: self.stride.iter().map(|d| d.eval(env)).collect::<Result<_>>()?,
        })
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.codes == other.codes && self.shape == other.shape && self.stride == other.stride
    }
}
impl Eq for Layout {}
impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.codes.hash(state);
        self.shape.hash(state);
        self.stride.hash(state);
    }
}
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:+}")
    }
}
