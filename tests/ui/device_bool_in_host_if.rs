use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("host_if", Target::SM_80, |k, (y, n)| {
        if n.lt(3) {
            y.store(0, 1.0);
        }
    });
}
