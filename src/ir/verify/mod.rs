//! The verifier. If it accepts a kernel, lowering, simulating and generating PTX never panic.
//!
//! It checks the rules below and returns every violation, each as a variant of [`VerifyError`].
//! Later groups run only if earlier ones found nothing, because they rely on what those checked.
//!
//! * **entities** (`entities.rs`), alone and first, because all other groups index arenas without
//!   checks
//!   - `EntityOutOfRange`: every id is inside its arena.
//!   - `InKernelTwice`: each region and operation occurs once in the kernel.
//!   - `WrongOwner`: regions, operations and values name the owner that actually holds them.
//!   - `TooDeep`: regions are not nested too deep.
//! * **limits** (`limits.rs`)
//!   - `InvalidName`, `InvalidParamName`, `ReservedName`, `NameTooLong`, `DuplicateParamName`:
//!     names are unique PTX identifiers of at most 255 characters without a predefined meaning.
//!   - `ParamSpace`, `ParamBytes`, `VectorParam`: a launch can pass the parameters.
//!   - `BlockEmpty`, `BlockAxis`, `BlockSize`, `ClusterSize`: the hardware can run the fixed block
//!     or cluster size.
//!   - `LaunchBound`, `MaxThreadsOfFixedBlock`, `MinBlocksOfAnyBlock`, `ThreadsPerSm`: launch
//!     bounds are possible and do not contradict each other.
//!   - `SharedEmpty`, `SharedAlignment`, `SharedAlignmentTooSmall`, `SharedAlignmentTooLarge`,
//!     `SharedSize`: a shared allocation is not empty, is aligned to a power of two that suits its
//!     elements, and fits in a block's shared memory.
//!   - `LocalEmpty`, `LocalSize`: a local allocation is not empty, and all of them fit in a
//!     thread's local memory.
//!   - `ArrayEmpty`, `ArrayBytes`: a constant array is not empty, and all of them fit in a module.
//!   - `GlobalEmpty`, `GlobalValues`, `GlobalBytes`: a global array is not empty, has no more
//!     initial values than elements, and all of them fit in 256 MiB.
//!   - `VarEmpty`, `VarSize`: a variable has at least one register, and not too many.
//!   - `TensorMapRank`, `TensorMapNotParam`: a tensor map has 1 to 5 dimensions and stays a
//!     parameter.
//! * **structure** (`structure.rs`)
//!   - `ValueNotVisible`: a value is used only where its definition dominates (SSA over regions).
//!   - `MissingTerminator`, `AfterTerminator`: a region ends in a terminator, and nothing follows
//!     it.
//!   - `YieldInLoop`, `YieldOutsideIf`: `yield` ends an arm of an `if`.
//!   - `NotALoop`, `NotAnEnclosingLoop`: `break` and `continue` name an enclosing loop.
//!   - `RegionArguments`: the kernel's body and the arms of an `if` have no arguments.
//!   - `CarriedCount`, `CarriedTypes`: the values that are passed into and out of a region have the
//!     expected count and types.
//!   - `ResultsWithoutElse`: an `if` with results has an `else`.
//! * **types** (`types.rs`)
//!   - `OperandClass`, `MixedOperands`, `OperandType`: operands have the types that the operation's
//!     row asks for.
//!   - `ConditionType`, `IndexType`, `NotAPointer`, `ReadOnlyPointer`: a condition is a `bool`, an
//!     index is an integer of 32 or 64 bits, memory is accessed through pointers and written
//!     through `mut` ones.
//!   - `ResultCount`, `ResultTypes`: results have the count and types that the row asks for.
//!   - `NotInPtx`, `NotOnTarget`: PTX and the target have the operation, with these attributes and
//!     types.
//!   - `NoSuchVector`, `LaneOutOfRange`: vector types exist, and so do the elements that operations
//!     name.
//!   - `RangeTypes`, `RangeNotInteger`, `RangeIndex`, `StepNotPositive`: a `for` counts in one
//!     integer type, its body takes the index as first argument, and a constant step is positive.
//! * **memory** (`memory.rs`)
//!   - `CacheSpace`: cache hints are for global memory.
//!   - `OrderSpace`, `AtomicSpace`: ordered accesses and atomics need memory that several threads
//!     share. Ordered accesses also need memory that can be written.
//!   - `CacheWithOrder`, `CacheOfReadOnly`, `CacheWithEviction`: a cache operator is for weak
//!     accesses, must exist on the read-only path, and excludes an L1 eviction priority. Volatile
//!     accesses exclude eviction priorities and policies too.
//!   - `AssumedAlignment`, `MisalignedVector`, `VectorInShared`: a promised alignment is a power of
//!     two, no vector access is known to be misaligned, and its shared allocation is aligned for
//!     it.
//!   - `BarrierId`, `BarrierThreads`: a named barrier exists, and its thread count is a whole
//!     number of warps.
//!   - `SetmaxnregBounds`: `setmaxnreg` is used only if the launch bounds fix the initial register
//!     count.
//!   - `AtomicType`: an atomic operation supports its element type.
//! * **texts** (`diagnostic.rs`)
//!   - `FormatSyntax`, `FormatCount`, `FormatType`: the text of an `assert` or a `printf` is a
//!     valid format string with one placeholder per value, and each can print its value's type.
//!   - `TooManyValues`: the value count is within the limit.
//! * **PTX text** (`inline.rs`)
//!   - `PtxText`: inline PTX stays in its own scope and refers to operands by placeholders.
//!   - `PtxResult`, `PtxOperand`: inline PTX uses each of its results, and all results and operands
//!     are scalars or pointers.
//! * **variables** (`vars.rs`)
//!   - `VarIndexOutOfRange`, `VarNotVisible`: a register exists, and its variable is in scope.
//!   - `VarReadBeforeSet`: a register is set on every path before it is read.
//! * **constants** (`constants.rs`); this and the following groups run only if no rule above is
//!   broken
//!   - `DivisionByZero`, `SharedIndexOutOfBounds`, `LocalIndexOutOfBounds`: operations that every
//!     thread executes do not divide by a constant zero or access an allocation out of bounds at a
//!     constant index.
//! * **synchronisation** (`sync.rs`)
//!   - `DivergentBarrier`: a barrier is reached by all of a block's threads that have not returned,
//!     or by none.
//!   - `DivergentWarpOp`: an operation whose members are all 32 lanes is reached by all of a warp's
//!     threads that have not returned, or by none.
//!   - `DivergentNamedBarrier`: a named barrier is reached by all of a warp's threads that have not
//!     returned, or by none.
//! * **operands of `wgmma`** (`wgmma.rs`)
//!   - `WgmmaOperandComputed`: in a loop, registers of A are not written while a `wgmma` still
//!     reads them.
//! * **requests** (`requests.rs`), only if no rule above is broken
//!   - `UnrollUnknownTripCount`: a loop that is to be unrolled fully has constant bounds.
//!   - `VectorizeNothing`, `VectorizeObstacle`: a loop that is to be vectorized only loads,
//!     computes, and stores at its index.
//!   - `VectorizeAlignment`, `VectorizeAliasing`: its vector accesses are known to be aligned, and
//!     merging them does not reorder accesses to the same address.
//!   - `UnrollSize`: unrolling does not create too many operations.
//!   - `PrefetchStages`, `PrefetchSharedSize`, `PrefetchNoCopies`: a loop that is to prefetch has
//!     loads that it can prefetch, not too many stages, and enough shared memory for all stages.
//!   - `PrefetchAsyncForm`: its asynchronous copies have the form that `staging.rs` describes.
//!   - `PrefetchBulkForm`: its bulk copies have the form that `bulk_staging.rs` describes.
//!   - `PrefetchRing`: a ring buffer that the kernel manages itself has a slot for each iteration
//!     in flight.
//!   - `PrefetchEarlyExit`, `PrefetchDependsOnUse`, `PrefetchAliasingStore`,
//!     `PrefetchAcrossBarrier`: hoisting the loads does not change the result.

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

/// Collects violations.
struct Report<'k> {
    ir: &'k KernelIr,
    violations: Vec<Violation>,
    /// The position of each operation in its region. Computed when the first operation breaks a
    /// rule.
    positions: Option<Vec<usize>>,
}

impl Report<'_> {
    /// Records a violation by the operation `op`.
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

    /// Records a violation by the entity created at `location`.
    fn location(&mut self, location: LocationId, error: VerifyError) {
        let location = self.ir.locations.get(location).copied();
        self.violations.push(Violation { location, path: String::new(), error });
    }

    /// Records a violation by the kernel as a whole.
    fn kernel(&mut self, error: VerifyError) {
        self.violations.push(Violation { location: None, path: String::new(), error });
    }
}

/// Checks all rules.
///
/// # Errors
/// Returns every violation.
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
    // The next groups rely on the checks above.
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
