//! PTX's bit manipulation on the host, such as `bfe`, `lop3` and `prmt`. `int.rs` calls these
//! functions to evaluate the operations.

use crate::ir::op::{Direction, Excess, FindFrom, PermuteMode, ProductHalf};
use crate::ir::types::{Const, Scalar};

/// Returns the position of the highest bit that differs from the sign bit, or `u32::MAX` if there
/// is none.
pub(super) fn bfind(value: i128, bits: u32, from: FindFrom) -> u32 {
    let differing = if value < 0 { !value } else { value };
    if differing == 0 {
        return u32::MAX;
    }
    let position = 127 - differing.leading_zeros();
    match from {
        FindFrom::Position => position,
        FindFrom::ShiftAmount => bits - 1 - position,
    }
}

/// Extracts `count` bits from `start` on and extends them to the width.
pub(super) fn bfe(value: u64, bits: u32, signed: bool, start: u32, count: u32) -> u64 {
    let (start, count) = (start & 0xff, count & 0xff);
    let at = |position: u32| value >> position & 1;
    let sign = if signed && count > 0 { at((start + count - 1).min(bits - 1)) } else { 0 };
    (0..bits).fold(0, |result, i| {
        let inside = i < count && start + i < bits;
        result | (if inside { at(start + i) } else { sign }) << i
    })
}

/// Replaces `count` bits of `into` from `start` on by the low bits of `value`.
pub(super) fn bfi(value: u64, into: u64, bits: u32, start: u32, count: u32) -> u64 {
    let (start, count) = (start & 0xff, count & 0xff);
    (0..count).take_while(|i| start + i < bits).fold(into, |result, i| {
        let position = start + i;
        result & !(1 << position) | (value >> i & 1) << position
    })
}

/// Returns the position of the `offset`-th set bit, counting from `base`, or `u32::MAX` if there is
/// none.
pub(super) fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let is_set = |position: &u32| mask >> position & 1 == 1;
    let nth = offset.unsigned_abs() as usize;
    let found = match offset {
        _ if base > 31 => None,
        0 => Some(base).filter(is_set),
        1.. => (base..32).filter(is_set).nth(nth - 1),
        _ => (0..=base).rev().filter(is_set).nth(nth - 1),
    };
    found.unwrap_or(u32::MAX)
}

/// Computes bit `4 a + 2 b + c` of the table, for each bit position.
pub(super) fn lop3([a, b, c]: [u32; 3], table: u8) -> u32 {
    (0..8u32).filter(|i| table >> i & 1 == 1).fold(0, |result, i| {
        let matching = |word: u32, bit: u32| if i >> bit & 1 == 1 { word } else { !word };
        result | matching(a, 2) & matching(b, 1) & matching(c, 0)
    })
}

/// Shifts `high:low` and returns one half.
pub(super) fn shf(low: u32, high: u32, amount: u32, direction: Direction, excess: Excess) -> u32 {
    let amount = match excess {
        Excess::Clamp => std::cmp::min(amount, 32),
        Excess::Wrap => amount & 31,
    };
    let both = u64::from(high) << 32 | u64::from(low);
    match direction {
        Direction::Left => (both << amount >> 32) as u32,
        Direction::Right => (both >> amount) as u32,
    }
}

/// Picks four of the eight bytes of `low` and `high`.
pub(super) fn prmt(low: u32, high: u32, selector: u32, mode: PermuteMode) -> u32 {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let s = selector & 3;
    let byte = |i: u32| bytes[(i & 7) as usize];
    let pick = |i: u32| match mode {
        PermuteMode::Index => {
            let digit = selector >> (4 * i) & 15;
            if digit < 8 { byte(digit) } else { 0u8.wrapping_sub(byte(digit) >> 7) }
        }
        PermuteMode::F4e => byte(s + i),
        PermuteMode::B4e => byte(s.wrapping_sub(i)),
        PermuteMode::Rc8 => byte(s),
        PermuteMode::Ecl => byte(std::cmp::max(i, s)),
        PermuteMode::Ecr => byte(std::cmp::min(i, s)),
        PermuteMode::Rc16 => byte((s & 1) * 2 + (i & 1)),
    };
    u32::from_le_bytes([pick(0), pick(1), pick(2), pick(3)])
}

/// Extends the lowest `bits` bits to the width.
pub(super) fn szext(value: u32, signed: bool, bits: u32, excess: Excess) -> u32 {
    let bits = match excess {
        Excess::Clamp => std::cmp::min(bits, 32),
        Excess::Wrap => bits & 31,
    };
    match 32 - bits {
        32 => 0,
        shift if signed => ((value << shift) as i32 >> shift) as u32,
        shift => value << shift >> shift,
    }
}

