//! What a launch must agree with: layout and tuple templates, and required buffer lengths. The
//! runtime checks it at each launch; if you launch a kernel's PTX yourself, call
//! [`Signature::bind`].
//!
//! A kernel is built for layouts with symbols in them, for example `(M,N):(N,1)`. Each launch
//! passes layouts of the same form with integers in place of the symbols, and [`Signature::bind`]
//! checks them and extracts the values.

use std::fmt;

use super::required_len::RequiredLen;
use super::types::{Const, Scalar};
use crate::errors::errors;
use crate::layout::{Env, Factor, Int, IntTuple, Layout, LayoutError, ScaledBasis, Symbol, Width};

/// The layout or tuple that a kernel parameter is built for, passed to
/// [`KernelOptions::template`](crate::ir::KernelOptions::template). A launch supplies the values of
/// its symbols; everything else is fixed.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// For a parameter of type [`Layout`].
    Layout(Layout),
    /// For a parameter of type [`IntTuple`].
    Tuple(IntTuple),
}

impl From<Layout> for Template {
    fn from(layout: Layout) -> Template {
        Template::Layout(layout)
    }
}

impl From<&Layout> for Template {
    #[inline]
    fn from(layout: &Layout) -> Template {
        Template::Layout(layout.clone())
    }
}

impl From<IntTuple> for Template {
    fn from(tuple: IntTuple) -> Template {
        Template::Tuple(tuple)
    }
}

impl From<&IntTuple> for Template {
    #[inline]
    fn from(tuple: &IntTuple) -> Template {
        Template::Tuple(tuple.clone())
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Template::Layout(layout) => layout.fmt(f),
            Template::Tuple(tuple) => tuple.fmt(f),
        }
    }
}

/// A leaf of a template: an extent or a stride.
enum Leaf<'t> {
    Int(&'t Int),
    Stride(&'t ScaledBasis),
}

impl Leaf<'_> {
    /// Returns the integer, or `None` for a basis stride whose scale is a ratio. Ratios have no
    /// symbols.
    fn int(&self) -> Option<&Int> {
        match self {
            Leaf::Int(int) => Some(int),
            Leaf::Stride(stride) => stride.value(),
        }
    }

    /// Returns whether the two differ in more than the value: one is a stride and the other is not,
    /// or their basis modes or ratios differ.
    fn is_other_kind(&self, other: &Leaf<'_>) -> bool {
        match (self, other) {
            (Leaf::Int(_), Leaf::Int(_)) => false,
            (Leaf::Stride(a), Leaf::Stride(b)) => {
                !a.mode().eq(b.mode())
                    || a.value().is_some() != b.value().is_some()
                    || (a.value().is_none() && a.ratio() != b.ratio())
            }
            (Leaf::Int(_), Leaf::Stride(_)) | (Leaf::Stride(_), Leaf::Int(_)) => true,
        }
    }
}

impl fmt::Display for Leaf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leaf::Int(int) => int.fmt(f),
            Leaf::Stride(stride) => stride.fmt(f),
        }
    }
}

impl Template {
    /// Returns the leaves in order. A layout's shape comes before its strides.
    fn leaves(&self) -> Vec<Leaf<'_>> {
        match self {
            Template::Layout(layout) => {
                let extents = layout.as_ref().leaves().map(|(extent, _)| Leaf::Int(extent));
                extents
                    .chain(layout.as_ref().leaves().map(|(_, stride)| Leaf::Stride(stride)))
                    .collect()
            }
            Template::Tuple(tuple) => tuple.leaves().iter().map(Leaf::Int).collect(),
        }
    }

    /// Returns whether both have the same nesting. Their leaves may differ.
    fn is_congruent(&self, other: &Template) -> bool {
        match (self, other) {
            (Template::Layout(a), Template::Layout(b)) => a.shape().congruent(b.shape()),
            (Template::Tuple(a), Template::Tuple(b)) => a.congruent(b),
            (Template::Layout(_), Template::Tuple(_))
            | (Template::Tuple(_), Template::Layout(_)) => false,
        }
    }

    /// Returns the leaves that are a single symbol, and all symbols anywhere in the template.
    pub(in crate::ir) fn symbols(&self) -> (Vec<Int>, Vec<Symbol>) {
        let (mut leaves, mut all) = (Vec::new(), Vec::new());
        for leaf in self.leaves() {
            let Some(int) = leaf.int() else { continue };
            if int.as_symbol().is_some() {
                leaves.push(int.clone());
            }
            symbols_of(int, &mut all);
        }
        (leaves, all)
    }
}

