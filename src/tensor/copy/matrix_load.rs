//! [`MatrixLoad`]: loads `mma.sync` operands from shared memory to registers, with `ldmatrix` if
//! possible. Use it in the K loop between the pipeline's wait and
//! [`gemm_sync`](crate::tensor::atom::TiledMma::gemm_sync).

use std::marker::PhantomData;

use crate::ir::builder::Converted;
use crate::ir::op::MatrixOrder;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element, Shared, Val, Vector};
use crate::layout::{Layout, LayoutError};

use crate::arch::Major;
use crate::tensor::atom::tiled_copy::{Side, TiledCopy};
use crate::tensor::atom::tiled_mma::{Operand, TiledMma};
use crate::tensor::atom::{CopyAtom, CopyOp, Matrices, MmaOp, MmaSync, ValType};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::{RegisterTensor, SharedTensor};

/// Loads operand A or B of a [`TiledMma`] from shared memory into registers, with `ldmatrix.x4`:
/// CuTe's `make_tiled_copy_A` with `retile_D`.
///
/// Use it for `mma.sync` main loops; `wgmma` reads shared memory itself. If several stages of a
/// ring buffer are read, [`ring`](MatrixLoad::ring) computes the addresses only once.
///
/// A thread must hold a multiple of four words in a tile of the `TiledMma`. An instruction with 8
/// columns has two words of B, so make the tile twice as wide as the atoms. A tile that is
/// contiguous along M or N is transposed on the way. `ldmatrix` does that for 16-bit elements;
/// `tf32` is loaded element by element, and 8-bit elements must be contiguous along K. `f64` is
/// loaded element by element into `f64` registers instead of words.
///
/// ```
/// use tilewright::ir::{Kernel, Target, bf16};
/// use tilewright::layout::{layout, shape, tiler};
/// use tilewright::arch::Major;
/// use tilewright::tensor::atom::{MmaAtom, Operand, SmemAtom, SmemSwizzle, TiledMma};
/// use tilewright::tensor::copy::MatrixLoad;
/// use tilewright::tensor::view::SharedTensor;
///
/// let atom: MmaAtom = "SM80_16x8x16_F32BF16BF16F32_TN".parse()?;
/// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, 32, _))?;
/// let load_a = MatrixLoad::new(&mma, Operand::A, Major::K, 64)?;
/// let load_b = MatrixLoad::new(&mma, Operand::B, Major::K, 64)?;
/// let rows = SmemAtom::new(Major::K, SmemSwizzle::Sw128).position_independent(16)?;
/// let tile = rows.tile_to_shape(&shape!(64, 64), None)?;
/// let kernel = Kernel::<()>::build("k", Target::SM_80, |k, ()| {
///     let x = SharedTensor::<bf16>::shared_aligned(k, tile.clone(), 128);
///     let thread = k.thread_idx().x;
///     let thr = mma.slice(thread);
///     let (from_a, from_b) = (load_a.partition(thread, &x), load_b.partition(thread, &x));
///     let a = thr.fragment_words(k, Operand::A, shape!(64, 16));
///     let b = thr.fragment_words(k, Operand::B, shape!(64, 16));
///     let accumulators = thr.fragment_c::<f32>(k, shape!(64, 64));
///     accumulators.fill(0.0);
///     for step in 0..4 {
///         load_a.load(&from_a.slice((.., .., step)), &a);
///         load_b.load(&from_b.slice((.., .., step)), &b);
///         mma.gemm_sync(&accumulators, &a, &b);
///     }
/// })?;
/// let ptx = kernel.ptx();
/// // Of 64 rows, two warps along M have 32 each, two instructions; of 64 columns 32, four instructions.
/// assert_eq!(ptx.text().matches("ldmatrix.sync.aligned.m8n8.x4.shared").count(), 4 * (2 + 2));
/// assert_eq!(ptx.text().matches("mma.sync.aligned.m16n8k16").count(), 4 * 2 * 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MatrixLoad {
    copy: TiledCopy,
    form: Form,
    /// Elements that a thread gets per load.
    vector: i64,
    /// Per load: (rest of the values, tile along MN), and the registers of its words.
    loads: Vec<([i64; 2], Vec<u32>)>,
}

/// How a thread's words are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `ldmatrix` of four matrices.
    Matrices { transposed: bool },
    /// One load per word.
    Words,
}

