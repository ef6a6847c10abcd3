//! Interns kernel names, so that work in flight can carry a small id and a fault report can still
//! name the kernel.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The id of a kernel name, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct KernelId(pub(super) u64);

static IDS: AtomicU64 = AtomicU64::new(1);

/// The names of kernels that may be running.
#[derive(Default)]
pub(super) struct KernelNames(Mutex<HashMap<KernelId, Arc<str>>>);

impl KernelNames {
    fn lock(&self) -> MutexGuard<'_, HashMap<KernelId, Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the name for as long as the result lives.
    pub(super) fn add(&'static self, name: &str) -> KernelName {
        let (id, name) = (KernelId(IDS.fetch_add(1, Relaxed)), Arc::<str>::from(name));
        self.lock().insert(id, Arc::clone(&name));
        KernelName { names: self, id, name }
    }

    pub(super) fn find(&self, id: KernelId) -> Option<String> {
        self.lock().get(&id).map(|name| name.to_string())
    }
}

/// The name of a kernel that may be running.
pub(super) struct KernelName {
    names: &'static KernelNames,
    id: KernelId,
    name: Arc<str>,
}

impl KernelName {
    pub(super) fn id(&self) -> KernelId {
        self.id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for KernelName {
    fn drop(&mut self) {
        self.names.lock().remove(&self.id);
    }
}
