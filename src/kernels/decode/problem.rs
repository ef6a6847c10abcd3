//! [`DecodeProblem`]: the sizes and strides of one decode step. You pass it at launch, so one
//! kernel serves all batch sizes and cache sizes.

use super::super::attention::span;
use super::config::{KEYS, MAX_PAGE_BITS, ROWS};
use super::error::DecodeError;

/// The sizes of a decode step, and the strides of its tensors.
///
/// Q and O have the modes (query, head, sequence). The pools of K and V have the modes (token in
/// the page, head, page). The head dimension is contiguous in all of them. Query `i` of a sequence
/// with `len` keys sees the keys `j <= i + len - queries`, and of these only the last `window` if
/// there is one: its own key and value must already be in the cache. Several queries per sequence
/// verify guesses of the next tokens.
///
/// A cache without pages, `[sequences, capacity]` tokens, is a pool of
/// `sequences * capacity / page` pages with the table `0, 1, 2, ..`, for any page size that divides
/// `capacity`. Sequences with the same beginning may share its pages: let their rows of the table
/// start with the same entries.
///
/// ```
/// use tilewright::kernels::decode::DecodeProblem;
///
/// // 16 sequences, 32 query heads that share 8 key heads; a pool of 2000 pages of 64 tokens, up
/// // to 128 per sequence.
/// let problem = DecodeProblem::new([16, 32, 8], 128, [2000, 64, 128]);
/// assert_eq!(problem.max_len, 8192);
/// assert_eq!(problem.k_strides(), [8 * 128, 128, 64 * 8 * 128]);
/// // The keys and values of sequences with 100 and 200 tokens.
/// assert_eq!(problem.bytes([100, 200]), 300 * 2 * 8 * 128 * 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeProblem {
    /// Sequences in the batch.
    pub batch: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads. They must divide the query heads; adjacent query heads share one (GQA).
    pub key_heads: u32,
    /// Queries per sequence: 1 to 16.
    pub queries: u32,
    /// The dimension of queries, keys and values.
    pub head_dim: u32,
    /// Pages in the pool.
    pub pages: u32,
    /// Tokens per page: a power of two, at least 16.
    pub page: u32,
    /// Pages per row of the table, which is `[batch, max_pages]`.
    pub max_pages: u32,
    /// The most keys a sequence can have. Longer lengths are clamped to it.
    pub max_len: u32,
    /// How many keys a query sees at most, its own included (a sliding window). `None` is all.
    pub window: Option<u32>,
    /// The factor for the scores. `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// The strides of Q, in elements: from one query, head and sequence to the next. Must be
    /// multiples of 8. `None` is compact: `[batch, queries, heads, head_dim]`.
    pub q: Option<[u64; 3]>,
    /// The strides of K, in elements: from one token, head and page to the next. `None` is compact:
    /// `[pages, page, key_heads, head_dim]`.
    pub k: Option<[u64; 3]>,
    /// The strides of V, like those of K.
    pub v: Option<[u64; 3]>,
    /// The strides of O, like those of Q.
    pub o: Option<[u64; 3]>,
}

impl DecodeProblem {
    /// One query per sequence, for `[batch, heads, key_heads]` and a cache with
    /// `[pages, page, max_pages]`: the pool's pages, the tokens per page, and the pages per row of
    /// the table. All tensors are compact.
    pub const fn new(
        [batch, heads, key_heads]: [u32; 3],
        head_dim: u32,
        [pages, page, max_pages]: [u32; 3],
    ) -> DecodeProblem {
        DecodeProblem {
            batch,
            heads,
            key_heads,
            queries: 1,
            head_dim,
            pages,
            page,
            max_pages,
            max_len: page.saturating_mul(max_pages),
            window: None,
            scale: None,
            q: None,
            k: None,
            v: None,
            o: None,
        }
    }

    /// Returns the factor for the scores: the field of the same name, or `1 / sqrt(head_dim)` if it
    /// is `None`. Use it in a reference computation.
    pub fn scale(&self) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    #[inline]
    fn strides(given: Option<[u64; 3]>, [positions, heads, dim]: [u32; 3]) -> [u64; 3] {
        let [positions, heads, dim] = [positions, heads, dim].map(u64::from);
        given.unwrap_or([heads * dim, dim, positions * heads * dim])
    }

    /// Returns the strides of Q in elements: from one query, head and sequence to the next. Compact
    /// strides are computed if you set none.
    #[inline]
    pub fn q_strides(&self) -> [u64; 3] {
        Self::strides(self.q, [self.queries, self.heads, self.head_dim])
    }

    /// Returns the strides of K in elements: from one token, head and page to the next. Compact
    /// strides are computed if you set none.
    #[inline]
    pub fn k_strides(&self) -> [u64; 3] {
        Self::strides(self.k, [self.page, self.key_heads, self.head_dim])
    }

    /// Returns the strides of V in elements, like [`k_strides`](DecodeProblem::k_strides).
    #[inline]
    pub fn v_strides(&self) -> [u64; 3] {
        Self::strides(self.v, [self.page, self.key_heads, self.head_dim])
    }

