//! `tilewright ptx`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect;
use tilewright::kernels::gemm::GemmConfig;

use super::{check_refused, temporary, text, tilewright};

const TWICE: &str = "kernel @twice target sm_80 (%x: ptr<global, mut f32>) {\n  %i = sreg<tid.x> : i32\n  %v = ld %x, %i : f32\n  %sum = add %v, %v : f32\n  st %x, %i, %sum\n  return\n}\n";

/// Runs it with this `ptxas`, in this folder.
fn ptx(args: &[&str], ptxas: &Path, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilewright"));
    command.arg("ptx").args(args).env("TILEWRIGHT_PTXAS", ptxas).current_dir(folder);
    command.output().expect("it starts")
}

/// The root of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Runs the command in the root of the workspace and returns its output.
fn printed(args: &[&str], ptxas: &Path) -> String {
    let output = ptx(args, ptxas, Path::new(ROOT));
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{args:?}");
    text(&output.stdout)
}

const NO_PTXAS: &str = "/nowhere/ptxas";

/// Returns the `ptxas` that the environment names, else the fetched copy of `scripts/test`.
fn ptxas() -> Option<PathBuf> {
    let named = std::env::var_os("TILEWRIGHT_PTXAS").map(PathBuf::from);
    let fetched = Path::new(ROOT).join("target/ptxas/ptxas");
    let found = named.or_else(|| fetched.exists().then_some(fetched));
    let required = std::env::var("TILEWRIGHT_REQUIRE_PTXAS").is_ok_and(|value| value == "1");
    assert!(found.is_some() || !required, "TILEWRIGHT_REQUIRE_PTXAS is 1, and there is none");
    found
}

