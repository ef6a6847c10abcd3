//! [`GemmProblem`]: a GEMM's sizes and strides, which you pass at launch, and the checks of a
//! problem against the kernel's configuration.

use crate::arch::Major;
use crate::ir::types::Scalar;
use crate::tensor::copy::GlobalLines;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::methods::{LoadMethod, Schedule, Splits, StoreMethod};

/// A TMA store writes units of this many bytes: in a row's last unit, it also writes elements
/// beyond the tensor.
pub(crate) const STORE_BYTES: u64 = 16;

/// The strides of one matrix of a [`GemmProblem`], in elements. `None` means compact; set them for
/// padded rows or a submatrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatrixStrides {
    /// The leading dimension: from one row to the next, or from one column to the next if columns
    /// are contiguous.
    pub leading: Option<u64>,
    /// The batch stride: from one matrix to the next. 0 means that the whole batch shares one
    /// matrix.
    pub batch: Option<u64>,
}

/// The sizes and strides of a GEMM.
///
/// `D[l, m, n] = sum over k of A[l, m, k] B[l, k, n]` for every matrix `l` of a batch.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem, MatrixStrides};
///
/// let shared_b = MatrixStrides { batch: Some(0), ..Default::default() };
/// let problem = GemmProblem { batch: 4, b: shared_b, ..GemmProblem::new(300, 200, 100) };
/// assert_eq!(problem.flops(), 2 * 4 * 300 * 200 * 100);
/// // A is contiguous along K: rows of 100 elements are 200 bytes, which TMA does not accept.
/// let config = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
/// assert_eq!(problem.strides(&config)?.a, [100, 300 * 100]);
/// assert_eq!(
///     config.check_problem(&problem).unwrap_err().to_string(),
///     "the pitch of A is 200 bytes, but must be a multiple of 16"
/// );
/// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmProblem {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D. With [`pairs`](GemmConfig::pairs), D has `n / 2` columns.
    pub n: u32,
    /// Columns of A and rows of B.
    pub k: u32,
    /// The batch size, or the number of groups of a [grouped](GemmProblem::grouped) GEMM. For a
    /// [ragged](crate::kernels::gemm::BatchMode::Ragged) batch, the sizes above are the largest
    /// ones and the strides are ignored.
    pub batch: u32,
    /// The strides of A.
    pub a: MatrixStrides,
    /// The strides of B.
    pub b: MatrixStrides,
    /// The strides of C, which is row-major.
    pub c: MatrixStrides,
    /// The strides of D, which is row-major.
    pub d: MatrixStrides,
}

/// All strides of a [`GemmProblem`], in elements and with the defaults filled in:
/// `[leading dimension, batch stride]` of each matrix. Made by [`GemmProblem::strides`]; use it to
/// size buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmStrides {
    /// `[leading dimension, batch stride]` of A.
    pub a: [u64; 2],
    /// `[leading dimension, batch stride]` of B.
    pub b: [u64; 2],
    /// `[leading dimension, batch stride]` of C.
    pub c: [u64; 2],
    /// `[leading dimension, batch stride]` of D.
    pub d: [u64; 2],
}

impl GemmProblem {
    /// The largest size along any mode. Coordinates inside the last tile must still fit an `i32`,
    /// so a launch refuses larger sizes.
    pub const MAX_SIZE: u32 = i32::MAX as u32 - 1023;

    /// One GEMM with compact matrices. Set [`batch`](GemmProblem::batch) and the strides for
    /// anything else.
    pub const fn new(m: u32, n: u32, k: u32) -> GemmProblem {
        const CLOSE: MatrixStrides = MatrixStrides { leading: None, batch: None };
        GemmProblem { m, n, k, batch: 1, a: CLOSE, b: CLOSE, c: CLOSE, d: CLOSE }
    }

