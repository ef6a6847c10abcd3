//! The driver of `fake_cuda.rs`, which rustc compiles to a `libcuda.so`, and child processes that find it first.
//!
//! The test file has a test `child`, which runs the case that the environment names in [`CASE`].

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::skip::skip;

const NO_RUSTC: &str = "there is no rustc to build the driver with";

/// Chooses the case that a child process runs.
pub(crate) const CASE: &str = "TILEWRIGHT_DRIVER_CASE";

/// Builds the driver and returns its folder. Without rustc it is `None`, and the test counts as skipped.
pub(crate) fn driver(variant: &str) -> Option<PathBuf> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let found = Command::new(&rustc).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        skip(NO_RUSTC);
        return None;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fake_cuda");
    let folder = folder.join(env!("CARGO_CRATE_NAME")).join(variant);
    std::fs::create_dir_all(&folder).expect("the temporary folder can be made");
    let mut text = include_str!("fake_cuda.rs").to_owned();
    if variant == "without_launch" {
        // A driver that lacks a function is the same text with another name for it.
        text = text.replace("cuLaunchKernelEx", "cuLaunchSomething");
    }
    let source = folder.join("fake_cuda.rs");
    std::fs::write(&source, text).expect("the driver's source can be written");
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-A", "warnings"]).arg(source);
    let library = folder.join("libcuda.so.1");
    let output = command.arg("-o").arg(&library).output().expect("rustc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // `cudarc` looks for the first name before others. The driver is an NCCL library, too.
    for name in ["libcuda.so", "libnccl.so.2"] {
        let linked = folder.join(name);
        let _ = std::fs::remove_file(&linked);
        std::fs::hard_link(&library, &linked).expect("the driver can have a second name");
    }
    Some(folder)
}

/// Returns the folder of a driver that has all functions, built on the first call. Without rustc it is `None`, and the
/// test counts as skipped.
pub(crate) fn complete_driver() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| driver("complete")).as_ref();
    if folder.is_none() {
        // Every test that needs the driver is skipped, not only the first.
        skip(NO_RUSTC);
    }
    folder
}

/// A child process that runs `case` with a driver in `folder`.
pub(crate) fn command(folder: &PathBuf, case: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test has a file"));
    command.args(["--exact", "child", "--nocapture"]).env(CASE, case);
    command.env("LD_LIBRARY_PATH", folder).env_remove("TILEWRIGHT_GPU");
    // The driver counts the memory and the parameters of kernels without checks.
    command.env("TILEWRIGHT_CACHE", "off").env("TILEWRIGHT_CHECKED", "0");
    command.envs(settings.iter().map(|(name, value)| (format!("FAKE_CUDA_{name}"), value)));
    command
}

/// Returns the standard error of a child process. Checks that it succeeded and that its case ran.
pub(crate) fn said(output: &Output, case: &str) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{case}: {text}");
    assert!(text.contains(&format!("case {case} ran")), "{case}: {text}");
    text
}

/// Runs `case` in a child process with a driver in `folder`, and returns what it left.
pub(crate) fn run(folder: &PathBuf, case: &str, settings: &[(&str, &str)]) -> Output {
    let output = command(folder, case, settings).output().expect("the test can be started again");
    said(&output, case);
    output
}

/// Runs a case with the complete driver; it must leave nothing allocated, loaded or retained.
#[track_caller]
pub(crate) fn check(case: &str, settings: &[(&str, &str)]) {
    let Some(folder) = complete_driver() else { return };
    let text = run(folder, case, settings).stderr;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("left 0 0 0, after fault 0"), "{case} {settings:?}: {text}");
}

/// As [`check`], for a case in which no context is made.
#[track_caller]
pub(crate) fn check_refused(case: &str, settings: &[(&str, &str)]) {
    if let Some(folder) = complete_driver() {
        run(folder, case, settings);
    }
}
