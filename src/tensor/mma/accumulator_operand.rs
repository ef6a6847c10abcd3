//! [`AccumulatorOperand`]: turns one GEMM's accumulators into the next GEMM's operand A without
//! leaving registers, for example attention's probabilities before they are multiplied by V.

use std::collections::HashMap;

use crate::ir::builder::VectorElement;
use crate::ir::{Body, Val, Vector};
use crate::layout::{IntTuple, Layout, LayoutError};

use crate::tensor::atom::tiled_mma::{Operand, TiledMma};
use crate::tensor::error::{TensorError, TensorErrorKind};
use crate::tensor::view::tensor::RegisterTensor;

/// Converts one GEMM's accumulators into the next GEMM's operand A in registers, for 16-bit
/// elements: FlashAttention's `convert_layout_acc_Aregs`. Use it for back-to-back GEMMs, such as
/// scores times V.
///
/// The host works out which two accumulators form each word of A, and checks that every thread
/// already holds what it multiplies. So no data moves between threads.
///
/// ```
/// use tilewright::layout::{layout, tiler};
/// use tilewright::tensor::atom::{MmaAtom, TiledMma};
/// use tilewright::tensor::mma::AccumulatorOperand;
///
/// let mma = |name: &str| -> Result<TiledMma, Box<dyn std::error::Error>> {
///     Ok(TiledMma::new(name.parse::<MmaAtom>()?, &layout!((1, 1, 1)), tiler!(_, _, _))?)
/// };
/// let scores = mma("SM90_64x64x16_F32BF16BF16_SS")?;
/// let values = mma("SM90_64x128x16_F32BF16BF16_RS")?;
/// let operand = AccumulatorOperand::new(&scores, &values, [64, 64])?;
/// assert_eq!(operand.words()[..3], [[0, 1], [2, 3], [4, 5]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccumulatorOperand {
    shape: [u32; 2],
    words: Vec<[u32; 2]>,
}

impl AccumulatorOperand {
    /// Makes the conversion of the accumulators of `from`, a tile of `shape` rows and columns, to
    /// the A of `to`.
    ///
    /// # Errors
    /// A's elements do not have 16 bits; a thread multiplies elements that another one accumulates.
    #[inline]
    pub fn new(from: &TiledMma, to: &TiledMma, shape: [u32; 2]) -> Result<Self, TensorError> {
        Self::of(from, to, shape).map_err(|kind| TensorError {
            operation: "make_accumulator_operand",
            operand: format!("{shape:?} of {} for {}", from.atom().op(), to.atom().op()),
            kind,
        })
    }

    #[inline]
    fn of(from: &TiledMma, to: &TiledMma, shape: [u32; 2]) -> Result<Self, TensorErrorKind> {
        let none = |argument: &str| LayoutError::Unsupported {
            operation: "accumulators as an operand",
            argument: argument.to_owned(),
        };
        if to.atom().op().val_type_a().bits() != 16 {
            return Err(none("elements that are not 16 bits wide").into());
        }
        let matrix = Layout::compact(shape.map(i64::from));
        let split = |mma: &TiledMma, operand| -> Result<[Layout; 2], LayoutError> {
            let parts = mma.parts(operand, &matrix)?;
            Ok([parts.get(&[0])?, parts.take(1, parts.rank())?])
        };
        let [thread_c, values_c] = split(from, Operand::C)?;
        let [thread_a, values_a] = split(to, Operand::A)?;
        let at = |layout: &Layout, index: i64| layout.crd2idx(index)?.to_static();
        let threads = from.size()?;
        let mut bit = 1;
        // In both layouts a thread's offset is the sum over the bits of its index.
        while bit < threads {
            if to.size()? != threads || at(&thread_c, bit.into())? != at(&thread_a, bit.into())? {
                return Err(none("elements that other threads hold").into());
            }
            bit *= 2;
        }
        let mut registers = HashMap::new();
        for register in 0..values_c.size()?.to_static()? {
            registers.insert(at(&values_c, register)?, register as u32);
        }
        let mut words = Vec::new();
        for word in 0..values_a.size()?.to_static()? / 2 {
            let mut pair = [0; 2];
            for (half, register) in (0..).zip(&mut pair) {
                let found = registers.get(&at(&values_a, 2 * word + half)?);
                *register = *found.ok_or_else(|| none("elements that other threads hold"))?;
            }
            words.push(pair);
        }
        Ok(AccumulatorOperand { shape, words })
    }

    /// Returns, for each word of A, the indices of the two accumulators that form it. Use it if you
    /// convert with code of your own instead of [`convert`](AccumulatorOperand::convert).
    pub fn words(&self) -> &[[u32; 2]] {
        &self.words
    }

    /// Allocates registers for A's words, once before the main loop.
    #[track_caller]
    #[inline]
    pub fn fragment<'b>(&self, k: &Body<'b, '_>, to: &TiledMma) -> RegisterTensor<'b, u32> {
        to.slice(0).fragment_words(k, Operand::A, IntTuple::from(self.shape.map(i64::from)))
    }

    /// Writes the accumulators to A, rounded to `T`, two per word.
    ///
    /// If a `wgmma` that reads `a` is in flight, wait for it first: [`TiledMma::gemm_async`].
    #[track_caller]
    pub fn convert<'b, T: VectorElement<2>>(
        &self,
        acc: &RegisterTensor<'b, f32>,
        a: &RegisterTensor<'b, u32>,
    ) {
        let (from, to) = (acc.variables(), a.variables());
        for (word, [low, high]) in (0..).zip(&self.words) {
            let pair = Val::<Vector<f32, 2>>::pack([from.get(*low), from.get(*high)]);
            to.set(word, pair.cvt::<T>().bitcast::<u32>());
        }
    }
}
