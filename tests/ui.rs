//! Mistakes that rustc must catch in the code that builds a kernel.

#![allow(clippy::expect_used, reason = "a test ends with the message")]

#[path = "support/ui.rs"]
mod ui;

#[test]
fn mistakes_in_bodies_do_not_compile() {
    ui::check_does_not_compile("ui");
}
