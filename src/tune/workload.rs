//! [`Workload`] holds the matrices of a product on a device, and times kernels on them.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use super::data::{self, Compare, Fill};
use super::element_offsets::ElementOffsets;
use super::tuner::Rejection;
use crate::arch::Major;
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{BuildErrors, Element, bf16, f16};
use crate::kernels::gemm::Regime;
use crate::kernels::gemm::{Activation, Bias, Epilogue, GemmProblem};
use crate::runtime::{Buffer, Device, Function, Graph, LaunchOptions, RuntimeError, Stream};

/// A, B and D of a product, and what its epilogue takes.
pub struct GemmOperands<T, D> {
    /// A.
    pub a: Buffer<T>,
    /// B.
    pub b: Buffer<T>,
    /// D.
    pub d: Buffer<D>,
    /// C, where there is `beta`.
    pub c: Option<Buffer<D>>,
    /// The bias, where there is one.
    pub bias: Option<Buffer<D>>,
}

/// The factor of the product, where an epilogue has one.
pub(super) const ALPHA: f32 = 0.75;
/// The factor of C, where an epilogue has one.
pub(super) const BETA: f32 = -0.5;

/// The matrices of one problem on a GPU, several times, so that all together do not fit in the L2 cache; a result that is
/// known to be right; and graphs of launches on them.
pub struct Workload<T, D> {
    device: Device,
    stream: Stream,
    problem: GemmProblem,
    offsets: ElementOffsets,
    sets: Vec<GemmOperands<T, D>>,
    reference: Option<Buffer<D>>,
    compare: Function<Compare<D>>,
    found: Buffer<u64>,
    /// Relative and absolute.
    tolerance: [f32; 2],
    source: Source,
    /// The end of the last window, if that was a long one.
    worked_until: Cell<Option<Instant>>,
}

/// The seeds and tables of the matrices, from which the host computes any element.
#[derive(Debug)]
struct Source {
    table: Vec<f32>,
    epilogue: Epilogue,
}

/// The seed of A of the first set, of B, of C, and of the bias.
const SEEDS: [u32; 4] = [0x1357_9bdf, 0x2468_ace0, 0x0f1e_2d3c, 0x5a69_7887];
/// The most sets.
const MOST_SETS: u64 = 128;
/// The most launches of a graph.
const MOST_LAUNCHES: usize = 400;

/// Launches of one kernel that are timed together.
#[derive(Debug)]
pub struct Window {
    graph: Graph,
    launches: usize,
    repeats: usize,
}

impl<T: Element, D: Element> fmt::Debug for GemmOperands<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GemmOperands({:?}, {:?}, {:?})", self.a, self.b, self.d)
    }
}

impl<T: Element, D: Element> fmt::Debug for Workload<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Workload { device, problem, sets, .. } = self;
        write!(f, "Workload({} sets of {problem:?} on {device})", sets.len())
    }
}

impl From<RuntimeError> for Rejection {
    fn from(error: RuntimeError) -> Rejection {
        match error {
            RuntimeError::Fault(_) | RuntimeError::DeviceLost(_) => {
                Rejection::Lost(error.to_string())
            }
            error => Rejection::Failed(error.to_string()),
        }
    }
}

impl From<BuildErrors> for Rejection {
    fn from(errors: BuildErrors) -> Rejection {
        Rejection::Failed(errors.to_string())
    }
}

