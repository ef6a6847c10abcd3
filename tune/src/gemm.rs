//! [`tune`] and [`GemmBench`]: tunes GEMM on a GPU, and compares it with cuBLAS.

use super::element_offsets::ElementOffsets;
use super::operands::{GemmOperands, Matrices};
use super::record::{Comparison, Entry, KernelSource};
use super::search::{Effort, Rejection, SearchError, Tuned};
use super::space::GemmSpace;
use super::store::TuningStore;
use super::tunable::Tunable;
use super::tuner::Tuner;
use super::workload::Workload;
use tilewright::ir::Target;
use tilewright::kernels::gemm::{
    AnyGemm, GemmConfig, GemmError, GemmModel, GemmProblem, Machine, Regime,
};
use tilewright::kernels::{Built, Loaded};
use tilewright::runtime::{Device, LaunchOptions, Stream};

#[cfg(feature = "cublas")]
use {
    super::stats::median,
    super::workload::Window,
    tilewright::kernels::gemm::Epilogue,
    tilewright::runtime::{Cublas, CublasLibrary, CublasLtPlan, Matmul},
};

impl From<GemmError> for Rejection {
    fn from(error: GemmError) -> Rejection {
        match error {
            GemmError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

#[cfg(feature = "cublas")]
impl From<tilewright::runtime::CublasError> for Rejection {
    fn from(error: tilewright::runtime::CublasError) -> Rejection {
        match error {
            tilewright::runtime::CublasError::Runtime(error) => error.into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

/// Returns the best configuration for a GEMM on this GPU: from the shared store, or by a search
/// among the model's first choices. It is timed in the largest regime that suits the sizes, on
/// matrices with the problem's strides.
///
/// ```no_run
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::Target;
/// use tilewright::kernels::gemm::GemmProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{GemmSpace, tune};
/// let device = Device::cuda(0)?;
/// let space = GemmSpace::new(device.target(), Scalar::Bf16);
/// let tuned = tune(&device, &space, &GemmProblem::new(4096, 4096, 4096))?;
/// println!("{} takes {:.1} us", tuned.config, tuned.seconds * 1e6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns a [`SearchError`]. [`SearchError::Unsupported`] means the simulator, whose times mean
/// nothing, a problem that no kernel takes, or matrices of D that overlap.
pub fn tune(
    device: &Device,
    space: &GemmSpace,
    problem: &GemmProblem,
) -> Result<Tuned<GemmConfig>, SearchError> {
    ElementOffsets::new(problem, [space.major_a, space.major_b])?;
    let sizes = [problem.m, problem.n, problem.k];
    let regime = Regime::of_sizes(sizes).last().copied().unwrap_or(Regime::Burst);
    if !space.has_types() {
        let what = "GEMMs of these types".to_owned();
        return Err(SearchError::Unsupported { what });
    }
    let mut bench = GemmBench::new(device)?;
    let product = bench.product(space, problem).map_err(|error| {
        let what = format!("this problem: {error}");
        SearchError::Unsupported { what }
    })?;
    bench.tuner.tune(&product, &TuningStore::shared(), Effort::of(regime), regime)
}

impl Effort {
    /// Returns as much effort as a regime's windows allow. In the steady regime another kernel may
    /// win than in bursts, so more finalists take part; and windows of one kernel vary by 1 %, so
    /// there are more final rounds.
    pub fn of(regime: Regime) -> Effort {
        match regime {
            Regime::Latency | Regime::Burst => Effort::default(),
            Regime::Steady => {
                Effort { rounds: 2, finalists: 5, final_rounds: 16, ..Effort::default() }
            }
        }
    }
}

/// A GEMM as a [`Tunable`], made by [`GemmBench::product`].
///
/// ```no_run
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::GemmProblem;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, GemmBench, GemmSpace, Regime, TuningStore};
///
/// let device = Device::cuda(0)?;
/// let mut bench = GemmBench::new(&device)?;
/// let space = GemmSpace::new(device.target(), Scalar::Bf16);
/// let product = bench.product(&space, &GemmProblem::new(4096, 4096, 4096))?;
/// let (store, regime) = (TuningStore::shared(), Regime::Burst);
/// let tuned = bench.tuner.tune(&product, &store, Effort::of(regime), regime)?;
/// assert!(tuned.seconds > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct GemmTunable {
    space: GemmSpace,
    problem: GemmProblem,
    matrices: Matrices,
    #[cfg(feature = "cublas")]
    cublas: Option<Cublas>,
}

impl Tunable for GemmTunable {
    type Config = GemmConfig;
    type Kernel = Built<AnyGemm>;
    type Data = GemmOperands;

    fn key(&self) -> String {
        format!("{:?} {:?}", self.space, self.problem)
    }

    fn space(&self, device: &Device) -> Vec<GemmConfig> {
        self.space.configs(&self.problem, &Machine::of(device))
    }

    fn check(&self, config: &GemmConfig) -> Result<(), Rejection> {
        config.check()?;
        config.check_problem(&self.problem)?;
        Ok(())
    }

    fn rank(&self, configs: Vec<GemmConfig>, device: &Device, regime: Regime) -> Vec<GemmConfig> {
        let model = GemmModel::of(Machine::of(device));
        // What a program gets without a search comes first.
        let mut order = configs
            .first()
            .map_or_else(Vec::new, |config| config.defaults(&self.problem, &model.machine));
        order.retain(|config| configs.contains(config));
        let ranked = model.rank(&configs, &self.problem, regime).into_iter();
        let others = ranked.map(|(config, _)| config).filter(|config| !order.contains(config));
        let others: Vec<GemmConfig> = others.collect();
        order.extend(others);
        order
    }

    fn build(config: &GemmConfig, _: Target) -> Result<Built<AnyGemm>, Rejection> {
        Ok(AnyGemm::new(*config)?)
    }

    fn bytes(&self) -> u64 {
        self.matrices.bytes()
    }

    fn flops(&self) -> f64 {
        self.problem.flops() as f64
    }

    /// The reference is cuBLAS's result. If there is none or it is wrong, it is the result of the
    /// SIMT kernel, or, for types which that kernel does not support, of the default configuration.
    fn data(&self, device: &Device, set: u32) -> Result<GemmOperands, Rejection> {
        let mut operands = self.matrices.operands(device, set)?;
        if set > 0 {
            return Ok(operands);
        }
        // Types of 8 and 64 bits have no SIMT kernel.
        let input = self.space.input.in_memory();
        let plain = match input.a.bits() {
            8 | 64 => self.space.wanted().best(&self.problem, &Machine::of(device))?,
            _ => {
                let wanted = GemmSpace { input, ..self.space }.wanted();
                wanted.wanted(GemmConfig::simt(wanted.target, input))
            }
        };
        let mut own = |stream: &Stream, set: &mut GemmOperands| {
            let gemm = AnyGemm::new(plain)?.load(device)?;
            self.launch(&plain, &gemm, set, LaunchOptions::default().stream(stream))
        };
        let stream = device.stream()?;
        device.synchronize()?;
        #[cfg(feature = "cublas")]
        if let Some(cublas) = self.cublas().filter(|_| is_of_cublas(&self.matmul())) {
            let theirs = run_cublas(cublas, self.matmul());
            self.matrices.set_reference_or(&stream, &mut operands, theirs, own)?;
            return Ok(operands);
        }
        self.matrices.set_reference(&stream, &mut operands, &mut own)?;
        Ok(operands)
    }

    fn clear(&self, data: &mut GemmOperands, stream: &Stream) -> Result<(), Rejection> {
        Ok(data.clear(stream)?)
    }

    fn launch(
        &self,
        _: &GemmConfig,
        gemm: &Loaded<AnyGemm>,
        set: &mut GemmOperands,
        options: LaunchOptions<'_>,
    ) -> Result<(), Rejection> {
        Ok(gemm.with(options).launch(&self.problem, set.args(gemm))?)
    }

    fn verify(&self, data: &mut GemmOperands) -> Result<(), Rejection> {
        self.matrices.verify(data)
    }
}

#[cfg(feature = "cublas")]
impl GemmTunable {
    /// Returns cuBLAS if it can compute this problem: a single GEMM on packed matrices, without an
    /// epilogue.
    fn cublas(&self) -> Option<&Cublas> {
        let offsets = ElementOffsets::new(&self.problem, [self.space.major_a, self.space.major_b]);
        let is_close = offsets.is_ok_and(|offsets| offsets.are_close());
        let has_none = self.space.epilogue == Epilogue::default();
        self.cublas.as_ref().filter(|_| self.problem.batch == 1 && is_close && has_none)
    }

    fn matmul(&self) -> Matmul {
        let GemmProblem { m, n, k, .. } = self.problem;
        let GemmSpace { major_a, major_b, input, output, .. } = self.space;
        let inputs = [input.a, input.b];
        Matmul { sizes: [m, n, k], a: major_a, b: major_b, inputs, output }
    }
}

/// Benchmarks GEMMs of one combination of types on one GPU, against cuBLAS and cuBLASLt.
///
/// ```no_run
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmProblem, Machine};
/// use tilewright::runtime::Device;
/// use tilewright_tune::{GemmBench, GemmSpace, KernelSource, Regime};
///
/// let device = Device::cuda(0)?;
/// let mut bench = GemmBench::new(&device)?;
/// let space = GemmSpace::new(device.target(), Scalar::Bf16);
/// let problem = GemmProblem::new(4096, 4096, 4096);
/// let product = bench.product(&space, &problem)?;
/// let best = space.wanted().best(&problem, &Machine::of(&device))?;
/// let (comparison, _) = bench.compare(&product, Regime::Burst, &[best], 12, &|| ())?;
/// if let Some(ours) = comparison.best_of(KernelSource::Tilewright) {
///     println!("{:?} times as fast as cuBLAS", comparison.ratio(KernelSource::Cublas, ours));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GemmBench {
    /// The kernels that were built and loaded.
    pub tuner: Tuner<GemmTunable>,
    #[cfg(feature = "cublas")]
    cublas: Option<Cublas>,
    /// Why cuBLAS is not available.
    missing: Option<String>,
}

impl GemmBench {
    /// Returns a benchmark for a GPU.
    ///
    /// # Errors
    /// [`SearchError::Unsupported`] for the simulator, whose times mean nothing.
    pub fn new(device: &Device) -> Result<GemmBench, SearchError> {
        if device.is_sim() {
            let what = "on the simulator, whose times mean nothing".to_owned();
            return Err(SearchError::Unsupported { what });
        }
        #[cfg(feature = "cublas")]
        let (cublas, missing) = match Cublas::open(device) {
            Ok(cublas) => (Some(cublas), None),
            Err(error) => (None, Some(error.to_string())),
        };
        #[cfg(not(feature = "cublas"))]
        let missing = Some("this build was made without the feature `cublas`".to_owned());
        Ok(GemmBench {
            tuner: Tuner::new(device),
            #[cfg(feature = "cublas")]
            cublas,
            missing,
        })
    }

    /// Returns the version of cuBLAS.
    ///
    /// # Errors
    /// Returns a sentence that says what is missing.
    pub fn cublas_version(&self) -> Result<String, String> {
        #[cfg(feature = "cublas")]
        if let Some(cublas) = &self.cublas {
            return cublas.version().map_err(|error| error.to_string());
        }
        Err(self.missing.clone().unwrap_or_default())
    }

    /// Returns a GEMM to tune with the [`tuner`](GemmBench::tuner).
    ///
    /// # Errors
    /// Returns a rejection for sizes or strides that no kernel takes, and for matrices of D that
    /// overlap.
    pub fn product(
        &self,
        space: &GemmSpace,
        problem: &GemmProblem,
    ) -> Result<GemmTunable, Rejection> {
        let majors = [space.major_a, space.major_b];
        let matrices = Matrices::new(*problem, majors, space.input, space.output, space.epilogue)?;
        Ok(GemmTunable {
            space: *space,
            problem: *problem,
            matrices,
            #[cfg(feature = "cublas")]
            cublas: self.cublas.clone(),
        })
    }

    /// Times our configurations and NVIDIA's kernels interleaved: the kernel that cuBLAS chooses,
    /// and the two fastest of the first 8 that cuBLASLt's heuristic suggests. NVIDIA's take part
    /// only for a single GEMM on packed matrices without an epilogue. A kernel that is wrong or
    /// fails is left out; the second result names it.
    ///
    /// # Errors
    /// Returns why nothing could be compared.
    pub fn compare(
        &mut self,
        product: &GemmTunable,
        regime: Regime,
        ours: &[GemmConfig],
        rounds: usize,
        done: &dyn Fn(),
    ) -> Result<(Comparison, Vec<(String, Rejection)>), Rejection> {
        let mut work = Workload::new(self.tuner.device(), product)?;
        #[allow(unused_mut, reason = "the features decide")]
        let (mut windows, mut rejected) =
            self.tuner.windows(product, &mut work, regime, ours, &|| ());
        #[allow(unused_mut, reason = "the features decide")]
        let mut makers = vec![KernelSource::Tilewright; windows.len()];
        #[cfg(feature = "cublas")]
        if let Some(cublas) = product.cublas() {
            match nvidia(cublas, &product.matmul(), &mut work, regime) {
                Ok(theirs) => {
                    for (maker, name, window) in theirs {
                        makers.push(maker);
                        windows.push((name, window));
                    }
                }
                Err(why) => rejected.push(("cuBLAS".to_owned(), why)),
            }
        }
        let names: Vec<String> = windows.iter().map(|(name, _)| name.clone()).collect();
        let (times, failed) = work.timer.rounds(windows, regime, rounds, done);
        rejected.extend(failed);
        let maker = |name: &String| names.iter().position(|known| known == name);
        let entry = |(name, seconds): (String, Vec<f64>)| {
            let of = maker(&name).map_or(KernelSource::Tilewright, |index| makers[index]);
            Entry { of, name, seconds }
        };
        let GemmProblem { m, n, k, .. } = product.problem;
        let comparison = Comparison {
            sizes: [m, n, k],
            types: [product.space.input.to_string(), product.space.output.to_string()],
            regime,
            entries: times.into_iter().map(entry).collect(),
        };
        Ok((comparison, rejected))
    }
}

impl std::fmt::Debug for GemmBench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GemmBench({:?})", self.tuner)
    }
}

