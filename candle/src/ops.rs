//! Softmax, norms, activations, attention and linear layers. All but [`linear`] have the names and
//! signatures of `candle_nn::ops`.
//!
//! What this module does not have (`hard_sigmoid`, `dropout`, `pixel_shuffle` and others), take
//! from `candle_nn::ops`.

use candle_core::shape::Dim;
use candle_core::{D, DType, Error, Layout, Result as CandleResult, Shape, Tensor};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Global, GlobalMut, Kernel};
use tilewright::kernels::Loaded;
use tilewright::kernels::elementwise::{Elementwise, ElementwiseConfig};
pub use tilewright::kernels::gemm::Activation;
use tilewright::kernels::gemm::{Bias, Epilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, Machine};
use tilewright::kernels::norm::{Norm, NormArgs, NormConfig, NormKind};
use tilewright::kernels::rows::RowProblem;
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::runtime::{Buffer, Function, Grid};
use tilewright::tensor::rows::{RowAccess, RowTile};

use crate::bridge::{AnyError, Float, Input, Operation, Place, apply, candle_error};
use crate::flash_attn::{Attention, Order};

/// Returns the softmax over the last dimension.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::softmax_last_dim;
///
/// let x = Tensor::new(&[[0f32, f32::NEG_INFINITY], [7.0, 7.0]], &Device::Cpu)?;
/// assert_eq!(softmax_last_dim(&x)?.to_vec2::<f32>()?, [[1.0, 0.0], [0.5, 0.5]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn softmax_last_dim(xs: &Tensor) -> CandleResult<Tensor> {
    apply(SoftmaxOp::Softmax, [xs])
}

/// Returns the softmax over a dimension. Any dimension but the last is moved there and back by
/// copies.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::softmax;
///
/// let x = Tensor::new(&[[7f32, 0.0], [7.0, f32::NEG_INFINITY]], &Device::Cpu)?;
/// assert_eq!(softmax(&x, 0)?.to_vec2::<f32>()?, [[0.5, 1.0], [0.5, 0.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn softmax<T: Dim>(xs: &Tensor, dim: T) -> CandleResult<Tensor> {
    SoftmaxOp::Softmax.over(xs, dim)
}

/// Returns the logarithm of the softmax over a dimension. Any dimension but the last is moved there
/// and back by copies.
///
/// ```
/// use candle_core::{D, Device, Tensor};
/// use tilewright_candle::ops::log_softmax;
///
/// let x = Tensor::new(&[[9f32, 9.0, 9.0, 9.0]], &Device::Cpu)?;
/// let y = log_softmax(&x, D::Minus1)?.to_vec2::<f32>()?;
/// assert!(y[0].iter().all(|y| (y + 4f32.ln()).abs() < 1e-6));
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn log_softmax<T: Dim>(xs: &Tensor, d: T) -> CandleResult<Tensor> {
    SoftmaxOp::LogSoftmax.over(xs, d)
}

/// Returns `x / sqrt(mean(x^2) + eps) * alpha` over the last dimension.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::rms_norm;
///
/// let x = Tensor::new(&[[3f32, -3.0], [5.0, 5.0]], &Device::Cpu)?;
/// let alpha = Tensor::new(&[1f32, 2.0], &Device::Cpu)?;
/// assert_eq!(rms_norm(&x, &alpha, 0.0)?.to_vec2::<f32>()?, [[1.0, -2.0], [1.0, 2.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors), for example if `alpha` does not have one element per column.
pub fn rms_norm(xs: &Tensor, alpha: &Tensor, eps: f32) -> CandleResult<Tensor> {
    apply(RmsNorm { eps }, [xs, alpha])
}

/// Returns `(x - mean(x)) / sqrt(variance(x) + eps) * alpha + beta` over the last dimension.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::layer_norm;
///
/// let x = Tensor::new(&[[1f32, 3.0], [10.0, 30.0]], &Device::Cpu)?;
/// let alpha = Tensor::new(&[2f32, 2.0], &Device::Cpu)?;
/// let beta = Tensor::new(&[0.5f32, 0.5], &Device::Cpu)?;
/// let y = layer_norm(&x, &alpha, &beta, 0.0)?;
/// assert_eq!(y.to_vec2::<f32>()?, [[-1.5, 2.5], [-1.5, 2.5]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors), for example if `alpha` or `beta` does not have one element
/// per column.
pub fn layer_norm(xs: &Tensor, alpha: &Tensor, beta: &Tensor, eps: f32) -> CandleResult<Tensor> {
    apply(LayerNorm { eps }, [xs, alpha, beta])
}

