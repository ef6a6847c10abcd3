//! [`Progress`]: tells a program how far a long launch is, for example for a progress bar.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How far a launch on the simulator is. The function that you pass to
/// [`Options::on_progress`](crate::sim::Options::on_progress) receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The kernel's name.
    pub kernel: String,
    /// Which schedule runs, counted from 1: see
    /// [`Options::schedules`](crate::sim::Options::schedules).
    pub schedule: u32,
    /// How many schedules the launch runs under.
    pub schedules: u32,
    /// How many clusters have ended under this schedule. In a launch without clusters, each block
    /// counts as one.
    pub clusters_done: u64,
    /// How many clusters the grid has.
    pub clusters: u64,
    /// Time since the launch began.
    pub elapsed: Duration,
}

impl Progress {
    /// Returns which fraction of the launch is done, from 0 to 1, over all schedules. Use it to
    /// draw a progress bar.
    pub fn fraction(&self) -> f64 {
        let schedule = self.clusters_done as f64 / self.clusters.max(1) as f64;
        (f64::from(self.schedule.saturating_sub(1)) + schedule) / f64::from(self.schedules.max(1))
    }

    /// Estimates how much longer the launch takes. Returns `None` before the first cluster has
    /// ended, because there is nothing to extrapolate from.
    pub fn left(&self) -> Option<Duration> {
        let done = self.fraction();
        let left = self.elapsed.as_secs_f64() * (1.0 - done) / done;
        Duration::try_from_secs_f64(left).ok()
    }
}

/// The function that is called with the progress, as [`Options`](crate::sim::Options) keeps it.
/// Clones call the same function.
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

/// Time between two calls.
const PERIOD: Duration = Duration::from_millis(100);

/// Counts a launch's finished clusters, and calls the user's function when [`PERIOD`] has passed.
pub(in crate::sim) struct Ticker<'l> {
    hear: Option<&'l OnProgress>,
    kernel: &'l str,
    schedule: u32,
    schedules: u32,
    clusters: u64,
    done: AtomicU64,
    start: Instant,
    /// When the next call is due, in milliseconds since the start.
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

    /// Calls the function if the last call was long enough ago.
    pub(in crate::sim) fn tick(&self) {
        let Some(OnProgress(hear)) = self.hear else { return };
        let elapsed = self.start.elapsed();
        let (now, due) = (elapsed.as_millis() as u64, self.due.load(Relaxed));
        let next = now + PERIOD.as_millis() as u64;
        // If several threads are here, one of them calls.
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
