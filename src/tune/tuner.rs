//! [`Tuner`]: finds the fastest configuration of a [`Tunable`] on a device. Make one per device and
//! kernel type, and ask it problem by problem.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::record::driver;
use super::rounds::interleave;
use super::search::{Effort, Measure, Rejection, Search, SearchError, Tuned};
use super::store::{TuningKey, TuningStore, hash};
use super::tunable::{FunctionOf, Loadable, Tunable};
use super::workload::{Window, Workload};
use crate::kernels::gemm::Regime;
use crate::runtime::{Device, LaunchOptions, Stream};

/// A built kernel and the hash of its code.
type Built<K> = Result<(Arc<<K as Tunable>::Kernel>, String), Rejection>;

type Loaded<K> = Result<Arc<FunctionOf<K>>, Rejection>;

/// Tunes problems of one [`Tunable`] type on one device. It builds and loads each kernel once and
/// reuses it for all problems. Use one if you tune several problems; it costs the memory of the
/// loaded kernels.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright::tune::{Effort, MemoryTunable, Regime, Tuner, TuningStore};
///
/// let mut tuner = Tuner::new(&Device::sim()?);
/// let effort = Effort { candidates: 2, rounds: 1, finalists: 1, final_rounds: 1 };
/// for bytes in [40_000, 80_000] {
///     let copy = MemoryTunable::new(bytes, false);
///     let tuned = tuner.tune(&copy, &TuningStore::none(), effort, Regime::Latency)?;
///     assert!(tuner.function(&tuned.config).is_ok());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tuner<K: Tunable> {
    device: Device,
    built: HashMap<K::Config, Built<K>>,
    loaded: HashMap<K::Config, Loaded<K>>,
}

impl<K: Tunable> Tuner<K> {
    /// Returns a tuner that has no kernels yet: it loads each one when a search first needs it.
    pub fn new(device: &Device) -> Tuner<K> {
        Tuner { device: device.clone(), built: HashMap::new(), loaded: HashMap::new() }
    }

    /// Returns the device on which the tuner measures.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Builds and loads configurations in parallel on all CPU cores, and calls `done` for each. A
    /// failure is remembered, and rejects the configuration when it is measured. Call it before a
    /// long search.
    pub fn prepare(&mut self, configs: &[K::Config], done: &(dyn Fn() + Sync)) {
        let device = &self.device;
        let new: Vec<&K::Config> =
            configs.iter().filter(|config| !self.built.contains_key(config)).collect();
        let built: Vec<OnceLock<Built<K>>> = new.iter().map(|_| OnceLock::new()).collect();
        in_parallel(new.len(), &|index| {
            let _ = built[index].set(build::<K>(new[index], device));
        });
        let built = built.into_iter().map(OnceLock::into_inner);
        self.built.extend(
            new.into_iter().zip(built).filter_map(|(config, built)| Some((config.clone(), built?))),
        );
        let new: Vec<&K::Config> =
            configs.iter().filter(|config| !self.loaded.contains_key(config)).collect();
        let loaded: Vec<OnceLock<Loaded<K>>> = new.iter().map(|_| OnceLock::new()).collect();
        let known = &self.built;
        in_parallel(new.len(), &|index| {
            let of = match known.get(new[index]) {
                Some(Ok((kernel, _))) => kernel.load(device).map(Arc::new),
                Some(Err(why)) => Err(why.clone()),
                None => Err(Rejection::Failed("it was not built".to_owned())),
            };
            let _ = loaded[index].set(of);
            done();
        });
        let loaded = loaded.into_iter().map(OnceLock::into_inner);
        let loaded = new.into_iter().zip(loaded);
        self.loaded.extend(loaded.filter_map(|(config, of)| Some((config.clone(), of?))));
    }

    /// Returns what the compiler complained about in the loaded configurations: register spills,
    /// serialised `wgmma`, and warnings. Call it after [`prepare`](Tuner::prepare) to find
    /// candidates that are slow for such a reason.
    pub fn complaints(&self) -> Vec<(K::Config, String)> {
        let said = |(config, loaded): (&K::Config, &Loaded<K>)| {
            let log = K::Kernel::compiler_log(loaded.as_ref().ok()?);
            let bad = |line: &&str| {
                let spills = line.contains("spill") && !line.contains("0 bytes spill stores");
                spills || line.contains("serializ") || line.contains("warning")
            };
            let lines: Vec<&str> = log.lines().filter(bad).collect();
            (!lines.is_empty()).then(|| (config.clone(), lines.join("; ")))
        };
        let mut all: Vec<_> = self.loaded.iter().filter_map(said).collect();
        all.sort_by_key(|(config, _)| config.to_string());
        all
    }

