//! [`GemmProblem`]: the sizes of a matrix product, and where its matrices lie.

use crate::arch::Major;
use crate::ir::types::Scalar;
use crate::tensor::GlobalLines;

use crate::kernels::gemm::config::GemmConfig;
use crate::kernels::gemm::config::error::GemmError;
use crate::kernels::gemm::config::forms::{LoadForm, Schedule, StoreForm};
use crate::kernels::gemm::split::parts::Splits;

/// Bytes that a tensor copy stores at a time: it writes the elements of a row's last unit that are outside of the tensor, too.
pub(crate) const STORE_BYTES: u64 = 16;

/// The strides of a matrix, in elements. `None` means compact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MatrixStrides {
    /// From a row to the next one, or from a column to the next one where columns are contiguous.
    pub leading: Option<u64>,
    /// From a matrix of a batch to the next one. 0 is one matrix for all.
    pub batch: Option<u64>,
}

/// The sizes of a matrix product, and where its matrices lie.
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
/// // A is contiguous along K: rows of 100 elements are 200 bytes, which tensor copies do not take.
/// let config = GemmConfig::sm90(Scalar::Bf16, [128, 128]);
/// assert_eq!(problem.strides(&config)?.a, [100, 300 * 100]);
/// assert_eq!(
///     config.check_problem(&problem).unwrap_err().to_string(),
///     "the pitch of A is 200 bytes, but the kernel takes multiples of 16"
/// );
/// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmProblem {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D. Where [pairs](GemmConfig::pairs) of columns become one, D has `n / 2`.
    pub n: u32,
    /// Columns of A and rows of B.
    pub k: u32,
    /// Matrices of the batch, or [groups](GemmProblem::grouped) of rows. Of a [ragged](GemmConfig::ragged) batch, the sizes are the
    /// largest ones, and the strides those of no matrix.
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

/// All distances of a problem in elements: of each matrix the pitch, and from a matrix of the batch to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmStrides {
    /// Of A.
    pub a: [u64; 2],
    /// Of B.
    pub b: [u64; 2],
    /// Of C.
    pub c: [u64; 2],
    /// Of D.
    pub d: [u64; 2],
}

impl GemmProblem {
    /// The largest size along any mode: coordinates of the last tile are numbers of `i32`.
    pub const MAX_SIZE: u32 = i32::MAX as u32 - 1023;

    /// One product of contiguous matrices.
    pub const fn new(m: u32, n: u32, k: u32) -> GemmProblem {
        const CLOSE: MatrixStrides = MatrixStrides { leading: None, batch: None };
        GemmProblem { m, n, k, batch: 1, a: CLOSE, b: CLOSE, c: CLOSE, d: CLOSE }
    }

    /// Multiplications and additions.
    #[inline]
    pub fn flops(&self) -> u64 {
        // Groups of rows share D, and each row is multiplied once.
        let matrices = if self.d.batch == Some(0) { 1 } else { self.batch };
        [self.n, self.k, matrices]
            .into_iter()
            .fold(2 * u64::from(self.m), |product, size| product.saturating_mul(size.into()))
    }

    /// All distances, for a kernel of this configuration.
    ///
    /// # Errors
    /// [`GemmError::Size`], [`GemmError::OddColumns`], [`GemmError::Pitch`], [`GemmError::TooLarge`]: a size of 0 or too
    /// large, columns that are no pairs, rows that overlap, a matrix of 2^40 elements or more.
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
    /// Checks that the kernel takes the problem: sizes, and pitches as the configuration has them.
    ///
    /// # Errors
    /// Those of [`GemmProblem::strides`]; [`GemmError::Alignment`], [`GemmError::GroupStrides`]; [`GemmError::Depth`],
    /// [`GemmError::Splits`], [`GemmError::Tiles`], [`GemmError::Steps`].
    #[inline]
    pub fn check_problem(&self, problem: &GemmProblem) -> Result<GemmStrides, GemmError> {
        let strides = problem.strides(self)?;
        self.check_groups(problem)?;
        let mut operands = vec![('A', strides.a, self.a), ('B', strides.b, self.b)];
        if self.load != LoadForm::Tensor || self.ragged {
            operands.clear();
        }
        if self.is_warp_specialised() && !self.ragged && self.store != StoreForm::Direct {
            operands.push(('D', strides.d, self.d));
        }
        for (operand, [pitch, next], scalar) in operands {
            let distances = [("the pitch of", pitch), ("the distance of matrices of", next)];
            let distances = if problem.batch > 1 { &distances[..] } else { &distances[..1] };
            for (what, distance) in distances {
                // Distances are below 2^40.
                let bytes = distance * u64::from(scalar.size_bytes());
                if !bytes.is_multiple_of(self.alignment.into()) {
                    let alignment = self.alignment;
                    return Err(GemmError::Alignment { what, operand, bytes, alignment });
                }
            }
        }
        if self.is_warp_specialised() && self.store != StoreForm::Direct && !self.ragged {
            let columns = u64::from(problem.n / self.accumulators_per_element());
            let bytes = columns * u64::from(self.d.size_bytes());
            if !bytes.is_multiple_of(STORE_BYTES) {
                let (what, operand, alignment) = ("a row of", 'D', STORE_BYTES as u32);
                return Err(GemmError::Alignment { what, operand, bytes, alignment });
            }
        }
        if self.schedule == Schedule::Multistage {
            // Copies are all or nothing at the end of a line too.
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
        if self.load == LoadForm::Threads {
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
        if self.store == StoreForm::Overlapped && tiles[2] < self.store_parts().into() {
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
        if self.splits == Splits::Stream && steps >= 1 << 30 {
            return Err(GemmError::Steps { steps });
        }
        Ok(strides)
    }
}
