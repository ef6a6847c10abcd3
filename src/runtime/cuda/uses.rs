//! Tracks which work in flight uses some memory or a module. From this a stream learns what it has
//! to wait for, and a destructor when it may free the memory.

use smallvec::SmallVec;

use super::stream::Stream;
use super::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use super::sync::{Arc, Mutex, MutexGuard, PoisonError};
use super::timeline::{By, MANY_STREAMS};
use crate::runtime::error::RuntimeError;

/// The work that uses a thing: the last write, and every read since then, at most one per stream
/// and [`By`].
///
/// Nearly everything is used on one stream by one thread, and then nothing has to wait: the
/// stream's owner reads one integer and writes one, without a lock. All other uses are in a list.
///
/// While a thing is written, no other thread uses it: a launch borrows what it writes mutably, and
/// memory that a graph shares is protected by a lock of the context. So whoever is about to write
/// something, or to wait for its last write, sees everything that was stored for it.
pub(super) struct Uses {
    /// The id of the stream whose owner stores to `wrote` and `read`, or [`NO_STREAM`]. No other
    /// thread stores to them. Changes only under the lock.
    stream: AtomicU64,
    /// The owner's latest work that wrote the thing and that read it; each is 0 if there is none.
    wrote: AtomicU64,
    read: AtomicU64,
    /// Set if there is other work. Changes only under the lock.
    has_others: AtomicBool,
    used: Mutex<Used>,
}

/// Receives each thing that some work uses, and whether the work writes it.
pub(super) type Note<'n> = dyn FnMut(&Uses, bool) + 'n;

/// Sentinel: no stream.
const NO_STREAM: u64 = u64::MAX;

#[derive(Default)]
struct Used {
    /// The stream whose owner stores to the atomics.
    stream: Option<Arc<Stream>>,
    /// The uses by anybody else.
    write: Option<Use>,
    reads: SmallVec<[Use; 3]>,
}

/// Some work, identified by its stream and sequence number.
#[derive(Clone)]
struct Use {
    stream: Arc<Stream>,
    by: By,
    work: u64,
}

impl Use {
    fn may_run(&self) -> bool {
        self.stream.may_run(self.by, self.work)
    }

    fn is_by(&self, stream: &Stream, by: By) -> bool {
        (self.stream.number(), self.by) == (stream.number(), by)
    }
}

impl Default for Uses {
    fn default() -> Uses {
        Uses {
            stream: AtomicU64::new(NO_STREAM),
            wrote: AtomicU64::new(0),
            read: AtomicU64::new(0),
            has_others: AtomicBool::new(false),
            used: Mutex::default(),
        }
    }
}

impl Uses {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether all uses are on this stream, so that its next work need not wait.
    #[inline]
    pub(super) fn is_alone(&self, stream: &Stream) -> bool {
        self.stream.load(Acquire) == stream.number() && !self.has_others.load(Acquire)
    }

    /// Makes `stream` wait for all uses that have to come before its next work. The context must be
    /// current.
    pub(super) fn order(&self, stream: &Stream, writes: bool) -> Result<(), RuntimeError> {
        if self.is_alone(stream) {
            return Ok(());
        }
        // Held until the stream waits, so that nobody forgets what it has to wait for.
        let used = self.lock();
        self.uses(&used, writes)
            .iter()
            .try_for_each(|use_| stream.wait_for_work(&use_.stream, use_.by, use_.work))
    }

    /// Returns whether all uses that have to come before the next work of `stream` are on that
    /// stream or have ended. Asks the device but does not wait. The context must be current.
    pub(super) fn have_ended(&self, stream: &Stream, writes: bool) -> bool {
        if self.is_alone(stream) {
            return true;
        }
        let uses = self.uses(&self.lock(), writes);
        let is_before = |use_: &Use| use_.stream.number() == stream.number();
        uses.iter().all(|use_| is_before(use_) || !use_.stream.still_runs(use_.by, use_.work))
    }

