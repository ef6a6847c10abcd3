//! The operations: their shapes, and how they launch their kernels.

use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, D, Layout, Shape};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Global, GlobalMut, Kernel};
use tilewright::kernels::attention::{self, AttentionArgs, AttentionConfig, AttentionProblem};
use tilewright::kernels::gemm::{
    Activation, Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmFunction, GemmProblem, Machine,
};
use tilewright::kernels::norm::{Norm, NormArgs, NormConfig, NormKind};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{self, SoftmaxConfig};
use tilewright::kernels::Loaded;
use tilewright::runtime::{Buffer, Function, Grid};

use crate::bridge::{AnyError, Float, Operation, Place, on_cpu};

pub(crate) struct Softmax;

pub(crate) struct RmsNorm {
    pub(crate) epsilon: f32,
}

pub(crate) struct Linear {
    pub(crate) activation: Option<Activation>,
}

pub(crate) struct Attention {
    pub(crate) causal: bool,
}

/// Implements a candle trait for an operation. Its arguments are pairs of a storage and its layout.
macro_rules! custom_op {
    ($Trait:ident for $Operation:ty: $($storage:ident $layout:ident),+) => {
        impl $Trait for $Operation {
            fn name(&self) -> &'static str {
                Self::NAME
            }

            fn cpu_fwd(
                &self,
                $($storage: &CpuStorage, $layout: &Layout),+
            ) -> candle_core::Result<(CpuStorage, Shape)> {
                on_cpu(self, [$(($storage, $layout)),+])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(
                &self,
                $($storage: &candle_core::CudaStorage, $layout: &Layout),+
            ) -> candle_core::Result<(candle_core::CudaStorage, Shape)> {
                crate::bridge::on_gpu(self, [$(($storage, $layout)),+])
            }
        }
    };
}

custom_op!(CustomOp1 for Softmax: x x_layout);
custom_op!(CustomOp2 for RmsNorm: x x_layout, weight weight_layout);
custom_op!(CustomOp3 for Linear: x x_layout, weight weight_layout, bias bias_layout);
custom_op!(CustomOp3 for Attention: q q_layout, k k_layout, v v_layout);

/// Returns the row problem along the last dimension.
fn rows(layout: &Layout) -> Result<RowProblem, AnyError> {
    let columns = layout.shape().dim(D::Minus1)?;
    let rows = layout.shape().elem_count().checked_div(columns).unwrap_or(0);
    Ok(RowProblem::new(rows.try_into()?, columns.try_into()?))
}

impl Operation<1> for Softmax {
    const NAME: &'static str = "softmax";

    fn shape(&self, [x]: [&Layout; 1]) -> Result<Shape, AnyError> {
        rows(x)?;
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x_layout]: [&Layout; 1],
        [x]: [&Buffer<T::Own>; 1],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        let problem = rows(x_layout)?;
        let config = SoftmaxConfig::new(place.device.target(), T::Own::SCALAR, &problem)?;
        let softmax = place.loaded(config, || -> Result<Loaded<softmax::Softmax<T::Own>>, AnyError> {
            Ok(softmax::Softmax::new(config)?.load(place.device)?)
        })?;
        Ok(softmax.with(place.options).launch(&problem, (x, y))?)
    }
}

/// An operation with a kernel of its own: the square of each element.
pub(crate) struct Square;

custom_op!(CustomOp1 for Square: x x_layout);

impl Operation<1> for Square {
    const NAME: &'static str = "square";

    fn shape(&self, [x]: [&Layout; 1]) -> Result<Shape, AnyError> {
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [layout]: [&Layout; 1],
        [x]: [&Buffer<T::Own>; 1],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        type Params<E> = (Global<E>, GlobalMut<E>, u32);
        let square = place.loaded("square", || -> Result<Function<Params<T::Own>>, AnyError> {
            let target = place.device.target();
            let kernel = Kernel::<Params<T::Own>>::build("square", target, |k, (x, y, n)| {
                let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
                k.if_(i.cvt::<u32>().lt(n), |k| y.store(k, i, x.load(k, i) * x.load(k, i)));
            })?;
            Ok(place.device.load(&kernel)?)
        })?;
        let count = layout.shape().elem_count();
        let grid = Grid::cover(count, 256);
        Ok(square.launch_with(place.options, grid, (x, y, count.try_into()?))?)
    }
}

impl Operation<2> for RmsNorm {
    const NAME: &'static str = "rms-norm";

    fn shape(&self, [x, weight]: [&Layout; 2]) -> Result<Shape, AnyError> {
        if weight.dims() != [x.shape().dim(D::Minus1)?] {
            return Err(format!("{:?} has no weight {:?}", x.shape(), weight.shape()).into());
        }
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x_layout, _]: [&Layout; 2],
        [x, weight]: [&Buffer<T::Own>; 2],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        let problem = rows(x_layout)?;
        let target = place.device.target();
        let config = NormConfig::new(NormKind::Rms, target, T::Own::SCALAR, &problem)?.weight();
        let norm = place.loaded(config, || -> Result<Loaded<Norm<T::Own>>, AnyError> {
            Ok(Norm::new(config)?.load(place.device)?)
        })?;
        let args = NormArgs::new(x, y).weight(weight).epsilon(self.epsilon);
        Ok(norm.with(place.options).launch(&problem, args)?)
    }
}

