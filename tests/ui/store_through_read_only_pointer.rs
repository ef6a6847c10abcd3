use tilewright::ir::{Global, Kernel, Target};

fn main() {
    let _ = Kernel::<(Global<f32>,)>::build("read_only", Target::SM_80, |k, (x,)| {
        x.store(0, 1.0);
    });
}
