//! Faults as sentences.

use std::fmt;

use super::report::{Barrier, Fault, FaultCause, MemoryAccess, StuckWarp, WarpWait};
use super::state::AsyncUse;
use super::state::BarrierState;
use super::state::WgmmaOperand;
use crate::ir::Space;

impl FaultCause {
    /// Returns the usual remedy, if there is one.
    pub(in crate::sim) fn cure(&self) -> Option<&'static str> {
        match self {
            FaultCause::OutOfBounds { access } if access.space == Space::Global => {
                Some("compare the index with the length first (`k.if_`), or pass a larger buffer")
            }
            FaultCause::OutOfBounds { .. } => Some(
                "compare the index with the length first (`k.if_`), or make the allocation larger",
            ),
            FaultCause::Uninitialised { .. } => {
                Some("every element has to be stored, and a barrier passed, before it is loaded")
            }
            FaultCause::OtherSpace { .. } => Some("ask `isspacep` first (`k.if_`)"),
            FaultCause::OrderSpace { .. } => Some("ask `isspacep` first (`k.if_`)"),
            FaultCause::DivisionByZero { .. } => Some("compare the divisor with 0 first"),
            FaultCause::StepNotPositive { .. } => Some("pass a positive step"),
            FaultCause::BarrierDivergence { .. } => {
                Some("move the barrier to where all threads of the block come")
            }
            FaultCause::OtherBarrier { .. } => {
                Some("compute the number of the barrier from the number of the warp")
            }
            FaultCause::BarrierDeadlock { .. } => Some("let as many warps come to it as it is for"),
            FaultCause::NotSimulated { .. } => {
                Some("say what the text does with `InlinePtx::simulated`, or run it on a GPU")
            }
            FaultCause::NotABarrier { .. } => {
                Some("let one thread initialise it, and all pass a barrier before they use it")
            }
            FaultCause::LiveBarrier { .. } => Some("invalidate it first"),
            FaultCause::ArrivalsBeyond { .. } => {
                Some("initialise it with the number of arrivals of a phase")
            }
            FaultCause::PhaseDeadlock { .. } => {
                Some("compare the arrivals and bytes of the phase with those that come")
            }
            FaultCause::BlockEnded { .. } => {
                Some("let all blocks of the cluster pass its barrier before they end")
            }
            FaultCause::BarrierElsewhere { .. } => {
                Some("let `mapa` make both pointers with one number of a block")
            }
            FaultCause::AsyncAtExit => Some("wait for it before the kernel ends"),
            FaultCause::MatrixUninitialised { .. } => {
                Some("wait for the copy that fills it, and compare the layouts")
            }
            FaultCause::AccumulatorInFlight { .. } => {
                Some("commit it and wait for its group first")
            }
            FaultCause::BoxStart { .. } => {
                Some("start boxes at multiples of 16 bytes, and leave out what is before")
            }
            FaultCause::NotFenced => Some("put a `wgmma_fence` before it"),
            FaultCause::InFlight { how: AsyncUse::Reads, op: "wgmma", .. } => Some(
                "let a warp that multiplies wait for it (`wgmma_wait_group`), and this thread for that warp, first",
            ),
            FaultCause::InFlight { how: AsyncUse::Reads, .. } => Some(
                "let the thread that started it wait (`cp_async_bulk_wait_group`), and this thread for that one, first",
            ),
            FaultCause::InFlight { how: AsyncUse::Writes, .. }
            | FaultCause::MatrixInFlight { .. } => Some(
                "wait for it first: at its barrier in shared memory, or for its group and at a barrier of the block",
            ),
            FaultCause::UnfencedStore { .. } => Some(
                "let the threads that store call `fence_proxy_async` before the barrier behind which it starts",
            ),
            FaultCause::Misaligned { .. }
            | FaultCause::BarrierCount { .. }
            | FaultCause::BytesBeyond { .. }
            | FaultCause::BlockDeadlock { .. }
            | FaultCause::ClusterDeadlock { .. }
            | FaultCause::ClusterBarrierOrder { .. }
            | FaultCause::NoClusterBlock { .. }
            | FaultCause::CopyBytes { .. }
            | FaultCause::PartialWarp { .. }
            | FaultCause::PartialWarpGroup { .. }
            | FaultCause::OtherWgmma { .. }
            | FaultCause::NotUniform { .. }
            | FaultCause::MatrixOutOfBounds { .. }
            | FaultCause::BrokenPromise { .. }
            | FaultCause::NoBarrier { .. }
            | FaultCause::BarrierThreads { .. }
            | FaultCause::BarrierMismatch { .. }
            | FaultCause::Trap
            | FaultCause::Breakpoint
            | FaultCause::NotAMember { .. }
            | FaultCause::OtherMembers { .. }
            | FaultCause::MissingMember { .. }
            | FaultCause::InactiveSource { .. } => None,
        }
    }
}

