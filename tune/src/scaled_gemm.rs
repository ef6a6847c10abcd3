//! [`ScaledGemmTunable`]: a GEMM with block scales as a [`Tunable`].

use std::fmt;
use std::marker::PhantomData;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::data::{Filler, normal_table, not_a_number};
use super::search::Rejection;
use super::tunable::Tunable;
use tilewright::ir::builder::Converted;
use tilewright::ir::types::Scalar;
use tilewright::ir::{Target, f8e4m3};
use tilewright::kernels::gemm::GroupRows;
use tilewright::kernels::scaled_gemm::{
    BScaleBlock, BatchStrides, ScaleStrides, ScaledBatch, ScaledGemm, ScaledGemmArgs,
    ScaledGemmConfig, ScaledGemmError, ScaledGemmProblem,
};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{Buffer, Device, LaunchOptions, Stream};

/// A GEMM of `f8e4m3` with block scales as a [`Tunable`], with elements `D` of D. It tunes the tile
/// and the cluster.
///
/// A and B are random, and so are the scales. A grouped GEMM gets groups of random lengths. Results
/// are compared with their definition in `f64`: all of them if there are few, else those of some
/// rows and columns.
///
/// ```
/// use tilewright::ir::{Target, bf16};
/// use tilewright::kernels::scaled_gemm::ScaledGemmProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, Regime, ScaledGemmTunable, Tuner, TuningStore};
///
/// let gemm = ScaledGemmTunable::<bf16>::new(ScaledGemmProblem::new(100, 64, 256).grouped(3));
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// let mut tuner = Tuner::new(&Device::sim_for(Target::SM_90A)?);
/// let tuned = tuner.tune(&gemm, &TuningStore::none(), effort, Regime::Latency)?;
/// assert_eq!((tuned.measured, tuned.rejected), (2, vec![]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ScaledGemmTunable<D> {
    problem: ScaledGemmProblem,
    elem: PhantomData<fn() -> D>,
}

impl<D> ScaledGemmTunable<D> {
    /// Returns the tunable for a problem.
    pub const fn new(problem: ScaledGemmProblem) -> Self {
        ScaledGemmTunable { problem, elem: PhantomData }
    }

    /// Returns the first row of each group of random length, and the end of the last one.
    fn starts(&self, set: u32) -> Option<Vec<i32>> {
        let ScaledBatch::Grouped { groups } = self.problem.batch else { return None };
        let mut rng = ChaCha8Rng::seed_from_u64(set.into());
        let mut starts: Vec<i32> =
            (1..groups).map(|_| rng.random_range(0..=self.problem.m) as i32).collect();
        starts.sort_unstable();
        starts.insert(0, 0);
        starts.push(self.problem.m as i32);
        Some(starts)
    }

    /// Returns the GEMMs of the launch: the offsets of their matrices and scales, and their rows.
    fn gemms(&self, set: u32) -> Vec<OneGemm> {
        let problem = &self.problem;
        let [m, n, k] = [problem.m, problem.n, problem.k].map(|size| size as usize);
        let [a_scales, b_scales] = problem.batched(1).scale_lens().map(|len| len as usize);
        if let Some(starts) = self.starts(set) {
            let rows = starts.windows(2).map(|pair| [pair[0] as usize, pair[1] as usize]);
            let of_group = |(g, rows)| OneGemm {
                b: g * n * k,
                b_scales: g * b_scales,
                rows,
                ..OneGemm::default()
            };
            return (0..).zip(rows).map(of_group).collect();
        }
        let of = |own: usize, stride: Option<u64>| stride.map_or(own, |stride| stride as usize);
        let strides = match problem.batch {
            ScaledBatch::Uniform { strides, .. } => strides,
            ScaledBatch::Grouped { .. } => BatchStrides::default(),
        };
        let of_batch = |l: usize| OneGemm {
            a: l * of(m * k, strides.a),
            a_scales: l * of(a_scales, strides.a_scales),
            b: l * of(n * k, strides.b),
            b_scales: l * of(b_scales, strides.b_scales),
            d: l * of(m * n, strides.d),
            rows: [0, m],
        };
        (0..problem.batch.count() as usize).map(of_batch).collect()
    }
}

