//! [`SparseMma`]: MMAs with 2:4 structured sparsity in A. [`SparseMatrix`] holds A's kept elements
//! and its metadata. Use them to prepare a sparse operand on the host, and to see which thread
//! holds what.
//!
//! A row of A keeps 2 of each 4 elements, for `Tf32` one of each 2. A metadata word has one bit per
//! column for 16-bit and 8-bit elements and two for `Tf32`. PTX ISA 9.7.14.6, 9.7.15.6.

use std::fmt;

use super::error::AtomError;
use super::mma::{MmaAtom, MmaOp};
use super::mma_sync::{MmaSync, per_register, values};
use super::val_type::ValType;
use super::wgmma::{OperandSource, Wgmma};
use crate::ir::Element;
use crate::ir::op::metadata_threads;
use crate::ir::types::Scalar;
use crate::layout::{Layout, LayoutError, layout};

/// An MMA instruction with a sparse A and the layouts of its values: CuTe's `SM90_64x*_SPARSE_*`
/// atoms with their `ELayout`, and a warp's `mma.sp`.
///
/// ```
/// use tilewright::tensor::atom::{OperandSource, SparseMma, ValType, Wgmma};
/// let half = Wgmma::new(128, ValType::Bf16, ValType::Bf16, ValType::F32, OperandSource::Shared);
/// let mma = SparseMma::wgmma(half)?;
/// assert_eq!(mma.shape_mnk(), [64, 128, 32]);
/// assert_eq!(mma.instruction(), "wgmma.mma_async.sp.sync.aligned.m64n128k32.f32.bf16.bf16");
/// assert_eq!(mma.layout_e_tv().to_string(), "((2,2,8,4),(16,2)):((1024,0,1,16),(64,8))");
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SparseMma {
    /// The dense instruction that multiplies A's kept elements.
    half: MmaAtom,
    shape_mnk: [u32; 3],
    elem: Scalar,
    layout_b_tv: Layout,
    layout_e_tv: Layout,
}

