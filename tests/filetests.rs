//! Kernels as files: `tests/filetests/<directory>/*.kir`.
//!
//! What is done with a file depends on its directory (see `MODES`). Errors are marked on the line at fault:
//! `; error: Variant` or `; error: Variant: part of the message`; one line may have several marks. Every
//! error must be marked, and every mark must be met. An error without a line counts for the line of its
//! kernel. Where a directory has an output, it is compared with the file of the same name and the extension
//! `.out`.
//!
//! `TILEWRIGHT_BLESS=1 cargo test --test filetests` writes marks and outputs as they are; look at the
//! difference before you commit it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use tilewright::ir::{Kernel, KernelIr, parse_kernels};

/// What is done with the text of a file.
type Mode = fn(&str) -> Outcome;

/// What each directory is for. A new directory is a row here and a function.
const MODES: [(&str, Mode); 3] = [
    // Verifies each kernel: the marks are variants of `VerifyError`.
    ("verify", verify),
    // Parses each case, which lines of the form `; ---- name` separate: the marks are variants of
    // `ParseErrorKind`, the output is the errors as they print.
    ("parse", parse),
    // Verifies each kernel; the output is the kernels as they print.
    ("print", print),
];

/// An error that the code under test has reported.
struct Found {
    line: usize,
    variant: String,
    message: String,
}

impl Found {
    fn new(line: usize, error: &impl Debug, message: String) -> Found {
        let debug = format!("{error:?}");
        let end = debug.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(debug.len());
        Found { line, variant: debug[..end].to_owned(), message }
    }
}

/// What has become of a file.
struct Outcome {
    found: Vec<Found>,
    output: Option<String>,
}

/// The kernels of a text that must parse, and be the same after printing and parsing.
fn kernels(text: &str) -> Vec<KernelIr> {
    let kernels = parse_kernels("test.kir", text).unwrap_or_else(|error| panic!("{error}"));
    for ir in &kernels {
        let printed = ir.to_string();
        let again: KernelIr = printed.parse().unwrap_or_else(|error| panic!("{error}"));
        assert!(again == *ir, "printed and parsed, the kernel differs:\n{printed}");
    }
    kernels
}

fn verify(text: &str) -> Outcome {
    // The i-th kernel starts on the i-th line that starts with the word.
    let heads: Vec<usize> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| line.starts_with("kernel "))
        .map(|(number, _)| number)
        .collect();
    let mut found = Vec::new();
    for (ir, head) in kernels(text).into_iter().zip(heads) {
        for violation in Kernel::verify(ir).err().into_iter().flatten() {
            let line = violation.place.map_or(head, |place| place.line as usize);
            found.push(Found::new(line, &violation.error, violation.to_string()));
        }
    }
    Outcome { found, output: None }
}

fn parse(text: &str) -> Outcome {
    let (mut found, mut output) = (Vec::new(), String::new());
    let mut cases: Vec<(usize, String)> = vec![(0, String::new())];
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("; ----") {
            cases.push((index, String::new()));
        }
        let (_, case) = cases.last_mut().expect("there is one from the start");
        *case += &format!("{line}\n");
    }
    for (first, case) in cases {
        // The marks are no part of what is shown.
        let bare: String = case.lines().map(|line| format!("{}\n", split_marks(line).0)).collect();
        if let Err(error) = parse_kernels("test.kir", &bare) {
            let line = first + error.line as usize;
            found.push(Found::new(line, &error.kind, error.to_string()));
            let name = bare.lines().next().unwrap_or_default();
            output += &format!("{name}\n{error}\n");
        }
    }
    Outcome { found, output: Some(output) }
}

fn print(text: &str) -> Outcome {
    let Outcome { found, .. } = verify(text);
    let printed: Vec<String> = kernels(text).iter().map(KernelIr::to_string).collect();
    Outcome { found, output: Some(printed.join("\n")) }
}

const MARK: &str = "; error: ";

