//! Checks the published crate: its dependencies, and that its files are complete.
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The root of the library.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs cargo without network and returns its output.
fn cargo(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
    let mut command = Command::new(cargo);
    command.current_dir(ROOT).args(args).args(["--offline", "--locked"]);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints text")
}

/// The crates that a program builds which depends on the library with these features, the library
/// not counted.
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

/// Each file that a packaged source includes or names as a module is packaged too, and no file of
/// the tests is.
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
            !["tests/", "cli/", "tune/", "fuzz/", "benches/"]
                .iter()
                .any(|folder| path.starts_with(folder)),
            "{path}"
        );
        if !path.ends_with(".rs") {
            continue;
        }
        let text = fs::read_to_string(Path::new(ROOT).join(path));
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

/// The README's pictures are found by relative links, in a clone as well as on the pages that show
/// the repository.
#[test]
fn pictures_of_the_readme_are_files() {
    let root = Path::new(ROOT);
    let readme = fs::read_to_string(root.join("README.md")).expect("the README can be read");
    let links: Vec<&str> = readme
        .match_indices("![")
        .filter_map(|(at, _)| readme[at..].split_once("](")?.1.split(')').next())
        .collect();
    assert!(!links.is_empty());
    for link in links {
        assert!(root.join(link).is_file(), "{link} does not exist");
    }
}

/// rustdoc writes a page for each macro of the notation where readers look for it, although the
/// macros themselves are hidden names in the root of the crate. Documenting the whole library takes
/// minutes, so this documents its exports alone.
#[test]
fn the_macros_of_the_notation_have_pages() {
    let root = Path::new(ROOT);
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a source file");
    // The statement that exports the macros, with its attributes.
    let exports = |path: &str, start: &str| {
        let text = read(path);
        let at = text.find(start).unwrap_or_else(|| panic!("{path} has no `{start}`"));
        let end = at + text[at..].find(';').expect("the end of the statement") + 1;
        let before = text[..at].trim_end().rsplit_once('\n').map_or("", |(_, line)| line);
        let attribute = if before.starts_with("#[") { before } else { "" };
        format!("{attribute}\n{}\n", &text[at..end])
    };
    let header = read("src/layout/mod.rs");
    let header: String = header.lines().take_while(|line| line.starts_with("//!")).fold(
        String::new(),
        |all, line| match line.starts_with("//! |") && line.contains("!`]") {
            // The rows of the table of types that link to macros.
            true => all + line + "\n",
            false => all,
        },
    );
    let links: Vec<&str> = ["coord!", "layout!", "shape!", "tiler!", "tuple!"]
        .into_iter()
        .filter(|name| header.contains(&format!("[`{name}`]")))
        .collect();
    assert_eq!(links.len(), 5, "{header}");
    let types = "pub struct Int; pub struct IntTuple; pub struct Coord; pub struct Layout; pub struct Tiler;";
    let source = format!(
        "pub mod layout {{\n//! | a | b | c |\n//! |---|---|---|\n{header}\n#[path = {:?}]\nmod macros;\n{}\n{types}\n}}\n\
         pub mod prelude {{\n{}\n}}\n",
        root.join("src/layout/macros.rs"),
        exports("src/layout/mod.rs", "pub use macros::"),
        exports("src/prelude.rs", "pub use crate::layout::{layout,"),
    );
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("macro-pages");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let library = folder.join("lib.rs");
    fs::write(&library, source).expect("a source file");
    let mut rustdoc = Command::new(std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into()));
    rustdoc.args(["--edition", "2024", "--crate-name", "pages", "-o"]).arg(&folder).arg(&library);
    let output = rustdoc.output().expect("rustdoc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let pages = folder.join("pages");
    for page in [
        "layout/macro.coord.html",
        "layout/macro.layout.html",
        "layout/macro.shape.html",
        "layout/macro.tiler.html",
        "layout/macro.tuple.html",
        "prelude/macro.layout.html",
        "prelude/macro.shape.html",
        "prelude/macro.tiler.html",
    ] {
        assert!(pages.join(page).is_file(), "rustdoc writes no {page}");
    }
    let index = fs::read_to_string(pages.join("layout/index.html")).expect("a page");
    for name in links {
        let page = format!("href=\"macro.{}.html\"", name.trim_end_matches('!'));
        let row = index.split("<tr>").find(|row| row.contains(&format!("<code>{name}</code>")));
        assert!(row.is_some_and(|row| row.contains(&page)), "`{name}` leads nowhere");
    }
    // A reader sees how a macro is called, not how it works inside.
    let layout = fs::read_to_string(pages.join("layout/macro.layout.html")).expect("a page");
    assert!(!layout.contains("@zip") && !layout.contains("$b"), "the page shows inner rules");
}
