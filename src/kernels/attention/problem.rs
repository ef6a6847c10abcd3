//! [`AttentionProblem`]: the sizes, mask and strides of one attention call. You pass it at launch,
//! so one kernel serves many lengths.

use super::error::AttentionError;

/// An attention's sizes, its mask, and the strides of its tensors.
///
/// Each tensor has the modes (sequence, dimension, head, batch), with a contiguous dimension. The
/// last query is aligned with the last key: query `i` sees key `j` if
/// `i + keys - queries - left <= j <= i + keys - queries + right`.
///
/// ```
/// use tilewright::kernels::attention::AttentionProblem;
///
/// // Two sequences with 1000 queries and keys. 32 query heads of dimension 128 share 8 key heads.
/// let problem = AttentionProblem::new([2, 32, 8], [1000, 1000], 128).causal();
/// assert_eq!(problem.flops(), 4.0 * 2.0 * 32.0 * (1000.0 * 1001.0 / 2.0) * 128.0);
/// assert_eq!(problem.q_strides(), [128, 1000 * 128, 32 * 1000 * 128]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionProblem {
    /// Sequences in the batch.
    pub batch: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads. They must divide the query heads; adjacent query heads share one (GQA).
    pub key_heads: u32,
    /// Queries per sequence.
    pub queries: u32,
    /// Keys per sequence.
    pub keys: u32,
    /// The dimension of queries and keys.
    pub head_dim: u32,
    /// The dimension of values and outputs.
    pub value_dim: u32,
    /// The factor for the scores. `None` is `1 / sqrt(head_dim)`.
    pub scale: Option<f32>,
    /// The bound `c` on the scores: they become `c tanh(score / c)`.
    pub softcap: Option<f32>,
    /// Sequences have different lengths and follow each other in one tensor. `queries` and `keys`
    /// are then totals over all sequences, and the strides of sequences are ignored. A launch needs
    /// [`starts`](super::AttentionArgs::starts).
    pub varlen: bool,
    /// How many keys before its own position a query sees; `None` is all.
    pub left: Option<u32>,
    /// How many keys after its own position a query sees; `None` is all, 0 is causal.
    pub right: Option<u32>,
    /// The strides of Q, in elements: from one position, head and sequence to the next. `None` is
    /// compact, here and below.
    pub q: Option<[u64; 3]>,
    /// The strides of K.
    pub k: Option<[u64; 3]>,
    /// The strides of V.
    pub v: Option<[u64; 3]>,
    /// The strides of O.
    pub o: Option<[u64; 3]>,
}

impl AttentionProblem {
    /// The most queries or keys in a sequence.
    pub const MAX_LEN: u32 = 1 << 28;

    /// Full attention for `[batch, heads, key_heads]` and `[queries, keys]`, with one dimension for
    /// all tensors. They are compact in the order batch, head, sequence, dimension.
    pub const fn new(
        [batch, heads, key_heads]: [u32; 3],
        [queries, keys]: [u32; 2],
        head_dim: u32,
    ) -> AttentionProblem {
        AttentionProblem {
            batch,
            heads,
            key_heads,
            queries,
            keys,
            head_dim,
            value_dim: head_dim,
            scale: None,
            softcap: None,
            varlen: false,
            left: None,
            right: None,
            q: None,
            k: None,
            v: None,
            o: None,
        }
    }

    /// Adds a causal mask: a query sees no later key.
    pub const fn causal(self) -> AttentionProblem {
        AttentionProblem { right: Some(0), ..self }
    }

    /// Takes sequences of different lengths: `queries` and `keys` are then totals over all
    /// sequences. Compact tensors are in the order head, position, dimension.
    pub const fn varlen(self) -> AttentionProblem {
        AttentionProblem { varlen: true, ..self }
    }

    /// Returns how many sequences follow each other along a tensor's positions.
    pub(super) fn sequences(&self) -> u32 {
        if self.varlen { self.batch.max(1) } else { 1 }
    }

    /// Returns the batch extent of the tensors.
    pub(super) fn tensor_batch(&self) -> u32 {
        if self.varlen { 1 } else { self.batch }
    }

    /// Returns how many query heads should share a tile with `rows` rows: all heads of a key head,
    /// if one sequence does not fill the tile.
    #[inline]
    pub(super) fn packed_heads(&self, rows: u32) -> u32 {
        let group = self.heads.checked_div(self.key_heads).unwrap_or(1);
        let is_short = self.queries / self.sequences() < rows / 2;
        if is_short && group > 0 && super::config::ROWS.is_multiple_of(group) { group } else { 1 }
    }

    /// Returns how many rows the output has: one per query and head.
    pub fn rows(&self) -> u64 {
        u64::from(self.tensor_batch()) * u64::from(self.heads) * u64::from(self.queries)
    }