/// Returns `count` set bits, starting at bit `start`.
pub(super) fn bmsk(start: u32, count: u32, excess: Excess) -> u32 {
    let [start, count] = [start, count].map(|amount| match excess {
        Excess::Clamp => std::cmp::min(amount, 32),
        Excess::Wrap => amount & 31,
    });
    (((1u64 << count) - 1) << start) as u32
}

/// Clamps to the range of `i32`.
pub(super) fn saturated(x: i128) -> i128 {
    x.clamp(i32::MIN.into(), i32::MAX.into())
}

/// Returns 32 of the 48 bits of the product of two 24-bit values. The caller wraps the result to 32
/// bits.
pub(super) fn product24(signed: bool, operands: [i128; 2], half: ProductHalf) -> i128 {
    let [a, b] = operands.map(|x| {
        let low = x & 0xff_ffff;
        if signed && low >> 23 == 1 { low - (1 << 24) } else { low }
    });
    match half {
        ProductHalf::Lo => a * b,
        ProductHalf::Hi => (a * b) >> 16,
    }
}

/// Returns the high half of the product of two values of `bits` bits.
pub(super) fn high_half(a: i128, b: i128, bits: u32) -> i128 {
    if a < 0 || b < 0 {
        return (a * b) >> bits;
    }
    // The product of two unsigned 64-bit values does not fit in `i128`.
    ((a as u128 * b as u128) >> bits) as i128
}

/// Returns element `i` of a word that is packed with integers.
pub(super) fn element(scalar: Scalar, word: u32, i: u32) -> i64 {
    let constant = Const::new(scalar, (word >> (i * scalar.bits())).into());
    constant.as_int().unwrap_or(0) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_at_the_ends_of_a_word() {
        assert_eq!(bfe(0xf0, 32, false, 4, 4), 0xf);
        assert_eq!(bfe(0xf0, 32, true, 4, 4), 0xffff_ffff);
        assert_eq!(bfe(0x8000_0000, 32, true, 28, 100), 0xffff_fff8);
        assert_eq!(bfe(0x8000_0000, 32, true, 40, 4), 0xffff_ffff);
        assert_eq!(bfe(u64::MAX, 64, true, 3, 0), 0);
        assert_eq!(bfi(0b101, 0, 32, 30, 3), 0x4000_0000);
        assert_eq!(bfi(u64::MAX, 0, 64, 60, 256), 0);
        assert_eq!(bfind(-1, 32, FindFrom::Position), u32::MAX);
        assert_eq!(bfind(-5, 32, FindFrom::Position), 2);
        assert_eq!(bfind(1, 64, FindFrom::ShiftAmount), 63);
    }

    #[test]
    fn bits_by_number_and_tables() {
        assert_eq!([fns(0b1010, 0, 1), fns(0b1010, 1, 2), fns(0b1010, 3, -2)], [1, 3, 1]);
        assert_eq!([fns(0b1010, 1, 0), fns(0b1010, 0, 0), fns(1, 32, 1)], [1, u32::MAX, u32::MAX]);
        assert_eq!([fns(u32::MAX, 31, i32::MIN), fns(u32::MAX, 31, -32)], [u32::MAX, 0]);
        let [a, b, c] = [0xff00_ff00, 0xf0f0_f0f0, 0xcccc_cccc];
        assert_eq!(lop3([a, b, c], 0x96), a ^ b ^ c);
        assert_eq!(lop3([a, b, c], 0xca), a & b | !a & c);
    }

    #[test]
    fn bytes_and_shifts() {
        let (low, high) = (0x8322_1100, 0x7766_5544);
        assert_eq!(prmt(low, high, 0x7b30, PermuteMode::Index), 0x77ff_8300);
        assert_eq!(prmt(low, high, 2, PermuteMode::F4e), 0x5544_8322);
        assert_eq!(prmt(low, high, 1, PermuteMode::B4e), 0x6677_0011);
        assert_eq!(prmt(low, high, 3, PermuteMode::Rc16), 0x8322_8322);
        assert_eq!(prmt(low, high, 1, PermuteMode::Ecl), 0x8322_1111);
        assert_eq!(prmt(low, high, 2, PermuteMode::Ecr), 0x2222_1100);
        assert_eq!(shf(1, 2, 4, Direction::Left, Excess::Clamp), 0x20);
        assert_eq!(shf(1, 2, 40, Direction::Right, Excess::Clamp), 2);
        assert_eq!(shf(1, 2, 40, Direction::Right, Excess::Wrap), 0x0200_0000);
        assert_eq!(
            [szext(0x80, true, 8, Excess::Clamp), szext(5, true, 32, Excess::Wrap)],
            [0xffff_ff80, 0]
        );
        assert_eq!([bmsk(4, 8, Excess::Clamp), bmsk(0, 32, Excess::Clamp)], [0xff0, u32::MAX]);
    }
}
