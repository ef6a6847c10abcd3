//! Alignment analysis: what is known about integers and addresses modulo powers of two. The
//! verifier uses it to reject misaligned vector accesses, copies to choose their width, and the
//! vectorizer to prove alignment. For example, if `n` is a multiple of 4, `4 * i + n` is known to
//! be one too.
//!
//! It knows constants, indices of counted loops, parameters with a declared divisor, and promises
//! by `assume_divisible_by`, and it follows sums, differences, products, shifts, masks and
//! selections. Everything else is unknown. An address that it finds misaligned is therefore
//! misaligned in every launch.

use crate::ir::entity::{OpId, RegionId, Value};
use crate::ir::kernel::{KernelIr, LocalData, ValueDef};
use crate::ir::op::{Arith, Control, Convert, IntArith, Mem, Op};
use crate::ir::types::{Space, Type};

/// The largest modulus that we track, in elements or bytes.
const LARGEST: u64 = 4096;

/// How many operations deep the analysis follows a value.
const DEPTH: u32 = 8;

/// A known remainder: the value is `rest` modulo `modulus`, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ir) struct Residue {
    pub(in crate::ir) modulus: u64,
    pub(in crate::ir) rest: u64,
}

impl Residue {
    const UNKNOWN: Residue = Residue { modulus: 1, rest: 0 };

    fn new(modulus: u64, rest: u64) -> Residue {
        let modulus = modulus.clamp(1, LARGEST);
        Residue { modulus, rest: rest & (modulus - 1) }
    }

    fn plus(self, other: Residue) -> Residue {
        let modulus = self.modulus.min(other.modulus);
        Residue::new(modulus, self.rest.wrapping_add(other.rest))
    }

    fn minus(self, other: Residue) -> Residue {
        let modulus = self.modulus.min(other.modulus);
        Residue::new(modulus, self.rest.wrapping_sub(other.rest))
    }

    fn times(self, other: Residue) -> Residue {
        // `(a + i m) (b + j n) = a b + a j n + b i m + i j m n`
        let part = |rest: u64, modulus: u64| match rest {
            0 => LARGEST,
            rest => (rest & rest.wrapping_neg()).saturating_mul(modulus),
        };
        let modulus = part(self.rest, other.modulus)
            .min(part(other.rest, self.modulus))
            .min(self.modulus.saturating_mul(other.modulus));
        Residue::new(modulus, self.rest.wrapping_mul(other.rest))
    }

    /// A multiple of the largest power of two that divides `divisor`. A divisor of 0 means that the
    /// value is 0.
    fn divided_by(divisor: u64) -> Residue {
        let power = if divisor == 0 { LARGEST } else { divisor & divisor.wrapping_neg() };
        Residue::new(power, 0)
    }

    /// Returns whether the value is known to be a multiple of `power`, a power of two.
    pub(in crate::ir) fn is_multiple(self, power: u64) -> bool {
        self.modulus >= power && self.rest & (power - 1) == 0
    }

    /// Divides by `power`, a power of two, rounding down.
    fn divided(self, power: u64) -> Residue {
        if self.modulus <= power {
            return Residue::UNKNOWN;
        }
        Residue::new(self.modulus / power, self.rest / power)
    }

    /// Returns what is known if the value is either of the two.
    fn or(self, other: Residue) -> Residue {
        let same = match self.rest ^ other.rest {
            0 => LARGEST,
            bits => bits & bits.wrapping_neg(),
        };
        Residue::new(self.modulus.min(other.modulus).min(same), self.rest)
    }

    /// Returns the remainder by `divisor`, a power of two, as far as it is known. If the modulus is
    /// smaller than `divisor`, it is the remainder by the modulus.
    pub(in crate::ir) fn rest_by(self, divisor: u64) -> u64 {
        self.rest & (self.modulus.min(divisor) - 1)
    }
}

/// The input: a kernel, and the divisors that the signature declares for parameters.
#[derive(Clone, Copy)]
struct Known<'k> {
    ir: &'k KernelIr,
    declared: &'k dyn Fn(Value) -> u64,
}

