//! RMSNorm and LayerNorm over the rows of a matrix, with optional residual, weight and bias.

mod args;
mod quantized;

use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{
    Body, BuildErrors, Global, GlobalMut, Kernel, KernelOptions, Target, Untyped, Val,
};
use crate::runtime::{
    AnyElement, ArgList, BufferElement, BufferMut, BufferRef, Function, Grid, LoadOptions,
};
use crate::tensor::rows::{RowAccess, RowPartition, RowTile, chained, tree};

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::{
    Input, Output, RowConfig, RowError, RowProblem, check_aligned, check_len, check_matrix,
    own_row, row_grid, with_elements,
};
pub use args::NormArgs;
pub use quantized::{QuantizedNorm, QuantizedNormArgs, QuantizedNormProblem};

/// How a row `h` is normalised. Mean and variance are taken over all its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `h / sqrt(mean(h^2) + epsilon)`.
    Rms,
    /// `(h - mean(h)) / sqrt(variance(h) + epsilon)`.
    Layer,
}

/// Prints `rms_norm` or `layer_norm`.
impl fmt::Display for NormKind {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NormKind::Rms => "rms_norm",
            NormKind::Layer => "layer_norm",
        })
    }
}

/// What decides the generated code of a [`Norm`] kernel. [`new`](NormConfig::new) chooses it for
/// rows of a given size; set fields yourself to tune, or to ask for other options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NormConfig {
    /// The target and the row tile.
    pub rows: RowConfig,
    /// RMSNorm or LayerNorm.
    pub kind: NormKind,
    /// Adds a residual to the input: `h = x + residual`, rounded to `T`. The sum is also stored
    /// over the residual, for the next layer. Without a residual, `h = x`.
    pub residual: bool,
    /// Multiplies each column by a weight.
    pub weight: bool,
    /// Adds a bias to each column.
    pub bias: bool,
}

impl NormConfig {
    /// Returns the configuration for rows of this size with input elements of this type, without
    /// residual, weight and bias.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::new`].
    #[inline]
    pub fn new(
        kind: NormKind,
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Result<Self, RowError> {
        let mut rows = RowConfig::new(target, input, problem)?;
        let usual =
            RowTile { threads: 256, team: 256, cluster: 1, vectors: 4, access: RowAccess::Aligned };
        // LayerNorm reduces a row twice: half as many threads wait for each other half as long.
        if kind == NormKind::Layer && rows.tile == usual {
            rows.tile = RowTile { threads: 128, team: 128, vectors: 8, ..usual };
        }
        Ok(NormConfig { rows, kind, residual: false, weight: false, bias: false })
    }

    /// Adds a residual.
    pub fn residual(self) -> Self {
        NormConfig { residual: true, ..self }
    }

    /// Adds a weight.
    pub fn weight(self) -> Self {
        NormConfig { weight: true, ..self }
    }

    /// Adds a bias.
    pub fn bias(self) -> Self {
        NormConfig { bias: true, ..self }
    }
}

/// Prints the configuration's name: the norm, its operands, then the name of the [`RowConfig`].
impl fmt::Display for NormConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NormConfig { rows, kind, residual, weight, bias } = *self;
        write!(f, "{kind}")?;
        let operands = [(residual, "_residual"), (weight, "_weight"), (bias, "_bias")];
        operands.iter().filter(|(has, _)| *has).try_for_each(|(_, name)| f.write_str(name))?;
        write!(f, "_{rows}")
    }
}

crate::params! {
    struct Params => ParamsAt<'b> {
        x: Global<Input>,
        x_pitch: i64,
        y: GlobalMut<Output>,
        y_pitch: i64,
        /// Not read if the kernel has no weight.
        weight: Global<Input>,
        /// Not read if the kernel has no bias.
        bias: Global<Input>,
        epsilon: f32,
        scale: f32,
        rows: i32,
        columns: i32,
    }
}
/// With the residual, which has the input's pitch.
type WithResidual = (Params, GlobalMut<Input>);

/// The norm of each row of a matrix, from elements `T` to elements `D`: `y = (norm(h) * weight +
/// bias) * scale`. `T` is `f32`, `f16` or `bf16`. `D` may also be an `f8`, in which results that
/// are too large become the largest finite value. Computes in `f32`.
///
/// A launch takes a [`RowProblem`] and [`NormArgs`]. It does nothing if the matrix is empty.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::norm::{Norm, NormArgs, NormConfig, NormKind};
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// let problem = RowProblem::new(3, 4);
/// let config = NormConfig::new(NormKind::Rms, device.target(), Scalar::Bf16, &problem)?.weight();
/// let norm = Norm::<bf16, f32>::new(config)?.load(&device)?;
/// let x = device.upload(&[bf16::from_f32(3.0); 12])?;
/// let weight = device.upload(&[1.0, 2.0, 3.0, 4.0].map(bf16::from_f32))?;
/// let mut y = device.zeros::<f32>(12)?;
/// norm.launch(&problem, NormArgs::new(&x, &mut y).epsilon(0.0).weight(&weight))?;
/// assert_eq!(y.to_vec()?[4..8], [1.0, 2.0, 3.0, 4.0]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Norm<T, D = T> {
    config: NormConfig,
    types: PhantomData<fn(T) -> D>,
}

