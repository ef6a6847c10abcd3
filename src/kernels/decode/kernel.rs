//! The decode kernel's device code, with `mma.sync` for `sm_80` and newer targets.
//!
//! A thread block has 16 rows, which are (query, head) pairs of one key head, and the keys of one
//! split. At first, its warps do not communicate: warp `w` processes the groups `w`, `w + warps`,
//! .. of 16 keys, fetches each group with `cp.async` into its own ring buffer, and has its own
//! online softmax and output. A group of 16 keys never crosses a page, so a warp loads one entry of
//! the page table per step, one step before it starts the copies from that page.
//!
//! With a sliding window, the first split starts where the first query's window does, rounded down
//! to a group of keys, so keys that no query sees cost nothing.
//!
//! At the end, the block's warps combine their partial results in shared memory. If the sequence is
//! split, the block writes its result to a workspace, and the last block of the tile to do so
//! combines the results of all splits.

use crate::ir::op::CpAsyncCache;
use crate::ir::{Body, Global, MutPointer, Pointer, Range, Shared, Val, WARP, range};
use crate::layout::shape;
use crate::tensor::atom::Operand;
use crate::tensor::mma::{OnlineSoftmax, SoftmaxEnd};
use crate::tensor::view::{Tensor, TensorPointer};

use super::super::arrival::ArrivingGroup;
use super::config::{KEYS, MAX_PAGE_BITS, ROWS};
use super::tiles::{ParamsAt, Tiles, X};

/// A warp's part of the work: the rows of a tile and the keys of a split.
#[derive(Clone, Copy)]
struct Part<'p, 'a, 'b> {
    tiles: &'p Tiles,
    args: &'p ParamsAt<'a, X>,
    /// The sequence, the key head, and the row tile.
    place: [Val<'b, i32>; 3],
    /// The split's first key, the split's end, and the sequence's end.
    keys: [Val<'b, i32>; 3],
    warp: Val<'b, i32>,
    /// The warp's stages: 16 keys, then 16 values.
    ring: Val<'b, Shared<X>>,
    /// The sequence's row of the page table.
    table: Val<'b, Global<i32>>,
    /// The base-2 logarithm of the tokens per page.
    page_bits: Val<'b, u32>,
}

impl Tiles {
    /// Emits the kernel.
    #[inline]
    pub(super) fn body<'a>(&self, k: &mut Body<'a, '_>, args: &ParamsAt<'a, X>) {
        let config = &self.config;
        let (block, split, thread) = (k.block_idx().x, k.block_idx().y, k.thread_idx().x);
        let (of_tile, tile) = (block / args.row_tiles, block % args.row_tiles);
        let (sequence, head) = (of_tile / args.key_heads, of_tile % args.key_heads);
        let len = args.lens.load(sequence).max(0).min(args.max_len);
        // A group of keys never crosses the end of a split or of a page.
        let tokens = args.tokens.assume_divisible_by(KEYS);
        let page_bits = args.page_bits.assume_between(KEYS.trailing_zeros(), MAX_PAGE_BITS);
        let start = (len - len.min(args.visible)) / KEYS * KEYS;
        let first = start + split * tokens;
        // A sequence without keys has one split, which writes zeros.
        let splits = ((len - start + tokens - 1) / tokens).max(1).min(k.grid_dim().y);
        let ring = config.stages * config.stage_elements();
        let queries = k.shared_aligned::<X>(ROWS * config.pitch(), 16);
        let rings = k.shared_aligned::<X>(config.warps * ring, 16);
        // After a shuffle, `ptxas` knows that the value is uniform in the warp.
        let warp = k.shfl_idx(WARP, thread / 32, 0);
        let (place, keys) = ([sequence, head, tile], [first, (first + tokens).min(len), len]);
        let ring_of_warp = rings.offset(warp * ring);
        let table = args.table.offset(sequence.cvt::<i64>() * args.row.cvt::<i64>());
        let own =
            Part { tiles: self, args, place, keys, warp, ring: ring_of_warp, table, page_bits };
        k.if_(split.lt(splits), |k| {
            own.attend(k, queries);
            k.barrier();
            // The warps' partial results are in their ring buffers.
            let of_warps = range(0, config.warps).unroll_full();
            let sums = own.combine(k, rings.ptr_cast::<f32>(), ring / 2, of_warps);
            k.if_(splits.eq(1), |k| own.store(k, &sums));
            k.if_(splits.gt(1), |k| {
                let (share, part) = (config.share_numbers(), config.warps * config.share_numbers());
                let first = block.cvt::<i64>() * k.grid_dim().y.cvt::<i64>();
                let all = args.partials.offset(first * i64::from(part));
                sums.write(all.offset(split * part + warp * share + k.lane_id()));
                let barrier = k.named_barrier(1, config.threads()).aligned();
                let (counter, is_leader) = (args.arrivals.offset(block), thread.eq(0));
                let arriving = ArrivingGroup { barrier, is_leader };
                let last = arriving.is_last_to_arrive(k, counter, splits);
                k.if_(last, |k| {
                    // Prefetch, because otherwise each split would cost a round trip to memory.
                    let of_splits = range(0, splits).prefetch_stages(config.parts_ahead());
                    let sums = own.combine(k, all, part, of_splits);
                    own.store(k, &sums);
                });
            });
        });
    }
}

