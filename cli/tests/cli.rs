//! The command line: what it prints, its exit codes, and errors of one line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

#[path = "cli/browser.rs"]
mod browser;
#[path = "cli/check.rs"]
mod check;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "../../tests/support/driver.rs"]
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "the tests of the runtime use the rest")]
mod driver;
#[path = "cli/for_programs.rs"]
mod for_programs;
#[path = "cli/layout.rs"]
mod layout_page;
#[path = "cli/progress.rs"]
mod progress;
#[path = "cli/prove.rs"]
mod prove;
#[path = "cli/ptx.rs"]
mod ptx;
#[path = "../../tests/support/skip.rs"]
mod skip;
#[path = "cli/trace.rs"]
mod trace;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use expect_test::{Expect, expect};
use tilewright::kernels::gemm::GemmConfig;
use tilewright::layout::{Drawing, Layout, layout, tiler};

/// Runs the program. Its standard error has errors only, however long a busy machine takes.
fn tilewright(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.args(args).env("TILEWRIGHT_PROGRESS", "0").output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Success: exit code 0 and this on the standard output.
fn check(args: &[&str], expected: &Expect) {
    let output = tilewright(args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    expected.assert_eq(&text(&output.stdout));
}

/// Bad input: exit code 2, nothing on the standard output, one line on the standard error.
fn check_refused(args: &[&str], expected: &Expect) {
    let output = tilewright(args);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{args:?}");
    assert!(error.starts_with("error: ") && error.lines().count() == 1, "{error}");
    expected.assert_eq(&error);
}

/// A file in the folder for the output of tests.
fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

#[test]
fn layout_prints_layout_sizes_and_table() {
    check(
        &["layout", "(2,4):(4,1)"],
        &expect![[r#"
        layout  (2,4):(4,1)
        size    8
        cosize  8

              0   1   2   3
            +---+---+---+---+
         0  | 0 | 1 | 2 | 3 |
            +---+---+---+---+
         1  | 4 | 5 | 6 | 7 |
            +---+---+---+---+
    "#]],
    );
    check(
        &["layout", " (2,(2,2)) "],
        &expect![[r#"
        layout  (2,(2,2)):(1,(2,4))
        size    8
        cosize  8

              0   1   2   3
            +---+---+---+---+
         0  | 0 | 2 | 4 | 6 |
            +---+---+---+---+
         1  | 1 | 3 | 5 | 7 |
            +---+---+---+---+
    "#]],
    );
    check(
        &["layout", "(2,2):(1@0,1@1)"],
        &expect![[r#"
        layout   (2,2):(1@0,1@1)
        size     4
        coshape  (2,2)

                  0       1
            +-------+-------+
         0  | (0,0) | (0,1) |
            +-------+-------+
         1  | (1,0) | (1,1) |
            +-------+-------+
    "#]],
    );
    check(
        &["layout", "S<1,0,1>"],
        &expect![[r#"
        swizzle  S<1,0,1>

              0   1
            +---+---+
         0  | 0 | 1 |
            +---+---+
         1  | 3 | 2 |
            +---+---+
    "#]],
    );
    check(
        &["layout", "S<1,0,2> o 0 o (2,4):(4,1)"],
        &expect![[r#"
        layout  S<1,0,2> o 0 o (2,4):(4,1)
        size    8
        cosize  8

              0   1   2   3
            +---+---+---+---+
         0  | 0 | 1 | 2 | 3 |
            +---+---+---+---+
         1  | 5 | 4 | 7 | 6 |
            +---+---+---+---+
    "#]],
    );
}

#[test]
fn layout_without_a_picture_is_printed_all_the_same() {
    check(
        &["layout", "(n,64)"],
        &expect![[r#"
        layout  (n,64):(1,n)
        size    64*n
        cosize  64*n

        no picture: n is not static; evaluate it with the values of its symbols first: `--let NAME=VALUE`
    "#]],
    );
    check(
        &["layout", "(1024,1024)"],
        &expect![[r#"
        layout  (1024,1024):(1,1024)
        size    1048576
        cosize  1048576

        no picture: the number of cells of the picture is over the limit of 16384
    "#]],
    );
    check(
        &["layout", "(16*n,64)", "--op", "logical_divide", "--with", "(16,16)"],
        &expect![[r#"
            layout          (16*n,64):(1,16*n)
            with            (16,16)
            logical_divide  ((16,n),(16,4)):((1,16),(16*n,256*n))
            size            1024*n
            cosize          1024*n

            no picture: n is not static; evaluate it with the values of its symbols first: `--let NAME=VALUE`
        "#]],
    );
}

#[test]
fn operations_print_their_result() {
    check(
        &["layout", "(4,8):(8,1)", "--op", "logical_divide", "--with", "(2,4)"],
        &expect![[r#"
            layout          (4,8):(8,1)
            with            (2,4)
            logical_divide  ((2,2),(4,2)):((8,16),(1,4))
            size            32
            cosize          32

                   0    1    2    3    4    5    6    7
                +----+----+----+----+----+----+----+----+
             0  |  0 |  1 |  2 |  3 |  4 |  5 |  6 |  7 |
                +----+----+----+----+----+----+----+----+
             1  |  8 |  9 | 10 | 11 | 12 | 13 | 14 | 15 |
                +----+----+----+----+----+----+----+----+
             2  | 16 | 17 | 18 | 19 | 20 | 21 | 22 | 23 |
                +----+----+----+----+----+----+----+----+
             3  | 24 | 25 | 26 | 27 | 28 | 29 | 30 | 31 |
                +----+----+----+----+----+----+----+----+
        "#]],
    );
    check(
        &["layout", "8:2", "--op", "composition", "--with", "S<1,0,1>"],
        &expect![[r#"
        layout       8:2
        with         S<1,0,1>
        composition  S<1,1,1> o 0 o 8:2
        size         8
        cosize       15

               0    1    2    3    4    5    6    7
            +----+----+----+----+----+----+----+----+
            |  0 |  2 |  6 |  4 |  8 | 10 | 14 | 12 |
            +----+----+----+----+----+----+----+----+
    "#]],
    );
    check(
        &["layout", "6:1 o 0 o S<1,0,1>"],
        &expect![[r#"
        layout  6:1 o 0 o S<1,0,1>

        no picture: the shape is not defined for 6:1 o 0 o S<1,0,1>
    "#]],
    );
}

/// The line of the result of an operation.
fn result(args: &[&str], operation: &str) -> String {
    let output = tilewright(args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    let found = text(&output.stdout);
    let line = found.lines().find_map(|line| line.strip_prefix(operation)).expect("a result");
    line.trim().to_owned()
}

#[test]
fn every_operation_works_by_name() {
    let a = "(4,(2,4)):(2,(1,8))";
    let cases: &[(&str, &str, Option<&str>, &str)] = &[
        ("append", a, Some("3:32"), "(4,(2,4),3):(2,(1,8),32)"),
        ("blocked_product", "(2,5):(5,1)", Some("(3,4):(1,3)"), "((2,3),(5,4)):((5,10),(1,30))"),
        ("coalesce", "(2,(1,6)):(1,(6,2))", None, "12:1"),
        ("coalesce", "(2,(1,6)):(1,(6,2))", Some("(1,1)"), "(2,6):(1,2)"),
        ("complement", "(2,2):(1,6)", Some("24"), "(3,2):(2,12)"),
        ("complement", "(2,2):(1,6)", None, "3:2"),
        ("composition", "(6,2):(8,2)", Some("(4,3):(3,1)"), "((2,2),3):((24,2),8)"),
        ("composition", "(6,2):(8,2)", Some("(2,2:1)"), "(2,2):(8,2)"),
        ("composition", "64:2", Some("S<3,0,3>"), "S<3,1,3> o 0 o 64:2"),
        ("composition", "64:2", Some("S<3,0,3> o 0 o 8:8"), "S<3,1,3> o 0 o 8:16"),
        ("dice", a, Some("(_,(1,_))"), "(2):(1)"),
        ("downcast", "(4,8):(8,1)", Some("2"), "(4,16):(16,1)"),
        ("filter", "(4,2,4):(1,0,4)", None, "16:1"),
        ("filter", "(4,2,4):(1,0,4)", Some("(1,1,1)"), "(4,1,4):(1,0,4)"),
        ("filter_zeros", "(2,4):(0,1)", None, "(1,4):(0,1)"),
        ("filter_zeros", "(2,4):(0,0)", Some("(1,0)"), "(2,1):(0,0)"),
        ("flat_divide", "(4,8):(8,1)", Some("(2,4)"), "(2,4,2,2):(8,1,16,4)"),
        ("flat_product", "(2,2):(1,2)", Some("3:1"), "(2,2,3):(1,2,4)"),
        ("flatten", a, None, "(4,2,4):(2,1,8)"),
        ("fragment_like", "(8,2,2):(4,2,1)", None, "(8,2,2):(1,16,8)"),
        ("get", a, Some("1,1"), "4:8"),
        ("group", "(4,2,8):(1,4,8)", Some("1,3"), "(4,(2,8)):(1,(4,8))"),
        ("identity_like", "(4,8):(8,1)", None, "(4,8):(1@0,1@1)"),
        ("layout_like", "(4,8):(8,1)", None, "(4,8):(8,1)"),
        ("left_inverse", "(4,8):(8,1)", None, "(8,4):(4,1)"),
        ("logical_divide", "16:1", Some("4:2"), "(4,(2,2)):(2,(1,8))"),
        ("logical_product", "(2,2):(4,1)", Some("6:1"), "((2,2),(2,3)):((4,1),(2,8))"),
        ("max_common_layout", "(4,8):(1,4)", Some("(4,8):(1,8)"), "4:1"),
        ("nullspace", "(4,8):(0,1)", None, "4:1"),
        ("prepend", "4:1", Some("2:9"), "(2,4):(9,1)"),
        ("raked_product", "(2,5):(5,1)", Some("(3,4):(1,3)"), "((3,2),(4,5)):((10,5),(30,1))"),
        ("recast_layout", "(4,8):(8,1)", Some("32,16"), "(4,16):(16,1)"),
        ("right_inverse", a, None, "(2,4,4):(4,1,8)"),
        ("select", "(4,2,8):(1,4,8)", Some("2,0"), "(8,4):(8,1)"),
        ("slice", a, Some("(_,(1,_))"), "(4,4):(2,8)"),
        ("take", "(4,2,8):(1,4,8)", Some("(1,3)"), "(2,8):(4,8)"),
        ("tile_to_shape", "(2,2):(1,2)", Some("(4,6)"), "((2,2),(2,3)):((1,4),(2,8))"),
        ("tiled_divide", "(4,8):(8,1)", Some("(2,4)"), "((2,4),2,2):((8,1),16,4)"),
        ("tiled_product", "(2,2):(1,2)", Some("3:1"), "((2,2),3):((1,2),4)"),
        ("unflatten", "(4,2,8):(2,1,8)", Some("(0,(0,0))"), "(4,(2,8)):(2,(1,8))"),
        ("upcast", "(4,8):(8,1)", Some("2"), "(4,4):(4,1)"),
        ("zip", "(4,2):(1,4)", Some("(3,5):(8,9)"), "((4,3),(2,5)):((1,8),(4,9))"),
        ("zipped_divide", "(4,6):(1,4)", Some("(2,3)"), "((2,3),(2,2)):((1,4),(2,12))"),
        ("zipped_product", "(2,2):(1,2)", Some("3:1"), "((2,2),3):((1,2),4)"),
    ];
    let file = temporary("operation.svg");
    let path = file.to_str().expect("text");
    for (name, layout, with, expected) in cases {
        let mut args = vec!["layout", layout, "--op", name];
        args.extend(with.iter().flat_map(|with| ["--with", with]));
        assert_eq!(result(&args, name), *expected, "{name} of {layout}");
        args.extend(["--svg", path]);
        assert_eq!(tilewright(&args).status.code(), Some(0), "{name} of {layout}");
        assert!(fs::read_to_string(&file).expect("a picture").contains(&format!(">{name}<")));
    }
    fs::remove_file(file).expect("it was written");
    // Each name that the help gives is in the list above.
    let known: Vec<&str> = cases.iter().map(|case| case.0).collect();
    let help = text(&tilewright(&["layout", "--help"]).stdout);
    let names = help.split_once("[possible values: ").expect("names").1;
    let names = names.split_once(']').expect("an end").0;
    for name in names.split(',').map(str::trim) {
        assert!(known.contains(&name), "{name} has no test");
    }
}

#[test]
fn pictures_are_those_of_the_library() {
    let (svg, latex) = (temporary("a.svg"), temporary("a.tex"));
    let a: Layout = layout!((4, 8):(8, 1));
    // The path of the file is all that is printed.
    let output = tilewright(&["layout", "(4,8):(8,1)", "--svg", svg.to_str().expect("text")]);
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), format!("{}\n", svg.display()))
    );
    assert_eq!(fs::read_to_string(&svg).ok(), a.draw().svg().ok());
    fs::remove_file(svg).expect("it was written");

    let args =
        ["--op", "tiled_divide", "--with", "(2,4)", "--latex", latex.to_str().expect("text")];
    let output = tilewright(&[&["layout", "(4,8):(8,1)"], args.as_slice()].concat());
    assert_eq!(
        (output.status.code(), text(&output.stdout)),
        (Some(0), format!("{}\n", latex.display()))
    );
    let tile = tiler!(2, 4);
    let tiled = a.tiled_divide(&tile).expect("it divides");
    let picture = Drawing::divide("tiled_divide", &a, &tile, &tiled);
    assert_eq!(fs::read_to_string(&latex).ok(), picture.latex().ok());
    fs::remove_file(latex).expect("it was written");

    // `-` is the standard output, with nothing but the picture.
    let tv = tilewright(&["layout", "(4,2):(2,1)", "--tv", "(2,4)", "--svg", "-"]);
    assert_eq!(text(&tv.stdout), layout!((4, 2):(2, 1)).draw_tv((2, 4)).svg().expect("a picture"));
    let shaded = tilewright(&["layout", "(2,2)", "--shade", "cycle:1,2", "--svg", "-"]);
    assert!(text(&shaded.stdout).contains("colour: value mod 2"));
}

#[test]
fn wrong_layouts_are_refused_in_one_line() {
    check_refused(
        &["layout", "(4,8:(8,1)"],
        &expect![[r#"
        error: `(4,8:(8,1)`: cannot parse the text at offset 4: expected `,` or `)`
    "#]],
    );
    check_refused(
        &["layout", "(4,8):(8,(1,2))"],
        &expect![[r#"
        error: `(4,8):(8,(1,2))`: (4,8) and (8,(1,2)) have different profiles; give both the same nesting
    "#]],
    );
    check_refused(
        &["layout", "S<3,0,2>"],
        &expect![[r#"
        error: `S<3,0,2>`: S<3,0,2> is not a swizzle: bits and base must not be negative, |shift| must be at least bits, and the swizzle may only use bits below 63
    "#]],
    );
    check_refused(
        &["layout", "(0,4)"],
        &expect![[r#"
        error: `(0,4)`: the extent 0 is not positive
    "#]],
    );
    check_refused(
        &["layout"],
        &expect![[r#"
        error: the following required arguments were not provided: <LAYOUT>
    "#]],
    );
    check_refused(
        &["layout", "(n,64)", "--svg", "-"],
        &expect![[r#"
        error: `(n,64)`: n is not static; evaluate it with the values of its symbols first: `--let NAME=VALUE`
    "#]],
    );
    check_refused(
        &["layout", "(1024,1024)", "--latex", "-"],
        &expect![[r#"
        error: `(1024,1024)`: the number of cells of the picture is over the limit of 16384
    "#]],
    );
    check_refused(
        &["layout", "4:1", "--svg", "/no/such/folder/a.svg"],
        &expect![[r#"
        error: cannot write `/no/such/folder/a.svg`: No such file or directory (os error 2)
    "#]],
    );
    check_refused(
        &["layout", "4:1", "--shade", "banks:0"],
        &expect![[r#"
        error: invalid value 'banks:0' for '--shade <KIND>': expected plain, ramp, cycle:RUN,PERIOD, banks:BITS or owner
    "#]],
    );
    check_refused(
        &["layout", "(4,2)", "--tv", "(2,2)"],
        &expect![[r#"
        error: `(4,2)`: the coordinate 4 is outside the shape (2,2)
    "#]],
    );
}

#[test]
fn wrong_operations_are_refused_in_one_line() {
    check_refused(
        &["layout", "4:1", "--op", "tile"],
        &expect![[r#"
        error: invalid value 'tile' for '--op <NAME>' [possible values: append, blocked_product, coalesce, complement, composition, dice, downcast, filter, filter_zeros, flat_divide, flat_product, flatten, fragment_like, get, group, identity_like, layout_like, left_inverse, logical_divide, logical_product, max_common_layout, nullspace, prepend, raked_product, recast_layout, right_inverse, select, slice, take, tile_to_shape, tiled_divide, tiled_product, unflatten, upcast, zip, zipped_divide, zipped_product]; a similar value exists: 'tiled_divide'
    "#]],
    );
    check_refused(
        &["layout", "4:1", "--with", "2"],
        &expect![[r#"
        error: the following required arguments were not provided: --op <NAME>
    "#]],
    );
    check_refused(
        &["layout", "4:1", "--op", "flatten", "--with", "2"],
        &expect![[r#"
        error: flatten has no argument: leave out `--with`
    "#]],
    );
    check_refused(
        &["layout", "4:1", "--op", "logical_divide"],
        &expect![[r#"
        error: logical_divide needs `--with` a tiler, such as `(2,4)` or `4:2`
    "#]],
    );
    check_refused(
        &["layout", "4:1", "--op", "group", "--with", "1"],
        &expect![[r#"
        error: group needs two integers, such as `0,2`, not `1`
    "#]],
    );
    check_refused(
        &["layout", "(4,6,8):(2,3,5)", "--op", "composition", "--with", "6:3"],
        &expect![[r#"
            error: composition of `(4,6,8):(2,3,5)`: (4,6,8):(2,3,5) o 6:3 is not a layout: steps of 3 do not line up with the modes of (4,6,8):(2,3,5); choose a stride and an extent that divide its extents or are multiples of them
        "#]],
    );
    check_refused(
        &["layout", "S<3,4,3>", "--op", "coalesce"],
        &expect![[r#"
        error: `S<3,4,3>` is only a swizzle, but `--op` and `--tv` need a layout, such as `S<3,4,3> o 0 o (8,8):(8,1)`
    "#]],
    );
}

#[test]
fn gemm_runs_on_the_simulator_and_is_right() {
    let output = tilewright(&["gemm", "--shape", "20x70x9", "--device", "sim"]);
    let found = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(found.contains("C[20x70] = A[20x9] B[9x70], f32, row-major, seed 0\n"), "{found}");
    let names: Vec<&str> = found.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["device", "problem", "kernel", "error", "time", "speed"]);
}

/// The explanation of a product of two types names both.
#[test]
fn gemm_explains_products_of_two_types() {
    let sizes = ["gemm", "--shape", "4096", "--device", "sim"];
    for (dtype, name) in [("e4m3xe5m2", "f8e4m3xf8e5m2_dbf16"), ("i8xu8", "i8xu8_di32")] {
        let output = tilewright(&[&sizes[..], &["--explain", "--dtype", dtype]].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        let explained = text(&output.stdout);
        assert!(explained.starts_with(&format!("sm90a_{name}_tn_")), "{explained}");
        let run = tilewright(&[&sizes[..], &["--dtype", dtype]].concat());
        assert!(text(&run.stderr).contains("`gemm` cannot create inputs of"));
    }
}

/// Other types, and a configuration by its name.
#[test]
fn gemm_takes_types_and_configurations() {
    let sizes = ["gemm", "--shape", "24x40x72", "--device", "sim"];
    for more in [
        ["--dtype", "bf16"],
        ["--dtype", "tf32"],
        ["--config", "sm80_f16_nt_64x64x64_s2_ms_strip8_direct"],
    ] {
        let output = tilewright(&[&sizes, more.as_slice()].concat());
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(0), String::new()),
            "{more:?}"
        );
    }
    let output = tilewright(&[&sizes, ["--config", "sm80_f16"].as_slice()].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("is not a configuration name"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn gemm_emits_the_kernel() {
    let sizes = ["gemm", "--shape", "64x64x64"];
    let ir = tilewright(&[&sizes, ["--emit", "ir"].as_slice()].concat());
    assert_eq!(ir.status.code(), Some(0));
    let kernel = tilewright::ir::parse_kernels("stdout", &text(&ir.stdout)).expect("the text form");
    assert_eq!(kernel.len(), 1);
    assert!(text(&ir.stderr).starts_with("built, verified and written in "));

    let ptx = tilewright(&[&sizes, ["--emit", "ptx", "--target", "sm_90a"].as_slice()].concat());
    assert_eq!(ptx.status.code(), Some(0));
    assert!(text(&ptx.stdout).contains("\n.target sm_90a\n"));
}

#[test]
fn wrong_options_of_gemm_are_refused_in_one_line() {
    check_refused(
        &["gemm", "--shape", "64x0x64"],
        &expect![[r#"
        error: invalid value '64x0x64' for '--shape <MxNxK>': expected MxNxK such as 4096x4096x1024, or one size for all three, from 1 to 2147482624
    "#]],
    );
    check_refused(
        &["gemm", "--shape", "64,64,64"],
        &expect![[r#"
        error: invalid value '64,64,64' for '--shape <MxNxK>': expected MxNxK such as 4096x4096x1024, or one size for all three, from 1 to 2147482624
    "#]],
    );
    check_refused(
        &["gemm", "--device", "tpu"],
        &expect![[r#"
        error: `tpu` is not a device: expected `auto`, `sim`, `cuda` or `cuda:N`
    "#]],
    );
    check_refused(
        &["gemm", "--emit", "sass"],
        &expect![[r#"
        error: invalid value 'sass' for '--emit <FORM>' [possible values: ir, ptx]
    "#]],
    );
    check_refused(
        &["gemm", "--target", "sm_1"],
        &expect![[r#"
        error: invalid value 'sm_1' for '--target <TARGET>': `sm_1` is not a target: expected one of sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, sm_110, sm_110a, sm_120, sm_120a, sm_121, sm_121a
    "#]],
    );
    check_refused(
        &["gemm", "--fast"],
        &expect![[r#"
        error: unexpected argument '--fast' found
    "#]],
    );
}

#[test]
fn without_a_command_there_is_a_hint() {
    check_refused(
        &[],
        &expect![[r#"
        error: `tilewright` needs a command: bench, check, doctor, gemm, layout, prove, ptx, trace; see `--help`
    "#]],
    );
    check_refused(
        &["bench"],
        &expect![[r#"
            error: `tilewright bench` needs a command: gemm, softmax, norm, reduce, transpose, permute, gather, elementwise, attention, decode, scaled-gemm, small-gemm, parallel; see `--help`
        "#]],
    );
    check_refused(
        &["layuot"],
        &expect![[r#"
        error: unrecognized subcommand 'layuot'; a similar subcommand exists: 'layout'
    "#]],
    );
    let help = tilewright(&["--help"]);
    assert_eq!((help.status.code(), text(&help.stderr)), (Some(0), String::new()));
    assert!(text(&help.stdout).contains("layout"));
}

/// A failed run is exit code 1: here, an output that cannot be written.
#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_a_failed_run() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
    let output = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["layout", "(2,2)"])
        .stdout(Stdio::from(full))
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: "));
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

/// A reader that stops early is no failure.
#[cfg(unix)]
#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(["layout", "(128,128)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

/// Without a GPU the configurations come in the model's order, and it is said that nothing was
/// measured.
#[test]
fn bench_ranks_without_a_gpu() {
    let run = |args: &[&str]| {
        let args = [&["bench", "gemm", "--device", "sim"], args].concat();
        let output = tilewright(&args);
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(0), String::new()),
            "{args:?}"
        );
        text(&output.stdout)
    };
    let ranked = run(&["--shapes", "8192,16x4096x14336", "--candidates", "5"]);
    let mut lines = ranked.lines();
    assert!(lines.next().unwrap().starts_with("no GPU: "));
    for problem in ["8192x8192x8192 burst", "8192x8192x8192 steady", "16x4096x14336 latency"] {
        assert_eq!(lines.next(), Some(""));
        assert!(lines.next().unwrap().starts_with(&format!("{problem}, ")), "{ranked}");
        assert!(lines.next().unwrap().ends_with("configuration"));
        let order: Vec<&str> = lines.by_ref().take(5).collect();
        // The ratio to the first, and the time: these kernels are calibrated.
        let column =
            |line: &&str, at| -> f64 { line.split_whitespace().nth(at).unwrap().parse().unwrap() };
        assert_eq!(column(&order[0], 0), 1.0);
        assert!(order.iter().map(|line| column(line, 0)).is_sorted(), "{ranked}");
        assert!(order.iter().map(|line| column(line, 1)).is_sorted(), "{ranked}");
        assert!(order.iter().all(|line| line.contains("sm90a_bf16_tn_")), "{ranked}");
    }
    assert_eq!(lines.next(), None);

    // Other contiguous modes.
    let ranked =
        run(&["--shapes", "2048", "--dtype", "f32", "--layout", "nt", "--target", "sm_90a"]);
    assert!(ranked.contains("sm90a_f32_nt_128x128x32_s"), "{ranked}");
    assert!(!ranked.contains("_tn_"), "{ranked}");

    // Files of problems and of configurations; only configurations that take the problem are used.
    let (shapes, configs) = (temporary("shapes"), temporary("configs"));
    fs::write(&shapes, "# usual\n1024\n\n100x100x100 # rows of 200 bytes\n").unwrap();
    let names = [
        "sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl",
        "sm80_bf16_tn_128x128x64_s3_ms_strip8_direct_a8",
    ];
    fs::write(&configs, names.join("\n")).unwrap();
    let [shapes, configs] = [shapes, configs].map(|path| path.to_str().unwrap().to_owned());
    let ranked = run(&["--shapes", &shapes, "--configs", &configs, "--regimes", "burst"]);
    assert!(ranked.contains("1024x1024x1024 burst, 2 candidates"), "{ranked}");
    assert!(ranked.contains("100x100x100 burst, 1 candidate\n"), "{ranked}");
}

/// Another GPU has kernels for its own target, and of uncalibrated times only the order is printed.
#[test]
fn bench_ranks_for_a_named_gpu() {
    for (gpu, name, prefix) in [
        ("h100", "H100", "sm90a_bf16_tn_"),
        ("a100", "A100", "sm80_bf16_tn_"),
        ("rtx4090", "RTX 4090", "sm89_bf16_tn_"),
        ("l40s", "L40S", "sm89_bf16_tn_"),
    ] {
        let output = tilewright(&["bench", "gemm", "--shape", "4096", "--machine", gpu]);
        let ranked = text(&output.stdout);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        assert!(ranked.starts_with(&format!("no GPU: the model's ranking for an {name}, ")));
        let rows: Vec<Vec<&str>> = ranked
            .lines()
            .filter(|line| line.contains(prefix))
            .map(|line| line.split_whitespace().collect())
            .collect();
        // Bursts and steady work.
        assert_eq!(rows.len(), 16, "{ranked}");
        assert!(rows.iter().all(|row| row[1..3] == ["-", "-"]), "{ranked}");
    }
    // On an H200 `mma.sync` has an order only, and an explanation says so.
    let explain = ["gemm", "--explain", "--shape", "4096", "--dtype", "bf16", "--machine"];
    let of = |gpu| text(&tilewright(&[&explain[..], &[gpu]].concat()).stdout);
    assert!(of("a100").contains(" us predicted (not calibrated: only the order counts); limit: "));
    assert!(of("h200").contains(" us predicted; limit: "));
    check_refused(
        &["gemm", "--machine", "a100"],
        &expect![[r#"
            error: `--machine` only chooses a configuration and does not run it: add `--explain`, `--list` or `--emit`
        "#]],
    );
}

/// What `gemm --list` prints is what `--configs` reads.
#[test]
fn gemm_lists_names_of_configurations() {
    let output = tilewright(&["gemm", "--list", "--shape", "1024", "--machine", "rtx4090"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let names = text(&output.stdout);
    assert!(names.lines().count() > 10, "{names}");
    let configs = names.lines().map(|name| name.parse::<GemmConfig>().unwrap());
    assert!(configs.into_iter().all(|config| config.check().is_ok()));
    let file = temporary("names");
    fs::write(&file, &names).unwrap();
    let args = ["bench", "gemm", "--dtype", "f32", "--layout", "tt", "--shape", "1024"];
    let more = ["--machine", "rtx4090", "--configs", file.to_str().unwrap()];
    let ranked = tilewright(&[&args[..], &more].concat());
    assert_eq!((ranked.status.code(), text(&ranked.stderr)), (Some(0), String::new()));
    let count = format!("1024x1024x1024 latency, {} candidates\n", names.lines().count());
    assert!(text(&ranked.stdout).contains(&count), "{}", text(&ranked.stdout));
    fs::remove_file(file).unwrap();
}

/// A problem has one notation, under any of the option's names.
#[test]
fn problems_have_one_notation_in_all_commands() {
    let config = "sm80_f32_tn_64x64x16_s2_simt_strip8_direct_a4";
    for args in [
        &["gemm", "--device", "sim", "--explain"][..],
        &["ptx", "gemm"],
        &["check", "gemm", "--config", config, "--schedules", "1"],
        &["trace", "gemm", "--config", config],
        &["bench", "gemm", "--device", "sim"],
    ] {
        for name in ["--shape", "--shapes"] {
            let output = tilewright(&[args, &[name, "64x64x32"]].concat());
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
            let output = tilewright(&[args, &[name, "64x32"]].concat());
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(error.contains("MxNxK"), "{error}");
        }
    }
    // The help has one of the names.
    for command in ["gemm", "check", "trace", "ptx"] {
        let help = text(&tilewright(&[command, "--help"]).stdout);
        assert!(help.contains("--shape <MxNxK>") && !help.contains("--size"), "{help}");
    }
}

const BF16: &str = "sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl";

/// A configuration by its name instead of a file.
#[test]
fn bench_takes_names_of_configurations() {
    let args = ["bench", "gemm", "--device", "sim", "--shapes", "1024", "--regimes", "burst"];
    let ranked = tilewright(&[&args, ["--configs", BF16].as_slice()].concat());
    assert_eq!((ranked.status.code(), text(&ranked.stderr)), (Some(0), String::new()));
    let ranked = text(&ranked.stdout);
    assert!(ranked.contains("1024x1024x1024 burst, 1 candidate\n"), "{ranked}");
    assert!(ranked.lines().last().unwrap().ends_with(BF16), "{ranked}");
}

/// The types of 8 bits have configurations, which the model ranks.
#[test]
fn bench_ranks_types_of_8_bits() {
    for (dtype, name) in [
        ("e4m3", "sm90a_f8e4m3_dbf16_tn_"),
        ("e5m2", "sm90a_f8e5m2_dbf16_tn_"),
        ("e4m3xe5m2", "sm90a_f8e4m3xf8e5m2_dbf16_tn_"),
        ("e5m2xe4m3", "sm90a_f8e5m2xf8e4m3_dbf16_tn_"),
        ("i8xu8", "sm90a_i8xu8_di32_tn_"),
    ] {
        let args = ["bench", "gemm", "--device", "sim", "--shapes", "4096", "--dtype", dtype];
        let output = tilewright(&args);
        let ranked = text(&output.stdout);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        assert_eq!(ranked.lines().filter(|line| line.contains(name)).count(), 16, "{ranked}");
        let planned = tilewright(&[&args[..], &["--untuned"]].concat());
        assert!(text(&planned.stdout).contains(name), "{dtype}");
    }
}

/// Given problems have the plans of a program that does not tune.
#[test]
fn bench_plans_given_problems_without_tuning() {
    let args = ["bench", "gemm", "--device", "sim", "--shapes", "64,64x72x100", "--untuned"];
    let output = tilewright(&args);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let planned = text(&output.stdout);
    let starts =
        ["no GPU: configurations for", "multiples of 64  64x64x64 ", "any sizes        64x72x100 "];
    let lines: Vec<&str> = planned.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{planned}");
    assert!(lines.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{planned}");
}

/// Files of measurements are not written where nothing is measured.
#[test]
fn bench_refuses_to_write_measurements_without_a_gpu() {
    for option in ["--json", "--svg", "--sweep"] {
        let file = temporary("unmeasured");
        let args = ["bench", "gemm", "--device", "sim", "--shapes", "1024", option];
        let output = tilewright(&[&args, [file.to_str().unwrap()].as_slice()].concat());
        let expected = format!(
            "error: `{option}` writes measurements, but without a GPU nothing is measured: leave \
             it out, or name a GPU with `--device cuda`\n"
        );
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
        assert!(!file.exists() && output.stdout.is_empty());
    }
}

/// Kernels that memory bounds have no figures without a GPU, and sizes are checked before there is
/// a device.
#[test]
fn bench_of_rows_needs_a_gpu() {
    if tilewright::runtime::Device::cuda(0).is_err() {
        for kernel in ["softmax", "norm", "reduce", "transpose", "permute", "gather", "elementwise"]
        {
            check_refused(
                &["bench", kernel],
                &expect![[r#"
                error: this benchmark needs a GPU, but none was found: with `--device sim` it times the simulator instead
            "#]],
            );
        }
    }
    check_refused(
        &["bench", "softmax", "--shapes", "8192x0"],
        &expect![[r#"
            error: invalid value '8192x0' for '--shapes <LIST>': `8192x0` is not a size: expected rows by columns, both above 0, such as `8192x4096`
        "#]],
    );
    check_refused(
        &["bench", "reduce", "--op", "product"],
        &expect![[r#"
            error: invalid value 'product' for '--op <OP>': `product` is not a reduction: expected one of sum, mean, max, min, norm, argmax
        "#]],
    );
    check_refused(
        &["bench", "reduce", "--top", "65"],
        &expect![[r#"
            error: invalid value '65' for '--top <COUNT>': 65 is not in 1..=64
        "#]],
    );
    check_refused(
        &["bench", "reduce", "--top", "8", "--axis", "0"],
        &expect![[r#"
            error: the argument '--top <COUNT>' cannot be used with '--axis <AXIS>'
        "#]],
    );
}

/// Each kernel on rows is measured by one benchmark, here with the times of the simulator.
#[test]
fn bench_of_rows_is_one_command_each() {
    let folder = temporary("rows");
    fs::create_dir_all(&folder).unwrap();
    let [json, svg] = ["rows.json", "rows.svg"].map(|name| folder.join(name));
    let files = ["--json", json.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    for (args, key) in [
        (&["softmax", "--log"][..], "log_softmax of bf16 6x40"),
        (
            &["norm", "--kind", "layer", "--residual"],
            "layer_norm with a weight and a residual of bf16 6x40",
        ),
        (&["reduce", "--op", "argmax"], "argmax of rows of bf16 6x40"),
        (&["reduce", "--axis", "0", "--dtype", "f32"], "sum along an axis of f32 1x6x40"),
        (&["reduce", "--top", "3"], "top 3 of rows of bf16 6x40"),
        (&["transpose"], "transpose of bf16 6x40"),
        (&["permute", "--heads", "2"], "permute of bf16 40,3:80->40,2:40->120"),
        (
            &["permute", "--heads", "2", "--order", "0,2,1"],
            "permute of bf16 40:1->2,2:40->1,3:80->80",
        ),
        (&["gather", "--scatter", "--dtype", "f16"], "scatter of f16 6x40"),
        (
            &["elementwise", "--op", "swiglu"],
            "swiglu of bf16 to bf16: (6,40):(40,1)<-(6,40):(40,1),(6,40):(40,1)",
        ),
    ] {
        let sizes = ["--shapes", "6x40", "--rounds", "2", "--device", "sim"];
        let output = tilewright(&[&["bench"], args, &sizes, &files].concat());
        assert_eq!(
            (output.status.code(), text(&output.stderr)),
            (Some(0), String::new()),
            "{args:?}"
        );
        assert!(text(&output.stdout).contains(&format!("\n{key}\n")), "{}", text(&output.stdout));
        let [json, svg] = [&json, &svg].map(|file| fs::read_to_string(file).unwrap());
        assert!(json.contains(&format!("\"problem\":\"{key}\"")), "{json}");
        assert!(svg.starts_with("<svg") && svg.contains("GB/s"));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Another name is a program of the user, which gets the other arguments; its failure is one of the
/// command.
#[cfg(unix)]
#[test]
fn bench_runs_a_program() {
    use std::os::unix::fs::PermissionsExt;
    let folder = temporary("programs");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("tilewright-bench-mine");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\n[ \"$1\" = --rounds ]\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
        let output = command.args(args).env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
        let output = output.output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let found = run(&["bench", "mine", "--rounds", "3"]);
    assert_eq!(found, (Some(0), "--rounds 3\n".to_owned(), String::new()));
    let (code, _, error) = run(&["bench", "mine"]);
    assert_eq!(code, Some(1));
    assert_eq!(error, "error: `tilewright-bench-mine`: exit status: 1\n");
    fs::remove_dir_all(&folder).unwrap();
    check_refused(
        &["bench", "sofmax"],
        &expect![[r#"
            error: `sofmax` is not a benchmark: expected gemm, softmax, norm, reduce, transpose, permute, gather, elementwise, attention, decode, scaled-gemm, small-gemm or parallel, or a name for which there is a program `tilewright-bench-sofmax` in `PATH`
        "#]],
    );
}

/// Attention has no figures without a GPU, and its sizes and tiles are checked before there is a
/// device.
#[test]
fn bench_of_attention_needs_a_gpu() {
    check_refused(
        &["bench", "attention", "--device", "sim"],
        &expect![[r#"
            error: this benchmark needs a GPU, but none was found: the simulator cannot measure operations per second
        "#]],
    );
    check_refused(
        &["bench", "attention", "--shapes", "4x16x4096"],
        &expect![[r#"
            error: invalid value '4x16x4096' for '--shapes <LIST>': `4x16x4096` is not a problem: expected numbers above 0, such as `4x16x4096x128` or `2x32/8x8192x192/128`
        "#]],
    );
    check_refused(
        &["bench", "attention", "--configs", "tuned", "--stages", "3"],
        &expect![[r#"
            error: the argument '--configs <CONFIGS>' cannot be used with '--stages <STAGES>'
        "#]],
    );
    check_refused(
        &["bench", "attention", "--tiles", "128"],
        &expect![[r#"
            error: invalid value '128' for '--tiles <LIST>': `128` is not a tile: expected queries by keys, such as `128x176`
        "#]],
    );
}

/// GEMM with block scales runs on the simulator if you ask for it: a batch, and groups of rows.
#[test]
fn bench_of_scaled_gemm_runs_on_the_simulator() {
    for (options, kernel) in [
        (&["--batch", "2", "--b-scales", "1x128"][..], "_b1x128_strip"),
        (&["--groups", "3"], "_grouped_strip"),
    ] {
        let args = ["bench", "scaled-gemm", "--device", "sim", "--shapes", "40x64x144"];
        let args = [&args, options, &["--rounds", "1", "--regime", "latency"]].concat();
        let output = tilewright(&args);
        let table = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(table.lines().last().unwrap().contains(kernel), "{table}");
    }
    check_refused(
        &["bench", "scaled-gemm", "--batch", "2", "--groups", "3"],
        &expect![[r#"
            error: the argument '--batch <COUNT>' cannot be used with '--groups <COUNT>'
        "#]],
    );
}

/// The sizes of a decode step are those of an attention.
#[test]
fn bench_of_decode_needs_a_gpu() {
    check_refused(
        &["bench", "decode", "--device", "sim"],
        &expect![[r#"
            error: this benchmark needs a GPU, but none was found: the simulator cannot measure bytes per second
        "#]],
    );
    check_refused(
        &["bench", "decode", "--queries", "17"],
        &expect![[r#"
            error: invalid value '17' for '--queries <QUERIES>': 17 is not in 1..=16
        "#]],
    );
}

/// No candidate is an error, which says what the first configuration has that was not asked for.
#[test]
fn bench_says_why_there_is_no_candidate() {
    let bench = |more: &[&'static str]| {
        let args = ["bench", "gemm", "--device", "sim", "--shapes", "1024", "--configs", BF16];
        [&args, more].concat()
    };
    check_refused(
        &bench(&["--dtype", "f16"]),
        &expect![[r#"
            error: no configuration can run 1024x1024x1024: sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl: its A and B are bf16, but `--dtype` asks for f16
        "#]],
    );
    check_refused(
        &bench(&["--output", "f32"]),
        &expect![[r#"
            error: no configuration can run 1024x1024x1024: sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl: its D is bf16, but `--output` asks for f32
        "#]],
    );
    check_refused(
        &bench(&["--layout", "nt"]),
        &expect![[r#"
            error: no configuration can run 1024x1024x1024: sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl: its layout is tn, but `--layout` asks for nt
        "#]],
    );
    check_refused(
        &bench(&["--target", "sm_80"]),
        &expect![[r#"
            error: no configuration can run 1024x1024x1024: sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl: it needs sm_90a, but the target is sm_80
        "#]],
    );
    let grouped = "sm90a_bf16_tn_128x128x64_s4_coop_grouped_strip8_rows";
    check_refused(
        &["bench", "gemm", "--device", "sim", "--shapes", "1024", "--configs", grouped],
        &expect![[r#"
            error: no configuration can run 1024x1024x1024: sm90a_bf16_tn_128x128x64_s4_coop_grouped_strip8_rows: it reads the sizes of its GEMMs from memory, but this benchmark measures one GEMM; for grouped GEMM use `--groups`
        "#]],
    );
    check_refused(
        &["bench", "gemm", "--device", "sim", "--shapes", "1001", "--configs", BF16],
        &expect![[r#"
            error: no configuration can run 1001x1001x1001: sm90a_bf16_tn_256x200x64_s3_coop_strip8_rows_pdl: the pitch of A is 2002 bytes, but must be a multiple of 16
        "#]],
    );
    check_refused(
        &["bench", "gemm", "--device", "sim", "--dtype", "e4m3", "--target", "sm_80"],
        &expect![[r#"
            error: no configuration can run 512x512x512: there is none for f8e4m3 inputs and bf16 results on sm_80
        "#]],
    );
}

#[test]
fn names_and_files_of_bench_are_told_apart() {
    let bench =
        |more: [&'static str; 2]| [&["bench", "gemm", "--device", "sim"], &more[..]].concat();
    check_refused(
        &bench(["--configs", "/nowhere"]),
        &expect![[r#"
            error: `/nowhere` is neither a configuration name nor a file with such names
        "#]],
    );
    check_refused(
        &bench(["--configs", "sm90a_bf16_tn_256x200x64_s3"]),
        &expect![[r#"
            error: `sm90a_bf16_tn_256x200x64_s3` is not a configuration name: a schedule: `simt`, `ms`, `coop` or `pp` is missing
        "#]],
    );
    check_refused(
        &bench(["--shapes", "shapes.txt"]),
        &expect![[r#"
            error: `shapes.txt` is neither a problem nor an existing file: expected a size such as 4096, or MxNxK, from 1 to 2147482624, or a file with such lines
        "#]],
    );
    check_refused(
        &bench(["--shapes", "/dev"]),
        &expect![[r#"
            error: `/dev`: it is not a regular file
        "#]],
    );
}

/// The size is at fault, whatever the schedule.
#[test]
fn gemm_names_a_size_that_is_too_large() {
    for more in [&["--device", "sim"][..], &["--emit", "ptx", "--dtype", "bf16"]] {
        check_refused(
            &[&["gemm", "--shape", "2000000x2000000x256"], more].concat(),
            &expect![[r#"
                error: C is too large: it has 2000000 lines of 2000000 elements, and a matrix must have fewer than 2^40
            "#]],
        );
    }
}

/// Targets that PTX does not have are not taken for others.
#[test]
fn unknown_targets_are_refused() {
    for target in ["sm_999", "sm_200a", "sm_95", "sm_75"] {
        for command in [&["gemm", "--emit", "ptx"][..], &["ptx", "gemm"], &["bench", "gemm"]] {
            let output = tilewright(&[command, &["--target", target]].concat());
            let known = "sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, sm_110, \
                         sm_110a, sm_120, sm_120a, sm_121, sm_121a";
            let expected = format!(
                "error: invalid value '{target}' for '--target <TARGET>': `{target}` is not a target: expected one of \
                 {known}\n"
            );
            assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
        }
    }
}

#[test]
fn bench_refuses_bad_input() {
    let refused = |args: &[&str], expected: &str| {
        let output = tilewright(&[&["bench", "gemm"], args].concat());
        let error = text(&output.stderr);
        assert_eq!(
            (output.status.code(), text(&output.stdout)),
            (Some(2), String::new()),
            "{args:?}"
        );
        assert!(error.lines().count() == 1 && error.contains(expected), "{error}");
    };
    refused(
        &["--shapes", "12x34"],
        "`12x34` is not a problem: expected a size such as 4096, or MxNxK",
    );
    refused(&["--shapes", "0"], "`0` is not a problem");
    refused(&["--shapes", ""], "`` is not a problem");
    let types = "expected bf16, f16, tf32, f32, f64, e4m3, e5m2, i8 or u8";
    refused(&["--dtype", "s8"], &format!("{types}, or two types such as e4m3xe5m2"));
    refused(&["--dtype", "e4m3xs8"], types);
    refused(&["--dtype", "e4m3xe4m3xe4m3"], types);
    refused(&["--output", "e4m3xe5m2"], types);
    refused(
        &["--dtype", "bf16xf16"],
        "there is none for bf16xf16 inputs and bf16 results on sm_90a",
    );
    refused(&["--layout", "kk"], "expected tn, tt, nn or nt");
    refused(
        &["--regimes", "fast"],
        "`fast` is not a regime: expected `latency`, `burst` or `steady`",
    );
    refused(&["--device", "gpu"], "`gpu` is not a device");
    refused(&["--rounds", "0"], "--rounds");
    let file = temporary("no-configs");
    fs::write(&file, "sm90a_bf16_tn_256x201x64_s3_coop_strip8_rows_pdl\n").unwrap();
    refused(&["--configs", file.to_str().unwrap()], "201");
    fs::write(&file, "# none\n").unwrap();
    refused(&["--configs", file.to_str().unwrap()], "has no configurations");
    fs::write(&file, "{}").unwrap();
    let output = tilewright(&["bench", "gemm", "--fit", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("missing field `provenance`"));
}
