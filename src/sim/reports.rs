//! [`Reports`]: the list that collects a report of each launch. Pass it to
//! [`Options::reports`](crate::sim::Options::reports), and take the reports after the launches.

use std::sync::{Arc, Mutex, PoisonError};

use super::kernel_report::KernelReport;

/// Collects a report of each launch on the simulator, in launch order: see
/// [`Options::reports`](crate::sim::Options::reports). Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Reports(Arc<Mutex<Vec<KernelReport>>>);

impl Reports {
    /// Makes an empty list, to pass to [`Options::reports`](crate::sim::Options::reports).
    pub fn new() -> Reports {
        Reports::default()
    }

    /// Returns the reports that were added since the last call, and empties the list.
    pub fn take(&self) -> Vec<KernelReport> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::sim) fn push(&self, report: KernelReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }
}

/// Two lists are equal if they are clones of each other, whatever reports they hold.
impl PartialEq for Reports {
    fn eq(&self, other: &Reports) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Reports {}
