//! Writes integer division and remainder by constants without a division.
//!
//! `ptxas` 13.0 writes every `div` and `rem` as a real division, even by a power of two. Here a
//! power of two becomes shifts and a mask, and any other divisor becomes a multiplication of which
//! the upper half is kept (Granlund and Montgomery: Division by invariant integers using
//! multiplication, 1994). The IR keeps its `div` and `rem`, so that it stays readable, and so that
//! the simulator, which divides, checks these formulas independently.

use super::entry::Entry;
use super::regs::{Class, Operand, Reg, arith_type};
use crate::ir::op::{Mem, Op};
use crate::ir::types::{Const, Scalar};
use crate::ir::{Value, ValueDef};

/// The instruction sequence for a quotient by a constant `d > 0` in words of `W` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotient {
    /// `d == 1`.
    Dividend,
    /// `x >= d`, for an unsigned `d` above half of the range.
    AtLeast,
    /// `d == 2^k`.
    Shift(u32),
    Multiply(Multiply),
}

/// The quotient is `((x >> before) * (factor + adds * 2^W)) >> W >> after`, plus 1 if `x` is
/// negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Multiply {
    before: u32,
    factor: u64,
    /// True if the whole factor needs one more bit, whose product is added as `x`.
    adds: bool,
    after: u32,
}

/// Returns the smallest `after`, and `ceil(2^(width + after) / d)`, with which the product gives
/// the right quotient for every dividend with an absolute value of at most `largest`.
///
/// Let `e = factor * d - 2^(width + after)`. The shifted product is
/// `x / d + x * e / (d * 2^(width + after))`, rounded down. The second term does not reach the next
/// integer if `largest * e < 2^(width + after)`.
fn factor(width: u32, largest: u64, d: u64) -> Option<(u128, u32)> {
    (0..width).find_map(|after| {
        let power = 1u128 << (width + after);
        let factor = power.div_ceil(d.into());
        let excess = factor * u128::from(d) - power;
        (excess * u128::from(largest) < power).then_some((factor, after))
    })
}

impl Quotient {
    /// For dividends from 0 to `largest`.
    fn unsigned(width: u32, largest: u64, d: u64) -> Quotient {
        if d.is_power_of_two() {
            return Quotient::power(d);
        }
        let whole = |(factor, after): (u128, u32), before| {
            let low = u64::try_from(factor & ((1 << width) - 1)).ok()?;
            Some(Multiply { before, factor: low, adds: factor >> width > 0, after })
        };
        let direct = factor(width, largest, d).and_then(|found| whole(found, 0));
        let Some(direct) = direct else { return Quotient::AtLeast };
        // An even divisor never needs the additional bit: divide both by its power of two first,
        // and the dividend is shorter.
        let before = d.trailing_zeros();
        let shifted = (direct.adds && before > 0)
            .then(|| factor(width, largest >> before, d >> before))
            .flatten()
            .and_then(|found| whole(found, before));
        Quotient::Multiply(shifted.unwrap_or(direct))
    }

    /// For dividends from `-largest` to `largest - 1`.
    fn signed(width: u32, largest: u64, d: u64) -> Quotient {
        if d.is_power_of_two() {
            return Quotient::power(d);
        }
        // A factor with the sign bit set is read as `factor - 2^W`, so `x` must be added.
        let found = factor(width, largest, d).and_then(|(factor, after)| {
            let factor = u64::try_from(factor).ok()?;
            Some(Multiply { before: 0, factor, adds: factor >> (width - 1) > 0, after })
        });
        found.map_or(Quotient::AtLeast, Quotient::Multiply)
    }

    fn power(d: u64) -> Quotient {
        if d == 1 { Quotient::Dividend } else { Quotient::Shift(d.trailing_zeros()) }
    }
}

/// A quotient's type, and the register that it is computed in, which is wider if the type is
/// narrow.
#[derive(Clone, Copy)]
struct Word {
    scalar: Scalar,
    class: Class,
    /// The type's name in instructions, and that of the unsigned type of the same width.
    ty: &'static str,
    unsigned: &'static str,
    width: u32,
}

impl Word {
    fn of(scalar: Scalar) -> Word {
        let (class, ty) = (Class::of_scalar(scalar), arith_type(scalar));
        match class {
            Class::B64 => Word { scalar, class, ty, unsigned: "u64", width: 64 },
            _ => Word { scalar, class, ty, unsigned: "u32", width: 32 },
        }
    }