impl SparseMma {
    /// Makes a warp's `mma.sp` with 16 rows, 8 columns and `k` columns of A, zeros included: 16 or
    /// 32 for 16-bit types, 8 or 16 for `Tf32`, 32 or 64 for 8-bit integers, 64 for 8-bit floats.
    ///
    /// # Errors
    /// [`AtomError::ValTypes`] or [`AtomError::Shape`] if the instruction does not exist.
    #[inline]
    pub fn sync(k: u32, a: ValType, b: ValType, c: ValType) -> Result<SparseMma, AtomError> {
        use ValType as T;
        let (instruction, shape_mnk) = ("mma.sp", [16, 8, k]);
        let legal: &'static [[u32; 3]] = match (a, b, c) {
            (T::F16, T::F16, T::F16 | T::F32) | (T::Bf16, T::Bf16, T::F32) => {
                &[[16, 8, 16], [16, 8, 32]]
            }
            (T::Tf32, T::Tf32, T::F32) => &[[16, 8, 8], [16, 8, 16]],
            (T::S8 | T::U8, T::S8 | T::U8, T::S32) => &[[16, 8, 32], [16, 8, 64]],
            (T::E4M3 | T::E5M2, T::E4M3 | T::E5M2, T::F32) => &[[16, 8, 64]],
            _ => return Err(AtomError::ValTypes { instruction, a, b, c }),
        };
        if !legal.contains(&shape_mnk) {
            return Err(AtomError::Shape { instruction, a, b, shape_mnk, legal });
        }
        let half = MmaAtom::new(MmaSync::new([16, 8, k / 2], a, b, c))?;
        let quad = per_register(b) * 8;
        let layout_b_tv =
            Layout::concat(&[layout!((4, 8):(quad, 1)), values(b, &[], 8, k.into())?])?;
        SparseMma::new(half, shape_mnk, layout_b_tv)
    }

    /// Makes the `wgmma.mma_async.sp` with twice the K of `half`, the dense instruction for the
    /// kept elements.
    ///
    /// # Errors
    /// Those of [`MmaAtom::new`].
    #[inline]
    pub fn wgmma(half: Wgmma) -> Result<SparseMma, AtomError> {
        let [m, n, k] = half.shape_mnk();
        let (rows, columns) = (i64::from(n), i64::from(2 * k));
        let layout_b_tv = layout!((128, (rows, columns)):(0, (1, rows)));
        SparseMma::new(MmaAtom::new(half)?, [m, n, 2 * k], layout_b_tv)
    }

    #[inline]
    fn new(
        half: MmaAtom,
        shape_mnk: [u32; 3],
        layout_b_tv: Layout,
    ) -> Result<SparseMma, AtomError> {
        let a = half.op().val_type_a();
        let elem = a.scalar().unwrap_or(Scalar::Bool);
        let layout_e_tv = metadata_layout(elem, shape_mnk)?;
        Ok(SparseMma { half, shape_mnk, elem, layout_b_tv, layout_e_tv })
    }

    /// Returns M, N and K. K counts A's columns with the zeros. Tile A by this K, and its kept
    /// elements by half of it.
    pub fn shape_mnk(&self) -> [u32; 3] {
        self.shape_mnk
    }

    /// Returns the dense instruction for the kept elements, which form a matrix with half as many
    /// columns. Partition the kept elements with it.
    pub fn half(&self) -> &MmaAtom {
        &self.half
    }

    /// Returns where A comes from. B comes from shared memory for `wgmma`, else from registers. It
    /// decides whether the kept elements are loaded to registers.
    pub fn source_a(&self) -> OperandSource {
        self.half.op().source_a()
    }

    /// Maps (thread, value) to an index in the M x K / 2 matrix of A's kept elements. Use it and
    /// its siblings to fill a thread's registers.
    pub fn layout_a_tv(&self) -> &Layout {
        self.half.layout_a_tv()
    }

    /// Maps (thread, value) to an index in the N x K matrix B.
    pub fn layout_b_tv(&self) -> &Layout {
        &self.layout_b_tv
    }

    /// Maps (thread, value) to an index in the M x N matrix C and D.
    pub fn layout_c_tv(&self) -> &Layout {
        self.half.layout_c_tv()
    }

    /// Maps (thread, value) to an index in the M x K matrix A, for the columns that the thread's
    /// metadata word describes: CuTe's `ELayout`. Of 32 values, value `v` has bit `v`; of 16 values
    /// (`Tf32`), bits `2 v` and `2 v + 1`. Several threads can map to the same word; the
    /// instruction's selector says which of them provides it. Use it to lay out metadata of your
    /// own; [`metadata`](SparseMma::metadata) does so for a [`SparseMatrix`].
    pub fn layout_e_tv(&self) -> &Layout {
        &self.layout_e_tv
    }

    /// How many threads of each group of four provide metadata: 1, 2 or 4.
    fn metadata_threads(&self) -> u32 {
        metadata_threads(self.elem, self.shape_mnk[2])
    }

    /// Returns how many values the instruction's selector can have: 4 if one thread of each group
    /// of four provides metadata, 2 if two threads do, else 1. The selector picks these threads.
    pub fn selectors(&self) -> u32 {
        4 / self.metadata_threads().clamp(1, 4)
    }

    /// Returns the PTX instruction with its qualifiers, for example to see what the atom compiles
    /// to.
    #[inline]
    pub fn instruction(&self) -> String {
        let [m, n, k] = self.shape_mnk;
        let half = format!("m{m}n{n}k{}", k / 2);
        let name = self.half.op().instruction().replace(&half, &format!("m{m}n{n}k{k}"));
        match self.half.op() {
            MmaOp::Wgmma(_) => name.replace("mma_async.", "mma_async.sp."),
            _ => name.replace("mma.sync", "mma.sp::ordered_metadata.sync"),
        }
    }

    /// Returns the threads' metadata words for the M x K tile of `matrix` that starts at `origin`,
    /// a row and a column. Threads outside the selector get 0. Upload the words next to the kept
    /// elements.
    ///
    /// # Errors
    /// [`AtomError::SparseColumns`] if the tile reaches outside the matrix or starts inside a
    /// chunk, or if the selector does not exist; [`AtomError::Layout`].
    pub fn metadata<T: Element>(
        &self,
        matrix: &SparseMatrix<T>,
        [row, column]: [usize; 2],
        selector: u32,
    ) -> Result<Vec<u32>, AtomError> {
        let [m, _, k] = self.shape_mnk.map(|extent| extent as usize);
        let wide = chunk(self.elem).0;
        let inside = row + m <= matrix.rows && column + k <= matrix.columns;
        if !inside || !column.is_multiple_of(wide) || selector >= self.selectors() {
            let columns = matrix.columns;
            return Err(AtomError::SparseColumns { columns, multiple: wide });
        }
        let threads = if m == 64 { 128 } else { 32 };
        let count = self.layout_e_tv.mode(&[1])?.size()?.to_static()?;
        let bits = 32 / count as u32;
        let first = selector * self.metadata_threads();
        let mut words = vec![0; threads];
        for (thread, word) in words.iter_mut().enumerate() {
            let Some(quad) = (thread as u32 % 4).checked_sub(first) else { continue };
            if quad >= self.metadata_threads() {
                continue;
            }
            let owner = i64::from(thread as u32 - first);
            for value in 0..count {
                let at = self.layout_e_tv.crd2idx((owner, value))?.to_static()? as usize;
                let (of_row, of_column) = (row + at % m, column + at / m);
                if of_column.is_multiple_of(wide) {
                    *word |= matrix.bits(of_row, of_column / wide) << (value as u32 * bits);
                }
            }
        }
        Ok(words)
    }
}

