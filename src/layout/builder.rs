//! [`LayoutBuilder`] builds a layout from left to right, leaf by leaf.

use smallvec::SmallVec;

use super::basis::ScaledBasis;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tuple::{Codes, LEAF, Leaves, MAX_DEPTH};

type Result<T> = std::result::Result<T, LayoutError>;

/// Builds a [`Layout`] from left to right, leaf by leaf.
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
#[derive(Clone)]
pub struct LayoutBuilder {
    layout: Layout,
    /// The index of the code and the number of modes so far of each open tuple.
    open: SmallVec<[(u32, u32); 8]>,
    error: Option<LayoutError>,
}

impl Default for LayoutBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl LayoutBuilder {
    /// An empty builder.
    ///
    /// ```
    /// # use tilewright::layout::LayoutBuilder;
    /// assert_eq!(LayoutBuilder::new().finish()?.to_string(), "():()");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn new() -> Self {
        let layout = Layout { codes: Codes::new(), shape: Leaves::new(), stride: Leaves::new() };
        Self { layout, open: SmallVec::new(), error: None }
    }

    #[inline]
    fn mode(&mut self) {
        if let Some((_, count)) = self.open.last_mut() {
            *count = count.saturating_add(1);
        }
    }

    /// Begins a tuple of modes.
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
        self.mode();
        if self.open.len() >= MAX_DEPTH {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.open.push((u32::try_from(self.layout.codes.len()).unwrap_or(u32::MAX), 0));
        self.layout.codes.push(0);
    }

    /// Ends the tuple that was begun last.
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
        let Some((at, count)) = self.open.pop() else { return };
        match (u16::try_from(count), self.layout.codes.get_mut(at as usize)) {
            (Ok(count), Some(code)) if count != LEAF => *code = count,
            _ => {
                self.error.get_or_insert(LayoutError::too_many_modes());
            }
        }
    }

    /// Appends the mode `extent : stride`.
    ///
    /// ```
    /// # use tilewright::layout::{LayoutBuilder, layout};
    /// let mut out = LayoutBuilder::new();
    /// out.push(4, 1);
    /// assert_eq!(out.finish()?, layout!(4:1));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[inline]
    pub fn push(&mut self, extent: impl Into<Int>, stride: impl Into<ScaledBasis>) {
        self.mode();
        self.layout.codes.push(LEAF);
        self.layout.shape.push(extent.into());
        self.layout.stride.push(stride.into());
    }

    /// Appends a copy of a mode.
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
        self.mode();
        // A mode of few nodes cannot be too deep in a shallow tuple.
        if self.open.len() + mode.codes.len() > MAX_DEPTH
            && self.open.len() + mode.shape().depth() > MAX_DEPTH
        {
            self.error.get_or_insert(LayoutError::TooDeep { limit: MAX_DEPTH });
        }
        self.layout.codes.extend_from_slice(mode.codes);
        for (s, d) in mode.leaves() {
            self.layout.shape.push(s.clone());
            self.layout.stride.push(d.clone());
        }
    }

    /// The layout.
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
    /// [`LayoutError::TooDeep`], [`LayoutError::TooLarge`].
    #[inline]
    pub fn finish(mut self) -> Result<Layout> {
        while !self.open.is_empty() {
            self.close();
        }
        if self.layout.codes.is_empty() {
            self.layout.codes.push(0);
        }
        match self.error {
            None => Ok(self.layout),
            Some(error) => Err(error),
        }
    }

    /// The layout that a macro wrote down. Nesting beyond the limit would have to stand in the
    /// source text; it gives the empty layout.
    #[doc(hidden)]
    pub fn finish_literal(self) -> Layout {
        self.finish().unwrap_or_else(|_| Layout {
            codes: SmallVec::from_slice(&[0]),
            shape: Leaves::new(),
            stride: Leaves::new(),
        })
    }
}

const _: () = assert!(MAX_DEPTH < 128);
