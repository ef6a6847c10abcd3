//! Attributes of tensor core operations, and the registers of their fragments.

use std::fmt;
use std::str::FromStr;

use crate::ir::name::named;
use crate::ir::types::{Scalar, Type};
use crate::ir::vector::VectorType;

/// The extents of one MMA (matrix multiply-accumulate) of the tensor cores: `D[m, n] += A[m, k] B[k, n]`. In
/// the text form PTX's name: `m16n8k16`.
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

/// A text that is no shape.
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
        // A number has one spelling, so that a text prints as it was read.
        let shape = read().filter(|shape: &MmaShape| shape.to_string() == text);
        shape.ok_or_else(|| ParseMmaShapeError { text: text.to_owned() })
    }
}

/// The number of 8x8 matrices of 16-bit elements that move at once (PTX ISA 9.7.14.5.15). In the text form
/// PTX's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixCount {
    /// One: the addresses of lanes 0 to 7 count.
    X1,
    /// Two: those of lanes 0 to 15.
    X2,
    /// Four: those of all lanes.
    X4,
}

impl MatrixCount {
    /// The number of matrices: 1, 2 or 4.
    pub const fn matrices(self) -> u32 {
        match self {
            MatrixCount::X1 => 1,
            MatrixCount::X2 => 2,
            MatrixCount::X4 => 4,
        }
    }

    /// The count of `matrices` matrices: 1, 2 or 4, else `None`.
    pub const fn of(matrices: u32) -> Option<MatrixCount> {
        match matrices {
            1 => Some(MatrixCount::X1),
            2 => Some(MatrixCount::X2),
            4 => Some(MatrixCount::X4),
            _ => None,
        }
    }
}

/// The orientation of the 8x8 matrices of `ldmatrix` and `stmatrix`: as stored, or transposed. In the text form
/// nothing, or `trans`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatrixOrder {
    /// A thread has two neighbours of a row of memory.
    #[default]
    Rows,
    /// A thread has two neighbours of a column of memory.
    Trans,
}

/// The treatment of integer accumulators beyond the range of `i32` in an `mma.sync` (PTX ISA 9.7.14.5). In the
/// text form nothing, or `satfinite`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MmaOverflow {
    /// They wrap; accumulators of floating point follow their format.
    #[default]
    Wrap,
    /// They are cut to the range: `.satfinite`. For integers.
    Satfinite,
}

/// The direction in which `setmaxnreg` changes the registers of a warp (PTX ISA 9.7.19.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SetmaxnregAction {
    /// Asks for more, and waits until they are there.
    Inc,
    /// Gives those above the number back.
    Dec,
}

named! {
    MatrixCount, "a number of matrices": X1 = "x1", X2 = "x2", X4 = "x4";
    MatrixOrder, "an order of matrices": Rows = "", Trans = "trans";
    MmaOverflow, "what becomes of accumulators that are too large": Wrap = "", Satfinite = "satfinite";
    SetmaxnregAction, "a change of registers": Inc = "inc", Dec = "dec";
}

/// The options of a `wgmma` (PTX ISA 9.7.15.5.2). In the text form nothing, or parts with points between:
/// `neg_a.tnsp_b`.
///
/// ```
/// use tilewright::ir::op::WgmmaForm;
/// let form = WgmmaForm { negate_a: true, transpose_b: true, ..WgmmaForm::default() };
/// assert_eq!(form.to_string(), "neg_a.tnsp_b");
/// assert_eq!("neg_a.tnsp_b".parse(), Ok(form));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WgmmaForm {
    /// `-A` in place of A: `imm-scale-a` is -1. For floating point.
    pub negate_a: bool,
    /// `-B` in place of B: `imm-scale-b` is -1. For floating point.
    pub negate_b: bool,
    /// A is M-major in shared memory: `imm-trans-a`. For 16-bit types.
    pub transpose_a: bool,
    /// B is N-major in shared memory: `imm-trans-b`. For 16-bit types.
    pub transpose_b: bool,
    /// Sums are cut to the range of `i32`: `.satfinite`. For integers.
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

/// A text that is no form of `wgmma`.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseWgmmaFormError {
    text: String,
}

impl fmt::Display for ParseWgmmaFormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a form of wgmma: expected some of `neg_a`, `neg_b`, `tnsp_a`, `tnsp_b`, `satfinite` \
             in this order, with points between",
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

/// The registers of a fragment in a thread: their number, and the type of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulators {
    /// The type of a register: `f32`, `f64`, `i32`, or `f16x2`.
    pub ty: Type,
    /// The number of registers of a thread.
    pub len: u32,
}

impl Accumulators {
    /// Returns the accumulators of an MMA of `shape` by `threads` threads in registers of type `ty`; `None`
    /// where no accumulator has that type.
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

/// The threads of each group of four whose metadata a product with a sparse A of `k` columns reads: 1, 2 or 4.
pub(crate) fn metadata_threads(elem: Scalar, k: u32) -> u32 {
    // A bit for a column of 16 rows, two of `tf32`.
    if elem == Scalar::Tf32 { k / 8 } else { k / 16 }
}

/// The type of the elements of a fragment that a thread passes: those of a scalar or of a vector.
pub(in crate::ir) fn fragment(ty: Type) -> Option<(Scalar, u32)> {
    match ty {
        Type::Scalar(scalar) => Some((scalar, 1)),
        Type::Vector(vector) => Some((vector.elem(), vector.lanes())),
        Type::Pointer { .. } | Type::TensorMap { .. } => None,
    }
}
