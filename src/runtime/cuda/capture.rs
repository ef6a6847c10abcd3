//! Defines [`Capture`]: everything that recorded work uses, so that a graph can keep it alive and
//! each launch of the graph waits for earlier work on it.

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

/// Something that a graph keeps alive and whose uses order the graph's launches, such as memory.
pub(super) trait Resource: Send + Sync {
    /// Returns the work that uses it.
    fn uses(&self) -> &Uses;
}

/// A library, such as NCCL, whose calls are part of a graph: it can refuse a launch of the graph,
/// and is told of each launch.
#[cfg(feature = "nccl")]
pub(super) trait Launched: Send + Sync {
    /// Returns an error if the graph must not be launched any more.
    fn check(&self) -> Result<(), RuntimeError>;
    /// Notes that the graph is launched on `stream`.
    fn note(&self, stream: &Arc<Stream>);
}

/// Everything that recorded work uses: memory, code, assertion reports, and whatever keeps these
/// alive.
#[derive(Default)]
pub(super) struct Capture {
    /// Memory and other resources, and whether the work writes them.
    pub(super) used: Vec<(Arc<dyn Resource>, bool)>,
    pub(super) code: Vec<Arc<Uses>>,
    pub(super) reports: Vec<Arc<dyn Report>>,
    pub(super) owners: Vec<Arc<dyn Any + Send + Sync>>,
    #[cfg(feature = "nccl")]
    pub(super) launched: Vec<Arc<dyn Launched>>,
    pub(super) launches: Option<QueuedLaunches>,
    /// How many launches, copies and fills there are.
    pub(super) nodes: u64,
}

impl Capture {
    /// Returns the uses that a launch of the recorded work has to wait for. The `bool` says whether
    /// the work writes the resource.
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

    /// Adds a library that is asked before each launch of the graph, and told of it.
    #[cfg(feature = "nccl")]
    pub(super) fn note_launched(&mut self, library: Arc<dyn Launched>) {
        add(&mut self.launched, library);
    }

    /// Counts a copy or a fill.
    pub(super) fn note_node(&mut self) {
        self.nodes += 1;
    }

    /// Adds a launch: its kernel, its code's uses, its assertions, and what keeps the code loaded.
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
