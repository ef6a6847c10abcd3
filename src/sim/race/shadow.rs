//! Shadow memory: for each word, the last write and the reads since that write, with the bytes that
//! each of them touched. A new access is compared with these to find a race.
//!
//! A word's cell holds its last write and up to two reads. A list stores all other records that are
//! still needed: writes to parts of the word, atomic operations that are not ordered, more
//! concurrent readers. A record is dropped if it happens before a new one of the same kind, because
//! everything after the new one is then after both (FastTrack, Flanagan and Freund 2009). So most
//! words need no list.

use std::collections::HashMap;

use super::clock::{ALL, Component, Range};
use super::lanes_of;
use super::layout::{Layout, Source, rank};
use super::record::{Access, Record};
use super::strong::Location;
use super::threads::{Fact, Own, State};

/// How many records a word can have beyond those in its cell. The oldest is dropped.
const LIMIT: usize = 64;

/// Where an operation that signals an mbarrier completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completion {
    pub(super) barrier: Component,
    /// How many phases of the mbarrier have ended with it; `u32::MAX` while it is pending.
    pub(super) phases: u32,
}

impl Completion {
    /// Returns whether the operation has not completed yet.
    pub(super) fn is_pending(self) -> bool {
        self.phases == u32::MAX
    }
}

/// Locations of strong operations, by memory and first byte.
pub(super) type Locations = HashMap<(usize, usize), Location>;

/// Completions of other clusters' operations.
pub(super) type FarCompletions = HashMap<(Component, u32), Completion>;

/// The thread of a new access, or a warp whose lanes access together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Viewer {
    /// Its warp's components.
    pub(super) own: Own,
    /// Its warp's index in the cluster.
    pub(super) warp: u32,
    /// Its lane, as a mask.
    pub(super) lane: u32,
}

impl Viewer {
    /// Returns a warp whose lanes access together. None of its earlier accesses count as its own.
    pub(super) fn whole_warp(warp: u32) -> Viewer {
        Viewer { own: [Component::MAX; 4], warp, lane: ALL }
    }
}

/// What the thread of a new access knows.
pub(super) struct View<'v> {
    pub(super) layout: &'v Layout,
    pub(super) range: Range,
    pub(super) state: &'v State,
    /// See [`Viewer`].
    pub(super) own: Own,
    pub(super) warp: u32,
    pub(super) lane: u32,
    /// The fact that a thread's earlier access needs before an access by the asynchronous proxy.
    pub(super) proxy: Option<Fact>,
    /// Completions of the own cluster's operations, by number.
    pub(super) completions: &'v [Completion],
    pub(super) far: Option<&'v FarCompletions>,
    /// The locations of strong operations, and which memory is accessed.
    pub(super) locations: Option<(&'v Locations, usize)>,
    /// A component, and the first and last count at which all its accesses are known to be before
    /// this one.
    memo: (Component, u32, u32),
    /// If set, collects each record that is compared, once for each component and count.
    pub(super) compared: Option<&'v mut Vec<Record>>,
}

/// How an earlier access relates to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Before,
    Concurrent,
    /// Ordered before it, but not visible to the other proxy.
    Invisible,
}

