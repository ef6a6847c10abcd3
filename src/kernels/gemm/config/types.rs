//! Element types: [`InputTypes`] of A and B, the accumulator and output types that follow from
//! them, and how values convert between registers and memory.

use std::fmt;
use std::str::FromStr;

use crate::ir::ParseNameError;
use crate::ir::types::Scalar;
use crate::tensor::atom::ValType;

/// The element types of A and B as they are multiplied: one type, or two if they differ. A
/// configuration's constructors take it; one type converts to it.
///
/// It prints and parses the way configuration names spell it:
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::InputTypes;
///
/// let same = InputTypes::from(Scalar::Bf16);
/// assert_eq!((same.to_string().as_str(), same.output()), ("bf16", Scalar::Bf16));
/// let mixed = InputTypes::from([Scalar::F8E4M3, Scalar::F8E5M2]);
/// assert_eq!((mixed.a, mixed.b, mixed.output()), (Scalar::F8E4M3, Scalar::F8E5M2, Scalar::Bf16));
/// assert_eq!("f8e4m3xf8e5m2".parse(), Ok(mixed));
/// assert_eq!(InputTypes::from(Scalar::Tf32).in_memory(), Scalar::F32.into());
/// assert!("bf16xbf16".parse::<InputTypes>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct InputTypes {
    /// The type of A. `Tf32` means `f32` in memory.
    pub a: Scalar,
    /// The type of B.
    pub b: Scalar,
}

impl InputTypes {
    /// Returns the default type of D: `f32` for `tf32`, `bf16` for 8-bit floats, `i32` for 8-bit
    /// integers, else the type of A. The constructors of [`GemmConfig`](super::GemmConfig) set `d`
    /// to it.
    #[inline]
    pub const fn output(self) -> Scalar {
        match self.a {
            Scalar::Tf32 => Scalar::F32,
            Scalar::F8E4M3 | Scalar::F8E5M2 => Scalar::Bf16,
            Scalar::I8 | Scalar::U8 => Scalar::I32,
            other => other,
        }
    }

    /// Returns the accumulator type: `i32` for 8-bit integers, `f64` for `f64`, else `f32`.
    #[inline]
    pub(crate) const fn accumulator(self) -> Scalar {
        match self.a {
            Scalar::I8 | Scalar::U8 => Scalar::I32,
            Scalar::F64 => Scalar::F64,
            _ => Scalar::F32,
        }
    }

    /// Returns the types that the buffers have: `f32` for `tf32`, which exists only in the tensor
    /// cores, and everything else unchanged.
    #[inline]
    pub const fn in_memory(self) -> InputTypes {
        InputTypes { a: in_memory(self.a), b: in_memory(self.b) }
    }
}

impl From<Scalar> for InputTypes {
    #[inline]
    fn from(both: Scalar) -> InputTypes {
        InputTypes { a: both, b: both }
    }
}

impl From<[Scalar; 2]> for InputTypes {
    #[inline]
    fn from([a, b]: [Scalar; 2]) -> InputTypes {
        InputTypes { a, b }
    }
}

impl fmt::Display for InputTypes {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InputTypes { a, b } = self;
        if a == b { write!(f, "{a}") } else { write!(f, "{a}x{b}") }
    }
}

// Keys in the tuning store have this form.
impl fmt::Debug for InputTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InputTypes { a, b } = self;
        if a == b { write!(f, "{a:?}") } else { write!(f, "{a:?}x{b:?}") }
    }
}

impl FromStr for InputTypes {
    type Err = ParseNameError;

    #[inline]
    fn from_str(text: &str) -> Result<InputTypes, ParseNameError> {
        match text.split_once('x') {
            // Two equal types have one spelling only, the short one.
            Some((a, b)) if a != b => Ok(InputTypes { a: a.parse()?, b: b.parse()? }),
            _ => text.parse::<Scalar>().map(InputTypes::from),
        }
    }
}

/// Returns the MMA operand type for a scalar type, if there is one.
#[inline]
pub(crate) fn val_type(scalar: Scalar) -> Option<ValType> {
    Some(match scalar {
        Scalar::Bf16 => ValType::Bf16,
        Scalar::F16 => ValType::F16,
        Scalar::Tf32 => ValType::Tf32,
        Scalar::F32 => ValType::F32,
        Scalar::F8E4M3 => ValType::E4M3,
        Scalar::F8E5M2 => ValType::E5M2,
        Scalar::F64 => ValType::F64,
        Scalar::I32 => ValType::S32,
        Scalar::I8 => ValType::S8,
        Scalar::U8 => ValType::U8,
        _ => return None,
    })
}

/// Returns the type a scalar has in memory.
#[inline]
pub(crate) const fn in_memory(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Tf32 => Scalar::F32,
        other => other,
    }
}
