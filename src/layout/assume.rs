//! Runs operations under an [`Assumption`], and searches for one that makes a refused operation
//! succeed.
//!
//! The search tries the operation again with each candidate: a divisor, a bound or a value that
//! occurs in the operands. So whatever an error suggests is known to work.

use std::cell::Cell;

use super::assumption::{Assumption, Fact};
use super::basis::ScaledBasis;
use super::error::LayoutError;
use super::int::{Factor, Fun, Int, Symbol};
use super::layout::Layout;
use super::layout_ref::LayoutRef;
use super::tiler::{Tiler, TilerLeaf, TilerRef};
use super::tuple::{IntTuple, IntTupleRef, Tuple};

type Result<T> = std::result::Result<T, LayoutError>;

impl Assumption {
    /// Returns what stands for the symbol, with the facts that are already known.
    fn replacement(&self, symbol: &Symbol) -> Result<Int> {
        let known = Int::from_symbol(symbol.clone());
        let (min, max) = known.bounds();
        let number = |number| Int::new(number).assume(symbol.divisor(), min, max);
        match self.fact {
            Fact::MultipleOf(divisor) => Ok(known.divisible_by(divisor)),
            Fact::AtLeast(least) if least == max => number(max),
            Fact::AtLeast(least) => known.assume(1, min.max(least), max),
            Fact::AtMost(most) if most == min => number(min),
            Fact::AtMost(most) => known.assume(1, min, max.min(most)),
            Fact::Equals(value) => number(value),
        }
    }
}

impl Int {
    /// Simplifies the value under the assumption about its symbol: with `n == 1`, `8*n` becomes 8.
    /// For a whole layout, use [`Layout::assuming`].
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout};
    /// let n = Int::symbol("n");
    /// let error = Layout::new((&n, 2), (1, 1))?.downcast(4).unwrap_err();
    /// let assumption = error.assumption().expect("`n == 1` is enough");
    /// assert_eq!(n.mul(&8.into())?.assuming(assumption)?, 8);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::AssumptionViolated`] or [`LayoutError::ConditionViolated`] if the
    /// value contradicts the assumption, or an error of the arithmetic.
    pub fn assuming(&self, assumption: &Assumption) -> Result<Int> {
        if self.is_static() {
            return Ok(self.clone());
        }
        let mut sum = Int::ZERO;
        for term in self.terms() {
            let mut product = Int::new(term.coefficient);
            for factor in &term.factors {
                let value = match factor {
                    // A factor is the symbol divided by its divisor.
                    Factor::Symbol(symbol) => {
                        let value = if symbol.key() == assumption.symbol.key() {
                            assumption.replacement(symbol)?
                        } else {
                            Int::from_symbol(Symbol::clone(symbol))
                        };
                        value.exact_div(&Int::new(symbol.divisor()))?
                    }
                    Factor::Call(call) => {
                        let (a, b) = (call.a.assuming(assumption)?, call.b.assuming(assumption)?);
                        match call.fun {
                            Fun::FloorDiv => a.floor_div(&b)?,
                            Fun::Mod => a.modulo(&b)?,
                            Fun::CeilDiv => a.ceil_div(&b)?,
                            Fun::Min => a.min(&b)?,
                            Fun::Max => a.max(&b)?,
                            Fun::Gcd => a.gcd(&b)?,
                            Fun::Xor => a.xor(&b)?,
                            Fun::And => a.and(&b)?,
                            Fun::Assume => {
                                a.assume(call.facts.divisor, call.facts.min, call.facts.max)?
                            }
                            Fun::Checked if b.bounds().0 > 0 => {
                                return Err(LayoutError::ConditionViolated {
                                    value: a.to_string(),
                                    condition: format!("{b} <= 0"),
                                });
                            }
                            Fun::Checked => a.on_condition(&b),
                            Fun::Overflow => Int::overflowed(),
                        }
                    }
                };
                product = product.mul(&value)?;
            }
            sum = sum.add(&product)?;
        }
        Ok(sum)
    }

    /// Returns true if the value carries a condition that evaluation checks.
    pub(crate) fn is_conditional(&self) -> bool {
        self.terms().iter().flat_map(|term| &term.factors).any(|factor| match factor {
            Factor::Symbol(_) => false,
            Factor::Call(call) => {
                call.fun == Fun::Checked || call.a.is_conditional() || call.b.is_conditional()
            }
        })
    }

    /// Calls `each` for each integer in the expression.
    fn constants(&self, each: &mut impl FnMut(i64)) {
        if let Some(value) = self.as_static() {
            each(value);
        }
        for term in self.terms() {
            each(term.coefficient);
            for factor in &term.factors {
                if let Factor::Call(call) = factor {
                    call.a.constants(each);
                    call.b.constants(each);
                }
            }
        }
    }

    /// Calls `each` for each symbol in the expression, in order.
    fn symbols(&self, each: &mut impl FnMut(&Symbol)) {
        for factor in self.terms().iter().flat_map(|term| &term.factors) {
            match factor {
                Factor::Symbol(symbol) => each(symbol),
                Factor::Call(call) => {
                    call.a.symbols(each);
                    call.b.symbols(each);
                }
            }
        }
    }
}

