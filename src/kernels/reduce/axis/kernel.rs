//! The kernel of [`AxisReduce`](super::AxisReduce).

use crate::ir::builder::{Converted, Range};
use crate::ir::op::{BarrierForm, ClusterArrival};
use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, MutPointer, Val, Var, WARP, range,
};
use crate::tensor::{RowAccess, RowElements, RowPointer, filled, lead, narrow, shifted};

use super::super::super::arrival::is_last_to_arrive;
use super::super::{Found, RowReduceOp};
use super::{AxisReduceConfig, SM_REGISTERS, vector};

/// The input, the output, `[len, inner]`, and the workspace: the results of clusters, two words each, and the clusters that have
/// arrived at each chunk of columns.
pub(super) type Params<T, Y> =
    (Global<T>, GlobalMut<Y>, [i32; 2], (GlobalMut<u32>, GlobalMut<u32>));

/// Block (x, y) reduces part y of the axis in chunk x of the columns of all tensors. The threads of a slot reduce every `slots`-th row.
/// Then the block joins the results of its threads, the first block of a cluster those of the cluster, and the last cluster to arrive at
/// a chunk those of all clusters: always in the same order.
pub(super) fn build<T: Converted, Y: Converted>(
    config: &AxisReduceConfig,
) -> Result<Kernel<Params<T, Y>>, BuildErrors> {
    let AxisReduceConfig { target, op, access, threads, rows: at_once, .. } = *config;
    let (vector, chunk) = (vector(T::SCALAR) as i32, config.columns(T::SCALAR) as i32);
    let [lanes, slots, cluster] =
        [config.lanes, threads / config.lanes, config.cluster].map(|count| count as i32);
    let (is_ragged, is_arg) = (access == RowAccess::Ragged, op == RowReduceOp::ArgMax);
    let blocks = (SM_REGISTERS / (config.registers() * threads)).max(1);
    let results = (threads / 32 * chunk as u32).max(threads);
    let options = KernelOptions::default().block([threads, 1, 1]).min_blocks_per_sm(blocks);
    let options = if cluster > 1 { options.cluster([1, config.cluster, 1]) } else { options };
    let name = format!("axis_{config}_{}", T::SCALAR);
    Kernel::<Params<T, Y>>::build_with(options, &name, target, |k, (x, y, sizes, workspace)| {
        if cluster > 1 {
            // Before the wait, no block stores to another one.
            k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
        }
        let ([len, inner], (partials, arrivals)) = (sizes, workspace);
        let (block, grid, thread) = (k.block_idx(), k.grid_dim(), k.thread_idx().x);
        let chunks = (inner + (chunk - 1)) / chunk;
        let (outer, of_chunk) = (block.x / chunks, block.x % chunks * chunk);
        let each = (len + (grid.y - 1)) / grid.y;
        let (first, end) = (block.y * each + thread / lanes, (block.y * each + each).min(len));
        let column = of_chunk + thread % lanes * vector;
        let x = x.offset(outer.mul_wide(len) * wide(inner) + wide(column));
        // The elements from a vector's start to the column: as many in all rows of a thread, because `slots % 8 == 0`. Both vectors
        // end within the tensor in the rows before `whole`.
        let (mut ahead, mut whole) = (k.constant(0), end);
        if is_ragged {
            ahead = lead(x.offset(first.mul_wide(inner))) & (vector - 1);
            let behind = (column + (2 * vector - 1)) / inner;
            let rows = wide(grid.x / chunks - outer) * wide(len) - wide(behind);
            whole = rows.min(wide(end)).cvt::<i32>();
        }
        let (from, bytes) = (x.offset(-ahead), (ahead * T::SCALAR.size_bytes()).cvt::<u32>());
        let has_columns = column.lt(inner);
        let fill = filled(k, narrow::<T>(if is_arg { f32::NAN } else { op.monoid().0 }));
        let best: Vec<_> = (0..vector).map(|_| Best::new(k, op)).collect();
        let rows = range(first, end).step(at_once as i32 * slots).prefetch_stages(1);
        k.for_(rows, (), |k, row, ()| {
            let load = |number: i32| {
                let row = row + number * slots;
                let words = from.offset(row.mul_wide(inner)).ptr_cast::<u32>();
                let mut vector_at = |at| {
                    k.if_with(row.lt(whole) & has_columns, fill, |k| {
                        words.load_vector_with::<4>(k, at, <Global<T>>::access())
                    })
                };
                (row, vector_at(0), is_ragged.then(|| vector_at(4)))
            };
            for (row, low, high) in (0..at_once as i32).map(load).collect::<Vec<_>>() {
                let vector =
                    high.map_or(low, |high| Val::pack(shifted(low.lanes(), high.lanes(), bytes)));
                let values = RowElements::<T> { vectors: vec![vector], singles: Vec::new() };
                values.iter_f32().zip(&best).for_each(|(value, best)| best.add(k, value, row));
            }
        });
        if is_ragged {
            let skipped = ((whole - first).max(0) + (slots - 1)) / slots * slots;
            k.for_(range(first + skipped, end).step(slots), (), |k, row, ()| {
                for (element, best) in (0..).zip(&best) {
                    k.if_((column + element).lt(inner), |k| {
                        let value = x.offset(row.mul_wide(inner)).load(k, element).cvt::<f32>();
                        best.add(k, value, row);
                    });
                }
            });
        }
        // Of the slots of a warp, then of the warps of the block: thread `i` has the result of column `i` of the chunk.
        for stride in (0..5).map(|log| 1 << log).filter(|stride| *stride >= lanes as u32) {
            best.iter().for_each(|best| best.join_lane(k, stride));
        }
        let own = Results::new(op, chunk, k.shared_aligned::<u32>(results * 2, 8));
        k.if_((thread % 32).lt(lanes), |k| {
            for (element, best) in (0..).zip(&best) {
                own.save(k, thread / 32, thread % lanes * vector + element, best.get(k));
            }
        });
        k.barrier();
        let is_column = thread.lt(chunk);
        let none = (op.monoid().0, i32::MAX);
        let warps = range(0, threads as i32 / 32);
        let mut found = k.if_with(is_column, none, |k| own.join(k, warps, thread));
        let (rank, number, count) = (block.y % cluster, block.y / cluster, grid.y / cluster);
        if cluster > 1 {
            let inbox =
                Results::new(op, chunk, k.shared_aligned::<u32>((cluster * chunk * 2) as u32, 8));
            k.barrier_cluster_wait(BarrierForm::Aligned);
            let first = Results::new(op, chunk, inbox.words.mapa(0u32));
            k.if_(is_column, |k| first.save(k, rank, thread, found));
            k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
            k.barrier_cluster_wait(BarrierForm::Aligned);
            let is_joined = rank.eq(0) & is_column;
            found = k.if_with(is_joined, none, |k| inbox.join(k, range(0, cluster), thread));
        }
        let is_first = rank.eq(0);
        let (is_last, found) = k.if_with(count.gt(1) & is_first, (is_first, found), |k| {
            let all = wide(block.x * count) * i64::from(chunk * 2);
            let all = Results::new(op, chunk, partials.offset(all));
            k.if_(is_column, |k| all.save(k, number, thread, found));
            let barrier = (k.named_barrier(1, threads).aligned(), thread.eq(0));
            let is_last = is_last_to_arrive(k, arrivals.offset(block.x), count, barrier);
            let found = k.if_with(is_last, none, |k| {
                // All threads load: thread `i` some of the results of column `i % chunk`.
                let (group, groups) = (thread / chunk, threads as i32 / chunk);
                let found = all.join(k, range(group, count).step(groups), thread % chunk);
                own.save(k, group, thread % chunk, found);
                k.barrier();
                k.if_with(is_column, none, |k| own.join(k, range(0, groups), thread))
            });
            (is_last, found)
        });
        let column = of_chunk + thread;
        k.if_(is_last & is_column & column.lt(inner), |k| {
            y.store(k, outer.mul_wide(inner) + wide(column), op.finished(found, len));
        });
    })
}