/// Returns whether cuBLAS supports these types; cuBLASLt may support others.
#[cfg(feature = "cublas")]
fn is_of_cublas(matmul: &Matmul) -> bool {
    matmul.check_problem(CublasLibrary::Cublas).is_ok()
}

/// Returns a closure that launches the kernel that cuBLAS chooses.
#[cfg(feature = "cublas")]
fn run_cublas(
    cublas: &Cublas,
    matmul: Matmul,
) -> impl FnMut(&Stream, &mut GemmOperands) -> Result<(), Rejection> {
    move |stream, set| {
        Ok(cublas.gemm_any(&matmul, stream, set.a.as_ref(), set.b.as_ref(), set.d.as_mut())?)
    }
}

/// Returns windows of cuBLAS's kernel and of the two fastest from cuBLASLt.
#[cfg(feature = "cublas")]
fn nvidia(
    cublas: &Cublas,
    matmul: &Matmul,
    work: &mut Workload<'_, GemmTunable>,
    regime: Regime,
) -> Result<Vec<(KernelSource, String, Window)>, Rejection> {
    /// How many kernels the heuristic is asked for.
    const ASKED: usize = 8;
    const KEPT: usize = 2;
    let mut entries = Vec::new();
    if is_of_cublas(matmul) {
        let seconds = work.probe(run_cublas(cublas, *matmul))?;
        let window = work.window(regime, seconds, run_cublas(cublas, *matmul))?;
        entries.push((KernelSource::Cublas, "cuBLAS".to_owned(), window));
    }
    // Only kernels that are fast in short windows get long ones.
    let quick = regime.quick();
    let run = |plan: &CublasLtPlan| {
        let plan = plan.clone();
        move |stream: &Stream, set: &mut GemmOperands| {
            Ok(cublas.run_any(&plan, stream, set.a.as_ref(), set.b.as_ref(), set.d.as_mut())?)
        }
    };
    let mut plans = Vec::new();
    for (number, plan) in (1..).zip(cublas.plans(matmul, ASKED)?) {
        // Skips kernels that do not run or are wrong.
        let timed = work.check(run(&plan)).and_then(|()| {
            let seconds = work.probe(run(&plan))?;
            let window = work.window(quick, seconds, run(&plan))?;
            let times = (0..3).map(|_| work.time(&window, quick)).collect::<Result<Vec<_>, _>>()?;
            Ok(median(&times).unwrap_or(f64::INFINITY))
        });
        match timed {
            Ok(seconds) => plans.push((seconds, number, plan)),
            Err(Rejection::Lost(how)) => return Err(Rejection::Lost(how)),
            Err(_) => {}
        }
    }
    if entries.is_empty() {
        // The heuristic's first suggestion is what a program without a search runs.
        let Some((seconds, number, plan)) = plans.first() else { return Ok(entries) };
        let window = work.window(regime, *seconds, run(plan))?;
        entries.push((KernelSource::Cublas, format!("cuBLASLt #{number}"), window));
        plans.remove(0);
    }
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (seconds, number, plan) in plans.into_iter().take(KEPT) {
        let window = work.window(regime, seconds, run(&plan))?;
        entries.push((KernelSource::CublasLt, format!("cuBLASLt #{number}"), window));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::arch::Major;
    use tilewright::ir::types::Scalar as S;

    /// Tunes the default configuration of every type that `bench gemm` offers; cuBLAS accepts the
    /// matrices.
    #[test]
    fn each_type_is_tuned_and_compared() {
        let same = [S::Bf16, S::F16, S::Tf32, S::F32, S::I8, S::F64].map(|same| [same; 2]);
        let bytes = [S::F8E4M3, S::F8E5M2].map(|a| [S::F8E4M3, S::F8E5M2].map(|b| [a, b]));
        let integers = [[S::I8, S::U8], [S::U8, S::I8], [S::U8, S::U8]];
        for inputs in [&same[..], bytes.as_flattened(), &integers].concat() {
            // 8-bit types have no kernel for older targets.
            let target = if inputs[0].bits() == 8 { Target::SM_90A } else { Target::SM_80 };
            let space = GemmSpace::new(target, inputs);
            assert!(space.has_types(), "{inputs:?}");
            search(space);
        }
    }

    fn search(space: GemmSpace) {
        let GemmSpace { target, input, output, epilogue, .. } = space;
        let device = Device::sim_for(target).unwrap();
        let problem = GemmProblem::new(72, 40, 48);
        let matrices = [Major::K; 2];
        let matrices = Matrices::new(problem, matrices, input, output, epilogue).unwrap();
        let product: GemmTunable = GemmTunable {
            space,
            problem,
            matrices,
            #[cfg(feature = "cublas")]
            cublas: None,
        };
        let first = space.wanted().best(&problem, &Machine::of(&device)).unwrap();
        let mut tuner = Tuner::new(&device);
        let effort = Effort { candidates: 1, ..Effort::default() };
        let store = TuningStore::none();
        let found = tuner.search(&product, &store, effort, Regime::Latency, &[first], &|| ());
        assert_eq!(found.map(|found| found.config), Ok(first), "{input}");
        #[cfg(feature = "cublas")]
        {
            let set = product.data(&device, 1).unwrap();
            let matrices = [&set.a, &set.b, &set.d].map(|matrix| matrix.as_ref());
            let [a, b, d] = matrices;
            assert_eq!(product.matmul().check(a, b, d), Ok(()), "{input}");
        }
    }

    /// Older stores stay readable, because the key of a problem with one type has not changed.
    #[test]
    fn a_key_names_both_types() {
        let key = |inputs: [S; 2]| {
            let space = GemmSpace::new(Target::SM_90A, inputs);
            format!("{space:?}")
        };
        let rest = "output: Bf16, major_a: K, major_b: K, epilogue: Epilogue { alpha: false, beta: false, bias: None, activation: None } }";
        let target = "GemmSpace { target: Target { sm: 90, arch_specific: true }";
        assert_eq!(key([S::Bf16; 2]), format!("{target}, input: Bf16, {rest}"));
        let mixed = [[S::F8E4M3, S::F8E5M2], [S::F8E5M2, S::F8E4M3]].map(key);
        assert_eq!(mixed[0], format!("{target}, input: F8E4M3xF8E5M2, {rest}"));
        assert_eq!(mixed[1], format!("{target}, input: F8E5M2xF8E4M3, {rest}"));
    }
}
