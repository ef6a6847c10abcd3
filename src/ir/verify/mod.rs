//! The verifier. A kernel that it accepts is lowered, simulated and written as PTX without a panic.
//!
//! It returns every violation of these rules, one variant of [`VerifyError`] each:
//!
//! * **entities** (`entities.rs`), alone and first, because all others follow indices freely
//!   - `EntityOutOfRange`: every index is inside its arena.
//!   - `InKernelTwice`: a region and an operation are in the kernel once.
//!   - `WrongOwner`: a region, an operation and a value name the owner that holds them.
//!   - `TooDeep`: regions are not too deep inside each other.
//! * **limits** (`limits.rs`)
//!   - `InvalidName`, `InvalidParamName`, `ReservedName`, `NameTooLong`, `DuplicateParamName`: names are PTX
//!     identifiers that mean nothing else, of at most 255 characters, each once.
//!   - `ParamSpace`, `ParamBytes`, `VectorParam`: a launch can pass the parameters.
//!   - `BlockEmpty`, `BlockAxis`, `BlockSize`, `ClusterSize`: hardware can run a fixed block or cluster.
//!   - `LaunchBound`, `MaxThreadsOfFixedBlock`, `MinBlocksOfAnyBlock`, `ThreadsPerSm`: launch bounds are
//!     possible and do not contradict each other.
//!   - `SharedEmpty`, `SharedAlignment`, `SharedAlignmentTooSmall`, `SharedAlignmentTooLarge`, `SharedSize`:
//!     a shared allocation has elements, is aligned for them to a power of two, and fits a block.
//!   - `LocalEmpty`, `LocalSize`: a local allocation has elements, and all of them fit a thread.
//!   - `ArrayEmpty`, `ArrayBytes`: a constant array has elements, and all of them fit a module.
//!   - `VarEmpty`, `VarSize`: a variable has a register, and not too many.
//!   - `TensorMapRank`, `TensorMapNotParam`: a tensor map has 1 to 5 dimensions and stays a parameter.
//! * **structure** (`structure.rs`)
//!   - `ValueNotVisible`: a value is used only where its definition reaches (SSA dominance over regions).
//!   - `MissingTerminator`, `AfterTerminator`: a region ends in a terminator, and nothing follows it.
//!   - `YieldInLoop`, `YieldOutsideIf`: `yield` ends an arm of an `if`.
//!   - `NotALoop`, `NotAnEnclosingLoop`: `break` and `continue` name a loop around them.
//!   - `RegionArguments`: the body of the kernel and the arms of an `if` have no arguments.
//!   - `CarriedCount`, `CarriedTypes`: values that pass into and out of regions have the expected number and
//!     types.
//!   - `ResultsWithoutElse`: an `if` with results has an `else`.
//! * **types** (`types.rs`)
//!   - `OperandClass`, `MixedOperands`, `OperandType`: operands have the types of the operation's row.
//!   - `ConditionType`, `IndexType`, `NotAPointer`, `ReadOnlyPointer`: a condition is a `bool`, an index an
//!     integer of 32 or 64 bits, memory is accessed through pointers and written through `mut` ones.
//!   - `ResultCount`, `ResultTypes`: results have the number and types of the operation's row.
//!   - `NotInPtx`, `NotOnTarget`: PTX and the target have the operation with its attributes on these types.
//!   - `NoSuchVector`, `LaneOutOfRange`: a vector type exists, and so does each element that an operation names.
//!   - `RangeTypes`, `RangeNotInteger`, `RangeIndex`, `StepNotPositive`: a `for` counts in one integer type,
//!     its body has the index as its first argument, and a constant step is positive.
//! * **memory** (`memory.rs`)
//!   - `CacheSpace`: cache hints are for global memory.
//!   - `OrderSpace`, `AtomicSpace`: accesses with an order are to memory that several threads share and that
//!     can be written; atomic operations are to memory that several threads share.
//!   - `CacheWithOrder`, `CacheOfReadOnly`, `CacheWithEviction`: a cache operator is for weak accesses,
//!     exists on the read-only path, and has no eviction priority beside it; nor do volatile accesses.
//!   - `AssumedAlignment`, `MisalignedVector`, `VectorInShared`: a promised alignment is a power of two; no
//!     vector access is known to be misaligned, and its allocation is aligned for the vector.
//!   - `BarrierId`, `BarrierThreads`: a named barrier exists, and is for whole warps.
//!   - `SetmaxnregBounds`: registers are moved between warps only where launch bounds fix their initial number.
//!   - `AtomicType`: an atomic operation has elements of a type that it takes.
//! * **texts** (`diagnostic.rs`)
//!   - `FormatSyntax`, `FormatCount`, `FormatType`: the text of an `assert` or a `printf` is a format with a
//!     placeholder for each value, of a type that it can write.
//!   - `TooManyValues`: the number of values is within the limit.
//! * **PTX text** (`inline.rs`)
//!   - `PtxText`: the text of a `ptx` stays in its scope and names its operands.
//!   - `PtxResult`, `PtxOperand`: each result is in the text, and all are scalars and pointers.
//! * **variables** (`vars.rs`)
//!   - `VarIndexOutOfRange`, `VarNotVisible`: a register exists, and its variable is in scope.
//!   - `VarReadBeforeSet`: a register was set on every path before it is read.
//! * **constants** (`constants.rs`), this and the next for a kernel that breaks no rule above
//!   - `DivisionByZero`, `SharedIndexOutOfBounds`, `LocalIndexOutOfBounds`: operations that every thread
//!     executes do not divide by the constant zero, nor access an allocation out of bounds at a constant index.
//! * **synchronisation** (`sync.rs`)
//!   - `DivergentBarrier`: a barrier is reached by all threads of a block that have not returned, or by none.
//!   - `DivergentWarpOp`: an operation of a warp that names all lanes as members is reached by all threads of a
//!     warp that have not returned, or by none.
//!   - `DivergentNamedBarrier`: a named barrier is reached by all threads of a warp that have not returned, or
//!     by none.
//! * **operands of `wgmma`** (`wgmma.rs`)
//!   - `WgmmaOperandComputed`: in a loop, registers of A are not computed while a `wgmma` still reads them.
//! * **requests** (`requests.rs`), for a kernel that breaks no rule above
//!   - `UnrollUnknownTripCount`: a loop that is to be unrolled fully has constant bounds.
//!   - `VectorizeNothing`, `VectorizeObstacle`: a loop that is to be vectorized loads, computes, and stores at its index.
//!   - `VectorizeAlignment`, `VectorizeAliasing`: its vectors are known to be aligned, and not to meet in another order.
//!   - `UnrollSize`: unrolling does not make too many operations.
//!   - `PrefetchStages`, `PrefetchSharedSize`, `PrefetchNoCopies`: a loop that is to fetch ahead has loads that
//!     can be, not too many stages, and room for the tiles of all stages.
//!   - `PrefetchAsyncForm`: asynchronous copies of a loop that fetches ahead have the form of `staging.rs`.
//!   - `PrefetchBulkForm`: bulk copies of a loop that fetches ahead have the form of `bulk_staging.rs`.
//!   - `PrefetchRing`: a ring of the kernel's own has a slot for each iteration in flight.
//!   - `PrefetchEarlyExit`, `PrefetchDependsOnUse`, `PrefetchAliasingStore`, `PrefetchAcrossBarrier`: making
//!     these loads ahead changes nothing.