impl<'a: 'b, 'b> Part<'_, 'a, 'b> {
    /// Returns the first key of the warp's step.
    #[inline]
    fn key(&self, step: Val<'b, i32>) -> Val<'b, i32> {
        self.keys[0] + (step * self.tiles.config.warps + self.warp) * KEYS
    }

    /// Loads a step's page from the table, or -1 after the last step.
    #[inline]
    fn page(&self, k: &mut Body<'b, '_>, step: Val<'b, i32>) -> Val<'b, i32> {
        let key = self.key(step);
        let entry = key >> self.page_bits;
        k.if_with(key.lt(self.keys[1]), -1, |_| self.table.load(entry))
    }

    /// Starts to copy a step's keys and values into a stage, or zeros if there are none. Returns 1
    /// if `page` is in the pool, else 0.
    #[inline]
    fn fetch(&self, k: &Body<'b, '_>, [step, page, stage]: [Val<'b, i32>; 3]) -> Val<'b, i32> {
        let (args, config, key) = (self.args, &self.tiles.config, self.key(step));
        let is_page = page.ge(0) & page.lt(args.pages);
        let left = is_page.select(self.keys[2] - key, 0);
        let token = key & ((k.constant(1) << self.page_bits) - 1);
        let stage = self.ring.offset(stage * config.stage_elements());
        let both = [(args.k, args.k_strides, 0), (args.v, args.v_strides, KEYS)];
        for (pool, [of_token, of_head, of_page], first) in both {
            let at = page.cvt::<i64>() * of_page + self.place[1].cvt::<i64>() * of_head;
            let from = pool.offset(at + token.cvt::<i64>() * of_token);
            self.copy_rows(k, stage.offset(first * config.pitch()), |row| {
                (from.offset(row.cvt::<i64>() * of_token), row.lt(left))
            });
        }
        is_page.select(1, 0)
    }

    /// Starts to copy the rows' queries.
    #[inline]
    fn fetch_queries(&self, k: &Body<'b, '_>, to: Val<'b, Shared<X>>) {
        let [sequence, head, tile] = self.place;
        let ParamsAt { q, q_strides: [of_query, of_head, _], group, queries, .. } = *self.args;
        let from = q.offset(sequence.cvt::<i64>() * self.args.q_strides[2]);
        self.copy_rows(k, to, |row| {
            let row = tile * ROWS + row;
            let (query, head) = (row / group, head * group + row % group);
            let at = query.cvt::<i64>() * of_query + head.cvt::<i64>() * of_head;
            (from.offset(at), row.lt(group * queries))
        });
    }

    /// Starts to copy 16 rows with the warp. `source` returns a row's address, and whether it
    /// exists; if not, zeros are written.
    #[inline]
    fn copy_rows(
        &self,
        k: &Body<'b, '_>,
        to: Val<'b, Shared<X>>,
        source: impl Fn(Val<'b, i32>) -> (Val<'b, Global<X>>, Val<'b, bool>),
    ) {
        let (dim, pitch) = (self.tiles.config.head_dim, self.tiles.config.pitch());
        // Each lane copies 16 bytes of a 128-byte line, which is one request to the L2 cache. A row
        // that is whole lines and a half starts or ends with the half, depending on its address.
        let half = dim % 64;
        for (lanes, lines) in [(8u32, dim / 64), (4, half / 32)] {
            let (row, column) = (k.lane_id() / lanes, k.lane_id() % lanes * 8);
            for first in (0..ROWS).step_by(32 / lanes as usize).filter(|_| lines > 0) {
                let row = row + first;
                let (from, is_row) = source(row);
                let bytes = is_row.select(k.constant(16u32), 0);
                let column = match half {
                    0 => column,
                    _ => {
                        let starts_with_half = ((from.ptr_to_int() >> 6) & 1).ne(0);
                        let [before, behind] = if lanes == 8 { [half, 0] } else { [0, dim - half] };
                        column + starts_with_half.select(k.constant(before as i32), behind as i32)
                    }
                };
                let to = to.offset(row * pitch + column);
                for line in (0..lines).map(|line| line * 64) {
                    let from = from.offset(column + line as i32);
                    k.cp_async_zfill(to.offset(line), from, CpAsyncCache::Cg, 16, bytes);
                }
            }
        }
    }

    /// Computes the partial result for the warp's keys, and writes it to the start of its ring
    /// buffer.
    #[inline]
    fn attend(&self, k: &mut Body<'b, '_>, queries: Val<'b, Shared<X>>) {
        let Tiles { config, pipe, mma, score_rows, output_rows, .. } = self.tiles;
        let ([_, end, len], args, dim) = (self.keys, self.args, config.head_dim);
        let values = self.ring.offset(KEYS * config.pitch());
        let operands =
            [(&self.tiles.q, queries), (&self.tiles.k, self.ring), (&self.tiles.v, values)];
        let [q, keys, values] = operands.map(|((load, layout), from)| {
            let from = TensorPointer::new(from).assume_aligned(16);
            load.ring(k.lane_id(), &Tensor::new(from, layout.clone()))
        });
        let thr = mma.slice(k.lane_id());
        let scores = thr.fragment_c::<f32>(k, shape!(ROWS, KEYS));
        let output = thr.fragment_c::<f32>(k, shape!(ROWS, dim));
        let powers = self.tiles.powers.fragment(k, mma);
        let words = [(Operand::A, ROWS, 16), (Operand::B, KEYS, 16), (Operand::B, dim, KEYS)];
        let [of_q, of_k, of_v] =
            words.map(|(operand, n, d)| thr.fragment_words(k, operand, shape!(n, d)));
        output.fill(0.0);

        let pages: Vec<_> = (0..pipe.stages()).map(|step| self.page(k, k.value(step))).collect();
        // One bit for each step in the ring buffer, the latest in bit 0: whether its page exists.
        let mut present = k.constant(0);
        k.if_(self.warp.eq(0), |k| self.fetch_queries(k, queries));
        pipe.fill(k, |k, step, stage| {
            let page = pages[step as usize];
            present = present << 1 | self.fetch(k, [k.value(step), page, stage]);
        });
        // Warp 0 has waited for the queries together with its first stage.
        k.barrier();
        // The first key that each row does not see, relative to the lane's first column.
        let [row, column] = score_rows.origin(mma, k.lane_id());
        let row = self.place[2] * ROWS + row;
        let ends = [0, 8].map(|by| len - args.queries + 1 + (row + by) / args.group - column);
        let start = (pipe.start(k), OnlineSoftmax::new(k), pages[pages.len() - 1], present);
        let step = config.warps * KEYS;
        let steps = (end - self.key(k.constant(0)) + (step - 1)).max(0) / step;
        let (_, softmax, ..) =
            k.for_(range(0, steps), start, |k, step, (state, softmax, page, present)| {
                let ahead = step + pipe.ahead();
                let next = self.page(k, ahead + 1);
                let present = present << 1 | self.fetch(k, [ahead, page, state.write]);
                scores.fill(0.0);
                for depth in 0..dim / 16 {
                    q.stage(k.constant(0)).load(depth, &of_q);
                    keys.stage(state.read).load(depth, &of_k);
                    mma.gemm_sync(&scores, &of_q, &of_k);
                }
                let has_page = ((present >> pipe.ahead()) & 1).ne(0);
                let ends = ends.map(|end| has_page.select(end - self.key(step), 0));
                let end = |row: u32| ends[row as usize / 8];
                score_rows.mask(&scores, f32::NEG_INFINITY, |row| [None, Some(end(row))]);
                // The last query's window starts last.
                k.if_(self.key(step).lt(len - args.window), |_| {
                    let start = |row| Some(end(row) - args.window);
                    score_rows.mask(&scores, f32::NEG_INFINITY, |row| [start(row), None]);
                });
                let (softmax, factors) = softmax.update(score_rows, &scores, args.scale);
                OnlineSoftmax::rescale(output_rows, &output, factors, false);
                self.tiles.powers.convert::<X>(&scores, &powers);
                values.stage(state.read).load(0, &of_v);
                mma.gemm_sync(&output, &powers, &of_v);
                pipe.commit(k);
                pipe.wait(k);
                (pipe.next(state), softmax, next, present)
            });
        pipe.drain(k);
        let to = self.ring.ptr_cast::<f32>().offset(k.lane_id());
        for share in 0..config.warps {
            let columns = share * config.share_columns()..(share + 1) * config.share_columns();
            let sums = [0, 1].map(|row| {
                let sums = output_rows.row(&output, row);
                columns.clone().map(|column| sums[column as usize]).collect()
            });
            Sums { sums, softmax }.write(to.offset(share * config.share_numbers()));
        }
    }

    /// Combines the warp's share of several partial results, in order. They are `pitch` values
    /// apart.
    #[inline]
    fn combine<P: Pointer<Elem = f32>>(
        &self,
        k: &mut Body<'b, '_>,
        parts: Val<'b, P>,
        pitch: u32,
        numbers: Range<'b, i32>,
    ) -> Sums<'b> {
        let columns = self.tiles.config.share_columns();
        let sums = k.registers::<f32>(2 * columns);
        sums.fill(0.0);
        let parts = parts.offset(self.warp * self.tiles.config.share_numbers() + k.lane_id());
        let softmax = k.for_(numbers, OnlineSoftmax::new(k), |_, number, softmax| {
            let part = parts.offset(number * pitch);
            let load = |row, column| part.load(32 * (row * (columns + 2) + column));
            let [max, sum] = [columns, columns + 1].map(|at| [load(0, at), load(1, at)]);
            let other = OnlineSoftmax { max, sum };
            let (softmax, [old, new]) = softmax.join(other, self.args.scale);
            for register in 0..2 * columns {
                let (row, column) = (register / columns, register % columns);
                let number = load(row, column) * new[row as usize];
                sums.set(register, sums.get(register).fma(old[row as usize], number));
            }
            softmax
        });
        let of_row = |row| (0..columns).map(|at| sums.get(row * columns + at)).collect();
        Sums { sums: [of_row(0), of_row(1)], softmax }
    }

    /// Stores the warp's share of the output, and the LSE.
    #[inline]
    fn store(&self, k: &mut Body<'b, '_>, Sums { sums, softmax }: &Sums<'b>) {
        let Tiles { config, mma, output_rows: rows, .. } = self.tiles;
        let (args, [sequence, head, tile]) = (self.args, self.place);
        let [row, column] = rows.origin(mma, k.lane_id());
        // A sink is a score without a value, so only the sums change. One of a row's lanes adds it.
        let own = column.eq(0).select(k.constant(1.0), 0.0);
        let mut sinks = OnlineSoftmax { sum: [own; 2], ..OnlineSoftmax::new(k) };
        for (sink, offset) in sinks.max.iter_mut().zip(rows.row_offsets()) {
            let row = tile * ROWS + row + *offset;
            let has_sink = args.has_sinks.ne(0) & row.lt(args.group * args.queries);
            *sink = k.if_with(has_sink, *sink, |_| {
                let sink = args.sinks.load(head * args.group + row % args.group);
                sink * std::f32::consts::LOG2_E / args.scale
            });
        }
        let (softmax, [factors, _]) = softmax.join(sinks, args.scale);
        let SoftmaxEnd { inverse, lse } = softmax.finish(rows, args.scale);
        // A lane has two of 8 columns.
        let column = column + self.warp * (4 * config.share_columns());
        for (number, offset) in rows.row_offsets().iter().enumerate() {
            let row = tile * ROWS + row + *offset;
            let (query, head) = (row / args.group, head * args.group + row % args.group);
            k.if_(row.lt(args.group * args.queries), |k| {
                let [of_query, of_head, of_sequence] = args.o_strides;
                let at = query.cvt::<i64>() * of_query + head.cvt::<i64>() * of_head;
                let to = args.o.offset(at + sequence.cvt::<i64>() * of_sequence).offset(column);
                let factor = factors[number] * inverse[number];
                for (pair, two) in (0u32..).step_by(8).zip(sums[number].chunks(2)) {
                    let two = [two[0], two[1]].map(|sum| sum * factor);
                    to.store_vector(pair, Val::pack(two).cvt::<X>());
                }
                k.if_(column.eq(0) & args.has_lse.ne(0), |_| {
                    let heads = args.key_heads.cvt::<i64>() * args.group.cvt::<i64>();
                    let head = sequence.cvt::<i64>() * heads + head.cvt::<i64>();
                    let at = head * args.queries.cvt::<i64>() + query.cvt::<i64>();
                    args.lse.store(at, lse[number]);
                });
            });
        }
    }
}

/// The sums for some columns of a lane's two rows, with the rows' softmax state.
struct Sums<'b> {
    sums: [Vec<Val<'b, f32>>; 2],
    softmax: OnlineSoftmax<'b>,
}

impl<'b> Sums<'b> {
    /// Writes a share of a partial result. For each value of a lane, those of the 32 lanes are
    /// contiguous.
    #[inline]
    fn write<P: MutPointer<Elem = f32>>(&self, to: Val<'b, P>) {
        let OnlineSoftmax { max, sum } = self.softmax;
        let rows = self.sums.iter().zip(max).zip(sum);
        let numbers = rows.flat_map(|((sums, max), sum)| sums.iter().copied().chain([max, sum]));
        (0u32..).step_by(32).zip(numbers).for_each(|(at, number)| to.store(at, number));
    }
}
