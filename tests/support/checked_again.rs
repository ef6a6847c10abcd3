//! Runs tests again with checks in their kernels' code.

use std::process::Command;

/// Runs this program's tests whose names start with one of `tests` again, in a child process on the
/// simulator, with checks in every kernel that a device loads. Does nothing inside that process.
pub(crate) fn checked_again(tests: &[&str]) {
    if std::env::var("TILEWRIGHT_CHECKED").is_ok_and(|value| value == "1") {
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("the test has a file"));
    command.args(tests).env("TILEWRIGHT_CHECKED", "1").env_remove("TILEWRIGHT_GPU");
    let output = command.output().expect("the test can be started again");
    let [said, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{said}\n{errors}");
    assert!(!said.contains(" 0 passed"), "{said}");
}
