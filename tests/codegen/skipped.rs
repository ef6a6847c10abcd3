//! Checks that a test that cannot run is counted as skipped.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::support::skip::skip;

/// Makes a test that a child process runs call [`skip`].
const CHILD: &str = "TILEWRIGHT_SKIP_CHILD";

#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        skip("the first reason");
        skip("the second reason");
    }
}

/// Runs one test of this program in a child process and returns its output with the lines it left
/// in the file.
fn run(test: &str, name: &str, settings: &[(&str, &str)]) -> (Output, String) {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("skipped-{name}.txt"));
    std::fs::write(&file, "other::test\n").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("TILEWRIGHT_SKIPPED", &file);
    command.env_remove("TILEWRIGHT_REQUIRE_PTXAS").envs(settings.iter().copied());
    // One thread would be the main thread, which is not named after the test.
    let output = command.env("RUST_TEST_THREADS", "2").output().unwrap();
    let lines = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    (output, lines)
}

#[test]
fn a_skipped_test_is_named_once() {
    let (output, lines) = run("skipped::child", "twice", &[(CHILD, "1")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(lines, "other::test\ncodegen::skipped::child\n");
    assert!(said.contains("skipped: codegen::skipped::child: the first reason\n"), "{said}");
    let (output, lines) = run("skipped::child", "not", &[]);
    assert!(output.status.success() && lines == "other::test\n", "{lines}");
}

#[test]
fn a_missing_ptxas_is_counted_and_an_error_where_it_is_required() {
    let missing = ("TILEWRIGHT_PTXAS", "/nonexistent/ptxas");
    let (output, lines) = run("ptxas::lines_for_profilers", "missing", &[missing]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(lines, "other::test\ncodegen::ptxas::lines_for_profilers\n");
    let required = [missing, ("TILEWRIGHT_REQUIRE_PTXAS", "1")];
    let (output, lines) = run("ptxas::lines_for_profilers", "required", &required);
    assert!(!output.status.success() && lines == "other::test\n", "{lines}");
}
