//! Which launches of a stream may overlap, for race detection between launches.
//!
//! * A launch that is not programmatic starts after all earlier work of its stream.
//! * A programmatic launch may start while earlier ones still run. `race/overlap.rs` then compares
//!   their accesses.
//! * If launches on two streams use one buffer, and one of them writes it, they run in call order,
//!   because the runtime lets one stream wait for the other.
//! * The host waits for all work on a buffer before it reads or writes the buffer.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::source::RacingAccess;
use super::memory::buffer::GlobalBuffer;
use super::race::{Before, Footprint, Party};

/// With how many earlier launches a launch is compared at most.
const MOST_EARLIER: usize = 8;

/// A stream's launches in order, so that the race detector can compare a programmatic launch with
/// the launches that it may overlap. Pass it to
/// [`Options::in_stream`](crate::sim::Options::in_stream) if you call [`run`](crate::sim::run)
/// directly; the runtime keeps one for each stream. Clones are the same stream.
#[derive(Clone)]
pub struct StreamOrder(Arc<Mutex<Launches>>);

struct Launches {
    /// The stream's id: unique, and not 0.
    number: u64,
    /// How many launches there were so far.
    launches: u64,
    /// The launches that may still run when the next one starts, each with its index.
    earlier: Vec<(u64, Arc<Earlier>)>,
}

/// The next id of a stream or an allocation.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

impl Default for StreamOrder {
    fn default() -> StreamOrder {
        let number = NUMBERS.fetch_add(1, Relaxed);
        StreamOrder(Arc::new(Mutex::new(Launches { number, launches: 0, earlier: Vec::new() })))
    }
}

/// Two values are equal if they are clones of the same stream.
impl PartialEq for StreamOrder {
    fn eq(&self, other: &StreamOrder) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for StreamOrder {}

impl fmt::Debug for StreamOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Launches { number, launches, .. } = *self.lock();
        f.debug_struct("StreamOrder").field("number", &number).field("launches", &launches).finish()
    }
}

impl StreamOrder {
    /// Makes a stream without launches, for [`Options::in_stream`](crate::sim::Options::in_stream).
    pub fn new() -> StreamOrder {
        StreamOrder::default()
    }

    /// Call this after the host has waited for the stream, or after other work was put behind the
    /// launches: the next launch then starts after all launches so far.
    pub fn finish(&self) {
        self.lock().earlier.clear();
    }

    /// The stream has waited for all uses of a buffer.
    pub(crate) fn wait_for(&self, buffer: &GlobalBuffer) {
        buffer.place().0.note_stream(self.lock().number, true);
    }

    /// Returns how many launches there were so far.
    pub(crate) fn launches(&self) -> u64 {
        self.lock().launches
    }

    /// Like [`StreamOrder::finish`], for the first `launches` launches only.
    pub(crate) fn finish_until(&self, launches: u64) {
        self.lock().earlier.retain(|(number, _)| *number >= launches);
    }

    fn lock(&self) -> MutexGuard<'_, Launches> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a launch with these buffers, each with whether the launch may write it. Returns the
    /// launches that may still run, the most recent first, each with whether `griddepcontrol.wait`
    /// waits for it.
    pub(in crate::sim) fn start(
        &self,
        programmatic: bool,
        buffers: &[(&Arc<Uses>, bool)],
    ) -> Vec<(Arc<Earlier>, bool)> {
        let Launches { number, earlier, .. } = &mut *self.lock();
        let mut waits = false;
        for (uses, writes) in buffers {
            waits |= uses.note_stream(*number, *writes);
        }
        if !programmatic || waits {
            earlier.clear();
        } else if let Some(last) = earlier.iter().rposition(|(_, launch)| launch.has_ended()) {
            // The host waits for all work of the stream.
            earlier.drain(..=last);
        }
        let mut ends = true;
        let mut before = Vec::new();
        for (_, launch) in earlier.iter().rev() {
            before.push((Arc::clone(launch), ends));
            ends &= launch.waited;
        }
        before
    }

