//! Runs property-test campaigns for the layout laws and prints how many cases passed.
//!
//! `cargo run --release --package xtask -- campaign NAME|all|list [--cases N] [--seed S] [--record
//! FILE]`.
//! With `--record`, the counts replace the campaign's row in a Markdown table: see
//! `scripts/campaign` and `docs/evidence/laws.md`.

use std::error::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::campaign::{Campaign, SEED, Tally, campaigns};

struct Options {
    name: String,
    cases: u64,
    seed: u64,
    record: Option<String>,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut found = Options { name: String::new(), cases: 1_000_000, seed: SEED, record: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--cases" => found.cases = value()?.parse()?,
            "--seed" => found.seed = value()?.parse()?,
            "--record" => found.record = Some(value()?),
            name if found.name.is_empty() => found.name = name.to_owned(),
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    if found.name.is_empty() {
        return Err("usage: campaign NAME|all|list [--cases N] [--seed S] [--record FILE]".into());
    }
    Ok(found)
}

/// Formats a table row, with the campaign's name as its first cell.
fn row(campaign: &Campaign, seed: u64, tally: Tally) -> String {
    format!(
        "| `{}` | {} | {} | {} | {} | {seed} |",
        campaign.name, campaign.law, tally.cases, tally.accepted, tally.refused
    )
}

/// Counts, by cause, the symbolic cases that were refused although the same case has a result with
/// integers. Returns an empty text if there are none.
fn avoidable(tally: Tally) -> String {
    let all = tally.by_form + tally.by_condition + tally.by_exception + tally.without_cause;
    if all == 0 {
        return String::new();
    }
    let possible = (tally.accepted + all) as f64;
    format!(
        " ({all} although the same integers have a result, {:.1} % of all results: {} under another condition, {} in another form, {} exceptions, {} without a cause; {} of them by cases; {} refusals name an assumption, {} do not)",
        100.0 * all as f64 / possible,
        tally.by_condition,
        tally.by_form,
        tally.by_exception,
        tally.without_cause,
        tally.by_cases,
        tally.with_assumption,
        tally.without_assumption,
    )
}

/// Replaces the row that starts with the same name, or appends the row to the table.
fn record(file: &str, row: &str) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let (begin, end) = ("<!-- campaigns -->", "<!-- end -->");
    let mut out = Vec::new();
    let (mut inside, mut done) = (false, false);
    let key = row.split('|').nth(1);
    for line in text.lines() {
        if line == begin {
            inside = true;
        } else if line == end {
            if inside && !done {
                out.push(row);
                done = true;
            }
            inside = false;
        }
        if inside && !done && line.split('|').nth(1) == key {
            out.push(row);
            done = true;
        } else {
            out.push(line);
        }
    }
    if !done {
        return Err(format!("{file} has no table between `{begin}` and `{end}`").into());
    }
    std::fs::write(file, out.join("\n") + "\n")?;
    Ok(())
}

/// Runs the campaigns that the arguments name.
///
/// # Errors
/// A wrong argument, a law that does not hold, or a record file that cannot be written.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let options = options(arguments)?;
    let all = campaigns();
    if options.name == "list" {
        for campaign in &all {
            println!("{:32} {}", campaign.name, campaign.law);
        }
        return Ok(());
    }
    let chosen: Vec<&Campaign> =
        all.iter().filter(|c| options.name == "all" || c.name == options.name).collect();
    if chosen.is_empty() {
        return Err(
            format!("there is no campaign `{}`: `list` prints their names", options.name).into()
        );
    }
    let results = outcomes(&chosen, &options);
    let mut failures = 0;
    for (campaign, (result, seconds)) in chosen.iter().zip(results) {
        match result {
            Ok(tally) => {
                println!(
                    "{:34} {} cases: {} accepted, {} refused{}, seed {}, {seconds:.1} s",
                    campaign.name,
                    tally.cases,
                    tally.accepted,
                    tally.refused,
                    avoidable(tally),
                    options.seed
                );
                if let Some(file) = &options.record {
                    record(file, &row(campaign, options.seed, tally))?;
                }
            }
            Err(e) => {
                failures += 1;
                println!("{:34} FAILED: {e}", campaign.name);
            }
        }
    }
    if failures > 0 { Err(format!("{failures} campaigns failed").into()) } else { Ok(()) }
}

/// A campaign's counts or its counterexample, and how many seconds it took.
type Outcome = (Result<Tally, String>, f64);

/// Runs the campaigns, one per processor at a time. A campaign draws the same cases on each of
/// them.
fn outcomes(chosen: &[&Campaign], options: &Options) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<Outcome>> = chosen.iter().map(|_| OnceLock::new()).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(chosen.len()) {
            scope.spawn(|| {
                loop {
                    let mine = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(campaign), Some(slot)) = (chosen.get(mine), results.get(mine)) else {
                        break;
                    };
                    let start = Instant::now();
                    let result = (campaign.run)(options.cases, options.seed);
                    slot.set((result, start.elapsed().as_secs_f64())).ok();
                }
            });
        }
    });
    let ended = || (Err("its thread ended before it did".to_owned()), 0.0);
    results.into_iter().map(|slot| slot.into_inner().unwrap_or_else(ended)).collect()
}