/// Appends an expression's symbols to `out`.
fn symbols_of(int: &Int, out: &mut Vec<Symbol>) {
    for factor in int.terms().iter().flat_map(|term| &term.factors) {
        match factor {
            Factor::Symbol(symbol) => out.push(Symbol::clone(symbol)),
            Factor::Call(call) => {
                symbols_of(&call.a, out);
                symbols_of(&call.b, out);
            }
        }
    }
}

/// Returns whether two symbols stand for the same value. Their assumptions may differ.
pub(in crate::ir) fn same_symbol(a: &Symbol, b: &Symbol) -> bool {
    match (a.id(), b.id()) {
        (None, None) => a.name() == b.name(),
        (a, b) => a == b,
    }
}

/// Returns the scalar type that a symbol has in a kernel.
pub(in crate::ir) fn scalar_of(symbol: &Symbol) -> Scalar {
    match symbol.width() {
        Width::W32 => Scalar::I32,
        Width::W64 => Scalar::I64,
    }
}

/// A kernel parameter that passes a symbol's value.
#[derive(Clone, Debug)]
pub(crate) struct SymbolParam {
    /// The symbol as an integer.
    pub(crate) int: Int,
    /// The parameter's index in the kernel.
    pub(crate) index: usize,
    pub(in crate::ir) scalar: Scalar,
}

/// What a kernel requires of its launches: layout and tuple templates, and buffer lengths. Building
/// a kernel makes it from the [templates](crate::ir::KernelOptions::template); the runtime calls
/// [`bind`](Signature::bind) at each launch.
#[derive(Clone, Debug, Default)]
pub struct Signature {
    /// The templates, each with its parameter index.
    pub(in crate::ir) templates: Vec<(usize, Template)>,
    pub(crate) symbols: Vec<SymbolParam>,
    /// Expressions that the kernel computes, each with the type that their value must fit in.
    pub(in crate::ir) computed: Vec<(Int, Scalar)>,
    pub(crate) required: Vec<RequiredLen>,
}

impl Signature {
    /// Matches a launch's layouts and tuples (`given`, in parameter order, all static) against the
    /// templates that the kernel was built with. Returns each symbol's value with its parameter
    /// index, sorted by index: for the template `(M,N):(N,1)` and the layout `(4,8):(8,1)`, `M` is
    /// 4 and `N` is 8. The launch inserts each value into its argument list at that index.
    ///
    /// # Errors
    /// Fails if an argument's form differs from its template, if a fixed leaf or a symbol has
    /// conflicting values, if an assumption about a symbol does not hold, or if a value does not
    /// fit in its type.
    pub fn bind(&self, given: &[Template]) -> Result<Vec<(usize, Const)>, SignatureError> {
        if given.len() != self.templates.len() {
            let (expected, given) = (self.templates.len(), given.len());
            return Err(SignatureError::Count { expected, given });
        }
        let pairs = || self.templates.iter().zip(given);
        let mut env = Env::new();
        let mut bound: Vec<Option<i64>> = vec![None; self.symbols.len()];
        for ((param, template), given) in pairs() {
            let other = |template: &Template| {
                let (template, given) = (template.to_string(), given.to_string());
                SignatureError::Form { param: *param, template, given }
            };
            if !template.is_congruent(given) {
                return Err(other(template));
            }
            for (leaf, value) in template.leaves().iter().zip(given.leaves()) {
                if leaf.is_other_kind(&value) {
                    return Err(other(template));
                }
                let (Some(leaf), Some(value)) = (leaf.int(), value.int()) else { continue };
                let Some(value) = value.as_static() else {
                    let given = given.to_string();
                    return Err(SignatureError::NotStatic { param: *param, given });
                };
                let Some(symbol) = leaf.as_symbol() else { continue };
                let known = self.symbols.iter().position(|known| {
                    known.int.as_symbol().is_some_and(|known| same_symbol(known, symbol))
                });
                if let Some(slot) = known.and_then(|known| bound.get_mut(known))
                    && slot.is_none()
                {
                    *slot = Some(value);
                    env = env.bind(leaf, value);
                }
            }
        }
        for ((param, template), given) in pairs() {
            for (leaf, value) in template.leaves().iter().zip(given.leaves()) {
                let (Some(leaf), Some(value)) = (leaf.int(), value.int()) else { continue };
                let wanted = leaf.eval(&env).map_err(|error| SignatureError::Value {
                    param: *param,
                    given: given.to_string(),
                    error,
                })?;
                if value.as_static() != Some(wanted) {
                    return Err(SignatureError::Leaf {
                        param: *param,
                        template: template.to_string(),
                        given: given.to_string(),
                        leaf: leaf.to_string(),
                        wanted,
                        found: value.as_static().unwrap_or_default(),
                    });
                }
            }
        }
        for (int, scalar) in &self.computed {
            let value = int
                .eval(&env)
                .map_err(|error| SignatureError::Computed { expression: int.to_string(), error })?;
            check_range(int, value, *scalar)?;
        }
        let numbers = self.symbols.iter().zip(bound).map(|(symbol, value)| {
            // Every symbol is a leaf of some template, so it has been bound.
            let value = value.unwrap_or_default();
            check_range(&symbol.int, value, symbol.scalar)?;
            Ok((symbol.index, Const::new(symbol.scalar, value as u64)))
        });
        numbers.collect()
    }

