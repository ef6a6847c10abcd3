//! `docs/ops.md` is what the table of operations and the verifier say. `TILEWRIGHT_BLESS=1` writes it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use tilewright::ir::op::Op;

#[path = "../xtask/src/ops.rs"]
mod ops;

#[test]
fn the_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ops.md");
    let written = ops::document();
    for info in Op::table() {
        assert!(written.contains(&format!("\n### `{}`\n", info.name)), "{} is missing", info.name);
    }
    if std::env::var_os("TILEWRIGHT_BLESS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differ = found.lines().zip(written.lines()).find(|(a, b)| a != b);
    assert!(
        found == written,
        "docs/ops.md is not what the table says: run `TILEWRIGHT_BLESS=1 cargo test --test ops_doc`; the first \
         line that differs: {differ:?}"
    );
}