/// Three numbers as `(x, y, z)`.
struct Triple([u32; 3]);

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x}, {y}, {z})")
    }
}

/// `lanes 0 to 15`, or `lanes 0x00ff00ff` where they do not follow each other.
struct Lanes(u32);

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, count) = (self.0.trailing_zeros(), self.0.count_ones());
        let follow = self.0 != 0 && (self.0 >> first).trailing_ones() == count;
        match count {
            0 => write!(f, "no lane"),
            1 => write!(f, "lane {first}"),
            _ if follow => write!(f, "lanes {first} to {}", first + count - 1),
            _ => write!(f, "lanes {:#010x}", self.0),
        }
    }
}

/// ``reads f32 element 5 (bytes 20 to 24) of parameter `p0` ``
impl fmt::Display for MemoryAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_store { "writes" } else { "reads" };
        let (from, to) = (self.byte, self.byte + i128::from(self.bytes));
        write!(f, "{verb} {} element {} (bytes {from} to {to}) of ", self.elem, self.element)?;
        match self.space {
            Space::Global => write!(f, "parameter `{}`", self.allocation)?,
            Space::Const => write!(f, "constant array `{}`", self.allocation)?,
            Space::Shared | Space::SharedCluster => {
                write!(f, "shared memory `{}`", self.allocation)?;
            }
            Space::Local => write!(f, "local memory `{}`", self.allocation)?,
            Space::Generic => write!(f, "memory `{}`", self.allocation)?,
        }
        if let Some(rank) = self.rank {
            write!(f, " of block {rank} of the cluster")?;
        }
        match self.made {
            Some(place) => write!(f, ", made at {place}"),
            None => Ok(()),
        }
    }
}

