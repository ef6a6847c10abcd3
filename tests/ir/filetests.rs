//! Kernels as files: `tests/filetests/<directory>/*.kir`. What is done with a file depends on its
//! directory (see `MODES`); `docs/text-form.md` says how files are written.
//!
//! Errors are marked on the line at fault: `; error: Variant` or
//! `; error: Variant: part of the message`, and faults of the simulator the same way with
//! `; fault:`; one line may have several marks. Every error must be marked, and every mark must be
//! met. An error without a line counts for the line of its kernel. Where a directory has an output,
//! it is compared with the file of the same name and the extension `.out`.
//!
//! `TILEWRIGHT_BLESS=1 cargo test --test ir filetests::` writes marks and outputs as they are; look
//! at the difference before you commit it.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use tilewright::codegen::PtxOptions;
use tilewright::ir::{Kernel, KernelIr, Untyped, parse_kernels};

use crate::support::{ptxas, run_lines};

use run_lines::RunLine;

/// The function that tests the text of a file.
type Mode = fn(&str) -> Outcome;

/// The test of each directory. A new directory is a row here and a function.
const MODES: [(&str, Mode); 6] = [
    // Verifies each kernel: the marks are variants of `VerifyError`.
    ("verify", verify),
    // Parses each case, which lines of the form `; ---- name` separate: the marks are variants of
    // `ParseErrorKind`, the output is the errors as they print.
    ("parse", parse),
    // Verifies each kernel; the output is the kernels as they print.
    ("print", print),
    // Runs each kernel as the lines `; run:` above it say: the marks are variants of `FaultCause`.
    ("sim", sim),
    // Carries out what each kernel asks for; the output is the kernels after it. Lines `; run:` are
    // run before and after.
    ("passes", passes),
    // Writes each kernel as PTX, which is the output, and assembles it.
    ("ptx", ptx),
];

/// The kind of a mark.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Error,
    Fault,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Error, Kind::Fault];

    /// The mark, up to the variant.
    fn mark(self) -> &'static str {
        match self {
            Kind::Error => "; error: ",
            Kind::Fault => "; fault: ",
        }
    }
}

/// An error or a fault that the code under test has reported.
struct Found {
    kind: Kind,
    line: usize,
    variant: String,
    message: String,
}

impl Found {
    fn new(kind: Kind, line: usize, error: &impl Debug, message: String) -> Found {
        let debug = format!("{error:?}");
        let end = debug.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(debug.len());
        Found { kind, line, variant: debug[..end].to_owned(), message }
    }
}

/// The result of a file.
#[derive(Default)]
struct Outcome {
    found: Vec<Found>,
    output: Option<String>,
    /// For each line `; run:`, its number and what the line `; out:` below it has to say.
    outs: Vec<(usize, String)>,
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

/// A kernel of a file that verifies, with the number of its first line.
struct Verified<'t> {
    kernel: Kernel<Untyped>,
    head: usize,
    /// The lines above it, down from the kernel before, with their numbers.
    above: Vec<(usize, &'t str)>,
}

/// The kernels of a file that verify; the others' violations go to `found`.
fn verified<'t>(text: &'t str, found: &mut Vec<Found>) -> Vec<Verified<'t>> {
    let mut all = Vec::new();
    let (mut kernels, mut above) = (kernels(text).into_iter(), Vec::new());
    // The i-th kernel starts on the i-th line that starts with the word.
    for (head, line) in (1..).zip(text.lines()) {
        if !line.starts_with("kernel ") {
            above.push((head, line));
            continue;
        }
        let ir = kernels.next().expect("each such line starts a kernel");
        let above = std::mem::take(&mut above);
        match Kernel::verify(ir) {
            Ok(kernel) => all.push(Verified { kernel, head, above }),
            Err(violations) => found.extend(violations.into_iter().map(|violation| {
                let line = violation.location.map_or(head, |location| location.line as usize);
                Found::new(Kind::Error, line, &violation.error, violation.to_string())
            })),
        }
    }
    all
}

fn verify(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    verified(text, &mut outcome.found);
    outcome
}

