//! `if`, `yield` and `return` as closures, and the types that say how a body ends. `loops` has the
//! loops.
//!
//! A body closure runs exactly once, while the kernel is built. Its return value says how the body
//! ends: with values ([`End`], or the next carried values of a `for_`), with a jump
//! ([`Terminated`]), or by falling through (`()`).

use std::marker::PhantomData;

use super::body::Body;
use super::call::Call;
use super::context::Context;
use super::error::BuildErrorKind;
use super::host_part::HostParts;
use super::joins::{host_parts, made_of, types_of};
use super::typed::IntoVal;
use super::values::{IntoValues, Values};
use crate::ir::entity::{OpId, RegionId};
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{Control, ValueList};
use crate::ir::types::Type;

/// The end of an arm that yields values of type `V`. [`Body::yield_`] makes it; return it from the
/// arm.
#[must_use = "return it from the body: it says how the body ends"]
#[derive(Debug)]
pub struct End<V>(PhantomData<fn() -> V>);

/// The end of a body that jumps away: it breaks, continues or returns. Return it from the body.
#[must_use = "return it from the body: it says how the body ends"]
#[derive(Debug)]
pub struct Terminated(());

/// How an arm without results may end: `()` or [`Terminated`]. You meet it as the bound of
/// [`if_`](Body::if_).
#[diagnostic::on_unimplemented(
    message = "an arm of `if_` has no results, but this one ends with `{Self}`",
    label = "expected `()` or `Terminated`",
    note = "end the statement with `;`, or use `if_else` or `if_with` to get values out"
)]
pub trait ArmEnd {
    /// True if the arm falls through, so that the build has to append a `yield`.
    const FALLS_THROUGH: bool;
}

impl ArmEnd for () {
    const FALLS_THROUGH: bool = true;
}
impl ArmEnd for Terminated {
    const FALLS_THROUGH: bool = false;
}

/// Says which ends the two arms of an [`if_else`](Body::if_else) may have, and what it then
/// returns. You meet it as a bound and in rustc's error if the arms do not match.
#[diagnostic::on_unimplemented(
    message = "the arms of this `if_else` do not meet: one ends with `{Self}`, the other with `{B}`",
    label = "the arms end differently",
    note = "both arms `yield_` the same types, or both fall through without values, or an arm jumps away with `break_`, `continue_` or `return_`"
)]
pub trait Join<'o, B> {
    /// What the `if_else` returns.
    type Out;
    /// For each arm, true if it falls through without values.
    const FALLS_THROUGH: (bool, bool);
    /// True if the code after the `if_else` can be reached.
    const CONTINUES: bool = true;
    /// Adds the results to the `if` operation and returns what the `if_else` returns.
    fn make(cx: &'o Context, op: OpId) -> Self::Out;
}

macro_rules! join_values {
    ($($A:ty, $B:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<'o, V: Values> Join<'o, $B> for $A {
            type Out = V::At<'o>;
            const FALLS_THROUGH: (bool, bool) = (false, false);

            #[track_caller]
            fn make(cx: &'o Context, op: OpId) -> V::At<'o> {
                results_of::<V>(cx, op)
            }
        }
    )*};
}
join_values! {
    End<V>, End<V>;
    End<V>, Terminated;
    Terminated, End<V>;
}

macro_rules! join_unit {
    ($($A:ty, $B:ty;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<'o> Join<'o, $B> for $A {
            type Out = ();
            const FALLS_THROUGH: (bool, bool) =
                (<$A as ArmEnd>::FALLS_THROUGH, <$B as ArmEnd>::FALLS_THROUGH);

            fn make(_: &'o Context, _: OpId) {}
        }
    )*};
}
join_unit! {
    (), ();
    (), Terminated;
    Terminated, ();
}

#[diagnostic::do_not_recommend]
impl<'o> Join<'o, Terminated> for Terminated {
    type Out = Terminated;
    const FALLS_THROUGH: (bool, bool) = (false, false);
    const CONTINUES: bool = false;

    fn make(_: &'o Context, _: OpId) -> Terminated {
        Terminated(())
    }
}

#[track_caller]
pub(super) fn ids_of<'x, I: IntoValues<'x>>(cx: &'x Context, values: I) -> ValueList {
    group_of(cx, values).1
}

/// Turns `values` into a group and its ids.
#[track_caller]
pub(super) fn group_of<'x, I: IntoValues<'x>>(
    cx: &'x Context,
    values: I,
) -> (At<'x, I>, ValueList) {
    let group = values.at(cx);
    let mut ids = ValueList::new();
    I::V::ids(&group, cx, &mut ids);
    (group, ids)
}

/// The group that `I` turns into.
pub(super) type At<'x, I> = <<I as IntoValues<'x>>::V as Values>::At<'x>;

#[track_caller]
pub(super) fn terminate(cx: &Context, control: Control) -> Terminated {
    let location = SourceLocation::caller();
    cx.with(|state| state.append(control.into(), location));
    Terminated(())
}

/// Appends an operation that owns regions.
pub(super) fn append(cx: &Context, control: Control, location: SourceLocation) -> OpId {
    cx.with(|state| state.append(control.into(), location))
}

/// Adds results of the given types to `op`.
pub(super) fn add_results(cx: &Context, op: OpId, types: &[Type]) -> ValueList {
    cx.with(|state| types.iter().map(|ty| state.add_result(op, *ty)).collect())
}

/// Adds results to `op` and makes their group, with what the host knows about `init` and the other
/// paths' values.
#[track_caller]
pub(super) fn results<'o, V: Values>(
    cx: &'o Context,
    op: OpId,
    init: &V::At<'_>,
    location: SourceLocation,
) -> V::At<'o> {
    cx.note_results(op, host_parts::<V>(init), location);
    results_of::<V>(cx, op)
}

