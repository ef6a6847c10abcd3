//! Combines elements on the host. The simulator's communicator uses it for reductions.

use crate::ir::types::Scalar;
use crate::ir::{Element, bf16, f16};

use super::call::ReduceOp;

/// Returns whether NCCL, and therefore the simulator, can reduce elements of this type.
pub(in crate::runtime) fn reduces(scalar: Scalar) -> bool {
    match scalar {
        Scalar::I8
        | Scalar::U8
        | Scalar::I32
        | Scalar::U32
        | Scalar::I64
        | Scalar::U64
        | Scalar::F16
        | Scalar::Bf16
        | Scalar::F32
        | Scalar::F64 => true,
        Scalar::Bool
        | Scalar::I16
        | Scalar::U16
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::Tf32 => false,
    }
}

/// Combines the elements of all ranks in rank order. 16-bit floating-point elements are combined as
/// `f32` and rounded once. All parts must have the same length.
#[inline]
pub(super) fn reduce(op: ReduceOp, scalar: Scalar, parts: &[&[u8]]) -> Vec<u8> {
    match scalar {
        Scalar::I8 => of::<i8, 1>(op, parts, i8::from_le_bytes, i8::to_le_bytes),
        Scalar::I32 => of::<i32, 4>(op, parts, i32::from_le_bytes, i32::to_le_bytes),
        Scalar::I64 => of::<i64, 8>(op, parts, i64::from_le_bytes, i64::to_le_bytes),
        Scalar::U32 => of::<u32, 4>(op, parts, u32::from_le_bytes, u32::to_le_bytes),
        Scalar::U64 => of::<u64, 8>(op, parts, u64::from_le_bytes, u64::to_le_bytes),
        Scalar::F32 => of::<f32, 4>(op, parts, f32::from_le_bytes, f32::to_le_bytes),
        Scalar::F64 => of::<f64, 8>(op, parts, f64::from_le_bytes, f64::to_le_bytes),
        Scalar::F16 => {
            let read = |bytes| f16::from_bits(u16::from_le_bytes(bytes)).to_f32();
            let write = |x| (f16::from_f32(x).to_const().bits() as u16).to_le_bytes();
            of::<f32, 2>(op, parts, read, write)
        }
        Scalar::Bf16 => {
            let read =
                |bytes| <bf16 as Element>::from_bits(u16::from_le_bytes(bytes).into()).to_f32();
            let write = |x| (bf16::from_f32(x).to_const().bits() as u16).to_le_bytes();
            of::<f32, 2>(op, parts, read, write)
        }
        // These are reduced as bytes; the front refuses all of them but `u8`.
        Scalar::U8
        | Scalar::Bool
        | Scalar::I16
        | Scalar::U16
        | Scalar::F8E4M3
        | Scalar::F8E5M2
        | Scalar::Tf32 => of::<u8, 1>(op, parts, u8::from_le_bytes, u8::to_le_bytes),
    }
}

/// A type that reductions can compute with.
trait Combine: Copy {
    fn combine(self, op: ReduceOp, other: Self) -> Self;
    fn average(self, ranks: usize) -> Self;
}

macro_rules! combine {
    ($($number:ident: |$a:ident, $b:ident| $add:expr, $multiply:expr, |$sum:ident, $ranks:ident| $average:expr;)*) => {$(
        impl Combine for $number {
            fn combine(self, op: ReduceOp, other: Self) -> Self {
                let ($a, $b) = (self, other);
                match op {
                    ReduceOp::Sum | ReduceOp::Average => $add,
                    ReduceOp::Product => $multiply,
                    ReduceOp::Min => $a.min($b),
                    ReduceOp::Max => $a.max($b),
                }
            }

            fn average(self, ranks: usize) -> Self {
                let ($sum, $ranks) = (self, ranks.max(1));
                $average
            }
        }
    )*};
}

macro_rules! combine_integers {
    ($($number:ident)*) => {$(
        combine! {
            $number: |a, b| a.wrapping_add(b), a.wrapping_mul(b), |a, n| (i128::from(a) / n as i128) as $number;
        }
    )*};
}

combine_integers! { i8 u8 i32 u32 i64 u64 }

combine! {
    f32: |a, b| a + b, a * b, |a, n| a / n as f32;
    f64: |a, b| a + b, a * b, |a, n| a / n as f64;
}

fn of<N: Combine, const BYTES: usize>(
    op: ReduceOp,
    parts: &[&[u8]],
    read: fn([u8; BYTES]) -> N,
    write: fn(N) -> [u8; BYTES],
) -> Vec<u8> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let mut out = Vec::with_capacity(first.len());
    for (i, bytes) in first.as_chunks().0.iter().enumerate() {
        let mut all = read(*bytes);
        for other in others {
            if let Some(bytes) = other.as_chunks().0.get(i) {
                all = all.combine(op, read(*bytes));
            }
        }
        let result = if op == ReduceOp::Average { all.average(parts.len()) } else { all };
        out.extend_from_slice(&write(result));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_combined_and_rounded_once() {
        let bytes = |x: f32| (bf16::from_f32(x).to_const().bits() as u16).to_le_bytes();
        // 256 + 1 rounds to 256 in `bf16`, but 256 + 1 + 1 is 258.
        let parts = [bytes(256.0), bytes(1.0), bytes(1.0)];
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        assert_eq!(reduce(ReduceOp::Sum, Scalar::Bf16, &parts), bytes(258.0));
        assert_eq!(reduce(ReduceOp::Max, Scalar::Bf16, &parts), bytes(256.0));
        let parts: [&[u8]; 3] = [&[250, 1], &[4, 2], &[7, 9]];
        assert_eq!(reduce(ReduceOp::Sum, Scalar::U8, &parts), [5, 12]);
        assert_eq!(reduce(ReduceOp::Average, Scalar::U8, &parts[1..]), [5, 5]);
        assert_eq!(reduce(ReduceOp::Product, Scalar::I8, &parts[1..]), [28, 18]);
        assert_eq!(reduce(ReduceOp::Min, Scalar::U8, &parts), [4, 1]);
        assert!(reduces(Scalar::I8) && !reduces(Scalar::I16));
    }
}