/// One sentence: the operation, its thread and block, and its path in the kernel.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {} ", self.op, self.place)?;
        match &self.cause {
            FaultCause::OutOfBounds { access } => {
                let len = access.len_bytes;
                let elements = len / u64::from(access.elem.size_bytes());
                write!(f, "{access}, which has {elements} elements ({len} bytes), in ")?;
            }
            FaultCause::Misaligned { access } => {
                let bytes = access.align;
                write!(f, "{access}, but must start at a multiple of {bytes} bytes, in ")?;
            }
            FaultCause::Uninitialised { access, byte } => {
                write!(f, "{access}, of which byte {byte} was never written, in ")?;
            }
            FaultCause::OtherSpace { expected, found, allocation, made } => {
                write!(
                    f,
                    "makes a pointer into {expected} memory of one to {found} memory (`{allocation}`"
                )?;
                if let Some(place) = made {
                    write!(f, ", made at {place}")?;
                }
                write!(f, ") in ")?;
            }
            FaultCause::OrderSpace { access } => {
                write!(f, "{access}, where there is no such ordered or atomic access, in ")?;
            }
            FaultCause::DivisionByZero { dividend } => write!(f, "divides {dividend} by zero in ")?,
            FaultCause::StepNotPositive { step } => {
                write!(f, "has the step {step}, which is not positive, in ")?;
            }
            FaultCause::BarrierDivergence { .. } => write!(f, "is reached by ")?,
            FaultCause::NotSimulated { text } => write!(
                f,
                "cannot be simulated, because its text `{}` has no `InlinePtx::simulated`, or has a pointer as an operand, in ",
                text.escape_debug()
            )?,
            FaultCause::BrokenPromise { bytes, byte } => {
                write!(
                    f,
                    "promises a multiple of {bytes} bytes, but points to byte {byte} of its allocation, in "
                )?;
            }
            FaultCause::OtherBarrier { here: [id, threads], there: [other, of] } => {
                write!(
                    f,
                    "names barrier {other} for {of} threads, but the first thread of the warp barrier {id} for {threads}, in "
                )?;
            }
            FaultCause::NoBarrier { id } => {
                write!(f, "names barrier {id}, but a block has barriers 0 to 15, in ")?;
            }
            FaultCause::BarrierThreads { threads } => {
                write!(
                    f,
                    "is for {threads} threads, but must be for a multiple of 32 from 32 to 1024, in "
                )?;
            }
            FaultCause::BarrierMismatch { id, expected, found } => {
                write!(
                    f,
                    "says that barrier {id} is for {found} threads, but warps before said {expected}, in "
                )?;
            }
            FaultCause::Trap | FaultCause::Breakpoint => write!(f, "is executed by ")?,
            FaultCause::NotAMember { members } => {
                let mask = Lanes(*members);
                write!(f, "names as members {mask}, not the lane that executes it, in ")?;
            }
            FaultCause::OtherMembers { members, .. }
            | FaultCause::MissingMember { members, .. } => {
                write!(f, "names as members {} in ", Lanes(*members))?;
            }
            FaultCause::InactiveSource { source, group } => {
                write!(f, "reads lane {source}, but is executed by {} only, in ", Lanes(*group))?;
            }
            cause => cause.write_async(f)?,
        }
        let (thread, block) = (Triple(self.thread), Triple(self.block));
        write!(f, "thread {thread} of block {block} of kernel `{}`", self.kernel)?;
        if let FaultCause::BarrierDivergence { other, op, place } = &self.cause {
            let other = Triple(*other);
            write!(f, ", but not by thread {other} of the same warp, ")?;
            write!(f, "whose way parts from it at the `{op}` at {place}")?;
        }
        if let FaultCause::OtherMembers { other, .. } = &self.cause {
            write!(f, ", but thread {} among them names other members", Triple(*other))?;
        }
        if let FaultCause::MissingMember { other, op, place, .. } = &self.cause {
            let other = Triple(*other);
            write!(f, ", but thread {other} among them does not come: ")?;
            write!(f, "its way parts at the `{op}` at {place}")?;
        }
        if let FaultCause::AccumulatorInFlight { op, place } = &self.cause {
            write!(f, ", before the warp has waited for the `{op}` at {place}")?;
        }
        if let FaultCause::OtherWgmma { op, place } = &self.cause {
            write!(
                f,
                ", while another warp of the group executes the `{op}` at {place} with operands of its own"
            )?;
        }
        if let Some(cure) = self.cause.cure() {
            write!(f, "; {cure}")?;
        }
        write!(f, " [{}]", self.path)?;
        self.write_stuck(f)
    }
}

impl Fault {
    /// A line for each group of warps of a block that wait for the same.
    fn write_stuck(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = &self.stuck[..];
        while let Some(first) = rest.first() {
            let same = |warp: &&StuckWarp| warp.block == first.block && warp.waits == first.waits;
            let count = rest.iter().take_while(same).count();
            let numbers: Vec<String> =
                rest[..count].iter().map(|stuck| stuck.warp.to_string()).collect();
            let warps = if count == 1 { "warp" } else { "warps" };
            write!(f, "\n  {warps} {} of block {}", numbers.join(", "), Triple(first.block))?;
            match &first.waits {
                None if count == 1 => write!(f, " has ended")?,
                None => write!(f, " have ended")?,
                Some(WarpWait { op, place, cause }) => {
                    write!(f, ": `{op}` at {place} ")?;
                    cause.write_deadlock(f)?;
                }
            }
            rest = &rest[count..];
        }
        Ok(())
    }
}