/// Returns the largest power of two, at most 4096, that is known to divide an integer. `declared`
/// returns a parameter's declared divisor.
pub(in crate::ir) fn divisor(ir: &KernelIr, value: Value, declared: &dyn Fn(Value) -> u64) -> u64 {
    let Residue { modulus, rest } = Known { ir, declared }.integer(value, DEPTH);
    if rest == 0 { modulus } else { rest & rest.wrapping_neg() }
}

impl Known<'_> {
    /// Returns what is known about an integer.
    fn integer(self, value: Value, depth: u32) -> Residue {
        let ir = self.ir;
        // Values wrap in the width of their type.
        let bits = |value: Value| ir.type_of(value).bits().min(32);
        let found = match ir.values[value].def {
            _ if depth == 0 => Residue::UNKNOWN,
            ValueDef::Param(_) => Residue::divided_by((self.declared)(value)),
            ValueDef::Arg(region, 0) => self.index(region, depth - 1),
            ValueDef::Arg(..) => Residue::UNKNOWN,
            ValueDef::Result(op, _) => self.result(op, depth - 1),
        };
        Residue::new(found.modulus.min(1 << bits(value)), found.rest)
    }

    /// Returns what is known about the index of a counted loop: `lo + i * step`.
    fn index(self, region: RegionId, depth: u32) -> Residue {
        let Some(parent) = self.ir.regions[region].parent else { return Residue::UNKNOWN };
        let Op::Control(Control::For { lo, step, .. }) = self.ir.ops[parent].op else {
            return Residue::UNKNOWN;
        };
        self.integer(lo, depth).plus(self.integer(step, depth).times(Residue::UNKNOWN))
    }

    /// Returns what is known about the first result of an operation.
    fn result(self, op: OpId, depth: u32) -> Residue {
        let ir = self.ir;
        let of = |value: Value| self.integer(value, depth);
        let power = |amount: Value| match ir.integer(amount) {
            Some(amount @ 0..=12) => Some(1u64 << amount),
            _ => None,
        };
        if let Op::Const(constant) = ir.ops[op].op {
            constant.as_int().map_or(Residue::UNKNOWN, |int| Residue::new(LARGEST, int as u64))
        } else if let Op::Arith(Arith::Add { lhs, rhs }) = ir.ops[op].op {
            of(lhs).plus(of(rhs))
        } else if let Op::Arith(Arith::Sub { lhs, rhs }) = ir.ops[op].op {
            of(lhs).minus(of(rhs))
        } else if let Op::Arith(Arith::Neg { value }) = ir.ops[op].op {
            Residue::new(LARGEST, 0).minus(of(value))
        } else if let Op::Arith(Arith::Mul { lhs, rhs } | Arith::MulWide { lhs, rhs }) =
            ir.ops[op].op
        {
            of(lhs).times(of(rhs))
        } else if let Op::Arith(Arith::MadWide { lhs, rhs, addend })
        | Op::IntArith(IntArith::Mad { lhs, rhs, addend }) = ir.ops[op].op
        {
            of(lhs).times(of(rhs)).plus(of(addend))
        } else if let Op::Arith(Arith::Shl { value, amount }) = ir.ops[op].op {
            power(amount).map_or(Residue::UNKNOWN, |by| of(value).times(Residue::new(LARGEST, by)))
        } else if let Op::Arith(Arith::Shr { value, amount }) = ir.ops[op].op {
            power(amount).map_or(Residue::UNKNOWN, |by| of(value).divided(by))
        } else if let Op::Arith(Arith::Div { lhs, rhs }) = ir.ops[op].op {
            // An exact quotient does not depend on the rounding direction.
            match ir.integer(rhs).and_then(|by| u64::try_from(by).ok()) {
                Some(by) if by.is_power_of_two() && of(lhs).is_multiple(by) => of(lhs).divided(by),
                _ => Residue::UNKNOWN,
            }
        } else if let Op::Arith(Arith::And { lhs, rhs }) = ir.ops[op].op {
            match (ir.integer(lhs), ir.integer(rhs)) {
                (_, Some(mask)) => masked(of(lhs), mask as u64),
                (Some(mask), _) => masked(of(rhs), mask as u64),
                (None, None) => Residue::UNKNOWN,
            }
        } else if let Op::Arith(Arith::Or { lhs, rhs }) = ir.ops[op].op {
            let (lhs, rhs) = (of(lhs), of(rhs));
            Residue::new(lhs.modulus.min(rhs.modulus), lhs.rest | rhs.rest)
        } else if let Op::Arith(Arith::Xor { lhs, rhs }) = ir.ops[op].op {
            let (lhs, rhs) = (of(lhs), of(rhs));
            Residue::new(lhs.modulus.min(rhs.modulus), lhs.rest ^ rhs.rest)
        } else if let Op::Arith(
            Arith::Min { lhs, rhs }
            | Arith::Max { lhs, rhs }
            | Arith::Selp { then_value: lhs, else_value: rhs, .. },
        ) = ir.ops[op].op
        {
            of(lhs).or(of(rhs))
        } else if let Op::Mem(Mem::AssumeDivisibleBy { value, divisor }) = ir.ops[op].op {
            let (known, promised) = (of(value), Residue::divided_by(divisor.into()));
            if known.modulus >= promised.modulus { known } else { promised }
        } else if let Op::Mem(Mem::AssumeBetween { value, .. }) = ir.ops[op].op {
            of(value)
        } else if let Op::Convert(Convert::Cvt { value, to }) = ir.ops[op].op
            && to.is_int()
            && ir.type_of(value).scalar().is_some_and(|from| from.is_int())
        {
            of(value)
        } else {
            Residue::UNKNOWN
        }
    }

    /// Returns what is known about the byte address `base + index`, with `index` in elements.
    fn address(self, base: Value, index: Value) -> Residue {
        let size = match self.ir.type_of(base) {
            Type::Pointer { elem, .. } => u64::from(elem.size_bytes()),
            Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => 1,
        };
        let bytes = self.integer(index, DEPTH).times(Residue::new(LARGEST, size));
        self.pointer(base, DEPTH).plus(bytes)
    }

    fn pointer(self, value: Value, depth: u32) -> Residue {
        let ir = self.ir;
        let Type::Pointer { space, elem, .. } = ir.type_of(value) else { return Residue::UNKNOWN };
        let natural = Residue::new(elem.size_bytes().into(), 0);
        let op = match ir.values[value].def {
            ValueDef::Param(_) if space == Space::Global => return Residue::new(BUFFER, 0),
            ValueDef::Result(op, _) if depth > 0 => op,
            ValueDef::Param(_) | ValueDef::Arg(..) | ValueDef::Result(..) => return natural,
        };
        if let Op::Mem(Mem::SharedBase { shared }) = ir.ops[op].op {
            ir.shared.get(shared).map_or(natural, |data| Residue::new(data.align_bytes.into(), 0))
        } else if let Op::Mem(Mem::ArrayBase { .. } | Mem::GlobalBase { .. }) = ir.ops[op].op {
            Residue::new(BUFFER, 0)
        } else if let Op::Mem(Mem::LocalBase { .. }) = ir.ops[op].op {
            Residue::new(LocalData::ALIGN_BYTES.into(), 0)
        } else if let Op::Mem(Mem::Cvta { base } | Mem::CvtaTo { base, .. }) = ir.ops[op].op {
            self.pointer(base, depth - 1)
        } else if let Op::Mem(Mem::AssumeAligned { bytes, .. }) = ir.ops[op].op {
            Residue::new(bytes.into(), 0)
        } else if let Op::Mem(Mem::Offset { base, index }) = ir.ops[op].op {
            let size = Residue::new(LARGEST, elem.size_bytes().into());
            self.pointer(base, depth - 1).plus(self.integer(index, depth - 1).times(size))
        } else {
            natural
        }
    }
}

