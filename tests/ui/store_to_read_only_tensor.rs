use tilewright::ir::{Global, Kernel, Target};
use tilewright::layout::layout;
use tilewright::tensor::view::Tensor;

fn main() {
    let _ = Kernel::<(Global<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
        let x = Tensor::new(x, layout!((8, 4)));
        x.store((0, 0), 1.0);
    });
}
