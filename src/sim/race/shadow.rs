//! Shadow memory: for each word the last write and the reads since, by byte.
//!
//! A word has the record of its last write, room for two of reads, and a list for more: for writes of parts of the word,
//! for atomic operations without an order, for readers without an order. A record that happens before a new one of the
//! same kind is replaced (FastTrack, Flanagan and Freund 2009), since whatever happens after the new one happens after
//! both.

use std::collections::HashMap;

use super::clock::{Component, Range};
use super::layout::{Layout, Source, rank};
use super::threads::{Fact, Own, State};
use crate::ir::op::MemScope;

/// Bits of [`Record::word`] below the step.
const STEP: u32 = 10;
/// The most records of a word beyond those in its cell.
const LIMIT: usize = 64;

/// Accesses by one component at one count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) component: Component,
    pub(super) count: u32,
    /// The lanes that accessed all of the bytes; or 5 bits for each byte, the lane that accessed it.
    lanes: u32,
    /// 4 bits of bytes, then the flags, then the step.
    word: u32,
}

const BY_BYTE: u32 = 1 << 4;
const WRITES: u32 = 1 << 5;
const STRONG: u32 = 1 << 6;
const ASYNC: u32 = 1 << 7;
/// Two bits: the rank of the scope of a strong operation.
const SCOPE: u32 = 8;
/// The flags that two records of one kind have in common.
const KIND: u32 = WRITES | STRONG | ASYNC | 3 << SCOPE;

impl Record {
    pub(super) fn bytes(&self) -> u32 {
        self.word & 15
    }

    pub(super) fn writes(&self) -> bool {
        self.word & WRITES != 0
    }

    pub(super) fn is_async(&self) -> bool {
        self.word & ASYNC != 0
    }

    /// The rank of the scope of a strong operation.
    pub(super) fn strong(&self) -> Option<u32> {
        (self.word & STRONG != 0).then_some(self.word >> SCOPE & 3)
    }

    pub(super) fn step(&self) -> u32 {
        self.word >> STEP
    }

    /// The lanes that accessed one of `bytes`.
    #[inline]
    pub(super) fn lanes_at(&self, bytes: u32) -> u32 {
        if self.word & BY_BYTE == 0 {
            return self.lanes;
        }
        let here = bytes & self.bytes();
        let lane = |byte: u32| 1 << (self.lanes >> (5 * byte) & 31);
        (0..4).filter(|byte| here >> byte & 1 == 1).fold(0, |lanes, byte| lanes | lane(byte))
    }

    /// Takes bytes away.
    fn clip(&mut self, bytes: u32) {
        self.word &= !(bytes & 15);
    }

    /// Takes in a record of one lane and of the same kind, component and count. Returns whether that is possible.
    fn take(&mut self, other: &Record) -> bool {
        let (mine, bytes) = (self.bytes(), other.bytes());
        if mine == bytes && (self.word | other.word) & BY_BYTE == 0 {
            self.lanes |= other.lanes;
            return true;
        }
        let one = |record: &Record| record.word & BY_BYTE != 0 || record.lanes.is_power_of_two();
        if mine & bytes != 0 || !one(self) || !one(other) {
            return false;
        }
        let mut lanes = 0;
        for byte in 0..4 {
            let has = mine >> byte & 1 == 1;
            let lane = if has { self.lanes_at(1 << byte) } else { other.lanes_at(1 << byte) };
            lanes |= (lane.trailing_zeros() & 31) << (5 * byte);
        }
        (self.lanes, self.word) = (lanes, self.word | bytes | BY_BYTE);
        true
    }

    /// Takes one lane away where it accessed no other than `bytes`.
    fn remove(&mut self, lane: u32, bytes: u32) {
        if self.word & BY_BYTE == 0 {
            if self.bytes() & !bytes == 0 {
                self.lanes &= !lane;
                if self.lanes == 0 {
                    self.clip(15);
                }
            }
            return;
        }
        for byte in (0..4).filter(|byte| bytes >> byte & 1 == 1) {
            if self.lanes_at(1 << byte) == lane {
                self.clip(1 << byte);
            }
        }
    }
}

/// A new access, the same for all its words but for the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) component: Component,
    pub(super) count: u32,
    /// One lane.
    pub(super) lane: u32,
    pub(super) writes: bool,
    /// The scope of a strong operation.
    pub(super) strong: Option<MemScope>,
    /// Made by the asynchronous proxy.
    pub(super) is_async: bool,
    pub(super) step: u32,
}

