//! [`bench()`]: tunes and times any [`Tunable`], as `tilewright bench NAME` does. Call it to
//! measure a kernel of your own with the same table and chart.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use tilewright::kernels::gemm::Regime;
use tilewright::runtime::{Device, DeviceChoice, RuntimeError};

pub use super::bench_report::{BenchReport, BenchTimes};
use super::engine::{AnyProblem, Kernels, Session, fill, search};
use super::memory::MemoryTunable;
use super::record::Provenance;
use super::search::{Effort, Rejection, SearchError};
use super::stats::median;
use super::store::TuningStore;
use super::tunable::Tunable;
use super::tuner::Tuner;
use super::workload::Workload;

/// The options of [`bench()`]. The command line spells them `--device`, `--regime`, `--rounds`,
/// `--configs`, `--candidates`, `--store`, `--json` and `--svg`.
///
/// ```
/// use tilewright_tune::{BenchOptions, Regime};
/// let args = ["--regime", "latency", "--rounds=3"].map(String::from);
/// let options = BenchOptions::parse(args)?;
/// assert_eq!((options.regime, options.rounds), (Regime::Latency, 3));
/// let error = BenchOptions::parse(["--round".to_owned(), "3".to_owned()]).unwrap_err();
/// assert!(error.to_string().starts_with("`--round` is not an option: expected `--device`,"));
/// # Ok::<(), tilewright_tune::BenchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchOptions {
    /// The device. Default: a GPU if there is one.
    pub device: DeviceChoice,
    /// How the GPU is loaded while it is timed. Default: [`Regime::Burst`].
    pub regime: Regime,
    /// The rounds of the comparison. Default: 12.
    pub rounds: usize,
    /// Which configurations to compare. Default: [`BenchConfigs::Tuned`].
    pub configs: BenchConfigs,
    /// How many candidates a search measures. Default: depends on the regime.
    pub candidates: Option<usize>,
    /// The folder for tuning results. Default: the user's cache folder.
    pub store: Option<PathBuf>,
    /// A JSON file to write the report to. Default: none.
    pub json: Option<PathBuf>,
    /// An SVG file to write a chart to. Default: none.
    pub svg: Option<PathBuf>,
}

/// Which configurations [`bench()`] compares. `Default` is the quickest. `Tuned` shows what a
/// search gains, and `All` how much configurations differ.
///
/// ```
/// use tilewright_tune::{BenchConfigs, BenchOptions};
/// assert_eq!("all".parse::<BenchConfigs>(), Ok(BenchConfigs::All));
/// assert_eq!(BenchOptions::default().configs, BenchConfigs::Tuned);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BenchConfigs {
    /// `default`: the first of [`Tunable::rank`], which a program gets without tuning.
    Default,
    /// `all`: every configuration of [`Tunable::space`].
    All,
    /// `tuned`: the default, and the fastest one that a search finds.
    Tuned,
}

impl FromStr for BenchConfigs {
    type Err = ();

    fn from_str(text: &str) -> Result<BenchConfigs, ()> {
        match text {
            "default" => Ok(BenchConfigs::Default),
            "all" => Ok(BenchConfigs::All),
            "tuned" => Ok(BenchConfigs::Tuned),
            _ => Err(()),
        }
    }
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        let (device, regime) = (DeviceChoice::Auto, Regime::Burst);
        let (candidates, store, json, svg) = (None, None, None, None);
        let configs = BenchConfigs::Tuned;
        BenchOptions { device, regime, rounds: 12, configs, candidates, store, json, svg }
    }
}

/// Why [`bench()`] or [`BenchOptions::parse`] failed.
///
/// ```
/// use tilewright_tune::{BenchError, BenchOptions};
/// let error = BenchOptions::parse(["--rounds=many".to_owned()]).unwrap_err();
/// assert!(matches!(&error, BenchError::Value { option, .. } if option == "--rounds"));
/// assert_eq!(error.to_string(), "`--rounds` needs a number, got `many`");
/// ```
#[derive(Clone, PartialEq)]
#[allow(missing_docs, reason = "a variant's comment explains its fields")]
pub enum BenchError {
    /// `text` is not the name of an option.
    Option { text: String },
    /// `option` has the value `found`, but needs what `what` says.
    Value { option: String, what: &'static str, found: String },
    /// The device failed.
    Runtime(Box<RuntimeError>),
    /// The search has no answer.
    Search(Box<SearchError>),
    /// A kernel is wrong or does not run.
    Rejected(Rejection),
    /// `file` cannot be written.
    File { file: String, error: String },
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BenchError::Option { text } => write!(
                f,
                "`{text}` is not an option: expected `--device`, `--regime`, `--rounds`, \
                 `--configs`, `--candidates`, `--store`, `--json` or `--svg`"
            ),
            BenchError::Value { option, what, found } => {
                write!(f, "`{option}` needs {what}, got `{found}`")
            }
            BenchError::Runtime(error) => write!(f, "{error}"),
            BenchError::Search(error) => write!(f, "{error}"),
            BenchError::Rejected(error) => write!(f, "{error}"),
            BenchError::File { file, error } => write!(f, "`{file}`: {error}"),
        }
    }
}

