//! [`ScaledGemmProblem`]: the sizes of a GEMM with block scales, and where its scales are. You pass
//! it at launch, so one kernel serves many layers.

use std::fmt;

use super::super::gemm::BatchMode;
use super::error::ScaledGemmError;

/// Elements along K, and rows of B, that share a scale.
pub(in crate::kernels) const BLOCK: u32 = 128;

/// Which elements of B share a scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BScaleBlock {
    /// 128 rows and 128 elements along K. Take it for weights: it costs the least.
    #[default]
    Square128,
    /// 128 elements along K of one row, as in A. Take it if B is quantised like activations, for
    /// example in a backward pass: more precise, but slower, because each column of D has its own
    /// scales.
    Row128,
}

impl BScaleBlock {
    /// Returns how many scales B has along N, for `n` rows of B.
    pub const fn rows(self, n: u32) -> u32 {
        match self {
            BScaleBlock::Square128 => n.div_ceil(BLOCK),
            BScaleBlock::Row128 => n,
        }
    }
}

/// Prints `128x128` or `1x128`.
impl fmt::Display for BScaleBlock {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BScaleBlock::Square128 => "128x128",
            BScaleBlock::Row128 => "1x128",
        })
    }
}

/// Where the scale of row `r` (of A, or of B with [`BScaleBlock::Row128`]) or block of 128 rows `r`
/// (of B) and block `b` of 128 elements along K is: at `r * row + b * block`.
///
/// ```
/// use tilewright::kernels::scaled_gemm::{ScaleStrides, ScaledGemmProblem};
///
/// let problem = ScaledGemmProblem::new(100, 256, 1024);
/// // By default a row's scales are next to each other.
/// assert_eq!(problem.a_scales, ScaleStrides { row: 8, block: 1 });
/// // The order that TMA needs: the scales of all rows are next to each other, padded to 16 bytes.
/// assert_eq!(ScaleStrides::column_major(100), ScaleStrides { row: 1, block: 100 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleStrides {
    /// Elements from one row's scale to that of the next row, or from that of 128 rows to that of
    /// the next 128.
    pub row: u32,
    /// Elements from one block's scale to that of the next block along K.
    pub block: u32,
}

impl ScaleStrides {
    /// Returns the strides of row-major scales with `pitch` elements per row: a row's scales are
    /// next to each other.
    pub const fn row_major(pitch: u32) -> ScaleStrides {
        ScaleStrides { row: pitch, block: 1 }
    }

    /// Returns the strides of column-major scales with `pitch` elements per block: the scales of
    /// adjacent rows are next to each other.
    pub const fn column_major(pitch: u32) -> ScaleStrides {
        ScaleStrides { row: 1, block: pitch }
    }

    /// Returns how many elements a buffer of `rows` by `blocks` scales needs.
    pub(in crate::kernels) fn len(&self, rows: u32, blocks: u32) -> u64 {
        if rows == 0 || blocks == 0 {
            return 0;
        }
        let last = |count: u32, stride: u32| u64::from(count - 1) * u64::from(stride);
        last(rows, self.row).saturating_add(last(blocks, self.block)).saturating_add(1)
    }
}

/// The distances between the matrices of a batch, in elements. `None` means that they follow each
/// other, 0 that the whole batch shares one. A, B and D need multiples of 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchStrides {
    /// From one A to the next.
    pub a: Option<u64>,
    /// From one A's scales to the next A's.
    pub a_scales: Option<u64>,
    /// From one B to the next.
    pub b: Option<u64>,
    /// From one B's scales to the next B's.
    pub b_scales: Option<u64>,
    /// From one D to the next: at least the elements of a D.
    pub d: Option<u64>,
}

/// How many GEMMs a launch computes, and where their matrices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaledBatch {
    /// GEMMs of equal sizes, or one.
    Uniform {
        /// How many.
        count: u32,
        /// Where they are.
        strides: BatchStrides,
    },
    /// Grouped GEMM: the rows of A and D are divided into groups, and each group has its own B and
    /// scales of B. They follow each other.
    Grouped {
        /// How many groups there are.
        groups: u32,
    },
}

impl ScaledBatch {
    /// Returns the kind of kernel that runs it.
    pub const fn mode(&self) -> BatchMode {
        match self {
            ScaledBatch::Uniform { .. } => BatchMode::Uniform,
            ScaledBatch::Grouped { .. } => BatchMode::Grouped,
        }
    }

    /// Returns how many matrices B there are, if each GEMM has its own.
    pub const fn count(&self) -> u32 {
        match self {
            ScaledBatch::Uniform { count, .. } => *count,
            ScaledBatch::Grouped { groups } => *groups,
        }
    }
}

/// The [`BatchStrides`] of a problem, with the defaults filled in.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    pub(super) a: u64,
    pub(super) a_scales: u64,
    pub(super) b: u64,
    pub(super) b_scales: u64,
    pub(super) d: u64,
}

