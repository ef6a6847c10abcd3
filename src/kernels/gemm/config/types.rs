//! The types of elements in memory and in instructions.

use std::fmt;
use std::str::FromStr;

use crate::ir::types::{Rounding, Scalar};
use crate::ir::{ParseNameError, Val};
use crate::tensor::ValType;

use crate::kernels::gemm::elements::Sum;

/// The types in which the elements of A and B are multiplied: one scalar type, or two where they differ.
///
/// It prints, and is parsed, as the names of configurations have it:
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
    /// The type of A. `Tf32` is in memory as `f32`.
    pub a: Scalar,
    /// The type of B.
    pub b: Scalar,
}

impl InputTypes {
    /// Returns the type of D that goes with these types where a program names none: `f32` for `tf32`, `bf16` for floats and
    /// `i32` for integers of 8 bits, and else the type of A.
    #[inline]
    pub const fn output(self) -> Scalar {
        match self.a {
            Scalar::Tf32 => Scalar::F32,
            Scalar::F8E4M3 | Scalar::F8E5M2 => Scalar::Bf16,
            Scalar::I8 | Scalar::U8 => Scalar::I32,
            other => other,
        }
    }

    /// Returns the type of the accumulators.
    #[inline]
    pub(crate) const fn accumulator(self) -> Scalar {
        match self.a {
            Scalar::I8 | Scalar::U8 => Scalar::I32,
            Scalar::F64 => Scalar::F64,
            _ => Scalar::F32,
        }
    }

    /// Returns the types of the elements in memory: `f32` for `tf32`.
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

// Keys of problems in a tuning store have this form.
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
            // Equal types have one name.
            Some((a, b)) if a != b => Ok(InputTypes { a: a.parse()?, b: b.parse()? }),
            _ => text.parse::<Scalar>().map(InputTypes::from),
        }
    }
}

/// The instruction's name of a type.
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

/// The type of elements in memory.
#[inline]
pub(crate) const fn in_memory(scalar: Scalar) -> Scalar {
    match scalar {
        Scalar::Tf32 => Scalar::F32,
        other => other,
    }
}

/// Converts accumulators to the numbers in which an epilogue computes, and these to elements of D. Accumulators and elements of type
/// `i32` are in `f32` registers with the same bits.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    /// The types of accumulators and of D.
    pub(crate) acc: Scalar,
    pub(crate) d: Scalar,
}

impl Numbers {
    /// Returns accumulators as numbers.
    #[inline]
    pub(crate) fn of_accumulators<'b>(self, accumulators: [Val<'b, Sum>; 2]) -> [Val<'b, Sum>; 2] {
        accumulators.map(|accumulator| match self.acc {
            Scalar::I32 => accumulator.bitcast::<i32>().cvt::<Sum>(),
            _ => accumulator,
        })
    }

    /// Returns a number as an element of D.
    #[inline]
    pub(crate) fn stored(self, value: Val<'_, Sum>) -> Val<'_, Sum> {
        match self.d {
            Scalar::I32 => value.cvt_rint::<i32>(Rounding::NearestEven).bitcast(),
            _ => value,
        }
    }
}
