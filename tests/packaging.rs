//! Checks the published crate: its dependencies, and that its files are complete.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs cargo without network and returns its output.
fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(args).args(["--offline", "--locked"]);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// The crates that a program builds which depends on the library with these features, the library not counted.
fn dependencies(features: &[&str]) -> BTreeSet<String> {
    let tree = ["tree", "--package", "tilewright", "--edges", "normal", "--prefix", "none"];
    let tree = cargo(&[&tree, features].concat());
    let crates = tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
    crates.filter(|line| !line.is_empty() && !line.starts_with("tilewright ")).collect()
}

/// A user of the library builds at most 20 crates, and none of the command line.
#[test]
fn the_library_has_few_dependencies() {
    let found = dependencies(&[]);
    assert!(found.len() > 5 && found.len() <= 20, "{} crates: {found:#?}", found.len());
    let of_cli =
        |name: &&String| ["clap ", "indicatif ", "serde "].iter().any(|cli| name.starts_with(cli));
    assert_eq!(found.iter().find(of_cli), None);
    let none = dependencies(&["--no-default-features"]);
    assert!(none.len() <= 5, "{} crates without features: {none:#?}", none.len());
}

/// Each file that a packaged source includes or names as a module is packaged too, and no file of the tests is.
#[test]
fn the_package_is_complete() {
    let list = cargo(&["package", "--package", "tilewright", "--list", "--allow-dirty"]);
    let list: BTreeSet<&str> = list.lines().collect();
    for needed in [
        "Cargo.toml",
        "README.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "src/lib.rs",
        "examples/cudarc.rs",
        "examples/gemm.rs",
    ] {
        assert!(list.contains(needed), "{needed} is not packaged");
    }
    for path in &list {
        assert!(
            !["tests/", "cli/", "fuzz/", "benches/"].iter().any(|folder| path.starts_with(folder)),
            "{path}"
        );
        if !path.ends_with(".rs") {
            continue;
        }
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        for mark in ["include_str!(\"", "include_bytes!(\"", "include!(\"", "#[path = \""] {
            for (at, _) in text.match_indices(mark) {
                let named = text[at + mark.len()..].split('"').next().unwrap_or_default();
                let folder = Path::new(path).parent().expect("a file is in a folder");
                let mut file = std::path::PathBuf::new();
                for part in folder.join(named).components() {
                    match part {
                        std::path::Component::ParentDir => {
                            assert!(file.pop(), "{path} names {named}")
                        }
                        part => file.push(part),
                    }
                }
                let file = file.to_str().expect("text").to_owned();
                assert!(
                    list.contains(file.as_str()),
                    "{path} includes {file}, which is not packaged"
                );
            }
        }
    }
}

/// Pages outside of the repository show the README's pictures: their links are absolute, and name files that there are.
#[test]
fn pictures_of_the_readme_have_absolute_links() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).expect("the README can be read");
    let links: Vec<&str> = readme
        .match_indices("![")
        .filter_map(|(at, _)| readme[at..].split_once("](")?.1.split(')').next())
        .collect();
    assert!(!links.is_empty());
    let repository = concat!(env!("CARGO_PKG_REPOSITORY"), "/raw/HEAD/");
    for link in links {
        let file = link.strip_prefix(repository);
        let file = file.unwrap_or_else(|| panic!("{link} does not begin with {repository}"));
        assert!(root.join(file).is_file(), "{file} does not exist");
    }
}
