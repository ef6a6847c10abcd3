//! How configurations are built, checked and timed, for kernels and buffers whose Rust types are
//! gone: rustc compiles it once, and for each [`Tunable`] only the methods of [`Problem`]. Come
//! here to change what a [`Tuner`](super::Tuner) or [`bench()`](super::bench()) does with a
//! configuration.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::record::driver;
use super::search::{Effort, Measure, Rejection, Search, SearchError, Tuned};
use super::store::{TuningKey, TuningStore, hash};
use super::tunable::{FunctionOf, Loadable, Tunable};
use super::tuner::Compared;
use super::workload::{Timer, Window, sets_of};
use tilewright::kernels::gemm::Regime;
use tilewright::runtime::{Device, LaunchOptions, Stream};

/// A built kernel.
pub(super) trait AnyKernel: Send + Sync {
    fn code(&self) -> String;

    fn load(&self, device: &Device) -> Result<AnyFunction, Rejection>;
}

impl<L: Loadable> AnyKernel for L {
    fn code(&self) -> String {
        Loadable::code(self)
    }

    fn load(&self, device: &Device) -> Result<AnyFunction, Rejection> {
        let function = Loadable::load(self, device)?;
        let log = L::compiler_log(&function).into();
        Ok(AnyFunction { function: Arc::new(function), log })
    }
}

/// A loaded kernel, and the log of the driver's compiler.
#[derive(Clone)]
pub(super) struct AnyFunction {
    pub(super) function: Arc<dyn Any + Send + Sync>,
    log: Arc<str>,
}

/// The kernel of a configuration, which is built and loaded when it is first needed.
#[derive(Default)]
pub(super) struct Slot {
    built: OnceLock<Result<Built, Rejection>>,
    loaded: OnceLock<Result<AnyFunction, Rejection>>,
}

/// A built kernel and the hash of its code.
struct Built {
    kernel: Box<dyn AnyKernel>,
    code: String,
}

impl Slot {
    /// Returns whether the kernel was loaded.
    pub(super) fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    /// Returns what the compiler complained about.
    pub(super) fn complaint(&self) -> Option<String> {
        let loaded = self.loaded.get()?.as_ref().ok()?;
        let bad = |line: &&str| {
            let spills = line.contains("spill") && !line.contains("0 bytes spill stores");
            spills || line.contains("serializ") || line.contains("warning")
        };
        let lines: Vec<&str> = loaded.log.lines().filter(bad).collect();
        (!lines.is_empty()).then(|| lines.join("; "))
    }
}

/// Builds the kernel of the configuration with an index.
pub(super) type Build<'b> = &'b (dyn Fn(usize) -> Result<Box<dyn AnyKernel>, Rejection> + Sync);

/// The kernels of a list of configurations.
pub(super) struct Kernels<'b> {
    pub(super) device: Device,
    pub(super) slots: Vec<Arc<Slot>>,
    pub(super) build: Build<'b>,
}

impl Kernels<'_> {
    fn built(&self, which: usize) -> Result<&Built, Rejection> {
        let build = || {
            let kernel = (self.build)(which)?;
            let code = hash(&kernel.code());
            Ok(Built { kernel, code })
        };
        self.slots[which].built.get_or_init(build).as_ref().map_err(Clone::clone)
    }

    /// Returns a configuration's function, and builds and loads the kernel if necessary.
    pub(super) fn function(&self, which: usize) -> Result<AnyFunction, Rejection> {
        let load = || self.built(which)?.kernel.load(&self.device);
        self.slots[which].loaded.get_or_init(load).clone()
    }

    /// Loads the first `count` kernels on all CPU cores, and calls `done` for each. A failure
    /// remains in the kernel's slot.
    pub(super) fn prepare(&self, count: usize, done: &(dyn Fn() + Sync)) {
        (0..count).into_par_iter().for_each(|which| {
            let _ = self.function(which);
            done();
        });
    }
}

/// A problem with its configurations, which are named by their index, and with its sets of buffers.
pub(super) trait AnyProblem {
    fn key(&self) -> String;
    fn bytes(&self) -> u64;
    fn only_reads(&self) -> bool;
    fn flops(&self) -> f64;
    fn name(&self, which: usize) -> String;
    /// As [`Tunable::check`].
    fn check(&self, which: usize) -> Result<(), Rejection>;
    fn sets(&self) -> usize;
    /// Makes so many sets, by [`Tunable::data`].
    fn make_sets(&mut self, device: &Device, count: u32) -> Result<(), Rejection>;
    /// As [`Tunable::clear`], for the first set.
    fn clear(&mut self, stream: &Stream) -> Result<(), Rejection>;
    fn launch(
        &mut self,
        which: usize,
        function: &AnyFunction,
        set: usize,
        stream: &Stream,
    ) -> Result<(), Rejection>;
    /// As [`Tunable::verify`], for the first set.
    fn verify(&mut self) -> Result<(), Rejection>;
}

