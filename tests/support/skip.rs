//! Counts the tests that cannot run on this machine.
//!
//! libtest counts a test that returns early as passed. `scripts/test` sets `TILEWRIGHT_SKIPPED` to
//! a file and reads the skipped tests from it.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Prints the reason and appends `program::test name`, once per test, to the file that
/// `TILEWRIGHT_SKIPPED` names. The caller then returns, or continues without the part that cannot
/// run.
///
/// Call it on the test's thread, because libtest names that thread after the test.
pub(crate) fn skip(reason: &str) {
    static SKIPPED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let thread = std::thread::current();
    let test = format!("{}::{}", program(), thread.name().unwrap_or("a thread without a name"));
    if !SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).insert(test.clone()) {
        return;
    }
    eprintln!("skipped: {test}: {reason}");
    let Some(path) = std::env::var_os("TILEWRIGHT_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    // A single write, because all test programs append to the same file.
    let written = file.and_then(|mut file| file.write_all(format!("{test}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("TILEWRIGHT_SKIPPED={}: {error}", path.display()));
}

/// Returns the test program's name, without the hash that cargo appends.
fn program() -> String {
    let path = std::env::current_exe().expect("the test has a file");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem.rsplit_once('-') {
        Some((name, hash)) if hash.chars().all(|c| c.is_ascii_hexdigit()) => name.to_owned(),
        _ => stem,
    }
}