/// A comment is followed by its line of the file; what the kernel takes is below the text.
#[test]
fn a_file_is_shown_beside_its_text() {
    let path = temporary("twice.kir");
    let name = path.to_str().unwrap();
    fs::write(&path, TWICE).unwrap();
    let said = printed(&[name], NO_PTXAS.as_ref());
    assert!(said.contains(".visible .entry twice("), "{said}");
    let line =
        said.lines().position(|line| line.ends_with("twice.kir:4    %sum = add %v, %v : f32"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(said.lines().nth(line + 1).unwrap().trim().starts_with("add.rn.f32"), "{said}");
    let (_, below) = said.split_once("\n}\n").unwrap();
    assert!(
        below.starts_with("\n// no ptxas: `/nowhere/ptxas` does not run as ptxas ("),
        "{below}"
    );
    let takes = "// twice: 0 bytes of static and 0 bytes of dynamic shared memory\n";
    assert!(below.ends_with(takes), "{below}");
    if let Some(ptxas) = ptxas() {
        let said = printed(&[name], &ptxas);
        let (_, below) = said.split_once("\n}\n").unwrap();
        assert!(below.starts_with("\n// ptxas ") && below.contains(" for sm_80\n"), "{below}");
        let registers = below.split_once("// twice: ").unwrap().1;
        assert!(
            registers.ends_with(
                " registers, 0 bytes of spills, 0 bytes of local memory, 0 bytes of static and 0 bytes of \
                 dynamic shared memory\n"
            ),
            "{below}"
        );
    }
    fs::remove_file(&path).unwrap();
}

/// Nothing is read of what may never end, and no more than the parser's limit of a file.
#[cfg(unix)]
#[test]
fn files_without_an_end_are_refused() {
    check_refused(
        &["ptx", "/dev/zero"],
        &expect![[r#"
            error: `/dev/zero`: it is not a regular file
        "#]],
    );
    let fifo = temporary("fifo.kir");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("there is mkfifo");
    assert!(made.success());
    let output = tilewright(&["ptx", fifo.to_str().unwrap()]);
    let expected = format!("error: `{}`: it is not a regular file\n", fifo.display());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
    fs::remove_file(&fifo).unwrap();

    // A hole of 2^40 bytes takes no disk.
    let hole = temporary("hole.kir");
    fs::File::create(&hole).unwrap().set_len(1 << 40).unwrap();
    let output = tilewright(&["ptx", hole.to_str().unwrap()]);
    let expected = format!("error: `{}`: it is larger than 64 MiB\n", hole.display());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected));
    fs::remove_file(&hole).unwrap();
}

#[test]
fn wrong_files_are_refused_in_one_line() {
    let path = temporary("wrong.kir");
    let name = path.to_str().unwrap();
    let refused = |expected: &str| {
        let output = tilewright(&["ptx", name]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
        assert!(error.lines().count() == 1 && error.contains(expected), "{error}");
    };
    fs::write(&path, TWICE.replace("f32\n  st", "f64\n  st")).unwrap();
    refused("f64");
    fs::write(&path, "# a title\n").unwrap();
    refused("wrong.kir:1:1: ");
    fs::write(&path, "").unwrap();
    refused("has no kernels");
    fs::remove_file(&path).unwrap();
    check_refused(
        &["ptx", "/nowhere/kernel.kir"],
        &expect![[r#"
            error: `/nowhere/kernel.kir`: No such file or directory (os error 2)
        "#]],
    );
}

/// The name of the first kernel.
fn entry(said: &str) -> &str {
    let (_, rest) = said.split_once(".visible .entry ").unwrap();
    rest.split_once('(').unwrap().0
}

/// As in the command `gemm`: the best guess for the target and the type.
#[test]
fn gemm_is_the_best_guess_for_its_target() {
    let none: &Path = NO_PTXAS.as_ref();
    for (args, expected) in [
        (&[][..], "sm80_bf16_tt_128x256x64_"),
        (&["--target", "sm_90a"], "sm90a_bf16_tt_128x256x64_"),
        (&["--machine", "l40s"], "sm89_bf16_tt_"),
        (&["--target", "sm_90a", "--dtype", "tf32"], "sm90a_tf32_df32_tn_"),
        (&["--target", "sm_90a", "--dtype", "f32"], "sm90a_f32_tt_128x256x32_s3_simt_"),
        (&["--target", "sm_90a", "--dtype", "e4m3xe5m2"], "sm90a_f8e4m3xf8e5m2_dbf16_tn_"),
        (&["--target", "sm_90a", "--dtype", "u8xi8"], "sm90a_u8xi8_di32_tn_"),
    ] {
        let said = printed(&[&["gemm"], args].concat(), none);
        assert!(entry(&said).starts_with(expected), "{args:?}: {}", entry(&said));
        let emitted = ["--shape", "4096", "--emit", "ptx"];
        let dtype: &[&str] = if args.len() == 4 { &[] } else { &["--dtype", "bf16"] };
        let emitted = tilewright(&[&["gemm"], &emitted[..], args, dtype].concat());
        assert_eq!(entry(&text(&emitted.stdout)), entry(&said), "{args:?}");
    }
}

/// The comments with lines beside them, as file, line and text.
fn comments(said: &str) -> Vec<(&str, usize, &str)> {
    said.lines()
        .filter_map(|line| {
            let (place, written) = line.trim().strip_prefix("// ")?.split_once("    ")?;
            let (file, number) = place.rsplit_once(':')?;
            Some((file, number.parse().ok()?, written))
        })
        .collect()
}

/// A configuration by its name, with the Rust lines that can be read, and all of its shared memory.
#[test]
fn configurations_are_shown_beside_their_rust_lines() {
    let name = "sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped";
    let said = printed(&[name], NO_PTXAS.as_ref());
    assert_eq!(entry(&said), name);
    let found = comments(&said);
    // Operations of the tensor layer have the line of the kernel that calls it.
    assert!(found.len() > 20, "{}", found.len());
    for (file, number, written) in &found {
        let source = match *file {
            "kernel.rs" => include_str!("../../../src/kernels/gemm/sm90/kernel.rs"),
            "plan.rs" => include_str!("../../../src/kernels/gemm/sm90/plan.rs"),
            "work_tiles.rs" => include_str!("../../../src/kernels/gemm/split/work_tiles.rs"),
            "roles.rs" => include_str!("../../../src/kernels/gemm/sm90/roles.rs"),
            other => panic!("{other} is no file of the kernel"),
        };
        assert_eq!(*written, source.lines().nth(number - 1).unwrap().trim(), "line {number}");
    }
    let bytes = name.parse::<GemmConfig>().unwrap().shared_bytes();
    let shared = format!("0 bytes of static and {bytes} bytes of dynamic shared memory\n");
    assert!(said.ends_with(&format!("// {name}: {shared}")), "{said}");

    // Where the files are not, their names and lines remain.
    let elsewhere = ptx(&[name], NO_PTXAS.as_ref(), Path::new(env!("CARGO_TARGET_TMPDIR")));
    let elsewhere = text(&elsewhere.stdout);
    assert!(comments(&elsewhere).is_empty() && elsewhere.contains("// kernel.rs:"), "{elsewhere}");

    if let Some(ptxas) = ptxas() {
        let said = printed(&[name], &ptxas);
        let (_, takes) = said.split_once(&format!("// {name}: ")).unwrap();
        assert!(takes.starts_with("168 registers, 0 bytes of spills, "), "{takes}");
        assert!(takes.contains(&shared), "{takes}");
    }
}

/// Types that differ from one another, and shared memory that is static.
#[test]
fn configurations_of_all_types_are_shown() {
    for (name, is_dynamic) in [
        ("sm90a_f8e4m3xf8e5m2_df16_tn_128x128x128_s4_coop_strip8_chunks", true),
        ("sm90a_f16_df32_cbf16_tn_128x128x64_s4_coop_strip8_chunks_alpha_beta", true),
        ("sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4", false),
    ] {
        let bytes = name.parse::<GemmConfig>().unwrap().shared_bytes();
        let [fixed, dynamic] = if is_dynamic { [0, bytes] } else { [bytes, 0] };
        let said = printed(&[name], NO_PTXAS.as_ref());
        assert_eq!(entry(&said), name);
        let expected = format!(
            "// {name}: {fixed} bytes of static and {dynamic} bytes of dynamic shared memory"
        );
        assert_eq!(said.lines().last(), Some(expected.as_str()));
    }
}

#[test]
fn unknown_kernels_are_refused_in_one_line() {
    check_refused(
        &["ptx", "foo"],
        &expect![[r#"
        error: `foo` is not a kernel: expected a file (`.kir`), `gemm`, or the name of a configuration, such as `sm80_f32_tn_128x128x16_s2_simt_strip8_direct_a4`
    "#]],
    );
    check_refused(
        &["ptx", "sm90a_bf16_tn_128x256"],
        &expect![[r#"
        error: `sm90a_bf16_tn_128x256` is not a configuration name: `128x256` should be a tile such as `128x256x64`
    "#]],
    );
    check_refused(
        &["ptx", "sm90a_bf16_tn_128x256x64_s9_coop_strip8_overlapped"],
        &expect![[r#"
        error: the kernel needs 475280 bytes of shared memory, but a block can have 232448: use fewer stages or a smaller tile
    "#]],
    );
    check_refused(
        &["ptx", "sm90a_bf16_tn_128x256x64_s4_coop_strip8_overlapped", "--target", "sm_90a"],
        &expect![[r#"
            error: `--target`, `--dtype`, `--machine` and `--shape` are only for `gemm`: a file or a configuration name already fixes the kernel
        "#]],
    );
    check_refused(
        &["ptx", "twice.kir", "--dtype", "f32"],
        &expect![[r#"
        error: `--target`, `--dtype`, `--machine` and `--shape` are only for `gemm`: a file or a configuration name already fixes the kernel
    "#]],
    );
    check_refused(
        &["ptx", "gemm", "--target", "sm_1"],
        &expect![[r#"
        error: invalid value 'sm_1' for '--target <TARGET>': `sm_1` is not a target: expected one of sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_103, sm_103a, sm_110, sm_110a, sm_120, sm_120a, sm_121, sm_121a
    "#]],
    );
}
