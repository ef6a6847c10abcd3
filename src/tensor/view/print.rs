//! [`print_tensor`]: prints a tensor from inside a kernel, to debug its layout and contents.

use std::fmt::Write;

use super::engine::Readable;
use super::tensor::Tensor;
use crate::ir::op::Diagnostic;
use crate::ir::types::Scalar;
use crate::ir::{Body, Element};
use crate::layout::LayoutError;

/// Prints the tensor from every thread that reaches the call, with [`Body::printf`]: first its
/// layout, then its elements, formatted like CuTe C++'s `print_tensor`. A tensor with one mode is
/// printed as one element per line, other tensors as one row per line. Lines of `-` separate the
/// matrices of the third mode, lines of `=` the blocks of the fourth.
///
/// Integers take at least 5 characters, floats 10 with two decimals (`f64` 11 with three), bools 6.
/// Print from a single thread, because the lines of several threads interleave.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use tilewright::ir::{Global, Kernel, Target};
/// use tilewright::layout::layout;
/// use tilewright::runtime::{Device, Grid};
/// use tilewright::sim;
/// use tilewright::tensor::view::{Tensor, print_tensor};
///
/// let kernel = Kernel::<(Global<i32>,)>::build("show", Target::SM_80, |k, (x,)| {
///     let x = Tensor::new(x, layout!((2, 3) : (3, 1)));
///     k.if_(k.thread_idx().x.eq(0), |_| print_tensor(&x));
/// })?;
/// let output = sim::Output::captured();
/// let device = Device::sim_with(sim::Options::default().output(output.clone()));
/// let x = device.upload(&[1, 2, 3, -4, 5, 1000000])?;
/// device.load(&kernel)?.launch(Grid::cover(1, 1), (&x,))?;
/// assert_eq!(
///     output.take(),
///     "ptr<i32, gmem, align<4>> o (2,3):(3,1):\n    1    2    3\n   -4    51000000\n"
/// );
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It is a build error if the tensor has more than four modes or a symbolic extent.
#[doc(alias = "print")]
#[track_caller]
pub fn print_tensor<'b, E: Readable<'b>>(tensor: &Tensor<E>) {
    let k = &tensor.body();
    let _call = k.call();
    if tensor.poisoned {
        return;
    }
    let mut extents = Vec::new();
    for mode in tensor.layout.modes() {
        match mode.to_layout().size().and_then(|size| size.to_static()) {
            Ok(extent) => extents.push(extent),
            Err(error) => return tensor.failed(k, "print_tensor", error),
        }
    }
    if extents.is_empty() {
        extents.push(1);
    }
    if extents.len() > 4 {
        let (expected, found) = (4, extents.len());
        return tensor.failed(k, "print_tensor", LayoutError::RankMismatch { expected, found });
    }
    k.printf(&format!("{}:\n", escaped(&tensor.to_string())), ());
    let at = |mode: usize| extents.get(mode).copied().unwrap_or(1);
    // A tensor with one mode is printed as one column.
    let (rows, columns) = (at(0), at(1));
    let line = |k: &Body<'b, '_>, mark: &str| {
        let width = usize::try_from(columns).unwrap_or(0).saturating_mul(5);
        k.printf(&format!("{}\n", mark.repeat(width)), ());
    };
    for block in 0..at(3) {
        if block > 0 {
            line(k, "=");
        }
        for matrix in 0..at(2) {
            if matrix > 0 {
                line(k, "-");
            }
            let before = (block * at(2) + matrix) * columns;
            for row in 0..rows {
                print_row(k, tensor, (0..columns).map(|column| row + rows * (before + column)));
            }
        }
    }
}

/// Prints one line: the elements at these linear coordinates.
#[track_caller]
fn print_row<'b, E: Readable<'b>>(
    k: &Body<'b, '_>,
    tensor: &Tensor<E>,
    coords: impl Iterator<Item = i64>,
) {
    let scalar = E::Elem::scalar();
    let one = match scalar {
        Scalar::Bool => "{:>6}",
        Scalar::F64 => "{:>11.3e}",
        scalar if scalar.is_float() => "{:>10.2e}",
        _ => "{:>5}",
    };
    let coords: Vec<i64> = coords.collect();
    let limit = Diagnostic::PRINTF_VALUES;
    let mut left = coords.len();
    for part in coords.chunks(limit) {
        left -= part.len();
        let mut format = one.repeat(part.len());
        if left == 0 {
            format.push('\n');
        }
        let values = part.iter().map(|coord| tensor.load(*coord));
        k.printf_values(&format, values);
    }
}

/// Escapes braces, so that `printf` takes the text literally.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '{' | '}') {
            let _ = out.write_char(c);
        }
        out.push(c);
    }
    out
}
