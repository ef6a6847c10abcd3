//! The kernel of [`AxisReduce`](super::AxisReduce).

use crate::ir::builder::{Converted, Range};
use crate::ir::op::{BarrierForm, ClusterArrival, LoadAccess};
use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, MutPointer, Shared, SharedCluster,
    Val, Var, range,
};
use crate::tensor::{RowAccess, RowElements, filled, narrow};

use super::super::super::arrival::is_last_to_arrive;
use super::super::RowReduceOp;
use super::{AxisReduceConfig, SM_REGISTERS, vector};

/// The input, the output, `[len, inner, parts of the axis]`, the divisor of a mean, and the workspace: the results of the
/// parts, and the parts that are reduced of each chunk of columns.
pub(super) type Params<T, Y> =
    (Global<T>, GlobalMut<Y>, [i32; 3], f32, (GlobalMut<f32>, GlobalMut<u32>));

/// The results of parts, and the arrivals at each chunk.
type Workspace<'b> = (Val<'b, GlobalMut<f32>>, Val<'b, GlobalMut<u32>>);

/// The threads of a slot reduce every `slots`-th row of a part of a chunk of columns. Then a thread block joins the results of its
/// slots, the first block of a cluster those of the cluster, and the last cluster to arrive at a chunk those of all clusters: always
/// in the same order.
pub(super) fn build<T: Converted, Y: Converted>(
    config: &AxisReduceConfig,
) -> Result<Kernel<Params<T, Y>>, BuildErrors> {
    let AxisReduceConfig { target, op, access, threads, lanes, rows: at_once, cluster, .. } =
        *config;
    let cluster = cluster as i32;
    let (vector, own) = (vector(T::SCALAR) as i32, config.columns(T::SCALAR) as i32);
    let (lanes, slots) = (lanes as i32, (threads / lanes) as i32);
    let chunk = lanes * vector;
    let is_ragged = access == RowAccess::Ragged;
    let (is_arg, none) = (op == RowReduceOp::ArgMax, (op.monoid().0, i32::MAX));
    let blocks = (SM_REGISTERS / (config.registers() * threads)).max(1);
    let options = KernelOptions::default().block([threads, 1, 1]).min_blocks_per_sm(blocks);
    let options = if cluster > 1 { options.cluster([config.cluster, 1, 1]) } else { options };
    let name = format!("axis_{config}_{}", T::SCALAR);
    Kernel::<Params<T, Y>>::build_with(
        options,
        &name,
        target,
        |k, (x, y, sizes, divisor, memory)| {
            let [len, inner, parts] = sizes;
            if cluster > 1 {
                // Before the wait, no block stores to another one.
                k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Relaxed);
            }
            let part = Part::of(k, own, cluster, sizes);
            let Part { outer, column, first, end, start, .. } = part;
            let thread = k.thread_idx().x;
            let (slot, lane) = (thread / lanes, thread % lanes);
            // The elements of the first vector of a row before the chunk: as many in all rows of a slot, because `slots % 8 == 0`.
            let before = [start.cvt::<i32>() + first * inner, inner];
            let (mut at, mut whole) = (lane * vector, end);
            if is_ragged {
                at -= lead(before, slot, vector);
                // The rows whose vectors end before the tensor does.
                let behind = (column + at + (vector - 1)) / inner;
                let rows = wide(part.outers - outer) * wide(len) - wide(behind);
                whole = rows.min(wide(end)).cvt::<i32>();
            }
            let x = x.offset(start + wide(at));
            let has_columns = at.lt(inner - column);
            let best: Vec<_> = (0..vector).map(|_| (k.var(none.0), k.var(none.1))).collect();
            let fill = if is_arg { f32::NAN } else { none.0 };
            let vector_fill = filled(k, narrow::<T>(fill));
            let rows = range(first + slot, end).step(at_once as i32 * slots).prefetch_stages(1);
            k.for_(rows, (), |k, row, ()| {
                let load = |number: i32| {
                    let row = row + number * slots;
                    let access = LoadAccess::default().non_coherent();
                    let words = k.if_with(row.lt(whole) & has_columns, vector_fill, |k| {
                        x.offset(row.mul_wide(inner))
                            .ptr_cast::<u32>()
                            .load_vector_with::<4>(k, 0, access)
                    });
                    (row, RowElements::<T> { vectors: vec![words], singles: Vec::new() })
                };
                for (row, elements) in (0..at_once as i32).map(load).collect::<Vec<_>>() {
                    elements
                        .iter_f32()
                        .zip(&best)
                        .for_each(|(value, best)| add(k, op, best, (value, row)));
                }
            });
            if is_ragged {
                let skipped = ((whole - first - slot).max(0) + (slots - 1)) / slots * slots;
                let rows = range(first + slot + skipped, end).step(slots);
                add_singles(k, op, (x, &best), (rows, column + at, inner));
            }
            let shared = Slots::shared(k, threads as i32 * vector, is_arg);
            for (element, best) in (0..).zip(&best) {
                shared.store(
                    k,
                    wide(slot * chunk + lane + element * lanes),
                    (best.0.get(k), best.1.get(k)),
                );
            }
            k.barrier();
            // Result `thread % chunk` of the chunk is that of an element of a lane.
            let result = thread % chunk;
            let (element, of_lane) = (result / lanes, result % lanes);
            let own_column = of_lane * vector + element;
            let has_result = own_column.lt((inner - column).min(own));
            let join = Join { op, threads: threads as i32, chunk, has_result, none };
            let mut found = join.all(k, &shared, k.constant(slots), |k, slot| {
                let ahead = if is_ragged { element + lead(before, slot, vector) } else { element };
                let at = slot * chunk + ahead % vector * lanes + of_lane + ahead / vector;
                shared.load(k, wide(at))
            });
            if cluster > 1 {
                let inbox = Slots::shared(k, cluster * chunk, is_arg);
                k.barrier_cluster_wait(BarrierForm::Aligned);
                k.if_(thread.lt(chunk), |k| {
                    inbox.of_block(0).store(k, wide(part.rank * chunk + result), found);
                });
                k.barrier_cluster_arrive(BarrierForm::Aligned, ClusterArrival::Release);
                k.barrier_cluster_wait(BarrierForm::Aligned);
                let is_first = part.rank.eq(0);
                found = k.if_with(is_first, none, |k| {
                    let load = |block: i32| inbox.load(k, wide(result + block * chunk));
                    (0..cluster).map(load).reduce(|a, b| combined(op, a, b)).unwrap_or(found)
                });
            }
            let is_first = part.rank.eq(0);
            let is_split = parts.gt(cluster) & is_first;
            let (is_last, found) = k.if_with(is_split, (is_first, found), |k| {
                join.clusters(k, (&shared, memory), (&part, parts / cluster), found)
            });
            k.if_(is_last & thread.lt(chunk) & has_result, |k| {
                let result = finished(op, found, (len, divisor));
                y.store(k, outer.mul_wide(inner) + wide(column + own_column), result);
            });
        },
    )
}

