//! [`ScaledGemmProblem`]: the sizes of a GEMM with block scales, and where its scales are. You pass
//! it at launch, so one kernel serves many layers.

use std::fmt;

use super::error::ScaledGemmError;

/// Elements along K, and rows of B, that share a scale.
pub(super) const BLOCK: u32 = 128;

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

/// The sizes of one GEMM with block scales, and the order of the scales.
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
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaledGemmProblem {
    /// Rows of A and D.
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
}

impl ScaledGemmProblem {
    /// Makes the problem with row-major scales, and scales of B for 128 x 128 elements. Set
    /// `b_block`, `a_scales` and `b_scales` for others.
    pub const fn new(m: u32, n: u32, k: u32) -> ScaledGemmProblem {
        let scales = ScaleStrides::row_major(k.div_ceil(BLOCK));
        let b_block = BScaleBlock::Square128;
        ScaledGemmProblem { m, n, k, b_block, a_scales: scales, b_scales: scales }
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
        let blocks = self.k_blocks();
        [self.a_scales.len(self.m, blocks), self.b_scales.len(self.b_scale_rows(), blocks)]
    }

    /// Returns the floating-point operations, without those for the scales. Use it to compute the
    /// TFLOP/s of a launch.
    #[inline]
    pub fn flops(&self) -> f64 {
        2.0 * f64::from(self.m) * f64::from(self.n) * f64::from(self.k)
    }

    /// Checks that TMA can read A and B, and write a D whose elements have `bits` bits. Every
    /// launch calls it; call it to reject a problem earlier.
    ///
    /// # Errors
    /// [`ScaledGemmError::Pitch`] if rows are not multiples of 16 bytes, or K is 0;
    /// [`ScaledGemmError::TooLarge`] if M or N is above 2^31 - 512, or a scale's index above
    /// 2^31 - 1.
    #[inline]
    pub fn check(&self, bits: u32) -> Result<(), ScaledGemmError> {
        let rows = [("A and B", u64::from(self.k)), ("D", u64::from(self.n) * u64::from(bits / 8))];
        for (operand, bytes) in rows {
            if bytes % 16 != 0 || self.k == 0 {
                return Err(ScaledGemmError::Pitch { operand, bytes });
            }
        }
        let [a_scales, b_scales] = self.scale_lens();
        let limits = [
            ("M", self.m.into(), (1 << 31) - 512),
            ("N", self.n.into(), (1 << 31) - 512),
            ("K", self.k.into(), (1 << 31) - 512),
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
