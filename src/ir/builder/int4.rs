//! Unpacks words of eight 4-bit integers into pairs of `f16` or `bf16`, for quantised weights.
//!
//! The trick: take a float `base` whose last mantissa bit is worth 1, and put the 4-bit integer `n`
//! into its lowest bits. The result is `base + n`: `0x6400 | n` is the `f16` value `1024 + n`,
//! `0x4300 | n` is the `bf16` value `128 + n`. So one `lop3` masks the integers in both half words
//! and sets their exponents, and one exact subtraction leaves `n`. The mantissa of `f16` is wide
//! enough for an integer 4 bits higher, as `1024 + 16 n`; an `fma` then also multiplies by 1/16,
//! which saves the shift.

use super::typed::{Arithmetic, Converted, Fused, Val};
use super::vector::{Vector, VectorElement};
use crate::ir::narrow::{bf16, f16};

/// A type that 4-bit integers can be unpacked to: [`f16`](struct@f16) and [`bf16`]. You name it as
/// a bound in code that is generic over the two.
pub trait FromInt4: VectorElement<2> + Converted {
    /// `base` in both half words: the float whose last mantissa bit is worth 1.
    #[doc(hidden)]
    const BASE_BITS: u32;
    /// `base` as a value.
    #[doc(hidden)]
    const BASE: f32;
    /// True if the mantissa also has room for an integer 4 bits higher.
    #[doc(hidden)]
    const HOLDS_HIGH: bool;
    /// Converts a value that the type represents exactly.
    #[doc(hidden)]
    fn exact(value: f32) -> Self;
}

impl FromInt4 for f16 {
    const BASE_BITS: u32 = 0x6400_6400;
    const BASE: f32 = 1024.0;
    const HOLDS_HIGH: bool = true;
    fn exact(value: f32) -> f16 {
        f16::from_f32(value)
    }
}

impl FromInt4 for bf16 {
    const BASE_BITS: u32 = 0x4300_4300;
    const BASE: f32 = 128.0;
    const HOLDS_HIGH: bool = false;
    fn exact(value: f32) -> bf16 {
        bf16::from_f32(value)
    }
}

