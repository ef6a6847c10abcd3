//! [`MmaAtom`]: one MMA instruction with its layouts of threads and values.

use crate::ir::Target;
use crate::layout::{Layout, layout};

use super::error::AtomError;
use super::mma_sync::MmaSync;
use super::val_type::ValType;
use super::wgmma::{OperandSource, Wgmma};
use crate::arch::Major;

/// The instruction of an [`MmaAtom`]. Prints as CuTe's name of it, and reads that name.
///
/// ```
/// use tilewright::tensor::MmaOp;
/// let op: MmaOp = "SM90_64x128x16_F32BF16BF16_SS".parse()?;
/// assert_eq!(op.instruction(), "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16");
/// assert_eq!(op.to_string(), "SM90_64x128x16_F32BF16BF16_SS");
/// # Ok::<(), tilewright::tensor::AtomError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaOp {
    /// `fma.rn` of one thread: 1x1x1, on `F16`, `Bf16`, `F32` or `F64`. CuTe's `UniversalFMA`.
    UniversalFma {
        /// The type of all operands.
        ty: ValType,
    },
    /// `dp4a` of one thread: the sum of four products of `S8`, 1x1x4.
    Dp4a,
    /// `dp2a.lo` of one thread: the sum of two products of `S16` by `S8`, 1x1x2.
    Dp2a,
    /// `mma.m8n8k4` of eight threads, a quad pair, on `F16`. The first tensor cores have it; later ones run
    /// it slowly.
    QuadPair {
        /// The contiguous mode of A.
        a: Major,
        /// The contiguous mode of B.
        b: Major,
        /// `F16` or `F32`.
        c: ValType,
    },
    /// `mma.sync` of a warp.
    Sync(MmaSync),
    /// `wgmma` of a warp group.
    Wgmma(Wgmma),
}

impl From<MmaSync> for MmaOp {
    fn from(op: MmaSync) -> Self {
        MmaOp::Sync(op)
    }
}

impl From<Wgmma> for MmaOp {
    fn from(op: Wgmma) -> Self {
        MmaOp::Wgmma(op)
    }
}

impl MmaOp {
    /// M, N and K.
    pub fn shape_mnk(&self) -> [u32; 3] {
        match self {
            MmaOp::UniversalFma { .. } => [1, 1, 1],
            MmaOp::Dp4a => [1, 1, 4],
            MmaOp::Dp2a => [1, 1, 2],
            MmaOp::QuadPair { .. } => [8, 8, 4],
            MmaOp::Sync(op) => op.shape_mnk,
            MmaOp::Wgmma(op) => op.shape_mnk(),
        }
    }

    /// The type of A.
    pub fn val_type_a(&self) -> ValType {
        match self {
            MmaOp::UniversalFma { ty } => *ty,
            MmaOp::Dp4a => ValType::S8,
            MmaOp::Dp2a => ValType::S16,
            MmaOp::QuadPair { .. } => ValType::F16,
            MmaOp::Sync(op) => op.a,
            MmaOp::Wgmma(op) => op.a,
        }
    }

    /// The type of B.
    pub fn val_type_b(&self) -> ValType {
        match self {
            MmaOp::UniversalFma { ty } => *ty,
            MmaOp::Dp4a | MmaOp::Dp2a => ValType::S8,
            MmaOp::QuadPair { .. } => ValType::F16,
            MmaOp::Sync(op) => op.b,
            MmaOp::Wgmma(op) => op.b,
        }
    }

    /// The type of C and D.
    pub fn val_type_c(&self) -> ValType {
        match self {
            MmaOp::UniversalFma { ty } => *ty,
            MmaOp::Dp4a | MmaOp::Dp2a => ValType::S32,
            MmaOp::QuadPair { c, .. } => *c,
            MmaOp::Sync(op) => op.c,
            MmaOp::Wgmma(op) => op.c,
        }
    }

