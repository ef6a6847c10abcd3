use tilewright::ir::{GlobalMut, Kernel, Target};
use tilewright::layout::layout;
use tilewright::tensor::copy::copy_if;
use tilewright::tensor::view::Tensor;

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("one", Target::SM_80, |k, (x, n)| {
        let from = Tensor::new(x, layout!(4:1));
        let to = Tensor::new(x, layout!(4:2));
        copy_if(&n.lt(3), &from, &to);
    });
}
