//! Records in shadow memory: who accessed which bytes of a word, and how. The detector compares
//! each new access with the records of the words that the access touches. A record takes 16 bytes.

use super::clock::Component;
use super::layout::rank;
use crate::ir::op::MemScope;

/// How many bits of [`Record::word`] lie below the step.
const STEP: u32 = 10;

/// Accesses to a word by one component at one count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) component: Component,
    pub(super) count: u32,
    /// The lanes that accessed all of the bytes. Or, with the flag `BY_BYTE`, 5 bits for each byte
    /// with the one lane that accessed it.
    lanes: u32,
    /// 4 bits for the bytes, then the flags, then the step.
    word: u32,
}

const BY_BYTE: u32 = 1 << 4;
const WRITES: u32 = 1 << 5;
const STRONG: u32 = 1 << 6;
const ASYNC: u32 = 1 << 7;
/// Two bits: the scope of a strong operation, by rank.
const SCOPE: u32 = 8;
/// The flags by which two records count as the same kind.
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

    /// Returns the rank of the scope, if the operation is strong.
    pub(super) fn strong(&self) -> Option<u32> {
        (self.word & STRONG != 0).then_some(self.word >> SCOPE & 3)
    }

    pub(super) fn step(&self) -> u32 {
        self.word >> STEP
    }

    /// Returns whether both have the same flags.
    #[inline]
    pub(super) fn is_kind_of(&self, other: &Record) -> bool {
        (self.word ^ other.word) & KIND == 0
    }

    /// Returns whether each of its lanes accessed all of its bytes.
    pub(super) fn is_of_all_lanes(&self) -> bool {
        self.word & BY_BYTE == 0
    }

    /// Returns the lanes of a record without `BY_BYTE`.
    pub(super) fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Returns the lanes that accessed one of `bytes`.
    #[inline]
    pub(super) fn lanes_at(&self, bytes: u32) -> u32 {
        if self.word & BY_BYTE == 0 {
            return self.lanes;
        }
        let here = bytes & self.bytes();
        let lane = |byte: u32| 1 << (self.lanes >> (5 * byte) & 31);
        (0..4).filter(|byte| here >> byte & 1 == 1).fold(0, |lanes, byte| lanes | lane(byte))
    }

    /// Removes bytes.
    pub(super) fn clip(&mut self, bytes: u32) {
        self.word &= !(bytes & 15);
    }

    /// Merges a record of one lane and of the same kind, component and count. Returns whether that
    /// was possible.
    pub(super) fn take(&mut self, other: &Record) -> bool {
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

    /// Like [`Record::take`], for a record of the same kind and component with any count.
    pub(super) fn take_same(&mut self, other: &Record) -> bool {
        self.component == other.component && self.is_kind_of(other) && self.take(other)
    }

    /// Returns the record with more bytes.
    pub(super) fn with_bytes(self, bytes: u32) -> Record {
        Record { word: self.word | bytes & 15, ..self }
    }

    /// Removes a lane that accessed nothing but `bytes`.
    pub(super) fn remove(&mut self, lane: u32, bytes: u32) {
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

/// A new access. All its words get the same record, apart from the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) component: Component,
    pub(super) count: u32,
    /// The lane's index.
    pub(super) lane: u32,
    pub(super) writes: bool,
    /// The scope, if the operation is strong.
    pub(super) strong: Option<MemScope>,
    /// Whether the asynchronous proxy makes it.
    pub(super) is_async: bool,
    pub(super) step: u32,
}

impl Access {
    pub(super) fn record(&self, bytes: u32) -> Record {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        let strong = self.strong.map_or(0, |scope| STRONG | rank(scope) << SCOPE);
        let kind = flag(self.writes, WRITES) | flag(self.is_async, ASYNC) | strong;
        let word = bytes | kind | self.step << STEP;
        Record { component: self.component, count: self.count, lanes: 1 << self.lane, word }
    }
}
