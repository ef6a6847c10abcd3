//! Access to the modes of a layout, and operations that rearrange them. Use them to give a layout
//! the modes that an operation expects, for example with the contiguous mode first.

use super::builder::LayoutBuilder;
use super::error::LayoutError;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tuple::{IntTuple, IntTupleRef};

type Result<T> = std::result::Result<T, LayoutError>;

impl<'a> LayoutRef<'a> {
    /// Returns the mode at a path, which gives the index at each level. For example, `[1, 0]` leads
    /// to `2:1` in `(4,(2,8)):(2,(1,8))`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// assert_eq!(l.as_ref().mode(&[1, 0])?.to_string(), "2:1");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    pub fn mode(self, path: &[usize]) -> Result<LayoutRef<'a>> {
        let mut node = self;
        for &mode in path {
            let rank = node.rank();
            node = node.modes().nth(mode).ok_or(LayoutError::NoSuchMode { mode, rank })?;
        }
        Ok(node)
    }
}

fn check_range(begin: usize, end: usize, rank: usize) -> Result<()> {
    if begin < end && end <= rank {
        return Ok(());
    }
    Err(LayoutError::BadRange { begin, end, rank })
}

/// # Modes
///
/// Gets, reorders, groups, adds and replaces modes.
impl Layout {
    /// Borrows the mode at a path, which gives the index at each level. It replaces CuTe's mode
    /// parameters: `size<I,J>(L)` is `L.mode(&[i, j])?.size()`.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((4, (2, 8)):(2, (1, 8)));
    /// let mode = l.mode(&[1])?;
    /// assert_eq!((mode.size()?, mode.cosize()?, mode.rank()), (16.into(), 58.into(), 2));
    /// assert_eq!(mode.shape().to_owned(), shape!(2, 8));
    /// assert_eq!(l.mode(&[1, 0])?.stride().as_leaf(), Some(&1.into()));
    /// assert!(l.mode(&[2]).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    pub fn mode(&self, path: &[usize]) -> Result<LayoutRef<'_>> {
        self.as_ref().mode(path)
    }

    /// Copies the mode at a path into a layout of its own. Use it to run operations of the algebra
    /// on the mode.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, (2, 8)):(2, (1, 8))).get(&[1, 1])?, layout!(8:8));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank there.
    #[inline]
    pub fn get(&self, path: &[usize]) -> Result<Layout> {
        Ok(self.as_ref().mode(path)?.to_layout())
    }

    /// Returns the modes `modes` as a tuple, in that order. Use it to permute modes.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2, 8):(1, 4, 8)).select(&[2, 0])?, layout!((8, 4):(8, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if an index is not below the rank.
    #[inline]
    pub fn select(&self, modes: &[usize]) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        out.open();
        for &mode in modes {
            out.push_ref(self.as_ref().mode(&[mode])?);
        }
        out.close();
        out.finish()
    }

    /// Returns the modes `begin..end` as a tuple, for example all modes but the batch.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2, 8):(1, 4, 8)).take(1, 3)?, layout!((2, 8):(4, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadRange`] if the range is empty or reaches past the rank.
    #[inline]
    pub fn take(&self, begin: usize, end: usize) -> Result<Layout> {
        check_range(begin, end, self.rank())?;
        let mut out = LayoutBuilder::new();
        out.open();
        self.modes().skip(begin).take(end - begin).for_each(|m| out.push_ref(m));
        out.close();
        out.finish()
    }

    /// Groups the modes `begin..end` into one mode, which you can then index with one integer. For
    /// example, it makes one mode of the batch and the rows.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2, 8):(1, 4, 8)).group(1, 3)?, layout!((4, (2, 8)):(1, (4, 8))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::BadRange`] if the range is empty or reaches past the rank.
    #[doc(alias = "group_modes")]
    #[inline]
    pub fn group(&self, begin: usize, end: usize) -> Result<Layout> {
        check_range(begin, end, self.rank())?;
        let mut out = LayoutBuilder::new();
        out.open();
        for (i, mode) in self.modes().enumerate() {
            if i == begin {
                out.open();
            }
            out.push_ref(mode);
            if i + 1 == end {
                out.close();
            }
        }
        out.close();
        out.finish()
    }

    /// Flattens the layout into one tuple of leaves. A leaf stays a leaf. Use it if the nesting
    /// does not matter any more.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, (2, 8)):(2, (1, 8))).flatten()?, layout!((4, 2, 8):(2, 1, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] if there are more leaves than a tuple can have modes.
    #[inline]
    pub fn flatten(&self) -> Result<Layout> {
        if self.is_leaf() {
            return Ok(self.clone());
        }
        let mut out = LayoutBuilder::new();
        out.open();
        for (s, d) in self.as_ref().leaves() {
            out.push(s.clone(), d.clone());
        }
        out.close();
        out.finish()
    }

    /// Nests the modes like `profile`, with one mode for each of its leaves. It undoes
    /// [`flatten`](Layout::flatten): `(4,2,8)` with the profile `(0,(0,0))` becomes `(4,(2,8))`.
    ///
    /// ```
    /// # use tilewright::layout::{layout, shape};
    /// let l = layout!((4, 2, 8):(2, 1, 8));
    /// assert_eq!(l.unflatten(&shape!(0, (0, 0)))?, layout!((4, (2, 8)):(2, (1, 8))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if `profile` has another number of leaves than the
    /// layout has modes.
    #[inline]
    pub fn unflatten(&self, profile: &IntTuple) -> Result<Layout> {
        fn walk<'a>(
            profile: IntTupleRef<'_>,
            modes: &mut impl Iterator<Item = LayoutRef<'a>>,
            out: &mut LayoutBuilder,
        ) {
            if profile.is_leaf() {
                modes.next().into_iter().for_each(|m| out.push_ref(m));
                return;
            }
            out.open();
            profile.children().for_each(|child| walk(child, modes, out));
            out.close();
        }
        let leaves = profile.leaves().len();
        if leaves != self.rank() {
            return Err(LayoutError::RankMismatch { expected: leaves, found: self.rank() });
        }
        let mut out = LayoutBuilder::new();
        walk(profile.as_ref(), &mut self.modes(), &mut out);
        out.finish()
    }

    /// Appends `mode` as the last mode. Use it to add a batch mode, for example.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2):(1, 4)).append(&layout!(3:8))?, layout!((4, 2, 3):(1, 4, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limit on modes.
    #[inline]
    pub fn append(&self, mode: &Layout) -> Result<Layout> {
        self.padded_with(mode, self.rank() + 1, false)
    }

    /// Prepends `mode` as the first mode. For example, it puts a thread mode before the value
    /// modes.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2):(1, 4)).prepend(&layout!(3:8))?, layout!((3, 4, 2):(8, 1, 4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::TooLarge`] beyond the limit on modes.
    #[inline]
    pub fn prepend(&self, mode: &Layout) -> Result<Layout> {
        self.padded_with(mode, self.rank() + 1, true)
    }

    /// Appends `mode` until the layout has `rank` modes, for example `1:0` for code that expects a
    /// fixed rank.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!(4:1).append_to(3, &layout!(1:0))?, layout!((4, 1, 1):(1, 0, 0)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the layout already has more.
    #[inline]
    pub fn append_to(&self, rank: usize, mode: &Layout) -> Result<Layout> {
        self.padded_with(mode, rank, false)
    }

    /// Prepends `mode` until the layout has `rank` modes, for example `1:0` for code that expects a
    /// fixed rank.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!(4:1).prepend_to(2, &layout!(1:0))?, layout!((1, 4):(0, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the layout already has more.
    #[inline]
    pub fn prepend_to(&self, rank: usize, mode: &Layout) -> Result<Layout> {
        self.padded_with(mode, rank, true)
    }

    /// Appends `1:0` until the layout has `rank` modes, for code that expects a fixed rank. CuTe
    /// DSL's `append_ones`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!(4:1).append_ones(3)?, layout!((4, 1, 1):(1, 0, 0)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the layout already has more.
    #[inline]
    pub fn append_ones(&self, rank: usize) -> Result<Layout> {
        self.append_to(rank, &Layout::trivial())
    }

    /// Prepends `1:0` until the layout has `rank` modes, for code that expects a fixed rank. CuTe
    /// DSL's `prepend_ones`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!(4:1).prepend_ones(2)?, layout!((1, 4):(0, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the layout already has more.
    #[inline]
    pub fn prepend_ones(&self, rank: usize) -> Result<Layout> {
        self.prepend_to(rank, &Layout::trivial())
    }

    #[inline]
    fn padded_with(&self, mode: &Layout, rank: usize, front: bool) -> Result<Layout> {
        let own = self.rank();
        if own > rank {
            return Err(LayoutError::RankMismatch { expected: rank, found: own });
        }
        if own == rank {
            return Ok(self.clone());
        }
        let mut out = LayoutBuilder::new();
        out.open();
        if front {
            (own..rank).for_each(|_| out.push_ref(mode.as_ref()));
        }
        self.modes().for_each(|m| out.push_ref(m));
        if !front {
            (own..rank).for_each(|_| out.push_ref(mode.as_ref()));
        }
        out.close();
        out.finish()
    }

    /// Replaces mode `index` by `mode`. Use it to change one mode and keep the others.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 2):(1, 4)).replace(0, &layout!(3:8))?, layout!((3, 2):(8, 4)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`] if the index is not below the rank.
    #[inline]
    pub fn replace(&self, index: usize, mode: &Layout) -> Result<Layout> {
        let rank = self.rank();
        if index >= rank {
            return Err(LayoutError::NoSuchMode { mode: index, rank });
        }
        if self.is_leaf() {
            return Ok(mode.clone());
        }
        let mut out = LayoutBuilder::new();
        out.open();
        for (i, m) in self.modes().enumerate() {
            out.push_ref(if i == index { mode.as_ref() } else { m });
        }
        out.close();
        out.finish()
    }

    /// Pairs up the modes of two layouts: mode `i` of the result is `(mode i of self, mode i of
    /// other)`. Use it to put each tile mode beside its block mode.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let l = layout!((4, 2):(1, 4)).zip(&layout!((3, 5):(8, 9)))?;
    /// assert_eq!(l, layout!(((4, 3), (2, 5)):((1, 8), (4, 9))));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::RankMismatch`] if the ranks differ.
    #[inline]
    pub fn zip(&self, other: &Layout) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        zip_into(self.as_ref(), other.as_ref(), &mut out)?;
        out.finish()
    }
}

#[inline]
pub(crate) fn zip_into(a: LayoutRef<'_>, b: LayoutRef<'_>, out: &mut LayoutBuilder) -> Result<()> {
    if a.rank() != b.rank() {
        return Err(LayoutError::RankMismatch { expected: a.rank(), found: b.rank() });
    }
    out.open();
    for (x, y) in a.modes().zip(b.modes()) {
        out.open();
        out.push_ref(x);
        out.push_ref(y);
        out.close();
    }
    out.close();
    Ok(())
}
