//! Iterates over all indices of a layout like an odometer: one addition per step, no division. For
//! loops on the host that visit every element.

use smallvec::SmallVec;

use super::error::LayoutError;
use super::int::Int;
use super::layout::Layout;
use super::layout_ref::LayoutRef;

/// Iterates over the indices of a static layout into the integers, in the order of its coordinates.
/// [`Layout::indices`] returns it.
///
/// ```
/// use tilewright::layout::{Indices, layout};
/// let indices: Indices = layout!((2, 3):(3, 1)).indices()?;
/// assert_eq!(indices.collect::<Vec<_>>(), [0, 3, 1, 4, 2, 5]);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Indices {
    modes: SmallVec<[Mode; 8]>,
    index: i64,
    remaining: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    extent: i64,
    stride: i64,
    digit: i64,
    /// `stride * (extent - 1)`, which leads back to coordinate 0.
    back: i64,
}

/// # Iteration
///
/// Visits all indices in the order of the coordinates.
impl Layout {
    /// Iterates over the indices `self(0), self(1), ..` of a static layout into the integers. It is
    /// much faster than calling [`at`](Layout::at) in a loop.
    ///
    /// ```
    /// # use tilewright::layout::layout;
    /// let indices: Vec<i64> = layout!((2, (2, 2)):(4, (1, 2))).indices()?.collect();
    /// assert_eq!(indices, [0, 4, 1, 5, 2, 6, 3, 7]);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::NotStatic`] if there are symbols, [`LayoutError::NotAnIntegerStride`]
    /// if a stride is a basis element or a fraction, [`LayoutError::ExtentNotPositive`], or
    /// [`LayoutError::Overflow`] if a size or index does not fit in 64 bits.
    #[inline]
    pub fn indices(&self) -> Result<Indices, LayoutError> {
        Indices::of(self.as_ref())
    }
}

impl Layout {
    /// Returns the indices of a layout with static extents, in the order of its coordinates.
    /// Strides may have symbols.
    ///
    /// # Errors
    /// The same as [`indices`](Layout::indices), but only extents must be static.
    #[inline]
    pub(crate) fn symbolic_indices(&self) -> Result<Vec<Int>, LayoutError> {
        if let Ok(indices) = self.indices() {
            return Ok(indices.map(Int::new).collect());
        }
        let mut all = vec![Int::ZERO];
        for (extent, stride) in self.as_ref().leaves() {
            let (extent, stride) = (extent.to_static()?, stride.to_int()?);
            if extent < 1 {
                return Err(LayoutError::ExtentNotPositive { extent: extent.into() });
            }
            let inner = std::mem::take(&mut all);
            for digit in 0..extent {
                let moved = stride.mul(&digit.into())?;
                for index in &inner {
                    all.push(index.add(&moved)?);
                }
            }
        }
        Ok(all)
    }
}

impl Indices {
    /// Iterates over the indices of a layout or mode.
    #[inline]
    pub(crate) fn of(layout: LayoutRef<'_>) -> Result<Indices, LayoutError> {
        let overflow = || LayoutError::overflow("the walk over a layout");
        let mut modes: SmallVec<[Mode; 8]> = SmallVec::new();
        let (mut size, mut low, mut high) = (1i64, 0i64, 0i64);
        for (extent, stride) in layout.leaves() {
            let (s, d) = (extent.to_static()?, stride.to_int()?.to_static()?);
            if s < 1 {
                return Err(LayoutError::ExtentNotPositive { extent: extent.clone() });
            }
            let back = d.checked_mul(s - 1).ok_or_else(overflow)?;
            size = size.checked_mul(s).ok_or_else(overflow)?;
            let side = if back < 0 { &mut low } else { &mut high };
            *side = side.checked_add(back).ok_or_else(overflow)?;
            match modes.last_mut() {
                _ if s == 1 => {}
                Some(last) if last.stride.checked_mul(last.extent) == Some(d) => {
                    last.extent *= s;
                    last.back = last.stride * (last.extent - 1);
                }
                _ => modes.push(Mode { extent: s, stride: d, digit: 0, back }),
            }
        }
        Ok(Indices { modes, index: 0, remaining: size.unsigned_abs() })
    }

