//! [`IntoTuple`] lets you pass Rust integers, tuples and arrays as shapes; [`Builder`] builds a
//! tuple piece by piece.

use super::error::LayoutError;
use super::int::Int;
use super::profile::{LEAF, ProfileBuilder};
use super::tuple::{Leaves, Tuple, TupleRef};

/// Builds a [`Tuple`] from left to right. You need it only if the nesting is not known at compile
/// time; otherwise pass a Rust tuple.
///
/// ```
/// use tilewright::layout::{Builder, Int, shape};
/// let mut out = Builder::<Int>::new();
/// out.open();
/// out.push(4);
/// out.open();
/// out.push(2);
/// out.push(8);
/// out.close();
/// out.close();
/// assert_eq!(out.finish()?, shape!(4, (2, 8)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone)]
pub struct Builder<L> {
    profile: ProfileBuilder,
    leaves: Leaves<L>,
}

impl<L> Default for Builder<L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L> Builder<L> {
    /// Makes an empty builder. Push leaves into it, and then call [`finish`](Builder::finish).
    ///
    /// ```
    /// # use tilewright::layout::{Builder, Int};
    /// let mut out: Builder<Int> = Builder::new();
    /// assert_eq!(out.finish()?.to_string(), "()");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn new() -> Self {
        Self { profile: ProfileBuilder::default(), leaves: Leaves::new() }
    }

    /// Opens a tuple. What you push next is inside it, until you call [`close`](Builder::close).
    ///
    /// ```
    /// # use tilewright::layout::{Builder, Int, shape};
    /// let mut out: Builder<Int> = Builder::new();
    /// out.open();
    /// out.push(4);
    /// assert_eq!(out.finish()?, shape!((4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn open(&mut self) {
        self.profile.open();
    }

    /// Closes the tuple that was opened last. What you push next comes after it.
    ///
    /// ```
    /// # use tilewright::layout::{Builder, Int};
    /// let mut out: Builder<Int> = Builder::new();
    /// out.open();
    /// out.open();
    /// out.push(4);
    /// out.close();
    /// out.push(2);
    /// assert_eq!(out.finish()?.to_string(), "((4),2)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn close(&mut self) {
        self.profile.close();
    }

    /// Appends a leaf to the tuple that is open.
    ///
    /// ```
    /// # use tilewright::layout::{Builder, Int};
    /// let mut out: Builder<Int> = Builder::new();
    /// out.push(4);
    /// assert_eq!(out.finish()?, 4.into());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn push(&mut self, leaf: impl Into<L>) {
        self.profile.leaf();
        self.leaves.push(leaf.into());
    }

    /// Appends a copy of a whole subtree to the tuple that is open.
    ///
    /// ```
    /// # use tilewright::layout::{Builder, Int, shape};
    /// let mut out: Builder<Int> = Builder::new();
    /// out.push_tree(shape!(4, 2).as_ref());
    /// assert_eq!(out.finish()?, shape!(4, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn push_tree(&mut self, tree: TupleRef<'_, L>)
    where
        L: Clone,
    {
        self.profile.tree(tree.codes, || tree.depth());
        self.leaves.extend(tree.leaves.iter().cloned());
    }

    /// Returns the tuple. Closes the tuples that are still open, so you need not count them.
    ///
    /// ```
    /// # use tilewright::layout::{Builder, Int, shape};
    /// let mut out: Builder<Int> = Builder::new();
    /// out.open();
    /// out.push(4);
    /// out.push(2);
    /// assert_eq!(out.finish()?, shape!(4, 2));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] or [`LayoutError::TooLarge`] beyond the limits of a tuple.
    #[inline]
    pub fn finish(self) -> Result<Tuple<L>, LayoutError> {
        Ok(Tuple { codes: self.profile.finish()?, leaves: self.leaves })
    }
}

