use tilewright::ir::{Global, Kernel, KernelOptions, Target};

tilewright::params! {
    struct Scan => ScanAt<'b> {
        x: Global<f32>,
        n: i32,
    }
}

fn main() {
    let _ = Kernel::<Scan>::build("scan", Target::SM_80, |_, _| ());
    let _ = Kernel::<Scan>::build_with(KernelOptions::default(), "scan", Target::SM_80, |_, _| ());
}