/// A tunable, its configurations and its buffers as an [`AnyProblem`].
pub(super) struct Problem<'p, K: Tunable> {
    pub(super) kernel: &'p K,
    pub(super) configs: &'p [K::Config],
    pub(super) sets: &'p mut Vec<K::Data>,
}

impl<K: Tunable> AnyProblem for Problem<'_, K> {
    fn key(&self) -> String {
        self.kernel.key()
    }

    fn bytes(&self) -> u64 {
        self.kernel.bytes()
    }

    fn only_reads(&self) -> bool {
        self.kernel.only_reads()
    }

    fn flops(&self) -> f64 {
        self.kernel.flops()
    }

    fn name(&self, which: usize) -> String {
        self.configs[which].to_string()
    }

    fn check(&self, which: usize) -> Result<(), Rejection> {
        self.kernel.check(&self.configs[which])
    }

    fn sets(&self) -> usize {
        self.sets.len()
    }

    fn make_sets(&mut self, device: &Device, count: u32) -> Result<(), Rejection> {
        // A search may have left its buffers.
        self.sets.clear();
        let sets = (0..count).map(|set| self.kernel.data(device, set));
        *self.sets = sets.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn clear(&mut self, stream: &Stream) -> Result<(), Rejection> {
        self.kernel.clear(&mut self.sets[0], stream)
    }

    fn launch(
        &mut self,
        which: usize,
        function: &AnyFunction,
        set: usize,
        stream: &Stream,
    ) -> Result<(), Rejection> {
        let Some(function) = function.function.downcast_ref::<FunctionOf<K>>() else {
            return Err(Rejection::Failed("it is another kernel".to_owned()));
        };
        let options = LaunchOptions::default().stream(stream);
        self.kernel.launch(&self.configs[which], function, &mut self.sets[set], options)
    }

    fn verify(&mut self) -> Result<(), Rejection> {
        self.kernel.verify(&mut self.sets[0])
    }
}

/// Makes the buffers of a problem, and the timer of its launches.
pub(super) fn fill(device: &Device, problem: &mut dyn AnyProblem) -> Result<Timer, Rejection> {
    problem.make_sets(device, sets_of(device, problem.bytes()))?;
    device.synchronize()?;
    Timer::new(device)
}

/// A problem whose buffers exist, with the kernels of its configurations.
pub(super) struct Session<'s> {
    pub(super) kernels: &'s Kernels<'s>,
    pub(super) problem: &'s mut dyn AnyProblem,
    pub(super) timer: &'s Timer,
}

impl Session<'_> {
    /// Checks a configuration's whole result.
    fn check(&mut self, which: usize) -> Result<(), Rejection> {
        let (function, stream) = (self.kernels.function(which)?, &self.timer.stream);
        self.problem.clear(stream)?;
        self.problem.launch(which, &function, 0, stream)?;
        stream.synchronize()?;
        self.problem.verify()
    }

    /// See [`Workload::probe`](super::Workload::probe).
    fn probe(&mut self, which: usize) -> Result<f64, Rejection> {
        let (function, sets) = (self.kernels.function(which)?, self.problem.sets());
        let launch = &mut |stream: &Stream, set| self.problem.launch(which, &function, set, stream);
        self.timer.probe(sets, launch)
    }

    /// See [`Workload::window`](super::Workload::window).
    fn window(&mut self, which: usize, regime: Regime, seconds: f64) -> Result<Window, Rejection> {
        let (function, sets) = (self.kernels.function(which)?, self.problem.sets());
        let launch = &mut |stream: &Stream, set| self.problem.launch(which, &function, set, stream);
        self.timer.window(sets, regime, seconds, launch)
    }

    /// Checks configurations and records a window for each. Returns them by name, and the reasons
    /// for those that failed. Calls `done` for each configuration.
    pub(super) fn windows(
        &mut self,
        configs: &[usize],
        regime: Regime,
        done: &dyn Fn(),
    ) -> Recorded {
        let (mut windows, mut rejected) = (Vec::new(), Vec::new());
        for which in configs.iter().copied() {
            let window = self.problem.check(which).and_then(|()| {
                self.check(which)?;
                let seconds = self.probe(which)?;
                self.window(which, regime, seconds)
            });
            let name = self.problem.name(which);
            match window {
                Ok(window) => windows.push((name, window)),
                Err(why) => rejected.push((name, why)),
            }
            done();
        }
        (windows, rejected)
    }
}

