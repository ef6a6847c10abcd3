//! [`Body::cases`]: chains of conditions, `if`, `else if`, .., `else`. Use them instead of nested
//! `if_else` calls.

use std::marker::PhantomData;

use super::body::Body;
use super::call::Call;
use super::control::{End, Terminated, add_results, append, close_region, fall_through, in_region};
use super::error::BuildErrorKind;
use super::host_part::HostParts;
use super::joins::{made_of, types_of};
use super::typed::IntoVal;
use super::values::Values;
use crate::ir::entity::OpId;
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{Control, ValueList};

/// How an arm of a [`cases`](Body::cases) chain that returns `V` may end: with values of type `V`,
/// with a jump, or by falling through if `V` is `()`. You meet it as a bound.
#[diagnostic::on_unimplemented(
    message = "this arm ends with `{Self}`, but the other arms of the chain give `{V}`",
    label = "the arms end differently",
    note = "all arms `yield_` the same types, or fall through without values, or jump away with `break_`, `continue_` or `return_`"
)]
pub trait CaseEnd<V> {
    /// True if the arm falls through, so that the build has to append a `yield`.
    const FALLS_THROUGH: bool = false;
    /// True if the code after the chain can be reached from the arm.
    const CONTINUES: bool = true;
}

impl<V: Values> CaseEnd<V> for End<V> {}
impl CaseEnd<()> for () {
    const FALLS_THROUGH: bool = true;
}
impl<V> CaseEnd<V> for Terminated {
    const CONTINUES: bool = false;
}

/// A chain of conditions that has no arm yet, made by [`Body::cases`]. Adding the first arm turns
/// it into [`Cases`].
#[must_use = "add arms with `when`, and end the chain with `otherwise`"]
#[derive(Debug)]
pub struct CasesStart<'k, 'b, 'o> {
    k: &'k mut Body<'b, 'o>,
}

/// A chain of conditions with at least one arm. Start it with [`Body::cases`] and end it with
/// [`otherwise`](Cases::otherwise).
#[must_use = "end the chain with `otherwise`"]
#[derive(Debug)]
pub struct Cases<'k, 'b, 'o, V> {
    k: &'k mut Body<'b, 'o>,
    /// The `if`s so far, each in the else region of the one before. These regions are open.
    chain: Vec<Link>,
    values: PhantomData<fn() -> V>,
}

#[derive(Debug)]
struct Link {
    op: OpId,
    location: SourceLocation,
    /// True if the code after the chain can be reached from this arm.
    continues: bool,
}

/// # Chains of conditions
///
/// Replaces nested `if_else` calls.
impl<'b, 'o> Body<'b, 'o> {
    /// Starts a chain of conditions: the first condition that is true selects its arm.
    ///
    /// All conditions are computed before the chain. If a condition may only be computed when the
    /// earlier ones are false, use [`if_else`](Body::if_else) inside `otherwise`.
    ///
    /// ```
    /// use tilewright::ir::{GlobalMut, Kernel, Target};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sign", Target::SM_80, |k, (x,)| {
    ///     let v = x.load(0);
    ///     let (negative, positive) = (v.lt(0), v.gt(0));
    ///     let sign = k
    ///         .cases()
    ///         .when(negative, |k| k.yield_(-1))
    ///         .when(positive, |k| k.yield_(1))
    ///         .otherwise(|k| k.yield_(0));
    ///     x.store(0, sign);
    /// })?;
    /// assert_eq!(kernel.to_string().matches(" else {").count(), 2);
    /// # Ok::<(), tilewright::ir::BuildErrors>(())
    /// ```
    pub fn cases(&mut self) -> CasesStart<'_, 'b, 'o> {
        CasesStart { k: self }
    }
}

impl<'k, 'b, 'o> CasesStart<'k, 'b, 'o> {
    /// Adds the first arm, which runs if `cond` is true.
    #[track_caller]
    pub fn when<'v, V: Values, E: CaseEnd<V>>(
        self,
        cond: impl IntoVal<'v, bool>,
        arm: impl for<'c> FnOnce(&mut Body<'c, 'b>) -> E,
    ) -> Cases<'k, 'b, 'o, V>
    where
        'b: 'v,
    {
        Cases { k: self.k, chain: Vec::new(), values: PhantomData }.when(cond, arm)
    }
}

impl<'b, V: Values> Cases<'_, 'b, '_, V> {
    /// Adds an arm, which runs if `cond` is true and every earlier condition is false.
    #[track_caller]
    pub fn when<'v, E: CaseEnd<V>>(
        mut self,
        cond: impl IntoVal<'v, bool>,
        arm: impl for<'c> FnOnce(&mut Body<'c, 'b>) -> E,
    ) -> Self
    where
        'b: 'v,
    {
        let (cx, location) = (self.k.context(), SourceLocation::caller());
        let cond = cx.operand_of(cond);
        let (then_region, else_region) = (cx.new_region(), cx.new_region());
        let control = Control::If { cond, then_region, else_region: Some(else_region) };
        let op = append(cx, control, location);
        let end = |_: &E| fall_through(E::FALLS_THROUGH);
        in_region(cx, then_region, op, location, || arm(&mut Body::new(cx)), end);
        cx.with(|state| state.open(else_region, op));
        self.chain.push(Link { op, location, continues: E::CONTINUES });
        self
    }

    /// Adds the last arm, which runs if no condition is true. Ends the chain and returns what the
    /// executed arm yields. A chain without this call is an error of the build.
    #[track_caller]
    pub fn otherwise<E: CaseEnd<V>>(
        mut self,
        arm: impl for<'c> FnOnce(&mut Body<'c, 'b>) -> E,
    ) -> V::At<'b> {
        let cx = self.k.context();
        let call = Call::new(cx, SourceLocation::caller());
        let _end = arm(&mut Body::new(cx));
        drop(call);
        let mut continues = E::CONTINUES;
        let mut end = fall_through(E::FALLS_THROUGH);
        let (mut values, mut parts, none) = (ValueList::new(), None, HostParts::new());
        // From the inside out: each `if` ends the else region of the `if` around it with its own
        // results.
        while let Some(Link { op, location, continues: arm_continues }) = self.chain.pop() {
            close_region(cx, op, location, end);
            continues |= arm_continues;
            if let Some(of_op) = cx.results_of(op) {
                parts = Some(match parts {
                    Some(parts) => cx.joined(&of_op, &parts, location),
                    None => of_op,
                });
            }
            values = add_results(cx, op, &types_of::<V>(parts.as_ref().unwrap_or(&none)));
            if !continues {
                cx.end_region();
            }
            end = Some(Control::Yield { values: values.clone() });
        }
        made_of::<V>(cx, &mut values.into_iter(), &parts.unwrap_or_default())
    }
}

/// Closes the else regions of a chain that is dropped without a last arm, and records the mistake.
impl<V> Drop for Cases<'_, '_, '_, V> {
    fn drop(&mut self) {
        let cx = self.k.context();
        if let Some(last) = self.chain.last() {
            cx.with(|state| state.error(last.location, BuildErrorKind::UnfinishedCases));
        }
        while let Some(Link { op, location, .. }) = self.chain.pop() {
            cx.end_region();
            close_region(cx, op, location, None);
        }
    }
}
