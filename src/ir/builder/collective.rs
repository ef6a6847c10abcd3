//! Reductions and scans with any combining body, over a warp or a block.
//!
//! A warp exchanges values by shuffles. In a block each warp scans its own values, the first warp scans the
//! results of all warps, and these are passed on through shared memory. Every step combines neighbours in the
//! order of the threads, so the body need not commute. A shuffle never reads a lane that has no thread: the
//! last warp of a block may be a partial one.

use super::body::Body;
use super::context::Context;
use super::control::{add_results, append, ids_of, in_region};
use super::error::BuildErrorKind;
use super::typed::{IntoVal, Val};
use super::values::{IntoValues, Values};
use super::warp::WARP;
use crate::ir::entity::{Entity, OpId, PlaceId, Value};
use crate::ir::kernel::{Place, SharedData};
use crate::ir::op::{Control, Mem, ShflMode, Sync, ValueList, Warp};
use crate::ir::types::Type;

/// The threads that compute something together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// The threads of each warp: 32, or fewer in the last warp of a block.
    Warp,
    /// All threads of each block.
    Block,
}

/// Warps of a block, at most.
const WARPS: u32 = 32;

/// The place of the thread among the others, in `i32`.
struct Position<'o> {
    lane: Val<'o, i32>,
    /// The threads of the warp.
    lanes: Val<'o, i32>,
    warp: Val<'o, i32>,
    /// The warps of the block.
    warps: Val<'o, i32>,
}

impl<'o> Body<'o, '_> {
    /// `value` of all threads of the group, combined in the order of the threads (x before y before z):
    /// `v0 ∘ v1 ∘ ..`, the same result in all of them. The combining body must be associative and need not
    /// commute. It runs several times while the kernel is built.
    ///
    /// The value is a group of scalars. All threads of the group come here together, none has returned. A
    /// block takes shared memory, 64 elements for each scalar, and waits at two barriers.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// // The largest value of a block, and the first thread that has it.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("arg_max", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let own = (x.load(k, i), i);
    ///     let (largest, at) = k.reduce(Group::Block, own, |_, a, b| {
    ///         let first = a.0.ge(b.0);
    ///         (first.select(a.0, b.0), first.select(a.1, b.1))
    ///     });
    ///     k.barrier();
    ///     x.store(k, i, largest * 100 + at);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[3, 9, 2, 9, 1])?;
    /// device.load(&kernel)?.launch(Grid::cover(5, 5), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [901; 5]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn reduce<I: IntoValues<'o>>(
        &mut self,
        group: Group,
        value: I,
        combine: impl for<'b> Fn(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o> {
        let (cx, made) = (self.context(), Made::new(self.context()));
        let steps = Steps::<I::V, _>::new(self, &combine);
        let value = ids_of(cx, value);
        let result = match group {
            Group::Warp => {
                let value = steps.reduce_warp(value);
                let first = cx.constant(0i32);
                steps.of_lane(&value, first)
            }
            Group::Block => {
                let scanned = steps.scan_warp(value);
                let prefixes = steps.scan_warps(&scanned);
                let last = steps.at.warps - 1;
                steps.load(&prefixes, last)
            }
        };
        made.at(cx, steps.place);
        I::V::make(cx, &mut result.into_iter())
    }

    /// The inclusive scan: `v0 ∘ v1 ∘ .. ∘ vi` in thread `i` of the group, with the conditions of
    /// [`reduce`](Body::reduce).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sums", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let v = x.load(k, i);
    ///     let sum = k.scan(Group::Block, v, |_, a, b| a + b);
    ///     let before = k.scan_exclusive(Group::Block, 0, v, |_, a, b| a + b);
    ///     x.store(k, i, sum * 100 + before);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[1, 2, 3])?;
    /// device.load(&kernel)?.launch(Grid::cover(3, 3), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [100, 301, 603]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn scan<I: IntoValues<'o>>(
        &mut self,
        group: Group,
        value: I,
        combine: impl for<'b> Fn(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o> {
        let (cx, made) = (self.context(), Made::new(self.context()));
        let steps = Steps::<I::V, _>::new(self, &combine);
        let mut value = steps.scan_warp(ids_of(cx, value));
        if group == Group::Block {
            let prefixes = steps.scan_warps(&value);
            value = steps.after_warps(&prefixes, value);
        }
        made.at(cx, steps.place);
        I::V::make(cx, &mut value.into_iter())
    }

    /// The exclusive scan: `init ∘ v0 ∘ .. ∘ v(i-1)` in thread `i` of the group, `init` in the first one, with
    /// the conditions of [`reduce`](Body::reduce).
    #[track_caller]
    pub fn scan_exclusive<I: IntoValues<'o>>(
        &mut self,
        group: Group,
        init: impl IntoValues<'o, V = I::V>,
        value: I,
        combine: impl for<'b> Fn(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o> {
        let (cx, made) = (self.context(), Made::new(self.context()));
        let steps = Steps::<I::V, _>::new(self, &combine);
        let (init, value) = (ids_of(cx, init), ids_of(cx, value));
        let scanned = steps.scan_warp(value);
        // What the lane before has; the first lane gets what the warps before have.
        let before = (steps.at.lane - 1).max(0);
        let before = steps.of_lane(&scanned, before);
        let is_first = steps.at.lane.eq(0);
        let with_init = steps.unless(is_first, &init, |steps| steps.combine(&init, &before));
        let result = match group {
            Group::Warp => with_init,
            Group::Block => {
                let prefixes = steps.scan_warps(&scanned);
                let is_first_warp = steps.at.warp.eq(0);
                steps.unless(is_first_warp, &with_init, |steps| {
                    let index = steps.at.warp - 1;
                    let warps = steps.load(&prefixes, index);
                    let start = steps.combine(&init, &warps);
                    steps.unless(is_first, &start, |steps| steps.combine(&start, &before))
                })
            }
        };
        made.at(cx, steps.place);
        I::V::make(cx, &mut result.into_iter())
    }
}

