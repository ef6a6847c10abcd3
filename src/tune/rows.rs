//! [`SoftmaxTunable`] and [`NormTunable`]: kernels that work on rows, as [`Tunable`]s.

use std::marker::PhantomData;

use super::data;
use super::data::not_a_number;
use super::definition::{Definition, is_close};
use super::search::Rejection;
use super::tunable::Tunable;
use crate::ir::builder::{Converted, VectorElement};
use crate::ir::{Body, Element, Target, Val, range};
use crate::kernels::norm::{Norm, NormArgs, NormConfig, NormKind};
use crate::kernels::rows::{RowConfig, RowError, RowProblem};
use crate::kernels::softmax::{Softmax, SoftmaxConfig};
use crate::kernels::{Built, Loaded};
use crate::runtime::{Buffer, Device, LaunchOptions, Stream};

/// Softmax over rows, as a [`Tunable`]. It tunes how many threads share a row and how much each of
/// them holds.
///
/// ```
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, Regime, SoftmaxTunable, Tuner, TuningStore};
///
/// let softmax = SoftmaxTunable::<f32>::new(RowProblem::new(5, 300)).log();
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&softmax, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// assert!(tuned.config.to_string().starts_with("log_softmax_"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxTunable<T> {
    problem: RowProblem,
    log: bool,
    elem: PhantomData<fn() -> T>,
}

impl<T> SoftmaxTunable<T> {
    /// Returns the tunable for softmax over these rows.
    pub const fn new(problem: RowProblem) -> Self {
        SoftmaxTunable { problem, log: false, elem: PhantomData }
    }

    /// Switches to the logarithm of the softmax.
    pub const fn log(self) -> Self {
        SoftmaxTunable { log: true, ..self }
    }
}

impl<T: VectorElement<2> + Converted> Tunable for SoftmaxTunable<T> {
    type Config = SoftmaxConfig;
    type Kernel = Built<Softmax<T>>;
    type Data = [Buffer<T>; 2];

