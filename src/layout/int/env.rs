//! [`Env`] holds a value for each symbol of a symbolic layout, such as `n` in `(n,8):(8,1)`. Make
//! one when you know the sizes and want integers from [`Int::eval`].

use std::collections::HashMap;
use std::fmt;

use super::Int;
use super::expr::{Symbol, SymbolKey};

/// The values of the symbols in symbolic integers, tuples and layouts, for example `n = 6`. Build
/// one when the sizes are known, and pass it to [`Int::eval`], or to the `eval` of a tuple or
/// layout, which puts the values in place of the symbols.
///
/// ```
/// use tilewright::layout::{Env, Int};
/// let (n, m) = (Int::symbol("n"), Int::fresh("m"));
/// let env = Env::new().with("n", 6).bind(&m, 7);
/// assert_eq!(n.mul(&m)?.eval(&env)?, 42);
/// # Ok::<(), tilewright::layout::LayoutError>(())
/// ```
#[derive(Clone, Default)]
pub struct Env {
    named: HashMap<Box<str>, i64>,
    fresh: HashMap<u64, i64>,
}

impl Env {
    /// Makes an environment without values. Add them with [`with`](Env::with) or
    /// [`bind`](Env::bind).
    ///
    /// ```
    /// # use tilewright::layout::{Env, Int};
    /// assert!(Int::symbol("n").eval(&Env::new()).is_err());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of every symbol called `name`, except for those from [`Int::fresh`].
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

    /// Sets the value of this symbol, even if it is from [`Int::fresh`]. Does nothing if `symbol`
    /// is not a single symbol.
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

/// Prints Rust code, so that you can paste a failed case into a test: `Env::new().with("n", 4)`.
/// Values for [`Int::fresh`] symbols follow as a comment, because no code could name them.
impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named: Vec<_> = self.named.iter().collect();
        named.sort_unstable();
        f.write_str("Env::new()")?;
        named.iter().try_for_each(|(name, value)| write!(f, ".with({name:?}, {value})"))?;
        let mut fresh: Vec<_> = self.fresh.iter().collect();
        fresh.sort_unstable();
        if fresh.is_empty() {
            return Ok(());
        }
        let values: Vec<String> = fresh.iter().map(|(_, value)| value.to_string()).collect();
        write!(f, " /* fresh symbols: {} */", values.join(", "))
    }
}
