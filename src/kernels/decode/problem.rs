//! [`DecodeProblem`]: the sizes of a decode step and where its tensors lie.

use super::super::attention::span;
use super::config::ROWS;
use super::error::DecodeError;

/// The sizes of a decode step and where its tensors lie.
///
/// Q and O have the modes (query, head, sequence), the pools of K and of V the modes (token of the page, head, page). The head
/// dimension is contiguous in all of them. Query `i` of a sequence with `len` keys sees the keys `j <= i + len - queries`: its
/// own key and value are in the cache already.
///
/// A cache without pages, `[sequences, capacity]` tokens, is a pool of `sequences * capacity / page` pages with the table
/// `0, 1, 2, ..`, for any page size that divides `capacity`.
///
/// ```
/// use tilewright::kernels::decode::DecodeProblem;
///
/// // 16 sequences, 32 heads that share 8 heads of keys; a pool of 2000 pages of 64 tokens, up to 128 for a sequence.
/// let problem = DecodeProblem::new([16, 32, 8], 128, [2000, 64, 128]);
/// assert_eq!(problem.max_len, 8192);
/// assert_eq!(problem.k_strides(), [8 * 128, 128, 64 * 8 * 128]);
/// // The keys and values of sequences with 100 and 200 tokens.
/// assert_eq!(problem.bytes([100, 200]), 300 * 2 * 8 * 128 * 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecodeProblem {
    /// The sequences of the batch.
    pub batch: u32,
    /// The heads of queries.
    pub heads: u32,
    /// The heads of keys and values, which divide the heads of queries: adjacent heads of queries share one.
    pub key_heads: u32,
    /// The queries of a sequence: 1 to 8.
    pub queries: u32,
    /// The dimension of queries, keys and values.
    pub head_dim: u32,
    /// The pages of the pool.
    pub pages: u32,
    /// The tokens of a page: a power of two from 16 on.
    pub page: u32,
    /// The pages in a row of the table, which is `[batch, max_pages]`.
    pub max_pages: u32,
    /// The maximum number of keys of a sequence; larger lengths count as this one.
    pub max_len: u32,
    /// The factor of the scores; `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// The elements from a query, a head and a sequence of Q to the next one; `None` is compact, as `[batch, queries, heads,
    /// head_dim]`. Strides are multiples of 8.
    pub q: Option<[u64; 3]>,
    /// The elements from a token, a head and a page of K to the next one; `None` is compact, as `[pages, page, key_heads,
    /// head_dim]`.
    pub k: Option<[u64; 3]>,
    /// The strides of V, as those of K.
    pub v: Option<[u64; 3]>,
    /// The strides of O, as those of Q.
    pub o: Option<[u64; 3]>,
}

impl DecodeProblem {
    /// One query for each sequence of `[batch, heads, key_heads]`, with a pool of `[pages, page, max_pages]`: its pages, the
    /// tokens of a page, and the pages in a row of the table. All tensors are compact.
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
            scale: None,
            q: None,
            k: None,
            v: None,
            o: None,
        }
    }

    /// Returns the factor of the scores.
    pub fn scale(&self) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    #[inline]
    fn strides(given: Option<[u64; 3]>, [positions, heads, dim]: [u32; 3]) -> [u64; 3] {
        let [positions, heads, dim] = [positions, heads, dim].map(u64::from);
        given.unwrap_or([heads * dim, dim, positions * heads * dim])
    }

    /// Returns the strides of Q in elements: from a query, a head and a sequence to the next one.
    #[inline]
    pub fn q_strides(&self) -> [u64; 3] {
        Self::strides(self.q, [self.queries, self.heads, self.head_dim])
    }

    /// Returns the strides of K: from a token, a head and a page to the next one.
    #[inline]
    pub fn k_strides(&self) -> [u64; 3] {
        Self::strides(self.k, [self.page, self.key_heads, self.head_dim])
    }

    /// Returns the strides of V.
    #[inline]
    pub fn v_strides(&self) -> [u64; 3] {
        Self::strides(self.v, [self.page, self.key_heads, self.head_dim])
    }

    /// Returns the strides of O.
    #[inline]
    pub fn o_strides(&self) -> [u64; 3] {
        Self::strides(self.o, [self.queries, self.heads, self.head_dim])
    }

    /// Returns the elements of Q, K, V and O, from the first to the last one.
    #[inline]
    pub(crate) fn lens(&self) -> [u64; 4] {
        let DecodeProblem { batch, heads, key_heads, queries, head_dim, pages, page, .. } = *self;
        let (rows, cache) = ([queries, heads, batch], [page, key_heads, pages]);
        [
            span(rows, self.q_strides(), head_dim),
            span(cache, self.k_strides(), head_dim),
            span(cache, self.v_strides(), head_dim),
            span(rows, self.o_strides(), head_dim),
        ]
    }

    /// Returns true if there is no query.
    pub fn is_empty(&self) -> bool {
        self.batch == 0 || self.heads == 0
    }

    /// Returns the number of rows of the output.
    pub(crate) fn rows(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.heads) * u64::from(self.queries)
    }

    /// Returns the heads of queries that share a head of keys.
    pub(crate) fn group(&self) -> u32 {
        self.heads.checked_div(self.key_heads).unwrap_or(0)
    }

    /// Returns the tiles of 16 rows, (query, head), of a head of keys.
    pub(super) fn row_tiles(&self) -> u32 {
        (self.group().saturating_mul(self.queries)).div_ceil(ROWS)
    }

    /// Returns the tiles of rows of all sequences: the thread blocks of a split.
    #[inline]
    pub(super) fn tiles(&self) -> u64 {
        u64::from(self.batch) * u64::from(self.key_heads) * u64::from(self.row_tiles())
    }

    /// Returns the bytes of keys and values that sequences of these lengths have.
    pub fn bytes(&self, lens: impl IntoIterator<Item = u32>) -> u64 {
        let tokens: u64 = lens.into_iter().map(u64::from).sum();
        tokens * 2 * u64::from(self.key_heads) * u64::from(self.head_dim) * 2
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// [`DecodeError::Heads`], [`DecodeError::Queries`], [`DecodeError::Page`], [`DecodeError::Capacity`],
    /// [`DecodeError::Scale`], [`DecodeError::Stride`], [`DecodeError::TooLarge`].
    #[inline]
    pub fn check(&self) -> Result<(), DecodeError> {
        let DecodeProblem { heads, key_heads, queries, page, max_pages, max_len, .. } = *self;
        if heads != 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
            return Err(DecodeError::Heads { heads, key_heads });
        }
        if !(1..=8).contains(&queries) {
            return Err(DecodeError::Queries { found: queries });
        }
        if !page.is_power_of_two() || !(16..=1 << 20).contains(&page) {
            return Err(DecodeError::Page { found: page });
        }
        let capacity = u64::from(page) * u64::from(max_pages);
        if u64::from(max_len) > capacity {
            return Err(DecodeError::Capacity { max_len, capacity });
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
            ("the number of keys", max_len.into(), 1 << 30),
            ("the number of pages", self.pages.into(), int),
            ("the number of entries of the table", entries, int),
            ("the number of rows", self.rows(), int),
            ("the number of tiles of rows", self.tiles(), int),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(DecodeError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}