/// For example `SM90_SPARSE_64x128x32_F32BF16BF16_SS`, from the parts of CuTe's name. An `mma.sp`
/// prints as `SM80_SPARSE_16x8x32_F32F16F16F32_TN`.
impl fmt::Display for SparseMma {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.shape_mnk;
        let half = self.half.op().to_string();
        let (sm, rest) = half.split_once('_').unwrap_or(("", &half));
        // Some dense instructions with a small K are older than `mma.sp`.
        let sm = if sm == "SM75" { "SM80" } else { sm };
        let types = rest.split_once('_').map_or("", |(_, types)| types);
        write!(f, "{sm}_SPARSE_{m}x{n}x{k}_{types}")
    }
}

/// Returns the elements per chunk of A, and how many of them are kept.
fn chunk(elem: Scalar) -> (usize, usize) {
    if elem == Scalar::Tf32 { (2, 1) } else { (4, 2) }
}

/// Returns the layout of the columns of A that each metadata word describes.
#[inline]
fn metadata_layout(elem: Scalar, [m, _, k]: [u32; 3]) -> Result<Layout, LayoutError> {
    let (m, threads) = (i64::from(m), metadata_threads(elem, k));
    let (low, high, values) = if elem.bits() == 8 {
        // A word describes 32 columns of one row.
        (8, if threads == 4 { 32 * m } else { 0 }, layout!(32:m))
    } else {
        // A word describes 16 or 8 columns of two rows.
        let columns = if elem == Scalar::Tf32 { 8 } else { 16 };
        let low = if threads == 2 { columns * m } else { 0 };
        (low, 0, layout!((columns, 2):(m, 8)))
    };
    let lanes = if m == 64 {
        layout!((2, 2, 8, 4):(low, high, 1, 16))
    } else {
        layout!((2, 2, 8):(low, high, 1))
    };
    Layout::concat(&[lanes, values])
}

