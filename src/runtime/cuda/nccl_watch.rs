//! Watches a communicator for errors, dead ranks and hangs, and aborts it.
//!
//! Each communicator has two threads. One asks the driver which work has ended. The other watches
//! the clock, decides when the communicator has failed, and aborts it. Only the first one calls the
//! driver, because another thread's call may hold the driver's lock for as long as a collective
//! hangs, for example a copy to pageable memory or a module load. A single thread would then wait
//! for the lock and never abort the collective.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::context::Context;
use super::event::Event;
use super::nccl::{self, Nccl, RawComm};
use super::stream::Stream;
use crate::runtime::comm::{CommError, CommOptions, UniqueId};
use crate::runtime::error::RuntimeError;

/// Polling interval.
const POLL: Duration = Duration::from_millis(100);
/// Polling interval after the communicator was dropped, and how long the drop waits for its end at
/// most.
const CLOSING_POLL: Duration = Duration::from_millis(1);
const CLOSING: Duration = Duration::from_secs(2);
/// How long work may continue after another rank's process has ended, or after an abort.
const GRACE: Duration = Duration::from_secs(1);

/// A communicator as its calls and its two threads share it.
pub(super) struct Shared {
    api: &'static Nccl,
    pub(super) context: &'static Context,
    pub(super) raw: RawComm,
    /// The communicator's id, unique within the process.
    number: u64,
    id: [u8; UniqueId::BYTES],
    rank: u32,
    timeout: Duration,
    failed: OnceLock<CommError>,
    /// How many calls are in progress, and how many were started in total.
    pub(super) calls: AtomicU64,
    pub(super) started: AtomicU64,
    queued: Mutex<Queued>,
    /// The work that is known to have ended, in the count of [`Queued::work`].
    ended: AtomicU64,
    processes: OnceLock<Vec<ProcessId>>,
    phase: Mutex<Phase>,
    changed: Condvar,
}

// SAFETY: the communicator is a name; everything that changes is atomic or behind a lock.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A communicator's queued work.
#[derive(Default)]
struct Queued {
    /// Counts calls, and launches of graphs that contain calls.
    work: u64,
    /// The streams on which work was queued since the last mark. They are kept alive as long as the
    /// work, so that we can see it end.
    streams: Vec<Arc<Stream>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// The user has dropped the communicator.
    Closing,
    /// NCCL has ended it.
    Ended,
    /// Its work has ended too, and its threads use no stream and no event any more.
    Released,
}

/// All communicators of the process.
static LIVE: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// The next communicator id.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

