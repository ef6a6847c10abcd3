//! [`GemmSpace`]: the GEMM configurations that are worth measuring, which a GEMM search tries.

use std::collections::HashSet;

use tilewright::arch::Major;
use tilewright::ir::Target;
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{
    Epilogue, GemmConfig, GemmProblem, InputTypes, Machine, StoreMethod,
};
use tilewright::tensor::pipeline::Raster;

/// The M, N and K to measure by default: squares, and a language model's layers with few rows.
/// `tilewright bench gemm` uses them if you name no sizes.
///
/// ```
/// use tilewright_tune::USUAL_SHAPES;
/// assert!(USUAL_SHAPES.contains(&[4096; 3]) && USUAL_SHAPES.contains(&[16, 4096, 14336]));
/// ```
pub const USUAL_SHAPES: [[u32; 3]; 11] = [
    [512; 3],
    [1024; 3],
    [2048; 3],
    [4096; 3],
    [8192; 3],
    [16384; 3],
    [16, 4096, 14336],
    [64, 8192, 8192],
    [256, 4096, 4096],
    [256, 8192, 8192],
    [256, 14336, 4096],
];

/// What a GEMM must be able to do (types, major modes, epilogue), and thereby the space of its
/// configurations. Make one to list candidates for a search.
///
/// ```
/// use tilewright::ir::Target;
/// use tilewright::ir::types::Scalar;
/// use tilewright_tune::GemmSpace;
///
/// let space = GemmSpace { output: Scalar::F32, ..GemmSpace::new(Target::SM_90A, Scalar::Bf16) };
/// assert!(space.has_types());
/// assert_eq!(space.wanted().d, Scalar::F32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmSpace {
    /// The kernels' target.
    pub target: Target,
    /// The types in which A and B are multiplied.
    pub input: InputTypes,
    /// The element type of D and C.
    pub output: Scalar,
    /// A's major (contiguous) mode.
    pub major_a: Major,
    /// B's major (contiguous) mode.
    pub major_b: Major,
    /// The epilogue that the kernels fuse.
    pub epilogue: Epilogue,
}

impl GemmSpace {
    /// Returns whether GEMMs with these element types are tuned. A and B can be: `bf16` or `f16`,
    /// with D of the same type or `f32`; `f32` or `tf32`, with D in `f32`; `f64`; any two 8-bit
    /// floats, with D in `bf16` or `f16`; any two 8-bit integers, with D in `i32`. Call it before
    /// you measure.
    ///
    /// ```
    /// use tilewright::ir::Target;
    /// use tilewright::ir::types::Scalar;
    /// use tilewright_tune::GemmSpace;
    ///
    /// let space = GemmSpace::new(Target::SM_90A, [Scalar::F8E4M3, Scalar::F8E5M2]);
    /// assert!(space.has_types());
    /// assert!(!GemmSpace { output: Scalar::F64, ..space }.has_types());
    /// ```
    pub fn has_types(&self) -> bool {
        use Scalar as S;
        let is_byte = |scalar| matches!(scalar, S::I8 | S::U8);
        match (self.input.a, self.input.b, self.output) {
            (S::Bf16, S::Bf16, S::Bf16 | S::F32) | (S::F16, S::F16, S::F16 | S::F32) => true,
            (S::F32, S::F32, S::F32) | (S::Tf32, S::Tf32, S::F32) | (S::F64, S::F64, S::F64) => {
                true
            }
            (a, b, S::Bf16 | S::F16) if a.is_f8() && b.is_f8() => true,
            (a, b, S::I32) => is_byte(a) && is_byte(b),
            _ => false,
        }
    }

    /// Returns the space for A and B of one type or of two, such as
    /// `[Scalar::F8E4M3, Scalar::F8E5M2]`, both K-major, with D of type [`InputTypes::output`] and
    /// no epilogue. Change its fields for anything else.
    pub fn new(target: Target, input: impl Into<InputTypes>) -> GemmSpace {
        let input = input.into();
        let output = input.output();
        let (major_a, major_b) = (Major::K, Major::K);
        GemmSpace { target, input, output, major_a, major_b, epilogue: Epilogue::default() }
    }