/// # Assumptions about symbols
///
/// Apply one if an operation refuses a symbol, and run the operation again.
impl Layout {
    /// Applies the assumption to the symbol in all extents and strides. Use it with the assumption
    /// that an error names, and then run the refused operation again.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout, layout};
    /// let l = Layout::new((Int::symbol("n"), 2), (1, 1))?;
    /// let error = l.downcast(4).unwrap_err();
    /// assert!(error.to_string().ends_with("; assume n == 1"), "{error}");
    /// let assumed = l.assuming(error.assumption().expect("one is enough"))?;
    /// assert_eq!(assumed.downcast(4)?, layout!((1, 8):(4, 1)));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// The same as [`Int::assuming`].
    pub fn assuming(&self, assumption: &Assumption) -> Result<Layout> {
        let stride = |d: &ScaledBasis| match d.value() {
            Some(value) => Ok(d.with_value(value.assuming(assumption)?)),
            None => Ok(d.clone()),
        };
        Ok(Layout {
            codes: self.codes.clone(),
            shape: self.shape.iter().map(|s| s.assuming(assumption)).collect::<Result<_>>()?,
            stride: self.stride.iter().map(stride).collect::<Result<_>>()?,
        })
    }
}

/// The operands of a refused operation. Those that it does not use are `_`, `1:0` and 1.
pub(crate) struct Operands {
    pub(crate) layout: Layout,
    pub(crate) tiler: Tiler,
    pub(crate) other: Layout,
    pub(crate) tuple: IntTuple,
}

impl Operands {
    pub(crate) fn new(layout: LayoutRef<'_>) -> Self {
        let tiler = Tuple::leaf(TilerLeaf::All);
        Self { layout: layout.to_layout(), tiler, other: Layout::trivial(), tuple: 1.into() }
    }

    pub(crate) fn with_tiler(self, tiler: TilerRef<'_>) -> Self {
        let tiler = match tiler {
            TilerRef::Layout(layout) => Tuple::leaf(layout.to_layout()),
            TilerRef::Tuple(tiler) => tiler.to_owned(),
        };
        Self { tiler, ..self }
    }

    pub(crate) fn with_layout(self, other: LayoutRef<'_>) -> Self {
        Self { other: other.to_layout(), ..self }
    }

    pub(crate) fn with_tuple(self, tuple: IntTupleRef<'_>) -> Self {
        Self { tuple: tuple.to_owned(), ..self }
    }

    fn assuming(&self, assumption: &Assumption) -> Result<Self> {
        let tiler = self.tiler.map(|leaf| {
            Ok::<_, LayoutError>(match leaf {
                TilerLeaf::Int(extent) => TilerLeaf::Int(extent.assuming(assumption)?),
                TilerLeaf::All => TilerLeaf::All,
                TilerLeaf::Layout(layout) => {
                    TilerLeaf::Layout(Box::new(layout.assuming(assumption)?))
                }
            })
        })?;
        let (layout, other) = (self.layout.assuming(assumption)?, self.other.assuming(assumption)?);
        let tuple = self.tuple.map(|value| value.assuming(assumption))?;
        Ok(Self { layout, tiler, other, tuple })
    }

    /// Returns the extents and strides of all operands, in order. A plain integer counts as an
    /// extent with stride 1.
    fn modes(&self) -> Vec<(Int, Int)> {
        let mut all = Vec::new();
        let mut add = |layout: &Layout| {
            for (s, d) in layout.as_ref().leaves() {
                all.push((s.clone(), d.value().cloned().unwrap_or(Int::ONE)));
            }
        };
        add(&self.layout);
        add(&self.other);
        for leaf in self.tiler.leaves() {
            match leaf {
                TilerLeaf::Int(extent) => add(&Layout::leaf(extent.clone(), 1)),
                TilerLeaf::All => {}
                TilerLeaf::Layout(layout) => add(layout),
            }
        }
        all.extend(self.tuple.leaves().iter().map(|extent| (extent.clone(), Int::ONE)));
        all
    }

    fn symbols(&self) -> Vec<Symbol> {
        let mut all: Vec<Symbol> = Vec::new();
        for (s, d) in self.modes() {
            for value in [s, d] {
                value.symbols(&mut |symbol| {
                    if !all.iter().any(|other| other.key() == symbol.key()) {
                        all.push(symbol.clone());
                    }
                });
            }
        }
        all
    }

    /// Returns the integers that a divisor or a bound may come from: extents, strides, their
    /// products, and the sizes of the first modes.
    fn numbers(&self) -> Vec<i64> {
        let mut all = vec![2];
        let mut size = 1i64;
        for (s, d) in self.modes() {
            let (s, d) = (s.as_static().unwrap_or(1), d.as_static().unwrap_or(1).saturating_abs());
            size = size.saturating_mul(s);
            all.extend([s, d, s.saturating_mul(d), size]);
        }
        smallest(all, MAX_NUMBERS)
    }
}

