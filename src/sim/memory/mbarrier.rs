//! The state of an mbarrier: how many arrivals and bytes its phase still waits for (PTX ISA
//! 9.7.13.15). `engine/mbarrier.rs` compiles the instructions.
//!
//! An mbarrier goes through phases 0, 1, 2, and so on. A phase ends as soon as both of its counts
//! are 0:
//!
//! * **Arrivals.** The count starts at the value that `mbarrier.init` set, and each arrival
//!   decrements it. One arrival more than the phase waits for is a fault.
//! * **Bytes.** `expect_tx` adds the bytes that a copy will bring, and each copy that completes
//!   subtracts its bytes. Bytes may arrive before they are announced, so this count can be negative
//!   for a while.
//!
//! When a phase ends, the next one begins with the same number of arrivals. For example, a full
//! barrier that is initialised with 1 ends its phase when the producer has called
//! `arrive_expect_tx(bytes)` and all those bytes have landed.
//!
//! A thread waits for a phase in one of two ways. By *state*, it passes the phase index that its
//! own arrival returned. By *parity*, it passes the lowest bit of the index: parity 0 means "phase
//! 0 (or 2, 4, ..) has ended", which is true while the mbarrier is in a phase of parity 1.
//! Therefore a wait for parity 1 on a fresh mbarrier returns at once, and a thread that is two
//! phases behind cannot distinguish the two by parity.

use crate::sim::fault::raw::BarrierAt;
use crate::sim::fault::raw_fault::RawCause;

/// The most arrivals or bytes that an mbarrier can count.
pub(in crate::sim) const MAX: u32 = (1 << 20) - 1;

/// An mbarrier. It is in phase `phase`, which ends when no arrival and no byte is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Mbarrier {
    phase: u64,
    /// How many arrivals each phase needs.
    count: u32,
    /// How many arrivals this phase still waits for.
    arrivals: u32,
    /// How many bytes this phase still waits for; negative if bytes came before they were
    /// announced.
    bytes: i64,
}

impl Mbarrier {
    /// Makes an mbarrier whose phases need `count` arrivals. Returns `None` if the count is 0 or
    /// too large.
    pub(in crate::sim) fn new(count: u32) -> Option<Mbarrier> {
        let legal = (1..=MAX).contains(&count);
        legal.then_some(Mbarrier { phase: 0, count, arrivals: count, bytes: 0 })
    }

    /// Returns how many phases have ended, which is the current phase's index.
    pub(in crate::sim) fn phase(&self) -> u64 {
        self.phase
    }

    pub(in crate::sim) fn arrive(
        &mut self,
        count: u32,
        barrier: BarrierAt,
    ) -> Result<(), RawCause> {
        if count == 0 || count > MAX {
            return Err(RawCause::BarrierCount { count });
        }
        let pending = self.arrivals;
        self.arrivals = pending.checked_sub(count).ok_or(RawCause::ArrivalsBeyond {
            barrier,
            pending,
            count,
        })?;
        Ok(())
    }

    /// Raises the arrivals that this phase waits for by one.
    pub(in crate::sim) fn raise(&mut self, barrier: BarrierAt) -> Result<(), RawCause> {
        if self.arrivals >= MAX {
            return Err(RawCause::ArrivalsBeyond { barrier, pending: self.arrivals, count: 1 });
        }
        self.arrivals += 1;
        Ok(())
    }

    /// Adds to the bytes that this phase waits for. Call it with a negative count when bytes have
    /// arrived.
    pub(in crate::sim) fn expect(
        &mut self,
        bytes: i64,
        barrier: BarrierAt,
    ) -> Result<(), RawCause> {
        let sum = self.bytes + bytes;
        if sum.unsigned_abs() > MAX.into() {
            return Err(RawCause::BytesBeyond { barrier, pending: self.bytes, bytes });
        }
        self.bytes = sum;
        Ok(())
    }

    /// Ends the phase if it waits for nothing more. Returns whether it did.
    pub(in crate::sim) fn end_phase(&mut self) -> bool {
        let ends = self.arrivals == 0 && self.bytes == 0;
        if ends {
            self.phase += 1;
            self.arrivals = self.count;
        }
        ends
    }

    pub(in crate::sim) fn lacks_only_bytes(&self) -> bool {
        self.arrivals == 0 && self.bytes != 0
    }

    pub(in crate::sim) fn has_ended(&self, phase: Phase) -> bool {
        match phase {
            Phase::State(phase) => self.phase > phase,
            Phase::Parity(parity) => self.phase & 1 != parity & 1,
        }
    }

    pub(in crate::sim) fn deadlock(&self, barrier: BarrierAt) -> RawCause {
        let Mbarrier { phase, count, arrivals, bytes } = *self;
        RawCause::PhaseDeadlock { barrier, phase, arrivals, count, bytes }
    }
}

/// The phase whose end a thread tests or waits for.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Phase {
    /// The index that an arrival returned.
    State(u64),
    /// The lowest bit of the index.
    Parity(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: BarrierAt = BarrierAt { alloc: 0, element: 0 };

    #[test]
    fn a_phase_ends_with_its_last_arrival_and_its_last_byte() {
        let mut barrier = Mbarrier::new(2).unwrap();
        barrier.arrive(1, NAME).unwrap();
        barrier.expect(64, NAME).unwrap();
        barrier.arrive(1, NAME).unwrap();
        assert!(!barrier.end_phase() && !barrier.has_ended(Phase::Parity(0)));
        assert!(barrier.has_ended(Phase::Parity(1)) && !barrier.has_ended(Phase::State(0)));
        barrier.expect(-64, NAME).unwrap();
        assert!(barrier.end_phase() && barrier.has_ended(Phase::Parity(0)));
        assert!(barrier.has_ended(Phase::State(0)) && !barrier.has_ended(Phase::State(1)));
        assert_eq!((barrier.phase(), barrier.arrivals), (1, 2));
        // Bytes may come before they are announced.
        barrier.expect(-16, NAME).unwrap();
        barrier.arrive(2, NAME).unwrap();
        assert!(!barrier.end_phase());
        barrier.expect(16, NAME).unwrap();
        assert!(barrier.end_phase() && barrier.has_ended(Phase::Parity(1)));
    }

    #[test]
    fn counts_have_limits() {
        assert!(Mbarrier::new(0).is_none() && Mbarrier::new(MAX + 1).is_none());
        let mut barrier = Mbarrier::new(MAX).unwrap();
        assert!(barrier.raise(NAME).is_err() && barrier.arrive(0, NAME).is_err());
        assert!(barrier.arrive(MAX, NAME).is_ok() && barrier.arrive(1, NAME).is_err());
        assert!(barrier.expect(MAX.into(), NAME).is_ok() && barrier.expect(1, NAME).is_err());
    }
}