/// The sizes of a GEMM with block scales, or of several, and the order of the scales.
///
/// ```
/// use tilewright::kernels::scaled_gemm::{BScaleBlock, ScaledGemmProblem};
///
/// let problem = ScaledGemmProblem::new(4096, 7168, 2048);
/// assert_eq!(problem.flops(), 2.0 * 4096.0 * 7168.0 * 2048.0);
/// assert_eq!((problem.k_blocks(), problem.b_scale_rows()), (16, 56));
/// assert_eq!(problem.scale_lens(), [4096 * 16, 56 * 16]);
/// let of_rows = ScaledGemmProblem { b_block: BScaleBlock::Row128, ..problem };
/// assert_eq!(of_rows.scale_lens(), [4096 * 16, 7168 * 16]);
/// assert_eq!(problem.batched(3).flops(), 3.0 * problem.flops());
/// // Groups share the rows of A and D.
/// assert_eq!(problem.grouped(3).flops(), problem.flops());
/// assert_eq!(problem.grouped(3).scale_lens(), [4096 * 16, 3 * 56 * 16]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledGemmProblem {
    /// Rows of A and D; of all groups together in a grouped GEMM.
    pub m: u32,
    /// Rows of B, columns of D.
    pub n: u32,
    /// Columns of A and B, a positive multiple of 16.
    pub k: u32,
    /// Which elements of B share a scale.
    pub b_block: BScaleBlock,
    /// The order of A's scales.
    pub a_scales: ScaleStrides,
    /// The order of B's scales.
    pub b_scales: ScaleStrides,
    /// How many GEMMs these are.
    pub batch: ScaledBatch,
}

impl ScaledGemmProblem {
    /// Makes the problem of one GEMM with row-major scales, and scales of B for 128 x 128 elements.
    /// Set `b_block`, `a_scales` and `b_scales` for others.
    pub const fn new(m: u32, n: u32, k: u32) -> ScaledGemmProblem {
        let scales = ScaleStrides::row_major(k.div_ceil(BLOCK));
        let (b_block, batch) = (
            BScaleBlock::Square128,
            ScaledBatch::Uniform {
                count: 1,
                strides: BatchStrides { a: None, a_scales: None, b: None, b_scales: None, d: None },
            },
        );
        ScaledGemmProblem { m, n, k, b_block, a_scales: scales, b_scales: scales, batch }
    }

    /// Returns the problem of `count` GEMMs of these sizes, whose matrices follow each other. Set
    /// the strides in [`batch`](ScaledGemmProblem::batch) for others.
    #[must_use]
    pub const fn batched(self, count: u32) -> ScaledGemmProblem {
        let strides = BatchStrides { a: None, a_scales: None, b: None, b_scales: None, d: None };
        ScaledGemmProblem { batch: ScaledBatch::Uniform { count, strides }, ..self }
    }

    /// Returns the problem of a grouped GEMM, for example the experts of a mixture of experts: A is
    /// (M, K), B is (groups, N, K), D is (M, N), and the rows of group `g` are multiplied by matrix
    /// `g` of B. The device knows which rows these are: a launch takes them as
    /// [`GroupRows`](crate::kernels::gemm::GroupRows). A group may have any number of rows, or
    /// none.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::{Target, bf16, f8e4m3};
    /// use tilewright::kernels::gemm::GroupRows;
    /// use tilewright::kernels::scaled_gemm::{
    ///     ScaledGemm, ScaledGemmArgs, ScaledGemmConfig, ScaledGemmProblem,
    /// };
    /// use tilewright::runtime::Device;
    ///
    /// // 90 tokens for 3 experts: 70, none and 20.
    /// let (tokens, n, k, experts) = (90, 16, 128, 3);
    /// let problem = ScaledGemmProblem::new(tokens, n, k).grouped(experts);
    /// let device = Device::sim_for(Target::SM_90A)?;
    /// let config = ScaledGemmConfig::new(device.target(), Scalar::Bf16, &problem)?;
    /// let gemm = ScaledGemm::<f8e4m3, f8e4m3, bf16>::new(config)?.load(&device)?;
    /// let a = device.upload(&[f8e4m3::from_f32(1.0); 90 * 128])?;
    /// let b = device.upload(&[f8e4m3::from_f32(0.5); 3 * 16 * 128])?;
    /// let (a_scales, b_scales) = (device.upload(&[1.0; 90])?, device.upload(&[1.0, 2.0, 3.0])?);
    /// let mut d = device.zeros::<bf16>(90 * 16)?;
    /// let starts = device.upload(&[0, 70, 70, 90])?;
    /// let args = ScaledGemmArgs {
    ///     a: &a,
    ///     a_scales: &a_scales,
    ///     b: &b,
    ///     b_scales: &b_scales,
    ///     d: &mut d,
    ///     groups: Some(GroupRows::Starts(&starts)),
    /// };
    /// gemm.launch(&problem, args)?;
    /// let d = d.to_vec()?;
    /// assert!(d[..70 * 16].iter().all(|d| d.to_f32() == 64.0));
    /// assert!(d[70 * 16..].iter().all(|d| d.to_f32() == 192.0));
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn grouped(self, groups: u32) -> ScaledGemmProblem {
        ScaledGemmProblem { batch: ScaledBatch::Grouped { groups }, ..self }
    }

