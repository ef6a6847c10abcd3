//! [`Condition`]: what a launch has to fulfil so that accesses of its kernel are safe.

use std::fmt;

use super::atom::{Atoms, Key, MAX_POWER};
use super::poly::{AtomId, Poly};
use super::site::Requirement;
use crate::ir::op::{Axis, SpecialReg};
use crate::ir::{KernelIr, SourceLocation};

/// The values that a launch decides on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchValues {
    /// The grid's size in blocks, along each axis.
    pub blocks: [u32; 3],
    /// The block's size in threads, along each axis.
    pub threads: [u32; 3],
    /// One for each parameter of the kernel, in order.
    pub arguments: Vec<LaunchValue>,
}

impl LaunchValues {
    /// Collects the values of a launch.
    pub fn new(blocks: [u32; 3], threads: [u32; 3], arguments: Vec<LaunchValue>) -> LaunchValues {
        LaunchValues { blocks, threads, arguments }
    }
}

/// What a condition can ask about an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchValue {
    /// The value of an integer parameter.
    Integer(i128),
    /// A buffer.
    Buffer {
        /// Its length in elements of the parameter's type.
        len: u64,
        /// An integer that divides its address, for example the address itself.
        alignment: u64,
    },
    /// A tensor map.
    Map {
        /// The size of its box in bytes.
        box_bytes: u64,
    },
    /// Anything else.
    Other,
}

/// What a launch knows, as conditions ask for it. A parameter of another kind has no such value.
pub(crate) trait LaunchFacts {
    /// The grid's size in blocks.
    fn blocks(&self, axis: Axis) -> u32;
    /// The block's size in threads.
    fn threads(&self, axis: Axis) -> u32;
    /// The value of an integer parameter.
    fn integer(&self, param: u32) -> Option<i128>;
    /// The length of a buffer in elements.
    fn len(&self, param: u32) -> Option<u64>;
    /// The size of a tensor map's box.
    fn box_bytes(&self, param: u32) -> Option<u64>;
    /// Whether a buffer starts at a multiple of `bytes`.
    fn is_aligned(&self, param: u32, bytes: u32) -> bool;
}

impl LaunchFacts for LaunchValues {
    fn blocks(&self, axis: Axis) -> u32 {
        self.blocks[axis.index()]
    }

    fn threads(&self, axis: Axis) -> u32 {
        self.threads[axis.index()]
    }

    fn integer(&self, param: u32) -> Option<i128> {
        match self.arguments.get(param as usize)? {
            LaunchValue::Integer(value) => Some(*value),
            _ => None,
        }
    }

    fn len(&self, param: u32) -> Option<u64> {
        match self.arguments.get(param as usize)? {
            LaunchValue::Buffer { len, .. } => Some(*len),
            _ => None,
        }
    }

    fn box_bytes(&self, param: u32) -> Option<u64> {
        match self.arguments.get(param as usize)? {
            LaunchValue::Map { box_bytes } => Some(*box_bytes),
            _ => None,
        }
    }

    fn is_aligned(&self, param: u32, bytes: u32) -> bool {
        matches!(self.arguments.get(param as usize), Some(LaunchValue::Buffer { alignment, .. })
            if alignment.is_multiple_of(u64::from(bytes).max(1)))
    }
}

/// Integers that conditions are evaluated with: `i64`, which is fast, or `i128`, if a value does not
/// fit.
trait Number: Ord + Copy + TryFrom<i128> + Into<i128> {
    fn plus(self, other: Self) -> Option<Self>;
    fn times(self, other: Self) -> Option<Self>;
    /// The quotient, rounded down, and the remainder. `None` if `by` is not positive.
    fn divided(self, by: Self) -> Option<(Self, Self)>;
}

macro_rules! number {
    ($int:ty) => {
        impl Number for $int {
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }

            fn times(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }

            fn divided(self, by: Self) -> Option<(Self, Self)> {
                (by > 0).then(|| (self.div_euclid(by), self.rem_euclid(by)))
            }
        }
    };
}

number!(i64);
number!(i128);

/// An expression over what a launch knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expr {
    Param(u32),
    Len(u32),
    BoxBytes(u32),
    Blocks(Axis),
    Threads(Axis),
    Div(Sum, Sum),
    Rem(Sum, Sum),
    Min(Sum, Sum),
    Max(Sum, Sum),
    Power(Sum),
}

