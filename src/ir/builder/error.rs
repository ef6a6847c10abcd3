//! What can be wrong with a build.

use std::fmt;

use super::report::Reported;
use crate::ir::kernel::Place;
use crate::ir::types::{Scalar, Type};
use crate::ir::verify::VerifyError;

/// A mistake found while a kernel was built or verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The line that made the operation at fault.
    pub place: Place,
    /// What is wrong.
    pub kind: BuildErrorKind,
}

/// What is wrong with a build.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildErrorKind {
    /// A value was used after the body that made it had ended, or in a sibling of it.
    ValueOutsideItsBody {
        /// Where the value was made.
        made: Place,
    },
    /// A value of another build was used.
    ForeignValue,
    /// An operation follows the end of its body.
    AfterTerminator {
        /// The operation.
        op: &'static str,
        /// What ended the body.
        terminator: Place,
    },
    /// A body returned the end of another body, and has no end of its own.
    BodyWithoutEnd {
        /// The operation that owns the body.
        op: &'static str,
    },
    /// A chain of `cases` was dropped before its last arm.
    UnfinishedCases,
    /// A value is to be chosen from an empty list.
    EmptyList,
    /// A register of a variable was named that it does not have.
    VarIndexOutOfRange {
        /// The index.
        index: usize,
        /// The number of registers.
        len: usize,
    },
    /// A number of elements that 8x8 matrices do not have.
    MatrixCount {
        /// The number of elements of a thread.
        lanes: usize,
    },
    /// More elements than a shared memory allocation or a variable can have.
    TooManyElements {
        /// The number of elements asked for.
        len: usize,
    },
    /// An offset is not a number of the index type.
    OffsetTooLarge {
        /// The offset.
        offset: i64,
        /// The index type.
        index: Scalar,
    },
    /// A value of a reduction or a scan is no scalar.
    ReducedType {
        /// Its type.
        found: Type,
    },
    /// A group of lanes for which there are no reductions and scans.
    GroupLanes {
        /// How many lanes were asked for.
        found: u32,
    },
    /// A parameter is a layout or a tuple, and no template says which.
    MissingTemplate {
        /// The position of the parameter, from 0.
        param: usize,
        /// What it is.
        wanted: &'static str,
    },
    /// The template of a parameter is of another kind.
    OtherTemplate {
        /// The position of the parameter, from 0.
        param: usize,
        /// What it is.
        wanted: &'static str,
        /// The template.
        found: String,
    },
    /// There are more templates than parameters that are layouts or tuples.
    TooManyTemplates {
        /// The number of templates without a parameter.
        unused: usize,
    },
    /// A symbol of a template is nowhere a leaf of its own, so that a launch cannot say its number.
    SymbolWithoutLeaf {
        /// The position of the parameter, from 0.
        param: usize,
        /// The symbol.
        symbol: String,
        /// The template.
        template: String,
    },
    /// A symbol of an expression belongs to no parameter.
    UnknownSymbol {
        /// The symbol.
        symbol: String,
    },
    /// A kernel cannot compute an operation on symbols.
    UnsupportedSymbolic {
        /// The operation.
        operation: String,
        /// The first operand.
        a: String,
        /// The second operand.
        b: String,
    },
    /// A length is required of what is no parameter, or is not computed from parameters.
    RequiredLen,
    /// An operation of the layout algebra failed inside the build.
    Layout(crate::layout::LayoutError),
    /// The closure given to `Kernel::build` returned this error.
    Body(String),
    /// Code above the builder recorded this error with [`Body::report`](super::Body::report).
    Reported(Reported),
    /// The verifier refused the kernel.
    Verify(VerifyError),
}