/// Adds results to `op` and makes their group, with what the host knows about the values of all
/// paths.
#[track_caller]
pub(super) fn results_of<'o, V: Values>(cx: &'o Context, op: OpId) -> V::At<'o> {
    let parts = cx.results_of(op).unwrap_or_default();
    let ids = add_results(cx, op, &types_of::<V>(&parts));
    made_of::<V>(cx, &mut ids.into_iter(), &parts)
}

/// Returns the ids of a group that a body returned, checked at the control-flow operation's line,
/// and what the host knows about it.
#[track_caller]
pub(super) fn collect<V: Values>(cx: &Context, group: V::At<'_>) -> (ValueList, HostParts) {
    let mut ids = ValueList::new();
    // After a jump the values are never read, and their constants would come after the terminator.
    if cx.ended() {
        return (ids, HostParts::new());
    }
    V::ids(&group, cx, &mut ids);
    (ids, host_parts::<V>(&group))
}

/// Runs `f` with `region`, a region of `op`, as the innermost open body. If the region then has no
/// terminator, appends `end`, which is `None` if the body's type promises a terminator.
pub(super) fn in_region<R>(
    cx: &Context,
    region: RegionId,
    op: OpId,
    location: SourceLocation,
    f: impl FnOnce() -> R,
    end: impl FnOnce(&R) -> Option<Control>,
) -> R {
    let call = enter(cx, region, op, location);
    let result = f();
    let end = if cx.ended() { None } else { end(&result) };
    close_region(cx, op, location, end);
    drop(call);
    result
}

/// Opens `region`, a region of `op`.
fn enter(cx: &Context, region: RegionId, op: OpId, location: SourceLocation) -> Call<'_> {
    let call = Call::new(cx, location);
    cx.with(|state| state.open(region, op));
    call
}

/// Closes the innermost open body, a region of `op`. Appends `end` if the region has no terminator.
pub(super) fn close_region(cx: &Context, op: OpId, location: SourceLocation, end: Option<Control>) {
    cx.with(|state| {
        match end {
            _ if state.ended() => {}
            Some(control) => {
                state.append(control.into(), location);
            }
            None => {
                let op = state.ir.ops[op].op.name();
                state.error(location, BuildErrorKind::BodyWithoutEnd { op });
            }
        }
        state.close();
    });
}

/// Returns the `yield` without values that ends an arm which falls through.
pub(super) fn fall_through(falls_through: bool) -> Option<Control> {
    falls_through.then(|| Control::Yield { values: ValueList::new() })
}

/// Makes calls of `Body::break_` and `Body::continue_` fail to compile with a message that names
/// the loop's handle.
#[diagnostic::on_unimplemented(
    message = "a body has no `break_` and no `continue_` of its own: the handle of a loop has them",
    label = "call `break_` or `continue_` of the loop's handle",
    note = "`for_`, `while_` and `do_while` have no handle: write `k.for_loop(range, init, |k, l, i, values| ..)` or `k.loop_(init, |k, l, values| ..)`, and `l.break_(k, values)` or `l.continue_(k, values)` in the body"
)]
pub trait OfALoop {}

