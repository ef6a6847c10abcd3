//! The rules of the verifier, one variant each.

use std::fmt;

use crate::ir::entity::{SharedId, Value, VarId};
use crate::ir::format::FormatError;
use crate::ir::kernel::Place;
use crate::ir::op::Class;
use crate::ir::target::Target;
use crate::ir::types::Type;

/// A broken rule: what is wrong, with the values at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// An index points outside its arena.
    EntityOutOfRange {
        /// The index as it prints.
        entity: String,
        /// The number of entries of the arena.
        len: usize,
    },
    /// A region, an operation or a value is in the kernel twice, or names another owner than it has.
    WrongOwner {
        /// The entity as it prints.
        entity: String,
    },
    /// Too many regions are inside each other.
    TooDeep {
        /// The number that a kernel can have.
        limit: usize,
    },
    /// The name of the kernel is not a PTX identifier.
    InvalidName {
        /// The name.
        name: String,
    },
    /// A parameter has a name that is not an identifier, or that another parameter has.
    InvalidParamName {
        /// The name.
        name: String,
    },
    /// A value is used where its definition does not reach.
    ValueNotVisible {
        /// The value.
        value: Value,
        /// Where it was made.
        made: Place,
    },
    /// A region does not end in a terminator.
    MissingTerminator,
    /// An operation follows the end of its region.
    AfterTerminator {
        /// The operation.
        op: &'static str,
    },
    /// A `yield` outside an arm of an `if`, or inside a loop body.
    YieldOutsideIf,
    /// `break` or `continue` names an operation that is not an enclosing loop.
    NotAnEnclosingLoop {
        /// `break` or `continue`.
        op: &'static str,
    },
    /// Values that pass into or out of a region are not of the number or the types expected there.
    CarriedTypes {
        /// What passes the values.
        op: &'static str,
        /// The types expected.
        expected: Vec<Type>,
        /// The types found.
        found: Vec<Type>,
    },
    /// An `if` has results but no `else`.
    ResultsWithoutElse,
    /// An operand has a type that the operation does not take there.
    OperandType {
        /// The operation.
        op: &'static str,
        /// The operand.
        operand: &'static str,
        /// What is taken.
        expected: String,
        /// What was given.
        found: Type,
    },
    /// The type variable of an operation stands for a type that the operation does not take.
    OperandClass {
        /// The operation.
        op: &'static str,
        /// What is taken.
        class: Class,
        /// What was given.
        found: Type,
    },
    /// An operation has results of other types than its row says.
    ResultTypes {
        /// The operation.
        op: &'static str,
        /// The types that follow from the operands.
        expected: Vec<Type>,
        /// The types of the results.
        found: Vec<Type>,
    },
    /// The target does not have the operation.
    NotOnTarget {
        /// The operation, with the attributes that need the target.
        op: String,
        /// The first target that has it.
        first: Target,
        /// The target of the kernel.
        target: Target,
    },
    /// The bounds and the step of a `for` are not of one integer type.
    RangeTypes {
        /// The types of `lo`, `hi` and `step`.
        found: [Type; 3],
    },
    /// The step of a `for` is a constant that is not positive.
    StepNotPositive {
        /// The step.
        step: i128,
    },
    /// A text is not a format.
    FormatSyntax {
        /// The operation.
        op: &'static str,
        /// What is wrong with the text.
        error: FormatError,
    },
    /// A format has more or fewer placeholders than there are values.
    FormatCount {
        /// The operation.
        op: &'static str,
        /// The number of placeholders.
        expected: usize,
        /// The number of values.
        found: usize,
    },
    /// A placeholder cannot write values of the type.
    FormatType {
        /// The operation.
        op: &'static str,
        /// The placeholder.
        placeholder: String,
        /// The type of the value.
        found: Type,
        /// Why it cannot be written.
        reason: &'static str,
    },
    /// An operation has more values than it can pass to the host.
    TooManyValues {
        /// The operation.
        op: &'static str,
        /// The number of values.
        found: usize,
        /// The number that is possible.
        limit: usize,
    },
    /// A variable has more registers than is possible.
    VarSize {
        /// The variable.
        var: VarId,
        /// The number of registers.
        len: u32,
        /// The number that is possible.
        limit: u32,
    },
    /// A register of a variable is named that it does not have.
    VarIndexOutOfRange {
        /// The variable.
        var: VarId,
        /// The index.
        index: u32,
        /// The number of registers.
        len: u32,
    },
    /// A variable is used outside the region that declares it.
    VarNotVisible {
        /// The variable.
        var: VarId,
        /// Where it was declared.
        made: Place,
    },
    /// A register of a variable is read on a path on which it was not set.
    VarReadBeforeSet {
        /// The variable.
        var: VarId,
        /// The register.
        index: u32,
        /// Where the variable was declared.
        made: Place,
    },
    /// A fixed block size is zero or more than hardware has.
    BlockSize {
        /// The threads along each axis.
        block: [u32; 3],
    },
    /// A launch bound is below or above what is possible.
    LaunchBound {
        /// The bound.
        bound: &'static str,
        /// Its number.
        number: u32,
        /// The least that is possible.
        least: u32,
        /// The most that is possible.
        most: u32,
    },
    /// The most threads of a block are given beside a fixed block.
    MaxThreadsOfFixedBlock {
        /// The most threads.
        max_threads: u32,
        /// The threads of the fixed block along each axis.
        block: [u32; 3],
    },
    /// The blocks of a multiprocessor are given, but no threads of a block.
    MinBlocksOfAnyBlock {
        /// The blocks.
        min_blocks_per_sm: u32,
    },
    /// The blocks that a multiprocessor is to hold have more threads than it holds.
    ThreadsPerSm {
        /// The blocks.
        min_blocks_per_sm: u32,
        /// The threads of each block, before they are rounded up to warps.
        threads: u64,
        /// The threads that a multiprocessor of the target holds.
        limit: u32,
    },
    /// A fixed cluster is empty or more than hardware has.
    ClusterSize {
        /// The blocks along each axis.
        cluster: [u32; 3],
        /// The most blocks in all.
        limit: u32,
    },
    /// The alignment of a shared allocation is not a power of two, is below that of its elements, or is
    /// above 1024 bytes.
    SharedAlignment {
        /// The allocation.
        shared: SharedId,
        /// The alignment.
        align_bytes: u32,
    },
    /// A barrier is reached by a part of the threads of a block.
    DivergentBarrier {
        /// The operation that sends the threads apart: `if`, `for` or `loop`.
        branch: &'static str,
        /// Where it was built.
        place: Place,
    },
    /// An operation of all threads of a warp is reached by a part of them.
    DivergentWarpOp {
        /// The operation.
        op: &'static str,
        /// The operation that sends the threads apart: `if`, `for` or `loop`.
        branch: &'static str,
        /// Where it was built.
        place: Place,
    },
    /// The shared memory of the kernel is more than a block of its target can have.
    SharedSize {
        /// The bytes taken.
        bytes: u64,
        /// The bytes that there are.
        limit: u64,
    },
}

