//! The epilogue: operations on the product before it is written.

use crate::ir::{Body, Global, Number, Val};
use crate::tensor::AccumulatorMap;

use super::config::{Activation, Bias, Epilogue};

/// `alpha`, `beta`; C, its pitch and the distance of its matrices; the bias; M and N.
pub(super) type EpilogueParams<C, D> = (f32, f32, Global<C>, [i64; 2], Global<D>, [i32; 2]);

/// The device values of [`EpilogueParams`].
pub(super) type EpilogueArgs<'b, C, D> = (
    Val<'b, f32>,
    Val<'b, f32>,
    Val<'b, Global<C>>,
    [Val<'b, i64>; 2],
    Val<'b, Global<D>>,
    [Val<'b, i32>; 2],
);

/// `activation(alpha x + beta C + bias)`.
#[derive(Clone, Copy)]
pub(super) struct EpilogueOps<'b, C, D> {
    ops: Epilogue,
    args: EpilogueArgs<'b, C, D>,
}

impl<'b, C: Number, D: Number> EpilogueOps<'b, C, D> {
    pub(super) fn new(ops: Epilogue, args: EpilogueArgs<'b, C, D>) -> Self {
        EpilogueOps { ops, args }
    }
}

impl<'b, C: Number, D: Number> AccumulatorMap<'b> for EpilogueOps<'b, C, D> {
    fn is_identity(&self) -> bool {
        self.ops == Epilogue::default()
    }

    /// The value of the element at `row` and `column` of matrix `batch`, from its accumulator `sum`.
    fn apply(
        &self,
        k: &mut Body<'b, '_>,
        sum: Val<'b, f32>,
        [row, column, batch]: [Val<'b, i32>; 3],
    ) -> Val<'b, f32> {
        let Epilogue { alpha: scale, beta: add, bias, activation } = self.ops;
        let (alpha, beta, c, [pitch, matrix], vector, [m, n]) = self.args;
        let mut value = if scale { sum * alpha } else { sum };
        if add {
            let inside = row.lt(m) & column.lt(n);
            let x = k.if_with(inside, 0.0, |k| {
                let at =
                    row.cvt::<i64>() * pitch + column.cvt::<i64>() + batch.cvt::<i64>() * matrix;
                c.load(k, at).cvt::<f32>()
            });
            value = x.fma(beta, value);
        }
        if let Some(bias) = bias {
            let (at, extent) = if bias == Bias::Row { (row, m) } else { (column, n) };
            let x = k.if_with(at.lt(extent), 0.0, |k| vector.load(k, at).cvt::<f32>());
            value = value + x;
        }
        match activation {
            None => value,
            Some(Activation::Relu) => value.max(0.0),
            Some(Activation::Gelu) => {
                // sqrt(2 / pi), and its product with 0.044715.
                let inner = value * (value * value).fma(0.035_677_407_f32, 0.797_884_6);
                (value * 0.5) * (inner.tanh_fast() + 1.0)
            }
        }
    }
}
