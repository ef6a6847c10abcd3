//! The steps of reductions and scans: shuffles between lanes, and shared memory between warps.

mod fold;

use fold::Span;

use super::pool;
use crate::ir::builder::body::Body;
use crate::ir::builder::context::Context;
use crate::ir::builder::control::{add_results, append, in_region};
use crate::ir::builder::error::BuildErrorKind;
use crate::ir::builder::host_part::HostParts;
use crate::ir::builder::joins::{host_parts, lengths, types_of};
use crate::ir::builder::typed::{IntoVal, Val};
use crate::ir::builder::values::Values;
use crate::ir::builder::warp::WARP;
use crate::ir::entity::Value;
use crate::ir::kernel::SourceLocation;
use crate::ir::op::{
    Arith, Axis, Control, Convert, LoadAccess, Mem, Op, ShflMode, SpecialReg, Sync, Thread,
    ValueList, Warp,
};
use crate::ir::types::{Scalar, Type};

pub(super) const FILE: &str = file!();
pub(super) const FOLD: &str = fold::FILE;

/// Lanes per warp.
pub(super) const LANES: u32 = 32;
/// The maximum number of warps in a block.
const WARPS: u32 = 32;
/// Up to this many warps, each thread combines the results of all warps itself.
const FEW_WARPS: u32 = 8;

/// Emits the steps of a reduction or scan over one group of values.
pub(super) struct Steps<'o, 'f, V, F> {
    pub(super) cx: &'o Context,
    pub(super) location: SourceLocation,
    /// The host parts of the group: only the lengths of its vectors matter.
    parts: HostParts,
    types: Vec<Type>,
    combine: &'f F,
    order: Order,
    /// The block's shape in threads, if the kernel fixes it.
    block: Option<[u32; 3]>,
    group: std::marker::PhantomData<fn() -> V>,
}

/// Where to find the last value of an inclusive scan.
pub(super) enum LastScanned {
    /// In the last lane of each group of `lanes` lanes.
    InLanes { scanned: ValueList, lanes: u32 },
    /// In shared memory, in the last warp's element.
    OfWarps(ValueList),
}

/// Whether the combining body's operands may be swapped.
enum Order {
    /// Their order matters.
    Matters,
    /// They may be swapped: the caller says so.
    Free,
    /// They may be swapped, because each result is a single commutative operation on the same
    /// element of both operands.
    Plain(Vec<Op>),
}