/// Returns `x / (1 + e^-x)` for each element. For 16-bit elements the hardware's approximate
/// exponential is used, which is exact enough for them.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::silu;
///
/// let x = Tensor::new(&[0f32, 100.0], &Device::Cpu)?;
/// assert_eq!(silu(&x)?.to_vec1::<f32>()?, [0.0, 100.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn silu(xs: &Tensor) -> CandleResult<Tensor> {
    apply(Pointwise::Silu, [xs])
}

/// Returns `1 / (1 + e^-x)` for each element, as accurately as [`silu`].
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::sigmoid;
///
/// let x = Tensor::new(&[0f32, 100.0], &Device::Cpu)?;
/// assert_eq!(sigmoid(&x)?.to_vec1::<f32>()?, [0.5, 1.0]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors).
pub fn sigmoid(xs: &Tensor) -> CandleResult<Tensor> {
    apply(Pointwise::Sigmoid, [xs])
}

/// Returns `silu(gate) * linear`, if the last dimension is the gate's columns followed by the same
/// number of linear columns. It is one kernel, which reads and writes each element once.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::swiglu;
///
/// let x = Tensor::new(&[[100f32, 0.0, 3.0, 7.0]], &Device::Cpu)?;
/// assert_eq!(swiglu(&x)?.to_vec2::<f32>()?, [[300.0, 0.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors), for example if the last dimension is odd.
pub fn swiglu(xs: &Tensor) -> CandleResult<Tensor> {
    apply(Swiglu, [xs])
}

/// Returns the attention `softmax(scale q kᵀ) v` for `f16` or `bf16` tensors with the shape
/// `(batch, heads, seq, dim)`. `v` may have another `dim` than `q` and `k`, and adjacent query
/// heads may share a key head (GQA). The last query is aligned with the last key; if `do_causal`,
/// it sees all keys, the one before sees all but the last, and so on.
///
/// If `softcapping` is not 1, scores become `softcapping * tanh(score / softcapping)`, as in
/// candle.
///
/// Any strides of `batch`, `heads` and `seq` are read in place. For example, the `transpose(1, 2)`
/// of a projection's output is not copied. If you have `(batch, seq, heads, dim)`, call
/// [`flash_attn`](crate::flash_attn()).
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use tilewright_candle::ops::sdpa;
///
/// // All scores are 0, so each query gets the mean of the values that it sees.
/// let q = Tensor::zeros((1, 1, 2, 32), DType::F16, &Device::Cpu)?;
/// let v = Tensor::cat(&[q.narrow(2, 0, 1)?, q.ones_like()?.narrow(2, 0, 1)?], 2)?;
/// let o = sdpa(&q, &q, &v, None, true, 1.0, 1.0)?.to_dtype(DType::F32)?;
/// assert_eq!(o.squeeze(0)?.squeeze(0)?.to_vec2::<f32>()?, [[0.0; 32], [0.5; 32]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors). An explicit `mask` is not supported.
pub fn sdpa(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    do_causal: bool,
    scale: f32,
    softcapping: f32,
) -> CandleResult<Tensor> {
    const NAME: &str = "sdpa";
    if mask.is_some() {
        return Err(candle_error(NAME, "an explicit mask is not supported".into()));
    }
    let attention = Attention {
        right: if do_causal { Some(0) } else { None },
        softcap: Some(softcapping).filter(|cap| *cap != 1.0),
        ..Attention::new(NAME, Order::HeadsFirst, scale)
    };
    attention.apply([q, k, v])
}