    /// Ends a launch.
    pub(in crate::sim) fn end(&self, before: &[(Arc<Earlier>, bool)], launch: Earlier) {
        let Launches { launches, earlier, .. } = &mut *self.lock();
        let number = *launches;
        *launches += 1;
        if launch.footprint.is_none() && launch.waited {
            // The next launch starts after this one's end, and therefore after those that this one
            // has waited for.
            let ended = |launch: &Arc<Earlier>| {
                before.iter().any(|(other, ends)| *ends && Arc::ptr_eq(other, launch))
            };
            earlier.retain(|(_, launch)| !ended(launch));
        }
        if launch.footprint.is_some() || !earlier.is_empty() {
            earlier.push((number, Arc::new(launch)));
        }
        if earlier.len() > MOST_EARLIER {
            earlier.remove(0);
        }
    }
}

/// The uses of an allocation, as far as they order launches.
#[derive(Debug)]
pub(in crate::sim) struct Uses {
    /// The allocation's id: unique, and not 0.
    pub(in crate::sim) number: u64,
    /// How often the host has waited: for the last write, and for all uses.
    waits: [AtomicU64; 2],
    /// The streams of the last launch that wrote the allocation, and of the last launch; 0 if there
    /// was none.
    streams: [AtomicU64; 2],
}

impl Default for Uses {
    fn default() -> Uses {
        let number = NUMBERS.fetch_add(1, Relaxed);
        Uses { number, waits: Default::default(), streams: Default::default() }
    }
}

impl Uses {
    /// The host reads the allocation, after waiting for the last write, or writes it, after waiting
    /// for all uses.
    pub(in crate::sim) fn note_host(&self, writes: bool) {
        self.waits[usize::from(writes)].fetch_add(1, Relaxed);
    }

    /// Adds a launch on a stream. Returns whether the stream has to wait for another one first.
    fn note_stream(&self, stream: u64, writes: bool) -> bool {
        let other = |found: &AtomicU64| ![0, stream].contains(&found.load(Relaxed));
        let waits = other(&self.streams[0]) || writes && other(&self.streams[1]);
        self.streams[1].store(stream, Relaxed);
        // The stream's later work need not wait again.
        if writes || waits {
            self.streams[0].store(stream, Relaxed);
        }
        waits
    }

    fn waits(&self) -> [u64; 2] {
        [0, 1].map(|kind: usize| self.waits[kind].load(Relaxed))
    }
}

/// Names an access of a launch.
pub(in crate::sim) type NameRacer = Box<dyn Fn(Party) -> Option<RacingAccess> + Send + Sync>;

/// A launch as later launches see it.
pub(in crate::sim) struct Earlier {
    pub(in crate::sim) racer: NameRacer,
    /// `None` if no launch may start before its end.
    footprint: Option<Arc<Footprint>>,
    /// Set if one of its threads has waited for the launches before.
    waited: bool,
    /// Its buffers, each with whether the launch may write it, and how often the host had waited
    /// when the launch ended.
    buffers: Vec<(Arc<Uses>, bool, [u64; 2])>,
}

impl Earlier {
    pub(in crate::sim) fn new(
        racer: NameRacer,
        footprint: Option<Footprint>,
        waited: bool,
        buffers: &[(&Arc<Uses>, bool)],
    ) -> Earlier {
        let noted = |(uses, writes): &(&Arc<Uses>, bool)| (Arc::clone(uses), *writes, uses.waits());
        let footprint = footprint.map(Arc::new);
        Earlier { racer, footprint, waited, buffers: buffers.iter().map(noted).collect() }
    }

    /// Returns whether the host has waited for the launch.
    fn has_ended(&self) -> bool {
        self.buffers.iter().any(|(uses, writes, before)| {
            let now = uses.waits();
            now[1] != before[1] || *writes && now[0] != before[0]
        })
    }

    /// Returns the launch's accesses for a later launch.
    pub(in crate::sim) fn before(&self, ends: bool) -> Before {
        Before { footprint: self.footprint.clone().unwrap_or_default(), ends }
    }
}
