//! Evaluates operations on constants, for constant folding and for analyses that run an operation
//! on known operands.

use super::lane::{Lane, Word};
use super::number::Int;
use super::{Machine, evaluate, low};
use crate::ir::entity::Value;
use crate::ir::op::Op;
use crate::ir::types::{Const, Scalar, Type};

/// Returns the result of a pure operation as a constant of type `result`, if `constant` knows the
/// operands.
///
/// Returns `None` for a division by zero, and for vectors, which cannot be constants.
pub(crate) fn constant(
    op: &Op,
    result: Scalar,
    constant: impl Fn(Value) -> Option<Const>,
) -> Option<Const> {
    evaluate(op, Constants { result, constant: &constant })
}

/// A machine whose operands are constants.
struct Constants<'a> {
    result: Scalar,
    constant: &'a dyn Fn(Value) -> Option<Const>,
}

impl Constants<'_> {
    fn all<const N: usize>(&self, values: [Value; N]) -> Option<[u64; N]> {
        let mut bits = [0; N];
        for (bits, value) in bits.iter_mut().zip(values) {
            *bits = (self.constant)(value)?.bits();
        }
        Some(bits)
    }

    /// Runs `f` on the operands' bits. `f` is a trait object so that this is compiled once, not for
    /// each operation and type.
    fn run<const N: usize>(
        &self,
        values: [Value; N],
        f: &dyn Fn([u64; N]) -> u64,
    ) -> Option<Const> {
        Some(Const::new(self.result, f(self.all(values)?)))
    }
}

fn lane<T: Lane>(bits: u64) -> T {
    T::of(T::Word::of_bits(bits))
}

fn bits<T: Lane>(lane: T) -> u64 {
    lane.word().bits()
}

