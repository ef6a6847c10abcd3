//! Wrong arguments of a launch, which rustc must refuse.
#![cfg(any(feature = "sim", feature = "cuda"))]

#[path = "support/ui.rs"]
mod ui;

#[test]
fn wrong_launches_do_not_compile() {
    ui::check_does_not_compile("launch_ui");
}
