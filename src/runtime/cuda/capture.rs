//! Defines [`Capture`], the resources of recorded work.

use std::any::Any;
use std::sync::Arc;

use super::kernel_name::KernelId;
use super::pending_report::Report;
#[cfg(feature = "nccl")]
use super::stream::Stream;
use super::submission_counter::QueuedLaunches;
use super::uses::Uses;
#[cfg(feature = "nccl")]
use crate::runtime::error::RuntimeError;

/// A resource that a graph keeps.
pub(super) trait Resource: Send + Sync {
    /// Returns the work that uses it.
    fn uses(&self) -> &Uses;
}

/// A library whose calls a graph has.
#[cfg(feature = "nccl")]
pub(super) trait Launched: Send + Sync {
    /// Fails if the graph must not be launched any more.
    fn check(&self) -> Result<(), RuntimeError>;
    /// Notes a launch of the graph.
    fn note(&self, stream: &Arc<Stream>);
}

/// The resources of recorded work.
#[derive(Default)]
pub(super) struct Capture {
    /// Memory, and whether the work writes it.
    pub(super) used: Vec<(Arc<dyn Resource>, bool)>,
    pub(super) code: Vec<Arc<Uses>>,
    pub(super) reports: Vec<Arc<dyn Report>>,
    pub(super) owners: Vec<Arc<dyn Any + Send + Sync>>,
    #[cfg(feature = "nccl")]
    pub(super) launched: Vec<Arc<dyn Launched>>,
    pub(super) launches: Option<QueuedLaunches>,
    /// Launches, copies and fills.
    pub(super) nodes: u64,
}

impl Capture {
    /// Returns the uses that a launch of the work waits for, and whether it writes what they are of.
    pub(super) fn ordered(&self) -> impl Iterator<Item = (&Uses, bool)> {
        self.used.iter().map(|(used, writes)| (used.uses(), *writes))
    }

    /// Notes that the work uses a resource.
    pub(super) fn note_use(&mut self, used: &Arc<impl Resource + 'static>, writes: bool) {
        let used = Arc::clone(used) as Arc<dyn Resource>;
        match self.used.iter_mut().find(|(known, _)| address(known) == address(&used)) {
            Some((_, known)) => *known |= writes,
            None => self.used.push((used, writes)),
        }
    }

    /// Notes a library that each launch of the graph asks and tells.
    #[cfg(feature = "nccl")]
    pub(super) fn note_launched(&mut self, library: Arc<dyn Launched>) {
        add(&mut self.launched, library);
    }

    /// Notes a copy or a fill.
    pub(super) fn note_node(&mut self) {
        self.nodes += 1;
    }

    /// Notes a launch: its kernel, the uses of its code, its assertions, what keeps the code loaded.
    pub(super) fn note_launch(
        &mut self,
        kernel: KernelId,
        code: &Arc<Uses>,
        report: Option<Arc<dyn Report>>,
        owner: Arc<dyn Any + Send + Sync>,
    ) {
        add(&mut self.code, Arc::clone(code));
        add(&mut self.owners, owner);
        if let Some(report) = report {
            add(&mut self.reports, report);
        }
        let count = 1 + self.launches.map_or(0, |launches| launches.count);
        self.launches = Some(QueuedLaunches { count, kernel });
        self.nodes += 1;
    }
}

fn address<T: ?Sized>(one: &Arc<T>) -> *const () {
    Arc::as_ptr(one).cast()
}

fn add<T: ?Sized>(all: &mut Vec<Arc<T>>, new: Arc<T>) {
    if !all.iter().any(|known| address(known) == address(&new)) {
        all.push(new);
    }
}
