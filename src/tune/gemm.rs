//! Times and tunes matrix products on a GPU, and compares them with cuBLAS.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::element_offsets::ElementOffsets;
use super::record::{Comparison, Entry, Maker, driver};
use super::rounds::interleave;
use super::space::GemmSpace;
use super::store::{TuningKey, TuningStore, hash};
use super::tuner::{Effort, Measure, Rejection, Search, SearchError, Tuned};
use super::workload::{ALPHA, BETA, GemmOperands, Window, Workload};
use crate::ir::builder::Converted;
use crate::ir::types::Scalar;
use crate::ir::{Element, Number, bf16, f16};
use crate::kernels::gemm::Regime;
use crate::kernels::gemm::{
    Gemm, GemmArgs, GemmConfig, GemmError, GemmFunction, GemmProblem, in_memory,
};
use crate::kernels::gemm::{GemmModel, Machine};
use crate::runtime::{Device, LaunchOptions, Stream};

#[cfg(feature = "cublas")]
use {
    super::stats::median,
    crate::kernels::gemm::Epilogue,
    crate::runtime::{Cublas, CublasLtPlan, Matmul},
};

/// An element of matrices that are tuned.
pub trait GemmElement: Element + Number + Converted {}
impl GemmElement for f32 {}
impl GemmElement for f16 {}
impl GemmElement for bf16 {}