/// The line without its marks, and the marks: variant and part of the message.
fn split_marks(line: &str) -> (&str, Vec<(&str, &str)>) {
    let mut parts = line.split(MARK);
    let bare = parts.next().unwrap_or_default();
    let marks: Vec<_> = parts.map(|mark| mark.split_once(':').unwrap_or((mark, ""))).collect();
    let bare = if marks.is_empty() { bare } else { bare.trim_end() };
    (bare, marks.into_iter().map(|(variant, part)| (variant.trim(), part.trim())).collect())
}

/// The errors that are not as marked, and the text with the marks that are right.
fn compare(text: &str, found: &[Found]) -> (Vec<String>, String) {
    let (mut wrong, mut blessed) = (Vec::new(), String::new());
    for (number, line) in (1..).zip(text.lines()) {
        let (bare, marks) = split_marks(line);
        let mut here: Vec<&Found> = found.iter().filter(|error| error.line == number).collect();
        let before = wrong.len();
        for (variant, part) in marks {
            let met = |error: &&Found| error.variant == variant && error.message.contains(part);
            match here.iter().position(met) {
                Some(position) => {
                    here.remove(position);
                }
                None => wrong.push(format!("line {number}: no error {variant} with `{part}`")),
            }
        }
        for error in here {
            wrong
                .push(format!("line {number}: {} is not marked: {}", error.variant, error.message));
        }
        if wrong.len() == before {
            blessed += line;
        } else {
            blessed += bare;
            for error in found.iter().filter(|error| error.line == number) {
                blessed += &format!(" {MARK}{}", error.variant);
            }
        }
        blessed.push('\n');
    }
    (wrong, blessed)
}

fn run_file(path: &Path, mode: Mode, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let outcome = std::panic::catch_unwind(|| mode(&text));
    let Outcome { found, output } = outcome.map_err(|_| "it does not run, see above".to_owned())?;
    let (mut wrong, blessed) = compare(&text, &found);
    let out = path.with_extension("out");
    let expected = fs::read_to_string(&out).unwrap_or_default();
    let output = output.unwrap_or_default();
    if output != expected {
        wrong.push(format!("the output is not that of {}:\n{output}", out.display()));
    }
    if bless && !wrong.is_empty() {
        fs::write(path, blessed).map_err(|error| error.to_string())?;
        if output != expected {
            fs::write(out, output).map_err(|error| error.to_string())?;
        }
        wrong.clear();
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// The entries of a directory, in order.
fn entries(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut entries: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the directory can be listed").path()).collect();
    entries.sort();
    entries
}

#[test]
fn filetests() {
    let bless = std::env::var_os("TILEWRIGHT_BLESS").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut failures = Vec::new();
    for directory in entries(&root) {
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((_, mode)) = MODES.iter().find(|(mode, _)| *mode == name) else {
            panic!("tests/filetests/{name} has no row in MODES");
        };
        let files = entries(&directory);
        let mut kernels = 0;
        for path in files.iter().filter(|path| path.extension().is_some_and(|e| e == "kir")) {
            kernels += 1;
            if let Err(wrong) = run_file(path, *mode, bless) {
                failures.push(format!("{}:\n{wrong}", path.display()));
            }
        }
        assert!(kernels > 0, "{name} has no tests");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The runner itself: what it must refuse.
#[test]
fn marks_are_compared_with_errors() {
    let found =
        |line, variant: &str| Found { line, variant: variant.into(), message: "no b".into() };
    let check = |text: &str, found: &[Found]| compare(text, found);
    assert_eq!(check("a ; error: X: no b\n", &[found(1, "X")]).0, [""; 0]);
    assert_eq!(check("a\nb ; error: X ; error: Y\n", &[found(2, "Y"), found(2, "X")]).0, [""; 0]);
    for (text, errors) in [
        ("a ; error: X\n", vec![]),
        ("a\n", vec![found(1, "X")]),
        ("a ; error: X: other\n", vec![found(1, "X")]),
        ("a ; error: Y\n", vec![found(1, "X")]),
        ("a ; error: X\n", vec![found(1, "X"), found(1, "X")]),
    ] {
        let (wrong, blessed) = check(text, &errors);
        assert!(!wrong.is_empty(), "{text}");
        assert_eq!(check(&blessed, &errors).0, [""; 0], "{blessed}");
    }
}