/// Returns `activation(x weightᵀ + bias)` in one kernel, for a weight with the shape
/// `(outputs, inputs)` as in `candle_nn::Linear`. `x` has any number of dimensions, of which the
/// last is `inputs`.
///
/// 16-bit elements are multiplied by tensor cores, `f32` by ordinary multiply-adds, because tensor
/// cores would round it to `tf32`.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use tilewright_candle::ops::{Activation, linear};
///
/// let x = Tensor::new(&[[1f32, 2.0]], &Device::Cpu)?;
/// let weight = Tensor::new(&[[1f32, 1.0], [1.0, -1.0]], &Device::Cpu)?;
/// let bias = Tensor::new(&[0.5f32, 0.5], &Device::Cpu)?;
/// let y = linear(&x, &weight, Some(&bias), Some(Activation::Relu))?;
/// assert_eq!(y.to_vec2::<f32>()?, [[3.5, 0.0]]);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// # Errors
/// Those in the [table](crate#errors), for example if there are no inputs.
pub fn linear(
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    activation: Option<Activation>,
) -> CandleResult<Tensor> {
    match bias {
        Some(bias) => apply(Linear { activation }, [x, weight, bias]),
        None => apply(Linear { activation }, [x, weight]),
    }
}

/// Returns the matrix whose rows are along the last dimension.
fn rows(layout: &Layout) -> CandleResult<RowProblem> {
    let columns = layout.shape().dim(D::Minus1)?;
    let rows = layout.shape().elem_count().checked_div(columns).unwrap_or(0);
    Ok(RowProblem::new(rows.try_into()?, columns.try_into()?))
}

/// Checks that an operand is a vector with one element per column of `x`.
fn check_columns(x: &Layout, vector: &Layout, op: &'static str) -> CandleResult<()> {
    if vector.shape().dims1()? == x.shape().dim(D::Minus1)? {
        return Ok(());
    }
    let (lhs, rhs) = (x.shape().clone(), vector.shape().clone());
    Err(Error::ShapeMismatchBinaryOp { lhs, rhs, op })
}

#[derive(Clone, Copy)]
enum SoftmaxOp {
    Softmax,
    LogSoftmax,
}

impl SoftmaxOp {
    /// Applies the operation over any dimension.
    fn over<T: Dim>(self, xs: &Tensor, dim: T) -> CandleResult<Tensor> {
        let dim = dim.to_index(xs.shape(), Operation::name(&self))?;
        let last = xs.rank() - 1;
        if dim == last {
            return apply(self, [xs]);
        }
        apply(self, [&xs.transpose(dim, last)?])?.transpose(dim, last)?.contiguous()
    }
}

impl Operation<1> for SoftmaxOp {
    fn name(&self) -> &'static str {
        match self {
            SoftmaxOp::Softmax => "softmax",
            SoftmaxOp::LogSoftmax => "log-softmax",
        }
    }

    fn shape(&self, [x]: [&Layout; 1]) -> Result<Shape, AnyError> {
        rows(x)?;
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x]: [Input<'_, T>; 1],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        let problem = rows(x.layout)?;
        let config = SoftmaxConfig::new(place.device.target(), T::Own::SCALAR, &problem)?;
        let config = match self {
            SoftmaxOp::Softmax => config,
            SoftmaxOp::LogSoftmax => config.log(),
        };
        let softmax = place.loaded(config, || -> Result<Loaded<Softmax<T::Own>>, AnyError> {
            Ok(Softmax::new(config)?.load(place.device)?)
        })?;
        Ok(softmax.with(place.options).launch(&problem, (x.buffer, y))?)
    }
}

struct RmsNorm {
    eps: f32,
}

struct LayerNorm {
    eps: f32,
}

/// Launches a norm with a weight and, if there is one, a bias.
fn launch_norm<T: Float>(
    kind: NormKind,
    eps: f32,
    place: &Place<'_>,
    x: Input<'_, T>,
    weight: Input<'_, T>,
    bias: Option<Input<'_, T>>,
    y: &mut Buffer<T::Own>,
) -> Result<(), AnyError> {
    let problem = rows(x.layout)?;
    let target = place.device.target();
    let plain = NormConfig::new(kind, target, T::Own::SCALAR, &problem)?;
    let config = NormConfig { weight: true, bias: bias.is_some(), ..plain };
    let norm = place.loaded(config, || -> Result<Loaded<Norm<T::Own>>, AnyError> {
        Ok(Norm::new(config)?.load(place.device)?)
    })?;
    let args = NormArgs::new(x.buffer, y).weight(weight.buffer).epsilon(eps);
    let args = NormArgs { bias: bias.map(|bias| bias.buffer), ..args };
    Ok(norm.with(place.options).launch(&problem, args)?)
}

