//! Unrolls and vectorizes the loops that request it with `.unroll(n)`, `.unroll_full()` or
//! `.vectorize(n)`.
//!
//! 1. `unroll full`, trip count `t`: `t` copies of the body, with constant indices.
//! 2. `unroll n`, trip count `t`: a loop of `t / n` iterations with `n` copies of the body, then a
//!    loop of `t % n` iterations with one copy. The index is carried and advanced by the step, so
//!    that no index wraps that did not wrap in the source loop. If `t` is known, both loops have
//!    constant bounds, and a loop without iterations is omitted. `vectorize n` also merges the `n`
//!    copies' loads and stores at the index into vector accesses (`analysis/vectorize.rs`).
//! 3. If a body jumps from inside another construct, each copy becomes a `loop` that a `continue`
//!    leaves, and all copies together are inside a `loop` that a `break` leaves.
//!
//! `counted.rs` computes the trip count.

use std::num::NonZeroU32;

use super::counted::{Counted, unsigned};
use super::rewrite::{Rewrite, Target};
use crate::ir::analysis::jumps::is_straight;
use crate::ir::analysis::trips::Trips;
use crate::ir::analysis::vectorize::{Vectorized, vectorize};
use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::KernelIr;
use crate::ir::op::{Arith, Control, Convert, Mem, Op, Unroll, ValueList};
use crate::ir::types::{Type, VectorType};

/// Unrolls a verified kernel. The verifier has checked that this is possible and does not create
/// too many operations.
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
            Some((Unroll::By(n), counted)) => counted.by(rewrite, region, n, None),
            Some((Unroll::Vector(n), counted)) => {
                // Pipelining changes the accesses of a prefetching loop, so it may no longer
                // vectorize. Its copies then keep scalar accesses.
                let vectors = vectorize(source, id, n.get()).ok();
                counted.by(rewrite, region, n, vectors.as_ref());
            }
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

/// The copies of the body in one iteration of an unrolled loop.
#[derive(Clone, Copy)]
struct Copies<'v> {
    /// The loop that replaces the target of the source's `break`. `None` for a straight body.
    leave: Option<OpId>,
    count: u32,
    vectors: Option<&'v Vectorized>,
}

/// The vector values of one iteration: the loaded vectors, and the elements to be stored.
#[derive(Default)]
struct Lanes {
    loaded: Vec<(OpId, Value)>,
    stored: Vec<(OpId, ValueList)>,
}