impl MatrixLoad {
    /// Makes the loads of `extent` rows of A or columns of B, from a tile that is contiguous along
    /// `major`.
    ///
    /// # Errors
    /// The instruction is not an `mma.sync` on 16-bit elements, `tf32`, `f64`, or 8-bit elements
    /// along K; a tile of `mma` does not divide `extent`; or a thread does not hold a multiple of
    /// four words of it.
    #[inline]
    pub fn new(
        mma: &TiledMma,
        operand: Operand,
        major: Major,
        extent: u32,
    ) -> Result<Self, TensorError> {
        Self::of(mma, operand, major, extent.into()).map_err(|kind| TensorError {
            operation: "make_matrix_load",
            operand: format!("{operand:?} of {}", mma.atom().op()),
            kind,
        })
    }

    #[inline]
    fn of(
        mma: &TiledMma,
        operand: Operand,
        major: Major,
        extent: i64,
    ) -> Result<Self, TensorErrorKind> {
        let op = mma.atom().op();
        let none = || TensorErrorKind::NoOperation { instruction: op.instruction() };
        let MmaOp::Sync(MmaSync { a, .. }) = op else { return Err(none()) };
        let transposed = major == Major::Mn;
        let (dtype, form) = match a {
            ValType::F64 => (Scalar::F64, Form::Words),
            ValType::F16 => (Scalar::F16, Form::Matrices { transposed }),
            ValType::Bf16 => (Scalar::Bf16, Form::Matrices { transposed }),
            ValType::Tf32 if transposed => (Scalar::F32, Form::Words),
            ValType::Tf32 => (Scalar::F32, Form::Matrices { transposed }),
            // `ldmatrix` moves bytes as 16-bit pairs.
            ValType::S8 | ValType::U8 | ValType::E4M3 | ValType::E5M2 if !transposed => {
                (Scalar::U8, Form::Matrices { transposed })
            }
            _ => return Err(none()),
        };
        let (atom, words) = match form {
            Form::Matrices { transposed } => {
                (CopyOp::LdMatrix { matrices: Matrices::X4, transposed }, 4)
            }
            Form::Words => (CopyOp::Universal { bits: dtype.bits() }, 1),
        };
        let atom = CopyAtom::new(atom).map_err(|_| none())?;
        let copy = TiledCopy::of_operand(atom, dtype, mma, operand).map_err(|error| error.kind)?;
        let [first, second] = operand.modes();
        let tile = [mma.tile_size_mnk(first)?, mma.tile_size_mnk(second)?].map(i64::from);
        if extent % tile[0] != 0 {
            return Err(TensorErrorKind::RaggedTile { mode: 0, extent, tile: tile[0] });
        }
        let matrix = Layout::compact((extent, tile[1]));
        // (thread, (value of the load, rest), tiles along MN, 1) and (thread, value of the
        // instruction, along MN, 1).
        let loaded = copy.tidfrg(&matrix, Side::Destination)?;
        let multiplied = mma.parts(operand, &matrix)?;
        let per_word = i64::from(32 / dtype.bits()).max(1);
        let threads = i64::from(mma.size()?);
        let size = |layout: &Layout, mode: &[usize]| layout.get(mode)?.size()?.to_static();
        let (values, tiles) = (size(&loaded, &[1])?, size(&loaded, &[2])?);
        let (own, atoms) = (size(&multiplied, &[1])?, size(&multiplied, &[2])?);
        let vector = words * per_word;
        let index_of =
            |layout: &Layout, coord: (i64, i64, i64, i64)| layout.crd2idx(coord)?.to_static();
        let mut loads = Vec::new();
        for tile in 0..tiles {
            for rest in 0..values / vector {
                let mut registers = Vec::with_capacity(4);
                for word in 0..words {
                    let value = rest * vector + word * per_word;
                    let target = index_of(&loaded, (0, value, tile, 0))?;
                    let all = (0..atoms).flat_map(|atom| {
                        (0..own).step_by(per_word as usize).map(move |v| (v, atom))
                    });
                    let mut found = None;
                    for (v, atom) in all {
                        if index_of(&multiplied, (0, v, atom, 0))? == target {
                            found = Some((v, atom));
                            break;
                        }
                    }
                    let (v, atom) = found.ok_or_else(none)?;
                    // The register must be the same in all threads, for all its elements.
                    for thread in 0..threads {
                        for e in 0..per_word {
                            let loaded = index_of(&loaded, (thread, value + e, tile, 0))?;
                            if loaded != index_of(&multiplied, (thread, v + e, atom, 0))? {
                                return Err(none());
                            }
                        }
                    }
                    registers.push((v / per_word + own / per_word * atom) as u32);
                }
                loads.push(([rest, tile], registers));
            }
        }
        Ok(MatrixLoad { copy, form, vector, loads })
    }

