//! Reductions over the threads that share a row.

use crate::ir::builder::{Converted, Group};
use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::{Body, Val};

use super::combine::tree;
use super::part::{RowElements, RowPart};
use super::tile::RowTile;

impl RowPart<'_> {
    /// Returns `value` of all threads that share the row, combined in the order of the threads: the same result in all
    /// of them. The combining body must be associative. All threads of the block come here together. A cluster
    /// exchanges the results of its blocks through distributed shared memory.
    #[track_caller]
    pub fn reduce<'o, const N: usize>(
        &self,
        k: &mut Body<'o, '_>,
        value: [Val<'o, f32>; N],
        combine: impl for<'c> Fn(
            &mut Body<'c, 'o>,
            [Val<'c, f32>; N],
            [Val<'c, f32>; N],
        ) -> [Val<'c, f32>; N],
    ) -> [Val<'o, f32>; N] {
        let (k, _call) = (&mut k.rescoped(), k.call());
        let RowTile { cluster, .. } = self.tile;
        if cluster == 1 {
            return k.reduce(self.tile.group(), value, combine);
        }
        // Remote stores that an mbarrier counts: in the release of a cluster barrier, every thread would wait for all its accesses.
        let (blocks, bytes) = (cluster as i32, cluster * N as u32 * 4);
        let (slots, full) = (k.shared::<f32>(cluster * N as u32), k.shared::<u64>(1));
        let (thread, rank) = (k.thread_idx().x, k.block_idx().x % blocks);
        k.if_(thread.eq(0), |k| {
            full.mbarrier(0).init(k, 1);
            k.fence_mbarrier_init();
            full.mbarrier(0).arrive_expect_tx(k, bytes);
        });
        // The fence is the release. No block stores to a block that has not started.
        k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
        let own = k.reduce(self.tile.group(), value, &combine);
        k.barrier_cluster_wait(BarrierForm::Aligned);
        k.if_(thread.lt(blocks), |k| {
            let (block, to) = (thread.cvt::<u32>(), slots.offset(rank * N as i32));
            for (i, own) in (0..).zip(own) {
                to.offset(i).mapa(block).st_async(k, own, full.mapa(block));
            }
        });
        full.mbarrier(0).wait_parity(k, 0u32);
        let slot = slots.offset(thread % blocks * N as i32);
        let results = std::array::from_fn(|i| slot.load(k, i as i32));
        k.reduce(Group::Lanes(cluster), results, &combine)
    }

    /// Returns the sum of `value` of all threads that share the row, as [`reduce`](RowPart::reduce) does.
    #[track_caller]
    #[inline]
    pub fn sum<'o>(&self, k: &mut Body<'o, '_>, value: Val<'o, f32>) -> Val<'o, f32> {
        let [sum] = self.reduce(k, [value], |_, [a], [b]| [a + b]);
        sum
    }
}

impl<'b> RowPart<'b> {
    /// Returns the mean and the variance of a row, whose elements the threads have loaded with a finite `fill`: `mean(x)` and
    /// `mean((x - mean(x))^2)`. One reduction joins the means and the squared deviations of parts (Chan, Golub, LeVeque 1979).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{Global, GlobalMut, Kernel, Target};
    /// use tilewright::runtime::{Device, Grid};
    /// use tilewright::tensor::{RowAccess, RowTile};
    ///
    /// let tile = RowTile { threads: 32, team: 32, cluster: 1, vectors: 1, access: RowAccess::Ragged };
    /// type Params = (Global<f32>, GlobalMut<f32>);
    /// let kernel = Kernel::<Params>::build_with(tile.options(), "moments", Target::SM_80, |k, (x, y)| {
    ///     let part = tile.part::<f32>(k, k.constant(0i64), k.constant(5));
    ///     let elements = part.load_elements(k, x, 0.0);
    ///     let [mean, variance] = part.moments(k, &elements);
    ///     y.store(k, 0, mean);
    ///     y.store(k, 1, variance);
    /// })?;
    /// let device = Device::sim()?;
    /// let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
    /// let mut y = device.zeros::<f32>(2)?;
    /// device.load(&kernel)?.launch(Grid::new([1, 1, 1], [32, 1, 1]), (&x, &mut y))?;
    /// assert!(y.to_vec()?.iter().zip([3.0, 2.0]).all(|(y, expected)| (y - expected).abs() < 1e-5));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn moments<T: Converted>(
        &self,
        k: &mut Body<'b, '_>,
        elements: &RowElements<'b, T>,
    ) -> [Val<'b, f32>; 2] {
        let (zero, mut values) = (k.constant(0.0), elements.iter_f32());
        // By vectors, so that few elements are held as `f32` at a time.
        let own = self.pieces().fold([zero; 3], |own, (has, len)| {
            let values: Vec<_> = values.by_ref().take(len as usize).collect();
            let mean = tree(zero, &values, |a, b| a + b) * (1.0 / len as f32);
            let deviations = values.iter().map(|value| *value - mean);
            let squares = deviations.fold(zero, |sum, value| value.fma(value, sum));
            joined(own, [has.select::<f32>(len as f32, 0.0), mean, squares])
        });
        let [count, mean, squares] = self.reduce(k, own, |_, a, b| joined(a, b));
        [mean, squares / count]
    }
}

/// Returns the count, the mean and the sum of squared deviations of the elements of two parts.
fn joined<'c>(
    [a, mean_a, squares_a]: [Val<'c, f32>; 3],
    [b, mean_b, squares_b]: [Val<'c, f32>; 3],
) -> [Val<'c, f32>; 3] {
    let (count, apart) = (a + b, mean_b - mean_a);
    let share = b * count.max(1.0).recip_fast();
    [count, mean_a + apart * share, apart * apart * (a * share) + (squares_a + squares_b)]
}
