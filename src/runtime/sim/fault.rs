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
        /// The construct in which that thread waits for the others of its warp.
        op: &'static str,
        /// The Rust line of that construct.
        place: Place,
    },
}

/// A load or store by one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryAccess {
    /// Whether it stores.
    pub is_store: bool,
    /// The space of the allocation.
    pub space: Space,
    /// The name of the allocation: of a parameter in global memory, of the allocation in shared memory.
    pub allocation: String,
    /// Where a shared allocation was made.
    pub made: Option<Place>,
    /// The type of the element.
    pub elem: Scalar,
    /// The index of the element, counted from the start of the allocation.
    pub element: i128,
    /// The offset of its first byte from the start of the allocation.
    pub byte: i128,
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

/// `reads f32 element 5 of parameter p0`
impl fmt::Display for MemoryAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.is_store { "writes" } else { "reads" };
        write!(f, "{verb} {} element {} of ", self.elem, self.element)?;
        match self.space {
            Space::Global => write!(f, "parameter `{}`", self.allocation)?,
            Space::Shared => write!(f, "shared memory `{}`", self.allocation)?,
        }
        match self.made {
            Some(place) => write!(f, " (made at {place})"),
            None => Ok(()),
        }
    }
}

/// One sentence: what the operation did, and which thread of which block.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, block) = (Triple(self.thread), Triple(self.block));
        write!(f, "`{}` at {} ", self.op, self.place)?;
        match &self.cause {
            FaultCause::OutOfBounds { access } => {
                let size = access.elem.size_bytes();
                let (elements, len) = (access.len_bytes / u64::from(size), access.len_bytes);
                let (from, to) = (access.byte, access.byte + i128::from(size));
                write!(f, "{access}, which has {elements} (bytes {from} to {to} of {len})")?;
            }
            FaultCause::Misaligned { access } => {
                let (byte, size) = (access.byte, access.elem.size_bytes());
                write!(f, "{access} at byte {byte}, which is not a multiple of {size}")?;
            }
            FaultCause::Uninitialised { access, byte } => {
                write!(f, "{access}, whose byte {byte} no thread of the block has written")?;
            }
            FaultCause::DivisionByZero { dividend } => write!(f, "divides {dividend} by zero")?,
            FaultCause::StepNotPositive { step } => {
                write!(f, "has the step {step}, which is not positive")?;
            }
            FaultCause::BarrierDivergence { other, op, place } => {
                let other = Triple(*other);
                write!(
                    f,
                    "is not reached by thread {other}, which waits at the `{op}` at {place} for the \
                     others of its warp: a barrier must be reached by all threads together"
                )?;
            }
        }
        write!(f, "; thread {thread} of block {block} of kernel `{}` [{}]", self.kernel, self.path)
    }
}

impl std::error::Error for Fault {}
