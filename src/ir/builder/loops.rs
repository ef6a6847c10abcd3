//! Loops as closures: `for_` and `for_loop` over a range, `loop_`, `while_` and `do_while`. They
//! run on the device, while a host `for` writes its body several times.

use std::marker::PhantomData;

use super::body::Body;
use super::context::Context;
use super::control::{
    At, Terminated, append, collect, group_of, in_region, results, results_of, terminate,
};
use super::host_part::HostParts;
use super::joins::{host_parts, made_of, types_of};
use super::range::{Range, bound};
use super::typed::{Integer, Val};
use super::values::{IntoValues, Values};
use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{Arith, Control, ValueList};

/// A loop's handle inside its body: call [`break_`](Loop::break_) or [`continue_`](Loop::continue_)
/// on it. `C` is the type of the values carried from iteration to iteration, `R` that of the loop's
/// results.
#[derive(Debug)]
pub struct Loop<'l, C, R> {
    op: OpId,
    body: PhantomData<&'l ()>,
    types: PhantomData<fn() -> (C, R)>,
}

impl<C, R> Clone for Loop<'_, C, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<C, R> Copy for Loop<'_, C, R> {}

impl<C, R> Loop<'_, C, R> {
    fn new(op: OpId) -> Self {
        Loop { op, body: PhantomData, types: PhantomData }
    }
}

impl<C: Values, R: Values> Loop<'_, C, R> {
    /// Leaves the loop and gives `values` as its results. `k` is the body that you call it in. That
    /// may be the body of an inner `if` or loop, so you can leave several nested loops at once.
    #[track_caller]
    pub fn break_<'c, V: IntoValues<'c, V = R>>(&self, k: &Body<'c, '_>, values: V) -> Terminated {
        let (cx, location) = (k.context(), SourceLocation::caller());
        let (group, values) = group_of(cx, values);
        cx.note_results(self.op, host_parts::<R>(&group), location);
        terminate(cx, Control::Break { target: self.op, values })
    }

    /// Ends the iteration early; `values` are the carried values of the next one. `k` is the body
    /// that you call it in, which may be the body of an inner `if` or loop.
    #[track_caller]
    pub fn continue_<'c, V: IntoValues<'c, V = C>>(
        &self,
        k: &Body<'c, '_>,
        values: V,
    ) -> Terminated {
        let (cx, location) = (k.context(), SourceLocation::caller());
        let (group, values) = group_of(cx, values);
        cx.check_carried(self.op, &host_parts::<C>(&group), location);
        terminate(cx, Control::Continue { target: self.op, values })
    }
}

/// # Loops
///
/// Runs a body repeatedly on the device. A host `for` unrolls its body instead.
impl<'o> Body<'o, '_> {
    /// Runs `body` for each index of `range` and returns the carried values after the last
    /// iteration. PTX ISA 9.7.12.3 `bra`.
    ///
    /// `body` gets the index and the carried values, which start as `init`, and returns the next
    /// carried values. The iteration count is `ceil((hi - lo) / step)`, computed once before the
    /// loop and without overflow. If the range is empty, the result is `init`. A step that is known
    /// not to be positive is an error of the build.
    #[track_caller]
    pub fn for_<'v, T: Integer, I: IntoValues<'v>>(
        &mut self,
        range: Range<'v, T>,
        init: I,
        body: impl for<'b> FnOnce(
            &mut Body<'b, 'o>,
            Val<'b, T>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o>
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (op, region, init) = begin_for(cx, range, init, location);
        let run = || {
            let (index, carried) = for_args::<T, I::V>(cx, region, &init);
            next_of::<I::V>(cx, op, body(&mut Body::new(cx), index, carried), location)
        };
        let next =
            |values: &ValueList| Some(Control::Continue { target: op, values: values.clone() });
        in_region(cx, region, op, location, run, next);
        results::<I::V>(cx, op, &init, location)
    }

    /// Runs a loop as [`for_`](Body::for_) does, with a body that ends each iteration itself. Use
    /// it to leave early: [`break_`](Loop::break_) ends the loop and gives its results,
    /// [`continue_`](Loop::continue_) goes on with the next index.
    #[track_caller]
    pub fn for_loop<'v, T: Integer, I: IntoValues<'v>>(
        &mut self,
        range: Range<'v, T>,
        init: I,
        body: impl for<'b> FnOnce(
            &mut Body<'b, 'o>,
            Loop<'b, I::V, I::V>,
            Val<'b, T>,
            <I::V as Values>::At<'b>,
        ) -> Terminated,
    ) -> <I::V as Values>::At<'o>
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (op, region, init) = begin_for(cx, range, init, location);
        let run = || {
            let (index, carried) = for_args::<T, I::V>(cx, region, &init);
            body(&mut Body::new(cx), Loop::new(op), index, carried)
        };
        let _terminated = in_region(cx, region, op, location, run, |_| None);
        results::<I::V>(cx, op, &init, location)
    }

    /// Runs `body` until it breaks, and returns the values passed to `break_`. Use it if the
    /// condition to stop is in the middle of the body. The body gets the carried values, which
    /// start as `init`; `continue_` passes the next ones. PTX ISA 9.7.12.3 `bra`.
    #[track_caller]
    pub fn loop_<'v, I: IntoValues<'v>, R: Values>(
        &mut self,
        init: I,
        body: impl for<'b> FnOnce(
            &mut Body<'b, 'o>,
            Loop<'b, I::V, R>,
            <I::V as Values>::At<'b>,
        ) -> Terminated,
    ) -> R::At<'o>
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (op, region, init) = begin_loop(cx, init, location);
        let run = || {
            let (_, carried) = loop_args::<I::V>(cx, region, &init);
            body(&mut Body::new(cx), Loop::new(op), carried)
        };
        let _terminated = in_region(cx, region, op, location, run, |_| None);
        results_of::<R>(cx, op)
    }

    /// Runs `body` while `cond` is true, and returns the carried values for which `cond` was false.
    /// Use it if the iteration count is not known before the loop. Both closures get the carried
    /// values, which start as `init`; `body` returns the next ones.
    #[doc(alias = "while")]
    #[track_caller]
    pub fn while_<'v, I: IntoValues<'v>>(
        &mut self,
        init: I,
        cond: impl for<'b> FnOnce(&mut Body<'b, 'o>, <I::V as Values>::At<'b>) -> Val<'b, bool>,
        body: impl for<'b> FnOnce(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o>
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (op, region, init) = begin_loop(cx, init, location);
        let run = || {
            let (args, carried) = loop_args::<I::V>(cx, region, &init);
            let holds = cond(&mut Body::new(cx), carried.clone());
            break_unless(cx, holds, op, args, location);
            next_of::<I::V>(cx, op, body(&mut Body::new(cx), carried), location)
        };
        in_region(cx, region, op, location, run, |next| next_iteration(op, next));
        results::<I::V>(cx, op, &init, location)
    }

    /// Runs `body` once, and again as long as it returns true; returns the last carried values. Use
    /// it if the condition depends on what the body computes, as in a compare-and-swap loop. `body`
    /// gets the carried values, which start as `init`, and returns the next ones together with the
    /// condition.
    #[track_caller]
    pub fn do_while<'v, I: IntoValues<'v>>(
        &mut self,
        init: I,
        body: impl for<'b> FnOnce(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
        ) -> (<I::V as Values>::At<'b>, Val<'b, bool>),
    ) -> <I::V as Values>::At<'o>
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (op, region, init) = begin_loop(cx, init, location);
        let run = || {
            let (_, carried) = loop_args::<I::V>(cx, region, &init);
            let (next, again) = body(&mut Body::new(cx), carried);
            let next = next_of::<I::V>(cx, op, next, location);
            if !cx.ended() {
                break_unless(cx, again, op, next.clone(), location);
            }
            next
        };
        in_region(cx, region, op, location, run, |next| next_iteration(op, next));
        results::<I::V>(cx, op, &init, location)
    }
}

