//! Compares the crate with test vectors from the real CuTe implementations.
//!
//! `cargo run --release --example conformance -- FILES` prints for each operation how many rows are
//! equal, stricter, extended, different only in form, or different. With `--answers` it prints the
//! crate's own answer to each row as a JSON string instead, `"ERROR"` for an error. With `--list`
//! it prints every row that is not equal, with the reason.

#![expect(clippy::print_stderr, reason = "a command line reports its errors there")]

#[path = "../tests/support/oracle.rs"]
mod oracle;
#[path = "../tests/support/vectors.rs"]
mod vectors;

use std::collections::BTreeMap;
use std::process::ExitCode;

use vectors::{Row, Verdict};

/// The table's columns.
const COLUMNS: [Verdict; 5] =
    [Verdict::Equal, Verdict::Stricter, Verdict::Extends, Verdict::Form, Verdict::Different];

fn main() -> ExitCode {
    let (mut answers, mut list, mut files) = (false, false, Vec::new());
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--answers" => answers = true,
            "--list" => list = true,
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        eprintln!("usage: conformance [--answers | --list] FILES");
        return ExitCode::from(2);
    }
    let mut out = std::io::stdout().lock();
    match run(&files, answers, list, &mut out) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(
    files: &[String],
    answers: bool,
    list: bool,
    out: &mut impl std::io::Write,
) -> Result<bool, String> {
    let mut counts: BTreeMap<(String, String), [usize; 5]> = BTreeMap::new();
    let put = |out: &mut dyn std::io::Write, line: String| {
        writeln!(out, "{line}").map_err(|e| e.to_string())
    };
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        let name = file.rsplit('/').next().unwrap_or(file).to_owned();
        for (number, line) in text.lines().enumerate() {
            let row = Row::parse(line, name.contains("mixed"))
                .map_err(|e| format!("{file}:{}: {e}", number + 1))?;
            if answers {
                let answer = row.answer().unwrap_or_else(|_| "ERROR".to_owned());
                put(out, serde_json::Value::String(answer).to_string())?;
                continue;
            }
            let (verdict, reason) = row.judge();
            let count = counts.entry((name.clone(), row.op.clone())).or_default();
            for (column, count) in COLUMNS.iter().zip(count) {
                *count += usize::from(*column == verdict);
            }
            if list && verdict != Verdict::Equal {
                let label = format!("{verdict:?}").to_uppercase();
                put(out, format!("{label} {name}:{} {} {reason}", number + 1, row.describe()))?;
            }
        }
    }
    if answers {
        return Ok(true);
    }
    put(
        out,
        format!(
            "{:<22}{:<20}{:>7}{:>10}{:>9}{:>11}{:>11}",
            "file", "op", "equal", "stricter", "extends", "form only", "different"
        ),
    )?;
    let mut total = [0usize; 5];
    for ((file, op), count) in &counts {
        let [a, b, c, d, e] = count;
        put(out, format!("{file:<22}{op:<20}{a:>7}{b:>10}{c:>9}{d:>11}{e:>11}"))?;
        total.iter_mut().zip(count).for_each(|(t, c)| *t += c);
    }
    let [a, b, c, d, e] = total;
    put(out, format!("{:<22}{:<20}{a:>7}{b:>10}{c:>9}{d:>11}{e:>11}", "all", ""))?;
    put(out, format!("{} passed, {e} failed", a + b + c + d))?;
    out.flush().map_err(|e| e.to_string())?;
    Ok(e == 0)
}