    /// Returns the strides of O in elements, like [`q_strides`](DecodeProblem::q_strides).
    #[inline]
    pub fn o_strides(&self) -> [u64; 3] {
        Self::strides(self.o, [self.queries, self.heads, self.head_dim])
    }

    /// Returns how many elements the buffers of Q, K, V and O need at least: from the first to the
    /// last one that the kernel reads or writes.
    #[inline]
    pub fn lens(&self) -> [u64; 4] {
        let DecodeProblem { batch, heads, key_heads, queries, head_dim, pages, page, .. } = *self;
        let (rows, cache) = ([queries, heads, batch], [page, key_heads, pages]);
        [
            span(rows, self.q_strides(), head_dim),
            span(cache, self.k_strides(), head_dim),
            span(cache, self.v_strides(), head_dim),
            span(rows, self.o_strides(), head_dim),
        ]
    }

    /// Returns whether there are no queries, so that a launch does nothing.
    pub fn is_empty(&self) -> bool {
        self.batch == 0 || self.heads == 0
    }

    /// Returns how many rows the output has: one per query and head.
    pub fn rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.heads) * u64::from(self.queries)
    }

    /// Returns how many query heads share a key head.
    pub fn group(&self) -> u32 {
        self.heads.checked_div(self.key_heads).unwrap_or(0)
    }

    /// Returns how many tiles of 16 rows, (query, head), each key head has.
    pub(super) fn row_tiles(&self) -> u32 {
        (self.group().saturating_mul(self.queries)).div_ceil(ROWS)
    }

    /// Returns the row tiles of all sequences. Each split has that many thread blocks.
    #[inline]
    pub(super) fn tiles(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.key_heads) * u64::from(self.row_tiles())
    }

    /// Returns how many keys of a sequence with `len` keys its queries see together.
    pub fn visible(&self, len: u32) -> u32 {
        let all = |window: u32| window.saturating_add(self.queries.saturating_sub(1));
        self.window.map_or(len, |window| all(window).min(len))
    }

    /// Returns the most keys that a launch reads of a sequence: those that its queries see, from
    /// the start of a group of keys.
    pub(super) fn max_read(&self) -> u32 {
        self.visible(self.max_len).saturating_add(KEYS - 1).min(self.max_len)
    }

    /// Returns how many bytes of keys and values the queries of sequences with these lengths see.
    /// Use it to compute the bandwidth of a launch, which reads them once.
    pub fn bytes(&self, lens: impl IntoIterator<Item = u32>) -> u64 {
        let tokens: u64 = lens.into_iter().map(|len| u64::from(self.visible(len))).sum();
        tokens * 2 * u64::from(self.key_heads) * u64::from(self.head_dim) * 2
    }

    /// Checks the sizes and strides. Every launch calls it; call it to reject a problem earlier.
    ///
    /// # Errors
    /// [`DecodeError::Heads`], [`DecodeError::Queries`], [`DecodeError::Page`],
    /// [`DecodeError::Capacity`], [`DecodeError::Window`], [`DecodeError::Scale`], [`DecodeError::Stride`],
    /// [`DecodeError::TooLarge`].
    #[inline]
    pub fn check(&self) -> Result<(), DecodeError> {
        let DecodeProblem { heads, key_heads, queries, page, max_pages, max_len, .. } = *self;
        if heads != 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
            return Err(DecodeError::Heads { heads, key_heads });
        }
        if !(1..=16).contains(&queries) {
            return Err(DecodeError::Queries { found: queries });
        }
        if !page.is_power_of_two() || !(KEYS..=1 << MAX_PAGE_BITS).contains(&page) {
            return Err(DecodeError::Page { found: page });
        }
        let capacity = u64::from(page) * u64::from(max_pages);
        if u64::from(max_len) > capacity {
            return Err(DecodeError::Capacity { max_len, capacity });
        }
        if self.window == Some(0) {
            return Err(DecodeError::Window);
        }
        let scale = self.scale();
        if !(scale.is_finite() && scale > 0.0) {
            return Err(DecodeError::Scale { found: scale });
        }
        let strides = [
            ("Q", ["query", "head", "sequence"], self.q_strides()),
            ("K", ["token", "head", "page"], self.k_strides()),
            ("V", ["token", "head", "page"], self.v_strides()),
            ("O", ["query", "head", "sequence"], self.o_strides()),
        ];
        for (operand, names, strides) in strides {
            for (which, found) in names.into_iter().zip(strides) {
                if !found.is_multiple_of(8) {
                    return Err(DecodeError::Stride { operand, which, found });
                }
            }
        }
        let int = (1 << 31) - 1;
        let entries = u64::from(self.batch) * u64::from(max_pages);
        let limits = [
            ("the key count", max_len.into(), 1 << 30),
            ("the page count", self.pages.into(), int),
            ("the entry count of the table", entries, int),
            ("the row count", self.rows(), int),
            ("the row tile count", self.tiles(), int),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(DecodeError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}
