//! [`Batch`]: accesses to an allocation that differ by constants only, such as the elements of a
//! thread's fragment. They are compared with others together.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::phase::{Phases, Slot};
use super::record::Record;

/// Accesses with the same facts, between the same barriers, at the same offset but for a constant.
pub(super) struct Batch<'r> {
    slots: [Slot; 2],
    pub(super) all: Vec<&'r Record>,
}

impl<'r> Batch<'r> {
    /// Puts accesses together. `phases` are those of blocks and of warps.
    pub(super) fn of(records: &[&'r Record], phases: [&Phases<'_>; 2]) -> Vec<Batch<'r>> {
        let mut batches: Vec<Batch<'r>> = Vec::new();
        for &record in records {
            let slots = phases.map(|phases| phases.slot(record.op));
            let known = batches
                .iter_mut()
                .find(|batch| batch.slots == slots && batch.all[0].is_like(record));
            match known {
                Some(batch) => batch.all.push(record),
                None => batches.push(Batch { slots, all: vec![record] }),
            }
        }
        batches
    }

    /// Returns two accesses that stand for all of this batch and of the other one, and cover all
    /// their bytes. `None` if what is between single accesses counts.
    pub(super) fn hulls(&self, other: &Batch<'_>) -> Option<(Record, Record)> {
        // A copy may come before or after other accesses of its slot.
        if self.slots == other.slots && (self.all[0].is_copy || other.all[0].is_copy) {
            return None;
        }
        let (first, mut second) = (self.hull()?, other.hull()?);
        // One operation would stand for itself only.
        if first.op == second.op
            && let Some(next) = other.all.get(1)
        {
            second.op = next.op;
        }
        Some((first, second))
    }

    fn hull(&self) -> Option<Record> {
        let first = *self.all.first()?;
        let (poly, _) = first.bytes.as_ref()?;
        let ends = self.all.iter().filter_map(|record| {
            let (poly, bytes) = record.bytes.as_ref()?;
            Some((poly.constant, poly.constant.checked_add(*bytes)?))
        });
        let (start, end) =
            ends.reduce(|(start, end), (from, to)| (start.min(from), end.max(to)))?;
        let mut poly = poly.clone();
        poly.constant = start;
        let mut hull = first.clone();
        hull.bytes = Some((poly, end - start));
        Some(hull)
    }

    /// Returns pairs of accesses of both batches, one for each distance, with both orders.
    pub(super) fn pairs<'b>(
        &self,
        other: &Batch<'b>,
        phases: &Phases<'_>,
    ) -> Vec<(&'r Record, &'b Record)> {
        let mut seen: HashSet<(i128, i128, i128, Ordering)> = HashSet::new();
        let mut pairs = Vec::new();
        for &a in &self.all {
            for &b in &other.all {
                let (Some((x, x_bytes)), Some((y, y_bytes))) = (&a.bytes, &b.bytes) else {
                    pairs.push((a, b));
                    continue;
                };
                let order = phases.order(a.op, b.op);
                let is_new = x
                    .constant
                    .checked_sub(y.constant)
                    .is_none_or(|apart| seen.insert((apart, *x_bytes, *y_bytes, order)));
                if is_new {
                    pairs.push((a, b));
                }
            }
        }
        pairs
    }
}

impl Record {
    /// Returns whether the other access differs from this one by a constant only.
    fn is_like(&self, other: &Record) -> bool {
        let (Some((a, _)), Some((b, _))) = (&self.bytes, &other.bytes) else { return false };
        a.terms == b.terms
            && (self.root, self.deps, self.dead, self.is_store)
                == (other.root, other.deps, other.dead, other.is_store)
            && (self.atomic, self.is_collective, self.is_copy, self.asynchronous)
                == (other.atomic, other.is_collective, other.is_copy, other.asynchronous)
            && self.facts == other.facts
            && self.equalities == other.equalities
    }
}