impl From<GemmError> for Rejection {
    fn from(error: GemmError) -> Rejection {
        match error {
            GemmError::Runtime(error) => (*error).into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

#[cfg(feature = "cublas")]
impl From<crate::runtime::CublasError> for Rejection {
    fn from(error: crate::runtime::CublasError) -> Rejection {
        match error {
            crate::runtime::CublasError::Runtime(error) => error.into(),
            error => Rejection::Failed(error.to_string()),
        }
    }
}

/// Returns the best configuration for a product on this GPU, from the shared store, or by a search among the first of
/// the model's order. It is timed as the largest regime of the sizes says, on matrices that lie where the problem says.
///
/// ```no_run
/// use tilewright::ir::types::Scalar;
/// use tilewright::ir::Target;
/// use tilewright::kernels::gemm::GemmProblem;
/// use tilewright::runtime::Device;
/// use tilewright::tune::{GemmSpace, tune};
/// let device = Device::cuda(0)?;
/// let space = GemmSpace::new(device.target(), Scalar::Bf16);
/// let tuned = tune(&device, &space, &GemmProblem::new(4096, 4096, 4096))?;
/// println!("{} takes {:.1} us", tuned.config, tuned.seconds * 1e6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SearchError`]; [`SearchError::Unsupported`] for the simulator, whose times say nothing, and for a problem that no
/// kernel takes or whose matrices of D overlap.
pub fn tune(
    device: &Device,
    space: &GemmSpace,
    problem: &GemmProblem,
) -> Result<Tuned<GemmConfig>, SearchError> {
    ElementOffsets::new(problem, [space.major_a, space.major_b])?;
    let sizes = [problem.m, problem.n, problem.k];
    let regime = Regime::of_sizes(sizes).last().copied().unwrap_or(Regime::Burst);
    let effort = Effort::of(regime);
    let store = TuningStore::shared();
    let of = |what: &str| SearchError::Unsupported { what: what.to_owned() };
    match (in_memory(space.input), space.output) {
        (Scalar::Bf16, Scalar::Bf16) => {
            GemmBench::<bf16, bf16>::new(device)?.tune(&store, effort, space, problem, regime)
        }
        (Scalar::Bf16, Scalar::F32) => {
            GemmBench::<bf16, f32>::new(device)?.tune(&store, effort, space, problem, regime)
        }
        (Scalar::F16, Scalar::F16) => {
            GemmBench::<f16, f16>::new(device)?.tune(&store, effort, space, problem, regime)
        }
        (Scalar::F16, Scalar::F32) => {
            GemmBench::<f16, f32>::new(device)?.tune(&store, effort, space, problem, regime)
        }
        (Scalar::F32, Scalar::F32) => {
            GemmBench::<f32, f32>::new(device)?.tune(&store, effort, space, problem, regime)
        }
        _ => Err(of("these types of matrices")),
    }
}

impl Effort {
    /// As much as a regime's windows allow. Which of several kernels is best in steady work may be another one than in
    /// bursts, so more of them come to the last rounds; and windows of one kernel differ by 1 %, so these are more.
    pub fn of(regime: Regime) -> Effort {
        match regime {
            Regime::Latency | Regime::Burst => Effort::default(),
            Regime::Steady => {
                Effort { rounds: 2, finalists: 5, final_rounds: 16, ..Effort::default() }
            }
        }
    }
}

/// A kernel that was built: with the hash of its PTX.
type Built<T, D> = Result<(Arc<Gemm<T, T, D>>, String), Rejection>;

/// A kernel that was loaded.
type Loaded<T, D> = Result<Arc<GemmFunction<T, T, D>>, Rejection>;

/// Products of one pair of types on one GPU: kernels that were built and loaded, and the libraries they are measured
/// beside.
pub struct GemmBench<T: GemmElement, D: GemmElement> {
    device: Device,
    built: HashMap<GemmConfig, Built<T, D>>,
    loaded: HashMap<GemmConfig, Loaded<T, D>>,
    #[cfg(feature = "cublas")]
    cublas: Option<Cublas>,
    /// The error of opening cuBLAS.
    missing: Option<String>,
}

impl<T: GemmElement, D: GemmElement> GemmBench<T, D> {
    /// On a GPU.
    ///
    /// # Errors
    /// [`SearchError::Unsupported`] for the simulator, whose times say nothing.
    pub fn new(device: &Device) -> Result<GemmBench<T, D>, SearchError> {
        if device.is_sim() {
            let what = "times of the simulator".to_owned();
            return Err(SearchError::Unsupported { what });
        }
        #[cfg(feature = "cublas")]
        let (cublas, missing) = match Cublas::open(device) {
            Ok(cublas) => (Some(cublas), None),
            Err(error) => (None, Some(error.to_string())),
        };
        #[cfg(not(feature = "cublas"))]
        let missing = Some("this build does not look for it".to_owned());
        Ok(GemmBench {
            device: device.clone(),
            built: HashMap::new(),
            loaded: HashMap::new(),
            #[cfg(feature = "cublas")]
            cublas,
            missing,
        })
    }

    /// Returns the version of cuBLAS, or the reason for its absence.
    ///
    /// # Errors
    /// A sentence about what is missing.
    pub fn cublas_version(&self) -> Result<String, String> {
        #[cfg(feature = "cublas")]
        if let Some(cublas) = &self.cublas {
            return cublas.version().map_err(|error| error.to_string());
        }
        Err(self.missing.clone().unwrap_or_default())
    }

    /// Builds and loads the configurations on all processors; `done` is called for each. What fails is kept with its
    /// reason, and rejected when it is asked for.
    pub fn prepare(&mut self, configs: &[GemmConfig], done: &(dyn Fn() + Sync)) {
        let new = |known: &HashMap<GemmConfig, _>| -> Vec<GemmConfig> {
            configs.iter().copied().filter(|config| !known.contains_key(config)).collect()
        };
        let built: Vec<(GemmConfig, Built<T, D>)> =
            new(&self.built).into_par_iter().map(|config| (config, build(config))).collect();
        self.built.extend(built);
        let to_load: Vec<GemmConfig> =
            configs.iter().copied().filter(|config| !self.loaded.contains_key(config)).collect();
        let load = |config: GemmConfig| {
            let loaded = match self.built.get(&config) {
                Some(Ok((gemm, _))) => {
                    gemm.load(&self.device).map(Arc::new).map_err(Rejection::from)
                }
                Some(Err(why)) => Err(why.clone()),
                None => Err(Rejection::Failed("it was not built".to_owned())),
            };
            done();
            (config, loaded)
        };
        let loaded: Vec<_> = to_load.into_par_iter().map(load).collect();
        self.loaded.extend(loaded);
    }

    /// Returns the compiler's notes on the loaded configurations: spills, and instructions of warp groups that wait for
    /// each other.
    pub fn complaints(&self) -> Vec<(GemmConfig, String)> {
        let said = |(config, loaded): (&GemmConfig, &Loaded<T, D>)| {
            let log = loaded.as_ref().ok()?.compiler_log();
            let bad = |line: &&str| {
                let spills = line.contains("spill") && !line.contains("0 bytes spill stores");
                spills || line.contains("serializ") || line.contains("warning")
            };
            let lines: Vec<&str> = log.lines().filter(bad).collect();
            (!lines.is_empty()).then(|| (*config, lines.join("; ")))
        };
        let mut all: Vec<_> = self.loaded.iter().filter_map(said).collect();
        all.sort_by_key(|(config, _)| config.to_string());
        all
    }

    /// Returns the best of the space for the problem: see [`tune`].
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn tune(
        &mut self,
        store: &TuningStore,
        effort: Effort,
        space: &GemmSpace,
        problem: &GemmProblem,
        regime: Regime,
    ) -> Result<Tuned<GemmConfig>, SearchError> {
        ElementOffsets::new(problem, [space.major_a, space.major_b])?;
        let model = match self.device.properties() {
            Some(properties) => GemmModel::of(Machine::of(&properties)),
            None => GemmModel::H200,
        };
        let configs = space.configs(problem);
        let ranked = model.rank(&configs, problem, regime.quick());
        let order: Vec<GemmConfig> = ranked.into_iter().map(|(config, _)| config).collect();
        let key: TuningKey = self.key(space, problem, regime);
        let first = &order[..order.len().min(effort.candidates.max(1))];
        let mut measured = self.measure(problem, regime, space, &|| ());
        Search::new(store.clone(), key).effort(effort).run(first, &mut measured)
    }

    /// Returns the key of a search.
    pub fn key(&self, space: &GemmSpace, problem: &GemmProblem, regime: Regime) -> TuningKey {
        TuningKey {
            device: self.device.name().to_owned(),
            driver: driver(&self.device),
            problem: format!("{space:?} {problem:?}"),
            regime,
        }
    }

    /// Returns the device for a [`Search`]: matrices for the problem are made when they are first needed. `done` is
    /// called after each check.
    pub fn measure<'g>(
        &'g mut self,
        problem: &GemmProblem,
        regime: Regime,
        space: &GemmSpace,
        done: &'g dyn Fn(),
    ) -> GemmMeasure<'g, T, D> {
        GemmMeasure {
            bench: self,
            problem: *problem,
            space: *space,
            regime,
            workload: None,
            windows: HashMap::new(),
            best: f64::INFINITY,
            done,
        }
    }

    fn built(&mut self, config: &GemmConfig) -> &Built<T, D> {
        self.built.entry(*config).or_insert_with(|| build(*config))
    }

    fn function(&mut self, config: &GemmConfig) -> Loaded<T, D> {
        if let Some(known) = self.loaded.get(config) {
            return known.clone();
        }
        let gemm = self.built(config).clone().map(|(gemm, _)| gemm);
        let loaded = gemm.and_then(|gemm| Ok(Arc::new(gemm.load(&self.device)?)));
        self.loaded.insert(*config, loaded.clone());
        loaded
    }

    /// cuBLAS, for one product of contiguous matrices without an epilogue.
    #[cfg(feature = "cublas")]
    fn cublas_for(&self, problem: &GemmProblem, space: &GemmSpace) -> Option<Cublas> {
        let offsets = ElementOffsets::new(problem, [space.major_a, space.major_b]).ok()?;
        let takes =
            problem.batch == 1 && offsets.are_close() && space.epilogue == Epilogue::default();
        self.cublas.clone().filter(|_| takes)
    }

    /// GemmOperands with a result that is known to be right: that of cuBLAS, or, where there is none or it is wrong, that
    /// of the kernel without tensor cores.
    fn workload(
        &mut self,
        problem: &GemmProblem,
        space: &GemmSpace,
    ) -> Result<Workload<T, D>, Rejection> {
        let majors = [space.major_a, space.major_b];
        #[cfg(feature = "cublas")]
        let cublas = self.cublas_for(problem, space);
        let mut work = Workload::new(&self.device, *problem, majors, space.input, space.epilogue)?;
        let simt = GemmConfig {
            major_a: space.major_a,
            major_b: space.major_b,
            c: space.output,
            d: space.output,
            epilogue: space.epilogue,
            ..GemmConfig::simt(space.target, in_memory(space.input))
        };
        let mut own = |stream: &Stream, set: &mut GemmOperands<T, D>| {
            let function = self.function(&simt)?;
            launcher(&function, problem)(stream, set)
        };
        #[cfg(feature = "cublas")]
        if let Some(cublas) = cublas {
            let matmul = matmul(problem, space);
            let theirs = |stream: &Stream, set: &mut GemmOperands<T, D>| {
                let GemmOperands { a, b, d, .. } = set;
                Ok(cublas.gemm(&matmul, stream, a, b, d)?)
            };
            work.set_reference_or(theirs, own)?;
            return Ok(work);
        }
        work.set_reference(&mut own)?;
        Ok(work)
    }

    /// Times our configurations and NVIDIA's kernels for one problem, interleaved: the kernel that cuBLAS chooses, and
    /// the fastest two of the first 8 of cuBLASLt's heuristic; for one product of contiguous matrices without an
    /// epilogue. What is wrong or fails is left out and named.
    ///
    /// # Errors
    /// Why there is nothing to compare.
    pub fn compare(
        &mut self,
        space: &GemmSpace,
        problem: &GemmProblem,
        regime: Regime,
        ours: &[GemmConfig],
        rounds: usize,
        done: &dyn Fn(),
    ) -> Result<(Comparison, Vec<(String, Rejection)>), Rejection> {
        let mut work = self.workload(problem, space)?;
        let mut rejected = Vec::new();
        let mut entries: Vec<(Maker, String, Window)> = Vec::new();
        for config in ours {
            let function = self.function(config);
            let window = function.and_then(|function| {
                work.check(launcher(&function, problem))?;
                let seconds = work.probe(launcher(&function, problem))?;
                work.window(regime, seconds, launcher(&function, problem))
            });
            match window {
                Ok(window) => entries.push((Maker::Tilewright, config.to_string(), window)),
                Err(why) => rejected.push((config.to_string(), why)),
            }
        }
        #[cfg(feature = "cublas")]
        if let Some(cublas) = self.cublas_for(problem, space) {
            let theirs = nvidia(&cublas, &matmul(problem, space), &mut work, regime);
            match theirs {
                Ok(theirs) => entries.extend(theirs),
                Err(why) => rejected.push(("cuBLAS".to_owned(), why)),
            }
        }
        let times = interleave(entries.len(), rounds, 1, |which| {
            let time = work.time(&entries[which].2, regime);
            done();
            time
        });
        let mut kept = Vec::new();
        for ((of, name, _), times) in entries.into_iter().zip(times) {
            match times {
                Ok(seconds) => kept.push(Entry { of, name, seconds }),
                Err(why) => rejected.push((name, why)),
            }
        }
        let comparison = Comparison {
            sizes: [problem.m, problem.n, problem.k],
            types: [space.input.to_string(), space.output.to_string()],
            regime,
            entries: kept,
        };
        Ok((comparison, rejected))
    }
}

impl<T: GemmElement, D: GemmElement> std::fmt::Debug for GemmBench<T, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GemmBench({} kernels on {})", self.loaded.len(), self.device)
    }
}

