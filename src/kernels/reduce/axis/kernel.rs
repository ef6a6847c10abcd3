//! The kernel of [`AxisReduce`](super::AxisReduce).

use crate::ir::builder::{Converted, Range};
use crate::ir::op::{BarrierForm, ClusterArrival, LoadAccess};
use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, MutPointer, Shared, Val, Var,
    range,
};
use crate::tensor::{RowAccess, RowElements, filled, narrow};

use super::super::super::arrival::is_last_to_arrive;
use super::super::{Found, RowReduceOp};
use super::{AxisReduceConfig, SM_REGISTERS, vector};

/// The input, the output, `[len, inner]`, and the workspace: the [words](Slots) of the results of clusters, and
/// the clusters that have arrived at each chunk of columns.
pub(super) type Params<T, Y> =
    (Global<T>, GlobalMut<Y>, [i32; 2], (GlobalMut<u32>, GlobalMut<u32>));

/// Block (x, y) reduces part y of the axis in chunk x of the columns of all tensors. The threads of a slot reduce every `slots`-th row.
/// Then the block joins the results of its slots, the first block of a cluster those of the cluster, and the last cluster to arrive at a
/// chunk those of all clusters: always in the same order.
pub(super) fn build<T: Converted, Y: Converted>(
    config: &AxisReduceConfig,
) -> Result<Kernel<Params<T, Y>>, BuildErrors> {
    let AxisReduceConfig { target, op, access, threads, rows: at_once, .. } = *config;
    let (vector, own) = (vector(T::SCALAR) as i32, config.columns(T::SCALAR) as i32);
    let [lanes, slots, cluster] =
        [config.lanes, threads / config.lanes, config.cluster].map(|count| count as i32);
    let chunk = lanes * vector;
    let is_ragged = access == RowAccess::Ragged;
    let none = (op.monoid().0, i32::MAX);
    let blocks = (SM_REGISTERS / (config.registers() * threads)).max(1);
    let options = KernelOptions::default().block([threads, 1, 1]).min_blocks_per_sm(blocks);
    let options = if cluster > 1 { options.cluster([1, config.cluster, 1]) } else { options };
    let name = format!("axis_{config}_{}", T::SCALAR);
    Kernel::<Params<T, Y>>::build_with(
        options,
        &name,
        target,
        |k, (x, y, [len, inner], (partials, arrivals))| {
            if cluster > 1 {
                // Before the wait, no block stores to another one.
                k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
            }
            let (block, grid, thread) = (k.block_idx(), k.grid_dim(), k.thread_idx().x);
            let chunks = (inner + (own - 1)) / own;
            let (outer, column) = (block.x / chunks, block.x % chunks * own);
            let each = (len + (grid.y - 1)) / grid.y;
            let (first, end) = (block.y * each, (block.y * each + each).min(len));
            let start = outer.mul_wide(len) * wide(inner) + wide(column);
            let (slot, lane) = (thread / lanes, thread % lanes);
            // The elements of the first vector of a row before the chunk: as many in all rows of a slot, because `slots % 8 == 0`.
            let before = [start.cvt::<i32>() + first * inner, inner];
            let (mut at, mut whole) = (lane * vector, end);
            if is_ragged {
                at -= lead(before, slot, vector);
                // The rows whose vectors end before the tensor does.
                let behind = (column + at + (vector - 1)) / inner;
                let rows = wide(grid.x / chunks - outer) * wide(len) - wide(behind);
                whole = rows.min(wide(end)).cvt::<i32>();
            }
            let x = x.offset(start + wide(at));
            let has_columns = at.lt(inner - column);
            let best: Vec<_> = (0..vector).map(|_| (k.var(none.0), k.var(none.1))).collect();
            let fill = if op == RowReduceOp::ArgMax { f32::NAN } else { none.0 };
            let vector_fill = filled(k, narrow::<T>(fill));
            let rows = range(first + slot, end).step(at_once as i32 * slots).prefetch_stages(1);
            k.for_(rows, (), |k, row, ()| {
                let load = |number: i32| {
                    let row = row + number * slots;
                    let access = LoadAccess::default().non_coherent();
                    let words = k.if_with(row.lt(whole) & has_columns, vector_fill, |k| {
                        let words = x.offset(row.mul_wide(inner)).ptr_cast::<u32>();
                        words.load_vector_with::<4>(k, 0, access)
                    });
                    (row, RowElements::<T> { vectors: vec![words], singles: Vec::new() })
                };
                for (row, elements) in (0..at_once as i32).map(load).collect::<Vec<_>>() {
                    let values = elements.iter_f32().zip(&best);
                    values.for_each(|(value, best)| add(k, op, best, (value, row)));
                }
            });
            if is_ragged {
                let skipped = ((whole - first - slot).max(0) + (slots - 1)) / slots * slots;
                let rows = range(first + slot + skipped, end).step(slots);
                add_singles(k, op, (x, &best), (rows, column + at, inner));
            }
            let shared = Slots::shared(k, op, threads as i32 * vector);
            for (element, best) in (0..).zip(&best) {
                let at = slot * chunk + lane + element * lanes;
                shared.store(k, at, (best.0.get(k), best.1.get(k)));
            }
            k.barrier();
            // Result `thread % chunk` of the chunk is that of an element of a lane.
            let result = thread % chunk;
            let (element, of_lane) = (result / lanes, result % lanes);
            let own_column = of_lane * vector + element;
            let has_result = own_column.lt((inner - column).min(own));
            let join = Join { op, threads: threads as i32, chunk, has_result, shared };
            let mut found = join.all(k, k.constant(slots), |k, slot| {
                let ahead = if is_ragged { element + lead(before, slot, vector) } else { element };
                shared.load(k, slot * chunk + ahead % vector * lanes + of_lane + ahead / vector)
            });
            let is_first = (block.y % cluster).eq(0);
            if cluster > 1 {
                let inbox = Slots::shared(k, op, cluster * chunk);
                k.barrier_cluster_wait(BarrierForm::Aligned);
                k.if_(thread.lt(chunk), |k| {
                    let first = Slots { words: inbox.words.mapa(0u32), width: inbox.width };
                    first.store(k, block.y % cluster * chunk + result, found);
                });
                k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
                k.barrier_cluster_wait(BarrierForm::Aligned);
                found = k.if_with(is_first, none, |k| {
                    let load = |block: i32| inbox.load(k, result + block * chunk);
                    (0..cluster).map(load).reduce(|a, b| op.combined(a, b)).unwrap_or(found)
                });
            }
            let (number, count) = (block.y / cluster, grid.y / cluster);
            let (is_last, found) = k.if_with(count.gt(1) & is_first, (is_first, found), |k| {
                let all = wide(block.x * count) * i64::from(chunk * shared.width);
                let all = Slots { words: partials.offset(all), width: shared.width };
                k.if_(has_result & thread.lt(chunk), |k| {
                    all.store(k, number * chunk + result, found);
                });
                let barrier = (k.named_barrier(1, threads).aligned(), thread.eq(0));
                let is_last = is_last_to_arrive(k, arrivals.offset(block.x), count, barrier);
                let found = k.if_with(is_last, none, |k| {
                    join.all(k, count, |k, part| all.load(k, part * chunk + result))
                });
                (is_last, found)
            });
            k.if_(is_last & thread.lt(chunk) & has_result, |k| {
                let result = op.finished(found, len);
                y.store(k, outer.mul_wide(inner) + wide(column + own_column), result);
            });
        },
    )
}

