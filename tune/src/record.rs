//! Records of GEMM measurements, as they are written to files: a [`Report`] compares kernels, a
//! [`Sweep`] has the times of many configurations to fit the cost model, and both carry their
//! [`Provenance`]. Read them to draw figures or to fit the model again without a GPU.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use tilewright::kernels::gemm::{GemmConfig, GemmProblem, Machine, Regime};
use tilewright::runtime::Device;

/// Where, when and with which software something was measured: the part of a [`Report`] or
/// [`Sweep`] that lets you judge or repeat it.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::Provenance;
/// let here = Provenance::of(&Device::sim()?, "my-bench --rounds 3");
/// assert_eq!((here.device.as_str(), here.command.as_str()), ("simulator", "my-bench --rounds 3"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The day in UTC, for example `2026-11-21`.
    pub date: String,
    /// The device's name.
    pub device: String,
    /// The driver release and CUDA version.
    pub driver: String,
    /// The version of cuBLAS, if it was measured too.
    pub cublas: Option<String>,
    /// The version of this crate.
    pub version: String,
    /// The command line.
    pub command: String,
}

impl Provenance {
    /// Returns the provenance of a measurement now, on this device. Call it when you make a record.
    pub fn of(device: &Device, command: impl Into<String>) -> Provenance {
        Provenance {
            date: today(),
            device: device.name().to_owned(),
            driver: driver(device),
            cublas: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: command.into(),
        }
    }
}

/// Prints `2026-11-21, NVIDIA H200, driver 580.159.04 (CUDA 13.0), cuBLAS 13.1.0`.
impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.date, self.device, self.driver)?;
        self.cublas.as_ref().map_or(Ok(()), |cublas| write!(f, ", cuBLAS {cublas}"))
    }
}

/// Describes a device's driver.
pub(super) fn driver(device: &Device) -> String {
    match (device.driver_release(), device.cuda_version()) {
        (Some(release), Some(cuda)) => format!("driver {release} (CUDA {cuda})"),
        (None, Some(cuda)) => format!("CUDA {cuda}"),
        (_, None) => "no driver".to_owned(),
    }
}

/// Returns today's date in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let [year, month, day] = civil(since.as_secs() / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns year, month and day of a day counted from 1970, in the Gregorian calendar.
fn civil(days: u64) -> [u64; 3] {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    // 400 years have 146097 days.
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    loop {
        let of_year = if is_leap(year) { 366 } else { 365 };
        if left < of_year {
            break;
        }
        (year, left) = (year + 1, left - of_year);
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        (month, left) = (month + 1, left - length);
    }
    [year, month, left + 1]
}

/// The times of many configurations on many problems. [`fit`](super::fit()) fits the cost model to
/// them.
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::GemmConfig;
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Machine, Provenance, Regime, Sweep};
///
/// let mut sweep = Sweep::new(Provenance::of(&Device::sim()?, "a sweep"), Machine::H200);
/// let config = GemmConfig::sm90(Scalar::Bf16, [128, 256]);
/// sweep.add([4096; 3], Regime::Burst, [(&config, 0.001)]);
/// assert_eq!(sweep.groups()?[0].times, [(config, 0.001)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// Where and when it was measured.
    pub provenance: Provenance,
    /// The device's properties that the model uses.
    pub machine: Machine,
    /// The configurations' names, once each; [`SweepShape::us`] refers to them by index.
    pub configs: Vec<String>,
    /// The problems, with one entry per regime.
    pub shapes: Vec<SweepShape>,
}

/// A sweep's times for one problem in one regime, in the compact form of the file. [`ProblemTimes`]
/// is the form to compute with.
///
/// ```
/// use tilewright_tune::{Regime, SweepShape};
/// let us = vec![(0, 1000.0), (1, 950.0)];
/// let shape = SweepShape { sizes: [4096; 3], regime: Regime::Burst, us };
/// let fastest = shape.us.iter().min_by(|a, b| a.1.total_cmp(&b.1));
/// assert_eq!(fastest, Some(&(1, 950.0)));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepShape {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// How the GPU was loaded while it was timed: in a short window, in a burst, or in steady work.
    pub regime: Regime,
    /// The measured times, each as an index into [`Sweep::configs`] and the microseconds per
    /// launch.
    pub us: Vec<(u32, f64)>,
}

impl Sweep {
    /// Returns a sweep without times, to which a benchmark adds them with [`add`](Sweep::add).
    pub fn new(provenance: Provenance, machine: Machine) -> Sweep {
        Sweep { provenance, machine, configs: Vec::new(), shapes: Vec::new() }
    }