impl Access {
    fn record(&self, bytes: u32) -> Record {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let strong = self.strong.map_or(0, |scope| STRONG | rank(scope) << SCOPE);
        let kind = flag(self.writes, WRITES) | flag(self.is_async, ASYNC) | strong;
        let word = bytes | kind | self.step << STEP;
        Record { component: self.component, count: self.count, lanes: 1 << self.lane, word }
    }
}

/// An operation that completes at an mbarrier: the phase that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) barrier: Component,
    /// The phases that have completed with it; `u32::MAX` while it is pending.
    pub(super) phases: u32,
}

impl Completion {
    /// Returns whether it is pending.
    pub(super) fn is_pending(self) -> bool {
        self.phases == u32::MAX
    }
}

/// The completions of operations of other clusters.
pub(super) type FarCompletions = HashMap<(Component, u32), Completion>;

/// The thread that makes an access: what it knows.
pub(super) struct View<'v> {
    pub(super) layout: &'v Layout,
    pub(super) range: Range,
    pub(super) state: &'v State,
    /// The components of its warp, its warp in the cluster, and its lane as a mask.
    pub(super) own: Own,
    pub(super) warp: u32,
    pub(super) lane: u32,
    /// The fact that accesses of threads must be before an access of the asynchronous proxy.
    pub(super) proxy: Option<Fact>,
    /// Of the operations of the cluster, by their number.
    pub(super) completions: &'v [Completion],
    pub(super) far: Option<&'v FarCompletions>,
    /// A component, and the first and last count at which all its accesses were found to be before this one.
    memo: (Component, u32, u32),
}

/// Order of an earlier access and a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Before,
    Concurrent,
    /// Before, but not visible to the other proxy.
    Invisible,
}

impl<'v> View<'v> {
    pub(super) fn new(
        (layout, range): (&'v Layout, Range),
        state: &'v State,
        (own, warp, lane): (Own, u32, u32),
        proxy: Option<Fact>,
        completions: &'v [Completion],
    ) -> View<'v> {
        let memo = (Component::MAX, 0, 0);
        View { layout, range, state, own, warp, lane, proxy, completions, far: None, memo }
    }

    /// Returns the order of a record and the new access to `bytes`.
    #[inline]
    pub(super) fn order(&mut self, record: &Record, bytes: u32) -> Order {
        let (component, first, last) = self.memo;
        if record.component == component && (first..=last).contains(&record.count) {
            return Order::Before;
        }
        let lanes = record.lanes_at(bytes);
        if record.component == self.own[0] && self.proxy.is_none() {
            let others = lanes & !self.lane;
            // A value that several lanes have stored, and the own one among them, is the same for all.
            let same = record.writes() && record.word & BY_BYTE == 0;
            if others == 0 || same && lanes & self.lane != 0 {
                return Order::Before;
            }
        }
        self.order_of(record, lanes)
    }

    /// The completion of an operation.
    fn completion(&self, component: Component, count: u32) -> Option<Completion> {
        let index = component.wrapping_sub(self.range.first);
        if index < self.range.count {
            return self.completions.get(count as usize).copied();
        }
        self.far.and_then(|far| far.get(&(component, count)).copied())
    }

    /// The lanes of a record but the own one, if `knows` says for its component that this one is known.
    fn others(&self, record: &Record, lanes: u32, knows: impl Fn(usize) -> u32) -> u32 {
        match self.own.iter().position(|own| *own == record.component) {
            Some(wing) if knows(wing) >= record.count => lanes & !self.lane,
            _ => lanes,
        }
    }

    /// Returns whether a fact holds of the accesses of lanes of a record.
    pub(super) fn has_fact(&self, fact: Fact, record: &Record, lanes: u32) -> bool {
        let others = self.others(record, lanes, |wing| self.state.own(fact, wing));
        self.state.known.fact(fact).covers(record.component, others, record.count)
    }

    fn order_of(&mut self, record: &Record, lanes: u32) -> Order {
        let Record { component, count, .. } = *record;
        let (_, source, _) = self.layout.source(component);
        let order = &self.state.known.order;
        let loads = source == Source::Loads;
        let before = if loads {
            self.completion(component, count).is_some_and(|found| {
                !found.is_pending() && order.covers(found.barrier, u32::MAX, found.phases)
            })
        } else {
            let others = self.others(record, lanes, |wing| self.state.waited(wing));
            order.covers(component, others, count)
        };
        if !before {
            return Order::Concurrent;
        }
        let fact = self.proxy.filter(|_| !record.is_async());
        if fact.is_some_and(|fact| !loads && !self.has_fact(fact, record, lanes)) {
            return Order::Invisible;
        }
        let fact = fact.map(|fact| self.state.known.fact(fact));
        // Later words mostly have the same record.
        if loads {
            self.memo = (component, count, count);
        } else if order.base(component) >= count
            && fact.is_none_or(|fact| fact.base(component) >= count)
        {
            self.memo = (component, 0, count);
        }
        Order::Before
    }