/// The rows and columns of a block: a part of the axis in chunk `rest` of all columns.
struct Part<'b> {
    /// The block in its cluster, the cluster among those of the chunk, and the number of all clusters.
    rank: Val<'b, i32>,
    number: Val<'b, i32>,
    clusters: Val<'b, i32>,
    rest: Val<'b, i32>,
    /// The number of tensors before the axis, and that of the chunk.
    outers: Val<'b, i32>,
    outer: Val<'b, i32>,
    /// The first column of the chunk, and the rows of the part.
    column: Val<'b, i32>,
    first: Val<'b, i32>,
    end: Val<'b, i32>,
    /// The offset of the first column in row 0.
    start: Val<'b, i64>,
}

impl<'b> Part<'b> {
    /// The part of this block, whose chunk has `own` columns. Clusters beside each other read columns beside each other.
    fn of(
        k: &Body<'b, '_>,
        own: i32,
        cluster: i32,
        [len, inner, parts]: [Val<'b, i32>; 3],
    ) -> Part<'b> {
        let (block, all) = (k.block_idx().x, k.grid_dim().x / parts);
        let (id, rank) =
            if cluster > 1 { (block / cluster, block % cluster) } else { (block, k.constant(0)) };
        let (number, rest) = (id / all, id % all);
        let chunks = (inner + (own - 1)) / own;
        let (outer, column) = (rest / chunks, rest % chunks * own);
        let (each, part) = ((len + (parts - 1)) / parts, number * cluster + rank);
        let (first, end) = (part * each, (part * each + each).min(len));
        let start = outer.mul_wide(len) * wide(inner) + wide(column);
        let (outers, clusters) = (all / chunks, k.grid_dim().x / cluster);
        Part { rank, number, clusters, rest, outers, outer, column, first, end, start }
    }
}

/// Joins the results of parts of a chunk: thread `i` has result `i % chunk`.
struct Join<'b> {
    op: RowReduceOp,
    threads: i32,
    chunk: i32,
    /// True in threads with a result.
    has_result: Val<'b, bool>,
    none: (f32, i32),
}

