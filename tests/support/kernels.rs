//! Kernels that several test programs launch, and checks for kernels that they build themselves.

use tilewright::ir::{Global, GlobalMut, Kernel, Target};
use tilewright::runtime::Device;

use super::{ptxas, text};

/// The parameters of [`axpy`]: `a`, `x`, `y`, `n`.
pub(crate) type Axpy = (f32, Global<f32>, GlobalMut<f32>, i32);

/// Returns a kernel that computes `y[i] += a * x[i]` for `i < n`.
pub(crate) fn axpy(target: Target) -> Kernel<Axpy> {
    Kernel::<Axpy>::build("axpy", target, |k, (a, x, y, n)| {
        let i = k.block_idx().x * k.block_dim().x + k.thread_idx().x;
        k.if_(i.lt(n), |_| y.store(i, a * x.load(i) + y.load(i)));
    })
    .expect("the kernel is right")
}

/// Builds a kernel for the device. Also checks its text form, and assembles it for two targets.
pub(crate) fn checked<P>(device: &Device, build: impl Fn(Target) -> Kernel<P>) -> Kernel<P> {
    let kernel = build(device.target());
    text::check_round_trip(kernel.ir());
    if let Some(ptxas) = ptxas::find() {
        for target in [Target::SM_80, Target::SM_90A] {
            let ptx = build(target).ptx();
            let result = ptxas.assemble(ptx.text(), &target.to_string(), &["-O1"]);
            result.unwrap_or_else(|problem| panic!("{problem}"));
        }
    }
    kernel
}