    /// Returns the part of a shared-memory tile (MN, K, ..) that the thread loads from: (V, MN, K,
    /// ..). With `ldmatrix` these are the rows whose addresses it provides. Call it before the main
    /// loop if you read one tile; for a ring buffer take [`ring`](MatrixLoad::ring).
    #[track_caller]
    pub fn partition<'b, T: Element>(
        &self,
        thread: Val<'b, i32>,
        tile: &SharedTensor<'b, T>,
    ) -> SharedTensor<'b, T> {
        self.copy.slice(thread).partition_s(tile)
    }

    /// Like [`partition`](MatrixLoad::partition) and [`load`](MatrixLoad::load), for a ring buffer
    /// of tiles (MN, K, stage). It computes the first stage's addresses in all steps along K once,
    /// so that another stage only adds an offset.
    ///
    /// ```
    /// use tilewright::ir::{Kernel, Target};
    /// use tilewright::layout::{layout, shape, tiler};
    /// use tilewright::arch::Major;
    /// use tilewright::tensor::atom::{MmaAtom, Operand, TiledMma};
    /// use tilewright::tensor::copy::{AsyncTile, MatrixLoad};
    /// use tilewright::tensor::view::SharedTensor;
    /// # use tilewright::ir::{Element, bf16};
    /// let atom: MmaAtom = "SM80_16x8x16_F32BF16BF16F32_TN".parse()?;
    /// let mma = TiledMma::new(atom, &layout!((2, 2, 1)), tiler!(_, 32, _))?;
    /// let load = MatrixLoad::new(&mma, Operand::A, Major::K, 64)?;
    /// let tile = AsyncTile::new(bf16::SCALAR, Major::K, 64, 128, 16)?;
    /// let kernel = Kernel::<()>::build("k", Target::SM_80, |k, ()| {
    ///     let x = SharedTensor::<bf16>::shared_aligned(k, tile.layout(3)?, 1024);
    ///     let thread = k.thread_idx().x;
    ///     let words = mma.slice(thread).fragment_words(k, Operand::A, shape!(64, 16));
    ///     let ring = load.ring(thread, &x);
    ///     for step in 0..4 {
    ///         ring.stage(k.constant(2)).load(step, &words);
    ///     }
    ///     Ok::<(), tilewright::tensor::TensorError>(())
    /// })?;
    /// // Two instructions with 16 rows each in every step.
    /// assert_eq!(kernel.ptx().text().matches("ldmatrix.sync.aligned.m8n8.x4").count(), 4 * 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn ring<'b, T: Element>(
        &self,
        thread: Val<'b, i32>,
        ring: &SharedTensor<'b, T>,
    ) -> MatrixRing<'_, 'b, T> {
        let k = &ring.body();
        let part = self.partition(thread, ring);
        let mut made = MatrixRing {
            load: self,
            steps: Vec::new(),
            stage_bytes: 0,
            moved: None,
            elem: PhantomData,
        };
        if part.poisoned {
            return made;
        }
        let sizes = || -> Result<_, LayoutError> {
            let steps = part.layout().get(&[2])?.size()?.to_static()?;
            Ok((steps, part.layout().crd2idx((0, 0, 0, 1))?.to_static()?))
        };
        let (steps, stage) = match sizes() {
            Ok(sizes) => sizes,
            Err(error) => {
                part.failed(k, "ldmatrix", error);
                return made;
            }
        };
        made.stage_bytes = stage * i64::from(T::scalar().size_bytes());
        for step in 0..steps {
            made.steps.extend(self.addresses(k, &part.slice((.., .., step, 0))));
        }
        made
    }

    /// Returns the addresses of one step's loads from its part (V, MN).
    #[track_caller]
    fn addresses<'b, T: Element>(
        &self,
        k: &Body<'b, '_>,
        part: &SharedTensor<'b, T>,
    ) -> Option<Vec<Address<'b>>> {
        let _call = k.call();
        if part.poisoned {
            return None;
        }
        let vector = self.vector;
        let indices: Result<Vec<i64>, LayoutError> = self
            .loads
            .iter()
            .map(|([rest, tile], _)| part.layout().crd2idx((rest * vector, *tile))?.to_static())
            .collect();
        match indices {
            Ok(indices) => Some(
                indices
                    .into_iter()
                    .map(|index| {
                        let (base, offset) = (part.engine + index).resolve();
                        (base.ptr_cast::<u8>(), offset * i64::from(T::scalar().size_bytes()))
                    })
                    .collect(),
            ),
            Err(error) => {
                part.failed(k, "ldmatrix", error);
                None
            }
        }
    }

    /// Loads one step along K from its part (V, MN) in shared memory into registers (V, MN, 1).
    /// Call it between the pipeline's wait and the step's MMAs.
    #[track_caller]
    pub fn load<'b, T: Element, W: Converted>(
        &self,
        part: &SharedTensor<'b, T>,
        to: &RegisterTensor<'_, W>,
    ) {
        let k = &to.body();
        if let Some(addresses) = self.addresses(k, part) {
            self.load_from(&addresses, to);
        }
    }

    #[track_caller]
    fn load_from<'b, W: Converted>(&self, addresses: &[Address<'b>], to: &RegisterTensor<'_, W>) {
        if to.poisoned {
            return;
        }
        let words = to.variables();
        for ((base, bytes), (_, registers)) in addresses.iter().zip(&self.loads) {
            let (matrices, at) = (base.ptr_cast::<u16>(), bytes / 2);
            let four: Val<'_, Vector<u16, 8>> = match self.form {
                Form::Matrices { transposed: true } => matrices.ldmatrix(at, MatrixOrder::Trans),
                Form::Matrices { transposed: false } => matrices.ldmatrix(at, MatrixOrder::Rows),
                Form::Words => {
                    let word =
                        base.ptr_cast::<W>().load(bytes / i64::from(W::scalar().size_bytes()));
                    registers.iter().for_each(|register| words.set(*register, word));
                    continue;
                }
            };
            let four = four.bitcast::<Vector<u32, 4>>().lanes();
            for (word, register) in four.into_iter().zip(registers) {
                words.set(*register, word.cvt::<W>());
            }
        }
    }
}