    /// Returns whether D is empty.
    pub const fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch.count() == 0
    }

    /// Returns the lengths of one A's and one B's scales.
    #[inline]
    fn scale_lens_of_one(&self) -> [u64; 2] {
        let blocks = self.k_blocks();
        [self.a_scales.len(self.m, blocks), self.b_scales.len(self.b_scale_rows(), blocks)]
    }

    /// Returns the distances between the matrices.
    #[inline]
    pub(super) fn strides(&self) -> Strides {
        let [m, n, k] = [self.m, self.n, self.k].map(u64::from);
        let [a_scales, b_scales] = self.scale_lens_of_one();
        match self.batch {
            ScaledBatch::Uniform { strides, .. } => Strides {
                a: strides.a.unwrap_or(m * k),
                a_scales: strides.a_scales.unwrap_or(a_scales),
                b: strides.b.unwrap_or(n * k),
                b_scales: strides.b_scales.unwrap_or(b_scales),
                d: strides.d.unwrap_or(m * n),
            },
            ScaledBatch::Grouped { .. } => Strides { a: 0, a_scales: 0, b: n * k, b_scales, d: 0 },
        }
    }

    /// Returns the elements from the first to the last one of all matrices, which have `one`
    /// elements each and are `stride` apart.
    #[inline]
    pub(super) fn len(&self, one: u64, stride: u64) -> u64 {
        match self.batch.count() {
            0 => 0,
            _ if one == 0 => 0,
            count => u64::from(count - 1).saturating_mul(stride).saturating_add(one),
        }
    }

    /// Returns how many blocks K has.
    pub const fn k_blocks(&self) -> u32 {
        self.k.div_ceil(BLOCK)
    }

    /// Returns how many scales B has along N.
    pub const fn b_scale_rows(&self) -> u32 {
        self.b_block.rows(self.n)
    }

    /// Returns the lengths of the scales of A and of B in elements, for example to allocate them.
    #[inline]
    pub fn scale_lens(&self) -> [u64; 2] {
        let ([a, b], strides) = (self.scale_lens_of_one(), self.strides());
        [self.len(a, strides.a_scales), self.len(b, strides.b_scales)]
    }

    /// Returns the floating-point operations, without those for the scales. Use it to compute the
    /// TFLOP/s of a launch. The rows of all groups count, whether or not a group has them.
    #[inline]
    pub fn flops(&self) -> f64 {
        let gemms = match self.batch {
            ScaledBatch::Uniform { count, .. } => count,
            ScaledBatch::Grouped { .. } => 1,
        };
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k) * f64::from(gemms)
    }

    /// Checks that TMA can read A and B, and write a D whose elements have `bits` bits. Every
    /// launch calls it; call it to reject a problem earlier.
    ///
    /// # Errors
    /// [`ScaledGemmError::Pitch`] if rows are not multiples of 16 bytes, or K is 0;
    /// [`ScaledGemmError::BatchStride`] if matrices are not multiples of 16 bytes apart, or those
    /// of D overlap; [`ScaledGemmError::TooLarge`] if M, N, K or the batch is above
    /// 2^31 - 512, or a scale's index above 2^31 - 1.
    #[inline]
    pub fn check(&self, bits: u32) -> Result<(), ScaledGemmError> {
        let rows = [("A and B", u64::from(self.k)), ("D", u64::from(self.n) * u64::from(bits / 8))];
        for (operand, bytes) in rows {
            if bytes % 16 != 0 || self.k == 0 {
                return Err(ScaledGemmError::Pitch { operand, bytes });
            }
        }
        let Strides { a, b, d, .. } = self.strides();
        if let ScaledBatch::Uniform { count: 2.., .. } = self.batch {
            let of_d = u64::from(self.m) * u64::from(self.n);
            for (operand, stride, size, least) in
                [("A", a, 1, 0), ("B", b, 1, 0), ("D", d, u64::from(bits / 8), of_d)]
            {
                let bytes = stride.saturating_mul(size);
                if bytes % 16 != 0 || stride < least {
                    let least = least.saturating_mul(size);
                    return Err(ScaledGemmError::BatchStride { operand, bytes, least });
                }
            }
        }
        let [a_scales, b_scales] = self.scale_lens();
        let limits = [
            ("M", self.m.into(), (1 << 31) - 512),
            ("N", self.n.into(), (1 << 31) - 512),
            ("K", self.k.into(), (1 << 31) - 512),
            ("the batch", self.batch.count().into(), (1 << 31) - 512),
            ("the length of A's scales", a_scales, (1 << 31) - 1),
            ("the length of B's scales", b_scales, (1 << 31) - 1),
        ];
        for (what, found, max) in limits {
            if found > max {
                return Err(ScaledGemmError::TooLarge { what, found, max });
            }
        }
        Ok(())
    }
}
