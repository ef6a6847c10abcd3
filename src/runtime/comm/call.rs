//! Defines the calls of communicators, as both backends take them.

use std::fmt;
use std::time::Duration;

use crate::ir::types::Scalar;

/// The operation that combines the elements of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum. Integers wrap.
    Sum,
    /// Their product. Integers wrap.
    Product,
    /// The minimum.
    Min,
    /// The greatest.
    Max,
    /// Their sum, divided by the number of ranks. Integers round toward 0.
    Average,
}

/// The operation of a call.
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
    /// The name of the method of `Communicator`.
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

    /// Returns the operation of a reduction.
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

/// A call without its memory: the call that all ranks make, but for the peers of `send` and `recv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct CallShape {
    pub(in crate::runtime) kind: CallKind,
    pub(in crate::runtime) scalar: Scalar,
    /// The elements that a rank sends or, of `reduce_scatter`, receives.
    pub(in crate::runtime) count: usize,
}

/// `all_reduce(Sum) of 3 f32`
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

/// Options of a communicator. All ranks give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommOptions {
    /// The time after which work without progress is given up.
    pub timeout: Duration,
    /// The maximum number of thread blocks, each on an SM of its own, that a collective may use on a GPU. `None` is NCCL's choice.
    pub max_blocks: Option<u32>,
}

impl Default for CommOptions {
    /// Five minutes; NCCL chooses the thread blocks.
    fn default() -> CommOptions {
        CommOptions { timeout: Duration::from_secs(300), max_blocks: None }
    }
}

impl CommOptions {
    /// The same with a time after which a connection, a call or work on a GPU without progress fails with
    /// [`TimedOut`](super::CommError::TimedOut).
    pub fn timeout(self, timeout: Duration) -> CommOptions {
        CommOptions { timeout, ..self }
    }

    /// The same with a limit for the thread blocks of collectives: the other SMs are free for kernels that run at the
    /// same time.
    pub fn max_blocks(self, blocks: u32) -> CommOptions {
        CommOptions { max_blocks: Some(blocks), ..self }
    }
}