/// Prints the message, because a `main` that returns an error prints its `Debug`.
impl fmt::Debug for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BenchError {}

impl From<RuntimeError> for BenchError {
    fn from(error: RuntimeError) -> BenchError {
        BenchError::Runtime(Box::new(error))
    }
}

impl From<SearchError> for BenchError {
    fn from(error: SearchError) -> BenchError {
        BenchError::Search(Box::new(error))
    }
}

impl From<Rejection> for BenchError {
    fn from(error: Rejection) -> BenchError {
        BenchError::Rejected(error)
    }
}

impl BenchOptions {
    /// Parses command-line options: `--rounds 8` or `--rounds=8`.
    ///
    /// # Errors
    /// [`BenchError::Option`] for an unknown option, [`BenchError::Value`] for a bad value.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<BenchOptions, BenchError> {
        fn value<T: FromStr>(
            option: &str,
            found: &str,
            what: &'static str,
        ) -> Result<T, BenchError> {
            let [option, text] = [option, found].map(str::to_owned);
            found.parse().map_err(|_| BenchError::Value { option, what, found: text })
        }
        let mut options = BenchOptions::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let (option, found) = match arg.split_once('=') {
                Some((option, found)) => (option.to_owned(), found.to_owned()),
                None => {
                    let found = args.next().unwrap_or_default();
                    (arg, found)
                }
            };
            match option.as_str() {
                "--device" => {
                    options.device = value(&option, &found, "`auto`, `sim`, `cuda` or `cuda:N`")?;
                }
                "--regime" => {
                    options.regime = value(&option, &found, "`latency`, `burst` or `steady`")?;
                }
                "--rounds" => options.rounds = value::<u16>(&option, &found, "a number")?.into(),
                "--configs" => {
                    options.configs = value(&option, &found, "`default`, `all` or `tuned`")?;
                }
                "--candidates" => {
                    options.candidates = Some(value::<u16>(&option, &found, "a number")?.into());
                }
                "--store" => options.store = Some(value(&option, &found, "a folder")?),
                "--json" => options.json = Some(value(&option, &found, "a file")?),
                "--svg" => options.svg = Some(value(&option, &found, "a file")?),
                _ => return Err(BenchError::Option { text: option }),
            }
        }
        Ok(options)
    }
}

/// How far [`bench_on`] has come, for a progress bar: it passes one after each step.
///
/// ```
/// # use std::cell::RefCell;
/// # use tilewright::runtime::Device;
/// # use tilewright_tune::{BenchConfigs, BenchOptions, BenchProgress, MemoryTunable, Regime};
/// # use tilewright_tune::bench_on;
/// let lines = RefCell::new(Vec::new());
/// let hear = |progress: &BenchProgress<'_>| {
///     let BenchProgress { problem, step, steps, .. } = progress;
///     lines.borrow_mut().push(format!("{problem}: {step}/{steps}"));
/// };
/// let (regime, configs) = (Regime::Latency, BenchConfigs::Default);
/// let options = BenchOptions { regime, configs, rounds: 2, ..BenchOptions::default() };
/// bench_on(&Device::sim()?, &[MemoryTunable::new(40_000, false)], &options, &hear)?;
/// assert!(lines.borrow()[0].starts_with("copy of 40000 bytes: 0/"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BenchProgress<'b> {
    /// The key of the problem being measured.
    pub problem: &'b str,
    /// The problem's index among all problems, from 0.
    pub index: usize,
    /// How many problems there are.
    pub problems: usize,
    /// Finished steps of the problem: candidates checked and windows timed.
    pub step: usize,
    /// About how many steps the problem has.
    pub steps: usize,
}

