//! Computes `upcast`, `downcast` and `recast_layout`: the same memory as elements of another width.

use super::assume::{Operands, advise};
use super::basis::ScaledBasis;
use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::ratio::Ratio;

type Result<T> = std::result::Result<T, LayoutError>;

fn positive(n: i64) -> Result<Int> {
    if n < 1 {
        return Err(LayoutError::ExtentNotPositive { extent: n.into() });
    }
    Ok(n.into())
}

impl Layout {
    /// The layout for elements of the size of `n` present ones: contiguous modes become `n` times
    /// shorter, other strides `n` times smaller. The image of the result times `n` is the set of
    /// multiples of `n` in the image of `self`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((16, 8):(1, 16)).upcast(4)?, layout!((4, 8):(1, 4)));
    /// assert_eq!(layout!((2, 4):(1, 2)).upcast(4)?, layout!((1, 2):(1, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NotDivisible`] for a stride of a mode with an extent other than 1 that
    /// neither divides `n` nor is a multiple; a symbolic extent must be 1 there, which evaluation checks. A symbolic stride is divided on the condition that it
    /// is a multiple, which evaluation checks. [`LayoutError::ExtentNotPositive`] for `n < 1`.
    #[inline]
    pub fn upcast(&self, n: i64) -> Result<Layout> {
        self.coarser(n).map_err(|error| self.recast_advice(error, |l| l.coarser(n)))
    }

    #[cold]
    fn recast_advice(
        &self,
        error: LayoutError,
        again: impl Fn(&Layout) -> Result<Layout>,
    ) -> LayoutError {
        advise(error, &Operands::new(self.as_ref()), |o| again(&o.layout))
    }

    #[inline]
    fn coarser(&self, n: i64) -> Result<Layout> {
        let by = positive(n)?;
        let mut out = self.clone();
        for (s, d) in out.shape.iter_mut().zip(&mut out.stride) {
            let Some(value) = d.value().cloned() else {
                return Err(LayoutError::NotAnIntegerStride { stride: d.to_string() });
            };
            let Some(v) = value.as_static() else {
                // A mode of extent 1 may have any stride, and keeps its extent.
                let uneven = value.modulo(&by)?.min(&s.sub(&Int::ONE)?)?;
                // The stride of such a mode is rounded away from 0, as for numbers.
                let coarse = match value.bounds().0 {
                    0.. => value.ceil_div(&by)?,
                    _ => value.floor_div(&by)?,
                };
                *d = d.with_value(coarse.on_condition(&uneven));
                continue;
            };
            if v == 0 {
                continue;
            }
            if v % n != 0 && n % v != 0 && !s.is(1) {
                if s.bounds().0 > 1 || s.is_static() {
                    return Err(LayoutError::NotDivisible { value, by });
                }
                // A mode of extent 1 may have any stride.
                *s = s.on_condition(&s.sub(&Int::ONE)?);
            }
            let step = value.abs()?;
            *s = s.ceil_div(&by.ceil_div(&step)?)?;
            *d = d.with_value(step.ceil_div(&by)?.mul(&Int::new(v.signum()))?);
        }
        Ok(out)
    }

    /// The layout for elements of 1/`n` of the present size: the mode of stride 1 becomes `n` times
    /// longer, the strides of the others `n` times larger. Of several modes of stride 1 it is the
    /// first one with an extent other than 1, or the first one.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(1, 4)).downcast(4)?, layout!((16, 8):(1, 16)));
    /// assert_eq!(layout!((1, 8):(1, 1)).downcast(4)?, layout!((1, 32):(4, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::NoUnitStride`] if no mode has stride 1, because the new elements would have no
    /// mode: write broadcast operands such as `16:0` as `(1,16):(1,0)`; a single symbolic stride that may be 1 is taken for 1, which evaluation checks; [`LayoutError::NotInjective`] if several modes of an extent other than 1 have stride 1
    /// or -1; [`LayoutError::Undecided`] for a symbolic stride of unknown sign;
    /// [`LayoutError::Overflow`], [`LayoutError::ExtentNotPositive`] for `n < 1`.
    #[inline]
    pub fn downcast(&self, n: i64) -> Result<Layout> {
        self.finer(n).map_err(|error| self.recast_advice(error, |l| l.finer(n)))
    }