impl FaultCause {
    /// Writes the wait of a warp that does not end.
    fn write_deadlock(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCause::BarrierDeadlock { id, threads, arrived } => write!(
                f,
                "waits for ever at barrier {id}, to which {arrived} of {threads} threads have come"
            ),
            FaultCause::PhaseDeadlock { barrier, phase, arrivals, count, bytes } => write!(
                f,
                "waits for ever at {barrier}, whose phase {phase} waits for {arrivals} of {count} arrivals and \
                 {bytes} bytes"
            ),
            FaultCause::BlockDeadlock { threads, arrived } => write!(
                f,
                "waits for ever at the barrier of the block, to which {arrived} of {threads} threads have come"
            ),
            FaultCause::ClusterDeadlock { threads, arrived } => write!(
                f,
                "waits for ever at the barrier of the cluster, to which {arrived} of {threads} threads have \
                 come"
            ),
            _ => write!(f, "waits for the other warps of its warp group"),
        }
    }
}

impl std::error::Error for Fault {}

impl FaultCause {
    /// Writes the causes of tensor cores, of barriers in memory and of asynchronous copies.
    fn write_async(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultCause::NotABarrier { barrier, state } => {
                let state = match state {
                    BarrierState::NotInitialised => "which was never initialised",
                    BarrierState::Invalidated => "which was invalidated",
                    BarrierState::Overwritten => "which was overwritten",
                };
                write!(f, "uses {barrier}, {state}, in ")
            }
            FaultCause::LiveBarrier { barrier } => {
                write!(f, "takes {barrier}, which is in use, for memory, in ")
            }
            FaultCause::BarrierCount { count } => {
                write!(f, "counts {count} arrivals, which must be from 1 to 1048575, in ")
            }
            FaultCause::ArrivalsBeyond { barrier, pending, count } => write!(
                f,
                "makes {count} arrivals at {barrier}, whose phase waits for {pending}, in "
            ),
            FaultCause::BytesBeyond { barrier, pending, bytes } => {
                let does = if *bytes < 0 { "completes" } else { "announces" };
                let bytes = bytes.unsigned_abs();
                write!(
                    f,
                    "{does} {bytes} bytes at {barrier}, whose phase waits for {pending}, but at most 1048575 \
                     can be announced or come early, in "
                )
            }
            FaultCause::BarrierDeadlock { .. }
            | FaultCause::PhaseDeadlock { .. }
            | FaultCause::BlockDeadlock { .. }
            | FaultCause::ClusterDeadlock { .. } => {
                self.write_deadlock(f)?;
                write!(f, ", in ")
            }
            FaultCause::ClusterBarrierOrder { arrives: true } => {
                write!(f, "comes to the barrier of the cluster again without having waited, in ")
            }
            FaultCause::ClusterBarrierOrder { arrives: false } => {
                write!(f, "waits at the barrier of the cluster without having come to it, in ")
            }
            FaultCause::BoxStart { coord, elem } => {
                let bytes = i64::from(*coord) * i64::from(elem.size_bytes());
                write!(
                    f,
                    "copies a box from coordinate {coord} of {elem}, {bytes} bytes, which must be a multiple of 16, in "
                )
            }
            FaultCause::NoClusterBlock { rank, blocks } => {
                write!(f, "names block {rank} of the cluster, which has {blocks}, in ")
            }
            FaultCause::BarrierElsewhere { rank, barrier_rank } => write!(
                f,
                "stores to block {rank} of the cluster, but names a barrier of block {barrier_rank}, in "
            ),
            FaultCause::BlockEnded { rank } => {
                write!(f, "accesses block {rank} of the cluster, which has ended, in ")
            }
            FaultCause::CopyBytes { bytes, limit: 0 } => {
                write!(f, "copies {bytes} bytes, which must be a multiple of 16 above 0, in ")
            }
            FaultCause::CopyBytes { bytes, limit } => {
                write!(f, "reads {bytes} bytes of a copy of {limit}, in ")
            }
            FaultCause::AsyncAtExit => {
                write!(f, "is not done with shared memory when the threads have ended, in ")
            }
            FaultCause::PartialWarp { lanes } => {
                write!(
                    f,
                    "is for all 32 threads of a warp, but is executed by {} only, in ",
                    Lanes(*lanes)
                )
            }
            FaultCause::PartialWarpGroup { warps } => {
                let names: Vec<String> = (0..4)
                    .filter(|warp| warps >> warp & 1 == 1)
                    .map(|warp| warp.to_string())
                    .collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                write!(
                    f,
                    "is for the four warps of a warp group, of which only these come: {names}; in "
                )
            }
            FaultCause::OtherWgmma { .. } => write!(f, "is executed by "),
            FaultCause::NotUniform { here, there } => write!(
                f,
                "has an operand that is {there:#x}, but {here:#x} in the first thread of the warp, in "
            ),
            FaultCause::MatrixOutOfBounds { which, address, len_bytes } => write!(
                f,
                "reads 16 bytes of {which} at address {address} of shared memory, of which the block has \
                 {len_bytes} bytes, in "
            ),
            FaultCause::MatrixUninitialised { which, address } => write!(
                f,
                "reads {which} at address {address} of shared memory, which was never written, in "
            ),
            FaultCause::AccumulatorInFlight { .. } => write!(f, "accesses sums in "),
            FaultCause::InFlight { access, how, op, place } => {
                let does = match how {
                    AsyncUse::Reads => "reads",
                    AsyncUse::Writes => "writes",
                };
                write!(f, "{access}, which the `{op}` at {place} still {does}, in ")
            }
            FaultCause::MatrixInFlight { which, address, op, place } => write!(
                f,
                "reads {which} at address {address} of shared memory, which the `{op}` at {place} still writes, in "
            ),
            FaultCause::NotFenced => {
                write!(
                    f,
                    "computes on registers that no `wgmma_fence` orders with other accesses, in "
                )
            }
            FaultCause::UnfencedStore { address, block, warp } => write!(
                f,
                "reads address {address} of shared memory through the asynchronous proxy, which may not see \
                 what warp {warp} of block {block} of the cluster has stored there, in "
            ),
            // These are written where this is called.
            FaultCause::OutOfBounds { .. }
            | FaultCause::Misaligned { .. }
            | FaultCause::Uninitialised { .. }
            | FaultCause::DivisionByZero { .. }
            | FaultCause::OtherSpace { .. }
            | FaultCause::OrderSpace { .. }
            | FaultCause::StepNotPositive { .. }
            | FaultCause::BarrierDivergence { .. }
            | FaultCause::NotSimulated { .. }
            | FaultCause::BrokenPromise { .. }
            | FaultCause::OtherBarrier { .. }
            | FaultCause::NoBarrier { .. }
            | FaultCause::BarrierThreads { .. }
            | FaultCause::BarrierMismatch { .. }
            | FaultCause::Trap
            | FaultCause::Breakpoint
            | FaultCause::NotAMember { .. }
            | FaultCause::OtherMembers { .. }
            | FaultCause::MissingMember { .. }
            | FaultCause::InactiveSource { .. } => Ok(()),
        }
    }
}

impl fmt::Display for WgmmaOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WgmmaOperand::A => "A",
            WgmmaOperand::B => "B",
        })
    }
}

/// ``barrier 2 of shared memory `shared0` ``
impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "barrier {} of shared memory `{}`", self.element, self.allocation)?;
        match self.made {
            Some(place) => write!(f, ", made at {place}"),
            None => Ok(()),
        }
    }
}
