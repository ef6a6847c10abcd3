//! [`Found`]: the results of the columns of a thread while it passes over their rows.

use crate::ir::builder::{Converted, Fused, VectorElement};
use crate::ir::op::PermuteMode;
use crate::ir::types::Scalar;
use crate::ir::{Body, Val, Var, Vector, bf16, f16};
use crate::tensor::{Indexed, RowElements};

use super::super::RowReduceOp;

/// The maximum number of rows of a thread: numbers of rows have 16 bits.
pub(super) const MAX_ROWS: u32 = 1 << 16;

/// The results of the columns of a thread's vector. Elements of 16 bits are compared in pairs, and the numbers of their rows are
/// kept in pairs, too.
pub(super) enum Found<'b> {
    Values(RowReduceOp, Vec<Var<'b, f32>>),
    /// The words of a vector of the largest elements, and the numbers of their rows.
    Largest(Scalar, [[Var<'b, u32>; 2]; 4]),
}

impl<'b> Found<'b> {
    /// Returns the results of no rows.
    pub(super) fn new<T: Converted>(k: &Body<'b, '_>, op: RowReduceOp) -> Self {
        let lowest = match T::SCALAR {
            Scalar::Bf16 => 0xff80_ff80,
            Scalar::F16 => 0xfc00_fc00,
            _ => f32::NEG_INFINITY.to_bits(),
        };
        match op {
            RowReduceOp::ArgMax => {
                Found::Largest(T::SCALAR, [0; 4].map(|_| [k.var(lowest), k.var(0u32)]))
            }
            _ => {
                let count = 128 / T::SCALAR.bits();
                Found::Values(op, (0..count).map(|_| k.var(op.monoid().0)).collect())
            }
        }
    }

    /// Adds the words of a vector in a row of this number.
    pub(super) fn add<'c, T: Converted>(
        &self,
        k: &Body<'c, '_>,
        words: [Val<'c, u32>; 4],
        number: Val<'c, i32>,
    ) {
        let (elem, found) = match self {
            Found::Values(op, found) => {
                for (value, found) in values::<T>(words).zip(found) {
                    let value = if *op == RowReduceOp::Norm { value * value } else { value };
                    found.set(k, op.monoid().1(found.get(k), value));
                }
                return;
            }
            Found::Largest(elem, found) => (*elem, found),
        };
        let in_word: u32 = if elem.bits() == 16 { 0x0001_0001 } else { 1 };
        let number = number.cvt::<u32>() * in_word;
        for (word, [largest, at]) in words.into_iter().zip(found) {
            let own = largest.get(k);
            let (word, is_larger) = match elem {
                Scalar::Bf16 => larger_of_pairs::<bf16>(k, word, own),
                Scalar::F16 => larger_of_pairs::<f16>(k, word, own),
                _ => {
                    let is_larger = word.bitcast::<f32>().gt(own.bitcast::<f32>());
                    (word, is_larger.select(u32::MAX, 0))
                }
            };
            let select = |new, old| (is_larger & new) | (!is_larger & old);
            largest.set(k, select(word, own));
            at.set(k, select(number, at.get(k)));
        }
    }

    /// Returns the value of each column, and the number of its row.
    pub(super) fn results<'c, T: Converted>(&self, k: &Body<'c, '_>) -> Vec<Indexed<'c>> {
        match self {
            Found::Values(_, found) => {
                found.iter().map(|found| (found.get(k), k.constant(i32::MAX))).collect()
            }
            Found::Largest(elem, found) => {
                let numbers = found.iter().flat_map(|[_, at]| {
                    let at = at.get(k);
                    let all =
                        if elem.bits() == 16 { vec![at & 0xffff, at >> 16] } else { vec![at] };
                    all.into_iter().map(|number| number.cvt::<i32>())
                });
                values::<T>(found.each_ref().map(|[largest, _]| largest.get(k)))
                    .zip(numbers)
                    .collect()
            }
        }
    }
}

/// Returns the elements of the words of a vector.
fn values<'c, T: Converted>(words: [Val<'c, u32>; 4]) -> impl Iterator<Item = Val<'c, f32>> {
    let elements = RowElements::<T> { vectors: vec![Val::pack(words)], singles: Vec::new() };
    elements.to_f32().into_iter()
}

/// Returns a pair without negative zeros, and a mask of its elements that are larger than those of `own`, which has none either. NaN is
/// not larger.
fn larger_of_pairs<'c, T>(
    k: &Body<'c, '_>,
    pair: Val<'c, u32>,
    own: Val<'c, u32>,
) -> (Val<'c, u32>, Val<'c, u32>)
where
    T: VectorElement<2> + Converted,
    Vector<T, 2>: Fused,
{
    let [pair, own] = [pair, own].map(|word| word.bitcast::<Vector<T, 2>>());
    let [one, minus_one, zero] =
        [1.0f32, -1.0, 0.0].map(|number| Val::<Vector<T, 2>>::splat(k.constant(number).cvt::<T>()));
    let pair = pair.fma(one, zero);
    // Zero and NaN have no sign.
    let difference = pair.fma(minus_one, own).bitcast::<u32>();
    // The signs of bytes 1 and 3, two times each.
    (pair.bitcast(), difference.prmt(difference, 0xbb99, PermuteMode::Index))
}
