//! [`Strided`]: a range whose integers are a fixed distance apart.

use super::poly::gcd;
use super::range::Range;

/// The integers `range.lo`, `range.lo + step`, .. up to `range.hi`. A single integer has step 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strided {
    pub(super) range: Range,
    pub(super) step: i128,
}

impl Strided {
    pub(super) fn new(range: Range, step: i128) -> Strided {
        if range.lo == range.hi {
            return Strided { range, step: 0 };
        }
        let step = step.abs().max(1);
        let (mut lo, mut hi) = (range.lo, range.hi);
        if lo > -Range::LIMIT && hi < Range::LIMIT {
            hi = lo + (hi - lo) / step * step;
        } else if lo <= -Range::LIMIT {
            // Without a first integer there is nothing to count from.
            return Strided { range, step: 1 };
        }
        lo = lo.min(hi);
        Strided { range: Range { lo, hi }, step: if lo == hi { 0 } else { step } }
    }

    pub(super) fn of(range: Range) -> Strided {
        Strided::new(range, 1)
    }

    /// The smallest range that holds both.
    pub(super) fn or(self, other: Strided) -> Strided {
        let apart = (self.range.lo - other.range.lo).unsigned_abs();
        let step = gcd(gcd(self.step.unsigned_abs(), other.step.unsigned_abs()), apart);
        Strided::new(self.range.or(other.range), i128::try_from(step).unwrap_or(1))
    }

    /// The integers without `end`, if that is the first or the last one.
    pub(super) fn without(self, end: i128) -> Strided {
        let Range { lo, hi } = self.range;
        if self.step == 0 {
            self
        } else if end == lo {
            Strided::new(Range { lo: lo + self.step, hi }, self.step)
        } else if end == hi {
            Strided::new(Range { lo, hi: hi - self.step }, self.step)
        } else {
            self
        }
    }

    /// The integers within `bound`, or all if there are none.
    pub(super) fn within(self, bound: Range) -> Strided {
        let Range { lo, hi } = self.range;
        if self.step == 0 || hi < bound.lo || lo > bound.hi {
            return self;
        }
        let first = if bound.lo > lo {
            lo + (bound.lo - lo + self.step - 1) / self.step * self.step
        } else {
            lo
        };
        if first > hi.min(bound.hi) {
            return self;
        }
        Strided::new(Range { lo: first, hi: hi.min(bound.hi) }, self.step)
    }

    /// An integer that divides all of them.
    pub(super) fn multiple(self) -> u128 {
        gcd(self.range.lo.unsigned_abs(), self.step.unsigned_abs()).max(1)
    }
}
