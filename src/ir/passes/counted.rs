//! [`Counted`]: a `for` loop of the source kernel, and code that computes its trip count. The
//! unrolling and pipelining passes use it to split a loop whose trip count is only known at run
//! time.
//!
//! If `lo < hi`, the trip count is `ceil((hi - lo) / step)`. It is computed in the unsigned type of
//! the same width, because `hi - lo` can overflow the signed type but always fits into the unsigned
//! one. The emitted code selects 0 instead if `lo >= hi` or if the step is not positive.

use super::rewrite::Rewrite;
use crate::ir::analysis::trips::Trips;
use crate::ir::entity::{LocationId, OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Arith, Compare, Control, Convert, Op, Unroll};
use crate::ir::types::Scalar;

/// A `for` loop of the source kernel.
#[derive(Clone, Copy)]
pub(super) struct Counted<'k> {
    pub(super) source: &'k KernelIr,
    pub(super) id: OpId,
    pub(super) location: LocationId,
    pub(super) lo: Value,
    pub(super) hi: Value,
    pub(super) step: Value,
    pub(super) init: &'k [Value],
    pub(super) body: RegionId,
    pub(super) unroll: Unroll,
    pub(super) prefetch: u32,
    /// The index type.
    pub(super) scalar: Scalar,
}

impl<'k> Counted<'k> {
    /// Returns the loop, or `None` if the operation is not a `for`.
    pub(super) fn new(source: &'k KernelIr, id: OpId) -> Option<Counted<'k>> {
        let data = &source.ops[id];
        let Op::Control(Control::For { lo, hi, step, unroll, prefetch, init, body }) = &data.op
        else {
            return None;
        };
        Some(Counted {
            source,
            id,
            location: data.location,
            lo: *lo,
            hi: *hi,
            step: *step,
            init,
            body: *body,
            unroll: *unroll,
            prefetch: *prefetch,
            scalar: source.type_of(*lo).scalar()?,
        })
    }

    /// Returns the iterations if the bounds and the step are constants, so that a pass can avoid a
    /// run-time branch; otherwise `None`.
    pub(super) fn trips(&self) -> Option<Trips> {
        Trips::new(self.source, [self.lo, self.hi, self.step]).ok()
    }

    /// Emits code that computes the trip count, in the unsigned type of the index type's width.
    pub(super) fn trip_count(&self, rewrite: &mut Rewrite<'_>, region: RegionId) -> Value {
        let (signed, unsigned) = (self.scalar, unsigned(self.scalar));
        let [lo, hi, step] = [self.lo, self.hi, self.step].map(|value| rewrite.value(value));
        let location = self.location;
        let to_unsigned = |rewrite: &mut Rewrite<'_>, value| {
            if signed == unsigned {
                return value;
            }
            rewrite.arith(region, location, unsigned, Convert::Cvt { value, to: unsigned })
        };
        let zero = rewrite.constant(region, location, signed, 0);
        let one = rewrite.constant(region, location, unsigned, 1);
        let none = rewrite.constant(region, location, unsigned, 0);
        let lt = Compare::Lt;
        let setp = |lhs, rhs| Arith::Setp { lhs, rhs, compare: lt };
        let some = rewrite.arith(region, location, Scalar::Bool, setp(lo, hi));
        let forward = rewrite.arith(region, location, Scalar::Bool, setp(zero, step));
        let (then_hi, then_lo) = (to_unsigned(rewrite, hi), to_unsigned(rewrite, lo));
        let by = to_unsigned(rewrite, step);
        let mut arith = |op| rewrite.arith(region, location, unsigned, op);
        let span = arith(Arith::Sub { lhs: then_hi, rhs: then_lo });
        // Never divide by a step of zero.
        let by = arith(Arith::Selp { cond: forward, then_value: by, else_value: one });
        let last = arith(Arith::Sub { lhs: span, rhs: one });
        let whole = arith(Arith::Div { lhs: last, rhs: by });
        let trips = arith(Arith::Add { lhs: whole, rhs: one });
        let runs =
            rewrite.arith(region, location, Scalar::Bool, Arith::And { lhs: some, rhs: forward });
        let select = Arith::Selp { cond: runs, then_value: trips, else_value: none };
        rewrite.arith(region, location, unsigned, select)
    }
}

/// Returns the unsigned integer type of the same width, in which trip counts are computed.
pub(super) fn unsigned(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        8 => Scalar::U8,
        16 => Scalar::U16,
        32 => Scalar::U32,
        _ => Scalar::U64,
    }
}
