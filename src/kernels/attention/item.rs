//! [`Item`]: the unit of work of a thread block, namely a tile of queries of one head, with the
//! tiles of keys that these queries see. Both attention kernels loop over items, and call the
//! functions in this file to mask the scores and to store the results. `Item::decode` turns the
//! mask and `varlen` into the range of keys.

use crate::ir::builder::AnyVector;
use crate::ir::{Body, Element, Val, WARP};
use crate::tensor::atom::TiledMma;
use crate::tensor::mma::AccumulatorRows;
use crate::tensor::pipeline::{HeadSections, Sequences};
use crate::tensor::view::RegisterTensor;

use super::config::AttentionConfig;
use super::plan::{ParamsAt, SequencesAt, X};

/// A unit of work: the first query of a tile, its head, its tiles of keys (the last one, and how
/// many), and its sequence's lengths. The head counts over all sequences; if query heads share a
/// tile, it counts key heads.
#[derive(Clone, Copy)]
pub(super) struct Item<'b> {
    pub(super) row: Val<'b, i32>,
    pub(super) head: Val<'b, i32>,
    pub(super) last: Val<'b, i32>,
    pub(super) steps: Val<'b, i32>,
    pub(super) queries: Val<'b, i32>,
    pub(super) keys: Val<'b, i32>,
    /// Query `i` sees the keys from `i + lower` to `i + upper`.
    lower: Val<'b, i32>,
    upper: Val<'b, i32>,
    /// The sequence's first positions in Q and in K, with `varlen`.
    starts: Option<[Val<'b, i32>; 2]>,
}

