//! Turns a GEMM benchmark's [`Report`] into speedups over cuBLAS with confidence intervals, and
//! into a chart. Call these methods on a report that you have measured or read from a file.

use super::chart::{Chart, Series, SeriesStyle};
use super::record::{Comparison, Entry, KernelSource, Report};
use super::stats::{Estimate, median};
use tilewright::ir::types::Scalar;
use tilewright::kernels::gemm::{InputTypes, Machine, Regime};

impl Entry {
    /// Returns the median time in seconds, or `None` if no round was timed.
    pub fn seconds(&self) -> Option<f64> {
        median(&self.seconds)
    }
}

impl Comparison {
    /// Returns how many floating-point operations a launch does. Divide them by a time to get
    /// FLOP/s.
    pub fn flops(&self) -> f64 {
        2.0 * self.sizes.map(f64::from).into_iter().product::<f64>()
    }

    /// Returns the fastest of the kernels that come from `maker`, or `None` if there are none.
    pub fn best_of(&self, maker: KernelSource) -> Option<&Entry> {
        let timed = self.entries.iter().filter(|entry| entry.of == maker);
        timed
            .filter_map(|entry| Some((entry, entry.seconds()?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(entry, _)| entry)
    }

    /// Returns how many times faster `entry` is than the best of `maker`: the median of the
    /// per-round ratios. Its confidence interval says whether the difference is real. It is `None`
    /// if `maker` has no kernel.
    pub fn ratio(&self, maker: KernelSource, entry: &Entry) -> Option<Estimate> {
        Estimate::of_ratios(&self.best_of(maker)?.seconds, &entry.seconds, 0)
    }

    /// Returns the sizes as text, for tables and charts: `8192` for a cube, or `16x4096x14336`.
    pub fn shape(&self) -> String {
        match self.sizes {
            [m, n, k] if m == n && n == k => m.to_string(),
            [m, n, k] => format!("{m}x{n}x{k}"),
        }
    }
}

impl Report {
    /// Returns a chart of TFLOP/s for each problem and regime: this crate's best, cuBLAS and the
    /// best of cuBLASLt, below the device's roofline at full clock. Use it for the benchmark's
    /// figure.
    pub fn chart(&self, machine: &Machine) -> Chart {
        let category = |comparison: &Comparison| {
            // One line per size.
            let shape = comparison.shape().replace('x', " x");
            format!("{shape} {}", comparison.regime)
        };
        let of = |maker: KernelSource| -> Vec<Option<f64>> {
            let speed = |comparison: &Comparison| {
                Some(comparison.flops() / comparison.best_of(maker)?.seconds()? / 1e12)
            };
            self.comparisons.iter().map(speed).collect()
        };
        let bound = self.comparisons.iter().map(|comparison| roofline(machine, comparison));
        let makers = [
            ("tilewright", KernelSource::Tilewright, SeriesStyle::Main),
            ("cuBLAS", KernelSource::Cublas, SeriesStyle::Bar),
            ("cuBLASLt, best of its first 8", KernelSource::CublasLt, SeriesStyle::Bar),
        ];
        let lines =
            makers.into_iter().map(|(name, maker, look)| Series::new(name, of(maker)).style(look));
        let mut series: Vec<Series> =
            lines.filter(|series| series.values.iter().any(Option::is_some)).collect();
        series
            .push(Series::new("roofline at full clock", bound.collect()).style(SeriesStyle::Bound));
        let types = self.comparisons.first().map(|comparison| comparison.types.join(" to "));
        Chart {
            title: format!("Matrix products, {}", types.unwrap_or_default()),
            note: self.provenance.to_string(),
            quantity: "TFLOP/s".to_owned(),
            categories: self.comparisons.iter().map(category).collect(),
            series,
        }
    }

    /// Returns the comparisons in one regime, for example to print a table for it.
    pub fn of(&self, regime: Regime) -> impl Iterator<Item = &Comparison> {
        self.comparisons.iter().filter(move |comparison| comparison.regime == regime)
    }
}

/// Returns the roofline in TFLOP/s: the lower of the tensor cores' peak at full clock and what
/// memory bandwidth allows if each matrix is moved once. `None` if the type names do not parse.
fn roofline(machine: &Machine, comparison: &Comparison) -> Option<f64> {
    let [inputs, output] = &comparison.types;
    let (inputs, output): (InputTypes, Scalar) = (inputs.parse().ok()?, output.parse().ok()?);
    let [a, b, d] = [inputs.a, inputs.b, output].map(|scalar| f64::from(scalar.size_bytes()));
    let [m, n, k] = comparison.sizes.map(f64::from);
    // Per SM and cycle: 8192 operations on 8-bit types, half as many on 16-bit types, and 256 on
    // `f64` and without tensor cores.
    let of_cycle = match inputs.a {
        Scalar::F32 | Scalar::F64 => 256.0,
        _ => 8192.0 / a,
    };
    let peak = of_cycle * f64::from(machine.sms) * machine.clock_hz;
    let traffic = m * k * a + k * n * b + m * n * d;
    let memory = comparison.flops() / traffic * machine.memory_bytes_per_s;
    Some(peak.min(memory) / 1e12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Provenance;
    use tilewright::runtime::Device;

    fn report() -> Report {
        let entry = |of, name: &str, seconds: [f64; 3]| Entry {
            of,
            name: name.into(),
            seconds: seconds.into(),
        };
        let comparison = |sizes, regime| Comparison {
            sizes,
            types: ["bf16".into(), "bf16".into()],
            regime,
            entries: vec![
                entry(KernelSource::Tilewright, "a", [1.0, 2.0, 4.0]),
                entry(KernelSource::Tilewright, "b", [3.0, 3.0, 3.0]),
                entry(KernelSource::Cublas, "cuBLAS", [2.0, 3.0, 4.0]),
            ],
        };
        Report {
            provenance: Provenance::of(&Device::sim().unwrap(), "a test"),
            comparisons: vec![
                comparison([8192; 3], Regime::Burst),
                comparison([16, 4096, 14336], Regime::Latency),
            ],
        }
    }

    /// The ratio is the median of the rounds' ratios, not a ratio of medians.
    #[test]
    fn ratios_are_those_of_rounds() {
        let report = report();
        let comparison = &report.comparisons[0];
        let best = comparison.best_of(KernelSource::Tilewright).unwrap();
        assert_eq!((best.name.as_str(), best.seconds()), ("a", Some(2.0)));
        // 2, 1.5 and 1.
        assert_eq!(comparison.ratio(KernelSource::Cublas, best).unwrap().median, 1.5);
        assert_eq!(comparison.ratio(KernelSource::CublasLt, best), None);
        assert_eq!(comparison.flops(), 2.0 * 8192f64.powi(3));
        assert_eq!(report.of(Regime::Steady).count(), 0);
        assert_eq!(report.of(Regime::Latency).next().unwrap().shape(), "16x4096x14336");
    }

    #[test]
    fn the_chart_has_the_makers_that_were_timed() {
        let chart = report().chart(&Machine::H200);
        assert_eq!(chart.categories, ["8192 burst", "16 x4096 x14336 latency"]);
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["tilewright", "cuBLAS", "roofline at full clock"]);
        // 4096 x 132 x 1.98 GHz; and 1.88 GFLOP over 118 MB at 4.4 TB/s.
        let bounds: Vec<f64> = chart.series[2].values.iter().flatten().copied().collect();
        assert!((bounds[0] - 1070.5).abs() < 0.1 && (bounds[1] - 70.0).abs() < 1.0, "{bounds:?}");
        // Twice as many operations on 8 bits.
        let mut comparison = report().comparisons.remove(0);
        comparison.types[0] = "f8e4m3xf8e5m2".to_owned();
        assert_eq!(roofline(&Machine::H200, &comparison), Some(2.0 * bounds[0]));
        comparison.types[0] = "e4m3".to_owned();
        assert_eq!(roofline(&Machine::H200, &comparison), None);
    }
}