    /// Returns whether two operations are morally strong (PTX ISA 8.7.1), so that they do not race: strong, of one proxy,
    /// and each in the scope of the other.
    fn is_strong_with(&self, access: &Access, record: &Record) -> bool {
        if access.is_async != record.is_async() {
            return false;
        }
        let (Some(here), Some(there)) = (access.strong, record.strong()) else { return false };
        let distance = rank(self.layout.distance(self.range, self.warp, record.component));
        distance <= rank(here) && distance <= there
    }
}

/// An earlier access that races with a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clash {
    pub(super) record: Record,
    pub(super) order: Order,
    /// The word, and the bytes of it that both access.
    pub(super) word: usize,
    pub(super) bytes: u32,
}

/// The accesses to a word.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Record,
    reads: [Record; 2],
    /// One more than the index of the list with more; 0 for none.
    more: u32,
}

/// At most 16 bytes of shadow for each byte.
const _: () = assert!(size_of::<Cell>() <= 64);

/// Words of a page.
const PAGE: usize = 1024;

/// Lists of records that their cells have no room for.
#[derive(Debug, Default)]
struct Lists {
    all: Vec<Vec<Record>>,
    free: Vec<u32>,
}

impl Lists {
    fn push(&mut self, more: &mut u32, record: Record) {
        if *more == 0 {
            *more = self.free.pop().unwrap_or_else(|| {
                self.all.push(Vec::new());
                self.all.len() as u32
            });
        }
        let list = &mut self.all[*more as usize - 1];
        if list.len() >= LIMIT {
            list.remove(0);
        }
        list.push(record);
    }

    fn of(&self, more: u32) -> &[Record] {
        if more == 0 { &[] } else { &self.all[more as usize - 1] }
    }

    fn of_mut(&mut self, more: u32) -> &mut [Record] {
        if more == 0 { &mut [] } else { &mut self.all[more as usize - 1] }
    }

    /// Keeps the records that `f` keeps; it may change them.
    fn retain(&mut self, more: &mut u32, f: impl FnMut(&mut Record) -> bool) {
        if *more == 0 {
            return;
        }
        let list = &mut self.all[*more as usize - 1];
        list.retain_mut(f);
        if list.is_empty() {
            self.free.push(*more);
            *more = 0;
        }
    }
}

/// The shadow of a memory.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: Vec<Option<Box<[Cell]>>>,
    lists: Lists,
}

impl Shadow {
    pub(super) fn new(len_bytes: usize) -> Shadow {
        let mut pages = Vec::new();
        pages.resize_with(len_bytes.div_ceil(4 * PAGE), || None);
        Shadow { pages, lists: Lists::default() }
    }

    /// Forgets all accesses.
    pub(super) fn reset(&mut self) {
        for page in self.pages.iter_mut().flatten() {
            page.fill(Cell::default());
        }
        self.lists = Lists::default();
    }

    /// Makes an access to bytes `at .. at + len`, and calls `clash` with each earlier access in a race with it.
    #[inline]
    pub(super) fn access(
        &mut self,
        view: &mut View<'_>,
        access: &Access,
        (at, len): (usize, usize),
        clash: &mut dyn FnMut(Clash),
    ) {
        let (mut from, end) = (at, at + len);
        while from < end {
            let word = from / 4;
            let to = end.min(word * 4 + 4);
            let bytes = (15 >> (4 - (to - from))) << (from % 4);
            self.word(view, access, (word, bytes), clash);
            from = to;
        }
    }

    fn cell(&mut self, word: usize) -> Option<(&mut Cell, &mut Lists)> {
        let page = self.pages.get_mut(word / PAGE)?;
        let page = page.get_or_insert_with(|| vec![Cell::default(); PAGE].into_boxed_slice());
        Some((&mut page[word % PAGE], &mut self.lists))
    }

    fn word(
        &mut self,
        view: &mut View<'_>,
        access: &Access,
        (word, bytes): (usize, u32),
        clash: &mut dyn FnMut(Clash),
    ) {
        let Some((cell, lists)) = self.cell(word) else { return };
        let mut check = |record: &Record| {
            let both = record.bytes() & bytes;
            if both == 0 || !(record.writes() || access.writes) {
                return;
            }
            let order = view.order(record, both);
            if order != Order::Before && !view.is_strong_with(access, record) {
                clash(Clash { record: *record, order, word, bytes: both });
            }
        };
        check(&cell.write);
        if access.writes {
            cell.reads.iter().for_each(&mut check);
        }
        if cell.more != 0 {
            lists.of(cell.more).iter().for_each(&mut check);
        }
        cell.add(lists, view, access, bytes);
    }