impl<'o, 'f, V, F> Steps<'o, 'f, V, F>
where
    V: Values,
    F: for<'b> Fn(&mut Body<'b, 'o>, V::At<'b>, V::At<'b>) -> V::At<'b>,
{
    /// `value` is one of the values that are combined. `commutes` promises that the operands may be
    /// swapped.
    #[track_caller]
    pub(super) fn new(k: &Body<'o, '_>, value: &V::At<'_>, combine: &'f F, commutes: bool) -> Self {
        let (cx, location, parts) = (k.context(), SourceLocation::caller(), host_parts::<V>(value));
        let (types, block) = (types_of::<V>(&parts), cx.block());
        let (group, order) = (std::marker::PhantomData, Order::Matters);
        let mut steps = Steps { cx, location, parts, types, combine, order, block, group };
        let mut others = steps.types.iter().copied().filter(|ty| ty.scalar().is_none()).peekable();
        if others.peek().is_none() {
            drop(others);
            steps.order = if commutes { Order::Free } else { steps.find_order() };
        } else {
            others.for_each(|found| cx.error(BuildErrorKind::ReducedType { found }));
        }
        steps
    }

    /// Runs the combining body on scratch values, to see whether its operands may be swapped.
    fn find_order(&self) -> Order {
        let twice = [self.types.as_slice(), &self.types].concat();
        let body = |args: &[Value]| {
            let (a, b) = args.split_at(self.types.len());
            let [a, b] = [a, b].map(|ids| ids.iter().copied().collect::<ValueList>());
            let results = self.combine(&a, &b);
            (a, b, results)
        };
        self.cx.try_out(&twice, body, |ir, ops, (a, b, results)| {
            let plain = results.iter().zip(a.iter().zip(&b)).map(|(result, (a, b))| {
                let op = ops.iter().find(|op| ir.ops[**op].results.contains(result))?;
                let op = &ir.ops[*op].op;
                let operands = op.operands();
                let of_both =
                    matches!(operands[..], [x, y] if (x, y) == (*a, *b) || (x, y) == (*b, *a));
                (of_both && op.commutes()).then(|| op.clone())
            });
            match plain.collect::<Option<Vec<Op>>>() {
                Some(plain) if ops.len() == plain.len() => Order::Plain(plain),
                _ => Order::Matters,
            }
        })
    }

    pub(super) fn combine(&self, a: &ValueList, b: &ValueList) -> ValueList {
        let cx = self.cx;
        let [a, b] = [a, b].map(|ids| self.made(ids.clone()));
        let combined = (self.combine)(&mut Body::new(cx), a, b);
        self.check_lengths(&combined);
        let mut ids = ValueList::new();
        V::ids(&combined, cx, &mut ids);
        ids
    }

    /// Makes a group from its values.
    pub(super) fn made(&self, ids: ValueList) -> V::At<'o> {
        V::make(self.cx, &mut lengths(&self.parts), &mut ids.into_iter())
    }

    /// Records an error if the vectors of `group` have other lengths than those of the values.
    pub(super) fn check_lengths(&self, group: &V::At<'_>) {
        let parts = host_parts::<V>(group);
        let mut both = lengths(&self.parts).zip(lengths(&parts));
        if let Some((len, found)) = both.find(|(len, found)| len != found) {
            let kind = BuildErrorKind::CombinedLength { len, found };
            self.cx.with(|state| state.error(self.location, kind));
        }
    }

    /// Returns how many threads a block has, if the kernel fixes it.
    pub(super) fn threads(&self) -> Option<u32> {
        self.block.map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z).max(1))
    }

    /// Returns how many warps a block has, if the kernel fixes its threads.
    fn known_warps(&self) -> Option<u32> {
        self.threads().map(|threads| threads.div_ceil(LANES).min(WARPS))
    }

    fn sreg(&self, reg: SpecialReg) -> Val<'o, i32> {
        self.cx.emit_val(Thread::Sreg { reg })
    }

    pub(super) fn lane(&self) -> Val<'o, i32> {
        self.sreg(SpecialReg::LaneId)
    }

    /// Returns the thread's linear index in its block: x before y before z.
    pub(super) fn thread(&self) -> Val<'o, i32> {
        let tid = |axis| self.sreg(SpecialReg::Tid(axis));
        let x = tid(Axis::X);
        match self.block {
            Some([_, 1, 1]) => x,
            Some([dim_x, dim_y, _]) => {
                let [dim_x, dim_y] = [dim_x, dim_y].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
                x + (tid(Axis::Y) + tid(Axis::Z) * dim_y) * dim_x
            }
            None => {
                let dim = |axis| self.sreg(SpecialReg::Ntid(axis));
                x + (tid(Axis::Y) + tid(Axis::Z) * dim(Axis::Y)) * dim(Axis::X)
            }
        }
    }

    /// Returns how many threads a block has.
    fn count(&self) -> Val<'o, i32> {
        match self.threads() {
            Some(threads) => self.cx.constant(i32::try_from(threads).unwrap_or(i32::MAX)),
            None => {
                let [x, y, z] = Axis::ALL.map(|axis| self.sreg(SpecialReg::Ntid(axis)));
                x * y * z
            }
        }
    }

    /// Returns how many warps a block has.
    pub(super) fn warps(&self) -> Val<'o, i32> {
        self.warps_of(None)
    }

    /// Returns how many warps a block has; `count` is its thread count, if already computed.
    fn warps_of(&self, count: Option<Val<'o, i32>>) -> Val<'o, i32> {
        match self.known_warps() {
            Some(warps) => self.cx.constant(i32::try_from(warps).unwrap_or(i32::MAX)),
            None => (count.unwrap_or_else(|| self.count()) + 31) >> 5,
        }
    }

    /// Returns how many lanes of this warp have a thread.
    fn lanes(&self) -> Val<'o, i32> {
        match self.threads() {
            Some(threads) if threads < LANES => self.count(),
            _ => self.lanes_of(self.thread(), self.count()),
        }
    }

    /// Returns how many lanes have a thread in the warp of `thread`, in a block of `count` threads.
    fn lanes_of(&self, thread: Val<'o, i32>, count: Val<'o, i32>) -> Val<'o, i32> {
        (count - (thread & -32)).min(32)
    }

    /// Returns whether the kernel fixes a block of whole warps.
    fn has_whole_warps(&self) -> bool {
        self.threads().is_some_and(|threads| threads.is_multiple_of(LANES))
    }

    /// Combines each group of `lanes` lanes in a warp; every lane gets the result.
    pub(super) fn reduce_lanes(&self, values: ValueList, lanes: u32) -> ValueList {
        let is_warp = lanes == LANES;
        let whole = self.threads().is_some_and(|threads| threads.is_multiple_of(lanes));
        let lanes = match self.threads() {
            Some(threads) => lanes.min(threads.next_power_of_two()),
            None => lanes,
        };
        // `redux.sync` ignores missing threads by itself.
        let end = if whole || (is_warp && self.is_redux()) { None } else { Some(self.lanes()) };
        self.fold(values, &Span { lanes, end, is_warp })
    }

    /// Combines a warp; at least its first lane gets the result. `lanes` returns how many lanes
    /// have a thread.
    fn reduce_to_first(
        &self,
        values: ValueList,
        lanes: impl FnOnce() -> Val<'o, i32>,
    ) -> ValueList {
        if self.has_whole_warps() || self.is_redux() {
            return self.reduce_lanes(values, LANES);
        }
        self.fold_to_first(values, LANES, lanes())
    }

    /// Combines a warp. The result has a form that the verifier knows to be uniform across the
    /// warp.
    pub(super) fn reduce_warp(&self, values: ValueList) -> ValueList {
        let values = self.reduce_to_first(values, || self.lanes());
        let whole = self.has_whole_warps() && !matches!(self.order, Order::Free);
        if whole || self.is_redux() {
            return values;
        }
        self.of_lane(&values, 0u32, ShflMode::Idx)
    }

    /// Combines the block; every thread gets the result.
    pub(super) fn reduce_block(&self, values: ValueList) -> ValueList {
        let cx = self.cx;
        let known = self.known_warps();
        if known == Some(1) {
            return self.reduce_warp(values);
        }
        let thread = self.thread();
        let lanes = (!self.has_whole_warps()).then(|| {
            let count = self.count();
            (count, self.lanes_of(thread, count))
        });
        let values = self.reduce_to_first(values, || {
            lanes.map_or_else(|| self.cx.constant(32), |(_, lanes)| lanes)
        });
        let slots = known.unwrap_or(WARPS);
        let lane = self.lane();
        let is_vector = |ty: &Type| ty.scalar().is_some_and(|scalar| vector_lanes(scalar) > 1);
        let by_each = match &self.order {
            Order::Plain(_) => self.types.iter().all(is_vector),
            Order::Free | Order::Matters => false,
        };
        let by_each = known.is_some_and(|warps| by_each || warps <= FEW_WARPS);
        let bases = pool::take(cx, self.location, &self.types, slots + u32::from(!by_each));
        self.store_if(lane.eq(0), &bases, thread >> 5, &values);
        cx.emit(Sync::Barrier {});
        if by_each {
            let parts = self.load_all(&bases, slots);
            return self.fold_list(parts);
        }
        // All warps do what only the first is needed for: it has a lane for each warp, and this way
        // no branch surrounds the shuffles.
        let warps = self.warps_of(lanes.map(|(count, _)| count));
        let values = self.load(&bases, lane.min(warps - 1));
        let end = lanes.map_or(warps, |(_, lanes)| warps.min(lanes));
        let values = self.fold_to_first(values, slots.next_power_of_two(), end);
        let last = i32::try_from(slots).unwrap_or(i32::MAX);
        let last = cx.constant(last);
        self.store_if(thread.eq(0), &bases, last, &values);
        cx.emit(Sync::Barrier {});
        self.load(&bases, last)
    }

    /// Combines values in order, neighbours first.
    fn fold_list(&self, mut parts: Vec<ValueList>) -> ValueList {
        while parts.len() > 1 {
            let pairs = parts.chunks(2).map(|pair| match pair {
                [a, b] => match &self.order {
                    Order::Plain(ops) => {
                        let each = ops.iter().zip(a.iter().zip(b));
                        each.map(|(op, (a, b))| self.apply(op, *a, *b)).collect()
                    }
                    Order::Free | Order::Matters => self.combine(a, b),
                },
                rest => rest.concat().into(),
            });
            parts = pairs.collect();
        }
        parts.pop().unwrap_or_default()
    }

    /// Emits the same operation on other operands.
    fn apply(&self, op: &Op, lhs: Value, rhs: Value) -> Value {
        let mut op = op.clone();
        let mut operands = [lhs, rhs].into_iter();
        op.for_each_operand_mut(&mut |operand| *operand = operands.next().unwrap_or(rhs));
        let ty = self.cx.with(|state| state.ir.type_of(lhs));
        self.one(op, ty)
    }

    fn choose(&self, cond: Val<'o, bool>, a: Value, b: Value, ty: Type) -> Value {
        self.one(Arith::Selp { cond: cond.id(), then_value: a, else_value: b }, ty)
    }

    fn choose_all(&self, cond: Val<'o, bool>, a: &ValueList, b: &ValueList) -> ValueList {
        let each = self.types.iter().zip(a.iter().zip(b));
        each.map(|(ty, (a, b))| self.choose(cond, *a, *b, *ty)).collect()
    }

    /// Emits an operation with one result.
    fn one(&self, op: impl Into<Op>, ty: Type) -> Value {
        let results = self.cx.emit(op);
        results.first().copied().unwrap_or_else(|| self.cx.poison(ty))
    }

    /// Returns `value` if the condition is true, otherwise runs `otherwise`.
    pub(super) fn unless(
        &self,
        cond: Val<'o, bool>,
        value: &ValueList,
        otherwise: impl FnOnce(&Self) -> ValueList,
    ) -> ValueList {
        let (cx, location) = (self.cx, self.location);
        let cond = cx.operand_of(cond);
        let (then_region, else_region) = (cx.new_region(), cx.new_region());
        let control = Control::If { cond, then_region, else_region: Some(else_region) };
        let op = append(cx, control, location);
        let values = |values: &ValueList| Some(Control::Yield { values: values.clone() });
        in_region(cx, then_region, op, location, || value.clone(), values);
        in_region(cx, else_region, op, location, || otherwise(self), values);
        add_results(cx, op, &self.types)
    }

    fn shfl(&self, value: Value, ty: Type, lane: impl IntoVal<'o, u32>, mode: ShflMode) -> Value {
        let segment = self.cx.constant(mode.segment(LANES).unwrap_or_default());
        self.shfl_in(value, ty, lane.into_val(self.cx), segment, mode).0
    }

    /// Emits a shuffle; returns its value, and whether the lane it reads is in the segment.
    fn shfl_in(
        &self,
        value: Value,
        ty: Type,
        lane: Val<'o, u32>,
        segment: Val<'o, u32>,
        mode: ShflMode,
    ) -> (Value, Val<'o, bool>) {
        let cx = self.cx;
        let (lane, segment) = (cx.operand_of(lane), cx.operand_of(segment));
        let members = cx.constant(WARP).id();
        let shfl = Warp::Shfl { value, lane, segment, members, mode };
        cx.with(|state| {
            let op = state.append(shfl.into(), self.location);
            let result = state.add_result(op, ty);
            (result, Val::new(cx, state.add_result(op, Type::BOOL)))
        })
    }

    /// Returns the values of the lane `distance` above, and whether that lane is at most `last`. If
    /// it is not, the values are the thread's own.
    fn of_lane_above(
        &self,
        values: &ValueList,
        distance: u32,
        last: Val<'o, u32>,
    ) -> (ValueList, Val<'o, bool>) {
        let distance = self.cx.constant(distance);
        let mut is_inside = None;
        let others = values.iter().zip(&self.types).map(|(value, ty)| {
            let (other, inside) = self.shfl_in(*value, *ty, distance, last, ShflMode::Down);
            is_inside.get_or_insert(inside);
            other
        });
        let others = others.collect();
        (others, is_inside.unwrap_or_else(|| self.cx.constant(false)))
    }

    /// Returns the values of another lane, which must have a thread.
    pub(super) fn of_lane(
        &self,
        values: &ValueList,
        lane: impl IntoVal<'o, u32>,
        mode: ShflMode,
    ) -> ValueList {
        let lane = lane.into_val(self.cx);
        let each = values.iter().zip(&self.types);
        each.map(|(value, ty)| self.shfl(*value, *ty, lane, mode)).collect()
    }

    /// Scans each group of `lanes` lanes in a warp, or the block; inclusively if there is no
    /// `init`. Also returns where to find the aggregate.
    pub(super) fn scan(
        &self,
        value: ValueList,
        init: Option<ValueList>,
        is_block: bool,
        lanes: u32,
    ) -> (ValueList, LastScanned) {
        let scanned = self.scan_lanes(value, lanes);
        // A lane's own part: an exclusive scan takes the lane before, and the first lane gets what
        // the warps before it have.
        let before = init.map(|init| {
            let before = self.of_lane(&scanned, 1u32, ShflMode::Up);
            let is_first = (self.lane() & (i32::try_from(lanes).unwrap_or(i32::MAX) - 1)).eq(0);
            let start = self.unless(is_first, &init, |steps| steps.combine(&init, &before));
            (init, before, is_first, start)
        });
        let own = before.as_ref().map_or_else(|| scanned.clone(), |(.., start)| start.clone());
        if !is_block {
            return (own, LastScanned::InLanes { scanned, lanes });
        }
        let prefixes = self.scan_warps(&scanned);
        let warp = self.thread() >> 5;
        let result = self.unless(warp.eq(0), &own, |steps| {
            let warps = steps.load(&prefixes, warp - 1);
            let Some((init, before, is_first, _)) = before else {
                return steps.combine(&warps, &scanned);
            };
            let start = steps.combine(&init, &warps);
            steps.unless(is_first, &start, |steps| steps.combine(&start, &before))
        });
        (result, LastScanned::OfWarps(prefixes))
    }

    /// Returns the group's aggregate in every thread, after the scan.
    pub(super) fn aggregate(&self, last: LastScanned) -> ValueList {
        match last {
            LastScanned::OfWarps(prefixes) => self.load(&prefixes, self.warps() - 1),
            LastScanned::InLanes { scanned, lanes } => {
                let whole = self.threads().is_some_and(|threads| threads.is_multiple_of(lanes));
                let last = self.lane() | (i32::try_from(lanes).unwrap_or(i32::MAX) - 1);
                let last = if whole { last } else { last.min(self.lanes() - 1) };
                self.of_lane(&scanned, last.cvt::<u32>(), ShflMode::Idx)
            }
        }
    }

    /// Scans the lanes of each group of `lanes`, inclusively.
    pub(super) fn scan_lanes(&self, mut values: ValueList, lanes: u32) -> ValueList {
        let at = self.lane() & (i32::try_from(lanes).unwrap_or(i32::MAX) - 1);
        for distance in distances(lanes) {
            let other = self.of_lane(&values, distance.unsigned_abs(), ShflMode::Up);
            let is_first = at.lt(distance);
            values = self.unless(is_first, &values, |steps| steps.combine(&other, &values));
        }
        values
    }

    /// Scans the warps' results. Element `w` of the returned shared memory combines the warps up to
    /// `w`.
    pub(super) fn scan_warps(&self, scanned: &ValueList) -> ValueList {
        let cx = self.cx;
        let slots = self.known_warps().unwrap_or(WARPS);
        let (thread, lane, warps) = (self.thread(), self.lane(), self.warps());
        let bases = pool::take(cx, self.location, &self.types, 2 * slots);
        let is_last = (lane + 1).eq(self.lanes());
        self.store_if(is_last, &bases, thread >> 5, scanned);
        cx.emit(Sync::Barrier {});
        // As in a reduction, all warps do what only the first is needed for.
        let scanned = self.scan_lanes(self.load(&bases, lane.min(warps - 1)), LANES);
        let is_writer = thread.eq(lane) & lane.lt(warps);
        let slots = i32::try_from(slots).unwrap_or(i32::MAX);
        let index = cx.constant(slots);
        let each = self.types.iter().zip(&bases);
        let prefixes =
            each.map(|(ty, base)| self.one(Mem::Offset { base: *base, index: index.id() }, *ty));
        let prefixes: ValueList = prefixes.collect();
        self.store_if(is_writer, &prefixes, lane, &scanned);
        cx.emit(Sync::Barrier {});
        prefixes
    }

    pub(super) fn load(&self, bases: &ValueList, index: Val<'o, i32>) -> ValueList {
        let index = self.cx.operand(index);
        let each = bases.iter().zip(&self.types);
        each.map(|(base, ty)| {
            self.one(Mem::Ld { base: *base, index, access: LoadAccess::default() }, *ty)
        })
        .collect()
    }

    /// Loads the first `len` elements of each value.
    fn load_all(&self, bases: &ValueList, len: u32) -> Vec<ValueList> {
        let mut elements = vec![ValueList::new(); len as usize];
        for (base, ty) in bases.iter().zip(&self.types) {
            let lanes = ty.scalar().map_or(1, vector_lanes);
            let mut at = 0;
            while at < len {
                let access = LoadAccess::default();
                let index = self.cx.constant(i32::try_from(at).unwrap_or(i32::MAX)).id();
                let base = *base;
                let rest = elements.iter_mut().skip(at as usize);
                if lanes > 1 && at + lanes <= len {
                    let vector = self.one(Mem::LdVec { base, index, lanes, access }, *ty);
                    for (lane, element) in (0..lanes).zip(rest) {
                        element.push(self.one(Convert::VecExtract { vector, lane }, *ty));
                    }
                    at += lanes;
                } else {
                    let value = self.one(Mem::Ld { base, index, access }, *ty);
                    rest.take(1).for_each(|element| element.push(value));
                    at += 1;
                }
            }
        }
        elements
    }

    fn store_if(
        &self,
        cond: Val<'o, bool>,
        bases: &ValueList,
        index: Val<'o, i32>,
        values: &ValueList,
    ) {
        let (cx, location) = (self.cx, self.location);
        let (cond, index) = (cx.operand(cond), cx.operand(index));
        let then_region = cx.new_region();
        let op = append(cx, Control::If { cond, then_region, else_region: None }, location);
        let store = || {
            for (base, value) in bases.iter().zip(values) {
                cx.emit(Mem::St { base: *base, index, value: *value, access: Default::default() });
            }
        };
        let end = |_: &()| Some(Control::Yield { values: ValueList::new() });
        in_region(cx, then_region, op, location, store, end);
    }
}

/// Returns 1, 2, 4 and so on, below `lanes`.
fn distances(lanes: u32) -> impl Iterator<Item = i32> {
    [1i32, 2, 4, 8, 16].into_iter().filter(move |distance| distance.unsigned_abs() < lanes)
}

/// Returns how many elements one 16-byte load takes, or 1 if it takes single elements.
fn vector_lanes(scalar: Scalar) -> u32 {
    match scalar {
        Scalar::I32 | Scalar::U32 | Scalar::F32 => 4,
        Scalar::I64 | Scalar::U64 | Scalar::F64 => 2,
        Scalar::Bool
        | Scalar::I8
        | Scalar::U8
        | Scalar::I16
        | Scalar::U16
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::F16
        | Scalar::Bf16
        | Scalar::Tf32 => 1,
    }
}
