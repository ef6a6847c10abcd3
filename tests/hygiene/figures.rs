//! Measured figures of the book and the README: each stands in the section of the evidence that the
//! text names.

use std::collections::{BTreeMap, BTreeSet};

use tilewright::kernels::gemm::Machine;
use tilewright_tune::Report;

use super::{files, read, root, short};

/// Units of measured figures.
const UNITS: [&str; 5] =
    [" TFLOP/s", " GB/s", " of cuBLAS", " of the fastest copy", " of a copy ("];

/// Titles of columns of measured figures.
const COLUMNS: [&str; 4] = ["TFLOP/s", "GB/s", "x cuBLAS", "x the driver's copy"];

/// A number with a decimal point, or one of digits alone.
fn number(word: &str) -> Option<&str> {
    let word = word.trim_matches(|c: char| !c.is_ascii_digit());
    let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    (is_number && word.matches('.').count() < 2).then_some(word)
}

/// The sections of the evidence by their titles, each up to the next title.
fn sections(evidence: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let parts = evidence.split("\n#").skip(1);
    let titled = parts.filter_map(|part| part.trim_start_matches('#').split_once('\n'));
    titled
        .map(|(title, text)| {
            let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
            (title.trim(), words.filter_map(|word| number(word.trim_matches('.'))).collect())
        })
        .collect()
}

/// The figures of a paragraph: in each sentence with a unit, the numbers in front of it; and every
/// number with a decimal point if the paragraph names the evidence. Of a table, the first numbers
/// of the columns with measured figures.
fn figures(paragraph: &str, names_evidence: bool) -> Vec<&str> {
    if paragraph.starts_with('|') {
        let mut rows = paragraph.lines().map(|row| row.split('|').map(str::trim));
        let titles: Vec<&str> = rows.next().into_iter().flatten().collect();
        let measured =
            |column: &usize| titles.get(*column).is_some_and(|title| COLUMNS.contains(title));
        let cells = rows.skip(1).flat_map(|row| row.enumerate().filter(|(at, _)| measured(at)));
        return cells.filter_map(|(_, cell)| number(cell.split(' ').next()?)).collect();
    }
    let mut found = Vec::new();
    for unit in UNITS {
        for (at, _) in paragraph.match_indices(unit) {
            let mut before = paragraph[..at].rsplit([' ', '\n']);
            found.extend(before.next().and_then(number));
            // Of a range both ends are measured.
            if before.next() == Some("to") {
                found.extend(before.next().and_then(number));
            }
        }
    }
    if names_evidence {
        let words = paragraph.split([' ', '\n']).filter_map(number);
        found.extend(words.filter(|word| word.contains('.')));
    }
    found
}

/// The titles of the evidence that the paragraph has between quotation marks.
fn named<'t>(paragraph: &str, sections: &BTreeMap<&'t str, BTreeSet<&str>>) -> Vec<&'t str> {
    let quoted = |title: &&&str| paragraph.replace('\n', " ").contains(&format!("\"{title}\""));
    sections.keys().filter(quoted).copied().collect()
}

/// Text outside of listings, in paragraphs.
fn paragraphs(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split("\n\n")).map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// Returns the figures that are not in a section that their paragraph names. The paragraph after a
/// table names its section.
fn unproven(text: &str, evidence: &str) -> (usize, Vec<String>) {
    let (sections, paragraphs) = (sections(evidence), paragraphs(text));
    let (mut count, mut found) = (0, Vec::new());
    for (at, paragraph) in paragraphs.iter().enumerate() {
        let is_table = paragraph.starts_with('|');
        let naming = paragraphs.get(at + usize::from(is_table)).copied().unwrap_or_default();
        let titles = named(naming, &sections);
        for figure in figures(paragraph, !titles.is_empty()) {
            count += 1;
            if !titles.iter().any(|title| sections[title].contains(figure)) {
                found.push(format!("{figure} is not in {titles:?}: {paragraph:.60}"));
            }
        }
    }
    (count, found)
}

#[test]
fn figures_of_the_book_are_in_the_section_that_they_name() {
    let evidence = read("docs/evidence/gpu.md");
    let (mut count, mut found) = (0, Vec::new());
    let mut texts = files("book/src", "md");
    texts.push((root().join("README.md"), read("README.md")));
    for (path, text) in texts {
        let (of_text, unproven) = unproven(&text, &evidence);
        count += of_text;
        found.extend(unproven.into_iter().map(|figure| format!("{}: {figure}", short(&path))));
    }
    assert!(found.is_empty(), "docs/evidence/gpu.md does not have\n{}", found.join("\n"));
    assert!(count >= 40, "{count} figures");
}

#[test]
fn figures_of_other_sections_are_found() {
    let evidence = "# E\n\n## Copies\n\n| driver | 4269 |\n\n### Rows\n\nAt 0.996, 1.007.\n";
    let check = |text: &str| {
        let (count, found) = unproven(text, evidence);
        (count, found.len())
    };
    assert_eq!(
        check("Rows at 0.996 to 1.007 of the fastest copy (\"Rows\"): 0.87 of\nothers."),
        (5, 1)
    );
    assert_eq!(check("It moves 4269 GB/s (\"Rows\")."), (1, 1));
    assert_eq!(check("It moves 4269 GB/s."), (1, 1));
    assert_eq!(check("It moves 4269 GB/s (\"Copies\")."), (1, 0));
    let table = "| k | GB/s |\n|---|---|\n| 7.5 | 4269 (x) |\n| 1 | 3 |\n\nOf";
    assert_eq!(check(&format!("{table} \"Copies\".")), (2, 1));
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 120, "{lines} lines, but 120 are the limit");
}

/// The chart of the README is that of the report. With `TILEWRIGHT_BLESS=1` it is drawn anew.
#[test]
fn the_chart_is_that_of_the_report() {
    let report = read("benches/data/h200-gemm-report.json");
    let parsed: Report = serde_json::from_str(&report).expect("it is a report");
    let drawn = parsed.chart(&Machine::H200).svg();
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        std::fs::write(root().join("docs/images/gemm.svg"), &drawn).expect("it is written");
    }
    let same = read("docs/images/gemm.svg") == drawn;
    assert!(same, "docs/images/gemm.svg is not the chart of the report: TILEWRIGHT_BLESS=1");
    let date = report.split("\"date\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let note = format!(">{}, NVIDIA H200", date.expect("the report has a date"));
    assert!(read("docs/images/gemm.svg").contains(&note), "the chart is not of {note}");
}
