//! Limits of the text form, and what its errors show.

use expect_test::{Expect, expect};
use tilewright::ir::{Kernel, KernelIr, ParseErrorKind, parse, parse_kernels};

/// A kernel with `depth` regions inside each other, its body included.
fn nested(depth: usize) -> String {
    let open = "if %c {\n".repeat(depth - 1);
    let close = "return\n}\n".repeat(depth);
    format!("kernel @k target sm_80 (%c: bool) {{\n{open}{close}")
}

#[test]
fn depth() {
    let ir: KernelIr = nested(KernelIr::MAX_DEPTH).parse().expect("it is not too deep");
    Kernel::verify(ir).expect("it is not too deep");
    for depth in [KernelIr::MAX_DEPTH + 1, 200_000] {
        let error = nested(depth).parse::<KernelIr>().expect_err("it is too deep");
        assert_eq!(error.kind, ParseErrorKind::TooDeep { limit: KernelIr::MAX_DEPTH });
        assert_eq!(error.line as usize, KernelIr::MAX_DEPTH + 2);
    }
}

#[test]
fn size() {
    let limit = 64 << 20;
    let mut text = "kernel @k target sm_80 () {\n  return\n}\n;".to_owned();
    text += &" ".repeat(limit - text.len());
    text.parse::<KernelIr>().expect("it is not too long");
    text.push(' ');
    let error = text.parse::<KernelIr>().expect_err("it is too long");
    assert_eq!(error.kind, ParseErrorKind::TooLong { bytes: limit + 1, limit });
    assert_eq!((error.line, error.column), (1, 1));
}

#[test]
fn places_are_those_of_the_text() {
    let text = "\n kernel @k target sm_80 (%a: i32) {\n\n   %b = neg %a : i32 ; ä\n  return\n}";
    let ir = parse("dir/file.kir", text).expect("it is of the form");
    let places: Vec<String> = ir.ops.keys().map(|op| ir.location_of(op).to_string()).collect();
    assert_eq!(places, ["dir/file.kir:4:4", "dir/file.kir:5:3"]);
    let param = ir.values[ir.params[0].value].location;
    assert_eq!(ir.locations[param].to_string(), "dir/file.kir:2:26");
}

#[test]
fn one_kernel_or_several() {
    let one = "kernel @a target sm_80 () {\n  return\n}\n";
    let two = format!("{one}\n{}", one.replace("@a", "@b"));
    let names = |text| -> Vec<String> {
        let kernels = parse_kernels("test.kir", text).expect("they are of the form");
        kernels.into_iter().map(|ir| ir.name).collect()
    };
    assert_eq!(names(""), [""; 0]);
    assert_eq!(names(one), ["a"]);
    assert_eq!(names(&two), ["a", "b"]);
    let error = two.parse::<KernelIr>().expect_err("there are two");
    assert_eq!((error.line, error.column), (5, 1));
    assert!("".parse::<KernelIr>().is_err());
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    let error = text.parse::<KernelIr>().expect_err("it is not of the form");
    expected.assert_eq(&error.to_string());
}

#[test]
fn errors_show_their_place() {
    check(
        "",
        expect![[r#"
            1:1: expected `kernel`, but found the end of the text
              |
              | ^"#]],
    );
    check(
        "kernel @k target sm_80 () {\r\n\treturn\t?\r\n}",
        expect![[r#"
        2:9: unexpected character `?`
          | 	return	?
          | 	      	^"#]],
    );
    // A control sequence is not passed on to the terminal.
    check(
        "kernel @k \u{1b}[31m",
        expect![[r#"
        1:11: unexpected character `\u{1b}`
          | kernel @k �[31m
          |           ^"#]],
    );
    // Of a long line the part around the place is shown.
    let long =
        format!("kernel @k target sm_80 (%{}: i32, %b: what{})", "a".repeat(200), " ".repeat(500));
    check(
        &long,
        expect![[r#"
            1:237: `what` is not a type: expected a scalar such as `f32`, or `ptr<..>`
              | aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: i32, %b: what
              |                                                                                 ^^^^"#]],
    );
}