/// # Ends of a body
///
/// Ends an arm with values, or ends the thread.
impl<'o> Body<'o, '_> {
    #[doc(hidden)]
    pub fn break_<V: OfALoop>(&self, _: V) -> Terminated {
        Terminated(())
    }

    #[doc(hidden)]
    pub fn continue_<V: OfALoop>(&self, _: V) -> Terminated {
        Terminated(())
    }

    /// Ends an arm of [`if_else`](Body::if_else) or [`cases`](Body::cases) and gives `values` as
    /// the arm's results. Return what it returns from the arm's closure.
    #[track_caller]
    pub fn yield_<V: IntoValues<'o>>(&self, values: V) -> End<V::V> {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let (group, values) = group_of(cx, values);
        if let Some(op) = cx.with(|state| state.ir.regions[state.region()].parent) {
            cx.note_results(op, host_parts::<V::V>(&group), location);
        }
        let _ = terminate(cx, Control::Yield { values });
        End(PhantomData)
    }

    /// Ends the thread, for example if it has no element to work on. You can call it in any body;
    /// barriers no longer wait for the thread. PTX ISA 9.7.12.6 `ret`.
    #[track_caller]
    pub fn return_(&self) -> Terminated {
        terminate(self.context(), Control::Return)
    }
}

/// # Branches
///
/// Runs a body in some of the threads.
impl<'o> Body<'o, '_> {
    /// Runs `body` in the threads in which `cond` is true, for example to guard accesses at the
    /// edge of a matrix. PTX ISA 9.7.12.3 `bra`.
    #[track_caller]
    pub fn if_<'v, E: ArmEnd>(
        &mut self,
        cond: impl IntoVal<'v, bool>,
        body: impl for<'b> FnOnce(&mut Body<'b, 'o>) -> E,
    ) where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let cond = cx.operand_of(cond);
        let then_region = cx.new_region();
        let op = append(cx, Control::If { cond, then_region, else_region: None }, location);
        in_region(
            cx,
            then_region,
            op,
            location,
            || body(&mut Body::new(cx)),
            |_| fall_through(E::FALLS_THROUGH),
        );
    }

    /// Runs `then_body` if `cond` is true and `else_body` if not, and returns the values that the
    /// arm yields. An arm that jumps away yields nothing; if both do, so does the `if_else`. PTX
    /// ISA 9.7.12.3 `bra`.
    #[doc(alias = "ternary")]
    #[track_caller]
    pub fn if_else<'v, A: Join<'o, B>, B>(
        &mut self,
        cond: impl IntoVal<'v, bool>,
        then_body: impl for<'b> FnOnce(&mut Body<'b, 'o>) -> A,
        else_body: impl for<'b> FnOnce(&mut Body<'b, 'o>) -> B,
    ) -> A::Out
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let cond = cx.operand_of(cond);
        let (then_region, else_region) = (cx.new_region(), cx.new_region());
        let control = Control::If { cond, then_region, else_region: Some(else_region) };
        let op = append(cx, control, location);
        let (then_falls, else_falls) = A::FALLS_THROUGH;
        let then_end = |_: &A| fall_through(then_falls);
        let else_end = |_: &B| fall_through(else_falls);
        in_region(cx, then_region, op, location, || then_body(&mut Body::new(cx)), then_end);
        in_region(cx, else_region, op, location, || else_body(&mut Body::new(cx)), else_end);
        if !A::CONTINUES {
            cx.end_region();
        }
        A::make(cx, op)
    }

    /// Runs `body` if `cond` is true and returns its values; otherwise returns `init`. It is the
    /// short form of an `if_else` whose else arm yields `init`.
    #[track_caller]
    pub fn if_with<'v, I: IntoValues<'v>>(
        &mut self,
        cond: impl IntoVal<'v, bool>,
        init: I,
        body: impl for<'b> FnOnce(&mut Body<'b, 'o>) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o>
    where
        'o: 'v,
    {
        let (cx, location) = (self.context(), SourceLocation::caller());
        let cond = cx.operand_of(cond);
        let (group, init) = group_of(cx, init);
        let (then_region, else_region) = (cx.new_region(), cx.new_region());
        let control = Control::If { cond, then_region, else_region: Some(else_region) };
        let op = append(cx, control, location);
        let values = |group: &ValueList| Some(Control::Yield { values: group.clone() });
        let run = || {
            let (ids, parts) = collect::<I::V>(cx, body(&mut Body::new(cx)));
            cx.note_results(op, parts, location);
            ids
        };
        in_region(cx, then_region, op, location, run, values);
        in_region(cx, else_region, op, location, || init, values);
        results::<I::V>(cx, op, &group, location)
    }
}
