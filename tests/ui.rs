//! Mistakes that rustc must catch, with the text it answers.

#[path = "support/mod.rs"]
mod support;

use support::ui::check_does_not_compile;

#[test]
fn mistakes_in_bodies_do_not_compile() {
    check_does_not_compile("ui");
}

#[test]
fn wrong_launches_do_not_compile() {
    check_does_not_compile("launch_ui");
}