/// Runs a kernel as the lines above it say. A kernel that is written differently has to give the
/// same.
fn run(verified: &Verified<'_>, ir: &KernelIr, outcome: &mut Outcome) {
    let mut runs = 0;
    for (number, line) in &verified.above {
        let Some(line) = line.strip_prefix("; run: ") else { continue };
        runs += 1;
        let result = RunLine::parse(line, ir).run(ir);
        match result {
            Ok(buffers) => outcome.outs.push((*number, buffers)),
            Err(error) => {
                outcome.outs.push((*number, String::new()));
                let message = error.to_string();
                outcome.found.push(match error.fault() {
                    Some(fault) => {
                        let line = fault.location.line as usize;
                        Found::new(Kind::Fault, line, &fault.cause, message)
                    }
                    None => Found::new(Kind::Error, verified.head, &error, message),
                });
            }
        }
    }
    assert!(runs > 0, "line {}: there is no line `; run:` above the kernel", verified.head);
}

fn sim(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    for verified in verified(text, &mut outcome.found) {
        run(&verified, verified.kernel.ir(), &mut outcome);
    }
    outcome
}

fn passes(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut printed = Vec::new();
    for verified in verified(text, &mut outcome.found) {
        let lowered = match verified.kernel.lower() {
            Ok(lowered) => lowered,
            Err(errors) => {
                outcome.found.extend(errors.iter().map(|error| {
                    let (line, message) = (error.location.line as usize, error.to_string());
                    Found::new(Kind::Error, line, &error.kind, message)
                }));
                continue;
            }
        };
        Kernel::verify(lowered.ir().clone()).unwrap_or_else(|errors| panic!("{errors}"));
        printed.push(lowered.ir().canonical().to_string());
        if verified.above.iter().any(|(_, line)| line.starts_with("; run: ")) {
            let (mut before, mut after) = (Outcome::default(), Outcome::default());
            run(&verified, verified.kernel.ir(), &mut before);
            run(&verified, lowered.ir(), &mut after);
            let seen = |outcome: &Outcome| {
                let faults = outcome.found.iter().map(|found| (found.line, found.variant.clone()));
                (outcome.outs.clone(), faults.collect::<Vec<_>>())
            };
            assert_eq!(seen(&before), seen(&after), "a pass changed what {lowered} computes");
            outcome.outs.extend(after.outs);
            outcome.found.extend(after.found);
        }
    }
    outcome.output = Some(printed.join("\n"));
    outcome
}

fn ptx(text: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let mut written = Vec::new();
    for Verified { kernel, .. } in verified(text, &mut outcome.found) {
        let ptx = kernel.ptx_with(PtxOptions::default().locations(false));
        // Equal kernels give equal bytes.
        let printed: KernelIr =
            kernel.ir().to_string().parse().unwrap_or_else(|error| panic!("{error}"));
        let again = Kernel::verify(printed.canonical()).unwrap_or_else(|errors| panic!("{errors}"));
        let again = again.ptx_with(PtxOptions::default().locations(false));
        assert_eq!(ptx.text(), again.text(), "the text of the kernel is not always the same");
        if let Some(ptxas) = ptxas::find() {
            let result = ptxas.assemble(ptx.text(), &ptx.target().to_string(), &[]);
            result.unwrap_or_else(|problem| panic!("{problem}"));
        }
        written.push(ptx.into_text());
    }
    outcome.output = Some(written.join("\n"));
    outcome
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
            found.push(Found::new(Kind::Error, line, &error.kind, error.to_string()));
            let name = bare.lines().next().unwrap_or_default();
            output += &format!("{name}\n{error}\n");
        }
    }
    Outcome { found, output: Some(output), outs: Vec::new() }
}

fn print(text: &str) -> Outcome {
    let printed: Vec<String> = kernels(text).iter().map(KernelIr::to_string).collect();
    Outcome { output: Some(printed.join("\n")), ..verify(text) }
}

/// A mark: its kind, the variant and a part of the message.
type Mark<'t> = (Kind, &'t str, &'t str);

/// The line without its marks, and the marks.
fn split_marks(line: &str) -> (&str, Vec<Mark<'_>>) {
    let start = |from: usize| {
        let starts =
            Kind::ALL.map(|kind| line[from..].find(kind.mark()).map(|at| (from + at, kind)));
        starts.into_iter().flatten().min_by_key(|(at, _)| *at)
    };
    let Some(first) = start(0) else { return (line, Vec::new()) };
    let (mut marks, mut next) = (Vec::new(), Some(first));
    while let Some((at, kind)) = next {
        let from = at + kind.mark().len();
        next = start(from);
        let mark = &line[from..next.map_or(line.len(), |(at, _)| at)];
        let (variant, part) = mark.split_once(':').unwrap_or((mark, ""));
        marks.push((kind, variant.trim(), part.trim()));
    }
    (line[..first.0].trim_end(), marks)
}