/// Joins the results of parts of a chunk: thread `i` has result `i % chunk`.
struct Join<'b> {
    op: RowReduceOp,
    threads: i32,
    chunk: i32,
    /// True in threads with a result.
    has_result: Val<'b, bool>,
    shared: Slots<'b, Shared<u32>>,
}

impl<'b> Join<'b> {
    /// Returns the results of `count` parts, in all threads. The threads load several parts at once.
    fn all(
        &self,
        k: &mut Body<'b, '_>,
        count: Val<'b, i32>,
        load: impl for<'d> Fn(&Body<'d, 'b>, Val<'d, i32>) -> Found<'d>,
    ) -> Found<'b> {
        let Join { op, threads, chunk, has_result, shared } = *self;
        let (thread, groups, none) = (k.thread_idx().x, threads / chunk, op.monoid().0);
        let parts = range(thread / chunk, has_result.select(count, 0)).step(groups).unroll(8);
        let found =
            k.for_(parts, (none, i32::MAX), |k, part, found| op.combined(found, load(k, part)));
        if groups == 1 {
            return found;
        }
        k.barrier();
        shared.store(k, thread, found);
        k.barrier();
        let load = |group: i32| shared.load(k, thread % chunk + group * chunk);
        (0..groups).map(load).reduce(|a, b| op.combined(a, b)).unwrap_or(found)
    }
}

