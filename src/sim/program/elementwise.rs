//! Operations that are functions of bits: one function for all types, with the type as an argument.

use super::bits;
use super::code::Inst;
use super::compiler::Compiler;
use super::refused::Refused::{self, Malformed};
use super::round::{self, Operation, Source};
use super::slots::Slots;
use super::vector::{At, each};
use crate::ir::{
    ApproxFunction, Arith, ByteHalf, Const, FloatMode, FloatTest, ProductHalf, Rounding, Scalar,
    Subnormals, Value,
};
use crate::sim::memory::lanes::Lane;

/// `true` as the word of a `bool`, which is all ones.
fn truth(truth: bool) -> u64 {
    truth.word().into()
}

/// The number with these bits, of an integer or a floating point type.
fn source(scalar: Scalar, bits: u64) -> Source {
    match Const::new(scalar, bits).as_int() {
        Some(int) => Source::Int(int),
        None => Source::Float(round::decode(scalar, bits)),
    }
}

fn approx(function: ApproxFunction, x: f64) -> f64 {
    match function {
        ApproxFunction::Rcp => 1.0 / x,
        ApproxFunction::Sqrt => x.sqrt(),
        ApproxFunction::Rsqrt => 1.0 / x.sqrt(),
        ApproxFunction::Ex2 => x.exp2(),
        ApproxFunction::Lg2 => x.log2(),
        ApproxFunction::Sin => x.sin(),
        ApproxFunction::Cos => x.cos(),
        ApproxFunction::Tanh => x.tanh(),
    }
}

/// `x`, or zero of its sign where it is subnormal in `f32` or `bf16` and that is asked for.
fn flushed(x: f64, subnormals: Subnormals) -> f64 {
    let flush = subnormals == Subnormals::Ftz && x.abs() < f64::from(f32::MIN_POSITIVE);
    if flush { 0f64.copysign(x) } else { x }
}

fn has_property(x: f64, scalar: Scalar, test: FloatTest) -> bool {
    let smallest = if scalar == Scalar::F32 { f32::MIN_POSITIVE.into() } else { f64::MIN_POSITIVE };
    let is_subnormal = x != 0.0 && x.abs() < smallest;
    match test {
        FloatTest::Finite => x.is_finite(),
        FloatTest::Infinite => x.is_infinite(),
        FloatTest::Number => !x.is_nan(),
        FloatTest::NotANumber => x.is_nan(),
        // Zero is one, as PTX has it.
        FloatTest::Normal => x.is_finite() && !is_subnormal,
        FloatTest::Subnormal => is_subnormal,
    }
}

/// The number cut to the range of `i32`.
fn saturated(x: i128) -> i128 {
    x.clamp(i32::MIN.into(), i32::MAX.into())
}

/// 32 of the 48 bits of the product of the lowest 24 bits of two numbers.
fn product24(signed: bool, operands: [i128; 2], half: ProductHalf) -> i128 {
    let [a, b] = operands.map(|x| {
        let low = x & 0xff_ffff;
        if signed && low >> 23 == 1 { low - (1 << 24) } else { low }
    });
    match half {
        ProductHalf::Lo => a * b,
        ProductHalf::Hi => (a * b) >> 16,
    }
}

/// The smaller or the larger one; NaN if one is NaN. -0 is smaller than 0.
fn extreme([a, b]: [f64; 2], larger: bool) -> f64 {
    let b_is_larger = a < b || (a == b && a.is_sign_negative());
    match () {
        () if a.is_nan() || b.is_nan() => f64::NAN,
        () if b_is_larger == larger => b,
        () => a,
    }
}