impl<'v> View<'v> {
    pub(super) fn new(
        layout: &'v Layout,
        range: Range,
        state: &'v State,
        viewer: Viewer,
        proxy: Option<Fact>,
        completions: &'v [Completion],
    ) -> View<'v> {
        let (Viewer { own, warp, lane }, memo) = (viewer, (Component::MAX, 0, 0));
        View {
            layout,
            range,
            state,
            own,
            warp,
            lane,
            proxy,
            completions,
            far: None,
            locations: None,
            memo,
            compared: None,
        }
    }

    /// Returns how a record relates to the new access to `bytes`.
    #[inline]
    pub(super) fn order(&mut self, record: &Record, bytes: u32) -> Order {
        let (component, first, last) = self.memo;
        if record.component == component && (first..=last).contains(&record.count) {
            return Order::Before;
        }
        let lanes = record.lanes_at(bytes);
        if record.component == self.own[0] && self.proxy.is_none() {
            let others = lanes & !self.lane;
            // If several lanes, this one included, stored the word in one operation, they stored
            // the same value.
            let same = record.writes() && record.is_of_all_lanes();
            if others == 0 || same && lanes & self.lane != 0 {
                return Order::Before;
            }
        }
        self.order_of(record, lanes)
    }

    /// Returns where an operation completed.
    fn completion(&self, component: Component, count: u32) -> Option<Completion> {
        let index = component.wrapping_sub(self.range.first);
        if index < self.range.count {
            return self.completions.get(count as usize).copied();
        }
        self.far.and_then(|far| far.get(&(component, count)).copied())
    }

    /// Returns the record's lanes, without the own lane if `knows` says that it is known for that
    /// component.
    fn others(&self, record: &Record, lanes: u32, knows: impl Fn(usize) -> u32) -> u32 {
        match self.own.iter().position(|own| *own == record.component) {
            Some(wing) if knows(wing) >= record.count => lanes & !self.lane,
            _ => lanes,
        }
    }

    /// Returns whether a fact holds for a record's lanes.
    pub(super) fn has_fact(&self, fact: Fact, record: &Record, lanes: u32) -> bool {
        let others = self.others(record, lanes, |wing| self.state.own(fact, wing));
        self.state.known.fact(fact).covers(record.component, others, record.count)
    }

    pub(super) fn order_of(&mut self, record: &Record, lanes: u32) -> Order {
        let Record { component, count, .. } = *record;
        if let Some(compared) = &mut self.compared
            && !compared.iter().any(|found| (found.component, found.count) == (component, count))
        {
            compared.push(*record);
        }
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
        // Remember the result, because the next words mostly have the same record.
        if loads {
            self.memo = (component, count, count);
        } else if order.base(component) >= count
            && fact.is_none_or(|fact| fact.base(component) >= count)
        {
            self.memo = (component, 0, count);
        }
        Order::Before
    }

    /// Returns whether the thread knows a read that observed this strong write.
    fn has_observed(&self, record: &Record, word: usize, bytes: u32) -> bool {
        let Some((locations, memory)) = self.locations else { return false };
        if !record.writes() || record.strong().is_none() || record.is_async() {
            return false;
        }
        // The location starts at the record's first byte, or in an earlier word if the operation is
        // wider.
        let first = 4 * word + (record.bytes().trailing_zeros() as usize & 3);
        let starts = [first, 4 * word]
            .into_iter()
            .chain((1..4).filter_map(|i| (4 * word).checked_sub(4 * i)));
        let lane = self.lane.trailing_zeros();
        let knows = |operation| self.state.knows(&self.own, lane, operation);
        lanes_of(record.lanes_at(bytes)).all(|writer| {
            starts.clone().any(|start| {
                let location = locations.get(&(memory, start));
                location.is_some_and(|location| location.observed.is_before(record, writer, knows))
            })
        })
    }

    /// Returns whether two operations are morally strong (PTX ISA 8.7.1) and therefore do not race:
    /// both are strong, use the same proxy, and each scope includes the other thread.
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
    /// The word, and the bytes of it that both touch.
    pub(super) word: usize,
    pub(super) bytes: u32,
}

/// The accesses to a word.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Record,
    reads: [Record; 2],
    /// One more than the index of the list with further records; 0 if there is none.
    more: u32,
}

/// At most 16 bytes of shadow for each byte.
const _: () = assert!(size_of::<Cell>() <= 64);

/// Words in a page.
pub(super) const PAGE: usize = 1024;

/// Lists of records that do not fit into their cells.
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

    /// Copies a list and returns the copy.
    fn copy(&mut self, more: u32) -> u32 {
        let mut copy = 0;
        if more != 0 {
            for record in self.all[more as usize - 1].clone() {
                self.push(&mut copy, record);
            }
        }
        copy
    }

    fn of(&self, more: u32) -> &[Record] {
        if more == 0 { &[] } else { &self.all[more as usize - 1] }
    }

    fn of_mut(&mut self, more: u32) -> &mut [Record] {
        if more == 0 { &mut [] } else { &mut self.all[more as usize - 1] }
    }

    /// Keeps the records for which `f` returns true; `f` may change them.
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

