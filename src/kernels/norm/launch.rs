//! [`NormFunction`]: a norm loaded on a device. Here buffers are checked against the problem and
//! the kernel is launched.

use crate::ir::builder::{Converted, VectorElement};
use crate::runtime::{Buffer, Device, Function, LaunchOptions, LoadOptions};
use crate::tensor::rows::RowAccess;

use super::super::rows::{RowError, RowProblem, check_aligned, check_len, row_grid};
use super::{AnyKernel, Norm, NormConfig, Params, WithResidual};

/// The buffers and factors of a norm, for [`NormFunction::launch`]. Start from
/// [`new`](NormArgs::new) and add what the kernel's configuration asks for.
pub struct NormArgs<'h, T, D = T> {
    /// The input.
    pub x: &'h Buffer<T>,
    /// The output.
    pub y: &'h mut Buffer<D>,
    /// The residual, with the input's pitch, if the kernel has one. The launch replaces it by the
    /// sum.
    pub residual: Option<&'h mut Buffer<T>>,
    /// One weight per column, if the kernel has weights.
    pub weight: Option<&'h Buffer<T>>,
    /// One bias per column, if the kernel has biases.
    pub bias: Option<&'h Buffer<T>>,
    /// Added below the root. Default: 1e-5.
    pub epsilon: f32,
    /// Factor for all results. Default: 1.
    pub scale: f32,
}

impl<'h, T, D> NormArgs<'h, T, D> {
    /// Returns the arguments without residual, weight and bias.
    pub fn new(x: &'h Buffer<T>, y: &'h mut Buffer<D>) -> Self {
        NormArgs { x, y, residual: None, weight: None, bias: None, epsilon: 1e-5, scale: 1.0 }
    }

    /// Sets the residual.
    pub fn residual(self, residual: &'h mut Buffer<T>) -> Self {
        NormArgs { residual: Some(residual), ..self }
    }

    /// Sets the weight.
    pub fn weight(self, weight: &'h Buffer<T>) -> Self {
        NormArgs { weight: Some(weight), ..self }
    }

    /// Sets the bias.
    pub fn bias(self, bias: &'h Buffer<T>) -> Self {
        NormArgs { bias: Some(bias), ..self }
    }

    /// Sets what is added below the root.
    pub fn epsilon(self, epsilon: f32) -> Self {
        NormArgs { epsilon, ..self }
    }

    /// Sets the factor for all results.
    pub fn scale(self, scale: f32) -> Self {
        NormArgs { scale, ..self }
    }
}

/// A [`Norm`] loaded on a device, made by [`Norm::load`]. Load it once; each
/// [`launch`](NormFunction::launch) takes its own problem and buffers.
pub struct NormFunction<T, D = T> {
    config: NormConfig,
    function: AnyFunction<T, D>,
    /// Stands in for a weight or bias that the kernel does not have.
    none: Buffer<T>,
}

enum AnyFunction<T, D> {
    Plain(Function<(Params<T, D>,)>),
    Residual(Function<WithResidual<T, D>>),
}

impl<T: VectorElement<2> + Converted, D: VectorElement<2> + Converted> Norm<T, D> {
    /// Loads the kernel on a device.
    ///
    /// # Errors
    /// Returns the error of [`Device::load`].
    pub fn load(&self, device: &Device) -> Result<NormFunction<T, D>, RowError> {
        self.load_with(LoadOptions::default(), device)
    }

    /// Loads the kernel as [`load`](Norm::load) does, with options.
    ///
    /// # Errors
    /// Returns the error of [`Device::load_with`].
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
    /// Returns the log of the driver's compiler.
    pub fn compiler_log(&self) -> &str {
        match &self.function {
            AnyFunction::Plain(function) => function.compiler_log(),
            AnyFunction::Residual(function) => function.compiler_log(),
        }
    }

    /// Launches the kernel on the default stream. Does nothing if the matrix is empty.
    ///
    /// # Errors
    /// Returns the errors of
    /// [`RowConfig::check_problem`](crate::kernels::rows::RowConfig::check_problem) and of
    /// [`Function::launch`], and errors for an operand that is missing or unused, and for buffers
    /// that are too short or misaligned.
    pub fn launch(&self, problem: &RowProblem, args: NormArgs<'_, T, D>) -> Result<(), RowError> {
        self.launch_with(LaunchOptions::default(), problem, args)
    }

    /// Launches as [`launch`](NormFunction::launch) does, with options such as a stream.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](NormFunction::launch).
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