    /// Returns the last write and, if `reads` is set, all reads since that write.
    fn uses(&self, used: &Used, reads: bool) -> SmallVec<[Use; 3]> {
        let mut uses: SmallVec<[Use; 3]> = used.write.iter().cloned().collect();
        if reads {
            uses.extend(used.reads.iter().cloned());
        }
        if let Some(stream) = &used.stream {
            let read = if reads { self.read.load(Relaxed) } else { 0 };
            let work = self.wrote.load(Relaxed).max(read);
            if work > 0 {
                uses.push(Use { stream: Arc::clone(stream), by: By::Owner, work });
            }
        }
        uses
    }

    /// Notes work of the calling thread, which owns the stream. Returns false if this needs the
    /// lock.
    #[inline]
    pub(super) fn note_at_once(&self, stream: &Stream, work: u64, writes: bool) -> bool {
        if self.stream.load(Acquire) != stream.number() || (writes && self.has_others.load(Relaxed))
        {
            return false;
        }
        self.latest(writes).store(work, Relaxed);
        true
    }

    fn latest(&self, writes: bool) -> &AtomicU64 {
        if writes { &self.wrote } else { &self.read }
    }

    /// Notes work that already waits for everything that has to come before it.
    pub(super) fn note(&self, stream: &Arc<Stream>, by: By, work: u64, writes: bool) {
        let used = &mut *self.lock();
        if writes {
            // All earlier uses have been waited for.
            (used.write, used.reads, used.stream) = (None, SmallVec::new(), None);
            self.stream.store(NO_STREAM, Relaxed);
        }
        let is_owner = by == By::Owner;
        if is_owner && (used.stream.is_none() || self.stream.load(Relaxed) == stream.number()) {
            if used.stream.is_none() {
                self.latest(!writes).store(0, Relaxed);
            }
            self.latest(writes).store(work, Relaxed);
            used.stream = Some(Arc::clone(stream));
        } else if writes {
            used.write = Some(Use { stream: Arc::clone(stream), by, work });
        } else {
            match used.reads.iter_mut().find(|read| read.is_by(stream, by)) {
                Some(read) => read.work = read.work.max(work),
                None => {
                    // Things that are only read, above all code, would otherwise keep every stream
                    // that ever read them.
                    if used.reads.len() >= MANY_STREAMS && used.reads.len().is_power_of_two() {
                        used.reads.retain(|read| read.stream.still_runs(read.by, read.work));
                    }
                    used.reads.push(Use { stream: Arc::clone(stream), by, work });
                }
            }
        }
        self.has_others.store(used.write.is_some() || !used.reads.is_empty(), Release);
        let number = used.stream.as_ref().map_or(NO_STREAM, |stream| stream.number());
        self.stream.store(number, Release);
    }

    /// Returns the stream of the last write, if it may still be in flight.
    pub(super) fn writer(&self) -> Option<Arc<Stream>> {
        let mut writes = self.uses(&self.lock(), false).into_iter();
        writes.find(Use::may_run).map(|write| write.stream)
    }

    /// Blocks until the last write has ended and, if `reads` is set, all reads, too. If other code
    /// captures one of the streams, waits for the others and then returns an error. The context
    /// must be current.
    pub(super) fn wait(&self, reads: bool) -> Result<(), RuntimeError> {
        // The lock is released before waiting.
        let uses = self.uses(&self.lock(), reads);
        let mut result = Ok(());
        for use_ in uses.iter().filter(|use_| use_.may_run()) {
            match use_.stream.wait() {
                Err(RuntimeError::StreamCaptures) => result = Err(RuntimeError::StreamCaptures),
                waited => waited?,
            }
        }
        result
    }
}

/// Returns whether a graph shares the thing.
#[inline]
pub(super) fn is_shared<T>(thing: &Arc<T>) -> bool {
    let is_shared = Arc::strong_count(thing) > 1;
    if !is_shared {
        // Makes everything that a graph has noted visible.
        fence(Acquire);
    }
    is_shared
}

/// Waits for all uses of a thing that nobody shares. Returns an error if a graph shares it, because
/// the graph could be launched after the wait and dropped before the caller looks. The context must
/// be current.
pub(super) fn wait_alone<T>(
    thing: &Arc<T>,
    uses: impl FnOnce(&T) -> &Uses,
) -> Result<(), RuntimeError> {
    if is_shared(thing) {
        return Err(RuntimeError::BufferShared);
    }
    uses(thing).wait(true)
}