impl<T: Element + Converted, D: Element + Converted> Workload<T, D> {
    /// GemmOperands of numbers from N(0, 1) for one problem, where it says that they lie, with what the epilogue takes; its
    /// factors are 0.75 and -0.5. A and B are contiguous along the modes `majors`. `input` is the type in which elements
    /// are multiplied: `tf32` matrices are of `f32`.
    ///
    /// # Errors
    /// Those of the device; no memory; sizes or strides that no kernel takes, matrices of D that overlap.
    pub fn new(
        device: &Device,
        problem: GemmProblem,
        majors: [Major; 2],
        input: Scalar,
        epilogue: Epilogue,
    ) -> Result<Workload<T, D>, Rejection> {
        let offsets = ElementOffsets::new(&problem, majors)
            .map_err(|error| Rejection::Failed(error.to_string()))?;
        let [of_a, of_b, of_c, of_d] = offsets.lens();
        let outputs = if epilogue.beta { of_c + of_d } else { of_d };
        let bytes = (of_a + of_b) * size_of::<T>() + outputs * size_of::<D>();
        let l2 = device.properties().map_or(1 << 20, |properties| properties.l2_bytes);
        let sets = (2 * l2).div_ceil(bytes.max(1) as u64).clamp(1, MOST_SETS);
        let sets = if device.is_sim() { 1 } else { sets };
        let stream = device.stream()?;
        let fill: Function<Fill<T>> = device.load(&data::fill::<T>(device.target())?)?;
        let fill_d: Function<Fill<D>> = device.load(&data::fill::<D>(device.target())?)?;
        let table = data::normal_table(0);
        let numbers = device.upload(&table)?;
        let options = LaunchOptions::default().stream(&stream);
        let make = |set: u64| -> Result<GemmOperands<T, D>, Rejection> {
            let seed = |seed: u32| seed.wrapping_add((set as u32).wrapping_mul(0x9e37_79b9));
            let input =
                |i: usize, len| filled(device, options, (&fill, &numbers), seed(SEEDS[i]), len);
            let output =
                |i: usize, len| filled(device, options, (&fill_d, &numbers), seed(SEEDS[i]), len);
            let bias = epilogue.bias.map(|bias| {
                let extent = if bias == Bias::Row { problem.m } else { problem.n };
                output(3, extent as usize)
            });
            Ok(GemmOperands {
                a: input(0, of_a)?,
                b: input(1, of_b)?,
                d: device.zeros::<D>(of_d)?,
                c: epilogue.beta.then(|| output(2, of_c)).transpose()?,
                bias: bias.transpose()?,
            })
        };
        let sets = (0..sets).map(make).collect::<Result<Vec<_>, _>>()?;
        stream.synchronize()?;
        Ok(Workload {
            compare: device.load(&data::compare::<D>(device.target())?)?,
            found: device.zeros(2)?,
            device: device.clone(),
            stream,
            problem,
            offsets,
            sets,
            reference: None,
            tolerance: tolerance(input, D::SCALAR, problem.k, epilogue),
            source: Source { table, epilogue },
            worked_until: Cell::new(None),
        })
    }

    /// Returns the number of sets of matrices.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Returns whether there is a result to compare with.
    pub fn has_reference(&self) -> bool {
        self.reference.is_some()
    }

    /// Takes the product that `launch` computes as the right one, if it is: elements in all parts of it are compared
    /// with dot products that the host computes in `f64`.
    ///
    /// # Errors
    /// What `launch` answers; [`Rejection::Wrong`].
    pub fn set_reference(
        &mut self,
        mut launch: impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        let set = &mut self.sets[0];
        set.d.fill(not_a_number(), &self.stream)?;
        launch(&self.stream, set)?;
        self.stream.synchronize()?;
        let set = &self.sets[0];
        let found = set.d.to_vec()?;
        let len = self.offsets.elements();
        let [relative, absolute] = self.tolerance.map(f64::from);
        // ElementOffsets in all parts of the matrix, and its corners.
        let samples = 512.min(len);
        for sample in 0..samples {
            let at = if samples < 2 { 0 } else { sample * (len - 1) / (samples - 1) };
            let [matrix, row, column] = self.offsets.element(at);
            let found = number(found[self.offsets.d(matrix, row, column)]);
            let right = self.element([matrix, row, column]);
            // What is no number is not close.
            let is_close = (found - right).abs() <= relative * right.abs() + absolute;
            if !is_close {
                return Err(Rejection::Wrong(self.difference(1, at as u64, found, right)));
            }
        }
        let mut reference = self.device.zeros::<D>(set.d.len())?;
        reference.copy_from(&set.d, &self.stream)?;
        self.stream.synchronize()?;
        self.reference = Some(reference);
        Ok(())
    }

