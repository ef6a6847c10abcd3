//! Counts the work that one thread submits to a stream, without atomic read-modify-writes. A
//! `Timeline` has two of these counters.

use super::kernel_name::KernelId;
use super::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Launches that are queued together: how many, and the last one's kernel.
#[derive(Clone, Copy)]
pub(super) struct QueuedLaunches {
    pub(super) count: u64,
    pub(super) kernel: KernelId,
}

/// Numbers the work on a stream, starting at 1. Only one thread at a time, the writer, queues work,
/// so it can count without an atomic read-modify-write. Other threads read the counts and note
/// which work has ended.
#[derive(Default)]
pub(super) struct SubmissionCounter {
    /// The latest work that has a sequence number.
    begun: AtomicU64,
    /// The latest work that the driver has received or refused.
    queued: AtomicU64,
    /// The latest work that is known to have ended, and with it all earlier work.
    ended: AtomicU64,
    /// How many launches the queued work contains, and how many of them have ended.
    launches: AtomicU64,
    ended_launches: AtomicU64,
    /// The latest launch: its index among the launches of all streams, starting at 1, and its
    /// kernel.
    launch_number: AtomicU64,
    kernel: AtomicU64,
}

/// A counter's state: how much work and how many launches the driver has received.
#[derive(Clone, Copy, Default)]
pub(super) struct Point {
    pub(super) work: u64,
    launches: u64,
}

impl SubmissionCounter {
    /// Returns the sequence number for the next work. Only the writer may call this.
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        let work = self.begun.load(Relaxed) + 1;
        self.begun.store(work, Relaxed);
        work
    }

    /// Notes that the latest work is queued, with these launches. `launch_numbers` counts the
    /// launches of all counters. Only the writer may call this.
    #[inline]
    pub(super) fn end(
        &self,
        work: u64,
        launches: Option<QueuedLaunches>,
        launch_numbers: &AtomicU64,
    ) {
        if let Some(QueuedLaunches { count, kernel }) = launches {
            // Two threads that launch at the same time may read the same index. Avoiding that would
            // take a locked instruction, which costs more than the order of the two launches is
            // worth.
            let launch_number = launch_numbers.load(Relaxed) + 1;
            launch_numbers.store(launch_number, Relaxed);
            self.launch_number.store(launch_number, Relaxed);
            self.kernel.store(kernel.0, Relaxed);
            self.launches.store(self.launches.load(Relaxed) + count, Relaxed);
        }
        self.queued.store(work, Release);
    }

    /// Returns how much work and how many launches the driver has received.
    pub(super) fn queued(&self) -> Point {
        let work = self.queued.load(Acquire);
        Point { work, launches: self.launches.load(Relaxed) }
    }

    /// Notes that all work up to this point has ended.
    pub(super) fn note_ended(&self, point: Point) {
        self.ended.fetch_max(point.work, Release);
        self.ended_launches.fetch_max(point.launches, Relaxed);
    }

    /// Returns whether the work with this sequence number may still be in flight.
    pub(super) fn may_run(&self, work: u64) -> bool {
        self.ended.load(Acquire) < work
    }

    /// Returns whether all work is known to have ended.
    pub(super) fn is_idle(&self) -> bool {
        !self.may_run(self.begun.load(Relaxed))
    }

    /// Returns how many launches may be in flight, and the index and kernel of the latest launch,
    /// which a fault message names.
    pub(super) fn in_flight(&self) -> (u64, Option<(u64, KernelId)>) {
        let (launches, ended) = (self.launches.load(Relaxed), self.ended_launches.load(Relaxed));
        let launch_number = self.launch_number.load(Relaxed);
        let latest =
            (launch_number > 0).then(|| (launch_number, KernelId(self.kernel.load(Relaxed))));
        (launches.saturating_sub(ended), latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Work that has a sequence number but is not queued yet has not ended, whatever a caller waits
    /// for.
    #[test]
    fn only_what_is_queued_can_end() {
        let (counter, launch_numbers) = (SubmissionCounter::default(), AtomicU64::new(7));
        assert!(counter.is_idle() && counter.in_flight() == (0, None));
        let launches = QueuedLaunches { count: 3, kernel: KernelId(5) };
        let first = counter.begin();
        assert!(!counter.is_idle() && counter.may_run(first));
        counter.note_ended(counter.queued());
        assert!(counter.may_run(first), "the driver does not have it yet");
        assert_eq!(counter.in_flight(), (0, None));
        counter.end(first, Some(launches), &launch_numbers);
        assert_eq!(counter.in_flight(), (3, Some((8, KernelId(5)))));
        // Work that the driver refuses has no launches and does not become the latest launch.
        let second = counter.begin();
        let point = counter.queued();
        counter.end(second, None, &launch_numbers);
        assert_eq!(counter.in_flight(), (3, Some((8, KernelId(5)))));
        counter.note_ended(point);
        assert!(!counter.may_run(first) && counter.may_run(second) && !counter.is_idle());
        counter.note_ended(counter.queued());
        assert!(counter.is_idle());
        // An older state changes nothing.
        counter.note_ended(point);
        assert!(!counter.may_run(second));
        assert_eq!(counter.in_flight().0, 0);
    }
}
