//! Lanes of a warp that combine their values: exchanges in steps, or one instruction.

use super::{Order, Steps, distances};
use crate::ir::builder::body::Body;
use crate::ir::builder::typed::Val;
use crate::ir::builder::values::Values;
use crate::ir::builder::warp::WARP;
use crate::ir::entity::Value;
use crate::ir::op::{Arith, Op, ReduxOp, ShflMode, ValueList, Warp};
use crate::ir::types::{Scalar, Type};

/// Lanes that combine their values in steps.
pub(super) struct Span<'o> {
    /// The number of lanes, a power of two.
    pub(super) lanes: u32,
    /// The first lane without a value; all later lanes have none. `None` if all lanes of the span have values.
    pub(super) end: Option<Val<'o, i32>>,
    /// True if the span has all threads of its warp.
    pub(super) is_warp: bool,
}

impl<'o, 'f, V, F> Steps<'o, 'f, V, F>
where
    V: Values,
    F: for<'b> Fn(&mut Body<'b, 'o>, V::At<'b>, V::At<'b>) -> V::At<'b>,
{
    /// The value of the lanes of a warp below `end`, at most `lanes`, in the first lane. In each step a lane combines its
    /// value with that of the lane 1, 2, 4 and so on above, where that lane is below `end`.
    pub(super) fn fold_to_first(
        &self,
        mut values: ValueList,
        lanes: u32,
        end: Val<'o, i32>,
    ) -> ValueList {
        // Without a mask of segments the operand is the last lane that is read.
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

    /// Returns whether a warp reduces all values in one instruction each.
    pub(super) fn is_redux(&self) -> bool {
        match &self.order {
            Order::Plain(ops) => {
                ops.iter().zip(&self.types).all(|(op, ty)| redux(op, *ty).is_some())
            }
            Order::Free | Order::Matters => false,
        }
    }

    /// The value of all lanes of the span, in each of them.
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

    /// The steps for one value whose operands may come in any order.
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

    /// The steps for any combining body.
    fn fold_any(&self, mut values: ValueList, span: &Span<'o>) -> ValueList {
        let ordered = matches!(self.order, Order::Matters);
        let lane = (ordered || span.end.is_some()).then(|| self.lane());
        for distance in distances(span.lanes) {
            let partner = lane.zip(span.end).map(|(lane, end)| Partner::new(lane, distance, end));
            let others = match &partner {
                None => self.of_lane(&values, distance.unsigned_abs(), ShflMode::Bfly),
                Some(partner) => self.of_lane(&values, partner.source, ShflMode::Idx),
            };
            // In the upper half of a pair of neighbours the value of the thread is the second operand.
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

/// The lane that a lane combines its value with, where some lanes have no value.
struct Partner<'o> {
    /// The lane to read: one with a thread.
    source: Val<'o, u32>,
    /// True if the other half of the pair has values.
    exists: Val<'o, bool>,
}

impl<'o> Partner<'o> {
    /// The first lane of the other half of the pair of `2 * distance` lanes: if any lane of that half has a value,
    /// it has, and so it knows that of its whole half.
    fn new(lane: Val<'o, i32>, distance: i32, end: Val<'o, i32>) -> Partner<'o> {
        let other = lane ^ distance;
        let other = if distance == 1 { other } else { other & -distance };
        let exists = other.lt(end);
        Partner { source: exists.select(other, lane).cvt::<u32>(), exists }
    }
}

/// The reduction of a warp that an operation is a step of, where the hardware has it. PTX ISA 9.7.13.12
/// `redux.sync`.
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
