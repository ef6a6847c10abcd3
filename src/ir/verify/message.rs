//! The rules of the verifier as sentences: what is wrong, with the values, and what to do about it.

use std::fmt;

use super::VerifyError;
use crate::ir::types::{Space, Type};

/// A number of things.
struct Count(usize, &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(number, thing) = self;
        write!(f, "{number} {thing}{}", if *number == 1 { "" } else { "s" })
    }
}

/// Why no launch passes a pointer into the space, and what to do without.
fn without_param(space: Space) -> &'static str {
    match space {
        Space::Shared | Space::SharedCluster => {
            "a block has only while it runs: make it in the kernel (`k.shared`), and pass an index"
        }
        Space::Local => {
            "a thread has only while it runs: make it in the kernel (`k.local_array`), and pass an index"
        }
        Space::Const => {
            "belongs to the module: make it in the kernel (`k.const_array`), and pass an index"
        }
        Space::Global | Space::Generic => {
            "may be anywhere: pass a pointer to global memory, and make it generic (`cvta`)"
        }
    }
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
            E::InKernelTwice { entity } => {
                write!(f, "{entity} is in the kernel twice: make a copy of it for the second place")
            }
            E::WrongOwner { entity } => {
                write!(f, "{entity} names another owner than the one that holds it")
            }
            E::TooDeep { limit } => {
                write!(
                    f,
                    "more than {limit} regions are inside each other: use `break` or `return` to leave early, not one more `else`"
                )
            }
            E::InvalidName { name } => write!(
                f,
                "`{}` is not a PTX identifier: use letters, digits and `_`, starting with a letter",
                name.escape_debug()
            ),
            E::InvalidParamName { name } => write!(
                f,
                "`{}` cannot name a parameter: use letters, digits and `_`, starting with a letter",
                name.escape_debug()
            ),
            E::DuplicateParamName { name } => {
                write!(f, "two parameters are called `{name}`: each needs a name of its own")
            }
            E::ReservedName { name } => {
                write!(f, "`{name}` is a constant of PTX: choose another name")
            }
            E::NameTooLong { name, limit } => write!(
                f,
                "the name `{}..` has {} characters, but at most {limit} are possible: shorten it",
                name.chars().take(24).collect::<String>().escape_debug(),
                name.chars().count()
            ),
            E::ParamSpace { name, space } => write!(
                f,
                "parameter `{name}` points to {space} memory, which {}",
                without_param(*space)
            ),
            E::LocalEmpty { local } => {
                write!(f, "{local} has no elements: a local array has at least one")
            }
            E::LocalSize { bytes, limit } => write!(
                f,
                "the kernel takes {bytes} bytes of local memory, but a thread has {limit}: use smaller arrays"
            ),
            E::ArrayEmpty { array } => {
                write!(f, "{array} has no elements: a constant array has at least one")
            }
            E::ArrayBytes { bytes, limit } => write!(
                f,
                "the constant arrays take {bytes} bytes, but a module has {limit}: pass some of them in a buffer"
            ),
            E::PtxText { error } => write!(f, "the text of `ptx` is refused: {error}"),
            E::PtxResult { result } => write!(
                f,
                "result {result} of `ptx` is not in its text: write it as `%{result}`"
            ),
            E::PtxOperand { found } => write!(
                f,
                "`ptx` takes and gives scalars and pointers, not {found}: pass the elements one by one"
            ),
            E::ParamBytes { bytes, limit } => write!(
                f,
                "the parameters take {bytes} bytes, but a launch can pass {limit}: pass some of them in a buffer"
            ),
            E::ValueNotVisible { value, made } => {
                write!(
                    f,
                    "{value}, made at {made}, is not defined on every path to this use: return it from the body that makes it"
                )
            }
            E::MissingTerminator { owner: None } => {
                f.write_str("the body of the kernel does not end on every path: add `return`")
            }
            E::MissingTerminator { owner: Some("if") } => f.write_str(
                "this arm of an `if` does not end: add `yield`, or a jump such as `continue`, `break` or `return`",
            ),
            E::MissingTerminator { owner: Some(owner) } => write!(
                f,
                "the body of this `{owner}` does not end on every path: add `continue` or `break`"
            ),
            E::RegionArguments { owner: None, found } => write!(
                f,
                "the body of the kernel has {}, but must have none: its values come in as parameters",
                Count(*found, "argument")
            ),
            E::RegionArguments { owner: Some(owner), found } => write!(
                f,
                "an arm of this `{owner}` has {}, but must have none: it sees the values around it",
                Count(*found, "argument")
            ),
            E::AfterTerminator { op } => {
                write!(f, "`{op}` cannot run: the region ended before it")
            }
            E::YieldInLoop { owner } => write!(
                f,
                "`yield` ends an arm of an `if`, but stands in the body of a `{owner}`: end that with `continue` or `break`"
            ),
            E::YieldOutsideIf => f.write_str(
                "`yield` ends an arm of an `if`, but stands in the body of the kernel: end that with `return`",
            ),
            E::NotAnEnclosingLoop { op, made } => write!(
                f,
                "`{op}` names the loop at {made}, which is not around it: name a loop whose body this is in"
            ),
            E::NotALoop { op, target } => {
                write!(f, "`{op}` names an operation `{target}`: only `for` and `loop` can be named")
            }
            E::CarriedCount { op, expected, found } => {
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
            }
            E::CarriedTypes { op, expected, found } => write!(
                f,
                "`{op}` passes values of the types {}, but {} are expected: convert them with `cvt`",
                TypeList(found),
                TypeList(expected)
            ),
            E::ResultsWithoutElse => f.write_str("an `if` with results needs an `else`"),
            E::OperandType { op, operand, expected, found } => {
                write!(f, "operand `{operand}` of `{op}` is {found}, but must be {expected}")
            }
            E::MixedOperands { op, operand, expected, found } => write!(
                f,
                "`{op}` takes operands of one type, but `{operand}` is {found} and the one before it {expected}: convert one of them (`cvt`, `promote`)"
            ),
            E::ConditionType { op, operand, found } => write!(
                f,
                "`{operand}` of `{op}` is {found}, but must be bool: compare it, for example with `.ne(0)`"
            ),
            E::IndexType { op, found } => write!(
                f,
                "the index of `{op}` is {found}, but must be i32, u32, i64 or u64: convert it with `cvt`"
            ),
            E::NotAPointer { op, found } => {
                write!(f, "`{op}` accesses memory through a pointer, but is given {found}")
            }
            E::ReadOnlyPointer { op, found } => write!(
                f,
                "`{op}` writes, but {found} is for reading only: make it a `mut` pointer (`GlobalMut`)"
            ),
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
            E::ThreadsPerSm { min_blocks_per_sm, threads, limit } => write!(
                f,
                "`min_blocks_per_sm` asks for {min_blocks_per_sm} blocks of {threads} threads, but a multiprocessor of the target holds {limit} threads: ask for fewer blocks"
            ),
            E::DivergentWarpOp { op, branch, place } => write!(
                f,
                "`{op}` names all 32 lanes as members, but is reached by a part of the threads of a warp: the `{branch}` at {place} does not do the same in all of them; move it out, make the condition or range the same in a warp, or pass the mask of the lanes that get here"
            ),
            E::OperandClass { op, class, found } => {
                write!(f, "`{op}` takes {class}, not {found}: convert it first (`cvt`)")
            }
            E::ResultCount { op, expected, found } => {
                write!(f, "`{op}` is given {}, but has {expected}", Count(*found, "result"))
            }
            E::ResultTypes { op, expected, found } => write!(
                f,
                "`{op}` has results of the types {}, but its operands give {}",
                TypeList(found),
                TypeList(expected)
            ),
            E::NoSuchVector { op, elem: Some(elem), lanes } => write!(
                f,
                "`{op}` would make a vector of {lanes} {elem}, but a vector has 2, 4, 8 or 16 elements other than bool, and at most 128 bits"
            ),
            E::NoSuchVector { op, elem: None, .. } => {
                write!(f, "`{op}` has no operands, but a vector has 2, 4, 8 or 16 elements")
            }
            E::LaneOutOfRange { lane, vector } => write!(
                f,
                "there is no element {lane} of a {vector}: the elements are numbered 0 to {}",
                vector.lanes() - 1
            ),
            E::NotInPtx { op, types, reason } => {
                write!(f, "there is no `{op}` of {}: {reason}", TypeList(types))
            }
            E::VectorParam { name, ty } => write!(
                f,
                "parameter `{name}` is a {ty}, but parameters are scalars and pointers: pass the elements one by one"
            ),
            E::TensorMapRank { rank } => {
                write!(f, "a tensor map has {rank} dimensions, but must have 1 to 5")
            }
            E::TensorMapNotParam { found } => write!(
                f,
                "a {found} is a parameter and stays one: it cannot be carried, selected or kept in a variable; use the parameter"
            ),
            E::NotOnTarget { op, first, target } => {
                write!(
                    f,
                    "`{op}` needs {first}, but the kernel is built for {target}: build it for {first}, or do without"
                )
            }
            E::RangeTypes { found: [lo, hi, step] } => write!(
                f,
                "the range of a `for` has the types {lo}, {hi} and step {step}: convert them to one type with `cvt`"
            ),
            E::RangeNotInteger { found } => write!(
                f,
                "a `for` cannot count in {found}: count in integers and convert the index with `cvt`, or use `loop`"
            ),
            E::RangeIndex { expected, found: Some(found) } => write!(
                f,
                "the first argument of the body of a `for` is its index, of type {expected}, but here it is {found}"
            ),
            E::RangeIndex { expected, found: None } => write!(
                f,
                "the body of a `for` has no argument, but needs one for its index, of type {expected}"
            ),
            E::StepNotPositive { step } => {
                write!(
                    f,
                    "the step of a `for` is {step}, but must be positive: to count down, count up and subtract the index"
                )
            }
            E::DivisionByZero { op } => {
                write!(
                    f,
                    "`{op}` divides by the constant 0 whenever the kernel runs: guard it, or leave it out"
                )
            }
            E::LocalIndexOutOfBounds { local, made, byte, size, len_bytes } => write!(
                f,
                "bytes {byte} to {} of {local}, made at {made}, are accessed whenever the kernel runs, but it has {len_bytes}: use a smaller index, or make the array larger",
                byte + i128::from(*size)
            ),
            E::SharedIndexOutOfBounds { shared, made, byte, size, len_bytes } => write!(
                f,
                "bytes {byte} to {} of {shared}, made at {made}, are accessed whenever the kernel runs, but it has {len_bytes}: use a smaller index, or make the allocation larger",
                byte + i128::from(*size)
            ),
            E::UnrollUnknownTripCount { bound } => write!(
                f,
                "a loop whose `{bound}` is not a constant cannot be unrolled fully: use `.unroll(n)`, which needs no constant"
            ),
            E::UnrollSize { operations, limit } => write!(
                f,
                "with this loop unrolled the kernel has {operations} operations, but at most {limit} are possible: unroll by a smaller number"
            ),
            E::PrefetchStages { stages, limit } => write!(
                f,
                "a loop cannot fetch {stages} iterations ahead, but at most {limit}: each takes registers of its own"
            ),
            E::PrefetchSharedSize { stages, bytes, limit } => write!(
                f,
                "{stages} stages of the tiles that this loop fills take {bytes} bytes of shared memory, but a block has {limit}: fetch fewer iterations ahead, or use smaller tiles"
            ),
            E::PrefetchNoCopies => f.write_str(
                "the body of this loop loads nothing from global memory that could be fetched ahead: leave `.prefetch_stages` out (loads of an inner loop are fetched by that)",
            ),
            E::PrefetchAsyncForm { made } => write!(
                f,
                "this loop cannot start its asynchronous copies ahead, such as that at {made}: its body must copy to tiles of its own, commit, wait for all groups, pass a barrier, use the tiles and pass a barrier, in this order and not inside an `if` or a loop"
            ),
            E::PrefetchEarlyExit { op, made } => write!(
                f,
                "this loop cannot fetch ahead, because the `{op}` at {made} may leave its body early, and what is fetched for later iterations may not be there: guard the work with an `if` instead, or leave `.prefetch_stages` out"
            ),
            E::PrefetchDependsOnUse { value, made } => write!(
                f,
                "this load cannot be made iterations ahead, because it depends on {value}, made at {made} by the work of its own iteration: compute the address from the index alone, or leave `.prefetch_stages` out"
            ),
            E::PrefetchAliasingStore { op, made } => write!(
                f,
                "this loop cannot fetch ahead, because the `{op}` at {made} writes global memory that a later load may read: store after the loop, or leave `.prefetch_stages` out"
            ),
            E::PrefetchAcrossBarrier { op, made, store } => write!(
                f,
                "this loop cannot fetch ahead across the `{op}` at {made}, because it makes visible what was written at {store}, and a load may read that: fetch in a kernel of its own, or leave `.prefetch_stages` out"
            ),
            E::VarEmpty { var } => write!(f, "{var} has no registers: ask for at least one"),
            E::VarSize { var, len, limit } => write!(
                f,
                "{var} has {len} registers, but at most {limit} are possible: use shared memory"
            ),
            E::VarIndexOutOfRange { var, index, len } => {
                write!(
                    f,
                    "{var} has {len} registers, numbered from 0, so there is no register {index}"
                )
            }
            E::VarNotVisible { var, made } => {
                write!(
                    f,
                    "{var}, declared at {made}, is used outside the body that declares it: declare it in a body around both"
                )
            }
            E::VarReadBeforeSet { var, index, made } => write!(
                f,
                "register {index} of {var}, declared at {made}, is read on a path on which it was not set: set it where it is declared, or on every path"
            ),
            E::BlockEmpty { block: [x, y, z] } => {
                write!(f, "a block of {x} x {y} x {z} threads has none: each axis needs at least 1")
            }
            E::BlockAxis { axis, threads, limit } => write!(
                f,
                "a block has at most {limit} threads along {axis}, not {threads}: use another axis, or more blocks"
            ),
            E::BlockSize { block: [x, y, z] } => write!(
                f,
                "a block of {x} x {y} x {z} threads is not possible: it has at most 1024 in all, so use more blocks"
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
            E::ClusterSize { cluster: [x, y, z], limit } => write!(
                f,
                "a cluster of {x} x {y} x {z} blocks is not possible: at most {limit} in all, and none zero"
            ),
            E::SharedEmpty { shared } => {
                write!(f, "{shared} has no elements: ask for at least one")
            }
            E::SharedAlignmentTooSmall { shared, align_bytes, elem } => write!(
                f,
                "{shared} is aligned to {align_bytes} bytes, but its elements are {elem}: align it to {} or more",
                elem.size_bytes()
            ),
            E::SharedAlignmentTooLarge { shared, align_bytes, limit } => {
                write!(f, "{shared} is aligned to {align_bytes} bytes, but at most {limit} are possible")
            }
            E::SharedAlignment { shared, align_bytes } => write!(
                f,
                "{shared} is aligned to {align_bytes} bytes, which is no power of two: use 4, 8, 16, .."
            ),
            E::DivergentBarrier { branch, place } => write!(
                f,
                "the barrier is reached by a part of the threads of a block: the `{branch}` at {place} does not do the same in all of them; move the barrier out of it, or make its condition or range independent of the thread"
            ),
            E::CacheSpace { op, space } => write!(
                f,
                "`{op}` is about caches, but its pointer is to {space} memory: only global memory is cached, so leave the attribute out"
            ),
            E::OrderSpace { op, space } => write!(
                f,
                "`{op}` has an order, but its pointer is to {space} memory, {}: leave the order out",
                if *space == Space::Local { "which no other thread sees" } else { "which nobody writes" }
            ),
            E::AtomicSpace { op, space } => write!(
                f,
                "`{op}` is on {space} memory, which no other thread sees: load the element, and store the new one"
            ),
            E::CacheWithOrder { op } => write!(
                f,
                "`{op}` has both an order and a cache operator or `nc`: these are for weak accesses; leave one of them out"
            ),
            E::CacheOfReadOnly { op } => write!(
                f,
                "`{op}` goes through the read-only path, which has the cache operators `ca`, `cg` and `cs` only"
            ),
            E::CacheWithEviction { op } => write!(
                f,
                "`{op}` has a priority of eviction, which neither a cache operator nor `volatile` goes with: leave it out"
            ),
            E::AssumedAlignment { bytes } => write!(
                f,
                "`assume_aligned` promises a multiple of {bytes} bytes, but alignments are powers of two"
            ),
            E::MisalignedVector { op, vector, bytes, rest } => write!(
                f,
                "`{op}` accesses a {vector}, which must start at a multiple of {bytes} bytes, but starts {rest} bytes beside it: make the index, in elements, a multiple of {}",
                vector.lanes()
            ),
            E::VectorInShared { vector, bytes, shared, align_bytes, made } => write!(
                f,
                "a {vector} must start at a multiple of {bytes} bytes, but {shared}, made at {made}, is aligned to {align_bytes}: make it with `shared_aligned(.., {bytes})`"
            ),
            E::BarrierId { id } => {
                write!(f, "there is no barrier {id}: a block has barriers 0 to 15")
            }
            E::BarrierThreads { threads } => write!(
                f,
                "a barrier for {threads} threads is not possible: warps come as a whole, so it is a multiple of 32 from 32 to 1024"
            ),
            E::DivergentNamedBarrier { op, branch, place } => write!(
                f,
                "`{op}` is reached by a part of the threads of a warp: the `{branch}` at {place} does not do the same in all of them; branch on the number of the warp, `thread_idx().x / 32`, or on what `shfl_idx` spreads from one lane, or move the barrier out"
            ),
            E::WgmmaOperandComputed { op, wgmma } => write!(
                f,
                "`{op}` computes A of the next iteration while the `wgmma` at {wgmma} may still read A in the same registers, so `ptxas` would run all `wgmma` of the kernel one after the other (C7513); compute it behind the `wgmma_wait_group` that waits for this `wgmma`"
            ),
            E::SetmaxnregBounds => f.write_str(
                "`setmaxnreg` is dropped where the launch bounds do not fix the registers at the start: give the \
                 kernel its block, and beside it `min_blocks_per_sm`, `max_registers` or a cluster",
            ),
            E::AtomicType { op, expected, found } => {
                write!(f, "`{op}` is on elements of type {found}, but takes {expected}")
            }
            E::SharedSize { bytes, limit } => write!(
                f,
                "the kernel takes {bytes} bytes of shared memory, but a block of its target has {limit}: use smaller tiles"
            ),
        }
    }
}
