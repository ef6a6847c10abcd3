//! How a Rust value is stored in a register word, for example a `bool` or two `f16`.

use crate::ir::narrow::{bf16, f16};

/// A machine's register files: 32-bit and 64-bit words, with `N` lanes each.
pub(crate) trait Registers<const N: usize> {
    /// Returns the registers for values of at most 32 bits.
    fn narrow(&self) -> &[[u32; N]];
    /// Returns the registers for 64-bit values.
    fn wide(&self) -> &[[u64; N]];
    /// Like [`narrow`](Registers::narrow), for writing.
    fn narrow_mut(&mut self) -> &mut [[u32; N]];
    /// Like [`wide`](Registers::wide), for writing.
    fn wide_mut(&mut self) -> &mut [[u64; N]];
}

/// A word in a register file.
pub(crate) trait Word: Copy + Default + Send + Sync + 'static {
    /// Returns the register file with words of this type.
    #[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "no machine has registers"))]
    fn file<const N: usize>(registers: &impl Registers<N>) -> &[[Self; N]];
    /// Returns the register file with words of this type, for writing.
    #[cfg_attr(not(feature = "sim"), expect(dead_code, reason = "no machine has registers"))]
    fn file_mut<const N: usize>(registers: &mut impl Registers<N>) -> &mut [[Self; N]];
    /// Zero-extends the word.
    fn bits(self) -> u64;
    /// Truncates to the word's width.
    fn of_bits(bits: u64) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn file<const N: usize>(registers: &impl Registers<N>) -> &[[u32; N]] {
        registers.narrow()
    }
    #[inline(always)]
    fn file_mut<const N: usize>(registers: &mut impl Registers<N>) -> &mut [[u32; N]] {
        registers.narrow_mut()
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.into()
    }
    #[inline(always)]
    fn of_bits(bits: u64) -> u32 {
        bits as u32
    }
}

impl Word for u64 {
    #[inline(always)]
    fn file<const N: usize>(registers: &impl Registers<N>) -> &[[u64; N]] {
        registers.wide()
    }
    #[inline(always)]
    fn file_mut<const N: usize>(registers: &mut impl Registers<N>) -> &mut [[u64; N]] {
        registers.wide_mut()
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self
    }
    #[inline(always)]
    fn of_bits(bits: u64) -> u64 {
        bits
    }
}

/// A Rust type that one lane of a register can hold.
pub(crate) trait Lane: Copy + Send + Sync + 'static {
    /// The word type that holds it.
    type Word: Word;
    /// Decodes the value from a word.
    fn of(word: Self::Word) -> Self;
    /// Encodes the value as a word: its bits, zero-extended. `true` is all ones.
    fn word(self) -> Self::Word;
}

macro_rules! lane {
    ($($ty:ty: $word:ty, $of:expr, $to:expr;)*) => {$(
        impl Lane for $ty {
            type Word = $word;
            #[inline(always)]
            fn of(word: $word) -> $ty {
                let of: fn($word) -> $ty = $of;
                of(word)
            }
            #[inline(always)]
            fn word(self) -> $word {
                let to: fn($ty) -> $word = $to;
                to(self)
            }
        }
    )*};
}

lane! {
    bool: u32, |w| w != 0, |x| if x { u32::MAX } else { 0 };
    i8: u32, |w| w as i8, |x| u32::from(x as u8);
    i16: u32, |w| w as i16, |x| u32::from(x as u16);
    i32: u32, |w| w as i32, |x| x as u32;
    i64: u64, |w| w as i64, |x| x as u64;
    u8: u32, |w| w as u8, u32::from;
    u16: u32, |w| w as u16, u32::from;
    u32: u32, |w| w, |x| x;
    u64: u64, |w| w, |x| x;
    f16: u32, |w| f16::from_bits(w as u16), |x| x.to_bits().into();
    bf16: u32, |w| bf16::from_bits(w as u16), |x| x.to_bits().into();
    f32: u32, f32::from_bits, f32::to_bits;
    f64: u64, f64::from_bits, f64::to_bits;
}

/// Two 16-bit values in a word, the first in the lower half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<T>(pub(crate) T, pub(crate) T);

impl<T: Lane<Word = u32>> Lane for Pair<T> {
    type Word = u32;
    #[inline(always)]
    fn of(word: u32) -> Pair<T> {
        Pair(T::of(word & 0xffff), T::of(word >> 16))
    }
    #[inline(always)]
    fn word(self) -> u32 {
        self.0.word() | self.1.word() << 16
    }
}
