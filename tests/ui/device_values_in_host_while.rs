use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32, i32)>::build("host_while", Target::SM_80, |k, (y, n, m)| {
        while n == m {
            y.store(0, 1.0);
        }
    });
}