/// The end of the kernel before the operations of a reduction.
struct Made {
    ops: usize,
    values: usize,
}

impl Made {
    fn new(cx: &Context) -> Made {
        cx.with(|state| Made { ops: state.ir.ops.len(), values: state.ir.values.len() })
    }

    /// Gives what was made here since then the place of the call. What the combining body has made keeps its
    /// own.
    fn at(self, cx: &Context, place: Place) {
        cx.with(|state| {
            let to = state.ir.place(place);
            let is_here: Vec<bool> =
                state.ir.places.iter().map(|(_, place)| place.file == file!()).collect();
            let is_here = |place: PlaceId| is_here.get(place.index()).copied().unwrap_or(false);
            let ir = &mut state.ir;
            let ops: Vec<OpId> = ir.ops.keys().skip(self.ops).collect();
            for op in ops {
                if is_here(ir.ops[op].place) {
                    ir.ops[op].place = to;
                }
            }
            let values: Vec<Value> = ir.values.keys().skip(self.values).collect();
            for value in values {
                if is_here(ir.values[value].place) {
                    ir.values[value].place = to;
                }
            }
        });
    }
}

/// The steps of reductions and scans of one group of values.
struct Steps<'o, 'f, V, F> {
    cx: &'o Context,
    at: Position<'o>,
    place: Place,
    types: Vec<Type>,
    combine: &'f F,
    group: std::marker::PhantomData<fn() -> V>,
}