    fn key(&self) -> String {
        let name = if self.log { "log_softmax" } else { "softmax" };
        format!("{name} of {} {}", T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<SoftmaxConfig> {
        let target = device.target();
        let first = SoftmaxConfig::new(target, T::SCALAR, &self.problem).ok().map(|of| of.rows);
        let rows = RowConfig::candidates(target, T::SCALAR, &self.problem).into_iter();
        let others = rows.filter(|rows| Some(*rows) != first);
        let all = first.into_iter().chain(others);
        all.map(|rows| SoftmaxConfig { rows, log: self.log }).collect()
    }

    fn check(&self, config: &SoftmaxConfig) -> Result<(), Rejection> {
        config.rows.check()?;
        config.rows.check_problem(T::SCALAR, &self.problem)?;
        Ok(())
    }

    fn build(config: &SoftmaxConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Softmax::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        bytes::<T>(&self.problem)
    }

    fn data(&self, device: &Device, set: u32) -> Result<[Buffer<T>; 2], Rejection> {
        matrices(device, &self.problem, set)
    }

    fn clear(&self, [_, y]: &mut [Buffer<T>; 2], stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &SoftmaxConfig,
        softmax: &Loaded<Softmax<T>>,
        [x, y]: &mut [Buffer<T>; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(softmax.with(options).launch(&self.problem, (x, y))?)
    }

    fn verify(&self, [x, y]: &mut [Buffer<T>; 2]) -> Result<(), Rejection> {
        verify(&self.problem, RowFunction::Softmax { log: self.log }, x, y)
    }
}

/// RMSNorm or LayerNorm over rows, with a weight, as a [`Tunable`]. It tunes how many threads share
/// a row and how much each of them holds.
///
/// ```
/// use tilewright::kernels::norm::NormKind;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, NormTunable, Regime, Tuner, TuningStore};
///
/// let norm = NormTunable::<f32>::new(NormKind::Rms, RowProblem::new(5, 300));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&norm, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// assert!(tuned.config.to_string().starts_with("rms_norm_weight_"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NormTunable<T> {
    kind: NormKind,
    problem: RowProblem,
    residual: bool,
    elem: PhantomData<fn() -> T>,
}

impl<T> NormTunable<T> {
    /// Returns the tunable for this norm over these rows.
    pub const fn new(kind: NormKind, problem: RowProblem) -> Self {
        NormTunable { kind, problem, residual: false, elem: PhantomData }
    }

    /// Tunes the kernel with a residual: it adds the residual to the input and stores the sum over
    /// the residual. Use it for a norm that follows a residual connection.
    pub const fn residual(self) -> Self {
        NormTunable { residual: true, ..self }
    }
}

/// The buffers of a [`NormTunable`]. You meet it only as the type of that tunable's data.
#[derive(Debug)]
pub struct NormOperands<T: Element> {
    matrices: [Buffer<T>; 2],
    weight: Buffer<T>,
    residual: Option<Buffer<T>>,
}

impl<T: VectorElement<2> + Converted> Tunable for NormTunable<T> {
    type Config = NormConfig;
    type Kernel = Built<Norm<T>>;
    type Data = NormOperands<T>;

    fn key(&self) -> String {
        let residual = if self.residual { " and a residual" } else { "" };
        format!("{} with a weight{residual} of {} {}", self.kind, T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<NormConfig> {
        let rows = RowConfig::candidates(device.target(), T::SCALAR, &self.problem);
        let plain =
            |rows| NormConfig { rows, kind: self.kind, residual: false, weight: true, bias: false };
        let mut all: Vec<NormConfig> = Vec::new();
        for config in rows.into_iter().map(plain) {
            let config = if self.residual { config.residual() } else { config };
            if !all.contains(&config) {
                all.push(config);
            }
        }
        all
    }

    fn check(&self, config: &NormConfig) -> Result<(), Rejection> {
        config.rows.check()?;
        config.rows.check_problem(T::SCALAR, &self.problem)?;
        Ok(())
    }

    fn build(config: &NormConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Norm::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        bytes::<T>(&self.problem) * if self.residual { 2 } else { 1 }
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        // The definition has no weight, so all weights are 1.
        let weight = data::ones(device, self.problem.columns as usize)?;
        let matrices = matrices(device, &self.problem, set)?;
        let residual = self.residual.then(|| device.zeros(matrices[0].len())).transpose()?;
        Ok(NormOperands { matrices, weight, residual })
    }

    fn clear(&self, data: &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        // The definition has no residual, so it is 0 everywhere.
        data.residual.iter_mut().try_for_each(|residual| residual.fill(T::default(), stream))?;
        Ok(data.matrices[1].fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &NormConfig,
        norm: &Loaded<Norm<T>>,
        NormOperands { matrices: [x, y], weight, residual }: &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let args = NormArgs::new(x, y).epsilon(EPSILON).weight(weight);
        let args = NormArgs { residual: residual.as_mut(), ..args };
        Ok(norm.with(options).launch(&self.problem, args)?)
    }

    fn verify(
        &self,
        NormOperands { matrices: [x, y], residual, .. }: &mut Self::Data,
    ) -> Result<(), Rejection> {
        verify(&self.problem, RowFunction::Norm(self.kind), x, y)?;
        let Some(residual) = residual else { return Ok(()) };
        verify(
            &RowProblem { output_pitch: self.problem.input_pitch, ..self.problem },
            RowFunction::Same,
            x,
            residual,
        )
    }
}

const EPSILON: f32 = 1e-5;

/// Returns how many bytes a kernel reads and writes.
fn bytes<T: Element>(problem: &RowProblem) -> u64 {
    2 * u64::from(problem.rows) * u64::from(problem.columns) * size_of::<T>() as u64
}

/// Returns a normally distributed input, and an output.
pub(super) fn matrices<T: Element + Converted>(
    device: &Device,
    problem: &RowProblem,
    set: u32,
) -> Result<[Buffer<T>; 2], Rejection> {
    let len = |operand, pitch: u64| {
        let len = pitch.checked_mul(problem.rows.into()).and_then(|len| usize::try_from(len).ok());
        len.ok_or(RowError::TooLarge { operand })
    };
    let [input, output] = problem.pitches();
    let (input, output) = (len("the input", input)?, len("the output", output)?);
    Ok([data::normal(device, set, input)?, device.zeros(output)?])
}

/// What a kernel computes for each row.
#[derive(Clone, Copy, Debug)]
enum RowFunction {
    Same,
    Softmax { log: bool },
    Norm(NormKind),
}

impl RowFunction {
    /// Returns what element `x` adds to the row's two sums, once its maximum is known.
    fn summands<'b>(self, x: Val<'b, f32>, max: Val<'b, f32>) -> [Val<'b, f64>; 2] {
        let x64 = x.cvt::<f64>();
        match self {
            RowFunction::Softmax { .. } => [(x - max).exp().cvt::<f64>(), x64],
            RowFunction::Norm(_) | RowFunction::Same => [x64, x64 * x64],
        }
    }

    /// Returns the result for one element.
    fn result<'b>(
        self,
        k: &Body<'b, '_>,
        x: Val<'b, f32>,
        max: Val<'b, f32>,
        [sum, squares]: [Val<'b, f64>; 2],
        columns: Val<'b, i64>,
    ) -> Val<'b, f32> {
        match self {
            RowFunction::Same => x,
            RowFunction::Softmax { log: true } => x - max - sum.cvt::<f32>().ln(),
            RowFunction::Softmax { log: false } => (x - max).exp() / sum.cvt::<f32>(),
            RowFunction::Norm(kind) => {
                let count = columns.cvt::<f64>();
                let mean = match kind {
                    NormKind::Rms => k.constant(0.0),
                    NormKind::Layer => sum / count,
                };
                let variance = squares / count - mean * mean;
                let result = (x.cvt::<f64>() - mean) / (variance + f64::from(EPSILON)).sqrt();
                result.cvt::<f32>()
            }
        }
    }
}

/// Checks the whole result against the row function; one thread checks one row.
fn verify<T: Element + Converted>(
    problem: &RowProblem,
    function: RowFunction,
    x: &Buffer<T>,
    y: &Buffer<T>,
) -> Result<(), Rejection> {
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as i64);
    let sizes = [x_pitch, y_pitch, problem.columns.into()];
    let items = ("rows", problem.rows.into());
    Definition { x: [x], y, list: None, sizes, items }.check(|k, at| {
        let [x_pitch, y_pitch, columns] = at.sizes;
        let (x, y) = (at.x[0].offset(at.item * x_pitch), at.y.offset(at.item * y_pitch));
        let max = k.for_(range(0i64, columns), f32::NEG_INFINITY, |k, i, max| {
            max.max(x.load(k, i).cvt::<f32>())
        });
        let sums = k.for_(range(0i64, columns), [0.0f64; 2], |k, i, [sum, squares]| {
            let [one, other] = function.summands(x.load(k, i).cvt::<f32>(), max);
            [sum + one, squares + other]
        });
        k.for_(range(0i64, columns), true, |k, i, is_right| {
            let expected = function.result(k, x.load(k, i).cvt::<f32>(), max, sums, columns);
            let found = y.load(k, i).cvt::<f32>();
            is_right & is_close(T::SCALAR, found, expected, k.constant(1e-5))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{bf16, f16};

    /// The kernels' results pass, and a single wrong element does not.
    #[track_caller]
    fn check<K: Tunable>(tunable: &K, y: impl Fn(&mut K::Data)) {
        let device = Device::sim().unwrap();
        let config = tunable.space(&device).swap_remove(0);
        assert_eq!(tunable.check(&config), Ok(()));
        let function = K::build(&config, device.target()).unwrap();
        let function = super::super::tunable::Loadable::load(&function, &device).unwrap();
        let mut data = tunable.data(&device, 0).unwrap();
        tunable.launch(&config, &function, &mut data, LaunchOptions::default()).unwrap();
        assert_eq!(tunable.verify(&mut data), Ok(()));
        y(&mut data);
        assert_eq!(
            tunable.verify(&mut data),
            Err(Rejection::Wrong("1 of 7 rows differ".to_owned()))
        );
    }

    #[test]
    fn one_wrong_element_is_found() {
        let problem = RowProblem { input_pitch: Some(72), ..RowProblem::new(7, 70) };
        fn wrong<T: Element>(y: &mut Buffer<T>) {
            let mut all = y.to_vec().unwrap();
            all[6 * 70 + 69] = not_a_number();
            y.write(&all).unwrap();
        }
        check(&SoftmaxTunable::<bf16>::new(problem), |[_, y]| wrong(y));
        check(&SoftmaxTunable::<f32>::new(problem).log(), |[_, y]| wrong(y));
        check(&NormTunable::<f16>::new(NormKind::Layer, problem), |data| {
            wrong(&mut data.matrices[1])
        });
        let norm = NormTunable::<f32>::new(NormKind::Rms, problem).residual();
        check(&norm, |data| wrong(&mut data.matrices[1]));
    }
}
