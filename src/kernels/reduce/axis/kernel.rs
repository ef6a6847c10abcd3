//! Builds the kernel of [`AxisReduce`](super::AxisReduce).

use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, range};
use crate::tensor::rows::{ColumnResults, ColumnRows};

use super::super::super::arrival::ArrivingGroup;
use super::super::super::rows::{Input, Output};
use super::{AxisReduceConfig, SM_REGISTERS};

/// Input, output, `[len, inner]`, and the workspace: the clusters' results, two words each, and the
/// arrival counter of each column chunk.
pub(super) type Params<T, Y> =
    (Global<T>, GlobalMut<Y>, [i32; 2], (GlobalMut<u32>, GlobalMut<u32>));

/// Builds the kernel. Block (x, y) reduces part y of the axis in column chunk x. If a chunk has
/// several blocks or clusters, the last to arrive combines the results of all, always in the same
/// order.
#[inline]
pub(super) fn build(
    config: &AxisReduceConfig,
) -> Result<Kernel<Params<Input, Output>>, BuildErrors> {
    let AxisReduceConfig { target, op, threads, .. } = *config;
    let (tile, identity) = (config.tile(), (op.monoid().0, i32::MAX));
    let [chunk, cluster] = [tile.columns(Input::scalar()), tile.cluster].map(|count| count as i32);
    let blocks = (SM_REGISTERS / (config.registers() * threads)).max(1);
    let options = tile.options().min_blocks_per_sm(blocks);
    let name = format!("axis_{config}_{}", Input::scalar());
    Kernel::<Params<Input, Output>>::build_with(
        options,
        &name,
        target,
        |k, (x, y, sizes, workspace)| {
            let ([len, inner], (partials, arrivals)) = (sizes, workspace);
            let (block, grid, thread) = (k.block_idx(), k.grid_dim(), k.thread_idx().x);
            let chunks = (inner + (chunk - 1)) / chunk;
            let (outer, column) = (block.x / chunks, block.x % chunks * chunk);
            let each = (len + (grid.y - 1)) / grid.y;
            let part = [block.y * each, (block.y * each + each).min(len)];
            let start = outer.mul_wide(len) * inner.cvt::<i64>();
            let rows = (grid.x / chunks - outer).mul_wide(len);
            let matrix = ColumnRows { x: x.offset(start), column, columns: inner, rows };
            let found =
                tile.fold(k, &matrix, part, identity, |found, value| op.added(found, value));
            let (found, shared) = tile.join(k, found, identity, |a, b| op.combined(a, b));
            let (number, count) = (block.y / cluster, grid.y / cluster);
            let (is_first, is_column) = ((block.y % cluster).eq(0), thread.lt(chunk));
            let (is_last, found) = k.if_with(count.gt(1) & is_first, (is_first, found), |k| {
                let words = (block.x * count).mul_wide(chunk * 2);
                let all = ColumnResults { columns: chunk, words: partials.offset(words) };
                k.if_(is_column, |_| all.save(number, thread, found));
                let barrier = k.named_barrier(1, threads).aligned();
                let arriving = ArrivingGroup { barrier, is_leader: thread.eq(0) };
                let is_last = arriving.is_last_to_arrive(k, arrivals.offset(block.x), count);
                let found = k.if_with(is_last, identity, |k| {
                    // All threads load: thread `i` takes some results of column `i % chunk`.
                    let (group, groups) = (thread / chunk, threads as i32 / chunk);
                    let parts = range(group, count).step(groups);
                    let found =
                        all.join(k, parts, thread % chunk, identity, |a, b| op.combined(a, b));
                    shared.save(group, thread % chunk, found);
                    k.barrier();
                    k.if_with(is_column, identity, |k| {
                        shared.join(k, range(0, groups), thread, identity, |a, b| op.combined(a, b))
                    })
                });
                (is_last, found)
            });
            let column = column + thread;
            k.if_(is_last & is_column & column.lt(inner), |_| {
                let at = outer.mul_wide(inner) + column.cvt::<i64>();
                y.store(at, op.finished(found, len));
            });
        },
    )
}
