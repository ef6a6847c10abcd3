//! Records a run for reports and traces: counts for each step, and the events of one cluster in
//! order.
//!
//! If a run is recorded, the cluster's memory holds a [`Recorder`]. A run without one executes
//! other code (`exec/warp.rs`) and pays nothing.

pub(in crate::sim) mod class;
pub(in crate::sim) mod counts;
pub(in crate::sim) mod heat;
pub(in crate::sim) mod stages;
pub(in crate::sim) mod timeline;

use std::sync::Arc;

use self::class::OpClass;
use self::counts::{Counts, LaneAccess, TrafficSource};
use self::stages::StageTime;
use self::timeline::{Arriver, BarrierKey, Timeline};
use crate::sim::fault::raw::Origin;
use crate::sim::race::Target;

/// What was recorded of some clusters.
#[derive(Debug)]
pub(in crate::sim) struct Records {
    pub(in crate::sim) counts: Counts,
    pub(in crate::sim) stages: StageTime,
    /// The timeline of the traced cluster.
    pub(in crate::sim) trace: Option<Box<Timeline>>,
}

impl Records {
    pub(in crate::sim) fn add(&mut self, other: Records) {
        self.counts.add(other.counts);
        self.stages.add(other.stages);
        self.trace = self.trace.take().or(other.trace);
    }
}

/// Records the clusters that one host thread runs in turn.
#[derive(Debug)]
pub(in crate::sim) struct Recorder {
    classes: Arc<[OpClass]>,
    warps: usize,
    warps_of_block: usize,
    /// The cluster whose timeline is kept.
    traced: Option<u64>,
    pub(in crate::sim) counts: Counts,
    pub(in crate::sim) timeline: Timeline,
    /// The cluster that runs now.
    cluster: u64,
}

impl Recorder {
    /// Makes a recorder for clusters of `warps` warps. `traced` is the cluster whose timeline is
    /// kept.
    pub(in crate::sim) fn new(
        classes: &Arc<[OpClass]>,
        warps: usize,
        warps_of_block: usize,
        traced: Option<u64>,
    ) -> Box<Recorder> {
        Box::new(Recorder {
            classes: Arc::clone(classes),
            warps,
            warps_of_block,
            traced,
            counts: Counts::new(classes.len()),
            timeline: Timeline::new(warps, warps_of_block, false),
            cluster: 0,
        })
    }

    /// Starts a cluster.
    pub(in crate::sim) fn start(&mut self, cluster: u64) {
        let keeps = self.traced == Some(cluster);
        (self.cluster, self.timeline) =
            (cluster, Timeline::new(self.warps, self.warps_of_block, keeps));
    }

    /// Ends the cluster and returns its records.
    pub(in crate::sim) fn finish(&mut self) -> Records {
        let counts = std::mem::replace(&mut self.counts, Counts::new(self.classes.len()));
        let timeline = std::mem::take(&mut self.timeline);
        let stages = timeline.stages.time(timeline.end());
        let trace = (self.traced == Some(self.cluster)).then(|| Box::new(timeline));
        Records { counts, stages, trace }
    }

    /// A warp starts a step.
    pub(in crate::sim) fn begin(&mut self, origin: Origin) {
        if self.classes.get(origin.step as usize).is_some_and(|class| *class != OpClass::Plain) {
            self.timeline.begin_act(origin);
        }
    }

    /// A warp executed a step that does not access memory lane by lane.
    pub(in crate::sim) fn step(&mut self, origin: Origin, lanes: u64, weight: u32) {
        let Some(count) = self.counts.steps.get_mut(origin.step as usize) else { return };
        (count.warps, count.threads) = (count.warps + 1, count.threads + lanes);
        match self.classes[origin.step as usize] {
            OpClass::Plain => {
                self.timeline.leave_act();
                self.timeline.plain(origin, weight);
            }
            _ => drop(self.timeline.event(origin)),
        }
    }

    /// Lanes accessed memory.
    pub(in crate::sim) fn access(
        &mut self,
        origin: Origin,
        by: TrafficSource,
        access: &LaneAccess<'_>,
    ) {
        self.counts.access(origin.step, by, access);
        if self.traced == Some(self.cluster) {
            self.timeline.heat.add(origin.step, access);
        }
        if let (Target::Shared(rank), false, Some((start, end))) =
            (access.target, access.writes, access.hull())
            && by == TrafficSource::Threads
        {
            self.timeline.read(rank, &(start as usize..end as usize));
        }
    }

    /// A warp arrived at a barrier of its block.
    pub(in crate::sim) fn arrive(&mut self, warp: usize, key: BarrierKey) {
        self.timeline.arrive(key, Arriver::Warp(warp as u32));
    }

    /// A warp waits at a step.
    pub(in crate::sim) fn wait(&mut self, warp: usize, step: u32, on: BarrierKey) {
        self.timeline.leave_act();
        if self.timeline.begin_wait(warp, step, on)
            && let Some(count) = self.counts.steps.get_mut(step as usize)
        {
            count.blocked += 1;
        }
    }
}
