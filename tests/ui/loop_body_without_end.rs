use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("endless", Target::SM_80, |k, (y, n)| {
        let v = k.loop_(n, |k, lp, i| {
            k.if_(i.gt(3), |k| lp.break_(k, i));
        });
        y.store(v, 1.0);
    });
}