impl<'b> Item<'b> {
    /// Returns the work item with this index. The items of one section of heads precede those of
    /// the next section. Within a section, the last query tiles of all heads come first, because
    /// with a causal mask they take longest.
    #[inline]
    pub(super) fn decode<'a: 'b>(
        k: &mut Body<'b, '_>,
        config: &AttentionConfig,
        args: &ParamsAt<'a>,
        sequences: Option<&SequencesAt<'a, X>>,
        number: Val<'b, i32>,
    ) -> Item<'b> {
        let ([_, columns], rows) = (config.tile, config.queries_of_tile());
        let (tiles, heads, section) = (args.row_tiles, args.all_heads, args.section);
        let [head, mut tile] = HeadSections { tiles, heads, section }.decode(number);
        let (mut queries, mut keys) = (args.queries, args.keys);
        let (mut lower, mut upper, mut starts) = (args.lower, args.upper, None);
        if let Some(of) = sequences {
            let found = Sequences { starts: of.q_starts, count: of.count }.decode(tile, rows);
            let start = of.k_starts.load(found.sequence);
            (tile, queries) = (found.tile, found.len);
            keys = of.k_starts.load(found.sequence + 1) - start;
            (lower, upper) = (lower + (keys - queries), upper + (keys - queries));
            starts = Some([found.start, start]);
        }
        let row = tile * rows;
        let zero = k.constant(0);
        let begin = match config.left {
            true => ((row + lower).max(0) / columns).max(zero),
            false => zero,
        };
        let end = match config.right {
            true => ((row + rows).min(queries) + upper).min(keys),
            false => keys + 0,
        };
        // At least one tile, so that a query without keys gets an output too.
        let end = ((end.max(0) + (columns - 1)) / columns).max(begin + 1);
        let (last, steps) = (end - 1, end - begin);
        Item { row, head, last, steps, queries, keys, lower, upper, starts }
    }

    /// Returns the item's first query head and its key head in the sequence, and the sequence in
    /// the batch.
    #[inline]
    pub(super) fn heads<'a: 'b>(
        &self,
        config: &AttentionConfig,
        args: &ParamsAt<'a>,
    ) -> [Val<'b, i32>; 3] {
        let batch = self.head / args.heads;
        let head = self.head - batch * args.heads;
        [head * config.packed_heads, head / args.group, batch]
    }

    /// Returns a query's position in Q.
    #[inline]
    pub(super) fn query(&self, query: Val<'b, i32>) -> Val<'b, i32> {
        self.starts.map_or(query, |[start, _]| query + start)
    }

    /// Returns a key's position in K and V.
    #[inline]
    pub(super) fn key(&self, key: Val<'b, i32>) -> Val<'b, i32> {
        self.starts.map_or(key, |[_, start]| key + start)
    }

    /// Returns the first key after those that a query sees.
    #[inline]
    fn high(&self, config: &AttentionConfig, query: Val<'b, i32>) -> Val<'b, i32> {
        match config.right {
            true => (query + self.upper + 1).min(self.keys),
            false => self.keys + 0,
        }
    }

    /// Stores the LSE of the thread's rows. Only the threads that have a row's first column write
    /// it.
    #[inline]
    pub(super) fn store_lse<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        args: &ParamsAt<'a>,
        own: Own<'b>,
        rows: &AccumulatorRows,
        lse: impl IntoIterator<Item = Val<'b, f32>>,
    ) {
        for (offset, lse) in rows.row_offsets().iter().zip(lse) {
            let row = own.query(*offset);
            let first = own.head(*offset).cvt::<i64>() * args.queries.cvt::<i64>();
            let at = first + self.query(row).cvt::<i64>();
            k.if_(own.column.eq(0) & row.lt(self.queries), |_| args.lse.store(at, lse));
        }
    }

    /// Stores the thread's rows of an output. `own.head` is the head in its sequence, `batch`. The
    /// four lanes that share rows exchange pairs of elements, so that each stores 8 neighbours at a
    /// time.
    #[inline]
    pub(super) fn store_rows<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        to: &SequencesAt<'a, X>,
        batch: Val<'b, i32>,
        own: Own<'b>,
        rows: &AccumulatorRows,
        output: &RegisterTensor<'b, f32>,
    ) {
        for (number, offset) in rows.row_offsets().iter().enumerate() {
            let row = own.query(*offset);
            let at = offset_of(to.strides, [self.query(row), own.head(*offset), batch]);
            let to = to.o.offset(at + (own.column * 4).cvt::<i64>());
            let pack = |pair: &[Val<'b, f32>]| Val::pack([pair[0], pair[1]]).cvt::<X>().bitcast();
            let words: Vec<Val<'b, u32>> = rows.row(output, number).chunks(2).map(pack).collect();
            let transposed = |words: &[Val<'b, u32>]| transpose(k, own.column / 2, words);
            let vectors: Vec<_> = words.chunks(4).map(transposed).collect();
            k.if_(row.lt(self.queries), |_| {
                for (words, offset) in vectors.into_iter().zip((0..).step_by(32)) {
                    if let Some(vector) = AnyVector::from(Val::pack(words)).cast(X::scalar()) {
                        to.store_vector(offset, vector);
                    }
                }
            });
        }
    }

    /// Applies the softcap to a tile of scores, and masks them if the mask cuts through the tile.
    #[inline]
    pub(super) fn mask<'a: 'b>(
        &self,
        k: &mut Body<'b, '_>,
        config: &AttentionConfig,
        args: &ParamsAt<'a>,
        tile: &ScoreTile<'_, 'b>,
    ) {
        let ScoreTile { rows, scores, first_query, first_key, .. } = *tile;
        if config.softcap {
            for row in 0..rows.row_offsets().len() {
                rows.map_row(scores, row, |_, score| (score * args.inner).tanh_fast());
            }
        }
        let cut = (first_key + config.tile[1]).gt(self.high(config, first_query));
        let cut = match config.left {
            true => cut | first_key.lt(first_query + (tile.queries - 1) + self.lower),
            false => cut,
        };
        k.if_(cut, |_| {
            let [row, column] = rows.origin(tile.mma, tile.thread);
            let heads = config.packed_heads;
            let own = Own { heads, first: first_query, head: self.head, row, column };
            let key = first_key + column;
            rows.mask(scores, f32::NEG_INFINITY, |offset| {
                let low = config.left.then(|| own.query(offset) + self.lower - key);
                [low, Some(self.high(config, own.query(offset)) - key)]
            });
        });
    }
}

/// Transposes the 4 x 4 words of 4 neighbouring lanes: lane `i` has `w[i][..]` and gets `w[..][i]`.
#[inline]
fn transpose<'b>(
    k: &Body<'b, '_>,
    lane: Val<'b, i32>,
    words: &[Val<'b, u32>],
) -> [Val<'b, u32>; 4] {
    let mut words = [0, 1, 2, 3].map(|at| words[at]);
    for (bit, pairs) in [(1, [[0, 1], [2, 3]]), (2, [[0, 2], [1, 3]])] {
        let is_high = (lane & bit).ne(0);
        for [low, high] in pairs {
            let (own, other) = (words[low], words[high]);
            let received = k.shfl_bfly(WARP, is_high.select(own, other), bit as u32);
            words[low] = is_high.select(received, own);
            words[high] = is_high.select(other, received);
        }
    }
    words
}

/// Returns the offset of `[position, head, sequence]`, in elements.
#[inline]
pub(super) fn offset_of<'b>(strides: [Val<'b, i64>; 3], at: [Val<'b, i32>; 3]) -> Val<'b, i64> {
    let [position, head, sequence] = at.map(|number| number.cvt::<i64>());
    position * strides[0] + head * strides[1] + sequence * strides[2]
}

/// The scores of a tile of queries and keys.
pub(super) struct ScoreTile<'p, 'b> {
    pub(super) mma: &'p TiledMma,
    pub(super) rows: &'p AccumulatorRows,
    /// The thread's index in `mma`, and its scores.
    pub(super) thread: Val<'b, i32>,
    pub(super) scores: &'p RegisterTensor<'b, f32>,
    pub(super) first_query: Val<'b, i32>,
    /// How many queries the tile has.
    pub(super) queries: u32,
    pub(super) first_key: Val<'b, i32>,
}

/// A thread's rows in a tile, for one head or for several that share the tile.
#[derive(Clone, Copy)]
pub(super) struct Own<'b> {
    pub(super) heads: u32,
    /// The tile's first query.
    pub(super) first: Val<'b, i32>,
    /// The first of the heads.
    pub(super) head: Val<'b, i32>,
    /// The thread's first row and column. Four lanes share rows, and have columns 0, 2, 4 and 6.
    pub(super) row: Val<'b, i32>,
    pub(super) column: Val<'b, i32>,
}

impl<'b> Own<'b> {
    /// Returns a row's query.
    #[inline]
    pub(super) fn query(&self, offset: u32) -> Val<'b, i32> {
        match self.heads {
            1 => self.first + self.row + offset,
            heads => self.first + (self.row + offset) / heads,
        }
    }

    /// Returns a row's head.
    #[inline]
    pub(super) fn head(&self, offset: u32) -> Val<'b, i32> {
        match self.heads {
            1 => self.head,
            heads => self.head + (self.row + offset) % heads,
        }
    }
}