    /// The source of A. B is in shared memory for [`MmaOp::Wgmma`], in registers for all others.
    pub fn source_a(&self) -> OperandSource {
        match self {
            MmaOp::Wgmma(op) => op.source_a,
            MmaOp::UniversalFma { .. }
            | MmaOp::Dp4a
            | MmaOp::Dp2a
            | MmaOp::QuadPair { .. }
            | MmaOp::Sync(_) => OperandSource::Registers,
        }
    }

    /// The PTX instruction, with all its qualifiers. One on complex numbers is four of this instruction (three
    /// by Gauss's method).
    #[inline]
    pub fn instruction(&self) -> String {
        match self {
            MmaOp::UniversalFma { ty } => format!("fma.rn.{}", ty.ptx()),
            MmaOp::Dp4a => "dp4a.s32.s32".to_owned(),
            MmaOp::Dp2a => "dp2a.lo.s32.s32".to_owned(),
            MmaOp::QuadPair { a, b, c } => {
                let row = |rows: bool| if rows { "row" } else { "col" };
                let (a, b, c) = (row(*a == Major::K), row(*b == Major::Mn), c.ptx());
                format!("mma.sync.aligned.m8n8k4.{a}.{b}.{c}.f16.f16.{c}")
            }
            MmaOp::Sync(op) => op.instruction(),
            MmaOp::Wgmma(op) => op.instruction(),
        }
    }

    /// The first target of this crate that has the instruction. Those that are older than `sm_80` are in every
    /// target.
    pub fn target(&self) -> Target {
        match self {
            MmaOp::UniversalFma { .. } | MmaOp::Dp4a | MmaOp::Dp2a | MmaOp::QuadPair { .. } => {
                Target::SM_80
            }
            MmaOp::Sync(op) => op.target(),
            MmaOp::Wgmma(_) => Target::SM_90A,
        }
    }

    /// Every instruction there is, with every type and shape.
    #[inline]
    pub fn all() -> impl Iterator<Item = MmaOp> {
        use ValType::{Bf16, F16, F32, F64};
        let fma = [F16, Bf16, F32, F64].map(|ty| MmaOp::UniversalFma { ty });
        let majors = [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K)];
        let majors = majors.into_iter().chain([(Major::Mn, Major::Mn)]);
        let quad_pairs = majors.flat_map(|(a, b)| [F16, F32].map(|c| MmaOp::QuadPair { a, b, c }));
        fma.into_iter()
            .chain([MmaOp::Dp4a, MmaOp::Dp2a])
            .chain(quad_pairs)
            .chain(MmaSync::all().map(MmaOp::Sync))
            .chain(Wgmma::all().map(MmaOp::Wgmma))
    }
}

/// One MMA instruction, `D = A * B + C`, with the threads that execute it and the layouts of their
/// values: CuTe's `MMA_Atom` with its `MMA_Traits`.
///
/// `thr_id` maps the number of a thread in the atom to its index among the threads of the machine. The other
/// layouts map (thread, value) to the column-major index in the tile of an operand: A is M x K, B is N x K
/// (so the index of `(n, k)` is `n + N * k`), C and D are M x N. An operand in shared memory is seen whole by each
/// thread: its thread mode has stride 0.
///
/// ```
/// use tilewright::tensor::{MmaAtom, OperandSource, ValType, Wgmma};
/// let op = Wgmma::new(96, ValType::Tf32, ValType::Tf32, ValType::F32, OperandSource::Registers);
/// let atom = MmaAtom::new(op)?;
/// assert_eq!(atom.op().to_string(), "SM90_64x96x8_F32TF32TF32_RS_TN");
/// assert_eq!(atom.layout_a_tv().to_string(), "((4,8,4),(2,2)):((64,1,16),(8,256))");
/// assert_eq!(atom.layout_b_tv().to_string(), "(128,(96,8)):(0,(1,96))");
/// // Thread 5 is in row 1 of its warp: its first value of C is at (1, 2).
/// assert_eq!(atom.layout_c_tv().crd2idx((5, 0))?, 1 + 2 * 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MmaAtom {
    op: MmaOp,
    thr_id: Layout,
    layout_a_tv: Layout,
    layout_b_tv: Layout,
    layout_c_tv: Layout,
}