/// A sum of products and a constant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    terms: Vec<(i128, Vec<Expr>)>,
    constant: i128,
}

impl Sum {
    /// Copies a polynomial over launch values. Returns `None` if it has other atoms.
    fn of(atoms: &Atoms, poly: &Poly) -> Option<Sum> {
        let term = |term: &super::poly::Term| {
            let factors = term.atoms.iter().map(|atom| Expr::of(atoms, *atom));
            Some((term.factor, factors.collect::<Option<Vec<Expr>>>()?))
        };
        let terms = poly.terms.iter().map(term).collect::<Option<_>>()?;
        Some(Sum { terms, constant: poly.constant })
    }

    /// Returns the sum, or `None` if a value is missing or does not fit.
    fn eval<T: Number>(&self, launch: &impl LaunchFacts) -> Option<T> {
        let mut sum = number::<T>(self.constant)?;
        for (factor, all) in &self.terms {
            let mut product = number::<T>(*factor)?;
            for expr in all {
                product = product.times(expr.eval(launch)?)?;
            }
            sum = sum.plus(product)?;
        }
        Some(sum)
    }

    /// Returns what `test` says about the sum; `false` if there is none.
    fn is(&self, launch: &impl LaunchFacts, test: impl Fn(i128) -> bool) -> bool {
        match self.eval::<i64>(launch) {
            Some(sum) => test(sum.into()),
            None => self.eval::<i128>(launch).is_some_and(test),
        }
    }
}

fn number<T: Number>(value: impl Into<i128>) -> Option<T> {
    T::try_from(value.into()).ok()
}

impl Expr {
    fn of(atoms: &Atoms, atom: AtomId) -> Option<Expr> {
        let pair = |a: &Poly, b: &Poly| Some((Sum::of(atoms, a)?, Sum::of(atoms, b)?));
        Some(match &atoms.get(atom).key {
            Key::Register(SpecialReg::Ntid(axis)) => Expr::Threads(*axis),
            Key::Register(SpecialReg::Nctaid(axis)) => Expr::Blocks(*axis),
            Key::Param(i) => Expr::Param(*i),
            Key::Len(i) => Expr::Len(*i),
            Key::BoxBytes(i) => Expr::BoxBytes(*i),
            Key::Div(a, b) => pair(a, b).map(|(a, b)| Expr::Div(a, b))?,
            Key::Rem(a, b) => pair(a, b).map(|(a, b)| Expr::Rem(a, b))?,
            Key::Min(a, b) => pair(a, b).map(|(a, b)| Expr::Min(a, b))?,
            Key::Max(a, b) => pair(a, b).map(|(a, b)| Expr::Max(a, b))?,
            Key::Power(exponent) => Expr::Power(Sum::of(atoms, exponent)?),
            _ => return None,
        })
    }

