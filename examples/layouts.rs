//! Computes with layouts on the host and draws one: `cargo run --example layouts`.
//!
//! A layout maps coordinates to offsets. `(4,8):(8,1)` has shape `(4,8)` and strides `(8,1)`:
//! row-major.

use tilewright::layout::{LayoutError, layout, tiler};

/// Tiles a matrix, partitions it among threads, and returns a picture of the tiles.
pub(crate) fn run() -> Result<String, LayoutError> {
    let matrix = layout!((4, 8):(8, 1));
    assert_eq!(matrix.crd2idx((1, 2))?, 10);

    // Each mode becomes two tiles of 2 x 4 elements: ((inside a tile), (which tile)).
    let tiles = matrix.zipped_divide(&tiler!(2, 4))?;
    assert_eq!(tiles.to_string(), "((2,4),(2,2)):((8,1),(16,4))");

    // A o B is A after B: every second element of the first row.
    let every_second = matrix.composition(&layout!(4:8))?;
    assert_eq!(every_second.to_string(), "4:2");

    // The inverse of a transposition maps an offset back to its coordinate.
    let transposed = layout!((8, 4):(1, 8));
    let inverse = transposed.right_inverse()?;
    assert_eq!(transposed.composition(&inverse)?.coalesce()?, layout!(32:1));

    // 8 threads with 4 elements each, as a (thread, value) layout over the matrix.
    let thread_value = layout!((8, 4):(1, 8));
    thread_value.draw_tv((4, 8)).text()
}

#[allow(dead_code, reason = "a test runs it too")]
fn main() -> Result<(), LayoutError> {
    print!("{}", run()?);
    Ok(())
}
