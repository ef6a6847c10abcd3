use tilewright::ir::{BuildErrors, GlobalMut, Kernel, Target};

fn main() {
    let _: Result<Kernel<GlobalMut<f32>>, BuildErrors> =
        Kernel::build("k", Target::SM_80, |_, _| ());
}
