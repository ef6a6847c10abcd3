//! Measured figures of the book: each stands in the evidence too.

use std::collections::BTreeSet;

use super::{files, read, short};

/// The numbers in front of a unit of measured figures, with their lines.
fn figures(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for unit in [" TFLOP/s", " GB/s", " of cuBLAS", " of the fastest copy"] {
            let before =
                line.match_indices(unit).filter_map(|(at, _)| line[..at].rsplit(' ').next());
            let figures = before.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            found.extend(figures.map(|figure| (number + 1, figure)));
        }
    }
    found
}

#[test]
fn figures_of_the_book_are_in_the_evidence() {
    let evidence = read("docs/evidence/gpu.md");
    let measured: BTreeSet<&str> = evidence
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .map(|number| number.trim_end_matches('.'))
        .collect();
    let mut found = 0;
    for (path, text) in files("book/src", "md") {
        for (line, figure) in figures(&text) {
            let known = measured.contains(figure);
            assert!(known, "{}:{line}: docs/evidence/gpu.md has no {figure}", short(&path));
            found += 1;
        }
    }
    assert!(found >= 8, "{found} figures");
}