impl Operation<2> for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn shape(&self, [x, weight]: [&Layout; 2]) -> Result<Shape, AnyError> {
        check_columns(x, weight, self.name())?;
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x, weight]: [Input<'_, T>; 2],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        launch_norm(NormKind::Rms, self.eps, place, x, weight, None, y)
    }
}

impl Operation<3> for LayerNorm {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn shape(&self, [x, weight, bias]: [&Layout; 3]) -> Result<Shape, AnyError> {
        check_columns(x, weight, self.name())?;
        check_columns(x, bias, self.name())?;
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x, weight, bias]: [Input<'_, T>; 3],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        launch_norm(NormKind::Layer, self.eps, place, x, weight, Some(bias), y)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pointwise {
    Silu,
    Sigmoid,
}

impl Operation<1> for Pointwise {
    fn name(&self) -> &'static str {
        match self {
            Pointwise::Silu => "silu",
            Pointwise::Sigmoid => "sigmoid",
        }
    }

    fn shape(&self, [x]: [&Layout; 1]) -> Result<Shape, AnyError> {
        Ok(x.shape().clone())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x]: [Input<'_, T>; 1],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        type Own<T> = Loaded<Elementwise<T, T, 1>>;
        let kernel = place.loaded(*self, || -> Result<Own<T::Own>, AnyError> {
            let config = ElementwiseConfig::new(place.device.target(), 1);
            let is_exact = T::DTYPE == DType::F32;
            let kernel = Elementwise::new(config, self.name(), |_, [x]| match self {
                Pointwise::Silu if is_exact => x.silu(),
                Pointwise::Silu => x.silu_fast(),
                Pointwise::Sigmoid if is_exact => x.sigmoid(),
                Pointwise::Sigmoid => x.sigmoid_fast(),
            })?;
            Ok(kernel.load(place.device)?)
        })?;
        Ok(kernel.with(place.options).launch(&(), ([x.buffer], y))?)
    }
}

struct Swiglu;

impl Operation<1> for Swiglu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn shape(&self, [x]: [&Layout; 1]) -> Result<Shape, AnyError> {
        rows(x)?;
        let mut dims = x.dims().to_vec();
        match dims.last_mut() {
            Some(columns) if columns.is_multiple_of(2) => *columns /= 2,
            _ => {
                let (shape, dim) = (x.shape().clone(), x.dims().len() - 1);
                return Err(Error::ShapeMismatchSplit { shape, dim, n_parts: 2 }.into());
            }
        }
        Ok(dims.into())
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x]: [Input<'_, T>; 1],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        /// The input, the output, the output's columns, and the blocks that share a row.
        type Params<E> = (Global<E>, GlobalMut<E>, i32, i32);
        let RowProblem { rows, columns, .. } = rows(x.layout)?;
        let columns = columns / 2;
        let mut tile =
            RowTile { threads: 256, team: 256, cluster: 1, vectors: 2, access: RowAccess::Aligned };
        if !columns.is_multiple_of(tile.vector(T::Own::SCALAR)) {
            tile.access = RowAccess::Elements;
        }
        let block = tile.capacity(T::Own::SCALAR);
        let swiglu = place.loaded(tile, || -> Result<Function<Params<T::Own>>, AnyError> {
            let (options, target) = (tile.options(), place.device.target());
            let is_exact = T::DTYPE == DType::F32;
            let kernel = Kernel::<Params<T::Own>>::build_with(
                options,
                "swiglu",
                target,
                |k, (x, y, columns, blocks)| {
                    let index = k.block_idx().x;
                    let (row, first) =
                        ((index / blocks).cvt::<i64>(), index % blocks * block as i32);
                    let count = (columns - first).min(block as i32);
                    let (first, columns) = (first.cvt::<i64>(), columns.cvt::<i64>());
                    let (input, output) = (row * columns * 2 + first, row * columns + first);
                    let part = tile.part::<T::Own>(k, output, count);
                    let gate = part.load(x.offset(input), 0.0);
                    let linear = part.load(x.offset(input + columns), 0.0);
                    let results = gate.into_iter().zip(linear).map(|(gate, x)| {
                        let silu = if is_exact { gate.silu() } else { gate.silu_fast() };
                        silu * x
                    });
                    part.store(y.offset(output), results.collect::<Vec<_>>());
                },
            )?;
            Ok(place.device.load(&kernel)?)
        })?;
        let blocks = columns.div_ceil(block);
        let all = rows.checked_mul(blocks).ok_or("the tensor has too many rows")?;
        let grid = Grid::new([all, 1, 1], [tile.threads, 1, 1]);
        let args = (x.buffer, y, columns.try_into()?, blocks.try_into()?);
        Ok(swiglu.launch_with(place.options, grid, args)?)
    }
}