    /// Returns the fastest configuration: from the store, or by a [`Search`] among the first ones
    /// of [`Tunable::rank`].
    ///
    /// # Errors
    /// Returns a [`SearchError`] if no candidate gives the right result.
    pub fn tune(
        &mut self,
        kernel: &K,
        store: &TuningStore,
        effort: Effort,
        regime: Regime,
    ) -> Result<Tuned<K::Config>, SearchError> {
        let order = self.order(kernel, regime);
        self.search(kernel, store, effort, regime, &order, &|| ())
    }

    /// Returns the configurations that pass [`Tunable::check`], in the order of [`Tunable::rank`].
    /// Use it to see or to filter the candidates, then pass them to [`search`](Tuner::search).
    pub fn order(&self, kernel: &K, regime: Regime) -> Vec<K::Config> {
        let mut space = kernel.space(&self.device);
        space.retain(|config| kernel.check(config).is_ok());
        kernel.rank(space, &self.device, regime.quick())
    }

    /// Tunes as [`tune`](Tuner::tune) does, among the given candidates in the given order. Calls
    /// `done` for each one measured. Use it to search a list of your own.
    ///
    /// # Errors
    /// Returns a [`SearchError`] if no candidate gives the right result.
    pub fn search(
        &mut self,
        kernel: &K,
        store: &TuningStore,
        effort: Effort,
        regime: Regime,
        order: &[K::Config],
        done: &dyn Fn(),
    ) -> Result<Tuned<K::Config>, SearchError> {
        let key = TuningKey {
            device: self.device.name().to_owned(),
            driver: driver(&self.device),
            problem: kernel.key(),
            regime,
        };
        let (workload, windows, best) = (None, HashMap::new(), f64::INFINITY);
        let mut run = Run { tuner: self, kernel, regime, workload, windows, best, done };
        Search::new(store.clone(), key).effort(effort).run(order, &mut run)
    }

    /// Returns a configuration's kernel, and builds and loads it if necessary. Use it to launch the
    /// winner of a search.
    ///
    /// # Errors
    /// Returns why there is no kernel.
    pub fn function(&mut self, config: &K::Config) -> Result<Arc<FunctionOf<K>>, Rejection> {
        if let Some(known) = self.loaded.get(config) {
            return known.clone();
        }
        let loaded = self.built(config).clone();
        let loaded = loaded.and_then(|(kernel, _)| Ok(Arc::new(kernel.load(&self.device)?)));
        self.loaded.insert(config.clone(), loaded.clone());
        loaded
    }

    /// Times configurations in interleaved rounds, to compare a few of them precisely. Calls `done`
    /// after each timed window.
    ///
    /// # Errors
    /// Returns the error of [`Tunable::data`].
    pub fn compare(
        &mut self,
        kernel: &K,
        regime: Regime,
        configs: &[K::Config],
        rounds: usize,
        done: &dyn Fn(),
    ) -> Result<Compared, Rejection> {
        let mut work = Workload::new(&self.device, kernel)?;
        let (windows, mut rejected) = self.windows(kernel, &mut work, regime, configs, &|| ());
        let (times, failed) = work.rounds(windows, regime, rounds, done);
        rejected.extend(failed);
        Ok((times, rejected))
    }

    /// Checks configurations and records a window for each. Returns them by name, and the reasons
    /// for those that failed. Calls `done` for each configuration.
    pub(super) fn windows(
        &mut self,
        kernel: &K,
        work: &mut Workload<'_, K>,
        regime: Regime,
        configs: &[K::Config],
        done: &dyn Fn(),
    ) -> Recorded {
        let (mut windows, mut rejected) = (Vec::new(), Vec::new());
        for config in configs {
            let window = kernel.check(config).and_then(|()| {
                let function = self.function(config)?;
                work.check(launcher(kernel, config, &function))?;
                let seconds = work.probe(launcher(kernel, config, &function))?;
                work.window(regime, seconds, launcher(kernel, config, &function))
            });
            match window {
                Ok(window) => windows.push((config.to_string(), window)),
                Err(why) => rejected.push((config.to_string(), why)),
            }
            done();
        }
        (windows, rejected)
    }

    fn built(&mut self, config: &K::Config) -> &Built<K> {
        let device = &self.device;
        self.built.entry(config.clone()).or_insert_with(|| build::<K>(config, device))
    }
}