fn wide(value: Val<'_, i32>) -> Val<'_, i64> {
    value.cvt::<i64>()
}

/// Returns the elements before a chunk in the first vector of the rows of a slot; `start` are those before the chunk in row 0.
fn lead<'c>([start, inner]: [Val<'c, i32>; 2], slot: Val<'c, i32>, vector: i32) -> Val<'c, i32> {
    (start + slot * inner) & (vector - 1)
}

/// A result that a thread adds to.
type Best<'b> = (Var<'b, f32>, Var<'b, i32>);

/// Adds an element to a result. The rows of a thread ascend: of equal elements the first one counts.
fn add<'b>(k: &Body<'b, '_>, op: RowReduceOp, best: &Best<'b>, (value, row): Found<'b>) {
    let value = if op == RowReduceOp::Norm { value * value } else { value };
    let found = best.0.get(k);
    if op == RowReduceOp::ArgMax {
        best.1.set(k, value.gt(found).select(row, best.1.get(k)));
    }
    best.0.set(k, op.monoid().1(found, value));
}

/// Adds the elements of some rows one by one, from `column` on. `x` has them at the row's offset.
fn add_singles<'b, T: Converted>(
    k: &mut Body<'b, '_>,
    op: RowReduceOp,
    (x, best): (Val<'b, Global<T>>, &[Best<'b>]),
    (rows, column, inner): (Range<'b, i32>, Val<'b, i32>, Val<'b, i32>),
) {
    k.for_(rows, (), |k, row, ()| {
        for (element, best) in (0..).zip(best) {
            let column = column + element;
            k.if_(column.ge(0) & column.lt(inner), |k| {
                let value = x.offset(row.mul_wide(inner)).load(k, element).cvt::<f32>();
                add(k, op, best, (value, row));
            });
        }
    });
}

/// Results in memory: a word each, and with the row, if the result is one, two.
#[derive(Clone, Copy)]
struct Slots<'b, P> {
    words: Val<'b, P>,
    width: i32,
}

impl<'b> Slots<'b, Shared<u32>> {
    /// `len` results in shared memory.
    fn shared(k: &Body<'b, '_>, op: RowReduceOp, len: i32) -> Self {
        let width = if op == RowReduceOp::ArgMax { 2 } else { 1 };
        Slots { words: k.shared_aligned::<u32>((len * width) as u32, 8), width }
    }
}

impl<'b, P: MutPointer<Elem = u32>> Slots<'b, P> {
    fn store(&self, k: &Body<'b, '_>, at: Val<'b, i32>, (found, row): Found<'b>) {
        let (at, word) = (at * self.width, found.bitcast::<u32>());
        match self.width {
            1 => self.words.store(k, at, word),
            _ => self.words.store_vector(k, at, Val::pack([word, row.bitcast::<u32>()])),
        }
    }

    fn load(&self, k: &Body<'b, '_>, at: Val<'b, i32>) -> Found<'b> {
        let at = at * self.width;
        if self.width == 1 {
            return (self.words.load(k, at).bitcast::<f32>(), k.constant(i32::MAX));
        }
        let [found, row] = self.words.load_vector::<2>(k, at).lanes();
        (found.bitcast::<f32>(), row.bitcast::<i32>())
    }
}
