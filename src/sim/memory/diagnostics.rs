//! Prints and failed assertions of a block's threads. They are stored here until the launch reports
//! them in block order. Only the failures of the lowest threads are kept; the others are counted.

use smallvec::SmallVec;

use crate::ir::OpId;
use crate::ir::types::Const;
use crate::launch::assert::AssertFailures;
use crate::sorting::sort_by_key;

/// A failed assertion.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Failure {
    /// The thread's index in the block.
    pub(in crate::sim) thread: u32,
    pub(in crate::sim) op: OpId,
    pub(in crate::sim) values: Consts,
    /// For an assertion about a fragment, the index of the failing element.
    pub(in crate::sim) element: Option<u64>,
}

pub(in crate::sim) type Consts = SmallVec<[Const; 4]>;

/// The diagnostics of a block's threads so far.
#[derive(Debug, Default)]
pub(in crate::sim) struct Diagnostics {
    /// The index of the running warp's first thread.
    pub(in crate::sim) first_thread: u32,
    /// How many assertions have failed in all.
    pub(in crate::sim) failed: u64,
    /// The failures that are kept, for each thread in program order.
    failures: Vec<Failure>,
    /// Printed text, for each thread in program order.
    pub(in crate::sim) prints: Vec<(u32, String)>,
}

impl Diagnostics {
    pub(in crate::sim) fn fail(
        &mut self,
        lane: usize,
        op: OpId,
        values: Consts,
        element: Option<u64>,
    ) {
        self.failed += 1;
        let thread = self.first_thread + lane as u32;
        self.failures.push(Failure { thread, op, values, element });
        if self.failures.len() >= 2 * AssertFailures::RECORDED {
            self.sort();
        }
    }

    /// Keeps the failures of the lowest threads, each thread's in program order.
    fn sort(&mut self) {
        sort_by_key(&mut self.failures, |failure| failure.thread);
        self.failures.truncate(AssertFailures::RECORDED);
    }

    /// Returns the text that was printed since the last call, sorted by thread.
    pub(in crate::sim) fn take_prints(&mut self) -> String {
        sort_by_key(&mut self.prints, |(thread, _)| *thread);
        self.prints.drain(..).map(|(_, text)| text).collect()
    }

    /// Returns how many assertions failed since the last call, and the recorded ones, sorted by
    /// thread.
    pub(in crate::sim) fn take(&mut self) -> (u64, Vec<Failure>) {
        self.sort();
        (std::mem::take(&mut self.failed), std::mem::take(&mut self.failures))
    }
}
