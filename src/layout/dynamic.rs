//! Replaces static extents and strides by symbols, so that one kernel serves all tensors of a kind
//! instead of one shape.

use super::builder::LayoutBuilder;
use super::error::LayoutError;
use super::int::{Int, Width};
use super::layout::Layout;

type Result<T> = std::result::Result<T, LayoutError>;

const COMPACT: &str = "mark_compact_shape_dynamic";

/// # Dynamic shapes
///
/// Replaces integers by symbols, so that one kernel serves many shapes.
impl Layout {
    /// Returns the extent and stride of each mode. The layout must not be nested.
    #[inline]
    fn flat_modes(&self, operation: &'static str) -> Result<Vec<(Int, Int)>> {
        if self.depth() > 1 {
            return Err(LayoutError::Unsupported { operation, argument: self.to_string() });
        }
        let leaves = self.as_ref().leaves();
        leaves.map(|(extent, stride)| Ok((extent.clone(), stride.to_int()?.clone()))).collect()
    }

    /// Builds a layout with the same profile from these modes.
    #[inline]
    fn with_modes(&self, modes: Vec<(Int, Int)>) -> Result<Layout> {
        let mut out = LayoutBuilder::new();
        let many = !self.is_leaf();
        if many {
            out.open();
        }
        modes.into_iter().for_each(|(extent, stride)| out.push(extent, stride));
        if many {
            out.close();
        }
        out.finish()
    }

    /// Replaces static extents and strides by symbols, so that one kernel takes every layout of
    /// this kind (`KernelOptions::template`). Only two kinds of strides stay static: the 1 of the
    /// mode `leading_dim`, and 0, which repeats elements. CuTe DSL's `mark_layout_dynamic`. For
    /// example, `(8,32):(40,1)` becomes `(s0,s1):(d0,1)`.
    ///
    /// If `leading_dim` is `None`, it is the only mode with stride 1. Modes of extent 1 do not
    /// count if there are others. Each symbol is new and differs from all others, stride symbols
    /// are 64 bits wide, and symbols that were there before stay.
    ///
    /// ```
    /// use tilewright::layout::{Env, layout};
    ///
    /// let row_major = layout!((8, 32) : (40, 1)).mark_layout_dynamic(None)?;
    /// assert_eq!(row_major.to_string(), "(s0,s1):(d0,1)");
    /// assert!(layout!((8, 8) : (1, 1)).mark_layout_dynamic(None).is_err());
    /// assert_eq!(layout!((8, 8) : (1, 1)).mark_layout_dynamic(0)?.to_string(), "(s0,s1):(1,d1)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Undecided`] if several modes have stride 1 and `leading_dim` is
    /// `None`, [`LayoutError::NoSuchMode`], [`LayoutError::Unsupported`] for nested modes or if the
    /// leading mode's stride is not 1, and [`LayoutError::NotAnIntegerStride`].
    pub fn mark_layout_dynamic(&self, leading_dim: impl Into<Option<usize>>) -> Result<Layout> {
        let operation = "mark_layout_dynamic";
        let mut modes = self.flat_modes(operation)?;
        let leading = match leading_dim.into() {
            Some(leading) => {
                let rank = modes.len();
                let found = modes.get(leading);
                let (_, stride) = found.ok_or(LayoutError::NoSuchMode { mode: leading, rank })?;
                if !stride.is(1) {
                    let argument = format!("mode {leading} of {self} as the one of stride 1");
                    return Err(LayoutError::Unsupported { operation, argument });
                }
                Some(leading)
            }
            None => self.leading(operation, &modes)?,
        };
        for (mode, (extent, stride)) in modes.iter_mut().enumerate() {
            if extent.is_static() {
                *extent = Int::fresh(&format!("s{mode}"));
            }
            if stride.is_static() && !stride.is(0) && leading != Some(mode) {
                *stride = Int::fresh(&format!("d{mode}")).with_width(Width::W64);
            }
        }
        self.with_modes(modes)
    }

    #[inline]
    fn leading(&self, operation: &'static str, modes: &[(Int, Int)]) -> Result<Option<usize>> {
        let ones = |long: bool| -> Vec<usize> {
            let one = |(_, (extent, stride)): &(usize, &(Int, Int))| {
                stride.is(1) && !(long && extent.is(1))
            };
            modes.iter().enumerate().filter(one).map(|(mode, _)| mode).collect()
        };
        let (long, all) = (ones(true), ones(false));
        match if long.is_empty() { all.as_slice() } else { long.as_slice() } {
            [] => Ok(None),
            [leading] => Ok(Some(*leading)),
            _ => {
                let condition =
                    format!("to know the leading one of the modes of stride 1 in {self}");
                Err(LayoutError::Undecided { operation, condition })
            }
        }
    }

