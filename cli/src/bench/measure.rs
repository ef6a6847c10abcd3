//! Tunes and compares GEMM kernels on a GPU.

use std::fmt::Write;
use std::path::Path;

use serde_json::Error as JsonError;
use tilewright::kernels::gemm::{GemmConfig, GemmProblem};
use tilewright::runtime::Device;
use tilewright_tune::{
    Comparison, Effort, Entry, GemmBench, GemmSpace, GemmTunable, KernelSource, Machine,
    Provenance, Regime, Report, SearchError, Sweep, Tunable, Tuned, TuningStore,
};

use super::super::progress::Meter;
use super::super::{Failure, print};
use super::Gemm;
use super::input::Configs;

pub(super) fn run(
    options: &Gemm,
    device: &Device,
    shapes: &[GemmProblem],
    configs: &Configs,
) -> Result<(), Failure> {
    let space = options.space(device.target());
    if !space.has_types() {
        return Err(not_measured(&space));
    }
    Bench::new(options, device, space)?.run(shapes, configs)
}

/// The error of types that are not tuned.
pub(super) fn not_measured(space: &GemmSpace) -> Failure {
    let GemmSpace { input, output, .. } = space;
    Failure::input(format!("`bench gemm` does not support {input} inputs with {output} results"))
}

/// A benchmark on a GPU, with what it writes at the end.
struct Bench<'o> {
    options: &'o Gemm,
    space: GemmSpace,
    bench: GemmBench,
    device: &'o Device,
    store: TuningStore,
    report: Report,
    sweep: Sweep,
    meter: Meter,
    /// How many phases are done, and how many there are: each problem has three per regime.
    phase: usize,
    phases: usize,
    /// How many problems could not be measured, and how many candidates gave wrong results.
    failed: usize,
    wrong: usize,
}

impl<'o> Bench<'o> {
    fn new(options: &'o Gemm, device: &'o Device, space: GemmSpace) -> Result<Self, Failure> {
        let bench = GemmBench::new(device).map_err(Failure::run)?;
        let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        let mut provenance = Provenance::of(device, format!("tilewright {command}"));
        let version = bench.cublas_version();
        provenance.cublas = version.as_ref().ok().cloned();
        print(&format!("{provenance}; {} to {}\n", space.input, space.output))?;
        if let Err(why) = version {
            print(&format!("without cuBLAS: {why}\n"))?;
        }
        let store = options.store.as_ref().map_or_else(TuningStore::shared, TuningStore::in_folder);
        Ok(Bench {
            options,
            space,
            bench,
            device,
            store,
            sweep: Sweep::new(provenance.clone(), Machine::of(device)),
            report: Report { provenance, comparisons: Vec::new() },
            meter: Meter::new(),
            phase: 0,
            phases: 0,
            failed: 0,
            wrong: 0,
        })
    }

    fn run(mut self, shapes: &[GemmProblem], configs: &Configs) -> Result<(), Failure> {
        print(HEADER)?;
        let given = &self.options.regimes[..];
        let regimes = |problem: &GemmProblem| match given {
            [] => Regime::of_sizes([problem.m, problem.n, problem.k]),
            given => given,
        };
        self.phases = 3 * shapes.iter().map(|problem| regimes(problem).len()).sum::<usize>();
        for (index, problem) in shapes.iter().enumerate() {
            let before =
                shapes[..index].iter().map(|problem| regimes(problem).len()).sum::<usize>();
            for (regime_index, regime) in regimes(problem).iter().enumerate() {
                self.phase = 3 * (before + regime_index);
                let line = self.one(problem, *regime, configs);
                // Write what there is so far, in case the rest fails.
                self.write()?;
                self.meter.clear();
                match line {
                    Ok(line) => print(&line)?,
                    // Continue with the other problems, unless the device is lost.
                    Err(failure) => {
                        self.failed += 1;
                        print(&format!("  {}\n", failure.message))?;
                    }
                }
            }
        }
        for (config, complaint) in self.bench.tuner.complaints() {
            print(&format!("compiler note for {config}: {complaint}\n"))?;
        }
        match (self.failed, self.wrong) {
            (0, 0) => Ok(()),
            (failed, wrong) => Err(Failure::run(format!(
                "problems that could not be measured: {failed}; candidates with wrong results: {wrong}"
            ))),
        }
    }

