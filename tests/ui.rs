//! Mistakes that rustc must catch in the code that builds a kernel.

#[path = "support/ui.rs"]
mod ui;

#[test]
fn mistakes_in_bodies_do_not_compile() {
    ui::check_does_not_compile("ui");
}
