//! Evaluation commutes with the operations: `eval(op(a, b)) == op(eval(a), eval(b))`, and so with the
//! numbers of one operand only.

use std::fmt::Debug;

use tilewright::layout::{
    ComposedLayout, Coord, Env, Int, IntTuple, Layout, LayoutError, Slot, Tiler, TilerLeaf,
};

use super::bytes::Bytes;
use super::oracle::{self, Check};

/// The largest domain on which a definition is checked.
const CHECKED: i64 = 128;
/// The largest magnitude of the numbers there: sums of the oracle stay far from the ends.
pub(crate) const SMALL: i64 = 1 << 24;

pub(crate) fn is_small(l: &Layout) -> bool {
    let mut size = 1i64;
    l.as_ref().leaves().all(|(s, d)| match (s.as_static(), d.as_static()) {
        (Some(s), Some(d)) if s > 0 => {
            size = size.saturating_mul(s);
            size <= CHECKED && (0..SMALL).contains(&d)
        }
        _ => false,
    })
}

fn is_small_number(n: &Int) -> bool {
    n.as_static().is_some_and(|n| (0..SMALL).contains(&n))
}

pub(crate) fn held(check: Result<(), impl std::fmt::Display>, what: impl Fn() -> String) {
    if let Err(e) = check {
        panic!("{}: {e}", what());
    }
}

/// An operand: what may hold symbols and can be given numbers.
pub(crate) trait Operand: Sized + Debug {
    fn has_symbols(&self) -> bool;
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError>;
    /// True if the numbers are such that no step of an operation leaves 64 bits.
    fn is_small(&self) -> bool;
}

impl Operand for () {
    fn has_symbols(&self) -> bool {
        false
    }
    fn numbers(&self, _: &Env) -> Result<Self, LayoutError> {
        Ok(())
    }
    fn is_small(&self) -> bool {
        true
    }
}

impl Operand for Int {
    fn has_symbols(&self) -> bool {
        !self.is_static()
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.eval(env).map(Int::new)
    }
    fn is_small(&self) -> bool {
        is_small_number(self)
    }
}

impl Operand for IntTuple {
    fn has_symbols(&self) -> bool {
        !self.is_static()
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.eval(env)
    }
    fn is_small(&self) -> bool {
        let mut product = 1i64;
        self.leaves().iter().all(|leaf| {
            product = product.saturating_mul(leaf.as_static().unwrap_or(0).max(1));
            is_small_number(leaf) && product < 1 << 40
        })
    }
}

impl Operand for Layout {
    fn has_symbols(&self) -> bool {
        !self.is_static()
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.eval(env)
    }
    fn is_small(&self) -> bool {
        is_small(self)
    }
}

impl Operand for Tiler {
    fn has_symbols(&self) -> bool {
        self.leaves().iter().any(|leaf| match leaf {
            TilerLeaf::Int(n) => n.has_symbols(),
            TilerLeaf::Layout(l) => l.has_symbols(),
            TilerLeaf::All => false,
        })
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.eval(env)
    }
    fn is_small(&self) -> bool {
        self.leaves().iter().all(|leaf| match leaf {
            TilerLeaf::Int(n) => is_small_number(n),
            TilerLeaf::Layout(l) => is_small(l),
            TilerLeaf::All => true,
        })
    }
}

impl Operand for Coord {
    fn has_symbols(&self) -> bool {
        self.leaves().iter().any(|slot| matches!(slot, Slot::At(n) if n.has_symbols()))
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.eval(env)
    }
    fn is_small(&self) -> bool {
        self.leaves().iter().all(|slot| match slot {
            Slot::At(n) => is_small_number(n),
            Slot::All => true,
        })
    }
}

impl Operand for ComposedLayout {
    fn has_symbols(&self) -> bool {
        !self.offset().is_static() || self.outer_layout().is_ok_and(Operand::has_symbols)
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.eval(env)
    }
    fn is_small(&self) -> bool {
        self.offset().is_small() && self.outer_layout().is_ok_and(Operand::is_small)
    }
}

impl<T: Operand> Operand for Option<T> {
    fn has_symbols(&self) -> bool {
        self.as_ref().is_some_and(T::has_symbols)
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        self.as_ref().map(|inner| inner.numbers(env)).transpose()
    }
    fn is_small(&self) -> bool {
        self.as_ref().is_none_or(T::is_small)
    }
}

