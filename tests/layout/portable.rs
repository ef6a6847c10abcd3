//! Checks that the crate without default features is pure Rust with few dependencies.
//!
//! It needs no CUDA, no C library and no build script; the layout layer uses nothing of an
//! operating system.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The root of the library.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The crates that may be linked without default features.
const ALLOWED: [&str; 4] = ["num-integer", "num-rational", "num-traits", "smallvec"];

#[test]
fn few_crates_are_linked() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "tilewright",
            "--no-default-features",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{p}", "--offline"])
        .current_dir(ROOT)
        .output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let found: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "tilewright")
        .collect();
    assert_eq!(found, BTreeSet::from(ALLOWED), "update the reasons in Cargo.toml");
}

#[test]
fn there_is_no_build_script() {
    let root = Path::new(ROOT);
    assert!(!root.join("build.rs").exists());
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the manifest is there");
    let keys = |word: &str| manifest.lines().any(|line| line.trim_start().starts_with(word));
    assert!(!keys("build =") && !keys("links =") && !keys("[build-dependencies"));
}

/// The text of the sources below `folder`, with their names.
fn sources(folder: &Path, out: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else {
            let text = std::fs::read_to_string(&path).expect("a source file");
            out.push((path.display().to_string(), text));
        }
    }
}

/// Modules of `std` that are the same everywhere, also on a machine without files, threads or a
/// clock.
const EVERYWHERE: [&str; 18] = [
    "borrow",
    "cell",
    "cmp",
    "collections",
    "convert",
    "error",
    "fmt",
    "hash",
    "iter",
    "marker",
    "mem",
    "num",
    "ops",
    "result",
    "slice",
    "str",
    "string",
    "sync",
];

#[test]
fn layouts_need_no_operating_system() {
    let mut all = Vec::new();
    sources(&Path::new(ROOT).join("src/layout"), &mut all);
    assert!(all.len() > 40, "{} files", all.len());
    for (name, text) in &all {
        for part in text.split("std::").skip(1) {
            let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '_');
            let module = part.get(..end.unwrap_or(part.len())).unwrap_or("");
            assert!(EVERYWHERE.contains(&module), "{name} uses std::{module}");
        }
        for word in ["libc::", "cudarc", "extern \"", "#[link"] {
            assert!(!text.contains(word), "{name} has `{word}`");
        }
    }
}
