//! [`packed`]: rounds accumulators to the output type and packs them into 32-bit words. The GEMM
//! epilogues call it before they store.

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::{Rounding, Scalar};
use crate::ir::{Integer, Val, Vector, bf16, f8e4m3, f8e5m2, f16};

/// Converts accumulators to elements of type `elem` and packs them into words, lowest bits first.
/// Conversion rounds to nearest; 8-bit integers saturate. For 32-bit elements the words are the
/// accumulators' bits.
#[track_caller]
#[inline]
pub(crate) fn packed<'b>(elem: Scalar, values: &[Val<'b, f32>]) -> Vec<Val<'b, u32>> {
    match elem {
        Scalar::F16 => halves::<f16>(values),
        Scalar::Bf16 => halves::<bf16>(values),
        Scalar::F8E4M3 => bytes::<f8e4m3>(values),
        Scalar::F8E5M2 => bytes::<f8e5m2>(values),
        Scalar::I8 => values.chunks(4).map(|some| integers::<i8>(some).bitcast()).collect(),
        Scalar::U8 => values.chunks(4).map(|some| integers::<u8>(some).bitcast()).collect(),
        _ => values.iter().map(|value| value.bitcast()).collect(),
    }
}

/// Packs two elements; a missing second one is 0.
#[track_caller]
fn two<'b, D: Converted + VectorElement<2>>(values: &[Val<'b, f32>]) -> Val<'b, Vector<D, 2>> {
    let first = values[0];
    let second = values.get(1).copied().unwrap_or(first.constant(0.0));
    Val::<Vector<f32, 2>>::pack([first, second]).cvt::<D>()
}

#[track_caller]
fn halves<'b, D: Converted + VectorElement<2>>(values: &[Val<'b, f32>]) -> Vec<Val<'b, u32>> {
    values.chunks(2).map(|some| two::<D>(some).bitcast()).collect()
}

#[track_caller]
fn bytes<'b, D: Converted + VectorElement<2>>(values: &[Val<'b, f32>]) -> Vec<Val<'b, u32>> {
    let word = |some: &[Val<'b, f32>]| {
        let mut pairs = some.chunks(2).map(|some| two::<D>(some).bitcast::<u16>());
        match (pairs.next(), pairs.next()) {
            (Some(low), Some(high)) => Val::<Vector<u16, 2>>::pack([low, high]).bitcast(),
            (Some(low), None) => low.cvt::<u32>(),
            (None, _) => some[0].constant(0),
        }
    };
    values.chunks(4).map(word).collect()
}

/// Packs four integers; missing ones are 0.
///
/// Each is converted on its own. If a `cvt.pack` follows a conversion from `f32`, `ptxas` 13.0
/// emits `F2IP`, and kernels with it hit an illegal instruction on an H100.
#[track_caller]
fn integers<'b, D: Integer + VectorElement<4>>(values: &[Val<'b, f32>]) -> Val<'b, Vector<D, 4>> {
    Val::pack([0, 1, 2, 3].map(|i| match values.get(i) {
        Some(value) => value.cvt_rint::<D>(Rounding::NearestEven),
        None => values[0].constant(D::ZERO),
    }))
}
