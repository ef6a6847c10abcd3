//! `cargo run --package xtask -- ops` prints a page with every operation of the table. The test
//! leaves the page in `target/ops.md`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tilewright::ir::op::Op;

#[path = "../xtask/src/ops.rs"]
mod ops;

#[test]
fn the_page_lists_every_operation_with_an_answer() {
    let page = ops::document();
    std::fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("ops.md"), &page).unwrap();
    for info in Op::table() {
        let heading = format!("\n### `{}`\n", info.name);
        let (_, section) =
            page.split_once(&heading).unwrap_or_else(|| panic!("{heading} is missing"));
        let section = section.split("\n### ").next().unwrap_or_default();
        assert!(section.lines().any(|line| line.starts_with("| ")), "{} has no table", info.name);
    }
}
