//! Checks the law of the text form.

use tilewright::ir::KernelIr;

/// Checks that printing and parsing the kernel gives the same kernel, and that doing it again
/// changes nothing.
#[track_caller]
pub(crate) fn check_round_trip(ir: &KernelIr) {
    let text = ir.to_string();
    let parsed: KernelIr = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(parsed == *ir, "the parsed kernel differs:\n{text}\n{parsed}");
    let printed = parsed.to_string();
    assert_eq!(ir.canonical().to_string(), printed, "the canonical form differs");
    let again: KernelIr = printed.parse().unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(again.to_string(), printed, "the second print differs");
}