    /// Returns the floating-point operations: two per multiply-add. Divide them by a time to get
    /// FLOP/s.
    #[inline]
    pub fn flops(&self) -> u64 {
        // Groups share the rows of D, and each row is multiplied once.
        let matrices = if self.d.batch == Some(0) { 1 } else { self.batch };
        [self.n, self.k, matrices]
            .into_iter()
            .fold(2 * u64::from(self.m), |product, size| product.saturating_mul(size.into()))
    }

    /// Returns all strides, for a kernel with this configuration. Use it to size or index buffers
    /// as the kernel does.
    ///
    /// # Errors
    /// [`GemmError::Size`] if a size is 0 or too large, [`GemmError::OddColumns`] if `pairs` needs
    /// an even N, [`GemmError::Pitch`] if rows overlap, [`GemmError::TooLarge`] if a matrix has
    /// 2^40 elements or more.
    #[inline]
    pub fn strides(&self, config: &GemmConfig) -> Result<GemmStrides, GemmError> {
        let sizes = [("m", self.m), ("n", self.n), ("k", self.k), ("batch", self.batch)];
        for (name, size) in sizes {
            if size == 0 || size > Self::MAX_SIZE {
                return Err(GemmError::Size { name, size });
            }
        }
        if !self.n.is_multiple_of(config.accumulators_per_element()) {
            return Err(GemmError::OddColumns { n: self.n });
        }
        let [m, n, k] = [self.m, self.n, self.k].map(u64::from);
        let of = |operand, strides: MatrixStrides, contiguous: u64, lines: u64| {
            let pitch = strides.leading.unwrap_or(contiguous);
            if pitch < contiguous {
                return Err(GemmError::Pitch { operand, pitch, min: contiguous });
            }
            let matrix = pitch.checked_mul(lines).filter(|len| *len < 1 << 40);
            let matrix = matrix.ok_or(GemmError::TooLarge { operand, lines, pitch })?;
            let next = strides.batch.unwrap_or(matrix);
            let all = next.checked_mul(self.batch.into()).filter(|len| *len < 1 << 40);
            all.map(|_| [pitch, next]).ok_or(GemmError::TooLarge {
                operand,
                lines: lines.saturating_mul(self.batch.into()),
                pitch,
            })
        };
        let [a, b] = [config.major_a, config.major_b].map(|major| major == Major::K);
        Ok(GemmStrides {
            a: if a { of('A', self.a, k, m)? } else { of('A', self.a, m, k)? },
            b: if b { of('B', self.b, k, n)? } else { of('B', self.b, n, k)? },
            c: of('C', self.c, n, m)?,
            d: of('D', self.d, n / u64::from(config.accumulators_per_element()), m)?,
        })
    }
}