/// Windows by name, and rejections by name.
pub(super) type Recorded = (Vec<(String, Window)>, Vec<(String, Rejection)>);

/// Times a problem's configurations in interleaved rounds. Calls `done` after each timed window.
pub(super) fn compare(
    kernels: &Kernels<'_>,
    problem: &mut dyn AnyProblem,
    regime: Regime,
    rounds: usize,
    done: &dyn Fn(),
) -> Result<Compared, Rejection> {
    let timer = &fill(&kernels.device, problem)?;
    let all: Vec<usize> = (0..kernels.slots.len()).collect();
    let (windows, mut rejected) = Session { kernels, problem, timer }.windows(&all, regime, &|| ());
    let (times, failed) = timer.rounds(windows, regime, rounds, done);
    rejected.extend(failed);
    Ok((times, rejected))
}

/// Searches among the first configurations of a problem. Calls `done` for each one measured.
pub(super) fn search(
    kernels: &Kernels<'_>,
    problem: &mut dyn AnyProblem,
    store: &TuningStore,
    effort: Effort,
    regime: Regime,
    done: &dyn Fn(),
) -> Result<Tuned<usize>, SearchError> {
    let key = TuningKey {
        device: kernels.device.name().to_owned(),
        driver: driver(&kernels.device),
        problem: problem.key(),
        regime,
    };
    let asked = kernels.slots.len().min(effort.candidates.max(1));
    let names: Vec<String> = (0..asked).map(|which| problem.name(which)).collect();
    let (timer, windows, best) = (None, HashMap::new(), f64::INFINITY);
    let mut run = Run { kernels, problem, timer, regime, windows, best, done };
    Search::new(store.clone(), key).effort(effort).run_named(&names, &mut run)
}

/// A kernel that is slower than the best by this factor gets no window; the probe's estimate is
/// enough.
const HOPELESS: f64 = 2.0;

/// A problem on a device, measured for a [`Search`].
struct Run<'r> {
    kernels: &'r Kernels<'r>,
    problem: &'r mut dyn AnyProblem,
    /// The timer, once a search has needed the buffers.
    timer: Option<Timer>,
    regime: Regime,
    windows: HashMap<(usize, Regime), Window>,
    /// The shortest time so far, in seconds.
    best: f64,
    done: &'r dyn Fn(),
}

impl Measure<usize> for Run<'_> {
    fn code(&mut self, which: &usize) -> Result<String, Rejection> {
        self.problem.check(*which)?;
        Ok(self.kernels.built(*which)?.code.clone())
    }

    fn check(&mut self, which: &usize) -> Result<(), Rejection> {
        (self.done)();
        // A kernel that cannot be loaded needs no buffers.
        self.kernels.function(*which)?;
        let timer = match &mut self.timer {
            Some(timer) => timer,
            none => none.insert(fill(&self.kernels.device, self.problem)?),
        };
        Session { kernels: self.kernels, problem: self.problem, timer }.check(*which)
    }

    fn time(&mut self, which: &usize) -> Result<f64, Rejection> {
        self.time_in(self.regime, *which)
    }

    fn time_quickly(&mut self, which: &usize) -> Result<f64, Rejection> {
        self.time_in(self.regime.quick(), *which)
    }
}

impl Run<'_> {
    fn time_in(&mut self, regime: Regime, which: usize) -> Result<f64, Rejection> {
        let Some(timer) = &self.timer else {
            return Err(Rejection::Failed("it was not checked".to_owned()));
        };
        if let Some(window) = self.windows.get(&(which, regime)) {
            return timer.time(window, regime);
        }
        let mut session = Session { kernels: self.kernels, problem: self.problem, timer };
        let seconds = session.probe(which)?;
        if seconds > HOPELESS * self.best {
            return Ok(seconds);
        }
        let window = session.window(which, regime, seconds)?;
        let seconds = timer.time(&window, regime)?;
        self.windows.insert((which, regime), window);
        self.best = self.best.min(seconds);
        Ok(seconds)
    }
}
