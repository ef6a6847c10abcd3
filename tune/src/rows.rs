//! [`SoftmaxTunable`] and [`NormTunable`]: kernels that work on rows, as [`Tunable`]s.

use super::data;
use super::definition::{Definition, is_close};
use super::element_config::ElementConfig;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Body, Target, Val, range};
use tilewright::kernels::norm::{Norm, NormArgs, NormConfig, NormKind};
use tilewright::kernels::rows::{RowConfig, RowError, RowProblem};
use tilewright::kernels::softmax::{Softmax, SoftmaxConfig};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{AnyBuffer, AnyElement, Device, LaunchOptions, Stream};

/// Softmax over rows, as a [`Tunable`]. It tunes how many threads share a row and how much each of
/// them holds.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, Regime, SoftmaxTunable, Tuner, TuningStore};
///
/// let softmax = SoftmaxTunable::new(Scalar::F32, RowProblem::new(5, 300)).log();
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&softmax, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// assert!(tuned.config.to_string().starts_with("log_softmax_"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxTunable {
    elem: Scalar,
    problem: RowProblem,
    log: bool,
}

impl SoftmaxTunable {
    /// Returns the tunable for softmax over these rows, of elements of this type: `f32`, `f16` or
    /// `bf16`.
    pub const fn new(elem: Scalar, problem: RowProblem) -> Self {
        SoftmaxTunable { elem, problem, log: false }
    }

    /// Switches to the logarithm of the softmax.
    pub const fn log(self) -> Self {
        SoftmaxTunable { log: true, ..self }
    }
}

impl Tunable for SoftmaxTunable {
    type Config = ElementConfig<SoftmaxConfig>;
    type Kernel = Built<Softmax<AnyElement>>;
    type Data = [AnyBuffer; 2];

