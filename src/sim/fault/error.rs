//! Errors of a launch on the simulator.

use std::fmt;

use super::report::Fault;
use super::source::HotLine;
use crate::ir::SourceLocation;
use crate::ir::types::Type;
use crate::launch::assert::AssertFailures;
use crate::launch::grid::ClusterError;
use crate::sim::options::Order;
use crate::sim::schedules::ResultsDiffer;

/// Error of a launch on the simulator. [`RunError::Fault`] is the kernel's doing. After any other error the kernel
/// did not run, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// The kernel misbehaved.
    Fault(Box<Fault>),
    /// The warps of a block executed more operations than [`Options::fuel`](crate::sim::Options::fuel) allows:
    /// the kernel loops without end, or the limit is too low for it.
    OutOfFuel {
        /// The limit.
        fuel: u64,
        /// The operation at which a thread was then.
        op: &'static str,
        /// The Rust line that made the operation.
        location: SourceLocation,
        /// The block.
        block: [u32; 3],
        /// The thread in its block.
        thread: [u32; 3],
        /// The order in which warps ran.
        order: Order,
        /// The lines at which the warps of the block or cluster spent the operations that followed: at most 3, the line
        /// with the most first.
        hot: Vec<HotLine>,
    },
    /// Assertions of the kernel failed. It ran to its end.
    AssertFailed(Box<AssertFailures>),
    /// Two of [`Options::schedules`](crate::sim::Options::schedules) left different values in a buffer.
    ResultsDiffer(Box<ResultsDiffer>),
    /// The IR breaks a rule of the verifier, so it has no meaning: see
    /// [`Kernel::verify`](crate::ir::Kernel::verify).
    NotVerified,
    /// The values and register variables that a thread holds at once need more registers than the
    /// simulator gives it.
    TooManyRegisters {
        /// The maximum.
        limit: u32,
    },
    /// The launch passes another number of arguments than the kernel has parameters.
    ArgumentCount {
        /// The number of parameters.
        expected: usize,
        /// The number of arguments.
        found: usize,
    },
    /// An argument does not fit its parameter.
    ArgumentType {
        /// The name of the parameter.
        param: String,
        /// The type of the parameter.
        expected: Type,
        /// The kind of the argument.
        found: String,
    },
    /// The tensor of a tensor map does not fit into its buffer.
    TensorMapBeyondBuffer {
        /// The name of the parameter.
        param: String,
        /// The bytes of the tensor.
        tensor_bytes: u64,
        /// The bytes of the buffer.
        buffer_bytes: u64,
    },
    /// A block of a size that no device has.
    BlockSize {
        /// The threads along each axis.
        threads: [u32; 3],
    },
    /// A grid of a size that no device has.
    GridSize {
        /// The blocks along each axis.
        blocks: [u32; 3],
    },
    /// The kernel fixes the size of its blocks, and the launch has another one.
    FixedBlockSize {
        /// The threads along each axis that the kernel is built for.
        expected: [u32; 3],
        /// The threads along each axis of the launch.
        found: [u32; 3],
    },
    /// The kernel bounds the threads of its blocks, and the launch has more.
    MaxThreads {
        /// The maximum number of threads in all that the kernel is built for.
        limit: u32,
        /// The threads along each axis of the launch.
        found: [u32; 3],
    },
    /// The grid has no clusters as the kernel and the launch ask for.
    Cluster(ClusterError),
    /// All blocks are to run at once, and there is no room for them: see
    /// [`Options::cooperative`](crate::sim::Options::cooperative).
    TooManyBlocksAtOnce {
        /// The blocks of the grid.
        blocks: u64,
        /// Those for which there is room.
        limit: u64,
    },
}

impl RunError {
    /// The fault, if the kernel misbehaved.
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
                "all blocks are to run at once, and there is room for {limit}, not for {blocks}: launch fewer blocks and let each do more"
            ),
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // A fault prints as the whole error, so it is not named twice.
        None
    }
}

impl From<Fault> for RunError {
    fn from(fault: Fault) -> RunError {
        RunError::Fault(Box::new(fault))
    }
}