/// Returns the jump to the next iteration.
fn next_iteration(target: OpId, values: &ValueList) -> Option<Control> {
    Some(Control::Continue { target, values: values.clone() })
}

#[track_caller]
fn begin_loop<'o, I: IntoValues<'o>>(
    cx: &'o Context,
    init: I,
    location: SourceLocation,
) -> (OpId, RegionId, At<'o, I>) {
    let (group, init) = group_of(cx, init);
    let region = cx.new_region();
    let parts = host_parts::<I::V>(&group);
    cx.add_args(region, &types_of::<I::V>(&parts), location);
    let op = append(cx, Control::Loop { init, body: region }, location);
    cx.note_carried(op, parts);
    (op, region, group)
}

fn loop_args<'b, V: Values>(
    cx: &'b Context,
    region: RegionId,
    init: &V::At<'_>,
) -> (ValueList, V::At<'b>) {
    let args = cx.args(region);
    let carried = made_of::<V>(cx, &mut args.iter().copied(), &host_parts::<V>(init));
    (args, carried)
}

/// Leaves the loop `target` with `values` if `cond` is false.
fn break_unless(
    cx: &Context,
    cond: Val<'_, bool>,
    target: OpId,
    values: ValueList,
    location: SourceLocation,
) {
    let value = cx.operand(cond);
    let cond = cx.emit_val::<bool>(Arith::Not { value }).id();
    let then_region = cx.new_region();
    let op = append(cx, Control::If { cond, then_region, else_region: None }, location);
    let leave = |_: &()| Some(Control::Break { target, values });
    in_region(cx, then_region, op, location, || (), leave);
}

/// Returns the ids of the next iteration's carried values, after checking their host parts.
#[track_caller]
fn next_of<V: Values>(
    cx: &Context,
    op: OpId,
    group: V::At<'_>,
    location: SourceLocation,
) -> ValueList {
    let (ids, parts) = collect::<V>(cx, group);
    cx.check_carried(op, &parts, location);
    ids
}

#[track_caller]
fn begin_for<'o, T: Integer, I: IntoValues<'o>>(
    cx: &'o Context,
    range: Range<'o, T>,
    init: I,
    location: SourceLocation,
) -> (OpId, RegionId, At<'o, I>) {
    let (lo, hi, step) = (bound(cx, range.lo), bound(cx, range.hi), bound(cx, range.step));
    let (group, init) = group_of(cx, init);
    let region = cx.new_region();
    let parts = host_parts::<I::V>(&group);
    cx.add_args(region, &[T::ty()], location);
    cx.add_args(region, &types_of::<I::V>(&parts), location);
    let control = Control::For {
        lo,
        hi,
        step,
        unroll: range.unroll,
        prefetch: range.prefetch,
        init,
        body: region,
    };
    let op = append(cx, control, location);
    cx.note_carried(op, parts);
    (op, region, group)
}

fn for_args<'b, T: Integer, V: Values>(
    cx: &'b Context,
    region: RegionId,
    init: &V::At<'_>,
) -> (Val<'b, T>, V::At<'b>) {
    let mut args = cx.args(region).into_iter();
    let index = made_of::<T>(cx, &mut args, &HostParts::new());
    (index, made_of::<V>(cx, &mut args, &host_parts::<V>(init)))
}
