//! [`SmallGemmTunable`]: a GEMM with few rows as a [`Tunable`].

use std::fmt;
use std::marker::PhantomData;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::data::not_a_number;
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::builder::{Converted, VectorElement};
use tilewright::ir::types::Scalar;
use tilewright::ir::{Element, Target, bf16, f16};
use tilewright::kernels::small_gemm::{
    SmallGemm, SmallGemmArgs, SmallGemmConfig, SmallGemmError, SmallGemmProblem, WeightFormat,
    ZeroPoints,
};
use tilewright::kernels::{Built, Loaded};
use tilewright::layout::{Layout, LayoutError};
use tilewright::runtime::{Buffer, Device, LaunchOptions, Stream};

/// A GEMM with few rows and weights of a [`WeightFormat`] as a [`Tunable`]. It tunes the instruction,
/// the grid of warps, steps, stages and splits. `W` is the type of the buffer with the weights
/// ([`WeightFormat::scalar`]).
///
/// Weights are random. Results are compared with their definition in `f64`: all of them if there
/// are few, else those of some columns.
///
/// ```
/// use tilewright::ir::bf16;
/// use tilewright::kernels::small_gemm::{ScaleGroup, SmallGemmProblem, WeightFormat, ZeroPoints};
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, Regime, SmallGemmTunable, Tuner, TuningStore};
///
/// let weights = WeightFormat::Int4 { group: ScaleGroup::Of64, zeros: ZeroPoints::Present };
/// let gemm = SmallGemmTunable::<bf16>::new(weights, SmallGemmProblem::new(1, 16, 256));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let tuned = tuner.tune(&gemm, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SmallGemmTunable<T, W = u32> {
    weights: WeightFormat,
    problem: SmallGemmProblem,
    elem: PhantomData<fn() -> (T, W)>,
}

impl<T, W> SmallGemmTunable<T, W> {
    /// Returns the tunable for a problem.
    pub const fn new(weights: WeightFormat, problem: SmallGemmProblem) -> Self {
        SmallGemmTunable { weights, problem, elem: PhantomData }
    }
}

/// The buffers of a launch, on which a [`SmallGemmTunable`] launches its kernels.
pub struct SmallGemmOperands<T, W = u32> {
    /// A.
    pub a: Buffer<T>,
    /// The weights.
    pub weights: Buffer<W>,
    /// The packed scales and zero points, if the format has scales.
    pub scales: Option<Buffer<T>>,
    /// D.
    pub d: Buffer<T>,
}

impl<T: Element, W: Element> fmt::Debug for SmallGemmOperands<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmallGemmOperands({:?}, {:?}, {:?})", self.a, self.weights, self.d)
    }
}

