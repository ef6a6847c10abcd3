//! The paths and tests that `docs/cute.md` names exist.

use super::{code, files, read, short};

/// The cells of each row of a table: CuTe's names, ours, the tests.
fn rows(document: &str) -> Vec<[&str; 3]> {
    let rows =
        document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| CuTe |"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [theirs, ours, tests] = cells[..] else { panic!("a row of three cells: {line}") };
        [theirs, ours, tests.trim_end_matches('|').trim()]
    })
    .collect()
}

/// The code spans of a cell.
fn spans(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn paths_of_the_table_of_cute_exist() {
    let sources = [files("src", "rs"), files("tune/src", "rs")].concat();
    let sources: Vec<String> = sources.iter().map(|(_, text)| code(text)).collect();
    let document = read("docs/cute.md");
    let has = |text: &str, word: &str| super::words(text, word).next().is_some();
    let mut missing = Vec::new();
    for [_, ours, _] in rows(&document) {
        for path in spans(ours) {
            let path = path.trim_start_matches("tilewright_tune::");
            let words = path.trim_end_matches('!').split("::").collect::<Vec<_>>();
            let is_path =
                words.iter().all(|w| !w.is_empty() && w.chars().all(|c| super::is_word(Some(c))));
            let names = &words[words.len().saturating_sub(2)..];
            let known = ["Iterator::fold", "Display", "FromStr"].contains(&path);
            if is_path && !known && !sources.iter().any(|text| names.iter().all(|w| has(text, w))) {
                missing.push(path);
            }
        }
    }
    assert!(missing.is_empty(), "docs/cute.md names what the sources do not have: {missing:?}");
}

#[test]
fn tests_of_the_table_of_cute_exist() {
    let sources: Vec<(String, String)> =
        files("tests", "rs").into_iter().map(|(path, text)| (short(&path), code(&text))).collect();
    let document = read("docs/cute.md");
    let rows = rows(&document);
    assert!(rows.len() > 100, "the document does not read as expected");
    for [theirs, ours, tests] in rows {
        let done = !ours.starts_with("open") && !ours.starts_with("None: ");
        assert_eq!(
            done,
            !tests.is_empty(),
            "a row has a test unless it is open or has none: {theirs}"
        );
        for name in spans(tests).filter(|name| name.contains("::")) {
            let (path, test) = name.split_once("::").expect("it was found");
            let path = format!("tests/{path}.rs");
            let exists = sources.iter().any(|(at, text)| {
                *at == path && super::words(text, &format!("fn {test}")).next().is_some()
            });
            assert!(exists, "there is no test {test} in {path}");
        }
    }
}
