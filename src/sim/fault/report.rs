//! Fault reports: cause, operation, source location and thread.

use super::cause::FaultCause;
use crate::ir::SourceLocation;
use crate::sim::options::Order;

/// A kernel that misbehaves: the cause, the operation with its Rust line, and the thread that executed it.
///
/// Of several faults of a launch, the one of the lowest block or cluster is reported (with `Order::Reverse` of the highest),
/// and of several lanes of a warp
/// that fault at one operation the lowest.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The cause.
    pub cause: FaultCause,
    /// The name of the kernel.
    pub kernel: String,
    /// The name of the operation.
    pub op: &'static str,
    /// The operation's path in the IR: `for[2]/3` is operation 3 in the body of the loop that is operation 2. `{fault:#}`
    /// prints it behind the sentence.
    pub path: String,
    /// The Rust line that made the operation.
    pub location: SourceLocation,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
    /// In a deadlock, all warps of the cluster, or of the block of a launch without clusters: the likely cause first,
    /// ended warps last. Empty for every other fault.
    pub stuck: Vec<StuckWarp>,
    /// In a deadlock, a cycle of [`Fault::stuck`], by index: each warp waits for something that only the next one may do,
    /// and the last one for the first. Empty where a warp waits for what no other warp does.
    pub cycle: Vec<usize>,
    /// The order in which warps ran.
    pub order: Order,
    /// Other faults of the same run: after a race the kernel runs on, so that further races are found, at most 32, one for
    /// each pair of source lines; and the fault that ended the run.
    pub also: Vec<Fault>,
}

/// A warp when no warp can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckWarp {
    /// The block.
    pub block: [u32; 3],
    /// The warp in its block.
    pub warp: u32,
    /// The wait; `None` for an ended warp.
    pub waits: Option<WarpWait>,
}

/// A wait of a warp that does not end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WarpWait {
    /// The name of the operation.
    pub op: &'static str,
    /// The Rust line that made it.
    pub location: SourceLocation,
    /// The missing condition.
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