/// Counts a problem's steps and reports them.
struct Steps<'b> {
    hear: &'b dyn Fn(&BenchProgress<'_>),
    problem: String,
    index: usize,
    problems: usize,
    step: Cell<usize>,
    steps: usize,
}

impl Steps<'_> {
    fn set(&self, step: usize) {
        let Steps { hear, problem, index, problems, steps, .. } = self;
        self.step.set(step.min(*steps));
        let (index, problems, steps) = (*index, *problems, *steps);
        hear(&BenchProgress { problem, index, problems, step: self.step.get(), steps });
    }

    fn done(&self) {
        self.set(self.step.get() + 1);
    }
}

/// Tunes and times a kernel on each problem, and in the same rounds a copy or read of as many
/// bytes, so that you see how close it is to memory bandwidth.
///
/// A program that calls this with its arguments is a benchmark: `tilewright bench NAME` runs the
/// program `tilewright-bench-NAME`.
///
/// ```
/// # use tilewright::ir::types::Scalar;
/// # use tilewright::kernels::transpose::TransposeProblem;
/// # use tilewright_tune::{BenchOptions, TransposeTunable, bench};
/// # let folder = std::env::temp_dir().join(format!("tilewright-bench-{}", std::process::id()));
/// let args = ["--device", "sim", "--regime", "latency", "--candidates", "2", "--rounds", "2"].map(String::from);
/// let options = BenchOptions::parse(args)?;
/// # let options = BenchOptions { store: Some(folder.clone()), ..options };
/// let kernels = [70, 72].map(|rows| TransposeTunable::new(Scalar::F32, TransposeProblem::new(rows, 130)));
/// let report = bench(&kernels, &options)?;
/// let [times, _] = &report.problems[..] else { panic!("there are two problems") };
/// assert_eq!((times.problem.as_str(), times.bytes), ("transpose of f32 70x130", 2 * 70 * 130 * 4));
/// assert!(times.configs.iter().all(|(_, seconds)| seconds.len() == 2));
/// assert!(times.share(0).is_some_and(|share| share.median > 0.0));
/// # let _ = std::fs::remove_dir_all(folder);
/// # Ok::<(), tilewright_tune::BenchError>(())
/// ```
///
/// Returns a [`BenchError`]. On the simulator it runs, but times the simulator.
pub fn bench<K: Tunable>(kernels: &[K], options: &BenchOptions) -> Result<BenchReport, BenchError> {
    bench_on(&Device::open(options.device)?, kernels, options, &|_| ())
}

/// Benchmarks as [`bench()`] does, on a device that is already open; [`BenchOptions::device`] is
/// ignored. Calls `hear` after each step, so that a program can show the progress of a long
/// benchmark.
///
/// ```
/// # use std::cell::RefCell;
/// # use tilewright::ir::types::Scalar;
/// # use tilewright::kernels::transpose::TransposeProblem;
/// # use tilewright::runtime::Device;
/// # use tilewright_tune::{BenchConfigs, BenchOptions, Regime, TransposeTunable, bench_on};
/// let kernels = [70, 72].map(|rows| TransposeTunable::new(Scalar::F32, TransposeProblem::new(rows, 130)));
/// let (regime, configs) = (Regime::Latency, BenchConfigs::Default);
/// let options = BenchOptions { regime, configs, rounds: 2, ..BenchOptions::default() };
/// let heard = RefCell::new(Vec::new());
/// bench_on(&Device::sim()?, &kernels, &options, &|progress| {
///     heard.borrow_mut().push((progress.index, progress.step, progress.steps));
/// })?;
/// let heard = heard.into_inner();
/// assert!(heard.is_sorted());
/// let [first, .., last] = heard[..] else { panic!("there are many steps") };
/// assert_eq!((first.0, first.1, last.0, last.1), (0, 0, 1, last.2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`bench()`].
pub fn bench_on<K: Tunable>(
    device: &Device,
    kernels: &[K],
    options: &BenchOptions,
    hear: &dyn Fn(&BenchProgress<'_>),
) -> Result<BenchReport, BenchError> {
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let (provenance, regime) = (Provenance::of(device, command), options.regime);
    let report = BenchReport { provenance, regime, problems: Vec::new() };
    let (of_memory, mut tuner) = (Tuner::new(device), Tuner::new(device));
    let mut bench = Bench { options, hear, problems: kernels.len(), of_memory, report };
    for kernel in kernels {
        let order = tuner.order(kernel, regime);
        tuner.with(kernel, &order, |kernels, problem| bench.measure(kernels, problem))?;
    }
    Ok(bench.report)
}

fn write(
    path: Option<&PathBuf>,
    text: impl FnOnce() -> Result<String, String>,
) -> Result<(), BenchError> {
    let Some(path) = path else { return Ok(()) };
    let written = text().and_then(|text| std::fs::write(path, text).map_err(|e| e.to_string()));
    let file = |error| BenchError::File { file: path.display().to_string(), error };
    written.map_err(file)
}

/// A benchmark of several problems.
struct Bench<'b> {
    options: &'b BenchOptions,
    hear: &'b dyn Fn(&BenchProgress<'_>),
    /// How many problems there are.
    problems: usize,
    of_memory: Tuner<MemoryTunable>,
    report: BenchReport,
}

