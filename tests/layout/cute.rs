//! Vectors of the real CuTe implementations: C++, CuTe DSL and pycute.
//!
//! `tests/data` holds a part of the vectors; `examples/conformance.rs` reads any file of them.

use crate::support::vectors;

use vectors::{Row, Verdict};

/// Judges the rows of a file. Rows on which C++ and another implementation agree must pass. Of the
/// rows that only one implementation answers, at least `others` in a hundred must pass.
fn check(text: &str, mixed: bool, others: usize) {
    let (mut failed, mut single, mut single_failed) = (Vec::new(), 0, 0);
    for line in text.lines() {
        let row = Row::parse(line, mixed).unwrap();
        let (verdict, reason) = row.judge();
        let wrong = verdict == Verdict::Different;
        if row.is_agreed() && wrong {
            failed.push(format!("{} {reason}", row.describe()));
        }
        if !row.is_agreed() {
            single += 1;
            single_failed += usize::from(wrong);
        }
    }
    assert!(failed.is_empty(), "{} rows differ:\n{}", failed.len(), failed.join("\n"));
    assert!((single - single_failed) * 100 >= single * others, "{single_failed} of {single}");
}

#[test]
fn unit_tests_of_cutlass() {
    check(include_str!("../data/cute_unit.jsonl"), false, 98);
}

#[test]
fn random_static_layouts() {
    check(include_str!("../data/cute_static.jsonl"), false, 99);
}

#[test]
fn layouts_of_mma_and_copy_atoms() {
    check(include_str!("../data/cute_atoms_algebra.jsonl"), false, 99);
}

#[test]
fn dynamic_integers() {
    check(include_str!("../data/cute_dynamic.jsonl"), false, 96);
}

#[test]
fn static_and_run_time_integers_mixed() {
    check(include_str!("../data/cute_cpp_mixed.jsonl"), true, 99);
}

#[test]
fn mma_and_copy_atoms_and_tiled_mmas() {
    check(include_str!("../data/cute_atoms.jsonl"), false, 100);
}