impl Shared {
    /// Starts two threads that watch a communicator.
    pub(super) fn start(
        api: &'static Nccl,
        context: &'static Context,
        raw: RawComm,
        id: [u8; UniqueId::BYTES],
        rank: u32,
        options: CommOptions,
    ) -> Result<Arc<Shared>, RuntimeError> {
        let shared = Arc::new(Shared {
            api,
            context,
            raw,
            number: NUMBERS.fetch_add(1, Relaxed),
            id,
            rank,
            timeout: options.timeout,
            failed: OnceLock::new(),
            calls: AtomicU64::new(0),
            started: AtomicU64::new(0),
            queued: Mutex::default(),
            ended: AtomicU64::new(0),
            processes: OnceLock::new(),
            phase: Mutex::new(Phase::Open),
            changed: Condvar::new(),
        });
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|other| other.strong_count() > 0);
        live.push(Arc::downgrade(&shared));
        drop(live);
        context.expect_comms();
        let spawn = |name: &str, run: fn(&Shared)| {
            let (shared, name) = (Arc::clone(&shared), format!("tilewright nccl {name} {rank}"));
            let started = thread::Builder::new().name(name).spawn(move || run(&shared));
            started.map_err(|error| nccl::no_thread(&error))
        };
        spawn("look", Shared::look)?;
        if let Err(error) = spawn("watch", Shared::watch) {
            *shared.phase() = Phase::Ended;
            return Err(error);
        }
        Ok(shared)
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone().into()))
    }

    /// Stores the processes of all ranks.
    pub(super) fn set_processes(&self, bytes: &[u8]) {
        let all = bytes.chunks_exact(ProcessId::BYTES).map(ProcessId::from_bytes);
        // All of them are running now. If one seems to have ended, it is not visible from here.
        let visible = |process: ProcessId| match process.has_ended() {
            true => ProcessId { system: 0, ..process },
            false => process,
        };
        let _ = self.processes.set(all.map(visible).collect());
    }

    fn queued(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that work of the communicator was queued on the stream.
    pub(super) fn note_work(&self, stream: &Arc<Stream>) {
        let mut queued = self.queued();
        queued.work += 1;
        if !queued.streams.iter().any(|known| Arc::ptr_eq(known, stream)) {
            queued.streams.push(Arc::clone(stream));
        }
    }

    /// Returns whether a call is in progress or work is in flight.
    fn is_busy(&self) -> bool {
        self.calls.load(SeqCst) > 0 || self.ended.load(Acquire) != self.queued().work
    }

    /// Makes all calls of the process's ranks fail with the error.
    fn fail(&self, error: &CommError) {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let ranks: Vec<Arc<Shared>> = live.iter().filter_map(Weak::upgrade).collect();
        drop(live);
        for rank in ranks.iter().filter(|rank| rank.id == self.id) {
            // The watching thread takes this lock before it looks, so it cannot end the work before
            // waiting calls can find out why.
            let _phase = rank.phase();
            if rank.failed.set(error.clone()).is_ok() {
                rank.context.note_comm_failure(rank.number, error.clone());
            }
            rank.changed.notify_all();
        }
    }

    /// Fails the communicator, and waits until this rank's work is aborted.
    pub(super) fn abort(&self) {
        self.fail(&CommError::Aborted { rank: self.rank });
        drop(self.wait_for(Phase::Ended, self.phase(), 4 * GRACE));
    }

    /// Lets the communicator end when its work has ended, and waits for that, but not for ranks
    /// that continue.
    pub(super) fn close(&self) {
        self.context.forget_comm_failure(self.number);
        let mut phase = self.phase();
        if *phase == Phase::Open {
            *phase = Phase::Closing;
        }
        self.changed.notify_all();
        // So that a process that exits right after this does not exit while it is inside NCCL, or
        // while a thread lets go of the last streams. If no abort ends the work, it keeps them.
        let phase = self.wait_for(Phase::Ended, phase, CLOSING);
        if self.context.check_hung_comms().is_ok() {
            drop(self.wait_for(Phase::Released, phase, GRACE));
        }
    }

    /// Waits until the phase is reached, or `max` has passed.
    fn wait_for<'s>(
        &'s self,
        wanted: Phase,
        mut phase: MutexGuard<'s, Phase>,
        max: Duration,
    ) -> MutexGuard<'s, Phase> {
        let start = Instant::now();
        while *phase < wanted
            && let Some(left) = max.checked_sub(start.elapsed())
        {
            let waited = self.changed.wait_timeout(phase, left);
            phase = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        phase
    }

    /// Waits for the next poll, or until something changes.
    fn pause<'s>(&'s self, phase: MutexGuard<'s, Phase>) -> MutexGuard<'s, Phase> {
        let poll = if *phase == Phase::Closing { CLOSING_POLL } else { POLL };
        self.changed.wait_timeout(phase, poll).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Notes which work has ended. Its driver calls can block as long as a collective hangs.
    fn look(&self) {
        let mut mark: Option<Mark> = None;
        loop {
            let passed = |event: &Event| event.is_passed().unwrap_or(true);
            let ended = mark.take_if(|mark| mark.events.iter().all(passed));
            if let Some(Mark { work, .. }) = &ended {
                self.ended.store(*work, Release);
            }
            if mark.is_none() && self.ended.load(Relaxed) != self.queued().work {
                mark = Some(Mark::behind(self));
            }
            // An event of a context with a hung communicator is not destroyed, so forget it first.
            if mark.is_none() {
                self.context.forget_hung_comm(self.number);
            }
            drop(ended);
            let mut phase = self.phase();
            if mark.is_none() && *phase == Phase::Ended {
                // It may have failed in the meantime.
                self.context.forget_hung_comm(self.number);
                *phase = Phase::Released;
                self.changed.notify_all();
                return;
            }
            drop(self.pause(phase));
        }
    }

    /// Watches the clock. Calls nothing that can block until the communicator has failed.
    fn watch(&self) {
        let mut watch = Watch::default();
        loop {
            let (closing, failed) = {
                let mut phase = self.phase();
                if self.failed.get().is_none() && (*phase == Phase::Open || self.is_busy()) {
                    phase = self.pause(phase);
                }
                (*phase == Phase::Closing, self.failed.get().is_some())
            };
            if failed {
                self.give_up();
                break;
            }
            match watch.look(self) {
                Err(error) => self.fail(&error),
                Ok(()) if closing && !self.is_busy() => {
                    // SAFETY: no call is in progress or can begin, because nobody has the
                    // communicator; its work has ended. This waits for ranks in other processes on
                    // this machine.
                    unsafe { (self.api.ncclCommDestroy)(self.raw) };
                    break;
                }
                Ok(()) => {}
            }
        }
        *self.phase() = Phase::Ended;
        self.changed.notify_all();
    }

    /// Ends the work of a communicator that has failed.
    fn give_up(&self) {
        // First let calls finish that can finish by themselves. NCCL ends a call that hangs.
        let start = Instant::now();
        while self.calls.load(SeqCst) > 0 && start.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(1));
        }
        // SAFETY: no call begins, because the communicator has failed. NCCL allows another thread
        // to abort a call that hangs.
        unsafe { (self.api.ncclCommAbort)(self.raw) };
    }
}

