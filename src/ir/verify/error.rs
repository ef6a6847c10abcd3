//! The rules of the verifier, one variant each.

use std::fmt;

use crate::ir::entity::{ArrayId, LocalId, SharedId, Value, VarId};
use crate::ir::format::FormatError;
use crate::ir::kernel::Place;
use crate::ir::op::{Axis, Class, PtxTextError};
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Space, Type};
use crate::ir::vector::VectorType;

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
    /// A region or an operation is in the kernel twice.
    InKernelTwice {
        /// The entity as it prints.
        entity: String,
    },
    /// A region, an operation or a value names another owner than it has.
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
    /// A parameter has a name that is not an identifier.
    InvalidParamName {
        /// The name.
        name: String,
    },
    /// Two parameters have the same name.
    DuplicateParamName {
        /// The name.
        name: String,
    },
    /// The kernel or a parameter has a name that means something else in PTX.
    ReservedName {
        /// The name.
        name: String,
    },
    /// The kernel or a parameter has a name that is too long.
    NameTooLong {
        /// The name.
        name: String,
        /// The characters that a name can have.
        limit: usize,
    },
    /// A parameter is a pointer to memory that no launch has.
    ParamSpace {
        /// The name of the parameter.
        name: String,
        /// Where it points.
        space: Space,
    },
    /// The parameters take more bytes than a launch can pass.
    ParamBytes {
        /// The bytes taken.
        bytes: u64,
        /// The bytes that there are.
        limit: u64,
    },
    /// A local allocation has no elements.
    LocalEmpty {
        /// The allocation.
        local: LocalId,
    },
    /// The local allocations take more bytes than a thread has.
    LocalSize {
        /// The bytes taken.
        bytes: u64,
        /// The bytes that there are.
        limit: u64,
    },
    /// A constant array has no elements.
    ArrayEmpty {
        /// The array.
        array: ArrayId,
    },
    /// The constant arrays take more bytes than a module has.
    ArrayBytes {
        /// The bytes taken.
        bytes: u64,
        /// The bytes that there are.
        limit: u64,
    },
    /// A value is used where its definition does not reach.
    ValueNotVisible {
        /// The value.
        value: Value,
        /// Where it was made.
        made: Place,
    },
    /// A region does not end in a terminator.
    MissingTerminator {
        /// The operation that owns the region; `None` for the body of the kernel.
        owner: Option<&'static str>,
    },
    /// The body of the kernel or an arm of an `if` has arguments.
    RegionArguments {
        /// The operation that owns the region; `None` for the body of the kernel.
        owner: Option<&'static str>,
        /// The number of arguments.
        found: usize,
    },
    /// An operation follows the end of its region.
    AfterTerminator {
        /// The operation.
        op: &'static str,
    },
    /// A `yield` ends the body of a loop.
    YieldInLoop {
        /// `for` or `loop`.
        owner: &'static str,
    },
    /// A `yield` ends the body of the kernel.
    YieldOutsideIf,
    /// `break` or `continue` names a loop that is not around it.
    NotAnEnclosingLoop {
        /// `break` or `continue`.
        op: &'static str,
        /// Where the loop was built.
        made: Place,
    },
    /// `break` or `continue` names an operation that is no loop.
    NotALoop {
        /// `break` or `continue`.
        op: &'static str,
        /// The operation that it names.
        target: &'static str,
    },
    /// More or fewer values pass into or out of a region than are expected there.
    CarriedCount {
        /// What passes the values.
        op: &'static str,
        /// The number expected.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// Values that pass into or out of a region are not of the types expected there.
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
    /// Operands that must have one type have several.
    MixedOperands {
        /// The operation.
        op: &'static str,
        /// The operand that differs.
        operand: &'static str,
        /// The type of the operands before it.
        expected: Type,
        /// What was given.
        found: Type,
    },
    /// A condition is not a `bool`.
    ConditionType {
        /// The operation.
        op: &'static str,
        /// The operand.
        operand: &'static str,
        /// What was given.
        found: Type,
    },
    /// An index in memory is not an integer of 32 or 64 bits.
    IndexType {
        /// The operation.
        op: &'static str,
        /// What was given.
        found: Type,
    },
    /// An operation on memory is given a number in place of a pointer.
    NotAPointer {
        /// The operation.
        op: &'static str,
        /// What was given.
        found: Type,
    },
    /// A store goes through a pointer that is for reading.
    ReadOnlyPointer {
        /// The operation.
        op: &'static str,
        /// The type of the pointer.
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
    /// An operation has more or fewer results than its row says.
    ResultCount {
        /// The operation.
        op: &'static str,
        /// The number that it has.
        expected: usize,
        /// The number found.
        found: usize,
    },
    /// An operation has a result of another type than its row says.
    ResultTypes {
        /// The operation.
        op: &'static str,
        /// The types that follow from the operands.
        expected: Vec<Type>,
        /// The types of the results.
        found: Vec<Type>,
    },
    /// A vector is made that there is not: of another number of elements than 2, 4, 8 or 16, of more than
    /// 128 bits, or of `bool`.
    NoSuchVector {
        /// The operation.
        op: &'static str,
        /// The type of an element; `None` where there is none at all.
        elem: Option<Type>,
        /// The number of elements.
        lanes: u32,
    },
    /// An element of a vector is named that it does not have.
    LaneOutOfRange {
        /// The element.
        lane: u32,
        /// The vector.
        vector: VectorType,
    },
    /// No target has the operation with its attributes on the types of its operands.
    NotInPtx {
        /// The operation with its attributes.
        op: String,
        /// The types of the operands.
        types: Vec<Type>,
        /// What there is instead.
        reason: &'static str,
    },
    /// A parameter of the kernel is a vector.
    VectorParam {
        /// The name of the parameter.
        name: String,
        /// Its type.
        ty: VectorType,
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
    /// The bounds and the step of a `for` are not integers.
    RangeNotInteger {
        /// Their type.
        found: Type,
    },
    /// The first argument of the body of a `for` is not the index.
    RangeIndex {
        /// The type of the index.
        expected: Type,
        /// The type of the argument, if there is one.
        found: Option<Type>,
    },
    /// The bounds and the step of a `for` are not of one type.
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
    /// An integer is divided by the constant zero on every path through the kernel.
    DivisionByZero {
        /// The operation.
        op: &'static str,
    },
    /// An access with a constant index is outside its local allocation, on every path through the kernel.
    LocalIndexOutOfBounds {
        /// The allocation.
        local: LocalId,
        /// Where it was made.
        made: Place,
        /// The first byte of the access, counted from the start of the allocation.
        byte: i128,
        /// The bytes of the access.
        size: u32,
        /// The bytes of the allocation.
        len_bytes: u64,
    },
    /// An access with a constant index is outside its shared allocation, on every path through the kernel.
    SharedIndexOutOfBounds {
        /// The allocation.
        shared: SharedId,
        /// Where it was made.
        made: Place,
        /// The first byte of the access, counted from the start of the allocation.
        byte: i128,
        /// The bytes of the access.
        size: u32,
        /// The bytes of the allocation.
        len_bytes: u64,
    },
    /// A loop is to be unrolled fully, but the number of its iterations is not known.
    UnrollUnknownTripCount {
        /// Which bound is not a constant: `lo`, `hi` or `step`.
        bound: &'static str,
    },
    /// Unrolling would make more operations than a kernel may have.
    UnrollSize {
        /// The operations of the kernel after it.
        operations: u128,
        /// The operations that unrolling may make.
        limit: u128,
    },
    /// A loop asks for more stages than there can be.
    PrefetchStages {
        /// The number of stages.
        stages: u32,
        /// The number that is possible.
        limit: u32,
    },
    /// The tiles that a loop fills ahead do not fit into shared memory once for each stage.
    PrefetchSharedSize {
        /// The number of stages.
        stages: u32,
        /// The bytes that the kernel would take.
        bytes: u64,
        /// The bytes that there are.
        limit: u64,
    },
    /// A loop is to fetch ahead, but has nothing that can be fetched.
    PrefetchNoCopies,
    /// A loop that is to fetch ahead has asynchronous copies that are not in the form which can be done ahead.
    PrefetchAsyncForm {
        /// The line of the first one.
        made: Place,
    },
    /// A loop is to fetch ahead, but its body may be left early.
    PrefetchEarlyExit {
        /// What leaves the body.
        op: &'static str,
        /// Where it was built.
        made: Place,
    },
    /// A load cannot be made ahead, because it depends on what its iteration computes.
    PrefetchDependsOnUse {
        /// The value that it depends on.
        value: Value,
        /// Where the value was made.
        made: Place,
    },
    /// A loop is to fetch ahead, but writes memory that a load may read.
    PrefetchAliasingStore {
        /// What writes.
        op: &'static str,
        /// Where it was built.
        made: Place,
    },
    /// A loop is to fetch ahead across a synchronisation, before which memory is written that a load may
    /// read.
    PrefetchAcrossBarrier {
        /// What synchronises.
        op: &'static str,
        /// Where it was built.
        made: Place,
        /// Where the write was built.
        store: Place,
    },
    /// A variable has no register.
    VarEmpty {
        /// The variable.
        var: VarId,
    },
    /// The text of a `ptx` has what it may not have.
    PtxText {
        /// What it has.
        error: PtxTextError,
    },
    /// A result of a `ptx` is not in its text.
    PtxResult {
        /// The position of the result, from 0.
        result: usize,
    },
    /// An operand or a result of a `ptx` is neither a scalar nor a pointer.
    PtxOperand {
        /// Its type.
        found: Type,
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
    /// A fixed block has no threads.
    BlockEmpty {
        /// The threads along each axis.
        block: [u32; 3],
    },
    /// A fixed block has more threads along one axis than hardware has.
    BlockAxis {
        /// The axis.
        axis: Axis,
        /// The threads along it.
        threads: u32,
        /// The threads that there can be.
        limit: u32,
    },
    /// A fixed block has more threads in all than hardware has.
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
    /// A shared allocation has no elements.
    SharedEmpty {
        /// The allocation.
        shared: SharedId,
    },
    /// The alignment of a shared allocation is below that of its elements.
    SharedAlignmentTooSmall {
        /// The allocation.
        shared: SharedId,
        /// The alignment.
        align_bytes: u32,
        /// The type of the elements.
        elem: Scalar,
    },
    /// The alignment of a shared allocation is more than is possible.
    SharedAlignmentTooLarge {
        /// The allocation.
        shared: SharedId,
        /// The alignment.
        align_bytes: u32,
        /// The alignment that is possible.
        limit: u32,
    },
    /// A tensor map has no dimension, or more than 5.
    TensorMapRank {
        /// The dimensions.
        rank: u8,
    },
    /// A tensor map is made, carried or kept in a variable.
    TensorMapNotParam {
        /// What it is.
        found: Type,
    },
    /// The alignment of a shared allocation is not a power of two.
    SharedAlignment {
        /// The allocation.
        shared: SharedId,
        /// The alignment.
        align_bytes: u32,
    },
    /// An access or a hint about caches to memory that they do not hold.
    CacheSpace {
        /// The operation with its attributes.
        op: String,
        /// Where the pointer points.
        space: Space,
    },
    /// A load or store with an order, of memory that one thread sees or that nobody writes.
    OrderSpace {
        /// The operation with its attributes.
        op: String,
        /// Where the pointer points.
        space: Space,
    },
    /// An atomic operation on memory that one thread sees.
    AtomicSpace {
        /// The operation with its attributes.
        op: String,
        /// Where the pointer points.
        space: Space,
    },
    /// A load or store has both an order other than weak and a cache operator, or goes through the read-only
    /// path.
    CacheWithOrder {
        /// The operation with its attributes.
        op: String,
    },
    /// A load through the read-only path has a cache operator that this path does not have.
    CacheOfReadOnly {
        /// The operation with its attributes.
        op: String,
    },
    /// A load or store with a cache operator, or a volatile one, has a priority of eviction.
    CacheWithEviction {
        /// The operation with its attributes.
        op: String,
    },
    /// A pointer is promised to be aligned to a number that is no power of two.
    AssumedAlignment {
        /// The number of bytes.
        bytes: u32,
    },
    /// An access to a vector that cannot be aligned.
    MisalignedVector {
        /// The operation with its attributes.
        op: String,
        /// The vector.
        vector: VectorType,
        /// The bytes that the vector must be aligned to.
        bytes: u32,
        /// How many bytes it starts above such a place, or above a multiple of a smaller power of two.
        rest: u64,
    },
    /// An access to a vector in a shared allocation that is not aligned for it.
    VectorInShared {
        /// The vector.
        vector: VectorType,
        /// The bytes that the vector must be aligned to.
        bytes: u32,
        /// The allocation.
        shared: SharedId,
        /// Its alignment.
        align_bytes: u32,
        /// Where it was made.
        made: Place,
    },
    /// A barrier with a number that no block has.
    BarrierId {
        /// The number.
        id: i128,
    },
    /// A barrier for a number of threads that is no multiple of 32, or not possible.
    BarrierThreads {
        /// The number of threads.
        threads: i128,
    },
    /// A barrier of some warps is reached by a part of the threads of a warp.
    DivergentNamedBarrier {
        /// The operation.
        op: &'static str,
        /// The operation that sends the threads apart: `if`, `for` or `loop`.
        branch: &'static str,
        /// Where it was built.
        place: Place,
    },
    /// Registers of A are computed for the next iteration while a `wgmma` may still read those of this one.
    WgmmaOperandComputed {
        /// The operation that computes them.
        op: &'static str,
        /// Where the `wgmma` was built.
        wgmma: Place,
    },
    /// Registers are moved between warps in a kernel whose registers at the start are not fixed.
    SetmaxnregBounds,
    /// An atomic operation on elements of a type that it does not take.
    AtomicType {
        /// The operation with its attributes.
        op: String,
        /// The types that it takes.
        expected: &'static str,
        /// The type of the elements.
        found: Scalar,
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