impl Join<'_> {
    /// Returns the results of `count` parts, in all threads. The threads load several parts at once.
    fn all<'c, 'b: 'c>(
        &self,
        k: &mut Body<'c, '_>,
        shared: &Slots<'b, Shared<f32>, Shared<i32>>,
        count: Val<'c, i32>,
        load: impl for<'d> Fn(&Body<'d, 'c>, Val<'d, i32>) -> Found<'d>,
    ) -> Found<'c>
    where
        Self: 'c,
    {
        let Join { op, threads, chunk, has_result, none } = *self;
        let (thread, groups) = (k.thread_idx().x, threads / chunk);
        let end = has_result.select(count, 0);
        let parts = range(thread / chunk, end).step(groups).unroll(8);
        let found = k.for_(parts, none, |k, part, found| combined(op, found, load(k, part)));
        if groups == 1 {
            return found;
        }
        k.barrier();
        shared.store(k, wide(thread), found);
        k.barrier();
        let load = |group: i32| shared.load(k, wide(thread % chunk + group * chunk));
        (0..groups).map(load).reduce(|a, b| combined(op, a, b)).unwrap_or(found)
    }

    /// Stores the results of a cluster. Returns true in the last of `count` clusters to arrive, with the results of all of them.
    fn clusters<'c, 'b: 'c>(
        &self,
        k: &mut Body<'c, '_>,
        (shared, (partials, arrivals)): (&Slots<'b, Shared<f32>, Shared<i32>>, Workspace<'b>),
        (part, count): (&Part<'b>, Val<'b, i32>),
        found: Found<'c>,
    ) -> (Val<'c, bool>, Found<'c>)
    where
        Self: 'c,
    {
        let Join { threads, chunk, has_result, none, .. } = *self;
        let (thread, result) = (k.thread_idx().x, k.thread_idx().x % chunk);
        let end = part.clusters.mul_wide(chunk);
        let places = shared.places.map(|_| partials.ptr_cast::<i32>().offset(end));
        let of_parts = Slots { values: partials, places };
        let first = wide(part.rest * count) * i64::from(chunk) + wide(result);
        k.if_(has_result & thread.lt(chunk), |k| {
            of_parts.store(k, first + part.number.mul_wide(chunk), found);
        });
        let barrier = (k.named_barrier(1, threads as u32).aligned(), thread.eq(0));
        let is_last = is_last_to_arrive(k, arrivals.offset(part.rest), count, barrier);
        let found = k.if_with(is_last, none, |k| {
            self.all(k, shared, count, |k, part| of_parts.load(k, first + part.mul_wide(chunk)))
        });
        (is_last, found)
    }
}

/// Returns the result of a line of `len` elements.
fn finished<'c, Y: Converted>(
    op: RowReduceOp,
    (found, row): Found<'c>,
    (len, divisor): (Val<'c, i32>, Val<'c, f32>),
) -> Val<'c, Y> {
    match op {
        RowReduceOp::ArgMax => {
            let no_row = len.eq(0).select::<i32>(-1, 0);
            found.eq(f32::NEG_INFINITY).select(no_row, row).cvt::<Y>()
        }
        RowReduceOp::Mean => (found / divisor).cvt::<Y>(),
        RowReduceOp::Norm => found.sqrt().cvt::<Y>(),
        _ => found.cvt::<Y>(),
    }
}

fn wide(value: Val<'_, i32>) -> Val<'_, i64> {
    value.cvt::<i64>()
}

/// Returns the elements before a chunk in the first vector of the rows of a slot; `start` are those before the chunk in row 0.
fn lead<'c>([start, inner]: [Val<'c, i32>; 2], slot: Val<'c, i32>, vector: i32) -> Val<'c, i32> {
    (start + slot * inner) & (vector - 1)
}

/// A result, and of [`RowReduceOp::ArgMax`] its row.
type Found<'c> = (Val<'c, f32>, Val<'c, i32>);

/// A result that a thread adds to.
type Best<'b> = (Var<'b, f32>, Var<'b, i32>);

/// Adds an element to a result. The rows of a thread ascend: of equal elements the first one counts.
fn add<'c, 'b: 'c>(k: &Body<'c, '_>, op: RowReduceOp, best: &Best<'b>, (value, row): Found<'c>) {
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

/// Returns the result of two; of equal elements the one in the lower row counts.
fn combined<'c>(op: RowReduceOp, a: Found<'c>, b: Found<'c>) -> Found<'c> {
    if op != RowReduceOp::ArgMax {
        return (op.monoid().1(a.0, b.0), a.1);
    }
    let is_better = b.0.gt(a.0) | (b.0.eq(a.0) & b.1.lt(a.1));
    (is_better.select(b.0, a.0), is_better.select(b.1, a.1))
}

/// Results in memory, with their rows.
struct Slots<'b, P, R> {
    values: Val<'b, P>,
    places: Option<Val<'b, R>>,
}

impl<'b> Slots<'b, Shared<f32>, Shared<i32>> {
    /// `len` results in shared memory, with their rows if there are some.
    fn shared(k: &Body<'b, '_>, len: i32, has_places: bool) -> Self {
        let places = has_places.then(|| k.shared::<i32>(len as u32));
        Slots { values: k.shared::<f32>(len as u32), places }
    }

    /// Returns the same in a block of the cluster.
    fn of_block(&self, block: u32) -> Slots<'b, SharedCluster<f32>, SharedCluster<i32>> {
        let places = self.places.map(|places| places.mapa(block));
        Slots { values: self.values.mapa(block), places }
    }
}

impl<P: MutPointer<Elem = f32>, R: MutPointer<Elem = i32>> Slots<'_, P, R> {
    fn store(&self, k: &Body<'_, '_>, at: Val<'_, i64>, found: Found<'_>) {
        self.values.store(k, at, found.0);
        self.places.inspect(|places| places.store(k, at, found.1));
    }

    fn load<'c>(&self, k: &Body<'c, '_>, at: Val<'c, i64>) -> Found<'c> {
        let place = self.places.map(|places| places.load(k, at));
        (self.values.load(k, at), place.unwrap_or_else(|| k.constant(i32::MAX)))
    }
}
