//! The selective scan of Mamba: a linear recurrence along the time whose coefficients depend on the
//! input.

mod config;
mod error;
mod kernel;
mod problem;

use std::marker::PhantomData;

use crate::ir::Untyped;
use crate::ir::builder::{Converted, VectorElement, with_roles};
use crate::ir::types::Scalar;
use crate::runtime::{Buffer, Function, Grid};
use crate::tensor::rows::{RowAccess, RowTile};

use super::ready::{Built, Launch, ReadyKernel};
pub use config::{DeltaActivation, FinalState, SelectiveScanConfig};
pub use error::SelectiveScanError;
use kernel::{Operands, Params};
pub use problem::SelectiveScanProblem;

/// The selective scan (forward), for elements `T`: `f32`, `f16` or `bf16`. It computes in `f32`.
/// For each sequence `b` of the batch and each channel `d`, with states `n` that start at 0 or at
/// given values, step `t` is
///
/// `delta = activation(dt(b,d,t) + bias(d))`
///
/// `h(n) = e^(delta A(d,n)) h(n) + delta B(b,n,t) x(b,d,t)`
///
/// `y(b,d,t) = (sum of C(b,n,t) h(n) + skip(d) x(b,d,t)) silu(z(b,d,t))`
///
/// The bias, the skip factor (Mamba's D), the gate z, and the states before the first step and
/// after the last one are optional. You can cut a sequence anywhere: start the second part with the
/// final states of the first, and the results are the same bit for bit. The factor `e^(delta A)`
/// has a relative error of about 2^-22.
///
/// A launch takes a [`SelectiveScanProblem`] and [`SelectiveScanArgs`]. Without channels it does
/// nothing, and without steps the final states are the initial ones.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::selective_scan::{
///     DeltaActivation, FinalState, SelectiveScan, SelectiveScanArgs, SelectiveScanConfig, SelectiveScanProblem,
/// };
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// // One channel with two states, of which the first halves and the second stays at each step.
/// let problem = SelectiveScanProblem::new(1, 1, 3);
/// let config = SelectiveScanConfig::new(device.target(), Scalar::F32, 2, &problem)?;
/// let config = SelectiveScanConfig { delta: DeltaActivation::Identity, last: FinalState::Stored, ..config };
/// let scan = SelectiveScan::<f32>::new(config)?.load(&device)?;
/// let (x, dt) = (device.upload(&[1.0, 2.0, 4.0])?, device.upload(&[1.0; 3])?);
/// let (a, ones) = (device.upload(&[-2f32.ln(), 0.0])?, device.upload(&[1.0; 2 * 3])?);
/// let (mut y, mut last) = (device.zeros(3)?, device.zeros(2)?);
/// let args = SelectiveScanArgs {
///     x: &x, dt: &dt, a: &a, b: &ones, c: &ones, y: &mut y,
///     bias: None, skip: None, gate: None, initial: None, last: Some(&mut last),
/// };
/// scan.launch(&problem, args)?;
/// // The states are 1, 2.5, 5.25 and 1, 3, 7; each output is their sum.
/// assert_eq!(last.to_vec()?, [5.25, 7.0]);
/// assert_eq!(y.to_vec()?, [2.0, 5.5, 12.25]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SelectiveScan<T> {
    config: SelectiveScanConfig,
    elem: PhantomData<fn() -> T>,
}

/// The tensors of a selective scan, for a launch of [`SelectiveScan`]. All are compact.
pub struct SelectiveScanArgs<'h, T> {
    /// The input, `[batch, channels, length]`.
    pub x: &'h Buffer<T>,
    /// The step sizes before bias and activation, like `x`.
    pub dt: &'h Buffer<T>,
    /// A, `[channels, states]`: negative, if the states shall decay.
    pub a: &'h Buffer<f32>,
    /// B, `[batch, states, length]`.
    pub b: &'h Buffer<T>,
    /// C, like B.
    pub c: &'h Buffer<T>,
    /// The output, like `x`.
    pub y: &'h mut Buffer<T>,
    /// Added to each channel's `dt`.
    pub bias: Option<&'h Buffer<f32>>,
    /// The factor with which each channel's `x` is added to its output (Mamba's D).
    pub skip: Option<&'h Buffer<f32>>,
    /// z, like `x`: the output is multiplied by `silu(z)`.
    pub gate: Option<&'h Buffer<T>>,
    /// The states before the first step, `[batch, channels, states]`; `None` for 0.
    pub initial: Option<&'h Buffer<f32>>,
    /// The states after the last step, like `initial`, if the kernel stores them
    /// ([`FinalState`]).
    pub last: Option<&'h mut Buffer<f32>>,
}