/// `number & mask`
fn masked(number: Residue, mask: u64) -> Residue {
    match mask.trailing_ones() {
        0 => Residue::new(mask & mask.wrapping_neg(), 0),
        ones => {
            Residue::new(number.modulus.min(1u64.checked_shl(ones).unwrap_or(LARGEST)), number.rest)
        }
    }
}

/// Returns what is known about the byte address `base + index`, with `index` in elements.
pub(in crate::ir) fn address(ir: &KernelIr, base: Value, index: Value) -> Residue {
    Known { ir, declared: &|_| 1 }.address(base, index)
}

/// The alignment in bytes of every global buffer, whoever allocated it, and of constant and
/// global arrays.
const BUFFER: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is known about the index of the kernel's last load, in elements of one byte.
    fn known(body: &str) -> Residue {
        let text = format!(
            "kernel @k target sm_80 (%x: ptr<global, u8>, %n: i32, %u: u32) {{\n{body}\n%v = ld %x, %i : u8\nreturn\n}}"
        );
        let ir: KernelIr = text.parse().unwrap();
        let mut found = None;
        for (_, data) in ir.ops.iter() {
            if let Op::Mem(Mem::Ld { index, .. }) = data.op {
                found = Some(Known { ir: &ir, declared: &|_| 1 }.integer(index, DEPTH));
            }
        }
        found.unwrap()
    }

    #[test]
    fn remainders_of_what_is_made_of_constants() {
        let check = |body: &str, modulus, rest| {
            assert_eq!(known(body), Residue { modulus, rest }, "{body}");
        };
        check("%i = const 12 : i32", LARGEST, 12);
        check("%i = const -4 : i32", LARGEST, LARGEST - 4);
        check("%i = add %n, %n : i32", 1, 0);
        check("%c = const 12 : i32\n%i = mul %n, %c : i32", 4, 0);
        check(
            "%c = const 12 : i32\n%m = mul %n, %c : i32\n%d = const 3 : i32\n%i = add %m, %d : i32",
            4,
            3,
        );
        check(
            "%c = const 4 : u32\n%m = shl %n, %c : i32\n%d = const 3 : i32\n%i = sub %m, %d : i32",
            16,
            13,
        );
        check("%c = const -8 : i32\n%i = and %n, %c : i32", 8, 0);
        check("%c = const 6 : i32\n%i = and %n, %c : i32", 2, 0);
        check(
            "%c = const 40 : i32\n%m = mul %n, %c : i32\n%d = const 7 : i32\n%i = and %d, %m : i32",
            8,
            0,
        );
        check("%c = const 64 : i32\n%m = mul %n, %c : i32\n%i = cvt<i64> %m : i64", 64, 0);
        check("%c = const 12 : i32\n%m = mul %n, %c : i32\n%i = neg %m : i32", 4, 0);
        check(
            "%c = const 48 : i32\n%m = mul %n, %c : i32\n%d = const 2 : u32\n%i = shr %m, %d : i32",
            4,
            0,
        );
        check(
            "%c = const 48 : i32\n%m = mul %n, %c : i32\n%d = const 4 : i32\n%i = div %m, %d : i32",
            4,
            0,
        );
        check("%i = assume_divisible_by<24> %n : i32", 8, 0);
        check(
            "%c = const 16 : i32\n%m = mul %n, %c : i32\n%i = assume_divisible_by<4> %m : i32",
            16,
            0,
        );
        check(
            "%c = const 16 : i32\n%m = mul %n, %c : i32\n%i = assume_between %m, %n, %c : i32",
            16,
            0,
        );
        // An inexact quotient is unknown.
        check(
            "%c = const 48 : i32\n%m = mul %n, %c : i32\n%d = const 32 : i32\n%i = div %m, %d : i32",
            1,
            0,
        );
        check(
            "%c = const 8 : i32\n%m = mul %n, %c : i32\n%d = const 4 : i32\n%i = min %m, %d : i32",
            4,
            0,
        );
        check(
            "%c = const 8 : i32\n%m = mul %n, %c : i32\n%d = const 5 : i32\n%i = or %m, %d : i32",
            8,
            5,
        );
        check(
            "%c = const 8 : i32\n%m = mul %n, %c : i32\n%d = const 5 : i32\n%i = mad %n, %m, %d : i32",
            8,
            5,
        );
        // The product of two values that are 2 modulo 4 is 4 modulo 8.
        check(
            "%c = const 4 : i32\n%m = mul %n, %c : i32\n%d = const 2 : i32\n%a = add %m, %d : i32\n%i = mul %a, %a : i32",
            8,
            4,
        );
    }
}
