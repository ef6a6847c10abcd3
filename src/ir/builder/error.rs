//! The errors that [`Kernel::build`](crate::ir::Kernel::build) returns, each with the Rust line
//! that caused it.

use std::fmt;

use super::report::Reported;
use crate::errors::errors;
use crate::ir::kernel::SourceLocation;
use crate::ir::types::{Scalar, Type};
use crate::ir::verify::VerifyError;
use crate::sorting::sort_by_key;

/// One mistake found while a kernel was built or verified: its cause and its Rust line. You get it
/// by iterating over [`BuildErrors`].
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    /// The Rust line of the operation at fault.
    pub location: SourceLocation,
    /// The cause.
    pub kind: BuildErrorKind,
}

errors! {
    /// The cause of a build error. Match on it to tell mistakes apart; its `Display` text says how
    /// to fix them.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum BuildErrorKind {
        /// a value made at {made} is used outside the body that made it: return it from that body,
        /// or keep it in a variable (`k.var`)
        ValueOutsideItsBody { made: SourceLocation },
        /// this value belongs to another kernel: use only values of the kernel that is being built
        ForeignValue,
        /// `{op}` belongs to an outer kernel, but the closure of another kernel runs: add it before
        /// or after that kernel is built
        OutsideItsKernel { op: &'static str },
        /// `{op}` cannot run: the body was ended at {terminator}
        AfterTerminator { op: &'static str, terminator: SourceLocation },
        /// this body of `{op}` returns a `Terminated` from another body: end it with a jump of its
        /// own
        BodyWithoutEnd { op: &'static str },
        /// this chain of `cases` has no last arm: end it with `otherwise`
        UnfinishedCases,
        /// the registers made at {made} belong to a body that has ended: make them before that body
        RegistersOutsideTheirBody { made: SourceLocation },
        /// the loop carries {first}, but the next iteration gets {other}: {advice}
        CarriedPart { first: String, other: String, advice: &'static str },
        /// one path gives {first}, but another gives {other}: {advice}
        JoinedPart { first: String, other: String, advice: &'static str },
        /// there is nothing to choose from: the list of values is empty
        EmptyList,
        /// register {index} of a variable with {len} registers does not exist
        VarIndexOutOfRange { index: u32, len: u32 },
        /// a thread has 2, 4 or 8 elements of one, two or four 8x8 matrices, not {lanes}
        MatrixCount { lanes: usize },
        /// the count {count} does not fit in i32, the type of the device value that it is used
        /// with: convert that value, for example with `.cvt::<i64>()`
        CountTooLarge { count: u32 },
        /// the offset {offset} does not fit in the index type {index}: use a wider one
        OffsetTooLarge { offset: i64, index: Scalar },
        /// reductions and scans work on scalars, not on {found}: pass its elements as a tuple or an
        /// array
        ReducedType { found: Type },
        /// a reduction or scan of a `Vec` of length {len} gets one of length {found}: its combining
        /// body and its first value must keep the length
        CombinedLength { len: usize, found: usize },
        /// a group of lanes has 1, 2, 4, 8, 16 or 32 lanes, not {found}: use `Group::Block` for all
        /// threads of a block
        GroupLanes { found: u32 },
        /// parameter {param} is {wanted}, but has no template: call `KernelOptions::template` for
        /// each such parameter, in order
        MissingTemplate { param: usize, wanted: &'static str },
        /// parameter {param} is {wanted}, but its template is `{found}`: give the templates in the
        /// order of the parameters
        OtherTemplate { param: usize, wanted: &'static str, found: String },
        /// there are more templates than parameters that are layouts or tuples: leave the last
        /// {unused} out
        TooManyTemplates { unused: usize },
        /// a launch cannot determine `{symbol}`: in `{template}`, parameter {param}, and in the
        /// other templates it is only part of larger expressions; pass a tuple with `{symbol}` too
        SymbolWithoutLeaf { param: usize, symbol: String, template: String },
        /// no parameter has the symbol `{symbol}`, so the kernel does not know its value: pass it
        /// in a layout or a tuple, or compute with a device value
        UnknownSymbol { symbol: String },
        /// a kernel cannot compute {operation} of `{a}` and `{b}`: give the symbols divisors that
        /// decide it, or pass the result in a tuple
        UnsupportedSymbolic { operation: String, a: String, b: String },
        /// a launch cannot check this length: `require_len` needs a pointer that is itself a
        /// parameter, and a length computed from integer parameters and constants
        RequiredLen,
        /// {error}
        Layout(error: crate::layout::LayoutError),
        /// The closure given to `Kernel::build` returned this error.
        Body(message: String) = |f| f.write_str(message),
        /// {error}
        Reported(error: Reported),
        /// {error}
        Verify(error: VerifyError),
    }
}

/// `<file:line:column>: <cause>`
impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.kind)
    }
}

impl std::error::Error for BuildError {}
crate::errors::message_as_debug!(BuildError);

/// All errors of a build, sorted by source location. [`Kernel::build`](crate::ir::Kernel::build)
/// returns them together, so that you can fix several at once. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildErrors {
    kernel: String,
    errors: Vec<BuildError>,
}

impl BuildErrors {
    pub(in crate::ir) fn new(kernel: &str, mut errors: Vec<BuildError>) -> BuildErrors {
        sort_by_key(&mut errors, |error| error.location);
        // Compares texts, because comparing kinds would compile the comparison of every nested
        // error.
        errors.dedup_by(|a, b| a.to_string() == b.to_string());
        BuildErrors { kernel: kernel.to_owned(), errors }
    }

    /// Iterates over the errors, sorted by source location.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &BuildError> {
        self.errors.iter()
    }
}

/// Names the kernel on the first line, then prints one error per line.
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
crate::errors::message_as_debug!(BuildErrors);
