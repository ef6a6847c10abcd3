//! Reductions and scans with any combining body, over some lanes, a warp or a block.
//!
//! Lanes exchange values by shuffles: first neighbours, then pairs of neighbours, and so on. If
//! every lane has a thread, this takes no branch, even for a combining body that does not commute:
//! a bit of the lane id then selects the operand order. If `redux.sync` has the operation and the
//! type, a warp takes one instruction.
//!
//! In a block, each warp then stores its result to shared memory (`pool.rs`). With up to 8 warps,
//! or more if vector loads are possible, every thread combines the results of all warps after a
//! single barrier. Otherwise the first warp does, and a second barrier follows.
//!
//! Every step combines neighbours, in thread order. A shuffle never reads a lane without a thread,
//! because a block's last warp may be partial.

mod pool;
mod steps;

pub(super) use pool::Pool;

use super::body::Body;
use super::context::Context;
use super::control::group_of;
use super::error::BuildErrorKind;
use super::typed::{Integer, IntoVal, Number, Val};
use super::values::{IntoValues, Values};
use crate::ir::entity::{Entity, LocationId, OpId, Value};
use crate::ir::kernel::SourceLocation;
use steps::{LANES, Steps};

/// Operations made in these files get the source location of the user's call.
const HERE: [&str; 4] = [file!(), pool::FILE, steps::FILE, steps::FOLD];

/// The threads that take part in one reduction or scan: some neighbouring lanes, a warp, or the
/// block. You pass it to [`Body::sum`] and the other collectives.
#[doc(alias = "tiled_partition")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// `n` neighbouring lanes of a warp: 1, 2, 4, 8, 16 or 32, starting at a multiple of `n`. A
    /// block's last group may have fewer.
    Lanes(u32),
    /// All threads of a warp: 32, or fewer in a block's last warp.
    Warp,
    /// All threads of a block.
    Block,
}

impl Group {
    /// Returns how many lanes of a warp belong together.
    #[track_caller]
    fn lanes(self, cx: &Context) -> u32 {
        match self {
            Group::Lanes(lanes) if lanes.is_power_of_two() && lanes <= LANES => lanes,
            Group::Lanes(found) => {
                cx.error(BuildErrorKind::GroupLanes { found });
                1
            }
            Group::Warp | Group::Block => LANES,
        }
    }
}

/// # Reductions
///
/// Combines the values of many threads into one, with any associative body.
impl<'o> Body<'o, '_> {
    /// Combines `value` over all threads of the group, in thread order (x before y before z), and
    /// returns the result `v0 ∘ v1 ∘ ..` in every thread. The combining body must be associative;
    /// it need not commute. It runs several times while the kernel is built, once only for
    /// inspection.
    ///
    /// The value is a group of scalars. All threads of the group must call this together, and for
    /// [`Group::Lanes`] all threads of the warp; none may have returned.
    ///
    /// Cost: with a [fixed block](crate::ir::KernelOptions::block) of whole warps, a warp takes 5
    /// shuffles per scalar, or one `redux.sync` for a sum, `min`, `max`, `&`, `|` or `^` of `i32`
    /// or `u32` (PTX ISA 9.7.9.6, 9.7.13.12). A block also waits at one barrier. It waits at two if
    /// the kernel does not fix its block, or if the block has more than 8 warps and a scalar needs
    /// more than a single operation. All reductions and scans of a kernel share the same shared
    /// memory: twice what the largest needs.
    ///
    /// Within one warp, also in a block that has only one, values travel by shuffles, which order
    /// no memory accesses. Call [`bar_warp`](Body::bar_warp) if one lane accesses what another one
    /// stored.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// // The largest value of a block and the last thread that has it.
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("last_largest", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let own = (x.load(i), i);
    ///     let (largest, at) = k.reduce(Group::Block, own, |_, a, b| {
    ///         let first = a.0.gt(b.0);
    ///         (first.select(a.0, b.0), first.select(a.1, b.1))
    ///     });
    ///     k.barrier();
    ///     x.store(i, largest * 100 + at);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[3, 9, 2, 9, 1])?;
    /// device.load(&kernel)?.launch(Grid::cover(5, 5), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [903; 5]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("BlockReduce", "WarpReduce", "block_reduce", "warp_reduction", "tl.reduce"))]
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
        self.reduce_with(group, value, false, combine)
    }

    #[track_caller]
    fn reduce_with<I: IntoValues<'o>>(
        &mut self,
        group: Group,
        value: I,
        commutes: bool,
        combine: impl for<'b> Fn(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> <I::V as Values>::At<'o> {
        let (cx, made) = (self.context(), Made::new(self.context()));
        let (value, ids) = group_of(cx, value);
        let steps = Steps::<I::V, _>::new(self, &value, &combine, commutes);
        let lanes = group.lanes(cx);
        let result = match group {
            Group::Lanes(_) => steps.reduce_lanes(ids, lanes),
            Group::Warp => steps.reduce_warp(ids),
            Group::Block => steps.reduce_block(ids),
        };
        made.at(cx, steps.location);
        steps.made(result)
    }
}

