//! [`Assumption`] is a fact about one symbol, for example that `n` is a multiple of 8. If an
//! operation on a symbolic layout is refused, the error names the assumption that would make it
//! succeed.

use std::fmt;

use super::int::{Int, Symbol, gcd_i64};

/// A fact about one symbol: a divisor, a bound or its value. It prints as `n % 8 == 0`, `n >= 2`,
/// `n <= 4` or `n == 1`.
///
/// If an operation is refused because of a symbol,
/// [`LayoutError::assumption`](super::LayoutError::assumption) has the assumption that it needs,
/// and [`Layout::assuming`](super::Layout::assuming) applies it.
///
/// ```
/// use tilewright::layout::{Int, Layout, layout};
/// // Two modes of stride 1 overlap, unless one of them has the extent 1.
/// let l = Layout::new((Int::symbol("n"), 2), (1, 1))?;
/// let error = l.downcast(4).unwrap_err();
/// let assumption = error.assumption().expect("one is enough");
/// assert_eq!(assumption.to_string(), "n == 1");
/// assert_eq!(l.assuming(assumption)?.downcast(4)?, layout!((1, 8):(4, 1)));
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Assumption {
    pub(super) symbol: Symbol,
    pub(super) fact: Fact,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fact {
    MultipleOf(i64),
    AtLeast(i64),
    AtMost(i64),
    Equals(i64),
}

impl Assumption {
    /// Returns the symbol that the assumption is about.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout};
    /// # let l = Layout::new((Int::symbol("n"), 2), (1, 1))?;
    /// # let error = l.downcast(4).unwrap_err();
    /// assert_eq!(error.assumption().map(|a| a.symbol().name()), Some("n"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Returns true if `value` satisfies the assumption. Use it to choose between two kernels once
    /// the value is known.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout};
    /// # let l = Layout::new((Int::symbol("n"), 2), (1, 1))?;
    /// # let error = l.downcast(4).unwrap_err();
    /// assert_eq!(error.assumption().map(|a| (a.holds(1), a.holds(2))), Some((true, false)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn holds(&self, value: i64) -> bool {
        match self.fact {
            Fact::MultipleOf(divisor) => value.checked_rem(divisor) == Some(0),
            Fact::AtLeast(min) => value >= min,
            Fact::AtMost(max) => value <= max,
            Fact::Equals(number) => value == number,
        }
    }

    /// Returns true for a divisor or a bound, and false for a single value.
    pub(crate) fn is_broad(&self) -> bool {
        !matches!(self.fact, Fact::Equals(_))
    }

    /// Returns the integer in the assumption.
    pub(super) fn number(&self) -> i64 {
        match self.fact {
            Fact::MultipleOf(number)
            | Fact::AtLeast(number)
            | Fact::AtMost(number)
            | Fact::Equals(number) => number,
        }
    }

    /// Returns true if what is known about the symbol allows the assumption, but does not imply it.
    pub(super) fn is_news(&self) -> bool {
        let (min, max) = self.symbol.bounds();
        let known = self.symbol.divisor();
        match self.fact {
            Fact::MultipleOf(divisor) => {
                let smallest = known.checked_mul(divisor / gcd_i64(known, divisor));
                known % divisor != 0 && (min <= 0 || smallest.is_some_and(|least| least <= max))
            }
            Fact::AtLeast(least) => min < least && least <= max,
            Fact::AtMost(most) => min <= most && most < max,
            Fact::Equals(number) => min <= number && number <= max && number % known == 0,
        }
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Int::from_symbol(self.symbol.clone());
        match self.fact {
            Fact::MultipleOf(divisor) => write!(f, "{name} % {divisor} == 0"),
            Fact::AtLeast(min) => write!(f, "{name} >= {min}"),
            Fact::AtMost(max) => write!(f, "{name} <= {max}"),
            Fact::Equals(value) => write!(f, "{name} == {value}"),
        }
    }
}
impl fmt::Debug for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
