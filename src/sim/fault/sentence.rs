//! Writes faults as sentences: what happened, where, and the usual cure. A new cause needs an arm
//! in `FaultCause::sentence`.

use std::fmt;

use super::cause::FaultCause;
use super::race_sentence::RaceParts;
use super::report::{Fault, StuckWarp, WarpWait};
use super::source::{Barrier, MemoryAccess, SourceOp};
use super::state::{AsyncUse, BarrierState, WgmmaMatrix};
use crate::ir::types::Space;
use crate::sim::options::Order;

/// A cause's part of the sentence.
struct Sentence {
    /// Between the operation and the thread.
    before: String,
    /// After the kernel.
    after: String,
    /// The usual cure, if there is one.
    cure: Option<&'static str>,
}

/// Makes a sentence with only its first part, written as in [`format!`].
macro_rules! says {
    ($($text:tt)+) => {
        Sentence { before: format!($($text)+), after: String::new(), cure: None }
    };
}

impl Sentence {
    fn and(self, after: String) -> Sentence {
        Sentence { after, ..self }
    }

    fn cure(self, cure: &'static str) -> Sentence {
        Sentence { cure: Some(cure), ..self }
    }
}

impl FaultCause {
    fn sentence(&self) -> Sentence {
        match self {
            FaultCause::OutOfBounds { access } => {
                let len = access.len_bytes;
                let elements = len / u64::from(access.elem.size_bytes());
                says!("{access}, which has {elements} elements ({len} bytes), in").cure(match access.space {
                    Space::Global if access.made.is_none() => {
                        "compare the index with the length first (`k.if_`), or pass a larger buffer"
                    }
                    _ => "compare the index with the length first (`k.if_`), or make the allocation larger",
                })
            }
            FaultCause::Misaligned { access } => {
                says!("{access}, but must start at a multiple of {} bytes, in", access.align)
                    .cure("move the first element to such a multiple, or access single elements")
            }
            FaultCause::Uninitialised { access, byte } => {
                says!("{access}, of which byte {byte} was never written, in").cure(match access.space {
                    Space::Local => "store every element before you load it",
                    _ => "store every element, and pass a barrier, before you load it; if an `if_` or a predicate guards \
                          the store, guard the load too, or store zeros to the other elements",
                })
            }
            FaultCause::DivisionByZero { dividend } => {
                says!("divides {dividend} by zero in").cure("compare the divisor with 0 first")
            }
            FaultCause::NotDivisible { value, divisor } => {
                says!("promises a multiple of {divisor}, but gets {value}, in")
                    .cure("pass such a multiple, or do not assume it")
            }
            FaultCause::OutsideBounds { value, low, high } => {
                says!("promises an integer from {low} to {high}, but gets {value}, in")
                    .cure("pass such an integer, or do not assume it")
            }
            FaultCause::StepNotPositive { step } => {
                says!("has the step {step}, which is not positive, in").cure("pass a positive step")
            }
            FaultCause::BarrierDivergence { other, op } => says!("is reached by")
                .and(format!(
                    ", but not by thread {} of the same warp, which diverges at the {op}",
                    Triple(*other)
                ))
                .cure("move the barrier to where all threads of the block reach it"),
            FaultCause::NotSimulated { text } => says!(
                "cannot be simulated, because its text `{}` has no `InlinePtx::simulated`, or has a pointer as an operand, in",
                text.escape_debug()
            )
            .cure("simulate the text with `InlinePtx::simulated`, or run it on a GPU"),
            FaultCause::BrokenPromise { bytes, byte } => {
                says!("promises a multiple of {bytes} bytes, but points to byte {byte} of its allocation, in")
            }
            FaultCause::OtherSpace { expected, found, allocation } => {
                let made = allocation.made.map(|location| format!(", made at {location}")).unwrap_or_default();
                let name = &allocation.name;
                says!("converts a pointer to {found} memory (`{name}`{made}) into one to {expected} memory, in")
                    .cure("check with `isspacep` first (`k.if_`)")
            }
            FaultCause::OrderSpace { access } => {
                says!("{access}, which does not support this ordered or atomic access, in")
                    .cure("check with `isspacep` first (`k.if_`)")
            }
            FaultCause::OtherBarrier { here: [id, threads], there: [other, of] } => says!(
                "names barrier {other} for {of} threads, but the first thread of the warp names barrier {id} for {threads}, in"
            )
            .cure("compute the barrier's id from the warp's index"),
            FaultCause::NoBarrier { id } => {
                says!("names barrier {id}, but a block has barriers 0 to 15, in")
            }
            FaultCause::BarrierThreads { threads } => {
                says!("is for {threads} threads, but must be for a multiple of 32 from 32 to 1024, in")
            }
            FaultCause::BarrierMismatch { id, expected, found } => {
                says!("uses barrier {id} for {found} threads, but earlier warps used it for {expected}, in")
            }
            FaultCause::BarrierDeadlock { .. } => {
                says!("{}, in", self.wait()).cure("let as many threads arrive as it waits for")
            }
            FaultCause::PhaseDeadlock { .. } => says!("{}, in", self.wait())
                .cure("compare the arrivals and bytes that the phase expects with those that arrive"),
            FaultCause::BlockDeadlock { .. } | FaultCause::ClusterDeadlock { .. } => {
                says!("{}, in", self.wait())
            }
            FaultCause::Trap | FaultCause::Breakpoint => says!("is executed by"),
            FaultCause::NotAMember { members } => {
                says!("names {} as members, but not the lane that executes it, in", Lanes(*members))
            }
            FaultCause::OtherMembers { members, other } => {
                says!("names {} as members in", Lanes(*members))
                    .and(format!(", but thread {}, one of the members, names others", Triple(*other)))
            }
            FaultCause::MissingMember { members, other, op } => {
                says!("names {} as members in", Lanes(*members)).and(format!(
                    ", but thread {}, one of the members, does not reach it: it diverges at the {op}",
                    Triple(*other)
                ))
            }
            FaultCause::InactiveSource { source, group } => {
                says!("reads lane {source}, but is executed only by {}, in", Lanes(*group))
            }
            FaultCause::NotABarrier { barrier, state } => {
                let state = match state {
                    BarrierState::NotInitialised => "which was never initialised",
                    BarrierState::Invalidated => "which was invalidated",
                    BarrierState::Overwritten => "which was overwritten",
                };
                says!("uses {barrier}, {state}, in")
                    .cure("let one thread initialise it, and let all threads pass a barrier before they use it")
            }
            FaultCause::LiveBarrier { barrier } => {
                says!("accesses {barrier}, which is in use, as if it were plain memory, in").cure("invalidate it first")
            }
            FaultCause::BarrierCount { count } => {
                says!("has an arrival count of {count}, which must be from 1 to 1048575, in")
            }
            FaultCause::ArrivalsBeyond { barrier, pending, count } => {
                says!("makes {count} arrivals at {barrier}, whose phase only needs {pending}, in")
                    .cure("initialise it with the arrival count of a phase")
            }
            FaultCause::BytesBeyond { barrier, pending, bytes } => {
                let does = if *bytes < 0 { "completes" } else { "announces" };
                let bytes = bytes.unsigned_abs();
                says!(
                    "{does} {bytes} bytes at {barrier}, whose phase waits for {pending}, but at most 1048575 \
                     can be announced or arrive early, in"
                )
            }
            FaultCause::ClusterBarrierOrder { arrives: true } => {
                says!("arrives at the cluster's barrier again without having waited, in")
            }
            FaultCause::ClusterBarrierOrder { arrives: false } => {
                says!("waits at the cluster's barrier without having arrived, in")
            }
            FaultCause::BoxStart { coord, elem } => {
                let bytes = i64::from(*coord) * i64::from(elem.size_bytes());
                says!(
                    "copies a box that starts at coordinate {coord} of {elem}, at {bytes} bytes, which must be a multiple of 16, in"
                )
                .cure("start boxes at multiples of 16 bytes, and skip the elements before")
            }
            FaultCause::SparseMetadata { lane, row, chunk, bits } => says!(
                "has invalid metadata {bits:#06b} in lane {lane} for chunk {chunk} of row {row}, in"
            )
            .cure("name two of 4 columns, the lower one first; for tf32, with 2 columns, use 0b0100 or 0b1110"),
            FaultCause::BoxMode { im2col: true } => {
                says!("copies a tile with an im2col tensor map, in")
                    .cure("make the map with `TensorMapDesc::new` or `from_layouts`")
            }
            FaultCause::BoxMode { im2col: false } => {
                says!("copies pixels with a tiled tensor map, in")
                    .cure("make the map with `TensorMapDesc::im2col`")
            }
            FaultCause::MapSize { dim, size, is_stride: false } => says!(
                "makes a tensor map with {size} elements along dimension {dim}, which must be from 1 to 2^32, in"
            ),
            FaultCause::MapSize { dim, size, is_stride: true } => says!(
                "makes a tensor map with a stride of {size} bytes along dimension {dim}, which must be a multiple of 16 \
                 from 16 to 2^40, in"
            ),
            FaultCause::MapBounds { end, buffer_bytes } => says!(
                "makes a map of a tensor that ends at byte {end} of its buffer, which has only {buffer_bytes} bytes, in"
            ),
            FaultCause::MapBuffer => {
                says!("makes a map of a tensor in another buffer than the original map's, in")
            }
            FaultCause::NoMap => says!("uses bytes as a tensor map that was not made from this parameter, in")
                .cure("write them with `tensormap_replace`, from a map with the same box"),
            FaultCause::PixelStart { dim, coord, first, last } => says!(
                "starts at coordinate {coord} along dimension {dim}, but base pixels are from {first} to {last}, in"
            ),
            FaultCause::PixelBox { dim, first, last, extent } => says!(
                "stores to base pixels from {first} to {last} along dimension {dim}, which has {extent} pixels, in"
            )
            .cure("store with a map whose pixel box is inside the tensor: without padding"),
            FaultCause::NegativeStart { dim, coord } => {
                says!("stores a box that starts at coordinate {coord} along dimension {dim}, in")
                    .cure("start stores at coordinate 0 or above: hardware does not store from negative ones")
            }
            FaultCause::PixelOffset { dim, offset, limit } => says!(
                "has offset {offset} along dimension {dim}, which must be from 0 to below {limit}, in"
            ),
            FaultCause::NoClusterBlock { rank, blocks } => {
                says!("names block {rank} of the cluster, which has only {blocks} blocks, in")
            }
            FaultCause::BarrierElsewhere { rank, barrier_rank } => says!(
                "stores to block {rank} of the cluster, but names a barrier of block {barrier_rank}, in"
            )
            .cure("make both pointers with `mapa`, for the same block"),
            FaultCause::BlockEnded { rank } => {
                says!("accesses block {rank} of the cluster, which has ended, in")
                    .cure("let all blocks pass the cluster's barrier before they end")
            }
            FaultCause::BlockNotStarted { rank } => says!(
                "accesses block {rank} of the cluster, which may not have started yet, in"
            )
            .cure(
                "let all threads of the cluster pass its barrier first (it may be relaxed), or wait at an mbarrier for \
                 an arrival from that block",
            ),
            FaultCause::CopyBytes { bytes, limit: 0 } => {
                says!("copies {bytes} bytes, which must be a positive multiple of 16, in")
            }
            FaultCause::CopyBytes { bytes, limit } => says!("reads {bytes} bytes, but copies only {limit}, in"),
            FaultCause::AsyncAtExit => {
                says!("still uses shared memory when all threads have ended, in")
                    .cure("wait for it before the kernel ends")
            }
            FaultCause::PartialWarp { lanes } => says!(
                "needs all 32 threads of a warp, but is executed only by {}, in",
                Lanes(*lanes)
            ),
            FaultCause::PartialWarpGroup { warps } => {
                let names = (0..4).filter(|warp| warps >> warp & 1 == 1);
                let names: Vec<String> = names.map(|warp: u32| warp.to_string()).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                says!("needs all four warps of a warp group, of which only these reach it: {names}; in")
            }
            FaultCause::OtherWgmma { op } => says!("is executed by").and(format!(
                ", while another warp of its group executes the {op}, or passes other operands"
            )),
            FaultCause::NotUniform { here, there } => says!(
                "has an operand that must be the same in the whole warp, but is {here:#x} in its first thread and {there:#x} in"
            ),
            FaultCause::MatrixOutOfBounds { which, address, len_bytes } => says!(
                "reads 16 bytes of {which} at address {address} of shared memory, but the block has only \
                 {len_bytes} bytes, in"
            ),
            FaultCause::MatrixUninitialised { which, address } => {
                says!("reads {which} at address {address} of shared memory, which was never written, in")
                    .cure("wait for the copy that fills it, and compare the layouts")
            }
            FaultCause::AccumulatorInFlight { op } => says!("accesses accumulators in")
                .and(format!(", before the warp has waited for the {op}"))
                .cure("commit it and wait for its group first"),
            FaultCause::InFlight { access, how: AsyncUse::Reads, op } => {
                says!("{access}, which the {op} still reads, in").cure(match op.name {
                    "wgmma" => "first let a warp that issued it wait (`wgmma_wait_group`), and synchronise this thread with that warp",
                    _ => "first let the thread that started it wait (`cp_async_bulk_wait_group`), and synchronise this thread with that one",
                })
            }
            FaultCause::InFlight { access, how: AsyncUse::Writes, op } => {
                says!("{access}, which the {op} still writes, in").cure(WAIT_FIRST)
            }
            FaultCause::MatrixInFlight { which, address, op } => {
                says!("reads {which} at address {address} of shared memory, which the {op} still writes, in")
                    .cure(WAIT_FIRST)
            }
            // `Fault` writes the sentence of a race.
            FaultCause::Race { access, missing, .. } => {
                says!("{access}, in").and(format!(": {missing}"))
            }
            FaultCause::NotFenced => {
                says!("uses registers that were accessed without a `wgmma_fence` since, in")
                    .cure("put a `wgmma_fence` before it")
            }
            FaultCause::UnfencedStore { address, block, warp } => says!(
                "reads address {address} of shared memory through the asynchronous proxy, which may not see \
                 what warp {warp} of block {block} of the cluster has stored there, in"
            )
            .cure("let the threads that store call `fence_proxy_async` before the barrier that this operation follows"),
        }
    }

