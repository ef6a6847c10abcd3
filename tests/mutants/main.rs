//! Makes mistakes in correct kernels and counts how many of them the simulator names.
//!
//! `cargo test --release --test mutants -- --nocapture` tries all and prints the table of
//! docs/evidence/sanitizer.md; a build with debug assertions tries a twentieth, and all with
//! `TILEWRIGHT_ALL_MUTANTS=1`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and prints its table"
)]

#[path = "../support/mod.rs"]
mod support;

mod checked;
mod equivalent;
mod kernels;
mod operators;
mod peers;
mod speed;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use kernels::{Subject, subjects};
use operators::{Mutant, classes, mutants, operators};
use tilewright::ir::{Kernel, parse};
use tilewright::sim::{FaultCause, Options, RunError};

/// Schedules of the second figure.
const SCHEDULES: u32 = 50;

/// Schedules of each of a tenth of the mutants.
const FEW_SCHEDULES: u32 = 10;

/// Operations of a block of a mutant: many times those of the longest correct kernel.
const FUEL: u64 = 1 << 16;

/// The result of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The verifier refuses it, or the default run names it.
    Named,
    /// One of the schedules names it.
    InSchedules,
    /// The result is wrong, and nothing says so.
    Wrong,
    /// The result is right.
    Nothing,
}

/// Returns the outcome, and what was said.
fn outcome(
    subject: &Subject,
    expected: &[Vec<u8>],
    mutant: &Mutant,
    schedules: u32,
) -> (Outcome, String) {
    let ir = parse("kernel.kir", &mutant.text);
    let ir = ir.unwrap_or_else(|error| panic!("{}: {error}\n{}", mutant.operator, mutant.text));
    let kernel = match Kernel::verify(ir) {
        Ok(kernel) => kernel,
        Err(errors) => return (Outcome::Named, format!("refused: {errors}")),
    };
    let options = Options::default().fuel(FUEL);
    let found = match subject.run(kernel.ir(), options.clone()) {
        Ok(found) => found,
        Err(error) => return (Outcome::Named, said(&error)),
    };
    if let Err(error) = subject.run(kernel.ir(), options.schedules(schedules)) {
        return (Outcome::InSchedules, said(&error));
    }
    let outcome = if found == *expected { Outcome::Nothing } else { Outcome::Wrong };
    (outcome, String::new())
}

fn said(error: &RunError) -> String {
    let text = error.to_string();
    if let RunError::ResultsDiffer(_) = error {
        return text;
    }
    let kind = match error.fault().map(|fault| &fault.cause) {
        Some(FaultCause::Race { .. }) => "race",
        Some(_) => "fault",
        None => "no end",
    };
    format!("{kind}: {}", text.lines().next().unwrap_or_default())
}

/// Calls `f` with each item, on as many threads as there are processors.
fn in_parallel<T: Sync>(items: &[T], f: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Relaxed)) {
                    f(item);
                }
            });
        }
    });
}

/// The correct kernels are silent.
#[test]
fn correct_kernels_are_silent() {
    let all = subjects();
    assert!(all.len() >= 18, "{} kernels", all.len());
    let schedules = if cfg!(debug_assertions) { 5 } else { SCHEDULES };
    in_parallel(&all, |subject| {
        let options = Options::default().fuel(1 << 24).schedules(schedules);
        let run = subject.run(&subject.ir, options);
        run.unwrap_or_else(|error| panic!("{}: {error}\n{}", subject.name, subject.text));
    });
}

/// Figures of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    real: usize,
    equivalent: usize,
    named: usize,
    scheduled: usize,
    wrong: usize,
    nothing: usize,
}

impl Row {
    fn add(&mut self, outcome: Outcome) {
        self.real += 1;
        match outcome {
            Outcome::Named => self.named += 1,
            Outcome::InSchedules => self.scheduled += 1,
            Outcome::Wrong => self.wrong += 1,
            Outcome::Nothing => self.nothing += 1,
        }
    }

    fn join(&mut self, other: Row) {
        self.real += other.real;
        self.equivalent += other.equivalent;
        self.named += other.named;
        self.scheduled += other.scheduled;
        self.wrong += other.wrong;
        self.nothing += other.nothing;
    }

    fn line(&self, name: &str) -> String {
        let Row { real, equivalent, named, scheduled, wrong, nothing } = self;
        let share = |count: usize| 100.0 * count as f64 / (*real).max(1) as f64;
        format!(
            "| {name} | {real} | {named} ({:.1} %) | {} ({:.1} %) | {wrong} | {nothing} | {equivalent} |",
            share(*named),
            named + scheduled,
            share(named + scheduled),
        )
    }
}

