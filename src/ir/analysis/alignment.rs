//! Computes the known remainders of addresses modulo powers of two.
//!
//! Constants are known, and so are sums, differences, products, left shifts and masks of known values. Nothing
//! else is known, so an address that the analysis finds misaligned is misaligned in every launch.

use crate::ir::entity::Value;
use crate::ir::kernel::{KernelIr, LocalData, ValueDef};
use crate::ir::op::{Arith, Convert, Mem, Op};
use crate::ir::types::{Space, Type};

/// The largest modulus that is looked at, in elements and in bytes.
const LARGEST: u64 = 4096;

/// The number of operations through which the analysis follows a value to its operands.
const DEPTH: u32 = 8;

/// A number with a known remainder: `number = rest (mod modulus)`. The modulus is a power of two.
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

    /// The remainder by `divisor`, a power of two, as far as it is known: every such number has this one modulo
    /// the smaller of both.
    pub(in crate::ir) fn rest_by(self, divisor: u64) -> u64 {
        self.rest & (self.modulus.min(divisor) - 1)
    }
}

/// Returns the known remainder of an integer.
fn integer(ir: &KernelIr, value: Value, depth: u32) -> Residue {
    let ValueDef::Result(op, _) = ir.values[value].def else { return Residue::UNKNOWN };
    if depth == 0 {
        return Residue::UNKNOWN;
    }
    let of = |value: Value| integer(ir, value, depth - 1);
    // Numbers wrap in the bits of their type.
    let bits = |value: Value| ir.type_of(value).bits().min(32);
    let found = if let Op::Const(constant) = ir.ops[op].op {
        constant.as_int().map_or(Residue::UNKNOWN, |int| Residue::new(LARGEST, int as u64))
    } else if let Op::Arith(Arith::Add { lhs, rhs }) = ir.ops[op].op {
        of(lhs).plus(of(rhs))
    } else if let Op::Arith(Arith::Sub { lhs, rhs }) = ir.ops[op].op {
        of(lhs).minus(of(rhs))
    } else if let Op::Arith(Arith::Mul { lhs, rhs }) = ir.ops[op].op {
        of(lhs).times(of(rhs))
    } else if let Op::Arith(Arith::Shl { value, amount }) = ir.ops[op].op {
        match ir.integer(amount) {
            Some(amount @ 0..=12) => of(value).times(Residue::new(LARGEST, 1 << amount)),
            _ => Residue::UNKNOWN,
        }
    } else if let Op::Arith(Arith::And { lhs, rhs }) = ir.ops[op].op {
        match (ir.integer(lhs), ir.integer(rhs)) {
            (_, Some(mask)) => masked(of(lhs), mask as u64),
            (Some(mask), _) => masked(of(rhs), mask as u64),
            (None, None) => Residue::UNKNOWN,
        }
    } else if let Op::Convert(Convert::Cvt { value, to }) = ir.ops[op].op
        && to.is_int()
        && ir.type_of(value).scalar().is_some_and(|from| from.is_int())
    {
        let from = of(value);
        Residue::new(from.modulus.min(1 << bits(value)), from.rest)
    } else {
        Residue::UNKNOWN
    };
    Residue::new(found.modulus.min(1 << bits(value)), found.rest)
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

/// Returns the known remainder of the address `base + index` in bytes, `index` in elements.
pub(in crate::ir) fn address(ir: &KernelIr, base: Value, index: Value) -> Residue {
    let size = match ir.type_of(base) {
        Type::Pointer { elem, .. } => u64::from(elem.size_bytes()),
        Type::Scalar(_) | Type::Vector(_) | Type::TensorMap { .. } => 1,
    };
    let bytes = integer(ir, index, DEPTH).times(Residue::new(LARGEST, size));
    pointer(ir, base, DEPTH).plus(bytes)
}

/// The bytes that buffers of global memory, whoever made them, and constant arrays start at a multiple of.
const BUFFER: u64 = 16;

fn pointer(ir: &KernelIr, value: Value, depth: u32) -> Residue {
    let Type::Pointer { space, elem, .. } = ir.type_of(value) else { return Residue::UNKNOWN };
    let natural = Residue::new(elem.size_bytes().into(), 0);
    let op = match ir.values[value].def {
        ValueDef::Param(_) if space == Space::Global => return Residue::new(BUFFER, 0),
        ValueDef::Result(op, _) if depth > 0 => op,
        ValueDef::Param(_) | ValueDef::Arg(..) | ValueDef::Result(..) => return natural,
    };
    if let Op::Mem(Mem::SharedBase { shared }) = ir.ops[op].op {
        ir.shared.get(shared).map_or(natural, |data| Residue::new(data.align_bytes.into(), 0))
    } else if let Op::Mem(Mem::ArrayBase { .. }) = ir.ops[op].op {
        Residue::new(BUFFER, 0)
    } else if let Op::Mem(Mem::LocalBase { .. }) = ir.ops[op].op {
        Residue::new(LocalData::ALIGN_BYTES.into(), 0)
    } else if let Op::Mem(Mem::Cvta { base } | Mem::CvtaTo { base, .. }) = ir.ops[op].op {
        pointer(ir, base, depth - 1)
    } else if let Op::Mem(Mem::AssumeAligned { bytes, .. }) = ir.ops[op].op {
        Residue::new(bytes.into(), 0)
    } else if let Op::Mem(Mem::Offset { base, index }) = ir.ops[op].op {
        let size = Residue::new(LARGEST, elem.size_bytes().into());
        pointer(ir, base, depth - 1).plus(integer(ir, index, depth - 1).times(size))
    } else {
        natural
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the known remainder of the index of the last load of a kernel, in elements of one byte.
    fn known(body: &str) -> Residue {
        let text = format!(
            "kernel @k target sm_80 (%x: ptr<global, u8>, %n: i32, %u: u32) {{\n{body}\n%v = ld %x, %i : u8\nreturn\n}}"
        );
        let ir: KernelIr = text.parse().unwrap();
        let mut found = None;
        for (_, data) in ir.ops.iter() {
            if let Op::Mem(Mem::Ld { index, .. }) = data.op {
                found = Some(integer(&ir, index, DEPTH));
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
        // Two products of numbers that are 2 modulo 4: 4 modulo 8.
        check(
            "%c = const 4 : i32\n%m = mul %n, %c : i32\n%d = const 2 : i32\n%a = add %m, %d : i32\n%i = mul %a, %a : i32",
            8,
            4,
        );
    }
}
