//! Reads and writes elements of 1 to 8 bytes in memory that consists of 32-bit words, as all
//! simulated memories do.

use super::lanes::{Lane, Word};

/// An element in memory, and how it sits in a register file. Signed and floating point elements
/// move as unsigned integers of the same size.
pub(in crate::sim) trait Element {
    /// The register file's word.
    type Word: Word;
    /// Size in bytes, which is also the alignment.
    const BYTES: usize;
    /// Reads the element at byte `at`; `word` returns the memory's words.
    fn load(at: usize, word: impl Fn(usize) -> u32) -> Self::Word;
    /// Returns whether all bits are set. For memory that holds one "written" flag for each bit.
    fn is_ones(value: Self::Word) -> bool;
    /// Writes the element at byte `at`: `update(i, mask, bits)` sets the bits of `mask` in word `i`
    /// to those of `bits`.
    fn store(at: usize, value: Self::Word, update: impl FnMut(usize, u32, u32));
}

impl Element for u8 {
    type Word = u32;
    const BYTES: usize = 1;

    #[inline(always)]
    fn load(at: usize, word: impl Fn(usize) -> u32) -> u32 {
        word(at / 4) >> (at % 4 * 8) & 0xff
    }

    #[inline(always)]
    fn is_ones(value: u32) -> bool {
        value == 0xff
    }

    #[inline(always)]
    fn store(at: usize, value: u32, mut update: impl FnMut(usize, u32, u32)) {
        let shift = at % 4 * 8;
        update(at / 4, 0xff << shift, (value & 0xff) << shift);
    }
}

/// Takes a byte, which is 0 for `false`.
impl Element for bool {
    type Word = u32;
    const BYTES: usize = 1;

    #[inline(always)]
    fn load(at: usize, word: impl Fn(usize) -> u32) -> u32 {
        (<u8 as Element>::load(at, word) != 0).word()
    }

    #[inline(always)]
    fn is_ones(value: u32) -> bool {
        // A byte is written as a whole, so any bit stands for all.
        value != 0
    }

    #[inline(always)]
    fn store(at: usize, value: u32, update: impl FnMut(usize, u32, u32)) {
        <u8 as Element>::store(at, value & 1, update);
    }
}

impl Element for u16 {
    type Word = u32;
    const BYTES: usize = 2;

    #[inline(always)]
    fn load(at: usize, word: impl Fn(usize) -> u32) -> u32 {
        word(at / 4) >> (at % 4 * 8) & 0xffff
    }

    #[inline(always)]
    fn is_ones(value: u32) -> bool {
        value == 0xffff
    }

    #[inline(always)]
    fn store(at: usize, value: u32, mut update: impl FnMut(usize, u32, u32)) {
        let shift = at % 4 * 8;
        update(at / 4, 0xffff << shift, (value & 0xffff) << shift);
    }
}

impl Element for u32 {
    type Word = u32;
    const BYTES: usize = 4;

    #[inline(always)]
    fn load(at: usize, word: impl Fn(usize) -> u32) -> u32 {
        word(at / 4)
    }

    #[inline(always)]
    fn is_ones(value: u32) -> bool {
        value == u32::MAX
    }

    #[inline(always)]
    fn store(at: usize, value: u32, mut update: impl FnMut(usize, u32, u32)) {
        update(at / 4, u32::MAX, value);
    }
}

impl Element for u64 {
    type Word = u64;
    const BYTES: usize = 8;

    #[inline(always)]
    fn load(at: usize, word: impl Fn(usize) -> u32) -> u64 {
        u64::from(word(at / 4)) | u64::from(word(at / 4 + 1)) << 32
    }

    #[inline(always)]
    fn is_ones(value: u64) -> bool {
        value == u64::MAX
    }

    #[inline(always)]
    fn store(at: usize, value: u64, mut update: impl FnMut(usize, u32, u32)) {
        update(at / 4, u32::MAX, value as u32);
        update(at / 4 + 1, u32::MAX, (value >> 32) as u32);
    }
}