    /// Takes the product that `first` computes as the right one, or that of `second` where the one of `first` is wrong.
    ///
    /// cuBLAS may be wrong by this measure: where it splits K, it rounds the partial sums to the type of D, which is an
    /// error of `2^-9 sqrt(k)` in `bf16`.
    ///
    /// # Errors
    /// What `first` and `second` answer; [`Rejection::Wrong`] where both are wrong.
    pub fn set_reference_or(
        &mut self,
        first: impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection>,
        second: impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        match self.set_reference(first) {
            Err(Rejection::Wrong(_)) => self.set_reference(second),
            done => done,
        }
    }

    /// Compares all of the product that `launch` computes with the reference. D has no number anywhere before.
    ///
    /// # Errors
    /// What `launch` answers; [`Rejection::Wrong`]; [`Rejection::Failed`] where there is no reference.
    pub fn check(
        &mut self,
        mut launch: impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        let Some(reference) = &self.reference else {
            return Err(Rejection::Failed("there is no result to compare with".to_owned()));
        };
        let set = &mut self.sets[0];
        set.d.fill(not_a_number(), &self.stream)?;
        launch(&self.stream, set)?;
        self.stream.synchronize()?;
        let set = &self.sets[0];
        self.found.write(&[0, u64::MAX])?;
        let options = LaunchOptions::default().stream(&self.stream);
        let len = self.offsets.elements();
        let within = self.tolerance;
        let offsets = self.offsets.of_d();
        let args = (&set.d, reference, &mut self.found, within, len as i64, offsets);
        self.compare.launch_with(options, data::grid(len), args)?;
        self.stream.synchronize()?;
        let found = self.found.to_vec()?;
        match found[..] {
            [0, _] => Ok(()),
            [count, first] => {
                let [matrix, row, column] = self.offsets.element(first as usize);
                let at = self.offsets.d(matrix, row, column);
                let (ours, theirs) = (set.d.to_vec()?, reference.to_vec()?);
                let of = |d: &[D]| d.get(at).map_or(f64::NAN, |x| number(*x));
                Err(Rejection::Wrong(self.difference(count, first, of(&ours), of(&theirs))))
            }
            _ => Err(Rejection::Failed("nothing was compared".to_owned())),
        }
    }

    /// About the seconds of a launch: the mean of six, on a GPU that works.
    ///
    /// # Errors
    /// What `launch` answers; those of the device.
    pub fn probe(
        &mut self,
        mut launch: impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection>,
    ) -> Result<f64, Rejection> {
        const PROBES: usize = 6;
        let count = self.sets.len();
        for set in &mut self.sets[..count.min(2)] {
            launch(&self.stream, set)?;
        }
        let held = self.stream.hold()?;
        let begin = self.stream.record()?;
        for i in 0..PROBES {
            launch(&self.stream, &mut self.sets[i % count])?;
        }
        let end = self.stream.record()?;
        held.release();
        Ok(begin.elapsed_until(&end)?.as_secs_f64() / PROBES as f64)
    }

    /// Records launches of one kernel for windows of a regime, with the sets in rotation. `seconds` is about what a
    /// launch takes. Runs once.
    ///
    /// # Errors
    /// What `launch` answers; those of the device.
    pub fn window(
        &mut self,
        regime: Regime,
        seconds: f64,
        mut launch: impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection>,
    ) -> Result<Window, Rejection> {
        let count = self.sets.len();
        let wanted = (regime.window().as_secs_f64() / seconds.max(1e-7)).ceil().max(1.0) as usize;
        // A window uses each set, or as many of them as fit.
        let wanted = if regime == Regime::Latency { wanted.max(count) } else { wanted };
        let repeats = wanted.div_ceil(MOST_LAUNCHES);
        let launches = wanted.div_ceil(repeats);
        let graph = self.device.graph()?;
        for i in 0..launches {
            launch(graph.stream(), &mut self.sets[i % count])?;
        }
        let graph = graph.finish()?;
        graph.launch_on(&self.stream)?;
        self.stream.synchronize()?;
        Ok(Window { graph, launches, repeats })
    }

