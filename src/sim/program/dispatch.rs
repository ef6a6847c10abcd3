//! From a [`Type`](crate::ir::Type) known when a kernel is compiled to a Rust type.
//!
//! Each macro evaluates an expression with a type name bound to the Rust type of a scalar, or of a packed
//! vector, and returns [`Malformed`](super::refused::Refused::Malformed) from the function around it for a type
//! outside its class.

/// `$body` with `$T` as the Rust type of the type `$type`, which must be one of those listed: scalars, then
/// packed vectors.
macro_rules! with_type {
    ($type:expr, [$($Variant:ident $ty:ty),* $(; $($VECTOR:ident $packed:ty),*)?], $T:ident => $body:expr) => {
        match $crate::ir::Type::from($type) {
            $($crate::ir::Type::Scalar($crate::ir::Scalar::$Variant) => { type $T = $ty; $body })*
            $($($crate::ir::Type::Vector($crate::ir::VectorType::$VECTOR) => {
                type $T = $packed;
                $body
            })*)?
            _ => return Err($crate::sim::program::refused::Refused::Malformed),
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
            F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::sim::memory::lanes::Pair<$crate::ir::f16>,
            BF16X2 $crate::sim::memory::lanes::Pair<$crate::ir::bf16>], $T => $body)
    };
}
macro_rules! with_float {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64], $T => $body)
    };
}
macro_rules! with_fused {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::sim::memory::lanes::Pair<$crate::ir::f16>,
            BF16X2 $crate::sim::memory::lanes::Pair<$crate::ir::bf16>], $T => $body)
    };
}
macro_rules! with_signed {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64,
            F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::sim::memory::lanes::Pair<$crate::ir::f16>,
            BF16X2 $crate::sim::memory::lanes::Pair<$crate::ir::bf16>], $T => $body)
    };
}
macro_rules! with_ordered {
    ($s:expr, $T:ident => $body:expr) => {
        with_type!($s, [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
            U64 u64, F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64], $T => $body)
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

pub(in crate::sim) use {
    with_bits, with_float, with_fused, with_int, with_number, with_ordered, with_scalar,
    with_signed, with_type,
};
