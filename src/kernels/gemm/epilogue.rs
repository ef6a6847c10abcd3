//! The epilogue: operations on the product before it is written.

use crate::ir::builder::OnDevice;
use crate::ir::{Body, Global, Val};
use crate::tensor::AccumulatorMap;

use super::config::{Activation, Bias, Epilogue};
use super::types::Types;

crate::params! {
    /// The operands of the epilogue.
    pub(super) struct EpilogueParams<T: Types> {
        pub(super) alpha: f32,
        pub(super) beta: f32,
        pub(super) c: Global<T::C>,
        /// The row pitch and the batch stride of C.
        pub(super) c_strides: [i64; 2],
        pub(super) bias: Global<T::D>,
        /// M and N.
        pub(super) extents: [i32; 2],
    }
}

/// `activation(alpha x + beta C + bias)`, with the operands of a kernel body `'a`.
pub(super) struct EpilogueOps<'p, 'a, T: Types> {
    pub(super) ops: Epilogue,
    pub(super) args: &'p EpilogueParams<T, OnDevice<'a>>,
}

impl<'b, 'a: 'b, T: Types> AccumulatorMap<'b> for EpilogueOps<'_, 'a, T> {
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
        let args = self.args;
        let [m, n] = args.extents;
        let mut value = if self.ops.alpha { sum * args.alpha } else { sum };
        if self.ops.beta {
            let inside = row.lt(m) & column.lt(n);
            let x = k.if_with(inside, 0.0, |k| {
                let [pitch, matrix] = args.c_strides;
                let at =
                    row.cvt::<i64>() * pitch + column.cvt::<i64>() + batch.cvt::<i64>() * matrix;
                args.c.load(k, at).cvt::<f32>()
            });
            value = x.fma(args.beta, value);
        }
        if let Some(bias) = self.ops.bias {
            let (at, extent) = if bias == Bias::Row { (row, m) } else { (column, n) };
            let x = k.if_with(at.lt(extent), 0.0, |k| args.bias.load(k, at).cvt::<f32>());
            value = value + x;
        }
        match self.ops.activation {
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
