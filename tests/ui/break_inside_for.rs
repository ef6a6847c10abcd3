use tilewright::ir::{GlobalMut, Kernel, Target, range};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("early", Target::SM_80, |k, (y, n)| {
        k.for_(range(0, n), (), |k, i, ()| {
            y.store(i, 1.0);
            k.if_(i.gt(3), |k| k.break_(()));
        });
    });
}
