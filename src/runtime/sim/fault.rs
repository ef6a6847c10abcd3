//! What a kernel did wrong, where, and in which thread.

use std::fmt;

use crate::ir::{Const, Place, Scalar, Space};

/// A kernel that misbehaves: the cause, the operation with its Rust line, and the thread that executed it.
///
/// Of several faults of a launch, the one of the lowest block is reported, and of several lanes of a warp
/// that fault at one operation the lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What went wrong.
    pub cause: FaultCause,
    /// The name of the kernel.
    pub kernel: String,
    /// The name of the operation.
    pub op: &'static str,
    /// The path of the operation from the kernel's body, such as `for[2]/then/3`.
    pub path: String,
    /// The Rust line that made the operation.
    pub place: Place,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultCause {
    /// A load or store outside the allocation that its pointer was made from.
    OutOfBounds {
        /// The access.
        access: MemoryAccess,
    },
    /// A load or store at an address that is not a multiple of the element's size.
    Misaligned {
        /// The access.
        access: MemoryAccess,
    },
    /// A load from shared memory of bytes of which at least one was never written.
    Uninitialised {
        /// The access.
        access: MemoryAccess,
        /// The first byte that was never written, counted from the start of the allocation.
        byte: u64,
    },
    /// An integer division or remainder by zero.
    DivisionByZero {
        /// What was to be divided.
        dividend: Const,
    },
    /// A `for` whose step is zero or negative.
    StepNotPositive {
        /// The step.
        step: Const,
    },
    /// A barrier that some threads of a warp reach while others, which have not ended, are elsewhere.
    BarrierDivergence {
        /// A thread that is elsewhere.
        other: [u32; 3],
        /// The construct at which the way of that thread parts from the barrier.
        op: &'static str,
        /// The Rust line of that construct.
        place: Place,
    },
    /// PTX text that says nothing about what it does.
    NotSimulated {
        /// The text.
        text: String,
    },
    /// A pointer that is not aligned as `assume_aligned` promised.
    BrokenPromise {
        /// The bytes of which the address was to be a multiple.
        bytes: u32,
        /// The offset of the pointer from the start of its allocation, in bytes.
        byte: i64,
    },
    /// A numbered barrier of which the threads of a warp name different ones: number and threads.
    OtherBarrier {
        /// What the first thread of the warp names.
        here: [u32; 2],
        /// What this thread names.
        there: [u32; 2],
    },
    /// A barrier with a number above 15.
    NoBarrier {
        /// The number.
        id: u32,
    },
    /// A barrier for a number of threads that is not a multiple of 32 from 32 to 1024.
    BarrierThreads {
        /// The number of threads.
        threads: u32,
    },
    /// A barrier for another number of threads than the warps say that have come to it before.
    BarrierMismatch {
        /// The number of the barrier.
        id: u32,
        /// The threads that it is for, as said before.
        expected: u32,
        /// The threads that this warp says.
        found: u32,
    },
    /// A barrier to which too few threads come: no warp of the block can go on.
    BarrierDeadlock {
        /// The number of the barrier.
        id: u32,
        /// The threads that it is for.
        threads: u32,
        /// The threads that have come.
        arrived: u32,
    },
    /// The operation `trap`.
    Trap,
    /// The operation `brkpt`.
    Breakpoint,
    /// An operation of a warp by a thread whose lane is not among the members that it names.
    NotAMember {
        /// The member mask.
        members: u32,
    },
    /// An operation of a warp that a member executes with another member mask.
    OtherMembers {
        /// The member mask of the thread.
        members: u32,
        /// The member that names others.
        other: [u32; 3],
    },
    /// An operation of a warp to which a member that has not ended does not come: a GPU may wait for ever.
    MissingMember {
        /// The member mask.
        members: u32,
        /// A member that is elsewhere.
        other: [u32; 3],
        /// The construct at which the way of that thread parts from the operation.
        op: &'static str,
        /// The Rust line of that construct.
        place: Place,
    },
    /// A shuffle from a lane that does not execute it: what is read is undefined.
    InactiveSource {
        /// The lane that is read.
        source: u32,
        /// The lanes that execute the shuffle together.
        group: u32,
    },
}