/// Runs `work` for all indices below `count` on the machine's threads. It is compiled once for all
/// kernels.
fn in_parallel(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(work);
}

/// Windows by name, and rejections by name.
type Recorded = (Vec<(String, Window)>, Vec<(String, Rejection)>);

/// The result of a comparison by a [`Tuner`]: the seconds per launch in each round, by
/// configuration name; and the rejected configurations with their reasons.
pub type Compared = (Vec<(String, Vec<f64>)>, Vec<(String, Rejection)>);

impl<K: Tunable> Workload<'_, K> {
    /// Times named windows in interleaved rounds.
    pub(super) fn rounds(
        &self,
        windows: Vec<(String, Window)>,
        regime: Regime,
        rounds: usize,
        done: &dyn Fn(),
    ) -> Compared {
        let times = interleave(windows.len(), rounds, 1, |which| {
            let time = self.time(&windows[which].1, regime);
            done();
            time
        });
        let (mut kept, mut rejected) = (Vec::new(), Vec::new());
        for ((name, _), times) in windows.into_iter().zip(times) {
            match times {
                Ok(seconds) => kept.push((name, seconds)),
                Err(why) => rejected.push((name, why)),
            }
        }
        (kept, rejected)
    }
}

impl<K: Tunable> fmt::Debug for Tuner<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tuner({} kernels on {})", self.loaded.len(), self.device)
    }
}

/// Builds a kernel and hashes its code.
fn build<K: Tunable>(config: &K::Config, device: &Device) -> Built<K> {
    let kernel = K::build(config, device.target())?;
    let code = hash(&kernel.code());
    Ok((Arc::new(kernel), code))
}

/// Returns a closure that launches the kernel on a set of buffers.
pub(super) fn launcher<'f, K: Tunable>(
    kernel: &'f K,
    config: &'f K::Config,
    function: &'f FunctionOf<K>,
) -> impl FnMut(&Stream, &mut K::Data) -> Result<(), Rejection> + 'f {
    move |stream, data| {
        kernel.launch(config, function, data, LaunchOptions::default().stream(stream))
    }
}

/// A kernel that is slower than the best by this factor gets no window; the probe's estimate is
/// enough.
const HOPELESS: f64 = 2.0;

/// A problem on a device, measured for a [`Search`]. Its buffers are made when they are first
/// needed.
struct Run<'r, K: Tunable> {
    tuner: &'r mut Tuner<K>,
    kernel: &'r K,
    regime: Regime,
    workload: Option<Workload<'r, K>>,
    windows: HashMap<(K::Config, Regime), Window>,
    /// The shortest time so far, in seconds.
    best: f64,
    done: &'r dyn Fn(),
}

impl<K: Tunable> Measure<K::Config> for Run<'_, K> {
    fn code(&mut self, config: &K::Config) -> Result<String, Rejection> {
        self.kernel.check(config)?;
        self.tuner.built(config).as_ref().map(|(_, code)| code.clone()).map_err(Clone::clone)
    }

    fn check(&mut self, config: &K::Config) -> Result<(), Rejection> {
        (self.done)();
        let function = self.tuner.function(config)?;
        let work = match &mut self.workload {
            Some(work) => work,
            none => none.insert(Workload::new(&self.tuner.device, self.kernel)?),
        };
        work.check(launcher(self.kernel, config, &function))
    }

    fn time(&mut self, config: &K::Config) -> Result<f64, Rejection> {
        self.time_in(self.regime, config)
    }

    fn time_quickly(&mut self, config: &K::Config) -> Result<f64, Rejection> {
        self.time_in(self.regime.quick(), config)
    }
}

impl<K: Tunable> Run<'_, K> {
    fn time_in(&mut self, regime: Regime, config: &K::Config) -> Result<f64, Rejection> {
        let function = self.tuner.function(config)?;
        let Some(work) = &mut self.workload else {
            return Err(Rejection::Failed("it was not checked".to_owned()));
        };
        let key = (config.clone(), regime);
        if let Some(window) = self.windows.get(&key) {
            return work.time(window, regime);
        }
        let seconds = work.probe(launcher(self.kernel, config, &function))?;
        if seconds > HOPELESS * self.best {
            return Ok(seconds);
        }
        let window = work.window(regime, seconds, launcher(self.kernel, config, &function))?;
        let seconds = work.time(&window, regime)?;
        self.windows.insert(key, window);
        self.best = self.best.min(seconds);
        Ok(seconds)
    }
}