    /// Adds configurations' times for one problem, in seconds. Call it after each problem.
    pub fn add<'c>(
        &mut self,
        sizes: [u32; 3],
        regime: Regime,
        times: impl IntoIterator<Item = (&'c GemmConfig, f64)>,
    ) {
        let us = times.into_iter().map(|(config, seconds)| {
            let name = config.to_string();
            let index = self.configs.iter().position(|known| *known == name);
            let index = index.unwrap_or_else(|| {
                self.configs.push(name);
                self.configs.len() - 1
            });
            // Nanosecond resolution is enough.
            (index as u32, (seconds * 1e9).round() / 1e3)
        });
        let us = us.collect();
        self.shapes.push(SweepShape { sizes, regime, us });
    }

    /// Returns the times with parsed configurations: the form that [`fit`](super::fit()) and
    /// [`rankings`](super::rankings) take.
    ///
    /// # Errors
    /// Returns a [`SweepError`] for a name that does not parse, an index out of range, or a time
    /// that is not positive.
    pub fn groups(&self) -> Result<Vec<ProblemTimes>, SweepError> {
        let parse = |name: &String| {
            name.parse::<GemmConfig>()
                .map_err(|error| SweepError::Name { name: name.clone(), error: error.to_string() })
        };
        let configs = self.configs.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let group = |shape: &SweepShape| {
            let times = shape.us.iter().map(|(index, us)| {
                let config =
                    configs.get(*index as usize).ok_or(SweepError::Index { index: *index })?;
                match us.is_finite() && *us > 0.0 {
                    true => Ok((*config, us * 1e-6)),
                    false => Err(SweepError::Time { us: *us }),
                }
            });
            let [m, n, k] = shape.sizes;
            let times = times.collect::<Result<Vec<_>, _>>()?;
            Ok(ProblemTimes { problem: GemmProblem::new(m, n, k), regime: shape.regime, times })
        };
        self.shapes.iter().map(group).collect()
    }
}

/// The times of many configurations for one problem, with parsed configurations. Made by
/// [`Sweep::groups`].
///
/// ```
/// use tilewright::ir::types::Scalar;
/// use tilewright::kernels::gemm::{GemmConfig, GemmProblem};
/// use tilewright_tune::{ProblemTimes, Regime};
///
/// let [narrow, wide] = [128, 256].map(|n| GemmConfig::sm90(Scalar::Bf16, [128, n]));
/// let problem = GemmProblem::new(4096, 4096, 4096);
/// let times = vec![(narrow, 0.002), (wide, 0.001)];
/// assert_eq!(ProblemTimes { problem, regime: Regime::Burst, times }.best(), Some(0.001));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ProblemTimes {
    /// The problem.
    pub problem: GemmProblem,
    /// How the GPU was loaded while it was timed: in a short window, in a burst, or in steady work.
    pub regime: Regime,
    /// Configurations and their seconds per launch.
    pub times: Vec<(GemmConfig, f64)>,
}

impl ProblemTimes {
    /// Returns the shortest time, in seconds, or `None` if there are no times. A model is judged by
    /// how close its choice comes to it.
    pub fn best(&self) -> Option<f64> {
        self.times.iter().map(|(_, seconds)| *seconds).min_by(f64::total_cmp)
    }
}

/// Why a sweep cannot be read. [`Sweep::groups`] returns it.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Machine, Provenance, Sweep};
///
/// let mut sweep = Sweep::new(Provenance::of(&Device::sim()?, "a sweep"), Machine::H200);
/// sweep.configs.push("fast".into());
/// let error = sweep.groups().unwrap_err();
/// assert!(error.to_string().starts_with("`fast` is not a configuration"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq)]
#[allow(missing_docs, reason = "a variant's comment explains its fields")]
pub enum SweepError {
    /// `name` does not parse as a configuration.
    Name { name: String, error: String },
    /// A sample names a configuration by an `index` that the sweep does not have.
    Index { index: u32 },
    /// A sample's time, in microseconds, is not positive and finite.
    Time { us: f64 },
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Name { name, error } => {
                write!(f, "`{name}` is not a configuration: {error}")
            }
            SweepError::Index { index } => {
                write!(f, "there is no configuration with index {index}")
            }
            SweepError::Time { us } => write!(f, "{us} microseconds is not a valid time"),
        }
    }
}

/// Prints the message, because a `main` that returns an error prints its `Debug`.
impl fmt::Debug for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SweepError {}