/// Keeps the smallest distinct integers from 2 on.
fn smallest(mut all: Vec<i64>, count: usize) -> Vec<i64> {
    all.retain(|number| (2..=MAX_NUMBER).contains(number));
    all.sort_unstable();
    all.dedup();
    all.truncate(count);
    all
}

/// Limits on the candidates for one symbol.
const MAX_NUMBERS: usize = 8;
const MAX_NUMBER: i64 = 1 << 32;

/// Returns the candidates, the weakest first.
fn candidates(operands: &Operands) -> Vec<Assumption> {
    let (symbols, numbers) = (operands.symbols(), operands.numbers());
    let mut facts = vec![Fact::AtLeast(0), Fact::AtLeast(1)];
    facts.extend(numbers.iter().map(|&number| Fact::MultipleOf(number)));
    facts.extend(numbers.iter().map(|&number| Fact::AtLeast(number)));
    facts.push(Fact::AtMost(-1));
    facts.extend(numbers.iter().rev().map(|&number| Fact::AtMost(number)));
    facts.extend([1].iter().chain(&numbers).map(|&number| Fact::Equals(number)));
    let all = facts.into_iter().flat_map(|fact| {
        symbols.iter().map(move |symbol| Assumption { symbol: symbol.clone(), fact })
    });
    all.filter(Assumption::is_news).collect()
}

thread_local! {
    static SEARCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `search`. Operations that are refused inside it do not search for assumptions themselves.
pub(crate) fn searching<T>(search: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            SEARCHING.set(self.0);
        }
    }
    let _reset = Reset(SEARCHING.replace(true));
    search()
}

/// Adds to the error the weakest assumption under which `again` succeeds. Errors that do not depend
/// on symbols stay as they are.
#[cold]
pub(crate) fn advise(
    error: LayoutError,
    operands: &Operands,
    again: impl Fn(&Operands) -> Result<Layout>,
) -> LayoutError {
    let depends = matches!(
        error.cause(),
        LayoutError::NotAdmissible { .. }
            | LayoutError::Carries { .. }
            | LayoutError::NotInjective { .. }
            | LayoutError::Interleaved { .. }
            | LayoutError::StrideNotDivisible { .. }
            | LayoutError::NotDivisible { .. }
            | LayoutError::Undecided { .. }
            | LayoutError::NoUnitStride { .. }
            | LayoutError::Unsupported { .. }
            | LayoutError::ConditionViolated { .. }
            | LayoutError::ExpressionTooLarge { .. }
    );
    if !depends || operands.symbols().is_empty() {
        return error;
    }
    let works = |assumption: &Assumption| {
        operands.assuming(assumption).is_ok_and(|operands| again(&operands).is_ok())
    };
    let find = || candidates(operands).into_iter().find(works);
    // A search inside another one would multiply the attempts.
    let assumption = if SEARCHING.get() { None } else { searching(find) };
    LayoutError::Symbolic { cause: Box::new(error), assumption: assumption.map(Box::new) }
}

/// Returns families of assumptions that split an operation on `layout` into cases. `made` is its
/// result without assumptions. The assumptions of a family are about the same symbol and exclude
/// each other.
pub(crate) fn families(layout: &Layout, made: &Result<Layout>) -> Vec<Vec<Assumption>> {
    let operands = Operands::new(layout.as_ref());
    let mut numbers = operands.numbers();
    match made {
        // The integers in the conditions.
        Ok(made) => {
            for (s, d) in Operands::new(made.as_ref()).modes() {
                for value in [s, d] {
                    value.constants(&mut |number| numbers.push(number.saturating_abs()));
                }
            }
        }
        Err(error) => numbers.extend(error.assumption().map(Assumption::number)),
    }
    let numbers = smallest(numbers, MAX_NUMBERS);
    let mut all = vec![
        vec![Fact::Equals(1), Fact::AtLeast(2)],
        vec![Fact::AtLeast(1), Fact::AtMost(-1)],
        vec![Fact::AtLeast(2), Fact::Equals(1), Fact::AtMost(-1)],
    ];
    for &number in &numbers {
        let divisors = (1..number.min(MAX_DIVISOR)).filter(|divisor| number % divisor == 0);
        let mut family = vec![Fact::MultipleOf(number)];
        family.extend(divisors.map(Fact::Equals));
        all.push(family);
        all.push(vec![Fact::AtMost(number - 1), Fact::AtLeast(number)]);
        all.push(vec![Fact::AtMost(number), Fact::AtLeast(number + 1)]);
    }
    let mut families = Vec::new();
    for symbol in operands.symbols() {
        for facts in &all {
            let family: Vec<Assumption> = facts
                .iter()
                .map(|&fact| Assumption { symbol: symbol.clone(), fact })
                .filter(Assumption::is_news)
                .collect();
            if family.len() > 1 {
                families.push(family);
            }
        }
    }
    families
}

/// Only divisors below this are tried as values of a symbol.
const MAX_DIVISOR: i64 = 16;
