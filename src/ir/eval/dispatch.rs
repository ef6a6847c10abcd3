//! Macros from the type of a value to a Rust type.
//!
//! Each macro evaluates an expression with a type name bound to the Rust type of a scalar, or of a packed
//! vector. The result is `None` for a type outside the class of the macro.

/// `Some` of `$body` with `$T` as the Rust type of the type `$type`, which must be one of those listed:
/// scalars, then packed vectors.
macro_rules! with_type {
    ($type:expr, [$($Variant:ident $ty:ty),* $(; $($VECTOR:ident $packed:ty),*)?], $T:ident => $body:expr) => {
        match $crate::ir::types::Type::from($type) {
            $($crate::ir::types::Type::Scalar($crate::ir::types::Scalar::$Variant) => { type $T = $ty; Some($body) })*
            $($($crate::ir::types::Type::Vector($crate::ir::types::VectorType::$VECTOR) => {
                type $T = $packed;
                Some($body)
            })*)?
            _ => None,
        }
    };
}
/// Integers whose operation does not depend on the sign are unsigned.
macro_rules! with_unsigned {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [I8 u8, I16 u16, I32 u32, I64 u64, U8 u8, U16 u16, U32 u32, U64 u64], $T => $body)
    };
}
/// Whole words: values are zero-extended in them.
macro_rules! with_word {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool u32, I8 u32, I16 u32, I32 u32, I64 u64, U8 u32, U16 u32, U32 u32,
            U64 u64], $T => $body)
    };
}
/// Numbers with arithmetic modulo a power of two, then floating point ones.
macro_rules! with_modular {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [I8 u8, I16 u16, I32 u32, I64 u64, U8 u8, U16 u16, U32 u32, U64 u64,
            F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::ir::eval::Pair<$crate::ir::f16>,
            BF16X2 $crate::ir::eval::Pair<$crate::ir::bf16>], $T => $body)
    };
}
macro_rules! with_int {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64], $T => $body)
    };
}
macro_rules! with_number {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32, U64 u64,
            F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::ir::eval::Pair<$crate::ir::f16>,
            BF16X2 $crate::ir::eval::Pair<$crate::ir::bf16>], $T => $body)
    };
}
macro_rules! with_float {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64], $T => $body)
    };
}
macro_rules! with_fused {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::ir::eval::Pair<$crate::ir::f16>,
            BF16X2 $crate::ir::eval::Pair<$crate::ir::bf16>], $T => $body)
    };
}
macro_rules! with_signed {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [I8 i8, I16 i16, I32 i32, I64 i64,
            F16 $crate::ir::f16, Bf16 $crate::ir::bf16, F32 f32, F64 f64;
            F16X2 $crate::ir::eval::Pair<$crate::ir::f16>,
            BF16X2 $crate::ir::eval::Pair<$crate::ir::bf16>], $T => $body)
    };
}
/// Types that are ordered as integers. Zero-extended words have the order of unsigned values, and that of `bool`.
macro_rules! with_ordered {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool u32, I8 i8, I16 i16, I32 i32, I64 i64, U8 u32, U16 u32, U32 u32,
            U64 u64], $T => $body)
    };
}
macro_rules! with_bits {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool bool, I8 u8, I16 u16, I32 u32, I64 u64, U8 u8, U16 u16, U32 u32,
            U64 u64], $T => $body)
    };
}
/// Integers that are converted: zero-extended words have the numbers of narrow unsigned values.
macro_rules! with_source {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u32, U16 u32, U32 u32,
            U64 u64], $T => $body)
    };
}
/// Types that integers are converted to: the bits do not depend on the sign of the result.
macro_rules! with_target {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool bool, I8 u8, I16 u16, I32 u32, I64 u64, U8 u8, U16 u16, U32 u32,
            U64 u64, F32 f32, F64 f64], $T => $body)
    };
}
/// Types that floating point numbers are converted to.
macro_rules! with_scalar {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u8, U16 u16, U32 u32,
            U64 u64, F32 f32, F64 f64], $T => $body)
    };
}

pub(crate) use {
    with_bits, with_float, with_fused, with_int, with_modular, with_number, with_ordered,
    with_scalar, with_signed, with_source, with_target, with_type, with_unsigned, with_word,
};