    /// Returns the seconds of a launch, in one window.
    ///
    /// # Errors
    /// Those of the device.
    pub fn time(&self, window: &Window, regime: Regime) -> Result<f64, Rejection> {
        self.stream.synchronize()?;
        if regime.rest() > Duration::ZERO {
            std::thread::sleep(regime.rest());
        }
        match regime {
            // The clock is up, and the cache has what the launches before left.
            Regime::Latency => window.graph.launch_on(&self.stream)?,
            // The clock is the one of a device that has worked for a while, also in the first window.
            Regime::Steady if self.has_rested() => {
                self.run(window)?;
            }
            Regime::Steady | Regime::Burst => {}
        }
        let elapsed = self.run(window)?;
        self.worked_until.set((regime == Regime::Steady).then(Instant::now));
        Ok(elapsed.as_secs_f64() / (window.launches * window.repeats) as f64)
    }

    /// Returns whether the device has been idle for a while, or had only short windows.
    fn has_rested(&self) -> bool {
        const REST: Duration = Duration::from_millis(20);
        self.worked_until.get().is_none_or(|end| end.elapsed() > REST)
    }

    /// Returns the time of all launches of a window, which run without waiting for the host.
    fn run(&self, window: &Window) -> Result<Duration, Rejection> {
        let held = self.stream.hold()?;
        let begin = self.stream.record()?;
        window.graph.launch_on(&self.stream)?;
        // The others are queued while this one runs: the queue of a stream does not take all of them.
        if !held.release() {
            return Err(Rejection::Failed("the device did not wait for its launches".to_owned()));
        }
        for _ in 1..window.repeats {
            window.graph.launch_on(&self.stream)?;
        }
        let end = self.stream.record()?;
        Ok(begin.elapsed_until(&end)?)
    }

    /// Returns an element of the product of the first set, in `f64`.
    fn element(&self, [matrix, row, column]: [usize; 3]) -> f64 {
        let Source { table, epilogue } = &self.source;
        let number = |index: usize, seed: u32| table[data::table_index(index as u64, seed)];
        let of = |index: usize, seed: u32| rounded(number(index, seed), T::SCALAR);
        let product = |depth: usize| {
            let a = self.offsets.a(matrix, row, depth);
            let b = self.offsets.b(matrix, column, depth);
            of(a, SEEDS[0]) * of(b, SEEDS[1])
        };
        let mut value: f64 = (0..self.problem.k as usize).map(product).sum();
        if epilogue.alpha {
            value *= f64::from(ALPHA);
        }
        if epilogue.beta {
            value += f64::from(BETA)
                * rounded(number(self.offsets.c(matrix, row, column), SEEDS[2]), D::SCALAR);
        }
        if let Some(bias) = epilogue.bias {
            let index = if bias == Bias::Row { row } else { column };
            value += rounded(number(index, SEEDS[3]), D::SCALAR);
        }
        match epilogue.activation {
            None => value,
            Some(Activation::Relu) => value.max(0.0),
            Some(Activation::Gelu) => {
                let inner = std::f64::consts::FRAC_2_PI.sqrt() * (value + 0.044715 * value.powi(3));
                value / 2.0 * (1.0 + inner.tanh())
            }
        }
    }

    fn difference(&self, count: u64, first: u64, ours: f64, right: f64) -> String {
        let n = u64::from(self.problem.n.max(1));
        let (row, column) = (first / n, first % n);
        format!(
            "{count} elements differ, the first at ({row}, {column}): {ours} instead of {right}"
        )
    }
}

