//! [`Schedule`], [`Splits`], [`LoadMethod`], [`StoreMethod`] and their siblings: which warps do
//! what, how blocks share the steps along K, how tiles of A and B are fetched, and how tiles of D
//! are written. Each variant says when to pick it.

/// Which instructions multiply, and how the warps of a block share the work.
///
/// On `sm_90a`, take `Cooperative` or `Pingpong`: they are much faster than the others. Elsewhere,
/// take `Multistage`. Take `Simt` if `f32` elements have to be multiplied in full precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// Plain FMAs in `f32`: each thread has 4 x 4 to 16 x 8 accumulators, and `cp.async` prefetches
    /// tiles some steps ahead. Runs on every target.
    Simt,
    /// `mma.sync`: all warps multiply, and `cp.async` prefetches tiles some steps ahead. Runs on
    /// every target.
    Multistage,
    /// `wgmma`, cooperative: one producer warp group fetches tiles by TMA, and one to three
    /// consumer warp groups multiply the same tile together. The usual choice on `sm_90a`. Unlike
    /// `Pingpong`, it has tiles of up to 256 rows, operand swapping, split-K and stream-K, and the
    /// overlapped store.
    Cooperative,
    /// `wgmma`, ping-pong: like `Cooperative`, but each of two consumer warp groups works on its
    /// own tile, and one writes D while the other multiplies. Better if K is short, so that the
    /// epilogue counts. Tiles are at most 128 rows high. `sm_90a`.
    Pingpong,
}

impl Schedule {
    /// All schedules, for example to try each.
    pub const ALL: [Schedule; 4] =
        [Schedule::Simt, Schedule::Multistage, Schedule::Cooperative, Schedule::Pingpong];

    /// Returns the word for this schedule in configuration names: `simt`, `ms`, `coop` or `pp`.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Schedule::Simt => "simt",
            Schedule::Multistage => "ms",
            Schedule::Cooperative => "coop",
            Schedule::Pingpong => "pp",
        }
    }

    /// Returns whether TMA fetches the tiles. TMA needs pitches that are multiples of 16 bytes.
    #[inline]
    pub const fn uses_tma(self) -> bool {
        matches!(self, Schedule::Cooperative | Schedule::Pingpong)
    }
}

/// How the GEMMs of one launch relate to each other. Pick the first that fits: `Grouped` and
/// `Ragged` read sizes from device memory, which costs them the tuner's choice per problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BatchMode {
    /// One GEMM, or a batch of GEMMs with equal sizes and strides.
    Uniform,
    /// Grouped GEMM: the rows of A and D are divided into groups, and each group has its own matrix
    /// B, for example one per expert of a mixture of experts. See
    /// [`GemmProblem::grouped`](crate::kernels::gemm::GemmProblem::grouped).
    Grouped,
    /// Each GEMM of the batch has its own sizes and addresses. See
    /// [`RaggedProblem`](crate::kernels::gemm::RaggedProblem).
    Ragged,
}

/// How thread blocks divide the steps along K. Take the default, `SplitK(1)`, if D has enough tiles
/// to fill the SMs. If it has few and K is long, `SplitK(n)` (split-K) gives each tile to `n`
/// blocks. If the last wave of tiles would be mostly empty, `StreamK` (stream-K) balances the
/// blocks.
///
/// Every schedule but [`Schedule::Pingpong`](crate::kernels::gemm::Schedule) supports splits.
/// Blocks that share a tile sum their parts in the order of K, so results are reproducible bit for
/// bit.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Splits};
///
/// let config = GemmConfig { splits: Splits::StreamK, ..GemmConfig::sm90(Scalar::Bf16, [128, 256]) };
/// assert!(config.to_string().contains("_coop_streamk_"));
/// // 150 tiles are 1.14 waves of 132 SMs: thread blocks share the 64 steps of all of them.
/// let problem = GemmProblem::new(1920, 2560, 4096);
/// let [rows, columns, steps] = config.tiles(&problem);
/// assert_eq!((rows * columns, steps, config.grid(&problem, 132).blocks[0]), (150, 64, 132));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Splits {
    /// Split-K: divides each tile into this many parts. All have the same steps, except that the
    /// last may have fewer. 1 means no split.
    SplitK(u32),
    /// Stream-K ([Osama et al. 2023](https://arxiv.org/abs/2301.03598)). With `t` tiles of `s`
    /// steps and `b` thread blocks, the blocks share what does not fill a wave, `t % b` tiles, and
    /// if `t > b` a full wave more. (If `b` divides `t`, they share none.) Each block first
    /// computes a run of `ceil(shared s / b)` steps, for example the end of one tile and the start
    /// of the next. Then it computes whole tiles, as many as every other block.
    StreamK,
}

/// Where the sums of 8-bit floats are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccumulationMode {
    /// The tensor cores accumulate all steps along K, as cuBLASLt does with `FAST_ACCUM`. They add
    /// 8-bit float products with few bits.
    Fast,
    /// The tensor cores' accumulators are added to a second set of `f32` registers after each step
    /// along K. Results are more accurate; it is slower and needs twice the registers. For 8-bit
    /// floats and `wgmma` only.
    Promoted,
}

