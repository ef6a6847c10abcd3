//! Unrolls loops that ask for it.
//!
//! Rules:
//!
//! 1. `unroll full`, trip count `t`: the body `t` times, with the indices as constants.
//! 2. `unroll n`: with the trip count `t`, a loop of `t / n` iterations with `n` copies of the body, then a
//!    loop of `t % n` iterations with one. The index is carried and advanced by the step, so that nothing
//!    wraps that did not wrap before. Where `t` is known, so are the bounds of the two loops, and a loop
//!    without iterations is left out.
//! 3. A copy of a body that jumps from inside another construct is a loop that is left by its `continue`,
//!    and the whole is a loop that is left by its `break`.
//!
//! How the trip count is computed is in `counted.rs`.

use std::num::NonZeroU32;

use super::counted::{Counted, unsigned};
use super::rewrite::{Rewrite, Target};
use crate::ir::analysis::jumps::is_straight;
use crate::ir::analysis::trips::Trips;
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Arith, Control, Op, Unroll, ValueList};
use crate::ir::types::Type;

/// Unrolls. The verifier has seen to it that it is possible, and not too large.
pub(super) fn unroll(ir: &KernelIr) -> KernelIr {
    let mut rewrite = Rewrite::new(ir);
    let body = rewrite.out.body;
    rewrite.declare_vars(ir.body, body);
    copy_ops(&mut rewrite, &ir.regions[ir.body].ops, body);
    rewrite.out
}

fn copy_ops(rewrite: &mut Rewrite<'_>, ops: &[OpId], region: RegionId) {
    let source = rewrite.source;
    for &id in ops {
        let data = &source.ops[id];
        match Counted::new(source, id).map(|counted| (counted.unroll, counted)) {
            Some((Unroll::By(n), counted)) => counted.by(rewrite, region, n),
            Some((Unroll::Full, counted)) => counted.full(rewrite, region),
            Some((Unroll::Keep, _)) | None if !data.op.regions().is_empty() => {
                for (inner, copy) in rewrite.copy_owner(id, region) {
                    copy_ops(rewrite, &source.regions[inner].ops, copy);
                }
            }
            Some((Unroll::Keep, _)) | None => rewrite.copy_plain(id, region),
        }
    }
}