    /// Returns what a warp waits for, as a phrase.
    fn wait(&self) -> String {
        match self {
            FaultCause::BarrierDeadlock { id, threads, arrived } => format!(
                "waits forever at barrier {id}, where {arrived} of {threads} threads have arrived"
            ),
            FaultCause::PhaseDeadlock { barrier, phase, arrivals, count, bytes } => format!(
                "waits forever at {barrier}, whose phase {phase} still needs {arrivals} of {count} arrivals \
                 and {bytes} bytes"
            ),
            FaultCause::BlockDeadlock { threads, arrived } => format!(
                "waits forever at the block's barrier, where {arrived} of {threads} threads have arrived"
            ),
            FaultCause::ClusterDeadlock { threads, arrived } => format!(
                "waits forever at the cluster's barrier, where {arrived} of {threads} threads have arrived"
            ),
            _ => "waits for the other warps of its warp group".to_owned(),
        }
    }
}

const WAIT_FIRST: &str =
    "wait for it first: at its mbarrier, or for its group and then at a barrier of the block";

/// Prints three numbers as `(x, y, z)`.
pub(super) struct Triple(pub(super) [u32; 3]);

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "({x}, {y}, {z})")
    }
}

/// Prints `lanes 0 to 15`, or `lanes 0x00ff00ff` if the lanes are not contiguous.
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
            // A launch makes the buffer of a parameter, the kernel makes a global array.
            Space::Global if self.made.is_none() => {
                write!(f, "parameter `{}`", self.allocation)?;
            }
            Space::Global => write!(f, "global array `{}`", self.allocation)?,
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
            Some(location) => write!(f, ", made at {location}"),
            None => Ok(()),
        }
    }
}