    /// Returns all configurations that can be built and can solve the problem: tiles, depths,
    /// schedules, ways to store D, clusters, raster widths and programmatic launches, in those
    /// combinations that are worth measuring. Pass them to a [`Search`](super::Search), best
    /// predictions first.
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmProblem, LoadMethod, Machine};
    /// use tilewright_tune::GemmSpace;
    /// let space = GemmSpace::new(Target::SM_90A, Scalar::Bf16);
    /// let problem = GemmProblem::new(8192, 8192, 8192);
    /// let all = space.configs(&problem, &Machine::H200);
    /// assert!(all.len() > 200);
    /// assert!(all.iter().all(|config| config.check_problem(&problem).is_ok()));
    /// // Rows of 100 elements are no multiple of 16 bytes: tensor copies take copies of them.
    /// let odd = space.configs(&GemmProblem::new(100, 100, 100), &Machine::H200);
    /// assert!(!odd.is_empty());
    /// assert!(odd.iter().all(|of| (of.load != LoadMethod::Tensor) == of.is_warp_specialised()));
    /// ```
    pub fn configs(&self, problem: &GemmProblem, machine: &Machine) -> Vec<GemmConfig> {
        Self::around(&self.wanted(), problem, machine)
    }

    /// Returns one configuration that meets the requirements, as input for [`GemmConfig::best`],
    /// [`defaults`](GemmConfig::defaults) and [`explain`](GemmConfig::explain).
    ///
    /// ```
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::Target;
    /// use tilewright::kernels::gemm::{GemmProblem, Machine};
    /// use tilewright_tune::GemmSpace;
    /// let space = GemmSpace::new(Target::SM_90A, [Scalar::F8E4M3, Scalar::F8E5M2]);
    /// let best = space.wanted().best(&GemmProblem::new(8192, 8192, 8192), &Machine::H200)?;
    /// assert_eq!((best.a, best.b, best.d), (Scalar::F8E4M3, Scalar::F8E5M2, Scalar::Bf16));
    /// # Ok::<(), tilewright::kernels::gemm::GemmError>(())
    /// ```
    pub fn wanted(&self) -> GemmConfig {
        let GemmSpace { target, input, output, major_a, major_b, epilogue } = *self;
        let base = GemmConfig::sm90(input, [128, 128]);
        GemmConfig { target, c: output, d: output, major_a, major_b, epilogue, ..base }
    }

    /// Returns all configurations that agree with `wanted` in target, types, major modes and
    /// epilogue, and in whether they pair columns, group rows or batch problems of different sizes.
    ///
    /// Use it to write a [`Tunable`](super::Tunable) for kernels with [your own
    /// epilogue](tilewright::kernels::gemm::Gemm::with_epilogue).
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use tilewright::ir::types::Scalar;
    /// use tilewright::ir::{Target, f16};
    /// use tilewright::kernels::{Built, Loaded};
    /// use tilewright::kernels::gemm::{BatchMode, FusedEpilogue, Gemm, GemmArgs, GemmConfig, GemmProblem, GroupRows, Machine};
    /// use tilewright::runtime::{Buffer, Device, LaunchOptions, Stream};
    /// use tilewright_tune::{Effort, GemmSpace, Regime, Rejection, Tunable, Tuner, TuningStore};
    ///
    /// /// SwiGLU of the tokens of experts, 40 and 24, with 32 columns of D.
    /// struct Experts(GemmProblem);
    /// type Swiglu = Gemm<f16, f16, f16, f16, FusedEpilogue<()>>;
    /// impl Tunable for Experts {
    ///     type Config = GemmConfig;
    ///     type Kernel = Built<Swiglu>;
    ///     type Data = (Buffer<f16>, Buffer<f16>, Buffer<i32>, Buffer<f16>);
    ///     fn key(&self) -> String { format!("SwiGLU of experts {:?}", self.0) }
    ///     fn space(&self, device: &Device) -> Vec<GemmConfig> {
    ///         let wanted = GemmConfig::sm90(Scalar::F16, [128, 128]);
    ///         let wanted = GemmConfig { pairs: true, batch: BatchMode::Grouped, ..wanted };
    ///         GemmSpace::around(&wanted, &self.0, &Machine::of(device))
    ///     }
    ///     fn build(config: &GemmConfig, _: Target) -> Result<Built<Swiglu>, Rejection> {
    ///         Ok(Gemm::<f16>::with_pairs::<()>(*config, |_, [gate, up], _, ()| gate.silu_fast() * up)?)
    ///     }
    ///     fn bytes(&self) -> u64 { 2 * (64 * 64 + 2 * 64 * 64 + 64 * 32) }
    ///     fn data(&self, device: &Device, _: u32) -> Result<Self::Data, Rejection> {
    ///         let ones = |len| device.upload(&vec![f16::from_f32(0.125); len]);
    ///         let starts = device.upload(&[0, 40, 64])?;
    ///         Ok((ones(64 * 64)?, ones(2 * 64 * 64)?, starts, device.zeros(64 * 32)?))
    ///     }
    ///     fn clear(&self, (.., d): &mut Self::Data, stream: &Stream) -> Result<(), Rejection> {
    ///         Ok(d.fill(f16::NAN, stream)?)
    ///     }
    ///     fn launch(&self, _: &GemmConfig, swiglu: &Loaded<Swiglu>,
    ///         (a, b, starts, d): &mut Self::Data, options: LaunchOptions<'_>) -> Result<(), Rejection> {
    ///         let args = GemmArgs::new(a, b, d).groups(GroupRows::Starts(starts));
    ///         Ok(swiglu.with(options).launch(&self.0, (args, ()))?)
    ///     }
    ///     fn verify(&self, (.., d): &mut Self::Data) -> Result<(), Rejection> {
    ///         // The sums of 64 products of 1/64 are 1.
    ///         let expected = 1.0 / (1.0 + (-1f32).exp());
    ///         let right = d.to_vec()?.iter().all(|x| (x.to_f32() - expected).abs() < 0.01);
    ///         if right { Ok(()) } else { Err(Rejection::Wrong("not SwiGLU".to_owned())) }
    ///     }
    /// }
    ///
    /// let experts = Experts(GemmProblem::grouped([64, 64, 64], 2));
    /// let (device, store) = (Device::sim()?, TuningStore::none());
    /// let effort = Effort { candidates: 2, ..Effort::default() };
    /// let tuned = Tuner::new(&device).tune(&experts, &store, effort, Regime::Latency)?;
    /// assert!(tuned.config.pairs && tuned.config.batch == BatchMode::Grouped && tuned.rejected.is_empty());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn around(
        wanted: &GemmConfig,
        problem: &GemmProblem,
        machine: &Machine,
    ) -> Vec<GemmConfig> {
        let mut all = Vec::new();
        if wanted.target.offers(Target::SM_90A) {
            warp_specialised(wanted, problem, machine, &mut all);
        }
        multistage(wanted, &mut all);
        simt(wanted, &mut all);
        all.extend(wanted.candidates_without_roles(problem, machine));
        all.retain(|config| config.check().is_ok() && config.check_problem(problem).is_ok());
        let mut known = HashSet::with_capacity(all.len());
        all.retain(|config| known.insert(*config));
        all
    }
}