impl fmt::Display for BuildErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildErrorKind::ValueOutsideItsBody { made } => write!(
                f,
                "a value made at {made} is used outside the body that made it: return it from that body, or keep it in a variable (`k.var`)"
            ),
            BuildErrorKind::ForeignValue => {
                f.write_str("a value of another kernel's build is used here")
            }
            BuildErrorKind::AfterTerminator { op, terminator } => {
                write!(f, "`{op}` cannot run: the body was ended at {terminator}")
            }
            BuildErrorKind::BodyWithoutEnd { op } => write!(
                f,
                "this body of `{op}` has no end of its own: what it returns was made in another body"
            ),
            BuildErrorKind::UnfinishedCases => {
                f.write_str("this chain of `cases` has no last arm: end it with `otherwise`")
            }
            BuildErrorKind::EmptyList => {
                f.write_str("there is nothing to choose from: the list of values is empty")
            }
            BuildErrorKind::VarIndexOutOfRange { index, len } => {
                write!(f, "register {index} of a variable with {len} registers does not exist")
            }
            BuildErrorKind::MatrixCount { lanes } => write!(
                f,
                "a thread has 2, 4 or 8 elements of one, two or four 8x8 matrices, not {lanes}"
            ),
            BuildErrorKind::TooManyElements { len } => {
                write!(f, "{len} elements are more than one allocation can have ({})", u32::MAX)
            }
            BuildErrorKind::OffsetTooLarge { offset, index } => write!(
                f,
                "the offset {offset} is not a number of the index type {index}: use a wider one"
            ),
            BuildErrorKind::ReducedType { found } => write!(
                f,
                "threads exchange scalars in a reduction or a scan, not {found}: pass its elements as a tuple or an array"
            ),
            BuildErrorKind::GroupLanes { found } => write!(
                f,
                "a group of lanes has 1, 2, 4, 8, 16 or 32 of them, not {found}: use `Group::Block` for all threads of a block"
            ),
            BuildErrorKind::MissingTemplate { param, wanted } => write!(
                f,
                "parameter {param} is {wanted}, but no template says which: add `KernelOptions::template`, one for each such parameter in order"
            ),
            BuildErrorKind::OtherTemplate { param, wanted, found } => write!(
                f,
                "parameter {param} is {wanted}, but its template is `{found}`: give the templates in the order of the parameters"
            ),
            BuildErrorKind::TooManyTemplates { unused } => {
                write!(f, "{unused} more templates are given than parameters are layouts or tuples")
            }
            BuildErrorKind::SymbolWithoutLeaf { param, symbol, template } => write!(
                f,
                "no launch can say what `{symbol}` is: in `{template}`, parameter {param}, and in the others it is only a part of leaves; pass a tuple with `{symbol}` too"
            ),
            BuildErrorKind::UnknownSymbol { symbol } => write!(
                f,
                "`{symbol}` is a symbol of no parameter, so the kernel does not know its number: pass it in a layout or a tuple, or compute with a device value"
            ),
            BuildErrorKind::UnsupportedSymbolic { operation, a, b } => write!(
                f,
                "a kernel cannot compute {operation} of `{a}` and `{b}`: give the symbols divisors that decide it, or pass the result in a tuple"
            ),
            BuildErrorKind::RequiredLen => f.write_str(
                "a launch cannot check this length: `require_len` takes a pointer that is a parameter itself, and a length computed from integer parameters and numbers",
            ),
            BuildErrorKind::Layout(error) => error.fmt(f),
            BuildErrorKind::Body(message) => f.write_str(message),
            BuildErrorKind::Reported(error) => error.fmt(f),
            BuildErrorKind::Verify(error) => error.fmt(f),
        }
    }
}

/// `error: <what> at <file:line:column>`
impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.kind)
    }
}

impl std::error::Error for BuildError {}

/// All mistakes of a build, sorted by place. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildErrors {
    kernel: String,
    errors: Vec<BuildError>,
}

impl BuildErrors {
    pub(in crate::ir) fn new(kernel: &str, mut errors: Vec<BuildError>) -> BuildErrors {
        errors.sort_by_key(|error| error.place);
        errors.dedup();
        BuildErrors { kernel: kernel.to_owned(), errors }
    }

    /// The mistakes, sorted by place.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &BuildError> {
        self.errors.iter()
    }
}

/// One line for each mistake, after a line that names the kernel.
impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.errors.len();
        write!(
            f,
            "kernel `{}` has {count} error{}:",
            self.kernel.escape_debug(),
            if count == 1 { "" } else { "s" }
        )?;
        self.errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for BuildErrors {}