    /// Returns the bits as an immediate operand.
    fn immediate(&self, bits: u64) -> Operand {
        let wide = match (self.width, self.scalar.is_signed()) {
            (64, false) => Scalar::U64,
            (64, true) => Scalar::I64,
            (_, false) => Scalar::U32,
            (_, true) => Scalar::I32,
        };
        Operand::Const(Const::new(wide, bits))
    }
}

impl Entry<'_> {
    /// Writes `lhs / rhs`, or `lhs % rhs` if `remainder` is set, if `rhs` is an integer constant.
    /// Returns whether it is.
    pub(super) fn divides_by_constant(
        &mut self,
        result: Value,
        lhs: Value,
        rhs: Value,
        remainder: bool,
    ) -> bool {
        let Operand::Const(divisor) = self.operand(rhs) else { return false };
        // The verifier refuses a constant of 0.
        let Some(d) = divisor.as_int().filter(|d| *d != 0) else { return false };
        let dividend = self.operand(lhs);
        if let Operand::Const(dividend) = dividend
            && let Some(x) = dividend.as_int()
        {
            let value = if remainder { x % d } else { x / d };
            let constant = Const::new(self.scalar(result), value as u64);
            self.bind(result, Operand::Const(constant));
            return true;
        }
        // If neither operand is negative, the rounding needs no correction.
        let scalar = match self.scalar(result) {
            scalar if d > 0 && self.is_assumed_not_negative(lhs) => scalar.unsigned(),
            scalar => scalar,
        };
        let word = Word::of(scalar);
        let x = self.in_reg(dividend, word.class);
        let to = self.def(result);
        let magnitude = d.unsigned_abs() as u64;
        if remainder {
            self.remainder(word, to, x, magnitude);
            return true;
        }
        if magnitude == 1 && d < 0 {
            self.negate_into(to, x.into());
        } else {
            self.quotient(word, to, x, magnitude, d < 0);
        }
        // The smallest value divided by -1 leaves the range of a narrow type.
        self.wrap(to, word.scalar);
        true
    }

    /// Returns whether the kernel promises that a value is at least 0.
    fn is_assumed_not_negative(&self, value: Value) -> bool {
        let ValueDef::Result(op, _) = self.ir.values[value].def else { return false };
        let op = &self.ir.ops[op].op;
        if let Op::Mem(Mem::AssumeDivisibleBy { value, .. }) = *op {
            return self.is_assumed_not_negative(value);
        }
        let Op::Mem(Mem::AssumeBetween { low, .. }) = *op else { return false };
        let ValueDef::Result(made, _) = self.ir.values[low].def else { return false };
        let Op::Const(low) = self.ir.ops[made].op else { return false };
        low.as_int().is_some_and(|low| low >= 0)
    }

    /// Sets `to` to `x / d`, negated if `negative` is set.
    fn quotient(&mut self, word: Word, to: Reg, x: Reg, d: u64, negative: bool) {
        let bits = word.scalar.bits();
        if !word.scalar.is_signed() {
            let quotient = Quotient::unsigned(word.width, u64::MAX >> (64 - bits), d);
            return self.unsigned_quotient(word, to, x, quotient, d);
        }
        match Quotient::signed(word.width, 1 << (bits - 1), d) {
            Quotient::Dividend | Quotient::AtLeast => self.mov(to, x.into()),
            Quotient::Shift(k) => {
                let biased = self.biased(word, x, k);
                self.shift(word.ty, to, biased, k);
                if negative {
                    self.negate_into(to, to.into());
                }
            }
            Quotient::Multiply(multiply) => {
                let product = self.product(word, x, multiply.factor);
                if multiply.adds {
                    self.ins(&["add.", word.ty], &[product.into(), product.into(), x.into()]);
                }
                let (sign, last) = (self.temp(word.class), word.width - 1);
                // 1 if `x` is negative. In the form -1, it is what a negated quotient is subtracted
                // from.
                if negative {
                    self.shift(word.ty, sign, product, last);
                } else {
                    self.shift(word.unsigned, sign, product, last);
                }
                self.shift(word.ty, product, product, multiply.after);
                let name = if negative { "sub." } else { "add." };
                self.ins(&[name, word.ty], &[to.into(), sign.into(), product.into()]);
            }
        }
    }

    fn unsigned_quotient(&mut self, word: Word, to: Reg, x: Reg, quotient: Quotient, d: u64) {
        match quotient {
            Quotient::Dividend => self.mov(to, x.into()),
            Quotient::Shift(k) => self.shift(word.ty, to, x, k),
            Quotient::AtLeast => {
                let above = self.temp(Class::Pred);
                self.ins(&["setp.ge.", word.ty], &[above.into(), x.into(), word.immediate(d)]);
                let [one, zero] = [1, 0].map(Operand::Int);
                let name = ["selp.", word.class.bits_name()];
                self.ins(&name, &[to.into(), one, zero, above.into()]);
            }
            Quotient::Multiply(Multiply { before, factor, adds, after }) => {
                let mut dividend = x;
                if before > 0 {
                    dividend = self.temp(word.class);
                    self.shift(word.ty, dividend, x, before);
                }
                let product = self.product(word, dividend, factor);
                if !adds {
                    return self.shift(word.ty, to, product, after);
                }
                // `(x + product) >> after`. The sum would need one more bit, so compute half of it
                // as `(x - product) / 2 + product`.
                let half = self.temp(word.class);
                self.ins(&["sub.", word.ty], &[half.into(), dividend.into(), product.into()]);
                self.shift(word.ty, half, half, 1);
                self.ins(&["add.", word.ty], &[half.into(), half.into(), product.into()]);
                self.shift(word.ty, to, half, after - 1);
            }
        }
    }

    /// Sets `to` to `x >> by`, in the type of that name.
    fn shift(&mut self, ty: &str, to: Reg, x: Reg, by: u32) {
        if by > 0 {
            self.ins(&["shr.", ty], &[to.into(), x.into(), Operand::Int(by.into())]);
        } else if to != x {
            self.mov(to, x.into());
        }
    }

    /// Returns the upper half of the product with the factor.
    fn product(&mut self, word: Word, x: Reg, factor: u64) -> Reg {
        let product = self.temp(word.class);
        self.ins(&["mul.hi.", word.ty], &[product.into(), x.into(), word.immediate(factor)]);
        product
    }

    /// Returns the signed `x`, plus `2^k - 1` if it is negative, so that a shift rounds toward
    /// zero.
    fn biased(&mut self, word: Word, x: Reg, k: u32) -> Reg {
        let bias = self.temp(word.class);
        self.shift(word.ty, bias, x, word.width - 1);
        self.shift(word.unsigned, bias, bias, word.width - k);
        self.ins(&["add.", word.ty], &[bias.into(), x.into(), bias.into()]);
        bias
    }

    /// Sets `to` to `x % d`, which has the sign of `x`.
    fn remainder(&mut self, word: Word, to: Reg, x: Reg, d: u64) {
        let and = ["and.", word.class.bits_name()];
        if d == 1 {
            self.mov(to, Operand::Int(0));
        } else if d.is_power_of_two() && !word.scalar.is_signed() {
            self.ins(&and, &[to.into(), x.into(), word.immediate(d - 1)]);
        } else if d.is_power_of_two() {
            let multiple = self.biased(word, x, d.trailing_zeros());
            self.ins(&and, &[multiple.into(), multiple.into(), word.immediate(!(d - 1))]);
            self.ins(&["sub.", word.ty], &[to.into(), x.into(), multiple.into()]);
        } else {
            let quotient = self.temp(word.class);
            self.quotient(word, quotient, x, d, false);
            let minus = word.immediate(d.wrapping_neg());
            let operands = [to.into(), quotient.into(), minus, x.into()];
            self.ins(&["mad.lo.", word.ty], &operands);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evaluates the instructions for an unsigned quotient in words of `width` bits.
    fn divided(quotient: Quotient, width: u32, x: u64, d: u64) -> u64 {
        let mask = u64::MAX >> (64 - width);
        match quotient {
            Quotient::Dividend => x,
            Quotient::AtLeast => u64::from(x >= d),
            Quotient::Shift(k) => x >> k,
            Quotient::Multiply(Multiply { before, factor, adds, after }) => {
                let x = x >> before;
                let product = ((u128::from(x) * u128::from(factor)) >> width) as u64;
                if !adds {
                    return product >> after;
                }
                let half = (x.wrapping_sub(product) & mask) >> 1;
                (half.wrapping_add(product) & mask) >> (after - 1)
            }
        }
    }

    /// Evaluates the instructions for a signed quotient in words of `width` bits.
    fn divided_signed(quotient: Quotient, width: u32, x: i64) -> i64 {
        let wrap = |x: i128| (x as i64) << (64 - width) >> (64 - width);
        match quotient {
            Quotient::Dividend | Quotient::AtLeast => x,
            Quotient::Shift(k) => {
                let bias = if x < 0 { (1i128 << k) - 1 } else { 0 };
                wrap(i128::from(x) + bias) >> k
            }
            Quotient::Multiply(Multiply { before: _, factor, adds, after }) => {
                let factor = i128::from(wrap(factor.into()));
                let product = wrap((i128::from(x) * factor) >> width);
                let product = if adds { wrap((product + x).into()) } else { product };
                (product >> after) + i64::from(product < 0)
            }
        }
    }

    /// Every dividend and divisor of 8 bits, in words of 8, 32 and 64 bits.
    #[test]
    fn all_quotients_of_8_bits() {
        for width in [8, 32, 64] {
            for d in 1..=255 {
                let quotient = Quotient::unsigned(width, 255, d);
                (0..=255)
                    .for_each(|x| assert_eq!(divided(quotient, width, x, d), x / d, "{x} / {d}"));
            }
            for d in 1..=128 {
                let quotient = Quotient::signed(width, 128, d);
                (-128..=127).for_each(|x| {
                    assert_eq!(divided_signed(quotient, width, x), x / d as i64, "{x} / {d}");
                });
            }
        }
    }

    /// Every divisor of 16 bits. The computed quotient never decreases with the dividend, so
    /// the dividends on both sides of each step stand for all.
    #[test]
    fn all_quotients_of_16_bits() {
        let max = i64::from(u16::MAX);
        for width in [16, 32] {
            for d in 1..=max {
                let quotient = Quotient::unsigned(width, max as u64, d as u64);
                for x in (0..=max).step_by(d as usize).flat_map(|x| [x, x + d - 1]) {
                    if x <= max {
                        let found = divided(quotient, width, x as u64, d as u64);
                        assert_eq!(found, (x / d) as u64, "{x} / {d}, {width}: {quotient:?}");
                    }
                }
            }
            for d in 1..=1i64 << 15 {
                let quotient = Quotient::signed(width, 1 << 15, d as u64);
                let multiples = (0..=1 << 15).step_by(d as usize);
                for x in multiples.flat_map(|x| [x, x + d - 1, -x, 1 - x - d, x - 1]) {
                    if (-(1 << 15)..1 << 15).contains(&x) {
                        let found = divided_signed(quotient, width, x);
                        assert_eq!(found, x / d, "{x} / {d}, {width}: {quotient:?}");
                    }
                }
            }
        }
    }

    /// Divisors of 32 and 64 bits at corners: near powers of two and their fractions, with the
    /// dividends around their first and last multiples.
    #[test]
    fn corners_of_32_and_64_bits() {
        for width in [32, 64] {
            let max = u64::MAX >> (64 - width);
            let mut divisors: Vec<u64> = (1..=300).chain(max - 300..=max).collect();
            for k in 1..width {
                for n in [1, 3, 5, 7, 641] {
                    let near = (1u64 << k) / n;
                    divisors.extend((0..7).map(|i| (near + i).saturating_sub(3)));
                }
            }
            divisors.retain(|d| (1..=max).contains(d));
            for d in divisors {
                let quotient = Quotient::unsigned(width, max, d);
                let last = max / d * d;
                let dividends = [0, d - 1, d, last - 1, last, last / 2 / d * d, max - 1, max];
                for x in dividends.into_iter().flat_map(|x| [x, x.saturating_sub(1)]) {
                    let found = divided(quotient, width, x, d);
                    assert_eq!(found, x / d, "{x} / {d}, {width}: {quotient:?}");
                }
                if d > max / 2 + 1 {
                    continue;
                }
                let quotient = Quotient::signed(width, max / 2 + 1, d);
                let smallest = i128::from(max / 2) + 1;
                for x in dividends.map(|x| i128::from(x) / 2 * 2).into_iter().flat_map(|x| {
                    let half = x / 2 / i128::from(d) * i128::from(d);
                    [half - 1, half, half + 1, -half - 1, -half, 1 - half, -smallest, smallest - 1]
                }) {
                    if (-smallest..smallest).contains(&x) {
                        let found = divided_signed(quotient, width, x as i64);
                        let expected = x / i128::from(d);
                        assert_eq!(i128::from(found), expected, "{x} / {d}, {width}: {quotient:?}");
                    }
                }
            }
        }
    }
}
