//! `tilewright doctor`: what this machine has, and whether it works.

use std::fmt::Write;

use clap::Args;
use tilewright::ir::{Global, GlobalMut, Kernel};
use tilewright::runtime::{Device, Grid, Properties, Ptxas, RuntimeError};

use super::json::Json;
use super::{Failure, print};

/// The options of `tilewright doctor`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// A device and what became of its test.
struct Examined {
    label: String,
    target: String,
    detail: String,
    multiprocessors: Option<u32>,
    memory: Option<(u64, u64)>,
    test: Result<(), String>,
}

/// What was found.
struct Report {
    /// The version of CUDA and the release of the driver, or why there is none.
    driver: Result<(String, Option<String>), RuntimeError>,
    devices: Vec<Examined>,
    /// GPUs that could not be opened.
    refused: Vec<String>,
    cache: Cache,
    ptxas: Option<Ptxas>,
}

/// The folder of the module cache, its entries and bytes.
type Cache = Option<(String, usize, u64)>;

#[cfg(feature = "cuda-any-version")]
fn cache() -> Cache {
    let cache = tilewright::runtime::ModuleCache::shared();
    let (count, bytes) = cache.size();
    Some((cache.folder()?.display().to_string(), count, bytes))
}

#[cfg(not(feature = "cuda-any-version"))]
fn cache() -> Cache {
    None
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let report = examine();
    if options.json {
        print(&format!("{}\n", report.json()))?;
    } else {
        print(&report.text())?;
    }
    match report.problems() {
        0 => Ok(()),
        1 => Err(Failure::run("1 thing does not work, see above")),
        count => Err(Failure::run(format!("{count} things do not work, see above"))),
    }
}

fn examine() -> Report {
    let mut report = Report {
        driver: Err(RuntimeError::NoDriver),
        devices: Vec::new(),
        refused: Vec::new(),
        cache: cache(),
        ptxas: Ptxas::find(),
    };
    let count = Device::cuda_count();
    for ordinal in 0..count.as_ref().copied().unwrap_or(0) {
        match Device::cuda(ordinal) {
            Ok(device) => report.devices.push(examine_device(&device)),
            Err(error) => report.refused.push(error.to_string()),
        }
    }
    report.driver = count.map(|_| {
        let first = Device::cuda(0).ok();
        let version =
            first.as_ref().and_then(Device::cuda_version).map(|version| version.to_string());
        (version.unwrap_or_default(), first.and_then(|device| device.driver_release()))
    });
    if let Ok(simulator) = Device::sim() {
        report.devices.push(examine_device(&simulator));
    }
    report
}

fn examine_device(device: &Device) -> Examined {
    let limits = device.limits();
    let mut detail = format!(
        "{} KiB of shared memory a block, clusters of up to {} blocks",
        limits.shared_bytes_opt_in / 1024,
        limits.cluster_blocks
    );
    if let Some(Properties { multiprocessors, l2_bytes, .. }) = device.properties() {
        let mib = l2_bytes >> 20;
        detail = format!("{multiprocessors} multiprocessors, {mib} MiB of L2 cache, {detail}");
    }
    Examined {
        label: device.to_string(),
        target: device.target().to_string(),
        multiprocessors: device.properties().map(|properties| properties.multiprocessors),
        detail,
        memory: device.memory().ok().flatten(),
        test: test(device),
    }
}

/// Builds a kernel, loads, launches and checks it.
fn test(device: &Device) -> Result<(), String> {
    type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
    let kernel = Kernel::<Axpy>::build("axpy", device.target(), |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |k| y.store(k, i, a * x.load(k, i) + y.load(k, i)));
    });
    let kernel = kernel.map_err(|error| error.to_string())?;
    let run = || -> Result<Vec<f32>, RuntimeError> {
        let function = device.load(&kernel)?;
        let data: Vec<f32> = (0..1000u16).map(f32::from).collect();
        let (x, mut y) = (device.upload(&data)?, device.upload(&[1.0; 1000])?);
        function.launch(Grid::cover(1000, 128), (2.0, &x, &mut y, 1000))?;
        y.to_vec()
    };
    let found = run().map_err(|error| error.to_string())?;
    let wrong = (0..1000u16).zip(&found).find(|(i, y)| **y != 2.0 * f32::from(*i) + 1.0);
    match wrong {
        None => Ok(()),
        Some((i, y)) => Err(format!("element {i} of the test is {y} and should be {}", 2 * i + 1)),
    }
}