impl<T: VectorElement<2> + Converted> SelectiveScan<T> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`SelectiveScanConfig::check`], and [`SelectiveScanError::Element`] for an
    /// unsupported type.
    #[inline]
    pub fn new(config: SelectiveScanConfig) -> Result<Built<Self>, SelectiveScanError> {
        config.check()?;
        if ![Scalar::F32, Scalar::F16, Scalar::Bf16].contains(&T::SCALAR) {
            return Err(SelectiveScanError::Element { found: T::SCALAR });
        }
        let kernel = with_roles(&[T::SCALAR], || match config.last {
            FinalState::Dropped => config.build::<0>().map(|kernel| kernel.untyped()),
            FinalState::Stored => config.build::<1>().map(|kernel| kernel.untyped()),
        })?;
        Ok(Built::new(SelectiveScan { config, elem: PhantomData }, kernel))
    }
}

impl<T: VectorElement<2> + Converted> ReadyKernel for SelectiveScan<T> {
    type Config = SelectiveScanConfig;
    /// The final states are a parameter only if they are stored.
    type Params = Untyped;
    type Problem = SelectiveScanProblem;
    type Args<'a> = SelectiveScanArgs<'a, T>;
    type Shared = ();
    type Error = SelectiveScanError;

    fn config(&self) -> &SelectiveScanConfig {
        &self.config
    }

    fn share(&self, _: &Function<Untyped>) -> Result<(), SelectiveScanError> {
        Ok(())
    }

    /// # Errors
    /// Those of [`SelectiveScanProblem::check`] and of [`Function::launch`];
    /// [`SelectiveScanError::Length`] and [`SelectiveScanError::FinalState`] if the kernel does not
    /// suit the problem; errors for buffers that are too short or misaligned.
    fn launch(
        &self,
        problem: &SelectiveScanProblem,
        args: SelectiveScanArgs<'_, T>,
        launch: Launch<'_, Self>,
    ) -> Result<(), SelectiveScanError> {
        problem.check()?;
        let SelectiveScanConfig { access, states, .. } = self.config;
        let SelectiveScanProblem { batch, channels, length } = *problem;
        let is_aligned = access == RowAccess::Aligned;
        let vector = RowTile::vector_len(T::SCALAR);
        if is_aligned && !length.is_multiple_of(vector) {
            return Err(SelectiveScanError::Length { length, vector });
        }
        let needed = self.config.last == FinalState::Stored;
        if args.last.is_some() != needed {
            return Err(SelectiveScanError::FinalState { needed });
        }
        let SelectiveScanArgs { x, dt, a, b, c, y, bias, skip, gate, initial, last } = args;
        let product = |factors: [u64; 3]| factors.into_iter().fold(1, u64::saturating_mul);
        let [batch_len, length_len, states_len] = [batch, length, states].map(u64::from);
        let sequences = product([problem.rows(), length_len, 1]);
        let matrix = product([batch_len, states_len, length_len]);
        let of_elements = [
            ("x", Some(x), sequences),
            ("dt", Some(dt), sequences),
            ("B", Some(b), matrix),
            ("C", Some(c), matrix),
            ("y", Some(&*y), sequences),
            ("z", gate, sequences),
        ];
        for (operand, buffer, needed) in of_elements {
            let Some(buffer) = buffer else { continue };
            check_len(operand, buffer.len(), needed)?;
            if is_aligned && !buffer.is_aligned_to(16) {
                return Err(SelectiveScanError::Address { operand });
            }
        }
        let all_states = product([problem.rows(), states_len, 1]);
        let of_floats = [
            ("A", Some(a), product([channels.into(), states_len, 1])),
            ("the bias", bias, channels.into()),
            ("the skip factors", skip, channels.into()),
            ("the initial states", initial, all_states),
            ("the final states", last.as_deref(), all_states),
        ];
        for (operand, buffer, needed) in of_floats {
            let Some(buffer) = buffer else { continue };
            check_len(operand, buffer.len(), needed)?;
        }
        if problem.rows() == 0 || (length == 0 && last.is_none()) {
            return Ok(());
        }
        let blocks = channels.div_ceil(self.config.channels);
        let grid = Grid::new([blocks, batch, 1], [self.config.threads(), 1, 1]);
        let given = |is_given: bool, count: u32| if is_given { count as i32 } else { 0 };
        let operands = Operands {
            x,
            dt,
            a,
            b,
            c,
            y,
            channels: channels as i32,
            length: length as i32,
            // Another buffer stands in for one that is missing; the kernel does not read it.
            bias_channels: given(bias.is_some(), channels),
            bias: bias.unwrap_or(a),
            skip_channels: given(skip.is_some(), channels),
            skip: skip.unwrap_or(a),
            gate_length: given(gate.is_some(), length),
            gate: gate.unwrap_or(x),
            initial_channels: given(initial.is_some(), channels),
            initial: initial.unwrap_or(a),
        };
        match last {
            None => launch.start_as::<Params<T, 0>>(grid, (operands, []))?,
            Some(last) => launch.start_as::<Params<T, 1>>(grid, (operands, [last]))?,
        }
        Ok(())
    }
}

/// Checks that a buffer is long enough for an operand.
fn check_len(operand: &'static str, found: usize, needed: u64) -> Result<(), SelectiveScanError> {
    let found = found as u64;
    if found < needed {
        return Err(SelectiveScanError::BufferLength { operand, found, needed });
    }
    Ok(())
}
