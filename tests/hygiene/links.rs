//! Checks the links of the documents: relative targets exist, their anchors are headings, and paths
//! in prose are files.

use super::{files, read, root, short};
use std::path::{Path, PathBuf};

/// The first folders of paths that a document names in backticks.
const FOLDERS: [&str; 11] = [
    ".ci", "benches", "book", "cli", "docs", "examples", "fuzz", "scripts", "src", "tests", "tune",
];

/// The documents with their texts.
fn documents() -> Vec<(PathBuf, String)> {
    let alone = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let alone = alone.map(|name| (root().join(name), read(name)));
    [alone.to_vec(), files("docs", "md"), files("book/src", "md")].concat()
}

/// The lines outside of listings, each with its number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_listing = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_listing ^= is_fence;
        !in_listing && !is_fence
    })
}

/// The targets of the links `[text](target)` of a line, without those in inline code.
fn targets(line: &str) -> Vec<String> {
    let text = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let links = text.split("](").skip(1);
    links.filter_map(|link| Some(link.split_once(')')?.0.to_owned())).collect()
}

/// The anchor that GitHub and mdBook give a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_anchor(text: &str, wanted: &str) -> bool {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.into_iter().any(|(_, line)| anchor(line.trim_start_matches('#')) == wanted)
}

/// Returns the fault of a link in the document at `path`, if it has one.
fn broken(path: &Path, text: &str, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let linked = path.parent().unwrap_or(root()).join(file);
    if !file.is_empty() && !linked.exists() {
        return Some(format!("`{target}` does not exist"));
    }
    let linked =
        if file.is_empty() { text.to_owned() } else { std::fs::read_to_string(linked).ok()? };
    let is_found = anchor.is_empty() || has_anchor(&linked, anchor);
    (!is_found).then(|| format!("`{target}`: no heading has this anchor"))
}

/// The paths of the repository that a line names in backticks; patterns, commands and examples are
/// none.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|span| {
        let is_plain = |c: char| c.is_alphanumeric() || "._-/".contains(c);
        let mut parts = span.split('/');
        parts.next().is_some_and(|first| FOLDERS.contains(&first))
            && parts.next().is_some()
            && span.chars().all(is_plain)
    })
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let mut found = Vec::new();
    for (path, text) in documents() {
        for (number, line) in prose(&text) {
            let mut fault = |what: String| found.push(format!("{}:{number}: {what}", short(&path)));
            targets(line).iter().filter_map(|to| broken(&path, &text, to)).for_each(&mut fault);
            let missing = paths(line).filter(|path| !root().join(path).exists());
            missing.map(|path| format!("`{path}` does not exist")).for_each(&mut fault);
        }
    }
    assert!(found.is_empty(), "{} links are broken:\n{}", found.len(), found.join("\n"));
}

#[test]
fn broken_links_are_found() {
    let path = root().join("docs/safety.md");
    let text = "## What is `unsafe`, and why?\n```\n## In a listing\n```\n";
    let fault = |target: &str| broken(&path, text, target).is_some();
    assert!(!fault("#what-is-unsafe-and-why") && !fault("cute.md") && !fault("https://docs.rs"));
    assert!(!fault("../README.md#try-it"));
    assert!(fault("#in-a-listing") && fault("missing.md") && fault("../README.md#missing"));
    assert_eq!(targets("[a](b.md#c), `[not](this)` and [d `e`](f)"), ["b.md#c", "f"]);
    let line = "`docs/cute.md`, `docs/*.md`, `src/` and `cargo test docs/x`";
    assert_eq!(paths(line).collect::<Vec<_>>(), ["docs/cute.md", "src/"]);
}
