use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("choose", Target::SM_80, |k, (y, i)| {
        let list = [k.constant(1.0f32), k.constant(2.0f32)];
        y.store(0, list[i]);
    });
}
