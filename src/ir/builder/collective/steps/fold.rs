//! Combines the values of a warp's lanes: by shuffles in steps, or by one `redux.sync` if it has
//! the operation and the type. Reductions use it within warps.

use super::{Order, Steps, distances};
use crate::ir::builder::body::Body;
use crate::ir::builder::typed::Val;
use crate::ir::builder::values::Values;
use crate::ir::builder::warp::WARP;
use crate::ir::entity::Value;
use crate::ir::op::{Arith, Op, ReduxOp, ShflMode, ValueList, Warp};
use crate::ir::types::{Scalar, Type};

pub(super) const FILE: &str = file!();

/// The lanes that combine their values.
pub(super) struct Span<'o> {
    /// How many lanes, a power of two.
    pub(super) lanes: u32,
    /// The first lane without a value; no later lane has one either. `None` if all lanes have
    /// values.
    pub(super) end: Option<Val<'o, i32>>,
    /// True if these are all threads of the warp.
    pub(super) is_warp: bool,
}

impl<'o, 'f, V, F> Steps<'o, 'f, V, F>
where
    V: Values,
    F: for<'b> Fn(&mut Body<'b, 'o>, V::At<'b>, V::At<'b>) -> V::At<'b>,
{
    /// Combines the lanes below `end` (at most `lanes`) into the first lane. In each step a lane
    /// takes in the value of the lane 1, 2, 4 and so on above it, if that lane is below `end`.
    pub(super) fn fold_to_first(
        &self,
        mut values: ValueList,
        lanes: u32,
        end: Val<'o, i32>,
    ) -> ValueList {
        // If the segment mask is 0, the operand is the last lane that may be read.
        let last = (end - 1).cvt::<u32>();
        for distance in distances(lanes) {
            let (others, is_inside) = self.of_lane_above(&values, distance.unsigned_abs(), last);
            values = match &self.order {
                Order::Plain(ops) => {
                    let pairs = values.iter().zip(&others);
                    let each = ops.iter().zip(&self.types).zip(pairs);
                    each.map(|((op, ty), (value, other))| {
                        let both = self.apply(op, *value, *other);
                        self.choose(is_inside, both, *value, *ty)
                    })
                    .collect()
                }
                Order::Free | Order::Matters => {
                    self.unless(!is_inside, &values, |steps| steps.combine(&values, &others))
                }
            };
        }
        values
    }

    /// Returns whether one instruction per value reduces a warp.
    pub(super) fn is_redux(&self) -> bool {
        match &self.order {
            Order::Plain(ops) => {
                ops.iter().zip(&self.types).all(|(op, ty)| redux(op, *ty).is_some())
            }
            Order::Free | Order::Matters => false,
        }
    }

    /// Combines all lanes of the span; every lane gets the result.
    pub(super) fn fold(&self, values: ValueList, span: &Span<'o>) -> ValueList {
        match &self.order {
            Order::Plain(ops) => {
                let each = values.iter().zip(ops.iter().zip(&self.types));
                each.map(|(value, (op, ty))| match redux(op, *ty).filter(|_| span.is_warp) {
                    Some(op) => self.redux(*value, op, *ty),
                    None => self.fold_plain(*value, op, *ty, span),
                })
                .collect()
            }
            Order::Free | Order::Matters => self.fold_any(values, span),
        }
    }

    fn redux(&self, value: Value, op: ReduxOp, ty: Type) -> Value {
        let members = self.cx.constant(WARP).id();
        self.one(Warp::Redux { value, members, op }, ty)
    }

    /// Emits the steps for one value whose operands may be swapped.
    fn fold_plain(&self, mut value: Value, op: &Op, ty: Type, span: &Span<'o>) -> Value {
        let lane = span.end.map(|end| (self.lane(), end));
        for distance in distances(span.lanes) {
            let Some((lane, end)) = lane else {
                let other = self.shfl(value, ty, distance.unsigned_abs(), ShflMode::Bfly);
                value = self.apply(op, value, other);
                continue;
            };
            let partner = Partner::new(lane, distance, end);
            let other = self.shfl(value, ty, partner.source, ShflMode::Idx);
            let both = self.apply(op, value, other);
            value = self.choose(partner.exists, both, value, ty);
        }
        value
    }

    /// Emits the steps for any combining body.
    fn fold_any(&self, mut values: ValueList, span: &Span<'o>) -> ValueList {
        let ordered = matches!(self.order, Order::Matters);
        let lane = (ordered || span.end.is_some()).then(|| self.lane());
        for distance in distances(span.lanes) {
            let partner = lane.zip(span.end).map(|(lane, end)| Partner::new(lane, distance, end));
            let others = match &partner {
                None => self.of_lane(&values, distance.unsigned_abs(), ShflMode::Bfly),
                Some(partner) => self.of_lane(&values, partner.source, ShflMode::Idx),
            };
            // In the upper half of a pair, the thread's own value is the second operand.
            let is_upper = lane.filter(|_| ordered).map(|lane| (lane & distance).ne(0));
            let both = |steps: &Self| {
                let Some(is_upper) = is_upper else { return steps.combine(&values, &others) };
                let first = steps.choose_all(is_upper, &others, &values);
                let second = steps.choose_all(is_upper, &values, &others);
                steps.combine(&first, &second)
            };
            values = match partner {
                None => both(self),
                Some(partner) => self.unless(!partner.exists, &values, both),
            };
        }
        values
    }
}

/// The lane to combine with, if some lanes have no value.
struct Partner<'o> {
    /// The lane to read, which always has a thread.
    source: Val<'o, u32>,
    /// True if the pair's other half has values.
    exists: Val<'o, bool>,
}

impl<'o> Partner<'o> {
    /// Picks the first lane in the other half of the pair of `2 * distance` lanes: if any lane of
    /// that half has a value, the first one does, and it holds the value of its whole half.
    fn new(lane: Val<'o, i32>, distance: i32, end: Val<'o, i32>) -> Partner<'o> {
        let other = lane ^ distance;
        let other = if distance == 1 { other } else { other & -distance };
        let exists = other.lt(end);
        Partner { source: exists.select(other, lane).cvt::<u32>(), exists }
    }
}

/// Returns the warp reduction that a single operation is a step of, if the hardware has it. PTX ISA
/// 9.7.13.12 `redux.sync`.
fn redux(op: &Op, ty: Type) -> Option<ReduxOp> {
    if !matches!(ty, Type::Scalar(Scalar::I32 | Scalar::U32)) {
        return None;
    }
    let ops: [(ReduxOp, bool); 6] = [
        (ReduxOp::Add, matches!(op, Op::Arith(Arith::Add { .. }))),
        (ReduxOp::Min, matches!(op, Op::Arith(Arith::Min { .. }))),
        (ReduxOp::Max, matches!(op, Op::Arith(Arith::Max { .. }))),
        (ReduxOp::And, matches!(op, Op::Arith(Arith::And { .. }))),
        (ReduxOp::Or, matches!(op, Op::Arith(Arith::Or { .. }))),
        (ReduxOp::Xor, matches!(op, Op::Arith(Arith::Xor { .. }))),
    ];
    ops.into_iter().find_map(|(redux, is_it)| is_it.then_some(redux))
}
