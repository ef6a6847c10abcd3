//! The list of the reports of launches.

use std::sync::{Arc, Mutex, PoisonError};

use super::kernel_report::KernelReport;

/// The reports of launches on the simulator, in the order of the launches: see
/// [`Options::reports`](crate::sim::Options::reports). Clones are the same list.
#[derive(Clone, Debug, Default)]
pub struct Reports(Arc<Mutex<Vec<KernelReport>>>);

impl Reports {
    /// An empty list.
    pub fn new() -> Reports {
        Reports::default()
    }

    /// Returns the reports of the launches since the last call.
    pub fn take(&self) -> Vec<KernelReport> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::sim) fn push(&self, report: KernelReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }
}

/// Equal if they are the same list.
impl PartialEq for Reports {
    fn eq(&self, other: &Reports) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Reports {}
