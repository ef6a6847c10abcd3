//! Attacks the module cache: no load is wrong and no error is seen.
//!
//! Sixteen processes use one folder while its files are damaged and writers are killed; other
//! folders cannot be written. In the driver of `support/fake_cuda.rs` the kernel `code_sum` names
//! the code that it runs. Tests beside the cache itself cover each damage alone.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]
#![cfg(target_os = "linux")]

#[path = "support/mod.rs"]
mod support;

use support::{driver, rng};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use driver::{CASE, command, complete_driver, said};
use rng::Rng;
use tilewright::ir::{GlobalMut, Kernel, Target};
use tilewright::runtime::{CacheStats, Device, Grid, LoadOptions, ModuleCache};

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("attack-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Kernels that a worker loads.
const KERNELS: i32 = 6;

/// Writes the sum of the bytes of its code, says the driver; the number makes it another code.
fn kernel(number: i32) -> Kernel<(GlobalMut<u64>,)> {
    Kernel::<(GlobalMut<u64>,)>::build("code_sum", Target::SM_80, |_, (x,)| {
        x.store(number, number as u64 * 100)
    })
    .unwrap()
}

/// Loads each kernel from `folder`, by the disk, and runs it: the code must be its own. Returns
/// what was found.
fn load_all(device: &Device, folder: &Path) -> CacheStats {
    let cache = ModuleCache::in_folder(folder);
    for number in 0..KERNELS {
        let kernel = kernel(number);
        let options = LoadOptions::default().cache(Some(&cache));
        let f = device.load_with(options, &kernel).expect("no error is shown");
        let mut sum = device.zeros::<u64>(1).unwrap();
        f.launch(Grid::cover(1, 1), (&mut sum,)).unwrap();
        let expected: u64 = kernel.ptx().text().bytes().map(u64::from).sum();
        assert_eq!(sum.to_vec().unwrap(), [expected], "the code of another kernel was loaded");
    }
    cache.stats()
}

/// Starts a worker that loads all kernels again and again until there is the file `stop`.
fn worker(driver: &PathBuf, folder: &Folder) -> Child {
    let cache = folder.cache();
    let mut command = command(driver, "loads", &[("CACHE", &cache.to_string_lossy())]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// One of the damages of round `round`, to the file at `path`.
fn damage(path: &Path, all: &[PathBuf], round: usize, rng: &mut Rng) {
    // Another process may have removed or replaced it meanwhile, which is part of the game.
    let Ok(mut bytes) = fs::read(path) else { return };
    if bytes.is_empty() {
        return;
    }
    match round % 6 {
        0 => bytes.truncate(rng.below(bytes.len())),
        1 => {
            let at = rng.below(bytes.len());
            bytes[at] ^= 1 << rng.below(8);
        }
        // An entry of another version of the format.
        2 => {
            if let Some(version) = bytes.get_mut(15) {
                *version = b'9';
            }
        }
        // The entry of another kernel, target or driver under this name.
        3 => bytes = fs::read(rng.pick(all)).unwrap_or_default(),
        4 => bytes.extend([0; 100]),
        _ => {
            let _ = fs::remove_file(path);
            return;
        }
    }
    let _ = fs::write(path, bytes);
}

/// 1,000 damages while sixteen processes load, and writers that are killed at any moment.
#[test]
fn sixteen_processes_load_from_a_folder_under_attack() {
    let Some(driver) = complete_driver() else { return };
    let folder = Folder::new("shared");
    let workers: Vec<Child> = (0..16).map(|_| worker(driver, &folder)).collect();
    let mut victim = worker(driver, &folder);
    let (mut rng, mut damages, mut killed) = (Rng::new(7), 0, 0);
    let begin = Instant::now();
    while damages < 1000 {
        // Processes that ended at once leave nothing to damage.
        assert!(begin.elapsed() < Duration::from_secs(120), "only {damages} damages");
        std::thread::sleep(Duration::from_millis(2));
        let listed = fs::read_dir(folder.cache()).into_iter().flatten().flatten();
        let entries: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
        if entries.is_empty() {
            continue;
        }
        let path = rng.pick(&entries).clone();
        damage(&path, &entries, damages, &mut rng);
        damages += 1;
        if damages.is_multiple_of(50) {
            victim.kill().unwrap();
            victim.wait().unwrap();
            killed += 1;
            victim = worker(driver, &folder);
        }
    }
    fs::write(folder.0.join("stop"), b"").unwrap();
    let (mut loads, mut corrupt) = (0, 0);
    for child in workers.into_iter().chain([victim]) {
        let text = said(&child.wait_with_output().unwrap(), "loads");
        let number = |name: &str| -> u64 {
            let (_, rest) = text.split_once(name).expect(&text);
            rest.split_whitespace().next().and_then(|word| word.parse().ok()).expect(&text)
        };
        loads += number("loads: ");
        corrupt += number("corrupt: ");
    }
    eprintln!(
        "{damages} damages, {killed} killed writers, {loads} loads, {corrupt} entries rebuilt"
    );
    assert!(killed == 20 && loads > 1000 && corrupt > 100, "{loads} loads, {corrupt} rebuilt");

    // When it is over, one pass mends the folder and the next one finds everything.
    for _ in 0..2 {
        let text = once(command(driver, "load_once", &cache_of(&folder.cache())));
        if text.contains(&format!("disk hits: {KERNELS}")) {
            return;
        }
    }
    panic!("the folder does not mend");
}

fn cache_of(folder: &Path) -> [(&'static str, &str); 1] {
    [("CACHE", folder.to_str().unwrap())]
}

fn once(mut command: Command) -> String {
    said(&command.output().unwrap(), "load_once")
}

/// Loads go on from a folder that has no room: every write ends with an error of the system.
#[test]
fn a_folder_without_room_is_no_error() {
    let Some(driver) = complete_driver() else { return };
    let folder = Folder::new("full");
    let plain = command(driver, "load_once", &cache_of(&folder.cache()));
    // The shell gives the process files of no bytes, and an error instead of a signal.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    limited.arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let text = once(limited);
    assert!(text.contains(&format!("write failures: {KERNELS}")), "{text}");
    let left: Vec<_> = fs::read_dir(folder.cache()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    // With room again all is kept.
    once(plain);
    let again = once(command(driver, "load_once", &cache_of(&folder.cache())));
    assert!(again.contains(&format!("disk hits: {KERNELS}")), "{again}");
}

/// A read-only folder gives its entries; a folder that cannot be made gives nothing.
#[test]
fn a_folder_that_cannot_be_written_is_no_error() {
    use std::os::unix::fs::PermissionsExt;
    let Some(driver) = complete_driver() else { return };
    let nowhere = Path::new("/proc/tilewright/cache");
    let text = once(command(driver, "load_once", &cache_of(nowhere)));
    assert!(text.contains(&format!("write failures: {KERNELS}")), "{text}");

    let folder = Folder::new("read-only");
    once(command(driver, "load_once", &cache_of(&folder.cache())));
    let entries: Vec<_> = fs::read_dir(folder.cache()).unwrap().flatten().collect();
    fs::write(entries[0].path(), b"damaged").unwrap();
    let set = |mode| fs::set_permissions(folder.cache(), fs::Permissions::from_mode(mode)).unwrap();
    set(0o555);
    let text = once(command(driver, "load_once", &cache_of(&folder.cache())));
    set(0o755);
    // The superuser may write everywhere.
    let is_mended = text.contains("write failures: 0");
    let is_refused = text.contains("write failures: 1");
    let hits = KERNELS - 1;
    assert!(is_mended || is_refused, "{text}");
    assert!(text.contains(&format!("disk hits: {hits}")) && text.contains("corrupt: 1"), "{text}");
}

/// The cases, when this is a child process.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let folder = PathBuf::from(std::env::var("FAKE_CUDA_CACHE").unwrap());
    let device = Device::cuda(0).unwrap();
    match case.as_str() {
        "loads" => {
            let stop = folder.parent().unwrap().join("stop");
            let (mut loads, mut corrupt) = (0, 0);
            while !stop.exists() {
                corrupt += load_all(&device, &folder).corrupt;
                loads += KERNELS;
                // Seventeen of these share a machine with the process that damages files.
                std::thread::sleep(Duration::from_millis(10));
            }
            eprintln!("loads: {loads} corrupt: {corrupt} ");
        }
        "load_once" => {
            let stats = load_all(&device, &folder);
            let CacheStats { disk_hits, corrupt, write_failures, .. } = stats;
            eprintln!(
                "disk hits: {disk_hits} corrupt: {corrupt} write failures: {write_failures} "
            );
        }
        _ => panic!("no such case"),
    }
    eprintln!("case {case} ran");
}