/// Returns the differences from the text, and the text as it should be.
fn compare(text: &str, found: &[Found], outs: &[(usize, String)]) -> (Vec<String>, String) {
    let (mut wrong, mut blessed) = (Vec::new(), String::new());
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let (bare, marks) = split_marks(line);
        let mut here: Vec<&Found> = found.iter().filter(|error| error.line == number).collect();
        let before = wrong.len();
        for (kind, variant, part) in marks {
            let met = |error: &&Found| {
                error.kind == kind && error.variant == variant && error.message.contains(part)
            };
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
                blessed += &format!(" {}{}", error.kind.mark(), error.variant);
            }
        }
        blessed.push('\n');
        if let Some((_, out)) = outs.iter().find(|(run, _)| *run == number) {
            let out = out.trim();
            let is_out = |(_, line): &(usize, &str)| line.starts_with("; out:");
            let expected = lines.next_if(is_out).map_or("", |(_, line)| line);
            let expected = expected.strip_prefix("; out:").unwrap_or_default().trim();
            if expected != out {
                wrong.push(format!(
                    "line {number}: the run gives\n; out: {out}\nnot\n; out: {expected}"
                ));
            }
            if !out.is_empty() {
                blessed += &format!("; out: {out}\n");
            }
        }
    }
    (wrong, blessed)
}

fn run_file(path: &Path, mode: Mode, bless: bool) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let outcome = std::panic::catch_unwind(|| mode(&text));
    let outcome = outcome.map_err(|_| "it does not run, see above".to_owned())?;
    let Outcome { found, output, outs } = outcome;
    let (mut wrong, blessed) = compare(&text, &found, &outs);
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
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
    let found = |line, variant: &str| Found {
        kind: Kind::Error,
        line,
        variant: variant.into(),
        message: "no b".into(),
    };
    let fault = |line, variant: &str| Found { kind: Kind::Fault, ..found(line, variant) };
    let check = |text: &str, found: &[Found]| compare(text, found, &[]);
    assert_eq!(check("a ; error: X: no b\n", &[found(1, "X")]).0, [""; 0]);
    assert_eq!(check("a\nb ; error: X ; error: Y\n", &[found(2, "Y"), found(2, "X")]).0, [""; 0]);
    assert_eq!(check("b ; fault: X ; error: Y\n", &[found(1, "Y"), fault(1, "X")]).0, [""; 0]);
    for (text, errors) in [
        ("a ; error: X\n", vec![]),
        ("a\n", vec![found(1, "X")]),
        ("a ; error: X: other\n", vec![found(1, "X")]),
        ("a ; error: Y\n", vec![found(1, "X")]),
        ("a ; fault: X\n", vec![found(1, "X")]),
        ("a ; error: X\n", vec![fault(1, "X")]),
        ("a ; error: X\n", vec![found(1, "X"), found(1, "X")]),
    ] {
        let (wrong, blessed) = check(text, &errors);
        assert!(!wrong.is_empty(), "{text}");
        assert_eq!(check(&blessed, &errors).0, [""; 0], "{blessed}");
    }
}

#[test]
fn outputs_are_compared_with_runs() {
    let outs = [(1, "y=1,2".to_owned())];
    assert_eq!(compare("; run: sim\n; out: y=1,2\n", &[], &outs).0, [""; 0]);
    for text in ["; run: sim\n", "; run: sim\n; out: y=1,3\nb\n", "; run: sim\n\n; out: y=1,2\n"] {
        let (wrong, blessed) = compare(text, &[], &outs);
        assert!(!wrong.is_empty(), "{text}");
        assert_eq!(compare(&blessed, &[], &outs).0, [""; 0], "{blessed}");
    }
    // A run that faults has no output.
    let (wrong, blessed) = compare("; run: sim\n; out: y=1\n", &[], &[(1, String::new())]);
    assert!(!wrong.is_empty() && blessed == "; run: sim\n");
}
