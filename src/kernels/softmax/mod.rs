//! Softmax and log-softmax over the rows of a matrix.

use std::f32::consts::LOG2_E;
use std::fmt;
use std::marker::PhantomData;

use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, Global, GlobalMut, Kernel, Target, Untyped, Val};
use crate::runtime::{
    AnyElement, ArgList, BufferElement, BufferMut, BufferRef, Function, Grid, LoadOptions,
};
use crate::tensor::rows::chained;

use super::ready::{Built, Launch, ReadyKernel};
use super::rows::{
    Input, Output, RowConfig, RowError, RowProblem, check_matrix, own_row, row_grid, with_elements,
};

/// What decides the generated code of a [`Softmax`] kernel. [`new`](SoftmaxConfig::new) chooses it
/// for rows of a given size; set fields yourself to tune, or to ask for other options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxConfig {
    /// The target and the row tile.
    pub rows: RowConfig,
    /// True to compute the logarithm of the softmax.
    pub log: bool,
}

impl SoftmaxConfig {
    /// Returns the configuration for rows of this size with input elements of this type.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::new`].
    #[inline]
    pub fn new(target: Target, input: Scalar, problem: &RowProblem) -> Result<Self, RowError> {
        Ok(SoftmaxConfig { rows: RowConfig::new(target, input, problem)?, log: false })
    }

    /// Switches to the logarithm of the softmax.
    pub fn log(self) -> Self {
        SoftmaxConfig { log: true, ..self }
    }
}

/// Prints the configuration's name: `softmax` or `log_softmax`, then the name of the [`RowConfig`].
impl fmt::Display for SoftmaxConfig {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", if self.log { "log_softmax" } else { "softmax" }, self.rows)
    }
}

/// Input and output, each with its pitch; rows and columns.
type Params<T, D> = ((Global<T>, i64), (GlobalMut<D>, i64), [i32; 2]);

/// The softmax of each row of a matrix, from elements `T` to elements `D`: `y(i) = e^(x(i) - m) /
/// sum of e^(x(j) - m)`, where `m` is the row's largest element; or its logarithm. Both types are
/// `f32`, `f16` or `bf16`; computes in `f32`.
///
/// It reads and writes each element once: a row stays in the registers of a warp, a block or a
/// cluster. If a row contains NaN or +inf, or only -inf, every result in the row is NaN. Softmax
/// results below 2^-126 may become 0, and below 2^-62 if `|m| >= 2^24`.
///
/// A launch takes a [`RowProblem`] and `(&x, &mut y)`. It does nothing if the matrix is empty.
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
/// softmax.launch(&problem, (&x, &mut y))?;
/// assert!(y.to_vec()?.iter().all(|y| (y - 0.2).abs() < 1e-6));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Softmax<T, D = T> {
    config: SoftmaxConfig,
    types: PhantomData<fn(T) -> D>,
}

impl<T: Element + Converted, D: VectorElement<2> + Converted> Softmax<T, D> {
    /// Builds the kernel.
    ///
    /// # Errors
    /// Returns the errors of [`RowConfig::check`], and [`RowError::Element`] for an unsupported
    /// type.
    #[inline]
    pub fn new(config: SoftmaxConfig) -> Result<Built<Self>, RowError> {
        let kernel = config.build(T::SCALAR, D::SCALAR)?;
        Ok(Built::new(Softmax { config, types: PhantomData }, kernel))
    }
}

impl Softmax<AnyElement> {
    /// Builds the kernel for element types that are values: see [`AnyElement`].
    ///
    /// # Errors
    /// Those of [`new`](Softmax::new).
    #[inline]
    pub fn untyped(
        config: SoftmaxConfig,
        input: Scalar,
        output: Scalar,
    ) -> Result<Built<Self>, RowError> {
        Ok(Built::new(Softmax { config, types: PhantomData }, config.build(input, output)?))
    }
}

impl<T: BufferElement, D: BufferElement> ReadyKernel for Softmax<T, D> {
    type Config = SoftmaxConfig;
    type Params = Untyped;
    type Problem = RowProblem;
    type Args<'a> = (T::Ref<'a>, D::Mut<'a>);
    type Shared = ();
    type Error = RowError;

    fn config(&self) -> &SoftmaxConfig {
        &self.config
    }

    fn share(&self, _: &Function<Self::Params>, _: LoadOptions<'_>) -> Result<(), RowError> {
        Ok(())
    }

