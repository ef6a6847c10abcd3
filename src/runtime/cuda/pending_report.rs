//! Tracks the kernels whose failed assertions a waiting call has to read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::thread::this_thread;
use crate::launch::assert::AssertFailures;
use crate::runtime::RuntimeError;

/// The reports of kernels that were launched since they were last asked for, each with the thread that
/// launched it.
#[derive(Default)]
pub(super) struct AssertReports(Mutex<PendingReports>);

/// As long as it is held, no launch with assertions is queued, and no memory of them is read and cleared.
#[derive(Default)]
pub(super) struct PendingReports(Vec<(Weak<()>, Pending)>);

/// The failed assertions of a kernel, on the device.
pub(super) trait Report: Send + Sync {
    /// Returns the failures since the last call, if there are some.
    fn take(&self) -> Result<Option<AssertFailures>, RuntimeError>;
}

/// The reports that a waiting call has to read.
enum Pending {
    /// The memory of a kernel.
    Report(Arc<dyn Report>),
    /// The failures in the memory of a dropped function.
    Failures(Box<AssertFailures>),
}

/// From how many reports on those of functions that are gone are read and their memory given back, so that a program
/// that never waits does not keep the memory of every function that it has launched.
const MANY: usize = 64;

/// The scope of a read of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launches {
    /// Those of the calling thread, and of threads that have ended.
    OfThread,
    /// Those of all threads.
    All,
}

impl PendingReports {
    /// Notes a launch.
    pub(super) fn note(&mut self, report: &Arc<dyn Report>) {
        let thread = this_thread();
        let reports = &mut self.0;
        let is_known = |(by, pending): &(Weak<()>, Pending)| match pending {
            Pending::Report(known) => {
                Weak::ptr_eq(by, &thread)
                    && Arc::as_ptr(known).cast::<()>() == Arc::as_ptr(report).cast::<()>()
            }
            Pending::Failures(_) => false,
        };
        if reports.iter().any(is_known) {
            return;
        }
        if reports.len() >= MANY {
            reports.retain_mut(|(_, pending)| match pending {
                Pending::Report(report) if Arc::strong_count(report) == 1 => match report.take() {
                    Ok(None) => false,
                    Ok(Some(failures)) => {
                        *pending = Pending::Failures(Box::new(failures));
                        true
                    }
                    // The call that waits will find the same.
                    Err(_) => true,
                },
                Pending::Report(_) | Pending::Failures(_) => true,
            });
        }
        reports.push((thread, Pending::Report(Arc::clone(report))));
    }
}

impl AssertReports {
    /// Held from before a launch is ordered behind the work on the memory until it is noted: the memory would
    /// otherwise be cleared after the launch had written it, and before anyone has read that.
    pub(super) fn lock(&self) -> MutexGuard<'_, PendingReports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails with the failures of the first kernel that has some; the next call goes on after it.
    pub(super) fn check(&self, launches: Launches) -> Result<(), RuntimeError> {
        let thread = this_thread();
        // The lock is held all the time, so that failures are returned once.
        let reports = &mut self.lock().0;
        let is_asked_for = |(by, _): &(Weak<()>, Pending)| {
            launches == Launches::All || Weak::ptr_eq(by, &thread) || by.strong_count() == 0
        };
        while let Some(position) = reports.iter().position(is_asked_for) {
            let (_, pending) = reports.remove(position);
            let failures = match pending {
                Pending::Report(report) => report.take()?.map(Box::new),
                Pending::Failures(failures) => Some(failures),
            };
            if let Some(failures) = failures {
                return Err(RuntimeError::AssertFailed(failures));
            }
        }
        Ok(())
    }
}
