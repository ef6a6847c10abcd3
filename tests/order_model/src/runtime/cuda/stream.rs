//! Defines streams of a driver that completes all work of a stream when a thread waits for it.

use std::convert::Infallible;

use super::submission_counter::QueuedLaunches;
use super::sync::atomic::AtomicU64;
use super::sync::{Arc, Mutex};
use super::timeline::{By, Timeline};
use super::uses::Note;
use crate::runtime::error::RuntimeError;

pub(super) struct Stream {
    number: u64,
    pub(super) timeline: Timeline,
    driver: Mutex<Driver>,
    pub(super) launch_numbers: AtomicU64,
}

/// The driver's side of a stream. The model names the work.
#[derive(Default)]
struct Driver {
    queued: Vec<u32>,
    done: Vec<u32>,
}

impl Stream {
    pub(super) fn new(number: u64) -> Arc<Stream> {
        let (timeline, driver, launch_numbers) = (Timeline::default(), Mutex::default(), AtomicU64::new(0));
        Arc::new(Stream { number, timeline, driver, launch_numbers })
    }

    fn driver(&self) -> super::sync::MutexGuard<'_, Driver> {
        self.driver.lock().expect("no thread of a model panics")
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Gives work to the driver.
    pub(super) fn give(&self, name: u32) {
        self.driver().queued.push(name);
    }

    /// Returns whether the driver has done the work.
    pub(super) fn has_done(&self, name: u32) -> bool {
        self.driver().done.contains(&name)
    }

    /// As the library queues work that uses `each`.
    pub(super) fn queue(this: &Arc<Self>, name: u32, each: impl Fn(&mut Note<'_>)) {
        let note = |by: By, work: u64| {
            each(&mut |uses, writes| {
                if by == By::Other || !uses.note_at_once(this, work, writes) {
                    uses.note(this, by, work, writes);
                }
            });
        };
        let call = || {
            this.give(name);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = this.timeline.queue(None::<QueuedLaunches>, &this.launch_numbers, note, call);
    }

    /// As the library launches work of the owner on the fast path, if it is that.
    pub(super) fn queue_at_once(
        this: &Arc<Self>,
        name: u32,
        note: impl FnOnce(u64) -> bool,
    ) -> bool {
        let Some(work) = this.timeline.begin() else { return false };
        let is_alone = note(work);
        if is_alone {
            this.give(name);
        }
        this.timeline.end(work, None, &this.launch_numbers);
        is_alone
    }

    /// Returns whether the driver has no work left, as `cuStreamQuery` answers.
    pub(super) fn is_done(&self) -> bool {
        self.driver().queued.is_empty()
    }

    pub(super) fn wait(&self) -> Result<(), RuntimeError> {
        self.timeline.wait(|| {
            let mut driver = self.driver();
            let queued = std::mem::take(&mut driver.queued);
            driver.done.extend(queued);
            Ok(())
        })
    }

    pub(super) fn may_run(&self, by: By, work: u64) -> bool {
        self.timeline.may_run(by, work)
    }

    pub(super) fn still_runs(&self, by: By, work: u64) -> bool {
        self.timeline.still_runs(by, work, || self.is_done())
    }

    /// An event that the other stream comes to before this one goes on: here the work is done at
    /// once.
    pub(super) fn wait_for_work(
        &self,
        other: &Stream,
        by: By,
        work: u64,
    ) -> Result<(), RuntimeError> {
        if self.number == other.number || !other.may_run(by, work) {
            return Ok(());
        }
        if self.timeline.has_seen(other.number, by, work) {
            return Ok(());
        }
        let queued = other.timeline.queued();
        let mut driver = other.driver();
        let work = std::mem::take(&mut driver.queued);
        driver.done.extend(work);
        drop(driver);
        self.timeline.note_seen(other.number, queued);
        Ok(())
    }
}
