//! Makes operands of an MMA from words of weights, and applies scales.

use crate::ir::builder::{Arithmetic, FromInt4, Fused};
use crate::ir::op::PermuteMode;
use crate::ir::types::Scalar;
use crate::ir::{Element, Registers, Val, Vector, bf16, f16};

use super::kernel::X;
use super::weights::WeightFormat;

/// The scales of columns `g` and `g + 8` of a tile, and their zero points, two elements per word.
#[derive(Clone, Copy)]
pub(super) struct Scales<'b> {
    pub(super) scales: Val<'b, u32>,
    pub(super) zeros: Option<Val<'b, u32>>,
}

/// A lane's weights of a tile and step, as the pieces of 16 bytes that it loaded.
pub(super) struct StepWeights<'b> {
    pub(super) format: WeightFormat,
    pub(super) pieces: Vec<[Val<'b, u32>; 4]>,
}

impl<'b> StepWeights<'b> {
    /// Returns the A operand of the step's `mma.sync` with index `at`. Its columns are `g` and
    /// `g + 8`, in the first and the second 16 bytes of each pair of pieces if a weight has 8 bits
    /// or more.
    pub(super) fn operand(&self, at: u32, scales: Option<Scales<'b>>) -> Val<'b, Vector<X, 8>> {
        let word = |piece: u32, word: u32| self.pieces[piece as usize][word as usize];
        let words = match self.format {
            WeightFormat::Int4 { .. } => {
                let zeros = scales.and_then(|scales| scales.zeros);
                int4(word(at / 4, at % 4), zeros)
            }
            WeightFormat::Int8 { .. } | WeightFormat::E4m3 { .. } => {
                let [[a, c], [b, d]] =
                    [0, 1].map(|column| self.bytes(word(at / 4 * 2 + column, at % 4)));
                [a, b, c, d]
            }
            WeightFormat::Full => {
                let [[a, c], [b, d]] = [0, 1].map(|column| {
                    [0, 1].map(|second| word(at / 2 * 2 + column, at % 2 * 2 + second))
                });
                [a, b, c, d]
            }
        };
        Val::pack(words).bitcast()
    }

    /// Returns a word's four 8-bit weights as pairs of neighbours.
    fn bytes(&self, word: Val<'b, u32>) -> [Val<'b, u32>; 2] {
        let is_f16 = X::scalar() == Scalar::F16;
        match self.format {
            WeightFormat::Int8 { .. } if is_f16 => int8_to_f16(word),
            WeightFormat::Int8 { .. } => int8_to_bf16(word),
            _ if is_f16 => e4m3(word, 1, f16::from_f32(256.0)),
            _ => e4m3(word, 4, bf16::from_f32(f32::from_bits((127 + 120) << 23))),
        }
    }
}

/// Returns a word's eight 4-bit weights, without their scales.
#[inline]
fn int4<'b>(word: Val<'b, u32>, zeros: Option<Val<'b, u32>>) -> [Val<'b, u32>; 4] {
    match X::scalar() {
        Scalar::F16 => int4_to::<f16>(word, zeros),
        _ => int4_to::<bf16>(word, zeros),
    }
}

#[inline]
fn int4_to<'b, T: FromInt4>(word: Val<'b, u32>, zeros: Option<Val<'b, u32>>) -> [Val<'b, u32>; 4]
where
    Vector<T, 2>: Arithmetic + Fused,
{
    let pairs = match zeros {
        None => word.unpack_i4::<T>(),
        Some(zeros) => {
            let [low, high] = zeros.bitcast::<Vector<T, 2>>().lanes().map(Val::splat);
            word.unpack_u4_minus::<T>([low, high, low, high])
        }
    };
    pairs.map(|pair| pair.bitcast())
}

/// Selects two bytes of a word for `prmt`, as the low bytes of half words, with byte 0 of the other
/// operand above each.
const LOW_BYTES: [u32; 2] = [0x4140, 0x4342];
/// The same as the high bytes of half words, with byte 0 of the other operand below each.
const HIGH_BYTES: [u32; 2] = [0x1404, 0x3424];

#[inline]
fn int8_to_f16(word: Val<'_, u32>) -> [Val<'_, u32>; 2] {
    // `0x6400 | n` is the `f16` 1024 + n, for n = 128 more than the integer.
    let word = word ^ 0x8080_8080;
    LOW_BYTES.map(|bytes| {
        let pair = word.prmt(0x64, bytes, PermuteMode::Index).bitcast::<Vector<f16, 2>>();
        let offset = Val::splat(word.constant(f16::from_f32(1024.0 + 128.0)));
        (pair - offset).bitcast()
    })
}

#[inline]
fn int8_to_bf16(word: Val<'_, u32>) -> [Val<'_, u32>; 2] {
    // `0x4300 | n` is the `bf16` 128 + n, for the low 7 bits n. With the sign bit instead, it is 256
    // or 128: so the difference is n - 128 or n.
    LOW_BYTES.map(|bytes| {
        let pair = word.prmt(0x43, bytes, PermuteMode::Index);
        let of = |mask: u32| (pair & mask).bitcast::<Vector<bf16, 2>>();
        (of(0xff7f_ff7f) - of(0xff80_ff80)).bitcast()
    })
}

/// Converts 8-bit floats exactly: their bits, `shift` lower, are those of a float of the wider type
/// whose exponent has another bias, which the factor corrects.
#[inline]
fn e4m3<'b, T: FromInt4>(word: Val<'b, u32>, shift: u32, factor: T) -> [Val<'b, u32>; 2]
where
    Vector<T, 2>: Arithmetic + Fused,
{
    let magnitude = 0x7f00_7f00 >> shift;
    HIGH_BYTES.map(|bytes| {
        let pair = word.prmt(0, bytes, PermuteMode::Index);
        let bits = (pair >> shift & magnitude)
            .lop3(pair, 0x8000_8000, |bits, pair, sign| bits | pair & sign);
        let splat = |value| Val::<Vector<T, 2>>::splat(word.constant(value));
        // The zero is negative, so that the sum keeps the sign of a zero.
        let zero = T::from_bits(0x8000);
        bits.bitcast::<Vector<T, 2>>().fma(splat(factor), splat(zero)).bitcast()
    })
}

impl<'b> Scales<'b> {
    /// Adds `scale * part` to the sums.
    #[inline]
    pub(super) fn add(&self, sums: &Registers<'b, f32>, parts: &Registers<'b, f32>) {
        let factors = self.factors();
        for i in 0..sums.len() {
            sums.set(i, parts.get(i).fma(factors[i as usize / 2 % 2], sums.get(i)));
        }
    }

    /// Multiplies sums by the scales.
    #[inline]
    pub(super) fn multiply(&self, sums: &Registers<'b, f32>) {
        let factors = self.factors();
        for i in 0..sums.len() {
            sums.set(i, sums.get(i) * factors[i as usize / 2 % 2]);
        }
    }

    /// Returns the scales of columns `g` and `g + 8`.
    #[inline]
    fn factors(&self) -> [Val<'b, f32>; 2] {
        self.scales.bitcast::<Vector<X, 2>>().lanes().map(|scale| scale.cvt())
    }
}
