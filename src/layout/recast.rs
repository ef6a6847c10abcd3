//! `upcast`, `downcast` and `recast_layout`: view the same memory as wider or narrower elements,
//! for example `f16` as 128-bit vectors.

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

/// # Recasts
///
/// Views the same memory as wider or narrower elements.
impl Layout {
    /// Returns the layout of the same memory for elements `n` times as wide. Use it to see memory
    /// as vectors: for example, `(16,8):(1,16)` becomes `(4,8):(1,4)` if 4 elements make one.
    /// Contiguous modes become `n` times shorter, and other strides are divided by `n`. If `R`
    /// reaches an index `j`, then `self` reaches `n * j`, and these are all its multiples of `n`.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((16, 8):(1, 16)).upcast(4)?, layout!((4, 8):(1, 4)));
    /// assert_eq!(layout!((2, 4):(1, 2)).upcast(4)?, layout!((1, 2):(1, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotDivisible`] if a stride neither divides `n` nor is a multiple of
    /// it, unless the extent is 1; a symbolic extent must then be 1, which evaluation checks. A
    /// symbolic stride must be a multiple of `n`, which evaluation checks. Returns
    /// [`LayoutError::ExtentNotPositive`] if `n < 1`.
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
                // Such a stride is rounded away from 0, as static ones are.
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

    /// Returns the layout of the same memory for elements 1/`n` as wide. The mode with stride 1
    /// becomes `n` times longer, and all other strides are multiplied by `n`. If several modes have
    /// stride 1, it is the first whose extent is not 1, or else the first. For example,
    /// `(4,8):(1,4)` becomes `(16,8):(1,16)` if one element becomes 4. Use it to see the parts of
    /// wide elements.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(1, 4)).downcast(4)?, layout!((16, 8):(1, 16)));
    /// assert_eq!(layout!((1, 8):(1, 1)).downcast(4)?, layout!((1, 32):(4, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NoUnitStride`] if no mode has stride 1, because the new elements
    /// would have no mode. For a broadcast operand such as `16:0`, write `(1,16):(1,0)`. If a
    /// single symbolic stride may be 1, it is taken to be 1, which evaluation checks.
    /// Returns [`LayoutError::NotInjective`] if several modes whose extent is not 1 have stride 1
    /// or -1, [`LayoutError::Undecided`] if the sign of a symbolic stride is not known,
    /// [`LayoutError::Overflow`], or [`LayoutError::ExtentNotPositive`] if `n < 1`.
    #[inline]
    pub fn downcast(&self, n: i64) -> Result<Layout> {
        self.finer(n).map_err(|error| self.recast_advice(error, |l| l.finer(n)))
    }

    #[inline]
    fn finer(&self, n: i64) -> Result<Layout> {
        let by = positive(n)?;
        // With `n == 1` the elements stay the same, whatever the strides are.
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
        // 0 if the symbolic stride that we take to be 1 is 1.
        let assumed = match (found, self.stride[first].value()) {
            (None, Some(value)) => Some(value.sub(&Int::ONE)?.abs()?),
            _ => None,
        };
        let mut out = self.clone();
        for (i, (s, d)) in out.shape.iter_mut().zip(&mut out.stride).enumerate() {
            if i == unit {
                let longer = s.mul(&by)?;
                // If this extent evaluates to 1, the first mode with stride 1 would have to become
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
                    // If this mode has extent 1, the other one becomes longer.
                    longer = longer.min(&s.sub(&Int::ONE)?)?;
                }
                scaled = scaled.with_value(result.on_condition(&longer));
            }
            *d = scaled;
        }
        Ok(out)
    }

    /// Returns the only mode with a symbolic stride that may be 1, if no stride is a static 1 or
    /// -1.
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

    /// Returns the layout for elements of `new_bits`, if `self` describes the memory in elements of
    /// `old_bits`. It upcasts by the numerator and downcasts by the denominator of `new_bits /
    /// old_bits`. For example, bytes in `(16,8):(1,16)` are 32-bit words in `(4,8):(1,4)`.
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
    /// The same as [`upcast`](Layout::upcast) and [`downcast`](Layout::downcast).
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
}

/// # Size in bytes
///
/// Says how much memory to allocate.
impl Layout {
    /// Returns how many bytes a buffer for this layout needs, if an element has `bits` bits: the
    /// cosize in bytes, rounded up.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// assert_eq!(layout!((4, 8):(1, 16)).size_in_bytes(4)?, 58);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::Overflow`], or [`LayoutError::ExtentNotPositive`] if `bits < 1`.
    #[inline]
    pub fn size_in_bytes(&self, bits: i64) -> Result<Int> {
        self.cosize()?.mul(&positive(bits)?)?.ceil_div(&Int::new(8))
    }
}

/// Returns the factors by which to upcast and then downcast from `old_bits` to `new_bits`.
pub(crate) fn recast_steps(old_bits: i64, new_bits: i64) -> Result<(i64, i64)> {
    positive(old_bits)?;
    positive(new_bits)?;
    let ratio = Ratio::new(new_bits, old_bits)?;
    Ok((ratio.numerator(), ratio.denominator()))
}
