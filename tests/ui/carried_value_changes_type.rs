use tilewright::ir::{GlobalMut, Kernel, Target, range};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("carried", Target::SM_80, |k, (y, n)| {
        let sum = k.for_(range(0, n), 0.0f32, |_, i, acc| acc.cvt::<i32>() + i);
        y.store(0, sum);
    });
}