    fn eval<T: Number>(&self, launch: &impl LaunchFacts) -> Option<T> {
        let pair = |a: &Sum, b: &Sum| Some((a.eval::<T>(launch)?, b.eval::<T>(launch)?));
        let divided = |a: &Sum, b: &Sum| pair(a, b).and_then(|(a, b)| a.divided(b));
        match self {
            Expr::Param(param) => number(launch.integer(*param)?),
            Expr::Len(param) => number(launch.len(*param)?),
            Expr::BoxBytes(param) => number(launch.box_bytes(*param)?),
            Expr::Blocks(axis) => number(launch.blocks(*axis)),
            Expr::Threads(axis) => number(launch.threads(*axis)),
            Expr::Div(a, b) => divided(a, b).map(|(quotient, _)| quotient),
            Expr::Rem(a, b) => divided(a, b).map(|(_, remainder)| remainder),
            Expr::Min(a, b) => pair(a, b).map(|(a, b)| a.min(b)),
            Expr::Max(a, b) => pair(a, b).map(|(a, b)| a.max(b)),
            Expr::Power(exponent) => {
                let exponent: i128 = exponent.eval::<T>(launch)?.into();
                number(1i128 << exponent.clamp(0, MAX_POWER))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// In one of the lists all sums are at least 0.
    Any(Vec<Vec<Sum>>),
    Aligned {
        param: u32,
        bytes: u32,
    },
    Multiple {
        sum: Sum,
        by: u32,
    },
}

/// A condition on the launch of a kernel, such as `len(y) >= n`.
///
/// [`Proof::conditions`](super::Proof::conditions) lists those of a kernel. They are sufficient: if
/// a launch fulfils all of them, no access that relies on them is out of bounds or misaligned. Each
/// is one comparison or a few, made of integers that the launch knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    test: Test,
    text: String,
    /// The parameter whose buffer is too short if the condition does not hold.
    buffer: Option<u32>,
    location: SourceLocation,
    op: &'static str,
}

impl Condition {
    pub(super) fn new(
        ir: &KernelIr,
        atoms: &Atoms,
        requirement: &Requirement,
        (op, location): (&'static str, SourceLocation),
    ) -> Option<Condition> {
        let name = |param: u32| ir.params.get(param as usize).map_or("?", |p| p.name.as_str());
        let (test, text, buffer) = match requirement {
            Requirement::Any { any, .. } => {
                let sums = |all: &Vec<Poly>| {
                    all.iter().map(|poly| Sum::of(atoms, poly)).collect::<Option<Vec<_>>>()
                };
                let sums = any.iter().map(sums).collect::<Option<Vec<_>>>()?;
                let text = |all: &Vec<Poly>| {
                    let all = all.iter().map(|poly| inequality(ir, atoms, poly));
                    all.collect::<Vec<_>>().join(" and ")
                };
                let texts: Vec<String> = any.iter().map(text).collect();
                let len = any.iter().flatten().flat_map(Poly::atoms).find_map(|atom| {
                    match atoms.get(atom).key {
                        Key::Len(param) => Some(param),
                        _ => None,
                    }
                });
                (Test::Any(sums), texts.join(" or "), len)
            }
            Requirement::Aligned { param, bytes } => {
                let text = format!("{} starts at a multiple of {bytes} bytes", name(*param));
                (Test::Aligned { param: *param, bytes: *bytes }, text, Some(*param))
            }
            Requirement::Multiple { poly, by, .. } => {
                let text = format!("{} is a multiple of {by}", super::show::poly(ir, atoms, poly));
                (Test::Multiple { sum: Sum::of(atoms, poly)?, by: *by }, text, None)
            }
            Requirement::Loop { .. } | Requirement::Follows { .. } => return None,
        };
        Some(Condition { test, text, buffer, location, op })
    }

    /// Returns whether the launch fulfils the condition. A value that is missing or does not fit in
    /// 128 bits does not.
    pub fn holds(&self, launch: &LaunchValues) -> bool {
        self.holds_for(launch)
    }

    pub(crate) fn holds_for(&self, launch: &impl LaunchFacts) -> bool {
        match &self.test {
            Test::Any(any) => {
                any.iter().any(|all| all.iter().all(|sum| sum.is(launch, |sum| sum >= 0)))
            }
            Test::Aligned { param, bytes } => launch.is_aligned(*param, *bytes),
            Test::Multiple { sum, by } => {
                let by = i128::from(*by).max(1);
                sum.is(launch, |sum| sum.rem_euclid(by) == 0)
            }
        }
    }

    /// The parameter whose buffer the condition is about, if it is about one.
    pub fn buffer(&self) -> Option<usize> {
        self.buffer.map(|param| param as usize)
    }

    /// The Rust line of the first access that needs the condition.
    pub fn location(&self) -> SourceLocation {
        self.location
    }

    /// The name of the operation that needs the condition first.
    pub fn op(&self) -> &'static str {
        self.op
    }
}

/// Prints the condition, for example `len(y) >= n`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Writes `poly >= 0` with everything positive on its side.
fn inequality(ir: &KernelIr, atoms: &Atoms, poly: &Poly) -> String {
    let (mut left, mut right) = (Poly::default(), Poly::default());
    for term in &poly.terms {
        let mut term = *term;
        if term.factor > 0 {
            left.terms.push(term);
        } else {
            term.factor = -term.factor;
            right.terms.push(term);
        }
    }
    if poly.constant > 0 && !left.terms.is_empty() && right.terms.is_empty() {
        // `n + 3 >= 0` reads better as `n >= -3`.
        right.constant = -poly.constant;
    } else if poly.constant > 0 {
        left.constant = poly.constant;
    } else {
        right.constant = -poly.constant;
    }
    let show = |poly: &Poly| super::show::poly(ir, atoms, poly);
    format!("{} >= {}", show(&left), show(&right))
}
