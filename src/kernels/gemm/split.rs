//! Split-K: thread blocks that share a tile sum their parts in a fixed order.

use crate::ir::builder::OnDevice;
use crate::ir::op::{FenceOrder, MemScope};
use crate::ir::{Body, GlobalMut, NamedBarrier, Val, Vector, range};
use crate::tensor::RegisterTensor;

use super::config::GROUP;

crate::params! {
    /// The workspace of a kernel that splits its accumulators.
    pub(super) struct SplitParams {
        /// The accumulators of each warp group of each tile and each split.
        pub(super) partials: GlobalMut<f32>,
        /// The splits that have written, for each warp group of each tile: 0 before and after a launch.
        pub(super) arrivals: GlobalMut<u32>,
    }
}

/// The workspace in a kernel body.
pub(super) type SplitArgs<'a> = SplitParams<OnDevice<'a>>;

/// Elements of a vector of accumulators.
const VECTOR: u32 = 4;

/// The place of a warp group's accumulators in the workspace.
pub(super) struct Split<'b> {
    /// The warp group among those of all tiles of all matrices.
    pub(super) group: Val<'b, i32>,
    /// The split, and the number of splits.
    pub(super) number: Val<'b, i32>,
    pub(super) splits: u32,
    /// The thread of the group, and the barrier of the group.
    pub(super) thread: Val<'b, i32>,
    pub(super) barrier: NamedBarrier<'b>,
}

impl<'b> Split<'b> {
    /// Writes the accumulators of a group to the workspace. In the last group to do so it sums those of all splits, in
    /// the order of the splits, and runs `write`.
    pub(super) fn sum<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        args: &SplitArgs<'a>,
        acc: &RegisterTensor<'b, f32>,
        write: impl for<'c> FnOnce(&mut Body<'c, 'b>),
    ) {
        let Split { splits, thread, barrier, .. } = *self;
        let accumulators = acc.variables();
        let (vectors, size) = (accumulators.len() / VECTOR, i64::from(accumulators.len() * GROUP));
        // Vector `i` of all threads is contiguous.
        let first = self.group.cvt::<i64>() * (i64::from(splits) * size);
        let first = args.partials.offset(first + (thread * VECTOR).cvt::<i64>());
        let own = first.offset(self.number.cvt::<i64>() * size);
        for i in 0..vectors {
            let four = [0, 1, 2, 3].map(|lane| accumulators.get(k, VECTOR * i + lane));
            let four: Val<'_, Vector<f32, 4>> = Val::pack(four);
            own.store_vector(k, (i * VECTOR * GROUP) as i32, four);
        }
        k.fence(FenceOrder::AcqRel, MemScope::Gpu);
        barrier.sync(k);
        let before =
            k.if_with(thread.eq(0), 0u32, |k| args.arrivals.atom().add(k, self.group, 1u32));
        let last = barrier.red_or(k, before.eq(splits - 1));
        k.if_(last, |k| {
            k.fence(FenceOrder::AcqRel, MemScope::Gpu);
            k.if_(thread.eq(0), |k| args.arrivals.store(k, self.group, 0u32));
            accumulators.fill(k, 0.0);
            k.for_(range(0, splits as i32), (), |k, split, ()| {
                let from = first.offset(split.cvt::<i64>() * size);
                for i in 0..vectors {
                    let four: Val<'_, Vector<f32, 4>> =
                        from.load_vector(k, (i * VECTOR * GROUP) as i32);
                    for (lane, part) in (0..).zip(four.lanes()) {
                        let at = VECTOR * i + lane;
                        accumulators.set(k, at, accumulators.get(k, at) + part);
                    }
                }
            });
            write(k);
        });
    }
}