/// Prints one sentence with the operation, its Rust line, its thread and block, and the cure, then
/// one line for each of [`Fault::also`]. With `{:#}` the sentence ends with the operation's path in
/// the IR, for example `[for[82]/54]`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_sentence(f)?;
        if f.alternate() {
            write!(f, " [{}]", self.path)?;
        }
        if self.order != Order::default() {
            write!(f, " (with `{:?}`)", self.order)?;
        }
        self.write_stuck(f)?;
        self.write_cycle(f)?;
        self.also.iter().try_for_each(|fault| {
            f.write_str("\n  also: ")?;
            fmt::Display::fmt(fault, f)
        })
    }
}

impl Fault {
    fn write_sentence(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let FaultCause::Race { access, by, other, missing } = &self.cause {
            return RaceParts { access, by, other, missing: *missing }.write(self, f);
        }
        let Sentence { before, after, cure } = self.cause.sentence();
        let (thread, block) = (Triple(self.thread), Triple(self.block));
        write!(f, "`{}` at {} {before} thread {thread} of block {block} ", self.op, self.location)?;
        write!(f, "of kernel `{}`{after}", self.kernel)?;
        if let Some(cure) = cure {
            write!(f, "; {cure}")?;
        }
        Ok(())
    }

    /// Writes a line for each group of a block's warps that wait for the same.
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
                Some(WarpWait { op, location, cause }) => {
                    write!(f, ": `{op}` at {location} {}", cause.wait())?;
                }
            }
            rest = &rest[count..];
        }
        Ok(())
    }
}

