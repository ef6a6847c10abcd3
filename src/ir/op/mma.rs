//! Attributes of tensor core operations, such as shape and types, and the registers that their
//! fragments occupy. Kernel authors pass them to the builder's MMA methods; the simulator and the
//! PTX writer read them back.

use std::fmt;
use std::str::FromStr;

use crate::ir::name::named;
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

/// The shape of one MMA (matrix multiply-accumulate): `D[m, n] += A[m, k] B[k, n]`. It prints as
/// PTX's name, for example `m16n8k16`.
///
/// ```
/// use tilewright::ir::op::MmaShape;
/// let shape = MmaShape { m: 64, n: 200, k: 16 };
/// assert_eq!(shape.to_string(), "m64n200k16");
/// assert_eq!("m64n200k16".parse(), Ok(shape));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmaShape {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A and rows of B.
    pub k: u32,
}

impl fmt::Display for MmaShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}n{}k{}", self.m, self.n, self.k)
    }
}

/// The error that `parse` returns for a text that is not an MMA shape.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseMmaShapeError {
    text: String,
}

impl fmt::Display for ParseMmaShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a shape: expected one such as `m16n8k16`", self.text.escape_debug())
    }
}

impl std::error::Error for ParseMmaShapeError {}
crate::errors::message_as_debug!(ParseMmaShapeError);

impl FromStr for MmaShape {
    type Err = ParseMmaShapeError;

    fn from_str(text: &str) -> Result<MmaShape, ParseMmaShapeError> {
        let read = || {
            let (m, rest) = text.strip_prefix('m')?.split_once('n')?;
            let (n, k) = rest.split_once('k')?;
            let [m, n, k] = [m.parse().ok()?, n.parse().ok()?, k.parse().ok()?];
            Some(MmaShape { m, n, k })
        };
        // Accept only the canonical spelling, so that parsed text prints unchanged.
        let shape = read().filter(|shape: &MmaShape| shape.to_string() == text);
        shape.ok_or_else(|| ParseMmaShapeError { text: text.to_owned() })
    }
}

/// How many 8x8 matrices of 16-bit elements one `ldmatrix` or `stmatrix` moves (PTX
/// ISA 9.7.14.5.15). Use as many as the fragment needs, because each instruction has a cost of its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixCount {
    /// One. Lanes 0 to 7 supply its row addresses.
    X1,
    /// Two. Lanes 0 to 15 supply the row addresses.
    X2,
    /// Four. All lanes supply row addresses.
    X4,
}

impl MatrixCount {
    /// Returns 1, 2 or 4.
    pub const fn matrices(self) -> u32 {
        match self {
            MatrixCount::X1 => 1,
            MatrixCount::X2 => 2,
            MatrixCount::X4 => 4,
        }
    }

    /// Returns the count for `matrices`: 1, 2 or 4, otherwise `None`.
    pub const fn of(matrices: u32) -> Option<MatrixCount> {
        match matrices {
            1 => Some(MatrixCount::X1),
            2 => Some(MatrixCount::X2),
            4 => Some(MatrixCount::X4),
            _ => None,
        }
    }
}

/// Whether `ldmatrix` and `stmatrix` transpose each 8x8 matrix. Use `Trans` if the matrix in memory
/// is the transpose of what the MMA wants. A printed kernel shows `trans`, and nothing for `Rows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatrixOrder {
    /// As stored: each thread holds two neighbouring elements of a row in memory.
    #[default]
    Rows,
    /// Transposed: each thread holds two neighbouring elements of a column in memory.
    Trans,
}

/// What an `mma.sync` does if an integer accumulator leaves the range of `i32`: wrap or clamp (PTX
/// ISA 9.7.14.5). A printed kernel shows `satfinite` for clamping, and nothing for wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MmaOverflow {
    /// Integers wrap. Floating-point accumulators follow their format.
    #[default]
    Wrap,
    /// Clamps sums to the range of `i32` (`.satfinite`). Only integer MMAs have it.
    Satfinite,
}

/// Whether [`setmaxnreg`](crate::ir::Body::setmaxnreg) raises or lowers the warp's register limit
/// (PTX ISA 9.7.19.5). Producer warps lower it, so that consumer warps can raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetmaxnregAction {
    /// Requests more registers, and waits until they are available.
    Inc,
    /// Releases the registers above the limit.
    Dec,
}

named! {
    MatrixCount, "a matrix count": X1 = "x1", X2 = "x2", X4 = "x4";
    MatrixOrder, "an order of matrices": Rows = "", Trans = "trans";
    MmaOverflow, "a treatment of accumulator overflow": Wrap = "", Satfinite = "satfinite";
    SetmaxnregAction, "a change of registers": Inc = "inc", Dec = "dec";
}

