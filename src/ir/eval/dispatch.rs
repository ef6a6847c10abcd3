//! Macros that map an IR type to a Rust type, so that one generic expression serves every type of
//! an operation. The files that evaluate a family use them.
//!
//! Each macro evaluates an expression with a type name bound to the Rust type of a scalar or packed
//! vector. The result is `None` for types that the macro does not list.

/// Evaluates to `Some($body)` with `$T` as the Rust type for `$type`, which must be in the list:
/// scalars first, then packed vectors.
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
/// Integers, all unsigned, for operations that do not depend on the sign.
macro_rules! with_unsigned {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [I8 u8, I16 u16, I32 u32, I64 u64, U8 u8, U16 u16, U32 u32, U64 u64], $T => $body)
    };
}
/// Whole words. Narrow values are zero-extended in them.
macro_rules! with_word {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool u32, I8 u32, I16 u32, I32 u32, I64 u64, U8 u32, U16 u32, U32 u32,
            U64 u64], $T => $body)
    };
}
/// Integers with arithmetic modulo a power of two, all unsigned, then floating-point types.
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
/// Types with an integer order. Zero-extended words order unsigned values and `bool` correctly.
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
/// Integer types as conversion sources. Zero-extended words hold narrow unsigned values exactly.
macro_rules! with_source {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool bool, I8 i8, I16 i16, I32 i32, I64 i64, U8 u32, U16 u32, U32 u32,
            U64 u64], $T => $body)
    };
}
/// Conversion targets for integers. The bits do not depend on the target's sign.
macro_rules! with_target {
    ($s:expr, $T:ident => $body:expr) => {
        $crate::ir::eval::with_type!($s, [Bool bool, I8 u8, I16 u16, I32 u32, I64 u64, U8 u8, U16 u16, U32 u32,
            U64 u64, F32 f32, F64 f64], $T => $body)
    };
}
/// Conversion targets for floating-point values.
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
