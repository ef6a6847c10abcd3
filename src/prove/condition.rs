//! [`Condition`]: what a launch has to fulfil so that accesses of its kernel are safe.

use std::fmt;

use super::atom::{Atoms, Key};
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

    fn eval(&self, launch: &LaunchValues) -> Option<i128> {
        self.terms.iter().try_fold(self.constant, |sum, (factor, all)| {
            let product =
                all.iter().try_fold(*factor, |p, expr| p.checked_mul(expr.eval(launch)?))?;
            sum.checked_add(product)
        })
    }
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
            _ => return None,
        })
    }

    fn eval(&self, launch: &LaunchValues) -> Option<i128> {
        let argument = |i: u32| launch.arguments.get(i as usize);
        match self {
            Expr::Param(i) => match argument(*i)? {
                LaunchValue::Integer(value) => Some(*value),
                _ => None,
            },
            Expr::Len(i) => match argument(*i)? {
                LaunchValue::Buffer { len, .. } => Some((*len).into()),
                _ => None,
            },
            Expr::BoxBytes(i) => match argument(*i)? {
                LaunchValue::Map { box_bytes } => Some((*box_bytes).into()),
                _ => None,
            },
            Expr::Blocks(axis) => Some(launch.blocks[axis.index()].into()),
            Expr::Threads(axis) => Some(launch.threads[axis.index()].into()),
            Expr::Div(a, b) => {
                let (a, b) = (a.eval(launch)?, b.eval(launch)?);
                (b > 0).then(|| a.div_euclid(b))
            }
            Expr::Rem(a, b) => {
                let (a, b) = (a.eval(launch)?, b.eval(launch)?);
                (b > 0).then(|| a.rem_euclid(b))
            }
            Expr::Min(a, b) => Some(a.eval(launch)?.min(b.eval(launch)?)),
            Expr::Max(a, b) => Some(a.eval(launch)?.max(b.eval(launch)?)),
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
            Requirement::Loop { .. } => return None,
        };
        Some(Condition { test, text, buffer, location, op })
    }

    /// Returns whether the launch fulfils the condition. A value that is missing or does not fit in
    /// 128 bits does not.
    pub fn holds(&self, launch: &LaunchValues) -> bool {
        match &self.test {
            Test::Any(any) => {
                let holds = |sum: &Sum| sum.eval(launch).is_some_and(|value| value >= 0);
                any.iter().any(|all| all.iter().all(holds))
            }
            Test::Aligned { param, bytes } => {
                let argument = launch.arguments.get(*param as usize);
                matches!(argument, Some(LaunchValue::Buffer { alignment, .. })
                    if alignment.is_multiple_of(u64::from(*bytes).max(1)))
            }
            Test::Multiple { sum, by } => {
                let by = i128::from(*by).max(1);
                sum.eval(launch).is_some_and(|value| value.rem_euclid(by) == 0)
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
        let mut term = term.clone();
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
