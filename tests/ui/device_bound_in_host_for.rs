use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("host_for", Target::SM_80, |k, (y, n)| {
        for i in 0..n {
            y.store(i, 1.0);
        }
    });
}
