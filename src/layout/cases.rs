//! [`LayoutCases`] holds one result per case of an operation whose answer depends on symbols, each
//! with the assumptions under which it holds. Use it if an operation on a symbolic layout is
//! refused.

use std::fmt;

use super::assume::{families, searching};
use super::assumption::Assumption;
use super::error::LayoutError;
use super::int::Env;
use super::layout::Layout;

type Result<T> = std::result::Result<T, LayoutError>;

/// An operation's results by cases: the assumptions about symbols in each case, and the layout that
/// the operation gives under them. You get it from [`Layout::by_cases`].
///
/// ```
/// use tilewright::layout::{Env, Int, Layout};
/// // The stride 1 of an upcast shortens the mode, and a multiple of 2 does not.
/// let l = Layout::new((8, 8), (1, Int::symbol("d")))?;
/// let cases = l.by_cases(|l| l.upcast(2))?;
/// assert!(cases.to_string().starts_with("d % 2 == 0: (4,8):(1,d/2); d == 1: (4,4):(1,1)"));
/// assert_eq!(cases.eval(&Env::new().with("d", 8))?.to_string(), "(4,8):(1,4)");
/// assert_eq!(cases.eval(&Env::new().with("d", 1))?.to_string(), "(4,4):(1,1)");
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LayoutCases(Vec<(Vec<Assumption>, Layout)>);

/// How many assumptions a case may have.
const DEPTH: usize = 2;

/// # Cases of symbols
///
/// Computes one result for each case that the symbols leave open.
impl Layout {
    /// Runs `operation` by cases. If symbols leave it open, it is tried again under assumptions
    /// about one symbol that exclude each other, such as `n == 1` and `n >= 2`, and once more if
    /// that is not enough. Use it if an operation is refused, or if its result carries a condition
    /// that some of your values violate.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, Layout};
    /// let l = Layout::new((Int::symbol("n"), 4), (1, 2))?;
    /// let cases = l.by_cases(|l| l.complement(&64.into()))?;
    /// // With one element the first mode covers nothing.
    /// for n in [1, 2] {
    ///     let env = Env::new().with("n", n);
    ///     let numbers = l.eval(&env)?.complement(&64.into())?;
    ///     assert_eq!(cases.eval(&env)?.coalesce()?, numbers.coalesce()?);
    /// }
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the operation's error if it has no result in any case.
    pub fn by_cases(&self, operation: impl Fn(&Layout) -> Result<Layout>) -> Result<LayoutCases> {
        let mut cases = LayoutCases(Vec::new());
        let made = operation(self);
        searching(|| cases.add(self, &mut Vec::new(), &made, &operation));
        if cases.0.is_empty() {
            return Err(made.err().unwrap_or(LayoutError::Unsupported {
                operation: "by_cases without a case",
                argument: self.to_string(),
            }));
        }
        Ok(cases)
    }

    fn is_conditional(&self) -> bool {
        let strides = self.stride.iter().filter_map(|d| d.value());
        self.shape.iter().chain(strides).any(super::int::Int::is_conditional)
    }
}

/// An assumption about the layout, the layout under it, and the result.
type Side = (Assumption, Layout, Result<Layout>);

fn is_settled(made: &Result<Layout>) -> bool {
    made.as_ref().is_ok_and(|layout| !layout.is_conditional())
}

impl LayoutCases {
    /// Adds the cases of an operation on `layout`, which has the result `made` without more
    /// assumptions.
    fn add(
        &mut self,
        layout: &Layout,
        assumptions: &mut Vec<Assumption>,
        made: &Result<Layout>,
        operation: &impl Fn(&Layout) -> Result<Layout>,
    ) {
        if !is_settled(made) && assumptions.len() < DEPTH {
            for (assumption, layout, made) in split(layout, made, operation) {
                assumptions.push(assumption);
                self.add(&layout, assumptions, &made, operation);
                assumptions.pop();
            }
        }
        // A result that carries a condition is tried last.
        if let Ok(made) = made {
            self.0.push((assumptions.clone(), made.clone()));
        }
    }

    /// Iterates over the cases in the order in which [`eval`](LayoutCases::eval) tries them. In a
    /// case, all its assumptions hold. Use it to build one kernel per case, for example.
    ///
    /// ```
    /// # use tilewright::layout::{Int, Layout};
    /// let l = Layout::new((8, 8), (1, Int::symbol("d")))?;
    /// let cases = l.by_cases(|l| l.upcast(2))?;
    /// let (assumptions, layout) = cases.iter().next().expect("there is a case");
    /// assert_eq!((assumptions.len(), layout.to_string().as_str()), (1, "(4,8):(1,d/2)"));
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&[Assumption], &Layout)> {
        self.0.iter().map(|(assumptions, layout)| (assumptions.as_slice(), layout))
    }

    /// Returns the result for the symbols' values in `env`: the layout of the first case whose
    /// assumptions and conditions they satisfy.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int, Layout};
    /// let l = Layout::new((8, 8), (1, Int::symbol("d")))?;
    /// let cases = l.by_cases(|l| l.upcast(2))?;
    /// assert_eq!(cases.eval(&Env::new().with("d", 1))?.to_string(), "(4,4):(1,1)");
    /// // A stride of 3 cannot be divided by 2.
    /// assert!(cases.eval(&Env::new().with("d", 3)).is_err());
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`LayoutError::ConditionViolated`] if no case applies, or the errors of
    /// [`Int::eval`](super::Int::eval).
    pub fn eval(&self, env: &Env) -> Result<Layout> {
        let mut violated = None;
        for (assumptions, layout) in &self.0 {
            let holds = |assumption: &Assumption| {
                env.get(assumption.symbol()).is_none_or(|value| assumption.holds(value))
            };
            if !assumptions.iter().all(holds) {
                continue;
            }
            match layout.eval(env) {
                Err(error @ LayoutError::ConditionViolated { .. }) => violated = Some(error),
                result => return result,
            }
        }
        Err(violated.unwrap_or_else(|| LayoutError::ConditionViolated {
            value: "the result by cases".to_owned(),
            condition: "one of its cases applies".to_owned(),
        }))
    }
}

/// Returns the assumptions about one symbol that leave the fewest cases open, with the result for
/// each.
fn split(
    layout: &Layout,
    made: &Result<Layout>,
    operation: &impl Fn(&Layout) -> Result<Layout>,
) -> Vec<Side> {
    let mut best = Vec::new();
    let mut fewest_open = usize::MAX;
    for family in families(layout, made) {
        let mut sides = Vec::new();
        for assumption in family {
            let Ok(assumed) = layout.assuming(&assumption) else { continue };
            let made = operation(&assumed);
            if made.is_ok() || assumption.is_broad() {
                sides.push((assumption, assumed, made));
            }
        }
        let open = sides.iter().filter(|(_, _, made)| !is_settled(made)).count();
        if open < sides.len() && open < fewest_open {
            (fewest_open, best) = (open, sides);
        }
        if fewest_open == 0 {
            break;
        }
    }
    best
}

impl fmt::Display for LayoutCases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (assumptions, layout)) in self.0.iter().enumerate() {
            f.write_str(if i > 0 { "; " } else { "" })?;
            for (j, assumption) in assumptions.iter().enumerate() {
                write!(f, "{}{assumption}", if j > 0 { ", " } else { "" })?;
            }
            write!(f, "{}{layout}", if assumptions.is_empty() { "else: " } else { ": " })?;
        }
        Ok(())
    }
}
impl fmt::Debug for LayoutCases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