    /// Makes an access to bytes of a word, whatever races with it.
    pub(super) fn force(
        &mut self,
        view: &mut View<'_>,
        access: &Access,
        (word, bytes): (usize, u32),
    ) {
        if let Some((cell, lists)) = self.cell(word) {
            cell.add(lists, view, access, bytes);
        }
    }

    /// The last write of one of `bytes` of a word.
    pub(super) fn last_write(&self, word: usize, bytes: u32) -> Option<Record> {
        let page = self.pages.get(word / PAGE)?.as_deref()?;
        let cell = &page[word % PAGE];
        let all = [&cell.write].into_iter().chain(self.lists.of(cell.more));
        all.copied().find(|record| record.writes() && record.bytes() & bytes != 0)
    }
}

impl Cell {
    fn add(&mut self, lists: &mut Lists, view: &mut View<'_>, access: &Access, bytes: u32) {
        let new = access.record(bytes);
        if access.writes {
            self.add_write(lists, view, access, new);
        } else {
            self.add_read(lists, view, new);
        }
    }

    fn add_write(&mut self, lists: &mut Lists, view: &mut View<'_>, access: &Access, new: Record) {
        let bytes = new.bytes();
        // A strong operation takes the place of none without an order, and of no weak access: what does not race with
        // it may race with that.
        let mut outlives = |record: &Record| {
            access.strong.is_some()
                && record.bytes() & bytes != 0
                && (record.strong().is_none()
                    || view.order(record, record.bytes() & bytes) != Order::Before)
        };
        for read in &mut self.reads {
            if read.bytes() != 0 && !outlives(read) {
                read.clip(bytes);
            }
        }
        if self.more != 0 {
            lists.retain(&mut self.more, |record| {
                if !outlives(record) {
                    record.clip(bytes);
                }
                record.bytes() != 0
            });
        }
        let mut old = self.write;
        if old.bytes() == 0 {
            self.write = new;
            return;
        }
        let same = old.component == new.component
            && old.count == new.count
            && (old.word ^ new.word) & KIND == 0;
        if same && self.write.take(&new) {
            return;
        }
        if outlives(&old) {
            if same {
                // Parts of a word, or lanes, that one record cannot say.
                lists.push(&mut self.more, new);
                return;
            }
        } else {
            old.clip(bytes);
        }
        self.write = new;
        if old.bytes() != 0 {
            lists.push(&mut self.more, old);
        }
    }

    fn add_read(&mut self, lists: &mut Lists, view: &mut View<'_>, new: Record) {
        let bytes = new.bytes();
        let kind = |record: &Record| (record.word ^ new.word) & KIND == 0;
        // One of the other proxy, and a weak one, needs more to be before a later access.
        let replaces = |record: &Record| {
            record.bytes() & !bytes == 0
                && (record.is_async() || !new.is_async())
                && (record.strong().is_some() || new.strong().is_none())
        };
        let same = |record: &Record| {
            (record.component, record.count) == (new.component, new.count) && kind(record)
        };
        // Most reads are like an earlier one: of another lane, or of the same lane in a loop that waits.
        let mut take = |read: &mut Record| read.bytes() != 0 && same(read) && read.take(&new);
        if self.reads.iter_mut().any(&mut take) || lists.of_mut(self.more).iter_mut().any(take) {
            return;
        }
        let mut place = None;
        for (index, read) in self.reads.iter_mut().enumerate() {
            if read.bytes() == 0 {
                place = place.or(Some(index));
            } else if read.component == new.component && new.component == view.own[0] {
                if kind(read) {
                    read.remove(new.lanes, bytes);
                }
            } else if replaces(read) && view.order(read, bytes) == Order::Before {
                read.clip(15);
            }
            if read.bytes() == 0 {
                place = place.or(Some(index));
            }
        }
        if self.more != 0 {
            lists.retain(&mut self.more, |read| {
                if read.writes() {
                    return true;
                }
                if read.component == new.component && new.component == view.own[0] {
                    if kind(read) {
                        read.remove(new.lanes, bytes);
                    }
                } else if replaces(read) && view.order(read, bytes) == Order::Before {
                    read.clip(15);
                }
                read.bytes() != 0
            });
        }
        match place {
            Some(index) => self.reads[index] = new,
            None => lists.push(&mut self.more, new),
        }
    }
}
