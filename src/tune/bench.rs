//! [`bench()`] tunes and measures any [`Tunable`], as `tilewright bench NAME` does.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::errors::errors;
use crate::kernels::gemm::Regime;
use crate::runtime::{Device, DeviceChoice, RuntimeError};

use super::record::Provenance;
use super::search::{Effort, Rejection, SearchError};
use super::stats::Estimate;
use super::store::TuningStore;
use super::tunable::Tunable;
use super::tuner::Tuner;

/// The options of [`bench()`], which a command line has as `--device`, `--regime`, `--rounds`, `--candidates`, `--store` and
/// `--json`.
///
/// ```
/// use tilewright::tune::{BenchOptions, Regime};
/// let args = ["--regime", "latency", "--rounds=3"].map(String::from);
/// let options = BenchOptions::parse(args)?;
/// assert_eq!((options.regime, options.rounds), (Regime::Latency, 3));
/// let error = BenchOptions::parse(["--round".to_owned(), "3".to_owned()]).unwrap_err();
/// assert!(error.to_string().starts_with("`--round` is no option: expected `--device`, `--regime`,"));
/// # Ok::<(), tilewright::tune::BenchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BenchOptions {
    /// The device; at first a GPU if there is one.
    pub device: DeviceChoice,
    /// The regime of the times; at first [`Regime::Burst`].
    pub regime: Regime,
    /// The rounds of the comparison of the fastest configuration with the first one; at first 12.
    pub rounds: usize,
    /// The number of candidates that are measured, or as the regime allows.
    pub candidates: Option<usize>,
    /// The folder of results, or the user's cache folder.
    pub store: Option<PathBuf>,
    /// The file for the report.
    pub json: Option<PathBuf>,
}

impl Default for BenchOptions {
    fn default() -> BenchOptions {
        let (device, regime) = (DeviceChoice::Auto, Regime::Burst);
        BenchOptions { device, regime, rounds: 12, candidates: None, store: None, json: None }
    }
}

errors! {
    /// An error of [`bench()`].
    #[derive(Clone, PartialEq)]
    pub enum BenchError {
        /// `{text}` is no option: expected `--device`, `--regime`, `--rounds`, `--candidates`, `--store` or `--json`
        Option { text: String },
        /// `{option}` needs {what}, and has `{found}`
        Value { option: String, what: &'static str, found: String },
        /// {error}
        Runtime(error: Box<RuntimeError>),
        /// {error}
        Search(error: Box<SearchError>),
        /// {error}
        Rejected(error: Rejection),
        /// `{file}`: {error}
        File { file: String, error: String },
    }
}
crate::errors::message_as_debug!(BenchError);

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
    /// Reads options as a command line has them: `--rounds 8` or `--rounds=8`.
    ///
    /// # Errors
    /// [`BenchError::Option`], [`BenchError::Value`].
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
                "--candidates" => {
                    options.candidates = Some(value::<u16>(&option, &found, "a number")?.into());
                }
                "--store" => options.store = Some(value(&option, &found, "a folder")?),
                "--json" => options.json = Some(value(&option, &found, "a file")?),
                _ => return Err(BenchError::Option { text: option }),
            }
        }
        Ok(options)
    }
}

/// The measured times of a kernel. Prints as a table with 95 % intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// The machine and the date.
    pub provenance: Provenance,
    /// The key of the problem.
    pub problem: String,
    /// The regime of the times.
    pub regime: Regime,
    /// The bytes that a launch reads and writes.
    pub bytes: u64,
    /// The arithmetic operations of a launch, or 0.
    pub flops: f64,
    /// The configurations with the seconds of a launch in each round, the fastest of the search first.
    pub times: Vec<(String, Vec<f64>)>,
    /// The configurations that cannot win, with the reason.
    pub rejected: Vec<(String, String)>,
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; {}, {}", self.provenance, self.problem, self.regime)?;
        writeln!(f, "       us  interval               GB/s  TFLOP/s  configuration")?;
        for (config, seconds) in &self.times {
            let Some(Estimate { median, low, high }) = Estimate::of(seconds, 1) else { continue };
            let interval = format!("[{:.2}, {:.2}]", low * 1e6, high * 1e6);
            let (bytes, flops) = (self.bytes as f64 / median / 1e9, self.flops / median / 1e12);
            writeln!(
                f,
                "{:>9.2}  {interval:<20} {bytes:>6.0} {flops:>8.1}  {config}",
                median * 1e6
            )?;
        }
        self.rejected.iter().try_for_each(|(config, why)| writeln!(f, "  {config} {why}"))
    }
}

/// Tunes a kernel, and times its fastest configuration beside the first one of its order, which a program without a tuner
/// has. A program that calls it with its arguments is a benchmark: `tilewright bench NAME` runs the program
/// `tilewright-bench-NAME`.
///
/// ```
/// # use tilewright::kernels::transpose::TransposeProblem;
/// # use tilewright::tune::{BenchOptions, TransposeTunable, bench};
/// # let folder = std::env::temp_dir().join(format!("tilewright-bench-{}", std::process::id()));
/// let args = ["--device", "sim", "--regime", "latency", "--candidates", "2", "--rounds", "2"].map(String::from);
/// let options = BenchOptions::parse(args)?;
/// # let options = BenchOptions { store: Some(folder.clone()), ..options };
/// let report = bench(&TransposeTunable::<f32>::new(TransposeProblem::new(70, 130)), &options)?;
/// assert_eq!(report.bytes, 2 * 70 * 130 * 4);
/// assert!(!report.times.is_empty() && report.times.iter().all(|(_, seconds)| seconds.len() == 2));
/// # let _ = std::fs::remove_dir_all(folder);
/// # Ok::<(), tilewright::tune::BenchError>(())
/// ```
///
/// # Errors
/// [`BenchError`]. On the simulator the times are those of the simulator.
pub fn bench<K: Tunable>(kernel: &K, options: &BenchOptions) -> Result<BenchReport, BenchError> {
    let device = Device::open(options.device)?;
    let command = std::env::args().collect::<Vec<_>>().join(" ");
    let store = options.store.as_ref().map_or_else(TuningStore::shared, TuningStore::in_folder);
    let mut effort = Effort::of(options.regime);
    effort.candidates = options.candidates.unwrap_or(effort.candidates);
    let mut tuner = Tuner::new(&device);
    let order = tuner.order(kernel, options.regime);
    let asked = &order[..order.len().min(effort.candidates.max(1))];
    if !device.is_sim() {
        tuner.prepare(asked, &|| ());
    }
    let tuned = tuner.search(kernel, &store, effort, options.regime, asked, &|| ())?;
    let mut configs = vec![tuned.config.clone()];
    configs.extend(asked.first().filter(|first| **first != tuned.config).cloned());
    let (times, rejected) =
        tuner.compare(kernel, options.regime, &configs, options.rounds, &|| ())?;
    let named = tuned.rejected.into_iter().map(|(config, why)| (config.to_string(), why));
    let report = BenchReport {
        provenance: Provenance::of(&device, command),
        problem: kernel.key(),
        regime: options.regime,
        bytes: kernel.bytes(),
        flops: kernel.flops(),
        times,
        rejected: named.chain(rejected).map(|(name, why)| (name, why.to_string())).collect(),
    };
    if let Some(path) = &options.json {
        let file = |error: String| BenchError::File { file: path.display().to_string(), error };
        let text = serde_json::to_string(&report).map_err(|error| file(error.to_string()))?;
        std::fs::write(path, text).map_err(|error| file(error.to_string()))?;
    }
    Ok(report)
}
