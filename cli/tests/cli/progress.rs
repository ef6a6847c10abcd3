//! Long work says on the standard error how far it is.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{temporary, text, tilewright};

/// A kernel of some thousand operations for each block.
const COUNT: &str = "kernel @count target sm_80 (%x: ptr<global, mut i32>) {
  %zero = const 0 : i32
  %one = const 1 : i32
  %many = const 2000 : i32
  %block = sreg<ctaid.x> : i32
  %sum = for @l %i: i32 = %zero to %many step %one iter(%s: i32 = %zero) : i32 {
    %next = add %s, %i : i32
    continue @l %next
  }
  st %x, %block, %sum
  return
}
";

/// Starts the program with work for days, reads the first line of its standard error, and ends it.
/// Returns the line, the seconds until it came, and what the standard output had.
fn first_line(args: &[&str]) -> (String, f64, String) {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilewright"))
        .args(args)
        .env_remove("TILEWRIGHT_PROGRESS")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    child.kill().unwrap();
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    child.wait().unwrap();
    (line, seconds, printed)
}

#[test]
fn a_check_of_all_schedules_says_that_it_takes_years() {
    let path = temporary("count.kir");
    fs::write(&path, COUNT).unwrap();
    let path = path.to_str().unwrap();
    for json in [&[][..], &["--json"]] {
        let args = ["check", path, "--grid", "4", "--schedules", "4294967295"];
        let (line, seconds, printed) = first_line(&[&args[..], json].concat());
        assert!(line.starts_with("count, schedule "), "{line}");
        assert!(line.contains(" of 4294967295, block ") && line.contains(": 0 % after "), "{line}");
        assert!(line.contains(" d ") || line.contains("years left"), "{line}");
        // A second, and what a busy machine takes to start.
        assert!(seconds > 0.9 && seconds < 30.0, "{seconds}");
        assert_eq!(printed, "");
    }
}

#[test]
fn a_launch_of_a_huge_grid_says_how_far_it_is() {
    let path = temporary("grid.kir");
    fs::write(&path, COUNT).unwrap();
    let path = path.to_str().unwrap();
    let args = ["trace", path, "--grid", "2147483647", "--arg", "x=1:0", "--json"];
    // The second block is out of bounds: the end of the run is prompt, and nothing but the error is
    // said.
    let output = tilewright(&args);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: kernel `count`: "), "{output:?}");

    let first = "  st %x, %zero, %sum";
    let silent = COUNT.replace("  st %x, %block, %sum", first);
    let other = temporary("grid_silent.kir");
    fs::write(&other, silent).unwrap();
    let (line, _, printed) =
        first_line(&["trace", other.to_str().unwrap(), "--grid", "2147483647", "--json"]);
    assert!(
        line.starts_with("count, block ") && line.contains(" of 2147483647: 0 % after"),
        "{line}"
    );
    assert!(line.contains(" left"), "{line}");
    assert_eq!(printed, "");
}

/// The default sizes on the simulator are small: the benchmark ends.
#[test]
fn benchmarks_have_small_sizes_on_the_simulator() {
    let output = tilewright(&["bench", "softmax", "--device", "sim", "--rounds", "2"]);
    let printed = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    for size in ["softmax of bf16 16x256", "softmax of bf16 16x255"] {
        assert!(printed.contains(size), "{printed}");
    }
}

#[test]
fn a_long_benchmark_says_how_far_it_is() {
    let args = ["bench", "softmax", "--device", "sim", "--shapes", "64x4096,8192x65536"];
    let (line, ..) = first_line(&args);
    assert!(line.contains(" of 2): ") || line.contains(" of 2), block "), "{line}");
    assert!(line.starts_with("softmax of bf16 "), "{line}");
    let (line, ..) = first_line(&["gemm", "--shape", "2048", "--device", "sim"]);
    assert!(line.contains(" % after "), "{line}");
}