impl Bench<'_> {
    /// Measures the next problem, and writes the files.
    fn measure(
        &mut self,
        kernels: &Kernels<'_>,
        problem: &mut dyn AnyProblem,
    ) -> Result<(), BenchError> {
        let times = self.times(kernels, problem)?;
        let Bench { options, report, .. } = self;
        report.problems.push(times);
        let json = || serde_json::to_string(&report).map_err(|error| error.to_string());
        write(options.json.as_ref(), json)?;
        write(options.svg.as_ref(), || Ok(report.chart().svg()))
    }

    fn times(
        &mut self,
        kernels: &Kernels<'_>,
        problem: &mut dyn AnyProblem,
    ) -> Result<BenchTimes, BenchError> {
        let Bench { options, hear, problems, of_memory, report } = self;
        let (regime, device) = (options.regime, &kernels.device);
        let candidates = kernels.slots.len();
        let mut rejected = Vec::new();
        let memory = MemoryTunable::new(problem.bytes(), problem.only_reads());
        let space = memory.space(device);
        let mut effort = Effort::of(regime);
        effort.candidates = options.candidates.unwrap_or(effort.candidates).max(1);
        let (searched, compared) = match options.configs {
            BenchConfigs::Default => (0, 1),
            BenchConfigs::All => (0, candidates),
            BenchConfigs::Tuned => (candidates.min(effort.candidates), 2),
        };
        let steps = Steps {
            hear: *hear,
            problem: problem.key(),
            index: report.problems.len(),
            problems: *problems,
            step: Cell::new(0),
            steps: searched + (space.len() + compared) * (1 + options.rounds),
        };
        steps.set(0);
        let done = || steps.done();
        let configs: Vec<usize> = match options.configs {
            BenchConfigs::Default => (0..candidates.min(1)).collect(),
            BenchConfigs::All => (0..candidates).collect(),
            BenchConfigs::Tuned => {
                if !device.is_sim() {
                    kernels.prepare(searched, &|| ());
                }
                let folder = options.store.as_ref();
                let store = folder.map_or_else(TuningStore::shared, TuningStore::in_folder);
                let tuned = search(kernels, problem, &store, effort, regime, &done)?;
                let named =
                    tuned.rejected.into_iter().map(|(which, why)| (problem.name(which), why));
                rejected.extend(named);
                if tuned.config == 0 { vec![0] } else { vec![0, tuned.config] }
            }
        };
        steps.set(searched);
        let timer = &fill(device, problem)?;
        let mut memory_work = Workload::new(device, &memory)?;
        let (mut windows, failed) =
            of_memory.windows(&memory, &mut memory_work, regime, &space, &done);
        rejected.extend(failed);
        let beside = windows.len();
        let mut session = Session { kernels, problem: &mut *problem, timer };
        let (ours, failed) = session.windows(&configs, regime, &done);
        rejected.extend(failed);
        windows.extend(ours);
        let names: Vec<String> = windows[..beside].iter().map(|(name, _)| name.clone()).collect();
        let (mut times, failed) = timer.rounds(windows, regime, options.rounds, &done);
        rejected.extend(failed);
        steps.set(steps.steps);
        let beside = times.iter().take_while(|(name, _)| names.contains(name)).count();
        let configs = times.split_off(beside.min(names.len()));
        let seconds = |(_, seconds): &(String, Vec<f64>)| median(seconds).unwrap_or(f64::INFINITY);
        Ok(BenchTimes {
            problem: problem.key(),
            bytes: problem.bytes(),
            flops: problem.flops(),
            memory: times.into_iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b))),
            configs,
            rejected: rejected.into_iter().map(|(name, why)| (name, why.to_string())).collect(),
        })
    }
}