impl MmaAtom {
    /// The atom of an instruction.
    ///
    /// # Errors
    /// [`AtomError::ValTypes`], [`AtomError::Shape`], [`AtomError::Width`], [`AtomError::Saturate`] and
    /// [`AtomError::BitOp`] if there is no such instruction.
    pub fn new(op: impl Into<MmaOp>) -> Result<Self, AtomError> {
        let op = op.into();
        let (thr_id, [a, b, c]) = match op {
            MmaOp::UniversalFma { ty } => {
                check_fma(ty)?;
                (layout!(1:0), [one_thread(1), one_thread(1), one_thread(1)])
            }
            MmaOp::Dp4a => (layout!(1:0), [one_thread(4), one_thread(4), one_thread(1)]),
            MmaOp::Dp2a => (layout!(1:0), [one_thread(2), one_thread(2), one_thread(1)]),
            MmaOp::QuadPair { a, b, c } => {
                (layout!((4, 2):(1, 16)), [quad_pair_ab(a), quad_pair_ab(b), quad_pair_c(c)?])
            }
            MmaOp::Sync(op) => (layout!(32:1), op.layouts()?),
            MmaOp::Wgmma(op) => (layout!(128:1), op.layouts()?),
        };
        Ok(Self { op, thr_id, layout_a_tv: a, layout_b_tv: b, layout_c_tv: c })
    }

    /// The instruction.
    pub fn op(&self) -> &MmaOp {
        &self.op
    }

    /// From the number of a thread in the atom to its index among the threads: CuTe's `ThrID`.
    pub fn thr_id(&self) -> &Layout {
        &self.thr_id
    }

    /// (thread, value) -> index in the M x K tile of A: CuTe's `ALayout`.
    pub fn layout_a_tv(&self) -> &Layout {
        &self.layout_a_tv
    }

    /// (thread, value) -> index in the N x K tile of B: CuTe's `BLayout`.
    pub fn layout_b_tv(&self) -> &Layout {
        &self.layout_b_tv
    }

    /// (thread, value) -> index in the M x N tile of C and D: CuTe's `CLayout`.
    pub fn layout_c_tv(&self) -> &Layout {
        &self.layout_c_tv
    }
}

fn check_fma(ty: ValType) -> Result<(), AtomError> {
    use ValType::{Bf16, F16, F32, F64};
    if [F16, Bf16, F32, F64].contains(&ty) {
        return Ok(());
    }
    Err(AtomError::ValTypes { instruction: "fma", a: ty, b: ty, c: ty })
}

/// All of `values` elements in one thread.
#[inline]
fn one_thread(values: i64) -> Layout {
    Layout::compact((1, values))
}

/// A or B of `mma.m8n8k4`: eight threads with four values. K-major, a thread has a row; else four threads of
/// one quad have a column of 4 rows each, at k = thread % 4. PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16".
#[inline]
fn quad_pair_ab(major: Major) -> Layout {
    match major {
        Major::K => layout!((8, 4):(1, 8)),
        Major::Mn => layout!(((4, 2), 4):((8, 4), 1)),
    }
}

/// C of `mma.m8n8k4`: for `F16` a thread has a row; for `F32` bit 0 of the thread is bit 0 of the row, bit 2
/// its bit 2, and bit 1 is bit 1 of the column.
#[inline]
fn quad_pair_c(ty: ValType) -> Result<Layout, AtomError> {
    match ty {
        ValType::F16 => Ok(layout!((8, 8):(1, 8))),
        ValType::F32 => Ok(layout!(((2, 2, 2), (2, 2, 2)):((1, 16, 4), (8, 2, 32)))),
        c => {
            let (a, b) = (ValType::F16, ValType::F16);
            Err(AtomError::ValTypes { instruction: "mma.m8n8k4", a, b, c })
        }
    }
}
