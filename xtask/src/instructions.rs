//! Repeats one layout operation, for a profiler that counts instructions.
//!
//! To get the cost of 1000 operations, subtract the count of `valgrind --tool=callgrind
//! target/release/xtask instructions composition
//! 0` from the count with 1000. `benches/instructions.sh` prints the table.

use std::hint::black_box;

use tilewright::layout::{Layout, LayoutError, layout, shape, tiler};

fn repeat(
    count: u32,
    operation: impl Fn() -> Result<Layout, LayoutError>,
) -> Result<(), LayoutError> {
    for _ in 0..count {
        let made = operation();
        if let Err(error) = black_box(&made) {
            return Err(error.clone());
        }
    }
    Ok(())
}

/// Runs the named operation as often as the second argument says.
///
/// # Errors
/// The operation's error.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), LayoutError> {
    let operation = arguments.next().unwrap_or_default();
    let n: u32 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let a = layout!((4, (2, 8)):(2, (1, 8)));
    let b = layout!((4, 8):(8, 1));
    let rows = Layout::row_major((128, 64));
    let nested = layout!(((4, 8), (2, 2)):((32, 1), (16, 8)));
    let flat = layout!((2, 4, 8, 16):(1, 2, 8, 64));
    let (tile, target) = (tiler!(2, 4), shape!(256));
    match operation.as_str() {
        "coalesce" => repeat(n, || black_box(&flat).coalesce()),
        "composition" => repeat(n, || black_box(&a).composition(black_box(&b))),
        "complement" => repeat(n, || black_box(&b).complement(black_box(&target))),
        "complement_nested" => repeat(n, || black_box(&nested).complement(black_box(&target))),
        "logical_divide" => repeat(n, || black_box(&rows).logical_divide(black_box(&tile))),
        "right_inverse" => repeat(n, || black_box(&b).right_inverse()),
        "right_inverse_nested" => repeat(n, || black_box(&nested).right_inverse()),
        "logical_product" => repeat(n, || black_box(&b).logical_product(black_box(&b))),
        _ => repeat(n, || black_box(&a).flatten()),
    }
}