/// An argument that converts to a tuple with leaves of type `L`: a leaf, a Rust tuple or array of
/// such arguments, or a [`Tuple`].
///
/// ```
/// use tilewright::layout::{Int, IntTuple, IntoTuple, shape};
/// fn as_shape(shape: impl IntoTuple<Int>) -> IntTuple {
///     shape.into_tuple().expect("not nested too deeply")
/// }
/// assert_eq!(as_shape((4, [2, 8])), shape!(4, (2, 8)));
/// assert_eq!(as_shape(Int::symbol("n")).to_string(), "n");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a shape, a stride or a tiler",
    label = "expected a host integer such as `4`, an `Int`, or a tuple or array of these",
    note = "a layout exists while the kernel is built: a size that only the launch knows is a symbol, `Int::symbol(\"n\")`, \
        in the layout that `KernelOptions::template` gives a parameter"
)]
pub trait IntoTuple<L> {
    /// Appends itself to a tuple under construction.
    ///
    /// ```
    /// use tilewright::layout::{Builder, Int, IntTuple, IntoTuple, shape};
    /// /// The extents of an image.
    /// struct Size(i64, i64);
    /// impl IntoTuple<Int> for Size {
    ///     fn push_into(self, out: &mut Builder<Int>) {
    ///         (self.0, self.1).push_into(out);
    ///     }
    /// }
    /// assert_eq!(Size(480, 640).into_tuple()?, shape!(480, 640));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    fn push_into(self, out: &mut Builder<L>);

    /// Converts to a tuple.
    ///
    /// ```
    /// # use tilewright::layout::{Int, IntTuple, IntoTuple, shape};
    /// let made: IntTuple = IntoTuple::<Int>::into_tuple((4, (2, 8)))?;
    /// assert_eq!(made, shape!(4, (2, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooDeep`] or [`LayoutError::TooLarge`] beyond the limits of a tuple.
    #[inline]
    fn into_tuple(self) -> Result<Tuple<L>, LayoutError>
    where
        Self: Sized,
    {
        let mut out = Builder::new();
        self.push_into(&mut out);
        out.finish()
    }
}

impl<L> IntoTuple<L> for Tuple<L>
where
    L: Clone,
{
    #[inline]
    fn push_into(self, out: &mut Builder<L>) {
        out.push_tree(self.as_ref());
    }

    fn into_tuple(self) -> Result<Tuple<L>, LayoutError> {
        Ok(self)
    }
}
impl<L: Clone> IntoTuple<L> for &Tuple<L> {
    #[inline]
    fn push_into(self, out: &mut Builder<L>) {
        out.push_tree(self.as_ref());
    }
}
impl<L: Clone> IntoTuple<L> for TupleRef<'_, L> {
    #[inline]
    fn push_into(self, out: &mut Builder<L>) {
        out.push_tree(self);
    }
}
impl<L, T: IntoTuple<L>, const N: usize> IntoTuple<L> for [T; N] {
    fn push_into(self, out: &mut Builder<L>) {
        out.open();
        for item in self {
            item.push_into(out);
        }
        out.close();
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl<L: From<Int>> IntoTuple<L> for $t {
            #[inline]
            fn push_into(self, out: &mut Builder<L>) {
                out.push(Int::from(self));
            }
        }
        impl<L: From<Int>> From<$t> for Tuple<L> {
            #[inline]
            fn from(value: $t) -> Self {
                Tuple::leaf(Int::from(value))
            }
        }
    )*};
}
integers!(i64, i32, i16, i8, u64, u32, u16, u8, usize, isize, Int, &Int);

macro_rules! rust_tuples {
    ($($name:ident)*) => {
        impl<Leaf, $($name: IntoTuple<Leaf>),*> IntoTuple<Leaf> for ($($name,)*) {
            #[expect(non_snake_case, reason = "type names double as variable names")]
            fn push_into(self, out: &mut Builder<Leaf>) {
                let ($($name,)*) = self;
                out.open();
                $($name.push_into(out);)*
                out.close();
            }
        }
        impl<Leaf, $($name: IntoTuple<Leaf>),*> From<($($name,)*)> for Tuple<Leaf> {
            #[inline]
            fn from(items: ($($name,)*)) -> Self {
                let mut out = Builder::new();
                items.push_into(&mut out);
                // Rust tuples of up to eight entries stay far below both limits, and a nested
                // `Tuple` respects them already. Only absurd nesting of both ends up as the empty
                // tuple here.
                out.finish().unwrap_or_default()
            }
        }
    };
}
rust_tuples!(A);
rust_tuples!(A B);
rust_tuples!(A B C);
rust_tuples!(A B C D);
rust_tuples!(A B C D E);
rust_tuples!(A B C D E F);
rust_tuples!(A B C D E F G);
rust_tuples!(A B C D E F G H);

impl<L, T: IntoTuple<L>, const N: usize> From<[T; N]> for Tuple<L> {
    #[inline]
    fn from(items: [T; N]) -> Self {
        const { assert!(N < LEAF as usize, "a tuple has at most 65534 modes") };
        let mut out = Builder::new();
        items.push_into(&mut out);
        out.finish().unwrap_or_default()
    }
}