mod constants;
mod diagnostic;
mod entities;
mod error;
mod inline;
mod limits;
mod memory;
mod message;
mod requests;
mod structure;
mod sync;
mod types;
mod vars;
mod wgmma;

pub use error::{VerifyError, VerifyErrors, Violation};

use super::entity::{Entity, LocationId, OpId};
use super::kernel::KernelIr;

/// The violations found so far.
struct Report<'k> {
    ir: &'k KernelIr,
    violations: Vec<Violation>,
    /// The position of each operation in its region, once an operation breaks a rule.
    positions: Option<Vec<usize>>,
}

impl Report<'_> {
    /// Records that `op` breaks a rule.
    fn at(&mut self, op: OpId, error: VerifyError) {
        let ir = self.ir;
        let positions = self.positions.get_or_insert_with(|| {
            let mut positions = vec![0; ir.ops.len()];
            for (_, region) in ir.regions.iter() {
                for (position, op) in region.ops.iter().enumerate() {
                    positions[op.index()] = position;
                }
            }
            positions
        });
        let path = ir.path_with(op, |op| Some(positions[op.index()]));
        let location = Some(ir.location_of(op));
        self.violations.push(Violation { location, path, error });
    }

    /// Records that the entity made at `location` breaks a rule.
    fn location(&mut self, location: LocationId, error: VerifyError) {
        let location = self.ir.locations.get(location).copied();
        self.violations.push(Violation { location, path: String::new(), error });
    }

    /// Records a broken rule of the kernel as a whole.
    fn kernel(&mut self, error: VerifyError) {
        self.violations.push(Violation { location: None, path: String::new(), error });
    }
}

/// Checks all rules.
///
/// # Errors
/// Every violation.
pub(super) fn verify(ir: &KernelIr) -> Result<(), VerifyErrors> {
    let mut report = Report { ir, violations: Vec::new(), positions: None };
    entities::check(&mut report);
    if report.violations.is_empty() {
        limits::check(&mut report);
        structure::check(&mut report);
        types::check(&mut report);
        memory::check(&mut report);
        vars::check(&mut report);
    }
    // What follows relies on the types above.
    if report.violations.is_empty() {
        constants::check(&mut report);
        sync::check(&mut report);
        wgmma::check(&mut report);
    }
    if report.violations.is_empty() {
        requests::check(&mut report);
    }
    match report.violations {
        violations if violations.is_empty() => Ok(()),
        violations => Err(VerifyErrors { violations }),
    }
}