impl Counted<'_> {
    /// Rule 1.
    fn full(&self, rewrite: &mut Rewrite<'_>, region: RegionId) {
        // The verifier refuses a loop whose iterations are not known.
        let Trips { lo, step, count } = self.trips().unwrap_or(Trips { lo: 0, step: 1, count: 0 });
        self.whole(rewrite, region, |rewrite, region, leave| {
            let mut carried = rewrite.values(self.init);
            for i in 0..count as i128 {
                let bits = (lo + i * step) as u64;
                let index = rewrite.constant(region, self.location, self.scalar, bits);
                carried = self.iteration(rewrite, region, leave, index, &carried);
            }
            carried
        })
    }

    /// Rule 2.
    fn by(&self, rewrite: &mut Rewrite<'_>, region: RegionId, n: NonZeroU32) {
        self.whole(rewrite, region, |rewrite, region, leave| {
            let unsigned = unsigned(self.scalar);
            let known = self.trips().map(|trips| trips.count);
            // More copies than the index type has numbers are never reached.
            let n = u128::from(n.get()).min((1 << unsigned.bits()) - 1);
            let zero = rewrite.constant(region, self.location, unsigned, 0);
            let (rounds, rest) = match known {
                Some(trips) => {
                    let mut constant =
                        |bits: u128| rewrite.constant(region, self.location, unsigned, bits as u64);
                    (constant(trips / n), constant(trips % n))
                }
                None => {
                    let trips = self.trip_count(rewrite, region);
                    let n = rewrite.constant(region, self.location, unsigned, n as u64);
                    let mut arith = |op| rewrite.arith(region, self.location, unsigned, op);
                    (
                        arith(Arith::Div { lhs: trips, rhs: n }),
                        arith(Arith::Rem { lhs: trips, rhs: n }),
                    )
                }
            };
            let mut state = ValueList::from_slice(&[rewrite.value(self.lo)]);
            state.extend(rewrite.values(self.init));
            if known.is_none_or(|trips| trips / n > 0) {
                state = self.rounds(rewrite, region, leave, [zero, rounds], n as u32, &state);
            }
            if known.is_none_or(|trips| trips % n > 0) {
                state = self.rounds(rewrite, region, leave, [zero, rest], 1, &state);
            }
            ValueList::from_slice(&state[1..])
        })
    }

    /// A loop over the unsigned `range` with `copies` copies of the body, that carries the index and the
    /// carried values, `state` at first. Returns the last ones.
    fn rounds(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        leave: Option<OpId>,
        range: [Value; 2],
        copies: u32,
        state: &ValueList,
    ) -> ValueList {
        let unsigned = unsigned(self.scalar);
        let mut types = vec![Type::Scalar(self.scalar)];
        types.extend(rewrite.types(self.init));
        let mut args = vec![Type::Scalar(unsigned)];
        args.extend(&types);
        let (body, args) = rewrite.new_region(self.location, &args);
        let one = rewrite.constant(region, self.location, unsigned, 1);
        let [lo, hi] = range;
        let (unroll, prefetch, init) = (Unroll::Keep, 0, state.clone());
        let control = Control::For { lo, hi, step: one, unroll, prefetch, init, body };
        let (id, results) = rewrite.push(region, self.location, control, &types);
        let mut index = args[1];
        let mut carried = ValueList::from_slice(&args[2..]);
        let rhs = rewrite.value(self.step);
        for _ in 0..copies {
            carried = self.iteration(rewrite, body, leave, index, &carried);
            index = rewrite.arith(body, self.location, self.scalar, Arith::Add { lhs: index, rhs });
        }
        let mut values = ValueList::from_slice(&[index]);
        values.extend(carried);
        rewrite.push(body, self.location, Control::Continue { target: id, values }, &[]);
        results
    }

    /// One copy of the body in `region`; returns the next carried values. `leave` is the loop that a
    /// `break` of the source breaks; a straight body has none.
    fn iteration(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        leave: Option<OpId>,
        index: Value,
        carried: &[Value],
    ) -> ValueList {
        let source = self.source;
        let data = &source.regions[self.body];
        rewrite.rename(&data.args, &[index]);
        rewrite.rename(&data.args[1..], carried);
        let Some(on_break) = leave else {
            rewrite.declare_vars(self.body, region);
            let (last, ops) = data.ops.split_last().unwrap_or((&self.id, &[]));
            copy_ops(rewrite, ops, region);
            let next = if let Op::Control(Control::Continue { values, .. }) = &source.ops[*last].op
            {
                rewrite.values(values)
            } else {
                ValueList::from_slice(carried)
            };
            return next;
        };
        let types = rewrite.types(self.init);
        let (body, _) = rewrite.new_region(self.location, &[]);
        let control = Control::Loop { init: ValueList::new(), body };
        let (on_continue, results) = rewrite.push(region, self.location, control, &types);
        rewrite.set_target(self.id, Target::Breaks { on_continue, on_break });
        rewrite.declare_vars(self.body, body);
        copy_ops(rewrite, &data.ops, body);
        results
    }

    /// Rule 3: what `make` makes, inside a loop for the `break`s of a body that is not straight. The values
    /// that it returns become the results of the source's loop.
    fn whole(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        make: impl FnOnce(&mut Rewrite<'_>, RegionId, Option<OpId>) -> ValueList,
    ) {
        let source = self.source;
        let results = if is_straight(self.source, self.id, self.body) {
            make(rewrite, region, None)
        } else {
            let types = rewrite.types(self.init);
            let (body, _) = rewrite.new_region(self.location, &[]);
            let control = Control::Loop { init: ValueList::new(), body };
            let (target, results) = rewrite.push(region, self.location, control, &types);
            let values = make(rewrite, body, Some(target));
            rewrite.push(body, self.location, Control::Break { target, values }, &[]);
            results
        };
        rewrite.rename(&source.ops[self.id].results, &results);
    }
}
