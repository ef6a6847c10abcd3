use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>,)>::build("leak", Target::SM_80, |k, (y,)| {
        let mut kept = y.load(k, 0);
        k.if_(kept.lt(1.0), |k| kept = y.load(k, 1));
        y.store(k, 0, kept);
    });
}