impl<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted> Norm<T, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], and [`RowError::Element`] for an unsupported
    /// type.
    #[inline]
    pub fn new(config: NormConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR, D::SCALAR)?;
        Ok(Built::new(Norm { config, types: PhantomData }, kernel))
    }
}

impl Norm<AnyElement> {
    /// Builds the kernel for element types that are values: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`new`](Norm::new).
    #[inline]
    pub fn untyped(
        config: NormConfig,
        input: Scalar,
        output: Scalar,
    ) -> Result<Built<Self>, RowError> {
        Ok(Built::new(Norm { config, types: PhantomData }, config.build(input, output)?))
    }
}

impl<T: BufferElement, D: BufferElement> ReadyKernel for Norm<T, D> {
    type Config = NormConfig;
    /// With a residual there is one parameter more.
    type Params = Untyped;
    type Problem = RowProblem;
    type Args<'a> = NormArgs<'a, T, D>;
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &NormConfig {
        &self.config
    }

    fn share(&self, _: &Function<Untyped>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Returns the errors of [`RowConfig::check_problem`] and of [`Function::launch`], and errors
    /// for an operand that is missing or unused, and for buffers that are too short or misaligned.
    fn launch(
        &self,
        problem: &RowProblem,
        args: NormArgs<'_, T, D>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|list| self.config.bind(problem, args.into(), list))
    }
}

/// As [`NormArgs`], without the Rust types of the elements.
struct BoundArgs<'h> {
    x: BufferRef<'h>,
    y: BufferMut<'h>,
    residual: Option<BufferMut<'h>>,
    weight: Option<BufferRef<'h>>,
    bias: Option<BufferRef<'h>>,
    epsilon: f32,
    scale: f32,
}

impl<'h, T: BufferElement, D: BufferElement> From<NormArgs<'h, T, D>> for BoundArgs<'h> {
    #[inline]
    fn from(args: NormArgs<'h, T, D>) -> Self {
        let NormArgs { x, y, residual, weight, bias, epsilon, scale } = args;
        let (x, y) = (x.into(), y.into());
        let [weight, bias] = [weight, bias].map(|operand| operand.map(Into::into));
        BoundArgs { x, y, residual: residual.map(Into::into), weight, bias, epsilon, scale }
    }
}

impl NormConfig {
    /// Builds the kernel for elements of these types.
    #[inline]
    fn build(&self, input: Scalar, output: Scalar) -> Result<Kernel<Untyped>, RowError> {
        self.rows.check()?;
        RowConfig::check_element("the input", input, false)?;
        RowConfig::check_element("the output", output, true)?;
        Ok(build(self, input, output)?)
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    fn bind<'h>(
        &self,
        problem: &RowProblem,
        args: BoundArgs<'h>,
        list: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let BoundArgs { x, y, residual, weight, bias, epsilon, scale } = args;
        let operands = [
            ("a residual", self.residual, residual.is_some()),
            ("a weight", self.weight, weight.is_some()),
            ("a bias", self.bias, bias.is_some()),
        ];
        for (operand, needed, given) in operands {
            if needed != given {
                return Err(RowError::Operand { operand, needed });
            }
        }
        let tile = &self.rows.tile;
        let [pitch, y_pitch] = self.rows.check_problem(x.scalar(), problem)?;
        check_matrix("the input", tile, x, problem.len(pitch))?;
        check_matrix("the output", tile, y.as_ref(), problem.len(y_pitch))?;
        if let Some(residual) = &residual {
            check_matrix("the residual", tile, residual.as_ref(), problem.len(pitch))?;
        }
        for (operand, buffer) in [("the weight", weight), ("the bias", bias)] {
            let Some(buffer) = buffer else { continue };
            check_len(operand, buffer.len(), problem.columns.into())?;
            let aligned = tile.access != RowAccess::Aligned || buffer.is_aligned_to(16);
            check_aligned(operand, tile, aligned)?;
        }
        if problem.is_empty() {
            return Ok(None);
        }
        // In the order of `Params`.
        list.buffer(x);
        list.scalars([pitch as i64]);
        list.buffer_mut(y);
        list.scalars([y_pitch as i64]);
        // `x` stands in for a weight or a bias that the kernel does not have, and does not read.
        list.buffer(weight.unwrap_or(x));
        list.buffer(bias.unwrap_or(x));
        list.scalars([epsilon, scale]);
        list.scalars([problem.rows, problem.columns].map(|size| size as i32));
        if let Some(residual) = residual {
            list.buffer_mut(residual);
        }
        Ok(Some(row_grid(tile, problem.rows)))
    }
}

