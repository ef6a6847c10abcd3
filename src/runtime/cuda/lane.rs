//! Work of a stream that one thread at a time queues.

use super::kernel_name::KernelId;
use super::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Launches that are queued together: how many, and the kernel of the last one.
#[derive(Clone, Copy)]
pub(super) struct QueuedLaunches {
    pub(super) count: u64,
    pub(super) kernel: KernelId,
}

/// Work, numbered from 1, that one thread at a time queues, the writer: so it counts without a locked instruction. Others
/// read how far it is, and note what has ended.
#[derive(Default)]
pub(super) struct Lane {
    /// The latest work that has a number.
    begun: AtomicU64,
    /// The latest work that the driver has, or that it refused.
    queued: AtomicU64,
    /// The latest work that is known to have ended, and with it all before.
    ended: AtomicU64,
    /// The launches among the work queued, and among that which has ended.
    launches: AtomicU64,
    ended_launches: AtomicU64,
    /// The latest launch: its place among those of all streams, from 1, and its kernel.
    place: AtomicU64,
    kernel: AtomicU64,
}

/// How far a lane is: its work and its launches that the driver has.
#[derive(Clone, Copy, Default)]
pub(super) struct Point {
    pub(super) work: u64,
    launches: u64,
}

impl Lane {
    /// The number of the next work, which is to be queued. For the writer.
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        let work = self.begun.load(Relaxed) + 1;
        self.begun.store(work, Relaxed);
        work
    }

    /// Notes that the work of this number, the latest one, is queued, with these launches; `places` counts those of all
    /// lanes. For the writer.
    #[inline]
    pub(super) fn end(&self, work: u64, launches: Option<QueuedLaunches>, places: &AtomicU64) {
        if let Some(QueuedLaunches { count, kernel }) = launches {
            // Two threads may find the same place, if they launch at the same time; a locked instruction would cost
            // more than the order of these two is worth.
            let place = places.load(Relaxed) + 1;
            places.store(place, Relaxed);
            self.place.store(place, Relaxed);
            self.kernel.store(kernel.0, Relaxed);
            self.launches.store(self.launches.load(Relaxed) + count, Relaxed);
        }
        self.queued.store(work, Release);
    }

    /// How far it is.
    pub(super) fn queued(&self) -> Point {
        let work = self.queued.load(Acquire);
        Point { work, launches: self.launches.load(Relaxed) }
    }

    /// Notes that all up to this point has ended.
    pub(super) fn note_ended(&self, point: Point) {
        self.ended.fetch_max(point.work, Release);
        self.ended_launches.fetch_max(point.launches, Relaxed);
    }

    /// Whether the work of this number may not have ended yet.
    pub(super) fn may_run(&self, work: u64) -> bool {
        self.ended.load(Acquire) < work
    }

    /// Whether all work has ended, and that is known.
    pub(super) fn is_idle(&self) -> bool {
        !self.may_run(self.begun.load(Relaxed))
    }

    /// The launches that may be under way, and the latest of all: its place, and its kernel.
    pub(super) fn under_way(&self) -> (u64, Option<(u64, KernelId)>) {
        let (launches, ended) = (self.launches.load(Relaxed), self.ended_launches.load(Relaxed));
        let place = self.place.load(Relaxed);
        let latest = (place > 0).then(|| (place, KernelId(self.kernel.load(Relaxed))));
        (launches.saturating_sub(ended), latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is begun and not yet queued has not ended, whatever is waited for.
    #[test]
    fn only_what_is_queued_can_end() {
        let (lane, places) = (Lane::default(), AtomicU64::new(7));
        assert!(lane.is_idle() && lane.under_way() == (0, None));
        let launches = QueuedLaunches { count: 3, kernel: KernelId(5) };
        let first = lane.begin();
        assert!(!lane.is_idle() && lane.may_run(first));
        lane.note_ended(lane.queued());
        assert!(lane.may_run(first), "the driver does not have it yet");
        assert_eq!(lane.under_way(), (0, None));
        lane.end(first, Some(launches), &places);
        assert_eq!(lane.under_way(), (3, Some((8, KernelId(5)))));
        // Work that the driver refuses has no launches, and is not the latest one.
        let second = lane.begin();
        let point = lane.queued();
        lane.end(second, None, &places);
        assert_eq!(lane.under_way(), (3, Some((8, KernelId(5)))));
        lane.note_ended(point);
        assert!(!lane.may_run(first) && lane.may_run(second) && !lane.is_idle());
        lane.note_ended(lane.queued());
        assert!(lane.is_idle());
        // An older look changes nothing.
        lane.note_ended(point);
        assert!(!lane.may_run(second));
        assert_eq!(lane.under_way().0, 0);
    }
}