    #[inline]
    fn finer(&self, n: i64) -> Result<Layout> {
        let by = positive(n)?;
        // For `n == 1` the elements do not change, whatever the strides are.
        if n == 1 {
            return Ok(self.clone());
        }
        let units = || {
            let modes = self.shape.iter().zip(&self.stride).enumerate();
            modes.filter(|(_, (_, d))| d.as_static() == Some(1)).map(|(i, (s, _))| (i, s))
        };
        let found = units().next().map(|(at, _)| at);
        let Some(first) = found.or_else(|| self.only_possible_unit()) else {
            return Err(LayoutError::NoUnitStride { layout: self.to_string(), n });
        };
        let wide = self.shape.iter().zip(&self.stride);
        let wide = wide.filter(|(s, d)| !s.is(1) && matches!(d.as_static(), Some(1 | -1)));
        if wide.count() > 1 {
            return Err(LayoutError::NotInjective { layout: self.to_string() });
        }
        let (unit, unit_extent) = units().find(|(_, s)| !s.is(1)).unwrap_or((first, &Int::ONE));
        let unit_extent = unit_extent.clone();
        // 0 if the symbolic stride that is taken for 1 is 1.
        let assumed = match (found, self.stride[first].value()) {
            (None, Some(value)) => Some(value.sub(&Int::ONE)?.abs()?),
            _ => None,
        };
        let mut out = self.clone();
        for (i, (s, d)) in out.shape.iter_mut().zip(&mut out.stride).enumerate() {
            if i == unit {
                let longer = s.mul(&by)?;
                // If this extent evaluates to 1, the first mode of stride 1 would have to become
                // longer instead.
                *s = if i == first { longer } else { longer.on_condition(&Int::new(2).sub(s)?) };
                if let Some(violation) = &assumed {
                    (*s, *d) = (s.on_condition(violation), ScaledBasis::from(Int::ONE));
                }
                continue;
            }
            let mut scaled = d.scaled(&by)?;
            if let (Some(value), Some(result)) = (d.as_int(), scaled.as_int())
                && !value.is_static()
            {
                // If this stride evaluates to 1, its mode would have to become longer instead.
                if value.bounds().0 < 1 {
                    return Err(LayoutError::Undecided {
                        operation: "downcast",
                        condition: format!("that {value} is not 1 or -1"),
                    });
                }
                let mut longer = Int::new(2).sub(value)?;
                if unit < i || unit_extent.bounds().0 > 1 {
                    // The other mode is lengthened if this one has the extent 1.
                    longer = longer.min(&s.sub(&Int::ONE)?)?;
                }
                scaled = scaled.with_value(result.on_condition(&longer));
            }
            *d = scaled;
        }
        Ok(out)
    }

    /// The mode with a symbolic stride that may be 1, if there is only one and no stride is 1 or -1.
    #[inline]
    fn only_possible_unit(&self) -> Option<usize> {
        let is_unit = |d: &ScaledBasis| matches!(d.as_static(), Some(1 | -1));
        let may_be_unit = |d: &ScaledBasis| {
            d.as_int().is_some_and(|d| {
                !d.is_static() && d.divisibility() == 1 && d.bounds().0 <= 1 && d.bounds().1 >= 1
            })
        };
        let mut modes = (0..).zip(&self.stride).filter(|(_, d)| may_be_unit(d));
        let (first, another) = (modes.next(), modes.next());
        first.filter(|_| another.is_none() && !self.stride.iter().any(is_unit)).map(|(at, _)| at)
    }

    /// The layout for elements of `new_bits`, for memory that `self` describes in elements of
    /// `old_bits`. It is an upcast by the numerator and a downcast by the denominator of their
    /// ratio.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((16, 8):(1, 16)).recast_layout(8, 32)?, layout!((4, 8):(1, 4)));
    /// assert_eq!(layout!((4, 8):(1, 4)).recast_layout(32, 8)?, layout!((16, 8):(1, 16)));
    /// assert_eq!(layout!((12, 8):(1, 12)).recast_layout(4, 6)?, layout!((8, 8):(1, 8)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`upcast`](Layout::upcast) and [`downcast`](Layout::downcast).
    #[inline]
    pub fn recast_layout(&self, old_bits: i64, new_bits: i64) -> Result<Layout> {
        let (up, down) = recast_steps(old_bits, new_bits)?;
        let recast = |l: &Layout| match (up, down) {
            (1, 1) => Ok(l.clone()),
            (1, down) => l.finer(down),
            (up, 1) => l.coarser(up),
            (up, down) => l.coarser(up)?.finer(down),
        };
        recast(self).map_err(|error| self.recast_advice(error, recast))
    }

    /// The bytes that elements of `bits` at all indices of the layout span, rounded up.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(1, 16)).size_in_bytes(4)?, 58);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::Overflow`], [`LayoutError::ExtentNotPositive`] for `bits < 1`.
    #[inline]
    pub fn size_in_bytes(&self, bits: i64) -> Result<Int> {
        self.cosize()?.mul(&positive(bits)?)?.ceil_div(&Int::new(8))
    }
}

/// The factors of the upcast and of the downcast from `old_bits` to `new_bits`.
pub(crate) fn recast_steps(old_bits: i64, new_bits: i64) -> Result<(i64, i64)> {
    positive(old_bits)?;
    positive(new_bits)?;
    let ratio = Ratio::new(new_bits, old_bits)?;
    Ok((ratio.numerator(), ratio.denominator()))
}
