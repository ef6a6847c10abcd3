use tilewright::ir::{GlobalMut, Kernel, Target};

fn main() {
    let _ = Kernel::<(GlobalMut<f32>,)>::build("k", Target::SM_80, |k, (x,)| {
        x.store(k.thread_idx(), 1.0);
    });
}
