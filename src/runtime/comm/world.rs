//! The simulator's communicator, whose ranks are threads of one process. A call of one rank waits
//! in [`World`] until the others have made theirs.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use super::call::{CallKind, CallShape, CommOptions};
use super::error::CommError;
use super::reduce::reduce;
use super::unique_id::UniqueId;
use crate::runtime::error::RuntimeError;
use crate::runtime::simulator::{Memory, Stream};

/// All ranks of a communicator, and the state that they share.
struct World {
    ranks: u32,
    options: CommOptions,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    joined: Vec<u32>,
    left: Vec<u32>,
    failed: Option<CommError>,
    /// The collectives that some rank has not finished yet, by index.
    collectives: HashMap<u64, Collective>,
    messages: VecDeque<Message>,
    /// The id of the next message.
    next_message: u64,
}

/// A collective that some ranks have called.
struct Collective {
    parts: Vec<Option<(CallShape, Vec<u8>)>>,
    /// Each rank's result, once all ranks have called.
    results: Option<Vec<Option<Vec<u8>>>>,
}

/// Data that was sent and not received yet.
struct Message {
    number: u64,
    from: u32,
    to: u32,
    shape: CallShape,
    data: Vec<u8>,
}

/// One rank of a world.
pub(in crate::runtime) struct Member {
    world: Arc<World>,
    rank: u32,
    /// The index of this rank's next collective.
    next: Mutex<u64>,
}

/// A rank's call, with everything that it uses.
#[derive(Clone)]
pub(in crate::runtime) struct MemberCall {
    pub(in crate::runtime) member: Arc<Member>,
    pub(in crate::runtime) stream: Stream,
    pub(in crate::runtime) shape: CallShape,
    pub(in crate::runtime) from: Option<Memory>,
    pub(in crate::runtime) to: Option<Memory>,
}

/// A call that is visible to the other ranks.
enum Posted {
    Collective(u64),
    Sent(u64),
    Receives { peer: u32 },
}

/// All worlds that have members, by id.
static WORLDS: Mutex<Vec<(UniqueId, Weak<World>)>> = Mutex::new(Vec::new());

impl Member {
    #[inline]
    pub(super) fn connect(
        id: &UniqueId,
        rank: u32,
        ranks: u32,
        options: CommOptions,
    ) -> Result<Arc<Member>, RuntimeError> {
        let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
        worlds.retain(|(_, world)| world.strong_count() > 0);
        let known = worlds.iter().find(|(known, _)| known == id);
        let world = known.and_then(|(_, world)| world.upgrade()).unwrap_or_else(|| {
            let (state, changed) = (Mutex::default(), Condvar::new());
            let world = Arc::new(World { ranks, options, state, changed });
            worlds.push((*id, Arc::downgrade(&world)));
            world
        });
        if world.ranks != ranks {
            return Err(CommError::Rank {
                rank: ranks.max(world.ranks) - 1,
                ranks: ranks.min(world.ranks),
            }
            .into());
        }
        let mut state = world.lock();
        if state.joined.contains(&rank) {
            return Err(CommError::RankTaken { rank }.into());
        }
        state.joined.push(rank);
        drop(state);
        Ok(Arc::new(Member { world, rank, next: Mutex::default() }))
    }

    pub(super) fn check(&self) -> Result<(), RuntimeError> {
        self.world.lock().check()
    }

    pub(super) fn abort(&self) {
        self.world.fail(&mut self.world.lock(), CommError::Aborted { rank: self.rank });
    }

