//! [`SoftmaxTunable`] and [`NormTunable`]: kernels that work on rows as [`Tunable`]s.

use std::marker::PhantomData;

use super::data::{self, Fill};
use super::operands::not_a_number;
use super::search::Rejection;
use super::tunable::Tunable;
use crate::ir::builder::{Converted, VectorElement};
use crate::ir::types::Scalar;
use crate::ir::{Body, BuildErrors, Element, Global, GlobalMut, Kernel, Target, Val, range};
use crate::kernels::norm::{Norm, NormArgs, NormConfig, NormFunction, NormKind};
use crate::kernels::rows::{RowConfig, RowError, RowProblem};
use crate::kernels::softmax::{Softmax, SoftmaxConfig, SoftmaxFunction};
use crate::runtime::{Buffer, Device, Function, LaunchOptions, Stream};

/// The softmax of rows as a [`Tunable`]: the threads that share a row and what each of them holds.
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
    /// The softmax of these rows.
    pub const fn new(problem: RowProblem) -> Self {
        SoftmaxTunable { problem, log: false, elem: PhantomData }
    }

    /// The same for the logarithm of the softmax.
    pub const fn log(self) -> Self {
        SoftmaxTunable { log: true, ..self }
    }
}

impl<T: VectorElement<2> + Converted> Tunable for SoftmaxTunable<T> {
    type Config = SoftmaxConfig;
    type Kernel = Softmax<T>;
    type Data = [Buffer<T>; 2];

    fn key(&self) -> String {
        let name = if self.log { "log_softmax" } else { "softmax" };
        format!("{name} of {} {:?}", T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<SoftmaxConfig> {
        let rows = RowConfig::candidates(device.target(), T::SCALAR, &self.problem).into_iter();
        rows.map(|rows| SoftmaxConfig { rows, log: self.log }).collect()
    }

    fn check(&self, config: &SoftmaxConfig) -> Result<(), Rejection> {
        config.rows.check()?;
        config.rows.check_problem(T::SCALAR, &self.problem)?;
        Ok(())
    }

    fn build(config: &SoftmaxConfig, _: Target) -> Result<Softmax<T>, Rejection> {
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
        function: &SoftmaxFunction<T>,
        [x, y]: &mut [Buffer<T>; 2],
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(function.launch_with(options, &self.problem, x, y)?)
    }

    fn verify(&self, [x, y]: &mut [Buffer<T>; 2]) -> Result<(), Rejection> {
        verify(&self.problem, Definition::Softmax { log: self.log }, x, y)
    }
}

/// RMSNorm or LayerNorm of rows, with a weight, as a [`Tunable`]: the threads that share a row and what each of them holds.
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
    elem: PhantomData<fn() -> T>,
}

impl<T> NormTunable<T> {
    /// The norm of these rows.
    pub const fn new(kind: NormKind, problem: RowProblem) -> Self {
        NormTunable { kind, problem, elem: PhantomData }
    }
}

impl<T: VectorElement<2> + Converted> Tunable for NormTunable<T> {
    type Config = NormConfig;
    type Kernel = Norm<T>;
    /// The input and the output, and the weight.
    type Data = ([Buffer<T>; 2], Buffer<T>);