/// Kernels measured alternately on one problem. It keeps the time of every round, so that you can
/// compute confidence intervals later.
///
/// ```
/// use tilewright_tune::{Comparison, Entry, KernelSource, Regime};
///
/// let entry = |of, name: &str, seconds| Entry { of, name: name.into(), seconds };
/// let comparison = Comparison {
///     sizes: [4096; 3],
///     types: ["bf16".into(), "bf16".into()],
///     regime: Regime::Burst,
///     entries: vec![
///         entry(KernelSource::Tilewright, "ours", vec![1.0, 1.0]),
///         entry(KernelSource::Cublas, "cuBLAS", vec![1.5, 1.5]),
///     ],
/// };
/// let speedup = comparison.ratio(KernelSource::Cublas, &comparison.entries[0]);
/// assert_eq!(speedup.map(|speedup| speedup.median), Some(1.5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// M, N and K.
    pub sizes: [u32; 3],
    /// The types of A and B (`f8e4m3xf8e5m2` if they differ), then the type of D.
    pub types: [String; 2],
    /// How the GPU was loaded while it was timed: in a short window, in a burst, or in steady work.
    pub regime: Regime,
    /// The kernels that were compared.
    pub entries: Vec<Entry>,
}

/// One kernel in a [`Comparison`], with its time in each round. Rounds are interleaved, so the
/// values with the same index are comparable.
///
/// ```
/// use tilewright_tune::{Entry, KernelSource};
/// let of = KernelSource::Cublas;
/// let entry = Entry { of, name: "cuBLAS".into(), seconds: vec![3.0, 1.0, 2.0] };
/// assert_eq!(entry.seconds(), Some(2.0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The library that the kernel comes from.
    pub of: KernelSource,
    /// The kernel's name: the configuration's, or the library's own name.
    pub name: String,
    /// Seconds per launch, one value per round.
    pub seconds: Vec<f64>,
}

/// The library that a kernel in a [`Comparison`] comes from. Ratios and charts select kernels by
/// it.
///
/// ```
/// use tilewright_tune::KernelSource;
/// assert_eq!(serde_json::to_string(&KernelSource::CublasLt)?, "\"cublaslt\"");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelSource {
    /// This crate.
    Tilewright,
    /// cuBLAS, with the kernel that it chooses itself.
    Cublas,
    /// cuBLASLt, with one of the kernels that its heuristic suggests.
    CublasLt,
}

/// A GEMM benchmark's complete results, as they are written to a file: one [`Comparison`] per
/// problem and regime. Read one to draw its [chart](Report::chart) again or to compare two
/// versions.
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{Provenance, Report};
/// let provenance = Provenance::of(&Device::sim()?, "a benchmark");
/// let report = Report { provenance, comparisons: vec![] };
/// let text = serde_json::to_string(&report)?;
/// assert_eq!(serde_json::from_str::<Report>(&text)?, report);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Where and when it was measured.
    pub provenance: Provenance,
    /// One comparison per problem and regime.
    pub comparisons: Vec<Comparison>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::ir::types::Scalar;

    #[test]
    fn days_are_those_of_the_calendar() {
        let known = [
            (0, [1970, 1, 1]),
            (59, [1970, 3, 1]),
            (789, [1972, 2, 29]),
            (11_016, [2000, 2, 29]),
            (20_778, [2026, 11, 21]),
            (47_540, [2100, 2, 28]),
            (47_541, [2100, 3, 1]),
        ];
        for (day, date) in known {
            assert_eq!(civil(day), date, "{day}");
        }
    }

    #[test]
    fn sweeps_round_trip() {
        let device = Device::sim().unwrap();
        let provenance = Provenance::of(&device, "a test");
        assert_eq!(provenance.device, "simulator");
        let mut sweep = Sweep::new(provenance, Machine::H200);
        let configs = [128, 256].map(|n| GemmConfig::sm90(Scalar::Bf16, [128, n]));
        let times = [0.001, 0.002];
        sweep.add([4096; 3], Regime::Burst, configs.iter().zip(times));
        sweep.add([8192; 3], Regime::Burst, configs[1..].iter().zip([0.01]));
        let text = serde_json::to_string(&sweep).unwrap();
        let read: Sweep = serde_json::from_str(&text).unwrap();
        assert_eq!(read, sweep);
        let groups = read.groups().unwrap();
        assert_eq!(groups[0].times, [(configs[0], 0.001), (configs[1], 0.002)]);
        assert_eq!(groups[1].best(), Some(0.01));

        let bad = |change: &dyn Fn(&mut Sweep)| {
            let mut sweep = sweep.clone();
            change(&mut sweep);
            sweep.groups().unwrap_err()
        };
        let named = bad(&|sweep| sweep.configs[0] = "fast".into());
        assert!(named.to_string().starts_with("`fast` is not a configuration"), "{named}");
        let index = bad(&|sweep| sweep.shapes[1].us[0].0 = 7);
        assert_eq!(index.to_string(), "there is no configuration with index 7");
        let time = bad(&|sweep| sweep.shapes[1].us[0].1 = 0.0);
        assert_eq!(time.to_string(), "0 microseconds is not a valid time");
    }
}
