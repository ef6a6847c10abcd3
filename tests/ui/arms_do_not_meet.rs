use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("arms", Target::SM_80, |k, (y, n)| {
        let v = k.if_else(n.lt(3), |k| k.yield_(1.0f32), |k| k.yield_(2i32));
        y.store(0, v);
    });
}
