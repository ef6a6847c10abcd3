//! [`Fault`]: what a fault report says. Match on it in a test to check which operation and thread
//! of a kernel went wrong; print it to read the cause and the cure.

use super::cause::FaultCause;
use crate::ir::SourceLocation;
use crate::sim::options::Order;

/// Something undefined that a kernel did, with the operation, its Rust line, and the thread that
/// executed it.
///
/// `Display` prints a sentence with the usual cure; `{fault:#}` adds the operation's path in the
/// IR. If a launch has several faults, the lowest block's or cluster's is reported (with
/// `Order::Reverse` the highest's). If several lanes of a warp fault at one operation, the lowest
/// is reported.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// What went wrong.
    pub cause: FaultCause,
    /// The kernel's name.
    pub kernel: String,
    /// The operation's name.
    pub op: &'static str,
    /// The operation's position in the IR: `for[2]/3` is op 3 in the body of the loop at op 2.
    /// `{fault:#}` prints it after the sentence.
    pub path: String,
    /// The Rust line that built the operation.
    pub location: SourceLocation,
    /// The thread's block.
    pub block: [u32; 3],
    /// The thread, in its block.
    pub thread: [u32; 3],
    /// In a deadlock, all warps of the cluster (or of the block, in a launch without clusters), the
    /// likely culprit first, ended warps last. Empty for every other fault.
    pub stuck: Vec<StuckWarp>,
    /// In a deadlock, a cycle of warps as indices into [`Fault::stuck`]: each waits for something
    /// that only the next one can do, and the last waits for the first. Empty if there is no cycle,
    /// because some warp waits for what nobody will do.
    pub cycle: Vec<usize>,
    /// The order in which warps ran.
    pub order: Order,
    /// Further faults of the same run. After a race the kernel runs on, so up to 32 races are
    /// found, one for each pair of source lines; and there is the fault that ended the run, if
    /// there is one.
    pub also: Vec<Fault>,
}

/// One warp of a deadlocked cluster, and what it waits for. A deadlock's [`Fault`] lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckWarp {
    /// The warp's block.
    pub block: [u32; 3],
    /// The warp's index in its block.
    pub warp: u32,
    /// What it waits for; `None` if it has ended.
    pub waits: Option<WarpWait>,
}

/// The wait at which a [`StuckWarp`] is stuck: the operation that waits, its Rust line, and what is
/// missing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarpWait {
    /// The operation's name.
    pub op: &'static str,
    /// The Rust line that built it.
    pub location: SourceLocation,
    /// What is missing.
    pub cause: FaultCause,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::types::{Scalar, Space};
    use crate::sim::fault::source::MemoryAccess;

    #[test]
    fn a_misaligned_access_says_what_it_should_be() {
        let location = SourceLocation { file: "x.rs", line: 3, column: 9 };
        let access = MemoryAccess {
            is_store: true,
            space: Space::Shared,
            rank: None,
            allocation: "shared1".to_owned(),
            made: Some(location),
            elem: Scalar::F64,
            element: 1,
            byte: 12,
            bytes: 8,
            align: 8,
            len_bytes: 64,
        };
        let fault = Fault {
            cause: FaultCause::Misaligned { access },
            kernel: "copy".to_owned(),
            op: "st",
            path: "4".to_owned(),
            location,
            block: [0, 1, 0],
            thread: [5, 0, 0],
            stuck: Vec::new(),
            cycle: Vec::new(),
            order: Order::default(),
            also: Vec::new(),
        };
        let sentence = "`st` at x.rs:3:9 writes f64 element 1 (bytes 12 to 20) of shared memory `shared1`, made at \
             x.rs:3:9, but must start at a multiple of 8 bytes, in thread (5, 0, 0) of block (0, 1, 0) \
             of kernel `copy`; move the first element to such a multiple, or access single elements";
        assert_eq!(fault.to_string(), sentence);
        assert_eq!(format!("{fault:#}"), format!("{sentence} [4]"));
    }
}
