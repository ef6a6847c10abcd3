//! Reductions over the threads that share a matrix row, for example the maximum and the sum that
//! softmax needs. Use them after each thread has reduced its own elements.

use std::borrow::Borrow;

use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::{Body, Group, Val};

use super::partition::RowPartition;
use super::row_tile::RowTile;

impl<'b> RowPartition<'b> {
    /// Combines `value` over all threads that share the row, in thread order, and returns the
    /// result in all of them. `combine` must be associative. All threads of the block must call it
    /// together. A cluster exchanges its blocks' results through distributed shared memory.
    ///
    /// Use it to combine values, not to order memory accesses. What it orders depends on who shares
    /// the row:
    ///
    /// * Lanes of one warp, even if they are the whole block: nothing, because they use shuffles.
    ///   If one lane reads an element that another lane overwrites after the reduction, for example
    ///   in place, call [`bar_warp`](Body::bar_warp) in between.
    /// * Several warps of a block: accesses before it happen before accesses after it, as at
    ///   [`barrier`](Body::barrier).
    /// * A cluster: the same within each block, and nothing between blocks. It passes the cluster
    ///   barrier once, relaxed. To order accesses of other blocks, pass that barrier again with a
    ///   release ([`barrier_cluster_arrive`](Body::barrier_cluster_arrive)) after the reduction,
    ///   not around it.
    #[track_caller]
    pub fn reduce<const N: usize>(
        &self,
        value: [Val<'b, f32>; N],
        combine: impl for<'c> Fn(
            &mut Body<'c, 'b>,
            [Val<'c, f32>; N],
            [Val<'c, f32>; N],
        ) -> [Val<'c, f32>; N],
    ) -> [Val<'b, f32>; N] {
        let k = &mut self.columns.body();
        let _call = k.call();
        let RowTile { cluster, .. } = self.tile;
        if cluster == 1 {
            return k.reduce(self.tile.group(), value, combine);
        }
        // Remote stores that complete on an mbarrier. A cluster barrier with release would make
        // every thread wait for all its accesses.
        let (blocks, bytes) = (cluster as i32, cluster * N as u32 * 4);
        let (slots, full) = (k.shared::<f32>(cluster * N as u32), k.shared::<u64>(1));
        let (thread, rank) = (k.thread_idx().x, k.block_idx().x % blocks);
        k.if_(thread.eq(0), |k| {
            full.mbarrier(0).init(1);
            k.fence_mbarrier_init();
            full.mbarrier(0).arrive_expect_tx(bytes);
        });
        // The fence is the release. No block may store to a block that has not started.
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
        let own = k.reduce(self.tile.group(), value, &combine);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        k.if_(thread.lt(blocks), |_| {
            let (block, to) = (thread.cvt::<u32>(), slots.offset(rank * N as i32));
            for (i, own) in (0..).zip(own) {
                to.offset(i).mapa(block).st_async(own, full.mapa(block));
            }
        });
        full.mbarrier(0).wait_parity(0u32);
        let slot = slots.offset(thread % blocks * N as i32);
        let results = std::array::from_fn(|i| slot.load(i as i32));
        k.reduce(Group::Lanes(cluster), results, &combine)
    }

    /// Adds up `value` over all threads that share the row; see [`reduce`](RowPartition::reduce).
    /// Use it for a mean or for softmax's denominator.
    #[track_caller]
    #[inline]
    pub fn sum(&self, value: Val<'b, f32>) -> Val<'b, f32> {
        let [sum] = self.reduce([value], |_, [a], [b]| [a + b]);
        sum
    }

    /// Returns the row's element at `column` in every thread that shares the row, bit by bit, or 0
    /// if no thread holds that column.
    ///
    /// Use it for example for the target's logit in a loss. Loading it again from memory would race
    /// with the stores of a kernel that works in place.
    ///
    /// `values` are the thread's elements in the order of [`load`](RowPartition::load). All threads
    /// of the block must call it together, and those that share a row must pass the same column.
    /// Each thread compares the column with those of its elements; then the threads exchange one
    /// word, as in [`reduce`](RowPartition::reduce).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::rows::{RowAccess, RowTile};
    ///
    /// // loss(row) = sum of the row - x(row, target(row)), for rows of 50 elements.
    /// let access = RowAccess::Ragged;
    /// let tile = RowTile { threads: 64, team: 32, cluster: 1, vectors: 1, access };
    /// type Params = (Global<f32>, Global<i32>, GlobalMut<f32>);
    /// let kernel = Kernel::<Params>::build_with(tile.options(), "loss", Target::SM_80, |k, (x, target, loss)| {
    ///     let row = tile.row(k);
    ///     let start = row.mul_wide(50);
    ///     let part = tile.part::<f32>(k, start, k.constant(50));
    ///     let values = part.load(x.offset(start), 0.0);
    ///     let own = values.iter().copied().reduce(|a, b| a + b).unwrap();
    ///     let sum = part.sum(own);
    ///     let column = target.load(row);
    ///     let of_target = part.at(&values, column);
    ///     k.if_(part.is_leader(), |_| loss.store(row, sum - of_target));
    /// })?;
    /// let device = Device::sim()?;
    /// let x: Vec<f32> = (0..100).map(|i| if i % 50 == 7 { 100.0 } else { 1.0 }).collect();
    /// let (x, target) = (device.upload(&x)?, device.upload(&[7, 49])?);
    /// let mut loss = device.zeros::<f32>(2)?;
    /// let grid = Grid::new([tile.blocks(2), 1, 1], [64, 1, 1]);
    /// device.load(&kernel)?.launch(grid, (&x, &target, &mut loss))?;
    /// assert_eq!(loss.to_vec()?, [49.0, 148.0]);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn at<V: Borrow<Val<'b, f32>>>(
        &self,
        values: impl IntoIterator<Item = V>,
        column: Val<'b, i32>,
    ) -> Val<'b, f32> {
        let k = &mut self.columns.body();
        let _call = k.call();
        let zero: Val<'b, u32> = k.constant(0);
        let mut values = values.into_iter();
        // A ragged row's missing vectors overlap its last single elements.
        let has = column.lt(self.vector_end());
        let distance = has.select(column - self.first_column(), -1);
        let distances = (0..self.tile.vectors as i32).flat_map(|number| {
            (0..self.vector as i32).map(move |lane| number * self.stride() + lane)
        });
        let own = distances.zip(values.by_ref()).fold(zero, |own, (at, value)| {
            distance.eq(at).select(value.borrow().bitcast::<u32>(), own)
        });
        let own = self.ends().into_iter().zip(values).fold(own, |own, ((at, has), value)| {
            (has & at.eq(column)).select(value.borrow().bitcast::<u32>(), own)
        });
        // One thread has the element, the others have 0.
        if self.tile.cluster == 1 {
            return k.reduce(self.tile.group(), own, |_, a, b| a | b).bitcast::<f32>();
        }
        let [element] = self.reduce([own.bitcast::<f32>()], |_, [a], [b]| {
            [(a.bitcast::<u32>() | b.bitcast::<u32>()).bitcast::<f32>()]
        });
        element
    }
}
