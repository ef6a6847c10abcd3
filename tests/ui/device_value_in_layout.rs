//! A layout exists before the kernel runs, so no device value is an extent of it.

use tilewright::prelude::*;

fn main() {
    let _ = Kernel::<(Global<f32>, i32)>::build("k", Target::SM_80, |k, (x, n)| {
        let _ = Tensor::new(x, layout!((8, n):(1, 8)));
    });
}