/// # Scans
///
/// Gives each thread the combination of the values before it.
impl<'o> Body<'o, '_> {
    /// Computes the inclusive scan: returns `v0 ∘ v1 ∘ .. ∘ vi` in thread `i` of the group. Use it
    /// for running sums, for example to give each thread its place in a packed output. The
    /// combining body and the threads must satisfy the conditions of [`reduce`](Body::reduce).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sums", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let v = x.load(i);
    ///     let sum = k.scan(Group::Block, v, |_, a, b| a + b);
    ///     let before = k.scan_exclusive(Group::Block, 0, v, |_, a, b| a + b);
    ///     x.store(i, sum * 100 + before);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[1, 2, 3])?;
    /// device.load(&kernel)?.launch(Grid::cover(3, 3), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [100, 301, 603]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias(
        "BlockScan",
        "WarpScan",
        "InclusiveScan",
        "associative_scan",
        "tl.associative_scan",
        "cumsum"
    ))]
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
        let (value, ids) = group_of(cx, value);
        let steps = Steps::<I::V, _>::new(self, &value, &combine, false);
        let (result, _) = steps.scan(ids, None, group == Group::Block, group.lanes(cx));
        made.at(cx, steps.location);
        steps.made(result)
    }

    /// Computes the inclusive scan and the group's aggregate: returns `v0 ∘ v1 ∘ .. ∘ vi` in thread
    /// `i`, and the combination of all threads' values in every thread. The combining body and the
    /// threads must satisfy the conditions of [`reduce`](Body::reduce). It costs one shuffle or
    /// shared-memory load more than [`scan`](Body::scan); a separate reduction would cost as much
    /// as the scan itself.
    ///
    /// For example, a scan over more elements than the group has threads carries the aggregate from
    /// chunk to chunk:
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target, range};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// // Sums up to each of 160 elements, by a block of 64 threads.
    /// let kernel = Kernel::<(GlobalMut<i32>, i32)>::build("sums", Target::SM_80, |k, (x, n)| {
    ///     let thread = k.thread_idx().x;
    ///     k.for_(range(0, n).step(64), 0, |k, first, before| {
    ///         let i = first + thread;
    ///         let v = k.if_with(i.lt(n), 0, |_| x.load(i));
    ///         let (sum, all) = k.scan_with_aggregate(Group::Block, v, |_, a, b| a + b);
    ///         k.if_(i.lt(n), |_| x.store(i, before + sum));
    ///         before + all
    ///     });
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[2; 160])?;
    /// device.load(&kernel)?.launch(Grid::cover(64, 64), (&mut x, 160))?;
    /// assert!(x.to_vec()?.iter().zip(1..).all(|(x, i)| *x == 2 * i));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "block_aggregate")]
    #[doc(alias = "InclusiveScan")]
    #[track_caller]
    pub fn scan_with_aggregate<I: IntoValues<'o>>(
        &mut self,
        group: Group,
        value: I,
        combine: impl for<'b> Fn(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> (<I::V as Values>::At<'o>, <I::V as Values>::At<'o>) {
        let (cx, made) = (self.context(), Made::new(self.context()));
        let (value, ids) = group_of(cx, value);
        let steps = Steps::<I::V, _>::new(self, &value, &combine, false);
        let (result, last) = steps.scan(ids, None, group == Group::Block, group.lanes(cx));
        let aggregate = steps.aggregate(last);
        made.at(cx, steps.location);
        (steps.made(result), steps.made(aggregate))
    }

    /// Computes the exclusive scan: returns `init ∘ v0 ∘ .. ∘ v(i-1)` in thread `i` of the group,
    /// so `init` in the first. Use it if a thread needs what comes before its own value, for
    /// example where its part of the output starts. The combining body and the threads must satisfy
    /// the conditions of [`reduce`](Body::reduce).
    #[doc(alias("ExclusiveScan", "ExclusiveSum"))]
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
        let ((init, init_ids), (value, ids)) = (group_of(cx, init), group_of(cx, value));
        let steps = Steps::<I::V, _>::new(self, &value, &combine, false);
        steps.check_lengths(&init);
        let (result, _) = steps.scan(ids, Some(init_ids), group == Group::Block, group.lanes(cx));
        made.at(cx, steps.location);
        steps.made(result)
    }

    /// Computes the exclusive scan and the group's aggregate: returns `init ∘ v0 ∘ .. ∘ v(i-1)` in
    /// thread `i`, and the combination of all threads' values, without `init`, in every thread
    /// (CUB's `block_aggregate`). Use it for an exclusive scan that goes chunk by chunk;
    /// [`scan_with_aggregate`](Body::scan_with_aggregate) shows how and states the cost.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<i32>,)>::build("sums", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let v = x.load(i);
    ///     let (before, all) = k.scan_exclusive_with_aggregate(Group::Block, 1000, v, |_, a, b| a + b);
    ///     x.store(i, before * 10 + all);
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[1, 2, 3])?;
    /// device.load(&kernel)?.launch(Grid::cover(3, 3), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [10_006, 10_016, 10_036]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "block_aggregate")]
    #[doc(alias = "ExclusiveScan")]
    #[track_caller]
    pub fn scan_exclusive_with_aggregate<I: IntoValues<'o>>(
        &mut self,
        group: Group,
        init: impl IntoValues<'o, V = I::V>,
        value: I,
        combine: impl for<'b> Fn(
            &mut Body<'b, 'o>,
            <I::V as Values>::At<'b>,
            <I::V as Values>::At<'b>,
        ) -> <I::V as Values>::At<'b>,
    ) -> (<I::V as Values>::At<'o>, <I::V as Values>::At<'o>) {
        let (cx, made) = (self.context(), Made::new(self.context()));
        let ((init, init_ids), (value, ids)) = (group_of(cx, init), group_of(cx, value));
        let steps = Steps::<I::V, _>::new(self, &value, &combine, false);
        steps.check_lengths(&init);
        let (result, last) =
            steps.scan(ids, Some(init_ids), group == Group::Block, group.lanes(cx));
        let aggregate = steps.aggregate(last);
        made.at(cx, steps.location);
        (steps.made(result), steps.made(aggregate))
    }
}

