//! [`Env`] gives numbers to symbols.

use std::collections::HashMap;

use super::Int;
use super::expr::{Symbol, SymbolKey};

/// The values of symbols, for [`Int::eval`] and the `eval` of tuples and layouts.
///
/// ```
/// use tilewright::layout::{Env, Int};
/// let (n, m) = (Int::symbol("n"), Int::fresh("m"));
/// let env = Env::new().with("n", 6).bind(&m, 7);
/// assert_eq!(n.mul(&m)?.eval(&env)?, 42);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Env {
    named: HashMap<Box<str>, i64>,
    fresh: HashMap<u64, i64>,
}

impl Env {
    /// An environment without values.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int};
    /// assert!(Int::symbol("n").eval(&Env::new()).is_err());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `value` to each symbol called `name`, except those made by [`Int::fresh`].
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int};
    /// assert_eq!(Int::symbol("n").eval(&Env::new().with("n", 4))?, 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[must_use]
    pub fn with(mut self, name: &str, value: i64) -> Self {
        self.named.insert(name.into(), value);
        self
    }

    /// Gives `value` to this symbol. Any other expression changes nothing.
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int};
    /// let n = Int::fresh("n");
    /// assert_eq!(n.eval(&Env::new().bind(&n, 4))?, 4);
    /// # Ok::<(), tilewright::layout::LayoutError>(())
    /// ```
    #[must_use]
    pub fn bind(mut self, symbol: &Int, value: i64) -> Self {
        if let Some(symbol) = symbol.as_symbol() {
            match symbol.key() {
                SymbolKey::Named(name) => self.named.insert(Box::from(&**name), value),
                SymbolKey::Fresh(id) => self.fresh.insert(*id, value),
            };
        }
        self
    }

    pub(crate) fn get(&self, symbol: &Symbol) -> Option<i64> {
        match symbol.key() {
            SymbolKey::Named(name) => self.named.get(&**name).copied(),
            SymbolKey::Fresh(id) => self.fresh.get(id).copied(),
        }
    }
}
