//! [`GemmOperands`]: a GEMM's matrices on a device, with a reference result. The GEMM tuner
//! launches candidates on them and compares what they write, with a tolerance for each type.

use std::fmt;

use super::data::{self, Filler};
use super::element_offsets::ElementOffsets;
use super::search::Rejection;
use tilewright::arch::Major;
use tilewright::ir::types::{Const, Scalar};
use tilewright::ir::{BuildErrors, bf16, f8e4m3, f8e5m2, f16};
use tilewright::kernels::Loaded;
use tilewright::kernels::gemm::{
    Activation, AnyGemm, AnyGemmArgs, Bias, Epilogue, GemmProblem, InputTypes,
};
use tilewright::runtime::{AnyBuffer, Device, RuntimeError, Stream};

/// A GEMM's A, B and D, and what its epilogue reads: one set of buffers, on which a
/// [`GemmTunable`](super::GemmTunable) launches its kernels. You meet it only as the type of that
/// tunable's data.
pub struct GemmOperands {
    pub(super) a: AnyBuffer,
    pub(super) b: AnyBuffer,
    pub(super) d: AnyBuffer,
    /// C, if the epilogue has `beta`.
    pub(super) c: Option<AnyBuffer>,
    /// The bias, if the epilogue has one.
    pub(super) bias: Option<AnyBuffer>,
    /// The correct D.
    pub(super) reference: Option<AnyBuffer>,
}

/// The epilogue's alpha, if it has one.
pub(super) const ALPHA: f32 = 0.75;
/// The epilogue's beta, if it has one.
pub(super) const BETA: f32 = -0.5;

/// A problem's matrices: where their elements are, and how to compute their values.
#[derive(Clone, Debug)]
pub(super) struct Matrices {
    problem: GemmProblem,
    offsets: ElementOffsets,
    /// The types of A, B and D in memory; C and the bias have that of D.
    types: [Scalar; 3],
    /// Relative and absolute tolerance.
    tolerance: [f32; 2],
    /// The values from which the host can compute any element.
    table: Vec<f32>,
    epilogue: Epilogue,
}

/// The seeds of A, B, C and the bias in the first set.
const SEEDS: [u32; 4] = [0x1357_9bdf, 0x2468_ace0, 0x0f1e_2d3c, 0x5a69_7887];

impl fmt::Debug for GemmOperands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GemmOperands({:?}, {:?}, {:?})", self.a, self.b, self.d)
    }
}

impl From<BuildErrors> for Rejection {
    fn from(errors: BuildErrors) -> Rejection {
        Rejection::Failed(errors.to_string())
    }
}

impl Matrices {
    /// Returns matrices with values from N(0, 1), and what the epilogue reads; alpha is 0.75 and
    /// beta -0.5. `majors` are the major modes of A and B. `input` are the types that are
    /// multiplied, `output` is the type of D.
    ///
    /// # Errors
    /// Returns a rejection for sizes or strides that no kernel takes, and for matrices of D that
    /// overlap.
    pub(super) fn new(
        problem: GemmProblem,
        majors: [Major; 2],
        input: InputTypes,
        output: Scalar,
        epilogue: Epilogue,
    ) -> Result<Matrices, Rejection> {
        let offsets = ElementOffsets::new(&problem, majors)
            .map_err(|error| Rejection::Failed(error.to_string()))?;
        let tolerance = tolerance(input, output, problem.k, epilogue);
        let in_memory = input.in_memory();
        let (types, table) = ([in_memory.a, in_memory.b, output], data::normal_table(0));
        Ok(Matrices { problem, offsets, types, tolerance, table, epilogue })
    }

    /// Returns how many bytes A, B and D take, and C if the epilogue reads it.
    pub(super) fn bytes(&self) -> u64 {
        let [a, b, c, d] = self.offsets.lens();
        let outputs = if self.epilogue.beta { c + d } else { d };
        let [of_a, of_b, of_d] = self.types.map(|scalar| scalar.size_bytes() as usize);
        (a * of_a + b * of_b + outputs * of_d) as u64
    }