/// Returns a buffer of `len` numbers of the table, in an order that the seed gives.
fn filled<X: Element + Converted>(
    device: &Device,
    options: LaunchOptions<'_>,
    (fill, table): (&Function<Fill<X>>, &Buffer<f32>),
    seed: u32,
    len: usize,
) -> Result<Buffer<X>, Rejection> {
    let mut x = device.zeros::<X>(len)?;
    fill.launch_with(options, data::grid(len), (&mut x, table, seed, len as i64))?;
    Ok(x)
}

/// Returns the value of an element.
fn number<T: Element>(x: T) -> f64 {
    x.to_const().to_f64().unwrap_or(f64::NAN)
}

fn not_a_number<D: Element>() -> D {
    // All bits of the exponent, and some of the fraction.
    D::from_bits(u64::MAX >> 1 >> (64 - 8 * size_of::<D>()))
}

/// Returns a number of the table as the matrix has it.
fn rounded(x: f32, scalar: Scalar) -> f64 {
    f64::from(match scalar {
        Scalar::Bf16 => bf16::from_f32(x).to_f32(),
        Scalar::F16 => f16::from_f32(x).to_f32(),
        _ => x,
    })
}

/// Returns the relative and absolute tolerance of two dot products of length `k`. Relative: the rounding of the result.
/// Absolute: dot products of numbers from N(0, 1) are about `sqrt(k)`. Tensor cores truncate the accumulator to `f32`
/// after each 16 products, always towards zero, so that the errors of `k / 16` steps add up. The hardware's `tanh` is
/// accurate to 11 bits.
fn tolerance(input: Scalar, output: Scalar, k: u32, epilogue: Epilogue) -> [f32; 2] {
    let (size, steps) = (f32::sqrt(k as f32), k as f32 / 16.0);
    let relative = match output {
        Scalar::Bf16 => 1.0 / 128.0,
        Scalar::F16 => 1.0 / 1024.0,
        _ => 1e-5,
    };
    let sums = (steps * f32::EPSILON).max(2e-5) * size;
    // Products of numbers of 10 bits, which may be rounded or cut off.
    let inputs = if input == Scalar::Tf32 { 4e-3 * size } else { 0.0 };
    let tanh = if epilogue.activation == Some(Activation::Gelu) { [1e-3, 2e-3] } else { [0.0; 2] };
    [relative + tanh[0], sums + inputs + tanh[1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::gemm::MatrixStrides;

    type Set = GemmOperands<bf16, f32>;

    fn workload(problem: GemmProblem, majors: [Major; 2]) -> Workload<bf16, f32> {
        let none = Epilogue::default();
        Workload::new(&Device::sim().unwrap(), problem, majors, Scalar::Bf16, none).unwrap()
    }

    /// Returns the product by its definition; between lines there is something else.
    fn product(problem: GemmProblem, majors: [Major; 2]) -> impl Fn(&Set) -> Vec<f32> {
        let offsets = ElementOffsets::new(&problem, majors).unwrap();
        move |set: &Set| {
            let (a, b) = (set.a.to_vec().unwrap(), set.b.to_vec().unwrap());
            let mut d = vec![-777.0; set.d.len()];
            for number in 0..offsets.elements() {
                let [l, row, column] = offsets.element(number);
                let of = |i| a[offsets.a(l, row, i)].to_f32() * b[offsets.b(l, column, i)].to_f32();
                d[offsets.d(l, row, column)] = (0..problem.k as usize).map(of).sum();
            }
            d
        }
    }

    /// GemmOperands with padding between lines, B the same for all, D with the lines of its matrices interleaved.
    fn apart(problem: GemmProblem) -> GemmProblem {
        let at = |leading, batch| MatrixStrides { leading: Some(leading), batch };
        let (a, b) = (at(40, Some(2000)), at(48, Some(0)));
        GemmProblem { a, b, c: at(11, None), d: at(24, Some(12)), ..problem }
    }

    #[test]
    fn right_products_pass_and_wrong_ones_are_named() {
        for majors in [[Major::K, Major::K], [Major::Mn, Major::K], [Major::K, Major::Mn]] {
            let problem = GemmProblem { batch: 2, ..GemmProblem::new(7, 9, 33) };
            for (problem, wrong_at) in [(problem, 100), (apart(problem), 12 + 4 * 24 + 1)] {
                check_workload(problem, majors, wrong_at);
            }
        }
    }

    /// `wrong_at` is the offset of element (4, 1) of the second matrix.
    fn check_workload(problem: GemmProblem, majors: [Major; 2], wrong_at: usize) {
        let mut work = workload(problem, majors);
        let right = product(problem, majors);
        let error = work.check(|_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "failed: there is no result to compare with");
        let error =
            work.set_reference(|_, set| Ok(set.d.write(&vec![0.5; set.d.len()])?)).unwrap_err();
        assert!(matches!(error, Rejection::Wrong(_)), "{error}");
        // What is not written is no number.
        assert!(matches!(work.set_reference(|_, _| Ok(())), Err(Rejection::Wrong(_))));
        work.set_reference(|_, set| Ok(set.d.write(&right(set))?)).unwrap();
        work.check(|_, set| Ok(set.d.write(&right(set))?)).unwrap();
        for wrong in [f32::NAN, 1e3, f32::INFINITY] {
            let error = work.check(|_, set| {
                let mut d = right(set);
                d[wrong_at] = wrong;
                Ok(set.d.write(&d)?)
            });
            let text = error.unwrap_err().to_string();
            let start = "wrong: 1 elements differ, the first at (11, 1): ";
            assert!(text.starts_with(start), "{text}");
        }
        assert!(matches!(work.check(|_, _| Ok(())), Err(Rejection::Wrong(_))));
        let failed = || Rejection::Failed("no".into());
        assert_eq!(work.check(|_, _| Err(failed())), Err(failed()));
    }

    /// Odd sizes: the host computes the same elements as the device has, and a product whose parts along K are rounded
    /// to `bf16` before they are summed, as cuBLAS may do it, makes no problem unmeasurable.
    #[test]
    fn a_wrong_first_product_is_not_the_reference() {
        type Set = GemmOperands<bf16, bf16>;
        let problem = GemmProblem::new(52, 33, 717);
        let none = Epilogue::default();
        let device = Device::sim().unwrap();
        let mut work =
            Workload::<bf16, bf16>::new(&device, problem, [Major::K; 2], Scalar::Bf16, none)
                .unwrap();
        let product = |depth: usize| {
            move |_: &Stream, set: &mut Set| {
                let (a, b) = (set.a.to_vec().unwrap(), set.b.to_vec().unwrap());
                let of = |row: &[bf16], column: &[bf16]| {
                    let terms = row.iter().zip(column).map(|(a, b)| a.to_f32() * b.to_f32());
                    bf16::from_f32(terms.sum()).to_f32()
                };
                let parts = |row: &[bf16], column: &[bf16]| -> f32 {
                    row.chunks(depth).zip(column.chunks(depth)).map(|(a, b)| of(a, b)).sum()
                };
                let rows = a.chunks(717).flat_map(|row| b.chunks(717).map(move |b| (row, b)));
                let d: Vec<bf16> = rows.map(|(a, b)| bf16::from_f32(parts(a, b))).collect();
                Ok(set.d.write(&d)?)
            }
        };
        let wrong = work.set_reference(product(256));
        assert!(matches!(wrong, Err(Rejection::Wrong(_))), "{wrong:?}");
        assert!(!work.has_reference());
        work.set_reference_or(product(256), product(717)).unwrap();
        work.check(product(717)).unwrap();
        assert!(matches!(work.check(product(256)), Err(Rejection::Wrong(_))));
        // Other failures are not repeated.
        let failed = || Rejection::Failed("no".into());
        let error = work.set_reference_or(|_, _| Err(failed()), product(717));
        assert_eq!(error, Err(failed()));
    }

    #[test]
    fn windows_replay_what_was_recorded() {
        use crate::ir::{GlobalMut, Kernel};
        use crate::runtime::Grid;
        let problem = GemmProblem::new(8, 8, 8);
        let mut work = workload(problem, [Major::K; 2]);
        let device = Device::sim().unwrap();
        let kernel = Kernel::<(GlobalMut<f32>,)>::build("count", device.target(), |k, (x,)| {
            x.store(k, 0, x.load(k, 0) + 1.0);
        });
        let count = device.load(&kernel.unwrap()).unwrap();
        let mut launch = |stream: &Stream, set: &mut Set| {
            let options = LaunchOptions::default().stream(stream);
            Ok(count.launch_with(options, Grid::cover(1, 1), (&mut set.d,))?)
        };
        assert!(work.probe(&mut launch).unwrap() > 0.0);
        let window = work.window(Regime::Latency, 1e-4, &mut launch).unwrap();
        assert_eq!((window.launches, window.repeats), (20, 1));
        let done = |work: &Workload<bf16, f32>| work.sets[0].d.to_vec().unwrap()[0] as usize;
        let before = done(&work);
        assert!(work.time(&window, Regime::Latency).unwrap() > 0.0);
        assert_eq!(done(&work) - before, window.launches * (window.repeats + 1));
        // A device that has rested works for a window before.
        let before = done(&work);
        assert!(work.time(&window, Regime::Steady).unwrap() > 0.0);
        assert_eq!(done(&work) - before, 2 * window.launches * window.repeats);
        work.worked_until.set(Some(Instant::now() + Duration::from_secs(3600)));
        let before = done(&work);
        assert!(work.time(&window, Regime::Steady).unwrap() > 0.0);
        assert_eq!(done(&work) - before, window.launches * window.repeats);
    }

    /// Products with epilogues, by the kernel without tensor cores.
    #[test]
    fn epilogues_are_part_of_the_reference() {
        use crate::ir::Target;
        use crate::kernels::gemm::{Gemm, GemmArgs, GemmConfig};
        let close = GemmProblem { batch: 2, ..GemmProblem::new(9, 11, 20) };
        let problems = [close, apart(close)];
        for (bias, problem) in [Bias::Row, Bias::Column].into_iter().zip(problems) {
            for activation in [None, Some(Activation::Relu), Some(Activation::Gelu)] {
                let epilogue = Epilogue { alpha: true, beta: true, bias: Some(bias), activation };
                let device = Device::sim().unwrap();
                let mut work = Workload::<f32, f32>::new(
                    &device,
                    problem,
                    [Major::K; 2],
                    Scalar::F32,
                    epilogue,
                )
                .unwrap();
                let config =
                    GemmConfig { epilogue, ..GemmConfig::simt(Target::SM_80, Scalar::F32) };
                let gemm = Gemm::<f32>::new(config).unwrap().load(&device).unwrap();
                let launch = |alpha: f32| {
                    let gemm = &gemm;
                    move |_: &Stream, set: &mut GemmOperands<f32, f32>| {
                        let args = GemmArgs::new(&set.a, &set.b, &mut set.d).alpha(alpha);
                        let (c, bias) = (set.c.as_ref().unwrap(), set.bias.as_ref().unwrap());
                        Ok(gemm.launch(&problem, args.beta(BETA, c).bias(bias))?)
                    }
                };
                let wrong = work.set_reference(launch(1.0));
                assert!(matches!(wrong, Err(Rejection::Wrong(_))), "{wrong:?}");
                work.set_reference(launch(ALPHA)).unwrap();
                work.check(launch(ALPHA)).unwrap();
            }
        }
    }
}