    /// Returns the factor for the scores: the field of the same name, or `1 / sqrt(head_dim)` if it
    /// is `None`. Use it in a reference computation.
    pub fn scale(&self) -> f32 {
        self.scale.unwrap_or_else(|| 1.0 / (self.head_dim as f32).sqrt())
    }

    #[inline]
    fn strides(given: Option<[u64; 3]>, [heads, len, dim]: [u32; 3]) -> [u64; 3] {
        let [heads, len, dim] = [heads, len, dim].map(u64::from);
        given.unwrap_or([dim, dim * len, dim * len * heads])
    }

    /// Returns the strides of Q in elements: from one position, head and sequence to the next.
    #[inline]
    pub fn q_strides(&self) -> [u64; 3] {
        Self::strides(self.q, [self.heads, self.queries, self.head_dim])
    }

    /// Returns the strides of K.
    #[inline]
    pub fn k_strides(&self) -> [u64; 3] {
        Self::strides(self.k, [self.key_heads, self.keys, self.head_dim])
    }

    /// Returns the strides of V.
    #[inline]
    pub fn v_strides(&self) -> [u64; 3] {
        Self::strides(self.v, [self.key_heads, self.keys, self.value_dim])
    }

    /// Returns the strides of O.
    #[inline]
    pub fn o_strides(&self) -> [u64; 3] {
        Self::strides(self.o, [self.heads, self.queries, self.value_dim])
    }

    /// Returns how many elements the buffers of Q, K, V and O need at least: from the first to the
    /// last one that the kernel reads or writes.
    #[inline]
    pub fn lens(&self) -> [u64; 4] {
        let AttentionProblem { heads, key_heads, queries, keys, head_dim, value_dim, .. } = *self;
        let batch = self.tensor_batch();
        [
            span([queries, heads, batch], self.q_strides(), head_dim),
            span([keys, key_heads, batch], self.k_strides(), head_dim),
            span([keys, key_heads, batch], self.v_strides(), value_dim),
            span([queries, heads, batch], self.o_strides(), value_dim),
        ]
    }

    /// Returns whether there are no queries, so that a launch does nothing.
    pub fn is_empty(&self) -> bool {
        self.batch == 0 || self.heads == 0 || self.queries == 0
    }

    /// Returns the keys that query `i` sees, for example for a reference computation.
    #[inline]
    pub fn visible(&self, i: u32) -> std::ops::Range<u32> {
        let own = i64::from(i) + i64::from(self.keys) - i64::from(self.queries);
        let keys = i64::from(self.keys);
        let low = self.left.map_or(0, |left| own - i64::from(left)).clamp(0, keys);
        let high = self.right.map_or(keys, |right| own + i64::from(right) + 1).clamp(low, keys);
        low as u32..high as u32
    }

    /// Returns the floating-point operations for all unmasked scores, for sequences of one length.
    /// Use it to compute the TFLOP/s of a launch.
    #[inline]
    pub fn flops(&self) -> f64 {
        let pairs: f64 = (0..self.queries).map(|i| self.visible(i).len() as f64).sum();
        let dims = f64::from(self.head_dim) + f64::from(self.value_dim);
        2.0 * f64::from(self.batch) * f64::from(self.heads) * pairs * dims
    }

    /// Checks the sizes. Every launch calls it; call it to reject a problem earlier.
    ///
    /// # Errors
    /// [`AttentionError::Heads`], [`AttentionError::TooLarge`], [`AttentionError::Scale`].
    #[inline]
    pub fn check(&self) -> Result<(), AttentionError> {
        let AttentionProblem { heads, key_heads, .. } = *self;
        if heads != 0 && (key_heads == 0 || !heads.is_multiple_of(key_heads)) {
            return Err(AttentionError::Heads { heads, key_heads });
        }
        for found in [Some(self.scale()), self.softcap].into_iter().flatten() {
            if !(found.is_finite() && found > 0.0) {
                return Err(AttentionError::Scale { found });
            }
        }
        let rows = u64::from(self.batch) * u64::from(heads);
        let limits = [
            ("the query count", self.queries.into(), Self::MAX_LEN.into()),
            ("the key count", self.keys.into(), Self::MAX_LEN.into()),
            ("the window before a query", self.left.unwrap_or(0).into(), Self::MAX_LEN.into()),
            ("the window after a query", self.right.unwrap_or(0).into(), Self::MAX_LEN.into()),
            ("the head count of all sequences", rows, 1 << 24),
            ("the row count", self.rows(), (1 << 31) - 1),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(AttentionError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}

/// Returns the length of a tensor with rows of `dim` elements, from its first element to its last.
#[inline]
pub(in crate::kernels) fn span(sizes: [u32; 3], strides: [u64; 3], dim: u32) -> u64 {
    if sizes.contains(&0) {
        return 0;
    }
    sizes.into_iter().zip(strides).fold(dim.into(), |len, (size, stride)| {
        len.saturating_add(u64::from(size - 1).saturating_mul(stride))
    })
}
