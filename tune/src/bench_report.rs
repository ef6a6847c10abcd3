//! [`BenchReport`]: what [`bench()`](super::bench()) returns, a benchmark's times that print as a
//! table and draw as a chart.

use std::fmt;

use serde::{Deserialize, Serialize};

use tilewright::kernels::gemm::Regime;

use super::chart::{Chart, Series, SeriesStyle, number};
use super::record::Provenance;
use super::stats::{Estimate, median};

/// A benchmark's times for all its problems. Print it as a table with 95 % confidence intervals, or
/// draw it with [`chart`](BenchReport::chart).
///
/// ```
/// use tilewright::runtime::Device;
/// use tilewright_tune::{BenchReport, BenchTimes, Provenance, Regime};
///
/// let (provenance, regime) = (Provenance::of(&Device::sim()?, "an example"), Regime::Burst);
/// let times = BenchTimes {
///     problem: "transpose 512x512".into(),
///     bytes: 2_000_000,
///     flops: 0.0,
///     memory: Some(("copy_256x4".into(), vec![1e-6; 3])),
///     configs: vec![("tile_32".into(), vec![2e-6; 3])],
///     rejected: vec![],
/// };
/// let report = BenchReport { provenance, regime, problems: vec![times] };
/// assert!(report.to_string().contains("tile_32"));
/// assert!(report.chart().svg().starts_with("<svg"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchReport {
    /// Where and when it was measured.
    pub provenance: Provenance,
    /// How the GPU was loaded while it was timed: in a short window, in a burst, or in steady work.
    pub regime: Regime,
    /// The problems, in the order in which they were measured.
    pub problems: Vec<BenchTimes>,
}

/// A benchmark's times for one problem: its configurations, and a copy or read to compare them
/// with.
///
/// ```
/// use tilewright_tune::BenchTimes;
///
/// let times = BenchTimes {
///     problem: "transpose 512x512".into(),
///     bytes: 2_000_000,
///     flops: 0.0,
///     memory: Some(("copy_256x4".into(), vec![1e-6; 3])),
///     configs: vec![("tile_32".into(), vec![2e-6; 3])],
///     rejected: vec![],
/// };
/// // Half as fast as a copy of as many bytes.
/// assert_eq!(times.share(0).map(|share| share.median), Some(0.5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchTimes {
    /// The problem's key: what is printed as its name, and stored with its tuning results.
    pub problem: String,
    /// Bytes that a launch reads and writes.
    pub bytes: u64,
    /// Arithmetic operations of a launch, or 0 if not counted.
    pub flops: f64,
    /// The fastest copy or read of as many bytes: its name, and the seconds per launch in each
    /// round.
    pub memory: Option<(String, Vec<f64>)>,
    /// The configurations' names and seconds per launch in each round. The first is the default.
    pub configs: Vec<(String, Vec<f64>)>,
    /// The configurations that failed or gave a wrong result, each with the reason.
    pub rejected: Vec<(String, String)>,
}

impl BenchTimes {
    /// Returns the speed of configuration `which` relative to the copy or read, round by round: 1
    /// is memory bandwidth. It is `None` if no copy or read was measured, or if there is no such
    /// configuration.
    pub fn share(&self, which: usize) -> Option<Estimate> {
        let (_, memory) = self.memory.as_ref()?;
        Estimate::of_ratios(memory, &self.configs.get(which)?.1, 1)
    }

    /// Returns the GB/s for some times.
    fn speed(&self, seconds: &[f64]) -> Option<f64> {
        median(seconds).map(|seconds| self.bytes as f64 / seconds / 1e9)
    }

    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        (name, seconds): &(String, Vec<f64>),
        share: Option<Estimate>,
    ) -> fmt::Result {
        let Some(Estimate { median, low, high }) = Estimate::of(seconds, 1) else { return Ok(()) };
        let interval = format!("[{:.2}, {:.2}]", low * 1e6, high * 1e6);
        let share = share.map(|of| format!("{:.3} [{:.3}, {:.3}]", of.median, of.low, of.high));
        let (us, bytes) = (median * 1e6, self.bytes as f64 / median / 1e9);
        write!(
            f,
            "{us:>9.2}  {interval:<20} {:>6}  {:<20}",
            number(bytes),
            share.unwrap_or_default()
        )?;
        if self.flops > 0.0 {
            write!(f, "  {} TFLOP/s", number(self.flops / median / 1e12))?;
        }
        writeln!(f, "  {name}")
    }
}