/// Events after work that is in flight.
struct Mark {
    /// The work before the events, in the count of [`Queued::work`].
    work: u64,
    events: Vec<Event>,
    /// The work's streams, which must not be destroyed before it ends.
    _streams: Vec<Arc<Stream>>,
}

impl Mark {
    /// Records events after all work that is queued now.
    fn behind(shared: &Shared) -> Mark {
        // Do not hold the lock during driver calls, because the communicator's calls take it.
        let (work, streams) = {
            let mut queued = shared.queued();
            (queued.work, mem::take(&mut queued.streams))
        };
        let mark = |stream: &Arc<Stream>| -> Result<Event, RuntimeError> {
            let event = Event::without_time(shared.context)?;
            event.record_on(stream)?;
            Ok(event)
        };
        // This fails if other code captures the stream now, or if the device is lost. Then the next
        // poll or another call finds the end.
        let events = streams.iter().filter_map(|stream| mark(stream).ok()).collect();
        Mark { work, events, _streams: streams }
    }
}

/// What a watching thread has seen so far.
#[derive(Default)]
struct Watch {
    /// If work is in flight: how much work had ended, and since when this has not changed.
    work: Option<(u64, Instant)>,
    /// If a call is in progress: how many calls were started, and since when this has not changed.
    call: Option<(u64, Instant)>,
    /// The rank whose process has ended, and when this was found.
    dead: Option<(u32, Instant)>,
}

