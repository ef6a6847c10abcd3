//! Benchmarks of kernels of a program.

use tilewright_tune::BenchOptions;

#[path = "../../examples/bench_saxpy.rs"]
mod saxpy;

/// Two problems, each with a line for the copy and for the first configuration, and a chart of
/// both.
#[test]
fn a_program_is_a_benchmark() {
    let svg = std::env::temp_dir().join(format!("tilewright-saxpy-{}.svg", std::process::id()));
    let file = svg.to_str().unwrap().to_owned();
    let args = ["--device", "sim", "--configs", "default", "--rounds", "2", "--svg", &file];
    let options = BenchOptions::parse(args.map(str::to_owned)).unwrap();
    let table = saxpy::run(&[1, 2], &options).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines.len(), lines[2], lines[5]), (8, "saxpy of 4096", "saxpy of 8192"), "{table}");
    assert!(lines[3].contains("copy_") && lines[4].ends_with("  1"), "{table}");
    let chart = std::fs::read_to_string(&svg).unwrap();
    assert!(chart.contains("saxpy of") && chart.contains("GB/s"), "{chart}");
    std::fs::remove_file(svg).unwrap();
}
