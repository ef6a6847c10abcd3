//! The verifier's errors: one variant per rule. `mod.rs` lists the rules by group.

use std::fmt;

use super::message::{Count, TypeList, without_param};
use crate::errors::errors;
use crate::ir::entity::{ArrayId, GlobalId, LocalId, SharedId, Value, VarId};
use crate::ir::format::FormatError;
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{Axis, Class, PtxTextError};
use crate::ir::target::Target;
use crate::ir::types::{Scalar, Space, Type};
use crate::ir::vector::VectorType;

errors! {
    /// A broken rule, with the values at fault and what to do about it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum VerifyError {
        /// {entity} does not exist: there are {len} of its kind
        EntityOutOfRange { entity: String, len: usize },
        /// {entity} is in the kernel twice: make a copy of it for the second location
        InKernelTwice { entity: String },
        /// {entity} does not name the owner that holds it
        WrongOwner { entity: String },
        /// regions are nested more than {limit} deep: use `break` or `return` to leave early, not
        /// one more `else`
        TooDeep { limit: usize },
        /// The kernel's name is not a PTX identifier.
        InvalidName {
            /// The name.
            name: String,
        } = |f| write!(
            f,
            "`{}` is not a PTX identifier: use letters, digits and `_`, starting with a letter",
            name.escape_debug()
        ),
        /// A parameter's name is not a PTX identifier.
        InvalidParamName {
            /// The name.
            name: String,
        } = |f| write!(
            f,
            "`{}` cannot name a parameter: use letters, digits and `_`, starting with a letter",
            name.escape_debug()
        ),
        /// two parameters are called `{name}`: each needs a name of its own
        DuplicateParamName { name: String },
        /// `{name}` is a constant of PTX: choose another name
        ReservedName { name: String },
        /// The name of the kernel or of a parameter is too long.
        NameTooLong {
            /// The name.
            name: String,
            /// The maximum length, in characters.
            limit: usize,
        } = |f| write!(
            f,
            "the name `{}..` has {} characters, but at most {limit} are possible: shorten it",
            name.chars().take(24).collect::<String>().escape_debug(),
            name.chars().count()
        ),
        /// A parameter points into memory that a launch cannot pass.
        ParamSpace {
            /// The parameter's name.
            name: String,
            /// The memory space.
            space: Space,
        } = |f| write!(
            f,
            "parameter `{name}` points to {space} memory, which {}",
            without_param(*space)
        ),
        /// the parameters take {bytes} bytes, but a launch can pass {limit}: pass some of them in a
        /// buffer
        ParamBytes { bytes: u64, limit: u64 },
        /// {local} has no elements: a local array has at least one
        LocalEmpty { local: LocalId },
        /// the kernel takes {bytes} bytes of local memory, but a thread has {limit}: use smaller
        /// arrays
        LocalSize { bytes: u64, limit: u64 },
        /// {array} has no elements: a constant array has at least one
        ArrayEmpty { array: ArrayId },
        /// the constant arrays take {bytes} bytes, but a module has {limit}: pass some of them in a
        /// buffer
        ArrayBytes { bytes: u64, limit: u64 },
        /// {global} has no elements: a global array has at least one
        GlobalEmpty { global: GlobalId },
        /// {global} has {len} elements, but {values} initial values
        GlobalValues { global: GlobalId, len: u32, values: usize },
        /// the global arrays take {bytes} bytes, but a kernel has {limit}: pass some of them in a
        /// buffer
        GlobalBytes { bytes: u64, limit: u64 },
        /// {value}, made at {made}, is not defined on every path to this use: return it from the
        /// body that makes it
        ValueNotVisible { value: Value, made: SourceLocation },
        /// A region does not end in a terminator.
        MissingTerminator {
            /// The operation that owns the region, or `None` for the kernel's body.
            owner: Option<&'static str>,
        } = |f| match owner {
            None => f.write_str("the body of the kernel does not end on every path: add `return`"),
            Some("if") => f.write_str(
                "this arm of an `if` does not end: add `yield`, or a jump such as `continue`, `break` or `return`",
            ),
            Some(owner) => write!(
                f,
                "the body of this `{owner}` does not end on every path: add `continue` or `break`"
            ),
        },
        /// The kernel's body or an arm of an `if` has arguments.
        RegionArguments {
            /// The operation that owns the region, or `None` for the kernel's body.
            owner: Option<&'static str>,
            /// How many arguments it has.
            found: usize,
        } = |f| match owner {
            None => write!(
                f,
                "the body of the kernel has {}, but must have none: its values come in as parameters",
                Count(*found, "argument")
            ),
            Some(owner) => write!(
                f,
                "an arm of this `{owner}` has {}, but must have none: it sees the values around it",
                Count(*found, "argument")
            ),
        },
        /// `{op}` cannot run: the region ended before it
        AfterTerminator { op: &'static str },
        /// `yield` ends an arm of an `if`, but stands in the body of a `{owner}`: end that with
        /// `continue` or `break`
        YieldInLoop { owner: &'static str },
        /// `yield` ends an arm of an `if`, but stands in the body of the kernel: end that with
        /// `return`
        YieldOutsideIf,
        /// `{op}` names the loop at {made}, but is not inside of it: name a loop that encloses it
        NotAnEnclosingLoop { op: &'static str, made: SourceLocation },
        /// `{op}` names a `{target}`, but only `for` and `loop` can be named
        NotALoop { op: &'static str, target: &'static str },
        /// The wrong number of values is passed into or out of a region.
        CarriedCount {
            /// The operation that passes the values.
            op: &'static str,
            /// The expected count.
            expected: usize,
            /// The actual count.
            found: usize,
        } = |f| {
            let each = match *op {
                "yield" => "each result of the `if`",
                "break" => "each result of the loop",
                "for" | "loop" => "each initial value",
                _ => "each value that the loop carries",
            };
            write!(
                f,
                "`{op}` has {}, but needs {expected}: one for {each}",
                Count(*found, "value")
            )
        },
        /// Values of the wrong types are passed into or out of a region.
        CarriedTypes {
            /// The operation that passes the values.
            op: &'static str,
            /// The expected types.
            expected: Vec<Type>,
            /// The actual types.
            found: Vec<Type>,
        } = |f| write!(
            f,
            "`{op}` passes values of the types {}, but {} are expected: convert them with `cvt`",
            TypeList(found),
            TypeList(expected)
        ),
        /// an `if` with results needs an `else`
        ResultsWithoutElse,
        /// operand `{operand}` of `{op}` is {found}, but must be {expected}
        OperandType { op: &'static str, operand: &'static str, expected: String, found: Type },
        /// `{op}` needs operands of one type, but `{operand}` is {found} and the one before it is
        /// {expected}: convert one of them (`cvt`, `promote`)
        MixedOperands { op: &'static str, operand: &'static str, expected: Type, found: Type },
        /// `{operand}` of `{op}` is {found}, but must be bool: compare it, for example with
        /// `.ne(0)`
        ConditionType { op: &'static str, operand: &'static str, found: Type },
        /// the index of `{op}` is {found}, but must be i32, u32, i64 or u64: convert it with `cvt`
        IndexType { op: &'static str, found: Type },
        /// `{op}` accesses memory through a pointer, but is given {found}
        NotAPointer { op: &'static str, found: Type },
        /// `{op}` writes, but {found} is read-only: make it a `mut` pointer (`GlobalMut`)
        ReadOnlyPointer { op: &'static str, found: Type },
        /// `{op}` needs {class}, not {found}: convert it first (`cvt`)
        OperandClass { op: &'static str, class: Class, found: Type },
        /// An operation's result count differs from its row.
        ResultCount {
            /// The operation.
            op: &'static str,
            /// The count in the row.
            expected: usize,
            /// The actual count.
            found: usize,
        } = |f| write!(f, "`{op}` is given {}, but has {expected}", Count(*found, "result")),
        /// An operation's result types differ from what its row and operands imply.
        ResultTypes {
            /// The operation.
            op: &'static str,
            /// The types that the operands imply.
            expected: Vec<Type>,
            /// The actual types.
            found: Vec<Type>,
        } = |f| write!(
            f,
            "`{op}` has results of the types {}, but its operands give {}",
            TypeList(found),
            TypeList(expected)
        ),
        /// An operation would make a vector that does not exist: its element count is not 2, 4, 8
        /// or 16, it is too long, or its elements are `bool`.
        NoSuchVector {
            /// The operation.
            op: &'static str,
            /// The element type, or `None` if there are no elements.
            elem: Option<Type>,
            /// The element count.
            lanes: u32,
        } = |f| match elem {
            Some(elem) => write!(
                f,
                "`{op}` would make a vector of {lanes} {elem}, but a vector has 2, 4, 8 or 16 elements other than bool, and at most 128 bits"
            ),
            None => {
                write!(f, "`{op}` has no operands, but a vector has 2, 4, 8 or 16 elements")
            }
        },
        /// An element index is out of range for its vector.
        LaneOutOfRange {
            /// The element's index.
            lane: u32,
            /// The vector's type.
            vector: VectorType,
        } = |f| write!(
            f,
            "there is no element {lane} of a {vector}: the elements are numbered 0 to {}",
            vector.lanes() - 1
        ),
        /// No target has the operation with these attributes and operand types.
        NotInPtx {
            /// The operation with its attributes.
            op: String,
            /// The operands' types.
            types: Vec<Type>,
            /// Why not, and what there is instead.
            reason: &'static str,
        } = |f| write!(f, "there is no `{op}` for operands {}: {reason}", TypeList(types)),
        /// parameter `{name}` is a {ty}, but parameters are scalars and pointers: pass the elements
        /// one by one
        VectorParam { name: String, ty: VectorType },
        /// `{op}` needs {first}, but the kernel is built for {target}: build it for {first}, or do
        /// without
        NotOnTarget { op: String, first: Target, target: Target },
        /// a `for` cannot count in {found}: count in integers and convert the index with `cvt`, or
        /// use `loop`
        RangeNotInteger { found: Type },
        /// The first argument of a `for` body is not the index.
        RangeIndex {
            /// The type of the index.
            expected: Type,
            /// The argument's type, if there is one.
            found: Option<Type>,
        } = |f| match found {
            Some(found) => write!(
                f,
                "the first argument of the body of a `for` is its index, of type {expected}, but here it is {found}"
            ),
            None => write!(
                f,
                "the body of a `for` has no argument, but needs one for its index, of type {expected}"
            ),
        },
        /// The bounds and the step of a `for` have different types.
        RangeTypes {
            /// The types of `lo`, `hi` and `step`.
            found: [Type; 3],
        } = |f| {
            let [lo, hi, step] = found;
            write!(
                f,
                "the range of a `for` has the types {lo}, {hi} and step {step}: convert them to one type with `cvt`"
            )
        },
        /// the step of a `for` is {step}, but must be positive: to count down, count up and
        /// subtract the index
        StepNotPositive { step: i128 },
        /// the text of `{op}` is not a format string: {error}
        FormatSyntax { op: &'static str, error: FormatError },
        /// A format string's placeholder count differs from its value count.
        FormatCount {
            /// The operation.
            op: &'static str,
            /// The placeholder count.
            expected: usize,
            /// The value count.
            found: usize,
        } = |f| write!(
            f,
            "the text of `{op}` has {expected} placeholders, but there are {found} values: write `{{}}` once for each"
        ),
        /// `{placeholder}` of `{op}` cannot write a value of type {found}: {reason}
        FormatType { op: &'static str, placeholder: String, found: Type, reason: &'static str },
        /// `{op}` has {found} values, but passes at most {limit} to the host: use several
        TooManyValues { op: &'static str, found: usize, limit: usize },
        /// `{op}` divides by the constant 0 whenever the kernel runs: guard it, or leave it out
        DivisionByZero { op: &'static str },
        /// An access at a constant index is outside its local allocation, on every path through the
        /// kernel.
        LocalIndexOutOfBounds {
            /// The allocation.
            local: LocalId,
            /// Where it was allocated.
            made: SourceLocation,
            /// The offset of the access in its allocation, in bytes.
            byte: i128,
            /// The size of the access, in bytes.
            size: u32,
            /// The size of the allocation, in bytes.
            len_bytes: u64,
        } = |f| write!(
            f,
            "bytes {byte} to {} of {local}, made at {made}, are accessed whenever the kernel runs, but it has only {len_bytes} bytes: use a smaller index, or make the array larger",
            byte + i128::from(*size)
        ),
        /// An access at a constant index is outside its shared allocation, on every path through
        /// the kernel.
        SharedIndexOutOfBounds {
            /// The allocation.
            shared: SharedId,
            /// Where it was allocated.
            made: SourceLocation,
            /// The offset of the access in its allocation, in bytes.
            byte: i128,
            /// The size of the access, in bytes.
            size: u32,
            /// The size of the allocation, in bytes.
            len_bytes: u64,
        } = |f| write!(
            f,
            "bytes {byte} to {} of {shared}, made at {made}, are accessed whenever the kernel runs, but it has only {len_bytes} bytes: use a smaller index, or make the allocation larger",
            byte + i128::from(*size)
        ),
        /// a loop whose `{bound}` is not a constant cannot be unrolled fully: use `.unroll(n)`,
        /// which needs no constant
        UnrollUnknownTripCount { bound: &'static str },
        /// no load or store of this loop can become a vector of {lanes} elements: index with the
        /// loop's index itself (move the rest into `x.offset(..)` before the loop), step by 1, and
        /// use vectors of at most 16 bytes
        VectorizeNothing { lanes: u32 },
        /// the `{op}` at {made} cannot be in a vectorized loop, whose body may only load, compute,
        /// and store at the loop's index: move it out of the loop, or use `.unroll(n)`
        VectorizeObstacle { op: &'static str, made: SourceLocation },
        /// the `{op}` at {made} is not known to start at a multiple of {bytes} bytes: start the
        /// range at such a multiple (`assume_divisible_by` promises it), and use `assume_aligned`
        /// on the pointer
        VectorizeAlignment { op: &'static str, made: SourceLocation, bytes: u32 },
        /// the `{op}` at {made} may access what the store at {store} writes in another iteration of
        /// this vectorized loop: store to another buffer, or use `.unroll(n)`
        VectorizeAliasing { op: &'static str, made: SourceLocation, store: SourceLocation },
        /// with this loop unrolled the kernel has {operations} operations, but at most {limit} are
        /// possible: unroll by a smaller factor
        UnrollSize { operations: u128, limit: u128 },
        /// a loop can fetch at most {limit} iterations ahead, not {stages}, because each needs its
        /// own registers: ask for fewer
        PrefetchStages { stages: u32, limit: u32 },
        /// {stages} stages of the tiles that this loop fills take {bytes} bytes of shared memory,
        /// but a block has {limit}: fetch fewer iterations ahead, or use smaller tiles
        PrefetchSharedSize { stages: u32, bytes: u64, limit: u64 },
        /// the body of this loop loads nothing from global memory that could be fetched ahead:
        /// leave `.prefetch_stages` out (to fetch an inner loop's loads ahead, set it on that loop)
        PrefetchNoCopies,
        /// this loop cannot start its asynchronous copies ahead, such as that at {made}, because of
        /// the `{op}` at {at}: write its body as `cp_async` to tiles of its own,
        /// `cp_async_commit_group`, `cp_async_wait_group(0)`, `barrier`, the use of the tiles,
        /// `barrier`, in this order and not inside an `if` or a loop (a copy of no bytes by
        /// `cp_async_zfill` replaces an `if`). Each iteration copies to the same elements, or to
        /// those of slot `i % n` of a ring; with a ring, give the size of the block by
        /// `KernelOptions::block`. For a body of another form leave `.prefetch_stages` out and use
        /// a `CpAsyncPipeline`
        PrefetchAsyncForm { made: SourceLocation, op: &'static str, at: SourceLocation },
        /// this loop cannot start its bulk copies ahead, such as that at {made}, because of the
        /// `{op}` at {at}: its body must expect the bytes and copy to tiles of its own (in one `if`
        /// of an elected thread, the same one in each iteration), wait for the parity `i % 2` of
        /// one mbarrier, use the tiles, wait for all MMAs, and pass one barrier. For a body of
        /// another form leave `.prefetch_stages` out and use a `TmaPipeline`
        PrefetchBulkForm { made: SourceLocation, op: &'static str, at: SourceLocation },
        /// this loop cannot fetch {stages} iterations ahead: the ring buffer that the `{op}` at
        /// {made} indexes has {slots} slots, but needs one for each of these iterations and one for
        /// the current one: make the ring longer, or fetch fewer iterations ahead
        PrefetchRing { op: &'static str, made: SourceLocation, slots: u32, stages: u32 },
        /// this loop cannot fetch ahead, because the `{op}` at {made} may leave its body early, and
        /// the data of later iterations may not exist: guard the work with an `if` instead, or
        /// leave `.prefetch_stages` out
        PrefetchEarlyExit { op: &'static str, made: SourceLocation },
        /// this load cannot be fetched ahead, because it depends on {value}, which its own
        /// iteration computes at {made}: compute the address from the index alone, or leave
        /// `.prefetch_stages` out
        PrefetchDependsOnUse { value: Value, made: SourceLocation },
        /// this loop cannot fetch ahead, because the `{op}` at {made} writes global memory that a
        /// later load may read: store after the loop, or leave `.prefetch_stages` out
        PrefetchAliasingStore { op: &'static str, made: SourceLocation },
        /// this loop cannot fetch ahead across the `{op}` at {made}, because it makes visible what
        /// was written at {store}, and a load may read that: fetch in a separate kernel, or leave
        /// `.prefetch_stages` out
        PrefetchAcrossBarrier { op: &'static str, made: SourceLocation, store: SourceLocation },
        /// {var} has no registers: ask for at least one
        VarEmpty { var: VarId },
        /// the text of `ptx` is invalid: {error}
        PtxText { error: PtxTextError },
        /// result {result} of `ptx` is not in its text: write it as `%{result}`
        PtxResult { result: usize },
        /// operands and results of `ptx` must be scalars or pointers, not {found}: pass the
        /// elements one by one
        PtxOperand { found: Type },
        /// {var} has {len} registers, but at most {limit} are possible: use shared memory
        VarSize { var: VarId, len: u32, limit: u32 },
        /// {var} has {len} registers, numbered from 0, so there is no register {index}
        VarIndexOutOfRange { var: VarId, index: u32, len: u32 },
        /// {var}, declared at {made}, is used outside the body that declares it: declare it in a
        /// body that encloses both
        VarNotVisible { var: VarId, made: SourceLocation },
        /// register {index} of {var}, declared at {made}, is read on a path on which it was not
        /// set: set it where it is declared, or on every path
        VarReadBeforeSet { var: VarId, index: u32, made: SourceLocation },
        /// The fixed block size is zero.
        BlockEmpty {
            /// The block size along each axis.
            block: [u32; 3],
        } = |f| {
            let [x, y, z] = block;
            write!(
                    f,
                    "a block of {x} x {y} x {z} threads is empty: each axis needs at least 1"
                )
        },
        /// a block has at most {limit} threads along {axis}, not {threads}: use another axis, or
        /// more blocks
        BlockAxis { axis: Axis, threads: u32, limit: u32 },
        /// The fixed block size exceeds the hardware's limit.
        BlockSize {
            /// The block size along each axis.
            block: [u32; 3],
        } = |f| {
            let [x, y, z] = block;
            write!(
                f,
                "a block of {x} x {y} x {z} threads is too large: it can have at most 1024 in all, so use more blocks"
            )
        },
        /// `{bound}` is {number}, but must be from {min} to {max}
        LaunchBound { bound: &'static str, number: u32, min: u32, max: u32 },
        /// Both a fixed block size and a maximum are given.
        MaxThreadsOfFixedBlock {
            /// The maximum thread count.
            max_threads: u32,
            /// The fixed block size along each axis.
            block: [u32; 3],
        } = |f| {
            let [x, y, z] = block;
            write!(
                f,
                "`max_threads` is {max_threads}, but the block is fixed at {x} x {y} x {z} threads too: leave one of the two out"
            )
        },
        /// `min_blocks_per_sm` is {min_blocks_per_sm}, but the block size is unknown: give `block`
        /// or `max_threads` too
        MinBlocksOfAnyBlock { min_blocks_per_sm: u32 },
        /// `min_blocks_per_sm` asks for {min_blocks_per_sm} blocks of {threads} threads, but an SM
        /// of the target holds {limit} threads: ask for fewer blocks
        ThreadsPerSm { min_blocks_per_sm: u32, threads: u64, limit: u32 },
        /// The fixed cluster size is zero, or exceeds the hardware's limit.
        ClusterSize {
            /// The cluster size in blocks, along each axis.
            cluster: [u32; 3],
            /// The maximum number of blocks per cluster.
            limit: u32,
        } = |f| {
            let [x, y, z] = cluster;
            write!(
                f,
                "a cluster of {x} x {y} x {z} blocks is not possible: each axis needs at least 1, with at most {limit} blocks in all"
            )
        },
        /// {shared} has no elements: ask for at least one
        SharedEmpty { shared: SharedId },
        /// A shared allocation's alignment is too small for its elements.
        SharedAlignmentTooSmall {
            /// The allocation.
            shared: SharedId,
            /// The alignment in bytes.
            align_bytes: u32,
            /// The element type.
            elem: Scalar,
        } = |f| write!(
            f,
            "{shared} is aligned to {align_bytes} bytes, but its elements are {elem}: align it to {} or more",
            elem.size_bytes()
        ),
        /// {shared} is aligned to {align_bytes} bytes, but at most {limit} are possible
        SharedAlignmentTooLarge { shared: SharedId, align_bytes: u32, limit: u32 },
        /// a tensor map has {rank} dimensions, but must have 1 to 5
        TensorMapRank { rank: u8 },
        /// a {found} cannot be carried, selected or kept in a variable: use the parameter itself
        TensorMapNotParam { found: Type },
        /// {shared} is aligned to {align_bytes} bytes, but an alignment must be a power of two: use
        /// 4, 8, 16, ..
        SharedAlignment { shared: SharedId, align_bytes: u32 },
        /// `{op}` controls caches, but its pointer is to {space} memory: only global memory is
        /// cached, so leave the attribute out
        CacheSpace { op: String, space: Space },
        /// A load or store has a memory order, but no other thread sees the memory, or nobody
        /// writes it.
        OrderSpace {
            /// The operation with its attributes.
            op: String,
            /// The pointer's memory space.
            space: Space,
        } = |f| write!(
            f,
            "`{op}` has a memory order, but its pointer is to {space} memory, {}: leave the order out",
            if *space == Space::Local {
                "which no other thread sees"
            } else {
                "which nobody writes"
            }
        ),
        /// `{op}` is atomic, but on {space} memory, which no other thread sees: use a load and a
        /// store
        AtomicSpace { op: String, space: Space },
        /// `{op}` has a memory order, so it cannot have a cache operator or `nc`, which are for
        /// weak accesses: leave one of them out
        CacheWithOrder { op: String },
        /// `{op}` uses the read-only path (`nc`), which only supports the cache operators `ca`,
        /// `cg` and `cs`
        CacheOfReadOnly { op: String },
        /// `{op}` has an eviction priority or policy that it cannot have: `volatile` allows
        /// neither, and a cache operator allows no L1 priority; leave it out
        CacheWithEviction { op: String },
        /// `assume_aligned` promises a multiple of {bytes} bytes, but alignments are powers of two
        AssumedAlignment { bytes: u32 },
        /// A vector access that cannot be aligned.
        MisalignedVector {
            /// The operation with its attributes.
            op: String,
            /// The vector's type.
            vector: VectorType,
            /// The alignment that the vector needs, in bytes.
            bytes: u32,
            /// The address modulo the required alignment, in bytes, or modulo a smaller power of
            /// two if no more is known.
            rest: u64,
        } = |f| write!(
            f,
            "`{op}` accesses a {vector}, which must start at a multiple of {bytes} bytes, but starts {rest} bytes after one: make the index, in elements, a multiple of {}",
            vector.lanes()
        ),
        /// a {vector} must start at a multiple of {bytes} bytes, but {shared}, made at {made}, is
        /// aligned to {align_bytes}: make it with `shared_aligned(.., {bytes})`
        VectorInShared {
            vector: VectorType,
            bytes: u32,
            shared: SharedId,
            align_bytes: u32,
            made: SourceLocation,
        },
        /// there is no barrier {id}: a block has barriers 0 to 15
        BarrierId { id: i128 },
        /// a barrier for {threads} threads is not possible: whole warps arrive, so the count must
        /// be a multiple of 32 from 32 to 1024
        BarrierThreads { threads: i128 },
        /// only some threads of a warp may reach `{op}`: the `{branch}` at {location} may differ
        /// between them; branch on the warp's index, `thread_idx().x / 32`, or on a value that
        /// `shfl_idx` broadcasts from one lane, or move the barrier out
        DivergentNamedBarrier { op: &'static str, branch: &'static str, location: SourceLocation },
        /// `{op}` computes A of the next iteration while the `wgmma` at {wgmma} may still read A in
        /// the same registers, so `ptxas` would serialize every `wgmma` of the kernel (C7513);
        /// compute it after the `wgmma_wait_group` that waits for this `wgmma`
        WgmmaOperandComputed { op: &'static str, wgmma: SourceLocation },
        /// `ptxas` drops `setmaxnreg` if the launch bounds do not fix the initial register count:
        /// give the kernel a `block`, and also `min_blocks_per_sm`, `max_registers` or a cluster
        SetmaxnregBounds,
        /// `{op}` is on elements of type {found}, but needs {expected}
        AtomicType { op: String, expected: &'static str, found: Scalar },
        /// only some threads of a block may reach the barrier: the `{branch}` at {location} may
        /// differ between them; move the barrier out of it, or make its condition or range
        /// independent of the thread
        DivergentBarrier { branch: &'static str, location: SourceLocation },
        /// `{op}` names all 32 lanes as members, but only some may reach it: the `{branch}` at
        /// {location} may differ between them; move it out, make the condition or range uniform in
        /// the warp, or pass the mask of the lanes that get here
        DivergentWarpOp { op: &'static str, branch: &'static str, location: SourceLocation },
        /// the kernel takes {bytes} bytes of shared memory, but a block of its target has {limit}:
        /// use smaller tiles
        SharedSize { bytes: u64, limit: u64 },
    }
}

/// One rule of the verifier that a kernel breaks, and where. You get it by iterating over
/// [`VerifyErrors`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The source line of the operation or allocation at fault, if there is one.
    pub location: Option<SourceLocation>,
    /// The path of the operation at fault from the kernel's body, such as `for[2]/if[5]/then/3`.
    /// Empty if the fault is not in an operation.
    pub path: String,
    /// The broken rule.
    pub error: VerifyError,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = self.location {
            write!(f, "{location}: ")?;
        }
        write!(f, "{}", self.error)?;
        if self.path.is_empty() { Ok(()) } else { write!(f, " [{}]", self.path) }
    }
}

/// All rules that a kernel breaks, in program order. [`Kernel::verify`](crate::ir::Kernel::verify)
/// returns them together, so that you can fix several at once. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyErrors {
    pub(super) violations: Vec<Violation>,
}

impl VerifyErrors {
    /// Iterates over the violations, in program order.
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

/// Prints one line per violation.
impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for VerifyErrors {}
crate::errors::message_as_debug!(VerifyErrors);