impl Counted<'_> {
    /// Rule 1: full unrolling.
    fn full(&self, rewrite: &mut Rewrite<'_>, region: RegionId) {
        // The verifier rejects loops whose trip count is unknown.
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

    /// Rule 2: partial unrolling.
    fn by(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        n: NonZeroU32,
        vectors: Option<&Vectorized>,
    ) {
        self.whole(rewrite, region, |rewrite, region, leave| {
            let unsigned = unsigned(self.scalar);
            let known = self.trips().map(|trips| trips.count);
            // Limit the copies to what the index type can count.
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
                let copies = Copies { leave, count: n as u32, vectors };
                state = self.rounds(rewrite, region, copies, [zero, rounds], &state);
            }
            if known.is_none_or(|trips| trips % n > 0) {
                let copies = Copies { leave, count: 1, vectors: None };
                state = self.rounds(rewrite, region, copies, [zero, rest], &state);
            }
            ValueList::from_slice(&state[1..])
        })
    }

    /// Emits a loop over the unsigned `range` with copies of the body. It carries the index and the
    /// carried values, starting from `state`, and returns their last values.
    fn rounds(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        copies: Copies<'_>,
        range: [Value; 2],
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
        let first = index;
        let mut lanes =
            copies.vectors.map(|vectors| self.loads(rewrite, body, vectors, copies.count, first));
        for lane in 0..copies.count {
            carried = match &mut lanes {
                Some(lanes) => self.lane(rewrite, body, lane, lanes, index, &carried),
                None => self.iteration(rewrite, body, copies.leave, index, &carried),
            };
            index = rewrite.arith(body, self.location, self.scalar, Arith::Add { lhs: index, rhs });
        }
        if let Some(lanes) = lanes {
            self.stores(rewrite, body, lanes, first);
        }
        let mut values = ValueList::from_slice(&[index]);
        values.extend(carried);
        rewrite.push(body, self.location, Control::Continue { target: id, values }, &[]);
        results
    }

    /// Loads the vectors for `count` iterations, starting at `index`.
    fn loads(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        vectors: &Vectorized,
        count: u32,
        index: Value,
    ) -> Lanes {
        let source = self.source;
        let mut lanes = Lanes::default();
        for &op in &vectors.loads {
            let data = &source.ops[op];
            let Op::Mem(Mem::Ld { base, access, .. }) = data.op else { continue };
            let elem = source.type_of(data.results[0]).scalar();
            let Some(ty) = elem.and_then(|elem| VectorType::new(elem, count)) else { continue };
            let load = Mem::LdVec { base: rewrite.value(base), index, lanes: count, access };
            let vector = rewrite.push_value(region, data.location, load, Type::Vector(ty));
            lanes.loaded.push((op, vector));
        }
        lanes.stored = vectors.stores.iter().map(|op| (*op, ValueList::new())).collect();
        lanes
    }

    /// Like [`Counted::iteration`] for a straight body, but takes element `lane` of the loaded
    /// vectors, and collects stored elements.
    fn lane(
        &self,
        rewrite: &mut Rewrite<'_>,
        region: RegionId,
        lane: u32,
        lanes: &mut Lanes,
        index: Value,
        carried: &[Value],
    ) -> ValueList {
        let source = self.source;
        let data = &source.regions[self.body];
        rewrite.rename(&data.args, &[index]);
        rewrite.rename(&data.args[1..], carried);
        rewrite.declare_vars(self.body, region);
        let (last, ops) = data.ops.split_last().unwrap_or((&self.id, &[]));
        for &id in ops {
            let op = &source.ops[id];
            if let Some((_, vector)) = lanes.loaded.iter().find(|(load, _)| *load == id) {
                let extract = Convert::VecExtract { vector: *vector, lane };
                let ty = source.type_of(op.results[0]);
                let value = rewrite.push_value(region, op.location, extract, ty);
                rewrite.rename(&op.results, &[value]);
            } else if let Some((_, values)) =
                lanes.stored.iter_mut().find(|(store, _)| *store == id)
                && let Op::Mem(Mem::St { value, .. }) = op.op
            {
                values.push(rewrite.value(value));
            } else {
                copy_ops(rewrite, &[id], region);
            }
        }
        if let Op::Control(Control::Continue { values, .. }) = &source.ops[*last].op {
            rewrite.values(values)
        } else {
            ValueList::from_slice(carried)
        }
    }

    /// Stores the collected vectors, starting at `index`.
    fn stores(&self, rewrite: &mut Rewrite<'_>, region: RegionId, lanes: Lanes, index: Value) {
        for (op, values) in lanes.stored {
            let data = &self.source.ops[op];
            let Op::Mem(Mem::St { base, value, access, .. }) = data.op else { continue };
            let elem = self.source.type_of(value).scalar();
            let vector = elem.and_then(|elem| VectorType::new(elem, values.len() as u32));
            let Some(ty) = vector else { continue };
            let pack = Convert::VecPack { values };
            let vector = rewrite.push_value(region, data.location, pack, Type::Vector(ty));
            let store = Mem::StVec { base: rewrite.value(base), index, vector, access };
            rewrite.push(region, data.location, store, &[]);
        }
    }

    /// Emits one copy of the body and returns the next carried values. `leave` is the loop that
    /// replaces the target of the source's `break`; a straight body has none.
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

    /// Rule 3: wraps the code from `make` in a loop for `break`s, unless the body is straight. The
    /// values that `make` returns become the results of the source loop.
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
