//! Runs NVIDIA's `ptxas`, if there is one.
//!
//! It is looked for in the environment variable `TILEWRIGHT_PTXAS`, then where `scripts/test` puts
//! it, then on the `PATH`. If there is none, a test counts as skipped; with
//! `TILEWRIGHT_REQUIRE_PTXAS=1` it fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::skip::skip;

/// The path of the `ptxas` that `scripts/test` fetches.
const FETCHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/ptxas/ptxas");

/// A `ptxas` that runs.
#[derive(Clone, Debug)]
pub(crate) struct Ptxas(PathBuf);

fn runs(path: &Path) -> bool {
    Command::new(path).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn look() -> Result<Ptxas, String> {
    if let Some(named) = std::env::var_os("TILEWRIGHT_PTXAS") {
        let path = PathBuf::from(named);
        let problem = format!("TILEWRIGHT_PTXAS names `{}`, which does not run", path.display());
        return if runs(&path) { Ok(Ptxas(path)) } else { Err(problem) };
    }
    [FETCHED, "ptxas"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| runs(path))
        .map(Ptxas)
        .ok_or_else(|| "there is no ptxas; `scripts/test` fetches one into target/ptxas".to_owned())
}

/// Returns the assembler. If there is none, returns `None`, and the test counts as skipped.
///
/// # Panics
/// Panics if `TILEWRIGHT_REQUIRE_PTXAS=1` is set and there is none.
pub(crate) fn find() -> Option<Ptxas> {
    static FOUND: OnceLock<Result<Ptxas, String>> = OnceLock::new();
    match FOUND.get_or_init(look) {
        Ok(ptxas) => Some(ptxas.clone()),
        Err(problem) => {
            let required =
                std::env::var("TILEWRIGHT_REQUIRE_PTXAS").is_ok_and(|value| value == "1");
            assert!(!required, "TILEWRIGHT_REQUIRE_PTXAS is 1, but {problem}");
            skip(problem);
            None
        }
    }
}

impl Ptxas {
    /// Assembles a module, and treats warnings and remarks as errors. The only exception is the
    /// advice to use a target with suffix `a` for multicast copies, which plain `sm_90` supports,
    /// too.
    ///
    /// # Errors
    /// What `ptxas` says, with the line of the text that it names.
    pub(crate) fn assemble(&self, ptx: &str, target: &str, options: &[&str]) -> Result<(), String> {
        self.run(ptx, target, options, false)
    }

    /// Like [`assemble`](Ptxas::assemble), but accepts remarks about speed.
    pub(crate) fn accept(&self, ptx: &str, target: &str, options: &[&str]) -> Result<(), String> {
        self.run(ptx, target, options, true)
    }

    /// Assembles a module and returns the verbose output: registers, spills, local memory, remarks.
    pub(crate) fn report(&self, ptx: &str, target: &str) -> Result<String, String> {
        let (said, success, source) = self.said(ptx, target, &["--verbose"])?;
        let _ = std::fs::remove_file(&source);
        if success { Ok(said) } else { Err(said) }
    }

    fn run(
        &self,
        ptx: &str,
        target: &str,
        options: &[&str],
        with_remarks: bool,
    ) -> Result<(), String> {
        let (said, success, source) = self.said(ptx, target, options)?;
        let is_advice = |line: &&str| {
            line.contains("Advisory: '.multicast::cluster'")
                || (with_remarks && line.starts_with("ptxas info"))
        };
        let said: Vec<&str> = said.lines().filter(|line| !is_advice(line)).collect();
        let said = said.join("\n").trim().to_owned();
        if success && said.is_empty() {
            let _ = std::fs::remove_file(&source);
            return Ok(());
        }
        // The source is kept for a closer look.
        let line = said
            .split_once("line ")
            .and_then(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next())
            .and_then(|number| number.parse::<usize>().ok())
            .and_then(|number| ptx.lines().nth(number.checked_sub(1)?))
            .unwrap_or_default();
        Err(format!("{} for {target}: {said}\n  {line}", source.display()))
    }

    /// Assembles the text. Returns the messages, whether it succeeded, and the file with the text.
    fn said(
        &self,
        ptx: &str,
        target: &str,
        options: &[&str],
    ) -> Result<(String, bool, PathBuf), String> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let stem = format!("{}-{count}.{target}", std::process::id());
        // Cargo creates this folder. If the test program was copied to another machine, it uses the
        // system's folder for temporary files.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = if folder.is_dir() { folder.to_owned() } else { std::env::temp_dir() };
        let file = folder.join(stem);
        let (source, object) = (file.with_extension("ptx"), file.with_extension("cubin"));
        let say = |error: std::io::Error| format!("{}: {error}", source.display());
        std::fs::write(&source, ptx).map_err(say)?;
        let output = Command::new(&self.0)
            .args(["--gpu-name", target, "--output-file"])
            .args([&object, &source])
            .args(options)
            .output()
            .map_err(say)?;
        let _ = std::fs::remove_file(&object);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok((said, output.status.success(), source))
    }
}
