//! The units that benchmarks print.

#[path = "../benches/support/rate.rs"]
mod rate;

use criterion::Throughput;
use criterion::measurement::Measurement;
use rate::Flops;

/// Operations divided by time, with the prefix that fits: `2 n^3` of a product at n = 1024, in
/// nanoseconds.
#[test]
fn flops_are_stated_as_flops() {
    let formatter = Flops;
    let formatter = formatter.formatter();
    let text = |flops, nanoseconds| {
        formatter.format_throughput(&Throughput::Elements(flops), nanoseconds).trim().to_owned()
    };
    assert_eq!(text(1 << 31, 1e6), "2.1475 TFLOP/s");
    assert_eq!(text(1 << 31, 1e9), "2.1475 GFLOP/s");
    assert_eq!(text(3, 1e3), "3.0000 MFLOP/s");
    assert_eq!(text(3, 1e9), "3.0000 FLOP/s");
    // What is no number of operations keeps its unit.
    let bytes = formatter.format_throughput(&Throughput::Bytes(1 << 30), 1e9);
    assert_eq!(bytes.trim(), "1.0000 GiB/s");
}