    /// Replaces the extent of `mode` in a compact layout by a symbol, a known multiple of
    /// `divisibility`. The strides outside of it follow. Call it again to mark more modes. CuTe
    /// DSL's `mark_compact_shape_dynamic`.
    ///
    /// `stride_order` lists the modes from the outermost to the innermost, like PyTorch's
    /// `dim_order`. Without it, the order is read from the strides. If two modes have the same
    /// stride, the one with extent 1 is the inner one. The symbol is new and differs from all
    /// others.
    ///
    /// ```
    /// use tilewright::layout::layout;
    ///
    /// let a = layout!((8, 4, 16, 2) : (128, 32, 2, 1));
    /// let rows = a.mark_compact_shape_dynamic(0, None, 2)?;
    /// assert_eq!(rows.to_string(), "(s0,4,16,2):(128,32,2,1)");
    /// let inner = a.mark_compact_shape_dynamic(2, None, 8)?;
    /// assert_eq!(inner.to_string(), "(8,4,s2,2):(8*s2,2*s2,2,1)");
    /// assert_eq!(inner.stride().leaves()[1].to_int()?.divisibility(), 16);
    /// let both = inner.mark_compact_shape_dynamic(1, None, 1)?;
    /// assert_eq!(both.to_string(), "(8,s1,s2,2):(2*s2*s1,2*s2,2,1)");
    /// // The order of modes of extent 1 is open.
    /// let column = layout!((8, 1) : (1, 8)).mark_compact_shape_dynamic(1, &[1, 0][..], 1)?;
    /// assert_eq!(column.to_string(), "(8,s1):(1,8)");
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoSuchMode`], [`LayoutError::NotDivisible`] if `divisibility` does
    /// not divide the extent, [`LayoutError::Undecided`] if the strides leave the order open, and
    /// [`LayoutError::Unsupported`] if the layout is not compact in that order, if the order does
    /// not list each mode once, if the mode has a symbol already, or if modes are nested.
    pub fn mark_compact_shape_dynamic<'o>(
        &self,
        mode: usize,
        stride_order: impl Into<Option<&'o [usize]>>,
        divisibility: i64,
    ) -> Result<Layout> {
        let mut modes = self.flat_modes(COMPACT)?;
        let rank = modes.len();
        let (extent, _) = modes.get(mode).ok_or(LayoutError::NoSuchMode { mode, rank })?;
        let number = extent.as_static().ok_or_else(|| LayoutError::Unsupported {
            operation: COMPACT,
            argument: format!("mode {mode} of {self}, which has a symbol"),
        })?;
        if divisibility < 1 || number % divisibility != 0 {
            let (value, by) = (number.into(), divisibility.into());
            return Err(LayoutError::NotDivisible { value, by });
        }
        let order = match stride_order.into() {
            Some(order) => self.checked_order(&modes, order)?,
            None => self.order_of_strides(&modes, mode)?,
        };
        // The product of the extents inside a mode, before and after the change.
        let (mut old, mut new) = (Int::ONE, Int::ONE);
        for i in order {
            let Some((extent, stride)) = modes.get_mut(i) else { continue };
            // A mode of extent 1 may have any stride, which then stays as it is.
            let follows = stride.same(&old);
            if !follows && !extent.is(1) {
                let argument = format!("{self}, which is not compact in this order");
                return Err(LayoutError::Unsupported { operation: COMPACT, argument });
            }
            if follows || i == mode {
                *stride = new.clone();
            }
            old = old.mul(extent)?;
            if i == mode {
                *extent = Int::fresh(&format!("s{mode}")).divisible_by(divisibility);
            }
            new = new.mul(extent)?;
        }
        self.with_modes(modes)
    }

    /// Checks an order from the outermost to the innermost mode, and reverses it.
    #[inline]
    fn checked_order(&self, modes: &[(Int, Int)], order: &[usize]) -> Result<Vec<usize>> {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if sorted.iter().copied().eq(0..modes.len()) {
            return Ok(order.iter().rev().copied().collect());
        }
        let argument = format!("{self} in the order {order:?}, which does not have each mode once");
        Err(LayoutError::Unsupported { operation: COMPACT, argument })
    }

    /// Returns the modes from the innermost to the outermost, by their strides. Modes of extent 1
    /// that fit nowhere are left out.
    #[inline]
    fn order_of_strides(&self, modes: &[(Int, Int)], marked: usize) -> Result<Vec<usize>> {
        let mut left: Vec<usize> = (0..modes.len()).collect();
        let (mut order, mut step) = (Vec::new(), Int::ONE);
        loop {
            let fits =
                |mode: &usize| modes.get(*mode).is_some_and(|(_, stride)| stride.same(&step));
            let is_one = |mode: &usize| modes.get(*mode).is_some_and(|(extent, _)| extent.is(1));
            let found: Vec<usize> = left.iter().copied().filter(fits).collect();
            let next = match found.as_slice() {
                [] => break,
                // Several modes fit. If one has extent 1, their order matters only if it is the
                // marked one.
                several if several.len() > 1 && several.contains(&marked) && is_one(&marked) => {
                    None
                }
                several => match several.iter().find(|mode| is_one(mode)) {
                    Some(one) => Some(*one),
                    None if several.len() > 1 => None,
                    None => several.first().copied(),
                },
            };
            let Some(next) = next else {
                let condition = format!("the order of the strides of {self}, `stride_order`");
                return Err(LayoutError::Undecided { operation: COMPACT, condition });
            };
            left.retain(|mode| *mode != next);
            order.push(next);
            if let Some((extent, _)) = modes.get(next) {
                step = step.mul(extent)?;
            }
        }
        let alone = |mode: &usize| {
            *mode == marked || modes.get(*mode).is_some_and(|(extent, _)| !extent.is(1))
        };
        match left.iter().find(|mode| alone(mode)) {
            None => Ok(order),
            Some(_) => {
                let argument = format!("{self}, which is not compact");
                Err(LayoutError::Unsupported { operation: COMPACT, argument })
            }
        }
    }
}
