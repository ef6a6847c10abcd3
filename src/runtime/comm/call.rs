//! Defines the collective calls in the form that both backends take, and the options of a
//! communicator.

use std::fmt;
use std::time::Duration;

use crate::ir::types::Scalar;

/// How a reduction such as [`all_reduce`](super::Communicator::all_reduce) combines the elements of
/// all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// The sum. Integers wrap.
    Sum,
    /// The product. Integers wrap.
    Product,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The sum divided by the rank count. Integers round toward 0.
    Average,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum CallKind {
    AllReduce(ReduceOp),
    AllGather,
    ReduceScatter(ReduceOp),
    Broadcast { root: u32 },
    Send { peer: u32 },
    Recv { peer: u32 },
}

impl CallKind {
    /// Returns the name of the `Communicator` method that makes this call.
    pub(in crate::runtime) fn name(self) -> &'static str {
        match self {
            CallKind::AllReduce(_) => "all_reduce",
            CallKind::AllGather => "all_gather",
            CallKind::ReduceScatter(_) => "reduce_scatter",
            CallKind::Broadcast { .. } => "broadcast",
            CallKind::Send { .. } => "send",
            CallKind::Recv { .. } => "recv",
        }
    }

    /// Returns how a reduction combines elements; `None` for other calls.
    pub(in crate::runtime) fn reduction(self) -> Option<ReduceOp> {
        match self {
            CallKind::AllReduce(op) | CallKind::ReduceScatter(op) => Some(op),
            CallKind::AllGather
            | CallKind::Broadcast { .. }
            | CallKind::Send { .. }
            | CallKind::Recv { .. } => None,
        }
    }
}

/// A call without its memory, so that ranks can compare their calls. All ranks must make calls of
/// the same shape, except that the peers of `send` and `recv` differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct CallShape {
    pub(in crate::runtime) kind: CallKind,
    pub(in crate::runtime) scalar: Scalar,
    /// How many elements a rank sends. For `reduce_scatter`, how many it receives.
    pub(in crate::runtime) count: usize,
}

/// For example `all_reduce(Sum) of 3 f32`.
impl fmt::Display for CallShape {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.kind {
            CallKind::AllReduce(op) | CallKind::ReduceScatter(op) => write!(f, "({op:?})")?,
            CallKind::Broadcast { root } => write!(f, "(from rank {root})")?,
            CallKind::Send { peer } => write!(f, "(to rank {peer})")?,
            CallKind::Recv { peer } => write!(f, "(from rank {peer})")?,
            CallKind::AllGather => {}
        }
        write!(f, " of {} {}", self.count, self.scalar)
    }
}

/// Options for [`Communicator::connect`](super::Communicator::connect) and
/// [`Communicator::all_with`](super::Communicator::all_with). All ranks must pass the same options.
/// The defaults suit most programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommOptions {
    /// How long work may make no progress before it fails.
    pub timeout: Duration,
    /// The maximum number of thread blocks that a collective may use on a GPU; each block takes an
    /// SM. With `None`, NCCL chooses.
    pub max_blocks: Option<u32>,
}

impl Default for CommOptions {
    /// Sets a timeout of five minutes, and lets NCCL choose the thread blocks.
    fn default() -> CommOptions {
        CommOptions { timeout: Duration::from_secs(300), max_blocks: None }
    }
}

impl CommOptions {
    /// Sets the timeout: raise it if ranks may reach a call minutes apart. A connection, a call or
    /// work on a GPU that makes no progress for this long fails with
    /// [`TimedOut`](super::CommError::TimedOut).
    pub fn timeout(self, timeout: Duration) -> CommOptions {
        CommOptions { timeout, ..self }
    }

    /// Limits the thread blocks of each collective, so that kernels that run at the same time can
    /// use the other SMs.
    pub fn max_blocks(self, blocks: u32) -> CommOptions {
        CommOptions { max_blocks: Some(blocks), ..self }
    }
}