struct Linear {
    activation: Option<Activation>,
}

impl Linear {
    const NAME: &'static str = "linear";

    fn output(&self, x: &Layout, weight: &Layout) -> Result<Shape, AnyError> {
        let inputs = x.shape().dim(D::Minus1)?;
        let (outputs, columns) = weight.shape().dims2()?;
        if columns != inputs {
            let (lhs, rhs) = (x.shape().clone(), weight.shape().clone());
            return Err(Error::ShapeMismatchBinaryOp { lhs, rhs, op: Self::NAME }.into());
        }
        if inputs == 0 {
            return Err("there are no inputs".into());
        }
        let mut dims = x.dims().to_vec();
        dims.pop();
        dims.push(outputs);
        Ok(dims.into())
    }

    fn multiply<T: Float>(
        &self,
        place: &Place<'_>,
        x: Input<'_, T>,
        weight: Input<'_, T>,
        bias: Option<Input<'_, T>>,
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        let of_x = rows(x.layout)?;
        let outputs = rows(weight.layout)?.rows;
        let problem = GemmProblem::new(of_x.rows, outputs, of_x.columns);
        let (target, scalar) = (place.device.target(), T::Own::SCALAR);
        let base = match scalar {
            Scalar::F32 => GemmConfig::simt(target, scalar),
            _ => GemmConfig { target, ..GemmConfig::sm90(scalar, [128, 128]) },
        };
        let epilogue = Epilogue {
            bias: bias.map(|_| Bias::Column),
            activation: self.activation,
            ..Epilogue::default()
        };
        let machine = Machine::of(place.device);
        let config = GemmConfig { epilogue, ..base }.best(&problem, &machine)?;
        let gemm = place.loaded(config, || -> Result<Loaded<Gemm<T::Own>>, AnyError> {
            Ok(Gemm::new(config)?.load(place.device)?)
        })?;
        let args = GemmArgs::new(x.buffer, weight.buffer, y);
        let args = match bias {
            Some(bias) => args.bias(bias.buffer),
            None => args,
        };
        gemm.with(place.options).launch(&problem, args)?;
        Ok(())
    }
}

impl Operation<2> for Linear {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn shape(&self, [x, weight]: [&Layout; 2]) -> Result<Shape, AnyError> {
        self.output(x, weight)
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x, weight]: [Input<'_, T>; 2],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        self.multiply(place, x, weight, None, y)
    }
}

impl Operation<3> for Linear {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn shape(&self, [x, weight, bias]: [&Layout; 3]) -> Result<Shape, AnyError> {
        let output = self.output(x, weight)?;
        if bias.shape().dims1()? != output.dim(D::Minus1)? {
            let (lhs, rhs) = (weight.shape().clone(), bias.shape().clone());
            return Err(Error::ShapeMismatchBinaryOp { lhs, rhs, op: Self::NAME }.into());
        }
        Ok(output)
    }

    fn launch<T: Float>(
        &self,
        place: &Place<'_>,
        [x, weight, bias]: [Input<'_, T>; 3],
        y: &mut Buffer<T::Own>,
    ) -> Result<(), AnyError> {
        self.multiply(place, x, weight, Some(bias), y)
    }
}
