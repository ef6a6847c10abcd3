//! Brings failed assertions from the device to the host.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::context::Context;
use super::memory::Memory;
use super::thread::this_thread;
use super::uses::Uses;
use crate::codegen::AssertBuffer;
use crate::ir::KernelIr;
use crate::launch::assert::{AssertFailures, AssertSites};
use crate::runtime::RuntimeError;

const WORD: usize = size_of::<u64>();

/// The memory to which a kernel writes its failed assertions, and what they mean.
pub(super) struct AssertReport {
    memory: Memory,
    sites: AssertSites,
}

impl AssertReport {
    /// Memory for the kernel, if it has assertions.
    pub(super) fn new(
        context: &'static Context,
        ir: &KernelIr,
    ) -> Result<Option<Arc<AssertReport>>, RuntimeError> {
        if !ir.has_asserts() {
            return Ok(None);
        }
        let memory = Memory::zeros(context, AssertBuffer::BYTES)?;
        Ok(Some(Arc::new(AssertReport { memory, sites: AssertSites::new(ir) })))
    }

    /// Returns the uses of the memory by launches. Launches need not wait for each other, because they add by atomic
    /// operations: they count as work that only reads it, so that a reader waits for all of them.
    pub(super) fn used(&self) -> (&Uses, bool) {
        (self.memory.uses(), false)
    }

    /// Returns the argument of a launch.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Returns the failures since the last call, if there are some.
    fn take(&self) -> Result<Option<AssertFailures>, RuntimeError> {
        let total = self.memory.read_start(1)?.first().copied().unwrap_or(0);
        if total == 0 {
            return Ok(None);
        }
        let records = (total as usize).min(AssertBuffer::RECORDS);
        let bytes = AssertBuffer::HEADER_BYTES + records * AssertBuffer::RECORD_BYTES;
        let words = self.memory.read_start(bytes / WORD)?;
        self.memory.clear_start(AssertBuffer::HEADER_BYTES)?;
        let records = words.get(AssertBuffer::HEADER_BYTES / WORD..).unwrap_or_default();
        let failures = records
            .chunks_exact(AssertBuffer::RECORD_BYTES / WORD)
            .filter_map(|record| self.sites.decode(record))
            .collect();
        let device = self.memory.context().label();
        Ok(Some(AssertFailures::new(&self.sites, device, total, failures)))
    }
}

/// The reports of kernels that were launched since they were last asked for, each with the thread that
/// launched it.
#[derive(Default)]
pub(super) struct AssertReports(Mutex<PendingReports>);

/// As long as it is held, no launch with assertions is queued, and no memory of them is read and cleared.
#[derive(Default)]
pub(super) struct PendingReports(Vec<(Weak<()>, Pending)>);

/// The reports that a waiting call has to read.
enum Pending {
    /// The memory of a kernel.
    Report(Arc<AssertReport>),
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
    pub(super) fn note(&mut self, report: &Arc<AssertReport>) {
        let thread = this_thread();
        let reports = &mut self.0;
        let is_known = |(by, pending): &(Weak<()>, Pending)| match pending {
            Pending::Report(known) => Weak::ptr_eq(by, &thread) && Arc::ptr_eq(known, report),
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