impl FaultCause {
    /// What to do about it, where one thing is usual.
    fn cure(&self) -> Option<&'static str> {
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
            FaultCause::DivisionByZero { .. } => Some("compare the divisor with 0 first"),
            FaultCause::StepNotPositive { .. } => Some("pass a positive step"),
            FaultCause::BarrierDivergence { .. } => {
                Some("move the barrier to where all threads of the block come")
            }
            FaultCause::OtherBarrier { .. } => {
                Some("compute the number of the barrier from the number of the warp")
            }
            FaultCause::BarrierDeadlock { .. } => Some("let as many warps come to it as it is for"),
            FaultCause::Misaligned { .. }
            | FaultCause::BrokenPromise { .. }
            | FaultCause::NoBarrier { .. }
            | FaultCause::BarrierThreads { .. }
            | FaultCause::BarrierMismatch { .. }
            | FaultCause::Trap
            | FaultCause::Breakpoint
            | FaultCause::NotAMember { .. }
            | FaultCause::OtherMembers { .. }
            | FaultCause::MissingMember { .. }
            | FaultCause::InactiveSource { .. }
            | FaultCause::NotSimulated { .. } => None,
        }
    }
}

/// A load or store by one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryAccess {
    /// Whether it stores.
    pub is_store: bool,
    /// The space of the allocation.
    pub space: Space,
    /// The name of the allocation: of a parameter in global memory, of the allocation in shared memory, of a
    /// constant array.
    pub allocation: String,
    /// Where a shared allocation or a constant array was made.
    pub made: Option<Place>,
    /// The type of the element.
    pub elem: Scalar,
    /// The index of the element, counted from the start of the allocation.
    pub element: i128,
    /// The offset of its first byte from the start of the allocation. A pointer that was moved by more
    /// than 2^63 bytes counts from the smallest `i64`.
    pub byte: i128,
    /// The bytes that are accessed; the first must be at a multiple of it.
    pub bytes: u32,
    /// The bytes of the allocation.
    pub len_bytes: u64,
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
            Space::Shared => write!(f, "shared memory `{}`", self.allocation)?,
        }
        match self.made {
            Some(place) => write!(f, ", made at {place}"),
            None => Ok(()),
        }
    }
}

/// One sentence: what the operation did, in which thread of which block, and its path in the kernel.
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
                let bytes = access.bytes;
                write!(f, "{access}, but must start at a multiple of {bytes} bytes, in ")?;
            }
            FaultCause::Uninitialised { access, byte } => {
                write!(f, "{access}, of which byte {byte} was never written, in ")?;
            }
            FaultCause::DivisionByZero { dividend } => write!(f, "divides {dividend} by zero in ")?,
            FaultCause::StepNotPositive { step } => {
                write!(f, "has the step {step}, which is not positive, in ")?;
            }
            FaultCause::BarrierDivergence { .. } => write!(f, "is reached by ")?,
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
            FaultCause::BarrierDeadlock { id, threads, arrived } => {
                write!(
                    f,
                    "waits for ever at barrier {id}, to which {arrived} of {threads} threads have come, in "
                )?;
            }
            FaultCause::NotSimulated { text } => write!(
                f,
                "cannot be simulated, because its text `{}` has no `InlinePtx::simulated`, or has a pointer as an operand, in ",
                text.escape_debug()
            )?,
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
        if let Some(cure) = self.cause.cure() {
            write!(f, "; {cure}")?;
        }
        write!(f, " [{}]", self.path)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misaligned_access_says_what_it_should_be() {
        let place = Place { file: "x.rs", line: 3, column: 9 };
        let access = MemoryAccess {
            is_store: true,
            space: Space::Shared,
            allocation: "shared1".to_owned(),
            made: Some(place),
            elem: Scalar::F64,
            element: 1,
            byte: 12,
            bytes: 8,
            len_bytes: 64,
        };
        let fault = Fault {
            cause: FaultCause::Misaligned { access },
            kernel: "copy".to_owned(),
            op: "st",
            path: "4".to_owned(),
            place,
            block: [0, 1, 0],
            thread: [5, 0, 0],
        };
        assert_eq!(
            fault.to_string(),
            "`st` at x.rs:3:9 writes f64 element 1 (bytes 12 to 20) of shared memory `shared1`, made at \
             x.rs:3:9, but must start at a multiple of 8 bytes, in thread (5, 0, 0) of block (0, 1, 0) \
             of kernel `copy` [4]"
        );
    }
}
