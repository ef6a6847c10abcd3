//! State of a barrier in shared memory: arrivals and bytes of a phase (PTX ISA 9.7.13.15).

use crate::sim::fault::raw::BarrierAt;
use crate::sim::fault::raw_fault::RawCause;

/// The maximum number of arrivals and bytes that a barrier counts.
pub(in crate::sim) const MAX: u32 = (1 << 20) - 1;

/// A barrier: it is in phase `phase`, which ends when no arrival and no byte is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Mbarrier {
    phase: u64,
    /// The arrivals of each phase.
    count: u32,
    /// The arrivals that this phase waits for.
    arrivals: u32,
    /// The bytes that this phase waits for; below 0 while bytes have come that were not announced.
    bytes: i64,
}

impl Mbarrier {
    /// A barrier whose phases wait for `count` arrivals; `None` where there are too many or none.
    pub(in crate::sim) fn new(count: u32) -> Option<Mbarrier> {
        let legal = (1..=MAX).contains(&count);
        legal.then_some(Mbarrier { phase: 0, count, arrivals: count, bytes: 0 })
    }

    /// Phases that have ended.
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

    /// Waits for one more arrival in this phase.
    pub(in crate::sim) fn raise(&mut self, barrier: BarrierAt) -> Result<(), RawCause> {
        if self.arrivals >= MAX {
            return Err(RawCause::ArrivalsBeyond { barrier, pending: self.arrivals, count: 1 });
        }
        self.arrivals += 1;
        Ok(())
    }

    /// Waits for `bytes` more bytes in this phase, fewer where it is negative.
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

    /// Ends the phase if it waits for nothing more.
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

/// A phase that a thread asks about.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) enum Phase {
    /// By the number that an arrival returned.
    State(u64),
    /// By the lowest bit of its number.
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
