//! [`Words`]: the elements that a thread of the top-k kernel loads in one step, with 16-bit
//! elements in pairs, so that one instruction handles two.

use crate::ir::builder::{Arithmetic, Converted, Fused, VectorElement};
use crate::ir::op::PermuteMode;
use crate::ir::types::Scalar;
use crate::ir::{Body, Val, Vector, bf16, f16};
use crate::tensor::rows::{RowFragment, tree};

/// A thread's elements in one step, at most 32. A word holds one `f32`, or two 16-bit elements.
pub(super) struct Words<'c> {
    words: Vec<Val<'c, u32>>,
    /// The type of both elements in a word, or `f32`.
    elem: Scalar,
}

impl<'c> Words<'c> {
    /// Returns the elements of the vectors, or the single elements if there are no vectors.
    pub(super) fn of<T: Converted>(elements: &RowFragment<'c, T>) -> Words<'c> {
        if elements.vectors.is_empty() {
            let words = elements.singles.iter().map(|value| value.cvt::<f32>().bitcast::<u32>());
            return Words { words: words.collect(), elem: Scalar::F32 };
        }
        let words = elements.vectors.iter().flat_map(|vector| vector.lanes()).collect();
        Words { words, elem: T::scalar() }
    }

    /// Returns how many elements there are.
    fn len(&self) -> u32 {
        self.words.len() as u32 * (32 / self.elem.bits())
    }

    /// Returns the largest element in every four words. NaN is ignored unless all of them are NaN.
    #[inline]
    pub(super) fn maxima(&self) -> Vec<Val<'c, f32>> {
        match self.elem {
            Scalar::F16 => maxima_of_pairs::<f16>(&self.words),
            Scalar::Bf16 => maxima_of_pairs::<bf16>(&self.words),
            _ => maxima_of::<f32>(&self.words),
        }
    }

    /// Returns a mask of the [elements](element) above `bound` if `above` is true, otherwise of
    /// those not below it. It may include NaN.
    #[inline]
    pub(super) fn mask(
        &self,
        k: &Body<'c, '_>,
        bound: Val<'c, f32>,
        above: Val<'c, bool>,
    ) -> Val<'c, u32> {
        // The sign of `bound - element`, or of `element - bound`; it is clear for zero and NaN.
        let factor = above.select::<f32>(-1.0, 1.0);
        let addend = bound.fma(-factor, 0.0);
        let differences = match self.elem {
            Scalar::F16 => differences_of_pairs::<f16>(&self.words, factor, addend),
            Scalar::Bf16 => differences_of_pairs::<bf16>(&self.words, factor, addend),
            _ => {
                let differences: Vec<_> = (self.words.iter())
                    .map(|word| word.bitcast::<f32>().fma(factor, addend).bitcast::<u32>())
                    .collect();
                let upper = |two: &[Val<'c, u32>]| join(k, two, 0x7632);
                differences.chunks(2).map(upper).collect()
            }
        };
        // Replicates the sign bit of each byte that has one.
        let signs = differences.chunks(2).map(|two| join(k, two, 0xfdb9));
        let bits = signs.zip(0..).map(|(signs, bit)| signs & (0x0101_0101 << bit));
        let mask = bits.reduce(|a, b| a | b).unwrap_or_else(|| k.constant(0));
        let all =
            (0..self.len()).fold(0, |all, element| all | 1 << (element / 4 + element % 4 * 8));
        mask ^ above.select::<u32>(0, all)
    }
}

/// Returns the index of the element that a bit in a [mask](Words::mask) stands for.
#[inline]
pub(super) fn element(bit: Val<'_, u32>) -> Val<'_, u32> {
    (bit & 7) * 4 + (bit >> 3)
}

/// Picks four bytes out of two words, or out of one word and zero.
#[inline]
fn join<'c>(k: &Body<'c, '_>, two: &[Val<'c, u32>], bytes: u32) -> Val<'c, u32> {
    let high = two.get(1).copied().unwrap_or_else(|| k.constant(0));
    two[0].prmt(high, bytes, PermuteMode::Index)
}

/// Returns `element * factor + addend` for pairs.
fn differences_of_pairs<'c, T>(
    words: &[Val<'c, u32>],
    factor: Val<'c, f32>,
    addend: Val<'c, f32>,
) -> Vec<Val<'c, u32>>
where
    T: VectorElement<2> + Converted,
    Vector<T, 2>: Fused,
{
    let [factor, addend] =
        [factor, addend].map(|value| Val::<Vector<T, 2>>::splat(value.cvt::<T>()));
    let pairs = words.iter().map(|word| word.bitcast::<Vector<T, 2>>());
    pairs.map(|pair| pair.fma(factor, addend).bitcast::<u32>()).collect()
}

/// Returns the largest value in every four words.
fn maxima_of<'c, V: Arithmetic>(words: &[Val<'c, u32>]) -> Vec<Val<'c, V>> {
    let four = |words: &[Val<'c, u32>]| {
        let values: Vec<_> = words.iter().map(|word| word.bitcast::<V>()).collect();
        tree(values[0], &values, |a, b| a.max(b))
    };
    words.chunks(4).map(four).collect()
}

/// Returns the largest element in the pairs of every four words.
fn maxima_of_pairs<'c, T>(words: &[Val<'c, u32>]) -> Vec<Val<'c, f32>>
where
    T: VectorElement<2> + Converted,
    Vector<T, 2>: Arithmetic,
{
    let pairs = maxima_of::<Vector<T, 2>>(words).into_iter().map(|pair| pair.lanes());
    pairs.map(|[a, b]| a.cvt::<f32>().max(b.cvt::<f32>())).collect()
}