/// # 4-bit integers
///
/// Unpacks a word of eight 4-bit integers, `n0` in the lowest bits, for GEMMs with quantised
/// weights.
///
/// A pair holds two integers that are 16 bits apart, because one instruction works on both half
/// words: `[n0 n4] [n1 n5] [n2 n6] [n3 n7]`. If you pack the weights on the host in the order `0 2
/// 4 6 1 3 5 7`, neighbours come out together:
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{GlobalMut, Kernel, Target, bf16};
/// use tilewright::runtime::{Device, Grid};
///
/// // Signed weights -4 to 3, packed so that neighbours make pairs.
/// let weights: [i32; 8] = std::array::from_fn(|i| i as i32 - 4);
/// let order = [0, 2, 4, 6, 1, 3, 5, 7];
/// let word = (0..).zip(order).fold(0, |word, (i, at)| word | (weights[at] as u32 & 15) << (4 * i));
///
/// type Params = (GlobalMut<u32>, GlobalMut<bf16>);
/// let kernel = Kernel::<Params>::build("unpack", Target::SM_80, |_, (x, y)| {
///     let pairs = x.load(0).unpack_i4::<bf16>();
///     y.store_slice(0, &pairs.map(|pair| pair.lanes()).concat());
/// })?;
/// let device = Device::sim()?;
/// let (mut x, mut y) = (device.upload(&[word])?, device.zeros::<bf16>(8)?);
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x, &mut y))?;
/// assert_eq!(y.to_vec()?, weights.map(|weight| bf16::from_f32(weight as f32)));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<'b> Val<'b, u32> {
    /// Unpacks unsigned integers, 0 to 15, to the same values in `T`; pair `i` is `[n(i) n(i+4)]`.
    /// Each pair costs two instructions, a `lop3` and a `sub` or `fma`. Shifts cost three more
    /// instructions per word for `bf16`, and one for `f16`.
    #[doc(alias = "dequantize")]
    #[track_caller]
    pub fn unpack_u4<T: FromInt4>(self) -> [Val<'b, Vector<T, 2>>; 4]
    where
        Vector<T, 2>: Arithmetic + Fused,
    {
        unpack(self, 0)
    }

    /// Unpacks signed integers in two's complement, -8 to 7, as [`unpack_u4`](Val::unpack_u4) does
    /// and at the same cost.
    #[doc(alias = "dequantize")]
    #[track_caller]
    pub fn unpack_i4<T: FromInt4>(self) -> [Val<'b, Vector<T, 2>>; 4]
    where
        Vector<T, 2>: Arithmetic + Fused,
    {
        unpack(self, 8)
    }

    /// Unpacks unsigned integers as [`unpack_u4`](Val::unpack_u4) does, and subtracts zero points:
    /// pair `i` is `[n(i) - zeros[i].0, n(i+4) - zeros[i].1]`. The zero points must be integers from
    /// 0 to 16, for which the result is exact. If several words share them, the subtraction costs
    /// nothing more than [`unpack_u4`](Val::unpack_u4).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::{GlobalMut, Kernel, Target, Val, f16};
    /// use tilewright::runtime::{Device, Grid};
    ///
    /// type Params = (GlobalMut<u32>, GlobalMut<f16>);
    /// let kernel = Kernel::<Params>::build("unpack", Target::SM_80, |k, (x, y)| {
    ///     let zero = Val::splat(k.constant(f16::from_f32(3.0)));
    ///     let pairs = x.load(0).unpack_u4_minus::<f16>([zero; 4]);
    ///     y.store_slice(0, &pairs.map(|pair| pair.lanes()).concat());
    /// })?;
    /// let device = Device::sim()?;
    /// let (mut x, mut y) = (device.upload(&[0xfedc_3210])?, device.zeros::<f16>(8)?);
    /// device.load(&kernel)?.launch(Grid::cover(1, 1), (&mut x, &mut y))?;
    /// let expected = [0, 12, 1, 13, 2, 14, 3, 15].map(|n| f16::from_f32(n as f32 - 3.0));
    /// assert_eq!(y.to_vec()?, expected);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "dequantize")]
    #[track_caller]
    pub fn unpack_u4_minus<T: FromInt4>(
        self,
        zeros: [Val<'b, Vector<T, 2>>; 4],
    ) -> [Val<'b, Vector<T, 2>>; 4]
    where
        Vector<T, 2>: Arithmetic + Fused,
    {
        let splat = |value: f32| Val::<Vector<T, 2>>::splat(self.constant(T::exact(value)));
        let low = |zero: Val<'b, Vector<T, 2>>| zero + splat(T::BASE);
        let high = |zero: Val<'b, Vector<T, 2>>| splat(-T::BASE / 16.0) - zero;
        let [a, b, c, d] = zeros;
        match T::HOLDS_HIGH {
            true => unpack_from(self, 0, [low(a), high(b), low(c), high(d)]),
            false => unpack_from(self, 0, [low(a), low(b), low(c), low(d)]),
        }
    }
}

/// Returns `(n ^ flipped) - flipped` for each integer `n`. With 8, this is its two's complement
/// value.
#[track_caller]
fn unpack<'b, T: FromInt4>(word: Val<'b, u32>, flipped: u32) -> [Val<'b, Vector<T, 2>>; 4]
where
    Vector<T, 2>: Arithmetic + Fused,
{
    let splat = |value: f32| Val::<Vector<T, 2>>::splat(word.constant(T::exact(value)));
    let low = splat(T::BASE + flipped as f32);
    let high = splat(-(T::BASE / 16.0 + flipped as f32));
    let [second, fourth] = [if T::HOLDS_HIGH { high } else { low }; 2];
    unpack_from(word, flipped, [low, second, low, fourth])
}

/// Returns `n ^ flipped` minus an offset for each integer `n`. The offset of a pair is
/// `BASE + zero`, or `-BASE / 16 - zero` if the pair is 4 bits higher in its half words and
/// multiplied by 1/16.
#[track_caller]
fn unpack_from<'b, T: FromInt4>(
    word: Val<'b, u32>,
    flipped: u32,
    offsets: [Val<'b, Vector<T, 2>>; 4],
) -> [Val<'b, Vector<T, 2>>; 4]
where
    Vector<T, 2>: Arithmetic + Fused,
{
    let splat = |value: f32| Val::<Vector<T, 2>>::splat(word.constant(T::exact(value)));
    let both = |bits: u32| bits << 16 | bits;
    // The integers at bit `at` of both half words, as `BASE + (n ^ flipped) * 2^at`.
    let merged = |word: Val<'b, u32>, at: u32| {
        let exponent = T::BASE_BITS ^ both(flipped << at);
        word.lop3(both(15 << at), exponent, |word, mask, exponent| word & mask ^ exponent)
            .bitcast::<Vector<T, 2>>()
    };
    let low = |word, offset| merged(word, 0) - offset;
    let high = |word, offset| merged(word, 4).fma(splat(1.0 / 16.0), offset);
    let [a, b, c, d] = offsets;
    if T::HOLDS_HIGH {
        let upper = word >> 8;
        [low(word, a), high(word, b), low(upper, c), high(upper, d)]
    } else {
        [low(word, a), low(word >> 4, b), low(word >> 8, c), low(word >> 12, d)]
    }
}
