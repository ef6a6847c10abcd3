//! [`RunError`]: why a launch on the simulator failed. The cause may be a fault in the kernel, or a
//! grid or argument that does not fit the kernel.

use std::fmt;

use super::report::Fault;
use super::source::HotLine;
use crate::ir::SourceLocation;
use crate::ir::types::Type;
use crate::launch::assert::AssertFailures;
use crate::launch::grid::ClusterError;
use crate::sim::fault::results_differ::ResultsDiffer;
use crate::sim::options::Order;

/// Why a launch on the simulator failed. [`RunError::Fault`], [`RunError::OutOfFuel`],
/// [`RunError::AssertFailed`] and [`RunError::ResultsDiffer`] come from a kernel that ran; after
/// any other error it did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The kernel did something undefined.
    Fault(Box<Fault>),
    /// The warps of a block executed more operations than
    /// [`Options::fuel`](crate::sim::Options::fuel) allows. Either the kernel never ends, or the
    /// limit is too low for it.
    OutOfFuel {
        /// The limit.
        fuel: u64,
        /// The operation that a thread was at when the limit was reached.
        op: &'static str,
        /// The Rust line that built the operation.
        location: SourceLocation,
        /// The thread's block.
        block: [u32; 3],
        /// The thread, in its block.
        thread: [u32; 3],
        /// The order in which warps ran.
        order: Order,
        /// The lines at which the block or cluster spent its time when it ran on for a while: at
        /// most 3, the busiest first.
        hot: Vec<HotLine>,
    },
    /// Assertions of the kernel failed. It still ran to its end.
    AssertFailed(Box<AssertFailures>),
    /// Two schedules left different values in a buffer: see
    /// [`Options::schedules`](crate::sim::Options::schedules).
    ResultsDiffer(Box<ResultsDiffer>),
    /// The IR breaks a rule of the verifier and so has no meaning: see
    /// [`Kernel::verify`](crate::ir::Kernel::verify).
    NotVerified,
    /// A thread holds more values and register variables at once than the simulator has registers
    /// for.
    TooManyRegisters {
        /// The most that a thread can hold.
        limit: u32,
    },
    /// The launch passes more or fewer arguments than the kernel has parameters.
    ArgumentCount {
        /// How many parameters the kernel has.
        expected: usize,
        /// How many arguments were passed.
        found: usize,
    },
    /// An argument does not fit its parameter.
    ArgumentType {
        /// The parameter's name.
        param: String,
        /// The parameter's type.
        expected: Type,
        /// What was passed instead.
        found: String,
    },
    /// A tensor map's tensor is larger than its buffer.
    TensorMapBeyondBuffer {
        /// The parameter's name.
        param: String,
        /// The tensor's size in bytes.
        tensor_bytes: u64,
        /// The buffer's size in bytes.
        buffer_bytes: u64,
    },
    /// No device has blocks of this size.
    BlockSize {
        /// The threads along each axis.
        threads: [u32; 3],
    },
    /// No device has grids of this size.
    GridSize {
        /// The blocks along each axis.
        blocks: [u32; 3],
    },
    /// The kernel fixes its block size, and the launch uses another one.
    FixedBlockSize {
        /// The kernel's block size, in threads along each axis.
        expected: [u32; 3],
        /// The launch's block size, in threads along each axis.
        found: [u32; 3],
    },
    /// The launch has more threads in a block than the kernel was built for.
    MaxThreads {
        /// The most threads that the kernel was built for.
        limit: u32,
        /// The launch's block size, in threads along each axis.
        found: [u32; 3],
    },
    /// The grid cannot be divided into the clusters that the kernel or the launch asks for.
    Cluster(ClusterError),
    /// All blocks are to run at once, but there is no room for them: see
    /// [`Options::cooperative`](crate::sim::Options::cooperative).
    TooManyBlocksAtOnce {
        /// How many blocks the grid has.
        blocks: u64,
        /// How many blocks fit.
        limit: u64,
    },
}

impl RunError {
    /// Returns the fault, or `None` if the launch failed for another reason. Use it in tests that
    /// check which fault a kernel has.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            RunError::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Fault(fault) => fault.fmt(f),
            RunError::AssertFailed(failures) => failures.fmt(f),
            RunError::ResultsDiffer(found) => found.fmt(f),
            RunError::OutOfFuel { fuel, op, location, block: [bx, by, bz], thread: [x, y, z], order, hot } => {
                write!(
                f,
                "block ({bx}, {by}, {bz}) has not ended after {fuel} operations, when thread ({x}, {y}, {z}) is at the `{op}` at {location}: the kernel does not end, or `Options::fuel` is too low for it{}",
                Some(order).filter(|order| **order != Order::default()).map_or(String::new(), |order| format!(" (with `{order:?}`)"))
                )?;
                hot.iter().try_for_each(|HotLine { location, percent }| {
                    write!(f, "\n  {percent} % of the operations that followed: {location}")
                })
            }
            RunError::NotVerified => f.write_str(
                "the kernel breaks a rule of the verifier, so it cannot be simulated: `Kernel::verify` says which",
            ),
            RunError::TooManyRegisters { limit } => write!(
                f,
                "a thread of the kernel holds more than {limit} values at once: use fewer register variables"
            ),
            RunError::ArgumentCount { expected, found } => {
                write!(f, "the kernel has {expected} parameters, but the launch passes {found} arguments")
            }
            RunError::ArgumentType { param, expected, found } => {
                write!(f, "parameter `{param}` is {expected}, but the argument is {found}")
            }
            RunError::TensorMapBeyondBuffer { param, tensor_bytes, buffer_bytes } => write!(
                f,
                "the tensor map of parameter `{param}` has a tensor of {tensor_bytes} bytes, but its buffer has {buffer_bytes}"
            ),
            RunError::BlockSize { threads: [x, y, z] } => write!(
                f,
                "a block of {x} x {y} x {z} threads is not possible: at most 1024 x 1024 x 64, 1024 in all, and none zero"
            ),
            RunError::GridSize { blocks: [x, y, z] } => write!(
                f,
                "a grid of {x} x {y} x {z} blocks is not possible: at most 2147483647 x 65535 x 65535, and none zero"
            ),
            RunError::FixedBlockSize { expected: [ex, ey, ez], found: [x, y, z] } => write!(
                f,
                "the kernel is built for blocks of {ex} x {ey} x {ez} threads, but is launched with {x} x {y} x {z}"
            ),
            RunError::MaxThreads { limit, found: [x, y, z] } => write!(
                f,
                "the kernel is built for blocks of at most {limit} threads, but is launched with {x} x {y} x {z}"
            ),
            RunError::Cluster(error) => {
                write!(f, "the kernel cannot be launched in these clusters: {error}")
            }
            RunError::TooManyBlocksAtOnce { blocks, limit } => write!(
                f,
                "all {blocks} blocks must run at once, but only {limit} fit: launch fewer blocks and let each do more"
            ),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // A fault prints as the whole error, so it must not be named twice.
        None
    }
}

impl From<Fault> for RunError {
    fn from(fault: Fault) -> RunError {
        RunError::Fault(Box::new(fault))
    }
}