/// Classes of mistakes in what is computed. In those of all others a barrier, a fence, a wait, a
/// count, a phase, a scope, a mask, a stage or an order is wrong.
const LOGIC: [&str; 6] =
    ["atomic", "shared allocation", "guard", "comparison", "block index", "thread index"];

/// Most mistakes are named: the bars are those of docs/evidence/sanitizer.md.
#[test]
fn mistakes_are_named() {
    let subjects = subjects();
    let expected: Vec<Vec<Vec<u8>>> = subjects
        .iter()
        .map(|subject| {
            let options = Options::default().fuel(1 << 24);
            subject
                .run(&subject.ir, options)
                .unwrap_or_else(|error| panic!("{}: {error}", subject.name))
        })
        .collect();
    let mut all: Vec<(usize, Mutant)> = Vec::new();
    for (number, subject) in subjects.iter().enumerate() {
        let mutants = mutants(&subject.text).into_iter();
        // The index of the only block is 0.
        let changes = |mutant: &Mutant| mutant.class != "block index" || subject.blocks() > 1;
        all.extend(mutants.filter(changes).map(|mutant| (number, mutant)));
    }
    let whole = all.len();
    if cfg!(debug_assertions) && std::env::var_os("TILEWRIGHT_ALL_MUTANTS").is_none() {
        let mut index = 0;
        all.retain(|_| {
            index += 1;
            index % 20 == 0
        });
    }
    let rows: Mutex<BTreeMap<&str, Row>> = Mutex::default();
    let missed: Mutex<Vec<String>> = Mutex::default();
    let lock = |error: PoisonError<_>| error.into_inner();
    in_parallel(&all, |(number, mutant)| {
        let subject = &subjects[*number];
        let reason = equivalent::reason(subject.name, mutant);
        // Schedules take most of the time, and find nothing in a correct kernel.
        let schedules = match reason {
            _ if all.len() == whole => SCHEDULES,
            Some(_) => 3,
            None => FEW_SCHEDULES,
        };
        let (outcome, said) = outcome(subject, &expected[*number], mutant, schedules);
        let text = format!(
            "{outcome:?} | {} | {} | {} | {}: {} | {said}",
            mutant.class, mutant.operator, subject.name, mutant.line, mutant.site
        );
        if std::env::var_os("TILEWRIGHT_MUTANTS_LIST").is_some() {
            println!("{text}");
        }
        let mut rows = rows.lock().unwrap_or_else(PoisonError::into_inner);
        let row = rows.entry(mutant.class).or_default();
        // A line may stand several times in a kernel: what shows is no correct kernel.
        if reason.is_some() && outcome == Outcome::Nothing {
            row.equivalent += 1;
            return;
        }
        row.add(outcome);
        if matches!(outcome, Outcome::Wrong | Outcome::Nothing) {
            missed.lock().unwrap_or_else(lock).push(text);
        }
    });
    let rows = rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut sum, mut synchronisation) = (Row::default(), Row::default());
    println!(
        "{} kernels, {} operators, {whole} mutants, {} tried",
        subjects.len(),
        operators(),
        all.len()
    );
    println!(
        "| class | real | named | with {SCHEDULES} schedules | wrong only | nothing | equivalent |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for class in classes() {
        if let Some(row) = rows.get(class) {
            println!("{}", row.line(class));
            sum.join(*row);
            if !LOGIC.contains(&class) {
                synchronisation.join(*row);
            }
        }
    }
    println!("{}", synchronisation.line("synchronisation"));
    println!("{}", sum.line("all"));
    let mut missed = missed.into_inner().unwrap_or_else(PoisonError::into_inner);
    missed.sort();
    println!("{}", missed.join("\n"));
    if all.len() == whole {
        assert_eq!(sum.equivalent, equivalent::count(), "sites that look the same are counted");
    }
    assert!(operators() >= 45);
    assert!(whole >= 500, "{whole} mutants");
    assert!(10 * sum.named >= 9 * sum.real, "named in the default run: {sum:?}");
    if all.len() == whole {
        let Row { named, real, .. } = synchronisation;
        assert!(100 * named >= 99 * real, "named in the default run: {synchronisation:?}");
    }
    // One mutant of a tenth stands for ten.
    let bar = if all.len() == whole { 97 } else { 93 };
    assert!(100 * (sum.named + sum.scheduled) >= bar * sum.real, "with schedules: {sum:?}");
}