fn warp_specialised(
    wanted: &GemmConfig,
    problem: &GemmProblem,
    machine: &Machine,
    all: &mut Vec<GemmConfig>,
) {
    for base in wanted.candidates(problem, machine) {
        let [m, n, _] = base.tile;
        all.extend([true, false].map(|programmatic| GemmConfig { programmatic, ..base }));
        if base.store == StoreMethod::Chunks {
            all.push(GemmConfig { store: StoreMethod::Rows, ..base }.with_max_stages(8));
        }
        if m * n >= 128 * 128 && base.cluster == [1, 1] {
            all.push(GemmConfig { cluster: [2, 1], ..base });
            all.push(GemmConfig { raster: Raster::Hilbert, ..base });
        }
    }
}

fn multistage(wanted: &GemmConfig, all: &mut Vec<GemmConfig>) {
    let sides = [64, 128, 192, 256];
    for (m, n) in sides.into_iter().flat_map(|m| sides.map(|n| (m, n))) {
        for stages in 2..=5 {
            let config = wanted.wanted(GemmConfig::sm80(wanted.target, wanted.a, [m, n]));
            for alignment in [16, 8, 4, wanted.a.size_bytes()] {
                all.push(GemmConfig { stages, alignment, ..config });
            }
            all.push(GemmConfig { stages, raster: Raster::Swizzle { width: 2048 / m }, ..config });
        }
    }
}

fn simt(wanted: &GemmConfig, all: &mut Vec<GemmConfig>) {
    for (m, n) in [(64, 64), (128, 64), (64, 128), (128, 128), (256, 128), (128, 256)] {
        for k in [8, 16, 32] {
            for stages in 2..=4 {
                let config = wanted.wanted(GemmConfig::simt(wanted.target, wanted.a));
                all.push(GemmConfig { tile: [m, n, k], stages, ..config });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_is_valid_once_and_has_a_name() {
        let problem = GemmProblem::new(4096, 4096, 4096);
        let spaces = [
            GemmSpace::new(Target::SM_90A, Scalar::Bf16),
            GemmSpace::new(Target::SM_90A, Scalar::F16),
            GemmSpace::new(Target::SM_90A, Scalar::Tf32),
            GemmSpace::new(Target::SM_90A, [Scalar::F8E4M3, Scalar::F8E5M2]),
            GemmSpace::new(Target::SM_90A, [Scalar::U8, Scalar::I8]),
            GemmSpace { major_b: Major::Mn, ..GemmSpace::new(Target::SM_90A, Scalar::Bf16) },
            GemmSpace::new(Target::SM_80, Scalar::Bf16),
            GemmSpace::new(Target::SM_80, Scalar::F32),
        ];
        for space in spaces {
            let all = space.configs(&problem, &Machine::H200);
            assert!(!all.is_empty(), "{space:?}");
            for (i, config) in all.iter().enumerate() {
                assert_eq!(config.check(), Ok(()));
                assert_eq!(config.to_string().parse(), Ok(*config));
                assert!(!all[..i].contains(config), "{config}");
                let has =
                    (config.inputs(), config.d, config.major_a, config.major_b, config.epilogue);
                let asked =
                    (space.input, space.output, space.major_a, space.major_b, space.epilogue);
                assert_eq!(has, asked);
            }
        }
    }
}
