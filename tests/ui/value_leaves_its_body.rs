use tilewright::ir::{GlobalMut, Kernel, Target, range};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("leak", Target::SM_80, |k, (y, n)| {
        let mut kept = y.load(0);
        k.for_(range(0, n), (), |_, i, ()| kept = y.load(i));
        y.store(0, kept);
    });
}