/// Builds a kernel, and hashes its PTX.
fn build<T: GemmElement, D: GemmElement>(config: GemmConfig) -> Built<T, D> {
    let gemm = Gemm::<T, T, D>::new(config)?;
    let code = hash(gemm.ptx().text());
    Ok((Arc::new(gemm), code))
}

/// Returns a closure that launches a kernel on a set of matrices.
fn launcher<'f, T: GemmElement, D: GemmElement>(
    function: &'f GemmFunction<T, T, D>,
    problem: &'f GemmProblem,
) -> impl FnMut(&Stream, &mut GemmOperands<T, D>) -> Result<(), Rejection> + 'f {
    let programmatic = function.config().programmatic;
    move |stream, set| {
        let options = LaunchOptions::default().stream(stream).programmatic(programmatic);
        let mut args = GemmArgs::new(&set.a, &set.b, &mut set.d);
        if function.config().epilogue.alpha {
            args = args.alpha(ALPHA);
        }
        if let Some(c) = &set.c {
            args = args.beta(BETA, c);
        }
        if let Some(bias) = &set.bias {
            args = args.bias(bias);
        }
        Ok(function.prepare(problem, args)?.launch_with(options)?)
    }
}

#[cfg(feature = "cublas")]
fn matmul(problem: &GemmProblem, space: &GemmSpace) -> Matmul {
    Matmul {
        sizes: [problem.m, problem.n, problem.k],
        a: space.major_a,
        b: space.major_b,
        inputs: space.input,
        output: space.output,
    }
}