impl Watch {
    /// Polls the communicator once.
    fn look(&mut self, shared: &Shared) -> Result<(), CommError> {
        let mut error = nccl::SUCCESS;
        // SAFETY: only this thread ends the communicator, and it has not done so. `error` is a
        // local out parameter.
        let status = unsafe { (shared.api.ncclCommGetAsyncError)(shared.raw, &mut error) };
        for status in [status, error] {
            if !matches!(status, nccl::SUCCESS | nccl::IN_PROGRESS) {
                return Err(shared.api.error("ncclCommGetAsyncError", status));
            }
        }
        let started = shared.started.load(Relaxed);
        self.call = match (shared.calls.load(SeqCst), self.call) {
            (0, _) => None,
            (_, Some((seen, since))) if seen == started => Some((seen, since)),
            _ => Some((started, Instant::now())),
        };
        let ended = shared.ended.load(Acquire);
        self.work = match self.work {
            _ if ended == shared.queued().work => None,
            Some((seen, since)) if seen == ended => Some((seen, since)),
            _ => Some((ended, Instant::now())),
        };
        let since = [self.call, self.work].into_iter().flatten().map(|(_, since)| since);
        let Some(since) = since.min() else {
            self.dead = None;
            return Ok(());
        };
        if self.dead.is_none() {
            let processes = shared.processes.get().map_or(&[][..], |all| all);
            let dead = processes.iter().zip(0..).find(|(process, _)| process.has_ended());
            self.dead = dead.map(|(_, rank)| (rank, Instant::now()));
        }
        match self.dead {
            Some((rank, found)) if found.elapsed() > GRACE => Err(CommError::PeerGone { rank }),
            _ if since.elapsed() > shared.timeout => Err(CommError::TimedOut {
                call: format!("work of rank {}", shared.rank),
                timeout: shared.timeout,
            }),
            _ => Ok(()),
        }
    }
}

/// A process on this or another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessId {
    /// The running system and its process-id namespace; 0 if they are unknown.
    system: u64,
    pid: u64,
    /// When the process was started, which distinguishes it from another process with the same id.
    start: u64,
}

impl ProcessId {
    pub(super) const BYTES: usize = 24;

    pub(super) fn own() -> ProcessId {
        let pid = std::process::id().into();
        let start = start_of(pid).unwrap_or(0);
        ProcessId { system: own_system(), pid, start }
    }

    pub(super) fn to_bytes(self) -> [u8; ProcessId::BYTES] {
        let mut bytes = [0; ProcessId::BYTES];
        for (to, number) in bytes.chunks_exact_mut(8).zip([self.system, self.pid, self.start]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> ProcessId {
        let mut numbers = bytes.chunks_exact(8).map(|number| {
            number.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        });
        let mut next = || numbers.next().unwrap_or(0);
        ProcessId { system: next(), pid: next(), start: next() }
    }

    /// Returns whether the process ran on this system and is known to have ended.
    fn has_ended(self) -> bool {
        self.system != 0
            && self.start != 0
            && self.system == own_system()
            && start_of(self.pid) != Some(self.start)
    }
}

/// Returns a hash of the running system and its process-id namespace.
fn own_system() -> u64 {
    static SYSTEM: OnceLock<u64> = OnceLock::new();
    *SYSTEM.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/pid");
        let (Ok(boot), Ok(namespace)) = (boot, namespace) else { return 0 };
        let mut hasher = DefaultHasher::new();
        (boot, namespace).hash(&mut hasher);
        hasher.finish()
    })
}

/// Returns when a running process was started. A zombie does not count as running.
fn start_of(pid: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything. The state is the first field after it, the
    // start time the 20th.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn processes_end() {
        let own = ProcessId::own();
        assert!(own.system != 0 && own.start != 0 && !own.has_ended());
        assert_eq!(ProcessId::from_bytes(&own.to_bytes()), own);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it starts");
        let pid = child.id().into();
        let of_child = ProcessId { pid, start: start_of(pid).expect("it runs"), ..own };
        assert!(!of_child.has_ended());
        child.kill().expect("it runs");
        // It is a zombie until somebody waits for it.
        let start = Instant::now();
        while !of_child.has_ended() && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(of_child.has_ended());
        child.wait().expect("it has ended");
        assert!(of_child.has_ended());
        // Nothing is known about other systems.
        assert!(!ProcessId { system: own.system ^ 1, ..of_child }.has_ended());
    }
}
