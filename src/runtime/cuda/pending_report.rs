//! Tracks which kernels may have failed assertions that the next waiting call has to read. A launch
//! of a kernel with assertions notes its report here.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::thread::this_thread;
use crate::launch::assert::AssertFailures;
use crate::runtime::error::RuntimeError;

/// The assertion reports of the kernels that were launched since somebody last read them, each with
/// the thread that launched it.
#[derive(Default)]
pub(super) struct AssertReports(Mutex<PendingReports>);

/// While this is locked, no launch with assertions is queued, and no assertion buffer is read and
/// cleared.
#[derive(Default)]
pub(super) struct PendingReports(Vec<(Weak<()>, Pending)>);

/// A kernel's failed assertions, which are on the device.
pub(super) trait Report: Send + Sync {
    /// Returns and clears the failures since the last call.
    fn take(&self) -> Result<Option<AssertFailures>, RuntimeError>;
}

/// A report that a waiting call has to read.
enum Pending {
    /// A kernel's assertion buffer.
    Report(Arc<dyn Report>),
    /// The failures of a function that was dropped.
    Failures(Box<AssertFailures>),
}

/// From this many reports on, those of dropped functions are read and their memory is freed, so
/// that a program that never waits does not keep the memory of every function that it has launched.
const MANY: usize = 64;

/// Whose failures to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launches {
    /// Those of the calling thread and of threads that have ended.
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
                    // The call that waits will find the same error.
                    Err(_) => true,
                },
                Pending::Report(_) | Pending::Failures(_) => true,
            });
        }
        reports.push((thread, Pending::Report(Arc::clone(report))));
    }
}

impl AssertReports {
    /// Locks the reports. Held from before a launch is ordered after the work on the assertion
    /// buffer until it is noted. Otherwise the buffer could be cleared after the launch wrote it
    /// and before anyone read it.
    pub(super) fn lock(&self) -> MutexGuard<'_, PendingReports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failures of the first kernel that has some as an error. The next call continues
    /// after that kernel.
    pub(super) fn check(&self, launches: Launches) -> Result<(), RuntimeError> {
        let thread = this_thread();
        // Held all the time, so that each failure is returned once.
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
