//! Runs one GEMM of `kernels::gemm` and compares it with the definition.

use tilewright::arch::Major;
use tilewright::codegen::Ptx;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Number, bf16, f8e4m3, f8e5m2, f16};
use tilewright::kernels::gemm::{Activation, Bias, Gemm, GemmArgs, GemmConfig, GemmProblem};
use tilewright::runtime::Device;

use super::rng::Rng;

/// An element type that a GEMM can multiply or write.
pub(crate) trait Real: Element {
    fn of(x: f32) -> Self;
    fn to(self) -> f64;
    /// The relative error of rounding to this type.
    const EPSILON: f64;
}

macro_rules! real {
    ($($ty:ident $epsilon:literal),*) => {$(
        impl Real for $ty {
            fn of(x: f32) -> $ty {
                $ty::from_f32(x)
            }
            fn to(self) -> f64 {
                f64::from(self.to_f32())
            }
            const EPSILON: f64 = $epsilon;
        }
    )*};
}
real!(bf16 0.00390625, f16 0.00048828125, f8e4m3 0.0625, f8e5m2 0.125);

impl Real for f32 {
    fn of(x: f32) -> f32 {
        x
    }
    fn to(self) -> f64 {
        f64::from(self)
    }
    const EPSILON: f64 = 0.0;
}

/// A GEMM of small integers. All types represent the integers exactly, and `f32` represents the
/// sums.
pub(crate) struct Case {
    pub(crate) problem: GemmProblem,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
}

/// The value between the matrices' rows: if a kernel reads it, the result shows.
const OUTSIDE: f32 = 240.0;

impl Case {
    pub(crate) fn new(problem: GemmProblem) -> Case {
        Case { problem, alpha: 0.5, beta: 2.0 }
    }

