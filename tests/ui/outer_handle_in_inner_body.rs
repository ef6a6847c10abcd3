use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("handle", Target::SM_80, |k, (y, n)| {
        k.if_(n.lt(3), |_| y.store(k, 0, 1.0));
    });
}
