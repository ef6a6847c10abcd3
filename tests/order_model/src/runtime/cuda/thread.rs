//! Numbers the threads of a model.

use std::cell::RefCell;

use super::sync::Arc;

pub(crate) const NO_THREAD: u64 = u64::MAX;

loom::thread_local! {
    static NUMBER: RefCell<Option<(u64, Arc<()>)>> = RefCell::new(None);
}

/// Tells whether a thread runs, as a weak reference does.
#[derive(Default)]
pub(crate) struct Alive(Option<Arc<()>>);

impl Alive {
    pub(crate) fn strong_count(&self) -> u64 {
        // `self` has one of the references.
        self.0.as_ref().map_or(0, |alive| Arc::strong_count(alive) - 1)
    }
}

/// Runs `f` as thread `number`, which ends with it.
pub(crate) fn run<R>(number: u64, f: impl FnOnce() -> R) -> R {
    NUMBER.with(|place| *place.borrow_mut() = Some((number, Arc::new(()))));
    let result = f();
    let ended = NUMBER.with(|place| place.borrow_mut().take());
    drop(ended);
    result
}

pub(crate) fn number() -> u64 {
    NUMBER.with(|place| place.borrow().as_ref().map_or(0, |(number, _)| *number))
}

pub(crate) fn register() -> Option<(u64, Alive)> {
    NUMBER.with(|place| {
        let place = place.borrow();
        let (number, alive) = place.as_ref()?;
        Some((*number, Alive(Some(alive.clone()))))
    })
}