    /// Makes the call and its data visible to the other ranks.
    #[inline]
    fn post(&self, call: &MemberCall) -> Result<Posted, RuntimeError> {
        let data = match (&call.shape.kind, &call.from) {
            (CallKind::Recv { .. }, _) | (_, None) => Vec::new(),
            (_, Some(from)) => from.to_vec::<u8>(),
        };
        let (shape, rank) = (call.shape, self.rank);
        // Held until the call is posted, so that a rank's calls keep the order of their indices
        // even if two threads make them.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.world.lock();
        state.check()?;
        let posted = match shape.kind {
            CallKind::Recv { peer } => return Ok(Posted::Receives { peer }),
            CallKind::Send { peer } => {
                let number = state.next_message;
                state.next_message += 1;
                state.messages.push_back(Message { number, from: rank, to: peer, shape, data });
                Posted::Sent(number)
            }
            CallKind::AllReduce(_)
            | CallKind::AllGather
            | CallKind::ReduceScatter(_)
            | CallKind::Broadcast { .. } => {
                let number = *next;
                *next += 1;
                let ranks = self.world.ranks as usize;
                let collective = state.collectives.entry(number).or_insert_with(|| Collective {
                    parts: (0..ranks).map(|_| None).collect(),
                    results: None,
                });
                let other = collective.parts.iter().zip(0..).find_map(|(part, other)| {
                    let (other_shape, _) = part.as_ref()?;
                    (*other_shape != shape).then_some((other, *other_shape))
                });
                if let Some((other, other_shape)) = other {
                    let (call, other_call) = (shape.to_string(), other_shape.to_string());
                    let error = CommError::Mismatch { rank, call, other, other_call };
                    self.world.fail(&mut state, error.clone());
                    return Err(error.into());
                }
                if let Some(part) = collective.parts.get_mut(rank as usize) {
                    *part = Some((shape, data));
                }
                if collective.parts.iter().all(Option::is_some) {
                    collective.results = Some(results(shape, &collective.parts));
                }
                Posted::Collective(number)
            }
        };
        self.world.changed.notify_all();
        Ok(posted)
    }

