use tilewright::ir::{GlobalMut, Kernel, Target, range};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>, i32)>::build("kept_loop", Target::SM_80, |k, (y, n)| {
        let mut kept = None;
        let v = k.for_loop(range(0, n), 0, |k, lp, _, i| {
            kept = Some(lp);
            lp.continue_(k, i)
        });
        y.store(v, 1.0);
    });
}
