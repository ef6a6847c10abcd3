//! Operators and comparisons on [`TensorSsa`], so that you can write `&a * &b + c` for whole
//! fragments.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::ir::builder::{Bits, Signed};
use crate::ir::{Element, Integer, Number, Val, bf16, f16};

use super::{SsaCow, SsaOperand, TensorSsa};

/// Turns the operand into a tensor; a single value gets extent 1.
pub(super) fn tensor<T>(operand: SsaCow<'_, T>) -> TensorSsa<'_, T> {
    match operand {
        SsaCow::Tensor(tensor) => tensor,
        SsaCow::Value(value) => TensorSsa { shape: 1.into(), values: vec![value] },
    }
}

macro_rules! operators {
    ($($Trait:ident $method:ident $Bound:ident $Right:ty;)*) => {$(
        /// Works element by element. Either side can be a single value, and extents of 1 are
        /// broadcast.
        impl<'b, T: $Bound, R: SsaOperand<'b, $Right>> $Trait<R> for &TensorSsa<'b, T> {
            type Output = TensorSsa<'b, T>;

            #[track_caller]
            fn $method(self, rhs: R) -> TensorSsa<'b, T> {
                let Some(any) = self.first() else { return self.clone() };
                let (mut a, b) = self.repeated_with(&tensor(rhs.operand(any)));
                for (x, y) in a.values.iter_mut().zip(b.values) {
                    *x = x.$method(y);
                }
                a
            }
        }

        /// Works element by element. Either side can be a single value, and extents of 1 are
        /// broadcast.
        impl<'b, T: $Bound, R: SsaOperand<'b, $Right>> $Trait<R> for TensorSsa<'b, T> {
            type Output = TensorSsa<'b, T>;

            #[track_caller]
            fn $method(self, rhs: R) -> TensorSsa<'b, T> {
                (&self).$method(rhs)
            }
        }
    )*};
}

operators! {
    Add add Number T;
    Sub sub Number T;
    Mul mul Number T;
    Div div Number T;
    Rem rem Integer T;
    BitAnd bitand Bits T;
    BitOr bitor Bits T;
    BitXor bitxor Bits T;
    Shl shl Integer u32;
    Shr shr Integer u32;
}

/// Operators with a single value on the left. The coherence rules forbid a type parameter there, so
/// every type gets its own impl. `#[inline]` keeps those hundreds of functions out of builds that
/// do not call them.
macro_rules! on_the_left {
    ($($Trait:ident $method:ident [$($ty:ty)*];)*) => {$($(
        on_the_left!(@ $Trait $method $ty, $ty);
        on_the_left!(@ $Trait $method Val<'b, $ty>, $ty);
    )*)*};
    (@ $Trait:ident $method:ident $Left:ty, $ty:ty) => {
        /// Takes a single value on the left.
        impl<'b> $Trait<&TensorSsa<'b, $ty>> for $Left {
            type Output = TensorSsa<'b, $ty>;

            #[inline]
            #[track_caller]
            fn $method(self, rhs: &TensorSsa<'b, $ty>) -> TensorSsa<'b, $ty> {
                let Some(any) = rhs.first() else { return rhs.clone() };
                tensor(SsaOperand::<$ty>::operand(self, any)).$method(rhs)
            }
        }

        /// Takes a single value on the left.
        impl<'b> $Trait<TensorSsa<'b, $ty>> for $Left {
            type Output = TensorSsa<'b, $ty>;

            #[inline]
            #[track_caller]
            fn $method(self, rhs: TensorSsa<'b, $ty>) -> TensorSsa<'b, $ty> {
                self.$method(&rhs)
            }
        }
    };
}

on_the_left! {
    Add add [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Sub sub [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Mul mul [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Div div [i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64];
    Rem rem [i8 i16 i32 i64 u8 u16 u32 u64];
    BitAnd bitand [bool i8 i16 i32 i64 u8 u16 u32 u64];
    BitOr bitor [bool i8 i16 i32 i64 u8 u16 u32 u64];
    BitXor bitxor [bool i8 i16 i32 i64 u8 u16 u32 u64];
}

macro_rules! of_one {
    ($($Trait:ident $method:ident [$($Bound:tt)*];)*) => {$(
        /// Works element by element.
        impl<'b, T: $($Bound)*> $Trait for &TensorSsa<'b, T> {
            type Output = TensorSsa<'b, T>;

            #[track_caller]
            fn $method(self) -> TensorSsa<'b, T> {
                let mut tensor = self.clone();
                for value in &mut tensor.values {
                    *value = value.$method();
                }
                tensor
            }
        }

        /// Works element by element.
        impl<'b, T: $($Bound)*> $Trait for TensorSsa<'b, T> {
            type Output = TensorSsa<'b, T>;

            #[track_caller]
            fn $method(self) -> TensorSsa<'b, T> {
                (&self).$method()
            }
        }
    )*};
}

of_one! {
    Neg neg [Signed + Element];
    Not not [Bits];
}

macro_rules! compares {
    ($($method:ident)*) => {
        /// Comparisons, element by element; operands broadcast as in operators.
        impl<'b, T: Number> TensorSsa<'b, T> {$(
            #[doc = concat!("[`Val::", stringify!($method), "`]")]
            #[track_caller]
            pub fn $method(&self, rhs: impl SsaOperand<'b, T>) -> TensorSsa<'b, bool> {
                let Some(any) = self.first() else {
                    return TensorSsa { shape: self.shape.clone(), values: Vec::new() };
                };
                let (a, b) = self.repeated_with(&tensor(rhs.operand(any)));
                let mut values = Vec::with_capacity(a.values.len());
                for (x, y) in a.values.iter().zip(b.values) {
                    values.push(x.$method(y));
                }
                TensorSsa { shape: a.shape, values }
            }
        )*}
    };
}
compares!(eq ne lt le gt ge);