#[inline]
fn build(
    config: &NormConfig,
    input: Scalar,
    output: Scalar,
) -> Result<Kernel<Untyped>, BuildErrors> {
    let tile = config.rows.tile;
    let kind = if config.kind == NormKind::Rms { "rms_norm" } else { "layer_norm" };
    let name = format!("{kind}_{input}_{}", config.rows);
    let (options, name) = (tile.options(), name.as_str());
    match config.residual {
        true => with_elements(input, output, || build_residual(config, options, name)),
        false => with_elements(input, output, || build_plain(config, options, name)),
    }
}

#[inline]
fn build_residual(
    config: &NormConfig,
    options: KernelOptions,
    name: &str,
) -> Result<Kernel<WithResidual>, BuildErrors> {
    let target = config.rows.target;
    Kernel::<WithResidual>::build_with(options, name, target, |k, (params, residual)| {
        body(k, config, &params, Some(residual), |_, row, results| {
            row.part.store(row.output(), results);
        });
    })
}

#[inline]
fn build_plain(
    config: &NormConfig,
    options: KernelOptions,
    name: &str,
) -> Result<Kernel<(Params,)>, BuildErrors> {
    let target = config.rows.target;
    Kernel::<(Params,)>::build_with(options, name, target, |k, (params,)| {
        body(k, config, &params, None, |_, row, results| row.part.store(row.output(), results));
    })
}

/// A thread's row, and its share of it.
struct OwnRow<'b> {
    index: Val<'b, i64>,
    part: RowPartition<'b>,
    y: Val<'b, GlobalMut<Output>>,
    y_pitch: Val<'b, i64>,
}

impl<'b> OwnRow<'b> {
    /// Returns the start of the row's results.
    #[inline]
    fn output(&self) -> Val<'b, GlobalMut<Output>> {
        self.y.offset(self.index * self.y_pitch)
    }
}

/// A thread's results, in the order of [`RowPartition`].
type Results<'r, 'b> = &'r mut dyn Iterator<Item = Val<'b, f32>>;

/// Each thread holds elements of one row, and the weights of their columns. `store` gets the
/// results, which are computed when it takes them.
#[inline]
fn body<'b>(
    k: &mut Body<'b, '_>,
    config: &NormConfig,
    params: &ParamsAt<'b>,
    residual: Option<Val<'b, GlobalMut<Input>>>,
    store: impl FnOnce(&mut Body<'b, '_>, &OwnRow<'b>, Results<'_, 'b>),
) {
    let ParamsAt { epsilon, scale, .. } = *params;
    let tile = config.rows.tile;
    let (row, columns) = own_row(k, tile, [params.rows, params.columns]);
    let first = row * params.x_pitch;
    let part = tile.part::<Input>(k, first, columns);
    let weight = config.weight.then(|| part.load_columns(params.weight));
    let bias = config.bias.then(|| part.load_columns(params.bias));
    let mut elements = part.load_elements(params.x.offset(first), 0.0);
    let residual = residual.map(|residual| residual.offset(first));
    let before = residual.map(|residual| part.load_elements(residual, 0.0));
    if let (Some(residual), Some(before)) = (residual, before) {
        elements = elements.plus(&before);
        part.store_elements(residual, &elements);
    }
    let (zero, count) = (k.constant(0.0), params.columns.cvt::<f32>());
    let is_layer = config.kind == NormKind::Layer;
    let own_sum = || tree(zero, &elements.to_f32(), |a, b| a + b);
    let mean = is_layer.then(|| part.sum(own_sum()) / count);
    // Converted again each time, because packed elements take fewer registers across a reduction
    // than `f32`.
    let values = || elements.iter_f32();
    let deviations: Vec<_> = match mean {
        // Elements outside the row are 0 and get mean 0, so their deviation is 0.
        Some(mean) => {
            let means = part.where_present(mean, 0.0);
            values().zip(means).map(|(value, mean)| value - mean).collect()
        }
        None => values().collect(),
    };
    let squares = chained(zero, deviations, |sum, value| value.fma(value, sum), |a, b| a + b);
    let factor = (part.sum(squares) / count + epsilon).rsqrt() * scale;
    let mut columns = [&weight, &bias].map(|of| of.as_ref().map(|of| of.iter_f32()));
    let mut results = values().map(|value| {
        let [weight, bias] = columns.each_mut().map(|of| of.as_mut().and_then(|of| of.next()));
        let value = mean.map_or(value, |mean| value - mean) * factor;
        let value = weight.map_or(value, |weight| value * weight);
        bias.map_or(value, |bias| bias.fma(scale, value))
    });
    let ParamsAt { y, y_pitch, .. } = *params;
    store(k, &OwnRow { index: row, part, y, y_pitch }, &mut results);
}