fn wide(value: Val<'_, i32>) -> Val<'_, i64> {
    value.cvt::<i64>()
}

/// The result of a column that a thread adds to, and its row.
#[derive(Clone, Copy)]
struct Best<'b> {
    op: RowReduceOp,
    value: Var<'b, f32>,
    row: Var<'b, i32>,
}

impl<'b> Best<'b> {
    fn new(k: &Body<'b, '_>, op: RowReduceOp) -> Self {
        Best { op, value: k.var(op.monoid().0), row: k.var(i32::MAX) }
    }

    fn get(&self, k: &Body<'b, '_>) -> Found<'b> {
        (self.value.get(k), self.row.get(k))
    }

    /// Adds an element. The rows of a thread ascend: of equal elements the first one counts.
    fn add(&self, k: &Body<'b, '_>, value: Val<'b, f32>, row: Val<'b, i32>) {
        let value = if self.op == RowReduceOp::Norm { value * value } else { value };
        let found = self.value.get(k);
        if self.op == RowReduceOp::ArgMax {
            self.row.set(k, value.gt(found).select(row, self.row.get(k)));
        }
        self.value.set(k, self.op.monoid().1(found, value));
    }

    /// Adds the result of lane `lane ^ stride`.
    fn join_lane(&self, k: &Body<'b, '_>, stride: u32) {
        let (value, row) = self.get(k);
        let other = k.shfl_bfly(WARP, value, stride);
        let is_arg = self.op == RowReduceOp::ArgMax;
        let other = (other, if is_arg { k.shfl_bfly(WARP, row, stride) } else { row });
        let (value, row) = self.op.combined((value, row), other);
        self.value.set(k, value);
        self.row.set(k, row);
    }
}

/// Results of parts of a chunk of columns in memory: two words for each part and column.
#[derive(Clone, Copy)]
struct Results<'b, P> {
    op: RowReduceOp,
    chunk: i32,
    words: Val<'b, P>,
}

impl<'b, P: MutPointer<Elem = u32>> Results<'b, P> {
    fn new(op: RowReduceOp, chunk: i32, words: Val<'b, P>) -> Self {
        Results { op, chunk, words }
    }

    fn save<'c>(&self, k: &Body<'c, '_>, part: Val<'c, i32>, column: Val<'c, i32>, found: Found<'c>)
    where
        'b: 'c,
    {
        let words = Val::pack([found.0.bitcast::<u32>(), found.1.bitcast::<u32>()]);
        self.words.store_vector(k, (part * self.chunk + column) * 2, words);
    }

    /// Joins the results of some parts in their order. Several are loaded at once.
    fn join<'c>(
        &self,
        k: &mut Body<'c, '_>,
        parts: Range<'c, i32>,
        column: Val<'c, i32>,
    ) -> Found<'c>
    where
        'b: 'c,
    {
        let none = (self.op.monoid().0, i32::MAX);
        k.for_(parts.unroll(8), none, |k, part, found| {
            let words = self.words.load_vector::<2>(k, (part * self.chunk + column) * 2);
            let [value, row] = words.lanes();
            self.op.combined(found, (value.bitcast::<f32>(), row.bitcast::<i32>()))
        })
    }
}