/// Words in a chunk. Asynchronous operations mostly access whole chunks.
const CHUNK: usize = 4;

/// The cells of 4 KiB.
#[derive(Debug)]
struct Page {
    cells: Box<[Cell]>,
    /// A bit for each chunk whose words have all had the same accesses. The cell of its first word
    /// then stands for all of them.
    alike: [u64; PAGE / CHUNK / 64],
}

impl Page {
    fn new() -> Page {
        let alike = [u64::MAX; PAGE / CHUNK / 64];
        Page { cells: vec![Cell::default(); PAGE].into_boxed_slice(), alike }
    }

    fn is_alike(&self, chunk: usize) -> bool {
        self.alike[chunk / 64] >> (chunk % 64) & 1 == 1
    }

    /// Gives each word of a chunk its own cell.
    fn split(&mut self, chunk: usize, lists: &mut Lists) {
        self.alike[chunk / 64] &= !(1 << (chunk % 64));
        let first = self.cells[chunk * CHUNK];
        for cell in &mut self.cells[chunk * CHUNK + 1..(chunk + 1) * CHUNK] {
            *cell = Cell { more: lists.copy(first.more), ..first };
        }
    }

    /// Lets a chunk's first cell stand for all of them again, if its words have the same write and
    /// nothing else.
    fn join(&mut self, chunk: usize) {
        let cells = &self.cells[chunk * CHUNK..(chunk + 1) * CHUNK];
        let one = |cell: &Cell| {
            cell.more == 0
                && cell.write == cells[0].write
                && cell.reads.iter().all(|read| read.bytes() == 0)
        };
        if cells.iter().all(one) {
            self.alike[chunk / 64] |= 1 << (chunk % 64);
        }
    }
}

/// The shadow of one memory.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    pages: Vec<Option<Page>>,
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
            page.cells.fill(Cell::default());
            page.alike.fill(u64::MAX);
        }
        self.lists = Lists::default();
    }

    /// Records an access to bytes `at .. at + len`, and calls `clash` with each earlier access that
    /// races with it.
    #[inline]
    pub(super) fn access(
        &mut self,
        view: &mut View<'_>,
        access: &Access,
        at: usize,
        len: usize,
        clash: &mut dyn FnMut(Clash),
    ) {
        let (mut from, end) = (at, at + len);
        while from < end {
            let word = from / 4;
            if from % (4 * CHUNK) == 0 && end - from >= 4 * CHUNK {
                self.chunk(view, access, word, clash);
                from += 4 * CHUNK;
                continue;
            }
            let to = end.min(word * 4 + 4);
            let bytes = (15 >> (4 - (to - from))) << (from % 4);
            if let Some((cell, lists)) = self.cell(word) {
                cell.access(lists, view, access, word, bytes, clash);
            }
            from = to;
        }
    }

    fn page(&mut self, word: usize) -> Option<(&mut Page, &mut Lists)> {
        let page = self.pages.get_mut(word / PAGE)?.get_or_insert_with(Page::new);
        Some((page, &mut self.lists))
    }

    /// Returns the cell of a single word.
    fn cell(&mut self, word: usize) -> Option<(&mut Cell, &mut Lists)> {
        let (page, lists) = self.page(word)?;
        if page.is_alike(word % PAGE / CHUNK) {
            page.split(word % PAGE / CHUNK, lists);
        }
        Some((&mut page.cells[word % PAGE], lists))
    }

    /// Records an access to all words of a chunk.
    #[inline]
    fn chunk(
        &mut self,
        view: &mut View<'_>,
        access: &Access,
        first: usize,
        clash: &mut dyn FnMut(Clash),
    ) {
        let Some((page, lists)) = self.page(first) else { return };
        let chunk = first % PAGE / CHUNK;
        if page.is_alike(chunk) {
            let mut each = |found: Clash| {
                (first..first + CHUNK).for_each(|word| clash(Clash { word, ..found }));
            };
            return page.cells[first % PAGE].access(lists, view, access, first, 15, &mut each);
        }
        for word in first..first + CHUNK {
            page.cells[word % PAGE].access(lists, view, access, word, 15, clash);
        }
        if access.writes {
            page.join(chunk);
        }
    }

    /// Records an access to bytes of a word, without a search for races.
    pub(super) fn force(&mut self, view: &mut View<'_>, access: &Access, word: usize, bytes: u32) {
        if let Some((cell, lists)) = self.cell(word) {
            cell.add(lists, view, access, bytes);
        }
    }

    /// Returns the last write to one of `bytes` of a word.
    pub(super) fn last_write(&self, word: usize, bytes: u32) -> Option<Record> {
        let page = self.pages.get(word / PAGE)?.as_ref()?;
        let index = word % PAGE;
        let alike = page.is_alike(index / CHUNK);
        let cell = &page.cells[if alike { index / CHUNK * CHUNK } else { index }];
        let all = [&cell.write].into_iter().chain(self.lists.of(cell.more));
        all.copied().find(|record| record.writes() && record.bytes() & bytes != 0)
    }
}

