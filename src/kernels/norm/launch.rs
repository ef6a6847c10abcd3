//! [`NormFunction`]: a norm on a device.

use crate::ir::builder::{Converted, VectorElement};
use crate::runtime::{Buffer, Device, Function, LaunchOptions, LoadOptions};
use crate::tensor::RowAccess;

use super::super::rows::{RowError, RowProblem, check_aligned, check_len, row_grid};
use super::{AnyKernel, Norm, NormConfig, Params, WithResidual};

/// The arguments of a launch.
pub struct NormArgs<'h, T, D = T> {
    /// The input.
    pub x: &'h Buffer<T>,
    /// The output.
    pub y: &'h mut Buffer<D>,
    /// The residual, with the pitch of the input, where the kernel has one.
    pub residual: Option<&'h mut Buffer<T>>,
    /// The weight of each column, where the kernel has one.
    pub weight: Option<&'h Buffer<T>>,
    /// The bias of each column, where the kernel has one.
    pub bias: Option<&'h Buffer<T>>,
    /// The addend below the root: 1e-5 by default.
    pub epsilon: f32,
    /// The factor of all results: 1 by default.
    pub scale: f32,
}

impl<'h, T, D> NormArgs<'h, T, D> {
    /// A norm without operands.
    pub fn new(x: &'h Buffer<T>, y: &'h mut Buffer<D>) -> Self {
        NormArgs { x, y, residual: None, weight: None, bias: None, epsilon: 1e-5, scale: 1.0 }
    }

    /// The same with a residual.
    pub fn residual(self, residual: &'h mut Buffer<T>) -> Self {
        NormArgs { residual: Some(residual), ..self }
    }

    /// The same with a weight.
    pub fn weight(self, weight: &'h Buffer<T>) -> Self {
        NormArgs { weight: Some(weight), ..self }
    }

    /// The same with a bias.
    pub fn bias(self, bias: &'h Buffer<T>) -> Self {
        NormArgs { bias: Some(bias), ..self }
    }

    /// The same with this addend below the root.
    pub fn epsilon(self, epsilon: f32) -> Self {
        NormArgs { epsilon, ..self }
    }

    /// The same with this factor of all results.
    pub fn scale(self, scale: f32) -> Self {
        NormArgs { scale, ..self }
    }
}

/// A [`Norm`] that a device has loaded.
pub struct NormFunction<T, D = T> {
    config: NormConfig,
    function: AnyFunction<T, D>,
    /// In the place of a weight or a bias that is not there.
    none: Buffer<T>,
}

enum AnyFunction<T, D> {
    Plain(Function<(Params<T, D>,)>),
    Residual(Function<WithResidual<T, D>>),
}

impl<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted> Norm<T, D> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// Those of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<NormFunction<T, D>, RowError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// As [`load`](Norm::load), with options.
    ///
    /// # Errors
    /// Those of [`Device::load_with`].
    pub fn load_with(
        &self,
        options: LoadOptions<'_>,
        device: &Device,
    ) -> Result<NormFunction<T, D>, RowError> {
        let (config, none) = (self.config, device.zeros(1)?);
        let function = match &self.kernel {
            AnyKernel::Plain(kernel) => AnyFunction::Plain(device.load_with(options, kernel)?),
            AnyKernel::Residual(kernel) => {
                AnyFunction::Residual(device.load_with(options, kernel)?)
            }
        };
        Ok(NormFunction { config, function, none })
    }
}

impl<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted> NormFunction<T, D> {
    /// Returns what the driver's compiler wrote.
    pub fn compiler_log(&self) -> &str {
        match &self.function {
            AnyFunction::Plain(function) => function.compiler_log(),
            AnyFunction::Residual(function) => function.compiler_log(),
        }
    }

    /// Starts the kernel, on the stream for all work that names none. No elements are no work.
    ///
    /// # Errors
    /// Those of [`RowConfig::check_problem`](crate::kernels::rows::RowConfig::check_problem); an operand that is missing or
    /// of no use; buffers that are too short or misaligned; those of [`Function::launch`].
    pub fn launch(&self, problem: &RowProblem, args: NormArgs<'_, T, D>) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// As [`launch`](NormFunction::launch), with options.
    ///
    /// # Errors
    /// Those of [`launch`](NormFunction::launch).
    pub fn launch_with(
        &self,
        options: LaunchOptions<'_>,
        problem: &RowProblem,
        args: NormArgs<'_, T, D>,
    ) -> Result<(), RowError> {
        let NormArgs { x, y, residual, weight, bias, epsilon, scale } = args;
        let config = &self.config;
        let operands = [
            ("a residual", config.residual, residual.is_some()),
            ("a weight", config.weight, weight.is_some()),
            ("a bias", config.bias, bias.is_some()),
        ];
        for (operand, needed, given) in operands {
            if needed != given {
                return Err(RowError::Operand { operand, needed });
            }
        }
        let tile = &config.rows.tile;
        let [pitch, y_pitch] = config.rows.check_problem(T::scalar(), problem)?;
        check_len("the input", x.len(), problem.len(pitch))?;
        check_len("the output", y.len(), problem.len(y_pitch))?;
        check_aligned("the input", tile, x.is_aligned_to(16))?;
        check_aligned("the output", tile, y.is_aligned_to(16))?;
        if let Some(residual) = &residual {
            check_len("the residual", residual.len(), problem.len(pitch))?;
            check_aligned("the residual", tile, residual.is_aligned_to(16))?;
        }
        for (operand, buffer) in [("the weight", weight), ("the bias", bias)] {
            let Some(buffer) = buffer else { continue };
            check_len(operand, buffer.len(), problem.columns.into())?;
            let aligned = tile.access != RowAccess::Aligned || buffer.is_aligned_to(16);
            check_aligned(operand, tile, aligned)?;
        }
        if problem.is_empty() {
            return Ok(());
        }
        let grid = row_grid(tile, problem.rows);
        let sizes = [problem.rows, problem.columns].map(|size| size as i32);
        let columns = [weight.unwrap_or(&self.none), bias.unwrap_or(&self.none)];
        let values = [epsilon, scale];
        let params = ((x, pitch as i64), (y, y_pitch as i64), columns, values, sizes);
        match (&self.function, residual) {
            (AnyFunction::Residual(function), Some(residual)) => {
                function.launch_with(options, grid, (params, residual))?;
            }
            (AnyFunction::Plain(function), _) => function.launch_with(options, grid, (params,))?,
            (AnyFunction::Residual(_), None) => {
                return Err(RowError::Operand { operand: "a residual", needed: true });
            }
        }
        Ok(())
    }
}
