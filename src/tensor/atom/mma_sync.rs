//! `mma.sync`: a warp's tensor-core instruction, with its layouts by formula.
//!
//! A 32-bit register holds `p = 32 / bits` elements that are adjacent along K (one element if they
//! have 64 bits). Thread `t = 4 * row + quad` of the warp holds as element `v` of register `r`:
//!
//! ```text
//! A(m, k):  m = row + 8 * (r % (M/8))     k = quad * p + v + 4 * p * (r / (M/8))
//! B(n, k):  n = row                       k = quad * p + v + 4 * p * r
//! C(m, n):  m = row + 8 * (r / 2)         n = quad * 2 + r % 2
//! ```
//!
//! The formulas reproduce every figure of the PTX ISA from "Matrix Fragments for mma.m8n8k4"
//! (`.f64`) to "mma.m16n8k256", except the one of `mma.m8n8k4` on `.f16`. `wgmma` has the same
//! rows, 16 per warp.

use crate::ir::Target;
use crate::layout::{Layout, LayoutError, layout};

use super::error::AtomError;
use super::val_type::ValType;

/// How one-bit elements are combined before the set bits are counted. Binary networks use `Xor` for
/// products of +1 and -1, and `And` for products of 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitOp {
    /// `.xor.popc`: counts the bits in which A and B differ.
    Xor,
    /// `.and.popc`: counts the bits that are set in both.
    And,
}

/// An `mma.sync` instruction, with A row-major and B column-major (both K-major). PTX ISA, "mma".
/// Convert it to an [`MmaAtom`](crate::tensor::atom::MmaAtom) to use it.
///
/// ```
/// use tilewright::tensor::atom::{BitOp, MmaAtom, MmaSync, ValType};
/// let op = MmaSync::new([16, 8, 32], ValType::S8, ValType::U8, ValType::S32).saturate();
/// assert_eq!(op.instruction(), "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32");
/// let bits = MmaSync::new([8, 8, 128], ValType::B1, ValType::B1, ValType::S32).bit_op(BitOp::And);
/// assert_eq!(MmaAtom::new(bits)?.layout_a_tv().to_string(), "((4,8),32):((256,1),8)");
/// # Ok::<(), tilewright::tensor::atom::AtomError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaSync {
    /// M, N and K.
    pub shape_mnk: [u32; 3],
    /// A's type.
    pub a: ValType,
    /// B's type.
    pub b: ValType,
    /// The type of C and D.
    pub c: ValType,
    /// Integer accumulators saturate at the limits of `S32` instead of wrapping.
    pub saturate: bool,
    /// The operation on one-bit elements. It must be `None` for all other types.
    pub bit_op: Option<BitOp>,
}

const F16: &[[u32; 3]] = &[[16, 8, 8], [16, 8, 16]];
const TF32: &[[u32; 3]] = &[[16, 8, 4], [16, 8, 8]];
const F64: &[[u32; 3]] = &[[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]];
const GAUSS: &[[u32; 3]] = &[[8, 8, 4]];
const FP8: &[[u32; 3]] = &[[16, 8, 32]];
const INT8: &[[u32; 3]] = &[[8, 8, 16], [16, 8, 16], [16, 8, 32]];
const INT4: &[[u32; 3]] = &[[8, 8, 32], [16, 8, 32], [16, 8, 64]];
const BITS: &[[u32; 3]] = &[[8, 8, 128], [16, 8, 128], [16, 8, 256]];

impl MmaSync {
    /// Makes the instruction for a shape and types. It does not saturate and has no bit operation;
    /// add them with [`saturate`](MmaSync::saturate) and [`bit_op`](MmaSync::bit_op). Whether the
    /// instruction exists is checked when the atom is made.
    pub const fn new(shape_mnk: [u32; 3], a: ValType, b: ValType, c: ValType) -> Self {
        Self { shape_mnk, a, b, c, saturate: false, bit_op: None }
    }

    /// Makes integer accumulators saturate at the limits of `S32`: PTX's `.satfinite`.
    pub const fn saturate(self) -> Self {
        Self { saturate: true, ..self }
    }

    /// Sets the operation on one-bit elements, which instructions on [`ValType::B1`] need.
    pub const fn bit_op(self, op: BitOp) -> Self {
        Self { bit_op: Some(op), ..self }
    }

    fn shapes(a: ValType, b: ValType, c: ValType) -> Option<&'static [[u32; 3]]> {
        use ValType as T;
        match (a, b, c) {
            (T::F16, T::F16, T::F16 | T::F32) | (T::Bf16, T::Bf16, T::F32) => Some(F16),
            (T::Tf32, T::Tf32, T::F32) => Some(TF32),
            (T::F64, T::F64, T::F64) | (T::C64, T::C64, T::C64) => Some(F64),
            (T::C64, T::C64, T::Gc64) => Some(GAUSS),
            (T::E4M3 | T::E5M2, T::E4M3 | T::E5M2, T::F16 | T::F32) => Some(FP8),
            (T::S8 | T::U8, T::S8 | T::U8, T::S32) => Some(INT8),
            (T::S4 | T::U4, T::S4 | T::U4, T::S32) => Some(INT4),
            (T::B1, T::B1, T::S32) => Some(BITS),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), AtomError> {
        let MmaSync { shape_mnk, a, b, c, saturate, bit_op } = *self;
        let instruction = "mma.sync";
        let legal = Self::shapes(a, b, c).ok_or(AtomError::ValTypes { instruction, a, b, c })?;
        if !legal.contains(&shape_mnk) {
            return Err(AtomError::Shape { instruction, a, b, shape_mnk, legal });
        }
        if saturate && !(a.is_integer() && a != ValType::B1) {
            return Err(AtomError::Saturate { a });
        }
        if bit_op.is_some() != (a == ValType::B1) {
            return Err(AtomError::BitOp { a });
        }
        Ok(())
    }

