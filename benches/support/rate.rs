//! Wall-clock time, with throughput in floating-point operations per second.

use std::time::{Duration, Instant};

use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};

/// Wall-clock time whose [`Throughput::Elements`] count floating-point operations.
pub(crate) struct Flops;

impl Measurement for Flops {
    type Intermediate = Instant;
    type Value = Duration;

    fn start(&self) -> Instant {
        WallTime.start()
    }

    fn end(&self, start: Instant) -> Duration {
        WallTime.end(start)
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        WallTime.add(a, b)
    }

    fn zero(&self) -> Duration {
        WallTime.zero()
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &FlopsFormatter
    }
}

struct FlopsFormatter;

impl ValueFormatter for FlopsFormatter {
    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_values(typical, values)
    }

    /// Values are in nanoseconds.
    fn scale_throughputs(
        &self,
        typical: f64,
        throughput: &Throughput,
        values: &mut [f64],
    ) -> &'static str {
        let Throughput::Elements(flops) = *throughput else {
            return WallTime.formatter().scale_throughputs(typical, throughput, values);
        };
        let rate = |nanoseconds: f64| flops as f64 * 1e9 / nanoseconds;
        let units = [(1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s"), (1.0, "FLOP/s")];
        let fits = |(scale, _): &&(f64, &str)| rate(typical) >= *scale;
        let (scale, unit) = units.iter().find(fits).copied().unwrap_or((1.0, "FLOP/s"));
        for value in values {
            *value = rate(*value) / scale;
        }
        unit
    }

    fn scale_for_machines(&self, values: &mut [f64]) -> &'static str {
        WallTime.formatter().scale_for_machines(values)
    }
}