impl Cell {
    /// Makes an access to bytes of the word.
    #[inline]
    fn access(
        &mut self,
        lists: &mut Lists,
        view: &mut View<'_>,
        access: &Access,
        word: usize,
        bytes: u32,
        clash: &mut dyn FnMut(Clash),
    ) {
        let mut check = |record: &Record| {
            let both = record.bytes() & bytes;
            if both == 0 || !(record.writes() || access.writes) {
                return;
            }
            let order = view.order(record, both);
            if order != Order::Before
                && !view.is_strong_with(access, record)
                && !(access.writes
                    && order == Order::Concurrent
                    && view.has_observed(record, word, both))
            {
                clash(Clash { record: *record, order, word, bytes: both });
            }
        };
        check(&self.write);
        if access.writes {
            self.reads.iter().for_each(&mut check);
        }
        if self.more != 0 {
            lists.of(self.more).iter().for_each(&mut check);
        }
        self.add(lists, view, access, bytes);
    }

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
        // A strong operation replaces neither an unordered access nor a weak one, because what does
        // not race with the strong operation may still race with those.
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
        let same = old.component == new.component && old.count == new.count && old.is_kind_of(&new);
        if same && self.write.take(&new) {
            return;
        }
        if outlives(&old) {
            if same {
                // Parts of a word, or lanes, that one record cannot express.
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
        // A read of the other proxy, or a weak one, must stay: more is needed to be ordered after
        // it.
        let replaces = |record: &Record| {
            record.bytes() & !bytes == 0
                && (record.is_async() || !new.is_async())
                && (record.strong().is_some() || new.strong().is_none())
        };
        let same = |record: &Record| {
            (record.component, record.count) == (new.component, new.count)
                && record.is_kind_of(&new)
        };
        // Most reads are like an earlier one: by another lane, or by the same lane in a polling
        // loop.
        let mut take = |read: &mut Record| read.bytes() != 0 && same(read) && read.take(&new);
        if self.reads.iter_mut().any(&mut take) || lists.of_mut(self.more).iter_mut().any(take) {
            return;
        }
        let mut slot = None;
        for (index, read) in self.reads.iter_mut().enumerate() {
            if read.bytes() == 0 {
                slot = slot.or(Some(index));
            } else if read.component == new.component && new.component == view.own[0] {
                if read.is_kind_of(&new) {
                    read.remove(new.lanes(), bytes);
                }
            } else if replaces(read) && view.order(read, bytes) == Order::Before {
                read.clip(15);
            }
            if read.bytes() == 0 {
                slot = slot.or(Some(index));
            }
        }
        if self.more != 0 {
            lists.retain(&mut self.more, |read| {
                if read.writes() {
                    return true;
                }
                if read.component == new.component && new.component == view.own[0] {
                    if read.is_kind_of(&new) {
                        read.remove(new.lanes(), bytes);
                    }
                } else if replaces(read) && view.order(read, bytes) == Order::Before {
                    read.clip(15);
                }
                read.bytes() != 0
            });
        }
        match slot {
            Some(index) => self.reads[index] = new,
            None => lists.push(&mut self.more, new),
        }
    }
}