    /// Returns the PTX instruction with its qualifiers, for example to see what an atom compiles
    /// to.
    pub fn instruction(&self) -> String {
        let [m, n, k] = self.shape_mnk;
        let saturate = if self.saturate { ".satfinite" } else { "" };
        let (a, b, c) = (self.a.ptx(), self.b.ptx(), self.c.ptx());
        let bit_op = match self.bit_op {
            None => "",
            Some(BitOp::Xor) => ".xor.popc",
            Some(BitOp::And) => ".and.popc",
        };
        format!("mma.sync.aligned.m{m}n{n}k{k}.row.col{saturate}.{c}.{a}.{b}.{c}{bit_op}")
    }

    /// The oldest compute capability that has it, times ten.
    pub(super) fn sm(&self) -> u16 {
        use ValType as T;
        match (self.a, self.shape_mnk) {
            (T::F16, [16, 8, 8]) | (T::S8 | T::U8, [8, 8, 16]) | (T::S4 | T::U4, [8, 8, 32]) => 75,
            (T::B1, [8, 8, 128]) if self.bit_op == Some(BitOp::Xor) => 75,
            (T::E4M3 | T::E5M2, _) => 89,
            (T::F64 | T::C64, [16, _, _]) => 90,
            _ => 80,
        }
    }

    /// Returns the oldest target of this crate that has it. Compare it with a kernel's target
    /// before you choose the instruction.
    pub fn target(&self) -> Target {
        Target::new(self.sm(), false).unwrap_or(Target::SM_80)
    }

    #[inline]
    pub(super) fn layouts(&self) -> Result<[Layout; 3], AtomError> {
        self.check()?;
        let [m, n, k] = self.shape_mnk.map(i64::from);
        let threads = |quad: i64| layout!((4, 8):(quad, 1));
        let values_a = values(self.a, &[(m / 8, 8)], m, k)?;
        let values_b = values(self.b, &[], n, k)?;
        let p = per_register(self.a);
        Ok([
            Layout::concat(&[threads(p * m), values_a])?,
            Layout::concat(&[threads(p * n), values_b])?,
            Layout::concat(&[threads(2 * m), values_c(m)?])?,
        ])
    }

    pub(super) fn all() -> impl Iterator<Item = MmaSync> {
        let types = ValType::ALL.into_iter();
        let pairs = types.flat_map(|a| ValType::ALL.into_iter().map(move |b| (a, b)));
        let triples = pairs.flat_map(|(a, b)| ValType::ALL.into_iter().map(move |c| (a, b, c)));
        triples.flat_map(|(a, b, c)| {
            let shapes = Self::shapes(a, b, c).unwrap_or_default();
            shapes.iter().flat_map(move |shape| {
                let plain = MmaSync::new(*shape, a, b, c);
                let (first, second) = match a {
                    ValType::B1 => (plain.bit_op(BitOp::Xor), Some(plain.bit_op(BitOp::And))),
                    _ if a.is_integer() => (plain, Some(plain.saturate())),
                    _ => (plain, None),
                };
                std::iter::once(first).chain(second)
            })
        })
    }
}

/// Returns how many elements a 32-bit register holds, or 1 for wider elements.
pub(super) fn per_register(ty: ValType) -> i64 {
    i64::from((32 / ty.bits()).max(1))
}

/// A thread's values in an operand with `rows` rows and K columns: the elements of a register, then
/// `blocks` of rows (count, distance), then the registers along K. Like CuTe, leaves out modes of
/// extent 1, and the tuple around a single mode unless elements have 4 bits.
#[inline]
pub(super) fn values(
    ty: ValType,
    blocks: &[(i64, i64)],
    rows: i64,
    k: i64,
) -> Result<Layout, LayoutError> {
    let p = per_register(ty);
    let registers = (k / (4 * p), 4 * p * rows);
    let all = [(p, rows)].into_iter().chain(blocks.iter().copied()).chain([registers]);
    let modes: Vec<Layout> =
        all.filter(|(n, _)| *n != 1).map(|(n, stride)| Layout::leaf(n, stride)).collect();
    match modes.as_slice() {
        [] => Ok(Layout::trivial()),
        [one] if ty.bits() != 4 => Ok(one.clone()),
        _ => Layout::concat(&modes),
    }
}

/// A thread's values in C with `m` rows: two columns, then the blocks of eight rows.
#[inline]
fn values_c(m: i64) -> Result<Layout, LayoutError> {
    let columns = Layout::leaf(2, m);
    if m == 8 { Ok(columns) } else { Layout::concat(&[columns, Layout::leaf(m / 8, 8)]) }
}
