//! Reports how far a long launch is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How far a launch on the simulator is: see [`Options::on_progress`](crate::sim::Options::on_progress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The name of the kernel.
    pub kernel: String,
    /// The schedule that runs, counted from 1.
    pub schedule: u32,
    /// The schedules of the launch.
    pub schedules: u32,
    /// The clusters that have ended under this schedule. Without clusters, each block is one.
    pub clusters_done: u64,
    /// The clusters of the grid.
    pub clusters: u64,
    /// The time since the launch began.
    pub elapsed: Duration,
}

impl Progress {
    /// Returns the part of the launch that has ended, from 0 to 1.
    pub fn fraction(&self) -> f64 {
        let schedule = self.clusters_done as f64 / self.clusters.max(1) as f64;
        (f64::from(self.schedule.saturating_sub(1)) + schedule) / f64::from(self.schedules.max(1))
    }

    /// Returns the time that is left if the rest runs as fast as the launch has so far; `None` before the first cluster has
    /// ended.
    pub fn left(&self) -> Option<Duration> {
        let done = self.fraction();
        let left = self.elapsed.as_secs_f64() * (1.0 - done) / done;
        Duration::try_from_secs_f64(left).ok()
    }
}

/// A function that hears of progress. Clones are the same function.
#[derive(Clone)]
pub struct OnProgress(Arc<dyn Fn(&Progress) + Send + Sync>);

impl OnProgress {
    pub(in crate::sim) fn new(hear: impl Fn(&Progress) + Send + Sync + 'static) -> OnProgress {
        OnProgress(Arc::new(hear))
    }
}

impl PartialEq for OnProgress {
    fn eq(&self, other: &OnProgress) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OnProgress {}

impl fmt::Debug for OnProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnProgress(..)")
    }
}

/// The time between two calls.
const PERIOD: Duration = Duration::from_millis(100);

/// Counts the clusters of a launch, and calls the function if there is one and it is due.
pub(in crate::sim) struct Ticker<'l> {
    hear: Option<&'l OnProgress>,
    kernel: &'l str,
    schedule: u32,
    schedules: u32,
    clusters: u64,
    done: AtomicU64,
    start: Instant,
    /// The milliseconds since the start at which the next call is due.
    due: AtomicU64,
}

impl<'l> Ticker<'l> {
    pub(in crate::sim) fn new(
        hear: Option<&'l OnProgress>,
        kernel: &'l str,
        schedules: u32,
        clusters: u64,
    ) -> Ticker<'l> {
        let due = AtomicU64::new(PERIOD.as_millis() as u64);
        let (done, start) = (AtomicU64::new(0), Instant::now());
        Ticker { hear, kernel, schedule: 0, schedules, clusters, done, start, due }
    }

    pub(in crate::sim) fn next_schedule(&mut self) {
        self.schedule += 1;
        *self.done.get_mut() = 0;
    }

    pub(in crate::sim) fn cluster_ended(&self) {
        self.done.fetch_add(1, Relaxed);
        self.tick();
    }

    /// Calls the function if the last call was a while ago.
    pub(in crate::sim) fn tick(&self) {
        let Some(OnProgress(hear)) = self.hear else { return };
        let elapsed = self.start.elapsed();
        let (now, due) = (elapsed.as_millis() as u64, self.due.load(Relaxed));
        let next = now + PERIOD.as_millis() as u64;
        // Of several threads one calls.
        if now < due || self.due.compare_exchange(due, next, Relaxed, Relaxed).is_err() {
            return;
        }
        hear(&Progress {
            kernel: self.kernel.to_owned(),
            schedule: self.schedule,
            schedules: self.schedules,
            clusters_done: self.done.load(Relaxed),
            clusters: self.clusters,
            elapsed,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_its_share() {
        let elapsed = Duration::from_secs(30);
        let kernel = "k".to_owned();
        let progress =
            Progress { kernel, schedule: 2, schedules: 4, clusters_done: 5, clusters: 10, elapsed };
        assert_eq!((progress.fraction(), progress.left()), (0.375, Some(Duration::from_secs(50))));
        let none = Progress { schedule: 1, clusters_done: 0, ..progress };
        assert_eq!((none.fraction(), none.left()), (0.0, None));
    }
}
