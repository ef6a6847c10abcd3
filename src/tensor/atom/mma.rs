//! [`MmaAtom`]: one MMA instruction with the layouts that say which thread holds which elements.
//! Pick one by its CuTe name, then repeat it over a tile with
//! [`TiledMma`](crate::tensor::atom::TiledMma).

use crate::ir::Target;
use crate::layout::{Layout, layout};

use super::error::AtomError;
use super::mma_sync::MmaSync;
use super::val_type::ValType;
use super::wgmma::{OperandSource, Wgmma};
use crate::arch::Major;

/// The instruction of an [`MmaAtom`]: which tensor-core (or FMA) instruction, with which shape and
/// types. It prints as its CuTe name and parses from it.
///
/// ```
/// use tilewright::tensor::atom::MmaOp;
/// let op: MmaOp = "SM90_64x128x16_F32BF16BF16_SS".parse()?;
/// assert_eq!(op.instruction(), "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16");
/// assert_eq!(op.to_string(), "SM90_64x128x16_F32BF16BF16_SS");
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaOp {
    /// One thread's `fma.rn`, 1x1x1, for `F16`, `Bf16`, `F32` or `F64`. CuTe's `UniversalFMA`.
    UniversalFma {
        /// The type of all operands.
        ty: ValType,
    },
    /// One thread's `dp4a`, 1x1x4: adds four products of `S8`.
    Dp4a,
    /// One thread's `dp2a.lo`, 1x1x2: adds two products of `S16` and `S8`.
    Dp2a,
    /// `mma.m8n8k4` on `F16` by eight threads, a quad pair. Volta's instruction; newer GPUs run it
    /// slowly.
    QuadPair {
        /// A's contiguous mode.
        a: Major,
        /// B's contiguous mode.
        b: Major,
        /// `F16` or `F32`.
        c: ValType,
    },
    /// A warp's `mma.sync`.
    Sync(MmaSync),
    /// A warp group's `wgmma`.
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
    /// Returns M, N and K. They tell how many atoms a tile needs.
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

    /// Returns A's element type, for example to check a fragment against it.
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

    /// Returns B's element type, which can differ from A's for 8-bit types.
    pub fn val_type_b(&self) -> ValType {
        match self {
            MmaOp::UniversalFma { ty } => *ty,
            MmaOp::Dp4a | MmaOp::Dp2a => ValType::S8,
            MmaOp::QuadPair { .. } => ValType::F16,
            MmaOp::Sync(op) => op.b,
            MmaOp::Wgmma(op) => op.b,
        }
    }

    /// Returns the type of C and D, for example to choose the accumulators' register type.
    pub fn val_type_c(&self) -> ValType {
        match self {
            MmaOp::UniversalFma { ty } => *ty,
            MmaOp::Dp4a | MmaOp::Dp2a => ValType::S32,
            MmaOp::QuadPair { c, .. } => *c,
            MmaOp::Sync(op) => op.c,
            MmaOp::Wgmma(op) => op.c,
        }
    }

    /// Returns where A comes from. B comes from shared memory for [`MmaOp::Wgmma`], else from
    /// registers. It decides whether A needs a fragment.
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

    /// Returns the PTX instruction with all its qualifiers. A complex MMA consists of four of these
    /// instructions (three with Gauss's method). Use it to see what an atom compiles to.
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

    /// Returns the oldest target of this crate that has the instruction. Instructions from before
    /// `sm_80` exist on every target. Compare it with a kernel's target before you choose the
    /// instruction.
    pub fn target(&self) -> Target {
        match self {
            MmaOp::UniversalFma { .. } | MmaOp::Dp4a | MmaOp::Dp2a | MmaOp::QuadPair { .. } => {
                Target::SM_80
            }
            MmaOp::Sync(op) => op.target(),
            MmaOp::Wgmma(_) => Target::SM_90A,
        }
    }

    /// Iterates over all instructions, with every type and shape, for example to list what a target
    /// has.
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

/// One MMA instruction, `D = A * B + C`, the threads that execute it and the layouts of their
/// values: CuTe's `MMA_Atom` with its `MMA_Traits`.
///
/// `thr_id` maps a thread of the atom to its index in the warp or block. The other layouts map
/// (thread, value) to the column-major index in an operand's tile: A is M x K, B is N x K (so
/// `(n, k)` has index `n + N * k`), C and D are M x N. If an operand comes from shared memory,
/// every thread sees all of it, so its thread mode has stride 0.
///
/// ```
/// use tilewright::tensor::atom::{MmaAtom, OperandSource, ValType, Wgmma};
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
    /// Makes the atom of an instruction.
    ///
    /// # Errors
    /// [`AtomError::ValTypes`], [`AtomError::Shape`], [`AtomError::Width`], [`AtomError::Saturate`]
    /// or [`AtomError::BitOp`] if the instruction does not exist.
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

    /// Returns the instruction that the atom was made from, for example to match on it.
    pub fn op(&self) -> &MmaOp {
        &self.op
    }

    /// Maps a thread of the atom to its index in the warp or block: CuTe's `ThrID`. It is the
    /// identity, except for [`MmaOp::QuadPair`], whose eight threads are not adjacent.
    pub fn thr_id(&self) -> &Layout {
        &self.thr_id
    }

    /// Maps (thread, value) to an index in the M x K tile of A: CuTe's `ALayout`.
    /// [`TiledMma`](crate::tensor::atom::TiledMma) partitions tensors with it and its siblings.
    pub fn layout_a_tv(&self) -> &Layout {
        &self.layout_a_tv
    }

    /// Maps (thread, value) to an index in the N x K tile of B: CuTe's `BLayout`.
    pub fn layout_b_tv(&self) -> &Layout {
        &self.layout_b_tv
    }

    /// Maps (thread, value) to an index in the M x N tile of C and D: CuTe's `CLayout`.
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

/// One thread holds all elements.
#[inline]
fn one_thread(values: i64) -> Layout {
    Layout::compact((1, values))
}

/// A or B of `mma.m8n8k4`: eight threads with four values each. K-major, each thread holds a row.
/// Otherwise the four threads of a quad each hold a column of 4 rows, at k = thread % 4. PTX ISA,
/// "Matrix Fragments for mma.m8n8k4 with .f16".
#[inline]
fn quad_pair_ab(major: Major) -> Layout {
    match major {
        Major::K => layout!((8, 4):(1, 8)),
        Major::Mn => layout!(((4, 2), 4):((8, 4), 1)),
    }
}

/// C of `mma.m8n8k4`. For `F16` each thread holds a row. For `F32`, bits 0 and 2 of the thread are
/// bits 0 and 2 of the row, and bit 1 is bit 1 of the column.
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