    fn key(&self) -> String {
        format!("{} with a weight of {} {:?}", self.kind, T::SCALAR, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<NormConfig> {
        let rows = RowConfig::candidates(device.target(), T::SCALAR, &self.problem).into_iter();
        let config =
            |rows| NormConfig { rows, kind: self.kind, residual: false, weight: true, bias: false };
        rows.map(config).collect()
    }

    fn check(&self, config: &NormConfig) -> Result<(), Rejection> {
        config.rows.check()?;
        config.rows.check_problem(T::SCALAR, &self.problem)?;
        Ok(())
    }

    fn build(config: &NormConfig, _: Target) -> Result<Norm<T>, Rejection> {
        Ok(Norm::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        bytes::<T>(&self.problem)
    }

    fn data(&self, device: &Device, set: u32) -> Result<Self::Data, Rejection> {
        // The definition has no weight, so each is 1.
        let fill: Function<Fill<T>> = device.load(&data::fill::<T>(device.target())?)?;
        let ones = device.upload(&vec![1.0; data::normal_table(0).len()])?;
        let weight = data::filled(device, (&fill, &ones), 0, self.problem.columns as usize)?;
        Ok((matrices(device, &self.problem, set)?, weight))
    }

    fn clear(&self, ([_, y], _): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
        Ok(y.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &NormConfig,
        function: &NormFunction<T>,
        ([x, y], weight): &mut Self::Data,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let args = NormArgs::new(x, y).epsilon(EPSILON).weight(weight);
        Ok(function.launch_with(options, &self.problem, args)?)
    }

    fn verify(&self, ([x, y], _): &mut Self::Data) -> Result<(), Rejection> {
        verify(&self.problem, Definition::Norm(self.kind), x, y)
    }
}

const EPSILON: f32 = 1e-5;

/// Bytes that a kernel reads and writes.
fn bytes<T: Element>(problem: &RowProblem) -> u64 {
    2 * u64::from(problem.rows) * u64::from(problem.columns) * size_of::<T>() as u64
}

/// An input of normal random numbers, and an output.
fn matrices<T: Element + Converted>(
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
    let fill: Function<Fill<T>> = device.load(&data::fill::<T>(device.target())?)?;
    let table = device.upload(&data::normal_table(0))?;
    Ok([data::filled(device, (&fill, &table), set, input)?, device.zeros(output)?])
}

/// The function that a kernel computes of a row.
#[derive(Clone, Copy, Debug)]
enum Definition {
    Softmax { log: bool },
    Norm(NormKind),
}

impl Definition {
    /// Returns what an element `x` of a row adds to the two sums of the row, whose maximum is known.
    fn summands<'b>(self, x: Val<'b, f32>, max: Val<'b, f32>) -> [Val<'b, f64>; 2] {
        let x64 = x.cvt::<f64>();
        match self {
            Definition::Softmax { .. } => [(x - max).exp().cvt::<f64>(), x64],
            Definition::Norm(_) => [x64, x64 * x64],
        }
    }

    /// Returns the result for an element.
    fn result<'b>(
        self,
        k: &Body<'b, '_>,
        x: Val<'b, f32>,
        max: Val<'b, f32>,
        [sum, squares]: [Val<'b, f64>; 2],
        columns: Val<'b, i64>,
    ) -> Val<'b, f32> {
        match self {
            Definition::Softmax { log: true } => x - max - sum.cvt::<f32>().ln(),
            Definition::Softmax { log: false } => (x - max).exp() / sum.cvt::<f32>(),
            Definition::Norm(kind) => {
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

/// The input and the result, each with its pitch; the number of elements that are wrong; rows and columns; the tolerances,
/// relative and absolute.
type Compare<T> = ((Global<T>, i64), (Global<T>, i64), GlobalMut<u64>, [i64; 2], [f32; 2]);

/// Counts the elements that are not what the definition says, row by row, each in one thread. NaN is not.
fn compare<T: Element + Converted>(
    target: Target,
    definition: Definition,
) -> Result<Kernel<Compare<T>>, BuildErrors> {
    Kernel::<Compare<T>>::build("compare", target, |k, (x, y, found, sizes, within)| {
        let ((x, x_pitch), (y, y_pitch), [rows, columns]) = (x, y, sizes);
        let [relative, absolute] = within;
        let threads = (k.grid_dim().x * k.block_dim().x).cvt::<i64>();
        let first = (k.block_idx().x * k.block_dim().x + k.thread_idx().x).cvt::<i64>();
        k.for_(range(first, rows).step(threads), (), |k, row, ()| {
            let (x, y) = (x.offset(row * x_pitch), y.offset(row * y_pitch));
            let max = k.for_(range(0i64, columns), f32::NEG_INFINITY, |k, i, max| {
                max.max(x.load(k, i).cvt::<f32>())
            });
            let sums = k.for_(range(0i64, columns), [0.0f64; 2], |k, i, [sum, squares]| {
                let [one, other] = definition.summands(x.load(k, i).cvt::<f32>(), max);
                [sum + one, squares + other]
            });
            k.for_(range(0i64, columns), (), |k, i, ()| {
                let expected = definition.result(k, x.load(k, i).cvt::<f32>(), max, sums, columns);
                let difference = (y.load(k, i).cvt::<f32>() - expected).abs();
                let close = difference.le(relative.fma(expected.abs(), absolute));
                k.if_(!close, |k| found.red().add(k, 0, 1));
            });
        });
    })
}

/// Compares all of a result with its definition.
fn verify<T: Element + Converted>(
    problem: &RowProblem,
    definition: Definition,
    x: &Buffer<T>,
    y: &Buffer<T>,
) -> Result<(), Rejection> {
    let device = x.device();
    let kernel: Function<Compare<T>> = device.load(&compare(device.target(), definition)?)?;
    let mut found = device.upload(&[0])?;
    // Half a unit in the last place of `T`, and the errors of the fast functions and of the sums in `f32`.
    let unit = match T::SCALAR {
        Scalar::Bf16 => 1.0 / 256.0,
        Scalar::F16 => 1.0 / 2048.0,
        _ => 0.0,
    };
    let [x_pitch, y_pitch] = problem.pitches().map(|pitch| pitch as i64);
    let sizes = [problem.rows, problem.columns].map(i64::from);
    let args = ((x, x_pitch), (y, y_pitch), &mut found, sizes, [unit + 1e-4, 1e-5]);
    kernel.launch(data::grid(problem.rows as usize), args)?;
    match found.to_vec()?[0] {
        0 => Ok(()),
        wrong => Err(Rejection::Wrong(format!("{wrong} elements differ"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{bf16, f16};

    /// Results of the kernels pass, and one wrong element does not.
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
            Err(Rejection::Wrong("1 elements differ".to_owned()))
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
        check(&NormTunable::<f16>::new(NormKind::Layer, problem), |([_, y], _)| wrong(y));
        check(&NormTunable::<f32>::new(NormKind::Rms, problem), |([_, y], _)| wrong(y));
    }
}