impl Fault {
    /// Writes the cycle of warps that wait for each other.
    fn write_cycle(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warps: Vec<&StuckWarp> =
            self.cycle.iter().filter_map(|index| self.stuck.get(*index)).collect();
        let one_block = warps.iter().all(|stuck| stuck.block == warps[0].block);
        let name = |stuck: &StuckWarp| match one_block {
            true => format!("warp {}", stuck.warp),
            false => format!("warp {} of block {}", stuck.warp, Triple(stuck.block)),
        };
        for (i, stuck) in warps.iter().enumerate() {
            let next = warps[(i + 1) % warps.len()];
            let start = if i == 0 { "\n  the cycle: " } else { ", which waits for " };
            match i {
                0 => write!(f, "{start}{} waits for {}", name(stuck), name(next))?,
                _ => write!(f, "{start}{}", name(next))?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
crate::errors::message_as_debug!(Fault);

/// `` `st` at x.rs:3:9 ``
impl fmt::Display for SourceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at {}", self.name, self.location)
    }
}

impl fmt::Display for WgmmaMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WgmmaMatrix::A => "A",
            WgmmaMatrix::B => "B",
        })
    }
}

/// ``barrier 2 of shared memory `shared0` ``
impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "barrier {} of shared memory `{}`", self.element, self.allocation)?;
        match self.made {
            Some(location) => write!(f, ", made at {location}"),
            None => Ok(()),
        }
    }
}