    fn key(&self) -> String {
        let name = if self.log { "log_softmax" } else { "softmax" };
        format!("{name} of {} {}", self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let target = device.target();
        let first = SoftmaxConfig::new(target, self.elem, &self.problem).ok().map(|of| of.rows);
        let rows = RowConfig::candidates(target, self.elem, &self.problem).into_iter();
        let others = rows.filter(|rows| Some(*rows) != first);
        let all = first.into_iter().chain(others);
        ElementConfig::all(self.elem, all.map(|rows| SoftmaxConfig { rows, log: self.log }))
    }

    fn check(&self, config: &Self::Config) -> Result<(), Rejection> {
        config.config.rows.check()?;
        config.config.rows.check_problem(self.elem, &self.problem)?;
        Ok(())
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Softmax::untyped(config.config, config.elem, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        bytes(self.elem, &self.problem)
    }

    fn data(&self, device: &Device, set: u32) -> Result<[AnyBuffer; 2], Rejection> {
        matrices(device, self.elem, &self.problem, set)
    }

    fn clear(&self, [_, y]: &mut [AnyBuffer; 2], stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill_bytes(data::WRONG, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        softmax: &Loaded<Softmax<AnyElement>>,
        [x, y]: &mut [AnyBuffer; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(softmax.with(options).launch(&self.problem, (x.as_ref(), y.as_mut()))?)
    }

    fn verify(&self, [x, y]: &mut [AnyBuffer; 2]) -> Result<(), Rejection> {
        verify(&self.problem, RowFunction::Softmax { log: self.log }, x, y)
    }
}

/// RMSNorm or LayerNorm over rows, with a weight, as a [`Tunable`]. It tunes how many threads share
/// a row and how much each of them holds.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::norm::NormKind;
/// use tilewright::kernels::rows::RowProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, NormTunable, Regime, Tuner, TuningStore};
///
/// let norm = NormTunable::new(NormKind::Rms, Scalar::F32, RowProblem::new(5, 300));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&norm, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// assert!(tuned.config.to_string().starts_with("rms_norm_weight_"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NormTunable {
    kind: NormKind,
    elem: Scalar,
    problem: RowProblem,
    residual: bool,
}

impl NormTunable {
    /// Returns the tunable for this norm over these rows, of elements of this type: `f32`, `f16` or
    /// `bf16`.
    pub const fn new(kind: NormKind, elem: Scalar, problem: RowProblem) -> Self {
        NormTunable { kind, elem, problem, residual: false }
    }

    /// Tunes the kernel with a residual: it adds the residual to the input and stores the sum over
    /// the residual. Use it for a norm that follows a residual connection.
    pub const fn residual(self) -> Self {
        NormTunable { residual: true, ..self }
    }
}

/// The buffers of a [`NormTunable`]. You meet it only as the type of that tunable's data.
#[derive(Debug)]
pub struct NormOperands {
    matrices: [AnyBuffer; 2],
    weight: AnyBuffer,
    residual: Option<AnyBuffer>,
}

impl Tunable for NormTunable {
    type Config = ElementConfig<NormConfig>;
    type Kernel = Built<Norm<AnyElement>>;
    type Data = NormOperands;

    fn key(&self) -> String {
        let residual = if self.residual { " and a residual" } else { "" };
        format!("{} with a weight{residual} of {} {}", self.kind, self.elem, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<Self::Config> {
        let rows = RowConfig::candidates(device.target(), self.elem, &self.problem);
        let plain =
            |rows| NormConfig { rows, kind: self.kind, residual: false, weight: true, bias: false };
        let mut all: Vec<NormConfig> = Vec::new();
        for config in rows.into_iter().map(plain) {
            let config = if self.residual { config.residual() } else { config };
            if !all.contains(&config) {
                all.push(config);
            }
        }
        ElementConfig::all(self.elem, all)
    }

    fn check(&self, config: &Self::Config) -> Result<(), Rejection> {
        config.config.rows.check()?;
        config.config.rows.check_problem(self.elem, &self.problem)?;
        Ok(())
    }

    fn build(config: &Self::Config, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(Norm::untyped(config.config, config.elem, config.elem)?)
    }

    fn bytes(&self) -> u64 {
        bytes(self.elem, &self.problem) * if self.residual { 2 } else { 1 }
    }

    fn data(&self, device: &Device, set: u32) -> Result<NormOperands, Rejection> {
        // The definition has no weight, so all weights are 1.
        let weight = data::ones(device, self.elem, self.problem.columns as usize)?;
        let matrices = matrices(device, self.elem, &self.problem, set)?;
        let residual = || AnyBuffer::zeros(device, self.elem, matrices[0].len());
        let residual = self.residual.then(residual).transpose()?;
        Ok(NormOperands { matrices, weight, residual })
    }

    fn clear(&self, data: &mut NormOperands, stream: &Stream) -> Result<(), Rejection> {
        // The definition has no residual, so it is 0 everywhere.
        data.residual.iter_mut().try_for_each(|residual| residual.fill_bytes(0, stream))?;
        Ok(data.matrices[1].fill_bytes(data::WRONG, stream)?)
    }

    fn launch(
        &self,
        _: &Self::Config,
        norm: &Loaded<Norm<AnyElement>>,
        NormOperands { matrices: [x, y], weight, residual }: &mut NormOperands,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let args = NormArgs::untyped(x.as_ref(), y.as_mut()).weight(weight.as_ref());
        let residual = residual.as_mut().map(AnyBuffer::as_mut);
        let args = NormArgs { residual, epsilon: EPSILON, ..args };
        Ok(norm.with(options).launch(&self.problem, args)?)
    }

    fn verify(
        &self,
        NormOperands { matrices: [x, y], residual, .. }: &mut NormOperands,
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
fn bytes(elem: Scalar, problem: &RowProblem) -> u64 {
    2 * u64::from(problem.rows) * u64::from(problem.columns) * u64::from(elem.size_bytes())
}

/// Returns a normally distributed input, and an output.
pub(super) fn matrices(
    device: &Device,
    elem: Scalar,
    problem: &RowProblem,
    set: u32,
) -> Result<[AnyBuffer; 2], Rejection> {
    let len = |operand, pitch: u64| {
        let len = pitch.checked_mul(problem.rows.into()).and_then(|len| usize::try_from(len).ok());
        len.ok_or(RowError::TooLarge { operand })
    };
    let [input, output] = problem.pitches();
    let (input, output) = (len("the input", input)?, len("the output", output)?);
    Ok([data::normal(device, elem, set, input)?, AnyBuffer::zeros(device, elem, output)?])
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
fn verify(
    problem: &RowProblem,
    function: RowFunction,
    x: &AnyBuffer,
    y: &AnyBuffer,
) -> Result<(), Rejection> {
    let elem = y.scalar();
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as i64);
    let sizes = [x_pitch, y_pitch, problem.columns.into()];
    let items = ("rows", problem.rows.into());
    let (x, y) = ([x.as_ref()], y.as_ref());
    Definition { x, y, list: None, sizes, items }.check(|k, at| {
        let [x_pitch, y_pitch, columns] = at.sizes;
        let (x, y) = (at.x[0].offset(at.item * x_pitch), at.y.offset(at.item * y_pitch));
        let max = k.for_(range(0i64, columns), f32::NEG_INFINITY, |_, i, max| {
            max.max(x.load(i).cvt::<f32>())
        });
        let sums = k.for_(range(0i64, columns), [0.0f64; 2], |_, i, [sum, squares]| {
            let [one, other] = function.summands(x.load(i).cvt::<f32>(), max);
            [sum + one, squares + other]
        });
        k.for_(range(0i64, columns), true, |k, i, is_right| {
            let expected = function.result(k, x.load(i).cvt::<f32>(), max, sums, columns);
            let found = y.load(i).cvt::<f32>();
            is_right & is_close(elem, found, expected, k.constant(1e-5))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::spoil;
    use crate::tunable::Loadable;

    /// The kernels' results pass, and a single wrong element does not.
    #[track_caller]
    fn check<K: Tunable>(tunable: &K, y: impl Fn(&mut K::Data)) {
        let device = Device::sim().unwrap();
        let config = tunable.space(&device).swap_remove(0);
        assert_eq!(tunable.check(&config), Ok(()));
        let function = K::build(&config, device.target()).unwrap();
        let function = Loadable::load(&function, &device).unwrap();
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
        let wrong = |y: &mut AnyBuffer| spoil(y, 6 * 70 + 69, f64::NAN);
        check(&SoftmaxTunable::new(Scalar::Bf16, problem), |[_, y]| wrong(y));
        check(&SoftmaxTunable::new(Scalar::F32, problem).log(), |[_, y]| wrong(y));
        check(&NormTunable::new(NormKind::Layer, Scalar::F16, problem), |data| {
            wrong(&mut data.matrices[1])
        });
        let norm = NormTunable::new(NormKind::Rms, Scalar::F32, problem).residual();
        check(&norm, |data| wrong(&mut data.matrices[1]));
    }
}