/// # Sums, minima and maxima
///
/// These are the common reductions.
impl<'o> Body<'o, '_> {
    /// Returns the sum of `value` over all threads of the group, in every thread; integers wrap.
    /// See [`reduce`](Body::reduce) for conditions and cost.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, KernelOptions, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let options = KernelOptions::default().block([64, 1, 1]);
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build_with(options, "sum", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let v = x.load(i);
    ///     let pair = k.sum(Group::Lanes(2), v);
    ///     let (sum, max) = (k.sum(Group::Block, v), k.max(Group::Block, v));
    ///     let (_, at) = k.argmax(Group::Block, v, i);
    ///     k.barrier();
    ///     x.store(i, pair + sum * 1000.0 + max + at.cvt::<f32>());
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[0.5f32; 64])?;
    /// device.load(&kernel)?.launch(Grid::cover(64, 64), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [1.0 + 32_000.0 + 0.5 + 0.0; 64]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("tl.sum", "warp_reduction_sum"))]
    #[track_caller]
    pub fn sum<T: Number>(&mut self, group: Group, value: impl IntoVal<'o, T>) -> Val<'o, T> {
        let value = value.into_val(self.context());
        self.reduce_with::<Val<'o, T>>(group, value, false, |_, a, b| a + b)
    }

    /// Returns the largest `value` of all threads of the group, in every thread. As in
    /// [`Val::max`], NaN is ignored unless all values are NaN, and `+0.0` is above `-0.0`. See
    /// [`reduce`](Body::reduce) for conditions and cost.
    #[doc(alias("tl.max", "warp_reduction_max"))]
    #[track_caller]
    pub fn max<T: Number>(&mut self, group: Group, value: impl IntoVal<'o, T>) -> Val<'o, T> {
        let value = value.into_val(self.context());
        self.reduce_with::<Val<'o, T>>(group, value, false, |_, a, b| a.max(b))
    }

    /// Returns the smallest `value` of all threads of the group, in every thread. As in
    /// [`Val::min`], NaN is ignored unless all values are NaN, and `-0.0` is below `+0.0`. See
    /// [`reduce`](Body::reduce) for conditions and cost.
    #[doc(alias = "tl.min")]
    #[track_caller]
    pub fn min<T: Number>(&mut self, group: Group, value: impl IntoVal<'o, T>) -> Val<'o, T> {
        let value = value.into_val(self.context());
        self.reduce_with::<Val<'o, T>>(group, value, false, |_, a, b| a.min(b))
    }

    /// Returns the largest `value` of all threads of the group and its `index`, in every thread. Of
    /// equal values (`+0.0` equals `-0.0`), the one with the lowest index wins, so give each thread
    /// a different index. NaN is ignored unless all values are NaN. See [`reduce`](Body::reduce)
    /// for conditions and cost.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Group, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// let kernel = Kernel::<(GlobalMut<f32>,)>::build("argmax", Target::SM_80, |k, (x,)| {
    ///     let i = k.thread_idx().x;
    ///     let v = x.load(i);
    ///     let (largest, at) = k.argmax(Group::Block, v, i);
    ///     k.barrier();
    ///     x.store(i, largest * 100.0 + at.cvt::<f32>());
    /// })?;
    /// let device = Device::sim()?;
    /// let mut x = device.upload(&[f32::NAN, 3.0, 9.0, 2.0, 9.0])?;
    /// device.load(&kernel)?.launch(Grid::cover(5, 5), (&mut x,))?;
    /// assert_eq!(x.to_vec()?, [902.0; 5]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "tl.argmax")]
    #[track_caller]
    pub fn argmax<T: Number, I: Integer>(
        &mut self,
        group: Group,
        value: impl IntoVal<'o, T>,
        index: impl IntoVal<'o, I>,
    ) -> (Val<'o, T>, Val<'o, I>) {
        let cx = self.context();
        let own = (value.into_val(cx), index.into_val(cx));
        self.reduce_with::<(Val<'o, T>, Val<'o, I>)>(group, own, true, |_, a, b| {
            let (mut above, mut equal) = (a.0.gt(b.0), a.0.eq(b.0));
            if T::scalar().is_float() {
                let (a_nan, b_nan) = (a.0.ne(a.0), b.0.ne(b.0));
                above |= b_nan & !a_nan;
                equal |= a_nan & b_nan;
            }
            let first = above | (equal & a.1.lt(b.1));
            (first.select(a.0, b.0), first.select(a.1, b.1))
        })
    }
}

/// Marks the end of the kernel before a reduction appends operations.
struct Made {
    ops: usize,
    values: usize,
}

impl Made {
    fn new(cx: &Context) -> Made {
        cx.with(|state| Made { ops: state.ir.ops.len(), values: state.ir.values.len() })
    }

    /// Gives everything that these files appended since then the call's location. Operations of the
    /// combining body keep theirs.
    #[inline]
    fn at(self, cx: &Context, location: SourceLocation) {
        cx.with(|state| {
            let to = state.ir.location(location);
            let is_here: Vec<bool> = state
                .ir
                .locations
                .iter()
                .map(|(_, location)| HERE.contains(&location.file))
                .collect();
            let is_here =
                |location: LocationId| is_here.get(location.index()).copied().unwrap_or(false);
            let ir = &mut state.ir;
            let ops: Vec<OpId> = ir.ops.keys().skip(self.ops).collect();
            for op in ops {
                if is_here(ir.ops[op].location) {
                    ir.ops[op].location = to;
                }
            }
            let values: Vec<Value> = ir.values.keys().skip(self.values).collect();
            for value in values {
                if is_here(ir.values[value].location) {
                    ir.values[value].location = to;
                }
            }
        });
    }
}
