//! [`Range`]: the integers between two ends, the coarsest of the prover's domains.

/// The integers from `lo` to `hi`, both inclusive.
///
/// The ends are 128 bits wide and saturate at [`Range::LIMIT`], which is far outside every type of
/// a kernel, so that no bound of a kernel's value is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Range {
    pub(super) lo: i128,
    pub(super) hi: i128,
}

impl Range {
    /// An end that stands for "unbounded".
    pub(super) const LIMIT: i128 = 1 << 100;

    pub(super) const ALL: Range = Range { lo: -Range::LIMIT, hi: Range::LIMIT };

    pub(super) fn new(lo: i128, hi: i128) -> Range {
        Range { lo: lo.max(-Range::LIMIT), hi: hi.min(Range::LIMIT) }
    }

    pub(super) fn point(value: i128) -> Range {
        Range::new(value, value)
    }

    pub(super) fn plus(self, other: Range) -> Range {
        // An unbounded end stays unbounded, whichever operand it comes from.
        let is_open = self.lo <= -Range::LIMIT || other.lo <= -Range::LIMIT;
        let lo = if is_open { -Range::LIMIT } else { self.lo + other.lo };
        let is_open = self.hi >= Range::LIMIT || other.hi >= Range::LIMIT;
        let hi = if is_open { Range::LIMIT } else { self.hi + other.hi };
        Range::new(lo, hi)
    }

    pub(super) fn negated(self) -> Range {
        Range { lo: -self.hi, hi: -self.lo }
    }

    pub(super) fn minus(self, other: Range) -> Range {
        self.plus(other.negated())
    }

    pub(super) fn times(self, other: Range) -> Range {
        let product = |a: i128, b: i128| {
            a.checked_mul(b).unwrap_or(if (a < 0) == (b < 0) {
                Range::LIMIT
            } else {
                -Range::LIMIT
            })
        };
        let all = [
            product(self.lo, other.lo),
            product(self.lo, other.hi),
            product(self.hi, other.lo),
            product(self.hi, other.hi),
        ];
        let lo = all.iter().copied().min().unwrap_or(-Range::LIMIT);
        let hi = all.iter().copied().max().unwrap_or(Range::LIMIT);
        Range::new(lo.min(Range::LIMIT), hi.max(-Range::LIMIT))
    }

    /// The quotients rounded down. `None` if the divisor may be zero or negative.
    pub(super) fn floor_div(self, by: Range) -> Option<Range> {
        if by.lo < 1 {
            return None;
        }
        let all = [
            self.lo.div_euclid(by.lo),
            self.lo.div_euclid(by.hi),
            self.hi.div_euclid(by.lo),
            self.hi.div_euclid(by.hi),
        ];
        let lo = all.iter().copied().min()?;
        let hi = all.iter().copied().max()?;
        let lo = if self.lo <= -Range::LIMIT { -Range::LIMIT } else { lo };
        let hi = if self.hi >= Range::LIMIT { Range::LIMIT } else { hi };
        Some(Range::new(lo, hi))
    }

    /// The smallest range that holds both.
    pub(super) fn or(self, other: Range) -> Range {
        Range { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// The integers in both. If there are none, returns `self`, because the code is dead.
    pub(super) fn and(self, other: Range) -> Range {
        let both = Range { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) };
        if both.lo > both.hi { self } else { both }
    }

    pub(super) fn is_within(self, other: Range) -> bool {
        other.lo <= self.lo && self.hi <= other.hi
    }

    pub(super) fn as_point(self) -> Option<i128> {
        (self.lo == self.hi).then_some(self.lo)
    }

    /// Bits that may be set in the value, if it is never negative.
    pub(super) fn mask(self) -> Option<u128> {
        let hi = u128::try_from(self.hi).ok().filter(|_| self.lo >= 0)?;
        Some(hi.checked_add(1)?.next_power_of_two() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn unbounded_ends_stay_unbounded() {
        let all = Range::ALL;
        assert_eq!(all.plus(Range::point(-5)), all);
        assert_eq!(Range::new(0, Range::LIMIT).minus(Range::point(7)).lo, -7);
        assert_eq!(all.times(Range::point(3)), all);
        assert_eq!(Range::new(-7, 9).floor_div(Range::point(4)), Some(Range::new(-2, 2)));
        assert_eq!(Range::new(0, 8).mask(), Some(15));
        assert_eq!(Range::new(0, 7).mask(), Some(7));
    }
}