/// Windows of cuBLAS's kernel and of the fastest two of cuBLASLt's.
#[cfg(feature = "cublas")]
fn nvidia<T: GemmElement, D: GemmElement>(
    cublas: &Cublas,
    matmul: &Matmul,
    work: &mut Workload<T, D>,
    regime: Regime,
) -> Result<Vec<(Maker, String, Window)>, Rejection> {
    /// Kernels that the heuristic is asked for.
    const ASKED: usize = 8;
    const KEPT: usize = 2;
    let own_choice = |stream: &Stream, set: &mut GemmOperands<T, D>| {
        Ok(cublas.gemm(matmul, stream, &set.a, &set.b, &mut set.d)?)
    };
    let seconds = work.probe(own_choice)?;
    let window = work.window(regime, seconds, own_choice)?;
    let mut entries = vec![(Maker::Cublas, "cuBLAS".to_owned(), window)];
    // Only kernels that are fast in short windows get the long ones.
    let quick = regime.quick();
    let run = |plan: &CublasLtPlan| {
        let plan = plan.clone();
        move |stream: &Stream, set: &mut GemmOperands<T, D>| {
            Ok(cublas.run(&plan, stream, &set.a, &set.b, &mut set.d)?)
        }
    };
    let mut plans = Vec::new();
    for (number, plan) in (1..).zip(cublas.plans(matmul, ASKED)?) {
        // A kernel that does not run, or is wrong, is none to compare with.
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
    plans.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (seconds, number, plan) in plans.into_iter().take(KEPT) {
        let window = work.window(regime, seconds, run(&plan))?;
        entries.push((Maker::CublasLt, format!("cuBLASLt #{number}"), window));
    }
    Ok(entries)
}

/// A kernel that is slower than the best by this factor gets no window: the time of a few launches is enough.
const HOPELESS: f64 = 2.0;

/// A problem on a GPU, as a [`Search`] asks for it. Made by [`GemmBench::measure`].
pub struct GemmMeasure<'g, T: GemmElement, D: GemmElement> {
    bench: &'g mut GemmBench<T, D>,
    problem: GemmProblem,
    space: GemmSpace,
    regime: Regime,
    workload: Option<Workload<T, D>>,
    windows: HashMap<(GemmConfig, Regime), Window>,
    /// The smallest seconds so far.
    best: f64,
    done: &'g dyn Fn(),
}

