//! Writes data races as the sentences that a fault report prints. `sentence.rs` does it for all
//! other faults.

use std::fmt;

use super::report::Fault;
use super::sentence::Triple;
use super::source::{MemoryAccess, RacingAccess};
use crate::sim::race::{Agent, MissingEdge};

/// What a race's sentence is made of: the later access, who made it, and who made the earlier one.
pub(super) struct RaceParts<'r> {
    pub(super) access: &'r MemoryAccess,
    pub(super) by: &'r RacingAccess,
    pub(super) other: &'r RacingAccess,
    pub(super) missing: MissingEdge,
}

impl RaceParts<'_> {
    /// Writes the sentence, up to the operation's path.
    pub(super) fn write(&self, fault: &Fault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RaceParts { access, by, other, missing } = self;
        let kind = match (missing, other.writes, by.writes) {
            (MissingEdge::ProxyFence | MissingEdge::InitFence, ..) => "missing fence",
            (MissingEdge::ProxyFenceAfterRead, ..) => "missing fence after a read",
            (_, true, true) => "write after write",
            (_, true, false) => "read after write",
            (_, false, _) => "write after read",
        };
        write!(f, "data race ({kind}): `{}` at {} {access}, ", fault.op, fault.location)?;
        by.write_agent(f)?;
        write!(f, " of ")?;
        by.write_block(f)?;
        write!(f, " of kernel `{}`; {} ", fault.kernel, other.op)?;
        f.write_str(match (other.agent, other.writes) {
            (Agent::Thread, true) => "wrote it before, ",
            (Agent::Thread, false) => "read it before, ",
            (_, true) => "writes it, ",
            (_, false) => "reads it, ",
        })?;
        other.write_agent(f)?;
        if let Some(kernel) = &other.kernel {
            write!(f, " of ")?;
            other.write_block(f)?;
            write!(f, " of an earlier launch, of kernel `{kernel}`")?;
        } else if by.block == other.block {
            f.write_str(" of the same block")?;
        } else {
            f.write_str(" of ")?;
            other.write_block(f)?;
        }
        write!(f, "; {missing}; {}", self.cure())
    }

    fn cure(&self) -> &'static str {
        match (self.missing, self.other.agent) {
            (MissingEdge::Warp, _) => {
                "call `k.bar_warp`, or pass the block's barrier (`k.barrier()`), between the two"
            }
            (MissingEdge::Block, _) => {
                "let both threads pass a barrier between the two: the block's (`k.barrier()`), a named one, or an mbarrier"
            }
            (MissingEdge::Cluster, _) => {
                "let both blocks pass the cluster's barrier between the two"
            }
            (MissingEdge::Grid, _) => {
                "give each block its own elements, or release and acquire a location with scope gpu between the two"
            }
            (MissingEdge::Scope { .. }, _) => "widen the scope of the narrower operation",
            (MissingEdge::ProxyFence, _) => {
                "call `fence_proxy_async` in the thread of the earlier access, before the barrier that orders the two"
            }
            (MissingEdge::ProxyFenceAfterRead, _) => {
                "call `fence_proxy_async` in the thread of the read, before the barrier that orders the two, or turn this \
                 finding off with `Options::fence_after_reads`"
            }
            (MissingEdge::Launch, _) => {
                "call `griddepcontrol_wait` before the access, and pass a barrier if another thread calls it"
            }
            (MissingEdge::LaunchBetween, _) => {
                "let a thread of each launch in between call `griddepcontrol_wait`"
            }
            (MissingEdge::InitFence, _) => "call `fence_mbarrier_init` after the `mbarrier_init`",
            (MissingEdge::Publish, _) => {
                "let this thread pass a barrier after the wait for that operation"
            }
            (_, Agent::Load) => "wait for the phase of its mbarrier first",
            (_, Agent::Wgmma) => {
                "first let its warp group wait for it (`wgmma_wait_group`), and synchronise this thread with that warp group"
            }
            (_, Agent::Copy) => {
                "first let its thread wait for it (`cp_async_wait_group`) and pass a barrier"
            }
            (_, Agent::Store | Agent::Thread) => {
                "first let its thread wait for it (`cp_async_bulk_wait_group`) and pass a barrier"
            }
        }
    }
}

impl RacingAccess {
    /// Writes the thread and its warp.
    fn write_agent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, warp) = (Triple(self.thread), self.warp);
        match self.agent {
            Agent::Thread => write!(f, "in thread {thread}, warp {warp},"),
            Agent::Wgmma => {
                write!(f, "asynchronously, for the warp group of thread {thread}, warp {warp},")
            }
            Agent::Copy | Agent::Load | Agent::Store => {
                write!(f, "asynchronously, started by thread {thread}, warp {warp},")
            }
        }
    }

    /// Writes the block, and its rank if the launch has clusters.
    fn write_block(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", Triple(self.block))?;
        match self.rank {
            Some(rank) => write!(f, " (rank {rank} of its cluster)"),
            None => Ok(()),
        }
    }
}

/// Writes why the two accesses are not ordered.
impl fmt::Display for MissingEdge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MissingEdge::Warp => {
                "no `bar_warp` orders the two: lanes of a warp do not run in step, and shuffles and votes do not order \
                 memory accesses"
            }
            MissingEdge::Block => "no barrier orders the two threads of the block",
            MissingEdge::Cluster => {
                "nothing orders the two blocks of the cluster: neither a cluster barrier with release and acquire \
                 nor an mbarrier"
            }
            MissingEdge::Grid => "no release and acquire with scope gpu orders the two blocks",
            MissingEdge::Scope { needed } => {
                return write!(
                    f,
                    "both are strong operations, but only scope {needed} or a wider one includes both threads"
                );
            }
            MissingEdge::ProxyFence => {
                "it comes first, but no `fence_proxy_async` makes it visible to the asynchronous proxy"
            }
            MissingEdge::ProxyFenceAfterRead => {
                "it comes first, but no `fence_proxy_async` orders that read with the asynchronous proxy, as the PTX ISA asks; \
                 CUTLASS omits this fence when it releases a stage"
            }
            MissingEdge::InitFence => {
                "it comes first, but no `fence_mbarrier_init` makes it visible to the asynchronous proxy"
            }
            MissingEdge::Launch => {
                "the launch is programmatic, and that launch may still run: no `griddepcontrol_wait` is \
                 known to have returned before this access"
            }
            MissingEdge::LaunchBetween => {
                "the launches are programmatic, and that launch may still run: no thread of a launch in between \
                 has waited for it"
            }
            MissingEdge::Pending => "that operation has not completed",
            MissingEdge::Wait => "no thread has waited for that operation",
            MissingEdge::Publish => {
                "that operation has completed, but this thread neither waited for it nor synchronised with a thread \
                 that did"
            }
        })
    }
}