impl GemmConfig {
    /// Checks that the kernel can run the problem: its sizes, and its strides against the alignment
    /// the configuration relies on. Returns the strides. A launch does so itself; call it earlier
    /// if you want to fail before you allocate.
    ///
    /// # Errors
    /// Those of [`GemmProblem::strides`]. [`GemmError::Alignment`] and [`GemmError::GroupStrides`]
    /// if a stride does not fit the configuration, [`GemmError::Short`] and [`GemmError::Far`] for
    /// operands that threads cannot fetch. [`GemmError::Depth`], [`GemmError::Splits`],
    /// [`GemmError::Tiles`] and [`GemmError::Steps`] if K is too short or there are too many tiles.
    #[inline]
    pub fn check_problem(&self, problem: &GemmProblem) -> Result<GemmStrides, GemmError> {
        let strides = problem.strides(self)?;
        self.check_groups(problem)?;
        let mut operands = vec![('A', strides.a, self.a), ('B', strides.b, self.b)];
        if self.load != LoadMethod::Tensor || self.batch.has_sizes_on_device() {
            operands.clear();
        }
        if self.is_warp_specialised()
            && !self.batch.has_sizes_on_device()
            && self.store != StoreMethod::Direct
        {
            operands.push(('D', strides.d, self.d));
        }
        for (operand, [pitch, next], scalar) in operands {
            let distances = [("the pitch of", pitch), ("the batch stride of", next)];
            let distances = if problem.batch > 1 { &distances[..] } else { &distances[..1] };
            for (what, distance) in distances {
                // Cannot overflow: strides are below 2^40.
                let bytes = distance * u64::from(scalar.size_bytes());
                if !bytes.is_multiple_of(self.alignment.into()) {
                    let alignment = self.alignment;
                    return Err(GemmError::Alignment { what, operand, bytes, alignment });
                }
            }
        }
        if self.is_warp_specialised()
            && self.store != StoreMethod::Direct
            && !self.batch.has_sizes_on_device()
        {
            let columns = u64::from(problem.n / self.accumulators_per_element());
            let bytes = columns * u64::from(self.d.size_bytes());
            if !bytes.is_multiple_of(STORE_BYTES) {
                let (what, operand, alignment) = ("a row of", 'D', STORE_BYTES as u32);
                return Err(GemmError::Alignment { what, operand, bytes, alignment });
            }
        }
        if self.schedule == Schedule::Multistage {
            // At the end of a line, a copy is made completely or not at all, so the extents must be
            // aligned too.
            let along = |major, extent| if major == Major::K { problem.k } else { extent };
            let lines =
                [('A', along(self.major_a, problem.m)), ('B', along(self.major_b, problem.n))];
            for (operand, extent) in lines {
                let bytes = u64::from(extent) * u64::from(self.a.size_bytes());
                if !bytes.is_multiple_of(self.alignment.into()) {
                    let (what, alignment) = ("a line of", self.alignment);
                    return Err(GemmError::Alignment { what, operand, bytes, alignment });
                }
            }
        }
        if self.load == LoadMethod::Threads {
            let of = |operand, major, extent, [pitch, next]: [u64; 2], scalar: Scalar| {
                let (extent, k, batch) = (u64::from(extent), u64::from(problem.k), problem.batch);
                let [lines, columns] = if major == Major::K { [extent, k] } else { [k, extent] };
                let all = u64::from(batch - 1) * next + (lines - 1) * pitch + columns;
                let bytes = all * u64::from(scalar.size_bytes());
                let (min, max) = (GlobalLines::<()>::MIN, GlobalLines::<()>::MAX_PITCH);
                if bytes < min.into() {
                    Err(GemmError::Short { operand, bytes, min })
                } else if pitch > max {
                    Err(GemmError::Far { operand, pitch, max })
                } else {
                    Ok(())
                }
            };
            of('A', self.major_a, problem.m, strides.a, self.a)?;
            of('B', self.major_b, problem.n, strides.b, self.b)?;
        }
        let tiles = self.tiles(problem).map(u64::from);
        if self.store == StoreMethod::Overlapped && tiles[2] < self.store_parts().into() {
            let min = self.tile[2].saturating_mul(self.store_parts() - 1).saturating_add(1);
            return Err(GemmError::Depth { k: problem.k, min });
        }
        let splits = u64::from(self.splits.even());
        if splits > 1 && (splits - 1) * tiles[2].div_ceil(splits) >= tiles[2] {
            return Err(GemmError::Splits { k: problem.k, splits: self.splits.even() });
        }
        let [m, n] = self.cluster.map(u64::from);
        let blocks = (tiles[0] + m)
            .saturating_mul(splits)
            .saturating_mul(tiles[1] + n)
            .saturating_mul(self.matrices(problem).into());
        if blocks > i32::MAX as u64 {
            return Err(GemmError::Tiles { tiles: blocks });
        }
        let steps = blocks.saturating_mul(tiles[2]);
        if self.splits == Splits::StreamK && steps >= 1 << 30 {
            return Err(GemmError::Steps { steps });
        }
        Ok(strides)
    }
}
