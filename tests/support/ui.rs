//! Checks programs that must not compile.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// The toolchain whose error texts the `.stderr` files contain.
const PINNED: &str = "rustc 1.95.0";

/// Checks that no program in `tests/<folder>/*.rs` compiles. The error text is compared with the
/// program's `.stderr` file only on the pinned toolchain, because it changes from release to
/// release.
pub(crate) fn check_does_not_compile(folder: &str) {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = Command::new(rustc).arg("--version").output().expect("rustc runs");
    if String::from_utf8_lossy(&version.stdout).starts_with(PINNED) {
        return trybuild::TestCases::new().compile_fail(format!("{folder}/*.rs"));
    }
    // Without `.stderr` files, trybuild ends in one of two ways: it says which programs compiled
    // or, if none did, that it wrote the error texts of all of them.
    let copies = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&copies).expect("the temporary folder can be made");
    for entry in std::fs::read_dir(folder).expect("the programs exist") {
        let path = entry.expect("the folder can be listed").path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_name().expect("it has an extension, so it has a name");
            std::fs::copy(&path, copies.join(name)).expect("the program can be copied");
        }
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        trybuild::TestCases::new().compile_fail(copies.join("*.rs"));
    }));
    let message = match outcome {
        Ok(()) => return,
        Err(payload) => match payload.downcast::<String>() {
            Ok(text) => *text,
            Err(payload) => (*payload.downcast::<&str>().unwrap_or(Box::new(""))).to_owned(),
        },
    };
    assert!(message.contains("successfully created new stderr files"), "{message}");
}
