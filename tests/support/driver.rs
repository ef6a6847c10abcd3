//! Builds `fake_cuda.rs` as a `libcuda.so`, and runs child processes that load it in place of the
//! real driver.
//!
//! The test file must have a test `child`, which runs the case that the environment variable
//! [`CASE`] names.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::skip::skip;

const NO_RUSTC: &str = "there is no rustc to build the driver with";

/// The environment variable that chooses a child process's case.
pub(crate) const CASE: &str = "TILEWRIGHT_DRIVER_CASE";

/// Builds the driver and returns its folder. Without rustc, returns `None`, and the test counts as
/// skipped.
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
        // To build a driver that lacks a function, rename the function in the source.
        text = text.replace("cuLaunchKernelEx", "cuLaunchSomething");
    }
    let source = folder.join("fake_cuda.rs");
    std::fs::write(&source, text).expect("the driver's source can be written");
    let mut command = Command::new(rustc);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-A", "warnings"]).arg(source);
    let library = folder.join("libcuda.so.1");
    let output = command.arg("-o").arg(&library).output().expect("rustc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // `cudarc` tries the first name before others. The driver is also an NCCL library.
    for name in ["libcuda.so", "libnccl.so.2"] {
        let linked = folder.join(name);
        let _ = std::fs::remove_file(&linked);
        std::fs::hard_link(&library, &linked).expect("the driver can have a second name");
    }
    Some(folder)
}

/// Returns the folder of a driver with all functions, which the first call builds. Without rustc,
/// returns `None`, and the test counts as skipped.
pub(crate) fn complete_driver() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| driver("complete")).as_ref();
    if folder.is_none() {
        // Not only the first test that needs the driver is skipped, but every one.
        skip(NO_RUSTC);
    }
    folder
}

/// Returns a command for a child process that runs `case` with the driver in `folder`.
pub(crate) fn command(folder: &PathBuf, case: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the test has a file"));
    command.args(["--exact", "child", "--nocapture"]).env(CASE, case);
    command.env("LD_LIBRARY_PATH", folder).env_remove("TILEWRIGHT_GPU");
    // The driver counts memory and parameters of kernels without checks.
    command.env("TILEWRIGHT_CACHE", "off").env("TILEWRIGHT_CHECKED", "0");
    command.envs(settings.iter().map(|(name, value)| (format!("FAKE_CUDA_{name}"), value)));
    command
}

/// Returns a child process's standard error, after checking that it succeeded and that its case
/// ran.
pub(crate) fn said(output: &Output, case: &str) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{case}: {text}");
    assert!(text.contains(&format!("case {case} ran")), "{case}: {text}");
    text
}

/// Runs `case` in a child process with the driver in `folder`, and returns its output.
pub(crate) fn run(folder: &PathBuf, case: &str, settings: &[(&str, &str)]) -> Output {
    let output = command(folder, case, settings).output().expect("the test can be started again");
    said(&output, case);
    output
}

/// Runs a case with the complete driver. It must leave nothing allocated, loaded or retained.
#[track_caller]
pub(crate) fn check(case: &str, settings: &[(&str, &str)]) {
    let Some(folder) = complete_driver() else { return };
    let text = run(folder, case, settings).stderr;
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("left 0 0 0, after fault 0"), "{case} {settings:?}: {text}");
}

/// Like [`check`], but for a case that creates no context.
#[track_caller]
pub(crate) fn check_refused(case: &str, settings: &[(&str, &str)]) {
    if let Some(folder) = complete_driver() {
        run(folder, case, settings);
    }
}
