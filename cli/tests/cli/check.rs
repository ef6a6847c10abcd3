//! `tilewright check`.

use std::fs;

use super::{check_refused, temporary, text, tilewright};
use expect_test::expect;

/// Threads write a tile, and read what others wrote behind `BARRIER`.
const TILE: &str = "kernel @tile target sm_80 (%x: ptr<global, mut i32>, %n: i32) {
  shared @s: i32 x 64 align 4
  %s = shared_base<@s> : ptr<shared, mut i32>
  %t = sreg<tid.x> : i32
  %n63 = const 63 : i32
  %other = sub %n63, %t : i32
  st %s, %other, %n
  barrier
  st %s, %t, %t
  BARRIER
  %v = ld %s, %other : i32
  st %x, %t, %v
  return
}
";

/// What follows if the kernel does the same for all data.
const WOULD_HOLD: &str = "  with `--equal-stores` this would hold for all data in buffers of these lengths: \
                          no branch and no address depends on data\n";

fn file(name: &str, with: &str) -> String {
    let path = temporary(name);
    fs::write(&path, TILE.replace("BARRIER", with)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_correct_kernel_has_no_fault() {
    let path = file("right.kir", "barrier");
    let output = tilewright(&["check", &path, "--arg", "n=3", "--arg", "x=64", "--block", "64"]);
    let said = text(&output.stdout);
    assert_eq!(said, format!("tile: no fault under 50 schedules\n{WOULD_HOLD}"));
    // With the option, the run speaks for all data.
    let args = ["--arg", "n=3", "--arg", "x=64", "--block", "64", "--equal-stores"];
    let output = tilewright(&[&["check", &path], &args[..]].concat());
    let holds = WOULD_HOLD.replace("with `--equal-stores` this would hold", "this holds");
    assert_eq!(text(&output.stdout), format!("tile: no fault under 50 schedules\n{holds}"));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_race_is_reported_with_both_lines() {
    let path = file("race.kir", "; none");
    let args = ["check", &path, "--arg", "n=3", "--block", "64", "--schedules", "3"];
    let output = tilewright(&args);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout).replace(&path, "FILE");
    expect![[r#"
        tile: 1 data race
        data race (write after read): `st` at FILE:9:3 writes i32 element 32 (bytes 128 to 132) of shared memory `shared0`, made at FILE:2:3, in thread (32, 0, 0), warp 1, of block (0, 0, 0) of kernel `tile`; `ld` at FILE:11:3 read it before, in thread (31, 0, 0), warp 0, of the same block; no barrier orders the two threads of the block; let both threads pass a barrier between the two: the block's (`k.barrier()`), a named one, or an mbarrier
    "#]]
    .assert_eq(&said);
    assert_eq!(text(&output.stderr), "error: failed kernels: tile\n");

    let output = tilewright(&[&args[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let fault = &json[0]["faults"][0];
    assert_eq!((&json[0]["ok"], &json[0]["order"]), (&false.into(), &"RoundRobin".into()));
    assert_eq!((&fault["op"], &fault["element"]), (&"st".into(), &32.into()));
    assert_eq!(fault["other"]["op"], "ld");
    assert_eq!(fault["other"]["location"], format!("{path}:11:3"));
}

#[test]
fn equal_stores_are_reported_on_request() {
    let path = temporary("equal.kir");
    let kernel = "kernel @found target sm_80 (%x: ptr<global, mut i32>) {
  %zero = const 0 : i32
  st %x, %zero, %zero
  return
}
";
    fs::write(&path, kernel).unwrap();
    let args = ["check", path.to_str().unwrap(), "--block", "2", "--schedules", "2"];
    let output = tilewright(&args);
    let said = text(&output.stdout);
    assert_eq!(said, format!("found: no fault under 2 schedules\n{WOULD_HOLD}"));
    let output = tilewright(&[&args[..], &["--equal-stores"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("data race (write after write): `st` at"));
}

/// Each block stores how many blocks came before it.
const TICKETS: &str =
    "kernel @tickets target sm_80 (%next: ptr<global, mut i32>, %ticket: ptr<global, mut i32>) {
  %zero = const 0 : i32
  %one = const 1 : i32
  %block = sreg<ctaid.x> : i32
  %mine = atom<add, relaxed, gpu> %next, %zero, %one : i32
  st %ticket, %block, %mine
  return
}
";

#[test]
fn results_of_schedules_are_compared() {
    let path = temporary("tickets.kir");
    fs::write(&path, TICKETS).unwrap();
    let path = path.to_str().unwrap();
    let args = ["check", path, "--block", "1", "--grid", "8", "--schedules", "5"];
    let output = tilewright(&args);
    assert_eq!(output.status.code(), Some(1));
    expect![[r#"
        tickets: results differ between schedules
        results differ: i32 element 0 of `ticket` of kernel `tickets` is 0 with `RoundRobin` and 7 with `Reverse`; 8 of its elements differ in all; the result depends on which block or thread comes first: look for code that only the first or the last one runs, or allow it with `Options::may_differ("ticket")`, which sums of floating point atomics need
    "#]]
    .assert_eq(&text(&output.stdout));

    let output = tilewright(&[&args[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let difference = &json[0]["difference"];
    assert_eq!((&difference["buffer"], &difference["element"]), (&"ticket".into(), &0.into()));
    assert_eq!(
        (&difference["first_order"], &difference["first_value"]),
        (&"RoundRobin".into(), &"0".into())
    );
    assert_eq!(
        (&difference["other_order"], &difference["other_value"]),
        (&"Reverse".into(), &"7".into())
    );

    let output = tilewright(&[&args[..], &["--may-differ", "ticket"]].concat());
    let said = text(&output.stdout);
    assert_eq!(said, format!("tickets: no fault under 5 schedules\n{WOULD_HOLD}"));
    let output = tilewright(&[&args[..], &["--may-differ", "tickets"]].concat());
    assert_eq!(text(&output.stderr), "error: no kernel has a parameter `tickets`\n");
}

#[test]
fn a_product_is_checked_by_its_configuration() {
    let config = "sm80_f32_tn_64x64x16_s2_simt_strip8_direct_a4";
    let more = ["--shape", "64x64x32", "--schedules", "4", "--json"];
    // By the option, and as a second argument.
    for name in [&["--config", config][..], &[config]] {
        let output = tilewright(&[&["check", "gemm"], name, &more].concat());
        assert_eq!(
            text(&output.stdout),
            format!(
                "[{{\"kernel\": \"{config}\", \"schedules\": 4, \"ok\": true, \"data_use\": null}}]\n"
            )
        );
        assert_eq!(output.status.code(), Some(0));
    }
}

/// Without a name the product is that of `ptx gemm`: the best guess.
#[test]
fn a_product_has_a_default_configuration() {
    let args = ["check", "gemm", "--shape", "64", "--schedules", "1"];
    for (more, start) in
        [(&[][..], "sm80_bf16_tt_"), (&["--dtype", "f32", "--target", "sm_90a"], "sm90a_f32_tt_")]
    {
        let output = tilewright(&[&args[..], more].concat());
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
        let said = text(&output.stdout);
        assert!(
            said.starts_with(start)
                && said.ends_with(&format!(": no fault under 1 schedules\n{WOULD_HOLD}")),
            "{said}"
        );
    }
}

/// Adds `n` to each element of the first buffer.
const PLUS: &str =
    "kernel @plus target sm_80 (%x: ptr<global, f32>, %y: ptr<global, mut f32>, %n: f32) {
  %t = sreg<tid.x> : i32
  %v = ld %x, %t : f32
  %w = add %v, %n : f32
  st %y, %t, %w
  return
}
";

#[test]
fn elements_come_from_a_file_and_are_printed() {
    let (kernel, elements) = (temporary("plus.kir"), temporary("plus.txt"));
    fs::write(&kernel, PLUS).unwrap();
    fs::write(&elements, "0.5 -1,inf\nnan").unwrap();
    let (path, x) = (kernel.to_str().unwrap(), format!("x=@{}", elements.display()));
    let args = ["check", path, "--block", "4", "--arg", "n=2", "--arg", &x, "--arg", "y=4"];
    let args = [&args[..], &["--schedules", "2", "--print", "y"]].concat();
    let output = tilewright(&args);
    let said =
        format!("plus: no fault under 2 schedules\n{WOULD_HOLD}y = 2.5,1.0,inf,nan:0x7fffffff\n");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), said.as_str()));

    let output = tilewright(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let buffer = &json[0]["buffers"][0];
    assert_eq!((&buffer["name"], &buffer["type"]), (&"y".into(), &"f32".into()));
    assert_eq!(buffer["elements"], serde_json::json!(["2.5", "1.0", "inf", "nan:0x7fffffff"]));

    // After a fault the elements mean nothing.
    let output = tilewright(&[&args[..], &["--arg", "y=3", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), json[0].get("buffers")), (Some(1), None));
    assert_eq!(json[0]["faults"][0]["cause"], "OutOfBounds");

    fs::write(&elements, "1 two").unwrap();
    let output = tilewright(&args);
    let said =
        "error: parameter `x` of kernel `plus`: `two` is not a value of the parameter's type\n"
            .to_owned();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), said));
    let output = tilewright(&["check", path, "--print", "z"]);
    assert_eq!(text(&output.stderr), "error: no kernel has a parameter `z`\n");
    let output = tilewright(&["check", "gemm", "--print", "d"]);
    assert_eq!(text(&output.stderr), "error: `--print` is for the kernels of a file\n");
}

/// All errors of the verifier, and the first one of the parser.
#[test]
fn errors_of_a_text_are_json() {
    let path = temporary("errors.kir");
    let answer = |kernel: String| {
        fs::write(&path, kernel).unwrap();
        let args = ["check", path.to_str().unwrap(), "--arg", "n=1", "--json"];
        let output = tilewright(&args);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).starts_with("error: "));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json[0].clone()
    };
    let json = answer(PLUS.replace("mut f32", "f32").replace("%n: f32", "%n: i32"));
    assert_eq!((&json["kernel"], &json["ok"]), (&serde_json::Value::Null, &false.into()));
    assert_eq!(json["verdict"], "bad input");
    let causes: Vec<&str> =
        json["errors"].as_array().unwrap().iter().map(|e| e["cause"].as_str().unwrap()).collect();
    assert_eq!(causes, ["MixedOperands", "ReadOnlyPointer"]);
    assert_eq!(json["errors"][1]["location"], format!("{}:5:3", path.display()));

    let json = answer(PLUS.replace("%n :", "2.0 :"));
    assert_eq!(json["errors"].as_array().unwrap().len(), 1);
    assert_eq!(json["errors"][0]["location"], format!("{}:4:16", path.display()));

    // An argument that is missing is no error of the text.
    fs::write(&path, PLUS).unwrap();
    let output = tilewright(&["check", path.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &json[0]["errors"]), (Some(2), &serde_json::json!([])));
    assert!(json[0]["report"].as_str().unwrap().contains("it needs a value: `--arg n=..`"));
}

#[test]
fn the_help_has_the_exit_codes() {
    let help = text(&tilewright(&["check", "--help"]).stdout);
    assert!(help.contains("Exit codes: 0 if no schedule finds a fault; 1 if"), "{help}");
}

#[test]
fn bad_input_is_refused() {
    let path = file("input.kir", "barrier");
    let name = path.as_str();
    let refused = |args: &[&str], expected: &str| {
        let output = tilewright(&[&["check"], args].concat());
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
    };
    refused(&[name], "parameter `n` of kernel `tile`: it needs a value: `--arg n=..`");
    refused(&[name, "--arg", "n=x"], "`x` is not a value of the parameter's type");
    refused(&[name, "--arg", "n=1", "--arg", "m=1"], "no kernel has a parameter `m`");
    refused(&[name, "--arg", "n=1", "--block", "2000"], "a block of 2000 x 1 x 1 threads");
    refused(&[name, "--arg", "n=1", "--grid", "0"], "every axis must be at least 1");
    refused(&[name, "--shape", "64"], "`--shape`, `--dtype` and `--target` are only for `gemm`");
    refused(&["gemm", "--shape", "64,64,64"], "expected MxNxK such as 4096x4096x1024");
    check_refused(
        &["check", "/nowhere.kir"],
        &expect![[r#"
            error: `/nowhere.kir`: No such file or directory (os error 2)
        "#]],
    );
}