    /// # Errors
    /// Returns the errors of [`RowConfig::check_problem`] and of [`Function::launch`], and errors
    /// for buffers that are too short or misaligned.
    fn launch(
        &self,
        problem: &RowProblem,
        (x, y): Self::Args<'_>,
        launch: Launch<'_, Self>,
    ) -> Result<(), RowError> {
        launch.start_bound(|args| self.config.bind(problem, x.into(), y.into(), args))
    }
}

impl SoftmaxConfig {
    /// Builds the kernel for elements of these types.
    #[inline]
    fn build(&self, input: Scalar, output: Scalar) -> Result<Kernel<Untyped>, RowError> {
        self.rows.check()?;
        RowConfig::check_element("the input", input, false)?;
        RowConfig::check_element("the output", output, false)?;
        Ok(with_elements(input, output, || build(self))?)
    }

    /// Checks a launch, and returns its grid and appends its arguments; `None` if there is nothing
    /// to do.
    #[inline]
    fn bind<'h>(
        &self,
        problem: &RowProblem,
        x: BufferRef<'h>,
        y: BufferMut<'h>,
        args: &mut ArgList<'h>,
    ) -> Result<Option<Grid>, RowError> {
        let tile = &self.rows.tile;
        let pitches = self.rows.check_problem(x.scalar(), problem)?;
        check_matrix("the input", tile, x, problem.len(pitches[0]))?;
        check_matrix("the output", tile, y.as_ref(), problem.len(pitches[1]))?;
        if problem.is_empty() {
            return Ok(None);
        }
        // In the order of `Params`.
        let [x_pitch, y_pitch] = pitches.map(|pitch| pitch as i64);
        args.buffer(x);
        args.scalars([x_pitch]);
        args.buffer_mut(y);
        args.scalars([y_pitch]);
        args.scalars([problem.rows, problem.columns].map(|size| size as i32));
        Ok(Some(row_grid(tile, problem.rows)))
    }
}

/// Each thread holds elements of one row. The maximum and the sum relative to it are reduced
/// together, as one pair.
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
            let elements = part.load_elements(x.offset(row * x_pitch), f32::NEG_INFINITY);
            // Clamped to a finite value, so that a thread without elements has sum 0.
            let own = Exponent::below(elements.max(k.constant(f32::MIN)));
            let powers = elements.iter_f32().map(|value| own.power(value));
            let sum = chained(k.constant(0.0), powers, |sum, value| sum + value, |a, b| a + b);
            let [max, sum] = part.reduce([own.max, sum], |_, [a, sum_a], [b, sum_b]| {
                let (all, is_a) = (Exponent::below(a.max(b)), a.ge(b));
                let [high, low] = [is_a.select(sum_a, sum_b), is_a.select(sum_b, sum_a)];
                [all.max, low.fma(all.factor(a.min(b)), high)]
            });
            // Converted a second time, because packed elements take half as many registers across
            // the reduction as `f32`.
            let (all, y) = (Exponent::below(max), y.offset(row * y_pitch));
            if log {
                let log_sum = sum.ln() - all.exponent(max) / all.scale;
                part.store(y, elements.iter_f32().map(|value| value - max - log_sum));
            } else {
                let scale = 1.0 / sum;
                part.store(y, elements.iter_f32().map(|value| all.power(value) * scale));
            }
        },
    )
}

/// Computes `e^(value - max)` as `2^(value * scale - max * scale)`, with one `fma` per value. The
/// rounding error of `max * scale` is a factor common to all of them, so it cancels.
struct Exponent<'b> {
    max: Val<'b, f32>,
    scale: Val<'b, f32>,
    shift: Val<'b, f32>,
}

impl<'b> Exponent<'b> {
    /// Prepares exponentials for values up to `max`.
    #[track_caller]
    #[inline]
    fn below(max: Val<'b, f32>) -> Self {
        // From `1.25 * 2^30` on, any other value is at least 128 smaller, so its exponential is 0
        // anyway. Below, `max * LOG2_E` is rounded by at most 64, so the common factor is finite.
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

    /// Returns the factor that rescales exponentials relative to another maximum, including their
    /// common factor.
    #[track_caller]
    #[inline]
    fn factor(&self, other: Val<'b, f32>) -> Val<'b, f32> {
        (other * self.scale - self.shift).exp2_fast()
    }
}
