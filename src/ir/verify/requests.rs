//! Verifier rules for what loops ask for, that is unrolling, vectorizing and prefetching: the
//! passes can carry it out, so they never fail.

use super::{Report, VerifyError};
use crate::ir::analysis::prefetch::{CannotSplit, split};
use crate::ir::analysis::trips::Trips;
use crate::ir::analysis::vectorize::{CannotVectorize, vectorize};
use crate::ir::entity::{OpId, RegionId};
use crate::ir::op::{Control, Op, Unroll};

/// The maximum operation count after unrolling.
const OPERATIONS: u128 = 1 << 20;

/// The maximum number of iterations that a loop can prefetch. More would be useless: a thread has
/// only 255 registers, and memory latency spans only a few iterations.
const STAGES: u32 = 32;

/// Upper bounds for the operations that unrolling adds, per loop and per copy of its body.
const PER_LOOP: u128 = 32;
const PER_COPY: u128 = 4;

pub(super) fn check(report: &mut Report<'_>) {
    let mut walk = Walk { report, last: None };
    let body = walk.report.ir.body;
    let operations = walk.region(body);
    if operations > OPERATIONS
        && let Some(last) = walk.last
    {
        let limit = OPERATIONS;
        walk.report.at(last, VerifyError::UnrollSize { operations, limit });
    }
}

struct Walk<'r, 'k> {
    report: &'r mut Report<'k>,
    /// The last loop with a request that has not been reported.
    last: Option<OpId>,
}

impl Walk<'_, '_> {
    /// Returns the region's operation count after unrolling.
    fn region(&mut self, id: RegionId) -> u128 {
        let ir = self.report.ir;
        let mut operations = 0u128;
        for &op in &ir.regions[id].ops {
            let inner: u128 =
                ir.ops[op].op.regions().into_iter().map(|inner| self.region(inner)).sum();
            let copies = self.copies(op);
            if copies != Some(1) {
                self.last = Some(op);
            }
            let copies = copies.unwrap_or(1);
            let all = copies.saturating_mul(inner + PER_COPY).saturating_add(PER_LOOP);
            operations = operations.saturating_add(if copies == 1 { inner + 1 } else { all });
            if operations > OPERATIONS && self.last == Some(op) {
                let limit = OPERATIONS;
                self.report.at(op, VerifyError::UnrollSize { operations, limit });
                // Do not also blame the loops around this one.
                (operations, self.last) = (0, None);
            }
        }
        operations
    }

    /// Returns how many copies of a loop's body there will be, or `None` if it cannot be unrolled.
    fn copies(&mut self, op: OpId) -> Option<u128> {
        let ir = self.report.ir;
        let Op::Control(Control::For { lo, hi, step, unroll, prefetch, body, .. }) = &ir.ops[op].op
        else {
            return Some(1);
        };
        // Prefetching adds a prologue, a drain, and a loop for short trip counts.
        let beside =
            if *prefetch > 0 { u128::from(self.prefetch(op, *body, *prefetch)) + 2 } else { 0 };
        let copies = match unroll {
            Unroll::Keep => Some(1),
            Unroll::By(n) => Some(u128::from(n.get()) + 1),
            Unroll::Vector(n) => {
                self.vectorize(op, n.get());
                Some(u128::from(n.get()) + 1)
            }
            Unroll::Full => match Trips::new(ir, [*lo, *hi, *step]) {
                Ok(trips) => Some(trips.count.max(2)),
                Err(bound) => {
                    self.report.at(op, VerifyError::UnrollUnknownTripCount { bound });
                    None
                }
            },
        };
        copies.map(|copies| copies + beside)
    }

    /// Checks that the loop's accesses can be merged into vectors.
    fn vectorize(&mut self, op: OpId, lanes: u32) {
        let ir = self.report.ir;
        let place = |op: OpId| (ir.ops[op].op.name(), ir.location_of(op));
        let error = match vectorize(ir, op, lanes) {
            Ok(_) => return,
            Err(CannotVectorize::Nothing) => VerifyError::VectorizeNothing { lanes },
            Err(CannotVectorize::Obstacle(obstacle)) => {
                let (op, made) = place(obstacle);
                VerifyError::VectorizeObstacle { op, made }
            }
            Err(CannotVectorize::Unaligned(access, bytes)) => {
                let (op, made) = place(access);
                VerifyError::VectorizeAlignment { op, made, bytes }
            }
            Err(CannotVectorize::Aliasing(access, store)) => {
                let (op, made) = place(access);
                VerifyError::VectorizeAliasing { op, made, store: ir.location_of(store) }
            }
        };
        self.report.at(op, error);
    }

    /// Checks that the loop can prefetch. Returns the stage count to use for the operation count.
    fn prefetch(&mut self, op: OpId, body: RegionId, stages: u32) -> u32 {
        let ir = self.report.ir;
        if stages > STAGES {
            self.report.at(op, VerifyError::PrefetchStages { stages, limit: STAGES });
            return 0;
        }
        let (name, at_loop) = (|op: OpId| ir.ops[op].op.name(), op);
        let (at, error) = match split(ir, op, body) {
            Ok(split) => {
                let ring = split.tiles.as_ref().and_then(|tiles| tiles.smallest_ring());
                if let Some(ring) = ring.filter(|ring| ring.slots <= stages) {
                    let made = ir.location_of(ring.modulo);
                    let (op, slots) = (name(ring.modulo), ring.slots);
                    self.report.at(at_loop, VerifyError::PrefetchRing { op, made, slots, stages });
                    return stages;
                }
                let limit = ir.target.max_shared_bytes();
                let bytes = split.tiles.map_or(0, |tiles| tiles.bytes(ir, stages));
                if bytes <= limit {
                    return stages;
                }
                let stages = stages + 1;
                (op, VerifyError::PrefetchSharedSize { stages, bytes, limit })
            }
            Err(CannotSplit::NoCopies) => (op, VerifyError::PrefetchNoCopies),
            Err(CannotSplit::AsyncForm(copy, obstacle)) => {
                let (made, obstacle) =
                    (ir.location_of(copy), (name(obstacle), ir.location_of(obstacle)));
                (op, VerifyError::PrefetchAsyncForm { made, op: obstacle.0, at: obstacle.1 })
            }
            Err(CannotSplit::BulkForm(copy, obstacle)) => {
                let (made, obstacle) =
                    (ir.location_of(copy), (name(obstacle), ir.location_of(obstacle)));
                (op, VerifyError::PrefetchBulkForm { made, op: obstacle.0, at: obstacle.1 })
            }
            Err(CannotSplit::EarlyExit(exit)) => {
                let (name, made) = (name(exit), ir.location_of(exit));
                (op, VerifyError::PrefetchEarlyExit { op: name, made })
            }
            Err(CannotSplit::DependsOnUse(load, value)) => {
                let made = ir.locations[ir.values[value].location];
                (load, VerifyError::PrefetchDependsOnUse { value, made })
            }
            Err(CannotSplit::AliasingStore(store)) => {
                let (name, made) = (name(store), ir.location_of(store));
                (op, VerifyError::PrefetchAliasingStore { op: name, made })
            }
            Err(CannotSplit::AcrossBarrier(store, barrier)) => {
                let (name, made, store) =
                    (name(barrier), ir.location_of(barrier), ir.location_of(store));
                (op, VerifyError::PrefetchAcrossBarrier { op: name, made, store })
            }
        };
        self.report.at(at, error);
        stages
    }
}