impl<'o, 'f, V, F> Steps<'o, 'f, V, F>
where
    V: Values,
    F: for<'b> Fn(&mut Body<'b, 'o>, V::At<'b>, V::At<'b>) -> V::At<'b>,
{
    #[track_caller]
    fn new(k: &Body<'o, '_>, combine: &'f F) -> Self {
        let (tid, dim) = (k.thread_idx(), k.block_dim());
        let threads = dim.x * dim.y * dim.z;
        let thread = tid.x + dim.x * (tid.y + dim.y * tid.z);
        let lane = thread & 31;
        let lanes = (threads - (thread - lane)).min(32);
        let (warp, warps) = (thread >> 5, (threads + 31) >> 5);
        let at = Position { lane, lanes, warp, warps };
        let (place, mut types) = (Place::caller(), Vec::new());
        V::types(&mut types);
        for found in types.iter().copied().filter(|ty| ty.scalar().is_none()) {
            k.context().error(BuildErrorKind::ReducedType { found });
        }
        Steps { cx: k.context(), at, place, types, combine, group: std::marker::PhantomData }
    }

    fn combine(&self, a: &ValueList, b: &ValueList) -> ValueList {
        let cx = self.cx;
        let [a, b] = [a, b].map(|ids| V::make(cx, &mut ids.iter().copied()));
        let combined = (self.combine)(&mut Body::new(cx), a, b);
        let mut ids = ValueList::new();
        V::ids(&combined, cx, &mut ids);
        ids
    }

    /// `otherwise` where the condition does not hold, else `value`.
    fn unless(
        &self,
        cond: Val<'o, bool>,
        value: &ValueList,
        otherwise: impl FnOnce(&Self) -> ValueList,
    ) -> ValueList {
        let (cx, place) = (self.cx, self.place);
        let cond = cx.operand_of(cond);
        let (then_region, else_region) = cx.with(|state| (state.new_region(), state.new_region()));
        let control = Control::If { cond, then_region, else_region: Some(else_region) };
        let op = append(cx, control, place);
        let values = |values: &ValueList| Some(Control::Yield { values: values.clone() });
        in_region(cx, then_region, op, place, || value.clone(), values);
        in_region(cx, else_region, op, place, || otherwise(self), values);
        add_results(cx, op, V::types)
    }

    /// The values of another lane, which has a thread.
    fn of_lane(&self, values: &ValueList, lane: impl IntoVal<'o, i32>) -> ValueList {
        let (cx, place) = (self.cx, self.place);
        let lane = lane.into_val(cx).cvt::<u32>();
        let lane = cx.operand(lane);
        let segment = cx.constant(ShflMode::Idx.segment(32).unwrap_or_default()).id();
        let members = cx.constant(WARP).id();
        let shuffle = |(value, ty): (&Value, &Type)| {
            let value = *value;
            let shfl = Warp::Shfl { value, lane, segment, members, mode: ShflMode::Idx };
            cx.with(|state| {
                let op = state.append(shfl.into(), place);
                let result = state.add_result(op, *ty);
                state.add_result(op, Type::BOOL);
                result
            })
        };
        values.iter().zip(&self.types).map(shuffle).collect()
    }

    /// In each lane `i`, the values of the lanes `i..`.
    fn reduce_warp(&self, mut values: ValueList) -> ValueList {
        for distance in [1, 2, 4, 8, 16] {
            let source = self.at.lane + distance;
            let other = self.of_lane(&values, source.min(self.at.lanes - 1));
            let is_last = source.ge(self.at.lanes);
            values = self.unless(is_last, &values, |steps| steps.combine(&values, &other));
        }
        values
    }

    /// In each lane `i`, the values of the lanes `0..=i`.
    fn scan_warp(&self, mut values: ValueList) -> ValueList {
        for distance in [1, 2, 4, 8, 16] {
            let other = self.of_lane(&values, (self.at.lane - distance).max(0));
            let is_first = self.at.lane.lt(distance);
            values = self.unless(is_first, &values, |steps| steps.combine(&other, &values));
        }
        values
    }

    /// Shared memory in which element `w` has the values of the warps `0..=w`, from the scans of the warps.
    /// A second call in a loop may overwrite it: between its last read and that are two barriers.
    fn scan_warps(&self, scanned: &ValueList) -> ValueList {
        let cx = self.cx;
        let (totals, prefixes) = (self.shared(), self.shared());
        let is_inner = (self.at.lane + 1).lt(self.at.lanes);
        self.store_unless(is_inner, &totals, self.at.warp, scanned);
        cx.emit(Sync::Barrier {});
        // All warps do what only the first one is needed for: it has a lane for each warp, and no warp has
        // to be told apart for the shuffles.
        let index = self.at.lane.min(self.at.warps - 1);
        let scanned = self.scan_warp(self.load(&totals, index));
        let is_other = self.at.warp.gt(0) | self.at.lane.ge(self.at.warps);
        self.store_unless(is_other, &prefixes, self.at.lane, &scanned);
        cx.emit(Sync::Barrier {});
        prefixes
    }

    /// The values after those of the warps before.
    fn after_warps(&self, prefixes: &ValueList, values: ValueList) -> ValueList {
        let is_first = self.at.warp.eq(0);
        self.unless(is_first, &values, |steps| {
            let before = steps.load(prefixes, steps.at.warp - 1);
            steps.combine(&before, &values)
        })
    }

    /// Shared memory for an element of each value and each warp.
    fn shared(&self) -> ValueList {
        let pointer = |ty: &Type| {
            let Type::Scalar(elem) = *ty else { return self.cx.poison(*ty) };
            let (len, align_bytes) = (WARPS, elem.size_bytes());
            let shared = self.cx.with(|state| {
                let place = state.ir.place(self.place);
                state.ir.shared.push(SharedData { elem, len, align_bytes, place })
            });
            let base = self.cx.emit(Mem::SharedBase { shared });
            base.first().copied().unwrap_or_else(|| self.cx.poison(*ty))
        };
        self.types.iter().map(pointer).collect()
    }

    fn load(&self, bases: &ValueList, index: Val<'o, i32>) -> ValueList {
        let index = self.cx.operand(index);
        let load = |(base, ty): (&Value, &Type)| {
            let loaded = self.cx.emit(Mem::Ld { base: *base, index, access: Default::default() });
            loaded.first().copied().unwrap_or_else(|| self.cx.poison(*ty))
        };
        bases.iter().zip(&self.types).map(load).collect()
    }

    fn store_unless(
        &self,
        cond: Val<'o, bool>,
        bases: &ValueList,
        index: Val<'o, i32>,
        values: &ValueList,
    ) {
        let (cx, place) = (self.cx, self.place);
        let (cond, index) = (cx.operand_of(!cond), cx.operand(index));
        let then_region = cx.with(|state| state.new_region());
        let op = append(cx, Control::If { cond, then_region, else_region: None }, place);
        let store = || {
            for (base, value) in bases.iter().zip(values) {
                cx.emit(Mem::St { base: *base, index, value: *value, access: Default::default() });
            }
        };
        let end = |_: &()| Some(Control::Yield { values: ValueList::new() });
        in_region(cx, then_region, op, place, store, end);
    }
}