impl<A: Operand, B: Operand> Operand for (A, B) {
    fn has_symbols(&self) -> bool {
        self.0.has_symbols() || self.1.has_symbols()
    }
    fn numbers(&self, env: &Env) -> Result<Self, LayoutError> {
        Ok((self.0.numbers(env)?, self.1.numbers(env)?))
    }
    fn is_small(&self) -> bool {
        self.0.is_small() && self.1.is_small()
    }
}

/// A result that is compared with another: layouts as functions, all else as values.
pub(crate) trait Value: Operand {
    fn check_same(&self, other: &Self) -> Check;
}

impl Value for Layout {
    fn check_same(&self, other: &Self) -> Check {
        oracle::said(oracle::check_same(self, other))
    }
}

impl Value for ComposedLayout {
    fn check_same(&self, other: &Self) -> Check {
        oracle::said(oracle::check_same(self, other))
    }
}

impl Value for Int {
    fn check_same(&self, other: &Self) -> Check {
        if self == other { Ok(()) } else { oracle::fail(format!("{self} is not {other}")) }
    }
}

impl Value for IntTuple {
    fn check_same(&self, other: &Self) -> Check {
        if oracle::same_value(self, other) {
            Ok(())
        } else {
            oracle::fail(format!("{self} is not {other}"))
        }
    }
}

impl Value for (IntTuple, Layout) {
    fn check_same(&self, other: &Self) -> Check {
        self.0.check_same(&other.0)?;
        self.1.check_same(&other.1)
    }
}

/// A slice and what is left outside: their sum is what counts, as a swizzle may keep the offset inside.
impl Value for (ComposedLayout, IntTuple) {
    fn check_same(&self, other: &Self) -> Check {
        let message = |e: LayoutError| e.to_string();
        let size = |(l, _): &Self| l.size().and_then(|n| n.to_static()).map_err(message);
        let at = |(l, offset): &Self, i: i64| {
            l.crd2idx(i).and_then(|at| at.add(offset.to_int()?)).map_err(message)
        };
        if size(self)? != size(other)? {
            return oracle::fail("the sizes differ");
        }
        for i in 0..size(self)? {
            if at(self, i)? != at(other, i)? {
                return oracle::fail(format!("at {i}: {} and {}", at(self, i)?, at(other, i)?));
            }
        }
        Ok(())
    }
}

impl Value for (Layout, IntTuple) {
    fn check_same(&self, other: &Self) -> Check {
        let (a, b) = (self.clone(), other.clone());
        (ComposedLayout::from(a.0), a.1).check_same(&(ComposedLayout::from(b.0), b.1))
    }
}

/// The result of an operation on `a` and `b`, which commutes with numbers for their symbols.
///
/// What the symbols give is what the numbers of both give, which must have a result; where the numbers
/// of one of the two and the symbols of the other give one too, it is the same.
pub(crate) fn commuting<A: Operand, B: Operand, R: Value>(
    bytes: &Bytes<'_>,
    name: &str,
    a: &A,
    b: &B,
    op: impl Fn(&A, &B) -> Result<R, LayoutError>,
) -> Option<R> {
    let made = op(a, b).ok()?;
    if !a.has_symbols() && !b.has_symbols() {
        return Some(made);
    }
    for env in &bytes.envs {
        let (Ok(left), Ok(x), Ok(y)) = (made.numbers(env), a.numbers(env), b.numbers(env)) else {
            continue;
        };
        if !(left.is_small() && x.is_small() && y.is_small()) {
            continue;
        }
        let says = |x: &A, y: &B, right: &dyn Debug| {
            format!(
                "{name} of {a:?} and {b:?} is {made:?}, {left:?}; of {x:?} and {y:?}, {right:?}"
            )
        };
        match op(&x, &y) {
            Ok(right) => held(left.check_same(&right), || says(&x, &y, &right)),
            Err(e) => panic!("{}", says(&x, &y, &e)),
        }
        let halves = [(&x, b, b.has_symbols()), (a, &y, a.has_symbols())];
        for (x, y, _) in halves.into_iter().filter(|(_, _, symbols)| *symbols) {
            if let Ok(right) = op(x, y).and_then(|r| r.numbers(env)) {
                held(left.check_same(&right), || says(x, y, &right));
            }
        }
    }
    Some(made)
}