    /// Runs the GEMM and compares all of D. Elements between the rows of D must not change.
    #[track_caller]
    pub(crate) fn check<A: Real, D: Real + Number>(&self, device: &Device, config: GemmConfig) {
        let GemmProblem { m, n, k, batch, .. } = self.problem;
        let [m, n, k, batch] = [m, n, k, batch].map(|size| size as usize);
        let strides = config.check_problem(&self.problem).unwrap();
        let mut rng = Rng::new(11);
        let mut number = move || rng.below(7) as f32 - 3.0;
        // Element `i` of line `j` in matrix `l` is at l * next + j * pitch + i.
        fn matrix<T: Real>(
            [lines, len, batch]: [usize; 3],
            strides: [u64; 2],
            number: &mut impl FnMut() -> f32,
        ) -> Vec<T> {
            let [pitch, next] = strides.map(|stride| stride as usize);
            let mut all = vec![T::of(OUTSIDE); (batch - 1) * next + (lines - 1) * pitch + len];
            for l in 0..batch {
                for line in 0..lines {
                    for i in 0..len {
                        all[l * next + line * pitch + i] = T::of(number());
                    }
                }
            }
            all
        }
        let lines =
            |major, lines| if major == Major::K { [lines, k, batch] } else { [k, lines, batch] };
        let a: Vec<A> = matrix(lines(config.major_a, m), strides.a, &mut number);
        let b: Vec<A> = matrix(lines(config.major_b, n), strides.b, &mut number);
        let c: Vec<D> = matrix([m, n, batch], strides.c, &mut number);
        let bias: Vec<D> = matrix([1, m.max(n), 1], [0, 0], &mut number);
        let at = |major, [pitch, next]: [u64; 2], l: usize, line: usize, depth: usize| {
            let [pitch, next] = [pitch as usize, next as usize];
            l * next + if major == Major::K { line * pitch + depth } else { depth * pitch + line }
        };
        let gemm = Gemm::<A, A, D>::new(config).unwrap();
        let untouched = D::of(-77.0);
        let len = (batch - 1) * strides.d[1] as usize + (m - 1) * strides.d[0] as usize + n;
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let (on_c, on_bias) = (device.upload(&c).unwrap(), device.upload(&bias).unwrap());
        let mut on_d = device.upload(&vec![untouched; len]).unwrap();
        let mut args = GemmArgs::new(&on_a, &on_b, &mut on_d);
        let ops = config.epilogue;
        if ops.alpha {
            args = args.alpha(self.alpha.into());
        }
        if ops.beta {
            args = args.beta(self.beta.into(), &on_c);
        }
        if ops.bias.is_some() {
            args = args.bias(&on_bias);
        }
        gemm.load(device).unwrap().launch(&self.problem, args).unwrap();
        let d = on_d.to_vec().unwrap();
        let mut written = vec![false; len];
        for l in 0..batch {
            let columns: Vec<Vec<f64>> = (0..n)
                .map(|column| {
                    (0..k).map(|i| b[at(config.major_b, strides.b, l, column, i)].to()).collect()
                })
                .collect();
            for row in 0..m {
                let line: Vec<f64> =
                    (0..k).map(|i| a[at(config.major_a, strides.a, l, row, i)].to()).collect();
                for (column, of_b) in columns.iter().enumerate() {
                    let mut x: f64 = line.iter().zip(of_b).map(|(a, b)| a * b).sum();
                    if ops.alpha {
                        x *= f64::from(self.alpha);
                    }
                    if ops.beta {
                        x += f64::from(self.beta) * c[at(Major::K, strides.c, l, row, column)].to();
                    }
                    x += match ops.bias {
                        None => 0.0,
                        Some(Bias::Row) => bias[row].to(),
                        Some(Bias::Column) => bias[column].to(),
                    };
                    let (expected, slack) = match ops.activation {
                        None => (x, 0.0),
                        Some(Activation::Relu) => (x.max(0.0), 0.0),
                        Some(Activation::Gelu) => {
                            let inner =
                                (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
                            (x / 2.0 * (1.0 + inner.tanh()), x.abs() * 1e-3)
                        }
                    };
                    let place = at(Major::K, strides.d, l, row, column);
                    written[place] = true;
                    let found = d[place].to();
                    let close = (found - expected).abs() <= expected.abs() * D::EPSILON + slack;
                    assert!(close, "{config}: D[{l}, {row}, {column}] is {found}, not {expected}");
                }
            }
        }
        for (place, element) in d.iter().enumerate() {
            assert!(
                written[place] || *element == untouched,
                "{config}: wrote beside D, at {place}"
            );
        }
    }

    /// Like [`check`](Case::check), but takes the types from the configuration.
    #[track_caller]
    pub(crate) fn check_any(&self, device: &Device, config: GemmConfig) {
        match (config.a, config.d) {
            (Scalar::Bf16, Scalar::Bf16) => self.check::<bf16, bf16>(device, config),
            (Scalar::Bf16, Scalar::F32) => self.check::<bf16, f32>(device, config),
            (Scalar::F16, Scalar::F16) => self.check::<f16, f16>(device, config),
            (Scalar::F16, Scalar::F32) => self.check::<f16, f32>(device, config),
            (Scalar::F32 | Scalar::Tf32, Scalar::F32) => self.check::<f32, f32>(device, config),
            (a, d) => panic!("{config}: no test has {a} and {d}"),
        }
    }
}

/// Returns a configuration's PTX, with the element types that it names.
pub(crate) fn ptx(config: GemmConfig) -> Ptx {
    match (config.a, config.d) {
        (Scalar::Bf16, Scalar::Bf16) => Gemm::<bf16>::new(config).unwrap().ptx(),
        (Scalar::Bf16, _) => Gemm::<bf16, bf16, f32>::new(config).unwrap().ptx(),
        (Scalar::F16, Scalar::F16) => Gemm::<f16>::new(config).unwrap().ptx(),
        (Scalar::F16, _) => Gemm::<f16, f16, f32>::new(config).unwrap().ptx(),
        _ => Gemm::<f32>::new(config).unwrap().ptx(),
    }
}
