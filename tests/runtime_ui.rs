//! Wrong arguments of a launch, which rustc must refuse.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends with the message"
)]
#![cfg(any(feature = "sim", feature = "cuda"))]

#[path = "support/ui.rs"]
mod ui;

#[test]
fn wrong_launches_do_not_compile() {
    ui::check_does_not_compile("launch_ui");
}
