//! [`LayoutBuilder`] builds a layout from left to right, leaf by leaf. Use it in code that computes
//! a layout's modes in a loop; for known modes, `layout!` is shorter.

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::profile::{MAX_DEPTH, ProfileBuilder};
use super::tuple::Leaves;

type Result<T> = std::result::Result<T, LayoutError>;

/// Builds a [`Layout`] from left to right, leaf by leaf. You need it only if the nesting is not
/// known at compile time; otherwise use `layout!` or [`Layout::new`].
///
/// ```
/// use tilewright::layout::{LayoutBuilder, layout};
/// let mut out = LayoutBuilder::new();
/// out.open();
/// out.push(4, 2);
/// out.push_ref(layout!((2, 8):(1, 8)).as_ref());
/// out.close();
/// assert_eq!(out.finish()?, layout!((4, (2, 8)):(2, (1, 8))));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Default)]
pub struct LayoutBuilder {
    profile: ProfileBuilder,
    shape: Leaves<Int>,
    stride: Leaves<ScaledBasis>,
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither an extent nor a stride of a layout",
    label = "expected a host integer such as `4`, or an `Int`",
    note = "a layout exists while the kernel is built: a size that only the launch knows is a symbol, `Int::symbol(\"n\")`, \
        in the layout that `KernelOptions::template` gives a parameter",
    note = "a host count is converted with `as i64`"
)]
/// An argument for an extent ([`Int`]) or a stride ([`ScaledBasis`]): a Rust integer, or anything
/// else that converts to `L`.
///
/// ```
/// use tilewright::layout::{Int, IntoLeaf};
/// fn doubled(extent: impl IntoLeaf<Int>) -> Result<Int, tilewright::layout::LayoutError> {
///     extent.into_leaf().mul(&Int::new(2))
/// }
/// assert_eq!(doubled(8)?.to_string(), "16");
/// assert_eq!(doubled(Int::symbol("n"))?.to_string(), "2*n");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
pub trait IntoLeaf<L> {
    /// Converts to the extent or the stride.
    ///
    /// ```
    /// use tilewright::layout::{Int, IntoLeaf};
    /// let extent: Int = 4_i64.into_leaf();
    /// assert_eq!(extent, Int::new(4));
    /// ```
    fn into_leaf(self) -> L;
}

#[diagnostic::do_not_recommend]
impl<L, T: Into<L>> IntoLeaf<L> for T {
    #[inline]
    fn into_leaf(self) -> L {
        self.into()
    }
}

impl LayoutBuilder {
    /// Makes an empty builder. Push modes into it, and then call [`finish`](LayoutBuilder::finish).
    ///
    /// ```
    /// # use tilewright::layout::LayoutBuilder;
    /// assert_eq!(LayoutBuilder::new().finish()?.to_string(), "():()");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens a tuple of modes. What you push next is inside it, until you call
    /// [`close`](LayoutBuilder::close).
    ///
    /// ```
    /// # use tilewright::layout::LayoutBuilder;
    /// let mut out = LayoutBuilder::new();
    /// out.open();
    /// out.push(4, 1);
    /// assert_eq!(out.finish()?.to_string(), "(4):(1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn open(&mut self) {
        self.profile.open();
    }

    /// Closes the tuple that was opened last. What you push next comes after it.
    ///
    /// ```
    /// # use tilewright::layout::LayoutBuilder;
    /// let mut out = LayoutBuilder::new();
    /// out.open();
    /// out.open();
    /// out.push(4, 1);
    /// out.close();
    /// out.push(2, 4);
    /// assert_eq!(out.finish()?.to_string(), "((4),2):((1),4)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn close(&mut self) {
        self.profile.close();
    }

    /// Appends the mode `extent : stride` to the tuple that is open.
    ///
    /// ```
    /// # use tilewright::layout::{LayoutBuilder, layout};
    /// let mut out = LayoutBuilder::new();
    /// out.push(4, 1);
    /// assert_eq!(out.finish()?, layout!(4:1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn push(&mut self, extent: impl IntoLeaf<Int>, stride: impl IntoLeaf<ScaledBasis>) {
        self.profile.leaf();
        self.shape.push(extent.into_leaf());
        self.stride.push(stride.into_leaf());
    }

    /// Appends a copy of a mode, with all modes inside it, to the tuple that is open.
    ///
    /// ```
    /// # use tilewright::layout::{LayoutBuilder, layout};
    /// let mut out = LayoutBuilder::new();
    /// out.push_ref(layout!((4, 2):(1, 4)).as_ref());
    /// assert_eq!(out.finish()?, layout!((4, 2):(1, 4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn push_ref(&mut self, mode: LayoutRef<'_>) {
        self.profile.tree(mode.codes, || mode.depth());
        for (s, d) in mode.leaves() {
            self.shape.push(s.clone());
            self.stride.push(d.clone());
        }
    }

    /// Returns the layout. Closes the tuples that are still open, so you need not count them.
    ///
    /// ```
    /// # use tilewright::layout::LayoutBuilder;
    /// let mut out = LayoutBuilder::new();
    /// out.open();
    /// out.push(4, 1);
    /// assert_eq!(out.finish()?.rank(), 1);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] or [`LayoutError::TooLarge`] beyond the limits of a tuple.
    #[inline]
    pub fn finish(self) -> Result<Layout> {
        Ok(Layout { codes: self.profile.finish()?, shape: self.shape, stride: self.stride })
    }

    /// Returns the layout that a macro wrote. Only source code that is nested beyond the limit
    /// could fail; it gives the empty layout.
    #[doc(hidden)]
    #[inline]
    pub fn finish_literal(self) -> Layout {
        self.finish().unwrap_or_else(|_| Layout {
            codes: SmallVec::from_slice(&[0]),
            shape: Leaves::new(),
            stride: Leaves::new(),
        })
    }
}

const _: () = assert!(MAX_DEPTH < 128);
