//! Softmax and log-softmax of the rows of a matrix.

mod launch;

use std::f32::consts::LOG2_E;
use std::fmt;

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, Val};
use crate::tensor::chained;

use super::rows::{Input, Output, RowConfig, RowError, RowProblem, own_row, with_elements};
pub use launch::SoftmaxFunction;

/// The configuration of a [`Softmax`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxConfig {
    /// The target and the tile of a row.
    pub rows: RowConfig,
    /// The result is the logarithm of the softmax.
    pub log: bool,
}

impl SoftmaxConfig {
    /// The configuration for rows of these sizes, with elements of this type in the input.
    ///
    /// # Errors
    /// Those of [`RowConfig::new`].
    #[inline]
    pub fn new(target: Target, input: Scalar, problem: &RowProblem) -> Result<Self, RowError> {
        Ok(SoftmaxConfig { rows: RowConfig::new(target, input, problem)?, log: false })
    }

    /// The same for the logarithm of the softmax.
    pub fn log(self) -> Self {
        SoftmaxConfig { log: true, ..self }
    }
}

/// The name of the configuration: `softmax` or `log_softmax`, and the name of [`RowConfig`].
impl fmt::Display for SoftmaxConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", if self.log { "log_softmax" } else { "softmax" }, self.rows)
    }
}

/// The input and the output, each with its pitch; rows and columns.
type Params<T, D> = ((Global<T>, i64), (GlobalMut<D>, i64), [i32; 2]);

/// The softmax of each row of a matrix of `T`, as a matrix of `D`: `y(i) = e^(x(i) - m) / sum of e^(x(j) - m)` for the
/// largest element `m` of the row; or its logarithm. Both types are `f32`, `f16` or `bf16`; numbers in between are `f32`.
///
/// A row with NaN or positive infinity, or with nothing but negative infinity, is NaN as a whole. Results of the softmax
/// below 2^-126 may be 0, and below 2^-62 if `|m| >= 2^24`.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::bf16;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
/// use tilewright::runtime::Device;
///
/// let device = Device::sim()?;
/// let problem = RowProblem::new(3, 5);
/// let config = SoftmaxConfig::new(device.target(), Scalar::Bf16, &problem)?;
/// let softmax = Softmax::<bf16, f32>::new(config)?.load(&device)?;
/// let x = device.upload(&[bf16::from_f32(7.0); 15])?;
/// let mut y = device.zeros::<f32>(15)?;
/// softmax.launch(&problem, &x, &mut y)?;
/// assert!(y.to_vec()?.iter().all(|y| (y - 0.2).abs() < 1e-6));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Softmax<T, D = T> {
    config: SoftmaxConfig,
    kernel: Kernel<Params<T, D>>,
}

impl<T: Element + Converted, D: VectorElement<2> + Converted> Softmax<T, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Those of [`RowConfig::check`]; [`RowError::Element`].
    #[inline]
    pub fn new(config: SoftmaxConfig) -> Result<Self, RowError> {
        config.rows.check()?;
        RowConfig::check_element("the input", T::SCALAR, false)?;
        RowConfig::check_element("the output", D::SCALAR, false)?;
        let kernel = with_elements(T::SCALAR, D::SCALAR, || build(&config))?;
        Ok(Softmax { config, kernel })
    }
}

/// Each thread holds elements of one row. The largest element and the sum, relative to it, are reduced as one pair.
#[inline]
fn build(config: &SoftmaxConfig) -> Result<Kernel<Params<Input, Output>>, BuildErrors> {
    let SoftmaxConfig { rows: RowConfig { target, tile }, log } = *config;
    let kind = if log { "log_softmax" } else { "softmax" };
    let name = format!("{kind}_{}_{}", Input::scalar(), config.rows);
    Kernel::<Params<Input, Output>>::build_with(
        tile.options(),
        &name,
        target,
        |k, ((x, x_pitch), (y, y_pitch), sizes)| {
            let (row, columns) = own_row(k, tile, sizes);
            let part = tile.part::<Input>(k, row * x_pitch, columns);
            let elements = part.load_elements(k, x.offset(row * x_pitch), f32::NEG_INFINITY);
            // Finite, so that a thread without elements has the sum 0.
            let own = Exponent::below(elements.max(k.constant(f32::MIN)));
            let powers = elements.iter_f32().map(|value| own.power(value));
            let sum = chained(k.constant(0.0), powers, |sum, value| sum + value, |a, b| a + b);
            let [max, sum] = part.reduce(k, [own.max, sum], |_, [a, sum_a], [b, sum_b]| {
                let (all, is_a) = (Exponent::below(a.max(b)), a.ge(b));
                let [high, low] = [is_a.select(sum_a, sum_b), is_a.select(sum_b, sum_a)];
                [all.max, low.fma(all.factor(a.min(b)), high)]
            });
            // Converted again: packed elements take half the registers of `f32` across the reduction.
            let (all, y) = (Exponent::below(max), y.offset(row * y_pitch));
            if log {
                let log_sum = sum.ln() - all.exponent(max) / all.scale;
                part.store(k, y, elements.iter_f32().map(|value| value - max - log_sum));
            } else {
                let scale = k.constant(1.0) / sum;
                part.store(k, y, elements.iter_f32().map(|value| all.power(value) * scale));
            }
        },
    )
}

/// The powers `e^(value - max)`, as `2^(value * scale - max * scale)`: one `fma` for each value. The rounding of
/// `max * scale` is a factor that all of them have.
struct Exponent<'b> {
    max: Val<'b, f32>,
    scale: Val<'b, f32>,
    shift: Val<'b, f32>,
}

impl<'b> Exponent<'b> {
    /// Those of values up to `max`.
    #[track_caller]
    #[inline]
    fn below(max: Val<'b, f32>) -> Self {
        // From `1.25 * 2^30` on, other values are at least 128 below, so that their powers are 0. Below it, `max * LOG2_E` is
        // rounded by at most 64: the factor is a finite number.
        let is_large = max.abs().ge((5 << 28) as f32);
        let scale = is_large.select::<f32>(1.0, LOG2_E);
        Exponent { max, scale, shift: max * scale }
    }

    #[track_caller]
    #[inline]
    fn exponent(&self, value: Val<'b, f32>) -> Val<'b, f32> {
        value.fma(self.scale, -self.shift)
    }

    #[track_caller]
    #[inline]
    fn power(&self, value: Val<'b, f32>) -> Val<'b, f32> {
        self.exponent(value).exp2_fast()
    }

    /// Returns what the powers below another maximum are multiplied by, with the factor that those have.
    #[track_caller]
    #[inline]
    fn factor(&self, other: Val<'b, f32>) -> Val<'b, f32> {
        (other * self.scale - self.shift).exp2_fast()
    }
}