    /// Checks that each buffer is at least as long as
    /// [`Val::require_len`](crate::ir::Val::require_len) demands. The runtime calls it before a
    /// launch. Both closures take a parameter index: `number` returns the launch's scalar
    /// arguments, `len` the length of its buffers in elements.
    ///
    /// # Errors
    /// Returns [`TooShort`](SignatureError::TooShort), or [`NoLength`](SignatureError::NoLength) if
    /// the required length cannot be evaluated.
    #[inline]
    pub fn check_lengths(
        &self,
        number: impl Fn(usize) -> Option<Const>,
        len: impl Fn(usize) -> Option<usize>,
    ) -> Result<(), SignatureError> {
        for RequiredLen { param, len: expression } in &self.required {
            let Some(given) = len(*param) else { continue };
            let (param, text) = (*param, || expression.to_string());
            let Some(required) = expression.eval(&number) else {
                return Err(SignatureError::NoLength { param, expression: text() });
            };
            if required > given as i128 {
                let expression = text();
                return Err(SignatureError::TooShort { param, expression, required, given });
            }
        }
        Ok(())
    }
}

fn check_range(int: &Int, value: i64, scalar: Scalar) -> Result<(), SignatureError> {
    if scalar.bits() == 64 || i32::try_from(value).is_ok() {
        return Ok(());
    }
    Err(SignatureError::Range { expression: int.to_string(), value, scalar })
}

errors! {
    /// Errors for launch arguments that do not match the kernel's signature. Parameters count from
    /// 0.
    #[derive(Clone, PartialEq)]
    #[non_exhaustive]
    pub enum SignatureError {
        /// it has {expected} layouts and tuples as parameters, but the launch passes {given}
        Count { expected: usize, given: usize },
        /// parameter {param} is built for `{template}`, but `{given}` has another form: only the
        /// values of symbols may differ
        Form { param: usize, template: String, given: String },
        /// the argument `{given}` of parameter {param} has a symbol: a launch must pass integers
        NotStatic { param: usize, given: String },
        /// A fixed leaf has a different value than the kernel is built for.
        Leaf {
            param: usize,
            template: String,
            given: String,
            leaf: String,
            wanted: i64,
            found: i64,
        } = |f| {
            write!(
                f,
                "parameter {param} is built for `{template}`, but `{given}` has {found} where "
            )?;
            if *leaf == wanted.to_string() {
                write!(f, "it has {wanted}")
            } else {
                write!(f, "`{leaf}` is {wanted}")
            }
        },
        /// the argument `{given}` of parameter {param} is invalid: {error}
        Value { param: usize, given: String, error: LayoutError },
        /// it cannot compute `{expression}`: {error}
        Computed { expression: String, error: LayoutError },
        /// A buffer is shorter than the kernel requires.
        TooShort { param: usize, expression: String, required: i128, given: usize } = |f| {
            write!(f, "parameter {param} needs a buffer of at least ")?;
            if *expression != required.to_string() {
                write!(f, "`{expression}` = ")?;
            }
            write!(f, "{required} elements, but its argument has {given}")
        },
        /// parameter {param} needs a buffer of at least `{expression}` elements, which cannot be
        /// computed from the other arguments
        NoLength { param: usize, expression: String },
        /// `{expression}` is {value}, which does not fit into {scalar}: build the kernel with
        /// 64-bit symbols (`Int::with_width`) and `i64` indices
        Range { expression: String, value: i64, scalar: Scalar },
    }
}
crate::errors::message_as_debug!(SignatureError);