    /// Makes the matrices of set `set`, without a reference.
    ///
    /// # Errors
    /// Returns the device's error, for example if memory runs out.
    pub(super) fn operands(&self, device: &Device, set: u32) -> Result<GemmOperands, Rejection> {
        let ([len_a, len_b, len_c, len_d], [of_a, of_b, of_d]) = (self.offsets.lens(), self.types);
        let filled = |seed: usize, scalar, len| -> Result<AnyBuffer, Rejection> {
            let filler = Filler::new(device, scalar, &self.table)?;
            Ok(filler.buffer(SEEDS[seed].wrapping_add(set.wrapping_mul(0x9e37_79b9)), len)?)
        };
        let bias = self.epilogue.bias.map(|bias| {
            let extent = if bias == Bias::Row { self.problem.m } else { self.problem.n };
            filled(3, of_d, extent as usize)
        });
        Ok(GemmOperands {
            a: filled(0, of_a, len_a)?,
            b: filled(1, of_b, len_b)?,
            d: AnyBuffer::zeros(device, of_d, len_d)?,
            c: self.epilogue.beta.then(|| filled(2, of_d, len_c)).transpose()?,
            bias: bias.transpose()?,
            reference: None,
        })
    }

    /// Makes the result of `launch` the reference, if it is correct: elements from all parts of D
    /// must match dot products that the host computes in `f64`.
    ///
    /// # Errors
    /// Returns the error of `launch`, or [`Rejection::Wrong`].
    pub(super) fn set_reference(
        &self,
        stream: &Stream,
        set: &mut GemmOperands,
        mut launch: impl FnMut(&Stream, &mut GemmOperands) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        set.clear(stream)?;
        launch(stream, set)?;
        stream.synchronize()?;
        let found = set.d.to_vec()?;
        let len = self.offsets.elements();
        let [relative, absolute] = self.tolerance.map(f64::from);
        // Elements from all parts of the matrix, corners included.
        let samples = 512.min(len);
        for sample in 0..samples {
            let at = if samples < 2 { 0 } else { sample * (len - 1) / (samples - 1) };
            let [matrix, row, column] = self.offsets.element(at);
            let found = number(found[self.offsets.d(matrix, row, column)]);
            let right = self.element([matrix, row, column]);
            // Written so that NaN is not close.
            let is_close = (found - right).abs() <= relative * right.abs() + absolute;
            if !is_close {
                return Err(Rejection::Wrong(self.difference(1, at as u64, found, right)));
            }
        }
        let mut reference = AnyBuffer::zeros(&stream.device(), set.d.scalar(), set.d.len())?;
        reference.copy_from(&set.d, stream)?;
        stream.synchronize()?;
        set.reference = Some(reference);
        Ok(())
    }

    /// Makes the result of `first` the reference, or that of `second` if the first is wrong.
    ///
    /// cuBLAS can fail this check: when it splits K, it rounds partial sums to the type of D, an
    /// error of `2^-9 sqrt(k)` in `bf16`.
    ///
    /// # Errors
    /// Returns the error of `first` or `second`, or [`Rejection::Wrong`] if both are wrong.
    #[cfg(any(feature = "cublas", test))]
    pub(super) fn set_reference_or(
        &self,
        stream: &Stream,
        set: &mut GemmOperands,
        first: impl FnMut(&Stream, &mut GemmOperands) -> Result<(), Rejection>,
        second: impl FnMut(&Stream, &mut GemmOperands) -> Result<(), Rejection>,
    ) -> Result<(), Rejection> {
        match self.set_reference(stream, set, first) {
            Err(Rejection::Wrong(_)) => self.set_reference(stream, set, second),
            done => done,
        }
    }

    /// Compares all of D with the reference. Call it after a launch that started from a
    /// [cleared](GemmOperands::clear) D.
    ///
    /// # Errors
    /// [`Rejection::Wrong`], or [`Rejection::Failed`] if there is no reference.
    pub(super) fn verify(&self, set: &GemmOperands) -> Result<(), Rejection> {
        let Some(reference) = &set.reference else {
            return Err(Rejection::Failed("there is no result to compare with".to_owned()));
        };
        let device = set.d.device();
        let compare = device.load(&data::compare_of(device.target(), set.d.scalar())?)?;
        let (len, offsets) = (self.offsets.elements(), self.offsets.of_d());
        let both = [set.d.as_ref(), reference.as_ref()];
        let [count, first] = data::compared(&compare, both, self.tolerance, len, offsets)?;
        if count == 0 {
            return Ok(());
        }
        let [matrix, row, column] = self.offsets.element(first as usize);
        let at = self.offsets.d(matrix, row, column);
        let of = |d: Vec<Const>| d.get(at).map_or(f64::NAN, |x| number(*x));
        let (ours, theirs) = (of(set.d.to_vec()?), of(reference.to_vec()?));
        Err(Rejection::Wrong(self.difference(count, first, ours, theirs)))
    }

