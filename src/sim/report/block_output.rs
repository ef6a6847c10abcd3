//! Collects the prints and failed assertions of a launch's blocks, which can run in parallel, and
//! passes them on in block order.

use crate::launch::assert::AssertFailures;
use crate::sim::exec::cluster::Cluster;
use crate::sim::memory::diagnostics::{Diagnostics, Failure};
use crate::sim::trace::Records;

/// What the blocks that one host thread ran have printed and asserted, in block order.
#[derive(Default)]
pub(in crate::sim) struct BlockOutput {
    /// How many assertions have failed in all.
    pub(in crate::sim) failed: u64,
    /// The failures that are kept, each with the block's index.
    pub(in crate::sim) failures: Vec<(u64, Failure)>,
    /// The blocks' output, each with the cluster's index.
    pub(in crate::sim) prints: Vec<(u64, String)>,
    /// The clusters' records, if the run is recorded.
    pub(in crate::sim) records: Option<Records>,
}

impl BlockOutput {
    pub(in crate::sim) fn add_all(&mut self, number: u64, cluster: &mut Cluster<'_>) {
        for (block, diagnostics) in cluster.diagnostics() {
            self.add(number, block, diagnostics);
        }
        let records = cluster.memory.recorder.as_mut().map(|recorder| recorder.finish());
        self.add_records(records);
    }

    pub(in crate::sim) fn add_records(&mut self, records: Option<Records>) {
        match (&mut self.records, records) {
            (Some(all), Some(records)) => all.add(records),
            (all @ None, records) => *all = records,
            (Some(_), None) => {}
        }
    }

    fn add(&mut self, cluster: u64, block: u64, diagnostics: &mut Diagnostics) {
        let prints = diagnostics.take_prints();
        if !prints.is_empty() {
            self.prints.push((cluster, prints));
        }
        let (failed, failures) = diagnostics.take();
        self.failed += failed;
        let room = AssertFailures::RECORDED.saturating_sub(self.failures.len());
        self.failures.extend(failures.into_iter().take(room).map(|failure| (block, failure)));
    }
}