/// A GEMM of a launch: where its matrices and scales start, and its rows of A and D.
#[derive(Clone, Copy, Debug, Default)]
struct OneGemm {
    a: usize,
    a_scales: usize,
    b: usize,
    b_scales: usize,
    d: usize,
    rows: [usize; 2],
}

/// The buffers of a launch, on which a [`ScaledGemmTunable`] launches its kernels.
pub struct ScaledGemmOperands<D> {
    /// A.
    pub a: Buffer<f8e4m3>,
    /// A's scales.
    pub a_scales: Buffer<f32>,
    /// B.
    pub b: Buffer<f8e4m3>,
    /// B's scales.
    pub b_scales: Buffer<f32>,
    /// D.
    pub d: Buffer<D>,
    /// The first row of each group and the end of the last one, for a grouped GEMM.
    pub starts: Option<Buffer<i32>>,
}

impl<D: Converted> fmt::Debug for ScaledGemmOperands<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScaledGemmOperands({:?}, {:?}, {:?})", self.a, self.b, self.d)
    }
}

impl From<ScaledGemmError> for Rejection {
    fn from(error: ScaledGemmError) -> Rejection {
        match error {
            ScaledGemmError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

impl<D: Converted> Tunable for ScaledGemmTunable<D> {
    type Config = ScaledGemmConfig;
    type Kernel = Built<ScaledGemm<f8e4m3, f8e4m3, D>>;
    type Data = ScaledGemmOperands<D>;

    fn key(&self) -> String {
        let ScaledGemmProblem { m, n, k, b_block, a_scales, b_scales, batch } = self.problem;
        let batch = match batch {
            ScaledBatch::Uniform { count: 1, .. } => String::new(),
            ScaledBatch::Uniform { count, strides } if strides == BatchStrides::default() => {
                format!(" in a batch of {count}")
            }
            ScaledBatch::Uniform { count, strides } => {
                format!(" in a batch of {count}, {strides:?}")
            }
            ScaledBatch::Grouped { groups } => format!(" in {groups} groups"),
        };
        let place = |strides: ScaleStrides| format!("{}:{}", strides.row, strides.block);
        let (of_a, of_b) = (place(a_scales), place(b_scales));
        format!(
            "scaled_gemm to {} {m}x{n}x{k}{batch}, scales 1x128 at {of_a} and {b_block} at {of_b}",
            D::SCALAR
        )
    }

    fn space(&self, device: &Device) -> Vec<ScaledGemmConfig> {
        ScaledGemmConfig::candidates(device.target(), D::SCALAR, &self.problem)
    }

    fn check(&self, config: &ScaledGemmConfig) -> Result<(), Rejection> {
        config.check()?;
        Ok(self.problem.check(D::SCALAR.bits())?)
    }

    fn build(config: &ScaledGemmConfig, _: Target) -> Result<Self::Kernel, Rejection> {
        Ok(ScaledGemm::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        let [a_scales, b_scales] = self.problem.scale_lens();
        let [m, n, k] = [self.problem.m, self.problem.n, self.problem.k].map(u64::from);
        let count = u64::from(self.problem.batch.count());
        let rows = match self.problem.batch {
            ScaledBatch::Uniform { .. } => count * m,
            ScaledBatch::Grouped { .. } => m,
        };
        let d = u64::from(D::SCALAR.size_bytes()) * rows * n;
        rows * k + count * n * k + d + 4 * (a_scales + b_scales)
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn flops(&self) -> f64 {
        self.problem.flops()
    }

    fn data(&self, device: &Device, set: u32) -> Result<ScaledGemmOperands<D>, Rejection> {
        self.problem.check(D::SCALAR.bits())?;
        let [m, n, k] = [self.problem.m, self.problem.n, self.problem.k].map(|size| size as usize);
        let end = |start: fn(&OneGemm) -> usize, len: usize| {
            self.gemms(set).iter().map(start).max().map_or(0, |start| start + len)
        };
        let filler = Filler::new(device, Scalar::F8E4M3, &normal_table(0))?;
        let [a_scales, b_scales] = self.problem.scale_lens().map(|len| len as usize);
        let mut rng = ChaCha8Rng::seed_from_u64(set.into());
        let mut scales =
            |len: usize| -> Vec<f32> { (0..len).map(|_| rng.random_range(0.25..1.0f32)).collect() };
        let starts = self.starts(set).map(|starts| device.upload(&starts)).transpose()?;
        Ok(ScaledGemmOperands {
            a: filler.typed(2 * set, end(|gemm| gemm.a, m * k))?,
            a_scales: device.upload(&scales(a_scales))?,
            b: filler.typed(2 * set + 1, end(|gemm| gemm.b, n * k))?,
            b_scales: device.upload(&scales(b_scales))?,
            d: device.zeros(end(|gemm| gemm.d, m * n))?,
            starts,
        })
    }

    fn clear(&self, data: &mut ScaledGemmOperands<D>, stream: &Stream) -> Result<(), Rejection> {
        Ok(data.d.fill(not_a_number(), stream)?)
    }

    fn launch(
        &self,
        _: &ScaledGemmConfig,
        gemm: &Loaded<ScaledGemm<f8e4m3, f8e4m3, D>>,
        data: &mut ScaledGemmOperands<D>,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        let ScaledGemmOperands { a, a_scales, b, b_scales, d, starts } = data;
        let groups = starts.as_ref().map(GroupRows::Starts);
        let args = ScaledGemmArgs { a, a_scales, b, b_scales, d, groups };
        Ok(gemm.with(options).launch(&self.problem, args)?)
    }

    fn verify(&self, data: &mut ScaledGemmOperands<D>) -> Result<(), Rejection> {
        let ScaledGemmProblem { m, n, k, b_block, .. } = self.problem;
        let [m, n, k] = [m, n, k].map(|size| size as usize);
        let ScaledGemmOperands { a, a_scales, b, b_scales, d, .. } = data;
        let (a, b, d) = (a.to_vec()?, b.to_vec()?, d.to_vec()?);
        let (a_scales, b_scales) = (a_scales.to_vec()?, b_scales.to_vec()?);
        let decoded: Vec<f64> =
            (0..=255).map(|bits| f64::from(f8e4m3::from_bits(bits).to_f32())).collect();
        let decode = |x: &f8e4m3| decoded[usize::from(x.to_bits())];
        // At most about 2^28 multiplications: some elements of every row and column.
        let stride = (m * n * k).div_ceil(1 << 28).max(1);
        for gemm in self.gemms(0) {
            for row in gemm.rows[0]..gemm.rows[1] {
                for column in (row % stride..n).step_by(stride) {
                    let (x, y) = (&a[gemm.a + row * k..][..k], &b[gemm.b + column * k..][..k]);
                    let b_row = match b_block {
                        BScaleBlock::Square128 => column / 128,
                        BScaleBlock::Row128 => column,
                    };
                    let (mut sum, mut magnitude) = (0.0, 0.0);
                    for (block, (x, y)) in x.chunks(128).zip(y.chunks(128)).enumerate() {
                        let of = |strides: ScaleStrides, row: usize| {
                            row * strides.row as usize + block * strides.block as usize
                        };
                        let of_a = a_scales[gemm.a_scales + of(self.problem.a_scales, row)];
                        let of_b = b_scales[gemm.b_scales + of(self.problem.b_scales, b_row)];
                        let scale = f64::from(of_a) * f64::from(of_b);
                        let products = x.iter().zip(y).map(|(x, y)| decode(x) * decode(y));
                        let (part, size) = products
                            .fold((0.0, 0.0), |(sum, size), p: f64| (sum + p, size + p.abs()));
                        sum += scale * part;
                        magnitude += scale * size;
                    }
                    let found = d[gemm.d + row * n + column];
                    let found = found.to_const().as_f64().unwrap_or(f64::NAN);
                    // D is rounded, and the tensor cores keep about 14 bits.
                    let slack = f64::abs(sum) * 0.005 + magnitude * 1e-4;
                    let error = (found - sum).abs();
                    if error.is_nan() || error > slack {
                        let text = format!("D[{row}, {column}] is {found}, not {sum}");
                        return Err(Rejection::Wrong(text));
                    }
                }
            }
        }
        Ok(())
    }
}
