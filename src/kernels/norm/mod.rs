//! RMSNorm and LayerNorm of the rows of a matrix.

mod launch;

use std::fmt;

use crate::codegen::Ptx;
use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{Body, BuildErrors, Global, GlobalMut, Kernel, KernelIr, Target, Val};
use crate::tensor::{chained, tree};

use super::rows::{RowConfig, RowError, RowProblem, own_row};
pub use launch::{NormArgs, NormFunction};

/// The normalisation of a row `h`, whose mean square and variance are over all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NormKind {
    /// `h / sqrt(mean(h^2) + epsilon)`.
    Rms,
    /// `(h - mean(h)) / sqrt(variance(h) + epsilon)`.
    Layer,
}

/// `rms_norm` or `layer_norm`.
impl fmt::Display for NormKind {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NormKind::Rms => "rms_norm",
            NormKind::Layer => "layer_norm",
        })
    }
}

/// The configuration of a [`Norm`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NormConfig {
    /// The target and the tile of a row.
    pub rows: RowConfig,
    /// The normalisation.
    pub kind: NormKind,
    /// Adds a residual to the input: `h = x + residual`, rounded to `T`, which is stored over the residual. Without it `h = x`.
    pub residual: bool,
    /// Multiplies by a weight of each column.
    pub weight: bool,
    /// Adds a bias of each column.
    pub bias: bool,
}

impl NormConfig {
    /// The configuration for rows of these sizes, with elements of this type in the input: without operands.
    ///
    /// # Errors
    /// Those of [`RowConfig::new`].
    #[inline]
    pub fn new(
        kind: NormKind,
        target: Target,
        input: Scalar,
        problem: &RowProblem,
    ) -> Result<Self, RowError> {
        let rows = RowConfig::new(target, input, problem)?;
        Ok(NormConfig { rows, kind, residual: false, weight: false, bias: false })
    }

    /// The same with a residual.
    pub fn residual(self) -> Self {
        NormConfig { residual: true, ..self }
    }

    /// The same with a weight.
    pub fn weight(self) -> Self {
        NormConfig { weight: true, ..self }
    }

    /// The same with a bias.
    pub fn bias(self) -> Self {
        NormConfig { bias: true, ..self }
    }
}

/// The name of the configuration: the norm, its operands, and the name of [`RowConfig`].
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

/// Input and output, each with its pitch; weight and bias; epsilon and the scale; rows and columns.
type Params<T, D> = ((Global<T>, i64), (GlobalMut<D>, i64), [Global<T>; 2], [f32; 2], [i32; 2]);
/// The same and the residual, with the pitch of the input.
type WithResidual<T, D> = (Params<T, D>, GlobalMut<T>);

/// The kernel of a configuration.
#[derive(Debug)]
enum AnyKernel<T, D> {
    Plain(Kernel<(Params<T, D>,)>),
    Residual(Kernel<WithResidual<T, D>>),
}

/// The norm of each row of a matrix of `T`, as a matrix of `D`: `y = (norm(h) * weight + bias) * scale`. `T` is `f32`,
/// `f16` or `bf16`, and `D` may also be an `f8`, with the largest finite number for results beyond it. Numbers in between
/// are `f32`.
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
    kernel: AnyKernel<T, D>,
}

impl<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted> Norm<T, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`RowConfig::check`]; [`RowError::Element`].
    #[inline]
    pub fn new(config: NormConfig) -> Result<Self, RowError> {
        config.rows.check()?;
        RowConfig::check_element("the input", T::SCALAR, false)?;
        RowConfig::check_element("the output", D::SCALAR, true)?;
        Ok(Norm { config, kernel: build(&config)? })
    }

    /// The configuration.
    pub fn config(&self) -> &NormConfig {
        &self.config
    }

    /// The kernel as IR.
    pub fn ir(&self) -> &KernelIr {
        match &self.kernel {
            AnyKernel::Plain(kernel) => kernel.ir(),
            AnyKernel::Residual(kernel) => kernel.ir(),
        }
    }

    /// Proves that the kernel's accesses are in bounds. See
    /// [`Kernel::prove`](crate::ir::Kernel::prove).
    pub fn prove(&self) -> crate::prove::Proof {
        match &self.kernel {
            AnyKernel::Plain(kernel) => kernel.prove(),
            AnyKernel::Residual(kernel) => kernel.prove(),
        }
    }

    /// The kernel as PTX.
    pub fn ptx(&self) -> Ptx {
        match &self.kernel {
            AnyKernel::Plain(kernel) => kernel.ptx(),
            AnyKernel::Residual(kernel) => kernel.ptx(),
        }
    }
}