/// The options of a `wgmma` (PTX ISA 9.7.15.5.2), for [`wgmma_with`](crate::ir::Body::wgmma_with).
/// Set the transpositions if the K dimension is not contiguous in shared memory. The options that
/// are set print separated by dots, for example `neg_a.tnsp_b`.
///
/// ```
/// use tilewright::ir::op::WgmmaForm;
/// let form = WgmmaForm { negate_a: true, transpose_b: true, ..WgmmaForm::default() };
/// assert_eq!(form.to_string(), "neg_a.tnsp_b");
/// assert_eq!("neg_a.tnsp_b".parse(), Ok(form));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WgmmaForm {
    /// Uses `-A` instead of A (`imm-scale-a` is -1). Only floating-point MMAs have it.
    pub negate_a: bool,
    /// Uses `-B` instead of B (`imm-scale-b` is -1). Only floating-point MMAs have it.
    pub negate_b: bool,
    /// A is M-major in shared memory (`imm-trans-a`). Only 16-bit types allow it.
    pub transpose_a: bool,
    /// B is N-major in shared memory (`imm-trans-b`). Only 16-bit types allow it.
    pub transpose_b: bool,
    /// Clamps sums to the range of `i32` (`.satfinite`). Only integer MMAs have it.
    pub satfinite: bool,
}

impl WgmmaForm {
    fn parts(&self) -> [(bool, &'static str); 5] {
        [
            (self.negate_a, "neg_a"),
            (self.negate_b, "neg_b"),
            (self.transpose_a, "tnsp_a"),
            (self.transpose_b, "tnsp_b"),
            (self.satfinite, "satfinite"),
        ]
    }
}

impl fmt::Display for WgmmaForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.parts().into_iter().filter(|(set, _)| *set).map(|(_, name)| name);
        f.write_str(&said.collect::<Vec<_>>().join("."))
    }
}

/// The error that `parse` returns for a text that is not a [`WgmmaForm`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseWgmmaFormError {
    text: String,
}

impl fmt::Display for ParseWgmmaFormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a form of wgmma: expected some of `neg_a`, `neg_b`, `tnsp_a`, `tnsp_b`, `satfinite` \
             in this order, separated by points",
            self.text.escape_debug()
        )
    }
}

impl std::error::Error for ParseWgmmaFormError {}
crate::errors::message_as_debug!(ParseWgmmaFormError);

impl FromStr for WgmmaForm {
    type Err = ParseWgmmaFormError;

    fn from_str(text: &str) -> Result<WgmmaForm, ParseWgmmaFormError> {
        let has = |part| text.split('.').any(|found| found == part);
        let form = WgmmaForm {
            negate_a: has("neg_a"),
            negate_b: has("neg_b"),
            transpose_a: has("tnsp_a"),
            transpose_b: has("tnsp_b"),
            satfinite: has("satfinite"),
        };
        let read = form.to_string() == text;
        read.then_some(form).ok_or_else(|| ParseWgmmaFormError { text: text.to_owned() })
    }
}

/// The accumulator registers of one thread: their type and count. Use it to declare registers for
/// an MMA shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulators {
    /// The type of each register: `f32`, `f64`, `i32`, or `f16x2`.
    pub ty: Type,
    /// How many registers each thread has.
    pub len: u32,
}

impl Accumulators {
    /// Returns the accumulators for an MMA of `shape` across `threads` threads, with registers of
    /// type `ty`. Returns `None` if `ty` is not an accumulator type.
    pub fn new(shape: MmaShape, threads: u32, ty: Type) -> Option<Accumulators> {
        let packed = match ty {
            Type::Scalar(Scalar::F32 | Scalar::F64 | Scalar::I32) => 1,
            Type::Vector(VectorType::F16X2) => 2,
            Type::Scalar(_) | Type::Vector(_) | Type::Pointer { .. } | Type::TensorMap { .. } => {
                return None;
            }
        };
        let elements = shape.m.checked_mul(shape.n)? / threads;
        Some(Accumulators { ty, len: elements / packed })
    }
}

/// Returns how many threads of each group of four supply metadata for an MMA whose sparse A has `k`
/// columns: 1, 2 or 4.
pub(crate) fn metadata_threads(elem: Scalar, k: u32) -> u32 {
    // A column of 16 rows takes one bit in each thread, or two for `tf32`.
    if elem == Scalar::Tf32 { k / 8 } else { k / 16 }
}

/// Returns a fragment's element type and its element count per thread, for a scalar or a vector.
pub(in crate::ir) fn fragment(ty: Type) -> Option<(Scalar, u32)> {
    match ty {
        Type::Scalar(scalar) => Some((scalar, 1)),
        Type::Vector(vector) => Some((vector.elem(), vector.lanes())),
        Type::Pointer { .. } | Type::TensorMap { .. } => None,
    }
}
