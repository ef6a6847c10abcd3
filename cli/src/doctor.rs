//! `tilewright doctor`: reports what this machine has and whether it works.

mod report;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use tilewright::ir::{Global, GlobalMut, Kernel, Target};
use tilewright::runtime::{
    CudaVersion, Device, Grid, Limits, ModuleCache, Properties, Ptxas, PtxasError, Refusal,
    RuntimeError, driver_release, driver_version,
};

use super::{Failure, print};

/// The options of `tilewright doctor`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 if everything that was found works; 1 if something does not work: \
                  a driver that does not start, a GPU that is not supported, or a test that fails. \
                  A missing driver, GPU or ptxas is not a failure, and neither is a warning."
)]
pub(super) struct Options {
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// A device, and how its test ended.
struct Examined {
    label: String,
    target: Target,
    /// `None` for the simulator.
    properties: Option<Properties>,
    limits: Limits,
    memory: Option<(u64, u64)>,
    test: Result<(), String>,
}

/// The CUDA driver.
struct Driver {
    /// The CUDA version that it implements, if known.
    cuda: Option<CudaVersion>,
    release: Option<String>,
    /// Why no GPU can be used.
    error: Option<RuntimeError>,
}

/// The module cache's folder.
struct Cache {
    folder: PathBuf,
    modules: usize,
    bytes: u64,
    /// Why it cannot be written.
    unwritable: Option<io::Error>,
    /// The last folder or entry that the device tests refused to use.
    refusal: Option<Refusal>,
}

/// Everything that was found: driver, devices, cache and assembler.
struct Report {
    driver: Driver,
    devices: Vec<Examined>,
    /// GPUs that could not be opened.
    refused: Vec<RuntimeError>,
    cache: Option<Cache>,
    ptxas: Result<Option<Ptxas>, PtxasError>,
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
        1 => Err(Failure::run("1 problem was found, see above")),
        count => Err(Failure::run(format!("{count} problems were found, see above"))),
    }
}

fn examine() -> Report {
    let (mut cache, ptxas) = (cache(), Ptxas::try_find());
    let (mut devices, mut refused) = (Vec::new(), Vec::new());
    let count = Device::cuda_count();
    for ordinal in 0..count.as_ref().copied().unwrap_or(0) {
        match Device::cuda(ordinal) {
            Ok(device) => devices.push(examine_device(&device)),
            Err(error) => refused.push(error),
        }
    }
    if let Ok(simulator) = Device::sim() {
        devices.push(examine_device(&simulator));
    }
    if let Some(cache) = &mut cache {
        cache.refusal = ModuleCache::shared().last_refusal();
    }
    let error = count.err();
    let cuda = match driver_version() {
        Ok(version) => Some(version),
        Err(RuntimeError::OldDriver { found, .. }) => Some(found),
        Err(RuntimeError::MissingSymbol { driver, .. }) => Some(driver),
        Err(_) => None,
    };
    let driver = Driver { cuda, release: driver_release(), error };
    Report { driver, devices, refused, cache, ptxas }
}

fn cache() -> Option<Cache> {
    let cache = ModuleCache::shared();
    let (folder, (modules, bytes)) = (cache.folder()?.to_owned(), cache.size());
    let unwritable = check_writable(&folder).err();
    Some(Cache { folder, modules, bytes, unwritable, refusal: None })
}

/// Tries to write a file to the folder and removes it again. If the folder does not exist yet,
/// tries its nearest existing parent, because the folder is created with the first module.
fn check_writable(folder: &Path) -> io::Result<()> {
    let here = Path::new(".");
    let above = folder.ancestors().find(|path| path.exists()).unwrap_or(here);
    let path = above.join(format!(".tilewright-doctor-{}", std::process::id()));
    let written = File::create_new(&path)?.write_all(&[0; 4096]);
    fs::remove_file(&path)?;
    written
}

fn examine_device(device: &Device) -> Examined {
    let memory = device.memory();
    Examined {
        label: device.to_string(),
        target: device.target(),
        properties: device.properties(),
        limits: device.limits(),
        test: memory.as_ref().map_err(RuntimeError::to_string).and_then(|_| test(device)),
        memory: memory.ok().flatten(),
    }
}

/// Builds, loads and launches a kernel, and checks its result.
fn test(device: &Device) -> Result<(), String> {
    type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);
    let kernel = Kernel::<Axpy>::build("axpy", device.target(), |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
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
        Some((i, y)) => {
            Err(format!("element {i} of the test result is {y}, but should be {}", 2 * i + 1))
        }
    }
}