fn build<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted>(
    config: &NormConfig,
) -> Result<AnyKernel<T, D>, BuildErrors> {
    let RowConfig { target, tile } = config.rows;
    let kind = if config.kind == NormKind::Rms { "rms_norm" } else { "layer_norm" };
    let name = format!("{kind}_{}_{}", T::SCALAR, config.rows);
    if config.residual {
        let kernel = Kernel::<WithResidual<T, D>>::build_with(
            tile.options(),
            &name,
            target,
            |k, (params, residual)| body::<T, D>(k, config, params, Some(residual)),
        );
        return kernel.map(AnyKernel::Residual);
    }
    let kernel =
        Kernel::<(Params<T, D>,)>::build_with(tile.options(), &name, target, |k, (params,)| {
            body::<T, D>(k, config, params, None);
        });
    kernel.map(AnyKernel::Plain)
}

/// The parameters in the kernel.
type At<'b, T, D> = (
    (Val<'b, Global<T>>, Val<'b, i64>),
    (Val<'b, GlobalMut<D>>, Val<'b, i64>),
    [Val<'b, Global<T>>; 2],
    [Val<'b, f32>; 2],
    [Val<'b, i32>; 2],
);

/// Each thread holds elements of one row, and the weights of their columns.
fn body<'b, T: VectorElement<2> + Converted, D: VectorElement<2> + Converted>(
    k: &mut Body<'b, '_>,
    config: &NormConfig,
    ((x, pitch), (y, y_pitch), [weight, bias], [epsilon, scale], sizes): At<'b, T, D>,
    residual: Option<Val<'b, GlobalMut<T>>>,
) {
    let tile = config.rows.tile;
    let (row, columns) = own_row(k, tile, sizes);
    let part = tile.part::<T>(k, row * pitch, columns);
    let weight = config.weight.then(|| part.load_columns(k, weight));
    let bias = config.bias.then(|| part.load_columns(k, bias));
    let mut elements = part.load_elements(k, x.offset(row * pitch), 0.0);
    let residual = residual.map(|residual| residual.offset(row * pitch));
    let before = residual.map(|residual| part.load_elements(k, residual, 0.0));
    if let (Some(residual), Some(before)) = (residual, before) {
        elements = elements.plus(&before);
        part.store_elements(k, residual, &elements);
    }
    let (zero, count) = (k.constant(0.0), sizes[1].cvt::<f32>());
    let is_layer = config.kind == NormKind::Layer;
    let own_sum = || tree(zero, &elements.to_f32(), |a, b| a + b);
    let mean = is_layer.then(|| part.sum(k, own_sum()) / count);
    // Converted each time: packed elements take fewer registers across a reduction than `f32`.
    let values = || elements.iter_f32();
    let deviations: Vec<_> = match mean {
        // Elements outside the row and their mean are 0, so their deviation is 0.
        Some(mean) => {
            let means = part.where_present(mean, 0.0);
            values().zip(means).map(|(value, mean)| value - mean).collect()
        }
        None => values().collect(),
    };
    let squares = chained(zero, deviations, |sum, value| value.fma(value, sum), |a, b| a + b);
    let factor = (part.sum(k, squares) / count + epsilon).rsqrt() * scale;
    let mut columns = [&weight, &bias].map(|of| of.as_ref().map(|of| of.iter_f32(k)));
    let results = values().map(|value| {
        let [weight, bias] = columns.each_mut().map(|of| of.as_mut().and_then(|of| of.next()));
        let value = mean.map_or(value, |mean| value - mean) * factor;
        let value = weight.map_or(value, |weight| value * weight);
        bias.map_or(value, |bias| bias.fma(scale, value))
    });
    part.store(k, y.offset(row * y_pitch), results);
}