/// One line for the copy or read, one per configuration, and one per rejected configuration.
impl fmt::Display for BenchTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.problem)?;
        self.memory.iter().try_for_each(|memory| self.line(f, memory, None))?;
        for (which, config) in self.configs.iter().enumerate() {
            self.line(f, config, self.share(which))?;
        }
        self.rejected.iter().try_for_each(|(config, why)| writeln!(f, "  {config} {why}"))
    }
}

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; {}", self.provenance, self.regime)?;
        writeln!(f, "       us  interval               GB/s  of copy or read       kernel")?;
        self.problems.iter().try_for_each(|times| times.fmt(f))
    }
}

impl BenchReport {
    /// Returns a chart of GB/s for each problem: the default and the fastest other configuration,
    /// below the copy or read. Use it for the benchmark's figure.
    pub fn chart(&self) -> Chart {
        let split = |times: &BenchTimes| {
            let (name, sizes) = times.problem.rsplit_once(' ').unwrap_or(("", &times.problem));
            [name, sizes].map(str::to_owned)
        };
        let names: Vec<_> = self.problems.iter().map(split).collect();
        let is_one = names.iter().all(|[name, _]| *name == names[0][0]);
        let category = |[name, sizes]: &[String; 2]| {
            let sizes = sizes.replace('x', " x");
            if is_one { sizes } else { format!("{name} {sizes}") }
        };
        let of =
            |speed: &dyn Fn(&BenchTimes) -> Option<f64>| self.problems.iter().map(speed).collect();
        let default = of(&|times| times.speed(&times.configs.first()?.1));
        let fastest = of(&|times| {
            let others = times.configs.iter().skip(1);
            others.filter_map(|(_, seconds)| times.speed(seconds)).max_by(f64::total_cmp)
        });
        let memory = of(&|times| times.speed(&times.memory.as_ref()?.1));
        let mut series = vec![Series::new("default", default).style(SeriesStyle::Main)];
        if self.problems.iter().any(|times| times.configs.len() > 1) {
            series.push(Series::new("fastest of the others", fastest));
        }
        series.push(Series::new("copy or read of as many bytes", memory).style(SeriesStyle::Bound));
        let title = names.first().filter(|_| is_one).map(|[name, _]| name.clone());
        Chart {
            title: title.unwrap_or_default(),
            note: format!("{}; {}", self.provenance, self.regime),
            quantity: "GB/s".to_owned(),
            categories: names.iter().map(category).collect(),
            series,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilewright::runtime::Device;

    #[test]
    fn a_report_prints_and_is_drawn() {
        let times = |sizes: &str, scale: f64| BenchTimes {
            problem: format!("copy of bf16 {sizes}"),
            bytes: 4000,
            flops: 0.0,
            memory: Some(("copy_256x2".to_owned(), vec![1e-6 * scale; 3])),
            configs: vec![
                ("a".to_owned(), vec![2e-6 * scale; 3]),
                ("b".to_owned(), vec![1.25e-6 * scale; 3]),
            ],
            rejected: vec![("c".to_owned(), "wrong: 1 of 2 rows differ".to_owned())],
        };
        let provenance = Provenance::of(&Device::sim().unwrap(), "a test");
        let problems = vec![times("8x100", 1.0), times("8x200", 2.0)];
        let report = BenchReport { provenance, regime: Regime::Latency, problems };
        assert!(report.problems[1].share(1).is_some_and(|share| (share.median - 0.8).abs() < 1e-9));
        assert_eq!(report.problems[1].share(2), None);
        let text = report.problems[0].to_string();
        let expected = [
            "copy of bf16 8x100",
            "     1.00  [1.00, 1.00]              4                        copy_256x2",
            "     2.00  [2.00, 2.00]              2  0.500 [0.500, 0.500]  a",
            "     1.25  [1.25, 1.25]            3.2  0.800 [0.800, 0.800]  b",
            "  c wrong: 1 of 2 rows differ",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let chart = report.chart();
        assert_eq!(
            (chart.title.as_str(), &chart.categories[..]),
            ("copy of bf16", &["8 x100".to_owned(), "8 x200".to_owned()][..])
        );
        let rounded = |value: &Option<f64>| value.map(|value| (value * 1e3).round());
        let values = chart.series.iter().map(|series| series.values.iter().map(rounded).collect());
        let values: Vec<Vec<Option<f64>>> = values.collect();
        let expected = [[2000.0, 1000.0], [3200.0, 1600.0], [4000.0, 2000.0]];
        assert_eq!(values, expected.map(|values| values.map(Some)));
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<BenchReport>(&text).unwrap(), report);
    }
}