/// An address in shared memory: a byte pointer and a host offset.
type Address<'b> = (Val<'b, Shared<u8>>, i64);

/// A thread's operand loads from a ring buffer of tiles, for the main loop. Made by
/// [`MatrixLoad::ring`].
#[derive(Clone, Debug)]
pub struct MatrixRing<'m, 'b, T> {
    load: &'m MatrixLoad,
    /// The addresses of the first stage's loads, per step along K.
    steps: Vec<Vec<Address<'b>>>,
    stage_bytes: i64,
    /// The stage's byte offset from the first stage.
    moved: Option<Val<'b, i32>>,
    elem: PhantomData<T>,
}

impl<'b, T: Element> MatrixRing<'_, 'b, T> {
    /// Selects the stage that the next loads read. Call it once in each step of the main loop, with
    /// the stage that the pipeline has just filled.
    #[must_use]
    #[track_caller]
    pub fn stage(&self, stage: Val<'b, i32>) -> Self {
        MatrixRing { moved: Some(stage * self.stage_bytes as i32), ..self.clone() }
    }

    /// Loads one step along K into registers (V, MN, 1). It is a build error if the stage has no
    /// such step.
    #[track_caller]
    pub fn load<W: Converted>(&self, step: u32, to: &RegisterTensor<'_, W>) {
        let k = &to.body();
        let _call = k.call();
        let Some(step) = self.steps.get(step as usize) else {
            // A ring without steps is a placeholder for one that could not be made.
            if !self.steps.is_empty() {
                let kind =
                    TensorErrorKind::NoSuchElement { index: step.into(), len: self.steps.len() };
                let operand = self.load.copy.to_string();
                k.report(TensorError { operation: "ldmatrix", operand, kind });
            }
            return;
        };
        let mut moved = Vec::with_capacity(step.len());
        for (base, bytes) in step {
            moved.push((self.moved.map_or(*base, |by| base.offset(by)), *bytes));
        }
        self.load.load_from(&moved, to);
    }
}