/// How a warp-specialised kernel gets tiles of A and B into shared memory.
///
/// `Tensor` is the fastest. If your operands are misaligned for it, `Repack` costs a copy per
/// launch, and `Threads` fetches more slowly but saves that copy, which pays for small problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LoadMethod {
    /// By TMA, straight from the operands. Their addresses, pitches and batch strides must be
    /// multiples of 16 bytes. The other schedules copy by threads anyway, and keep this value.
    Tensor,
    /// By TMA from a workspace, into which the launch first copies the operands that need it:
    /// because they are misaligned, or because they have to be transposed for tensor cores that
    /// read these elements contiguous along K only.
    Repack,
    /// By all threads of the producer warp groups, from any address and pitch.
    Threads,
}

/// How a tile of D gets from registers to global memory. Choose it by D's alignment and by how much
/// of the store the next tile can hide.
///
/// With TMA stores, rows of D must be multiples of 16 bytes. `Direct` accepts everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMethod {
    /// By the threads, to any address and pitch. Warp-specialised kernels stage the tile in shared
    /// memory and write aligned 16-byte vectors; the other schedules store from registers.
    Direct,
    /// Staged in shared memory and stored by TMA, 64 rows at a time, as wide as the tile.
    Rows,
    /// Staged in shared memory and stored by several TMA copies per 64 rows: 128 bytes wide if that
    /// divides the tile, else narrower. The first copies are in flight while later columns are
    /// still converted, and the staging buffers are smaller than with `Rows`.
    Chunks,
    /// Like `Chunks`, but the tile stays in registers and is stored during the main loop of the
    /// next tile.
    Overlapped,
}

impl BatchMode {
    /// All modes.
    pub const ALL: [BatchMode; 3] = [BatchMode::Uniform, BatchMode::Grouped, BatchMode::Ragged];

    /// Returns the word for this mode in configuration names, or `None` for the default.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            BatchMode::Uniform => None,
            BatchMode::Grouped => Some("grouped"),
            BatchMode::Ragged => Some("ragged"),
        }
    }

    /// Returns whether each GEMM's sizes and strides come from device memory, so that the strides
    /// of a [`GemmProblem`](crate::kernels::gemm::GemmProblem) mean nothing.
    pub(crate) const fn has_sizes_on_device(self) -> bool {
        match self {
            BatchMode::Uniform | BatchMode::Grouped => false,
            BatchMode::Ragged => true,
        }
    }

    /// Returns whether a block reads from device memory which tiles it computes. Then the producer
    /// has to wait for the previous launch, which may write them.
    pub(crate) const fn has_tiles_on_device(self) -> bool {
        match self {
            BatchMode::Uniform => false,
            BatchMode::Grouped | BatchMode::Ragged => true,
        }
    }
}

impl LoadMethod {
    /// Returns the word for this method in configuration names, or `None` for the default.
    #[inline]
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            LoadMethod::Tensor => None,
            LoadMethod::Repack => Some("repack"),
            LoadMethod::Threads => Some("threads"),
        }
    }
}

impl StoreMethod {
    /// All methods, for example to try each.
    pub const ALL: [StoreMethod; 4] =
        [StoreMethod::Direct, StoreMethod::Rows, StoreMethod::Chunks, StoreMethod::Overlapped];

    /// Returns the word for this method in configuration names: `direct`, `rows`, `chunks` or
    /// `overlapped`.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            StoreMethod::Direct => "direct",
            StoreMethod::Rows => "rows",
            StoreMethod::Chunks => "chunks",
            StoreMethod::Overlapped => "overlapped",
        }
    }
}

impl Splits {
    /// The fewest steps that are worth a thread block of their own.
    const MIN_RUN: u64 = 4;

    /// Returns whether thread blocks share tiles. If so, a launch needs a workspace.
    pub const fn is_split(self) -> bool {
        !matches!(self, Splits::SplitK(0 | 1))
    }

    /// Returns the parts per tile, or 1 with stream-K, where tiles have different numbers of parts.
    pub(crate) const fn even(self) -> u32 {
        match self {
            Splits::SplitK(0) | Splits::StreamK => 1,
            Splits::SplitK(parts) => parts,
        }
    }

    /// Returns how many persistent thread blocks, or clusters, share `tiles` tiles with `steps`
    /// steps each, on a device that runs `max` at once.
    #[inline]
    pub(crate) fn blocks(self, tiles: u64, steps: u64, max: u64) -> u64 {
        let max = max.max(1);
        match self {
            Splits::SplitK(parts) => tiles.saturating_mul(parts.max(1).into()).min(max),
            Splits::StreamK => (tiles.saturating_mul(steps) / Self::MIN_RUN).max(tiles).min(max),
        }
    }

    /// Returns how many of `tiles` tiles are shared by `blocks` thread blocks with stream-K.
    pub(crate) const fn shared(tiles: u64, blocks: u64) -> u64 {
        let rest = tiles % blocks;
        if rest > 0 && tiles > blocks { rest + blocks } else { rest }
    }
}