    /// Tunes and compares one problem. Returns the lines about it.
    fn one(
        &mut self,
        problem: &GemmProblem,
        regime: Regime,
        configs: &Configs,
    ) -> Result<String, Failure> {
        let candidates = configs.of(&self.space, problem, &Machine::of(self.device));
        let product = self.bench.product(&self.space, problem).map_err(Failure::input)?;
        let mut effort = Effort::of(regime);
        match (self.options.candidates, configs) {
            (Some(count), _) => effort.candidates = count as usize,
            (None, Configs::Default) => {}
            (None, Configs::All | Configs::Named(_)) => effort.candidates = candidates.len(),
        }
        let mut order = product.rank(candidates, self.device, regime.quick());
        order.truncate(effort.candidates);
        let mut text = String::new();
        let tuned = self.tune(&product, problem, regime, effort, &order)?;
        for (config, why) in &tuned.rejected {
            let _ = writeln!(text, "  {config} {why}");
            self.wrong += usize::from(matches!(why, tilewright_tune::Rejection::Wrong(_)));
        }
        if let Some(error) = &tuned.store_error {
            let _ = writeln!(text, "  cannot store the results: {error}");
        }
        let sizes @ [m, n, k] = [problem.m, problem.n, problem.k];
        if !tuned.times.is_empty() {
            let times = tuned.times.iter().map(|(config, seconds)| (config, *seconds));
            self.sweep.add(sizes, regime.quick(), times);
        }
        // A programmatic launch overlaps with the previous one, which cuBLAS launches do not, so
        // show both.
        let mut ours = vec![tuned.config];
        if tuned.config.programmatic {
            ours.push(GemmConfig { programmatic: false, ..tuned.config });
        }
        let rounds = self.options.rounds as usize;
        self.start(&format!("{m}x{n}x{k} {regime} compare"), rounds * 5);
        let meter = self.meter.clone();
        let done = move || meter.step();
        let compared = self.bench.compare(&product, regime, &ours, rounds, &done);
        let (comparison, rejected) = compared.map_err(Failure::run)?;
        for (name, why) in rejected {
            let _ = writeln!(text, "  {name} {why}");
        }
        text += &lines(&comparison);
        self.report.comparisons.push(comparison);
        Ok(text)
    }

    fn tune(
        &mut self,
        product: &GemmTunable,
        problem: &GemmProblem,
        regime: Regime,
        effort: Effort,
        order: &[GemmConfig],
    ) -> Result<Tuned<GemmConfig>, Failure> {
        let [m, n, k] = [problem.m, problem.n, problem.k];
        self.start(&format!("{m}x{n}x{k} {regime} build"), order.len());
        let meter = self.meter.clone();
        self.bench.tuner.prepare(order, &|| meter.step());
        self.start(&format!("{m}x{n}x{k} {regime} tune"), order.len() + effort.finalists);
        let done = move || meter.step();
        let tuner = &mut self.bench.tuner;
        let tuned = tuner.search(product, &self.store, effort, regime, order, &done);
        tuned.map_err(|error| match error {
            SearchError::Unsupported { .. } => Failure::input(error),
            error => Failure::run(format!("{m}x{n}x{k} {regime}: {error}")),
        })
    }

    fn start(&mut self, what: &str, steps: usize) {
        self.meter.task(what, self.phase, self.phases);
        self.meter.add_steps(steps);
        self.phase += 1;
    }

    fn write(&self) -> Result<(), Failure> {
        let Gemm { json, svg, sweep, .. } = self.options;
        if let Some(path) = json {
            write(path, serde_json::to_string(&self.report))?;
        }
        if let Some(path) = sweep {
            write(path, serde_json::to_string(&self.sweep))?;
        }
        if let Some(path) = svg {
            write(path, Ok(self.report.chart(&Machine::of(self.device)).svg()))?;
        }
        Ok(())
    }
}

pub(super) fn write(path: &Path, text: Result<String, JsonError>) -> Result<(), Failure> {
    let text = text.map_err(Failure::run)?;
    std::fs::write(path, text)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

const HEADER: &str = "problem              regime        us  TFLOP/s  x cuBLAS                x cuBLASLt              kernel\n";

/// Formats a comparison: each entry with its ratio to cuBLAS and to the best cuBLASLt kernel.
fn lines(comparison: &Comparison) -> String {
    let mut text = String::new();
    for entry in &comparison.entries {
        let Entry { of, name, .. } = entry;
        let Some(seconds) = entry.seconds() else { continue };
        let ratio = |maker: KernelSource| match comparison.ratio(maker, entry) {
            Some(ratio) if *of != maker => {
                format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high)
            }
            _ => "-".to_owned(),
        };
        let (shape, regime) = (comparison.shape(), comparison.regime);
        let speed = comparison.flops() / seconds / 1e12;
        let _ = writeln!(
            text,
            "{shape:<20} {:<7} {:>9.2} {speed:>8.1}  {:<22}  {:<22}  {name}",
            regime.name(),
            seconds * 1e6,
            ratio(KernelSource::Cublas),
            ratio(KernelSource::CublasLt),
        );
    }
    text
}