impl Compiler<'_> {
    /// `f` of the bits of each element of the operands, which are scalars, or vectors of as many elements as
    /// the result. Bits are zero-extended.
    fn elementwise<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
        f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
    ) -> Result<Inst, Refused> {
        let lanes = match result {
            Slots::Vector(vector, _) => vector.lanes(),
            Slots::Scalar(..) | Slots::Pointer(_) => 1,
        };
        let at = |slots: Slots, lane: u32| match slots {
            Slots::Scalar(scalar, slot) => Ok(At::scalar(scalar, slot)),
            Slots::Vector(..) => {
                let (vector, slots) = slots.vector()?;
                At::element(vector, slots, lane)
            }
            Slots::Pointer(_) => Err(Malformed),
        };
        let mut steps = Vec::new();
        for lane in 0..lanes {
            let mut from = [At::scalar(Scalar::U32, 0); N];
            for (from, operand) in from.iter_mut().zip(operands) {
                *from = at(self.slots(operand)?, lane)?;
            }
            steps.push((at(result, lane)?, from));
        }
        Ok(each(steps, f))
    }

    /// `f` of the whole words of the operands, which have one each.
    fn wordwise<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
        f: impl Fn([u32; N]) -> u32 + Send + Sync + 'static,
    ) -> Result<Inst, Refused> {
        let word = |slots: Slots| match slots.single()? {
            (ty, slot) if ty.bits() <= 32 => Ok(At::scalar(Scalar::U32, slot)),
            _ => Err(Malformed),
        };
        let mut from = [At::scalar(Scalar::U32, 0); N];
        for (from, operand) in from.iter_mut().zip(operands) {
            *from = word(self.slots(operand)?)?;
        }
        let step = (word(result)?, from);
        Ok(each(vec![step], move |words| f(words.map(|word| word as u32)).into()))
    }

    /// `f` of the numbers of operands of an integer type, wrapped to the type of the result.
    fn integers<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
        f: impl Fn([i128; N]) -> i128 + Send + Sync + 'static,
    ) -> Result<Inst, Refused> {
        let to = match result {
            Slots::Scalar(scalar, _) => scalar,
            Slots::Vector(vector, _) => vector.elem(),
            Slots::Pointer(_) => return Err(Malformed),
        };
        let mut types = [Scalar::U32; N];
        for (ty, operand) in types.iter_mut().zip(operands) {
            *ty = self.elem(operand)?;
        }
        self.elementwise(result, operands, move |bits| {
            let mut numbers = [0; N];
            for (number, (ty, bits)) in numbers.iter_mut().zip(types.iter().zip(bits)) {
                *number = Const::new(*ty, bits).as_int().unwrap_or(0);
            }
            Const::new(to, f(numbers) as u64).bits()
        })
    }

    /// The scalar type of a value, or of its elements.
    fn elem(&self, value: Value) -> Result<Scalar, Refused> {
        match self.slots(value)? {
            Slots::Scalar(scalar, _) => Ok(scalar),
            Slots::Vector(vector, _) => Ok(vector.elem()),
            Slots::Pointer(_) => Err(Malformed),
        }
    }

    fn rounded<const N: usize>(
        &self,
        result: Slots,
        operands: [Value; N],
        (operation, mode): (Operation, FloatMode),
    ) -> Result<Inst, Refused> {
        let scalar = self.elem(*operands.first().ok_or(Malformed)?)?;
        self.elementwise(result, operands, move |bits| {
            let mut all = [0; 3];
            all.iter_mut().zip(bits).for_each(|(all, bits)| *all = bits);
            operation.bits(scalar, mode, all)
        })
    }

    /// The operations of this file.
    pub(in crate::sim) fn bit_function(
        &mut self,
        op: &Arith,
        result: Slots,
    ) -> Result<Inst, Refused> {
        match *op {
            Arith::AddRounded { lhs, rhs, mode } => {
                self.rounded(result, [lhs, rhs], (Operation::Add, mode))
            }
            Arith::SubRounded { lhs, rhs, mode } => {
                self.rounded(result, [lhs, rhs], (Operation::Sub, mode))
            }
            Arith::MulRounded { lhs, rhs, mode } => {
                self.rounded(result, [lhs, rhs], (Operation::Mul, mode))
            }
            Arith::FmaRounded { lhs, rhs, addend, mode } => {
                self.rounded(result, [lhs, rhs, addend], (Operation::Fma, mode))
            }
            Arith::DivRounded { lhs, rhs, mode } => {
                self.rounded(result, [lhs, rhs], (Operation::Div, mode))
            }
            Arith::SqrtRounded { value, mode } => {
                self.rounded(result, [value], (Operation::Sqrt, mode))
            }
            Arith::RcpRounded { value, mode } => {
                self.rounded(result, [value], (Operation::Rcp, mode))
            }
            Arith::Approx { value, function, subnormals } => {
                let scalar = self.elem(value)?;
                self.elementwise(result, [value], move |[x]| {
                    let x = flushed(round::decode(scalar, x), subnormals);
                    let y = round::decode(scalar, round::encode(scalar, approx(function, x)));
                    round::encode(scalar, flushed(y, subnormals))
                })
            }
            Arith::DivApprox { lhs, rhs, form: _, subnormals } => {
                self.elementwise(result, [lhs, rhs], move |operands| {
                    let [a, b] =
                        operands.map(|x| flushed(round::decode(Scalar::F32, x), subnormals));
                    let quotient = f64::from((a / b) as f32);
                    round::encode(Scalar::F32, flushed(quotient, subnormals))
                })
            }
            Arith::MinNan { lhs, rhs } | Arith::MaxNan { lhs, rhs } => {
                let scalar = self.elem(lhs)?;
                let larger = matches!(op, Arith::MaxNan { .. });
                self.elementwise(result, [lhs, rhs], move |operands| {
                    let operands = operands.map(|x| round::decode(scalar, x));
                    round::encode(scalar, extreme(operands, larger))
                })
            }
            Arith::Copysign { magnitude, sign } => {
                let bit = 1u64 << (self.elem(sign)?.bits() - 1);
                self.elementwise(result, [magnitude, sign], move |[magnitude, sign]| {
                    magnitude & !bit | sign & bit
                })
            }
            Arith::Testp { value, test } => {
                let scalar = self.elem(value)?;
                self.elementwise(result, [value], move |[x]| {
                    truth(has_property(round::decode(scalar, x), scalar, test))
                })
            }
            Arith::AddSat { lhs, rhs } => {
                self.integers(result, [lhs, rhs], |[a, b]| saturated(a + b))
            }
            Arith::SubSat { lhs, rhs } => {
                self.integers(result, [lhs, rhs], |[a, b]| saturated(a - b))
            }
            Arith::MulHi { lhs, rhs } => {
                let bits = self.elem(lhs)?.bits();
                self.integers(result, [lhs, rhs], move |[a, b]| high_half(a, b, bits))
            }
            Arith::MadHi { lhs, rhs, addend } => {
                let bits = self.elem(lhs)?.bits();
                self.integers(result, [lhs, rhs, addend], move |[a, b, c]| {
                    high_half(a, b, bits) + c
                })
            }
            Arith::MadHiSat { lhs, rhs, addend } => {
                self.integers(result, [lhs, rhs, addend], |[a, b, c]| {
                    saturated(high_half(a, b, 32) + c)
                })
            }
            Arith::Mul24 { lhs, rhs, half } => {
                let signed = self.elem(lhs)?.is_signed();
                self.integers(result, [lhs, rhs], move |[a, b]| product24(signed, [a, b], half))
            }
            Arith::Mad24 { lhs, rhs, addend, half } => {
                let signed = self.elem(lhs)?.is_signed();
                self.integers(result, [lhs, rhs, addend], move |[a, b, c]| {
                    product24(signed, [a, b], half) + c
                })
            }
            Arith::Mad24HiSat { lhs, rhs, addend } => {
                self.integers(result, [lhs, rhs, addend], |[a, b, c]| {
                    saturated(product24(true, [a, b], ProductHalf::Hi) + c)
                })
            }
            Arith::AddPacked { lhs, rhs } => self.integers(result, [lhs, rhs], |[a, b]| a + b),
            Arith::MinPacked { lhs, rhs } => self.integers(result, [lhs, rhs], |[a, b]| a.min(b)),
            Arith::MaxPacked { lhs, rhs } => self.integers(result, [lhs, rhs], |[a, b]| a.max(b)),
            Arith::MinRelu { lhs, rhs } => {
                self.integers(result, [lhs, rhs], |[a, b]| a.min(b).max(0))
            }
            Arith::MaxRelu { lhs, rhs } => {
                self.integers(result, [lhs, rhs], |[a, b]| a.max(b).max(0))
            }
            Arith::CvtPack { ref values, to } => self.cvt_pack(result, values, to),
            Arith::MulWide { lhs, rhs } => self.integers(result, [lhs, rhs], |[a, b]| a * b),
            Arith::Mad { lhs, rhs, addend } | Arith::MadWide { lhs, rhs, addend } => {
                self.integers(result, [lhs, rhs, addend], |[a, b, c]| {
                    a.wrapping_mul(b).wrapping_add(c)
                })
            }
            Arith::Sad { lhs, rhs, addend } => {
                self.integers(result, [lhs, rhs, addend], |[a, b, c]| (a - b).abs() + c)
            }
            Arith::Dp4a { lhs, rhs, addend } => {
                let (a, b) = (self.elem(lhs)?, self.elem(rhs)?);
                self.wordwise(result, [lhs, rhs, addend], move |[x, y, sum]| {
                    (0..4).fold(sum, |sum, i| sum.wrapping_add(product((a, x, i), (b, y, i))))
                })
            }
            Arith::Dp2a { lhs, rhs, addend, half } => {
                let (a, b) = (self.elem(lhs)?, self.elem(rhs)?);
                let first = if half == ByteHalf::Hi { 2 } else { 0 };
                self.wordwise(result, [lhs, rhs, addend], move |[x, y, sum]| {
                    (0..2)
                        .fold(sum, |sum, i| sum.wrapping_add(product((a, x, i), (b, y, first + i))))
                })
            }
            Arith::Popc { value } => self.elementwise(result, [value], |[x]| x.count_ones().into()),
            Arith::Clz { value } => {
                let unused = 64 - self.elem(value)?.bits();
                self.elementwise(result, [value], move |[x]| (x.leading_zeros() - unused).into())
            }
            Arith::Brev { value } => {
                let unused = 64 - self.elem(value)?.bits();
                self.elementwise(result, [value], move |[x]| x.reverse_bits() >> unused)
            }
            Arith::Bfind { value, from } => {
                let bits = self.elem(value)?.bits();
                self.integers(result, [value], move |[x]| bits::bfind(x, bits, from).into())
            }
            Arith::Bfe { value, start, count } => {
                let scalar = self.elem(value)?;
                let ty = (scalar.bits(), scalar.is_signed());
                self.elementwise(result, [value, start, count], move |[x, start, count]| {
                    bits::bfe(x, ty, start as u32, count as u32)
                })
            }
            Arith::Bfi { value, into, start, count } => {
                let width = self.elem(value)?.bits();
                let operands = [value, into, start, count];
                self.elementwise(result, operands, move |[x, into, start, count]| {
                    bits::bfi(x, into, width, start as u32, count as u32)
                })
            }
            Arith::Fns { mask, base, offset } => {
                self.wordwise(result, [mask, base, offset], |[mask, base, offset]| {
                    bits::fns(mask, base, offset as i32)
                })
            }
            Arith::Lop3 { a, b, c, table } => {
                self.wordwise(result, [a, b, c], move |words| bits::lop3(words, table))
            }
            Arith::Shf { low, high, amount, direction, excess } => {
                self.wordwise(result, [low, high, amount], move |[low, high, amount]| {
                    bits::shf(low, high, amount, direction, excess)
                })
            }
            Arith::Prmt { low, high, selector, mode } => {
                self.wordwise(result, [low, high, selector], move |[low, high, selector]| {
                    bits::prmt(low, high, selector, mode)
                })
            }
            Arith::Szext { value, bits, excess } => {
                let signed = self.elem(value)?.is_signed();
                self.wordwise(result, [value, bits], move |[x, bits]| {
                    bits::szext(x, signed, bits, excess)
                })
            }
            Arith::Bmsk { start, count, excess } => {
                self.wordwise(result, [start, count], move |[start, count]| {
                    bits::bmsk(start, count, excess)
                })
            }
            Arith::Bitcast { value, to: _ } => self.bitcast(result, value),
            Arith::CvtRounded { value, to: Scalar::Tf32, mode }
                if mode.rounding == Rounding::NearestAway =>
            {
                self.elementwise(result, [value], move |[x]| {
                    round::tf32_away(x as u32, mode).into()
                })
            }
            Arith::CvtRounded { value, to, mode } => {
                let from = self.elem(value)?;
                self.elementwise(result, [value], move |[x]| {
                    round::convert_rounded(source(from, x), to, mode)
                })
            }
            Arith::CvtRint { value, to, rounding } => {
                let from = self.elem(value)?;
                self.elementwise(result, [value], move |[x]| {
                    let x = round::to_integral(round::decode(from, x), rounding);
                    if to.is_float() { round::encode(to, x) } else { cut(to, x as i128) }
                })
            }
            Arith::CvtSat { value, to } => self.integers(result, [value], move |[x]| {
                Const::new(to, cut(to, x)).as_int().unwrap_or(0)
            }),
            Arith::Add { .. }
            | Arith::Sub { .. }
            | Arith::Mul { .. }
            | Arith::Div { .. }
            | Arith::Rem { .. }
            | Arith::Min { .. }
            | Arith::Max { .. }
            | Arith::Neg { .. }
            | Arith::Abs { .. }
            | Arith::Fma { .. }
            | Arith::Sqrt { .. }
            | Arith::And { .. }
            | Arith::Or { .. }
            | Arith::Xor { .. }
            | Arith::Not { .. }
            | Arith::Shl { .. }
            | Arith::Shr { .. }
            | Arith::Setp { .. }
            | Arith::Selp { .. }
            | Arith::Cvt { .. }
            | Arith::VecPack { .. }
            | Arith::VecSplat { .. }
            | Arith::VecExtract { .. }
            | Arith::Sreg { .. } => Err(Malformed),
        }
    }

    /// Integers cut to the range of `to`, side by side.
    fn cvt_pack(&self, result: Slots, values: &[Value], to: Scalar) -> Result<Inst, Refused> {
        let (_, slot) = result.single()?;
        let values: Vec<usize> = values
            .iter()
            .map(|value| Ok(self.scalar_of(*value, Scalar::I32)? as usize))
            .collect::<Result<_, Refused>>()?;
        let (slot, bits) = (slot as usize, to.bits());
        Ok(Inst::Pure(Box::new(move |regs| {
            regs.w[slot] = std::array::from_fn(|lane| {
                (0..).zip(&values).fold(0, |word, (i, value)| {
                    let number = i128::from(regs.w[*value][lane] as i32);
                    word | (cut(to, number) as u32) << (i * bits)
                })
            });
        })))
    }

    /// The bits of a value, from its slots to those of the result, in order.
    fn bitcast(&self, result: Slots, value: Value) -> Result<Inst, Refused> {
        let pieces = |slots: Slots| -> Result<Vec<(At, u32)>, Refused> {
            match slots {
                Slots::Scalar(scalar, slot) => Ok(vec![(At::scalar(scalar, slot), scalar.bits())]),
                Slots::Vector(..) => {
                    let (vector, slots) = slots.vector()?;
                    let scalar = if vector.elem().bits() == 64 { Scalar::U64 } else { Scalar::U32 };
                    let bits = vector.bits() / vector.registers();
                    Ok(slots.iter().map(|slot| (At::scalar(scalar, *slot), bits)).collect())
                }
                Slots::Pointer(_) => Err(Malformed),
            }
        };
        let (to, from) = (pieces(result)?, pieces(self.slots(value)?)?);
        // More than 128 bits are pieces of 32 bits on both sides.
        if to.iter().map(|(_, width)| width).sum::<u32>() > u128::BITS {
            let steps = to.iter().zip(&from).map(|((to, _), (from, _))| (*to, [*from])).collect();
            return Ok(each(steps, |[bits]| bits));
        }
        Ok(Inst::Pure(Box::new(move |regs| {
            let mut bits = [0u128; crate::sim::memory::mask::LANES];
            let mut shift = 0;
            for (from, width) in &from {
                let words = from.read(regs);
                for (bits, word) in bits.iter_mut().zip(words) {
                    *bits |= (u128::from(word) & ((1 << width) - 1)) << shift;
                }
                shift += width;
            }
            for (to, width) in &to {
                to.write(regs, &bits.map(|bits| (bits & ((1 << width) - 1)) as u64));
                bits.iter_mut().for_each(|bits| *bits >>= width);
            }
        })))
    }
}

/// The high half of the product of two numbers of `bits` bits.
fn high_half(a: i128, b: i128, bits: u32) -> i128 {
    if a < 0 || b < 0 {
        return (a * b) >> bits;
    }
    // The product of two unsigned numbers of 64 bits is none of `i128`.
    ((a as u128 * b as u128) >> bits) as i128
}

/// The product of element `i` of one word and element `j` of another, of the given types.
fn product((a, x, i): (Scalar, u32, u32), (b, y, j): (Scalar, u32, u32)) -> u32 {
    let element = |scalar: Scalar, word: u32, i: u32| {
        let constant = Const::new(scalar, (word >> (i * scalar.bits())).into());
        constant.as_int().unwrap_or(0) as i64
    };
    (element(a, x, i) * element(b, y, j)) as u32
}

/// The bits of the integer, cut to the range of its type.
fn cut(to: Scalar, x: i128) -> u64 {
    let bits = to.bits();
    let (min, max) = if to.is_signed() {
        (-1i128 << (bits - 1), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    Const::new(to, x.clamp(min, max) as u64).bits()
}