impl Machine for Constants<'_> {
    type Output = Const;

    fn type_of(&self, value: Value) -> Option<Type> {
        (self.constant)(value).map(|constant| constant.scalar().into())
    }

    fn result(&self) -> Option<Type> {
        Some(self.result.into())
    }

    fn unary<A: Lane, R: Lane>(
        self,
        value: Value,
        f: impl Fn(A) -> R + Send + Sync + 'static,
    ) -> Option<Const> {
        self.run([value], &|[a]| bits(f(lane(a))))
    }

    fn binary<A: Lane, B: Lane, R: Lane>(
        self,
        values: [Value; 2],
        f: impl Fn(A, B) -> R + Send + Sync + 'static,
    ) -> Option<Const> {
        self.run(values, &|[a, b]| bits(f(lane(a), lane(b))))
    }

    fn ternary<A: Lane, B: Lane, C: Lane, R: Lane>(
        self,
        values: [Value; 3],
        f: impl Fn(A, B, C) -> R + Send + Sync + 'static,
    ) -> Option<Const> {
        self.run(values, &|[a, b, c]| bits(f(lane(a), lane(b), lane(c))))
    }

    fn divide<T: Int>(self, values: [Value; 2], f: fn(T, T) -> T) -> Option<Const> {
        let [dividend, divisor] = self.all(values)?;
        let (dividend, divisor) = (lane(dividend), lane(divisor));
        (divisor != T::ZERO).then(|| Const::new(self.result, bits(f(dividend, divisor))))
    }

    fn elements<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u64; N]) -> u64 + Send + Sync + 'static,
    ) -> Option<Const> {
        self.run(values, &f)
    }

    fn words<const N: usize>(
        self,
        values: [Value; N],
        f: impl Fn([u32; N]) -> u32 + Send + Sync + 'static,
    ) -> Option<Const> {
        self.run(values, &|bits| f(bits.map(low)).into())
    }

    fn select(self, cond: Value, then_value: Value, else_value: Value) -> Option<Const> {
        let [cond] = self.all([cond])?;
        (self.constant)(if lane(cond) { then_value } else { else_value })
    }

    fn pack(self, _: &[Value]) -> Option<Const> {
        None
    }

    fn extract(self, _: Value, _: u32) -> Option<Const> {
        None
    }

    fn bitcast(self, value: Value) -> Option<Const> {
        Some(Const::new(self.result, (self.constant)(value)?.bits()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::entity::Entity;
    use crate::ir::op::{Arith, Convert, Excess, IntArith};

    /// Returns the result of `op` on the values 0, 1 and 2, which stand for the constants
    /// `operands`.
    fn run(op: impl Into<Op>, result: Scalar, operands: &[Const]) -> Option<Const> {
        constant(&op.into(), result, |value| operands.get(value.index()).copied())
    }

    fn values() -> [Value; 3] {
        [0, 1, 2].map(Value::from_index)
    }

    proptest::proptest! {
        #[test]
        fn integers_are_those_of_rust(a: i32, b: i32, amount in 0u32..40) {
            let [lhs, rhs, addend] = values();
            let of = |x: i32| Const::new(Scalar::I32, x as u32 as u64);
            let run = |op: Arith| run(op, Scalar::I32, &[of(a), of(b)]);
            proptest::prop_assert_eq!(run(Arith::Add { lhs, rhs }), Some(of(a.wrapping_add(b))));
            proptest::prop_assert_eq!(run(Arith::Mul { lhs, rhs }), Some(of(a.wrapping_mul(b))));
            proptest::prop_assert_eq!(run(Arith::Min { lhs, rhs }), Some(of(a.min(b))));
            let quotient = (b != 0).then(|| of(a.wrapping_div(b)));
            proptest::prop_assert_eq!(run(Arith::Div { lhs, rhs }), quotient);
            let high = (i64::from(a) * i64::from(b)) >> 32;
            proptest::prop_assert_eq!(run(Arith::MulHi { lhs, rhs }), Some(of(high as i32)));
            let amount_of = Const::new(Scalar::U32, amount.into());
            let shl = Arith::Shl { value: lhs, amount: rhs };
            let expected = of(a.checked_shl(amount).unwrap_or(0));
            proptest::prop_assert_eq!(super::tests::run(shl, Scalar::I32, &[of(a), amount_of]), Some(expected));
            let sum = IntArith::Sad { lhs, rhs, addend };
            let distance = (i64::from(a) - i64::from(b)).unsigned_abs() as u32 as i32;
            let found = super::tests::run(sum, Scalar::I32, &[of(a), of(b), of(7)]);
            proptest::prop_assert_eq!(found, Some(of(distance.wrapping_add(7))));
        }
    }

    #[test]
    fn results_have_the_type_that_is_asked_for() {
        let [a, b, _] = values();
        let u32_of = |x: u32| Const::new(Scalar::U32, x.into());
        let byte = Const::new(Scalar::I8, 0x80);
        let popc = run(IntArith::Popc { value: a }, Scalar::U32, &[u32_of(0xf0)]);
        assert_eq!(popc, Some(u32_of(4)));
        let szext = IntArith::Szext { value: a, bits: b, excess: Excess::Clamp };
        assert_eq!(run(szext, Scalar::U32, &[u32_of(0x1ff), u32_of(4)]), Some(u32_of(15)));
        let cvt = Convert::Cvt { value: a, to: Scalar::I64 };
        let expected = Const::new(Scalar::I64, -128i64 as u64);
        assert_eq!(run(cvt, Scalar::I64, &[byte]), Some(expected));
        let bits = Convert::Bitcast { value: a, to: Scalar::F32.into() };
        let one = Const::new(Scalar::F32, 1f32.to_bits().into());
        assert_eq!(run(bits, Scalar::F32, &[u32_of(1f32.to_bits())]), Some(one));
        let less = Arith::Setp { lhs: a, rhs: b, compare: crate::ir::op::Compare::Lt };
        let truth = Some(Const::new(Scalar::Bool, 1));
        assert_eq!(run(less, Scalar::Bool, &[u32_of(1), u32_of(2)]), truth);
    }

    #[test]
    fn unknown_operands_and_mixed_types_have_no_result() {
        let [lhs, rhs, _] = values();
        let add = Arith::Add { lhs, rhs };
        let one = Const::new(Scalar::U32, 1);
        assert_eq!(run(add.clone(), Scalar::U32, &[one]), None);
        assert_eq!(run(add, Scalar::U32, &[one, Const::new(Scalar::I32, 1)]), None);
        let rem = Arith::Rem { lhs, rhs };
        assert_eq!(run(rem, Scalar::U32, &[one, Const::new(Scalar::U32, 0)]), None);
    }
}
