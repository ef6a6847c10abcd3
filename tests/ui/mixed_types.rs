use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32, f32)>::build("mixed", Target::SM_80, |k, (y, n, a)| {
        y.store(0, a + n);
    });
}