/// Types as a comma separated list in parentheses.
struct TypeList<'a>(&'a [Type]);

impl fmt::Display for TypeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, ty) in self.0.iter().enumerate() {
            write!(f, "{}{ty}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use VerifyError as E;
        match self {
            E::EntityOutOfRange { entity, len } => {
                write!(f, "{entity} does not exist: there are {len} of its kind")
            }
            E::WrongOwner { entity } => {
                write!(f, "{entity} is in the kernel twice, or names another owner than it has")
            }
            E::TooDeep { limit } => {
                write!(f, "more than {limit} regions are inside each other")
            }
            E::InvalidName { name } => write!(
                f,
                "`{}` is not a PTX identifier: use letters, digits and `_`, starting with a letter",
                name.escape_debug()
            ),
            E::InvalidParamName { name } => write!(
                f,
                "`{}` cannot name a parameter: use letters, digits and `_`, starting with a letter, once each",
                name.escape_debug()
            ),
            E::ValueNotVisible { value, made } => {
                write!(f, "{value}, made at {made}, is not defined on every path to this use")
            }
            E::MissingTerminator => f.write_str(
                "the region does not end: add `yield`, `continue`, `break` or `return` on every path",
            ),
            E::AfterTerminator { op } => {
                write!(f, "`{op}` cannot run: the region ended before it")
            }
            E::YieldOutsideIf => f.write_str(
                "`yield` ends an arm of an `if`; a loop body ends with `continue` or `break`",
            ),
            E::NotAnEnclosingLoop { op } => {
                write!(f, "`{op}` names an operation that is not a loop around it")
            }
            E::CarriedTypes { op, expected, found } => write!(
                f,
                "`{op}` passes values of the types {}, but {} are expected",
                TypeList(found),
                TypeList(expected)
            ),
            E::ResultsWithoutElse => f.write_str("an `if` with results needs an `else`"),
            E::OperandType { op, operand, expected, found } => {
                write!(f, "operand `{operand}` of `{op}` is {found}, but must be {expected}")
            }
            E::OperandClass { op, class, found } => {
                write!(f, "`{op}` takes {class}, not {found}")
            }
            E::ResultTypes { op, expected, found } => write!(
                f,
                "`{op}` has results of the types {}, but its operands give {}",
                TypeList(found),
                TypeList(expected)
            ),
            E::NotOnTarget { op, first, target } => {
                write!(f, "`{op}` needs {first}, but the kernel is built for {target}")
            }
            E::RangeTypes { found: [lo, hi, step] } => write!(
                f,
                "the range of a `for` has the types {lo}, {hi} and step {step}: one integer type is expected"
            ),
            E::StepNotPositive { step } => {
                write!(f, "the step of a `for` is {step}, but must be positive")
            }
            E::FormatSyntax { op, error } => write!(f, "the text of `{op}` is no format: {error}"),
            E::FormatCount { op, expected, found } => write!(
                f,
                "the text of `{op}` has {expected} placeholders, but there are {found} values: write `{{}}` once for each"
            ),
            E::FormatType { op, placeholder, found, reason } => {
                write!(f, "`{placeholder}` of `{op}` cannot write a value of type {found}: {reason}")
            }
            E::TooManyValues { op, found, limit } => write!(
                f,
                "`{op}` has {found} values, but passes at most {limit} to the host: use several"
            ),
            E::VarSize { var, len, limit } => write!(
                f,
                "{var} has {len} registers, but at most {limit} are possible: use shared memory"
            ),
            E::VarIndexOutOfRange { var, index, len } => {
                write!(f, "{var} has {len} registers, so there is no register {index}")
            }
            E::VarNotVisible { var, made } => {
                write!(f, "{var}, declared at {made}, is used outside the body that declares it")
            }
            E::VarReadBeforeSet { var, index, made } => write!(
                f,
                "register {index} of {var}, declared at {made}, is read on a path on which it was not set"
            ),
            E::BlockSize { block: [x, y, z] } => write!(
                f,
                "a block of {x} x {y} x {z} threads is not possible: at most 1024 x 1024 x 64, 1024 in all, and none zero"
            ),
            E::LaunchBound { bound, number, least, most } => {
                write!(f, "`{bound}` is {number}, but must be from {least} to {most}")
            }
            E::MaxThreadsOfFixedBlock { max_threads, block: [x, y, z] } => write!(
                f,
                "`max_threads` is {max_threads} beside a fixed block of {x} x {y} x {z} threads: leave one of the two out"
            ),
            E::MinBlocksOfAnyBlock { min_blocks_per_sm } => write!(
                f,
                "`min_blocks_per_sm` is {min_blocks_per_sm}, but nothing says how large a block is: give `block` or `max_threads` too"
            ),
            E::ThreadsPerSm { min_blocks_per_sm, threads, limit } => write!(
                f,
                "`min_blocks_per_sm` asks for {min_blocks_per_sm} blocks of {threads} threads, but a multiprocessor of the target holds {limit} threads: ask for fewer blocks"
            ),
            E::ClusterSize { cluster: [x, y, z], limit } => write!(
                f,
                "a cluster of {x} x {y} x {z} blocks is not possible: at most {limit} in all, and none zero"
            ),
            E::SharedAlignment { shared, align_bytes } => write!(
                f,
                "{shared} is aligned to {align_bytes} bytes, but must be to a power of two from the size of its element to 1024"
            ),
            E::DivergentBarrier { branch, place } => write!(
                f,
                "the barrier is reached by a part of the threads of a block: the `{branch}` at {place} does not do the same in all of them; move the barrier out of it, or make its condition or range independent of the thread"
            ),
            E::DivergentWarpOp { op, branch, place } => write!(
                f,
                "`{op}` names all 32 lanes as members, but is reached by a part of the threads of a warp: the `{branch}` at {place} does not do the same in all of them; move it out, make the condition or range the same in a warp, or pass the mask of the lanes that get here"
            ),
            E::SharedSize { bytes, limit } => write!(
                f,
                "the kernel takes {bytes} bytes of shared memory, but a block of its target has {limit}: use smaller tiles"
            ),
        }
    }
}

/// A broken rule and where it was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The line that made the operation at fault, if an operation is at fault.
    pub place: Option<Place>,
    /// The path of the operation at fault from the kernel's body, such as `for[2]/then/3`.
    pub path: String,
    /// The broken rule.
    pub error: VerifyError,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{}", self.error)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, " [{}]", self.path) }
    }
}

/// All broken rules of a kernel, in the order of the program. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyErrors {
    pub(super) violations: Vec<Violation>,
}

impl VerifyErrors {
    /// The broken rules.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Violation> {
        self.violations.iter()
    }
}

impl IntoIterator for VerifyErrors {
    type Item = Violation;
    type IntoIter = std::vec::IntoIter<Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.violations.into_iter()
    }
}

/// One line for each broken rule.
impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyErrors {}
