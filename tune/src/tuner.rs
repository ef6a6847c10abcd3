//! [`Tuner`]: finds the fastest configuration of a [`Tunable`] on a device. Make one per device and
//! kernel type, and ask it problem by problem.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::engine::{
    AnyKernel, AnyProblem, Build, Kernels, Problem, Recorded, Session, Slot, compare, search,
};
use super::search::{Effort, Rejection, SearchError, Tuned};
use super::store::TuningStore;
use super::tunable::{FunctionOf, Tunable};
use super::workload::Workload;
use tilewright::ir::Target;
use tilewright::kernels::gemm::Regime;
use tilewright::runtime::Device;

/// Tunes problems of one [`Tunable`] type on one device. It builds and loads each kernel once and
/// reuses it for all problems. Use one if you tune several problems; it costs the memory of the
/// loaded kernels.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Effort, MemoryTunable, Regime, Tuner, TuningStore};
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
    slots: HashMap<K::Config, Arc<Slot>>,
}

impl<K: Tunable> Tuner<K> {
    /// Returns a tuner that has no kernels yet: it loads each one when a search first needs it.
    pub fn new(device: &Device) -> Tuner<K> {
        Tuner { device: device.clone(), slots: HashMap::new() }
    }

    /// Returns the device on which the tuner measures.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Builds and loads configurations in parallel on all CPU cores, and calls `done` for each. A
    /// failure is remembered, and rejects the configuration when it is measured. Call it before a
    /// long search.
    pub fn prepare(&mut self, configs: &[K::Config], done: &(dyn Fn() + Sync)) {
        let build = builder::<K>(configs, self.device.target());
        self.kernels(configs, &build).prepare(configs.len(), done);
    }

    /// Returns what the compiler complained about in the loaded configurations: register spills,
    /// serialised `wgmma`, and warnings. Call it after [`prepare`](Tuner::prepare) to find
    /// candidates that are slow for such a reason.
    pub fn complaints(&self) -> Vec<(K::Config, String)> {
        let said =
            |(config, slot): (&K::Config, &Arc<Slot>)| Some((config.clone(), slot.complaint()?));
        let mut all: Vec<_> = self.slots.iter().filter_map(said).collect();
        all.sort_by_key(|(config, _)| config.to_string());
        all
    }

    /// Returns the fastest configuration: from the store, or by a [`Search`](super::Search) among
    /// the first ones of [`Tunable::rank`].
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
        let found = self.with(kernel, order, |kernels, problem| {
            search(kernels, problem, store, effort, regime, done)
        });
        Ok(found?.of(order))
    }

    /// Returns a configuration's kernel, and builds and loads it if necessary. Use it to launch the
    /// winner of a search.
    ///
    /// # Errors
    /// Returns why there is no kernel.
    pub fn function(&mut self, config: &K::Config) -> Result<Arc<FunctionOf<K>>, Rejection> {
        let configs = std::slice::from_ref(config);
        let build = builder::<K>(configs, self.device.target());
        let function = self.kernels(configs, &build).function(0)?.function;
        function.downcast().map_err(|_| Rejection::Failed("it is another kernel".to_owned()))
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
        self.with(kernel, configs, |kernels, problem| {
            compare(kernels, problem, regime, rounds, done)
        })
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
        let build = builder::<K>(configs, self.device.target());
        let kernels = &self.kernels(configs, &build);
        let problem = &mut Problem { kernel, configs, sets: &mut work.sets };
        let all: Vec<usize> = (0..configs.len()).collect();
        Session { kernels, problem, timer: &work.timer }.windows(&all, regime, done)
    }

    /// Runs `run` on a problem with some configurations, whose buffers `run` makes.
    pub(super) fn with<R>(
        &mut self,
        kernel: &K,
        configs: &[K::Config],
        run: impl FnOnce(&Kernels<'_>, &mut dyn AnyProblem) -> R,
    ) -> R {
        let build = builder::<K>(configs, self.device.target());
        run(&self.kernels(configs, &build), &mut Problem { kernel, configs, sets: &mut Vec::new() })
    }

    fn kernels<'b>(&mut self, configs: &[K::Config], build: Build<'b>) -> Kernels<'b> {
        let slot = |config: &K::Config| Arc::clone(self.slots.entry(config.clone()).or_default());
        let slots = configs.iter().map(slot).collect();
        Kernels { device: self.device.clone(), slots, build }
    }
}

/// Returns a closure that builds the kernel of the configuration with an index.
fn builder<K: Tunable>(
    configs: &[K::Config],
    target: Target,
) -> impl Fn(usize) -> Result<Box<dyn AnyKernel>, Rejection> + Sync {
    move |which| Ok(Box::new(K::build(&configs[which], target)?))
}

/// The result of a comparison by a [`Tuner`]: the seconds per launch in each round, by
/// configuration name; and the rejected configurations with their reasons.
pub type Compared = (Vec<(String, Vec<f64>)>, Vec<(String, Rejection)>);

impl<K: Tunable> fmt::Debug for Tuner<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.slots.values().filter(|slot| slot.is_loaded()).count();
        write!(f, "Tuner({loaded} kernels on {})", self.device)
    }
}
