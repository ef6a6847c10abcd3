use tilewright::ir::{GlobalMut, Kernel, Target, range};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("breaks", Target::SM_80, |k, (y, n)| {
        let v = k.for_loop(range(0, n), 0.0f32, |k, lp, i, acc| {
            k.if_(i.gt(3), |k| lp.break_(k, i));
            lp.continue_(k, acc)
        });
        y.store(0, v);
    });
}