    #[inline]
    fn step(&mut self) {
        for mode in &mut self.modes {
            mode.digit += 1;
            if mode.digit < mode.extent {
                self.index += mode.stride;
                return;
            }
            mode.digit = 0;
            self.index -= mode.back;
        }
    }
}

/// Folds over the indices of `modes` from `base` on. The two innermost loops are explicit, so that
/// the compiler can optimise them.
#[inline]
fn nested<B, F: FnMut(B, i64) -> B>(modes: &[Mode], base: i64, mut acc: B, f: &mut F) -> B {
    match modes {
        [] => f(acc, base),
        [inner] => {
            for digit in 0..inner.extent {
                acc = f(acc, base + digit * inner.stride);
            }
            acc
        }
        [inner, outer] => {
            for row in 0..outer.extent {
                let base = base + row * outer.stride;
                for digit in 0..inner.extent {
                    acc = f(acc, base + digit * inner.stride);
                }
            }
            acc
        }
        [inner @ .., outer] => {
            for digit in 0..outer.extent {
                acc = nested(inner, base + digit * outer.stride, acc, f);
            }
            acc
        }
    }
}

impl Iterator for Indices {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        self.remaining = self.remaining.checked_sub(1)?;
        let index = self.index;
        self.step();
        Some(index)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match usize::try_from(self.remaining) {
            Ok(n) => (n, Some(n)),
            Err(_) => (usize::MAX, None),
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, i64) -> B>(mut self, init: B, mut f: F) -> B {
        let mut acc = init;
        // Finish the innermost modes that were begun, and then run whole loops over all modes.
        while self.modes.iter().any(|mode| mode.digit != 0) {
            let Some(index) = self.next() else { return acc };
            acc = f(acc, index);
        }
        if self.remaining == 0 { acc } else { nested(&self.modes, self.index, acc, &mut f) }
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::{Env, Int, Layout, layout};

    /// `eval(symbolic_indices(L)) == indices(eval(L))`.
    #[test]
    fn symbols_are_walked_as_their_numbers() {
        let (n, m) = (Int::symbol("n").divisible_by(4), Int::symbol("m"));
        let twice = n.mul(&Int::new(2)).unwrap();
        let sum = n.add(&m).unwrap();
        let layouts = [
            Layout::new((3, 4), (n.clone(), 1)).unwrap(),
            Layout::new((2, 3, 2), (m.clone(), twice, 7)).unwrap(),
            Layout::new((2, 1, 3), (sum, m.clone(), 0)).unwrap(),
            layout!((4, 8):(-1, 4)),
        ];
        let env = Env::new().with("n", 12).with("m", 5);
        for layout in layouts {
            let expected: Vec<i64> = layout.eval(&env).unwrap().indices().unwrap().collect();
            let found = layout.symbolic_indices().unwrap();
            let found: Vec<i64> = found.iter().map(|index| index.eval(&env).unwrap()).collect();
            assert_eq!(found, expected, "{layout}");
        }
        assert!(Layout::new((m, 2), (2, 1)).unwrap().symbolic_indices().is_err());
    }

    /// Stepping and folding see the same indices, wherever a walk is cut.
    #[test]
    fn folding_goes_on_where_stepping_stopped() {
        for layout in [
            layout!(1:0),
            layout!(7:3),
            layout!((2, 3, 4):(3, 100, 7)),
            layout!(((2, 2), (3, 1, 2)):((1, 10), (5, 9, 0))),
            layout!((4, 8):(-1, 4)),
        ] {
            let all: Vec<i64> = layout.indices().unwrap().collect();
            for cut in 0..=all.len() {
                let mut rest = layout.indices().unwrap();
                assert!(rest.by_ref().take(cut).eq(all[..cut].iter().copied()));
                let folded = rest.fold(Vec::new(), |mut seen, index| {
                    seen.push(index);
                    seen
                });
                assert_eq!(folded, all[cut..], "{layout} cut at {cut}");
            }
        }
    }
}