impl<T: GemmElement, D: GemmElement> Measure<GemmConfig> for GemmMeasure<'_, T, D> {
    fn code(&mut self, config: &GemmConfig) -> Result<String, Rejection> {
        self.bench.built(config).as_ref().map(|(_, code)| code.clone()).map_err(Clone::clone)
    }

    fn check(&mut self, config: &GemmConfig) -> Result<(), Rejection> {
        (self.done)();
        let function = self.bench.function(config)?;
        let work = match &mut self.workload {
            Some(work) => work,
            none => none.insert(self.bench.workload(&self.problem, &self.space)?),
        };
        work.check(launcher(&function, &self.problem))
    }

    fn time(&mut self, config: &GemmConfig) -> Result<f64, Rejection> {
        self.time_in(self.regime, config)
    }

    fn time_quickly(&mut self, config: &GemmConfig) -> Result<f64, Rejection> {
        self.time_in(self.regime.quick(), config)
    }
}

impl<T: GemmElement, D: GemmElement> GemmMeasure<'_, T, D> {
    fn time_in(&mut self, regime: Regime, config: &GemmConfig) -> Result<f64, Rejection> {
        let function = self.bench.function(config)?;
        let Some(work) = &mut self.workload else {
            return Err(Rejection::Failed("it was not checked".to_owned()));
        };
        if let Some(window) = self.windows.get(&(*config, regime)) {
            return work.time(window, regime);
        }
        let seconds = work.probe(launcher(&function, &self.problem))?;
        if seconds > HOPELESS * self.best {
            return Ok(seconds);
        }
        let window = work.window(regime, seconds, launcher(&function, &self.problem))?;
        let seconds = work.time(&window, regime)?;
        self.windows.insert((*config, regime), window);
        self.best = self.best.min(seconds);
        Ok(seconds)
    }
}

impl<T: GemmElement, D: GemmElement> std::fmt::Debug for GemmMeasure<'_, T, D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GemmMeasure({:?}, {})", self.problem, self.regime)
    }
}