    /// Computes one element of the first set's D on the host, in `f64`.
    fn element(&self, [matrix, row, column]: [usize; 3]) -> f64 {
        let Matrices { table, epilogue, .. } = self;
        let number = |index: usize, seed: u32| table[data::table_index(index as u64, seed)];
        let [of_a, of_b, of_d] = self.types;
        let product = |depth: usize| {
            let a = self.offsets.a(matrix, row, depth);
            let b = self.offsets.b(matrix, column, depth);
            rounded(number(a, SEEDS[0]), of_a) * rounded(number(b, SEEDS[1]), of_b)
        };
        let mut value: f64 = (0..self.problem.k as usize).map(product).sum();
        if epilogue.alpha {
            value *= f64::from(ALPHA);
        }
        if epilogue.beta {
            value += f64::from(BETA)
                * rounded(number(self.offsets.c(matrix, row, column), SEEDS[2]), of_d);
        }
        if let Some(bias) = epilogue.bias {
            let index = if bias == Bias::Row { row } else { column };
            value += rounded(number(index, SEEDS[3]), of_d);
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

/// Returns an element's value.
fn number(value: Const) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

impl GemmOperands {
    /// Returns the arguments of a launch.
    pub(super) fn args(&mut self, gemm: &Loaded<AnyGemm>) -> AnyGemmArgs<'_> {
        let epilogue = gemm.config().epilogue;
        let GemmOperands { a, b, d, c, bias, .. } = self;
        let mut args = gemm.args(a.as_ref(), b.as_ref(), d.as_mut());
        args.c = c.as_ref().map(AnyBuffer::as_ref);
        args.bias = bias.as_ref().map(AnyBuffer::as_ref);
        if epilogue.alpha {
            args.alpha = Const::from_f64(args.alpha.scalar(), ALPHA.into());
        }
        if epilogue.beta {
            args.beta = Const::from_f64(args.beta.scalar(), BETA.into());
        }
        args
    }

    /// Fills D with NaN, or with integers that no GEMM here gives, so that elements which a launch
    /// does not write are noticed.
    pub(super) fn clear(&mut self, stream: &Stream) -> Result<(), RuntimeError> {
        let byte = if self.d.scalar().is_float() { 0xff } else { 0x7f };
        self.d.fill_bytes(byte, stream)
    }
}

/// Returns a table value as the matrix stores it.
fn rounded(x: f32, scalar: Scalar) -> f64 {
    f64::from(match scalar {
        Scalar::Bf16 => bf16::from_f32(x).to_f32(),
        Scalar::F16 => f16::from_f32(x).to_f32(),
        Scalar::F8E4M3 => f8e4m3::from_f32(x).to_f32(),
        Scalar::F8E5M2 => f8e5m2::from_f32(x).to_f32(),
        Scalar::I8 => (x * data::INTEGERS).trunc(),
        Scalar::U8 => (x * data::INTEGERS).trunc().max(0.0),
        _ => x,
    })
}

/// Returns the relative and absolute tolerance between two dot products of length `k`.
///
/// Relative: the result's rounding. Absolute: a dot product of values from N(0, 1) is about
/// `sqrt(k)`. Tensor cores truncate the accumulator to `f32` after every 16 products, always toward
/// zero, so the errors of `k / 16` steps add up. For 8-bit types they keep 13 bits below the
/// largest product in every 32. The hardware's `tanh` has 11 accurate bits.
fn tolerance(input: InputTypes, output: Scalar, k: u32, epilogue: Epilogue) -> [f32; 2] {
    if matches!(input.a, Scalar::I8 | Scalar::U8) {
        // Integer sums are exact, and compared as 24-bit values.
        return [1e-7, 0.5];
    }
    let (size, steps) = (f32::sqrt(k as f32), k as f32 / 16.0);
    let relative = match output {
        Scalar::Bf16 => 1.0 / 128.0,
        Scalar::F16 => 1.0 / 1024.0,
        _ => 1e-5,
    };
    let of_step = if input.a.bits() == 8 { 2f32.powi(-14) } else { f32::EPSILON };
    let sums = (steps * of_step).max(2e-5) * size;
    // TF32 operands have 10 fraction bits, and may be rounded or truncated. Truncated products are
    // all too small, so a sum far from 0 has most of this error as well: at most 2^-9 of it.
    let inputs = if input.a == Scalar::Tf32 { [2f32.powi(-9), 4e-3 * size] } else { [0.0; 2] };
    let tanh = if epilogue.activation == Some(Activation::Gelu) { [1e-3, 2e-3] } else { [0.0; 2] };
    [relative + inputs[0] + tanh[0], sums + inputs[1] + tanh[1]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::ir::Element;
    use tilewright::kernels::gemm::MatrixStrides;

    /// Returns the elements of A, B or D.
    fn numbers(buffer: &AnyBuffer) -> Vec<f32> {
        buffer.to_vec().unwrap().into_iter().map(|x| number(x) as f32).collect()
    }

    /// Writes D.
    fn write(set: &mut GemmOperands, d: &[f32]) -> Result<(), Rejection> {
        let values: Vec<f64> = d.iter().map(|x| f64::from(*x)).collect();
        set.d = AnyBuffer::from_f64(&set.d.device(), set.d.scalar(), &values)?;
        Ok(())
    }

    /// Truncated `tf32` operands are up to 2^-10 too small, and their products up to twice that.
    #[test]
    fn products_of_tf32_may_be_cut_off() {
        for k in [32, 8192, 65_536] {
            let [relative, absolute] =
                tolerance(Scalar::Tf32.into(), Scalar::F32, k, Epilogue::default());
            // A sum at five standard deviations.
            let sum = 5.0 * (k as f32).sqrt();
            assert!(sum * (1.0 - (1.0 - 2f32.powi(-10)).powi(2)) < relative * sum + absolute);
            // A different element of A or B must not pass: its product has variance 1.
            assert!(relative * sum + absolute < 2.5 * (k as f32).sqrt());
        }
    }

    /// A problem on the simulator, with the matrices of the first set.
    struct Work {
        stream: Stream,
        matrices: Matrices,
        set: GemmOperands,
    }

    impl Work {
        fn new(
            [input, output]: [Scalar; 2],
            problem: GemmProblem,
            majors: [Major; 2],
            epilogue: Epilogue,
        ) -> Work {
            let device = Device::sim().unwrap();
            let matrices = Matrices::new(problem, majors, input.into(), output, epilogue).unwrap();
            let set = matrices.operands(&device, 0).unwrap();
            Work { stream: device.stream().unwrap(), matrices, set }
        }

        fn set_reference(
            &mut self,
            launch: impl FnMut(&Stream, &mut GemmOperands) -> Result<(), Rejection>,
        ) -> Result<(), Rejection> {
            self.matrices.set_reference(&self.stream, &mut self.set, launch)
        }

        fn check(
            &mut self,
            mut launch: impl FnMut(&Stream, &mut GemmOperands) -> Result<(), Rejection>,
        ) -> Result<(), Rejection> {
            self.set.clear(&self.stream)?;
            launch(&self.stream, &mut self.set)?;
            self.stream.synchronize()?;
            self.matrices.verify(&self.set)
        }
    }

    /// Computes the product by its definition, with a filler value between rows.
    fn product(problem: GemmProblem, majors: [Major; 2]) -> impl Fn(&GemmOperands) -> Vec<f32> {
        let offsets = ElementOffsets::new(&problem, majors).unwrap();
        move |set: &GemmOperands| {
            let (a, b) = (numbers(&set.a), numbers(&set.b));
            let mut d = vec![-777.0; set.d.len()];
            for number in 0..offsets.elements() {
                let [l, row, column] = offsets.element(number);
                let of = |i| a[offsets.a(l, row, i)] * b[offsets.b(l, column, i)];
                d[offsets.d(l, row, column)] = (0..problem.k as usize).map(of).sum();
            }
            d
        }
    }

    /// Returns a problem with padding between rows, one B for the whole batch, and D's matrices
    /// interleaved row by row.
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
        let types = [Scalar::Bf16, Scalar::F32];
        let mut work = Work::new(types, problem, majors, Epilogue::default());
        let right = product(problem, majors);
        let error = work.check(|_, _| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "failed: there is no result to compare with");
        let error = work.set_reference(|_, set| write(set, &vec![0.5; set.d.len()])).unwrap_err();
        assert!(matches!(error, Rejection::Wrong(_)), "{error}");
        // Unwritten elements are NaN.
        assert!(matches!(work.set_reference(|_, _| Ok(())), Err(Rejection::Wrong(_))));
        work.set_reference(|_, set| write(set, &right(set))).unwrap();
        work.check(|_, set| write(set, &right(set))).unwrap();
        for wrong in [f32::NAN, 1e3, f32::INFINITY] {
            let error = work.check(|_, set| {
                let mut d = right(set);
                d[wrong_at] = wrong;
                write(set, &d)
            });
            let text = error.unwrap_err().to_string();
            let start = "wrong: 1 elements differ, the first at (11, 1): ";
            assert!(text.starts_with(start), "{text}");
        }
        assert!(matches!(work.check(|_, _| Ok(())), Err(Rejection::Wrong(_))));
        let failed = || Rejection::Failed("no".into());
        assert_eq!(work.check(|_, _| Err(failed())), Err(failed()));
    }

    /// Odd sizes: host and device compute the same elements, and a product whose partial sums along
    /// K are rounded to `bf16`, as cuBLAS may do, does not make a problem unmeasurable.
    #[test]
    fn a_wrong_first_product_is_not_the_reference() {
        let problem = GemmProblem::new(52, 33, 717);
        let types = [Scalar::Bf16; 2];
        let mut work = Work::new(types, problem, [Major::K; 2], Epilogue::default());
        let product = |depth: usize| {
            move |_: &Stream, set: &mut GemmOperands| {
                let (a, b) = (numbers(&set.a), numbers(&set.b));
                let of = |row: &[f32], column: &[f32]| {
                    let terms = row.iter().zip(column).map(|(a, b)| a * b);
                    bf16::from_f32(terms.sum()).to_f32()
                };
                let parts = |row: &[f32], column: &[f32]| -> f32 {
                    row.chunks(depth).zip(column.chunks(depth)).map(|(a, b)| of(a, b)).sum()
                };
                let rows = a.chunks(717).flat_map(|row| b.chunks(717).map(move |b| (row, b)));
                let d: Vec<f32> = rows.map(|(a, b)| parts(a, b)).collect();
                write(set, &d)
            }
        };
        let wrong = work.set_reference(product(256));
        assert!(matches!(wrong, Err(Rejection::Wrong(_))), "{wrong:?}");
        assert!(work.set.reference.is_none());
        let Work { stream, matrices, set } = &mut work;
        matrices.set_reference_or(stream, set, product(256), product(717)).unwrap();
        work.check(product(717)).unwrap();
        assert!(matches!(work.check(product(256)), Err(Rejection::Wrong(_))));
        // Other failures are not retried.
        let failed = || Rejection::Failed("no".into());
        let Work { stream, matrices, set } = &mut work;
        let error = matrices.set_reference_or(stream, set, |_, _| Err(failed()), product(717));
        assert_eq!(error, Err(failed()));
    }

    /// GEMMs with epilogues, computed by the SIMT kernel.
    #[test]
    fn epilogues_are_part_of_the_reference() {
        use tilewright::ir::Target;
        use tilewright::kernels::gemm::GemmConfig;
        let close = GemmProblem { batch: 2, ..GemmProblem::new(9, 11, 20) };
        let problems = [close, apart(close)];
        for (bias, problem) in [Bias::Row, Bias::Column].into_iter().zip(problems) {
            for activation in [None, Some(Activation::Relu), Some(Activation::Gelu)] {
                let epilogue = Epilogue { alpha: true, beta: true, bias: Some(bias), activation };
                let device = Device::sim().unwrap();
                let types = [Scalar::F32; 2];
                let mut work = Work::new(types, problem, [Major::K; 2], epilogue);
                let config =
                    GemmConfig { epilogue, ..GemmConfig::simt(Target::SM_80, Scalar::F32) };
                let gemm = AnyGemm::new(config).unwrap().load(&device).unwrap();
                let launch = |alpha: f32| {
                    let gemm = &gemm;
                    move |_: &Stream, set: &mut GemmOperands| {
                        let mut args = set.args(gemm);
                        args.alpha = alpha.to_const();
                        Ok(gemm.launch(&problem, args)?)
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
