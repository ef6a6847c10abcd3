//! [`Measurement`]: the options and the steps that benchmarks of tunable kernels share.

use std::path::PathBuf;

use clap::Args;
use tilewright::runtime::{Device, DeviceChoice};
use tilewright_tune::{BenchOptions, BenchProgress, Regime, Tunable, bench_on};

use super::super::progress::Meter;
use super::super::{Failure, print};
use super::candidates::Candidates;

/// Where and how long kernels are measured, and where the results go.
#[derive(Args, Debug)]
pub(super) struct Measurement {
    /// How many comparison rounds to run.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Device to run on: `auto` (a GPU if there is one), `cuda` or `cuda:N`; `sim` times the
    /// simulator.
    #[arg(long, default_value = "auto")]
    pub(super) device: DeviceChoice,
    /// Write every round to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw a chart in this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Measurement {
    /// Opens the device. Only `--device sim` opens the simulator.
    pub(super) fn open(&self, meter: &Meter) -> Result<Device, Failure> {
        let device = meter.open(self.device).map_err(Failure::input)?;
        if device.is_sim() && self.device != DeviceChoice::Sim {
            return Err(Failure::input(
                "this benchmark needs a GPU, but none was found: with `--device sim` it times the simulator instead",
            ));
        }
        Ok(device)
    }

    /// Measures the kernels, and prints the report.
    pub(super) fn run<K: Tunable>(
        &self,
        meter: &Meter,
        device: &Device,
        kernels: &[K],
        configs: Candidates,
        regime: Regime,
    ) -> Result<(), Failure> {
        let options = BenchOptions {
            device: self.device,
            regime,
            rounds: self.rounds as usize,
            configs: configs.into(),
            json: self.json.clone(),
            svg: self.svg.clone(),
            ..BenchOptions::default()
        };
        let hear = |progress: &BenchProgress<'_>| meter.bench(progress);
        let report = bench_on(device, kernels, &options, &hear).map_err(Failure::run)?;
        meter.clear();
        print(&report.to_string())
    }
}
