//! Checks the language of comments: first words, headers, and the words of the field.

use super::{files, is_word, short, words};

/// The folders with prose of the project.
const FOLDERS: [&str; 6] = ["src", "cli", "tests", "benches", "examples", "xtask"];

/// First words of a doc comment that hide its subject.
const FIRST: [&str; 9] =
    ["What", "Whether", "How", "That", "Whose", "Which", "Where", "Why", "When"];

/// Words that are not used in comments, and the replacement.
const BANNED: [(&[&str], &str); 16] = [
    (&["storey", "storeys"], "`layer`"),
    (&["of the run"], "`dynamic`"),
    (&["numbered barrier", "numbered barriers"], "`named barrier`"),
    (&["multiprocessor", "multiprocessors"], "`SM`"),
    (&["under way"], "`in flight`"),
    (&["strip", "strips"], "`tile`, or `swizzle width` of a rasterization"),
    (&["line tile", "line tiles"], "`tile`"),
    (&["far apart"], "`row pitch`, or `batch stride`"),
    (&["odd address", "odd addresses"], "`misaligned`"),
    (&["multiply-add", "multiply-adds"], "`MMA`, or `multiply-accumulate`; `fma` is the operation"),
    (&["sum of tensor cores", "sums of tensor cores"], "`accumulator`"),
    (
        &["take turns", "takes turns", "take turn", "whose turn"],
        "`ordered barrier`, or `alternate`",
    ),
    (&["is told"], "`release` and `acquire`, or an active verb with its actor"),
    (&["without a word"], "the error or the missing check"),
    (&["so many", "for the rest"], "the number, or its name"),
    (&["of which", "one that", "those that"], "a second sentence, or the noun"),
];

/// The text of a comment in the line, without inline code.
fn comment(line: &str) -> Option<String> {
    let text = line.trim().strip_prefix("//")?;
    let text = text.strip_prefix(['/', '!']).unwrap_or(text);
    let prose = text.split('`').step_by(2);
    Some(prose.collect::<Vec<_>>().join("`"))
}

/// Returns the line numbers of doc comments that begin with one of the words of [`FIRST`].
fn first_words(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut previous = "";
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        if let Some(doc) = doc.filter(|_| !previous.starts_with("//")) {
            let doc = doc.trim_start();
            let first = FIRST.iter().find(|word| {
                doc.strip_prefix(**word).is_some_and(|rest| !is_word(rest.chars().next()))
            });
            if let Some(word) = first {
                found.push((
                    number,
                    format!("`{word}` begins it: write the subject, then the verb"),
                ));
            }
        }
        previous = line;
    }
    found
}

/// Returns the words of the first sentence of the module header, if they are more than 20.
fn long_header(text: &str) -> Option<usize> {
    let header = text.lines().map_while(|line| line.strip_prefix("//!"));
    let header: Vec<&str> = header.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let header = header.join(" ");
    let count = header.split(". ").next().unwrap_or_default().split_whitespace().count();
    (count > 20).then_some(count)
}

/// Returns the lines with banned words.
fn banned(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(prose) = comment(line) else { continue };
        for (forms, replacement) in BANNED {
            if let Some(form) = forms.iter().find(|form| words(&prose, form).next().is_some()) {
                found.push((number, format!("`{form}`: write {replacement}")));
            }
        }
    }
    found
}

/// Asserts that no file has a fault, and names each with its line.
fn check(faults: impl Fn(&str) -> Vec<(usize, String)>) {
    let mut found = Vec::new();
    for (path, text) in FOLDERS.map(|folder| files(folder, "rs")).concat() {
        for (line, fault) in faults(&text) {
            found.push(format!("{}:{line}: {fault}", short(&path)));
        }
    }
    assert!(found.is_empty(), "{} faults, see CONTRIBUTING.md:\n{}", found.len(), found.join("\n"));
}

#[test]
fn doc_comments_begin_with_their_subject() {
    check(first_words);
}

#[test]
fn headers_are_one_short_sentence() {
    check(|text| {
        let count = long_header(text);
        count.map(|count| (1, format!("{count} words, but 20 are the limit"))).into_iter().collect()
    });
}

#[test]
fn comments_have_the_words_of_the_field() {
    check(banned);
}

#[test]
fn faults_of_the_language_are_found() {
    let none: [usize; 0] = [];
    let lines = |found: Vec<(usize, String)>| found.into_iter().map(|(line, _)| line).collect();
    let of_first = |text: &str| -> Vec<usize> { lines(first_words(text)) };
    assert_eq!(of_first("//! What it is.\n\nfn a() {}\n/// Whether so.\nfn b() {}\n"), [1, 4]);
    assert_eq!(
        of_first("/// Returns it.\n/// When not, fails.\n// Why it is.\n/// Whatever.\n"),
        none
    );
    assert_eq!(long_header("//! One two.\n//!\n//! More.\nuse x;\n"), None);
    let long = format!("//!{}\n//!{}.\n", " word".repeat(11), " word".repeat(10));
    assert_eq!(long_header(&long), Some(21));
    assert_eq!(long_header(&long.replacen("word word", "word. Word", 1)), None);
    let of_banned = |text: &str| -> Vec<usize> { lines(banned(text)) };
    assert_eq!(of_banned("// The storey.\nlet storey = 1;\n    /// Copies under way.\n"), [1, 3]);
    assert_eq!(of_banned("/// `strip_prefix`, `strip`, stripes; `a` of `which`.\n"), none);
}