impl From<SmallGemmError> for Rejection {
    fn from(error: SmallGemmError) -> Rejection {
        match error {
            SmallGemmError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

impl<T: VectorElement<2> + Converted, W: Element> Tunable for SmallGemmTunable<T, W> {
    type Config = SmallGemmConfig;
    type Kernel = Built<SmallGemm<T, W>>;
    type Data = SmallGemmOperands<T, W>;

    fn key(&self) -> String {
        format!("small_gemm of {} {} {}", T::SCALAR, self.weights, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<SmallGemmConfig> {
        SmallGemmConfig::candidates(device.target(), self.weights, &self.problem)
    }

    fn check(&self, config: &SmallGemmConfig) -> Result<(), Rejection> {
        config.check()?;
        Ok(self.problem.check()?)
    }

    fn build(config: &SmallGemmConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(SmallGemm::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        let SmallGemmProblem { rows, columns, depth } = self.problem;
        let elements = u64::from(rows) * (u64::from(columns) + u64::from(depth));
        let size = self.weights.scalar(T::SCALAR).size_bytes();
        u64::from(size) * self.weights.weights(columns, depth)
            + 2 * (self.weights.scales(columns, depth) + elements)
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn flops(&self) -> f64 {
        let SmallGemmProblem { rows, columns, depth } = self.problem;
        2.0 * f64::from(rows) * f64::from(columns) * f64::from(depth)
    }

    fn data(&self, device: &Device, set: u32) -> Result<SmallGemmOperands<T, W>, Rejection> {
        self.problem.check()?;
        let SmallGemmProblem { rows, columns, depth } = self.problem;
        let [weights, scales] =
            [self.weights.weights(columns, depth), self.weights.scales(columns, depth)];
        let mut rng = ChaCha8Rng::seed_from_u64(set.into());
        let mut weight = || match self.weights {
            // Without the two NaNs, which have the largest magnitude.
            WeightFormat::E4m3 { .. } => rng.random_range(0..127) | rng.random_range(0..2) << 7,
            WeightFormat::Full => bits(element::<T>(rng.random_range(-1.0..1.0f32))),
            _ => u64::from(rng.random::<u32>()) & (u64::MAX >> (64 - W::SCALAR.bits())),
        };
        let weights: Vec<W> = (0..weights).map(|_| W::from_bits(weight())).collect();
        let mut scale = |at: u64| match self.weights {
            WeightFormat::Int4 { zeros: ZeroPoints::Present, .. } if at % 4 >= 2 => {
                element::<T>(rng.random_range(0..16u32) as f32)
            }
            _ => element::<T>(rng.random_range(0.005..0.02f32)),
        };
        let scales: Vec<T> = (0..scales).map(&mut scale).collect();
        let scales = self.weights.group().map(|_| device.upload(&scales)).transpose()?;
        let a = u64::from(rows) * u64::from(depth);
        let a: Vec<T> = (0..a).map(|_| element::<T>(rng.random_range(-1.0..1.0f32))).collect();
        Ok(SmallGemmOperands {
            a: device.upload(&a)?,
            weights: device.upload(&weights)?,
            scales,
            d: device.zeros(rows as usize * columns as usize)?,
        })
    }

    fn clear(&self, data: &mut SmallGemmOperands<T, W>, stream: &Stream) -> Result<(), Rejection> {
        Ok(data.d.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &SmallGemmConfig,
        gemm: &Loaded<SmallGemm<T, W>>,
        data: &mut SmallGemmOperands<T, W>,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let SmallGemmOperands { a, weights, scales, d } = data;
        let scales = scales.as_ref();
        let args = SmallGemmArgs { a, weights, scales, d, bias: None, residual: None };
        Ok(gemm.with(options).launch(&self.problem, args)?)
    }

    fn verify(&self, data: &mut SmallGemmOperands<T, W>) -> Result<(), Rejection> {
        let SmallGemmProblem { rows, columns, depth } = self.problem;
        let [rows, columns, depth] = [rows, columns, depth].map(|size| size as usize);
        let weights = data.weights.to_vec()?;
        let scales = data.scales.as_ref().map(|scales| scales.to_vec()).transpose()?;
        let (a, d) = (data.a.to_vec()?, data.d.to_vec()?);
        let of_weights = self.weights.layout(columns as u32, depth as u32);
        let of_scales = self.weights.scale_layout(columns as u32, depth as u32);
        let [of_weights, of_scales] = [offsets(of_weights)?, offsets(of_scales)?];
        let group = self.weights.group().map_or(1, |group| group.len(depth as u32) as usize);
        // At most about 2^28 multiplications.
        let stride = (rows * columns * depth).div_ceil(1 << 28).max(1);
        for column in (0..columns).step_by(stride) {
            let weight = |k: usize| {
                let at = of_weights[0][column] + of_weights[1][k];
                let Some(scales) = &scales else { return f64::from(number(weights[at])) };
                let scale = of_scales[0][column] + of_scales[1][k / group];
                let value: f32 = match self.weights {
                    WeightFormat::Int4 { zeros, .. } => {
                        let integer = bits(weights[at / 8]) as u32 >> (at % 8 * 4) & 15;
                        match zeros {
                            ZeroPoints::Absent => ((integer ^ 8) as i32 - 8) as f32,
                            ZeroPoints::Present => integer as f32 - number(scales[scale + 2]),
                        }
                    }
                    _ => number(weights[at]),
                };
                f64::from(value) * f64::from(number(scales[scale]))
            };
            let weights: Vec<f64> = (0..depth).map(weight).collect();
            for row in 0..rows {
                let a = a[row * depth..][..depth].iter().map(|a| f64::from(number(*a)));
                let products = a.zip(&weights).map(|(a, weight)| a * weight);
                let (sum, magnitude) = products.fold((0.0, 0.0), |(sum, magnitude), product| {
                    (sum + product, magnitude + product.abs())
                });
                let found = number(d[row * columns + column]);
                let slack = f64::abs(sum) * 0.005 + magnitude * 1e-5;
                let error = (f64::from(found) - sum).abs();
                if error.is_nan() || error > slack {
                    let text = format!("D[{row}, {column}] is {found}, not {sum}");
                    return Err(Rejection::Wrong(text));
                }
            }
        }
        Ok(())
    }
}

/// Returns the offsets of a matrix layout's rows and of its columns.
fn offsets(layout: Result<Layout, LayoutError>) -> Result<[Vec<usize>; 2], Rejection> {
    let failed = |error: LayoutError| Rejection::Failed(error.to_string());
    let layout = layout.map_err(failed)?;
    let of = |which: usize| {
        let mode = layout.as_ref().mode(&[which])?.to_layout();
        let size = mode.size()?.as_static().unwrap_or(0);
        (0..size).map(|i| Ok(mode.at(i)? as usize)).collect::<Result<Vec<_>, LayoutError>>()
    };
    Ok([of(0).map_err(failed)?, of(1).map_err(failed)?])
}

/// Rounds to an element type: `f16`, or else `bf16`.
fn element<T: Element>(value: f32) -> T {
    let bits = match T::SCALAR {
        Scalar::F16 => f16::from_f32(value).to_bits(),
        _ => bf16::from_f32(value).to_bits(),
    };
    T::from_bits(bits.into())
}

fn bits<T: Element>(value: T) -> u64 {
    value.to_const().bits()
}

fn number<T: Element>(value: T) -> f32 {
    value.to_const().as_f64().map_or(f32::NAN, |value| value as f32)
}