/// A sparse matrix's kept elements and their columns. At most 2 of each 4 elements of a row are
/// non-zero, for `tf32` at most one of each 2.
///
/// ```
/// use tilewright::tensor::atom::SparseMatrix;
/// // Two rows of 8 elements.
/// let dense = [0i8, 5, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3];
/// let sparse = SparseMatrix::compress(&dense, 8)?;
/// assert_eq!(sparse.values(), [5, 7, 1, 0, 0, 0, 2, 3]);
/// // Columns 1 and 3; a chunk with fewer elements keeps zeros too.
/// assert_eq!([0, 1].map(|chunk| sparse.bits(0, chunk)), [0b1101, 0b0100]);
/// assert_eq!(sparse.to_dense(), dense);
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix<T> {
    rows: usize,
    columns: usize,
    values: Vec<T>,
    /// Each value's column within its chunk.
    kept: Vec<u8>,
}

impl<T: Element + Default + PartialEq> SparseMatrix<T> {
    /// Compresses a row-major matrix with `columns` columns. Call it on the host to prepare A; the
    /// matrix must already have the zeros.
    ///
    /// # Errors
    /// [`AtomError::SparseColumns`] if rows are not whole chunks; [`AtomError::SparseChunk`] if a
    /// chunk has too many non-zero elements.
    pub fn compress(dense: &[T], columns: usize) -> Result<SparseMatrix<T>, AtomError> {
        let (wide, max) = chunk(T::scalar());
        let whole = columns > 0 && columns.is_multiple_of(wide);
        if !whole || !dense.len().is_multiple_of(columns) {
            return Err(AtomError::SparseColumns { columns, multiple: wide });
        }
        let (zero, mut values, mut kept) = (T::default(), Vec::new(), Vec::new());
        for (number, chunk) in dense.chunks_exact(wide).enumerate() {
            let mut found: Vec<usize> = (0..wide).filter(|i| chunk[*i] != zero).collect();
            if found.len() > max {
                let (row, column) = (number * wide / columns, number * wide % columns);
                return Err(AtomError::SparseChunk { row, column, found: found.len(), max });
            }
            // Keep zeros if a chunk has too few other elements.
            for i in 0..wide {
                if found.len() < max && !found.contains(&i) {
                    found.push(i);
                }
            }
            found.sort_unstable();
            values.extend(found.iter().map(|i| chunk[*i]));
            kept.extend(found.iter().map(|i| *i as u8));
        }
        Ok(SparseMatrix { rows: dense.len() / columns, columns, values, kept })
    }

    /// Returns the matrix with its zeros, for example to check a result against a dense GEMM.
    pub fn to_dense(&self) -> Vec<T> {
        let (wide, max) = chunk(T::scalar());
        let mut dense = vec![T::default(); self.rows * self.columns];
        for (i, (value, at)) in self.values.iter().zip(&self.kept).enumerate() {
            dense[i / max * wide + usize::from(*at)] = *value;
        }
        dense
    }
}

impl<T: Element> SparseMatrix<T> {
    /// Returns the row count, which is the M of the GEMM.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the column count, zeros included, which is the K of the GEMM.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the kept elements, row-major, with half as many columns. Upload them as the
    /// instruction's A.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Returns the 4 metadata bits of chunk `number` of a row, as in
    /// [`sparse_metadata_at`](crate::arch::sparse_metadata_at); 0 outside the matrix. Use them to
    /// pack words in a layout of your own; [`SparseMma::metadata`] packs them for an instruction.
    pub fn bits(&self, row: usize, number: usize) -> u32 {
        let (wide, max) = chunk(T::scalar());
        let first = (row * (self.columns / wide) + number) * max;
        match self.kept.get(first..first + max) {
            Some([0]) => 0b0100,
            Some([_]) => 0b1110,
            Some([low, high]) => u32::from(*low) | u32::from(*high) << 2,
            _ => 0,
        }
    }
}