impl Report {
    /// What does not work. That there is no driver or no GPU is no problem: the simulator works.
    fn problems(&self) -> usize {
        let driver = match &self.driver {
            Ok(_)
            | Err(RuntimeError::NoDriver | RuntimeError::NoDevice | RuntimeError::CudaNotBuilt) => {
                0
            }
            Err(_) => 1,
        };
        let tests = self.devices.iter().filter(|device| device.test.is_err()).count();
        driver + tests + self.refused.len()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{name:<10}{value}");
        };
        line("version", env!("CARGO_PKG_VERSION"));
        match &self.driver {
            Ok((cuda, release)) => {
                let release = release.as_deref().unwrap_or("of unknown release");
                line("driver", &format!("{release}, CUDA {cuda}"));
            }
            Err(error) => line("driver", &format!("none: {error}")),
        }
        for device in &self.devices {
            line("device", &device.label);
            line("", &format!("builds for {}, {}", device.target, device.detail));
            if let Some((free, total)) = device.memory {
                let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
                line("", &format!("{:.1} of {:.1} GiB free", gib(free), gib(total)));
            }
            match &device.test {
                Ok(()) => line("", "test passed"),
                Err(error) => line("", &format!("TEST FAILED: {error}")),
            }
        }
        for error in &self.refused {
            line("device", &format!("REFUSED: {error}"));
        }
        match &self.cache {
            Some((folder, count, bytes)) => {
                let kib = bytes.div_ceil(1024);
                line("cache", &format!("{folder}: {count} modules, {kib} KiB"));
            }
            None => line("cache", "in memory only"),
        }
        match &self.ptxas {
            Some(ptxas) => {
                line("ptxas", &format!("{} {}", ptxas.path().display(), ptxas.version()));
            }
            None => line("ptxas", "none found, and none needed"),
        }
        text
    }

    fn json(&self) -> Json {
        let device = |device: &Examined| {
            let bytes = |bytes: fn((u64, u64)) -> u64| {
                Json::option(device.memory, |memory| Json::Number(bytes(memory)))
            };
            Json::Object(vec![
                ("name", Json::text(&device.label)),
                ("target", Json::text(&device.target)),
                (
                    "multiprocessors",
                    Json::option(device.multiprocessors, |count| Json::Number(count.into())),
                ),
                ("free_bytes", bytes(|(free, _)| free)),
                ("total_bytes", bytes(|(_, total)| total)),
                ("test", Json::option(device.test.as_ref().err(), Json::text)),
                ("passed", Json::Bool(device.test.is_ok())),
            ])
        };
        let driver = match &self.driver {
            Ok((cuda, release)) => Json::Object(vec![
                ("cuda", Json::text(cuda)),
                ("release", Json::option(release.as_ref(), Json::text)),
                ("error", Json::Null),
            ]),
            Err(error) => Json::Object(vec![
                ("cuda", Json::Null),
                ("release", Json::Null),
                ("error", Json::text(error)),
            ]),
        };
        Json::Object(vec![
            ("version", Json::text(env!("CARGO_PKG_VERSION"))),
            ("driver", driver),
            ("devices", Json::List(self.devices.iter().map(device).collect())),
            ("refused", Json::List(self.refused.iter().map(Json::text).collect())),
            (
                "cache",
                Json::option(self.cache.as_ref(), |(folder, count, bytes)| {
                    Json::Object(vec![
                        ("folder", Json::text(folder)),
                        ("modules", Json::Number(*count as u64)),
                        ("bytes", Json::Number(*bytes)),
                    ])
                }),
            ),
            (
                "ptxas",
                Json::option(self.ptxas.as_ref(), |ptxas| {
                    Json::Object(vec![
                        ("path", Json::text(ptxas.path().display())),
                        ("version", Json::text(ptxas.version())),
                    ])
                }),
            ),
            ("problems", Json::Number(self.problems() as u64)),
        ])
    }
}