impl Operation<3> for Linear {
    const NAME: &'static str = "linear";

    fn shape(&self, [x, weight, bias]: [&Layout; 3]) -> Result<Shape, AnyError> {
        let inputs = x.shape().dim(D::Minus1)?;
        match *weight.dims() {
            [outputs, columns] if columns == inputs && bias.dims() == [outputs] && inputs > 0 => {
                let mut dims = x.dims().to_vec();
                dims.pop();
                dims.push(outputs);
                Ok(dims.into())
            }
            _ => {
                let [x, weight, bias] = [x, weight, bias].map(Layout::shape);
                Err(format!("{x:?} has no weight {weight:?} with a bias {bias:?}").into())
            }
        }
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x_layout, weight_layout, _]: [&Layout; 3],
        [x, weight, bias]: [&Buffer<T::Own>; 3],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        let of_x = rows(x_layout)?;
        let outputs = rows(weight_layout)?.rows;
        let problem = GemmProblem::new(of_x.rows, outputs, of_x.columns);
        let (target, scalar) = (place.device.target(), T::Own::SCALAR);
        // Tensor cores multiply 16-bit floats; `f32` needs plain multiply-adds to be exact to
        // `f32`.
        let base = match scalar {
            Scalar::F32 => GemmConfig::simt(target, scalar),
            _ => GemmConfig { target, ..GemmConfig::sm90(scalar, [128, 128]) },
        };
        let epilogue = Epilogue {
            bias: Some(Bias::Column),
            activation: self.activation,
            ..Epilogue::default()
        };
        let machine = Machine::of(place.device);
        let config = GemmConfig { epilogue, ..base }.best(&problem, &machine)?;
        let gemm = place.loaded(config, || -> Result<GemmFunction<T::Own>, AnyError> {
            Ok(Gemm::new(config)?.load(place.device)?)
        })?;
        gemm.launch_with(place.options, &problem, GemmArgs::new(x, weight, y).bias(bias))?;
        Ok(())
    }
}

/// Returns sizes and strides of a tensor with batch, head, position and dimension.
fn heads(layout: &Layout) -> Result<([u32; 4], [u64; 3]), AnyError> {
    let (&[batch, heads, len, dim], &[of_batch, of_head, of_position, _]) =
        (layout.dims(), layout.stride())
    else {
        return Err(format!("{:?} is not (batch, heads, length, dim)", layout.shape()).into());
    };
    let size = |size: usize| u32::try_from(size);
    let stride = |stride: usize| u64::try_from(stride);
    Ok((
        [size(batch)?, size(heads)?, size(len)?, size(dim)?],
        [stride(of_position)?, stride(of_head)?, stride(of_batch)?],
    ))
}

impl Attention {
    fn problem(&self, [q, k, v]: [&Layout; 3]) -> Result<AttentionProblem, AnyError> {
        let (([batch, heads_q, queries, dim], q_strides), (of_k, k_strides), (of_v, v_strides)) =
            (heads(q)?, heads(k)?, heads(v)?);
        let [_, key_heads, keys, _] = of_k;
        if of_k != [batch, key_heads, keys, dim] || of_v[..3] != of_k[..3] {
            let [q, k, v] = [q, k, v].map(Layout::shape);
            return Err(format!("queries {q:?} have no keys {k:?} with values {v:?}").into());
        }
        Ok(AttentionProblem {
            value_dim: of_v[3],
            right: self.causal.then_some(0),
            q: Some(q_strides),
            k: Some(k_strides),
            v: Some(v_strides),
            ..AttentionProblem::new([batch, heads_q, key_heads], [queries, keys], dim)
        })
    }
}

impl Operation<3> for Attention {
    const NAME: &'static str = "attention";

    fn shape(&self, layouts: [&Layout; 3]) -> Result<Shape, AnyError> {
        self.problem(layouts)?;
        let [q, _, v] = layouts.map(Layout::dims);
        Ok([&q[..3], &v[3..]].concat().into())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        layouts: [&Layout; 3],
        [q, k, v]: [&Buffer<T::Own>; 3],
        o: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        let problem = self.problem(layouts)?;
        let config = AttentionConfig::new(place.device.target(), &problem)?;
        let rows = layouts[0].dims()[..3].iter().product();
        type WithLse<T> = (Loaded<attention::Attention<T>>, Mutex<Buffer<f32>>);
        let loaded = place.loaded(config, || -> Result<WithLse<T::Own>, AnyError> {
            let attention = attention::Attention::new(config)?.load(place.device)?;
            Ok((attention, Mutex::new(place.device.zeros(rows)?)))
        })?;
        // All launches write the logarithms of their sums to the same buffer, because nobody reads
        // them.
        let (attention, lse) = &*loaded;
        let mut lse = lse.lock().unwrap_or_else(PoisonError::into_inner);
        if lse.len() < rows {
            *lse = place.device.zeros(rows)?;
        }
        let args = AttentionArgs { q, k, v, o, lse: &mut lse, starts: None };
        Ok(attention.with(place.options).launch(&problem, args)?)
    }
}