    /// Waits until the call has ended on this rank, then writes its result.
    #[inline]
    fn finish(&self, call: &MemberCall, posted: &Posted) -> Result<(), RuntimeError> {
        let (rank, shape) = (self.rank, call.shape);
        let result = match *posted {
            Posted::Sent(number) => self.world.wait(&shape, |state| {
                let is_there = state.messages.iter().find(|message| message.number == number);
                match is_there {
                    None => Ok(Some(None)),
                    Some(message) => state.check_there(&[message.to]).map(|()| None),
                }
            })?,
            Posted::Receives { peer } => Some(self.world.wait(&shape, |state| {
                let is_it = |message: &Message| (message.from, message.to) == (peer, rank);
                let Some(at) = state.messages.iter().position(is_it) else {
                    return state.check_there(&[peer]).map(|()| None);
                };
                let found = state.messages[at].shape;
                if (found.scalar, found.count) != (shape.scalar, shape.count) {
                    let (call, other_call) = (shape.to_string(), found.to_string());
                    return Err(CommError::Mismatch { rank, call, other: peer, other_call });
                }
                Ok(state.messages.remove(at).map(|message| message.data))
            })?),
            Posted::Collective(number) => self.world.wait(&shape, |state| {
                let Some(collective) = state.collectives.get_mut(&number) else {
                    return Ok(Some(None));
                };
                let Some(results) = &mut collective.results else {
                    let parts = collective.parts.iter().zip(0..);
                    let missing = parts.filter_map(|(part, of)| part.is_none().then_some(of));
                    let missing: Vec<u32> = missing.collect();
                    return state.check_there(&missing).map(|()| None);
                };
                let result = results.get_mut(rank as usize).and_then(Option::take);
                if results.iter().all(Option::is_none) {
                    state.collectives.remove(&number);
                }
                Ok(Some(result))
            })?,
        };
        match (result, &call.to) {
            (Some(data), Some(to)) => to.write::<u8>(&data),
            _ => Ok(()),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        state.left.push(self.rank);
        self.world.changed.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<(), RuntimeError> {
        self.failed.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Returns an error if one of these ranks has left, because waiting for it would never end.
    fn check_there(&self, ranks: &[u32]) -> Result<(), CommError> {
        match ranks.iter().find(|rank| self.left.contains(rank)) {
            Some(&rank) => Err(CommError::PeerGone { rank }),
            None => Ok(()),
        }
    }
}

impl World {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails all calls of all ranks with the error, unless an earlier error did so.
    fn fail(&self, state: &mut State, error: CommError) {
        state.failed.get_or_insert(error);
        self.changed.notify_all();
    }

    /// Waits until `poll` returns a result, then wakes the other ranks because it may have changed
    /// the state.
    fn wait<R>(
        &self,
        shape: &CallShape,
        mut poll: impl FnMut(&mut State) -> Result<Option<R>, CommError>,
    ) -> Result<R, RuntimeError> {
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            // A result that is there is taken, even if the communicator has failed since.
            match poll(&mut state) {
                Ok(Some(result)) => {
                    self.changed.notify_all();
                    return Ok(result);
                }
                Ok(None) => state.check()?,
                Err(error) => self.fail(&mut state, error),
            }
            state.check()?;
            let timeout = self.options.timeout;
            let Some(left) = timeout.checked_sub(start.elapsed()) else {
                let call = format!("`{shape}`");
                self.fail(&mut state, CommError::TimedOut { call, timeout });
                continue;
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Returns each rank's result.
#[inline]
fn results(shape: CallShape, parts: &[Option<(CallShape, Vec<u8>)>]) -> Vec<Option<Vec<u8>>> {
    let parts: Vec<&[u8]> = parts.iter().flatten().map(|(_, data)| &data[..]).collect();
    let same = |data: Vec<u8>| (0..parts.len()).map(|_| Some(data.clone())).collect();
    match shape.kind {
        CallKind::AllReduce(op) => same(reduce(op, shape.scalar, &parts)),
        CallKind::AllGather => same(parts.concat()),
        CallKind::Broadcast { root } => {
            same(parts.get(root as usize).copied().unwrap_or_default().to_vec())
        }
        CallKind::ReduceScatter(op) => {
            let all = reduce(op, shape.scalar, &parts);
            let bytes = shape.count * shape.scalar.size_bytes() as usize;
            (0..parts.len())
                .map(|rank| Some(all[rank * bytes..(rank + 1) * bytes].to_vec()))
                .collect()
        }
        CallKind::Send { .. } | CallKind::Recv { .. } => Vec::new(),
    }
}

/// Runs one thread's calls. Calls on a stream that records a graph are recorded instead.
#[inline]
pub(super) fn run_or_record(calls: Vec<MemberCall>) -> Result<(), RuntimeError> {
    // All calls on one stream become one node of its graph.
    let mut groups: Vec<(Stream, Vec<MemberCall>)> = Vec::new();
    let mut now = Vec::new();
    for call in calls {
        if !call.stream.records() {
            now.push(call);
        } else if let Some((_, group)) =
            groups.iter_mut().find(|(s, _)| s.is_recorded_with(&call.stream))
        {
            group.push(call);
        } else {
            groups.push((call.stream.clone(), vec![call]));
        }
    }
    for (stream, group) in groups {
        stream.run_or_record(move || run(&group))?;
    }
    run(&now)
}

/// Posts all calls, then waits for each. Sends come last, because this thread itself may have to
/// receive their data.
#[inline]
fn run(calls: &[MemberCall]) -> Result<(), RuntimeError> {
    let post = |call: &MemberCall| call.member.post(call);
    let posted: Vec<Posted> = calls.iter().map(post).collect::<Result<_, _>>()?;
    let is_send = |posted: &Posted| matches!(posted, Posted::Sent(_));
    let all = || calls.iter().zip(&posted);
    let (sends, others) = (all().filter(|(_, p)| is_send(p)), all().filter(|(_, p)| !is_send(p)));
    others.chain(sends).try_for_each(|(call, posted)| call.member.finish(call, posted))
}
