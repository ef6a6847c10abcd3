//! From a [`Scalar`](crate::ir::Scalar) known when a kernel is compiled to a Rust type.
//!
//! Each macro evaluates an expression with a type name bound to the Rust type of a scalar, and returns
//! [`Malformed`](super::compile::Refused::Malformed) from the function around it for a scalar outside its class.

/// `$body` with `$T` as the Rust type of the scalar `$scalar`, which must be one of those listed.
macro_rules! with_type {
    ($scalar:expr, [$($Variant:ident $ty:ty),*], $T:ident => $body:expr) => {
        match $scalar {
            $($crate::ir::Scalar::$Variant => { type $T = $ty; $body })*
            #[allow(unreachable_patterns, reason = "some lists are complete")]
            _ => return Err($crate::runtime::sim::compile::Refused::Malformed),
        }
    };
}
macro_rules! with_int {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64], $T => $body)
    };
}
macro_rules! with_number {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            F32 f32, F64 f64], $T => $body)
    };
}
macro_rules! with_float {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [F32 f32, F64 f64], $T => $body)
    };
}
macro_rules! with_signed {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64, F32 f32, F64 f64], $T => $body)
    };
}
macro_rules! with_bits {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
            U64 u64], $T => $body)
    };
}
macro_rules! with_scalar {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
            U64 u64, F32 f32, F64 f64], $T => $body)
    };
}

pub(super) use {
    with_bits, with_float, with_int, with_number, with_scalar, with_signed, with_type,
};
